//! `input_requests`, `confirm` and `sample`: input requests to the user or the client's model.
//!
//! This file parses the rounds, `input_request` one input request, `form` the form of one, and `sample` a
//! sampling request.

mod form;
mod input_request;
mod sample;

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    code::Code,
    language,
    report::Report,
    schemas::{InputResponseUse, UsedArguments},
    source::SourceSpan,
    suggest,
    tree::{Kind, Node},
};
use crate::{
    route::{
        InputForm, InputRequestKindTemplate, InputRequestTemplate, InputRequests, InputRound, InputSchema,
    },
    settings::{keys::ValueKind, section::Setting},
    translate::Template,
};

use input_request::InputRequestSettings;

/// Kinds of values that `input_requests` accepts: one round, or a list of rounds.
pub(super) const KIND: ValueKind = ValueKind::OneOrMore(&ValueKind::Map(&InputRequestSettings::KIND));

/// Names that the templates of an input request may use.
const NAMES: [&str; 2] = ["args", "input_responses"];
/// Name of the response to `confirm`.
const CONFIRM: &str = "confirm";

/// Parsed input requests. Forms for arguments are compiled once the input schema is known.
#[derive(Default)]
pub(super) struct ParsedInputRequests {
    rounds: Vec<InputRound>,
    argument_requests: Vec<ArgumentRequest>,
    timeout: Option<Duration>,
}

/// Input request for omitted arguments: its position, and their names.
struct ArgumentRequest {
    round: usize,
    index: usize,
    names: Vec<(String, SourceSpan)>,
}

/// Parses `input_requests` and `confirm` of a route or a prompt. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    section: &Node,
    timeout: Option<Duration>,
    used: &mut UsedArguments,
) -> Option<ParsedInputRequests> {
    let before = report.errors();
    let mut parsed = ParsedInputRequests { timeout, ..ParsedInputRequests::default() };
    if let Some(entry) = section.entry("input_requests") {
        let rounds = match &entry.value.kind {
            Kind::List(rounds) => rounds.as_slice(),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
                std::slice::from_ref(&entry.value)
            }
        };
        for round in rounds {
            parsed.read_round(report, round, used);
        }
    }
    if let Some(entry) = section.entry("confirm") {
        let place = entry.key.span;
        match template(report, &entry.value, "`confirm`", used) {
            Some(message) => parsed.add(report, place, vec![confirmation(message)]),
            None => return None,
        }
    }
    (report.errors() == before).then_some(parsed)
}

/// Input request of `confirm`: a form without fields.
fn confirmation(message: Template) -> InputRequestTemplate {
    let kind = InputRequestKindTemplate::Form { message, form: InputForm::default() };
    InputRequestTemplate {
        name: CONFIRM.to_owned(),
        when: None,
        optional: false,
        gives_arguments: false,
        kind,
    }
}

impl ParsedInputRequests {
    /// Names of the responses.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rounds.iter().flatten().map(|request| request.name.as_str())
    }

    /// Arguments that are requested if they are omitted.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &(String, SourceSpan)> {
        self.argument_requests.iter().flat_map(|request| &request.names)
    }

    fn read_round(&mut self, report: &Report<'_>, node: &Node, used: &mut UsedArguments) {
        let Some(entries) = node.as_map() else {
            let message = format!("a round of input requests must be a map of names, found {}", node.found());
            return report.error(
                Code::WrongType.at_span(node.span),
                message,
                "write `input_requests: { NAME: { message: \"…\" } }`",
            );
        };
        let mut round = Vec::new();
        for entry in entries {
            let index = round.len();
            if let Some((request, names)) = input_request::read(report, entry, used) {
                if !names.is_empty() {
                    self.argument_requests.push(ArgumentRequest { round: self.rounds.len(), index, names });
                }
                if self.names().any(|known| known == request.name) {
                    let message = format!("duplicate input request `{}`", request.name);
                    report.error(
                        Code::DuplicateValue.at_span(entry.key.span),
                        message,
                        "rename one: templates find the response by this name",
                    );
                }
                round.push(request);
            }
        }
        let place = entries.first().map_or(node.span, |entry| entry.key.span);
        self.add(report, place, round);
    }

    fn add(&mut self, report: &Report<'_>, place: SourceSpan, round: InputRound) {
        if let Some(twice) = round.iter().find(|request| self.names().any(|known| known == request.name)) {
            let message = format!("duplicate input request `{}`", twice.name);
            return report.error(
                Code::DuplicateValue.at_span(place),
                message,
                "rename one: templates find the response by this name",
            );
        }
        if self.names().count() + round.len() > InputRequests::INPUT_REQUEST_LIMIT {
            let message = format!("more than {} input requests", InputRequests::INPUT_REQUEST_LIMIT);
            return report.error(Code::TooMany.at_span(place), message, "combine several in one form");
        }
        self.rounds.push(round);
    }

    /// Compiles the forms for arguments from the input schema.
    pub(super) fn finish(mut self, report: &Report<'_>, input: &InputSchema) -> Option<InputRequests> {
        let before = report.errors();
        for ArgumentRequest { round, index, names } in &self.argument_requests {
            let document = input.document();
            let (properties, required) = (document.get("properties"), document.get("required"));
            let is_required = |name: &str| {
                required
                    .and_then(Value::as_array)
                    .is_some_and(|names| names.iter().any(|other| other == name))
            };
            let mut wanted = Map::new();
            for (name, span) in names {
                let Some(property) = properties.and_then(|properties| properties.get(name)) else {
                    let known = properties.and_then(Value::as_object).into_iter().flatten();
                    let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
                    let help = suggest::help(name, "known arguments", known);
                    report.error(
                        Code::UnknownArgument.at_span(*span),
                        format!("unknown argument `{name}`"),
                        help,
                    );
                    continue;
                };
                if is_required(name) {
                    let message = format!("the input request is never sent: `input` requires `{name}`");
                    report.error(
                        Code::InputRequestNeverSent.at_span(*span),
                        message,
                        "remove it from `required`: it is requested if it is missing",
                    );
                } else if property.get("default").is_some() {
                    let message = format!("the input request is never sent: `{name}` has a default");
                    report.error(
                        Code::InputRequestNeverSent.at_span(*span),
                        message,
                        "remove the default from `input`",
                    );
                }
                wanted.insert(name.clone(), property.clone());
            }
            let all: Vec<&String> = wanted.keys().collect();
            let document = json!({ "properties": wanted, "required": all });
            let Value::Object(document) = document else { continue };
            match InputForm::compile(&document) {
                Ok(made) => {
                    if let InputRequestKindTemplate::Form { form, .. } = &mut self.rounds[*round][*index].kind
                    {
                        *form = made;
                    }
                }
                Err(error) => {
                    let name = error.pointer.split('/').nth(2).unwrap_or_default();
                    let place = names.iter().find(|(known, _)| known == name).or_else(|| names.first());
                    if let Some((name, span)) = place {
                        let message = format!("a form can't have the argument `{name}`: {error}");
                        report.error(
                            Code::InvalidForm.at_span(*span),
                            message,
                            "request its parts with `fields`, and build the argument in the request",
                        );
                    }
                }
            }
        }
        (report.errors() == before).then_some(InputRequests {
            rounds: self.rounds,
            sampled: None,
            input_timeout: self.timeout.unwrap_or(InputRequests::DEFAULT_INPUT_TIMEOUT),
        })
    }
}

/// Reports input responses in templates that no input request has.
pub(super) fn report_unknown_input_responses<'a>(
    report: &Report<'_>,
    who: &str,
    named: impl Iterator<Item = &'a InputResponseUse>,
    names: &[&str],
) {
    for answer in named.filter(|answer| !names.contains(&answer.name.as_str())) {
        let name = &answer.name;
        let help = match names {
            [] => Some(format!(
                "{who} has no input requests: write `input_requests: {{ {name}: {{ message: \"…\" }} }}`"
            )),
            _ => suggest::help(name, "known input requests", names.iter().copied()),
        };
        report.in_context(answer.context.clone(), || {
            report.error(
                Code::UndeclaredArgument.at_span(answer.span),
                format!("there is no input response `{name}`"),
                help,
            );
        });
    }
}

fn template(report: &Report<'_>, node: &Node, what: &str, used: &mut UsedArguments) -> Option<Template> {
    let template = language::template(report, node, what, &NAMES)?;
    record_uses(report, &template, node.span, used);
    Some(template)
}

/// Records the arguments and input responses that a template uses.
fn record_uses(report: &Report<'_>, template: &Template, span: SourceSpan, used: &mut UsedArguments) {
    used.add_input_responses(report, template, span);
    match language::arguments_of(template) {
        None => used.all = true,
        Some(arguments) => {
            for (name, _) in arguments {
                used.add(&name, true, language::span_of_name(report, span, &name));
            }
        }
    }
}
