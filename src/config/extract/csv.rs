//! `csv` as the file has it, and what it shares with `columns`.

use std::collections::HashSet;

use super::{Alone, Form};
use crate::{
    config::{keys::CSV, section::Section},
    translate::extract::{Csv, CsvNames, ExtractorKind, Quote, Uneven},
};

pub(super) const FORM: Form = Form {
    name: "csv",
    keys: &CSV,
    alone: Alone::Is(|| ExtractorKind::Csv(Csv::default())),
    short: None,
    options: |section| {
        let before = section.report.errors();
        let delimiter = match section.text("delimiter") {
            Some("tab") => Some(b'\t'),
            Some(_) => character(section, "delimiter", "delimiter: \";\""),
            None => None,
        };
        let row_delimiter = section
            .get("row_delimiter")
            .and_then(|_| character(section, "row_delimiter", "row_delimiter: \"\\x1e\""));
        let quote = match section.text("quote") {
            Some("none") => Quote::Never,
            Some(_) => character(section, "quote", "quote: \"'\"").map_or(Quote::Never, Quote::With),
            None => Quote::default(),
        };
        let comment = section.get("comment").and_then(|_| character(section, "comment", "comment: \"#\""));
        let (header, columns) = (section.text_node("header"), columns(section));
        if columns.is_some() {
            section.refuse_beside(&["header"], "columns");
        }
        let names = match (columns, header) {
            (Some(columns), _) => CsvNames::Given(columns),
            (None, Some((node, ""))) => {
                let help = "write how the line begins: `header: \"# \"`; without `header` the first line has the names";
                section.report.error(node.span, "`header` is empty", help);
                return None;
            }
            (None, Some((_, mark))) => CsvNames::Marked(mark.to_owned()),
            (None, None) => CsvNames::FirstLine,
        };
        let trim = section.flag("trim").unwrap_or(false);
        let csv = Csv {
            delimiter,
            row_delimiter,
            quote,
            comment,
            names,
            skip: skip(section),
            trim,
            uneven: uneven(section),
            allow_empty: section.flag("allow_empty").unwrap_or(false),
        };
        let quote_byte = match quote {
            Quote::With(quote) => Some(quote),
            Quote::Never => None,
        };
        let marks: Vec<u8> = [delimiter, row_delimiter, quote_byte, comment].into_iter().flatten().collect();
        if marks.iter().enumerate().any(|(index, mark)| marks[..index].contains(mark)) {
            let message = "`delimiter`, `row_delimiter`, `quote` and `comment` must differ";
            section.report.error(section.place, message, "`quote: none` where nothing is put in quotes");
        }
        (section.report.errors() == before).then_some(ExtractorKind::Csv(csv))
    },
};

/// A character of ASCII.
fn character(section: &Section<'_, '_>, name: &'static str, example: &str) -> Option<u8> {
    let (node, text) = section.text_node(name)?;
    match text.as_bytes() {
        // Hive and other stores have characters between cells that nobody writes: U+0001, U+001F.
        [byte] if byte.is_ascii() && !matches!(byte, b'\0' | b'\n' | b'\r') => Some(*byte),
        _ => {
            let message = format!("`{name}` takes one character of ASCII, found {}", node.found());
            section.report.error(node.span, message, format!("write `{example}`"));
            None
        }
    }
}

/// Names of columns, which must differ.
pub(super) fn columns(section: &Section<'_, '_>) -> Option<Vec<String>> {
    let nodes = section.texts("columns")?;
    if nodes.is_empty() {
        let place = section.get("columns").map_or(section.place, |node| node.span);
        section.report.error(place, "`columns` names no column", "write `columns: [city, temperature]`");
    }
    let mut seen = HashSet::new();
    for (node, name) in &nodes {
        if name.is_empty() || !seen.insert(*name) {
            let message = match name.is_empty() {
                true => "a column has no name".to_owned(),
                false => format!("`{name}` names two columns"),
            };
            section.report.error(node.span, message, "every column has a name of its own");
        }
    }
    Some(nodes.into_iter().map(|(_, name)| name.to_owned()).collect())
}

/// How many lines come before the table.
pub(super) fn skip(section: &Section<'_, '_>) -> usize {
    section.count("skip").and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

/// What becomes of uneven rows.
pub(super) fn uneven(section: &Section<'_, '_>) -> Uneven {
    section.word("uneven").map_or(Uneven::Error, |word| match word {
        "pad" => Uneven::Pad,
        "skip" => Uneven::Skip,
        _ => Uneven::Error,
    })
}
