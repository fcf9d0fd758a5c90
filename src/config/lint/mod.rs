//! Lints: checks that involve several sections. Each file has one subject.
//!
//! [`check_conflicts`] finds routes that match the same request. `routes` checks the settings of routes,
//! `forwarded_credentials` the credentials that routes forward, `upstreams` the use of upstreams and the
//! settings of the process, `templates` the templates of request bodies. `output_schema` compares
//! rules with a tool's output schema. `schemas` and `javascript_regex` find parts of JSON Schemas that
//! clients reject.
//!
//! Each kind of problem has a [code](crate::settings::Code), whose documentation explains why the problem
//! matters.

pub(super) mod forwarded_credentials;
pub(super) mod javascript_regex;
pub(super) mod output_schema;
pub(super) mod routes;
pub(super) mod schemas;
pub(super) mod templates;
pub(super) mod upstreams;

use std::sync::Arc;

use super::routes::CompiledRoute;
use crate::route::{Conflict, RouteTable};
use crate::settings::{Code, Node, Report};

/// Reports routes that match the same request. The problem is reported at the later route. `routes_node` is
/// the map `routes` in the file.
pub(super) fn check_conflicts(report: &Report<'_>, routes: &[CompiledRoute], routes_node: &Node) {
    let mut remaining: Vec<&CompiledRoute> = routes.iter().collect();
    while let Err(conflict) =
        RouteTable::new(remaining.iter().map(|compiled| Arc::clone(&compiled.route)).collect())
    {
        let Conflict { route, with, what, is_resource } = &conflict;
        let key = if *is_resource { "resource" } else { "rest" };
        let span = |compiled: &CompiledRoute| {
            let endpoint = routes_node.get(compiled.name().as_str()).and_then(|route| route.get(key));
            endpoint.map_or(compiled.name_span, |node| node.span)
        };
        let Some(index) = remaining.iter().position(|compiled| compiled.route.definition.name == *route)
        else {
            return;
        };
        let compiled = remaining.remove(index);
        let other = remaining.iter().find(|other| other.route.definition.name == *with);
        let location = other.map(|other| format!(", at {}", report.file_and_line(span(other))));
        let message =
            format!("{what} conflicts with that of the route `{with}`{}", location.unwrap_or_default());
        let help = match is_resource {
            true => "change one of the two URIs",
            false => "change the path or method of one; the same path needs the same argument names",
        };
        report.error(Code::ConflictingRoutes.at_span(span(compiled)), message, help);
    }
}
