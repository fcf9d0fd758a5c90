//! Who may call: what callers show of themselves, and what they are allowed by it.
//!
//! In reading order: [`AccessSettings`] is what an operator says; [`Access`] takes what a caller has [`Shown`] to the
//! client that it is, or says why not ([`Denied`]); `key` knows API keys by their hashes. [`Resource`] is what clients
//! that know OAuth are told of us (RFC 9728), and how any other is told what is missing (RFC 6750).
//!
//! What is shown is a secret: it is in no error, no log and no `Debug`.

mod key;
mod resource;

use std::{sync::Arc, time::SystemTime};

use crate::{route::Scopes, upstream::Client};

use key::Keys;
pub use key::{KeyHash, NewKey, NotAHash};
pub use resource::{METADATA_PATH, NotAResource, Resource, ResourceUrl};

/// Who may call, as an operator says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// The clients that are known by name.
    pub clients: Vec<ClientSettings>,
    /// What clients that know OAuth are told, where there is a server that gives them tokens.
    pub resource: Option<Resource>,
    /// What most routes need: what a client that shows nothing is told to ask for.
    pub scopes: Scopes,
}

/// One client that is known by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// What operators call it.
    pub name: String,
    /// What it is allowed.
    pub scopes: Scopes,
    /// The keys that it may show, each until its end.
    pub keys: Vec<(KeyHash, Option<SystemTime>)>,
}

/// What a caller shows of itself.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// Nothing.
    Nothing,
    /// A key, or a token.
    Secret(Secret<'a>),
}

/// Something that must not be seen.
#[derive(Clone, Copy)]
pub struct Secret<'a>(pub &'a str);

/// Why a caller is nobody. The text may reach it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It shows nothing.
    #[error("who calls? send a key or a token as `Authorization: Bearer …`, or a key as `X-API-Key`")]
    Unknown,
    /// It shows too much, or in a way that can be read in two ways.
    #[error("{0}")]
    Unclear(&'static str),
    /// What it shows is none of ours, or not any more.
    #[error("{0}")]
    Invalid(&'static str),
}

/// What is longer is nothing that anybody gives to clients.
const SECRET_LIMIT_BYTES: usize = 16 << 10;

impl Secret<'_> {
    /// How it may be spelt: visible ASCII characters.
    fn is_readable(self) -> bool {
        (1..=SECRET_LIMIT_BYTES).contains(&self.0.len()) && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl std::fmt::Debug for Secret<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Tells callers apart.
#[derive(Debug)]
pub struct Access {
    settings: AccessSettings,
    keys: Keys,
}

impl Access {
    /// By these settings.
    pub fn new(settings: AccessSettings) -> Self {
        let keys = Keys::of(&settings.clients);
        Self { settings, keys }
    }

    /// What it goes by.
    pub fn settings(&self) -> &AccessSettings {
        &self.settings
    }

    /// Who a caller is.
    ///
    /// # Errors
    ///
    /// [`Denied`].
    pub async fn identify(&self, shown: Shown<'_>, now: SystemTime) -> Result<Arc<Client>, Denied> {
        match shown {
            Shown::Nothing => Err(Denied::Unknown),
            Shown::Secret(secret) if !secret.is_readable() => {
                Err(Denied::Invalid("the key or token is too long, or has characters that none has"))
            }
            Shown::Secret(secret) => self.keys.find(secret, now),
        }
    }
}
