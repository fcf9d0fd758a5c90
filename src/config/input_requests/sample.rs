//! `sample`: a sampling request to the client's model (MCP `sampling/createMessage`).

use super::note;
use crate::{
    config::{
        code::Code,
        keys::{MESSAGE, SAMPLE},
        language,
        node::{Entry, Kind, Node},
        report::Report,
        response::whole,
        schemas::UsedArguments,
        section::Section,
    },
    translate::{SamplingRequestTemplate, SamplingRole},
};

/// Reads `sample`: a template, or a map.
pub(in crate::config) fn sample(
    report: &Report<'_>,
    entry: &Entry,
    names: &[&str],
    asked: &mut UsedArguments,
) -> Option<SamplingRequestTemplate> {
    let mut template = |node: &Node, what: &str| {
        let template = language::template(report, node, what, names)?;
        note(report, &template, node.span, asked);
        Some(template)
    };
    if !matches!(entry.value.kind, Kind::Map(_)) {
        let text = template(&entry.value, "`sample`")?;
        return Some(SamplingRequestTemplate {
            messages: vec![(SamplingRole::User, text)],
            system: None,
            max_tokens: SamplingRequestTemplate::DEFAULT_MAX_TOKENS,
            temperature: None,
            stop_sequences: Vec::new(),
            models: Vec::new(),
            optional: false,
        });
    }
    let section = Section::open(report, entry.key.span, &entry.value, &SAMPLE)?;
    let messages = section.required("messages", "write `messages: \"…\"`: what the model is asked");
    let system = section.get("system").map(|node| template(node, "`system`"));
    let max_tokens = section.count("max_tokens").unwrap_or(SamplingRequestTemplate::DEFAULT_MAX_TOKENS);
    let temperature = section.get("temperature").map(|node| match &node.kind {
        Kind::Number(text) => text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number)),
        _ => None,
    });
    if temperature == Some(None)
        && let Some(node) = section.get("temperature")
    {
        let message = format!("`temperature` is a number from 0 to 1, found {}", node.found());
        report.error(Code::OutOfRange.at(node.span), message, "write `0.2`");
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
                    (Some(node), None) => (SamplingRole::User, template(node, "`user`")?),
                    (None, Some(node)) => (SamplingRole::Assistant, template(node, "`assistant`")?),
                    _ => {
                        let message = "a message is of one speaker";
                        report.error(
                            Code::ConflictingKeys.at(item.span),
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
        _ => vec![(SamplingRole::User, template(messages?, "`messages`")?)],
    };
    let temperature = whole(temperature)?;
    Some(SamplingRequestTemplate {
        messages,
        system: whole(system)?,
        max_tokens,
        temperature,
        stop_sequences,
        models,
        optional,
    })
}
