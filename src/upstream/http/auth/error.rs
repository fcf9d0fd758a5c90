//! Why there is no credential.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use http::StatusCode;

use super::UpstreamError;

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
    /// The file can be read, and has no token.
    #[error("the token file `{path}` {found}")]
    NoTokenInFile {
        /// Which.
        path: PathBuf,
        /// What is in it, without saying it.
        found: &'static str,
    },
    /// The token server could not be asked.
    #[error("the token server could not be asked")]
    Unreached(#[source] UpstreamError),
    /// The token server took too long.
    #[error("the token server gave no answer within {after:?}")]
    Deadline {
        /// The limit that was hit.
        after: Duration,
    },
    /// The token server gave none.
    #[error("the token server refused with status {status} and {code}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The code of RFC 6749, section 5.2, where it named one; in words.
        code: &'static str,
    },
    /// The token server said yes, and gave none.
    #[error("the token server answered {found}")]
    NoToken {
        /// What it answered, without saying it.
        found: &'static str,
    },
    /// It failed, and it is not yet time to try again.
    #[error("the token server is asked again in {rest:?}, after {failures} failures")]
    Resting {
        /// How long yet.
        rest: Duration,
        /// How often it failed since it last gave one.
        failures: u32,
        /// How it failed last.
        #[source]
        source: Arc<Self>,
    },
    /// What was to get one ended without saying why.
    #[error("what was to get a token has ended without one")]
    Lost,
}

impl CredentialError {
    /// How long nobody asks for one yet, where that is known.
    pub fn rest(&self) -> Option<Duration> {
        match self {
            Self::Resting { rest, .. } => Some(*rest),
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
