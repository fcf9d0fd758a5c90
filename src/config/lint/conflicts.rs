//! Check for routes that match the same request.

use std::sync::Arc;

use crate::{
    config::{code::Code, report::Report, routes::RouteFile},
    route::{Conflict, RouteTable},
};

/// Reports routes that match the same request, at the later of the two.
pub(in crate::config) fn check(report: &Report<'_>, routes: &[RouteFile]) {
    let mut left: Vec<&RouteFile> = routes.iter().collect();
    loop {
        let table = RouteTable::new(left.iter().map(|file| Arc::clone(&file.route)).collect());
        let Err(conflict) = table else { return };
        let (Conflict::Tool { tool } | Conflict::Endpoint { tool, .. } | Conflict::Resource { tool, .. }) =
            &conflict;
        let Some(index) = left.iter().position(|file| file.route.definition.name == *tool) else { return };
        let file = left.remove(index);
        if let Conflict::Resource { uri, with, .. } = &conflict {
            let other = left.iter().find(|other| other.route.definition.name == *with);
            let place =
                other.map(|other| report.file_and_line(other.resource_span.unwrap_or(other.name_span)));
            let message = format!(
                "duplicate resource URI `{uri}`: also used by route `{with}` at {}",
                place.unwrap_or_default()
            );
            let span = file.resource_span.unwrap_or(file.name_span);
            report.error(Code::ConflictingRoutes.at_span(span), message, "change one of the two URIs");
            continue;
        }
        let span = file.rest_span.unwrap_or(file.name_span);
        let place = |file: &RouteFile| (file.name_span.file, file.name_span.start);
        let other = left.iter().filter(|other| shape(other) == shape(file)).min_by_key(|other| place(other));
        let (message, help) = match (&conflict, other) {
            (Conflict::Endpoint { method, path, .. }, Some(other)) => {
                let same = other.route.rest.as_ref().is_some_and(|rest| rest.method == *method);
                let whose = format!(
                    "the route `{}`, at {}",
                    other.route.definition.name,
                    report.file_and_line(other.rest_span.unwrap_or(other.name_span))
                );
                if same {
                    (
                        format!("`{method} {path}` is also the endpoint of {whose}"),
                        "change the path or method of one",
                    )
                } else {
                    (
                        format!("`{path}` has other argument names than the same path of {whose}"),
                        "use the same argument names in both",
                    )
                }
            }
            _ => (conflict.to_string(), "change the name or path of one"),
        };
        report.error(Code::ConflictingRoutes.at_span(span), message, help);
    }
}

/// Path of a route's endpoint with the names of arguments removed.
fn shape(file: &RouteFile) -> Option<String> {
    let path = &file.route.rest.as_ref()?.path;
    let segments: Vec<&str> =
        path.split('/').map(|segment| if segment.contains('{') { "{}" } else { segment }).collect();
    Some(segments.join("/"))
}
