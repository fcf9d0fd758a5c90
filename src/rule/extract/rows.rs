//! Rows of cells under the names of columns: what `csv` and `columns` have in common.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::RECORD_LIMIT;

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
    /// A sentence, when a column has no name or two have the same.
    pub(super) fn under(
        header_line: usize,
        mut names: Vec<String>,
        uneven: Uneven,
        text: &str,
    ) -> Result<Self, String> {
        let spare = names.len() > 1 && names.last().is_some_and(String::is_empty);
        if spare {
            names.pop();
        }
        if let Some(index) = names.iter().position(String::is_empty) {
            return Err(format!(
                "line {header_line}: expected a name for every column, found none for column {}; `columns` gives names",
                index + 1
            ));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(format!(
                "line {header_line}: expected names of columns that differ, found `{twice}` twice; `columns` gives names"
            ));
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
    pub(super) fn add(&mut self, cells: &[&str], line: impl Fn() -> usize) -> Result<(), String> {
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
                    return Err(format!("line {}: expected {expected} cells, found {found}", line()));
                }
            }
        }
        if self.rows.len() == RECORD_LIMIT {
            return Err(format!("line {}: expected at most {RECORD_LIMIT} rows, found more", line()));
        }
        let mut row = Map::with_capacity(expected);
        for (index, name) in self.names.iter().enumerate() {
            let cell = cells.get(index).copied().unwrap_or_default();
            self.bytes += name.len() + cell.len() + CELL_BYTES;
            row.insert(name.clone(), cell.into());
        }
        if self.bytes > self.limit_bytes {
            return Err(format!(
                "line {}: expected a table of at most {} bytes with its names in every row, found more",
                line(),
                self.limit_bytes
            ));
        }
        self.rows.push(Value::Object(row));
        Ok(())
    }

    /// All rows, as a list.
    pub(super) fn into_value(self) -> Value {
        Value::Array(self.rows)
    }
}

/// What follows the first `count` lines of a text.
///
/// # Errors
///
/// A sentence, when there are fewer.
pub(super) fn after_lines(text: &str, count: usize) -> Result<&str, String> {
    let mut rest = text;
    for found in 0..count {
        if rest.is_empty() {
            return Err(format!("expected {count} lines before the table, which are skipped, found {found}"));
        }
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    Ok(rest)
}
