//! The name of an upstream.

use std::{fmt, str::FromStr, sync::Arc};

/// What a route calls a legacy server by: letters, digits, `_` and `-`, at most 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamName(Arc<str>);

/// A text that is no upstream's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name for an upstream: 1 to 64 ASCII letters, digits, `_` or `-` are")]
pub struct UpstreamNameError(String);

impl UpstreamName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl FromStr for UpstreamName {
    type Err = UpstreamNameError;

    fn from_str(text: &str) -> Result<Self, UpstreamNameError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=64).contains(&text.len()) && text.bytes().all(good) {
            Ok(Self(text.into()))
        } else {
            Err(UpstreamNameError(text.to_owned()))
        }
    }
}

impl fmt::Display for UpstreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
