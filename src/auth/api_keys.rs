//! API keys, configured by their hashes: a configuration file that others read reveals no key.

use std::{cell::RefCell, collections::HashMap, fmt, time::SystemTime};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use settings_derive::Section;

use crate::crypto::{Digest, parse_digest, random_key, sha256};
use crate::settings::{Checked, Code, Cursor, FromText, Invalid, Setting, SourceSpan, text_of};

/// SHA-256 hash of an API key, or of a certificate (its fingerprint). Keys are long and random, so the hash
/// cannot be reversed and no password hash is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApiKeyHash(Digest);

const HASH_PREFIX: &str = "sha256:";

/// Prefix of generated keys, so that people and secret scanners recognize a key.
const KEY_PREFIX: &str = "glk_";

/// Generates an unpredictable key: 256 random bits. Only its client may know it.
pub fn random_api_key() -> String {
    format!("{KEY_PREFIX}{}", random_key())
}

impl ApiKeyHash {
    /// Hashes a key, or the DER encoding of a certificate.
    pub fn from_key(key: impl AsRef<[u8]>) -> Self {
        Self(sha256(key.as_ref()))
    }

    /// Parses a hash, as `glossator key` prints it.
    pub(super) fn from_text(text: &str) -> Result<Self, Invalid> {
        let digits = text.strip_prefix(HASH_PREFIX);
        digits.and_then(parse_digest).map(Self).ok_or_else(|| {
            let length_note =
                digits.map(|digits| format!(", found {} characters after it", digits.chars().count()));
            let message = format!(
                "expected `{HASH_PREFIX}` and 64 hexadecimal digits{}",
                length_note.unwrap_or_default()
            );
            let help = "copy the whole hash: `glossator key` makes a key and its hash, and `glossator key \
                        --stdin` hashes one; the key itself does not belong in the file";
            Invalid::without_value(message, help)
        })
    }
}

/// The hash of an API key, with its expiry.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(name = "a key of a client", id = "client_key", text = "hash", variables)]
pub struct ApiKey {
    /// The hash of the key: `sha256:…`.
    // Masked, because the configuration may contain the key itself by mistake.
    #[key(file, example = "hash: sha256:…", masked)]
    pub hash: ApiKeyHash,
    /// When the key expires: `2027-01-31`, or `2027-01-31T12:00:00Z`.
    #[key(kind = ValueKind::Text, with = read_expires, shown = "never")]
    pub expires: Option<SystemTime>,
}

fn read_expires(value: &Cursor<'_>) -> Checked<Option<SystemTime>> {
    let end = SystemTime::read(value)?;
    if end <= SystemTime::now() {
        value.warn(Code::ExpiredKey, "the key has expired".to_owned(), "remove it");
    }
    Ok(Some(end))
}

/// The key hashes of one configuration and their positions in the file, to find duplicates.
type HashSpans = RefCell<HashMap<ApiKeyHash, SourceSpan>>;

impl Setting for ApiKeyHash {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let hash = Self::from_text(text_of(value)?.trim()).or_else(|invalid| value.reject(invalid))?;
        let report = value.context.report;
        match report.cache::<HashSpans>().borrow_mut().insert(hash, value.node.span) {
            None => Ok(hash),
            Some(first_span) => {
                let message = format!("duplicate key hash; also at {}", report.file_and_line(first_span));
                value.reject(
                    Invalid::without_value(message, "use different keys for each client")
                        .with_code(Code::DuplicateValue),
                )
            }
        }
    }
}

/// Parses a date (midnight UTC), or a timestamp with an offset (RFC 3339).
impl FromText for SystemTime {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let at_midnight = |date: Date| date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        let end = text.parse::<Timestamp>().ok().or_else(|| text.parse().ok().and_then(at_midnight));
        let help = "write `2027-01-31` for midnight UTC, or `2027-01-31T12:00:00Z`";
        end.map(Into::into).ok_or_else(|| Invalid::new(format!("expected a date, found `{text}`"), help))
    }
}

impl fmt::Display for ApiKeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(HASH_PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = ApiKeyHash::from_key("abc");
        let formatted = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), formatted);
        assert_eq!(ApiKeyHash::from_text(formatted), Ok(hash));
        assert_eq!(ApiKeyHash::from_text(&formatted.to_uppercase().replace("SHA256", "sha256")), Ok(hash));
        for wrong in [
            "",
            "abc",
            "sha256:",
            "sha256:ba78",
            "md5:ba78",
            &formatted.replace('b', "x"),
            &format!("{formatted}0"),
        ] {
            assert!(ApiKeyHash::from_text(wrong).is_err(), "{wrong}");
        }
        assert!(
            ApiKeyHash::from_text("sha256:ä").unwrap_err().message.ends_with("found 1 characters after it")
        );
    }
}
