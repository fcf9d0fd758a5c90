//! `columns`: parser of aligned tables, as `ps`, `df` and `docker ps` print them.

mod layout;
#[cfg(test)]
mod tests;

use std::cell::LazyCell;

use serde_json::Value;
use settings_derive::Section;

use self::layout::{Cell, Frame, HeaderLine, cut_at, expand_tabs, is_count, is_rule, merge, words};
use super::records::{
    LineBlock, RaggedRows, TableBuilder, after_lines, column_members, lines, not_empty, read_columns,
    with_plain_line_ends,
};
use super::{Extracted, FormatParser, MemberNames, RECORD_LIMIT, Typing, ValueCount};
use crate::settings::{Checked, Code, Cursor, OpenSection, text_of};
use crate::translate::Pattern;
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// Maximum number of columns of a table: each column is searched for in every row.
const COLUMN_LIMIT: usize = 1000;

/// Maximum width of a column, in characters.
const WIDTH_LIMIT: u64 = 10_000;

/// Maximum length of a line, in bytes.
const LINE_LIMIT_BYTES: usize = 1 << 20;

/// Parses a table into a list of objects of strings; white space around cells is removed.
///
/// Blank lines and lines of `-----` are skipped. A table without rows is an empty list. A response without a
/// table is an error, unless the rule allows it.
#[derive(Debug, Section)]
#[section(default, check = Self::check)]
pub struct Columns {
    /// Names of the columns, for a table without a header. White space separates cells, and the last cell is
    /// the rest of the line.
    #[key(with = read_columns)]
    pub columns: Option<Vec<String>>,
    /// Widths of the columns, in characters, such as `[10, 8, 20]`. The last cell is the rest of the line.
    #[key(with = not_empty, kind = ValueKind::List(&ValueKind::Count(1, WIDTH_LIMIT)))]
    pub widths: Option<Vec<usize>>,
    /// Name of the first column, where the header has none for it.
    #[key(with = read_first_column, conflicts = "columns, widths")]
    pub first_column: Option<String>,
    /// Number of lines to skip before the table. With `start_at`, the search begins after them.
    #[key(range = 0..=100_000, default = 0)]
    pub skip: usize,
    /// Regular expression of the first line of the table, which is the header where there is one.
    pub start_at: Option<Pattern>,
    /// Regular expression of the first line after the table. `^$` matches a blank line.
    pub stop_before: Option<Pattern>,
    /// Handling of rows with more or fewer cells than columns: `error` rejects the response, `pad` adds empty
    /// cells, `skip` drops the row. Too many cells are possible only between bars.
    #[key(default = RaggedRows::Error)]
    pub ragged_rows: RaggedRows,
    /// Whether a response without a table is valid and gives an empty list. Otherwise it is an error.
    pub allow_empty: bool,
}

/// Reads the name of the first column, and rejects a blank one.
fn read_first_column(value: &Cursor<'_>) -> Checked<Option<String>> {
    match text_of(value)? {
        blank if blank.trim().is_empty() => value.reject_empty("write the name of the column"),
        name => Ok(Some(name.to_owned())),
    }
}

/// Whether a text has the horizontal rule of a table with bars: `+----+----+`, `| --- | --- |`.
pub(crate) fn has_frame(text: &str) -> bool {
    text.lines().any(|line| Frame::parse(line.trim_end()).is_some())
}

impl FormatParser for Columns {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        (ValueCount::Many, column_members(self.columns.as_deref()))
    }

    fn find(&self, view: &ResponseView<'_>, typing: &Typing) -> Result<Extracted, ReadError> {
        self.extract(view.text()?, typing).map(Extracted::Value)
    }
}

impl Columns {
    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        let Some(widths) = &self.widths else { return Ok(self) };
        if let Some(names) = &self.columns
            && widths.len() != names.len()
            && widths.len() + 1 != names.len()
        {
            let message =
                format!("`columns` has {} names, but `widths` has {} numbers", names.len(), widths.len());
            let help = "write a width for every column; the last is optional";
            let at = Code::ConflictingKeys.at_span(section.value.key_span);
            return Err(section.reject_at(at, &message, help));
        }
        Ok(self)
    }

    fn extract(&self, text: &str, typing: &Typing) -> Result<Value, ReadError> {
        let text = &*with_plain_line_ends(text);
        if text.trim().is_empty() && !self.allow_empty {
            return Err("expected a table, found an empty response".into());
        }
        let lines = self.lines(text)?;
        if self.allow_empty && lines.iter().all(|line| is_rule(line.text)) {
            return Ok(Value::Array(Vec::new()));
        }
        let count = self.columns.as_ref().map(Vec::len);
        let starts = self.widths.as_ref().map(|widths| {
            let ends = widths.iter().scan(0, |end, width| {
                *end += width;
                Some(*end)
            });
            ends.take(count.unwrap_or(widths.len()).saturating_sub(1)).collect::<Vec<_>>()
        });
        let cells = |line: &LineBlock<'_>| match &starts {
            Some(starts) => cut_at(&expand_tabs(line.text), starts),
            None => split_words(line.text, count.unwrap_or_default()),
        };
        let mut table = lines.iter().filter(|line| !is_rule(line.text));
        let mut rows = match &self.columns {
            Some(names) => TableBuilder::with_names(names.clone(), self.ragged_rows, text),
            None if starts.is_none() => return self.extract_with_header(&lines, text, typing),
            None => {
                let header = table.next().ok_or(NO_HEADER)?;
                self.table_with_header(*header, cells(header), &lines, text)?
            }
        };
        let frame = lines.iter().find_map(|line| Frame::parse(line.text)).filter(|frame| {
            let first = lines.iter().find(|line| Frame::parse(line.text).is_none());
            starts.is_none() && first.is_none_or(|line| frame.cells(line.text).is_some())
        });
        match frame {
            Some(frame) => add_framed_rows(&frame, &lines, &mut rows)?,
            None => table.try_for_each(|line| {
                let result = rows.add(&cells(line), || line.line);
                result.map_err(|error| with_hint(error, &lines, line))
            })?,
        }
        rows.into_value(typing)
    }

    /// Lines of the table, without blank lines; empty if the response has no table and the rule allows that.
    fn lines<'t>(&self, text: &'t str) -> Result<Vec<LineBlock<'t>>, ReadError> {
        let without_table = |error| if self.allow_empty { Ok(Vec::new()) } else { Err(error) };
        if let Err(error) = after_lines(text, self.skip, '\n') {
            return without_table(error);
        }
        let is_first =
            |line: &LineBlock<'_>| self.start_at.as_ref().is_none_or(|pattern| pattern.is_match(line.text));
        let mut lines = lines(text).skip(self.skip).skip_while(|line| !is_first(line)).peekable();
        if let (Some(pattern), None) = (&self.start_at, lines.peek()) {
            return without_table(read_error!(
                "expected a line that matches `{pattern}`, where the table begins, found none"
            ));
        }
        let mut table = Vec::new();
        for line in lines {
            let ends_table = self.stop_before.as_ref().is_some_and(|pattern| pattern.is_match(line.text));
            if ends_table && !table.is_empty() {
                break;
            }
            if line.text.trim().is_empty() {
                continue;
            }
            at_most(LINE_LIMIT_BYTES, line.text.len(), "bytes")
                .and_then(|()| at_most(RECORD_LIMIT, table.len(), "rows"))
                .map_err(|error| line.locate(error))?;
            table.push(line);
        }
        Ok(table)
    }

    /// Begins a table with the names in its header. The line is certainly a header if a horizontal rule is
    /// below it, or if `start_at` or `allow_empty` is configured.
    fn table_with_header(
        &self,
        header: LineBlock<'_>,
        names: Vec<String>,
        lines: &[LineBlock<'_>],
        text: &str,
    ) -> Result<TableBuilder, ReadError> {
        let mut rows = TableBuilder::from_header(header.line, names, self.ragged_rows, text)?;
        let is_ruled = lines.iter().any(|line| line.line > header.line && is_rule(line.text));
        rows.is_certain = is_ruled || self.start_at.is_some() || self.allow_empty;
        Ok(rows)
    }

    fn extract_with_header(
        &self,
        lines: &[LineBlock<'_>],
        text: &str,
        typing: &Typing,
    ) -> Result<Value, ReadError> {
        if let Some((frame, at, rows_at)) = Frame::around(lines)
            && let Some(cells) = frame.cells(lines[at].text)
        {
            let mut names: Vec<String> = cells.into_iter().map(|cell| cell.text).collect();
            if let (Some(first), Some(name)) = (&self.first_column, names.first_mut()) {
                if !name.is_empty() {
                    return Err(first_column_error(lines[at], name));
                }
                name.clone_from(first);
            }
            let mut rows = self.table_with_header(lines[at], names, lines, text)?;
            add_framed_rows(&frame, lines.get(rows_at..).unwrap_or_default(), &mut rows)?;
            return rows.into_value(typing);
        }
        let at = lines.iter().position(|line| !is_rule(line.text)).ok_or(NO_HEADER)?;
        let header = expand_tabs(lines[at].text);
        // `---swap--` is a heading over several columns, as in `vmstat`.
        let is_heading = |word: &&[char]| word.starts_with(&['-', '-']) && word.ends_with(&['-', '-']);
        if let Some(heading) = words(&header).into_iter().map(|word| &header[word]).find(is_heading) {
            let heading: String = heading.iter().collect();
            let error = ReadError::with_quote(usize::MAX, "expected names of columns, found ", &heading);
            return Err(lines[at].locate(error.with_suffix(", which spans several; `skip` skips the line")));
        }
        at_most(COLUMN_LIMIT, words(&header).len(), "columns").map_err(|error| lines[at].locate(error))?;
        // A line of `---- -----` below the header marks exactly where columns begin.
        let ruled = lines.get(at + 1).filter(|line| is_rule(line.text)).map(|line| expand_tabs(line.text));
        let body = || lines[at + 1..].iter().filter(|line| !is_rule(line.text));
        let header = match ruled.filter(|rule| (2..=COLUMN_LIMIT).contains(&words(rule).len())) {
            Some(rule) => HeaderLine::ruled(&header, &rule),
            None => {
                let field_names: Vec<&str> = typing.paths().iter().map(|path| path.as_str()).collect();
                let rows = body().map(|line| line.text);
                HeaderLine::from_header(&header, rows, self.first_column.as_deref(), &field_names)
            }
        };
        if let Some(name) = header.first_named() {
            return Err(first_column_error(lines[at], name));
        }
        let mut rows = self.table_with_header(lines[at], header.names.clone(), lines, text)?;
        // A long cell shifts the cells after it. If all cells but the last are single words in the other
        // rows, the words of the row are counted instead.
        let cells_are_words = LazyCell::new(|| {
            let mut aligned = body().filter_map(|line| header.cells(&expand_tabs(line.text)).ok()).peekable();
            // Without another row for comparison, a cell of several words can't be distinguished from a
            // shifted one.
            aligned.peek().is_some()
                && aligned.all(|cells| {
                    let before_last = cells.len().saturating_sub(1);
                    cells[..before_last].iter().all(|cell| cell.split_whitespace().count() == 1)
                })
        });
        for line in body() {
            let row = expand_tabs(line.text);
            let in_line = |error: ReadError| with_hint(line.locate(error), lines, line);
            header.check_first_column(&row).map_err(in_line)?;
            let word_cells = || split_words(line.text, header.names.len());
            let cells = match header.cells(&row) {
                Err(_) if word_cells().len() == header.names.len() && *cells_are_words => word_cells(),
                Err(_) if self.ragged_rows == RaggedRows::Skip => continue,
                cells => cells.map_err(in_line)?,
            };
            rows.add(&cells, || line.line).map_err(|error| with_hint(error, lines, line))?;
        }
        rows.into_value(typing)
    }
}

/// Adds the rows of a framed table. In the output of `psql`, a cell of several lines has a mark at the end of
/// each line but the last.
fn add_framed_rows(frame: &Frame, lines: &[LineBlock<'_>], rows: &mut TableBuilder) -> Result<(), ReadError> {
    let mut pending: Option<(Vec<Cell>, &LineBlock<'_>)> = None;
    for line in lines.iter().filter(|line| Frame::parse(line.text).is_none()) {
        let Some(cells) = frame.cells(line.text) else {
            if is_count(line.text) {
                break;
            }
            return Err(read_error!(
                "line {}: expected a row between bars, found a line without; `stop_before` sets where the \
                 table ends",
                line.line
            ));
        };
        let next = match &mut pending {
            Some((row, _)) => merge(row, cells),
            None => Some(cells),
        };
        if let Some(next) = next
            && let Some((row, line)) = pending.replace((next, line))
        {
            rows.add(&row, || line.line)?;
        }
    }
    pending.map_or(Ok(()), |(row, line)| rows.add(&row, || line.line))
}

/// Adds a hint to an error in the last of several rows, because that line may be a total below the table.
fn with_hint(error: ReadError, lines: &[LineBlock<'_>], line: &LineBlock<'_>) -> ReadError {
    match lines.len() > 2 && lines.last().is_some_and(|last| last.line == line.line) {
        true => error.with_suffix("; if it is below the table, `stop_before` ends the table there"),
        false => error,
    }
}

fn first_column_error(header: LineBlock<'_>, name: &str) -> ReadError {
    let expected = "expected no name for the first column, as `first_column` gives it one, found ";
    header.locate(ReadError::with_quote(usize::MAX, expected, name))
}

const NO_HEADER: &str = "expected a line with the names of the columns, found none";

/// Splits a line into at most `count` cells at white space; the last cell is the rest of the line.
fn split_words(line: &str, count: usize) -> Vec<String> {
    let mut rest = line.trim();
    let mut cells = Vec::new();
    while !rest.is_empty() {
        let is_last = cells.len() + 1 == count;
        let split = if is_last { None } else { rest.split_once(char::is_whitespace) };
        let (cell, after) = split.unwrap_or((rest, ""));
        cells.push(cell.to_owned());
        rest = after.trim_start();
    }
    cells
}
