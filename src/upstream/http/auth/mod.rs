//! How an upstream is told who asks.
//!
//! In reading order: [`AuthSettings`] is what an operator says, and `Auth` what has it ready for each request;
//! `file` reads a token again and again, `oauth` asks a server for one, `tokens` keeps it until shortly before its end
//! and asks for the next one once, however many wait for it. [`CredentialError`] says why there is none.
//!
//! A request whose credential can't be had is not sent.

mod error;
mod file;
mod oauth;
mod tokens;

use std::{fmt, path::PathBuf, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, header::InvalidHeaderValue};

use super::{
    Address, AddressError, Ask, HttpSettings, HttpUpstream, UpstreamError, secret_scrubber::SecretScrubber,
};
use crate::telemetry::Ticket;
use file::TokenFile;
use tokens::Tokens;

pub use error::CredentialError;
pub use oauth::{AuthStyle, OAuthSettings, TokenUrl};

/// How an upstream is told who asks, in the header `Authorization`.
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
    /// A token in a file, which is read again while it is used.
    BearerFile(PathBuf),
    /// A token that a server gives for a client's name and secret (RFC 6749, section 4.4).
    OAuth(Box<OAuthSettings>),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Arc<str>);

/// A token that can stand in a header. It is never shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BearerToken(HeaderValue);

impl Hidden {
    /// A text that is not to be shown.
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
    /// What the upstream is sent of it, as far as that is known beforehand.
    pub(super) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Basic { user: _, password } => vec![password.as_str()],
            Self::Bearer(token) => token.text().into_iter().collect(),
            Self::BearerFile(_) | Self::OAuth(_) => Vec::new(),
        }
    }
}

/// Has a credential ready for each request. Clones share it.
#[derive(Debug, Clone)]
pub(super) enum Auth {
    Fixed(Credential),
    File(TokenFile),
    Tokens(Tokens),
}

/// What one request says of who sends it.
#[derive(Debug, Clone)]
pub(super) struct Credential {
    pub(super) value: HeaderValue,
    /// Hides it in what comes back.
    pub(super) scrubber: SecretScrubber,
    /// Tells it from those before and after it.
    number: u64,
}

impl Auth {
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
            AuthSettings::OAuth(settings) => Self::Tokens(oauth::tokens(settings)),
        }
    }

    /// What the next request takes; of which call that is, the log says.
    pub(super) async fn credential(&self, ticket: &Ticket) -> Result<Credential, Arc<CredentialError>> {
        match self {
            Self::Fixed(credential) => Ok(credential.clone()),
            Self::File(file) => file.credential().await,
            Self::Tokens(tokens) => tokens.credential(ticket).await,
        }
    }

    /// One in the place of one that the upstream refused, where there is another.
    pub(super) async fn another(
        &self,
        refused: &Credential,
        ticket: &Ticket,
    ) -> Result<Option<Credential>, Arc<CredentialError>> {
        match self {
            Self::Fixed(_) => Ok(None),
            Self::File(file) => file.another(refused).await,
            Self::Tokens(tokens) => tokens.another(refused, ticket).await,
        }
    }

    /// Learns that the upstream took one.
    pub(super) fn taken(&self, credential: &Credential) {
        match self {
            Self::Fixed(_) | Self::File(_) => {}
            Self::Tokens(tokens) => tokens.taken(credential),
        }
    }
}

fn secret_header(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
