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
        header_is_good && !are_pairs && !rows.is_empty() && about * 10 >= rows.len() * 8
    };
    if texts.iter().all(|text| is_drawn(text)) {
        vec![Candidate::likely(json!("columns"), "the values stand between bars, below a line that is drawn")]
    } else if texts.iter().all(is_table) {
        vec![Candidate::likely(
            json!("columns"),
            "the first line names columns, and the values stand below the names",
        )]
    } else {
        Vec::new()
    }
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
