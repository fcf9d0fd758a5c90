//! What routes take where nothing is said.

use std::time::Duration;

use http::HeaderName;

use crate::{
    model::ErrorFormat,
    route::{Envelope, ErrorStatus, Scopes},
    translate::{Redaction, TranslationLimits},
};

/// What routes take where they and their upstream say nothing.
#[derive(Debug, Clone)]
pub(in crate::config) struct RouteDefaults {
    pub(in crate::config) timeout: Duration,
    pub(in crate::config) response_limit_bytes: usize,
    pub(in crate::config) max_values: usize,
    pub(in crate::config) error_text_bytes: usize,
    pub(in crate::config) envelope: Envelope,
    pub(in crate::config) error_status: ErrorStatus,
    pub(in crate::config) error_format: ErrorFormat,
    pub(in crate::config) redaction: Redaction,
    pub(in crate::config) forward_headers: Vec<HeaderName>,
    pub(in crate::config) scopes: Scopes,
}

impl Default for RouteDefaults {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            response_limit_bytes: TranslationLimits::DEFAULT_RESPONSE_BYTES,
            max_values: TranslationLimits::DEFAULT_VALUES,
            error_text_bytes: TranslationLimits::DEFAULT_ERROR_TEXT_BYTES,
            envelope: Envelope::Mcp,
            error_status: ErrorStatus::Mapped,
            error_format: ErrorFormat::Text,
            redaction: Redaction::default(),
            forward_headers: Vec::new(),
            scopes: Scopes::default(),
        }
    }
}
