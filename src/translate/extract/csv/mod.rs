//! `csv`: CSV and its relatives.

#[cfg(test)]
mod tests;

use std::io::Read;

use csv::{ReaderBuilder, StringRecord, Terminator};
use serde_json::Value;

use super::{
    Extracted, Extraction, Finds, Gives, RECORD_LIMIT, Typing,
    rows::{Heading, Rows, Uneven, after_lines},
};
use crate::translate::{response_view::ResponseView, why::Why};

/// Reads rows of cells into a list of objects of strings (RFC 4180, and what is sent in its name).
///
/// Lines end in LF, CR LF or CR, unless a rule says what stands between rows; blank lines are passed over. A table without rows gives an empty list; a reply without
/// a table is an error, unless the rule allows it: nothing, a page of HTML, or one line that names no columns, such as a
/// sentence.
#[derive(Debug, Clone, Default)]
pub struct Csv {
    /// What stands between cells, ASCII; by the media type where there is none: a tab in tab-separated values, else a
    /// comma.
    pub delimiter: Option<u8>,
    /// What stands between rows, ASCII; the ends of lines where there is none.
    pub row_delimiter: Option<u8>,
    /// What cells are put in quotes with.
    pub quote: Quote,
    /// What a line begins with that is no row, ASCII.
    pub comment: Option<u8>,
    /// Where the names of the columns come from.
    pub names: CsvNames,
    /// How many lines come before the table.
    pub skip: usize,
    /// Whether white space at both ends of a cell is left out.
    pub trim: bool,
    /// What becomes of rows with more or fewer cells than there are columns.
    pub uneven: Uneven,
    /// Whether a reply without a table gives an empty list: an empty one, or one without the line that names the columns.
    pub allow_empty: bool,
}

/// What cells are put in quotes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// This character, ASCII; doubled it stands for itself.
    With(u8),
    /// Nothing: quotes are characters like others.
    Never,
}

impl Default for Quote {
    fn default() -> Self {
        Self::With(b'"')
    }
}

/// Where the names of the columns come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CsvNames {
    /// The first line.
    #[default]
    FirstLine,
    /// The first line that begins like this, which is no part of the first name.
    Marked(String),
    /// The rule; the first line is a row.
    Given(Vec<String>),
}

impl Extraction for Csv {
    fn gives(&self) -> Gives {
        Gives::Many
    }

    fn finds(&self) -> Finds<'_> {
        match &self.names {
            CsvNames::Given(names) => Finds::Names(names.iter().map(String::as_str).collect()),
            CsvNames::FirstLine | CsvNames::Marked(_) => Finds::AnyNames,
        }
    }

    fn find(&self, view: &ResponseView<'_>, typing: &Typing) -> Result<Extracted, Why> {
        let media_type = view.reply().media_type();
        let delimiter = self.delimiter.unwrap_or(match media_type.as_deref() {
            Some("text/tab-separated-values" | "text/tsv") => b'\t',
            _ => b',',
        });
        self.read(view.text()?, delimiter, typing).map(Extracted::Value)
    }
}

impl Csv {
    fn read(&self, text: &str, delimiter: u8, typing: &Typing) -> Result<Value, Why> {
        if text.trim().is_empty() {
            return self.without_table("expected a table, found an empty reply".into());
        }
        let table = match self.table(text) {
            Ok(table) => table,
            Err(why) => return self.without_table(why),
        };
        let begin = text.len() - table.len();
        // Put behind the text: were a quote left open, this would be swallowed by it.
        let end = [self.row_delimiter.unwrap_or(b'\n'), b'\0'];
        let length = (table.len() + end.len()) as u64;
        let mut reader = ReaderBuilder::new();
        reader.has_headers(false).flexible(true).delimiter(delimiter).comment(self.comment);
        match self.quote {
            Quote::With(quote) => reader.quote(quote),
            Quote::Never => reader.quoting(false),
        };
        if let Some(row_delimiter) = self.row_delimiter {
            reader.terminator(Terminator::Any(row_delimiter));
        }
        let mut reader = reader.from_reader(table.as_bytes().chain(&end[..]));
        let mut rows = match &self.names {
            CsvNames::Given(names) => Some(Rows::named(names.clone(), self.uneven, text)),
            CsvNames::FirstLine | CsvNames::Marked(_) => None,
        };
        let mut heading = None;
        let mut record = StringRecord::new();
        while reader
            .read_record(&mut record)
            .map_err(|error| Why::plainly(format!("expected rows of cells, found {error}")))?
        {
            let start = record.position().map_or(0, |position| position.byte());
            // Both are at most the length of the text.
            let line = || self.line(text, begin + start as usize);
            if reader.position().byte() >= length {
                if record.len() == 1 && record.get(0) == Some("\0") {
                    break;
                }
                return Err(Why::plainly(format!(
                    "line {}: expected an end to what is in quotes, found none",
                    line()
                )));
            }
            if record.len() > RECORD_LIMIT {
                let found = record.len();
                return Err(Why::plainly(format!(
                    "line {}: expected at most {RECORD_LIMIT} cells, found {found}",
                    line()
                )));
            }
            if self.row_delimiter.is_some() && record.len() == 1 && record[0].trim().is_empty() {
                continue;
            }
            // A line break behind what stands between rows is for people.
            let bare = |(index, cell): (usize, _)| if index == 0 { self.without_break(cell) } else { cell };
            let cells =
                record.iter().enumerate().map(bare).map(|cell| if self.trim { cell.trim() } else { cell });
            match &mut rows {
                Some(rows) => rows.add(&cells.collect::<Vec<_>>(), line)?,
                None => {
                    let names = record.iter().map(|name| name.trim().to_owned()).collect();
                    let is_marked = matches!(self.names, CsvNames::Marked(_));
                    let is_certain = is_marked || self.allow_empty;
                    let is_prose =
                        record.iter().skip(1).any(|name| name.starts_with(' ') && name.trim().contains(' '));
                    let header = Heading { line: line(), is_prose, is_certain };
                    rows = Some(Rows::under(header.line, names, self.uneven, text)?);
                    heading = Some(header);
                }
            }
        }
        match (rows, heading) {
            (Some(rows), Some(heading)) => rows.into_value_under(&heading, typing),
            (Some(rows), None) => Ok(rows.into_value()),
            (None, _) => {
                self.without_table("expected a line with the names of the columns, found none".into())
            }
        }
    }

    fn without_table(&self, why: Why) -> Result<Value, Why> {
        if self.allow_empty { Ok(Value::Array(Vec::new())) } else { Err(why) }
    }

    /// The text from the header on, its mark left out; from the first row on where there is no header.
    fn table<'t>(&self, text: &'t str) -> Result<&'t str, Why> {
        let end = self.row_delimiter.map_or('\n', char::from);
        let rest = after_lines(text, self.skip, end)?;
        let CsvNames::Marked(mark) = &self.names else { return Ok(rest) };
        let mut at = 0;
        for line in rest.split_inclusive(end) {
            let bare = self.without_break(line);
            if bare.starts_with(mark) {
                return Ok(&rest[at + line.len() - bare.len() + mark.len()..]);
            }
            at += line.len();
        }
        Err(Why::plainly(format!(
            "expected a line with the names of the columns that begins with `{mark}`, found none"
        )))
    }

    /// A row without the line break that it begins with, where something else stands between rows.
    fn without_break<'t>(&self, row: &'t str) -> &'t str {
        if self.row_delimiter.is_some() { row.trim_start_matches(['\r', '\n']) } else { row }
    }

    /// The number of the line of a record that begins at a byte of the text, or after blank lines and comments there.
    fn line(&self, text: &str, start: usize) -> usize {
        let is_break =
            |byte: u8| self.row_delimiter.map_or(byte == b'\n' || byte == b'\r', |end| byte == end);
        let bytes = text.as_bytes();
        let mut at = start.min(bytes.len());
        loop {
            at += bytes[at..].iter().take_while(|byte| is_break(**byte)).count();
            if self.comment.is_none() || bytes.get(at).copied() != self.comment {
                break;
            }
            at += bytes[at..].iter().take_while(|byte| !is_break(**byte)).count();
        }
        let breaks = (0..at).filter(|index| match bytes[*index] {
            byte if self.row_delimiter.is_some() => is_break(byte),
            b'\n' => true,
            b'\r' => bytes.get(index + 1) != Some(&b'\n'),
            _ => false,
        });
        breaks.count() + 1
    }
}
