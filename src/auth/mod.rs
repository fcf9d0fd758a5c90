//! Authentication of clients, and the scopes of each client.
//!
//! - [`AccessSettings`]: the configured clients and issuers.
//! - [`Access`]: identifies a client by its credential ([`PresentedCredential`]), or rejects it
//!   ([`AuthError`]).
//! - `api_keys`: API keys, stored as hashes. `configured_clients`: clients by their keys, client certificates
//!   that TLS has verified, and subjects of tokens.
//! - `jwt`: access tokens; `jws` parses them, and `jwks` verifies their signature with the issuer's keys.
//! - [`ResourceServer`]: protected resource metadata (RFC 9728) and `WWW-Authenticate` challenges (RFC 6750).
//!
//! Credentials never occur in an error, the log or `Debug`.

mod api_keys;
mod configured_clients;
mod jwks;
mod jws;
mod jwt;
mod oauth_metadata;

use std::{sync::Arc, time::SystemTime};

use settings_derive::Section;

use crate::route::Scopes;
use crate::settings::{Checked, OneOrMore, OpenSection};
use crate::telemetry::RequestId;
use crate::tls::{ClientCertificate, ServerTls};
use crate::upstream::Client;

pub use api_keys::{ApiKey, ApiKeyHash, random_api_key};
pub use configured_clients::CertificateName;
use configured_clients::ConfiguredClients;
pub use jwks::{Jwks, KeySource};
pub use jws::Algorithm;
use jws::Jws;
use jwt::Issuer;
pub use jwt::JwtSettings;
pub use oauth_metadata::{METADATA_PATH, ResourceServer, ResourceUrl};

/// The configured clients and issuers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessSettings {
    /// The clients with a name in the configuration.
    pub clients: Vec<ClientSettings>,
    /// The accepted tokens, and the metadata for OAuth clients.
    pub server: Option<ResourceServer>,
    /// The scopes of routes and prompts without `scopes` (`defaults.scopes`). The challenge for a client that
    /// is not authenticated lists them.
    pub scopes: Scopes,
}

/// A client with a name in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(name = "a client", id = "client", variables, check_keys = Self::check_keys)]
pub struct ClientSettings {
    /// The name in the configuration.
    #[key(skip)]
    pub name: String,
    /// Hashes of the client's API keys, as `glossator key` prints them.
    pub api_key_hashes: OneOrMore<ApiKey>,
    /// Client certificates of the client, issued by the `client_ca`: all with a name (`cn:NAME`, `dns:NAME`,
    /// `uri:URI`), or the one with a fingerprint (`sha256:…`).
    pub certificates: Vec<CertificateName>,
    /// Values of `sub` in the client's JWTs. It has the scopes of the token in addition to `scopes`.
    pub jwt_subjects: Vec<String>,
    /// Scopes of the client.
    #[key(shown = "none")]
    pub scopes: Scopes,
}

impl ClientSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        if ["api_key_hashes", "certificates", "jwt_subjects"].iter().any(|key| section.entry(key).is_some()) {
            return Ok(());
        }
        let message =
            format!("no request can be authenticated as {}: it has no credential", section.value.name);
        let help = "write `api_key_hashes: [sha256:…]`, a hash as `glossator key` prints it";
        Err(section.missing(message, help))
    }
}

/// The credential of a request. `Debug` shows only its kind.
#[derive(derive_more::Debug, Clone)]
pub enum PresentedCredential {
    /// No credential.
    Nothing,
    /// An API key or a token. If there is a client certificate, too, it is ignored.
    #[debug("Secret(…)")]
    Secret(Box<str>),
    /// The client certificate of the connection.
    #[debug("Certificate(…)")]
    Certificate(Arc<ClientCertificate>),
}

/// An authenticated client.
#[derive(Debug, Clone)]
pub struct IdentifiedClient {
    /// The client.
    pub client: Arc<Client>,
    /// When the client's credential expires.
    pub until: Option<SystemTime>,
}

/// Why authentication failed. The message may reach the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no credential.
    #[error(
        "a credential is required: send a key or a token as `Authorization: Bearer …`, or a key as \
         `X-API-Key`"
    )]
    Missing,
    /// The request has several credentials, or an ambiguous one.
    #[error("{0}")]
    Malformed(&'static str),
    /// The credential is unknown or invalid, or has expired.
    #[error("{0}")]
    Invalid(&'static str),
    /// The keys that verify tokens (JWKS) can't be fetched.
    #[error("tokens can't be verified right now; retry later")]
    KeysUnavailable,
}

/// Maximum length of a key or token, in bytes: longer ones are never issued.
const SECRET_LIMIT_BYTES: usize = 16 << 10;

/// Identifies clients by their credentials.
#[derive(Debug)]
pub struct Access {
    settings: AccessSettings,
    clients: ConfiguredClients,
    tls: Option<ServerTls>,
    issuers: Vec<Issuer>,
}

impl Access {
    /// Creates the access rules from settings; `tls` has the CAs that verify client certificates.
    pub fn new(settings: AccessSettings, tls: Option<ServerTls>) -> Self {
        let clients = ConfiguredClients::new(&settings.clients);
        let jwt_settings = settings.server.iter().flat_map(|server| &server.jwt.0);
        let issuers = jwt_settings.map(|jwt| Issuer::new(jwt.clone(), clients.subjects.clone())).collect();
        Self { settings, clients, tls, issuers }
    }

    /// Whether these access rules identify clients in the same way as rules created from `settings` and
    /// `tls`.
    pub fn has_settings(&self, settings: &AccessSettings, tls: Option<&ServerTls>) -> bool {
        let cas = |tls: Option<&ServerTls>| tls.map(|tls| tls.trusted_cas);
        cas(self.tls.as_ref()) == cas(tls) && self.settings == *settings
    }

    /// Identifies the client of a request by its credential. If this starts a JWKS refresh, the log lines of
    /// the refresh have the id of the request.
    ///
    /// # Errors
    ///
    /// [`AuthError`] if the credential is missing, unknown, invalid or expired, or can't be checked.
    pub async fn identify(
        &self,
        credential: &PresentedCredential,
        now: SystemTime,
        request_id: &RequestId,
    ) -> Result<IdentifiedClient, AuthError> {
        let secret = match credential {
            PresentedCredential::Nothing => return Err(AuthError::Missing),
            // The trusted CAs may have changed since TLS verified the certificate of the connection.
            PresentedCredential::Certificate(certificate)
                if self.tls.as_ref().is_some_and(|tls| !tls.trusts(certificate)) =>
            {
                return Err(AuthError::Invalid("the certificate is not signed by a trusted CA"));
            }
            PresentedCredential::Certificate(certificate) => {
                return self.clients.by_certificate(certificate, now);
            }
            PresentedCredential::Secret(secret) => secret,
        };
        let is_in_range = (1..=SECRET_LIMIT_BYTES).contains(&secret.len());
        if !is_in_range || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AuthError::Invalid(
                "the key or token is empty or too long, or has invalid characters",
            ));
        }
        let found = self.clients.by_key(secret, now);
        // A JWT has three parts, separated by dots.
        let looks_like_jwt = secret.bytes().filter(|byte| *byte == b'.').count() == 2;
        if found.is_ok() || self.issuers.is_empty() || !looks_like_jwt {
            return found;
        }
        let cached = |issuer: &Issuer| issuer.cached_client(secret, now, request_id);
        if let Some(found) = self.issuers.iter().find_map(cached) {
            return Ok(found);
        }
        let token = Jws::parse(secret)?;
        let issuer = self.issuers.iter().find(|issuer| issuer.is_named_by(&token));
        let issuer = issuer.ok_or(AuthError::Invalid("the token is from an unknown issuer"))?;
        issuer.identify(secret, &token, now, request_id).await
    }
}
