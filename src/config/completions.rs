//! `completions`: argument completion (MCP `completion/complete`), from a list or from the response of a
//! route.

use std::{cell::RefCell, sync::Arc};

use super::request::VARIABLES;
use super::route_calls::{self, UncheckedRouteCall};
use super::schemas::{self, UsedArguments};
use super::section::{ReadElsewhere, cursor, in_scope, plain_context, read_in_scope};
use super::upstreams::scalar;
use crate::route::{Completion, InputSchema, RouteCompletion};
use crate::settings::{
    Code, Entry, Named, OpenSection, Report, Section, Setting, ValueKind, read_each, suggest,
};
use crate::translate::Jq;
use serde_json::Value;

/// Kinds of values that `completions` accepts.
pub(super) const KIND: ValueKind =
    ValueKind::Either(&[ValueKind::List(&ValueKind::Scalar), CompletionSettings::KIND]);

/// Map form of `completions`: a route that returns the values.
#[derive(Section)]
#[section(id = "completions")]
pub(super) struct CompletionSettings {
    /// Route that returns the values.
    #[key(example = "`route: NAME`, or a list of values")]
    route: String,
    /// Arguments for that route: a template each, or a value.
    args: Named<ReadElsewhere>,
    /// jq filter from its result to the list of values. Default: the result is the list, or the lines of its
    /// text.
    values: Option<Jq>,
}

/// Parses `completions` of a route, and adds the route calls of the completions to `calls`.
pub(super) fn read_all(
    section: &OpenSection<'_>,
    input: &InputSchema,
    calls: &RefCell<Vec<UncheckedRouteCall>>,
) -> Vec<(String, Completion)> {
    let report = section.value.context.report;
    let Some(completions_entry) = section.entry("completions") else { return Vec::new() };
    let properties = input.document().get("properties").and_then(Value::as_object);
    let names: Vec<String> = properties.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut completions = Vec::new();
    if section.entry("resource").is_none() {
        let message = "`completions` has no effect without `resource`";
        let help = "remove it: clients complete arguments of prompts and resources, not of tools";
        report.warning(Code::RequiresKey.at_span(completions_entry.key.span), message, help);
    }
    for entry in completions_entry.value.as_map().unwrap_or_default() {
        let name = &entry.key.text;
        if !names.contains(name) {
            let message = format!("the route has no argument `{name}`");
            let help = suggest::help(name, "known arguments", names.iter().map(String::as_str));
            report.error(Code::UnknownArgument.at_span(entry.key.span), message, help);
        }
        if let Some((completion, call)) = read(report, entry, name, &names) {
            completions.push((name.clone(), completion));
            calls.borrow_mut().extend(call);
        }
    }
    completions
}

/// Parses the completion of an argument; also returns the call of the route that provides the values,
/// if there is one. Templates of the completion may use the `arguments`. Returns `None` after reporting the
/// problems.
pub(super) fn read(
    report: &Report<'_>,
    entry: &Entry,
    argument: &str,
    arguments: &[String],
) -> Option<(Completion, Option<UncheckedRouteCall>)> {
    let node = &entry.value;
    if let Some(items) = node.as_list() {
        if items.is_empty() {
            let (message, help) =
                ("`completions` is an empty list", "write values, such as `[red, green]`, or remove it");
            return report.reject(Code::EmptyValue.at_span(node.span), message, help);
        }
        let value = |item| scalar(plain_context(report), item, "a value of `completions`");
        return Some((Completion::Listed(read_each(items.iter().map(value)).ok()?), None));
    }
    if node.as_map().is_none() {
        let help = "write values, such as `[red, green]`, or `{ route: NAME }`";
        return report.reject_type(node, "`completions` must be a list of values or a map", help);
    }
    let settings: Option<CompletionSettings> =
        read_in_scope(report, entry, &[], &mut UsedArguments::default());
    let mut used = UsedArguments::default();
    let value = cursor(report, entry.key.span, node, "`completions`", CompletionSettings::KIND);
    let call = in_scope(&VARIABLES, &mut used, |scope| route_calls::read(&value.in_scope(scope)));
    let (call, unchecked) = call?;
    let errors_before = report.errors();
    let arguments = arguments.iter().map(String::as_str);
    schemas::report_unknown(report, &used, arguments, "there is no argument", |name| {
        format!("declare it as an argument: `{name}:`")
    });
    let values = settings?.values.map(Arc::new);
    let completion = Completion::Route(RouteCompletion { call, values, is_filtered: used.may_use(argument) });
    (report.errors() == errors_before).then_some((completion, Some(unchecked)))
}
