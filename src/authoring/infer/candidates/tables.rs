//! Tables: CSV and its relatives, and columns that stand one below the other.

use super::{Candidate, full_lines};
use regex::Regex;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Values between delimiters.
pub(super) fn delimited(texts: &[&str], media_type: &str) -> Vec<Candidate> {
    let named = matches!(media_type, "text/csv" | "text/tab-separated-values" | "application/csv");
    [('\t', "tabs"), (';', "semicolons"), ('|', "pipes"), (',', "commas")]
        .into_iter()
        // Pipes of a table that is drawn, as in Markdown, are its bars.
        .filter(|(delimiter, _)| *delimiter != '|' || !texts.iter().all(|text| is_drawn(text)))
        .filter(|(delimiter, _)| *delimiter != ',' || !texts.iter().all(|text| is_log(text)))
        .filter_map(|(delimiter, word)| {
            let width = width(texts, delimiter)?;
            let mut options = json!({});
            if delimiter != ',' {
                options["delimiter"] =
                    if delimiter == '\t' { "tab".into() } else { delimiter.to_string().into() };
            }
            let has_header = texts.iter().all(|text| header_is_text(text, delimiter));
            if !has_header {
                let names: Vec<Value> = (1..=width).map(|number| format!("column{number}").into()).collect();
                options["columns"] = names.into();
            }
            // HAProxy writes `# ` before its header.
            if has_header && texts.iter().all(|text| text.starts_with("# ")) {
                options["header"] = "# ".into();
            }
            let why = format!("every line has {width} values between {word}");
            let extract = if options == json!({}) { json!("csv") } else { json!({ "csv": options }) };
            Some(if named { Candidate::strict(extract, why) } else { Candidate::likely(extract, why) })
        })
        .collect()
}

/// Whether every line has a time whose milliseconds stand behind a comma, as Java and Python write them into
/// logs.
fn is_log(text: &str) -> bool {
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\d\d:\d\d:\d\d,\d{3}\b").expect("a good pattern"));
    full_lines(text).all(|line| TIME.is_match(line))
}

/// How many values every record has; `None` when they differ or there is one.
fn width(texts: &[&str], delimiter: char) -> Option<usize> {
    let mut width = None;
    let mut records = 0;
    for text in texts {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(u8::try_from(delimiter).ok()?)
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        for record in reader.records().take(1000) {
            let record = record.ok()?;
            if record.len() == 1 && record.get(0).is_some_and(|value| value.trim().is_empty()) {
                continue;
            }
            records += 1;
            if *width.get_or_insert(record.len()) != record.len() {
                return None;
            }
        }
    }
    width.filter(|width| *width > 1 && records > texts.len())
}

/// Whether the first line names the columns: no number in it, no name empty or twice.
fn header_is_text(text: &str, delimiter: char) -> bool {
    let Some(header) = full_lines(text).next() else { return false };
    let names: Vec<&str> =
        header.trim_start_matches('#').split(delimiter).map(|name| name.trim().trim_matches('"')).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    let is_name = |name: &str| {
        !name.is_empty() && name.parse::<f64>().is_err() && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut seen = std::collections::HashSet::new();
    // A delimiter may end the line.
    others.iter().all(|name| is_name(name))
        && (last.is_empty() || is_name(last))
        && names.iter().all(|name| seen.insert(*name))
}

/// Columns that stand one below the other.
pub(super) fn columns(texts: &[&str]) -> Vec<Candidate> {
    let is_table = |text: &&str| {
        let lines: Vec<&str> = full_lines(text).collect();
        let Some((header, rows)) = lines.split_first() else { return false };
        let names: Vec<&str> = header.split_whitespace().collect();
        let mut seen = std::collections::HashSet::new();
        let header_is_good = names.len() > 1
            && names.iter().all(|name| name.parse::<f64>().is_err() && seen.insert(*name))
            && !header.contains([':', '=', ',', ';'])
            // `vmstat` groups its columns in a line of their own.
            && !header.contains("--");
        // Lines of `key: value` under a title.
        let are_pairs = !header.trim().contains("  ")
            && rows
                .iter()
                .filter(|row| row.contains(char::is_alphanumeric))
                .all(|row| row.split_whitespace().next().is_some_and(|word| word.ends_with(':')));
        // Values may be left out or have blanks in them; most lines still have about as many words as there
        // are names.
        let about =
            rows.iter().filter(|row| row.split_whitespace().count() + names.len() / 4 >= names.len()).count();
        // A title over a header and its rows: twice as many words stand below it.
        let wide = rows.iter().filter(|row| row.split_whitespace().count() >= names.len() * 2).count();
        let is_title = wide * 2 > rows.len();
        header_is_good && !are_pairs && !is_title && !rows.is_empty() && about * 10 >= rows.len() * 8
    };
    let is_below_title = |text: &&str| text.split_once('\n').is_some_and(|(_, rest)| is_table(&rest));
    if texts.iter().all(|text| is_drawn(text)) {
        vec![Candidate::likely(json!("columns"), "the values stand between bars, below a line that is drawn")]
    } else if texts.iter().all(is_table) {
        vec![Candidate::likely(
            json!("columns"),
            "the first line names columns, and the values stand below the names",
        )]
    } else if texts.iter().all(|text| is_led(text)) {
        vec![Candidate::likely(
            json!({ "columns": { "first": "name" } }),
            "the first line names columns, but for the first of them",
        )]
    } else if texts.iter().all(is_below_title) {
        let why = "the line below a title names columns, and the values stand below the names";
        vec![Candidate::likely(json!({ "columns": { "skip": 1 } }), why)]
    } else {
        Vec::new()
    }
}

/// Whether every row begins before the first name of the header, which is then over the second cell: `free`.
fn is_led(text: &str) -> bool {
    let mut lines = full_lines(text);
    let Some(header) = lines.next() else { return false };
    let margin = header.len() - header.trim_start().len();
    let names = header.split_whitespace().count();
    let leads = |row: &str| {
        let first = row.split_whitespace().next().map_or(0, str::len);
        !row.starts_with(char::is_whitespace)
            && first <= margin
            && row.split_whitespace().count() <= names + 1
    };
    let mut rows = lines.peekable();
    margin > 0
        && names > 1
        && header.split_whitespace().all(|name| name.parse::<f64>().is_err())
        && rows.peek().is_some()
        && rows.all(leads)
}

/// Whether a line of a text is drawn across a table with bars: `+----+----+`, `----+----`, `| --- | --- |`,
/// `├────┼────┤`.
fn is_drawn(text: &str) -> bool {
    let is_box = |c: char| ('\u{2500}'..='\u{257f}').contains(&c);
    let is_drawing = |c: char| matches!(c, '-' | '=' | ':' | '+' | '|' | ' ') || is_box(c);
    full_lines(text).any(|line| {
        line.chars().all(is_drawing)
            && line.contains(['-', '=', '─', '━', '═'])
            && line.contains(|c| matches!(c, '+' | '|') || is_box(c))
    })
}
