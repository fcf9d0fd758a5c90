//! JSON, lines of JSON, XML and HTML.

use serde_json::{Value, json};

use super::{Candidate, full_lines};
use crate::authoring::infer::{samples::Sorted, trial};

/// A table with more columns is left as it is.
const MOST_COLUMNS: usize = 100;

pub(super) fn candidates(sorted: &Sorted<'_>, texts: &[&str], media_type: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    if texts.iter().all(|text| serde_json::from_str::<Value>(text).is_ok()) {
        let documents = texts.iter().all(|text| text.trim_start().starts_with(['{', '[']));
        // A number alone is JSON, and is text.
        if documents || media_type.ends_with("json") {
            found.push(Candidate::strict(json!("json"), "every sample is a JSON document"));
        }
    }
    let is_line = |line: &str| line.starts_with(['{', '[']) && serde_json::from_str::<Value>(line).is_ok();
    if texts.iter().all(|text| full_lines(text).all(is_line))
        && texts.iter().any(|text| full_lines(text).count() > 1)
    {
        found.push(Candidate::strict(json!("ndjson"), "every line is a JSON document"));
    }
    let is_html = texts.iter().all(|text| {
        let start: String = text.trim_start_matches('\u{feff}').trim_start().chars().take(200).collect();
        let start = start.to_ascii_lowercase();
        start.starts_with("<!doctype html")
            || start.contains("<html")
            || (media_type == "text/html" && start.starts_with('<'))
    });
    if is_html {
        found.extend(html(sorted, texts));
    } else if texts.iter().all(|text| text.trim_start_matches('\u{feff}').trim_start().starts_with('<')) {
        found.extend(xml(texts));
    }
    found
}

fn html(sorted: &Sorted<'_>, texts: &[&str]) -> Vec<Candidate> {
    let mut found = Vec::new();
    let tables: Option<Vec<String>> = texts.iter().map(|text| first_table(text)).collect();
    if let Some(tables) = tables {
        let more = texts.iter().any(|text| text.to_ascii_lowercase().matches("<table").count() > 1);
        let more = if more { "; the first of several is taken" } else { "" };
        let pairs = Candidate::strict(
            json!({ "html": { "table": true, "as": "pairs" } }),
            format!("every sample is HTML with a table of names and values{more}"),
        );
        if tables.iter().all(|table| is_of_pairs(table)) {
            found.push(pairs);
        } else {
            found.push(match column_names(sorted, &tables) {
                Some(columns) => Candidate::strict(
                    json!({ "html": { "table": true, "columns": columns } }),
                    format!("every sample is HTML with a table without headings: name its columns{more}"),
                ),
                None => Candidate::strict(
                    json!({ "html": { "table": true } }),
                    format!("every sample is HTML with a table{more}"),
                ),
            });
        }
    }
    let text = Candidate::strict(json!("html"), "every sample is HTML: its text, as a browser shows it");
    found.push(Candidate { is_weak: true, ..text });
    found
}

/// The source of a page's first table, in lower case.
fn first_table(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let table = &text[text.find("<table")?..];
    let end = table.find("</table").unwrap_or(table.len());
    Some(table[..end].to_owned())
}

/// Names for the columns of tables whose first row is data like the others, though `table` takes it for headings, as
/// there are no others.
fn column_names(sorted: &Sorted<'_>, tables: &[String]) -> Option<Vec<String>> {
    let name = |number| format!("column{number}");
    let names = |count| (1..=count).map(name).collect::<Vec<_>>();
    let rows = |options: Value| {
        let values = trial::values(&Candidate::likely(json!({ "html": options }), ""), sorted).ok()?;
        values.into_iter().map(|rows| rows.as_array().cloned()).collect::<Option<Vec<_>>>()
    };
    let all = rows(json!({ "table": true, "columns": names(MOST_COLUMNS) }))?;
    let below = rows(json!({ "table": true }))?;
    // Headings of their own are no rows.
    let takes_first = all.iter().zip(&below).all(|(all, below)| all.len() == below.len() + 1);
    let name_columns = all.iter().zip(tables).all(|(rows, table)| is_bold(table) || differs_from_below(rows));
    let is_narrow = |count: &usize| *count < MOST_COLUMNS;
    let rows = || all.iter().flatten().filter_map(Value::as_object);
    let columns = (1..=MOST_COLUMNS).rev().find(|number| rows().any(|row| row.contains_key(&name(*number))));
    (takes_first && !name_columns).then_some(columns.filter(is_narrow)).flatten().map(names)
}

/// Whether the first row has words in every cell, each once, and stands over a column that has numbers below it.
fn differs_from_below(rows: &[Value]) -> bool {
    let Some((first, below)) = rows.split_first().filter(|(_, below)| !below.is_empty()) else {
        return false;
    };
    let has_digit =
        |value: &Value| value.as_str().is_some_and(|text| text.contains(|c: char| c.is_ascii_digit()));
    let mut seen = std::collections::HashSet::new();
    let is_name = |value: &Value| {
        value.as_str().is_some_and(|text| !text.trim().is_empty() && seen.insert(text.to_owned()))
    };
    let mut cells = first.as_object().into_iter().flatten();
    let over_numbers =
        |(name, cell): (&String, &Value)| !has_digit(cell) && below.iter().all(|row| has_digit(&row[name]));
    cells.clone().map(|(_, cell)| cell).all(is_name) && cells.any(over_numbers)
}

/// Whether every cell of the first row is bold, and the second row has another.
fn is_bold(table: &str) -> bool {
    let mut rows = table.split("<tr").skip(1).map(|row| {
        let mut cells = row.split("<td").skip(1);
        cells.all(|cell| cell.contains("<b>") || cell.contains("<strong"))
    });
    rows.next() == Some(true) && rows.next() == Some(false)
}

/// Whether every row of a table has two cells, and the first of them is no heading of a column.
fn is_of_pairs(table: &str) -> bool {
    let cells =
        |row: &str| (row.matches("<th>").count() + row.matches("<th ").count(), row.matches("<td").count());
    let rows: Vec<_> = table.split("<tr").skip(1).map(cells).collect();
    !rows.is_empty() && rows.iter().all(|row| matches!(row, (1, 1) | (0, 2)))
}

fn xml(texts: &[&str]) -> Vec<Candidate> {
    let mut found = Vec::new();
    let soap = texts.iter().all(|text| text.contains("Envelope") && text.contains("Body"));
    if soap && let Some(inner) = body_element(texts) {
        let why = format!("every sample is a SOAP envelope with `{inner}` in it");
        found.push(Candidate::strict(json!({ "xml": { "pick": format!("Envelope/Body/{inner}") } }), why));
    }
    // The whole envelope says more, and nothing that anybody wants.
    if found.is_empty() {
        found.push(Candidate::strict(json!("xml"), "every sample is an XML document"));
    }
    found
}

/// The name of the first element in a SOAP body, where all samples have the same.
fn body_element(texts: &[&str]) -> Option<String> {
    let name = |text: &str| {
        let document = roxmltree::Document::parse(text.trim_start_matches('\u{feff}').trim_start()).ok()?;
        let body = document.root_element().children().find(|node| node.tag_name().name() == "Body")?;
        let inner = body.children().find(roxmltree::Node::is_element)?;
        Some(inner.tag_name().name().to_owned())
    };
    let first = name(texts.first()?)?;
    texts.iter().all(|text| name(text).as_deref() == Some(&first)).then_some(first)
}
