//! Inference of a route from recorded responses.
//!
//! - `samples` separates successes from failures, and finds rules for errors with a success status.
//! - `candidates`, `html_and_xml`, `tables` and `lines` propose extractors for each kind of text.
//! - This file runs the extractors on all samples, and ranks them by the share of text that they extract.
//! - `fields` infers fields or a schema from the values; `field_types` infers the type of one field.
//! - `route_writer` writes the route, with the evidence for each part in comments.
//!
//! Every proposal is verified: the file loads without errors, translates each sample to a success or an error
//! as classified, and its examples pass. If verification fails, the next simpler proposal is tried. If all
//! proposals fail, the route has only the default rules.

mod candidates;
mod field_types;
mod fields;
mod html_and_xml;
mod lines;
mod route_writer;
mod samples;
mod tables;

use std::{cmp::Reverse, collections::HashSet, sync::LazyLock};

use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value, json};
use settings_derive::EnumSetting;

use self::candidates::Candidate;
use self::route_writer::{MAX_RESPONSE_LIMIT_BYTES, ProposalDraft};
use self::samples::ClassifiedSamples;
use crate::authoring::{playground::result_json, without_empty};
use crate::config::{self, Loaded, Sources, quoted_list, yaml};
use crate::model::{ToolResult, UpstreamResponse};
use crate::route::Route;
use crate::settings::{EnumSetting as _, fixed_regex};
use crate::translate::{CallInput, Trace, translate};

/// Maximum number of samples that are examined.
pub const SAMPLE_LIMIT: usize = 100;

/// Recorded response.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Name of the sample, such as its file name.
    pub name: String,
    /// The response.
    pub response: UpstreamResponse,
}

/// Names and request of the proposed route, which the responses do not show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteNaming {
    /// Name of the tool.
    pub name: String,
    /// Name of the upstream, which must be unique in the configuration.
    pub upstream: String,
    /// URL of the upstream (`http://host:port`), or the program of a command. `None` if neither the command
    /// line nor a recording contains it.
    pub address: Option<String>,
    /// HTTP method; `RUN` for a command.
    pub method: String,
    /// Path and query, or the words after the program, each preceded by a space. Arguments are written
    /// `{name}`, and optional ones `{name?}`. `None` if neither the command line nor a recording contains it.
    pub path: Option<String>,
}

impl RouteNaming {
    /// Whether the route runs a command.
    pub fn is_command(&self) -> bool {
        self.method == "RUN"
    }

    /// Returns the address, or a placeholder if it is unknown.
    fn address(&self) -> &str {
        self.address.as_deref().unwrap_or("http://127.0.0.1:9000")
    }

    /// Returns the path, or `/` if it is unknown.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or("/")
    }
}

/// Confidence in a part of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, EnumSetting)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A guess; check it before use.
    Guess,
    /// Likely; more samples would confirm it.
    Likely,
    /// All samples agree.
    Sure,
}

/// Part of a proposal, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the part, such as `extract`, `field temperature` or `when`.
    pub part: String,
    /// Value of the part.
    pub value: String,
    /// Confidence.
    pub confidence: Confidence,
    /// Evidence.
    pub reason: String,
}

/// Proposed route with the evidence for its parts.
#[derive(Debug, Clone, Serialize)]
pub struct Proposal {
    /// The configuration file.
    #[serde(rename = "config")]
    pub yaml: String,
    /// Parts of the route with their evidence.
    pub findings: Vec<Finding>,
}

impl Finding {
    fn new(part: &str, value: &str, confidence: Confidence, reason: impl Into<String>) -> Self {
        Self { part: part.to_owned(), value: value.to_owned(), confidence, reason: reason.into() }
    }

    /// Formats the confidence and the evidence as a comment.
    fn comment(&self) -> String {
        format!("{}: {}", self.confidence.as_str(), route_writer::one_line(&self.reason))
    }
}

/// Proposes a route for the responses of one endpoint. The proposed file loads for any samples.
pub fn propose(samples: &[Sample], naming: &RouteNaming) -> Proposal {
    let classified = samples::classify(&samples[..samples.len().min(SAMPLE_LIMIT)]);
    let (classified, candidates) = separate_outliers(classified);
    let errors = samples::error_rules(&classified);
    // Proposals are tried from the most specific to the simplest: with types before without, the best
    // extractor before the second, down to the whole text, and all of these with error rules before without.
    for errors in [errors.as_slice(), &[]] {
        for (index, candidate) in candidates.iter().enumerate() {
            let runner_up = candidates.get(index + 1);
            for types in fields::possible_types(candidate) {
                let classified = &classified;
                let draft = ProposalDraft { naming, classified, candidate, runner_up, types, errors };
                if let Some(proposal) = draft.verified() {
                    return proposal;
                }
            }
        }
    }
    route_writer::fallback(naming)
}

/// Returns the candidates, best first, and the samples that they parse. If only the whole text fits all
/// samples, outliers are separated, as long as most samples remain. Samples are added one by one, the longest
/// first, because error messages are mostly shorter than data.
fn separate_outliers(classified: ClassifiedSamples<'_>) -> (ClassifiedSamples<'_>, Vec<Candidate>) {
    let mut all_candidates = rank_candidates(&classified);
    if !all_candidates.first().is_some_and(Candidate::is_last_resort) {
        return (classified, all_candidates);
    }
    let lengths: Vec<usize> = classified.texts.iter().flatten().map(String::len).collect();
    let mut indices: Vec<usize> = (0..lengths.len()).collect();
    indices.sort_by_key(|index| Reverse(lengths[*index]));
    let (mut kept, mut outliers, mut candidates) = (Vec::new(), Vec::new(), Vec::new());
    for index in indices {
        let mut trial = [kept.as_slice(), &[index]].concat();
        trial.sort_unstable();
        let found = rank_candidates(&classified.with_successes(&trial, &[]));
        match found.first() {
            Some(best) if !best.is_last_resort() && (best.is_strict || !best.is_weak) => {
                (kept, candidates) = (trial, found);
            }
            _ => outliers.push(index),
        }
    }
    let Some(best) = candidates.first() else { return (classified, all_candidates) };
    outliers.sort_unstable();
    let separated = classified.with_successes(&kept, &outliers);
    // Half of the samples, for example one of two, may be outliers only if all of these are messages.
    if outliers.len() < kept.len() || outliers.len() == kept.len() && separated.omitted.is_empty() {
        return (separated, candidates);
    }
    if let Some(text) = all_candidates.last_mut() {
        let names = quoted_list(outliers.iter().map(|index| classified.successes[*index].name.as_str()));
        text.reason += &format!("; `{}` does not parse {names}", best.name);
    }
    (classified, all_candidates)
}

/// Returns the candidates that parse every success, best first. The last one extracts the whole text or the
/// bytes.
fn rank_candidates(classified: &ClassifiedSamples<'_>) -> Vec<Candidate> {
    // Error of the first failing candidate, which is the strictest.
    let mut first_error = None;
    let mut parsing = Vec::new();
    for mut candidate in candidates::all(classified) {
        match extracted_values(&candidate, classified) {
            Ok(values) => candidate.values = values,
            Err(reason) => {
                first_error.get_or_insert((candidate.name, reason));
                continue;
            }
        }
        if candidate.is_table() {
            // A table with a single column contains no more information than a list of lines.
            let is_narrow = |row: &Value| row.as_object().is_none_or(|cells| cells.len() < 2);
            let mut first_rows = candidate.values.iter().filter_map(|value| value.get(0)).peekable();
            if first_rows.peek().is_none() || first_rows.any(is_narrow) {
                continue;
            }
        }
        if let ("columns", Some(texts)) = (candidate.name, &classified.texts) {
            tables::join_names(&mut candidate.values, texts);
        }
        fields::remove_unnamed(&mut candidate.values);
        candidate.extracted_share = extracted_share(&candidate, &classified.texts);
        parsing.push(candidate);
    }
    if let (Some((name, reason)), Some(last)) = (first_error, parsing.last_mut())
        && last.name == "text"
        && !reason.is_empty()
    {
        last.reason = format!("the whole text, because `{name}` does not parse every sample: {reason}");
    }
    // Without `stop_before`, the line below a table would be parsed as a row.
    let ends_early = |candidate: &Candidate| candidate.options.contains_key("stop_before");
    if parsing.iter().any(ends_early) {
        parsing.retain(|candidate| candidate.name != "columns" || ends_early(candidate));
    }
    rank(&mut parsing);
    parsing
}

/// Returns the value that a candidate extracts from each success.
///
/// # Errors
///
/// The error of the first sample that the candidate cannot parse; empty if the extractor is invalid.
fn extracted_values(candidate: &Candidate, classified: &ClassifiedSamples<'_>) -> Result<Vec<Value>, String> {
    // `binary` returns a content block rather than a value.
    if candidate.name == "binary" {
        return Ok(Vec::new());
    }
    run_extractor(&candidate.extract(), classified.charset(), &classified.successes)
}

/// Decompresses and decodes the text of a sample, with the given charset or the declared one; `None` if it is
/// binary.
fn sample_text(sample: &Sample, charset: Option<&str>) -> Option<String> {
    let values = run_extractor(&"text".into(), charset, &[sample]).ok()?;
    let text = values.first()?.as_str()?;
    // Texts of old programs may contain DEL and control characters from U+0080 on. Images and archives have
    // control characters below U+0020 near the beginning.
    let is_strange = |c: char| c < ' ' && !c.is_ascii_whitespace() && c != '\u{1b}';
    (!text.chars().take(4096).any(is_strange)).then(|| text.to_owned())
}

fn run_extractor(extract: &Value, charset: Option<&str>, samples: &[&Sample]) -> Result<Vec<Value>, String> {
    let rule = without_empty(json!({ "extract": extract, "charset": charset })).into();
    // The highest possible limit, so that no sample is too long for the trial.
    let loaded = load_proposal(&format!(
        "upstreams: {{ legacy: http://127.0.0.1:9 }}\nroutes:\n  trial:\n    description: A trial.\n    \
         request: GET /\n    response_limit: {MAX_RESPONSE_LIMIT_BYTES}B\n    response:{}\n",
        yaml::block(&rule, 4)
    ))
    .ok_or_else(String::new)?;
    let route = &loaded.routes.first().ok_or_else(String::new)?.route;
    let value = |sample: &&Sample| {
        let result = translate_sample(route, &sample.response);
        let structured = result.structured.as_ref().filter(|_| !result.is_error());
        structured.map(|structured| structured.json.parse()).ok_or_else(|| {
            let message = result_json(&result)["content"][0]["text"].clone();
            format!("`{}`: {}", sample.name, message.as_str().unwrap_or_default())
        })
    };
    samples.iter().map(value).collect()
}

/// Loads a configuration; `None` if it has errors.
fn load_proposal(text: &str) -> Option<Loaded> {
    config::load(&Sources::from_text("proposal.yaml", text)).ok()
}

/// Translates a response with the rules of a route.
fn translate_sample(route: &Route, response: &UpstreamResponse) -> ToolResult {
    let args = Value::Object(Map::new());
    let input = CallInput::new(&route.definition.name, &args);
    translate(&route.translator, input, response, &mut Trace::off()).result
}

/// Share of the words of a text that the extracted value contains; the minimum of all samples, from 0 to 1.
/// Words are runs of letters and digits, so that punctuation, white space, HTML or XML markup and colors of
/// a terminal are not counted.
fn extracted_share(candidate: &Candidate, texts: &Option<Vec<String>>) -> f64 {
    if candidate.reads_all {
        return 1.0;
    }
    let Some(texts) = texts else { return 0.0 };
    let values = &candidate.values;
    let is_markup = candidate.source.is_some() || matches!(candidate.name, "html" | "xml");
    // A table without rows has only a header; its words are the column names of the other samples.
    let is_empty = |value: &Value| *value == json!([]);
    let mut names = HashSet::new();
    for name in values.iter().filter_map(|value| value.get(0)?.as_object()).flat_map(Map::keys) {
        collect_words(name, &mut names);
    }
    let share_of_sample = |(value, text): (&Value, &String)| {
        let mut extracted_words = if is_empty(value) { names.clone() } else { HashSet::new() };
        collect(value, &mut extracted_words);
        let parts: Vec<&str> = if is_markup { between_tags(text).collect() } else { vec![text] };
        let (mut total, mut extracted) = (0_usize, 0_usize);
        for word in parts.into_iter().flat_map(words) {
            total += word.len();
            extracted += if extracted_words.contains(word) { word.len() } else { 0 };
        }
        match total {
            // A document without words is empty, or has all its data in attributes.
            0 if is_markup || is_empty(value) => 1.0,
            0 => 0.0,
            _ => extracted as f64 / total as f64,
        }
    };
    values.iter().zip(texts).map(share_of_sample).fold(1.0, f64::min)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    static COLOR: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"\x1b\[[0-9;]*[A-Za-z]"));
    COLOR
        .split(text)
        .flat_map(|part| part.split(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
}

fn collect_words(text: &str, found: &mut HashSet<String>) {
    found.extend(words(text).map(str::to_owned));
}

/// Pieces of text of an HTML or XML document, without tags, comments, scripts, style sheets and character
/// references (`&nbsp;`). An approximation that is sufficient for computing the share.
fn between_tags(document: &str) -> impl Iterator<Item = &str> {
    static MARKUP: LazyLock<Regex> = LazyLock::new(|| {
        fixed_regex(concat!(
            r"(?is)<!\[CDATA\[|\]\]>|<!--.*?-->|<script\b.*?</script\s*>|<style\b.*?</style\s*>",
            r"|<[a-z/!?][^>]*>|&#?\w{1,32};"
        ))
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

/// Minimum share of extracted text; a smaller share may be a coincidence.
const MIN_EXTRACTED_SHARE: f64 = 0.5;

/// Ranks the extractors.
///
/// - Extractors whose format can't match by coincidence (JSON, XML, …), or that the media type selects, come
///   first. Patterns that name values by position come after all others, and the whole text comes last.
/// - Then the share of extracted text decides, in steps of a tenth, and then the order of the candidates,
///   from strict to permissive.
/// - Extractors with a share of less than half, and pairs with data as keys, are dropped unless they are
///   strict or weak.
fn rank(candidates: &mut Vec<Candidate>) {
    candidates.retain(|candidate| {
        candidate.is_last_resort()
            || candidate.is_strict
            || candidate.is_weak
            || candidate.extracted_share >= MIN_EXTRACTED_SHARE && !lines::has_data_in_keys(candidate)
    });
    // The sort is stable, so equal candidates keep their order.
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
