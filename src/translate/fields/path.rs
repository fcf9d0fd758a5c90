//! Where a field is in what an extractor found.

use std::{fmt, str::FromStr};

use serde_json::{Map, Value};

/// Where the text of an XML element stands that has more than that.
pub(crate) const TEXT_KEY: &str = "#text";

/// A way into nested values: `disk.0.size`.
///
/// A key that is written exactly so, dots and all, comes first; else each part is a key of an object, or the place of
/// an item in an array, from 0. What is no array is its own item 0, because an element that may come several times
/// often comes once; and a text is its own `#text`, because an element has attributes at one time and none at another. A key with dots in it, inside, is put in double quotes: `disk."a.b".size`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<String>,
}

/// Why a text is no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing between two dots, or before or after one.
    #[error("expected a name on both sides of each dot")]
    EmptyStep,
    /// A quote that nothing closes, or a name before or after a quoted one without a dot between them.
    #[error("expected `\"` at both ends of a name that is in quotes")]
    Quotes,
}

impl Path {
    /// The key of that name and no other.
    pub fn exact(name: &str) -> Self {
        Self { text: name.to_owned(), steps: vec![name.to_owned()] }
    }

    /// The name of the outermost key.
    pub fn first(&self) -> &str {
        self.steps.first().map_or(&self.text, String::as_str)
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands there.
    pub(crate) fn find<'v>(&self, found: &'v Map<String, Value>) -> Option<&'v Value> {
        if let Some(value) = found.get(&self.text) {
            return Some(value);
        }
        let mut steps = self.steps.iter();
        let first = found.get(steps.next()?)?;
        steps.try_fold(first, |value, step| {
            match value {
                Value::Object(members) => members.get(step),
                Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            }
            .or_else(|| (step == "0" && !value.is_array()).then_some(value))
            .or_else(|| (step == TEXT_KEY && (value.is_string() || value.is_null())).then_some(value))
        })
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let (step, after) = match rest.strip_prefix('"') {
                Some(quoted) => {
                    let (step, after) = quoted.split_once('"').ok_or(PathError::Quotes)?;
                    if !after.is_empty() && !after.starts_with('.') {
                        return Err(PathError::Quotes);
                    }
                    (step, after)
                }
                None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
            };
            if step.is_empty() {
                return Err(PathError::EmptyStep);
            }
            steps.push(step.to_owned());
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None => return Ok(Self { text: text.to_owned(), steps }),
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<Value>) {
        let found = json!({
            "disk": [{"size": 1}, {"size": 2, "a.b": 3}], "one": {"size": 4}, "x.y": 5, "x": {"y": 6}, "t": "text",
        });
        let path: Path = path.parse().unwrap();
        assert_eq!(path.find(found.as_object().unwrap()), expected.as_ref(), "{path}");
    }

    #[test]
    fn a_path_leads_into_nested_values() {
        check("disk.1.size", Some(json!(2)));
        check(r#"disk.1."a.b""#, Some(json!(3)));
        check("disk.2.size", None);
        check("disk.size", None);
        check("one.0.size", Some(json!(4)));
        check("one.1.size", None);
        check("x.y", Some(json!(5)));
        check(r#""x".y"#, Some(json!(6)));
        check("t.0", Some(json!("text")));
        check("t.u", None);
        check("t.#text", Some(json!("text")));
        check("t.0.#text", Some(json!("text")));
        check("disk.#text", None);
        check("x.y.#text", None);
    }

    #[test]
    fn what_is_no_path_is_told() {
        for (text, error) in [
            ("", PathError::EmptyStep),
            ("a..b", PathError::EmptyStep),
            (".a", PathError::EmptyStep),
            ("a.", PathError::EmptyStep),
            ("\"a", PathError::Quotes),
            ("\"a\"b", PathError::Quotes),
        ] {
            assert_eq!(text.parse::<Path>(), Err(error), "{text}");
        }
    }
}
