//! What is found in lines, while they are read: sections, and lines that others may yet belong to.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Value};

use super::{Indented, Pairs};
use crate::translate::extract::records::add;

/// What is found, while it is read.
pub(super) struct Builder<'p, 't> {
    pub(super) pairs: &'p Pairs,
    /// The outermost keys that are kept; all of them where there is none.
    pub(super) wanted: Option<&'p BTreeSet<&'p str>>,
    pub(super) found: Map<String, Value>,
    /// The sections that are being read, each in the one before.
    pub(super) sections: Vec<(String, Map<String, Value>)>,
    /// The lines that others may yet belong to, each indented more than the one before.
    pub(super) open: Vec<Open<'t>>,
}

/// A line that others may yet belong to.
pub(super) struct Open<'t> {
    indent: usize,
    key: &'t str,
    /// As it stands; `None` where the line has no separator.
    value: Option<Cow<'t, str>>,
    /// The line, and the value at its end.
    pub(super) place: Option<(&'t str, &'t str)>,
    /// What other lines add to the value.
    more: Vec<&'t str>,
    members: Map<String, Value>,
}

impl<'t> Open<'t> {
    pub(super) fn new(indent: usize, key: &'t str, value: Option<Cow<'t, str>>) -> Self {
        Self { indent, key, value, place: None, more: Vec::new(), members: Map::new() }
    }
}

impl<'t> Builder<'_, 't> {
    /// Adds an indented line to the value that it goes on with, if there is one.
    pub(super) fn goes_on(&mut self, line: &str) -> bool {
        let mut rest = line.chars();
        rest.next();
        let (between, more) = match self.pairs.indented {
            Indented::Same | Indented::Nested => return false,
            Indented::Lines => ("\n", rest.as_str().trim_end()),
            Indented::Words => (" ", line.trim()),
            Indented::Fold => ("", rest.as_str()),
        };
        let Some(value) = self.open.last_mut().and_then(|open| open.value.as_mut()) else { return false };
        let value = value.to_mut();
        value.push_str(between);
        value.push_str(more);
        true
    }

    /// Whether a line begins right below the value of the line before, and is no pair itself: `ipconfig` writes further
    /// addresses there. The separator may be a part of such a value (`fe80::1`), but not with white space behind it.
    pub(super) fn is_below_value(&self, line: &str) -> bool {
        // White space stands before the value above, so before what is right below it, too.
        if !line.starts_with(char::is_whitespace) {
            return false;
        }
        let above = self.open.last().and_then(|open| open.place);
        let Some(column) = above.and_then(|(line, value)| value_column(line, value)) else { return false };
        if column != indentation(line) || !line.contains(char::is_alphanumeric) {
            return false;
        }
        let found = self.pairs.split(line.trim());
        found.is_none_or(|(key, value)| {
            let separator = &line.trim()[key.len()..line.trim().len() - value.len()];
            !separator.trim().is_empty() && !value.is_empty() && !value.starts_with(char::is_whitespace)
        })
    }

    pub(super) fn add_value(&mut self, value: &'t str) {
        if let Some(open) = self.open.last_mut() {
            open.more.push(value);
        }
    }

    /// Puts every line away that is indented as much as `indent`, or more.
    pub(super) fn close(&mut self, indent: usize) {
        while let Some(mut line) = self.open.pop_if(|line| line.indent >= indent) {
            if self.open.is_empty() && self.sections.is_empty() && !self.wants(line.key) {
                continue;
            }
            let more: Vec<Value> = line.more.iter().map(|value| self.pairs.plain(value).into()).collect();
            let values = match line.value {
                _ if !line.members.is_empty() => {
                    more.into_iter().for_each(|value| add(&mut line.members, "value", value));
                    vec![Value::Object(line.members)]
                }
                // Words that are no pair, below a line that they belong to.
                None if more.is_empty() => {
                    if let Some(parent) =
                        self.open.last_mut().filter(|_| line.key.contains(char::is_alphanumeric))
                    {
                        parent.more.push(line.key);
                    }
                    continue;
                }
                value => {
                    let own = value.map(|value| Value::from(self.pairs.plain(&value)));
                    let own = own.filter(|own| more.is_empty() || own.as_str() != Some(""));
                    own.into_iter().chain(more).collect()
                }
            };
            let members = match (self.open.last_mut(), self.sections.last_mut()) {
                (Some(parent), _) => {
                    let own = parent.value.as_ref().map(|value| self.pairs.plain(value));
                    if let Some(own) = own.filter(|own| parent.members.is_empty() && !own.is_empty()) {
                        add(&mut parent.members, "value", own.into());
                    }
                    &mut parent.members
                }
                (None, Some((_, members))) => members,
                (None, None) => &mut self.found,
            };
            values.into_iter().for_each(|value| add(members, line.key, value));
        }
    }

    /// Whether an outermost key is kept.
    fn wants(&self, key: &str) -> bool {
        self.wanted.is_none_or(|wanted| wanted.contains(key))
    }

    pub(super) fn begin_section(&mut self, name: &str) {
        match self.pairs.section_end {
            Some(_) => self.close(0),
            None => self.close_section(),
        }
        self.sections.push((name.to_owned(), Map::new()));
    }

    pub(super) fn close_section(&mut self) {
        self.close(0);
        if let Some((name, members)) = self.sections.pop() {
            if self.sections.is_empty() && !self.wants(&name) {
                return;
            }
            let outer = self.sections.last_mut().map_or(&mut self.found, |(_, members)| members);
            add(outer, name, Value::Object(members));
        }
    }
}

/// How many columns of white space a line begins with.
pub(super) fn indentation(line: &str) -> usize {
    columns(line.chars().take_while(|character| character.is_whitespace()))
}

/// The column that the value at the end of a line begins in, where white space stands before it; `None` where it is empty.
fn value_column(line: &str, value: &str) -> Option<usize> {
    let begin = value.find(|character: char| !character.is_whitespace()).filter(|begin| *begin > 0)?;
    Some(columns(line[..line.len() - value.len() + begin].chars()))
}

/// How many columns characters take.
fn columns(characters: impl Iterator<Item = char>) -> usize {
    const TAB_COLUMNS: usize = 8;
    characters.fold(0, |column, character| match character {
        '\t' => (column / TAB_COLUMNS + 1) * TAB_COLUMNS,
        _ => column + 1,
    })
}
