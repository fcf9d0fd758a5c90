//! `ask`, `confirm` and `sample`: what is asked of a person or of the client's model before something is done.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    keys::{FORM_FIELD, FORM_TYPES, MESSAGE, QUESTION, SAMPLE},
    language,
    node::{Entry, Kind, Node},
    reply::whole,
    report::Report,
    schemas::{Asked, AskedAnswer},
    section::{self, Section},
    source::Span,
    suggest,
};
use crate::{
    route::{Asking, Form, FormError, InputSchema, InquiryTemplate, QuestionTemplate, Round},
    rule::{self, SampleTemplate, Speaker, Template},
};

/// What the templates of a question see.
const NAMES: [&str; 2] = ["args", "answers"];
/// The name of the answer to `confirm`.
const CONFIRM: &str = "confirm";

/// What is asked, as written. Forms of arguments are made when the arguments are known.
#[derive(Default)]
pub(super) struct Written {
    rounds: Vec<Round>,
    of_arguments: Vec<OfArguments>,
    patience: Option<Duration>,
}

/// A question for arguments that were left out.
struct OfArguments {
    round: usize,
    index: usize,
    names: Vec<(String, Span)>,
}

/// Reads `ask` and `confirm` of a route or a prompt. `None` when something is wrong; that has been reported then.
pub(super) fn read(section: &Section<'_, '_>, asked: &mut Asked) -> Option<Written> {
    let report = section.report;
    let before = report.errors();
    let mut written = Written { patience: section.duration("answer_within"), ..Written::default() };
    if let Some(entry) = section.entry("ask") {
        let rounds = match &entry.value.kind {
            Kind::List(rounds) => rounds.as_slice(),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
                std::slice::from_ref(&entry.value)
            }
        };
        for round in rounds {
            written.read_round(report, round, asked);
        }
    }
    if let Some(entry) = section.entry("confirm") {
        let place = entry.key.span;
        match template(report, &entry.value, "`confirm`", asked) {
            Some(message) => {
                let inquiry = InquiryTemplate::Form { message, form: Form::default() };
                written.add(report, place, vec![question(CONFIRM, inquiry)]);
            }
            None => return None,
        }
    }
    (report.errors() == before).then_some(written)
}

fn question(name: &str, inquiry: InquiryTemplate) -> QuestionTemplate {
    QuestionTemplate { name: name.to_owned(), when: None, optional: false, inquiry }
}

impl Written {
    /// The names of the answers.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rounds.iter().flatten().map(|question| question.name.as_str())
    }

    /// The arguments that are asked for where they are left out.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &(String, Span)> {
        self.of_arguments.iter().flat_map(|question| &question.names)
    }

    fn read_round(&mut self, report: &Report<'_>, node: &Node, asked: &mut Asked) {
        let Some(entries) = node.as_map() else {
            let message = format!("a round of questions is a map of names, found {}", node.found());
            return report.error(node.span, message, "write `ask: { NAME: { message: \"…\" } }`");
        };
        let mut round = Vec::new();
        for entry in entries {
            let index = round.len();
            if let Some((question, names)) = one(report, entry, asked) {
                if !names.is_empty() {
                    self.of_arguments.push(OfArguments { round: self.rounds.len(), index, names });
                }
                if self.names().any(|known| known == question.name) {
                    let message = format!("two questions are called `{}`", question.name);
                    report.error(
                        entry.key.span,
                        message,
                        "its name is where the answer is found; choose another",
                    );
                }
                round.push(question);
            }
        }
        let place = entries.first().map_or(node.span, |entry| entry.key.span);
        self.add(report, place, round);
    }

    fn add(&mut self, report: &Report<'_>, place: Span, round: Round) {
        if let Some(twice) = round.iter().find(|question| self.names().any(|known| known == question.name)) {
            let message = format!("two questions are called `{}`", twice.name);
            return report.error(place, message, "its name is where the answer is found; choose another");
        }
        if self.names().count() + round.len() > Asking::QUESTION_LIMIT {
            let message = format!("more than {} questions", Asking::QUESTION_LIMIT);
            return report.error(place, message, "ask for several things in one form");
        }
        self.rounds.push(round);
    }

    /// The questions, now that it is known what arguments look like.
    pub(super) fn finish(mut self, report: &Report<'_>, input: &InputSchema) -> Option<Asking> {
        let document = input.document();
        let (properties, required) = (document.get("properties"), document.get("required"));
        let is_required = |name: &str| {
            required.and_then(Value::as_array).is_some_and(|names| names.iter().any(|other| other == name))
        };
        let before = report.errors();
        for OfArguments { round, index, names } in &self.of_arguments {
            let mut wanted = Map::new();
            for (name, span) in names {
                let Some(property) = properties.and_then(|properties| properties.get(name)) else {
                    let known = properties.and_then(Value::as_object).into_iter().flatten();
                    let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
                    let help = suggest::help(name, "the arguments", known);
                    report.error(*span, format!("there is no argument `{name}` to ask for"), help);
                    continue;
                };
                if is_required(name) {
                    let message = format!("`{name}` is required by `input`, so no caller leaves it out");
                    report.error(
                        *span,
                        message,
                        "take it out of `required`: it is asked for where it is missing",
                    );
                } else if property.get("default").is_some() {
                    let message = format!("`{name}` has a default, so it is never missing");
                    report.error(*span, message, "take the default out of `input`");
                }
                wanted.insert(name.clone(), property.clone());
            }
            let all: Vec<&String> = wanted.keys().collect();
            let document = json!({ "properties": wanted, "required": all });
            let Value::Object(document) = document else { continue };
            match Form::compile(&document) {
                Ok(made) => {
                    if let InquiryTemplate::Arguments { form, .. } = &mut self.rounds[*round][*index].inquiry
                    {
                        *form = made;
                    }
                }
                Err(error) => {
                    let name = error.pointer.split('/').nth(2).unwrap_or_default();
                    let place = names.iter().find(|(known, _)| known == name).or_else(|| names.first());
                    if let Some((name, span)) = place {
                        let message = format!("a person can't be asked for `{name}`: {error}");
                        report.error(
                            *span,
                            message,
                            "ask for it in `fields`, and build the argument in the request",
                        );
                    }
                }
            }
        }
        (report.errors() == before).then_some(Asking {
            rounds: self.rounds,
            sampled: None,
            patience: self.patience.unwrap_or(Asking::DEFAULT_PATIENCE),
        })
    }
}

/// An answer that nobody was asked for is never there.
pub(super) fn refuse_unknown_answers<'a>(
    report: &Report<'_>,
    who: &str,
    named: impl Iterator<Item = &'a AskedAnswer>,
    names: &[&str],
) {
    for answer in named.filter(|answer| !names.contains(&answer.name.as_str())) {
        let name = &answer.name;
        let help = match names {
            [] => Some(format!("{who} asks nothing: write `ask: {{ {name}: {{ message: \"…\" }} }}`")),
            _ => suggest::help(name, "its questions", names.iter().copied()),
        };
        report.within(answer.context.clone(), || {
            report.error(answer.span, format!("there is no answer `{name}`"), help);
        });
    }
}

/// One question, and the arguments that it asks for.
fn one(
    report: &Report<'_>,
    entry: &Entry,
    asked: &mut Asked,
) -> Option<(QuestionTemplate, Vec<(String, Span)>)> {
    let (name, place) = (entry.key.text.as_str(), entry.key.span);
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins_well || !name.chars().all(good) || name.len() > 64 {
        let message = format!("`{name}` is no name for an answer");
        report.error(
            place,
            message,
            "write ASCII letters, digits and `_`: templates have it as `answers.NAME`",
        );
    }
    if name == rule::SAMPLE {
        let help = "choose another, such as `summary`";
        report.error(place, "`sample` is the name of what a rule asks the client's model", help);
    }
    let section = Section::open(report, place, &entry.value, &QUESTION)?;
    let when = section.get("when").map(|node| condition(report, node, asked));
    let message = section.get("message").map(|node| template(report, node, "`message`", asked));
    let fields = section.entry("fields").map(|entry| fields(report, entry));
    let schema = section.entry("schema").map(|entry| {
        let document = entry.value.as_map().map(Node::entries_to_json).unwrap_or_default();
        form_of(report, &entry.value, &document, false)
    });
    let arguments = section
        .texts("arguments")
        .map(|texts| texts.iter().map(|(node, text)| ((*text).to_owned(), node.span)).collect::<Vec<_>>());
    let url = section.get("url").map(|node| {
        let written = template(report, node, "`url`", asked)?;
        if !["https://", "http://"].iter().any(|scheme| written.source().starts_with(scheme)) {
            let help = "write `https://HOST/…`; only what comes after the host may be a template";
            report.error(node.span, "`url` is the address of a web page", help);
            return None;
        }
        Template::compile_for_address(written.source()).ok()
    });
    let sample = section.entry("sample").map(|entry| sample(report, entry, &NAMES, asked));
    let (roots, optional) = (section.flag("roots"), section.flag("optional"));
    if roots == Some(false)
        && let Some(entry) = section.entry("roots")
    {
        report.error(entry.key.span, "`roots: false` asks nothing", "leave the question out");
    }
    const KINDS: [&str; 6] = ["fields", "schema", "arguments", "url", "sample", "roots"];
    let kinds: Vec<_> = KINDS.into_iter().filter(|kind| section.get(kind).is_some()).collect();
    if let [first, second, ..] = kinds[..] {
        section.refuse_beside(&[second], first);
        return None;
    }
    if matches!(kinds[..], ["sample" | "roots"]) {
        section.refuse_beside(&["message"], kinds[0]);
    } else if section.get("message").is_none() {
        section.missing(
            format!("the question `{name}` has no `message`"),
            "write `message: \"…\"`: what the person reads",
        );
        return None;
    }
    let inquiry = match (whole(fields)?, whole(schema)?, &arguments, whole(url)?, whole(sample)?) {
        (Some(form), ..) | (_, Some(form), ..) => InquiryTemplate::Form { message: message??, form },
        (_, _, Some(_), ..) => InquiryTemplate::Arguments { message: message??, form: Form::default() },
        (_, _, _, Some(url), _) => InquiryTemplate::Link { message: message??, url },
        (.., Some(sample)) => InquiryTemplate::Sample(sample),
        _ if roots.is_some() => InquiryTemplate::Roots,
        _ => InquiryTemplate::Form { message: message??, form: Form::default() },
    };
    let of_sample = matches!(&inquiry, InquiryTemplate::Sample(sample) if sample.optional);
    let optional = optional.unwrap_or(false) || of_sample;
    let question = QuestionTemplate { name: name.to_owned(), when: whole(when)?, optional, inquiry };
    Some((question, arguments.unwrap_or_default()))
}

fn condition(report: &Report<'_>, node: &Node, asked: &mut Asked) -> Option<rule::Jq> {
    let text = section::text_of(report, node, "`when`")?;
    if let Some(name) = ["$status", "$headers"].into_iter().find(|name| text.contains(name)) {
        let message = format!("`{name}` is not known yet: nothing has been sent");
        report.error(node.span, message, "`$args` and `$answers` are");
        return None;
    }
    // It is about the arguments, whose value it also is.
    asked.all = true;
    asked.add_answers_of_jq(report, node.span, text);
    language::jq(report, node, "`when`", &[])
}

fn template(report: &Report<'_>, node: &Node, what: &str, asked: &mut Asked) -> Option<Template> {
    let template = language::template(report, node, what, &NAMES)?;
    note(report, &template, node.span, asked);
    Some(template)
}

/// What a template asks of arguments and answers.
fn note(report: &Report<'_>, template: &Template, span: Span, asked: &mut Asked) {
    asked.add_answers(report, template, span);
    match language::arguments_of(template) {
        None => asked.all = true,
        Some(arguments) => {
            for (name, _) in arguments {
                asked.add(&name, true, language::words_in(report, span, &name));
            }
        }
    }
}

/// Reads `fields`: a type each, or a map.
fn fields(report: &Report<'_>, entry: &Entry) -> Option<Form> {
    let Some(entries) = entry.value.as_map() else {
        let message = format!("`fields` takes a map of names, found {}", entry.value.found());
        report.error(entry.value.span, message, "write `fields: { name: string, age: integer? }`");
        return None;
    };
    let before = report.errors();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for Entry { key, value } in entries {
        let (schema, optional) = match &value.kind {
            Kind::Map(_) => match field(report, key.span, value) {
                Some(read) => read,
                None => continue,
            },
            _ => match section::word_of(report, value, &format!("the type of `{}`", key.text), FORM_TYPES) {
                Some(word) => typed(word),
                None => continue,
            },
        };
        if !optional {
            required.push(Value::from(key.text.as_str()));
        }
        properties.insert(key.text.clone(), schema.into());
    }
    if report.errors() > before {
        return None;
    }
    let mut document = Map::new();
    document.insert("properties".into(), properties.into());
    document.insert("required".into(), required.into());
    form_of(report, &entry.value, &document, true)
}

/// The schema of a type, and whether it may be left out.
fn typed(word: &str) -> (Map<String, Value>, bool) {
    let name = word.trim_end_matches('?');
    let mut schema = Map::new();
    match name {
        "email" | "uri" | "date" | "date-time" => {
            schema.insert("type".into(), "string".into());
            schema.insert("format".into(), name.into());
        }
        _ => {
            schema.insert("type".into(), name.into());
        }
    }
    (schema, word.ends_with('?'))
}

fn field(report: &Report<'_>, place: Span, node: &Node) -> Option<(Map<String, Value>, bool)> {
    let section = Section::open(report, place, node, &FORM_FIELD)?;
    let word = section.word("type");
    let (title, description) = (section.text("title"), section.text("description"));
    let (choices, several) = (section.get("choices"), section.flag("several"));
    let (default, optional) = (section.get("default"), section.flag("optional"));
    let (kind, may_be_missing) = typed(word.unwrap_or("string"));
    let mut schema = Map::new();
    schema.extend(kind);
    schema.extend(title.map(|title| ("title".to_owned(), title.into())));
    schema.extend(description.map(|description| ("description".to_owned(), description.into())));
    match choices {
        None if several == Some(true) => {
            let message = "`several` has no effect without `choices`";
            report.error(section.place, message, "write `choices: [a, b]`");
        }
        None => {}
        Some(choices) => {
            if word.is_some_and(|word| !word.starts_with("string")) {
                report.error(choices.span, "choices are texts", "leave `type` out");
            }
            let many = several == Some(true);
            let listed = match &choices.kind {
                Kind::Map(entries) => {
                    let titled = |entry: &Entry| {
                        let title = section::text_of(report, &entry.value, "the title of a choice")?;
                        Some(json!({ "const": entry.key.text, "title": title }))
                    };
                    let titled: Vec<Value> = entries.iter().map(titled).collect::<Option<_>>()?;
                    (if many { "anyOf" } else { "oneOf" }, titled)
                }
                _ => {
                    let values = section.texts("choices")?;
                    ("enum", values.into_iter().map(|(_, text)| Value::from(text)).collect())
                }
            };
            let (keyword, values) = listed;
            if values.is_empty() {
                report.error(choices.span, "there is nothing to choose from", "write `choices: [a, b]`");
            }
            if many {
                schema.insert("type".into(), "array".into());
                let mut items = Map::new();
                if keyword == "enum" {
                    items.insert("type".into(), "string".into());
                }
                items.insert(keyword.into(), values.into());
                schema.insert("items".into(), items.into());
            } else {
                schema.insert(keyword.into(), values.into());
            }
        }
    }
    schema.extend(default.map(|default| ("default".to_owned(), default.to_json())));
    Some((schema, may_be_missing || optional == Some(true)))
}

/// A form of a schema; of one that was made of `fields`, places are those of the fields.
fn form_of(report: &Report<'_>, node: &Node, document: &Map<String, Value>, made: bool) -> Option<Form> {
    Form::compile(document)
        .map_err(|FormError { message, pointer, help }| {
            let pointer = if made { pointer.replacen("/properties", "", 1) } else { pointer };
            report.error(node.at_pointer(&pointer).span, message, help);
        })
        .ok()
}

/// Reads `sample`: a template, or a map.
pub(super) fn sample(
    report: &Report<'_>,
    entry: &Entry,
    names: &[&str],
    asked: &mut Asked,
) -> Option<SampleTemplate> {
    let mut template = |node: &Node, what: &str| {
        let template = language::template(report, node, what, names)?;
        note(report, &template, node.span, asked);
        Some(template)
    };
    if !matches!(entry.value.kind, Kind::Map(_)) {
        let text = template(&entry.value, "`sample`")?;
        return Some(SampleTemplate {
            messages: vec![(Speaker::User, text)],
            system: None,
            max_tokens: SampleTemplate::DEFAULT_MAX_TOKENS,
            temperature: None,
            stop_sequences: Vec::new(),
            models: Vec::new(),
            optional: false,
        });
    }
    let section = Section::open(report, entry.key.span, &entry.value, &SAMPLE)?;
    let messages = section.required("messages", "write `messages: \"…\"`: what the model is asked");
    let system = section.get("system").map(|node| template(node, "`system`"));
    let max_tokens = section.count("max_tokens").unwrap_or(SampleTemplate::DEFAULT_MAX_TOKENS);
    let temperature = section.get("temperature").map(|node| match &node.kind {
        Kind::Number(text) => text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number)),
        _ => None,
    });
    if temperature == Some(None)
        && let Some(node) = section.get("temperature")
    {
        let message = format!("`temperature` is a number from 0 to 1, found {}", node.found());
        report.error(node.span, message, "write `0.2`");
    }
    let texts = |name| {
        let texts = section.texts(name).unwrap_or_default();
        texts.into_iter().map(|(_, text)| text.to_owned()).collect::<Vec<_>>()
    };
    let (stop_sequences, models) = (texts("stop"), texts("models"));
    let optional = section.flag("optional") == Some(true);
    let messages = match &messages?.kind {
        Kind::List(items) if !items.is_empty() => {
            let mut read = Vec::new();
            for item in items {
                let section = Section::open(report, item.span, item, &MESSAGE)?;
                let said = match (section.get("user"), section.get("assistant")) {
                    (Some(node), None) => (Speaker::User, template(node, "`user`")?),
                    (None, Some(node)) => (Speaker::Assistant, template(node, "`assistant`")?),
                    _ => {
                        let message = "a message is of one speaker";
                        report.error(
                            item.span,
                            message,
                            "write `- user: \"…\"`, and another `-` for the answer",
                        );
                        return None;
                    }
                };
                read.push(said);
            }
            read
        }
        _ => vec![(Speaker::User, template(messages?, "`messages`")?)],
    };
    let temperature = whole(temperature)?;
    Some(SampleTemplate {
        messages,
        system: whole(system)?,
        max_tokens,
        temperature,
        stop_sequences,
        models,
        optional,
    })
}
