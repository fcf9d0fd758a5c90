//! `text`: the whole text as one string.

use bytestring::ByteString;

use super::Extracted;
use crate::rule::{reading::Reading, why::Why};

/// Reads the whole text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text {
    /// Whether white space at both ends is left out.
    pub trim: bool,
}

impl Text {
    pub(super) fn extract(self, reading: &Reading<'_>) -> Result<Extracted, Why> {
        let whole = reading.shared_text()?;
        if !self.trim {
            return Ok(Extracted::Text(whole.clone()));
        }
        let text = reading.text()?.trim();
        // An empty slice may lie anywhere, which `slice_ref` does not take.
        Ok(Extracted::Text(if text.is_empty() { ByteString::new() } else { whole.slice_ref(text) }))
    }
}
