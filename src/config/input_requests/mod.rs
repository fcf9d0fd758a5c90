//! `input_requests`, `confirm` and `sample`: requests to the user (MCP elicitation) or the client's model.
//!
//! This file parses the rounds, `input_request` parses a single input request or sampling request, and `form`
//! parses the form of an input request.

mod form;
mod input_request;

use std::time::Duration;

use serde_json::{Map, Value};

use self::input_request::InputRequestSettings;
use super::request::VARIABLES;
use super::schemas::UsedArguments;
use super::section::read_in_scope;
use crate::model::object_without_nones;
use crate::route::{InputForm, InputRequestKindTemplate, InputRequestTemplate, InputRequests, InputSchema};
use crate::settings::{Code, Entry, Key, Named, Node, OneOrMore, Report, SourceSpan, suggest};
use crate::translate::Template;

/// Form of `input_requests`: one round, or a list of rounds.
pub(super) type InputRequestRounds = OneOrMore<Named<InputRequestSettings>>;

/// Parsed input requests. Forms for arguments are compiled later, when the input schema is known.
#[derive(Default)]
pub(super) struct ParsedInputRequests {
    rounds: Vec<Vec<ParsedInputRequest>>,
}

/// Input request, with the arguments that it requests if the call omits them.
type ParsedInputRequest = (InputRequestTemplate, Vec<(String, SourceSpan)>);

/// Parses `input_requests` and `confirm` of a route or a prompt. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    section: &Node,
    used: &mut UsedArguments,
) -> Option<ParsedInputRequests> {
    let errors_before = report.errors();
    let mut parsed = ParsedInputRequests::default();
    if let Some(entry) = section.entry("input_requests") {
        entry.value.one_or_more().iter().for_each(|round| parsed.read_round(report, round, used));
    }
    if let Some(entry) = section.entry("confirm") {
        let message: Template = read_in_scope(report, entry, &VARIABLES, used)?;
        // `confirm` is a form without fields.
        let kind = InputRequestKindTemplate::Form { message, form: InputForm::default() };
        let name = entry.key.text.clone();
        let request =
            InputRequestTemplate { name, when: None, optional: false, gives_arguments: false, kind };
        parsed.add(report, std::slice::from_ref(entry), vec![(request, Vec::new())]);
    }
    (report.errors() == errors_before).then_some(parsed)
}

impl ParsedInputRequests {
    /// Names of the input requests; templates refer to the responses by these names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rounds.iter().flatten().map(|(request, _)| request.name.as_str())
    }

    /// Arguments that are requested from the user if the call omits them.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &(String, SourceSpan)> {
        self.rounds.iter().flatten().flat_map(|(_, arguments)| arguments)
    }

    fn read_round(&mut self, report: &Report<'_>, node: &Node, used: &mut UsedArguments) {
        let Some(entries) = node.as_map() else {
            let message =
                format!("a round of input requests must be a map of names, found {}", node.describe());
            let help = "write `input_requests: { NAME: { message: \"…\" } }`";
            return report.error(Code::WrongType.at_span(node.span), message, help);
        };
        let round = entries.iter().filter_map(|entry| input_request::read(report, entry, used)).collect();
        self.add(report, entries, round);
    }

    fn add(&mut self, report: &Report<'_>, entries: &[Entry], round: Vec<ParsedInputRequest>) {
        for Key { text, span } in entries.iter().map(|entry| &entry.key) {
            if self.names().any(|other| other == text) {
                let message = format!("duplicate input request `{text}`");
                let help = "rename one: templates find the response by this name";
                report.error(Code::DuplicateValue.at_span(*span), message, help);
            }
        }
        let is_over = self.names().count() + round.len() > InputRequests::INPUT_REQUEST_LIMIT;
        if let Some(first) = entries.first().filter(|_| is_over) {
            let message = format!("more than {} input requests", InputRequests::INPUT_REQUEST_LIMIT);
            let coded_span = Code::TooMany.at_span(first.key.span);
            return report.error(coded_span, message, "combine several in one form");
        }
        self.rounds.push(round);
    }

    /// Completes the input requests: builds each form that asks for omitted arguments from their schemas in
    /// `input`. Returns `None` after reporting errors.
    pub(super) fn finish(
        self,
        report: &Report<'_>,
        input: &InputSchema,
        timeout: Option<Duration>,
    ) -> Option<InputRequests> {
        let errors_before = report.errors();
        let complete = |(mut request, arguments): ParsedInputRequest| {
            if let InputRequestKindTemplate::Form { form, .. } = &mut request.kind
                && request.gives_arguments
            {
                *form = form_of(report, input, &arguments).unwrap_or_default();
            }
            request
        };
        let rounds = self.rounds.into_iter().map(|round| round.into_iter().map(complete).collect()).collect();
        let input_timeout = timeout.unwrap_or(InputRequests::DEFAULT_INPUT_TIMEOUT);
        (report.errors() == errors_before).then_some(InputRequests { rounds, sampled: None, input_timeout })
    }
}

/// Compiles the form for arguments from their schemas; reports why an argument cannot be in a form.
fn form_of(
    report: &Report<'_>,
    input: &InputSchema,
    arguments: &[(String, SourceSpan)],
) -> Option<InputForm> {
    let properties = input.document().get("properties").and_then(Value::as_object);
    let mut requested = Map::new();
    for (name, span) in arguments {
        let Some(property) = properties.and_then(|properties| properties.get(name)) else {
            let names: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            let help = suggest::help(name, "known arguments", names);
            report.error(Code::UnknownArgument.at_span(*span), format!("unknown argument `{name}`"), help);
            continue;
        };
        let is_required = input.required().any(|other| other == name);
        if is_required || property.get("default").is_some() {
            let (relation, help) = match is_required {
                true => ("requires", "remove it from `required`: it is requested if it is missing"),
                false => ("has a default for", "remove its `default`: it is requested if it is missing"),
            };
            let message = format!("the input request is never sent: `input` {relation} `{name}`");
            report.error(Code::InputRequestNeverSent.at_span(*span), message, help);
        }
        requested.insert(name.clone(), property.clone());
    }
    let required: Value = requested.keys().map(String::as_str).collect();
    let document =
        object_without_nones([("properties", Some(requested.into())), ("required", Some(required))]);
    InputForm::compile(&document)
        .inspect_err(|error| {
            let name = error.pointer.split('/').nth(2).unwrap_or_default();
            let argument = arguments.iter().find(|(other, _)| other == name).or_else(|| arguments.first());
            let Some((name, span)) = argument else { return };
            let message = format!("a form can't have the argument `{name}`: {error}");
            let help = "request its parts with `fields`, and build the argument in the request";
            report.error(Code::InvalidForm.at_span(*span), message, help);
        })
        .ok()
}

/// Reports templates that use the response to an input request that is not declared.
pub(super) fn report_unknown_input_responses(
    report: &Report<'_>,
    owner: &str,
    used: &UsedArguments,
    names: &[&str],
) {
    for response in used.input_responses.iter().filter(|used| !names.contains(&used.name.as_str())) {
        let name = &response.name;
        let help = match names {
            [] => Some(format!(
                "{owner} has no input requests: write `input_requests: {{ {name}: {{ message: \"…\" }} }}`"
            )),
            _ => suggest::help(name, "known input requests", names.iter().copied()),
        };
        let message = format!("there is no input response `{name}`");
        let coded_span = Code::UndeclaredArgument.at_span(response.span);
        report.in_context(response.context.clone(), || report.error(coded_span, message, help));
    }
}
