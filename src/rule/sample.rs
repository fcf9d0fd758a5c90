//! A question to the client's model: what it is asked is made of templates.

use minijinja::Value as Name;

use super::{
    stop::Stop,
    template::{Budget, Template, TemplateError},
};

/// A question to the client's model, with templates in it.
#[derive(Debug)]
pub struct SampleTemplate {
    /// What is said, in order, and by whom; never empty.
    pub messages: Vec<(Speaker, Template)>,
    /// What the model should know of its task.
    pub system: Option<Template>,
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

/// The same, ready to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What is said, in order, and by whom.
    pub messages: Vec<(Speaker, String)>,
    /// What the model should know of its task.
    pub system: Option<String>,
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
    pub fn render(&self, names: &Name, stop: Option<&Stop>) -> Result<Sample, TemplateError> {
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
