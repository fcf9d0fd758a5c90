//! What the files of a configuration look like, to see when one has changed.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{Origin, Sources, folder};

/// How the files of a configuration, and those that it names, look at a moment. Two that are the same mean that nothing
/// has changed.
///
/// It is told from what the system says of the files, links followed: a file that is written anew, replaced, or found
/// behind another link (as Kubernetes swaps mounted folders) is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    file: PathBuf,
}

impl Sources {
    /// How its files look now, and `named`, which it names: secrets, certificates. `None` for what is in no file.
    pub fn look(&self, named: &[PathBuf]) -> Option<Look> {
        let Origin::Path(path) = &self.origin else { return None };
        let own = folder::list(path).unwrap_or_else(|_| vec![path.clone()]);
        let all = own.into_iter().chain(named.iter().cloned());
        Some(Look(
            all.map(|path| {
                let stamp = Stamp::of(&path);
                (path, stamp)
            })
            .collect(),
        ))
    }
}

impl Stamp {
    /// `None` for what is not there.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let file = fs::canonicalize(path).ok()?;
        Some(Self { length: metadata.len(), modified: metadata.modified().ok(), file })
    }
}
