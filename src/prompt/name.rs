//! The name of a prompt.

use std::{fmt, str::FromStr};

use crate::model::{ToolName, ToolNameError};

/// The name a client asks for a prompt by. It is written as a tool's is: the specification leaves it open, and clients
/// that make a command of it want letters, digits and few marks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PromptName(ToolName);

/// Why a text is not a prompt name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a prompt is named as a tool is, and {0}")]
pub struct PromptNameError(ToolNameError);

impl PromptName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for PromptName {
    type Err = PromptNameError;

    fn from_str(text: &str) -> Result<Self, PromptNameError> {
        text.parse().map(Self).map_err(PromptNameError)
    }
}

impl fmt::Display for PromptName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Lets a map keyed by names be asked with a text.
impl std::borrow::Borrow<str> for PromptName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}
