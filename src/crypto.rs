//! Tokens that are given away and come back: nobody can read or make one who has not the secret.
//!
//! What a server would have to remember between two requests goes into a token, so that any replica with the same
//! secret answers the next one: session ids, the state of a question (`requestState` of MCP 2026-07-28), task ids.
//! A token is `base64url(salt ‖ AES-256-GCM(expiry ‖ content))` under a key of its own, which HKDF makes of the secret
//! and the salt; what a token is for is part of what is authenticated.

use std::{fmt, sync::Arc, time::SystemTime};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest::{SHA256, digest},
    hkdf::{HKDF_SHA256, Prk, Salt},
    hmac,
    rand::{SecureRandom, SystemRandom},
};

const SALT_LEN: usize = 24;
const EXPIRY_LEN: usize = 8;

/// A secret as it was configured. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// The shortest that is accepted, in bytes.
    pub const LEAST_BYTES: usize = 16;

    /// A secret of at least [`LEAST_BYTES`](Self::LEAST_BYTES).
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= Self::LEAST_BYTES).then(|| Self(bytes.into()))
    }

    /// Whether this is it. How long that takes tells nothing of it.
    pub fn is(&self, found: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let own = hmac::sign(&key, &self.0);
        hmac::verify(&key, found, own.as_ref()).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// What a token is for: one of another purpose does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The id of a session (MCP up to 2025-11-25).
    Session,
    /// The id of a task (an extension of MCP 2026-07-28).
    Task,
    /// The id of a question to a client of that era, which tells who asked it.
    Question,
    /// The state of a request that waits for answers (`requestState` of MCP 2026-07-28).
    State,
    /// What replicas keep in the store that they share.
    Kept,
    /// What replicas tell one another there.
    Told,
    /// Who asks, told by one replica to another.
    Caller,
}

impl Purpose {
    const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Session => b"session",
            Self::Task => b"task",
            Self::Question => b"question",
            Self::State => b"state",
            Self::Kept => b"kept",
            Self::Told => b"told",
            Self::Caller => b"caller",
        }
    }
}

/// Why a token did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsealed {
    /// It was not made here, is for something else, or was changed.
    #[error("it was not given out here")]
    Foreign,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
}

/// Makes tokens and opens them. Clones are the same one.
#[derive(Clone)]
pub struct Seal {
    secret: Arc<Prk>,
    random: SystemRandom,
}

impl Seal {
    /// The seal that every process with this secret has.
    pub fn of(secret: &Secret) -> Self {
        Self::of_bytes(&secret.0)
    }

    /// The seal of this process alone.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        fill(&SystemRandom::new(), &mut secret);
        Self::of_bytes(&secret)
    }

    fn of_bytes(secret: &[u8]) -> Self {
        let secret = Salt::new(HKDF_SHA256, b"glossator tokens 1").extract(secret);
        Self { secret: Arc::new(secret), random: SystemRandom::new() }
    }

    /// A token of letters, digits, `-` and `_` that holds `content` until `expires`. It is about 64 characters, and
    /// four thirds of the content, long.
    pub fn seal(&self, purpose: Purpose, content: &[u8], expires: SystemTime) -> String {
        let mut salt = [0; SALT_LEN];
        fill(&self.random, &mut salt);
        let mut sealed = Vec::with_capacity(EXPIRY_LEN + content.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(&seconds(expires).to_be_bytes());
        sealed.extend_from_slice(content);
        self.key(&salt)
            .seal_in_place_append_tag(nonce(), Aad::from(purpose.as_bytes()), &mut sealed)
            .expect("a token is far shorter than what the cipher takes");
        let mut token = URL_SAFE_NO_PAD.encode(salt);
        URL_SAFE_NO_PAD.encode_string(&sealed, &mut token);
        token
    }

    /// What a token holds.
    ///
    /// # Errors
    ///
    /// [`Unsealed`]. Nothing else is told of a token that does not open.
    pub fn open(&self, purpose: Purpose, token: &str, now: SystemTime) -> Result<Vec<u8>, Unsealed> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| Unsealed::Foreign)?;
        let (salt, sealed) = bytes.split_first_chunk::<SALT_LEN>().ok_or(Unsealed::Foreign)?;
        let mut sealed = sealed.to_vec();
        let opened = self
            .key(salt)
            .open_in_place(nonce(), Aad::from(purpose.as_bytes()), &mut sealed)
            .map_err(|_| Unsealed::Foreign)?;
        let (expiry, content) = opened.split_first_chunk::<EXPIRY_LEN>().ok_or(Unsealed::Foreign)?;
        match seconds(now) < u64::from_be_bytes(*expiry) {
            true => Ok(content.to_vec()),
            false => Err(Unsealed::Expired),
        }
    }

    /// Seals bytes that are kept under a name, or told in one place: they open nowhere else. They do not expire.
    pub fn seal_at(&self, purpose: Purpose, place: &[u8], content: &[u8]) -> Vec<u8> {
        let mut salt = [0; SALT_LEN];
        fill(&self.random, &mut salt);
        let mut sealed = Vec::with_capacity(SALT_LEN + content.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(content);
        self.key(&salt)
            .seal_in_place_append_tag(nonce(), Aad::from(at(purpose, place)), &mut sealed)
            .expect("what is kept is far shorter than what the cipher takes");
        sealed.splice(0..0, salt);
        sealed
    }

    /// What such bytes hold; `None` of what was not sealed for this place, with this secret.
    pub fn open_at(&self, purpose: Purpose, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (salt, sealed) = sealed.split_first_chunk::<SALT_LEN>()?;
        let mut sealed = sealed.to_vec();
        let place = Aad::from(at(purpose, place));
        let opened = self.key(salt).open_in_place(nonce(), place, &mut sealed).ok()?.len();
        sealed.truncate(opened);
        Some(sealed)
    }

    /// What gives things names that tell nothing of them, the same wherever the secret is.
    pub fn names(&self) -> Names {
        let mut key = [0; 32];
        let expanded = self.secret.expand(&[b"names"], HKDF_SHA256).expect("it is as long as a hash");
        expanded.fill(&mut key).expect("it is as long as a hash");
        Names(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }

    /// The key of one token.
    fn key(&self, salt: &[u8; SALT_LEN]) -> LessSafeKey {
        let info = [salt.as_slice()];
        let key = self.secret.expand(&info, &AES_256_GCM).expect("a key is shorter than what HKDF gives");
        LessSafeKey::new(UnboundKey::from(key))
    }
}

/// Gives names: HMAC-SHA-256 in base64url. Clones are the same one.
#[derive(Clone)]
pub struct Names(hmac::Key);

impl Names {
    /// The name of what has these parts, one after the other; other parts have another name.
    pub fn of(&self, parts: &[&[u8]]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            // So that no two lists of parts are the same bytes.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        URL_SAFE_NO_PAD.encode(context.sign())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Names(…)")
    }
}

/// A purpose and a place as one; no purpose is the beginning of another with a place behind it.
fn at(purpose: Purpose, place: &[u8]) -> Vec<u8> {
    [purpose.as_bytes(), b" at ", place].concat()
}

/// A hash of 256 bits.
pub type Digest = [u8; 32];

/// SHA-256.
pub fn sha256(content: &[u8]) -> Digest {
    digest(&SHA256, content).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A key of 256 random bits, in base64url.
pub fn random_key() -> String {
    let mut bytes = [0; 32];
    fill(&SystemRandom::new(), &mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Hashes under a key that nobody but this process knows: who can choose what is hashed learns nothing of a comparison
/// by how long it takes.
pub struct Blind(hmac::Key);

impl Blind {
    /// With a key of its own.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        fill(&SystemRandom::new(), &mut secret);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &secret))
    }

    /// The hash of something.
    pub fn of(&self, content: &[u8]) -> Digest {
        hmac::sign(&self.0, content).as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes")
    }
}

/// Tells contents apart: SHA-256 in base64url.
pub fn fingerprint(content: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, content))
}

/// A name that nobody can guess: 32 hexadecimal digits.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    fill(&SystemRandom::new(), &mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seal(…)")
    }
}

/// A key is used for one token, so its nonce may be always the same.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn fill(random: &SystemRandom, bytes: &mut [u8]) {
    random.fill(bytes).expect("the system gives random bytes");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const LATER: Duration = Duration::from_secs(60);

    fn seal(secret: &str) -> Seal {
        Seal::of(&Secret::new(secret.as_bytes()).unwrap())
    }

    #[test]
    fn a_token_opens_wherever_the_secret_is_the_same() {
        let token = seal("the same for all").seal(Purpose::Session, b"content", NOW + LATER);
        let open = |secret: &str| seal(secret).open(Purpose::Session, &token, NOW);
        assert_eq!(open("the same for all").unwrap(), b"content");
        assert_eq!(open("the same for al1").unwrap_err(), Unsealed::Foreign);
        assert_eq!(Seal::random().open(Purpose::Session, &token, NOW).unwrap_err(), Unsealed::Foreign);
    }

    #[test]
    fn a_token_ends() {
        let seal = Seal::random();
        let token = seal.seal(Purpose::Session, b"", NOW + LATER);
        assert!(seal.open(Purpose::Session, &token, NOW + LATER - Duration::from_secs(1)).is_ok());
        assert_eq!(seal.open(Purpose::Session, &token, NOW + LATER).unwrap_err(), Unsealed::Expired);
    }

    #[test]
    fn a_token_that_was_changed_anywhere_does_not_open() {
        let seal = Seal::random();
        let token = seal.seal(Purpose::Session, b"content", NOW + LATER);
        assert_ne!(token, seal.seal(Purpose::Session, b"content", NOW + LATER));
        for index in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(seal.open(Purpose::Session, &changed, NOW).unwrap_err(), Unsealed::Foreign, "{index}");
        }
        for foreign in ["", "A", "not base64!", &token[..token.len() - 4], &token.repeat(2)] {
            assert_eq!(seal.open(Purpose::Session, foreign, NOW).unwrap_err(), Unsealed::Foreign);
        }
    }

    #[test]
    fn what_is_kept_opens_in_its_place_and_nowhere_else() {
        let seal = seal("the same for all");
        let sealed = seal.seal_at(Purpose::Kept, b"here", b"content");
        let same = self::seal("the same for all");
        assert_eq!(same.open_at(Purpose::Kept, b"here", &sealed).unwrap(), b"content");
        assert_eq!(seal.open_at(Purpose::Kept, b"there", &sealed), None);
        assert_eq!(seal.open_at(Purpose::Told, b"here", &sealed), None);
        assert_eq!(Seal::random().open_at(Purpose::Kept, b"here", &sealed), None);
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(seal.open_at(Purpose::Kept, b"here", &changed), None, "{index}");
            assert_eq!(seal.open_at(Purpose::Kept, b"here", &sealed[..index]), None, "{index}");
        }
    }

    #[test]
    fn names_are_the_same_for_the_same_parts_and_the_same_secret() {
        let names = seal("the same for all").names();
        assert_eq!(names.of(&[b"a", b"b"]), seal("the same for all").names().of(&[b"a", b"b"]));
        assert_ne!(names.of(&[b"a", b"b"]), seal("another for all!").names().of(&[b"a", b"b"]));
        let all: std::collections::HashSet<String> =
            [&[b"ab".as_slice()][..], &[b"a", b"b"], &[b"", b"ab"], &[b"ab", b""]]
                .map(|parts| names.of(parts))
                .into();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn a_secret_has_a_least_length_and_is_not_shown() {
        assert!(Secret::new(b"too short").is_none());
        assert_eq!(format!("{:?}", Secret::new(&[b'x'; 16]).unwrap()), "Secret(…)");
    }
}
