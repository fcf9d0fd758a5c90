//! `input_requests`, `confirm` and `sample`: input requests to the user or the client's model.
//!
//! This file parses the rounds, `input_request` one input request, `form` the form of one, and `sample` a
//! sampling request.

mod form;
mod input_request;
mod sample;

use std::time::Duration;

use serde_json::{Map, Value, json};

use self::input_request::InputRequestSettings;
use super::request::NAMES;
use super::schemas::{InputResponseUse, UsedArguments};
use super::section::read_in_scope;
use crate::route::{
    InputForm, InputRequestKindTemplate, InputRequestTemplate, InputRequests, InputRound, InputSchema,
};
use crate::settings::{Code, Entry, Named, Node, OneOrMore, Report, Setting, SourceSpan, suggest};
use crate::translate::Template;

/// Form of `input_requests`: one round, or a list of rounds.
pub(super) type InputRequestRounds = OneOrMore<Named<InputRequestSettings>>;

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
        entry.value.one_or_more().iter().for_each(|round| parsed.read_round(report, round, used));
    }
    if let Some(entry) = section.entry("confirm") {
        let message: Template = read_with_optional_arguments(report, entry, used)?;
        // A form without fields.
        let kind = InputRequestKindTemplate::Form { message, form: InputForm::default() };
        let request = InputRequestTemplate {
            name: entry.key.text.clone(),
            when: None,
            optional: false,
            gives_arguments: false,
            kind,
        };
        parsed.add(report, entry.key.span, vec![request]);
    }
    (report.errors() == before).then_some(parsed)
}

/// Parses a setting whose templates may use arguments and earlier responses. The arguments remain optional:
/// without one, the request is not sent.
fn read_with_optional_arguments<T: Setting>(
    report: &Report<'_>,
    entry: &Entry,
    used: &mut UsedArguments,
) -> Option<T> {
    let mut own = UsedArguments::default();
    let read = read_in_scope(report, entry, &NAMES, &mut own);
    used.all |= own.all;
    own.arguments.iter().for_each(|argument| used.add(&argument.name, true, argument.span));
    used.answers.extend(own.answers);
    read
}

fn report_duplicate(report: &Report<'_>, span: SourceSpan, name: &str) {
    let help = "rename one: templates find the response by this name";
    report.error(Code::DuplicateValue.at_span(span), format!("duplicate input request `{name}`"), help);
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
            let help = "write `input_requests: { NAME: { message: \"…\" } }`";
            return report.error(Code::WrongType.at_span(node.span), message, help);
        };
        let mut round = Vec::new();
        for entry in entries {
            let Some((request, names)) = input_request::read(report, entry, used) else { continue };
            if !names.is_empty() {
                let (round, index) = (self.rounds.len(), round.len());
                self.argument_requests.push(ArgumentRequest { round, index, names });
            }
            if self.names().any(|known| known == request.name) {
                report_duplicate(report, entry.key.span, &request.name);
            }
            round.push(request);
        }
        let place = entries.first().map_or(node.span, |entry| entry.key.span);
        self.add(report, place, round);
    }

    fn add(&mut self, report: &Report<'_>, place: SourceSpan, round: InputRound) {
        if let Some(twice) = round.iter().find(|request| self.names().any(|known| known == request.name)) {
            return report_duplicate(report, place, &twice.name);
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
            let properties = input.document().get("properties").and_then(Value::as_object);
            let required = input.document().get("required").and_then(Value::as_array);
            let mut wanted = Map::new();
            for (name, span) in names {
                let Some(property) = properties.and_then(|properties| properties.get(name)) else {
                    let known: Vec<&str> =
                        properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                    let help = suggest::help(name, "known arguments", known);
                    let message = format!("unknown argument `{name}`");
                    report.error(Code::UnknownArgument.at_span(*span), message, help);
                    continue;
                };
                let never = if required.into_iter().flatten().any(|other| other == name.as_str()) {
                    let help = "remove it from `required`: it is requested if it is missing";
                    Some((format!("`input` requires `{name}`"), help))
                } else {
                    let has_default = property.get("default").is_some();
                    has_default
                        .then(|| (format!("`{name}` has a default"), "remove the default from `input`"))
                };
                if let Some((why, help)) = never {
                    let message = format!("the input request is never sent: {why}");
                    report.error(Code::InputRequestNeverSent.at_span(*span), message, help);
                }
                wanted.insert(name.clone(), property.clone());
            }
            let all: Vec<&String> = wanted.keys().collect();
            let document = json!({ "properties": wanted, "required": all });
            let Value::Object(document) = document else { continue };
            match InputForm::compile(&document) {
                Ok(compiled) => {
                    if let InputRequestKindTemplate::Form { form, .. } = &mut self.rounds[*round][*index].kind
                    {
                        *form = compiled;
                    }
                }
                Err(error) => {
                    let name = error.pointer.split('/').nth(2).unwrap_or_default();
                    let place = names.iter().find(|(known, _)| known == name).or_else(|| names.first());
                    let Some((name, span)) = place else { continue };
                    let message = format!("a form can't have the argument `{name}`: {error}");
                    let help = "request its parts with `fields`, and build the argument in the request";
                    report.error(Code::InvalidForm.at_span(*span), message, help);
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
        let message = format!("there is no input response `{name}`");
        let at = Code::UndeclaredArgument.at_span(answer.span);
        report.in_context(answer.context.clone(), || report.error(at, message, help));
    }
}
