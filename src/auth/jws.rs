//! Signed tokens as they come (RFC 7515, section 7.1): taken apart, and held against a key.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::Denied;

/// How a token may be signed: by a key of which we know the public half. There is no other way here, so none can be
/// asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// As a token names it (RFC 7518, section 3.1; RFC 8037).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        // The name of what `EdDSA` is with the one curve that is known here (RFC 9864, section 2.2).
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

/// A token, taken apart. Nothing of it is known to be true.
pub(super) struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    pub(super) claims: Map<String, Value>,
    /// What is signed.
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
}

/// How long the name of a key may be, in bytes.
const KEY_ID_LIMIT_BYTES: usize = 256;

/// What a token may call itself (RFC 9068, section 2.1; RFC 7519, section 5.1).
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

impl<'a> Jws<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    ///
    /// [`Denied::Invalid`] for what is no token, or none that could be taken.
    pub(super) fn parse(token: &'a str) -> Result<Self, Denied> {
        const BROKEN: Denied = Denied::Invalid("the token is not a signed JWT");
        let (message, signature) = token.rsplit_once('.').ok_or(BROKEN)?;
        let (header, claims) = message.split_once('.').ok_or(BROKEN)?;
        let object = |part: &str| -> Option<Map<String, Value>> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        let header = object(header).ok_or(BROKEN)?;
        if header.contains_key("crit") {
            return Err(Denied::Invalid("the token has a critical header that is not understood here"));
        }
        if let Some(kind) = header.get("typ") {
            let kind = kind.as_str().unwrap_or_default().to_ascii_lowercase();
            if !TYPES.contains(&kind.as_str()) {
                return Err(Denied::Invalid("the token is of a type that is not taken here"));
            }
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::named);
        let algorithm =
            algorithm.ok_or(Denied::Invalid("the token is signed in a way that is not taken here"))?;
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= KEY_ID_LIMIT_BYTES => Some(id.clone()),
            Some(_) => return Err(BROKEN),
        };
        let claims = object(claims).ok_or(BROKEN)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| BROKEN)?;
        Ok(Self { algorithm, key_id, claims, message: message.as_bytes(), signature })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(header: &Value, claims: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", part(&header.to_string()), part(claims), part("signature"))
    }

    #[track_caller]
    fn refused(token: &str, words: &str) {
        match Jws::parse(token) {
            Ok(_) => panic!("{token} is taken"),
            Err(denied) => assert!(denied.to_string().contains(words), "{denied}"),
        }
    }

    #[test]
    fn a_token_is_taken_apart() {
        let token = token(
            &json!({ "alg": "ES256", "kid": "k", "typ": "at+JWT", "jku": "https://evil.test" }),
            "{\"a\":1}",
        );
        let jws = Jws::parse(&token).unwrap();
        assert_eq!((jws.algorithm, jws.key_id.as_deref()), (Algorithm::Es256, Some("k")));
        assert_eq!((jws.claims["a"].clone(), jws.signature.as_slice()), (json!(1), &b"signature"[..]));
        assert!(token.as_bytes().starts_with(jws.message));
    }

    #[test]
    fn only_signatures_of_key_pairs_are_known() {
        for name in
            ["none", "None", "NONE", "", "HS256", "HS512", "es256", "ES512", "RSA-OAEP", "ES256K", "Ed448"]
        {
            refused(&token(&json!({ "alg": name }), "{}"), "not taken here");
        }
        refused(&token(&json!({}), "{}"), "not taken here");
        refused(&token(&json!({ "alg": ["ES256"] }), "{}"), "not taken here");
        assert!(Algorithm::ALL.iter().all(|one| Algorithm::named(one.as_str()) == Some(*one)));
        assert_eq!(Algorithm::named("Ed25519"), Some(Algorithm::EdDsa));
    }

    #[test]
    fn what_is_not_understood_is_not_taken() {
        refused(&token(&json!({ "alg": "ES256", "crit": ["b64"], "b64": false }), "{}"), "critical");
        refused(&token(&json!({ "alg": "ES256", "crit": [] }), "{}"), "critical");
        refused(&token(&json!({ "alg": "ES256", "typ": "logout+jwt" }), "{}"), "type");
        refused(&token(&json!({ "alg": "ES256", "kid": 7 }), "{}"), "not a signed JWT");
        refused(&token(&json!({ "alg": "ES256", "kid": "k".repeat(300) }), "{}"), "not a signed JWT");
        refused(&token(&json!({ "alg": "ES256" }), "[]"), "not a signed JWT");
        for broken in ["", ".", "..", "a.b", "a.b.c.d", "{}.{}.x", "e30.e30.", "e30.e30=.e30"] {
            assert!(Jws::parse(broken).is_err(), "{broken}");
        }
    }
}
