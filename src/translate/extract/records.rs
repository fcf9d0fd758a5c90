//! Common parts of extractors that return many records: blocks of lines, and tables.

use std::{borrow::Cow, collections::HashSet};

use memchr::memchr;
use serde_json::{Map, Value, json, map::Entry};
use settings_derive::{EnumSetting, Section};

use super::{MemberNames, RECORD_LIMIT, Typing};
use crate::settings::{
    Checked, Code, Cursor, Invalid, KeySpec, Kind, Node, OpenSection, Setting, ValueKind, read_each,
};
use crate::translate::charset::begins_with_tag;
use crate::translate::pattern::Pattern;
use crate::translate::read_error::{ReadError, at_most};

/// Options of extractors that return many records: block separators, and whether an empty result is valid.
#[derive(Debug, Section)]
#[section(default, check = Self::check)]
pub struct Records {
    /// Text that separates two blocks, at any position in a line: `"\x1e"`.
    #[key(with = not_empty, shown = "a blank line")]
    pub block_delimiter: Option<String>,
    /// Regular expression of lines that separate two blocks.
    #[key(conflicts = "block_delimiter", shown = "a blank line")]
    pub block_separator: Option<Pattern>,
    /// Regular expression of the first line of each block. Text before the first such line is ignored.
    #[key(conflicts = "block_delimiter")]
    pub block_start: Option<Pattern>,
    /// Whether a response without any records is valid and gives an empty list. Otherwise it is an error.
    pub allow_empty: bool,
}

/// Reads a string, list or map, and rejects an empty one.
pub(super) fn not_empty<T: Setting>(value: &Cursor<'_>) -> Checked<T> {
    let is_empty = match &value.node.kind {
        Kind::Text(text) => text.is_empty(),
        Kind::List(items) => items.is_empty(),
        Kind::Map(entries) => entries.is_empty(),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) => false,
    };
    match (is_empty, value.key) {
        (false, _) => T::read_over(value, None),
        (true, Some(key)) if !key.example.is_empty() => {
            value.reject_empty(&format!("write `{}`", key.example))
        }
        (true, key) => value.reject_empty(&key.map(KeySpec::help).unwrap_or_default()),
    }
}

/// Reads one string or a list of strings. Rejects an empty list and empty strings.
pub(super) fn texts(value: &Cursor<'_>) -> Checked<Vec<String>> {
    match value.node.one_or_more() {
        [] => not_empty(value),
        items => {
            read_each(items.iter().map(|item| not_empty(&value.part(item, value.name, ValueKind::Text))))
        }
    }
}

/// One or more consecutive lines of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineBlock<'t> {
    /// Number of the block's first line in the response, from 1.
    pub(super) line: usize,
    /// Text of the lines.
    pub(super) text: &'t str,
}

impl<'t> LineBlock<'t> {
    /// Splits the block into lines at `end`, which is removed together with a CR before it.
    pub(super) fn split(self, end: u8) -> impl Iterator<Item = Self> {
        let mut rest = self.text;
        (self.line..).map_while(move |line| {
            if rest.is_empty() {
                return None;
            }
            // On short lines, `memchr` takes a fifth of the instructions of `str::lines`.
            let at = memchr(end, rest.as_bytes()).unwrap_or(rest.len());
            let text = rest[..at].strip_suffix('\r').unwrap_or(&rest[..at]);
            rest = rest.get(at + 1..).unwrap_or_default();
            Some(LineBlock { line, text })
        })
    }

    /// Returns the line number in the response of the byte at offset `at` of the block.
    pub(super) fn line_of(self, at: usize) -> usize {
        self.line + self.text[..at].matches('\n').count()
    }

    /// Prefixes an error with the number of the block's first line.
    pub(super) fn locate(self, error: ReadError) -> ReadError {
        error.in_part(&format!("line {}", self.line))
    }
}

/// Splits a text into lines at LF or CR LF, or at CR if the text has no LF.
pub(super) fn lines(text: &str) -> impl Iterator<Item = LineBlock<'_>> {
    let end = if memchr(b'\n', text.as_bytes()).is_some() { b'\n' } else { b'\r' };
    LineBlock { line: 1, text }.split(end)
}

impl Records {
    /// Reports options that have no effect with the configured value of `each`.
    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        section.check_valid(&["each"])?;
        const NAMES: [&str; 4] = ["block_delimiter", "block_separator", "block_start", "allow_empty"];
        let each = section.get("each").and_then(Node::as_text);
        let ineffective_keys = match each {
            None | Some("first" | "text") => &NAMES[..],
            Some("match" | "line") => &NAMES[..3],
            Some(_) => &[],
        };
        let reason = each.map_or_else(|| "without `each`".to_owned(), |each| format!("with `each: {each}`"));
        let mut checked = Ok(self);
        for entry in ineffective_keys.iter().filter_map(|name| section.entry(name)) {
            let message = format!("`{}` has no effect {reason}", entry.key.text);
            let at = Code::RequiresKey.at_span(entry.key.span);
            checked = Err(section.reject_at(at, &message, "write `each: block`, or remove it"));
        }
        checked
    }

    /// Blocks of a text, in order; each has at least one line.
    pub(super) fn blocks<'t>(&'t self, text: &'t str) -> impl Iterator<Item = LineBlock<'t>> {
        let delimited =
            self.block_delimiter.iter().flat_map(move |delimiter| blocks_between(text, delimiter));
        let lines = self.block_delimiter.is_none().then(|| self.blocks_of_lines(text));
        delimited.chain(lines.into_iter().flatten())
    }

    fn blocks_of_lines<'t>(&'t self, text: &'t str) -> impl Iterator<Item = LineBlock<'t>> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let mut position = 0;
        // Line number and byte offset of the start of the current block.
        let mut current: Option<(usize, usize)> = None;
        std::iter::from_fn(move || {
            for (index, full_line) in lines.by_ref() {
                let (line_start, bare) = (position, full_line.trim_end_matches(['\n', '\r']));
                position += full_line.len();
                let is_start = self.block_start.as_ref().is_some_and(|start| start.is_match(bare));
                let is_separator = match &self.block_separator {
                    _ if is_start => false,
                    Some(separator) => separator.is_match(bare),
                    None => self.block_start.is_none() && bare.trim().is_empty(),
                };
                let finished = if is_start || is_separator { current.take() } else { None };
                if is_start || self.block_start.is_none() && !is_separator {
                    current.get_or_insert((index + 1, line_start));
                }
                if let Some((line, start)) = finished {
                    return Some(LineBlock { line, text: &text[start..line_start] });
                }
            }
            current.take().map(|(line, start)| LineBlock { line, text: &text[start..] })
        })
    }
}

/// Blocks between the delimiters of a text, without surrounding line breaks. Blank blocks are omitted.
fn blocks_between<'t>(text: &'t str, delimiter: &'t str) -> impl Iterator<Item = LineBlock<'t>> {
    let mut line = 1;
    text.split(delimiter).filter_map(move |part| {
        let bare = part.trim_start_matches(['\r', '\n']);
        let lines_before = part[..part.len() - bare.len()].matches('\n').count();
        let block = LineBlock { line: line + lines_before, text: bare.trim_end_matches(['\r', '\n']) };
        line += part.matches('\n').count() + delimiter.matches('\n').count();
        (!block.text.trim().is_empty()).then_some(block)
    })
}

/// Replaces CR LF by LF, and CR by LF in a text without LF: old servers send CR LF, and some programs CR
/// alone. Without this, `$` in a pattern would not match before a CR. In a text with LF, a CR alone is part
/// of a line.
pub(super) fn with_plain_line_ends(text: &str) -> Cow<'_, str> {
    match (memchr(b'\r', text.as_bytes()), memchr(b'\n', text.as_bytes())) {
        (None, _) => text.into(),
        (Some(_), None) => text.replace('\r', "\n").into(),
        (Some(_), Some(_)) => text.replace("\r\n", "\n").into(),
    }
}

/// Returns the byte offset of the closing quote in `text`, which begins after the opening quote. `None` if
/// the quote is not closed. A backslash escapes the next character.
pub(super) fn quoted_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Replaces the escapes `\\` and `\"`, and `more_escapes`: pairs of a letter and its replacement. Other
/// escapes are unchanged.
pub(super) fn unescaped(text: &str, more_escapes: &[(char, char)]) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        let escapes = [('"', '"'), ('\\', '\\')].into_iter().chain(more_escapes.iter().copied());
        let meaning =
            escapes.filter(|(letter, _)| after.starts_with(*letter)).map(|(_, meaning)| meaning).next();
        plain += before;
        plain.push(meaning.unwrap_or('\\'));
        rest = &after[usize::from(meaning.is_some())..];
    }
    plain + rest
}

/// Collects at most [`RECORD_LIMIT`] records; more are an error. `noun` is their name in the error.
pub(super) fn gather(
    found: impl Iterator<Item = Result<Value, ReadError>>,
    noun: &str,
) -> Result<Vec<Value>, ReadError> {
    let records = found.take(RECORD_LIMIT + 1).collect::<Result<Vec<_>, _>>()?;
    at_most(RECORD_LIMIT, records.len(), noun)?;
    Ok(records)
}

/// Adds a value under a name. The values of a repeated name become a list, in order. `value` must not be a
/// list.
pub(super) fn add(members: &mut Map<String, Value>, name: impl Into<String>, value: Value) {
    match members.entry(name) {
        Entry::Vacant(entry) => {
            entry.insert(value);
        }
        Entry::Occupied(mut entry) => match entry.get_mut() {
            Value::Array(values) => values.push(value),
            first => *first = json!([first.take(), value]),
        },
    }
}

// Rows of cells below column names: the common part of `csv` and `columns`.

/// Maximum memory of a table, in bytes, for a response of any length.
// An eighth in unit tests, because debug builds are slow.
const TABLE_LIMIT_BYTES: usize = if cfg!(test) { 32 << 20 } else { 256 << 20 };

/// Memory that every table may use, in bytes, even with a short response.
const SHORT_TABLE_LIMIT_BYTES: usize = 16 << 20;

/// Memory that a table may use per byte of its response, in bytes: enough for cells of 2 bytes, delimiter
/// included, with names of up to 100 bytes. Without this limit, short padded rows or long names would use a
/// thousand times the length of the response.
const TABLE_BYTES_PER_BYTE: usize = 128;

/// Memory of a cell without its text and its name, in bytes; measured with cells of a few bytes.
const CELL_BYTES: usize = 144;

/// Handling of rows with more or fewer cells than columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumSetting)]
pub enum RaggedRows {
    /// The response is an error.
    #[default]
    Error,
    /// Missing cells are empty; surplus cells are an error, unless they are empty.
    Pad,
    /// The row is skipped.
    Skip,
}

/// Names of the members of a row: the column names in the rule, or any names if the response has a header.
pub(super) fn column_members(declared_names: Option<&[String]>) -> MemberNames<'_> {
    match declared_names {
        Some(names) => MemberNames::Names(names.iter().map(String::as_str).collect()),
        None => MemberNames::AnyNames,
    }
}

/// Reads a list of column names. Rejects an empty list, and empty or duplicate names.
pub(super) fn read_columns(value: &Cursor<'_>) -> Checked<Option<Vec<String>>> {
    let names = Vec::<String>::read(value)?;
    if names.is_empty() {
        return value.reject_empty("write `columns: [city, temperature]`");
    }
    let (mut seen, mut checked) = (HashSet::new(), Ok(()));
    for (name, node) in names.iter().zip(value.node.as_list().unwrap_or_default()) {
        if name.is_empty() || !seen.insert(name) {
            let message = format!("names of columns must differ and not be empty, found {}", node.describe());
            let invalid = Invalid::new(message, "write a different name for every column");
            checked = value.reject_at(node.span, invalid.with_code(Code::DuplicateValue));
        }
    }
    checked.map(|()| Some(names))
}

/// Maximum length of a quoted part of a line in an error, in characters.
const QUOTE_LIMIT_CHARACTERS: usize = 80;

/// Builds a list of row objects with string members.
#[derive(Default)]
pub(super) struct TableBuilder {
    /// Line number of the header in the response; `None` if the rule declares the names.
    header_line: Option<usize>,
    /// Whether the header resembles prose: a name after the first begins with a space, and has several words.
    pub(super) is_prose: bool,
    /// Whether the first line is certainly a header: the rule configures its beginning, the table is
    /// optional, or a horizontal rule follows the line.
    pub(super) is_certain: bool,
    names: Vec<String>,
    /// Whether rows may have one surplus empty cell, because the header ends in a separator.
    allows_spare_cell: bool,
    ragged_rows: RaggedRows,
    rows: Vec<Value>,
    bytes: usize,
    limit_bytes: usize,
}

impl TableBuilder {
    /// Begins a table with the names of a header. An empty name at the end is ignored. `text` is the whole
    /// response.
    ///
    /// # Errors
    ///
    /// A message, if a name is empty or occurs twice, or the header is the first tag of an HTML page.
    pub(super) fn from_header(
        header_line: usize,
        mut names: Vec<String>,
        ragged_rows: RaggedRows,
        text: &str,
    ) -> Result<Self, ReadError> {
        // Otherwise, an HTML page would be parsed as a table with its first line as the header.
        if let Some(first) = names.first().filter(|_| is_markup(&names)) {
            return Err(markup_error(header_line, first));
        }
        let allows_spare_cell = names.len() > 1 && names.last().is_some_and(String::is_empty);
        if allows_spare_cell {
            names.pop();
        }
        if let Some(index) = names.iter().position(String::is_empty) {
            return Err(read_error!(
                "line {header_line}: expected a name for every column, found none for column {}; \
                 `columns` declares names",
                index + 1
            ));
        }
        let mut seen = HashSet::new();
        if let Some(duplicate) = names.iter().find(|name| !seen.insert(name.as_str())) {
            let expected = format!("line {header_line}: expected names of columns that differ, found ");
            let error = ReadError::with_quote(usize::MAX, &expected, duplicate);
            return Err(error.with_suffix(" twice; `columns` declares names"));
        }
        Ok(Self {
            header_line: Some(header_line),
            allows_spare_cell,
            ..Self::with_names(names, ragged_rows, text)
        })
    }

    /// Begins a table with the configured names, which were checked when the configuration was loaded. `text`
    /// is the whole response.
    pub(super) fn with_names(names: Vec<String>, ragged_rows: RaggedRows, text: &str) -> Self {
        let allowed = text.len().saturating_mul(TABLE_BYTES_PER_BYTE).saturating_add(SHORT_TABLE_LIMIT_BYTES);
        Self { names, ragged_rows, limit_bytes: allowed.min(TABLE_LIMIT_BYTES), ..Self::default() }
    }

    /// Adds a row. `line` returns its line number for an error.
    ///
    /// # Errors
    ///
    /// A message with the line number, if the row has the wrong number of cells, or the table grows too
    /// large.
    pub(super) fn add(
        &mut self,
        cells: &[impl AsRef<str>],
        line: impl Fn() -> usize,
    ) -> Result<(), ReadError> {
        let first = cells.first().map(AsRef::as_ref);
        if let Some(first) = first.filter(|first| self.rows.is_empty() && begins_page(first)) {
            return Err(markup_error(line(), first));
        }
        let expected = self.names.len();
        let surplus = cells.get(expected..).unwrap_or_default();
        let is_blank = surplus.iter().all(|cell| cell.as_ref().is_empty());
        let is_valid = cells.len() == expected || self.allows_spare_cell && is_blank && surplus.len() == 1;
        match self.ragged_rows {
            _ if is_valid => {}
            RaggedRows::Pad if is_blank => {}
            RaggedRows::Skip => return Ok(()),
            RaggedRows::Pad | RaggedRows::Error => {
                let (line, found) = (line(), cells.len());
                let suggestion = match is_blank {
                    true => "`ragged_rows` pads or skips such rows",
                    false => "`ragged_rows: skip` skips such rows",
                };
                return Err(read_error!(
                    "line {line}: expected {expected} cells, found {found}; {suggestion}"
                ));
            }
        }
        if self.rows.len() == RECORD_LIMIT {
            return Err(read_error!("line {}: expected at most {RECORD_LIMIT} rows, found more", line()));
        }
        let mut row = Map::with_capacity(expected);
        for (index, name) in self.names.iter().enumerate() {
            let cell = cells.get(index).map_or("", AsRef::as_ref);
            self.bytes += name.len() + cell.len() + CELL_BYTES;
            row.insert(name.clone(), cell.into());
        }
        if self.bytes > self.limit_bytes {
            return Err(read_error!(
                "line {}: expected a table of at most {} bytes with its names in every row, found more",
                line(),
                self.limit_bytes
            ));
        }
        self.rows.push(Value::Object(row));
        Ok(())
    }

    /// Returns all rows, as a list.
    ///
    /// # Errors
    ///
    /// A message with the line number, if there are no rows and the header is not plausible: it has no
    /// column for a required field, or is a single name or a sentence, such as an error message in place of
    /// the table.
    pub(super) fn into_value(self, typing: &Typing) -> Result<Value, ReadError> {
        if let (Some(line), []) = (self.header_line, &*self.rows) {
            let found = self.names.iter().map(|name| (name.clone(), Value::from(""))).collect();
            typing.check_names(&found).map_err(|error| error.in_part(&format!("line {line}")))?;
            let is_known = self.is_certain || typing.paths().iter().any(|path| path.find(&found).is_some());
            let is_message =
                self.names.len() == 1 || self.is_prose || self.names.iter().any(|name| is_sentence(name));
            if is_message && !is_known {
                let expected = format!("line {line}: expected a table, found one line ");
                return Err(ReadError::with_quote(QUOTE_LIMIT_CHARACTERS, &expected, &self.names.join(", ")));
            }
        }
        Ok(Value::Array(self.rows))
    }
}

/// Whether a header is the first line of an HTML page or fragment. Price exports have column names such as
/// `<DATE>,<TIME>`, which are not markup.
fn is_markup(names: &[String]) -> bool {
    let Some(first) = names.first() else { return false };
    let are_in_brackets =
        names.len() > 1 && names.iter().all(|name| name.starts_with('<') && name.ends_with('>'));
    let is_name_of_tag = |c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?' | '/');
    let is_tag = first.strip_prefix('<').is_some_and(|rest| rest.starts_with(is_name_of_tag));
    begins_page(first) || is_tag && !are_in_brackets
}

/// Whether a column name looks like a part of a sentence. It is checked only for a header without rows and
/// without a matching field, because headers with rows often have names of three words.
fn is_sentence(name: &str) -> bool {
    name.split_whitespace().count() > 3
        || name.contains(char::is_whitespace) && name.ends_with(['.', '!', '?'])
}

/// Whether a cell is the beginning of an HTML page. Cells may begin with other tags (`<none>`).
fn begins_page(cell: &str) -> bool {
    begins_with_tag(cell.as_bytes(), &["<!doctype", "<html", "<?xml"])
}

fn markup_error(line: usize, start: &str) -> ReadError {
    ReadError::with_quote(
        QUOTE_LIMIT_CHARACTERS,
        &format!("line {line}: expected a table, found markup: "),
        start,
    )
}

/// Returns the text after its first `count` lines, which end with `end`.
///
/// # Errors
///
/// A message, if the text has fewer lines.
pub(super) fn after_lines(text: &str, count: usize, end: char) -> Result<&str, ReadError> {
    let mut rest = text;
    for found in 0..count {
        if rest.is_empty() {
            return Err(read_error!(
                "expected {count} lines before the table, which are skipped, found {found}"
            ));
        }
        rest = rest.split_once(end).map_or("", |(_, rest)| rest);
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(separator: Option<&str>, start: Option<&str>, text: &str, expected: &[(usize, &str)]) {
        let compiled = |source| Pattern::compile(source).unwrap();
        let records = Records {
            block_separator: separator.map(compiled),
            block_start: start.map(compiled),
            ..Records::default()
        };
        let found: Vec<_> = records.blocks(text).map(|block| (block.line, block.text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn blank_lines_separate_blocks() {
        check(None, None, "a\nb\n\nc", &[(1, "a\nb\n"), (4, "c")]);
        check(None, None, "\n \t\r\na\r\n\r\n\n\nb\n\n", &[(3, "a\r\n"), (7, "b\n")]);
        check(None, None, "", &[]);
        check(None, None, "\n\n \n", &[]);
    }

    #[test]
    fn a_line_that_matches_separates() {
        check(Some("^-+$"), None, "a\n\nb\n---\nc\n---\n---\n", &[(1, "a\n\nb\n"), (5, "c\n")]);
        check(Some("^-+$"), None, "a\r\n---\r\nb", &[(1, "a\r\n"), (3, "b")]);
    }

    #[test]
    fn a_line_that_matches_starts_a_block_and_what_is_before_belongs_to_none() {
        check(
            None,
            Some(r"^\d+: "),
            "head\n1: a\n x\n\n y\n2: b\n",
            &[(2, "1: a\n x\n\n y\n"), (6, "2: b\n")],
        );
        check(Some("^$"), Some("^#"), "#1\na\n\nfoot\n#2", &[(1, "#1\na\n"), (5, "#2")]);
        check(Some("^#"), Some("^#"), "#1\n#2\n", &[(1, "#1\n"), (2, "#2\n")]);
    }

    #[test]
    fn a_delimiter_may_be_anywhere_in_a_line() {
        let records = Records { block_delimiter: Some("\x1e".into()), ..Records::default() };
        let found: Vec<_> = records.blocks("a\nb\x1ec\n\n d\x1e\r\ne\r\n\x1e \x1e").collect();
        let expected = [(1, "a\nb"), (2, "c\n\n d"), (5, "e")];
        assert_eq!(found, expected.map(|(line, text)| LineBlock { line, text }));
        let records = Records { block_delimiter: Some("\n%%\n".into()), ..Records::default() };
        let lines: Vec<_> = records.blocks("a\n%%\nb\n%%\nc").map(|block| block.line).collect();
        assert_eq!(lines, [1, 3, 5]);
    }

    #[test]
    fn many_lines_and_long_ones_take_linear_time() {
        let many = "\n".repeat(1 << 20) + "a";
        check(None, None, &many, &[((1 << 20) + 1, "a")]);
        let long = "a".repeat(8 << 20);
        check(Some("^-$"), None, &long, &[(1, &long)]);
    }
}
