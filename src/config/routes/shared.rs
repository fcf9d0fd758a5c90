//! The keys that a route has in common with `defaults`.

use crate::settings::code::Code;
use http::HeaderName;

use super::RouteDefaults;
use crate::{
    config::{language, section::Section, upstreams::header_name},
    model::ErrorFormat,
    route::{Envelope, ErrorStatus},
    translate::{Redaction, SecretPattern, SecretPatternError},
};

/// `envelope` of a route or of `defaults`.
pub(in crate::config) fn envelope(section: &Section<'_, '_>) -> Option<Envelope> {
    section.word("envelope").map(|word| if word == "plain" { Envelope::Plain } else { Envelope::Mcp })
}

/// `error_status` of a route or of `defaults`.
pub(in crate::config) fn error_status(section: &Section<'_, '_>) -> Option<ErrorStatus> {
    section
        .word("error_status")
        .map(|word| if word == "always_200" { ErrorStatus::Always200 } else { ErrorStatus::Mapped })
}

/// `error_format` of a route or of `defaults`.
pub(in crate::config) fn error_format(section: &Section<'_, '_>) -> Option<ErrorFormat> {
    section
        .word("error_format")
        .map(|word| if word == "json" { ErrorFormat::Json } else { ErrorFormat::Text })
}

/// `redact` of a route or of `defaults`: what no error may tell.
pub(in crate::config) fn redaction(section: &Section<'_, '_>) -> Redaction {
    let report = section.report;
    let texts = section.texts("redact").unwrap_or_default();
    let patterns = texts.into_iter().filter_map(|(node, _)| {
        let pattern = language::pattern(report, node, "a pattern of `redact`")?;
        let secret = SecretPattern::new(&pattern).map_err(|error| {
            let (span, help) = match &error {
                SecretPatternError::MatchesEmpty => {
                    (node.span, "write `+` for `*`, so that there is something to replace")
                }
                SecretPatternError::Capture(name) => (
                    language::span_of_name(report, node.span, name),
                    "`(?<secret>…)` is the part to replace, where it is not the whole match",
                ),
            };
            report.error(
                Code::InvalidPattern.at(span),
                format!("`redact` can't use this pattern: {error}"),
                help,
            );
        });
        secret.ok()
    });
    Redaction::new(patterns.collect())
}

/// Names of headers of the caller that may cross.
pub(in crate::config) fn headers(section: &Section<'_, '_>, name: &'static str) -> Vec<HeaderName> {
    let texts = section.texts(name).unwrap_or_default();
    texts.into_iter().filter_map(|(node, text)| header_name(section.report, text, node.span)).collect()
}

/// The same for a route, after those of `defaults`.
pub(super) fn forwarded(section: &Section<'_, '_>, defaults: &RouteDefaults) -> Vec<HeaderName> {
    let mut names = defaults.forward_headers.clone();
    for name in headers(section, "forward_headers") {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
