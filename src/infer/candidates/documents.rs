//! JSON, lines of JSON, XML and HTML.

use serde_json::{Value, json};

use super::{Candidate, full_lines};

pub(super) fn candidates(texts: &[&str], media_type: &str) -> Vec<Candidate> {
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
        found.extend(html(texts));
    } else if texts.iter().all(|text| text.trim_start_matches('\u{feff}').trim_start().starts_with('<')) {
        found.extend(xml(texts));
    }
    found
}

fn html(texts: &[&str]) -> Vec<Candidate> {
    let mut found = Vec::new();
    let tables: Option<Vec<String>> = texts.iter().map(|text| first_table(text)).collect();
    if let Some(tables) = tables {
        let more = texts.iter().any(|text| text.to_ascii_lowercase().matches("<table").count() > 1);
        let more = if more { "; the first of several is taken" } else { "" };
        let rows = Candidate::strict(
            json!({ "html": { "table": true } }),
            format!("every sample is HTML with a table{more}"),
        );
        let pairs = Candidate::strict(
            json!({ "html": { "table": true, "as": "pairs" } }),
            format!("every sample is HTML with a table of names and values{more}"),
        );
        if tables.iter().all(|table| is_of_pairs(table)) {
            found.push(pairs);
        } else {
            found.push(rows);
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
