//! What the templates and filters of a rule can name.

use minijinja::Value as Name;
use serde_json::Value;

use super::{
    jq::JqNames, matcher::Captures, redaction::Redaction, response_view::ResponseView, template::from_json,
};
use crate::tool::{Shapes, Structured};

/// The names that the templates of a rule see.
pub const TEMPLATE_NAMES: [&str; 10] =
    ["args", "answers", "status", "exit", "stderr", "headers", "text", "json", "value", "structured"];

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

    /// The same without the words that the route keeps to itself: a template may cut a text so that half of them are
    /// left, which match no pattern.
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
                "answers" => Some(from_json(view.facts.answers)),
                "status" => Some(Name::from(view.reply.status.as_u16())),
                "exit" => view.reply.exit.as_ref().map(|exit| from_json(&exit.end.to_json())),
                "stderr" => view.reply.exit.as_ref().map(|exit| text_shown(&exit.stderr_text())),
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
        status: view.reply.status.as_u16(),
        exit: view.reply.exit.as_deref(),
        headers: view.headers(),
        captures,
        most_values: view.most_values(),
        stop: view.facts.stop,
    }
}
