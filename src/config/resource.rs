//! `resource`: what a route is read by.

use std::time::Duration;

use super::{
    code::Code,
    content::BlockAnnotations,
    extract::media_type,
    keys::READ_AS,
    language,
    node::{Entry, Kind, Node},
    report::Report,
    schemas::UsedArguments,
    section::{self, Section},
    source::Span,
};
use crate::{
    model::Annotations,
    route::{InputSchema, RequestTemplate, ResourceDefinition, UriError, UriTemplate},
};

/// A resource as written.
pub(super) struct ReadAs {
    uri: UriTemplate,
    uri_span: Span,
    media_type: Option<String>,
    size_bytes: Option<u64>,
    annotations: Option<Annotations>,
    watch: Option<(Duration, Span)>,
}

/// Reads `resource`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry, asked: &mut UsedArguments) -> Option<ReadAs> {
    let before = report.errors();
    let help = "write `resource: report://daily/{date}`";
    let read = match &entry.value.kind {
        Kind::Map(_) => {
            let section = Section::open(report, entry.key.span, &entry.value, &READ_AS)?;
            let uri = section.required("uri", "write `uri: report://daily/{date}`");
            let uri = uri.and_then(|node| Some((uri_of(report, node, help)?, node.span)));
            let size = section.size("size").and_then(|size| u64::try_from(size).ok());
            let annotations = section.entry("annotations").and_then(|entry| annotations(report, entry));
            let watch = section
                .duration("poll_interval")
                .zip(section.entry("poll_interval").map(|entry| entry.key.span));
            let media_type = media_type(&section);
            let (uri, uri_span) = uri?;
            if let Some(entry) = section.entry("size").filter(|_| uri.is_template()) {
                let message = "`size` is of one resource, and this is a template of many";
                report.error(Code::ConflictingKeys.at(entry.key.span), message, "leave it out");
            }
            ReadAs { uri, uri_span, media_type, size_bytes: size, annotations, watch }
        }
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => {
            let (uri, uri_span) = (uri_of(report, &entry.value, help)?, entry.value.span);
            ReadAs { uri, uri_span, media_type: None, size_bytes: None, annotations: None, watch: None }
        }
    };
    for name in read.uri.arguments() {
        asked.add(name, false, language::span_of_name(report, read.uri_span, name));
    }
    (report.errors() == before).then_some(read)
}

fn uri_of(report: &Report<'_>, node: &Node, help: &str) -> Option<UriTemplate> {
    let text = section::text_of(report, node, "`resource`")?;
    let parsed = UriTemplate::parse(text.trim());
    let address = parsed.map_err(|error| {
        let span = match &error {
            UriError::Expression(words) | UriError::Name(words) | UriError::Twice(words) => {
                language::span_of_name(report, node.span, words)
            }
            UriError::Scheme(_)
            | UriError::Empty(_)
            | UriError::TooLong { .. }
            | UriError::Character(_)
            | UriError::Percent(_)
            | UriError::Brace(_)
            | UriError::Adjacent(..) => node.span,
        };
        report.error(Code::InvalidValue.at(span), error.to_string(), help);
    });
    address.ok()
}

/// Hints that are known beforehand: there is no reply yet that a template could look at.
fn annotations(report: &Report<'_>, entry: &Entry) -> Option<Annotations> {
    let read: BlockAnnotations = section::read_in_scope(report, entry, &[], &mut UsedArguments::default())?;
    let (annotations, template) = read.into();
    if let (Some(_), Some(node)) = (template, entry.value.get("lastModified")) {
        let help = "write a moment, such as `\"2026-11-21T09:30:00Z\"`, or leave it out";
        report.error(
            Code::NotEvaluated.at(node.span),
            "`lastModified` of a resource takes no template",
            help,
        );
    }
    annotations
}

impl ReadAs {
    /// Holds it against the rest of the route.
    pub(super) fn check(
        &self,
        report: &Report<'_>,
        route: &Section<'_, '_>,
        input: &InputSchema,
        request: &RequestTemplate,
    ) {
        let missing = input.required().filter(|name| !self.uri.arguments().any(|known| known == *name));
        for name in missing {
            report.error(
                Code::ResourceArgument.at(self.uri_span),
                format!("the resource has no `{name}`, which the request needs"),
                format!("put `{{{name}}}` into the URI, or give it a `default` under `input`"),
            );
        }
        let Some((_, span)) = self.watch else { return };
        if route.get("async_operation").is_some() {
            let help = "leave one of the two out";
            report.error(
                Code::ConflictsWithAsyncOperation.at(span),
                "`poll_interval` looks at one reply, and the work of `async_operation` gives several",
                help,
            );
        }
        if !route.flag("idempotent").unwrap_or_else(|| request.is_safe()) {
            report.warning(
                Code::PollsUnsafeRequest.at(span),
                format!("`poll_interval` sends this {} again and again", request.describe()),
                "say `idempotent: true` where that does no harm",
            );
        }
        // Those of `defaults` are for whoever needs them.
        if let Some((_, header)) = route.texts("forward_headers").and_then(|texts| texts.first().copied()) {
            report.warning(
                Code::PollsWithoutClient.at(span),
                format!("`poll_interval` asks without the caller's `{header}`: there is no caller"),
                "put what the upstream needs under its `headers`, or leave `poll_interval` out",
            );
        }
    }

    /// What clients are told of it.
    pub(super) fn definition(
        self,
        name: &str,
        title: Option<&str>,
        description: Option<&str>,
    ) -> ResourceDefinition {
        ResourceDefinition {
            uri: self.uri,
            name: name.to_owned(),
            title: title.map(str::to_owned),
            description: description.map(|text| text.trim_end().to_owned()),
            media_type: self.media_type,
            annotations: self.annotations,
            size_bytes: self.size_bytes,
            watch: self.watch.map(|(interval, _)| interval),
        }
    }
}
