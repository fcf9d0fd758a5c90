//! Rows of cells under the names of columns: what `csv` and `columns` have in common.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{RECORD_LIMIT, Typing};
use crate::translate::why::Why;

/// How much memory a table may take, in bytes, however long its reply is.
// An eighth in unit tests, as a debug build is slow.
const TABLE_LIMIT_BYTES: usize = if cfg!(test) { 32 << 20 } else { 256 << 20 };

/// How much memory any table may take, in bytes.
const SHORT_TABLE_LIMIT_BYTES: usize = 16 << 20;

/// How much more memory a table may take for each byte of its reply: a cell of two bytes takes that much. Short rows
/// that are padded, or under long names, would take a thousand times the reply.
const TABLE_BYTES_PER_BYTE: usize = 128;

/// What a cell takes beside its text and its name, in bytes: as was measured with cells of a few bytes.
const CELL_BYTES: usize = 144;

/// What becomes of rows with more or fewer cells than there are columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uneven {
    /// The reply is an error.
    #[default]
    Error,
    /// Missing cells are empty; more cells are an error, unless they are empty.
    Pad,
    /// The row is passed over.
    Skip,
}

/// How much of a line an error shows, in characters.
const SHOWN: usize = 80;

/// The line that names the columns of a table.
pub(super) struct Heading {
    /// Its number in the reply.
    pub line: usize,
    /// Whether it is written as prose is: a space behind each separator, and several words between two.
    pub is_prose: bool,
    /// Whether it must be one: the rule says how it begins, or that there need be no table, or a line is drawn under it.
    pub is_certain: bool,
}

/// Rows that are gathered to a list of objects of strings.
pub(super) struct Rows {
    names: Vec<String>,
    /// Whether rows may have one more cell, an empty one: every line ends in a separator.
    spare: bool,
    uneven: Uneven,
    rows: Vec<Value>,
    bytes: usize,
    limit_bytes: usize,
}

impl Rows {
    /// Begins a table with the names that a header has; an empty one at its end is none. `text` is the whole reply.
    ///
    /// # Errors
    ///
    /// A sentence, when a column has no name, two have the same, or the header is the first tag of a page.
    pub(super) fn under(
        header_line: usize,
        mut names: Vec<String>,
        uneven: Uneven,
        text: &str,
    ) -> Result<Self, Why> {
        // A page of HTML that comes in place of a table: its first line would be a header, and the others rows.
        if let Some(first) = names.first().filter(|_| is_markup(&names)) {
            return Err(markup(header_line, first));
        }
        let spare = names.len() > 1 && names.last().is_some_and(String::is_empty);
        if spare {
            names.pop();
        }
        if let Some(index) = names.iter().position(String::is_empty) {
            return Err(Why::plainly(format!(
                "line {header_line}: expected a name for every column, found none for column {}; `columns` gives names",
                index + 1
            )));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Why::quoting(usize::MAX, |quoted| {
                let found = quoted(twice);
                format!(
                    "line {header_line}: expected names of columns that differ, found {found} twice; `columns` gives names"
                )
            }));
        }
        Ok(Self { spare, ..Self::named(names, uneven, text) })
    }

    /// Begins a table with the names that a rule gives, which were checked with it. `text` is the whole reply.
    pub(super) fn named(names: Vec<String>, uneven: Uneven, text: &str) -> Self {
        let allowed = text.len().saturating_mul(TABLE_BYTES_PER_BYTE).saturating_add(SHORT_TABLE_LIMIT_BYTES);
        let limit_bytes = allowed.min(TABLE_LIMIT_BYTES);
        Self { names, spare: false, uneven, rows: Vec::new(), bytes: 0, limit_bytes }
    }

    /// Adds a row; `line` is asked for where an error needs it.
    ///
    /// # Errors
    ///
    /// A sentence with the line, when the row has other cells than the table or the table grows too large.
    pub(super) fn add(&mut self, cells: &[&str], line: impl Fn() -> usize) -> Result<(), Why> {
        if let Some(first) = cells.first().filter(|first| self.rows.is_empty() && begins_page(first)) {
            return Err(markup(line(), first));
        }
        let expected = self.names.len();
        let surplus = cells.get(expected..).unwrap_or_default();
        let blank = surplus.iter().all(|cell| cell.is_empty());
        let good = cells.len() == expected || self.spare && blank && surplus.len() == 1;
        if !good {
            match self.uneven {
                Uneven::Pad if blank => {}
                Uneven::Skip => return Ok(()),
                Uneven::Pad | Uneven::Error => {
                    let found = cells.len();
                    return Err(Why::plainly(format!(
                        "line {}: expected {expected} cells, found {found}",
                        line()
                    )));
                }
            }
        }
        if self.rows.len() == RECORD_LIMIT {
            return Err(Why::plainly(format!(
                "line {}: expected at most {RECORD_LIMIT} rows, found more",
                line()
            )));
        }
        let mut row = Map::with_capacity(expected);
        for (index, name) in self.names.iter().enumerate() {
            let cell = cells.get(index).copied().unwrap_or_default();
            self.bytes += name.len() + cell.len() + CELL_BYTES;
            row.insert(name.clone(), cell.into());
        }
        if self.bytes > self.limit_bytes {
            return Err(Why::plainly(format!(
                "line {}: expected a table of at most {} bytes with its names in every row, found more",
                line(),
                self.limit_bytes
            )));
        }
        self.rows.push(Value::Object(row));
        Ok(())
    }

    /// All rows under a header, as a list.
    ///
    /// # Errors
    ///
    /// A sentence with the line, when there are no rows and the header can't be that of the table: it has no column for
    /// a field that must be there, or is one name or a sentence, as a message in place of the table would be.
    pub(super) fn into_value_under(self, heading: &Heading, typing: &Typing) -> Result<Value, Why> {
        let line = heading.line;
        if self.rows.is_empty() {
            let found = self.names.iter().map(|name| (name.clone(), Value::from(""))).collect();
            typing.check_names(&found).map_err(|why| why.under(&format!("line {line}")))?;
            let is_known =
                heading.is_certain || typing.paths().iter().any(|path| path.find(&found).is_some());
            let is_message =
                self.names.len() == 1 || heading.is_prose || self.names.iter().any(|name| is_sentence(name));
            if is_message && !is_known {
                let found = self.names.join(", ");
                return Err(Why::quoting(SHOWN, |quoted| {
                    format!("line {line}: expected a table, found one line {}", quoted(&found))
                }));
            }
        }
        Ok(self.into_value())
    }

    /// All rows, as a list.
    pub(super) fn into_value(self) -> Value {
        Value::Array(self.rows)
    }
}

/// Whether a header is the first line of a page, or of a part of one. Exports of prices name their columns
/// `<DATE>,<TIME>`, which is none.
fn is_markup(names: &[String]) -> bool {
    let Some(first) = names.first() else { return false };
    let in_brackets =
        names.len() > 1 && names.iter().all(|name| name.starts_with('<') && name.ends_with('>'));
    begins_page(first) || is_tag(first) && !in_brackets
}

/// Whether a name of a column is more likely a part of a sentence. Names of three words are not rare in headers with
/// rows; without rows, and without fields that are among them, nothing else says that they are names.
fn is_sentence(name: &str) -> bool {
    name.split_whitespace().count() > 3
        || name.contains(char::is_whitespace) && name.ends_with(['.', '!', '?'])
}

fn is_tag(line: &str) -> bool {
    let after = line.strip_prefix('<').and_then(|rest| rest.chars().next());
    after.is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '!' | '?' | '/'))
}

/// Whether a row is the first line of a page; rows may well begin with another tag (`<none>`).
fn begins_page(cell: &str) -> bool {
    ["<!doctype", "<html", "<?xml"]
        .iter()
        .any(|page| cell.get(..page.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(page)))
}

fn markup(line: usize, begin: &str) -> Why {
    Why::quoting(SHOWN, |quoted| format!("line {line}: expected a table, found markup: {}", quoted(begin)))
}

/// What follows the first `count` lines of a text, which end in `end`.
///
/// # Errors
///
/// A sentence, when there are fewer.
pub(super) fn after_lines(text: &str, count: usize, end: char) -> Result<&str, Why> {
    let mut rest = text;
    for found in 0..count {
        if rest.is_empty() {
            return Err(Why::plainly(format!(
                "expected {count} lines before the table, which are skipped, found {found}"
            )));
        }
        rest = rest.split_once(end).map_or("", |(_, rest)| rest);
    }
    Ok(rest)
}
