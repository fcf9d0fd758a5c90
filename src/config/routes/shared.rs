//! Section `defaults`, and the settings that it has in common with routes and upstreams.

use std::time::Duration;

use crate::config::compile::RESPONSE_KIND;
use crate::config::lint::forwarded_credentials::warn_of_forwarded_authorization;
use crate::config::section::ReadElsewhere;
use crate::model::ErrorFormat;
use crate::policy::PolicySettings;
use crate::route::{Envelope, ErrorStatus, Scopes};
use crate::settings::{Checked, Cursor, OpenSection, Section, Setting, ValueKind};
use crate::translate::{SecretPattern, TranslationLimits};
use crate::upstream::http::HttpSettings;
use http::HeaderName;
use serde_json::{Map, Value};

/// Timeout and limits of calls, in `defaults`, at an upstream or at a route.
#[derive(Debug, Clone, Copy, Section)]
#[section(default)]
pub(in crate::config) struct LimitSettings {
    /// Timeout of a call, with queueing and retries.
    #[key(range = 1..=3_600_000, default = Duration::from_secs(30))]
    pub(in crate::config) timeout: Duration,
    #[key(part)]
    pub(in crate::config) translation: TranslationLimits,
}

/// Forms of errors and REST responses, and headers that are forwarded, in `defaults` or at a route.
#[derive(Debug, Clone, Section)]
#[section(default)]
pub(in crate::config) struct ResponseSettings {
    /// Body of REST responses: the tool result (`mcp`), or the structured content alone (`plain`).
    #[key(default = Envelope::Mcp)]
    pub(super) envelope: Envelope,
    /// HTTP status of tool errors for REST clients: by the error (`mapped`), or 200 (`always_200`).
    #[key(default = ErrorStatus::Mapped)]
    pub(super) error_status: ErrorStatus,
    /// Format of tool error texts: the message, or `{"error": "…"}` as JSON.
    #[key(default = ErrorFormat::Text)]
    pub(super) error_format: ErrorFormat,
    /// Regular expressions whose matches are replaced with `[redacted]` in every error; those of a route
    /// are added to those of `defaults`.
    #[key(shown = "none")]
    pub(super) redact: Added<SecretPattern>,
    /// Client headers that are forwarded to upstreams; those of a route are added to those of `defaults`.
    #[key(shown = "none")]
    pub(super) forward_headers: Added<HeaderName>,
}

/// List whose items are added to the inherited items.
#[derive(Debug, Clone)]
pub(in crate::config) struct Added<T>(pub(super) Vec<T>);

impl<T: Setting> Setting for Added<T> {
    const KIND: ValueKind = ValueKind::List(&T::KIND);
    const ABSENT: Option<fn() -> Self> = Some(|| Self(Vec::new()));

    fn read_over(value: &Cursor<'_>, base: Option<Self>) -> Checked<Self> {
        let mut all = base.map(|Self(items)| items).unwrap_or_default();
        all.extend(Vec::read(value)?);
        Ok(Self(all))
    }
}

/// Section `defaults`.
#[derive(Debug, Clone, Section)]
#[section(id = "defaults", default, check_keys = Self::check_keys)]
pub(in crate::config) struct DefaultSettings {
    #[key(part)]
    pub(in crate::config) limits: LimitSettings,
    /// Timeout of connecting to an upstream.
    #[key(range = 1..=3_600_000, default = HttpSettings::CONNECT_TIMEOUT_DEFAULT)]
    pub(in crate::config) connect_timeout: Duration,
    #[key(part)]
    pub(super) responses: ResponseSettings,
    #[key(part)]
    pub(in crate::config) policies: PolicySettings,
    /// Rules that every route tries after its own.
    #[key(kind = RESPONSE_KIND)]
    response: ReadElsewhere,
    /// Scopes that a client needs for routes and prompts. Default: none; every authenticated client is
    /// authorized.
    pub(in crate::config) scopes: Scopes,
}

impl DefaultSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        warn_of_forwarded_authorization(section);
        Ok(())
    }
}

/// Section `annotations` of a tool: hints for clients.
#[derive(Section)]
#[section(id = "annotations")]
pub(in crate::config) struct AnnotationSettings {
    /// Display name.
    title: Option<String>,
    /// The tool modifies nothing.
    #[key(name = "readOnlyHint")]
    read_only: Option<bool>,
    /// The tool may overwrite or delete data.
    #[key(name = "destructiveHint")]
    destructive: Option<bool>,
    /// A repeated call with the same arguments has no further effect.
    #[key(name = "idempotentHint")]
    idempotent: Option<bool>,
    /// The tool interacts with an open set of external entities, such as the web.
    #[key(name = "openWorldHint")]
    open_world: Option<bool>,
}

impl AnnotationSettings {
    /// Whether MCP defines a hint with this name.
    pub(in crate::config) fn has(name: &str) -> bool {
        Self::keys().get(name).is_some()
    }

    /// Parses annotations; returns the hints that are sent to clients.
    pub(super) fn read_hints(value: &Cursor<'_>) -> Checked<Option<Map<String, Value>>> {
        Self::read(value)?;
        let hint = |name: &str| Some((name.to_owned(), value.node.get(name)?.to_json()));
        Ok(Some(Self::keys().names().filter_map(hint).collect()))
    }
}
