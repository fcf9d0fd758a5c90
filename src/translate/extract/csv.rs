//! `csv`: parser of CSV and its variants.

use std::io::Read;

use csv::{ReaderBuilder, StringRecord, Terminator};
use serde_json::Value;
use settings_derive::Section;

use super::records::{RaggedRows, TableBuilder, after_lines, column_members, not_empty, read_columns};
use super::{Extracted, FormatParser, MemberNames, RECORD_LIMIT, Typing, ValueCount};
use crate::settings::{Checked, Code, Cursor, Invalid, OpenSection, text_of};
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// Parses rows of cells into a list of objects of strings (RFC 4180 and its common variants).
///
/// Lines end in LF, CR LF or CR, unless a rule sets another delimiter; blank lines are skipped. A table
/// without rows is an empty list. A response without a table is an error, unless the rule allows it: an empty
/// one, an HTML page, or one line that names no columns, such as a sentence.
#[derive(Debug, Clone, Section)]
#[section(default, check = Self::check)]
pub struct Csv {
    /// Delimiter of cells: one character, or `tab`. Default `,`; for the media type
    /// `text/tab-separated-values`, `tab`.
    #[key(kind = ValueKind::Text, with = read_character, example = "delimiter: \";\"")]
    pub delimiter: Option<u8>,
    /// Delimiter of rows: one character, such as `"\x1e"`.
    #[key(
        kind = ValueKind::Text,
        with = read_character,
        example = "row_delimiter: \"\\x1e\"",
        shown = "line breaks"
    )]
    pub row_delimiter: Option<u8>,
    /// Prefix of the header line, such as `"# "`. Lines before the header are skipped. Without it, the first
    /// line is the header.
    #[key(with = not_empty, conflicts = "columns", example = "header: \"# \"")]
    pub header: Option<String>,
    /// Names of the columns, for a table without a header.
    #[key(with = read_columns)]
    pub columns: Option<Vec<String>>,
    /// Number of lines to skip before the table.
    #[key(range = 0..=100_000, default = 0)]
    pub skip: usize,
    /// Character that starts a comment line, such as `"#"`.
    #[key(kind = ValueKind::Text, with = read_character, example = "comment: \"#\"")]
    pub comment: Option<u8>,
    /// Quote character of cells, or `none`.
    #[key(
        kind = ValueKind::Text,
        with = read_quote,
        default = Some(b'"'),
        shown = "`\"`",
        example = "quote: \"'\""
    )]
    pub quote: Option<u8>,
    /// Whether to remove white space at both ends of each cell.
    pub trim: bool,
    /// Handling of rows with more or fewer cells than columns: `error` rejects the response, `pad` adds empty
    /// cells, `skip` drops the row.
    #[key(default = RaggedRows::Error)]
    pub ragged_rows: RaggedRows,
    /// Whether a response without a table is valid and gives an empty list. Otherwise it is an error.
    pub allow_empty: bool,
}

fn read_quote(value: &Cursor<'_>) -> Checked<Option<u8>> {
    if value.node.as_text() == Some("none") { Ok(None) } else { read_character(value) }
}

/// Reads an ASCII character, or `tab`.
fn read_character(value: &Cursor<'_>) -> Checked<Option<u8>> {
    match text_of(value)?.as_bytes() {
        b"tab" => Ok(Some(b'\t')),
        // Hive and other stores separate cells with control characters: U+0001, U+001F.
        [byte] if byte.is_ascii() && !matches!(byte, b'\0' | b'\n' | b'\r') => Ok(Some(*byte)),
        _ => {
            let message =
                format!("{} must be one ASCII character, found {}", value.name, value.node.describe());
            let example = value.key.map_or("", |key| key.example);
            value.reject(Invalid::new(message, format!("write `{example}`")))
        }
    }
}

impl FormatParser for Csv {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        (ValueCount::Many, column_members(self.columns.as_deref()))
    }

    fn find(&self, view: &ResponseView<'_>, typing: &Typing) -> Result<Extracted, ReadError> {
        let media_type = view.response.media_type();
        let delimiter = self.delimiter.unwrap_or(match media_type.as_deref() {
            Some("text/tab-separated-values" | "text/tsv") => b'\t',
            _ => b',',
        });
        self.read(view.text()?, delimiter, typing).map(Extracted::Value)
    }
}

impl Csv {
    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        section.check_valid(&["quote"])?;
        let marks = [self.delimiter, self.row_delimiter, self.quote, self.comment];
        let marks: Vec<u8> = marks.into_iter().flatten().collect();
        if marks.iter().enumerate().any(|(index, mark)| marks[..index].contains(mark)) {
            let message = "`delimiter`, `row_delimiter`, `quote` and `comment` must differ";
            let help = "change one of them; write `quote: none` if cells are never quoted";
            return Err(section.reject_at(
                Code::ConflictingKeys.at_span(section.value.key_span),
                message,
                help,
            ));
        }
        Ok(self)
    }

    fn read(&self, text: &str, delimiter: u8, typing: &Typing) -> Result<Value, ReadError> {
        if text.trim().is_empty() {
            return self.without_table("expected a table, found an empty response".into());
        }
        let table = match self.table(text) {
            Ok(table) => table,
            Err(error) => return self.without_table(error),
        };
        let table_start = text.len() - table.len();
        // Mark the end of the text, to detect an unclosed quote: the quoted cell would contain the mark.
        let end_mark = [self.row_delimiter.unwrap_or(b'\n'), b'\0'];
        let length = (table.len() + end_mark.len()) as u64;
        let mut reader = ReaderBuilder::new();
        reader.has_headers(false).flexible(true).delimiter(delimiter).comment(self.comment);
        reader.quoting(self.quote.is_some()).quote(self.quote.unwrap_or(b'"'));
        if let Some(row_delimiter) = self.row_delimiter {
            reader.terminator(Terminator::Any(row_delimiter));
        }
        let mut reader = reader.from_reader(table.as_bytes().chain(&end_mark[..]));
        let mut rows =
            self.columns.clone().map(|names| TableBuilder::with_names(names, self.ragged_rows, text));
        let mut record = StringRecord::new();
        let failed = |error| read_error!("expected rows of cells, found {error}");
        while reader.read_record(&mut record).map_err(failed)? {
            // Positions fit into `usize`, because they are at most the length of the text.
            let end = reader.position().byte();
            if end >= length {
                if record.len() == 1 && record.get(0) == Some("\0") {
                    break;
                }
                // The record's position is before the blank lines that precede it.
                let start = table_start + record.position().map_or(0, |position| position.byte() as usize);
                let quote = text[start..].find(|c| !matches!(c, '\r' | '\n')).unwrap_or(0);
                let line = self.line_number(text, start + quote);
                return Err(read_error!("line {line}: expected a closing quote, found none"));
            }
            // Blank lines and comments may precede a record, so report the line at its end.
            let line = || self.line_number(text, table_start + end as usize - 1);
            at_most(RECORD_LIMIT, record.len(), "cells")
                .map_err(|error| error.in_part(&format!("line {}", line())))?;
            if self.row_delimiter.is_some() && record.len() == 1 && record[0].trim().is_empty() {
                continue;
            }
            // With a row delimiter other than a line break, a line break after the delimiter is only
            // formatting.
            let strip_break =
                |(index, cell): (usize, _)| if index == 0 { self.without_break(cell) } else { cell };
            let cells = record
                .iter()
                .enumerate()
                .map(strip_break)
                .map(|cell| if self.trim { cell.trim() } else { cell });
            match &mut rows {
                Some(rows) => rows.add(&cells.collect::<Vec<_>>(), line)?,
                None => {
                    let names = record.iter().map(|name| name.trim().to_owned()).collect();
                    let is_certain = self.header.is_some() || self.allow_empty;
                    let is_prose =
                        record.iter().skip(1).any(|name| name.starts_with(' ') && name.trim().contains(' '));
                    let mut table = TableBuilder::from_header(line(), names, self.ragged_rows, text)?;
                    (table.is_prose, table.is_certain) = (is_prose, is_certain);
                    rows = Some(table);
                }
            }
        }
        match rows {
            Some(rows) => rows.into_value(typing),
            None => self.without_table("expected a line with the names of the columns, found none".into()),
        }
    }

    fn without_table(&self, error: ReadError) -> Result<Value, ReadError> {
        if self.allow_empty { Ok(Value::Array(Vec::new())) } else { Err(error) }
    }

    /// Returns the text after the prefix of the header line, or from the first row if no prefix is
    /// configured.
    fn table<'t>(&self, text: &'t str) -> Result<&'t str, ReadError> {
        // As in `columns`: CR ends lines in a text without LF.
        let line_end = if text.contains('\n') { '\n' } else { '\r' };
        let end = self.row_delimiter.map_or(line_end, char::from);
        let mut rest = after_lines(text, self.skip, end)?;
        let Some(prefix) = &self.header else { return Ok(rest) };
        while !rest.is_empty() {
            if let Some(table) = self.without_break(rest).strip_prefix(prefix.as_str()) {
                return Ok(table);
            }
            rest = rest.split_once(end).map_or("", |(_, rest)| rest);
        }
        Err(read_error!(
            "expected a line with the names of the columns that begins with `{prefix}`, found none"
        ))
    }

    /// Removes the line break at the beginning of a row, if a row delimiter is configured.
    fn without_break<'t>(&self, row: &'t str) -> &'t str {
        if self.row_delimiter.is_some() { row.trim_start_matches(['\r', '\n']) } else { row }
    }

    /// Line number of the byte at a position; with a row delimiter, the number of the row.
    fn line_number(&self, text: &str, at: usize) -> usize {
        let text_before = &text[..at];
        1 + match self.row_delimiter {
            Some(end) => text_before.matches(char::from(end)).count(),
            None => text_before.matches(['\r', '\n']).count() - text_before.matches("\r\n").count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::fields::{Field, FieldKind, FieldType, Fields};

    #[track_caller]
    fn check(csv: &Csv, text: &str, expected: Result<&str, &str>) {
        match (csv.read(text, csv.delimiter.unwrap_or(b','), &Typing::Untyped), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    fn csv() -> Csv {
        Csv::default()
    }

    fn columns(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn the_first_line_names_the_cells_of_the_others() {
        let expected = Ok(r#"[{"city":"Oslo","temp":"-5.0"},{"city":"Bergen, \"ytre\"\r\nby","temp":""}]"#);
        check(&csv(), "city,temp\r\nOslo,-5.0\r\n\"Bergen, \"\"ytre\"\"\r\nby\",\r\n\r\n\n", expected);
        check(&csv(), "city,temp\rOslo,5", Ok(r#"[{"city":"Oslo","temp":"5"}]"#));
        for csv in [Csv { skip: 1, ..csv() }, Csv { header: Some("# ".into()), ..csv() }] {
            let header = csv.header.as_deref().unwrap_or_default();
            let text = format!("title\r{header}city,temp\rOslo,5\r");
            check(&csv, &text, Ok(r#"[{"city":"Oslo","temp":"5"}]"#));
        }
        check(&Csv { delimiter: Some(b';'), ..csv() }, "a;b\n1,5;2", Ok(r#"[{"a":"1,5","b":"2"}]"#));
        check(
            &Csv { delimiter: Some(b'|'), trim: true, ..csv() },
            "a | b\n 1 | 2 \n",
            Ok(r#"[{"a":"1","b":"2"}]"#),
        );
        check(
            &Csv { delimiter: Some(b'\t'), quote: None, ..csv() },
            "a\tb\n\"5\tx",
            Ok(r#"[{"a":"\"5","b":"x"}]"#),
        );
        check(&Csv { quote: Some(b'\''), ..csv() }, "a,b\n'1,2',3", Ok(r#"[{"a":"1,2","b":"3"}]"#));
    }

    #[test]
    fn rows_may_have_another_separator() {
        let csv = || Csv { delimiter: Some(b'\x1f'), row_delimiter: Some(b'\x1e'), ..csv() };
        let expected = Ok(r#"[{"a":"1","b":"x\ny"},{"a":"2","b":""}]"#);
        check(&csv(), "a\x1fb\x1e1\x1fx\ny\x1e2\x1f", expected);
        check(&csv(), "a\x1fb\x1e\r\n1\x1fx\ny\x1e\n2\x1f\x1e\n", expected);
        check(&Csv { skip: 1, ..csv() }, "title\n\x1ea\x1fb\x1e1\x1fx\ny\x1e2\x1f", expected);
        let marked = Csv { header: Some("#".into()), ..csv() };
        check(&marked, "title\x1e\n#a\x1fb\x1e1\x1fx\ny\x1e2\x1f", expected);
        check(&csv(), "a\x1fb\x1e1\x1f2\x1e\n3\x1e", Err("line 3: expected 2 cells, found 1"));
        check(&csv(), "a\x1fb\x1e\"1\x1f2\x1e", Err("expected a closing quote"));
    }

    #[test]
    fn a_sentence_is_not_a_header() {
        for message in [
            "Sorry, the service is down, try later.\n",
            "Sorry, out of order",
            "Closed,call again!",
            "busy,the server has too many clients",
        ] {
            check(&csv(), message, Err("line 1: expected a table, found one line `"));
            check(&Csv { allow_empty: true, ..csv() }, message, Ok("[]"));
        }
        for header in ["First Name,Last Name\n", "city, temp\n", "Price in EUR,Date\n", "No.,Name\n"] {
            check(&csv(), header, Ok("[]"));
        }
    }

    #[test]
    fn a_table_without_rows_is_empty_and_an_empty_response_an_error() {
        check(&csv(), "city,temp\n", Ok("[]"));
        check(&csv(), " \r\n", Err("found an empty response"));
        check(&Csv { skip: 1, ..csv() }, "title\n", Err("expected a line with the names"));
        let marked = || Csv { header: Some("# ".into()), ..csv() };
        for csv in [csv(), marked(), Csv { columns: columns(&["a"]), ..csv() }, Csv { skip: 3, ..csv() }] {
            check(&csv, " \r\n", Err("found an empty response"));
            check(&Csv { allow_empty: true, ..csv }, " \r\n", Ok("[]"));
        }
        check(&Csv { allow_empty: true, ..marked() }, "No proxies.\n", Ok("[]"));
        check(&Csv { allow_empty: true, skip: 3, ..csv() }, "No proxies.\n", Ok("[]"));
        check(&Csv { allow_empty: true, ..csv() }, "a,b\n1\n", Err("line 2: expected 2 cells, found 1"));
        check(
            &Csv { skip: 3, ..csv() },
            "title\na,b\n",
            Err("expected 3 lines before the table, which are skipped, found 2"),
        );
        check(&Csv { columns: columns(&["a"]), skip: 1, ..csv() }, "title\n", Ok("[]"));
    }

    #[test]
    fn a_message_or_a_page_instead_of_a_table_is_an_error() {
        for line in
            ["df: /x: No such file or directory", "Datenbank nicht erreichbar", "error: unsupported option"]
        {
            check(&csv(), line, Err(&format!("line 1: expected a table, found one line `{line}`")));
            check(&Csv { allow_empty: true, ..csv() }, line, Ok("[]"));
        }
        check(
            &csv(),
            "<html><body>Login",
            Err("line 1: expected a table, found markup: `<html><body>Login`"),
        );
        check(&csv(), "<!DOCTYPE html>\n<p>x\n", Err("found markup"));
        check(
            &Csv { columns: columns(&["a"]), ..csv() },
            "<html>\n<p>x\n",
            Err("line 1: expected a table, found markup"),
        );
        check(&Csv { header: Some("# ".into()), ..csv() }, "# a\n", Ok("[]"));
        check(&csv(), "<DATE>,<TIME>\n1,2\n", Ok(r#"[{"<DATE>":"1","<TIME>":"2"}]"#));
    }

    #[test]
    fn a_header_has_what_the_fields_need_even_without_rows() {
        let typing =
            Typing::Fields(Fields::new(vec![Field::new("temp", FieldType::from(FieldKind::String))]));
        assert_eq!(csv().read("city,temp\n", b',', &typing).unwrap().to_string(), "[]");
        let error = csv().read("Error,no database\n", b',', &typing).unwrap_err();
        assert!(error.to_string().contains("line 1: field `temp` is missing: expected `temp`"), "{error}");
    }

    #[test]
    fn names_may_be_given_and_lines_before_them_skipped() {
        let named = Csv { columns: columns(&["a", "b"]), ..csv() };
        check(&named, "1,2\n", Ok(r#"[{"a":"1","b":"2"}]"#));
        check(&Csv { skip: 2, ..named }, "Report\n,x\n1,2\n", Ok(r#"[{"a":"1","b":"2"}]"#));
    }

    #[test]
    fn a_prefixed_header_is_found_and_its_prefix_removed() {
        let haproxy = Csv { header: Some("# ".into()), ..csv() };
        check(
            &haproxy,
            "# pxname,svname,qcur,\nwww,FRONTEND,,\n\n",
            Ok(r#"[{"pxname":"www","svname":"FRONTEND","qcur":""}]"#),
        );
        check(&haproxy, "pxname,svname\n", Err("that begins with `# `, found none"));
        let log =
            Csv { header: Some("#Fields: ".into()), delimiter: Some(b' '), comment: Some(b'#'), ..csv() };
        let text = "#Software: IIS\r\n#Fields: time cs-uri\r\n10:00 /a\r\n#Date: x\r\n10:01 /b\r\n";
        check(&log, text, Ok(r#"[{"time":"10:00","cs-uri":"/a"},{"time":"10:01","cs-uri":"/b"}]"#));
    }

    #[test]
    fn a_ragged_row_is_an_error_with_its_line() {
        check(&csv(), "a,b\n\n1,2\n\n\n3\n", Err("line 6: expected 2 cells, found 1"));
        check(&csv(), "a,b\r\n\"1\r\n\",2\r\n3,4,5\r\n", Err("line 4: expected 2 cells, found 3"));
        check(&Csv { comment: Some(b'#'), skip: 1, ..csv() }, "x\na,b\n# c\n1\n", Err("line 4: expected 2"));
        check(
            &Csv { header: Some("# ".into()), ..csv() },
            "x\n# a,\n1,2\n",
            Err("line 3: expected 1 cells, found 2"),
        );
        let pad = Csv { ragged_rows: RaggedRows::Pad, ..csv() };
        check(&pad, "a,b\n1\n1,2,,\n", Ok(r#"[{"a":"1","b":""},{"a":"1","b":"2"}]"#));
        check(&pad, "a,b\n1,2,3\n", Err("line 2: expected 2 cells, found 3"));
        let skip = Csv { ragged_rows: RaggedRows::Skip, ..csv() };
        check(&skip, "a,b\n1,2\nTotal: 1 row\n", Ok(r#"[{"a":"1","b":"2"}]"#));
    }

    #[test]
    fn every_column_has_a_name_of_its_own() {
        check(&csv(), "a,b,a\n", Err("line 1: expected names of columns that differ, found `a` twice"));
        check(&csv(), "\n,a\n", Err("line 2: expected a name for every column, found none for column 1"));
    }

    #[test]
    fn quotes_left_open_are_an_error_not_a_cell() {
        check(&csv(), "a,b\n1,2\n3,\"4\n5,6\n", Err("line 3: expected a closing quote"));
        check(&csv(), "\"a,b\n", Err("line 1: expected a closing quote"));
        check(&csv(), "a\n\"", Err("line 2: expected a closing quote"));
        check(&csv(), "a\n\n\r\n\"", Err("line 4: expected a closing quote"));
        check(&csv(), "a\n\"\"", Ok(r#"[{"a":""}]"#));
        check(&csv(), "a\n\0", Ok("[{\"a\":\"\\u0000\"}]"));
    }

    #[test]
    fn a_table_does_not_outgrow_its_response() {
        let long = format!("{}\n{}", "n".repeat(100_000), "1\n".repeat(5000));
        check(&csv(), &long, Err("with its names in every row, found more"));
        check(&csv(), &format!("a\n{}", "1\n".repeat(100_001)), Err("at most 100000 rows"));
        let commas = ",".repeat(200_000);
        check(&csv(), &commas, Err("line 1: expected at most 100000 cells, found more"));
        // A response of 60 KB must not use half a gigabyte.
        let header: Vec<_> = (0..900).map(|number| number.to_string()).collect();
        let short = format!("{}\n{}", header.join(","), "1\n".repeat(28_000));
        check(&Csv { ragged_rows: RaggedRows::Pad, ..csv() }, &short, Err("expected a table of at most 24"));
        let header: Vec<_> = (0..50_000).map(|number| number.to_string()).collect();
        let wide = format!("{}\n{}", header.join(","), "1\n".repeat(1000));
        check(&Csv { ragged_rows: RaggedRows::Pad, ..csv() }, &wide, Err("found more"));
    }
}
