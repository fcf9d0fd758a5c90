//! Calls of routes by other parts of the configuration: a prompt that inserts a result, or a completion that
//! requests its values.

use serde_json::Value;

use super::routes::CompiledRoute;
use crate::model::ToolName;
use crate::route::{JsonTemplate, RouteCall};
use crate::settings::{Checked, Code, Cursor, Entry, Node, Report, Setting, SourceSpan, read_each, suggest};

/// Parsed call of a route. It is checked against the called route when all routes have been parsed.
#[derive(Debug, Clone)]
pub(super) struct UncheckedRouteCall {
    route: String,
    route_span: SourceSpan,
    arguments: Vec<(String, SourceSpan)>,
}

/// Routes of the file: all entries, and the routes that have no errors.
#[derive(Clone, Copy)]
pub(super) struct RoutesOfFile<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) parsed: &'a [CompiledRoute],
}

/// Parses `route` and `args` of a section whose keys have already been checked.
pub(super) fn read(value: &Cursor<'_>) -> Checked<(RouteCall, UncheckedRouteCall)> {
    let section = value.node;
    let entries = section.get("args").and_then(Node::as_map).unwrap_or_default();
    let argument = |Entry { key, value: node }: &Entry| {
        let name = format!("the argument `{}`", key.text);
        Ok((key.text.clone(), JsonTemplate::read(&value.part(node, &name, JsonTemplate::KIND))?))
    };
    let arguments = read_each(entries.iter().map(argument));
    let route = section.get("route").and_then(|node| Some((node.as_text()?, node.span)));
    let (name, route_span) = value.checked(route)?;
    // Route names are tool names. `check` reports a valid name that no route has.
    let route = name.parse::<ToolName>().or_else(|error| {
        let (at, help) = (Code::UnknownRoute.at_span(route_span), "write the name of a route");
        value.reject_coded(at, format!("unknown route `{name}`: {error}"), help)
    });
    let spans = entries.iter().map(|entry| (entry.key.text.clone(), entry.key.span)).collect();
    let unchecked = UncheckedRouteCall { route: name.to_owned(), route_span, arguments: spans };
    Ok((RouteCall { route: route?, arguments: arguments? }, unchecked))
}

impl UncheckedRouteCall {
    /// Returns the called route; `None` if it has errors or does not exist.
    pub(super) fn route<'a>(&self, routes: RoutesOfFile<'a>) -> Option<&'a CompiledRoute> {
        routes.parsed.iter().find(|compiled| compiled.route.definition.name.as_str() == self.route)
    }

    /// Reports an unknown route, unknown arguments, and missing arguments.
    pub(super) fn check(&self, report: &Report<'_>, routes: RoutesOfFile<'_>) {
        let names = || routes.entries.iter().map(|entry| entry.key.text.as_str());
        if !names().any(|name| name == self.route) {
            let message = format!("unknown route `{}`", self.route);
            let help = suggest::help(&self.route, "known routes", names());
            return report.error(Code::UnknownRoute.at_span(self.route_span), message, help);
        }
        let Some(compiled) = self.route(routes) else { return };
        let document = compiled.route.input.document();
        let properties = document.get("properties").and_then(Value::as_object);
        let argument_names = || properties.into_iter().flatten().map(|(name, _)| name.as_str());
        let is_closed = document.get("additionalProperties") == Some(&Value::Bool(false));
        for (name, span) in self
            .arguments
            .iter()
            .filter(|(name, _)| is_closed && !argument_names().any(|known| known == name))
        {
            let message = format!("the route `{}` has no argument `{name}`", self.route);
            let help = suggest::help(name, "its arguments", argument_names())
                .unwrap_or_else(|| "remove `args`: the route has no arguments".to_owned());
            report.error(Code::UnknownArgument.at_span(*span), message, help);
        }
        for name in compiled.route.input.required() {
            if !self.arguments.iter().any(|(argument, _)| argument == name) {
                let message = format!("the route `{}` requires the argument `{name}`", self.route);
                let help = format!("add `args: {{ {name}: … }}`");
                report.error(Code::MissingArgument.at_span(self.route_span), message, help);
            }
        }
    }
}
