//! Values with what matches replaced in them.

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Map, Value};

use super::{MARK, REACH_BYTES, Redaction};

impl Redaction {
    /// A value with what matches replaced in its strings, in the names of its members, and in its numbers.
    pub(in crate::rule) fn hide_in(&self, value: Value) -> Value {
        let hide = |text: String| match self.hide_short(&text) {
            Cow::Borrowed(shown) if shown.len() == text.len() => text,
            shown => shown.into_owned(),
        };
        match value {
            Value::String(text) => Value::String(hide(text)),
            // The number of a card is one, too.
            Value::Number(number) => match self.hide_short(number.as_str()) {
                Cow::Borrowed(MARK) => MARK.into(),
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(hidden) => Value::String(hidden),
            },
            Value::Array(items) => items.into_iter().map(|item| self.hide_in(item)).collect(),
            Value::Object(members) => {
                let mut hidden = Map::with_capacity(members.len());
                let mut again: HashMap<String, usize> = HashMap::new();
                for (name, value) in members {
                    let mut name = hide(name);
                    // Two names may be one now, and neither member may be lost.
                    while hidden.contains_key(&name) {
                        let count = again.entry(name.clone()).or_default();
                        *count += 1;
                        name.push('+');
                        if *count > 1 {
                            name.push_str(&count.to_string());
                        }
                    }
                    hidden.insert(name, self.hide_in(value));
                }
                Value::Object(hidden)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// A text with what matches replaced; one that is too long to look through is replaced as a whole.
    fn hide_short<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.len() > REACH_BYTES { Cow::Borrowed(MARK) } else { self.hide(text) }
    }
}
