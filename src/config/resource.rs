//! `resource`: the MCP resource of a route.

use std::time::Duration;

use settings_derive::Section as DeriveSection;

use super::{
    code::Code,
    content::BlockAnnotations,
    language,
    lint::no_effect::forwarded,
    report::Report,
    schemas::UsedArguments,
    section::{cursor, in_scope},
    source::SourceSpan,
    tree::{Entry, Node},
};
use crate::{
    model::Annotations,
    route::{InputSchema, RequestTemplate, ResourceDefinition, UriError, UriTemplate},
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, OpenSection, Setting},
        value::text_of,
    },
    translate::extract::MediaType,
};

/// Kinds of values that `resource` accepts.
pub(super) const KIND: ValueKind = RouteResourceSettings::KIND;

/// The section `resource` of a route.
#[derive(DeriveSection)]
#[section(name = "`resource` of a route", id = "read_as", text = "uri", check_keys = Self::check_size)]
pub(super) struct RouteResourceSettings {
    /// URI of the resource, or a URI template with arguments as `{name}`.
    #[key(example = "uri: report://daily/{date}")]
    uri: UriTemplate,
    /// Media type; that of the response when absent.
    media_type: Option<MediaType>,
    /// Size in bytes, if known in advance.
    #[key(size = 0..=1 << 50)]
    size: Option<u64>,
    /// Hints for clients.
    annotations: Option<ResourceAnnotations>,
    /// Interval in which the upstream is polled for changes while a client is subscribed.
    #[key(range = 100..=24 * 3_600_000, shown = "never; clients can't subscribe")]
    poll_interval: Option<Duration>,
}

/// Resource, with the spans for later checks.
pub(super) struct RouteResource {
    settings: RouteResourceSettings,
    uri_span: SourceSpan,
    poll_span: Option<SourceSpan>,
}

/// Parses `resource`. Returns `None` after reporting the problems.
pub(super) fn read(report: &Report<'_>, entry: &Entry, used: &mut UsedArguments) -> Option<RouteResource> {
    let value = cursor(report, entry.key.span, &entry.value, "`resource`", KIND);
    // Annotations are sent in the resource list, before any response that a template could use.
    let settings = in_scope(&[], &mut UsedArguments::default(), |scope| {
        RouteResourceSettings::read(&value.in_scope(scope))
    })?;
    let uri_span = entry.value.get("uri").unwrap_or(&entry.value).span;
    for name in settings.uri.arguments() {
        used.add(name, false, language::span_of_name(report, uri_span, name));
    }
    let poll_span = entry.value.entry("poll_interval").map(|entry| entry.key.span);
    Some(RouteResource { settings, uri_span, poll_span })
}

impl Setting for UriTemplate {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Self::parse(text_of(value)?.trim()).or_else(|error| {
            let span = match &error {
                UriError::Expression(words) | UriError::Name(words) | UriError::Twice(words) => {
                    language::span_of_name(value.context.report, value.node.span, words)
                }
                UriError::Scheme(_)
                | UriError::Empty(_)
                | UriError::TooLong { .. }
                | UriError::Character(_)
                | UriError::Percent(_)
                | UriError::Brace(_)
                | UriError::Adjacent(..) => value.node.span,
            };
            let help = "write `resource: report://daily/{date}`";
            value.reject_at(span, Invalid::new(error.to_string(), help))
        })
    }
}

/// Annotations without templates.
struct ResourceAnnotations(Option<Annotations>);

impl Setting for ResourceAnnotations {
    const KIND: ValueKind = BlockAnnotations::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let (annotations, template) = BlockAnnotations::read(value)?.into();
        if let (Some(_), Some(node)) = (template, value.node.get("lastModified")) {
            let help = "write a timestamp, such as `\"2026-11-21T09:30:00Z\"`, or remove it";
            let message = "`lastModified` of a resource can't be a template";
            return value.reject_at(node.span, Invalid::new(message, help).with_code(Code::NotEvaluated));
        }
        Ok(Self(annotations))
    }
}

impl RouteResourceSettings {
    fn check_size(section: &OpenSection<'_>) -> Checked<()> {
        let uri = section.get("uri").and_then(Node::as_text).map(|text| UriTemplate::parse(text.trim()));
        match section.entry("size").filter(|_| uri.is_some_and(|uri| uri.is_ok_and(|uri| uri.is_template())))
        {
            Some(entry) => {
                let message = "`size` has no effect with a URI template, which matches many resources";
                Err(section.reject_at(Code::ConflictingKeys.at_span(entry.key.span), message, "remove it"))
            }
            None => Ok(()),
        }
    }
}

impl RouteResource {
    /// Checks the resource against the rest of the route.
    pub(super) fn check(
        &self,
        route: &OpenSection<'_>,
        input: &InputSchema,
        request: &RequestTemplate,
        idempotent: Option<bool>,
    ) {
        let report = route.value.context.report;
        let missing =
            input.required().filter(|name| !self.settings.uri.arguments().any(|known| known == *name));
        for name in missing {
            report.error(
                Code::ResourceArgument.at_span(self.uri_span),
                format!("the URI has no argument `{name}`, which the request needs"),
                format!("add `{{{name}}}` to the URI, or a `default` under `input`"),
            );
        }
        let Some(span) = self.poll_span else { return };
        if route.entry("async_operation").is_some() {
            let help = "remove one of the two";
            report.error(
                Code::ConflictsWithAsyncOperation.at_span(span),
                "`poll_interval` can't be combined with `async_operation`, which has several responses",
                help,
            );
        }
        if !idempotent.unwrap_or_else(|| request.effect().is_none()) {
            report.warning(
                Code::PollsUnsafeRequest.at_span(span),
                format!("`poll_interval` repeats this {}, which may have effects", request.describe()),
                "add `idempotent: true` if that is safe",
            );
        }
        // `forward_headers` of `defaults` are for all routes, so they give no warning here.
        if let Some(header) = forwarded(route).first().and_then(Node::as_text) {
            report.warning(
                Code::PollsWithoutClient.at_span(span),
                format!("`poll_interval` sends the request without `{header}`: a poll has no client"),
                "add the header to `headers` of the upstream, or remove `poll_interval`",
            );
        }
    }

    /// Resource definition that is sent to clients.
    pub(super) fn definition(
        self,
        name: &str,
        title: Option<String>,
        description: Option<String>,
    ) -> ResourceDefinition {
        ResourceDefinition {
            uri: self.settings.uri,
            name: name.to_owned(),
            title,
            description,
            media_type: self.settings.media_type.map(|MediaType(text)| text),
            annotations: self.settings.annotations.and_then(|ResourceAnnotations(annotations)| annotations),
            size_bytes: self.settings.size,
            watch: self.settings.poll_interval,
        }
    }
}
