//! Words with a meaning each: `OK` is `up`, `CRIT` is `down`.

use std::fmt;

use serde_json::{Map, Value};

use crate::tool::type_of;

/// The words that a field may have, and the value that each stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    /// Words and their values: texts, numbers, `true`, `false` or null.
    pub words: Vec<(String, Value)>,
    /// The value of every other word; without it another word is an error.
    pub rest: Option<Value>,
    /// Whether ASCII letters are the same in either case.
    pub ignore_case: bool,
}

impl Values {
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        let same = |word: &str| {
            if self.ignore_case { word.eq_ignore_ascii_case(text) } else { word == text }
        };
        let known = self.words.iter().find(|(word, _)| same(word)).map(|(_, value)| value);
        known.or(self.rest.as_ref()).cloned()
    }

    /// Adds `type` and `enum`.
    pub(super) fn describe(&self, schema: &mut Map<String, Value>) {
        let mut values: Vec<&Value> = Vec::new();
        for value in self.words.iter().map(|(_, value)| value).chain(&self.rest) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let mut kinds: Vec<&str> = Vec::new();
        for kind in values.iter().map(|value| type_of(value)) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let kinds = if let [kind] = kinds[..] { kind.into() } else { kinds.into() };
        schema.insert("type".into(), kinds);
        schema.insert("enum".into(), values.into_iter().cloned().collect());
    }
}

impl fmt::Display for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST_LISTED: usize = 20;
        let mut words: Vec<_> =
            self.words.iter().take(MOST_LISTED).map(|(word, _)| format!("`{word}`")).collect();
        if self.words.len() > MOST_LISTED {
            words.push("…".into());
        }
        write!(formatter, "one of {}", words.join(", "))
    }
}
