//! What happened to one reply, step by step, for `glossator explain`.

use super::matcher::Captures;
use crate::model::{Block, Content, Text, cut_bytes};

/// How much of a value a step shows, in bytes.
pub(super) const LONGEST_TRACED: usize = 4000;

/// One step of a translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was done: `rule 2`, `default`, `otherwise`, `expand`, `decode`, `extract pairs`, `jq …`, `schema`, `content`,
    /// `error`, `unreadable`, `redact`.
    pub what: String,
    /// What came of it, for a person; may have several lines.
    pub found: String,
}

/// Collects steps when somebody wants them, and costs nothing otherwise.
#[derive(Debug, Default)]
pub struct Trace {
    steps: Option<Vec<Step>>,
}

impl Trace {
    /// How many steps are kept; a translation has far fewer.
    const MOST_STEPS: usize = 1000;

    /// A trace that keeps nothing.
    pub fn off() -> Self {
        Self { steps: None }
    }

    /// A trace that keeps every step.
    pub fn on() -> Self {
        Self { steps: Some(Vec::new()) }
    }

    /// Whether somebody wants the steps.
    pub(crate) fn is_on(&self) -> bool {
        self.steps.is_some()
    }

    /// Notes a step. The closure runs only when the trace is on.
    pub(crate) fn step(&mut self, step: impl FnOnce() -> (String, String)) {
        if let Some(steps) = &mut self.steps
            && steps.len() < Self::MOST_STEPS
        {
            let (what, found) = step();
            steps.push(Step { what, found });
        }
    }

    /// The steps, in order.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps.unwrap_or_default()
    }
}

/// That a rule holds, and with which captures.
pub(super) fn held_words(captures: &Captures) -> String {
    let captures: Vec<_> = captures.iter().map(|(name, text)| format!("{name} = {text:?}")).collect();
    match captures.is_empty() {
        true => "holds".to_owned(),
        false => format!("holds, with {}", captures.join(", ")),
    }
}

/// The blocks of a result, in a few words each.
pub(super) fn content_words(content: &[Content]) -> String {
    let words = content.iter().map(|content| match &content.block {
        Block::Text(Text::Plain(text) | Text::Error(text)) => {
            format!("text {:?}", cut_bytes(text, LONGEST_TRACED))
        }
        Block::Text(Text::Shared(text)) => format!("text {:?}", cut_bytes(text, LONGEST_TRACED)),
        Block::Text(Text::OfStructure) => "text: the structure as JSON".to_owned(),
        Block::Image { mime_type, .. } => format!("image of {mime_type}"),
        Block::Audio { mime_type, .. } => format!("audio of {mime_type}"),
        Block::ResourceLink { uri, .. } => format!("resource_link to {uri}"),
        Block::Resource { uri, .. } => format!("resource {uri}"),
        Block::AsSent(sent) => cut_bytes(sent.json.as_str(), LONGEST_TRACED),
    });
    words.collect::<Vec<_>>().join("\n")
}
