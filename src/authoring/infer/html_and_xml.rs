//! Candidate extractors for HTML pages and XML documents.

use std::{
    collections::{BTreeSet, HashSet},
    sync::LazyLock,
};

use regex::Regex;
use serde_json::{Value, json};

use super::candidates::Candidate;
use super::extracted_values;
use super::samples::ClassifiedSamples;
use crate::config::quoted_list;
use crate::settings::fixed_regex;

/// Maximum number of table selectors that are compared.
const MAX_SELECTORS: usize = 200;
/// Path of the SOAP body; the name of the element in the body follows it.
pub(super) const SOAP_BODY: &str = "Envelope/Body/";
/// Pattern of a password field, which indicates a login page.
pub(super) const PASSWORD_FIELD: &str = r#"(?i)<input\b[^>]*\btype\s*=\s*["']?password\b"#;
/// Number of columns from which a table gets no generated names.
const MAX_COLUMNS: usize = 100;

/// Whether a text is an HTML document.
pub(super) fn is_html(text: &str, media_type: &str) -> bool {
    let start: String = without_bom(text).chars().take(200).collect();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype html")
        || start.contains("<html")
        || (media_type == "text/html" && start.starts_with('<'))
}

/// Removes a byte order mark (BOM) and white space at the start.
fn without_bom(text: &str) -> &str {
    text.trim_start_matches('\u{feff}').trim_start()
}

/// Proposes extractors for HTML pages.
pub(super) fn html(classified: &ClassifiedSamples<'_>, texts: &[&str]) -> Vec<Candidate> {
    let mut found = Vec::new();
    let pages: Vec<Vec<Table>> = texts.iter().map(|text| tables(text)).collect();
    let pages_with_table = pages.iter().filter(|tables| !tables.is_empty()).count();
    if let Some((selector, tables)) = best_table(&pages) {
        let is_one = pages.iter().all(|tables| tables.len() == 1);
        let note = match (is_one, selector) {
            (true, _) => String::new(),
            (false, "table") => {
                "; of several, the first `table` is used; `table:nth-of-type(2)` may be another".to_owned()
            }
            (false, _) => format!("; of several, the first `{selector}` is used"),
        };
        let table = if selector == "table" { json!(true) } else { json!(selector) };
        let is_of_pairs = tables.iter().all(|table| is_of_pairs(table));
        let (columns, detail) = match column_names(classified, &table, &tables) {
            _ if is_of_pairs => (None, " of names and values"),
            None => (None, ""),
            columns => (columns, " without headings: name its columns"),
        };
        let options = json!({ "table": table, "as": is_of_pairs.then_some("pairs"), "columns": columns });
        let reason = format!("every sample is HTML with a table{detail}{note}");
        found.push(Candidate::strict("html", options, reason));
    }
    // The page is a list of links, for example a directory or menu of an old server.
    let is_list = |text: &&str| {
        let text = text.to_ascii_lowercase();
        text.matches("<li").count() > 1 && text.matches(" href=").count() > 1
    };
    if texts.iter().all(is_list) {
        let select = json!({ "text": {}, "href": { "css": "a[href]", "attribute": "href" } });
        let options = json!({ "items": "li:has(a[href])", "select": select });
        found.push(Candidate::likely("html", options, "every sample is HTML with a list of links"));
    }
    let mut reason = "every sample is HTML: its text, as a browser shows it".to_owned();
    let is_mixed = (1..texts.len()).contains(&pages_with_table);
    if is_mixed {
        reason +=
            &format!("; {pages_with_table} of {} have a table, and the others may be errors", texts.len());
    }
    if texts.iter().all(|text| has_password_field(text)) {
        reason += "; every sample has a password field: it may be a login page";
    }
    let page_text = Candidate::strict("html", Value::Null, reason);
    found.push(Candidate { is_weak: true, is_strict: !is_mixed, ..page_text });
    found
}

/// Whether an HTML page contains a password field.
pub(super) fn has_password_field(text: &str) -> bool {
    static FIELD: LazyLock<Regex> = LazyLock::new(|| fixed_regex(PASSWORD_FIELD));
    FIELD.is_match(text)
}

/// A table of an HTML page: the selectors that match it, and its source in lower case, including the tag that
/// ends it or begins the first nested table.
type Table = (Vec<String>, String);

/// Returns the tables of an HTML page in document order.
fn tables(page: &str) -> Vec<Table> {
    static BOUND: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"(?i)</?table\b|$"));
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r#"(?i)\s(id|class)\s*=\s*["']?([a-z][\w-]*)"#));
    let table = |source: &str| {
        let tag = source.split('>').next().unwrap_or_default();
        let selector = |name: regex::Captures<'_>| match name[1].len() {
            2 => format!("#{}", &name[2]),
            _ => format!("table.{}", &name[2]),
        };
        let any = ["table".to_owned()].into_iter();
        (any.chain(NAME.captures_iter(tag).map(selector)).collect(), source.to_ascii_lowercase())
    };
    let bounds: Vec<_> = BOUND.find_iter(page).collect();
    let parts = bounds.windows(2).map(|two| &page[two[0].start()..two[1].end()]);
    parts.filter(|part| !part.starts_with("</")).map(table).collect()
}

/// Returns the best selector and the table that it matches first on each page. A selector is better if all
/// these tables have headings, and then if they have more rows.
fn best_table(pages: &[Vec<Table>]) -> Option<(&str, Vec<&str>)> {
    let matches = |selector: &String| {
        let is_match = |table: &&Table| table.0.contains(selector);
        pages.iter().map(|tables| Some(tables.iter().find(is_match)?.1.as_str())).collect::<Option<Vec<_>>>()
    };
    let mut seen = HashSet::new();
    let selectors = pages.first()?.iter().flat_map(|(selectors, _)| selectors);
    let selectors = selectors.filter(|selector| seen.insert(selector.as_str())).take(MAX_SELECTORS);
    let mut found: Vec<_> = selectors.filter_map(|name| Some((name.as_str(), matches(name)?))).collect();
    found.retain(|(_, tables)| !tables.iter().any(|table| is_layout(table)));
    // Reversed, because `max_by_key` returns the last of equal elements, and the first is wanted.
    found.into_iter().rev().max_by_key(|(_, tables)| {
        let rows: usize = tables.iter().map(|table| table.matches("<tr").count()).sum();
        (tables.iter().all(|table| table.contains("<th")), rows)
    })
}

/// Whether a table only arranges a page: it has one column without a heading, and a cell contains a section
/// of the page or another table.
fn is_layout(table: &str) -> bool {
    static SECTION: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"<(?:h[1-6]|p|div|form|ul|ol|dl|pre|table)\b"));
    let mut rows = table.split("<tr").skip(1).peekable();
    rows.peek().is_some()
        && rows.clone().all(|row| !row.contains("<th") && row.matches("<td").count() < 2)
        && rows.any(|row| SECTION.is_match(row))
}

/// Names for the columns of tables that have no headings and whose first row is data. Without `columns`, the
/// extractor `html` would use the first row as headings.
fn column_names(classified: &ClassifiedSamples<'_>, table: &Value, tables: &[&str]) -> Option<Vec<String>> {
    let name = |number| format!("column{number}");
    let names = |count| (1..=count).map(name).collect::<Vec<_>>();
    if tables.iter().any(|table| table.contains("<th")) {
        return None;
    }
    let options = json!({ "table": table, "columns": names(MAX_COLUMNS) });
    let values = extracted_values(&Candidate::likely("html", options, ""), classified).ok()?;
    let all: Vec<&[Value]> =
        values.iter().map(|rows| rows.as_array().map(Vec::as_slice)).collect::<Option<_>>()?;
    // Whether a single row is a header or data is decided by the samples with more rows.
    let mut longer = all.iter().zip(tables).filter(|(rows, _)| rows.len() > 1).peekable();
    if longer.peek().is_some() && longer.all(|(rows, table)| is_bold(table) || differs_from_below(rows)) {
        return None;
    }
    let rows = || all.iter().copied().flatten().filter_map(Value::as_object);
    let columns = (1..=MAX_COLUMNS).rev().find(|number| rows().any(|row| row.contains_key(&name(*number))));
    columns.filter(|count| *count < MAX_COLUMNS).map(names)
}

/// Whether the first row has a different text in every cell, and a column has numbers below the first row.
fn differs_from_below<'r>(rows: &'r [Value]) -> bool {
    let Some((Value::Object(first), rows_below)) = rows.split_first() else { return false };
    let text = |value: &'r Value| value.as_str().unwrap_or_default();
    let has_digit = |value: &'r Value| text(value).contains(|c: char| c.is_ascii_digit());
    let mut seen = HashSet::new();
    let is_name = |value: &'r Value| !text(value).trim().is_empty() && seen.insert(text(value));
    let is_above_numbers = |(name, cell): (&String, &'r Value)| {
        !has_digit(cell) && rows_below.iter().all(|row| has_digit(&row[name]))
    };
    first.values().all(is_name) && first.iter().any(is_above_numbers)
}

/// Whether every cell of the first row is bold, and not every cell of the second row.
fn is_bold(table: &str) -> bool {
    let mut rows = table.split("<tr").skip(1).map(|row| {
        let mut cells = row.split("<td").skip(1);
        cells.all(|cell| cell.contains("<b>") || cell.contains("<strong"))
    });
    rows.next() == Some(true) && rows.next() == Some(false)
}

/// Whether every row of a table has two cells: a heading and a cell, or two cells that are not headings.
fn is_of_pairs(table: &str) -> bool {
    let cells =
        |row: &str| (row.matches("<th>").count() + row.matches("<th ").count(), row.matches("<td").count());
    let rows: Vec<_> = table.split("<tr").skip(1).map(cells).collect();
    !rows.is_empty() && rows.iter().all(|row| matches!(row, (1, 1) | (0, 2)))
}

/// Proposes the extractor for XML documents.
pub(super) fn xml(texts: &[&str]) -> Candidate {
    let mut reason = "every sample is an XML document".to_owned();
    // Only the contents of the body of a SOAP envelope are useful.
    let in_bodies: Option<Vec<String>> = texts.iter().map(|text| first_in_body(text)).collect();
    let path = in_bodies.as_deref().and_then(<[_]>::split_first).map(|(first, others)| {
        let element = if others.iter().all(|other| other == first) { first } else { "*" };
        reason = format!("every sample is a SOAP envelope with `{element}` in it");
        format!("{SOAP_BODY}{element}")
    });
    let lists = repeated_elements(texts);
    if !lists.is_empty() {
        let names = quoted_list(lists.iter().map(String::as_str));
        reason += &format!("; repeated elements are always lists: {names}");
    }
    let options = json!({ "path": path, "lists": lists });
    Candidate::strict("xml", options, reason)
}

/// Names of elements that occur several times within one parent. Without the option `lists`, such an element
/// would be a list in one response and not in another.
fn repeated_elements(texts: &[&str]) -> Vec<String> {
    /// Maximum number of names; a longer list would not help.
    const MAX_NAMES: usize = 20;
    let documents = texts.iter().map(|text| roxmltree::Document::parse(without_bom(text)));
    let Ok(documents) = documents.collect::<Result<Vec<_>, _>>() else { return Vec::new() };
    let nodes = documents.iter().flat_map(roxmltree::Document::descendants);
    let mut repeated = BTreeSet::new();
    for parent in nodes.filter(roxmltree::Node::is_element) {
        let mut seen = HashSet::new();
        let children = parent.children().filter(roxmltree::Node::is_element);
        for name in children.map(|child| child.tag_name()) {
            // RSS has elements with the same local name in different namespaces: `link` and `atom:link`.
            if !seen.insert((name.namespace(), name.name())) {
                repeated.insert(name.name().to_owned());
            }
        }
    }
    if repeated.len() > MAX_NAMES { Vec::new() } else { repeated.into_iter().collect() }
}

/// Returns the name of the first element in a SOAP body; it is `Fault` for a SOAP fault.
pub(super) fn first_in_body(text: &str) -> Option<String> {
    if !(text.contains("Envelope") && text.contains("Body")) {
        return None;
    }
    let document = roxmltree::Document::parse(without_bom(text)).ok()?;
    let root = Some(document.root_element()).filter(|root| root.tag_name().name() == "Envelope")?;
    let body = root.children().find(|node| node.tag_name().name() == "Body")?;
    let inner = body.children().find(roxmltree::Node::is_element)?;
    Some(inner.tag_name().name().to_owned())
}
