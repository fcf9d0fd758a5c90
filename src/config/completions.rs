//! `completions`: argument completion (MCP `completion/complete`), from a list or from the response of a
//! route.

use std::{cell::RefCell, sync::Arc};

use serde_json::Value;
use settings_derive::Section as DeriveSection;

use super::{
    report::Report,
    route_calls::{self, UncheckedRouteCall},
    schemas::UsedArguments,
    section::{ReadElsewhere, cursor, in_scope},
    suggest,
    tree::{Entry, Kind},
    upstreams::scalar,
};
use crate::{
    route::{Completion, InputSchema, RouteCompletion},
    settings::{
        code::Code,
        keys::ValueKind,
        section::{OpenSection, Setting},
        value::Named,
    },
    translate::Jq,
};

/// Kinds of values that `completions` accepts.
pub(super) const KIND: ValueKind =
    ValueKind::Either(&[ValueKind::List(&ValueKind::Scalar), CompletionSettings::KIND]);

/// Map form of `completions`: a route that returns the values.
#[derive(DeriveSection)]
#[section(id = "completions")]
pub(super) struct CompletionSettings {
    /// Route that returns the values.
    #[key(example = "`route: NAME`, or a list of values")]
    route: String,
    /// Arguments for that route: a template each, or a value.
    #[key(kind = ValueKind::Map(&ValueKind::Anything))]
    args: Named<ReadElsewhere>,
    /// jq filter from its result to the list of values. Default: the result is the list, or the lines of its
    /// text.
    values: Option<Jq>,
}

/// Completion of an argument, and the route call that it makes.
pub(super) struct CompiledCompletion {
    pub(super) completion: Completion,
    pub(super) call: Option<UncheckedRouteCall>,
}

/// Parses `completions` of a route. The route calls that they make are added to `calls`.
pub(super) fn read_all(
    section: &OpenSection<'_>,
    input: &InputSchema,
    calls: &RefCell<Vec<UncheckedRouteCall>>,
) -> Vec<(String, Completion)> {
    let report = section.value.context.report;
    let Some(written) = section.entry("completions") else { return Vec::new() };
    let properties = input.document().get("properties").and_then(Value::as_object);
    let names: Vec<String> = properties.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut completions = Vec::new();
    if section.entry("resource").is_none() {
        let help = "remove it: clients complete arguments of prompts and resources, not of tools";
        report.warning(
            Code::RequiresKey.at_span(written.key.span),
            "`completions` has no effect without `resource`",
            help,
        );
    }
    for entry in written.value.as_map().unwrap_or_default() {
        let name = &entry.key.text;
        if !names.contains(name) {
            let help = suggest::help(name, "known arguments", names.iter().map(String::as_str));
            report.error(
                Code::UnknownArgument.at_span(entry.key.span),
                format!("the route has no argument `{name}`"),
                help,
            );
        }
        if let Some(compiled) = read(report, entry, name, &names) {
            completions.push((name.clone(), compiled.completion));
            calls.borrow_mut().extend(compiled.call);
        }
    }
    completions
}

/// Parses the completion of the argument `own`; its templates may use the arguments `known`. Returns `None`
/// after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    entry: &Entry,
    own: &str,
    known: &[String],
) -> Option<CompiledCompletion> {
    if let Kind::List(items) = &entry.value.kind {
        if items.is_empty() {
            report.error(
                Code::EmptyValue.at_span(entry.value.span),
                "`completions` is an empty list",
                "write `[short, long]`, or remove it",
            );
            return None;
        }
        let values: Vec<_> =
            items.iter().map(|item| scalar(report, item, "a value of `completions`")).collect();
        let completion = Completion::Listed(values.into_iter().collect::<Option<_>>()?);
        return Some(CompiledCompletion { completion, call: None });
    }
    if !matches!(entry.value.kind, Kind::Map(_)) {
        let message =
            format!("`completions` must be a list of values or a map, found {}", entry.value.found());
        report.error(
            Code::WrongType.at_span(entry.value.span),
            message,
            "write `[short, long]`, or `{ route: NAME }`",
        );
        return None;
    }
    let value = cursor(report, entry.key.span, &entry.value, "`completions`", CompletionSettings::KIND);
    let settings = in_scope(&[], &mut UsedArguments::default(), |scope| {
        CompletionSettings::read(&value.in_scope(scope))
    });
    let mut used = UsedArguments::default();
    let (call, written) = route_calls::read(report, &entry.value, &mut used)?;
    let before = report.errors();
    route_calls::report_unknown(report, &used, known, "there is no argument", |name| {
        format!("declare it as an argument: `{name}:`")
    });
    let values = settings?.values.map(Arc::new);
    let chosen = used.names(own);
    let completion = Completion::Route(RouteCompletion { call, values, chosen });
    (report.errors() == before).then_some(CompiledCompletion { completion, call: Some(written) })
}
