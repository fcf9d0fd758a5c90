//! JWT access tokens (RFC 7519, 9068): checks their type, issuer, audience and validity period, and reads the
//! client and its scopes. `jws` parses the tokens, and `jwks` verifies their signature.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use settings_derive::Section;

use super::jwks::{KeySet, KeySource};
use super::jws::{Algorithm, Jws};
use super::{AuthError, IdentifiedClient};
use crate::crypto::{Digest, sha256};
use crate::route::Scopes;
use crate::settings::{Checked, Code, OneOrMore, OpenSection};
use crate::telemetry::RequestId;
use crate::tls::ClientTls;
use crate::upstream::Client;

/// The accepted JWTs of one issuer.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(id = "jwt", process, variables, check = Self::complete)]
pub struct JwtSettings {
    /// Issuer of the tokens, exactly as in `iss`.
    #[key(example = "issuer: https://login.example.com", live)]
    pub issuer: String,
    /// Audience of the tokens: `aud` contains one of these.
    #[key(name = "audience", shown = "the value of `resource`", live)]
    pub audiences: OneOrMore<String>,
    /// URL of the signing keys (JWKS): `https://login.example.com/jwks.json`, or `file:/path`.
    #[key(name = "jwks", example = "jwks: https://login.example.com/jwks.json", live)]
    pub keys: KeySource,
    /// Accepted signature algorithms.
    #[key(
        default = vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa],
        shown = "`RS256`, `ES256`, `EdDSA`",
        live
    )]
    pub algorithms: Vec<Algorithm>,
    /// Tolerated clock skew.
    #[key(range = 0..=300_000, default = Duration::from_secs(30), live)]
    pub clock_skew: Duration,
    /// Claim with the scopes: a string with spaces, or a list.
    #[key(default = "scope".to_owned(), live)]
    pub scope_claim: String,
    /// Trusted CAs and the client certificate, for the server of `jwks`.
    #[key(live)]
    pub tls: Option<ClientTls>,
}

impl JwtSettings {
    /// Adds the TLS settings for the server of the JWKS. Rejects an empty list of algorithms, and `tls` if
    /// `jwks` is not an `https://` address.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        if self.algorithms.is_empty() {
            let message = "`algorithms` is empty, so every token would be rejected".to_owned();
            return Err(section.missing(message, "write at least one: `[RS256]`"));
        }
        let (message, help) = match &mut self.keys {
            KeySource::Server { server, .. } if server.address.is_tls() => {
                let value = &section.value;
                let by_default = || ClientTls::with_defaults(value.context.report, value.node.span);
                server.tls = Some(value.checked(self.tls.clone().or_else(by_default))?);
                return Ok(self);
            }
            KeySource::Server { .. } => ("`tls` has no effect: `jwks` is not `https://`", "remove `tls`"),
            KeySource::Document(_) => ("`tls` has no effect: `jwks` is not a server", "remove it"),
        };
        match section.entry("tls") {
            None => Ok(self),
            Some(entry) => {
                Err(section.reject_at(Code::TlsWithoutHttps.at_span(entry.key.span), message, help))
            }
        }
    }
}

/// Accepted values of a JWT's `typ` (RFC 9068, section 2.1; RFC 7519, section 5.1).
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// Maximum length of the subject of a JWT, in bytes.
const SUBJECT_LIMIT_BYTES: usize = 512;

/// Maximum number of cached verified JWTs of one issuer.
const VERIFIED_LIMIT: usize = 8192;

/// Verifies the JWTs of one issuer.
#[derive(derive_more::Debug)]
#[debug("Issuer({settings:?})")]
pub(super) struct Issuer {
    settings: JwtSettings,
    keys: Arc<KeySet>,
    /// The configured clients, by the subject in their JWTs.
    subjects: HashMap<String, Arc<Client>>,
    /// Cache of verified JWTs by their SHA-256 hash: the client, and the version of the JWKS that verified
    /// the token. Verifying a signature is expensive.
    verified: Cache<Digest, (IdentifiedClient, u64)>,
}

impl Issuer {
    pub(super) fn new(settings: JwtSettings, subjects: HashMap<String, Arc<Client>>) -> Self {
        let keys = KeySet::new(&settings.keys);
        Self { settings, keys, subjects, verified: Cache::new(VERIFIED_LIMIT) }
    }

    /// Whether an unverified JWT names this issuer (`iss`).
    pub(super) fn is_named_by(&self, token: &Jws<'_>) -> bool {
        token.claims.get("iss").and_then(Value::as_str) == Some(self.settings.issuer.as_str())
    }

    /// The client of a token that was verified before, if the token has not expired and the JWKS has not
    /// changed.
    pub(super) fn cached_client(
        &self,
        secret: &str,
        now: SystemTime,
        request_id: &RequestId,
    ) -> Option<IdentifiedClient> {
        if self.verified.is_empty() {
            return None;
        }
        let version = self.keys.current(request_id)?.version;
        let (client, verified_version) = self.verified.get(&sha256(secret.as_bytes()))?;
        (verified_version == version && client.until.is_some_and(|until| now < until)).then_some(client)
    }

    /// Verifies a JWT, and identifies its client.
    ///
    /// # Errors
    ///
    /// [`AuthError`] if the token is invalid or expired, or can't be verified.
    pub(super) async fn identify(
        &self,
        secret: &str,
        token: &Jws<'_>,
        now: SystemTime,
        request_id: &RequestId,
    ) -> Result<IdentifiedClient, AuthError> {
        if token.kind.as_ref().is_some_and(|kind| !TYPES.contains(&kind.as_str())) {
            return Err(AuthError::Invalid("the type of the token is not accepted"));
        }
        if !self.settings.algorithms.contains(&token.algorithm) {
            return Err(AuthError::Invalid("the signing algorithm of the token is not accepted"));
        }
        // The claims are checked first, so that a token for another audience causes no request for the JWKS.
        let client = self.client_of(&token.claims, now)?;
        let jwks = self.keys.for_token(token, request_id).await?;
        if !jwks.keys.has_key_for(token) {
            return Err(AuthError::Invalid("the token is signed with an unknown key"));
        }
        if !jwks.keys.verify(token) {
            return Err(AuthError::Invalid("the signature of the token is invalid"));
        }
        self.verified.insert(sha256(secret.as_bytes()), (client.clone(), jwks.version));
        Ok(client)
    }

    /// Checks the claims: audience, validity period (`nbf`, `exp`) and subject. Returns the client that they
    /// describe, with the end of the period.
    fn client_of(&self, claims: &Map<String, Value>, now: SystemTime) -> Result<IdentifiedClient, AuthError> {
        let settings = &self.settings;
        let is_for_us = match claims.get("aud") {
            Some(Value::String(audience)) => settings.audiences.0.contains(audience),
            Some(Value::Array(all)) => {
                settings.audiences.0.iter().any(|audience| all.iter().any(|other| other == audience))
            }
            _ => false,
        };
        if !is_for_us {
            return Err(AuthError::Invalid("the token is for another audience"));
        }
        let time = |name: &str| {
            let time = |value| time_of(value).ok_or(AuthError::Invalid("the token has an invalid timestamp"));
            claims.get(name).map(time).transpose()
        };
        let expires = time("exp")?.ok_or(AuthError::Invalid("the token has no expiry (`exp`)"))?;
        let until = expires.checked_add(settings.clock_skew).unwrap_or(expires);
        if until <= now {
            return Err(AuthError::Invalid("the token has expired"));
        }
        if time("nbf")?.is_some_and(|not_before| not_before > now + settings.clock_skew) {
            return Err(AuthError::Invalid("the token is not valid yet"));
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let subject = text("sub").or_else(|| text("client_id")).or_else(|| text("azp"));
        let subject = subject.filter(|subject| subject.len() <= SUBJECT_LIMIT_BYTES);
        let subject =
            subject.ok_or(AuthError::Invalid("the token needs a subject (`sub`) of 1 to 512 bytes"))?;
        let scopes = match claims.get(&settings.scope_claim) {
            Some(Value::String(words)) => {
                Scopes::from_client(words.split(' ').filter(|word| !word.is_empty()))
            }
            Some(Value::Array(words)) => Scopes::from_client(words.iter().filter_map(Value::as_str)),
            _ => Scopes::default(),
        };
        let client = match self.subjects.get(subject) {
            Some(configured) => {
                Client::new(&configured.id, &configured.name, configured.scopes.union(&scopes))
            }
            None => Client::new(&format!("token {} {subject}", settings.issuer), subject, scopes),
        };
        Ok(IdentifiedClient { client: Arc::new(client), until: Some(until) })
    }
}

/// Parses seconds since 1970, with or without a fraction (RFC 7519, section 2, "NumericDate").
fn time_of(value: &Value) -> Option<SystemTime> {
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::Jwks;

    const NOW: u64 = 1_000_000;

    fn issuer() -> Issuer {
        let keys = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }] });
        let settings = JwtSettings {
            issuer: "https://login.test".to_owned(),
            audiences: OneOrMore(vec!["https://tools.test/mcp".to_owned(), "tools".to_owned()]),
            keys: KeySource::Document(Jwks::read(keys.to_string().as_bytes()).unwrap()),
            algorithms: vec![Algorithm::EdDsa],
            clock_skew: Duration::from_secs(30),
            scope_claim: "scope".to_owned(),
            tls: None,
        };
        let reports = Client::new("client reports", "reports", Scopes::from_client(["read"]));
        Issuer::new(settings, HashMap::from([("svc-1".to_owned(), Arc::new(reports))]))
    }

    fn claims(changes: Value) -> Map<String, Value> {
        let mut claims = json!({ "iss": "https://login.test", "aud": "tools", "exp": NOW + 60, "sub": "ada", "scope": "read write" });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object().unwrap().clone()
    }

    fn identify_with(changes: Value) -> Result<Arc<Client>, AuthError> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        issuer().client_of(&claims(changes), now).map(|identified| identified.client)
    }

    #[track_caller]
    fn check_rejected(changes: Value, words: &str) {
        let formatted = changes.to_string();
        match identify_with(changes) {
            Ok(_) => panic!("{formatted} is taken"),
            Err(error) => assert!(error.to_string().contains(words), "{formatted}: {error}"),
        }
    }

    #[test]
    fn a_token_identifies_its_client_and_scopes() {
        let client = identify_with(json!({})).unwrap();
        assert_eq!((client.id.as_str(), client.name.as_str()), ("token https://login.test ada", "ada"));
        assert_eq!(client.scopes.to_string(), "read write");
        let client =
            identify_with(json!({ "scope": ["a", "b c", 7], "aud": ["x", "https://tools.test/mcp"] }))
                .unwrap();
        assert_eq!(client.scopes.to_string(), "a");
        // Only spaces separate scopes (RFC 6749, section 3.3).
        let client = identify_with(json!({ "scope": "a  b\tc" })).unwrap();
        assert_eq!(client.scopes.to_string(), "a");
        let client = identify_with(json!({ "sub": null, "client_id": "robot", "scope": null })).unwrap();
        assert_eq!((client.name.as_str(), client.scopes.is_empty()), ("robot", true));
        let client = identify_with(json!({ "sub": "svc-1", "scope": "write" })).unwrap();
        assert_eq!(
            (client.id.as_str(), client.scopes.to_string().as_str()),
            ("client reports", "read write")
        );
    }

    #[test]
    fn a_token_for_another_audience_or_time_is_rejected() {
        for audience in [
            json!("https://tools.test"),
            json!("https://tools.test/mcp/"),
            json!([]),
            json!(["x"]),
            json!(null),
            json!(1),
            json!({"tools": 1}),
        ] {
            check_rejected(json!({ "aud": audience }), "audience");
        }
        check_rejected(json!({ "exp": NOW - 31 }), "expired");
        check_rejected(json!({ "exp": null }), "invalid timestamp");
        check_rejected(json!({ "exp": "tomorrow" }), "invalid timestamp");
        check_rejected(json!({ "exp": -1 }), "invalid timestamp");
        check_rejected(json!({ "exp": 1e300 }), "invalid timestamp");
        check_rejected(json!({ "nbf": NOW + 31 }), "not valid yet");
        check_rejected(json!({ "nbf": "x" }), "invalid timestamp");
        check_rejected(json!({ "sub": "" }), "needs a subject");
        check_rejected(json!({ "sub": "a".repeat(513) }), "needs a subject");
        for valid in
            [json!({ "exp": NOW - 29 }), json!({ "exp": NOW as f64 + 0.5 }), json!({ "nbf": NOW + 29 })]
        {
            assert!(identify_with(valid.clone()).is_ok(), "{valid}");
        }
        let mut without_expiry = claims(json!({}));
        without_expiry.remove("exp");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        assert!(issuer().client_of(&without_expiry, now).is_err());
    }

    #[tokio::test]
    async fn only_access_tokens_are_accepted() {
        for (kind, words) in [(None, "expired"), (Some("at+jwt"), "expired"), (Some("logout+jwt"), "type")] {
            let token = Jws {
                algorithm: Algorithm::EdDsa,
                kind: kind.map(str::to_owned),
                key_id: None,
                claims: claims(json!({ "exp": 1 })),
                signing_input: b"",
                signature: Vec::new(),
            };
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
            let error = issuer().identify("", &token, now, &RequestId::next()).await.err().unwrap();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn the_cache_of_verified_tokens_is_bounded() {
        let issuer = issuer();
        let client = Arc::new(Client::new("x", "x", Scopes::default()));
        let client = IdentifiedClient { client, until: Some(SystemTime::UNIX_EPOCH) };
        let entry = || (client.clone(), 0);
        let digest = |number: usize| sha256(&number.to_be_bytes());
        for number in 0..3 * VERIFIED_LIMIT {
            issuer.verified.insert(digest(number), entry());
            issuer.verified.get(&digest(0));
        }
        assert!(issuer.verified.len() <= VERIFIED_LIMIT);
        assert!(issuer.verified.get(&digest(0)).is_some(), "what is used stays");
    }
}
