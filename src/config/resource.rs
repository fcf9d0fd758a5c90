//! `resource`: the MCP resource of a route. [`ResourceDefinition`] declares the keys.

use super::lint::forwarded_credentials::forwarded;
use super::request::{add_argument, span_of};
use super::section::is_template;
use crate::model::Annotations;
use crate::route::{InputSchema, RequestTemplate, ResourceDefinition, UriTemplate};
use crate::settings::{Checked, Code, Cursor, Invalid, Node, OpenSection, Setting, ValueKind, text_of};
use crate::translate::AnnotationsTemplate;

impl Setting for UriTemplate {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let uri = Self::parse(text_of(value)?.trim()).or_else(|error| {
            let span = error.argument.as_ref().map_or(value.node.span, |name| span_of(value, name));
            let help = "write `resource: report://daily/{date}`";
            value.reject_at(span, Invalid::new(error.to_string(), help))
        })?;
        uri.arguments().for_each(|name| add_argument(value, name, false));
        Ok(uri)
    }
}

/// Annotations of a resource must not be templates, because they are sent in the resource list, before there
/// is a response.
impl Setting for Annotations {
    const KIND: ValueKind = AnnotationsTemplate::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let annotations = AnnotationsTemplate::read(value)?;
        let last_modified = value.node.get("lastModified");
        let is_template = |node: &&Node| node.as_text().is_some_and(is_template);
        if let Some(node) = last_modified.filter(is_template) {
            let help = "write a timestamp, such as `\"2026-11-21T09:30:00Z\"`, or remove it";
            let message = "`lastModified` of a resource can't be a template";
            return value.reject_coded(Code::NotEvaluated.at_span(node.span), message, help);
        }
        annotations.render(|template| Ok(template.source().to_owned())).map(Option::unwrap_or_default)
    }
}

/// Checks a resource against its route: the arguments of the URI, and `poll_interval`.
pub(super) fn check(
    resource: &ResourceDefinition,
    route: &OpenSection<'_>,
    input: &InputSchema,
    request: &RequestTemplate,
    idempotent: Option<bool>,
) {
    let Some(node) = route.get("resource") else { return };
    let (report, uri) = (route.report(), &resource.uri);
    let uri_span = node.get("uri").unwrap_or(node).span;
    for name in input.required().filter(|name| !uri.arguments().any(|known| known == *name)) {
        let message = format!("the URI has no argument `{name}`, which the request needs");
        let help = format!("add `{{{name}}}` to the URI, or a `default` under `input`");
        report.error(Code::ResourceArgument.at_span(uri_span), message, help);
    }
    let Some(span) = node.entry("poll_interval").map(|entry| entry.key.span) else { return };
    if route.entry("async_operation").is_some() {
        let at = Code::ConflictsWithAsyncOperation.at_span(span);
        let message = "`poll_interval` can't be combined with `async_operation`, which has several responses";
        report.error(at, message, "remove one of the two");
    }
    if !idempotent.unwrap_or_else(|| request.effect().is_read_only) {
        let message = format!("`poll_interval` repeats this {}, which may have effects", request.describe());
        let help = "add `idempotent: true` if that is safe";
        report.warning(Code::PollsUnsafeRequest.at_span(span), message, help);
    }
    // Inherited `forward_headers` of `defaults` cause no warning, because they are not specific to this
    // route.
    if let Some(header) = forwarded(route).first().and_then(Node::as_text) {
        let message = format!("`poll_interval` sends the request without `{header}`: a poll has no client");
        let help = "add the header to `headers` of the upstream, or remove `poll_interval`";
        report.warning(Code::PollsWithoutClient.at_span(span), message, help);
    }
}
