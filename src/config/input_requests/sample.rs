//! `sample`: a sampling request to the client's model (MCP `sampling/createMessage`).

use crate::settings::code::Code;
use settings_derive::Section as DeriveSection;

use crate::{
    config::{
        section::ReadElsewhere,
        tree::{Kind, Node},
    },
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, OpenSection, Section as _, Setting},
    },
    translate::{SamplingRequestTemplate, SamplingRole, Template},
};

/// Section `sample`.
#[derive(DeriveSection)]
#[section(id = "sample", text = "messages")]
struct SampleSettings {
    /// Messages: a template for one of the user, or a list by role.
    #[key(example = "`messages: \"…\"`, the prompt for the model")]
    messages: Messages,
    /// System prompt: a template.
    system: Option<Template>,
    /// Maximum length of the output, in tokens.
    #[key(range = 1..=1_000_000, default = SamplingRequestTemplate::DEFAULT_MAX_TOKENS)]
    max_tokens: u64,
    /// Sampling temperature.
    #[key(example = "0.2")]
    temperature: Option<f64>,
    /// Stop sequences.
    stop: Vec<String>,
    /// Model hints: names or parts of names, the best first.
    models: Vec<String>,
    /// Whether the call continues without the model's output.
    #[key(default = false)]
    optional: bool,
}

/// Message of one role.
#[derive(DeriveSection)]
#[section(name = "a message", id = "message")]
struct MessageSettings {
    /// Message of the user: a template.
    #[key(kind = ValueKind::Text)]
    user: ReadElsewhere,
    /// Message of the model: a template.
    #[key(kind = ValueKind::Text)]
    assistant: ReadElsewhere,
}

/// Messages of a sampling request: one text of the user, or a list.
struct Messages(Vec<(SamplingRole, Template)>);

impl Setting for Messages {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, ValueKind::List(&MessageSettings::KIND)]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        match &value.node.kind {
            Kind::List(items) if !items.is_empty() => {
                let read: Vec<_> = items.iter().map(|item| message(value, item)).collect();
                read.into_iter().collect::<Checked<_>>().map(Self)
            }
            _ => Ok(Self(vec![(SamplingRole::User, Template::read(value)?)])),
        }
    }
}

fn message(value: &Cursor<'_>, item: &Node) -> Checked<(SamplingRole, Template)> {
    let item = value.part(item, "a message", MessageSettings::KIND).with_span(item.span);
    let section = OpenSection::open(&item, MessageSettings::keys())?;
    let (speaker, name, entry) = match (section.entry("user"), section.entry("assistant")) {
        (Some(entry), None) => (SamplingRole::User, "`user`", entry),
        (None, Some(entry)) => (SamplingRole::Assistant, "`assistant`", entry),
        _ => {
            let help = "write `- user: \"…\"`, and another `- assistant: \"…\"`";
            return item
                .reject(Invalid::new("a message must have one role", help).with_code(Code::ConflictingKeys));
        }
    };
    Ok((speaker, Template::read(&item.member(entry, name, ValueKind::Text))?))
}

impl Setting for SamplingRequestTemplate {
    const KIND: ValueKind = SampleSettings::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let read = SampleSettings::read(value)?;
        Ok(Self {
            messages: read.messages.0,
            system: read.system,
            max_tokens: read.max_tokens,
            temperature: read.temperature,
            stop_sequences: read.stop,
            models: read.models,
            optional: read.optional,
        })
    }
}
