//! `pairs`: `key: value` lines.
//!
//! In reading order: [`Pairs`] takes lines apart, and a `builder` puts together what is in them.

mod builder;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Value};

use self::builder::{Builder, Open, indentation};
use super::{
    Extracted, Extraction, Gives, RECORD_LIMIT, Typing,
    records::{Blocks, gather},
};
use crate::translate::{
    matcher::Pattern,
    response_view::ResponseView,
    stop::{STOPPED, Stop},
    why::Why,
};

/// Reads lines of a key, a separator and a value into an object of strings.
///
/// The first separator of a line counts, white space round key and value does not, nor do dots that lead from the key to
/// the separator. Lines without a separator (headings, rules, blank lines) are passed over, unless they begin right below
/// the value of the line before: it has several then. A reply without any pair is an error. A key that comes again gives
/// an array of its values, in order.
#[derive(Debug)]
pub struct Pairs {
    /// With the captures `key` and `value`: every match in a line is a pair. It stands in place of separators, and no
    /// line is nested below another.
    pub pattern: Option<Pattern>,
    /// What stands between key and value: whichever comes first, the longest of those at one place. There is at
    /// least one, and none is empty.
    pub separators: Vec<String>,
    /// What lines begin with that are passed over, white space aside; none is empty.
    pub comments: Vec<String>,
    /// Whether `"…"` (with `\"` and `\\`) and `'…'` round a value are left out.
    pub unquote: bool,
    /// What the lines mean that begin with white space.
    pub indented: Indented,
    /// A line that matches begins a section, an object of its own; its first named capture is the name.
    pub sections: Option<Pattern>,
    /// A line that matches ends the section that was begun last, and sections may stand in others; without it, the next
    /// section ends the one before.
    pub section_end: Option<Pattern>,
    /// Each block of lines gives an object of an array, blocks without pairs aside; the whole text gives one
    /// object where this is missing.
    pub blocks: Option<Box<Blocks>>,
    /// Whether an empty array is right where no block has a pair; an error otherwise.
    pub allow_empty: bool,
}

/// What lines mean that begin with white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Indented {
    /// The same as other lines.
    #[default]
    Same,
    /// They belong to the line before that is indented less, which becomes an object: of its own value as
    /// `value`, where it has one, and of what is below it. A line without separator is a key then, if there is
    /// something below it, and else one more value of the line that it belongs to. Tabs reach to the next multiple of
    /// eight columns.
    Nested,
    /// They go on with the value before, with a line break between.
    Lines,
    /// They go on with the value before, with a space between.
    Words,
    /// They go on with the value before after their first character, as in LDIF.
    Fold,
}

impl Default for Pairs {
    fn default() -> Self {
        Self {
            pattern: None,
            separators: vec![Self::DEFAULT_SEPARATOR.to_owned()],
            comments: Vec::new(),
            unquote: false,
            indented: Indented::Same,
            sections: None,
            section_end: None,
            blocks: None,
            allow_empty: false,
        }
    }
}

impl Extraction for Pairs {
    fn gives(&self) -> Gives {
        if self.blocks.is_some() { Gives::Many } else { Gives::One }
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        self.extract(view.text()?, None, view.stop()).map(Extracted::Value)
    }
}

impl Pairs {
    /// The separator where a rule names none.
    pub const DEFAULT_SEPARATOR: &'static str = ":";

    /// A section by its name in brackets, `[name]`, with or without a comment behind it.
    pub const BRACKETS: &'static str = r"^\[(?<name>[^\[\]]+)\]\s*(?:[#;].*)?$";

    /// How many objects may be one in another; each may be in a list too, and the whole stays below the depth
    /// of JSON that is read.
    const NESTING_LIMIT: usize = 32;

    /// How many pairs all blocks of a reply may have together.
    const PAIRS_OF_BLOCKS_LIMIT: usize = 10 * RECORD_LIMIT;

    /// Checks `stop` between two matches of the pattern, which are quadratic in the length of a line. If
    /// `wanted` is given, only these outermost keys are kept.
    pub(super) fn extract(
        &self,
        text: &str,
        wanted: Option<&BTreeSet<&str>>,
        stop: Option<&Stop>,
    ) -> Result<Value, Why> {
        let expected = || match &self.pattern {
            Some(pattern) => format!("lines that match `{pattern}`, found none"),
            None => {
                let separator = self.separators.first().map_or(Self::DEFAULT_SEPARATOR, String::as_str);
                format!("lines of `key{separator} value`, found none")
            }
        };
        let Some(blocks) = &self.blocks else {
            let (object, _) = self.object(text, wanted, 1, RECORD_LIMIT, stop)?;
            if object.is_empty() {
                return Err(Why::plainly(format!("expected {}", expected())));
            }
            return Ok(Value::Object(object));
        };
        let mut left = Self::PAIRS_OF_BLOCKS_LIMIT;
        let objects = blocks.of(text).filter_map(|block| {
            let limit = left.min(RECORD_LIMIT);
            let (object, count) = match self.object(block.text, None, block.line, limit, stop) {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            left -= count;
            (!object.is_empty()).then_some(Ok(Value::Object(object)))
        });
        let objects = gather(objects, "blocks of pairs")?;
        if objects.is_empty() && !self.allow_empty {
            return Err(Why::plainly(format!("expected blocks of {}", expected())));
        }
        Ok(Value::Array(objects))
    }

    /// The pairs of a text, and how many they are; `first_line` is the line of the reply that it begins in.
    fn object(
        &self,
        text: &str,
        wanted: Option<&BTreeSet<&str>>,
        first_line: usize,
        limit: usize,
        stop: Option<&Stop>,
    ) -> Result<(Map<String, Value>, usize), Why> {
        let (found, sections, open) = Default::default();
        let mut builder = Builder { pairs: self, wanted, found, sections, open };
        let mut count = 0_usize;
        let too_many = |line: usize| {
            Why::plainly(format!("line {line}: expected at most {RECORD_LIMIT} pairs, found more"))
        };
        for (index, line) in text.lines().enumerate() {
            let bare = line.trim_start();
            if bare.is_empty() {
                // What is said to go on does not go on after a blank line.
                if self.indented != Indented::Nested {
                    builder.close(0);
                }
                continue;
            }
            if bare.len() < line.len() && builder.goes_on(line) {
                continue;
            }
            if builder.is_below_value(line) {
                count += 1;
                if count > limit {
                    return Err(too_many(first_line + index));
                }
                builder.add_value(bare.trim_end());
                continue;
            }
            if self.comments.iter().any(|prefix| bare.starts_with(prefix)) {
                continue;
            }
            if self.section_end.as_ref().is_some_and(|pattern| pattern.regex().is_match(bare)) {
                builder.close_section();
                continue;
            }
            let section =
                self.sections.as_ref().and_then(|pattern| Some((pattern, pattern.regex().captures(bare)?)));
            if let (Some(pattern), None) = (&self.pattern, &section) {
                // What goes on goes on with a pair of the line before.
                builder.close(0);
                for found in pattern.regex().captures_iter(bare) {
                    // The search for the next may go through all that is left.
                    let left = bare.len() - found.get(0).map_or(0, |whole| whole.start());
                    if stop.is_some_and(|stop| !stop.allows(Stop::of_search(left))) {
                        return Err(STOPPED.into());
                    }
                    let (Some(key), Some(value)) = (found.name("key"), found.name("value")) else { continue };
                    let (key, value) = (key.as_str().trim(), value.as_str());
                    if key.is_empty() {
                        continue;
                    }
                    count += 1;
                    if count > limit {
                        return Err(too_many(first_line + index));
                    }
                    builder.close(0);
                    let value = Some(Cow::Borrowed(value));
                    builder.open.push(Open::new(0, key, value));
                }
                continue;
            }
            let (key, value) = match (&section, self.split(bare)) {
                (Some(_), _) => ("", None),
                (None, Some((key, value))) => (without_leader(key), Some(value)),
                (None, None) => (bare.trim_end(), None),
            };
            if section.is_none() && (key.is_empty() || value.is_none() && self.indented != Indented::Nested) {
                builder.close(if self.indented == Indented::Nested { indentation(line) } else { 0 });
                continue;
            }
            count += 1;
            let line_number = first_line + index;
            if count > limit {
                return Err(too_many(line_number));
            }
            if let Some((pattern, captures)) = section {
                if builder.sections.len() >= Self::NESTING_LIMIT {
                    let most = Self::NESTING_LIMIT;
                    return Err(Why::plainly(format!(
                        "line {line_number}: expected at most {most} sections in one another, found more"
                    )));
                }
                let name = pattern.names().first().and_then(|name| captures.name(name));
                builder.begin_section(name.map_or("", |name| name.as_str().trim()));
                continue;
            }
            let indent = if self.indented == Indented::Nested { indentation(line) } else { 0 };
            builder.close(indent);
            if builder.open.len() >= Self::NESTING_LIMIT {
                let most = Self::NESTING_LIMIT;
                return Err(Why::plainly(format!(
                    "line {line_number}: expected at most {most} levels of indentation, found more"
                )));
            }
            let mut open = Open::new(indent, key, value.map(Cow::Borrowed));
            open.place = value.map(|value| (line, value));
            builder.open.push(open);
        }
        while !builder.sections.is_empty() {
            builder.close_section();
        }
        builder.close(0);
        Ok((builder.found, count))
    }

    fn split<'t>(&self, line: &'t str) -> Option<(&'t str, &'t str)> {
        let found =
            self.separators.iter().filter_map(|separator| Some((line.find(separator)?, separator.len())));
        let (at, length) = found.min_by_key(|(at, length)| (*at, usize::MAX - length))?;
        Some((&line[..at], &line[at + length..]))
    }

    /// A value without what does not belong to it.
    fn plain(&self, value: &str) -> String {
        let value = value.trim();
        let unquoted = if self.unquote { unquoted(value) } else { None };
        unquoted.unwrap_or_else(|| value.to_owned())
    }
}

/// A key without the dots that lead from it to the separator: `DNS Servers . . . :`, `Total.....:`.
fn without_leader(key: &str) -> &str {
    let key = key.trim_end();
    let bare = key.trim_end_matches(['.', ' ']);
    if key[bare.len()..].matches('.').count() > 1 && !bare.is_empty() { bare } else { key }
}

/// What stands in the quotes, where a value is one quoted text.
fn unquoted(value: &str) -> Option<String> {
    if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return (!inner.contains('\'')).then(|| inner.to_owned());
    }
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut plain = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(character) = rest.next() {
        match character {
            '"' => return None,
            '\\' => match rest.next()? {
                escaped @ ('"' | '\\') => plain.push(escaped),
                other => plain.extend(['\\', other]),
            },
            other => plain.push(other),
        }
    }
    Some(plain)
}
