//! A token in a file, which somebody else writes anew from time to time.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{BearerToken, Credential, CredentialError};

/// How long what was read is used before the file is read again. Kubernetes writes the next token long before the end
/// of the last.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// The longest token, in bytes.
const LIMIT_BYTES: u64 = 16 << 10;

/// The token in a file. Clones share what was read.
#[derive(Debug, Clone)]
pub(in crate::upstream::http) struct TokenFile {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    read: Mutex<Option<LastRead>>,
}

#[derive(Debug)]
struct LastRead {
    at: Instant,
    credential: Credential,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { shared: Arc::new(Shared { path, read: Mutex::default() }) }
    }

    /// The token that stands there, or stood there a moment ago.
    pub(super) async fn credential(&self) -> Result<Credential, Arc<CredentialError>> {
        let young = self
            .shared
            .read()
            .as_ref()
            .and_then(|last| (last.at.elapsed() < READ_AGAIN).then(|| last.credential.clone()));
        match young {
            Some(credential) => Ok(credential),
            None => self.read_now().await,
        }
    }

    /// The token that stands there now, when it is another than the one that was refused.
    pub(super) async fn another(
        &self,
        refused: &Credential,
    ) -> Result<Option<Credential>, Arc<CredentialError>> {
        let now = self.read_now().await?;
        Ok((now.value != refused.value).then_some(now))
    }

    async fn read_now(&self) -> Result<Credential, Arc<CredentialError>> {
        let shared = self.shared.clone();
        // A disk may be a network away.
        let read = tokio::task::spawn_blocking(move || shared.read_file()).await;
        let credential = read.unwrap_or(Err(CredentialError::Lost))?;
        *self.shared.read() = Some(LastRead { at: Instant::now(), credential: credential.clone() });
        Ok(credential)
    }
}

impl Shared {
    fn read(&self) -> MutexGuard<'_, Option<LastRead>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_file(&self) -> Result<Credential, CredentialError> {
        let no_token = |found| CredentialError::NoTokenInFile { path: self.path.clone(), found };
        let bytes = bytes_of(&self.path)
            .map_err(|source| CredentialError::File { path: self.path.clone(), source })?
            .ok_or_else(|| no_token("is not a file"))?;
        if bytes.len() as u64 > LIMIT_BYTES {
            return Err(no_token("is longer than 16 KiB"));
        }
        let text = str::from_utf8(&bytes).map_err(|_| no_token("is not text"))?.trim();
        if text.is_empty() {
            return Err(no_token("is empty"));
        }
        let token = BearerToken::new(text);
        Ok(token.map_err(|_| no_token("has white space or odd characters in its token"))?.credential())
    }
}

/// What stands in a file, to a limit; `None` for what is no file, of which there may be no end.
fn bytes_of(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("glossator-token-{name}-{}", std::process::id()));
            Self(place)
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.0, text).unwrap();
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    async fn told(file: &TokenFile) -> String {
        match file.credential().await {
            Ok(credential) => credential.value.to_str().unwrap().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_was_written_anew_is_read_anew() {
        let place = Place::new("anew");
        let file = TokenFile::new(place.0.clone());
        place.write(" first\n");
        assert_eq!(told(&file).await, "Bearer first");
        place.write("second");
        assert_eq!(told(&file).await, "Bearer first");
        tokio::time::advance(READ_AGAIN).await;
        assert_eq!(told(&file).await, "Bearer second");
        std::fs::remove_file(&place.0).unwrap();
        assert_eq!(told(&file).await, "Bearer second");
        tokio::time::advance(READ_AGAIN).await;
        assert!(
            told(&file).await.contains("can't be read"),
            "an old token is not used for want of a new one"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_was_refused_is_replaced_at_once_by_another() {
        let place = Place::new("refused");
        let file = TokenFile::new(place.0.clone());
        place.write("first");
        let first = file.credential().await.unwrap();
        assert!(file.another(&first).await.unwrap().is_none(), "it is the same as before");
        place.write("second");
        assert_eq!(file.another(&first).await.unwrap().unwrap().value, "Bearer second");
        assert_eq!(told(&file).await, "Bearer second");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_token_is_not_sent() {
        let place = Place::new("none");
        for (text, words) in [
            ("", "is empty"),
            (" \n", "is empty"),
            ("two words", "white space"),
            ("a\nb", "white space"),
            (&"x".repeat(20_000), "longer than 16 KiB"),
        ] {
            place.write(text);
            let found = told(&TokenFile::new(place.0.clone())).await;
            assert!(found.contains(words) && !found.contains("two"), "{found}");
        }
        let folder = TokenFile::new(std::env::temp_dir());
        assert!(told(&folder).await.contains("is not a file"));
    }
}
