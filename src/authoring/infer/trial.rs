//! Trial of candidates: runs each on all samples with the real translator, and ranks them by the share of
//! text extracted.

use super::Sample;
use super::candidates::Candidate;
use super::samples::ClassifiedSamples;
use crate::authoring::playground::result_json;
use crate::config::{self, Loaded, Sources, yaml};
use crate::model::{ToolResult, UpstreamResponse};
use crate::route::Route;
use crate::settings::fixed_regex;
use crate::translate::{CallInput, Trace, translate};
use regex::Regex;
use serde_json::{Map, Value, json};
use std::{cmp::Reverse, collections::HashSet, sync::LazyLock};

/// Largest `response_limit` that a route may have, so that no sample is too long for the trial.
const MAX_RESPONSE_LIMIT: &str = "1GiB";

/// The value that a candidate extracts from each success.
///
/// # Errors
///
/// The error of the first sample that it can't parse; empty if the extractor is not valid.
pub(super) fn values(
    candidate: &Candidate,
    classified: &ClassifiedSamples<'_>,
) -> Result<Vec<Value>, String> {
    // It returns a content block rather than a value.
    if candidate.name == "binary" {
        return Ok(Vec::new());
    }
    run(candidate.extract(), classified.charset(), classified.successes.iter().map(|sample| &sample.response))
}

/// The text of a sample, decompressed and decoded, with the given charset or its own; `None` if it is binary.
pub(super) fn text(sample: &Sample, charset: Option<&str>) -> Option<String> {
    let values = run("text".into(), charset, std::iter::once(&sample.response)).ok()?;
    let text = values.first()?.as_str()?;
    // DEL and the control characters from U+0080 on occur in texts of old programs. Images and archives have
    // lower control characters near the beginning.
    let is_strange = |c: char| c < ' ' && !c.is_ascii_whitespace() && c != '\u{1b}';
    (!text.chars().take(4096).any(is_strange) && !looks_binary(&sample.response)).then(|| text.to_owned())
}

/// Whether the media type is binary.
fn looks_binary(response: &UpstreamResponse) -> bool {
    let media_type = response.media_type().unwrap_or_default();
    ["image/", "audio/", "video/", "font/"].iter().any(|kind| media_type.starts_with(kind))
        && media_type != "image/svg+xml"
        || ["application/pdf", "application/zip"].contains(&&*media_type)
}

fn run<'r>(
    extract: Value,
    charset: Option<&str>,
    responses: impl Iterator<Item = &'r UpstreamResponse>,
) -> Result<Vec<Value>, String> {
    let mut rule = json!({ "extract": extract });
    if let Some(charset) = charset {
        rule["charset"] = charset.into();
    }
    let loaded = load(&format!(
        "upstreams: {{ legacy: http://127.0.0.1:9 }}\nroutes:\n  trial:\n    description: A trial.\n    \
         request: GET /\n    response_limit: {MAX_RESPONSE_LIMIT}\n    response:{}\n",
        yaml::block(&rule, 4)
    ))
    .ok_or_else(String::new)?;
    let route = &loaded.routes.first().ok_or_else(String::new)?.route;
    responses
        .map(|response| {
            let result = result(route, response);
            let structured = result.structured.as_ref().filter(|_| !result.is_error());
            structured.map(|structured| structured.json.parse()).ok_or_else(|| {
                result_json(&result)["content"][0]["text"].as_str().unwrap_or_default().to_owned()
            })
        })
        .collect()
}

/// Loads a configuration; `None` if it has errors.
pub(super) fn load(text: &str) -> Option<Loaded> {
    config::load(&Sources::from_text("proposal.yaml", text)).ok()
}

/// Translates a response by a route.
pub(super) fn result(route: &Route, response: &UpstreamResponse) -> ToolResult {
    let args = Value::Object(Map::new());
    let input = CallInput::new(&route.definition.name, &args);
    translate(&route.translator, input, response, &mut Trace::off()).result
}

/// Share of the words of each text that are in the extracted value; the minimum of all samples, from 0 to 1.
/// Words are runs of letters and digits, so punctuation and white space do not count, and neither does HTML
/// or XML markup.
pub(super) fn extracted_share(candidate: &Candidate, texts: &Option<Vec<String>>) -> f64 {
    if candidate.reads_all {
        return 1.0;
    }
    let Some(texts) = texts else { return 0.0 };
    let values = &candidate.values;
    let is_markup = candidate.source.is_some() || matches!(candidate.name, "html" | "xml");
    // An empty table has a header only, with the names of the rows of others.
    let is_empty = |value: &Value| *value == json!([]);
    let mut names = HashSet::new();
    for name in values.iter().filter_map(|value| value.get(0)?.as_object()).flat_map(Map::keys) {
        collect_words(name, &mut names);
    }
    let share_of_sample = |(value, text): (&Value, &String)| {
        let mut found = if is_empty(value) { names.clone() } else { HashSet::new() };
        collect(value, &mut found);
        let parts: Vec<&str> = if is_markup { between_tags(text).collect() } else { vec![text] };
        let (mut all, mut known) = (0_usize, 0_usize);
        for word in parts.into_iter().flat_map(words) {
            all += word.len();
            known += if found.contains(word) { word.len() } else { 0 };
        }
        match all {
            // Such a document is empty, or has all its data in attributes.
            0 if is_markup || is_empty(value) => 1.0,
            0 => 0.0,
            _ => known as f64 / all as f64,
        }
    };
    values.iter().zip(texts).map(share_of_sample).fold(1.0, f64::min)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn collect_words(text: &str, found: &mut HashSet<String>) {
    found.extend(words(text).map(str::to_owned));
}

/// Text of an HTML or XML document, in pieces: without tags, comments, scripts, style sheets and character
/// references (`&nbsp;`). An approximation, because it only measures the share.
fn between_tags(document: &str) -> impl Iterator<Item = &str> {
    static MARKUP: LazyLock<Regex> = LazyLock::new(|| {
        fixed_regex(
            r"(?is)<!\[CDATA\[|\]\]>|<!--.*?-->|<script\b.*?</script\s*>|<style\b.*?</style\s*>|<[a-z/!?][^>]*>|&#?\w{1,32};",
        )
    });
    MARKUP.split(document)
}

fn collect(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => collect_words(&value.to_string(), found),
        Value::String(text) => collect_words(text, found),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => {
            for (name, value) in members {
                collect_words(name, found);
                collect(value, found);
            }
        }
    }
}

/// Minimum share; less may be a coincidence.
pub(super) const MIN_EXTRACTED_SHARE: f64 = 0.5;

/// Ranks the extractors. First come those selected by media type or with a format that can't match by
/// coincidence (JSON, XML, …). Then the share of extracted text decides, in steps of a tenth, and then the
/// order of the candidates, from strict to permissive. Extractors of less than half of a text are dropped.
/// Patterns that name their parts by position come after all others, and the whole text comes last.
pub(super) fn rank(candidates: &mut Vec<Candidate>) {
    candidates.retain(|candidate| {
        candidate.is_last_resort()
            || candidate.is_strict
            || candidate.is_weak
            || candidate.extracted_share >= MIN_EXTRACTED_SHARE
    });
    // The sort is stable: equals stay in the order of the candidates.
    candidates.sort_by_key(|candidate| {
        let tenths = (candidate.extracted_share * 10.0).round() as i64;
        (candidate.is_last_resort(), candidate.is_weak, !candidate.is_strict, Reverse(tenths))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_not_counted_as_text() {
        let document = "<!DOCTYPE html><style>p { a: b }</style><P class=x>one&nbsp;two<!-- no > --><br/>3 < 4 \
                        <![CDATA[five]]><script>if (a < b) {}</script>";
        let found: Vec<&str> = between_tags(document).flat_map(words).collect();
        assert_eq!(found, ["one", "two", "3", "4", "five"]);
    }
}
