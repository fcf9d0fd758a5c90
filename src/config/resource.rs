//! `resource`: the MCP resource of a route.

use std::time::Duration;

use super::content::BlockAnnotations;
use super::lint::no_effect::forwarded;
use super::schemas::UsedArguments;
use super::section::read_in_scope;
use crate::model::Annotations;
use crate::route::{InputSchema, RequestTemplate, ResourceDefinition, UriTemplate};
use crate::settings::{
    Checked, Code, Cursor, Entry, Invalid, Node, OpenSection, Report, Section, Setting, SourceSpan,
    ValueKind, text_of,
};
use crate::translate::expressions;
use crate::translate::extract::read_media_type;

/// The section `resource` of a route.
#[derive(Section)]
#[section(name = "`resource` of a route", id = "read_as", text = "uri", check_keys = Self::check_size)]
pub(super) struct RouteResourceSettings {
    /// URI of the resource, or a URI template with arguments as `{name}`.
    #[key(example = "uri: report://daily/{date}")]
    uri: (UriTemplate, SourceSpan),
    /// Media type; that of the response when absent.
    #[key(with = read_media_type)]
    media_type: Option<String>,
    /// Size in bytes, if known in advance.
    #[key(size = 0..=1 << 50)]
    size: Option<u64>,
    /// Hints for clients.
    annotations: Option<ResourceAnnotations>,
    /// Interval in which the upstream is polled for changes while a client is subscribed.
    #[key(range = 100..=24 * 3_600_000, shown = "never; clients can't subscribe")]
    poll_interval: Option<Duration>,
}

/// Parses `resource`. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    entry: &Entry,
    used: &mut UsedArguments,
) -> Option<RouteResourceSettings> {
    // Annotations are sent in the resource list, before any response that a template could use.
    let settings: RouteResourceSettings = read_in_scope(report, entry, &[], &mut UsedArguments::default())?;
    let (uri, span) = &settings.uri;
    for name in uri.arguments() {
        used.add(name, false, expressions::span_of_name(report, *span, name));
    }
    Some(settings)
}

impl Setting for UriTemplate {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Self::parse(text_of(value)?.trim()).or_else(|error| {
            let span_of =
                |name: &String| expressions::span_of_name(value.context.report, value.node.span, name);
            let span = error.argument.as_ref().map_or(value.node.span, span_of);
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
            return value.reject_coded(Code::NotEvaluated.at_span(node.span), message, help);
        }
        Ok(Self(annotations))
    }
}

impl RouteResourceSettings {
    fn check_size(section: &OpenSection<'_>) -> Checked<()> {
        let uri = section.get("uri").and_then(Node::as_text).map(|text| UriTemplate::parse(text.trim()));
        let is_template = uri.is_some_and(|uri| uri.is_ok_and(|uri| uri.is_template()));
        let Some(entry) = section.entry("size").filter(|_| is_template) else { return Ok(()) };
        let message = "`size` has no effect with a URI template, which matches many resources";
        Err(section.reject_at(Code::ConflictingKeys.at_span(entry.key.span), message, "remove it"))
    }

    /// Checks the resource against the rest of the route.
    pub(super) fn check(
        &self,
        route: &OpenSection<'_>,
        input: &InputSchema,
        request: &RequestTemplate,
        idempotent: Option<bool>,
    ) {
        let report = route.value.context.report;
        let (uri, uri_span) = &self.uri;
        for name in input.required().filter(|name| !uri.arguments().any(|known| known == *name)) {
            let message = format!("the URI has no argument `{name}`, which the request needs");
            let help = format!("add `{{{name}}}` to the URI, or a `default` under `input`");
            report.error(Code::ResourceArgument.at_span(*uri_span), message, help);
        }
        let poll_interval = route.get("resource").and_then(|resource| resource.entry("poll_interval"));
        let Some(span) = poll_interval.map(|entry| entry.key.span) else { return };
        if route.entry("async_operation").is_some() {
            let at = Code::ConflictsWithAsyncOperation.at_span(span);
            let message =
                "`poll_interval` can't be combined with `async_operation`, which has several responses";
            report.error(at, message, "remove one of the two");
        }
        if !idempotent.unwrap_or_else(|| request.effect().is_none()) {
            let message =
                format!("`poll_interval` repeats this {}, which may have effects", request.describe());
            let help = "add `idempotent: true` if that is safe";
            report.warning(Code::PollsUnsafeRequest.at_span(span), message, help);
        }
        // `forward_headers` of `defaults` are for all routes, so they give no warning here.
        if let Some(header) = forwarded(route).first().and_then(Node::as_text) {
            let message =
                format!("`poll_interval` sends the request without `{header}`: a poll has no client");
            let help = "add the header to `headers` of the upstream, or remove `poll_interval`";
            report.warning(Code::PollsWithoutClient.at_span(span), message, help);
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
            uri: self.uri.0,
            name: name.to_owned(),
            title,
            description,
            media_type: self.media_type,
            annotations: self.annotations.and_then(|ResourceAnnotations(annotations)| annotations),
            size_bytes: self.size,
            watch: self.poll_interval,
        }
    }
}
