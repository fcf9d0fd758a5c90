//! What might read the samples, from the stricter form to the laxer. One file a kind; each looks at the texts of all
//! successes and names an extractor with its options, or several.

mod documents;
mod lines;
mod patterns;
mod tables;

use serde_json::{Map, Value, json};

use super::{samples::Sorted, trial};

/// A way to read replies.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// What stands under `extract`, without fields.
    pub(super) extract: Value,
    /// What speaks for it.
    pub(super) why: String,
    /// Whether its form can't be met by chance.
    pub(super) is_strict: bool,
    /// Whether it names its parts by their places alone, or has no parts.
    pub(super) is_weak: bool,
    /// Whether it reads anything at all.
    pub(super) is_last_resort: bool,
    /// Whether it gives a block of content rather than a value.
    pub(super) is_block: bool,
    /// Whether it names every word of the text, the constant ones in its pattern.
    pub(super) reads_all: bool,
}

impl Candidate {
    fn strict(extract: Value, why: impl Into<String>) -> Self {
        Self { is_strict: true, ..Self::likely(extract, why) }
    }

    fn likely(extract: Value, why: impl Into<String>) -> Self {
        Self {
            extract,
            why: why.into(),
            is_strict: false,
            is_weak: false,
            is_last_resort: false,
            is_block: false,
            reads_all: false,
        }
    }

    /// Whether it finds texts only, so that numbers among them are for a schema to tell.
    pub(super) fn finds_texts(&self) -> bool {
        !matches!(self.name(), "json" | "ndjson" | "metrics" | "mcp")
    }

    /// What gives the text that is read, where that is not the reply.
    pub(super) fn of(&self) -> Option<&Value> {
        self.extract.get("of")
    }

    /// The name of the extractor.
    pub(super) fn name(&self) -> &str {
        match &self.extract {
            Value::Object(members) => members.keys().next().map_or("text", String::as_str),
            other => other.as_str().unwrap_or("text"),
        }
    }
}

/// Every candidate, in the order that decides ties.
pub(super) fn all(sorted: &Sorted<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Some(texts) = &sorted.texts {
        let media_type = sorted.successes[0].reply.media_type().unwrap_or_default();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        found.extend(documents::candidates(sorted, &texts, &media_type));
        // A document has lines too, and whoever reads it by them reads it wrongly.
        if found.is_empty() {
            found.extend(of_lines(&texts, &media_type));
        } else {
            found.extend(of_shown_lines(sorted, &texts));
        }
    }
    found.push(last_resort(sorted));
    found
}

/// What reads texts that are no documents.
fn of_lines(texts: &[&str], media_type: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    found.extend(lines::metrics(texts));
    found.extend(tables::delimited(texts, media_type));
    found.extend(lines::pairs(texts));
    found.extend(tables::columns(texts));
    found.extend(lines::form(texts, media_type));
    found.extend(patterns::report(texts));
    found.extend(patterns::repeated_lines(texts));
    found
}

/// What reads the lines that pages show in a `<pre>`, where that is all of them but for titles.
fn of_shown_lines(sorted: &Sorted<'_>, sources: &[&str]) -> Vec<Candidate> {
    let is_listing = |source: &&str| {
        let source = source.to_ascii_lowercase();
        source.matches("<pre").count() == 1 && !source.contains("<table") && source.contains("<html")
    };
    if !sources.iter().all(is_listing) {
        return Vec::new();
    }
    let of = json!({ "html": { "text": "pre" } });
    let shown = Candidate::likely(of.clone(), "");
    let Ok(values) = trial::values(&shown, sorted) else { return Vec::new() };
    let Some(texts) = values.iter().map(|value| value.as_str()).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let beside = |candidate: Candidate| {
        let mut extract = match candidate.extract {
            Value::Object(members) => members,
            name => Map::from_iter([(name.as_str().unwrap_or("text").to_owned(), json!({}))]),
        };
        extract.insert("of".to_owned(), of.clone());
        let why = format!("in the `<pre>` of the page, {}", candidate.why);
        Candidate { extract: Value::Object(extract), why, ..candidate }
    };
    of_lines(&texts, "").into_iter().map(beside).collect()
}

fn last_resort(sorted: &Sorted<'_>) -> Candidate {
    let is_binary = sorted.texts.is_none() && !sorted.successes.is_empty();
    let (extract, why) = match is_binary {
        true => (json!("binary"), "the samples are not text"),
        false => (json!("text"), "nothing else reads every sample: the whole text"),
    };
    Candidate { is_last_resort: true, is_block: is_binary, ..Candidate::likely(extract, why) }
}

/// Lines with something in them.
fn full_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty())
}
