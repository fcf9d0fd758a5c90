//! The list that is cut short: the way to it, and its rows.

use std::str::FromStr;

use serde_json::Value;

use super::{LINES, ROWS};
use crate::tool::JsonText;

/// The way to a list: names of members, as `.hosts` or `.data."my rows"` in jq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPath(Vec<String>);

/// Why a text is not such a way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the way to a list, such as `.hosts` or `.data.rows`, found `{0}`")]
pub struct ListPathError(String);

impl FromStr for ListPath {
    type Err = ListPathError;

    fn from_str(text: &str) -> Result<Self, ListPathError> {
        let wrong = || ListPathError(text.to_owned());
        let mut rest = text.trim().strip_prefix('.').ok_or_else(wrong)?;
        let mut names = Vec::new();
        while !rest.is_empty() {
            let (name, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(wrong)?,
                None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
            };
            let is_plain = |c: char| c.is_alphanumeric() || c == '_';
            if name.is_empty() || !(rest.starts_with('"') || name.chars().all(is_plain)) {
                return Err(wrong());
            }
            names.push(name.to_owned());
            rest = match after {
                "" => "",
                after => after.strip_prefix('.').filter(|rest| !rest.is_empty()).ok_or_else(wrong)?,
            };
        }
        Ok(Self(names))
    }
}

impl ListPath {
    /// The names on the way.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// The rows of a list, or the lines of a text.
pub(super) enum Rows {
    List(Vec<Value>),
    Lines(Vec<String>),
    None,
}

impl Rows {
    /// Takes the rows out of a value.
    pub(super) fn take(value: &mut Value, path: &[String]) -> Option<Self> {
        match at_mut(value, path)?.take() {
            Value::Array(rows) => Some(Self::List(rows)),
            Value::String(text) => Some(Self::Lines(text.split_inclusive('\n').map(str::to_owned).collect())),
            other => {
                *at_mut(value, path)? = other;
                None
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::List(rows) => rows.len(),
            Self::Lines(lines) => lines.len(),
            Self::None => 0,
        }
    }

    pub(super) fn unit(&self) -> &'static str {
        match self {
            Self::List(_) | Self::None => ROWS,
            Self::Lines(_) => LINES,
        }
    }

    /// The first rows, as a value.
    pub(super) fn first(&self, count: usize) -> Value {
        match self {
            Self::List(rows) => Value::Array(rows[..count].to_vec()),
            Self::Lines(lines) => Value::String(lines[..count].concat()),
            Self::None => Value::Null,
        }
    }

    /// How many rows there can be at most in so many characters.
    pub(super) fn fitting(&self, characters: usize) -> usize {
        let mut room = characters;
        let mut fits = |length: usize| {
            let left = room.checked_sub(length);
            room = left.unwrap_or(0);
            left.is_some()
        };
        match self {
            Self::List(rows) if characters < usize::MAX => {
                rows.iter().take_while(|row| fits(JsonText::of(row).as_str().chars().count())).count()
            }
            Self::Lines(lines) => lines.iter().take_while(|line| fits(line.chars().count())).count(),
            Self::List(rows) => rows.len(),
            Self::None => 0,
        }
    }
}

pub(super) fn at_mut<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

/// The list with the most rows that objects alone lead to; the first of two alike.
pub(super) fn longest_list(value: &Value) -> Option<(usize, Vec<String>)> {
    let mut best: Option<(usize, Vec<String>)> = None;
    for (name, member) in value.as_object()? {
        let found = match member {
            Value::Array(rows) => Some((rows.len(), Vec::new())),
            Value::Object(_) => longest_list(member),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        if let Some((length, mut path)) = found
            && best.as_ref().is_none_or(|(longest, _)| length > *longest)
        {
            path.insert(0, name.clone());
            best = Some((length, path));
        }
    }
    best
}
