//! Credentials that glossator sends to upstreams.
//!
//! - [`AuthSettings`]: the configured credential.
//! - [`CredentialSource`]: the credential for each request.
//! - `oauth`: requests a token from a server.
//! - `token_cache`: caches a token until shortly before the token expires, or rereads a token from a file.
//! - [`CredentialError`]: the reason why no credential is available, so that the request is not sent.

mod oauth;
mod token_cache;

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode};
use settings_derive::Section;

use super::secret_scrubber::SecretScrubber;
use super::{Address, HttpSettings, HttpUpstream, UpstreamCall, UpstreamError};
use crate::route::UpstreamName;
use crate::settings::suggest::quoted_list;
use crate::settings::{
    Checked, Code, Cursor, Entry, Invalid, OpenSection, Scalar, Section as _, Setting, ValueKind, expansion,
    secret::{self, Hidden},
    text_of,
};
use crate::telemetry::CallContext;
use token_cache::{TokenCache, token_file};

pub use oauth::{EndpointUrl, OAuthSettings};

/// Credential for an upstream, sent in `Authorization`.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthSettings {
    /// User and password (RFC 7617).
    Basic(BasicCredentials),
    /// Fixed bearer token (RFC 6750).
    Bearer(BearerToken),
    /// Token in a file, which is reread from time to time.
    BearerFile(PathBuf),
    /// Token that a server issues for a client id and secret (RFC 6749, section 4.4).
    OAuth(Box<OAuthSettings>),
}

/// The section `credentials`: one of these keys.
#[derive(Section)]
#[section(id = "credentials", check_keys = Self::check_keys, masked)]
pub(crate) struct CredentialsSection {
    /// User name and password (Basic authentication).
    basic: Option<BasicCredentials>,
    /// Bearer token: `${NAME}`, or `file:/path`, which is re-read while in use, so that the token can be
    /// rotated.
    #[key(kind = ValueKind::Text, with = read_bearer, masked)]
    bearer: Option<AuthSettings>,
    /// Token of an OAuth server (client credentials grant).
    oauth: Option<OAuthSettings>,
}

/// User name and password (RFC 7617).
#[derive(Debug, Clone, PartialEq, Section)]
#[section(id = "basic", variables)]
pub struct BasicCredentials {
    /// User name, without a colon.
    #[key(kind = ValueKind::Scalar, file, with = read_user, example = "user: NAME")]
    user: String,
    /// Password: `${NAME}` or `file:/path`.
    #[key(secret, example = "`password: ${NAME}` or `password: file:/run/secrets/NAME`")]
    password: HiddenText,
}

impl CredentialsSection {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let entries = section.value.node.as_map().unwrap_or_default();
        // An unknown key is reported as unknown, not as a second method.
        let mut methods = entries.iter().filter(|entry| Self::keys().get(&entry.key.text).is_some());
        match methods.nth(1) {
            None if entries.is_empty() => {
                let help = format!("write one of {}", quoted_list(Self::keys().names()));
                Err(section.missing("`credentials` has no method".to_owned(), &help))
            }
            None => Ok(()),
            Some(Entry { key, .. }) => {
                let message = format!("only one of these methods can be used, found `{}` as well", key.text);
                let code = Code::ConflictingKeys.at_span(key.span);
                Err(section.reject_at(code, &message, "remove one of the two"))
            }
        }
    }
}

impl Setting for AuthSettings {
    const KIND: ValueKind = CredentialsSection::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let CredentialsSection { basic, bearer, oauth } = CredentialsSection::read(value)?;
        value.checked(basic.map(Self::Basic).or(bearer).or_else(|| Some(Self::OAuth(Box::new(oauth?)))))
    }
}

fn read_user(value: &Cursor<'_>) -> Checked<String> {
    let Scalar(user) = Scalar::read(value)?;
    if user.contains(':') {
        let help = "remove the colon, which separates user and password (RFC 7617, section 2)";
        return value.reject(Invalid::without_value("`user` contains a colon", help));
    }
    Ok(user)
}

fn read_bearer(value: &Cursor<'_>) -> Checked<Option<AuthSettings>> {
    let (context, span) = (value.context, value.node.span);
    let text = text_of(value)?;
    let (file_path, token) = if let Some(path) = text.strip_prefix("file:") {
        // The file is read now only to check it. The HTTP client reads it again for requests.
        let (path, token) = expansion::read_unwatched_file(context, span, path)?;
        (Some(path), token)
    } else {
        let expanded = expansion::expand(context, span, text)?;
        secret::warn_of_inline(context.report, span, "bearer", &expanded);
        (None, expanded.text)
    };
    let Some(bearer) = BearerToken::new(token.trim()) else {
        let help = match token.trim().split_once(' ') {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("bearer") => {
                "remove the word `Bearer`: glossator adds it"
            }
            _ => "remove line breaks and spaces",
        };
        let message = "the token is empty, or contains white space or characters that are not ASCII";
        return value.reject(Invalid::without_value(message, help));
    };
    Ok(Some(file_path.map_or(AuthSettings::Bearer(bearer), AuthSettings::BearerFile)))
}

/// Secret string. `Debug` does not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenText(Hidden<Arc<str>>);

impl Setting for HiddenText {
    const KIND: ValueKind = ValueKind::Scalar;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Scalar(text) = Scalar::read(value)?;
        if text.is_empty() {
            let (message, help) =
                (format!("{} is empty", value.name), "check the variable or file of its value");
            return value.reject(Invalid::without_value(message, help).with_code(Code::EmptyValue));
        }
        Ok(Self(Hidden(text.into())))
    }
}

/// Token that is valid in a header. `Debug` does not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BearerToken(HeaderValue);

impl BearerToken {
    /// Creates a token from its text, without `Bearer`. `None` if the text is empty, or has white space or
    /// characters that are invalid in a header.
    pub fn new(token: &str) -> Option<Self> {
        let is_valid = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(secret_header(&format!("Bearer {token}"))))
    }

    fn credential(&self) -> Credential {
        Credential { value: self.0.clone(), scrubber: SecretScrubber::new(self.text()) }
    }

    fn text(&self) -> Option<&str> {
        self.0.to_str().ok()?.strip_prefix("Bearer ")
    }
}

impl AuthSettings {
    /// Secrets in these settings that are sent to the upstream. Tokens from a file or a token server are not
    /// included.
    pub(super) fn secrets(&self) -> Vec<&str> {
        match self {
            Self::Basic(basic) => vec![&*basic.password.0.0],
            Self::Bearer(token) => token.text().into_iter().collect(),
            Self::BearerFile(_) | Self::OAuth(_) => Vec::new(),
        }
    }
}

/// Source of credentials for requests. Clones share the cached token.
#[derive(Debug, Clone)]
pub(super) enum CredentialSource {
    Fixed(Credential),
    Cached(Arc<TokenCache>),
}

/// Credential of one request.
#[derive(Debug, Clone)]
pub(super) struct Credential {
    pub(super) value: HeaderValue,
    /// Redacts the credential in responses that echo it.
    pub(super) scrubber: SecretScrubber,
}

impl CredentialSource {
    pub(super) fn new(settings: &AuthSettings, upstream: &UpstreamName) -> Self {
        match settings {
            AuthSettings::Basic(BasicCredentials { user, password }) => {
                let password = &*password.0.0;
                let pair = STANDARD.encode(format!("{user}:{password}"));
                let value = secret_header(&format!("Basic {pair}"));
                let scrubber = SecretScrubber::new([pair.as_str(), password]);
                Self::Fixed(Credential { value, scrubber })
            }
            AuthSettings::Bearer(token) => Self::Fixed(token.credential()),
            AuthSettings::BearerFile(path) => Self::Cached(token_file(path.clone(), upstream)),
            AuthSettings::OAuth(settings) => Self::Cached(oauth::token_cache(settings, upstream)),
        }
    }

    /// Returns the credential for a request of a call.
    pub(super) async fn credential(&self, context: &CallContext) -> Result<Credential, Arc<CredentialError>> {
        match self {
            Self::Fixed(credential) => Ok(credential.clone()),
            Self::Cached(cache) => cache.credential(context).await,
        }
    }

    /// Cache of the credential, unless it is fixed.
    pub(super) fn cache(&self) -> Option<&Arc<TokenCache>> {
        let Self::Cached(cache) = self else { return None };
        Some(cache)
    }
}

/// Reason why no credential is available. For the log: clients do not learn the reason.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The token file can't be read, or has no token. The text describes the problem without quoting the
    /// file.
    #[error("{0}")]
    File(String),
    /// The token server could not be reached.
    #[error("the token server could not be reached")]
    Unreached(#[source] UpstreamError),
    /// The token server did not respond within this timeout.
    #[error("the token server did not respond within {0:?}")]
    Timeout(Duration),
    /// The token server rejected the request with this status. The text is the error code (RFC 6749, section
    /// 5.2), or a note that it is missing or unregistered.
    #[error("the token server rejected the request with status {0} and {1}")]
    Rejected(StatusCode, &'static str),
    /// The token server sent a success status without a token. The text describes the problem without quoting
    /// the response.
    #[error("the token server responded {0}")]
    NoToken(&'static str),
    /// A request failed before, and the backoff is not over.
    #[error("the next token request is sent in {retry_after:?}, after {failures} failures")]
    Backoff {
        /// Time until the next request.
        retry_after: Duration,
        /// Consecutive failures.
        failures: u32,
        /// Last failure.
        #[source]
        source: Arc<Self>,
    },
    /// The task that requests the token ended without a result.
    #[error("the token request ended without a token")]
    Lost,
}

impl CredentialError {
    /// Time until the next token request, if it is delayed.
    pub fn backoff(&self) -> Option<Duration> {
        let Self::Backoff { retry_after, .. } = self else { return None };
        Some(*retry_after)
    }
}

/// Creates a sensitive header value from visible ASCII characters.
fn secret_header(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).expect("visible ASCII characters are valid in a header");
    value.set_sensitive(true);
    value
}
