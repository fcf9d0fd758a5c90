//! Credentials for upstreams.
//!
//! In reading order: [`AuthSettings`] are configured, and a [`CredentialSource`] has the credential for each
//! request; `oauth` requests a token from a server, and `token_cache` caches it until shortly before it
//! expires, or rereads one from a file. [`CredentialError`] is the reason why there is none.
//!
//! A request whose credential can't be had is not sent.

mod oauth;
mod token_cache;

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode, header::InvalidHeaderValue};

use super::{
    Address, AddressError, HttpSettings, HttpUpstream, UpstreamCall, UpstreamError,
    secret_scrubber::SecretScrubber,
};
use crate::telemetry::CallContext;
use token_cache::{TokenCache, TokenFile};

pub use oauth::{AuthStyle, OAuthSettings, TokenUrl};

/// The credential for an upstream, in the header `Authorization`.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthSettings {
    /// A user and a password (RFC 7617).
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Hidden,
    },
    /// A token that stays as it is (RFC 6750).
    Bearer(BearerToken),
    /// A token in a file, which is read again from time to time.
    BearerFile(PathBuf),
    /// A token that a server issues for a client's id and secret (RFC 6749, section 4.4).
    OAuth(Box<OAuthSettings>),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Arc<str>);

/// A token that can stand in a header. It is never shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BearerToken(HeaderValue);

impl Hidden {
    /// From a text that is not to be shown.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hidden(…)")
    }
}

impl BearerToken {
    /// A token, without the word `Bearer` before it.
    ///
    /// # Errors
    ///
    /// When it is empty, or has white space or characters in it that no header has.
    pub fn new(token: &str) -> Result<Self, InvalidHeaderValue> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HeaderValue::from_bytes(b"\n").expect_err("a line break is in no header"));
        }
        secret_header(&format!("Bearer {token}")).map(Self)
    }

    fn credential(&self) -> Credential {
        Credential { value: self.0.clone(), scrubber: SecretScrubber::of(self.text()), number: 0 }
    }

    fn text(&self) -> Option<&str> {
        self.0.to_str().ok()?.strip_prefix("Bearer ")
    }
}

impl AuthSettings {
    /// Its secrets that are sent to the upstream, except those of tokens that are requested later.
    pub(super) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Basic { user: _, password } => vec![password.as_str()],
            Self::Bearer(token) => token.text().into_iter().collect(),
            Self::BearerFile(_) | Self::OAuth(_) => Vec::new(),
        }
    }
}

/// The source of credentials for requests. Clones share it.
#[derive(Debug, Clone)]
pub(super) enum CredentialSource {
    Fixed(Credential),
    File(TokenFile),
    Cached(TokenCache),
}

/// The credential of one request.
#[derive(Debug, Clone)]
pub(super) struct Credential {
    pub(super) value: HeaderValue,
    /// Hides it in responses.
    pub(super) scrubber: SecretScrubber,
    /// Identifies it among those of one source.
    number: u64,
}

impl CredentialSource {
    pub(super) fn new(settings: &AuthSettings) -> Self {
        match settings {
            AuthSettings::Basic { user, password } => {
                let pair = STANDARD.encode(format!("{user}:{}", password.as_str()));
                let value =
                    secret_header(&format!("Basic {pair}")).expect("base64 has ASCII characters only");
                let scrubber = SecretScrubber::of([pair.as_str(), password.as_str()]);
                Self::Fixed(Credential { value, scrubber, number: 0 })
            }
            AuthSettings::Bearer(token) => Self::Fixed(token.credential()),
            AuthSettings::BearerFile(path) => Self::File(TokenFile::new(path.clone())),
            AuthSettings::OAuth(settings) => Self::Cached(oauth::token_cache(settings)),
        }
    }

    /// The credential for a request of a call.
    pub(super) async fn credential(&self, context: &CallContext) -> Result<Credential, Arc<CredentialError>> {
        match self {
            Self::Fixed(credential) => Ok(credential.clone()),
            Self::File(file) => file.credential().await,
            Self::Cached(cache) => cache.credential(context).await,
        }
    }

    /// One in the place of one that the upstream refused, where there is another.
    pub(super) async fn another(
        &self,
        refused: &Credential,
        context: &CallContext,
    ) -> Result<Option<Credential>, Arc<CredentialError>> {
        match self {
            Self::Fixed(_) => Ok(None),
            Self::File(file) => file.another(refused).await,
            Self::Cached(cache) => cache.another(refused, context).await,
        }
    }

    /// Notes that the upstream accepted one.
    pub(super) fn accepted(&self, credential: &Credential) {
        match self {
            Self::Fixed(_) | Self::File(_) => {}
            Self::Cached(cache) => cache.accepted(credential),
        }
    }
}

/// Why there is no credential. For the log; clients learn only that there is none.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The file can't be read.
    #[error("the token file `{path}` can't be read")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file has no token.
    #[error("the token file `{path}` {found}")]
    NoTokenInFile {
        /// Which.
        path: PathBuf,
        /// The error in it, without quoting it.
        found: &'static str,
    },
    /// The token server could not be reached.
    #[error("the token server could not be reached")]
    Unreached(#[source] UpstreamError),
    /// The token server timed out.
    #[error("the token server did not respond within {after:?}")]
    Deadline {
        /// The limit that was hit.
        after: Duration,
    },
    /// The token server refused.
    #[error("the token server refused with status {status} and {code}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The error code of RFC 6749, section 5.2, if there is one; as text.
        code: &'static str,
    },
    /// The token server succeeded without a token.
    #[error("the token server answered {found}")]
    NoToken {
        /// The content of the response, without quoting it.
        found: &'static str,
    },
    /// It failed, and it is not yet time to try again.
    #[error("the next token request is sent in {rest:?}, after {failures} failures")]
    CircuitOpen {
        /// How long yet.
        rest: Duration,
        /// How often it failed since it last gave one.
        failures: u32,
        /// How it failed last.
        #[source]
        source: Arc<Self>,
    },
    /// The task that was to get one ended without a result.
    #[error("what was to get a token has ended without one")]
    Lost,
}

impl CredentialError {
    /// How long no token is requested, if that is so.
    pub fn rest(&self) -> Option<Duration> {
        match self {
            Self::CircuitOpen { rest, .. } => Some(*rest),
            Self::File { .. }
            | Self::NoTokenInFile { .. }
            | Self::Unreached(_)
            | Self::Deadline { .. }
            | Self::Refused { .. }
            | Self::NoToken { .. }
            | Self::Lost => None,
        }
    }
}

fn secret_header(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
