//! `json`: a JSON document, left as the upstream wrote it until somebody looks into it.

use super::Extracted;
use crate::rule::{reading::Reading, why::Why};

/// Reads a JSON document, nested at most [`JSON_DEPTH_LIMIT`](crate::tool::JSON_DEPTH_LIMIT) deep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Json {
    pub(super) fn extract(self, reading: &Reading<'_>) -> Result<Extracted, Why> {
        if reading.text()?.trim().is_empty() {
            return Err("expected JSON, found an empty reply".into());
        }
        reading.checked_json().map(Extracted::Raw)
    }
}
