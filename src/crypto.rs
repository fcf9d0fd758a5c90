//! Encryption with the secret key of all replicas, keyed hashes, hashes and random ids.
//!
//! State between two requests is in encrypted tokens, so that every replica with the same secret key can
//! handle the next request. Tokens are session ids, task ids, and the state of an input request
//! (`requestState` of MCP 2026-07-28).
//!
//! A token is `base64url(encrypt(expiry ‖ content))`; `encrypt` returns `salt ‖ AES-256-GCM(content)` under a
//! key that HKDF derives from the secret key and the salt. The purpose is additional authenticated data.

use std::{sync::Arc, time::SystemTime};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::settings::{Checked, Cursor, Invalid, Setting, text_of};

/// Length of the random salt of each encryption, in bytes: long enough that no two salts are equal.
const SALT_LEN: usize = 24;

/// The configured secret key. `Debug` does not show it.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[debug("Secret(…)")]
pub struct SecretKey(Arc<[u8]>);

impl SecretKey {
    /// Minimum length, in bytes.
    pub const MIN_BYTES: usize = 16;

    /// Creates a secret key; `None` if it is shorter than [`MIN_BYTES`](Self::MIN_BYTES).
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= Self::MIN_BYTES).then(|| Self(bytes.into()))
    }

    /// Whether `candidate` is the secret key, compared in constant time.
    pub fn equals(&self, candidate: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let expected = hmac::sign(&key, &self.0);
        hmac::verify(&key, candidate, expected.as_ref()).is_ok()
    }
}

impl Setting for SecretKey {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if let Some(key) = Self::new(text_of(value)?.trim().as_bytes()) {
            return Ok(key);
        }
        let message = format!("{} is shorter than {} bytes", value.name, Self::MIN_BYTES);
        let help = "make one with `openssl rand -base64 32`, and name it as `${VARIABLE}` or `${file:PATH}`";
        value.reject(Invalid::without_value(message, help))
    }
}

/// Purpose of a token. Each purpose has a different string as the associated data of the encryption, so a
/// token can't be decrypted for another purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum Purpose<'a> {
    /// The id of a session (MCP up to 2025-11-25).
    #[display("session")]
    Session,
    /// The id of a task (an extension of MCP 2026-07-28).
    #[display("task")]
    Task,
    /// The id of a request from glossator to a client (MCP up to 2025-11-25), with the replica that sent the
    /// request.
    #[display("client request")]
    ClientRequest,
    /// The state of a request that waits for input (`requestState` of MCP 2026-07-28).
    #[display("state")]
    State,
    /// The identity of a client, forwarded by one replica to another.
    #[display("client identity")]
    ClientIdentity,
    /// A value that replicas store in the shared state under this key.
    #[display("stored at {_0}")]
    Stored(&'a str),
    /// A message that replicas publish on the channel with this prefix.
    #[display("published at {_0}")]
    Published(&'a str),
}

/// Why a token is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token was issued with another secret key or for another purpose, or was changed.
    #[error("it was not issued here")]
    Invalid,
    /// The token has expired.
    #[error("it has expired")]
    Expired,
}

/// Encrypts and decrypts tokens and values. Clones have the same key, which `Debug` does not show.
#[derive(Debug, Clone)]
pub struct TokenCipher(Arc<Prk>);

impl TokenCipher {
    /// Creates a cipher with the secret key that all replicas share.
    pub fn new(secret: &SecretKey) -> Self {
        Self::from_bytes(&secret.0)
    }

    /// Creates a cipher with a random key that only this process has.
    pub fn random() -> Self {
        Self::from_bytes(&random_bytes::<32>())
    }

    fn from_bytes(secret: &[u8]) -> Self {
        Self(Arc::new(Salt::new(HKDF_SHA256, b"glossator tokens 1").extract(secret)))
    }

    /// Encrypts `content` into a token of letters, digits, `-` and `_` that is valid until `expires`. Its
    /// length is about 64 characters plus four thirds of the content.
    pub fn issue(&self, purpose: Purpose<'_>, content: &[u8], expires: SystemTime) -> String {
        let content = [&seconds(expires).to_be_bytes()[..], content].concat();
        URL_SAFE_NO_PAD.encode(self.encrypt(purpose, &content))
    }

    /// Decrypts a token.
    ///
    /// # Errors
    ///
    /// [`TokenError`] if the token is invalid or has expired. The error reveals nothing else about the token.
    pub fn open(&self, purpose: Purpose<'_>, token: &str, now: SystemTime) -> Result<Vec<u8>, TokenError> {
        let encrypted = URL_SAFE_NO_PAD.decode(token).map_err(|_| TokenError::Invalid)?;
        let decrypted = self.decrypt(purpose, &encrypted).ok_or(TokenError::Invalid)?;
        let (expiry, content) = decrypted.split_first_chunk().ok_or(TokenError::Invalid)?;
        let is_valid = seconds(now) < u64::from_be_bytes(*expiry);
        is_valid.then(|| content.to_vec()).ok_or(TokenError::Expired)
    }

    /// Encrypts `content` without an expiry.
    pub fn encrypt(&self, purpose: Purpose<'_>, content: &[u8]) -> Vec<u8> {
        let salt = random_bytes();
        let mut encrypted = content.to_vec();
        self.key(&salt)
            .seal_in_place_append_tag(nonce(), Aad::from(purpose.to_string()), &mut encrypted)
            .expect("content is far shorter than what the cipher takes");
        [&salt[..], &encrypted].concat()
    }

    /// Decrypts bytes; `None` if they were not encrypted for this purpose with this key.
    pub fn decrypt(&self, purpose: Purpose<'_>, encrypted: &[u8]) -> Option<Vec<u8>> {
        let (salt, encrypted) = encrypted.split_first_chunk()?;
        let mut encrypted = encrypted.to_vec();
        let purpose = Aad::from(purpose.to_string());
        let content = self.key(salt).open_in_place(nonce(), purpose, &mut encrypted).ok()?;
        Some(content.to_vec())
    }

    /// Derives a key for hashes. Replicas with the same secret key get equal hashes.
    pub fn keyed_hash(&self) -> KeyedHash {
        let key = self.0.expand(&[b"names"], hmac::HMAC_SHA256).expect("a key is as long as a hash");
        KeyedHash(key.into())
    }

    /// Derives the key of one encryption.
    fn key(&self, salt: &[u8; SALT_LEN]) -> LessSafeKey {
        let info = [salt.as_slice()];
        let key = self.0.expand(&info, &AES_256_GCM).expect("a key is shorter than what HKDF gives");
        LessSafeKey::new(UnboundKey::from(key))
    }
}

/// Keyed hash (HMAC-SHA-256 in base64url), for keys of the shared state that do not reveal their parts.
/// Clones have the same key.
#[derive(Debug, Clone)]
pub struct KeyedHash(hmac::Key);

impl KeyedHash {
    /// Hashes the parts in their order. Different lists of parts have different hashes.
    pub fn hash(&self, parts: &[&[u8]]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            // Each part follows its length, so that different lists of parts are never the same bytes.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        URL_SAFE_NO_PAD.encode(context.sign())
    }
}

/// A 256-bit hash.
pub type Digest = [u8; 32];

/// SHA-256.
pub fn sha256(content: &[u8]) -> Digest {
    digest(&SHA256, content).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Parses a SHA-256 digest of 64 hexadecimal digits.
pub fn parse_digest(digits: &str) -> Option<Digest> {
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let half = |digits: &str| u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes);
    [half(&digits[..32])?, half(&digits[32..])?].concat().try_into().ok()
}

/// SHA-256 in base64url.
pub fn fingerprint(content: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(sha256(content))
}

/// A key of 256 random bits, in base64url.
pub fn random_key() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<32>())
}

/// An unpredictable id: 32 hexadecimal digits.
pub fn random_id() -> String {
    format!("{:032x}", u128::from_be_bytes(random_bytes()))
}

/// The nonce of every encryption. It may be constant, because each key encrypts only once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |duration| duration.as_secs())
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const LATER: Duration = Duration::from_secs(60);

    fn cipher_from(secret: &str) -> TokenCipher {
        TokenCipher::new(&SecretKey::new(secret.as_bytes()).unwrap())
    }

    #[test]
    fn a_token_opens_wherever_the_secret_is_the_same() {
        let token = cipher_from("the same for all").issue(Purpose::Session, b"content", NOW + LATER);
        let open = |secret: &str| cipher_from(secret).open(Purpose::Session, &token, NOW);
        assert_eq!(open("the same for all").unwrap(), b"content");
        assert_eq!(open("the same for al1").unwrap_err(), TokenError::Invalid);
        assert_eq!(
            TokenCipher::random().open(Purpose::Session, &token, NOW).unwrap_err(),
            TokenError::Invalid
        );
    }

    #[test]
    fn a_token_expires() {
        let cipher = TokenCipher::random();
        let token = cipher.issue(Purpose::Session, b"", NOW + LATER);
        assert!(cipher.open(Purpose::Session, &token, NOW + LATER - Duration::from_secs(1)).is_ok());
        assert_eq!(cipher.open(Purpose::Session, &token, NOW + LATER).unwrap_err(), TokenError::Expired);
    }

    #[test]
    fn a_token_that_was_changed_anywhere_does_not_open() {
        let cipher = TokenCipher::random();
        let token = cipher.issue(Purpose::Session, b"content", NOW + LATER);
        assert_ne!(token, cipher.issue(Purpose::Session, b"content", NOW + LATER));
        for index in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(
                cipher.open(Purpose::Session, &changed, NOW).unwrap_err(),
                TokenError::Invalid,
                "{index}"
            );
        }
        for foreign in ["", "A", "not base64!", &token[..token.len() - 4], &token.repeat(2)] {
            assert_eq!(cipher.open(Purpose::Session, foreign, NOW).unwrap_err(), TokenError::Invalid);
        }
    }

    #[test]
    fn a_stored_value_decrypts_only_under_its_own_key() {
        let cipher = cipher_from("the same for all");
        let encrypted = cipher.encrypt(Purpose::Stored("here"), b"content");
        let same = cipher_from("the same for all");
        assert_eq!(same.decrypt(Purpose::Stored("here"), &encrypted).unwrap(), b"content");
        assert_eq!(cipher.decrypt(Purpose::Stored("there"), &encrypted), None);
        assert_eq!(cipher.decrypt(Purpose::Published("here"), &encrypted), None);
        assert_eq!(TokenCipher::random().decrypt(Purpose::Stored("here"), &encrypted), None);
        for index in 0..encrypted.len() {
            let mut changed = encrypted.clone();
            changed[index] ^= 1;
            assert_eq!(cipher.decrypt(Purpose::Stored("here"), &changed), None, "{index}");
            assert_eq!(cipher.decrypt(Purpose::Stored("here"), &encrypted[..index]), None, "{index}");
        }
    }

    #[test]
    fn names_are_the_same_for_the_same_parts_and_the_same_secret() {
        let keyed_hash = cipher_from("the same for all").keyed_hash();
        assert_eq!(
            keyed_hash.hash(&[b"a", b"b"]),
            cipher_from("the same for all").keyed_hash().hash(&[b"a", b"b"])
        );
        assert_ne!(
            keyed_hash.hash(&[b"a", b"b"]),
            cipher_from("another for all!").keyed_hash().hash(&[b"a", b"b"])
        );
        let hashes: std::collections::HashSet<String> =
            [&[b"ab".as_slice()][..], &[b"a", b"b"], &[b"", b"ab"], &[b"ab", b""]]
                .map(|parts| keyed_hash.hash(parts))
                .into();
        assert_eq!(hashes.len(), 4);
    }

    #[test]
    fn a_secret_has_a_minimum_length_and_is_not_shown() {
        assert!(SecretKey::new(b"too short").is_none());
        assert_eq!(format!("{:?}", SecretKey::new(&[b'x'; 16]).unwrap()), "Secret(…)");
    }
}
