//! What was left out of a result, in words and in numbers.

use std::fmt;

use minijinja::Value as Name;
use serde_json::{Map, Value, json};

use super::{LINES, Limit};
use crate::rule::{
    response_view::ResponseView,
    template::{Budget, from_json},
};

/// What was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rule) struct Cut {
    pub(super) unit: &'static str,
    pub(super) shown: usize,
    pub(super) total: usize,
    /// How many lines of text are shown, and of how many, where that was cut as well.
    pub(super) text: Option<(usize, usize)>,
    /// The arguments that give the rest.
    pub(super) next: Map<String, Value>,
}

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, shown, total, text, next } = self;
        match text {
            Some((lines, all)) => {
                write!(formatter, "{shown} of {total} {unit} and {lines} of {all} lines of text are shown.")?;
            }
            None => write!(formatter, "{shown} of {total} {unit} are shown.")?,
        }
        if next.is_empty() {
            return Ok(());
        }
        let next: Vec<_> = next.iter().map(|(name, value)| format!("`{name}`: {value}")).collect();
        write!(formatter, " For the next, call again with {}.", next.join(", "))
    }
}

impl Cut {
    /// The same, with what was left out of the text beside it; there is one note of both.
    pub(in crate::rule) fn and_text(mut self, text: &Self) -> Self {
        let is_said = (self.unit, self.shown, self.total) == (text.unit, text.shown, text.total);
        self.text = (!is_said).then_some((text.shown, text.total));
        self
    }

    /// For programs.
    pub(in crate::rule) fn meta(&self) -> Value {
        let Self { unit, shown, total, text, next } = self;
        let mut meta = json!({ "unit": unit, "shown": shown, "leftOut": total - shown, "total": total });
        if let Some((shown, total)) = text {
            meta["text"] = json!({ "unit": LINES, "shown": shown, "leftOut": total - shown, "total": total });
        }
        if !next.is_empty() {
            meta["next"] = Value::Object(next.clone());
        }
        meta
    }

    /// For people and models: what the rule's template makes of it, else a sentence.
    ///
    /// # Errors
    ///
    /// A sentence for the log, and the note by default.
    pub(in crate::rule) fn note(
        &self,
        limit: &Limit,
        view: &ResponseView<'_>,
    ) -> Result<String, (String, String)> {
        let Some(template) = &limit.note else { return Ok(self.to_string()) };
        let Self { unit, shown, total, text: _, next } = self;
        let numbers =
            json!({ "unit": unit, "shown": shown, "left_out": total - shown, "total": total, "next": next });
        let names = Name::from_pairs([("limit", from_json(&numbers)), ("args", from_json(view.facts.args))]);
        let budget = Budget::of_result().until(view.stop());
        template.render_within(&names, &budget).map_err(|error| {
            (format!("the template of `note` could not be filled in: {error}"), self.to_string())
        })
    }
}
