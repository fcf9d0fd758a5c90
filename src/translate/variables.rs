//! What the templates and filters of a rule can name, and the question to the client's model that is made of
//! it.

use minijinja::Value as Name;
use serde_json::Value;

use super::{
    jq::JqNames,
    pattern::Captures,
    redaction::Redaction,
    response_view::ResponseView,
    template::{Budget, Template, TemplateError, from_json},
    work_budget::WorkBudget,
};
use crate::model::{Shapes, Structured};

/// The names that the templates of a rule see.
pub const TEMPLATE_NAMES: [&str; 10] = [
    "args",
    "input_responses",
    "status",
    "exit_status",
    "stderr",
    "headers",
    "text",
    "json",
    "value",
    "structured",
];

/// What is known when a template is filled in.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) view: &'a ResponseView<'a>,
    pub(super) captures: &'a Captures,
    /// What the extractor gave.
    pub(super) value: Option<&'a Value>,
    pub(super) structured: Option<&'a Structured>,
}

impl Known<'_> {
    /// What templates see that ask for these names; only what is asked for is made.
    pub(super) fn names(&self, asked: &[&str]) -> Vec<(String, Name)> {
        self.names_without(&Redaction::default(), asked)
    }

    /// The same without the words that the route keeps to itself: a template may cut a text so that half of
    /// them are left, which match no pattern.
    pub(super) fn names_without(&self, redaction: &Redaction, asked: &[&str]) -> Vec<(String, Name)> {
        let view = self.view;
        let shown = |value: &Value| match redaction.is_empty() {
            true => from_json(value),
            false => from_json(&redaction.hide_in(value.clone())),
        };
        let text_shown = |text: &str| Name::from(redaction.hide_long(text).as_ref());
        let mut names: Vec<(String, Name)> = Vec::new();
        for name in asked {
            let made = match *name {
                "args" => Some(from_json(view.facts.args)),
                "input_responses" => Some(from_json(view.facts.answers)),
                "status" => Some(Name::from(view.response.status.as_u16())),
                "exit_status" => view.response.exit.as_ref().map(|exit| from_json(&exit.end.to_json())),
                "stderr" => view.response.exit.as_ref().map(|exit| text_shown(&exit.stderr_text())),
                "headers" => Some(shown(view.headers())),
                "text" => view.text().ok().map(text_shown),
                "json" => view.json().map(shown),
                "value" => self.value.map(shown),
                "structured" => self.structured.map(|s| shown(&s.value(Shapes::ObjectsOnly))),
                _ => None,
            };
            names.extend(made.map(|made| ((*name).to_owned(), made)));
        }
        names.extend(self.captures.iter().map(|(name, text)| (name.clone(), text_shown(text))));
        names
    }
}

/// What the filters of a rule see beside the value.
pub(super) fn jq_names<'a>(view: &'a ResponseView<'_>, captures: &'a Captures) -> JqNames<'a> {
    JqNames {
        args: view.facts.args,
        answers: view.facts.answers,
        status: view.response.status.as_u16(),
        exit: view.response.exit.as_deref(),
        headers: view.headers(),
        captures,
        most_values: view.most_values(),
        stop: view.facts.stop,
    }
}

/// A question to the client's model, with templates in it.
pub type SampleTemplate = Sample<Template>;

/// A request to the client's model (sampling): with texts it is ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<T = String> {
    /// What is said, in order, and by whom; never empty.
    pub messages: Vec<(Speaker, T)>,
    /// What the model should know of its task.
    pub system: Option<T>,
    /// How long the answer may be, in tokens.
    pub max_tokens: u64,
    /// How freely it answers.
    pub temperature: Option<f64>,
    /// Words at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Names, or parts of names, of models that are fit for it, the best first.
    pub models: Vec<String>,
    /// Whether a call goes on without an answer.
    pub optional: bool,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// The name of the answer to what a rule asks of the client's model.
pub const SAMPLE: &str = "sample";

impl Speaker {
    /// As MCP calls them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl SampleTemplate {
    /// How long an answer may be where nothing is said, in tokens.
    pub const DEFAULT_MAX_TOKENS: u64 = 1000;
    /// How long the messages may be together, in bytes: they go into a model.
    pub const LIMIT_BYTES: usize = 1 << 20;

    /// The templates in it, for checks at load.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.messages.iter().map(|(_, template)| template).chain(&self.system)
    }

    /// Fills the templates in; `stop` ends that when nobody waits any more.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] when one of them fails, or when all is too long.
    pub fn render(&self, names: &Name, stop: Option<&WorkBudget>) -> Result<Sample, TemplateError> {
        let budget = Budget::of_result().until(stop);
        let render = |template: &Template| template.render_within(names, &budget);
        let said = |(speaker, template): &(Speaker, Template)| Ok((*speaker, render(template)?));
        let messages: Vec<_> = self.messages.iter().map(said).collect::<Result<_, TemplateError>>()?;
        let system = self.system.as_ref().map(render).transpose()?;
        let bytes: usize = messages.iter().map(|(_, text)| text.len()).sum();
        if bytes + system.as_ref().map_or(0, String::len) > Self::LIMIT_BYTES {
            let message = format!("what the model is asked is longer than {} bytes", Self::LIMIT_BYTES);
            return Err(TemplateError { message, line: None });
        }
        Ok(Sample {
            messages,
            system,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            stop_sequences: self.stop_sequences.clone(),
            models: self.models.clone(),
            optional: self.optional,
        })
    }
}
