//! The list that is cut short: the way to it, and its rows.

use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

use super::{LINES, ROWS};
use crate::model::LimitedWriter;

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

    /// How many of the first rows make the value longer by so many characters at most, against one without rows. `depth`
    /// is how deep the list is in it, where there is a line for each row and for each member of one.
    pub(super) fn fitting(&self, characters: usize, depth: Option<usize>) -> usize {
        /// For each step down.
        const INDENTATION: usize = 2;
        let mut room = characters;
        let mut takes = |length: Option<usize>| {
            let left = length.and_then(|length| room.checked_sub(length));
            room = left.unwrap_or(room);
            left.is_some()
        };
        match self {
            Self::List(rows) => {
                let indentation = depth.map(|depth| (depth + 1) * INDENTATION);
                let length = |(index, row): (usize, &Value)| {
                    let row = written(row, depth.is_some(), characters)?;
                    let lines = row.matches('\n').count() + 1;
                    let before = indentation.map_or(0, |indentation| lines * indentation + 1);
                    // Before the first is no comma, and after the last the bracket is on its own line.
                    let between = match (index, depth) {
                        (0, None) => 0,
                        (0, Some(depth)) => depth * INDENTATION + 1,
                        _ => 1,
                    };
                    Some(row.chars().count() + before + between)
                };
                rows.iter().enumerate().take_while(|row| takes(length(*row))).count()
            }
            Self::Lines(lines) => {
                // The quotes are round all lines together.
                const QUOTES: usize = 2;
                let length = |line: &String| {
                    let line = written(line, false, characters.saturating_add(QUOTES))?;
                    Some(line.chars().count() - QUOTES)
                };
                lines.iter().take_while(|line| takes(length(line))).count()
            }
            Self::None => 0,
        }
    }
}

/// A row as JSON, unless it has more than so many characters for certain.
fn written(row: &impl Serialize, with_lines: bool, characters: usize) -> Option<String> {
    /// A character has so many in UTF-8.
    const MOST_BYTES: usize = 4;
    let mut writer = LimitedWriter::new(characters.saturating_mul(MOST_BYTES));
    let written = match with_lines {
        true => serde_json::to_writer_pretty(&mut writer, row),
        false => serde_json::to_writer(&mut writer, row),
    };
    written.ok().and_then(|()| String::from_utf8(writer.into_bytes()).ok())
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
