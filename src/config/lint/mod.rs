//! Lints: checks that involve several sections, one file for each subject.
//!
//! [`check_conflicts`] finds routes that match the same request. `no_effect` checks the settings of routes,
//! `upstreams` the use of upstreams and the settings of the process, `templates` those of prompts and request
//! bodies. `output_schema` compares rules with a tool's output schema. `schemas` finds parts of JSON Schemas
//! that clients reject.
//!
//! Each kind of problem has its [code](crate::settings::code::Code) with a paragraph on why it matters.

pub(super) mod no_effect;
pub(super) mod output_schema;
pub(super) mod schemas;
pub(super) mod templates;
pub(super) mod upstreams;

use std::sync::Arc;

use super::routes::RouteFile;
use crate::route::{Conflict, RouteTable};
use crate::settings::{Code, Report, SourceSpan};

/// Reports routes that match the same request, at the later of the two.
pub(super) fn check_conflicts(report: &Report<'_>, routes: &[RouteFile]) {
    let mut left: Vec<&RouteFile> = routes.iter().collect();
    while let Err(conflict) = RouteTable::new(left.iter().map(|file| Arc::clone(&file.route)).collect()) {
        let (Conflict::Tool { tool } | Conflict::Endpoint { tool, .. } | Conflict::Resource { tool, .. }) =
            &conflict;
        let Some(index) = left.iter().position(|file| file.route.definition.name == *tool) else { return };
        let file = left.remove(index);
        let (span, message, help) = match &conflict {
            Conflict::Resource { uri, with, .. } => {
                let other = left.iter().find(|other| other.route.definition.name == *with);
                let place = other.map(|other| report.file_and_line(resource_span(other))).unwrap_or_default();
                let message =
                    format!("duplicate resource URI `{uri}`: also used by route `{with}` at {place}");
                (resource_span(file), message, "change one of the two URIs")
            }
            Conflict::Tool { .. } | Conflict::Endpoint { .. } => {
                let (message, help) = endpoint_conflict(report, &left, file, &conflict)
                    .unwrap_or_else(|| (conflict.to_string(), "change the name or path of one"));
                (rest_span(file), message, help)
            }
        };
        report.error(Code::ConflictingRoutes.at_span(span), message, help);
    }
}

/// Message and help about an endpoint that the earliest of the other routes has, too.
fn endpoint_conflict(
    report: &Report<'_>,
    others: &[&RouteFile],
    file: &RouteFile,
    conflict: &Conflict,
) -> Option<(String, &'static str)> {
    let Conflict::Endpoint { method, path, .. } = conflict else { return None };
    let with_shape = others.iter().filter(|other| shape(other) == shape(file));
    let other = with_shape.min_by_key(|other| (other.name_span.file, other.name_span.start))?;
    let place = report.file_and_line(rest_span(other));
    let whose = format!("the route `{}`, at {place}", other.route.definition.name);
    let has_same_method = other.route.rest.as_ref().is_some_and(|rest| rest.method == *method);
    let (message, help) = if has_same_method {
        (format!("`{method} {path}` is also the endpoint of {whose}"), "change the path or method of one")
    } else {
        let message = format!("`{path}` has other argument names than the same path of {whose}");
        (message, "use the same argument names in both")
    };
    Some((message, help))
}

fn rest_span(file: &RouteFile) -> SourceSpan {
    file.rest_span.unwrap_or(file.name_span)
}

fn resource_span(file: &RouteFile) -> SourceSpan {
    file.resource_span.unwrap_or(file.name_span)
}

/// Path of a route's endpoint with the names of arguments removed.
fn shape(file: &RouteFile) -> Option<String> {
    let path = &file.route.rest.as_ref()?.path;
    let segments: Vec<&str> =
        path.split('/').map(|segment| if segment.contains('{') { "{}" } else { segment }).collect();
    Some(segments.join("/"))
}
