//! Tables whose columns stand one below the other.

use serde_json::json;

use super::{Candidate, full_lines};

pub(super) fn candidates(texts: &[&str]) -> Vec<Candidate> {
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
        // Values may be left out or have blanks in them; most lines still have about as many words as there are names.
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

/// Whether a line of a text is drawn across a table with bars: `+----+----+`, `----+----`, `| --- | --- |`, `├────┼────┤`.
pub(super) fn is_drawn(text: &str) -> bool {
    let is_box = |c: char| ('\u{2500}'..='\u{257f}').contains(&c);
    let is_drawing = |c: char| matches!(c, '-' | '=' | ':' | '+' | '|' | ' ') || is_box(c);
    full_lines(text).any(|line| {
        line.chars().all(is_drawing)
            && line.contains(['-', '=', '─', '━', '═'])
            && line.contains(|c| matches!(c, '+' | '|') || is_box(c))
    })
}
