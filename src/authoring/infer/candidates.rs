//! Candidate extractors for samples, from the strictest format to the most permissive. Each function examines
//! the texts of all successes and proposes extractors with their options. This file handles JSON,
//! `html_and_xml` HTML and XML, `tables` values in columns, and `lines` all other texts.

use serde_json::{Map, Value, json};

use super::samples::ClassifiedSamples;
use super::{extracted_values, html_and_xml, lines, tables};
use crate::authoring::without_empty;

/// Extractor that may fit the responses.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidate {
    /// Name of the extractor.
    pub(super) name: &'static str,
    /// Options of the extractor, except its fields.
    pub(super) options: Map<String, Value>,
    /// The `source` option: where the parsed text is, if it is not the response body.
    pub(super) source: Option<Value>,
    /// Evidence for the extractor.
    pub(super) reason: String,
    /// Whether the format can't match by coincidence: it is strict, as JSON and XML are, or the media type
    /// names it.
    pub(super) is_strict: bool,
    /// Whether the result is of little use: its values are named only by position, or it is a single text.
    pub(super) is_weak: bool,
    /// Whether much of the text does not match the format of the extractor.
    pub(super) is_doubtful: bool,
    /// Whether the pattern matches every word of the text, including constant words.
    pub(super) reads_all: bool,
    /// Extracted values, one per success; set when the extractor has been tried.
    pub(super) values: Vec<Value>,
    /// Share of the text that the values contain, from 0 to 1.
    pub(super) extracted_share: f64,
}

impl Candidate {
    pub(super) fn strict(name: &'static str, options: Value, reason: impl Into<String>) -> Self {
        Self { is_strict: true, ..Self::likely(name, options, reason) }
    }

    /// Creates a candidate. `options` is a JSON object; empty members are removed.
    pub(super) fn likely(name: &'static str, options: Value, reason: impl Into<String>) -> Self {
        Self { name, options: without_empty(options), reason: reason.into(), ..Self::default() }
    }

    /// Whether the extractor accepts every text, or any bytes.
    pub(super) fn is_last_resort(&self) -> bool {
        matches!(self.name, "text" | "binary")
    }

    /// Whether the extractor parses a table in text.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.name, "csv" | "columns")
    }

    pub(super) fn with_option(mut self, option: &str, value: impl Into<Value>) -> Self {
        self.options.insert(option.to_owned(), value.into());
        self
    }

    /// Returns the value of `extract` in the configuration, without fields.
    pub(super) fn extract(&self) -> Value {
        match &self.source {
            Some(source) => json!({ self.name: self.options, "source": source }),
            None if self.options.is_empty() => self.name.into(),
            None => json!({ self.name: self.options }),
        }
    }
}

/// Returns all candidates; among equally good ones, the first is chosen.
pub(super) fn all(classified: &ClassifiedSamples<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Some(texts) = &classified.texts {
        let media_type = classified.successes[0].response.media_type().unwrap_or_default();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        found.extend(documents(classified, &texts, &media_type));
        // A document also has lines, but an extractor for lines would misinterpret them.
        if found.is_empty() {
            found.extend(line_candidates(&texts, &media_type));
        } else {
            found.extend(html_text_candidates(classified, &texts).unwrap_or_default());
        }
    }
    let (name, reason) = match classified.texts.is_none() && !classified.successes.is_empty() {
        true => ("binary", "the samples are not text"),
        false => ("text", "no extractor parses every sample: the whole text"),
    };
    found.push(Candidate::likely(name, Value::Null, reason));
    found
}

/// Proposes extractors for texts that are not JSON, JSON Lines, XML or HTML.
fn line_candidates(all: &[&str], media_type: &str) -> Vec<Candidate> {
    let filled: Vec<&str> = all.iter().copied().filter(|text| !text.trim().is_empty()).collect();
    let texts = if filled.is_empty() { all } else { &filled };
    let filled_tables = without_empty_tables(texts);
    let mut found = Vec::new();
    found.extend(lines::metrics(texts));
    found.extend(tables::delimited(&filled_tables, media_type));
    found.extend(lines::logfmt(texts));
    found.extend(lines::pairs(texts));
    found.extend(tables::columns(&filled_tables));
    found.extend(tables::above_footer(&filled_tables));
    found.extend(lines::form(texts, media_type));
    found.extend(lines::report(texts));
    found.extend(lines::repeated_lines(texts));
    if filled_tables.len() < all.len() {
        // By default, an empty table is an error if it has no header, or one that looks like a message.
        let lists = found.iter().filter(|list| list.is_table() || list.options.contains_key("each")).cloned();
        let may_be_empty: Vec<_> = lists.map(|list| list.with_option("allow_empty", true)).collect();
        found.extend(may_be_empty);
    }
    found
}

/// Removes tables without rows: texts whose lines are the beginning of another text.
pub(super) fn without_empty_tables<'t>(texts: &[&'t str]) -> Vec<&'t str> {
    /// Maximum number of lines of a title and a header together.
    const MAX_LINES: usize = 3;
    let words = |line: &'t str| line.split_whitespace().collect::<Vec<_>>();
    let first_lines: Vec<Vec<_>> =
        texts.iter().map(|text| non_blank_lines(text).take(MAX_LINES + 1).map(words).collect()).collect();
    let is_empty = |lines: &Vec<_>| {
        first_lines.iter().any(|other| other.len() > lines.len() && other.starts_with(lines))
    };
    texts.iter().zip(&first_lines).filter(|(_, lines)| !is_empty(lines)).map(|(text, _)| *text).collect()
}

/// Proposes extractors for HTML pages that have no table: their data is the text of a single `<pre>`, or
/// pairs separated by `<br>`.
fn html_text_candidates(classified: &ClassifiedSamples<'_>, sources: &[&str]) -> Option<Vec<Candidate>> {
    let uses_pre = |source: &&str| {
        let source = source.to_ascii_lowercase();
        let is_data = source.contains("<html") && !source.contains("<table");
        let listings = source.matches("<pre").count();
        (is_data && (listings == 1 || listings == 0 && source.contains("<br"))).then_some(listings == 1)
    };
    let is_pre = sources.first().and_then(uses_pre)?;
    let html_candidate = Candidate::likely("html", json!({ "text": is_pre.then_some("pre") }), "");
    let values = extracted_values(&html_candidate, classified).ok()?;
    let texts = values.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
    let with_source = |candidate: Candidate| {
        let location = if is_pre { "`<pre>`" } else { "text" };
        let reason = format!("in the {location} of the page, {}", candidate.reason);
        Candidate { source: Some(html_candidate.extract()), reason, ..candidate }
    };
    let found = lines::directory_listing(&texts).into_iter().chain(line_candidates(&texts, ""));
    let found = found.filter(|candidate| is_pre || candidate.name == "pairs").map(with_source).collect();
    sources.iter().all(|source| uses_pre(source) == Some(is_pre)).then_some(found)
}

/// Iterates over the lines that are not blank.
pub(super) fn non_blank_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty())
}

/// Proposes extractors for JSON, JSON Lines, XML and HTML.
fn documents(classified: &ClassifiedSamples<'_>, texts: &[&str], media_type: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    if texts.iter().all(|text| serde_json::from_str::<Value>(text).is_ok()) {
        let are_documents = texts.iter().all(|text| text.trim_start().starts_with(['{', '[']));
        // A bare number is valid JSON, but more likely plain text.
        if are_documents || media_type.ends_with("json") {
            found.push(Candidate::strict("json", Value::Null, "every sample is a JSON document"));
        }
    }
    let is_line = |line: &str| line.starts_with(['{', '[']) && serde_json::from_str::<Value>(line).is_ok();
    if texts.iter().all(|text| non_blank_lines(text).all(is_line))
        && texts.iter().any(|text| non_blank_lines(text).count() > 1)
    {
        let options =
            json!({ "allow_empty": texts.iter().any(|text| text.trim().is_empty()).then_some(true) });
        found.push(Candidate::strict("ndjson", options, "every line is a JSON document"));
    }
    let is_html = texts.iter().all(|text| html_and_xml::is_html(text, media_type));
    if is_html {
        found.extend(html_and_xml::html(classified, texts));
    } else if texts.iter().all(|text| text.trim_start_matches('\u{feff}').trim_start().starts_with('<')) {
        found.push(html_and_xml::xml(texts));
    }
    found
}
