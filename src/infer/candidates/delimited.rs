//! CSV and its relatives.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::{Candidate, columns::is_drawn, full_lines};

pub(super) fn candidates(texts: &[&str], media_type: &str) -> Vec<Candidate> {
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

/// Whether every line has a time whose milliseconds stand behind a comma, as Java and Python write them into logs.
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
