//! `sample`: a sampling request to the client's model (MCP `sampling/createMessage`).

use crate::settings::{Checked, Code, Cursor, OpenSection, Section, Setting, ValueKind};
use crate::translate::{MessageRole, SamplingRequestTemplate, Template};

/// Section `sample`.
#[derive(Section)]
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
#[derive(Section)]
#[section(name = "a message", id = "message", check_keys = Self::check_keys)]
struct MessageSettings {
    /// Message of the user: a template.
    user: Option<Template>,
    /// Message of the model: a template.
    assistant: Option<Template>,
}

impl MessageSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        if section.entry("user").is_some() != section.entry("assistant").is_some() {
            return Ok(());
        }
        let at = Code::ConflictingKeys.at_span(section.value.node.span);
        let help = "write `- user: \"…\"`, and another `- assistant: \"…\"`";
        Err(section.reject_at(at, "a message must have one role", help))
    }

    fn template(self) -> Option<(MessageRole, Template)> {
        let user = self.user.map(|template| (MessageRole::User, template));
        user.or_else(|| self.assistant.map(|template| (MessageRole::Assistant, template)))
    }
}

/// Messages of a sampling request: one text of the user, or a list.
struct Messages(Vec<(MessageRole, Template)>);

impl Setting for Messages {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, ValueKind::List(&MessageSettings::KIND)]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if value.node.as_list().is_none_or(<[_]>::is_empty) {
            return Ok(Self(vec![(MessageRole::User, Template::read(value)?)]));
        }
        let messages = Vec::<MessageSettings>::read(value)?;
        Ok(Self(messages.into_iter().filter_map(MessageSettings::template).collect()))
    }
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
