//! API keys, configured by their hashes: a configuration file that others read reveals no key.

use std::{cell::RefCell, collections::HashMap, fmt, sync::Arc, time::SystemTime};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use settings_derive::Section;

use super::{AuthError, ClientSettings, IdentifiedClient};
use crate::crypto::{Digest, parse_digest, random_key, sha256};
use crate::settings::{Checked, Code, Cursor, Invalid, OpenSection, Setting, SourceSpan, ValueKind, text_of};
use crate::upstream::Client;

/// SHA-256 hash of an API key. Keys are long and random, so the hash cannot be reversed and no slow hash is
/// needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(Digest);

const PREFIX: &str = "sha256:";

/// Prefix of generated keys, by which people and secret scanners recognize them.
const KEY_PREFIX: &str = "glk_";

/// Generates an unpredictable key: 256 random bits. Only its client may know it.
pub fn random_api_key() -> String {
    format!("{KEY_PREFIX}{}", random_key())
}

impl KeyHash {
    /// The hash of a key, or of any bytes.
    pub fn from_key(key: impl AsRef<[u8]>) -> Self {
        Self(sha256(key.as_ref()))
    }

    /// Parses a hash, as `glossator key` prints it.
    pub(super) fn from_text(text: &str) -> Result<Self, Invalid> {
        let Some(digits) = text.strip_prefix(PREFIX) else {
            let message = format!("expected `{PREFIX}` and 64 hexadecimal digits");
            let help = "`glossator key` makes a key and its hash, and `glossator key --stdin` hashes one; the \
                        key itself does not belong in the file";
            return Err(Invalid::without_value(message, help));
        };
        parse_digest(digits).map(Self).ok_or_else(|| {
            let found = digits.chars().count();
            let message =
                format!("expected 64 hexadecimal digits after `{PREFIX}`, found {found} characters");
            Invalid::without_value(message, "copy the whole hash, as `glossator key` prints it")
        })
    }
}

/// The hash of an API key, with its expiry.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(name = "a key of a client", id = "client_key", text = "hash", variables, check = Self::check)]
pub struct ApiKey {
    /// The hash of the key: `sha256:…`.
    // The key itself may be here by mistake.
    #[key(file, example = "hash: sha256:…", masked)]
    pub hash: KeyHash,
    /// When the key expires: `2027-01-31`, or `2027-01-31T12:00:00Z`.
    #[key(shown = "never")]
    pub expires: Option<SystemTime>,
}

impl ApiKey {
    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        if self.expires.is_some_and(|end| end <= SystemTime::now()) {
            section.value.warn(Code::ExpiredKey, "the key has expired".to_owned(), "remove it");
        }
        Ok(self)
    }
}

/// The hashes of one configuration, with their places, to find duplicates.
type KnownHashes = RefCell<HashMap<KeyHash, SourceSpan>>;

impl Setting for KeyHash {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let hash = Self::from_text(text_of(value)?.trim()).or_else(|invalid| value.reject(invalid))?;
        let report = value.context.report;
        match report.cache::<KnownHashes>().borrow_mut().insert(hash, value.node.span) {
            None => Ok(hash),
            Some(other) => {
                let message = format!("duplicate key hash; also at {}", report.file_and_line(other));
                value.reject(
                    Invalid::without_value(message, "use different keys for each client")
                        .with_code(Code::DuplicateValue),
                )
            }
        }
    }
}

/// Reads a date, or a date and a time.
impl Setting for SystemTime {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let text = text_of(value)?;
        let at_midnight = |date: Date| date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        let end = text.parse::<Timestamp>().ok().or_else(|| text.parse().ok().and_then(at_midnight));
        if let Some(end) = end {
            return Ok(end.into());
        }
        let help = "write `2027-01-31` for midnight UTC, or `2027-01-31T12:00:00Z`";
        value.reject(Invalid::new(format!("expected a date, found {}", value.node.found()), help))
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// The keys of all clients, by their hashes.
///
/// The duration of a comparison of hashes reveals nothing useful. Nobody can choose the hash of a key, nor
/// find a key of 256 random bits by a part of its hash.
#[derive(Debug, Default)]
pub(super) struct ApiKeys(HashMap<KeyHash, (Arc<Client>, Option<SystemTime>)>);

impl ApiKeys {
    pub(super) fn add(&mut self, settings: &ClientSettings, client: &Arc<Client>) {
        let keys = settings.api_key_hashes.0.iter();
        self.0.extend(keys.map(|key| (key.hash, (Arc::clone(client), key.expires))));
    }

    /// Identifies the client of a key.
    pub(super) fn find(&self, key: &str, now: SystemTime) -> Result<IdentifiedClient, AuthError> {
        match self.0.get(&KeyHash::from_key(key)) {
            Some((_, Some(until))) if *until <= now => Err(AuthError::Invalid("the key has expired")),
            Some((client, until)) => Ok(IdentifiedClient { client: Arc::clone(client), until: *until }),
            None => Err(AuthError::Invalid("the key is unknown")),
        }
    }
}

impl ClientSettings {
    /// The client, independent of its credential.
    pub(super) fn client(&self) -> Arc<Client> {
        Arc::new(Client::new(&format!("client {}", self.name), &self.name, self.scopes.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{route::Scopes, settings::value::OneOrMore};

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = KeyHash::from_key("abc");
        let written = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), written);
        assert_eq!(KeyHash::from_text(written), Ok(hash));
        assert_eq!(KeyHash::from_text(&written.to_uppercase().replace("SHA256", "sha256")), Ok(hash));
        for wrong in [
            "",
            "abc",
            "sha256:",
            "sha256:ba78",
            "md5:ba78",
            &written.replace('b', "x"),
            &format!("{written}0"),
        ] {
            assert!(KeyHash::from_text(wrong).is_err(), "{wrong}");
        }
        assert!(KeyHash::from_text("sha256:ä").unwrap_err().message.ends_with("found 1 characters"));
    }

    #[test]
    fn a_key_is_its_clients_until_its_end() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let until = now + Duration::from_secs(1);
        let (old, new) = (random_api_key(), random_api_key());
        assert_ne!(old, new);
        let settings = ClientSettings {
            name: "reports".to_owned(),
            scopes: Scopes::from_client(["read"]),
            api_key_hashes: OneOrMore(vec![
                ApiKey { hash: KeyHash::from_key(&old), expires: Some(until) },
                ApiKey { hash: KeyHash::from_key(&new), expires: None },
            ]),
            certificates: Vec::new(),
            jwt_subjects: Vec::new(),
        };
        let mut keys = ApiKeys::default();
        keys.add(&settings, &settings.client());
        let find = |key: &str, now| keys.find(key, now).map(|found| found.client.name.clone());
        assert_eq!(find(&old, now).unwrap(), "reports");
        assert_eq!(find(&old, until).unwrap_err(), AuthError::Invalid("the key has expired"));
        assert_eq!(find(&new, until).unwrap(), "reports");
        let hash = KeyHash::from_key(&new).to_string();
        for wrong in ["x", &hash, &new[1..]] {
            assert_eq!(find(wrong, now).unwrap_err(), AuthError::Invalid("the key is unknown"));
        }
        assert!(!format!("{keys:?}").contains(&new[4..]));
    }
}
