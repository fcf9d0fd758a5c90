//! `pairs`: parser of `key: value` lines. [`Pairs`] splits lines, and a [`Builder`] builds the value.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use memchr::{memchr, memmem};
use serde_json::{Map, Value};
use settings_derive::{EnumSetting, Section};

use super::records::{
    LineBlock, Records, add, gather, quoted_length, texts, unescaped, with_plain_line_ends,
};
use super::{Extracted, FormatParser, MemberNames, RECORD_LIMIT, Typing, ValueCount};
use crate::settings::{Checked, Code, Cursor, Invalid, Kind, Node, OpenSection, Setting};
use crate::translate::fields::Fields;
use crate::translate::pattern::Pattern;
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;
use crate::translate::work_budget::WorkBudget;

/// Parses lines of a key, a separator and a value into an object of strings.
///
/// The first separator of a line applies. White space around key and value is removed, and so is a dot leader
/// between key and separator. Lines without a separator (headings, rules, blank lines) are skipped, unless
/// they are aligned with the value of the line above: then they are further values. A response without pairs
/// is an error. The values of a repeated key become a list, in order.
#[derive(Debug, Section)]
#[section(default, check_keys = Self::check_keys)]
pub struct Pairs {
    /// Separator of key and value, or a list; the first separator in a line applies.
    ///
    /// If several match at one position, the longest applies. There is at least one, and none is empty.
    #[key(
        name = "separator",
        kind = ValueKind::OneOrMore(&ValueKind::Text),
        with = texts,
        default = vec![":".to_owned()],
        example = "separator: \"=\"",
        conflicts = "pattern"
    )]
    pub separators: Vec<String>,
    /// Regular expression with the captures `key` and `value`, in place of `separator`. Every match in a line
    /// is a pair.
    #[key(with = read_pattern)]
    pub pattern: Option<Pattern>,
    /// Prefix of comment lines, such as `#`, which are skipped, or a list of prefixes.
    #[key(name = "comment", kind = ValueKind::OneOrMore(&ValueKind::Text), with = texts)]
    pub comments: Vec<String>,
    /// Whether to remove quotes around values.
    ///
    /// Those are `"…"` (with `\"` and `\\`) and `'…'`.
    pub unquote: bool,
    /// Meaning of indented lines: pairs like any other (`same`), members of the less indented line above
    /// (`nested`), or continuations of its value, joined with a line break (`lines`), a space (`words`) or
    /// nothing (`fold`).
    #[key(default = Indented::Same)]
    pub indented: Indented,
    /// Section headers: `true` for `[name]`, or a regular expression whose one capture is the name. Each
    /// section becomes an object.
    #[key(
        kind = ValueKind::Either(&[ValueKind::Boolean, ValueKind::Text]),
        with = read_sections,
        shown = "`false`"
    )]
    pub sections: Option<Pattern>,
    /// Regular expression of lines that end a section. With it, sections can be nested.
    #[key(
        requires = "sections",
        help = "add a pattern for the start of a section: `sections: '^BEGIN:(?<name>.+)'`",
        shown = "a section ends where the next begins"
    )]
    pub section_end: Option<Pattern>,
    /// Scope of a record: the whole text, or each block of lines.
    ///
    /// Each block with pairs becomes an object of a list; the whole text becomes one object.
    #[key(default = EachPairs::Text)]
    pub each: EachPairs,
    /// How blocks are separated.
    #[key(part)]
    pub records: Records,
}

/// Scope of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum EachPairs {
    /// The whole text.
    Text,
    /// A block of lines.
    Block,
}

/// Meaning of indented lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum Indented {
    /// Pairs like other lines.
    Same,
    /// Members of the less indented line above, which becomes an object. That line's own value becomes the
    /// member `value`. A line without a separator is a key if lines are below it, else a further value of its
    /// parent. Tab stops are 8 columns apart.
    Nested,
    /// Continuations of the value above, joined with a line break.
    Lines,
    /// Continuations of the value above, joined with a space.
    Words,
    /// Folded lines, as in LDIF: continuations of the value above, without their first character.
    Fold,
}

fn read_pattern(value: &Cursor<'_>) -> Checked<Option<Pattern>> {
    let pattern = Pattern::read(value)?;
    let mut names: Vec<&str> = pattern.names().collect();
    names.sort_unstable();
    if names != ["key", "value"] {
        let found = if names.is_empty() { "none".to_owned() } else { format!("`{}`", names.join("`, `")) };
        let message = format!("`pattern` of `pairs` must capture `key` and `value`, found {found}");
        let invalid = Invalid::new(message, "write `pattern: '(?<key>\\w+)=(?<value>\\S*)'`");
        return value.reject(invalid.with_code(Code::NoCaptures));
    }
    Ok(Some(pattern))
}

fn read_sections(value: &Cursor<'_>) -> Checked<Option<Pattern>> {
    if let Kind::Boolean(flag) = value.node.kind {
        return Ok(flag.then(|| Pattern::compile(Pairs::BRACKETS).expect("the pattern is ours")));
    }
    let pattern = Pattern::read(value)?;
    let count = pattern.names().count();
    if count != 1 {
        let message = format!("`sections` must capture one name, found {count}");
        let invalid = Invalid::new(message, "write `sections: '^# (?<name>.+)'`");
        return value.reject(invalid.with_code(Code::NoCaptures));
    }
    Ok(Some(pattern))
}

impl FormatParser for Pairs {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        match self.each {
            EachPairs::Text => (ValueCount::One, MemberNames::AnyNames),
            EachPairs::Block => (ValueCount::Many, MemberNames::AnyNames),
        }
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        self.extract(view.text()?, None, view.input.work_budget).map(Extracted::Value)
    }
}

impl Pairs {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let indented = section.get("indented").and_then(Node::as_text);
        if indented == Some("nested") && section.entry("pattern").is_some() {
            return Err(section.conflict("indented", "pattern"));
        }
        Ok(())
    }

    /// Section header in brackets, `[name]`, optionally followed by a comment.
    pub const BRACKETS: &'static str = r"^\[(?<name>[^\[\]]+)\]\s*(?:[#;].*)?$";

    /// Maximum depth of nested objects. Each object may also be in a list, and the result must stay below the
    /// JSON depth limit.
    const NESTING_LIMIT: usize = 32;

    /// Maximum number of pairs of all blocks of a response together.
    const PAIRS_OF_BLOCKS_LIMIT: usize = 10 * RECORD_LIMIT;

    /// Extracts the pairs. Checks `stop` between two matches of the pattern, because matching takes quadratic
    /// time in the length of a line. With `used_fields`, extracts only the outermost keys that these fields
    /// use.
    pub(super) fn extract(
        &self,
        text: &str,
        used_fields: Option<&Fields>,
        work_budget: Option<&WorkBudget>,
    ) -> Result<Value, ReadError> {
        let text = &*with_plain_line_ends(text);
        let expected = || match &self.pattern {
            Some(pattern) => format!("lines that match `{pattern}`, found none"),
            None => {
                let separator = self.separators.first().map_or(":", String::as_str);
                format!("lines of `key{separator} value`, found none")
            }
        };
        if self.each == EachPairs::Text {
            let (object, _) =
                self.object(LineBlock { line: 1, text }, used_fields, RECORD_LIMIT, work_budget)?;
            if object.is_empty() {
                return Err(read_error!("expected {}", expected()));
            }
            return Ok(Value::Object(object));
        }
        let mut remaining = Self::PAIRS_OF_BLOCKS_LIMIT;
        let objects = self.records.blocks(text).filter_map(|block| {
            match self.object(block, None, remaining.min(RECORD_LIMIT), work_budget) {
                Ok((object, count)) => {
                    remaining -= count;
                    (!object.is_empty()).then_some(Ok(Value::Object(object)))
                }
                Err(error) => Some(Err(error)),
            }
        });
        let objects = gather(objects, "blocks of pairs")?;
        if objects.is_empty() && !self.records.allow_empty {
            return Err(read_error!("expected blocks of {}", expected()));
        }
        Ok(Value::Array(objects))
    }

    /// Returns the pairs of a block, and their number.
    fn object(
        &self,
        block: LineBlock<'_>,
        used_fields: Option<&Fields>,
        limit: usize,
        work_budget: Option<&WorkBudget>,
    ) -> Result<(Map<String, Value>, usize), ReadError> {
        let (top_level, stack) = Default::default();
        let mut builder =
            Builder { pairs: self, used_fields, work_budget, limit, count: 0, top_level, stack };
        for line in block.split(b'\n') {
            builder.add_line(line.text).map_err(|error| line.locate(error))?;
        }
        while !builder.stack.is_empty() {
            builder.close_section();
        }
        Ok((builder.top_level, builder.count))
    }

    fn split<'t>(&self, line: &'t str) -> Option<(&'t str, &'t str)> {
        let found = self.separators.iter().filter_map(|separator| {
            // On short lines, both searches take less than half the instructions of `str::find`.
            let at = match separator.as_bytes() {
                [byte] => memchr(*byte, line.as_bytes()),
                bytes => memmem::find(line.as_bytes(), bytes),
            };
            Some((at?, separator.len()))
        });
        let (at, length) = found.min_by_key(|(at, length)| (*at, usize::MAX - length))?;
        Some((&line[..at], &line[at + length..]))
    }

    /// Returns the value without surrounding white space and, if configured, without its quotes.
    fn plain_value(&self, value: &str) -> String {
        let value = value.trim();
        let unquoted = if self.unquote { unquote(value) } else { None };
        unquoted.unwrap_or_else(|| value.to_owned())
    }
}

/// Removes the dot leader of a key: `DNS Servers . . . :`, `Total.....:`.
fn without_leader(key: &str) -> &str {
    let key = key.trim_end();
    let bare = key.trim_end_matches(['.', ' ']);
    if key[bare.len()..].matches('.').count() > 1 && !bare.is_empty() { bare } else { key }
}

/// Returns the string inside the quotes if the whole value is one quoted string.
fn unquote(value: &str) -> Option<String> {
    if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return (!inner.contains('\'')).then(|| inner.to_owned());
    }
    let rest = value.strip_prefix('"')?;
    let end = quoted_length(rest)?;
    (end + 1 == rest.len()).then(|| unescaped(&rest[..end], &[]))
}

/// Builds the value line by line.
struct Builder<'p, 't> {
    pairs: &'p Pairs,
    /// Fields whose outermost keys are extracted; `None` to extract all keys.
    used_fields: Option<&'p Fields>,
    work_budget: Option<&'p WorkBudget>,
    /// Maximum number of pairs, and their number so far.
    limit: usize,
    count: usize,
    /// The pairs outside of sections.
    top_level: Map<String, Value>,
    /// Open sections, outermost first, and after them the lines that may still have continuations or members,
    /// each indented more than the previous one.
    stack: Vec<OpenEntry<'t>>,
}

/// Section, or line that may still have continuations or members.
#[derive(Default)]
struct OpenEntry<'t> {
    /// Indentation of a line; `None` for a section.
    indent: Option<usize>,
    key: &'t str,
    /// The unparsed value; `None` for a line without a separator, and for a section.
    value: Option<Cow<'t, str>>,
    /// The whole line and the value at its end, from which the column of the value is computed.
    line_and_value: Option<(&'t str, &'t str)>,
    /// Further values from the lines below.
    further_values: Vec<&'t str>,
    members: Map<String, Value>,
}

impl<'t> Builder<'_, 't> {
    fn add_line(&mut self, line: &'t str) -> Result<(), ReadError> {
        let (pairs, bare) = (self.pairs, line.trim_start());
        let is_nested = pairs.indented == Indented::Nested;
        if bare.is_empty() {
            // A continuation ends at a blank line.
            if !is_nested {
                self.close(0);
            }
            return Ok(());
        }
        let is_indented = bare.len() < line.len();
        if is_indented && self.append_continuation(line) {
            return Ok(());
        }
        // The value above has white space before it, so a line aligned with it is indented, too.
        if is_indented && self.is_below_value(line) {
            self.count_pair()?;
            if let Some(entry) = self.stack.last_mut() {
                entry.further_values.push(bare.trim_end());
            }
            return Ok(());
        }
        if pairs.comments.iter().any(|prefix| bare.starts_with(prefix)) {
            // In LDIF, a comment may be folded, too (RFC 2849): its continuation lines belong to no key.
            if pairs.indented == Indented::Fold {
                self.close(0);
                self.stack.push(OpenEntry {
                    indent: Some(0),
                    value: Some("".into()),
                    ..OpenEntry::default()
                });
            }
            return Ok(());
        }
        if pairs.section_end.as_ref().is_some_and(|pattern| pattern.is_match(bare)) {
            self.close_section();
            return Ok(());
        }
        if let Some(pattern) = &pairs.sections
            && let Some(captures) = pattern.captures(bare)
        {
            match pairs.section_end {
                Some(_) => self.close(0),
                None => self.close_section(),
            }
            let name = pattern.names().next().and_then(|name| captures.name(name));
            let key = name.map_or("", |name| name.as_str().trim());
            return self.open(OpenEntry { key, ..OpenEntry::default() });
        }
        if let Some(pattern) = &pairs.pattern {
            return self.add_matches(pattern, bare);
        }
        let (key, value) = match pairs.split(bare) {
            Some((key, value)) => (without_leader(key), Some(value)),
            None => (bare.trim_end(), None),
        };
        let indent = if is_nested { indentation(line) } else { 0 };
        self.close(indent);
        if !key.is_empty() && (value.is_some() || is_nested) {
            let line_and_value = value.map(|value| (line, value));
            let value = value.map(Cow::from);
            return self.open(OpenEntry {
                indent: Some(indent),
                key,
                value,
                line_and_value,
                ..OpenEntry::default()
            });
        }
        Ok(())
    }

    fn add_matches(&mut self, pattern: &Pattern, bare: &'t str) -> Result<(), ReadError> {
        // The pair of the line above has no further continuations.
        self.close(0);
        for found in pattern.captures_iter(bare) {
            // The search for the next match may read the whole rest of the line.
            WorkBudget::check_search(
                self.work_budget,
                bare.len() - found.get(0).map_or(0, |whole| whole.start()),
            )?;
            let (Some(key), Some(value)) = (found.name("key"), found.name("value")) else { continue };
            let key = key.as_str().trim();
            if !key.is_empty() {
                self.close(0);
                let value = Some(value.as_str().into());
                self.open(OpenEntry { indent: Some(0), key, value, ..OpenEntry::default() })?;
            }
        }
        Ok(())
    }

    fn count_pair(&mut self) -> Result<(), ReadError> {
        self.count += 1;
        let limit = if self.limit < RECORD_LIMIT { Pairs::PAIRS_OF_BLOCKS_LIMIT } else { RECORD_LIMIT };
        match self.count > self.limit {
            true => Err(read_error!("expected at most {limit} pairs, found more")),
            false => Ok(()),
        }
    }

    fn open(&mut self, entry: OpenEntry<'t>) -> Result<(), ReadError> {
        self.count_pair()?;
        self.stack.push(entry);
        at_most(Pairs::NESTING_LIMIT, self.stack.len(), "levels of sections and indentation")
    }

    /// Appends an indented line to the value above. Returns whether there was one.
    fn append_continuation(&mut self, line: &str) -> bool {
        let mut rest = line.chars();
        rest.next();
        let (separator, continuation) = match self.pairs.indented {
            Indented::Same | Indented::Nested => return false,
            Indented::Lines => ("\n", rest.as_str().trim_end()),
            Indented::Words => (" ", line.trim()),
            Indented::Fold => ("", rest.as_str()),
        };
        let Some(value) = self.stack.last_mut().and_then(|entry| entry.value.as_mut()) else { return false };
        let value = value.to_mut();
        value.push_str(separator);
        value.push_str(continuation);
        true
    }

    /// Whether a line is aligned with the value above and is not a pair itself, like the further addresses
    /// that `ipconfig` prints. Such a value may contain the separator (`fe80::1`), but no white space after
    /// it.
    fn is_below_value(&self, line: &str) -> bool {
        let above = self.stack.last().and_then(|entry| entry.line_and_value);
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

    /// Closes every open line in the innermost section whose indentation is at least `indent` columns.
    fn close(&mut self, indent: usize) {
        while let Some(last) =
            self.stack.last().filter(|line| line.indent.is_some_and(|line_indent| line_indent >= indent))
        {
            if self.stack.len() == 1 && !self.uses_key(last.key) {
                self.stack.clear();
                return;
            }
            let Some(mut line) = self.stack.pop().filter(|line| !line.key.is_empty()) else { continue };
            let further_values: Vec<Value> =
                line.further_values.iter().map(|value| self.pairs.plain_value(value).into()).collect();
            let values = match line.value {
                _ if !line.members.is_empty() => {
                    further_values.into_iter().for_each(|value| add(&mut line.members, "value", value));
                    vec![Value::Object(line.members)]
                }
                // A line without a separator and without members is a further value of its parent line.
                None if further_values.is_empty() => {
                    let parent = self.stack.last_mut().filter(|parent| parent.indent.is_some());
                    if let Some(parent) = parent.filter(|_| line.key.contains(char::is_alphanumeric)) {
                        parent.further_values.push(line.key);
                    }
                    continue;
                }
                value => {
                    let own_value = value.map(|value| Value::from(self.pairs.plain_value(&value)));
                    let own_value = own_value
                        .filter(|own_value| further_values.is_empty() || own_value.as_str() != Some(""));
                    own_value.into_iter().chain(further_values).collect()
                }
            };
            let members = match self.stack.last_mut() {
                Some(parent) => {
                    let parent_value = parent.value.as_ref().map(|value| self.pairs.plain_value(value));
                    if let Some(parent_value) = parent_value
                        .filter(|parent_value| parent.members.is_empty() && !parent_value.is_empty())
                    {
                        add(&mut parent.members, "value", parent_value.into());
                    }
                    &mut parent.members
                }
                None => &mut self.top_level,
            };
            values.into_iter().for_each(|value| add(members, line.key, value));
        }
    }

    /// Whether to extract an outermost key.
    fn uses_key(&self, key: &str) -> bool {
        self.used_fields.is_none_or(|fields| fields.uses_key(key))
    }

    fn close_section(&mut self) {
        self.close(0);
        let Some(OpenEntry { key, members, .. }) = self.stack.pop() else { return };
        let is_used = !self.stack.is_empty() || self.uses_key(key);
        let outer = self.stack.last_mut().map_or(&mut self.top_level, |outer| &mut outer.members);
        if is_used {
            add(outer, key, Value::Object(members));
        }
    }
}

/// Width of the white space at the beginning of a line, in columns.
fn indentation(line: &str) -> usize {
    columns(line.chars().take_while(|character| character.is_whitespace()))
}

/// Column at which the value at the end of a line begins, if white space precedes it; `None` for an empty
/// value.
fn value_column(line: &str, value: &str) -> Option<usize> {
    let start = value.find(|character: char| !character.is_whitespace()).filter(|start| *start > 0)?;
    Some(columns(line[..line.len() - value.len() + start].chars()))
}

/// Width of characters, in columns.
fn columns(characters: impl Iterator<Item = char>) -> usize {
    const TAB_COLUMNS: usize = 8;
    characters.fold(0, |column, character| match character {
        '\t' => (column / TAB_COLUMNS + 1) * TAB_COLUMNS,
        _ => column + 1,
    })
}
