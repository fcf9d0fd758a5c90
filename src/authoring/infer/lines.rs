//! Candidate extractors for text in lines: metrics, forms, key-value pairs, and regular expressions for short
//! reports, directory listings and repeated lines.

use std::{collections::HashSet, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::candidates::{Candidate, non_blank_lines};
use super::field_types::date_or_time;
use super::fields::slug;
use crate::authoring::{pluralize, without_empty};
use crate::settings::fixed_regex;
use crate::translate::extract::has_frame;

static FORM_LINE: LazyLock<Regex> =
    LazyLock::new(|| fixed_regex(r"^[A-Za-z0-9._~%+\-\[\]]+=[^\s&]*(&[A-Za-z0-9._~%+\-\[\]]+=[^\s&]*)*$"));

/// Proposes the extractor for the Prometheus text format.
pub(super) fn metrics(texts: &[&str]) -> Option<Candidate> {
    let has_metadata =
        |text: &&str| non_blank_lines(text).any(|line| line.starts_with("# TYPE ") || line.contains('{'));
    texts.iter().all(has_metadata).then(|| {
        Candidate::strict("metrics", Value::Null, "every line is a sample of a metric, or describes one")
    })
}

/// Proposes the extractor for form-encoded text: `a=1&b=2`.
pub(super) fn form(texts: &[&str], media_type: &str) -> Option<Candidate> {
    let is_declared = media_type == "application/x-www-form-urlencoded";
    let has_format = |text: &&str| FORM_LINE.is_match(text.trim()) && (is_declared || text.contains('&'));
    texts
        .iter()
        .all(has_format)
        .then(|| Candidate::strict("form", Value::Null, "every sample is `name=value&…` in one line"))
}

/// Proposes the extractor for lines with several `key=value` pairs (logfmt).
pub(super) fn logfmt(texts: &[&str]) -> Option<Candidate> {
    const PAIR: &str = r#"[\w.-]+=("(\\.|[^"\\])*"|\S*)"#;
    static LINE: LazyLock<Regex> = LazyLock::new(|| fixed_regex(&format!(r"^\s*{PAIR}(\s+{PAIR})+$")));
    let has_format = |text: &&str| {
        let mut lines = non_blank_lines(text).peekable();
        lines.peek().is_some() && lines.all(|line| LINE.is_match(line))
    };
    if !texts.iter().all(has_format) {
        return None;
    }
    let has_lines = texts.iter().any(|text| non_blank_lines(text).count() > 1);
    let options = json!({
        "pattern": r#"(?<key>[\w.-]+)=(?<value>"(?:\\.|[^"\\])*"|\S*)"#,
        "unquote": true,
        "each": has_lines.then_some("block"),
        "block_start": has_lines.then_some("^"),
    });
    Some(Candidate::likely("pairs", options, "every line has several `key=value`"))
}

/// Whether the keys of pairs are data: at least half of them contain dates, amounts or the cells of a row, or
/// most of them are not in every sample.
pub(super) fn has_data_in_keys(pairs: &Candidate) -> bool {
    static DATA: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"\d[-/.](\d\d|[A-Z][a-z]{2})[-/.]\d|[$€£]\s?[-+]?\d|\S\s{3}"));
    let records: Vec<_> = pairs.values.iter().filter_map(Value::as_object).collect();
    let keys: HashSet<&String> = records.iter().flat_map(|record| record.keys()).collect();
    let dated = keys.iter().filter(|key| DATA.is_match(key)).count();
    let missing = keys.iter().filter(|key| !records.iter().all(|record| record.contains_key(**key))).count();
    pairs.name == "pairs" && !keys.is_empty() && (dated * 2 >= keys.len() || missing * 2 > keys.len())
}

/// Proposes extractors for lines of key and value.
pub(super) fn pairs(texts: &[&str]) -> Vec<Candidate> {
    // Shell assignments with comments after the values, as Netdata prints them.
    static ASSIGNMENT: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r#"^(#.*|[\w.-]+="[^"]*"\s*(?<comment>#.*)?)$"#));
    let lines = || texts.iter().flat_map(|text| non_blank_lines(text)).map(|line| ASSIGNMENT.captures(line));
    if lines().all(|line| line.is_some()) && lines().flatten().any(|line| line.name("comment").is_some()) {
        let options = json!({ "pattern": r#"^(?<key>[\w.-]+)="(?<value>[^"]*)""# });
        let reason = "every line is `key=\"value\"`, some with a comment after it";
        return vec![Candidate { reads_all: true, ..Candidate::likely("pairs", options, reason) }];
    }
    let mut found = Vec::new();
    let any = |test: &dyn Fn(&str) -> bool| texts.iter().any(|text| test(text));
    let has_sections = any(&|text| non_blank_lines(text).any(is_section));
    for separator in [":", "=", "\t", " => ", " -> ", " - ", "|", ";"] {
        // In a table drawn with characters, `|` is a border.
        if separator == "|" && any(&has_frame) {
            continue;
        }
        let is_settings = has_sections || separator == "=";
        // `#` and `;` begin a comment in INI files and in `KEY=value` files.
        let mut comments = if is_settings { vec!["#", ";"] } else { Vec::new() };
        comments.retain(|mark| any(&|text| non_blank_lines(text).any(|line| is_comment(line, &[mark]))));
        let has_quotes = is_settings && any(&|text| has_quotes(text, separator));
        let options = without_empty(json!({
            "separator": Some(separator).filter(|separator| *separator != ":"),
            "comment": comments,
            "unquote": has_quotes.then_some(true),
        }));
        let is_nested = !has_sections && any(&|text| has_nesting(text, separator));
        let has_records = !has_sections && any(&|text| has_records(text, separator));
        let has_continuations =
            !has_sections && !is_nested && any(&|text| has_continuations(text, separator));
        let in_records = if has_records { ", in records between blank lines" } else { "" };
        let continued = if has_continuations { "; indented lines continue a value" } else { "" };
        let in_sections = if has_sections { ", in sections" } else { "" };
        let each = has_records.then_some("block");
        // Variants of the format: whether a variant applies, its additional options, and the evidence.
        let variants = [
            (
                has_records || has_continuations,
                json!({ "each": each, "indented": has_continuations.then_some("words") }),
                [in_records, continued].concat(),
            ),
            (
                is_nested,
                json!({ "separator": separator, "indented": "nested" }),
                "; some are indented below others".to_owned(),
            ),
            (true, json!({ "sections": has_sections.then_some(true) }), in_sections.to_owned()),
        ];
        let separator_name = if separator == "\t" { "a tab".to_owned() } else { format!("`{separator}`") };
        for (_, extra_options, evidence) in variants.into_iter().filter(|(fits, ..)| *fits) {
            let shares = texts.iter().map(|text| share_of_pairs(text, separator, &comments, &extra_options));
            let share = shares.fold(1.0, f64::min);
            if share < 0.5 {
                continue;
            }
            let extra_options = extra_options.as_object().cloned().unwrap_or_default();
            let options: Map<String, Value> = options.clone().into_iter().chain(extra_options).collect();
            let percent = (share * 100.0).round().min(99.0);
            let part = if share < 1.0 { format!("at least {percent} % of the") } else { "all".to_owned() };
            let reason = format!("{part} lines are a key, {separator_name} and a value{evidence}");
            let candidate = Candidate::likely("pairs", options.into(), reason);
            found.push(Candidate { is_doubtful: share < 0.8, ..candidate });
        }
    }
    found
}

/// Share of the lines that have a plausible key before the separator, from 0 to 1. `options` are
/// those of the extractor `pairs`.
fn share_of_pairs(text: &str, separator: &str, comments: &[&str], options: &Value) -> f64 {
    // Blank lines separate records that have the same keys.
    let has_records = options["each"] == "block";
    // Indented lines continue the value above, so only the other lines have keys.
    let has_continuations = options["indented"] == "words";
    let (mut total, mut plausible, mut section) = (0_usize, 0_usize, 0_usize);
    let mut keys = HashSet::new();
    for line in text.lines() {
        if is_section(line) || (has_records && line.trim().is_empty()) {
            section += 1;
            continue;
        }
        let is_continuation = has_continuations && line.starts_with([' ', '\t']);
        if line.trim().is_empty() || is_comment(line, comments) || is_continuation {
            continue;
        }
        total += 1;
        if let Some(key) = key(line, separator).filter(|_| !has_more_values(line, separator)) {
            keys.insert((section, key));
            plausible += 1;
        }
    }
    // Repeated keys are the first column of a table. Indented lines below one or two keys are lists.
    let is_other = keys.len() * 2 < plausible || has_continuations && keys.len() < 3;
    if total == 0 || is_other { 0.0 } else { plausible as f64 / total as f64 }
}

/// Returns the key of a line, if it is plausible.
fn key<'t>(line: &'t str, separator: &str) -> Option<&'t str> {
    let (key, value) = line.split_once(separator)?;
    let key = key.trim();
    // `12:30` is a time and `::1` an address, not a key and a value.
    let is_digit = |c: char| c.is_ascii_digit();
    let last_word = key.split_whitespace().next_back().unwrap_or_default();
    let is_time_or_address = separator == ":"
        && (value.starts_with(':') || value.starts_with(is_digit) && last_word.chars().all(is_digit));
    let is_key = !key.is_empty()
        && key.chars().count() <= 60
        && key.split_whitespace().count() <= 6
        && key.contains(|c: char| c.is_alphabetic())
        // Two spaces in a row separate the cells of a table, so the text is no key.
        && !key.contains("  ")
        && !is_time_or_address
        && !CLOCK.is_match(key)
        && !key.split_whitespace().next().is_some_and(is_commit_id)
        && !key.contains(['<', '>', '{', '}', '[', ']', '"', '&', '?', '=', ',', ';', '|']);
    is_key.then_some(key)
}

/// Whether the value of a line is followed by other cells or pairs, as in the output of `stat`.
fn has_more_values(line: &str, separator: &str) -> bool {
    /// A key and a colon that are separated from the previous value by several spaces or a tab.
    static FURTHER_PAIR: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"(\s{2,}|\t)[A-Za-z][\w ]*:\s"));
    let value = line.split_once(separator).map_or("", |(_, value)| value.trim_start());
    match separator {
        "\t" => value.trim_end().contains('\t'),
        ":" => FURTHER_PAIR.is_match(value),
        _ => false,
    }
}

/// Whether a word is a commit hash such as `a7e58f74`; lines of `git log --oneline` begin with one.
fn is_commit_id(word: &str) -> bool {
    word.len() >= 7 && has_digit(word) && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a line is a section header of an INI file.
fn is_section(line: &str) -> bool {
    static SECTION: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^\s*\[[^\[\]]+\]\s*([#;].*)?$"));
    // The prefix is checked first, because the pattern is slow on a long line.
    line.trim_start().starts_with('[') && SECTION.is_match(line)
}

fn is_comment(line: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| line.trim_start().starts_with(mark))
}

/// Whether any value in the text is in double quotes.
fn has_quotes(text: &str, separator: &str) -> bool {
    non_blank_lines(text).filter_map(|line| line.split_once(separator)).any(|(_, value)| {
        let value = value.trim();
        value.len() > 1 && value.starts_with('"') && value.ends_with('"')
    })
}

/// Whether blank lines separate several records that begin with the same key.
fn has_records(text: &str, separator: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let records = lines.split(|line| line.trim().is_empty()).filter(|record| !record.is_empty());
    let mut first_keys = records.map(|record| key(record[0], separator));
    let Some(Some(first)) = first_keys.next() else { return false };
    let mut others = first_keys.peekable();
    others.peek().is_some() && others.all(|key| key == Some(first))
}

/// Whether indented lines without a separator follow lines of key and value.
fn has_continuations(text: &str, separator: &str) -> bool {
    let is_indented = |line: &str| line.starts_with([' ', '\t']);
    let lines: Vec<&str> = non_blank_lines(text).collect();
    let mut pairs = lines.windows(2).filter(|two| !is_indented(two[0]) && is_indented(two[1]));
    pairs.any(|two| key(two[0], separator).is_some() && !two[1].contains(separator))
}

/// A time such as `09:30`, which log lines begin with.
static CLOCK: LazyLock<Regex> = LazyLock::new(|| fixed_regex("[0-9]{2}:[0-9]{2}"));

/// Whether a line with a key but no value has indented lines below it.
fn has_nesting(text: &str, separator: &str) -> bool {
    let lines: Vec<&str> = non_blank_lines(text).collect();
    lines.windows(2).any(|two| {
        let indent = |line: &str| line.len() - line.trim_start().len();
        indent(two[1]) > indent(two[0])
            && two[0].split_once(separator).is_some_and(|(_, value)| value.trim().is_empty())
            && two[1].contains(separator)
    })
}

/// Words that cannot name a value.
const STOP_WORDS: [&str; 16] =
    ["is", "are", "was", "were", "with", "and", "of", "at", "in", "on", "to", "the", "for", "by", "a", "="];
/// Characters around a number, as in `50%`, `[10` or `5,`.
const MARKS: [char; 14] = ['%', '[', ']', '(', ')', ',', ';', ':', '"', '\'', '°', '$', '€', '!'];

/// Whether a word can be the label of the value next to it.
fn may_be_label(word: &str) -> bool {
    word.contains(char::is_alphanumeric) && !STOP_WORDS.contains(&word.to_lowercase().as_str())
}

/// Whether a name is valid for a capture group: ASCII letters, digits and `_`, beginning with a letter.
fn is_capture_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Capture group for the words at one position. If all are numbers with the same marks around them, it
/// captures the number without the marks, else any text without white space.
fn capture(name: &str, words: &[&str]) -> String {
    let marks = marks_of(words[0]);
    match words.iter().all(|word| is_number(word) && marks_of(word) == marks) {
        true => format!("{}(?<{name}>[-+]?[0-9.]+){}", regex::escape(marks.0), regex::escape(marks.1)),
        false => format!(r"(?<{name}>\S+)"),
    }
}

/// Whether a word is a number, ignoring marks around it.
fn is_number(word: &str) -> bool {
    word.trim_matches(MARKS).parse::<f64>().is_ok_and(f64::is_finite) && has_digit(word)
}

fn marks_of(word: &str) -> (&str, &str) {
    let start = word.len() - word.trim_start_matches(MARKS).len();
    let end = word.trim_end_matches(MARKS).len().max(start);
    (&word[..start], &word[end..])
}

/// Maximum number of lines of a report.
const MAX_LINES: usize = 12;
/// Maximum number of words of a report; a longer pattern would be hard to read.
const MAX_REPORT_WORDS: usize = 60;

/// Lines of a text, each split into words.
type SplitLines<'t> = Vec<Vec<&'t str>>;

/// Proposes a pattern for a short report of constant words and numbers, such as the output of `vmstat` or
/// nginx's `stub_status`. The numbers are beside the words that name them, or in the line below these words.
pub(super) fn report(texts: &[&str]) -> Option<Candidate> {
    let samples: Vec<SplitLines<'_>> = texts
        .iter()
        .map(|text| {
            non_blank_lines(text).take(MAX_LINES + 1).map(|line| line.split_whitespace().collect()).collect()
        })
        .collect();
    let first = samples.first()?;
    let widths = |lines: &SplitLines<'_>| lines.iter().map(Vec::len).collect::<Vec<_>>();
    let fits =
        (2..=MAX_LINES).contains(&first.len()) && widths(first).iter().sum::<usize>() <= MAX_REPORT_WORDS;
    if !fits || samples.iter().any(|lines| widths(lines) != widths(first)) {
        return None;
    }
    let aligned = AlignedSamples { samples: &samples };
    // If no line of values is below a line of names, the extractor `pairs` fits better.
    (1..first.len()).find(|line| aligned.is_below_names(*line))?;
    let (pattern, numbers) = aligned.pattern(|line, index, names| {
        // Only numbers are captured. If another word varies or has digits, the text is not a report, and no
        // pattern is proposed.
        let is_number = aligned.words(line, index).into_iter().all(is_number);
        let name = aligned.name(line, index).filter(|_| is_number);
        name.filter(|name| is_capture_name(name) && !names.contains(name))
    })?;
    let lines = first.len();
    let reason =
        format!("{numbers} numbers in {lines} lines of constant words, some in a line below their names");
    Some(Candidate { reads_all: true, ..Candidate::likely("regex", json!({ "pattern": pattern }), reason) })
}

/// Samples that have the same number of lines, and the same number of words in each line.
struct AlignedSamples<'s, 't> {
    samples: &'s [SplitLines<'t>],
}

impl<'t> AlignedSamples<'_, 't> {
    /// Returns the words of all samples at one position.
    fn words(&self, line: usize, index: usize) -> Vec<&'t str> {
        self.samples.iter().map(|lines| lines[line][index]).collect()
    }

    /// Whether a word is the same in all samples, has no digits, and is not the only word.
    fn is_constant(&self, line: usize, index: usize) -> bool {
        let first = &self.samples[0];
        let word = first[line][index];
        self.words(line, index).into_iter().all(|other| other == word)
            && !has_digit(word)
            && (first.len() > 1 || first[0].len() > 1)
    }

    fn width(&self, line: usize) -> usize {
        self.samples[0][line].len()
    }

    /// Whether a line consists of numbers, and the line above has a word for each of them.
    fn is_below_names(&self, line: usize) -> bool {
        line > 0
            && (0..self.width(line)).all(|index| self.words(line, index).into_iter().all(is_number))
            && self.width(line - 1) >= self.width(line)
            && (0..self.width(line - 1)).all(|index| self.is_constant(line - 1, index))
    }

    /// Name of a number: the word in the line above, counted from the end of the line; otherwise the words
    /// before the number, or else the word after it.
    fn name(&self, line: usize, index: usize) -> Option<String> {
        let first = &self.samples[0];
        if self.is_below_names(line) {
            let name_index = self.width(line - 1) - self.width(line) + index;
            return Some(slug(first[line - 1][name_index]));
        }
        let from = (0..index).rev().take_while(|other| self.is_constant(line, *other)).last();
        let before = &first[line][from.unwrap_or(index)..index];
        let mut label: Vec<&str> = before.iter().copied().filter(|word| may_be_label(word)).collect();
        if label.is_empty() {
            let next_word = first[line].get(index + 1);
            label.extend(next_word.filter(|word| self.is_constant(line, index + 1) && may_be_label(word)));
        }
        (!label.is_empty()).then(|| slug(&label.join(" ")))
    }

    /// Builds a pattern that matches the samples; returns it with the number of its captures. Constant words
    /// are literal. Other words are captured; `name` returns the capture's name for a line, an index and the
    /// names used so far.
    fn pattern(&self, name: impl Fn(usize, usize, &[String]) -> Option<String>) -> Option<(String, usize)> {
        let (mut names, mut parts) = (Vec::new(), Vec::new());
        for (line, words) in self.samples[0].iter().enumerate() {
            for (index, word) in words.iter().enumerate() {
                if self.is_constant(line, index) {
                    parts.push(regex::escape(word));
                } else {
                    let name = name(line, index, &names)?;
                    parts.push(capture(&name, &self.words(line, index)));
                    names.push(name);
                }
            }
        }
        Some((format!(r"^\s*{}\s*$", parts.join(r"\s+")), names.len()))
    }
}

fn has_digit(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

/// Proposes a pattern for the directory listing of a web server (autoindex of nginx): lines with a name, a
/// time and a size. The link to the parent directory is ignored.
pub(super) fn directory_listing(texts: &[&str]) -> Option<Candidate> {
    const ROW: &str = r"^(?<name>\S.*?) +(?<modified>[\w-]{10,11} \d\d:\d\d) +(?<size>\S+)$";
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| fixed_regex(ROW));
    let is_listing = |text: &&str| {
        let mut rows = non_blank_lines(text).filter(|line| *line != "../").peekable();
        rows.peek().is_some() && rows.all(|row| PATTERN.is_match(row))
    };
    let options = json!({ "pattern": ROW, "each": "line" });
    texts.iter().all(is_listing).then(|| {
        Candidate::likely("regex", options, "every line has a name, which may be cut off, a time and a size")
    })
}

/// Maximum number of words of a line; a longer pattern would be hard to read.
const MAX_LINE_WORDS: usize = 20;

/// Proposes a pattern for lines with the same number of words. Constant words name the values; other values
/// are named by their position (`value2`). Samples that are a single timestamp have a pattern of their own.
pub(super) fn repeated_lines(texts: &[&str]) -> Option<Candidate> {
    let all_lines = texts.iter().flat_map(|text| non_blank_lines(text)).take(10_000);
    let samples: Vec<SplitLines<'_>> =
        all_lines.map(|line| vec![line.split_whitespace().collect()]).collect();
    let first = &samples.first()?[0];
    let width = first.len();
    if width > MAX_LINE_WORDS || samples.iter().any(|sample| sample[0].len() != width) {
        return None;
    }
    let is_single = texts.iter().all(|text| non_blank_lines(text).count() == 1);
    let times: Vec<&str> = texts.iter().map(|text| text.trim()).collect();
    if is_single && date_or_time(&times).is_some() {
        let options = json!({ "pattern": r"^\s*(?<time>.*\S)" });
        return Some(Candidate::likely("regex", options, "every sample is a date or a timestamp"));
    }
    let aligned = AlignedSamples { samples: &samples };
    // A value is named by the word before it, else by the word after it, else by an earlier word.
    let names_a_value = |index: &usize| aligned.is_constant(0, *index) && may_be_label(first[*index]);
    let label = |index: usize| {
        let mut before = (0..index).rev().take_while(|other| aligned.is_constant(0, *other));
        let previous = index.checked_sub(1).filter(names_a_value);
        // The word after a value is its name in `1 user`, but not in `12:30:45 up`.
        let is_count = aligned.words(0, index).into_iter().all(is_number);
        let after = Some(index + 1).filter(|other| is_count && *other < width && names_a_value(other));
        previous.or(after).or_else(|| before.find(names_a_value)).map(|other| slug(first[other]))
    };
    let (pattern, values) = aligned.pattern(|_, index, names| {
        let label = label(index).filter(|name| !names.contains(name) && is_capture_name(name));
        Some(match label {
            Some(name) => name,
            None if width == 1 => "value".to_owned(),
            None => format!("value{}", index + 1),
        })
    })?;
    if values == 0 || is_single && samples.len() == 1 && !first.iter().any(|word| has_digit(word)) {
        return None;
    }
    let reason = match is_single {
        true => format!("every sample is one line of {}", pluralize(width, "word")),
        false => format!("all {} lines have {width} words", samples.len()),
    };
    let options = json!({ "pattern": pattern, "each": (!is_single).then_some("line") });
    Some(Candidate { is_weak: true, ..Candidate::likely("regex", options, reason) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expected: Option<&str>) {
        let found = report(texts).map(|candidate| candidate.options["pattern"].clone());
        assert_eq!(found.as_ref().and_then(|pattern| pattern.as_str()), expected);
    }

    #[test]
    fn numbers_below_words_are_named_by_them() {
        check(
            &["server accepts handled requests\n 16 16 31 \nReading: 0 Writing: 1 \n"],
            Some(
                r"^\s*server\s+accepts\s+handled\s+requests\s+(?<accepts>[-+]?[0-9.]+)\s+(?<handled>[-+]?[0-9.]+)\s+(?<requests>[-+]?[0-9.]+)\s+Reading:\s+(?<reading>[-+]?[0-9.]+)\s+Writing:\s+(?<writing>[-+]?[0-9.]+)\s*$",
            ),
        );
    }

    #[test]
    fn other_texts_are_for_others() {
        for texts in [
            &["a: 1\nb: 2\n"][..],
            &["name count\nx 5\n"],
            &["a b\n1 2\n", "a c\n1 2\n"],
            &["a b\n1 2\n", "a b\n1 2\n3 4\n"],
            &["1 2\n3 4\n"],
            &["a\n"],
            &[""],
            &[],
        ] {
            check(texts, None);
        }
    }
}
