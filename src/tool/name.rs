//! The name of a tool.

use std::{fmt, str::FromStr, sync::Arc};

/// The name a client calls a tool by.
///
/// 1 to 128 bytes of ASCII letters, digits, `_`, `-` and `.`; case matters (MCP 2026-07-28, Tools, "Tool
/// Names"). `FromStr` is the only way in, so no one checks again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Arc<str>);

/// Why a text is not a tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolNameError {
    /// No characters at all.
    #[error("a tool name is empty")]
    Empty,
    /// More than 128 bytes.
    #[error("a tool name has {found} bytes, at most {} are allowed", ToolName::MAX_BYTES)]
    TooLong {
        /// How many bytes it has.
        found: usize,
    },
    /// A character that some client refuses.
    #[error("a tool name has `{found}` in it; only ASCII letters, digits, `_`, `-` and `.` are allowed")]
    Character {
        /// The first such character.
        found: char,
    },
}

impl ToolName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl FromStr for ToolName {
    type Err = ToolNameError;

    fn from_str(text: &str) -> Result<Self, ToolNameError> {
        if text.is_empty() {
            return Err(ToolNameError::Empty);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(ToolNameError::TooLong { found: text.len() });
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))) {
            Some(found) => Err(ToolNameError::Character { found }),
            None => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Lets a map keyed by names be asked with a text.
impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_and_three_marks_make_a_name() {
        assert_eq!("admin.tools-list_2".parse::<ToolName>().unwrap().as_str(), "admin.tools-list_2");
    }

    #[test]
    fn what_is_wrong_with_a_name_is_said() {
        assert_eq!("".parse::<ToolName>(), Err(ToolNameError::Empty));
        assert_eq!("a b".parse::<ToolName>(), Err(ToolNameError::Character { found: ' ' }));
        assert_eq!("x".repeat(129).parse::<ToolName>(), Err(ToolNameError::TooLong { found: 129 }));
    }
}
