//! Candidate extractors for tables in text: values separated by delimiters (CSV), and aligned columns.

use std::{collections::HashSet, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::candidates::{Candidate, non_blank_lines, without_empty_tables};
use crate::settings::fixed_regex;
use crate::translate::extract::has_frame;

/// Proposes extractors for values separated by delimiters.
pub(super) fn delimited(texts: &[&str], media_type: &str) -> Vec<Candidate> {
    let is_declared = matches!(media_type, "text/csv" | "text/tab-separated-values" | "application/csv");
    let all = |test: fn(&str) -> bool| texts.iter().all(|text| test(text));
    let mut found = Vec::new();
    for (delimiter, word) in
        [('\t', "tabs"), (';', "semicolons"), ('|', "pipes"), (',', "commas"), (':', "colons")]
    {
        let records: Option<Vec<_>> = texts.iter().map(|text| records(text, delimiter)).collect();
        let Some(records) = records else { continue };
        let Some(width) = width(&records) else { continue };
        let is_other = match delimiter {
            // In a table drawn with characters, for example in Markdown, `|` is a border and not a delimiter.
            '|' => all(has_frame),
            ',' => all(is_log),
            ':' => width < 4 || !all(is_of_colons),
            _ => false,
        };
        if is_other {
            continue;
        }
        let has_header = records.iter().all(|records| first_is_header(records));
        let columns = (1..=width).filter(|_| !has_header).map(|number| format!("column{number}"));
        let options = json!({
            "delimiter": match delimiter {
                ',' => Value::Null,
                '\t' => "tab".into(),
                other => other.to_string().into(),
            },
            "columns": columns.collect::<Vec<_>>(),
            // HAProxy writes `# ` before the header.
            "header": (has_header && all(|text| text.starts_with("# "))).then_some("# "),
        });
        let reason = format!("every line has {width} values between {word}");
        found.push(Candidate { is_strict: is_declared, ..Candidate::likely("csv", options, reason) });
    }
    found
}

/// Whether every line contains a time with milliseconds after a comma, as in logs of Java and Python.
fn is_log(text: &str) -> bool {
    static TIME: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"\d\d:\d\d:\d\d,\d{3}\b"));
    non_blank_lines(text).all(|line| TIME.is_match(line))
}

/// Whether every line begins with a name and a colon, and no colon is followed by a space, as in
/// `/etc/passwd`. In other texts, colons mostly belong to keys, times and addresses.
fn is_of_colons(text: &str) -> bool {
    let is_row = |line: &str| {
        let name = line.split(':').next().unwrap_or_default();
        name.starts_with(|c: char| c.is_alphabetic() || c == '_') && !name.contains(char::is_whitespace)
    };
    !text.contains(": ") && non_blank_lines(text).all(is_row)
}

/// Parses the records of a text, except blank ones; `None` if the text cannot be parsed.
fn records(text: &str, delimiter: char) -> Option<Vec<csv::StringRecord>> {
    let mut csv = csv::ReaderBuilder::new();
    csv.delimiter(u8::try_from(delimiter).ok()?).has_headers(false).flexible(true).trim(csv::Trim::All);
    let mut reader = csv.from_reader(text.as_bytes());
    let records: Vec<_> = reader.records().take(1000).collect::<Result<_, _>>().ok()?;
    let is_blank = |record: &csv::StringRecord| record.len() == 1 && record[0].is_empty();
    Some(records.into_iter().filter(|record| !is_blank(record)).collect())
}

/// Number of values in each record. `None` if it varies or is one, or if each text has only one record, which
/// may be a header.
fn width(texts: &[Vec<csv::StringRecord>]) -> Option<usize> {
    let mut records = texts.iter().flatten().map(csv::StringRecord::len);
    let first = records.next().filter(|width| *width > 1)?;
    let has_rows = texts.iter().map(Vec::len).sum::<usize>() > texts.len();
    (has_rows && records.all(|width| width == first)).then_some(first)
}

/// Whether the first record has the names of the columns. Names must not be empty, repeated, a number or a
/// date. Two exceptions apply above columns of numbers: a name may be `50%`, and several names may be years.
/// The record may end with a delimiter.
fn first_is_header(records: &[csv::StringRecord]) -> bool {
    let Some((header, rows)) = records.split_first() else { return false };
    let mut names: Vec<&str> = header.iter().map(|name| name.trim_start_matches(['#', ' '])).collect();
    names.truncate(names.len() - usize::from(names.last() == Some(&"")));
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let has_digit = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    let is_word = |name: &str| !is_number(name) && !name.starts_with(|c: char| c.is_ascii_digit());
    let is_year = |text: &str| text.len() == 4 && (text.starts_with("19") || text.starts_with("20"));
    let may_be_years = names.iter().filter(|name| is_number(name)).count() > 1;
    let is_name = |(index, name): (usize, &&str)| {
        let mut cells_below = rows.iter().filter_map(|row| row.get(index));
        let is_label = !is_number(name) || may_be_years && is_year(name) && !cells_below.clone().all(is_year);
        is_word(name) || is_label && cells_below.all(|cell| is_number(cell) || !has_digit(cell))
    };
    !names.contains(&"")
        && are_distinct(&names)
        && names.iter().any(|name| is_word(name))
        && names.iter().enumerate().all(is_name)
}

/// Proposes the extractor for aligned columns.
pub(super) fn columns(texts: &[&str]) -> Option<Candidate> {
    let is_table = |text: &&str| {
        let lines: Vec<&str> = non_blank_lines(text).collect();
        let Some((header, rows)) = lines.split_first() else { return false };
        let names: Vec<&str> = header.split_whitespace().collect();
        // Names that are separated by several spaces may consist of several words.
        let spaced_names: Vec<&str> =
            header.split("  ").map(str::trim).filter(|name| !name.is_empty()).collect();
        let is_header = names.len() > 1
            && names.iter().all(|name| is_column_name(name))
            && (are_distinct(&names) || spaced_names.len() > 2 && are_distinct(&spaced_names))
            && !header.contains(['=', ',', ';'])
            // A column name may contain a colon, such as `Address:Port`.
            && !(header.contains(": ") || header.contains(':') && !header.trim().contains("  "))
            // In the output of `vmstat`, this line has the column groups, and the header follows.
            && !header.contains("--");
        // The rows are lines of `key: value` below a title.
        let are_pairs = !header.trim().contains("  ")
            && rows
                .iter()
                .filter(|row| row.contains(char::is_alphanumeric))
                .all(|row| row.split_whitespace().next().is_some_and(|word| word.ends_with(':')));
        // Values may be missing or contain spaces, but 80 % of the rows have at least 3/4 as many words as
        // the header has names.
        let min_words =
            if spaced_names.len() > 2 { spaced_names.len().min(names.len()) } else { names.len() };
        let long_rows =
            rows.iter().filter(|row| row.split_whitespace().count() + min_words / 4 >= min_words).count();
        // If most rows have at least twice as many words as this line, it is a title above the header.
        let wide_rows = rows.iter().filter(|row| row.split_whitespace().count() >= names.len() * 2).count();
        let is_title = wide_rows * 2 > rows.len();
        is_header && !are_pairs && !is_title && !rows.is_empty() && long_rows * 10 >= rows.len() * 8
    };
    // A title is a line whose words are separated by single spaces.
    let is_below_title = |text: &&str| {
        text.split_once('\n').is_some_and(|(title, rest)| !title.trim().contains("  ") && is_table(&rest))
    };
    // The names in the header below a title are separated by several spaces. The title ends with `)`, or most
    // rows have a different number of words than the title.
    let has_title = |text: &&str| {
        let lines: Vec<&str> = non_blank_lines(text).collect();
        let [title, header, rows @ ..] = lines.as_slice() else { return false };
        let words = |line: &str| line.split_whitespace().count();
        is_below_title(text)
            && header.trim().contains("  ")
            && (title.trim().ends_with(')')
                || rows.iter().filter(|row| words(row) == words(title)).count() * 2 < rows.len())
    };
    let (options, reason) = if texts.iter().all(|text| has_frame(text)) {
        (json!({}), "the values are between vertical bars, below a line of dashes")
    } else if texts.iter().all(is_table) && !texts.iter().all(has_title) {
        (json!({}), "the first line has the column names, and the values are below them")
    } else if texts.iter().all(|text| has_row_labels(text)) {
        (
            json!({ "first_column": "name" }),
            "the first line has the column names, except for the first column",
        )
    } else if texts.iter().all(is_below_title) {
        (json!({ "skip": 1 }), "the line below a title has the column names, and the values are below them")
    } else {
        return None;
    };
    Some(Candidate::likely("columns", options, reason))
}

fn are_distinct(names: &[&str]) -> bool {
    names.iter().collect::<HashSet<_>>().len() == names.len()
}

/// Whether a word can be the name of a column. A number, an address or a path is data.
fn is_column_name(word: &str) -> bool {
    let is_number = word.contains(|c: char| c.is_ascii_digit()) && !word.contains(char::is_alphabetic);
    !is_number && !word.starts_with('/') && word.parse::<f64>().is_err()
}

/// Joins the names of two adjacent columns if a single space separates them in the header and all cells of
/// the first column are empty: `Peer` and `Address:Port` of `ss`. A field may then have the joined name.
pub(super) fn join_names(values: &mut [Value], texts: &[String]) {
    let rows = || values.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_object);
    let names: Vec<String> = rows().next().into_iter().flat_map(Map::keys).cloned().collect();
    let mut joined = Vec::new();
    for pair in names.windows(2) {
        let joined_name = pair.join(" ");
        if rows().all(|row| row.get(&pair[0]).is_some_and(|cell| cell == ""))
            && texts.iter().any(|text| text.contains(&joined_name))
        {
            joined.push((pair[0].clone(), pair[1].clone(), joined_name));
        }
    }
    let all_rows = values.iter_mut().filter_map(Value::as_array_mut).flatten();
    for row in all_rows.filter_map(Value::as_object_mut) {
        for (empty, name, joined_name) in &joined {
            let cells = std::mem::take(row).into_iter().filter(|(other, _)| other != empty);
            *row = cells
                .map(|(other, cell)| if other == *name { (joined_name.clone(), cell) } else { (other, cell) })
                .collect();
        }
    }
}

/// Proposes aligned columns above a last line such as `Total: 4 devices` or `4 rows`.
pub(super) fn above_footer<'t>(texts: &[&'t str]) -> Option<Candidate> {
    // In a table drawn with characters, the borders already show which lines are rows.
    if texts.iter().any(|text| has_frame(text)) {
        return None;
    }
    let first = footer(texts.first()?)?;
    let pattern = Regex::new(&first).ok()?;
    let table_above = |text: &&'t str| {
        let text = text.trim_end();
        let (table, last) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
        let is_single = !non_blank_lines(table).any(|line| pattern.is_match(line));
        (pattern.is_match(last) && is_single).then_some(table)
    };
    let tables: Vec<&str> = texts.iter().map(table_above).collect::<Option<_>>()?;
    let table = columns(&without_empty_tables(&tables))?;
    let reason = format!("{}; the last line is not a row", table.reason);
    Some(Candidate { reason, ..table.with_option("stop_before", first) })
}

/// Returns a pattern for the last line of a text if the line may be the footer of a table. A footer begins
/// with a word and a colon, with a word such as `Total`, or with a number and a word.
fn footer(text: &str) -> Option<String> {
    let lines: Vec<&str> = non_blank_lines(text).collect();
    let [header, rows @ .., last] = lines.as_slice() else { return None };
    let words: Vec<&str> = last.split_whitespace().collect();
    let first = words.first()?;
    let columns = header.split_whitespace().count();
    let is_total = ["total", "totals", "sum"].iter().any(|word| word.eq_ignore_ascii_case(first));
    let begins_with_key = |line: &str| line.split_whitespace().next().is_some_and(|word| word.ends_with(':'));
    // In the output of `free`, every row begins with a word and a colon, so the last row is not a footer.
    let is_key = begins_with_key(last) && !rows.iter().any(|row| begins_with_key(row));
    if words.len() <= columns && is_key || words.len() < columns && is_total {
        return Some(format!(r"^\s*{}", regex::escape(first)));
    }
    let second = words.get(1)?.trim_end_matches([')', '.', ',']);
    let first = first.trim_start_matches('(');
    let is_count = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = !second.is_empty() && second.chars().all(char::is_alphabetic);
    (is_count && is_word && words.len() < columns).then(|| format!(r"^\s*\(?[0-9]+ {second}"))
}

/// Whether every row begins with a label above which the header has no name, as in the output of `free`.
fn has_row_labels(text: &str) -> bool {
    let mut lines = non_blank_lines(text);
    let Some(header) = lines.next() else { return false };
    let margin = header.len() - header.trim_start().len();
    let names = header.split_whitespace().count();
    let begins_with_label = |row: &str| {
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
        && rows.all(begins_with_label)
}
