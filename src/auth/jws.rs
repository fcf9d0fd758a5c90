//! Signed tokens (JWS Compact Serialization, RFC 7515, section 7.1), and the signature algorithms. `jwks` has
//! the keys that verify the signatures.
//!
//! The crate `jsonwebtoken` is not used. It has no provider for `ring`, it ignores `crit`, and it does not
//! support the name `Ed25519` (RFC 9864). With `arbitrary_precision` of `serde_json` it can't read `exp`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{self, RsaParameters, VerificationAlgorithm};
use serde_json::{Map, Value};
use strum::VariantNames;

use super::AuthError;
use crate::settings::suggest::quoted_list;
use crate::settings::{Code, FromText, Invalid, ValueKind};

/// Signature algorithms of tokens (RFC 7518, section 3.1): only asymmetric algorithms, so that `none` and
/// HMAC with a public key are rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// RSA with PKCS #1 v1.5 and SHA-384.
    Rs384,
    /// RSA with PKCS #1 v1.5 and SHA-512.
    Rs512,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// RSA with PSS and SHA-384.
    Ps384,
    /// RSA with PSS and SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519, the only supported curve of `EdDSA` (RFC 9864, section 2.2).
    #[strum(to_string = "EdDSA", serialize = "Ed25519")]
    EdDsa,
}

/// Method to verify a signature with a key.
pub(super) enum Verification {
    Rsa(&'static RsaParameters),
    /// The name of the elliptic curve in a JWK (`crv`), and the algorithm.
    Curve(&'static str, &'static dyn VerificationAlgorithm),
}

/// Verification method of every algorithm (RFC 7518, section 3.1; RFC 8037), in the order of [`Algorithm`].
pub(super) static VERIFICATIONS: [(Algorithm, Verification); 9] = [
    (Algorithm::Rs256, Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256)),
    (Algorithm::Rs384, Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384)),
    (Algorithm::Rs512, Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512)),
    (Algorithm::Ps256, Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA256)),
    (Algorithm::Ps384, Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA384)),
    (Algorithm::Ps512, Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA512)),
    (Algorithm::Es256, Verification::Curve("P-256", &signature::ECDSA_P256_SHA256_FIXED)),
    (Algorithm::Es384, Verification::Curve("P-384", &signature::ECDSA_P384_SHA384_FIXED)),
    (Algorithm::EdDsa, Verification::Curve("Ed25519", &signature::ED25519)),
];

impl FromText for Algorithm {
    const FORM: ValueKind = ValueKind::Enum(Self::VARIANTS);

    fn from_text(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        text.parse().map_err(|_| {
            let reason = match text.to_ascii_lowercase().as_str() {
                "none" => "an unsigned token proves nothing; ",
                name if name.starts_with("hs") => "a symmetric key that verifies tokens can also sign them; ",
                _ => "",
            };
            let algorithms = quoted_list(Self::VARIANTS);
            let message = format!("the signing algorithm `{text}` is not accepted");
            Invalid::new(message, format!("{reason}write one of {algorithms}")).with_code(Code::UnknownValue)
        })
    }
}

/// A parsed token, which is not verified yet.
pub(super) struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    /// The type of the token (`typ`), in lower case.
    pub(super) kind: Option<String>,
    pub(super) key_id: Option<String>,
    pub(super) claims: Map<String, Value>,
    /// The JWS Signing Input: the encoded header and claims.
    pub(super) signing_input: &'a [u8],
    pub(super) signature: Vec<u8>,
}

/// Maximum length of a key id, in bytes.
const KEY_ID_LIMIT_BYTES: usize = 256;

impl<'a> Jws<'a> {
    /// Parses a token, without verifying its signature.
    ///
    /// # Errors
    ///
    /// [`AuthError::Invalid`] if `token` is not a signed JWT, or its header has an unsupported algorithm or
    /// `crit`.
    pub(super) fn parse(token: &'a str) -> Result<Self, AuthError> {
        const BROKEN: AuthError = AuthError::Invalid("the token is not a signed JWT");
        let (signing_input, signature) = token.rsplit_once('.').ok_or(BROKEN)?;
        let (header, claims) = signing_input.split_once('.').ok_or(BROKEN)?;
        let object = |part: &str| -> Option<Map<String, Value>> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        let header = object(header).ok_or(BROKEN)?;
        if header.contains_key("crit") {
            return Err(AuthError::Invalid("the token has a critical header that is not supported"));
        }
        let kind = header.get("typ").map(|kind| kind.as_str().unwrap_or_default().to_ascii_lowercase());
        let name = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        let message = "the signing algorithm of the token is not accepted";
        let algorithm = name.parse().map_err(|_| AuthError::Invalid(message))?;
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= KEY_ID_LIMIT_BYTES => Some(id.clone()),
            Some(_) => return Err(BROKEN),
        };
        let claims = object(claims).ok_or(BROKEN)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| BROKEN)?;
        Ok(Self { algorithm, kind, key_id, claims, signing_input: signing_input.as_bytes(), signature })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::jwks::{Jwks, NONE_USABLE, NOT_JSON};

    fn token(header: &Value, claims: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", part(&header.to_string()), part(claims), part("signature"))
    }

    #[track_caller]
    fn check_rejected(token: &str, words: &str) {
        match Jws::parse(token) {
            Ok(_) => panic!("{token} is taken"),
            Err(error) => assert!(error.to_string().contains(words), "{error}"),
        }
    }

    #[test]
    fn a_token_is_parsed() {
        let token = token(
            &json!({ "alg": "ES256", "kid": "k", "typ": "at+JWT", "jku": "https://evil.test" }),
            "{\"a\":1}",
        );
        let jws = Jws::parse(&token).unwrap();
        assert_eq!((jws.algorithm, jws.key_id.as_deref()), (Algorithm::Es256, Some("k")));
        assert_eq!((jws.claims["a"].clone(), jws.signature.as_slice()), (json!(1), &b"signature"[..]));
        assert!(token.as_bytes().starts_with(jws.signing_input));
    }

    #[test]
    fn only_signatures_of_key_pairs_are_known() {
        for name in
            ["none", "None", "NONE", "", "HS256", "HS512", "es256", "ES512", "RSA-OAEP", "ES256K", "Ed448"]
        {
            check_rejected(&token(&json!({ "alg": name }), "{}"), "not accepted");
        }
        check_rejected(&token(&json!({}), "{}"), "not accepted");
        check_rejected(&token(&json!({ "alg": ["ES256"] }), "{}"), "not accepted");
        assert!(VERIFICATIONS.iter().zip(0..).all(|((algorithm, _), index)| *algorithm as usize == index));
        let names = ["ES256", "ES384", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"];
        let is_supported =
            |name: &str| VERIFICATIONS.iter().any(|(algorithm, _)| name.parse() == Ok(*algorithm));
        assert!(names.iter().all(|name| is_supported(name)) && names.len() == VERIFICATIONS.len());
        assert_eq!("Ed25519".parse(), Ok(Algorithm::EdDsa));
    }

    #[test]
    fn unknown_forms_of_tokens_are_rejected() {
        check_rejected(&token(&json!({ "alg": "ES256", "crit": ["b64"], "b64": false }), "{}"), "critical");
        check_rejected(&token(&json!({ "alg": "ES256", "crit": [] }), "{}"), "critical");
        check_rejected(&token(&json!({ "alg": "ES256", "kid": 7 }), "{}"), "not a signed JWT");
        check_rejected(&token(&json!({ "alg": "ES256", "kid": "k".repeat(300) }), "{}"), "not a signed JWT");
        check_rejected(&token(&json!({ "alg": "ES256" }), "[]"), "not a signed JWT");
        for broken in ["", ".", "..", "a.b", "a.b.c.d", "{}.{}.x", "e30.e30.", "e30.e30=.e30"] {
            assert!(Jws::parse(broken).is_err(), "{broken}");
        }
    }

    /// The key and the signature of RFC 7515, appendix A.3.
    const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

    fn key() -> Value {
        json!({ "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" })
    }

    fn read(keys: Value) -> Result<Jwks, String> {
        Jwks::read(json!({ "keys": keys }).to_string().as_bytes())
    }

    #[test]
    fn a_signature_is_held_against_the_key_that_is_named() {
        let token = Jws::parse(TOKEN).unwrap();
        assert!(read(json!([key()])).unwrap().verify(&token));
        let mut named_key = key();
        named_key["kid"] = "one".into();
        assert!(read(json!([named_key])).unwrap().verify(&token), "the token names none");
        let changed = TOKEN.replace("joe", "eve").replacen("eyJpc3MiOiJqb2Ui", "eyJpc3MiOiJldmUi", 1);
        assert!(!read(json!([key()])).unwrap().verify(&Jws::parse(&changed).unwrap()));
        let other = Jws { key_id: Some("two".to_owned()), ..Jws::parse(TOKEN).unwrap() };
        assert!(!read(json!([named_key])).unwrap().has_key_for(&other));
    }

    #[test]
    fn a_key_is_for_its_own_kind_of_signature() {
        let mut token = Jws::parse(TOKEN).unwrap();
        let keys = read(json!([key()])).unwrap();
        for algorithm in VERIFICATIONS.iter().map(|(algorithm, _)| *algorithm) {
            token.algorithm = algorithm;
            assert_eq!(keys.has_key_for(&token), algorithm == Algorithm::Es256);
        }
        let key_with = |name: &str, value: Value| {
            let mut key = key();
            key[name] = value;
            read(json!([key]))
        };
        for (name, value) in [
            ("use", json!("enc")),
            ("key_ops", json!(["sign"])),
            ("alg", json!("RS256")),
            ("alg", json!("HS256")),
            ("kty", json!("oct")),
            ("crv", json!("P-521")),
            ("x", json!("AA")),
            ("x", json!("!")),
        ] {
            assert_eq!(key_with(name, value.clone()).unwrap_err(), NONE_USABLE, "{name}: {value}");
        }
        assert!(key_with("use", json!("sig")).is_ok() && key_with("key_ops", json!(["verify"])).is_ok());
        let small = json!({ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode([255; 128]), "e": "AQAB" });
        assert_eq!(read(json!([small])).unwrap_err(), NONE_USABLE, "1024 bits");
    }

    #[test]
    fn a_list_is_a_list_of_keys_and_not_endless() {
        assert_eq!(Jwks::read(b"<html>").unwrap_err(), NOT_JSON);
        assert_eq!(Jwks::read(b"{}").unwrap_err(), NOT_JSON);
        assert_eq!(read(json!([])).unwrap_err(), NONE_USABLE);
        assert_eq!(read(vec![key(); 101].into()).unwrap_err(), "it lists more than 100 keys");
        assert!(read(json!([{ "kty": "oct", "k": "AA" }, null, key()])).is_ok());
    }
}
