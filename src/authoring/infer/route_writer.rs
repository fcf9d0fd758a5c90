//! Writer of the proposed route as YAML. Returns the proposal only if it loads and handles every sample as
//! classified.

use std::fmt::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{
    HeaderValue,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use serde_json::{Map, Value, json};

use super::candidates::Candidate;
use super::fields::{InferredField, InferredTypes};
use super::html_and_xml::SOAP_BODY;
use super::samples::{ClassifiedSamples, InferredErrorRule};
use super::{
    Confidence, Finding, MIN_EXTRACTED_SHARE, Proposal, RouteNaming, Sample, load_proposal, translate_sample,
};
use crate::authoring::playground::result_json;
use crate::authoring::{pluralize, without_empty};
use crate::config::{quoted_list, yaml};
use crate::model::cut_characters;
use crate::route::Route;
use crate::translate::TranslationLimits;

/// Maximum number of samples that become examples.
const MAX_EXAMPLES: usize = 12;
/// Maximum size of the body of an example; a longer body belongs in a separate recording.
const MAX_BODY_BYTES: usize = 8 << 10;
/// Maximum value of `response_limit`, in bytes.
pub(super) const MAX_RESPONSE_LIMIT_BYTES: usize = 1 << 30;
/// Maximum length of a comment, in characters.
const MAX_COMMENT_LENGTH: usize = 160;

/// Proposal that has not been verified yet.
pub(super) struct ProposalDraft<'a> {
    pub(super) naming: &'a RouteNaming,
    pub(super) classified: &'a ClassifiedSamples<'a>,
    pub(super) candidate: &'a Candidate,
    pub(super) runner_up: Option<&'a Candidate>,
    pub(super) types: InferredTypes,
    /// Rules for errors with a success status; empty if such errors are treated as successes.
    pub(super) errors: &'a [InferredErrorRule],
}

impl Proposal {
    /// Adds a line with the finding as a comment at its end. If the line consists of spaces, the comment is
    /// on a line of its own with this indentation.
    fn write_line(&mut self, line: &str, finding: impl Into<Option<Finding>>) {
        let finding = finding.into();
        let space = if line.ends_with(' ') { "" } else { " " };
        let comment = finding.as_ref().map(|finding| format!("{space}# {}", finding.comment()));
        let _ = writeln!(self.yaml, "{line}{}", comment.unwrap_or_default());
        self.findings.extend(finding);
    }
}

impl ProposalDraft<'_> {
    /// Builds the proposal; `None` unless it handles every sample as classified.
    pub(super) fn verified(&self) -> Option<Proposal> {
        let mut proposal = self.unverified();
        let loaded = load_proposal(&proposal.yaml)?;
        let compiled = &loaded.routes.first()?.route;
        let fails = |sample: &Sample| translate_sample(compiled, &sample.response).is_error();
        let ClassifiedSamples { successes, failures, hidden_failures, .. } = self.classified;
        if successes.iter().any(|sample| fails(sample))
            || !failures.iter().all(|sample| fails(sample))
            || !(self.errors.is_empty() || hidden_failures.iter().all(|(sample, _)| fails(sample)))
        {
            return None;
        }
        self.write_examples(compiled, &mut proposal.yaml);
        let loaded = load_proposal(&proposal.yaml)?;
        let compiled_route = loaded.routes.first()?;
        let passes = |example: &crate::config::Example| {
            let result = result_json(&translate_sample(&compiled_route.route, &example.response));
            example.expect.as_ref().is_some_and(|expect| {
                let expected = expect.structured.as_ref().map(|structured| &structured.value);
                result["isError"] == expect.is_error()
                    && expected.is_none_or(|expected| result.get("structuredContent") == Some(expected))
            })
        };
        compiled_route.tests.iter().all(passes).then_some(proposal)
    }

    fn unverified(&self) -> Proposal {
        let omitted = &self.classified.omitted;
        let samples = pluralize(self.classified.all().count() + omitted.len(), "sample");
        let mut out = file_header(self.naming, &samples);
        if let Some(finding) = self.response_limit() {
            let limit = format!("    response_limit: {}", finding.value);
            out.write_line("    ", finding);
            out.write_line(&limit, None);
        }
        out.yaml += "    response:\n";
        for (rule, finding) in self.errors {
            out.write_line("      ", finding.clone());
            match rule["use"].as_str() {
                // The preset `soap` for the successes also handles the faults.
                Some("soap") if self.soap_parameters().is_some() => {}
                Some(name) => out.yaml += &format!("      - use: {name}\n"),
                None => self.write_error(&mut out.yaml, rule),
            }
        }
        if !omitted.is_empty() {
            let names = quoted_list(omitted.iter().map(|sample| sample.name.as_str()));
            let reason = format!("{names}: omitted, because the format differs; add a rule for it");
            out.write_line("      ", Finding::new("samples", "omitted", Confidence::Guess, reason));
        }
        let finding = self.extract_finding();
        let is_sure = finding.confidence == Confidence::Sure;
        out.write_line("      ", finding);
        // A weak extractor (values named by position, or one text) is not a useful alternative to a table.
        let is_table = self.candidate.is_table() && self.candidate.source.is_none();
        let is_poor = |other: &Candidate| other.is_last_resort() || is_table && other.is_weak;
        if let Some(other) = self.runner_up.filter(|other| !is_sure && !is_poor(other)) {
            let (extract, reason) = (yaml::flow(&other.extract()), &other.reason);
            let other = one_line(&format!("or else `extract: {extract}`: {reason}"));
            let _ = writeln!(out.yaml, "      # {other}");
        }
        match self.soap_parameters() {
            Some(parameters) => {
                let _ = writeln!(out.yaml, "      - use: soap\n        with:{}", yaml::block(&parameters, 8));
            }
            None => self.write_success(&mut out),
        }
        if let Some((schema, finding)) = &self.types.output {
            out.write_line("    ", finding.clone());
            let _ = writeln!(out.yaml, "    output:{}", yaml::block(schema, 4));
        }
        out
    }

    fn write_error(&self, out: &mut String, rule: &Value) {
        // The output of a command has no HTTP status, and a rule matches successful commands by default.
        let status = Some("2xx").filter(|_| !self.naming.is_command());
        let mut conditions = without_empty(json!({ "status": status }));
        conditions.extend(rule["when"].as_object().cloned().unwrap_or_default());
        let _ = writeln!(out, "      - when:{}", yaml::block(&conditions.into(), 8));
        if let Some(charset) = self.classified.charset() {
            let _ = writeln!(out, "        charset: {charset}");
        }
        if let Some(extract) = rule["extract"].as_str() {
            let _ = writeln!(out, "        extract: {extract}");
        }
        let _ = writeln!(out, "        error: {}", yaml::flow(&rule["error"]));
    }

    /// Parameters of the preset `soap`, if the preset can handle the successes.
    fn soap_parameters(&self) -> Option<Value> {
        let options = &self.candidate.options;
        let element = options.get("path")?.as_str()?.strip_prefix(SOAP_BODY)?;
        let parameters = without_empty(json!({ "path": element, "lists": options.get("lists") }));
        // Rules of a preset cannot set a charset.
        self.classified.charset.is_none().then_some(parameters.into())
    }

    fn write_success(&self, out: &mut Proposal) {
        let condition = self.media_type().map(|finding| {
            let media_type = yaml::text(&finding.value);
            (format!("when: {{ status: 2xx, content_type: {media_type} }}"), finding)
        });
        let charset = self.classified.charset.clone();
        let charset = charset.map(|finding| (format!("charset: {}", finding.value), finding));
        let mut dash = "- ";
        for (line, finding) in condition.into_iter().chain(charset) {
            out.write_line(&format!("      {dash}{line}"), finding);
            dash = "  ";
        }
        self.write_extract(out, dash);
    }

    /// The `response_limit` that the longest sample needs, with a margin; `None` if the default is enough.
    fn response_limit(&self) -> Option<Finding> {
        let classified = self.classified;
        let bodies = classified.all().map(|sample| sample.response.body.len());
        // For compressed bodies, the limit applies to the decompressed length.
        let texts = classified.texts.iter().flatten().map(String::len);
        let longest_bytes = bodies.chain(texts).max().unwrap_or_default();
        if longest_bytes <= TranslationLimits::default().response_bytes {
            return None;
        }
        let mebibytes = (2 * longest_bytes).next_power_of_two().min(MAX_RESPONSE_LIMIT_BYTES) >> 20;
        let reason = format!("the longest sample has {longest_bytes} bytes, more than the default limit");
        Some(Finding::new("response_limit", &format!("{mebibytes}MiB"), Confidence::Likely, reason))
    }

    fn extract_finding(&self) -> Finding {
        let candidate = self.candidate;
        let samples = self.classified.successes.len();
        let extracted_share = if candidate.is_weak { 0.8 } else { candidate.extracted_share };
        // A single sample of one line does not show which of its words vary.
        let is_one_line = candidate.is_weak
            && samples == 1
            && candidate.name == "regex"
            && !candidate.options.contains_key("each");
        // The format matches, but most of the text is not extracted.
        let is_poor = candidate.is_strict && !candidate.reads_all && extracted_share < MIN_EXTRACTED_SHARE;
        let is_guess = candidate.is_last_resort() || candidate.is_doubtful || is_one_line || is_poor;
        let confidence = match samples {
            2.. if !is_guess && (candidate.is_strict || extracted_share >= 0.9) => Confidence::Sure,
            _ if !is_guess && (candidate.is_strict || extracted_share >= 0.8) => Confidence::Likely,
            _ => Confidence::Guess,
        };
        let others = self.classified.all().count() - samples + self.classified.omitted.len();
        let each = if others > 0 { "every success" } else { "every sample" };
        let mut reason = candidate.reason.replace("every sample", each);
        if samples == 0 {
            reason = "the samples have no success".to_owned();
        } else if self.classified.texts.is_some()
            && !(candidate.is_last_resort() || candidate.is_weak || candidate.reads_all)
        {
            let (qualifier, subject) = if samples == 1 { ("", "the sample") } else { ("at least ", each) };
            reason += &match (candidate.extracted_share * 100.0).floor() {
                100.0 => format!("; it reads all words of {subject}"),
                percent => format!("; it reads {qualifier}{percent} % of the words of {subject}"),
            };
        }
        let (part, value) = match self.soap_parameters() {
            Some(_) => ("use", "soap"),
            None => ("extract", candidate.name),
        };
        Finding::new(part, value, confidence, reason)
    }

    /// Returns the media type, if all successes have the same.
    fn media_type(&self) -> Option<Finding> {
        let mut types = self.classified.successes.iter().map(|sample| sample.response.media_type());
        let first = types.next().flatten()?;
        let samples = self.classified.successes.len();
        let confidence = if samples > 1 { Confidence::Sure } else { Confidence::Likely };
        let reason =
            format!("{samples} of {samples} successes have it; the rule matches no other media type");
        types
            .all(|other| other.as_ref() == Some(&first))
            .then(|| Finding::new("when", &first, confidence, reason))
    }

    fn write_extract(&self, out: &mut Proposal, dash: &str) {
        let candidate = self.candidate;
        if self.types.fields.is_empty() {
            let _ = writeln!(out.yaml, "      {dash}extract:{}", yaml::block(&candidate.extract(), 8));
            return;
        }
        let _ = writeln!(out.yaml, "      {dash}extract:");
        if let Some(source) = &candidate.source {
            let _ = writeln!(out.yaml, "          source: {}", yaml::flow(source));
        }
        let _ = writeln!(out.yaml, "          {}:", candidate.name);
        for (key, value) in &candidate.options {
            let _ = writeln!(out.yaml, "            {}:{}", yaml::text(key), yaml::block(value, 12));
        }
        out.yaml += "            fields:\n";
        for InferredField { name, spec, finding } in &self.types.fields {
            out.write_line(
                &format!("              {}: {}", yaml::text(name), yaml::flow(spec)),
                finding.clone(),
            );
        }
    }

    /// Writes one example per sample, up to [`MAX_EXAMPLES`].
    fn write_examples(&self, route: &Route, out: &mut String) {
        let samples = self.classified.all().take(MAX_EXAMPLES);
        let examples: Vec<String> = samples.filter_map(|sample| example(route, sample)).collect();
        let omitted = self.classified.all().count() - examples.len();
        if omitted > 0 {
            let _ = writeln!(
                out,
                "    # Without an example: {omitted} of the samples, because they are too many or too long. \
                 `response: {{ recording: FILE }}` loads one."
            );
        }
        if !examples.is_empty() {
            let _ = write!(out, "    tests:\n{}", examples.concat());
        }
    }
}

/// Formats the example for a sample; `None` if the body is too long, or a header is not text.
fn example(route: &Route, Sample { name, response }: &Sample) -> Option<String> {
    if response.body.len() > MAX_BODY_BYTES {
        return None;
    }
    let header = |name| response.headers.get(name).map(HeaderValue::to_str).transpose().ok();
    let (media_type, encoding) = (header(CONTENT_TYPE)?, header(CONTENT_ENCODING)?);
    let (key, body) = match std::str::from_utf8(&response.body) {
        Ok(text) => ("body", text.to_owned()),
        Err(_) => ("body_base64", BASE64_STANDARD.encode(&response.body)),
    };
    let response_json = without_empty(json!({
        "status": Some(response.status.as_u16()).filter(|status| *status != 200),
        "content_type": media_type,
        "headers": encoding.map(|encoding| json!({ "Content-Encoding": encoding })),
        key: Some(body).filter(|body| !body.is_empty()),
    }));
    let result = result_json(&translate_sample(route, response));
    let expect = match result.get("structuredContent") {
        _ if result["isError"] == true => json!({ "isError": true, "text": result["content"][0]["text"] }),
        Some(structured) => json!({ "structuredContent": structured }),
        None => json!({ "isError": false }),
    };
    Some(format!(
        "      - name: {}\n        response:{}\n        expect:{}\n",
        yaml::flow(&one_line(name).into()),
        yaml::block(&Value::Object(response_json), 8),
        yaml::block(&expect, 8)
    ))
}

/// Builds the file up to the rules. Unknown addresses and requests are placeholders, marked as guesses.
fn file_header(naming: &RouteNaming, samples: &str) -> Proposal {
    let RouteNaming { name, upstream, method, .. } = naming;
    let (address, path) = (naming.address(), naming.path());
    // The description omits the query, which may contain a password: clients see the description.
    let path_without_query = path.split('?').next().unwrap_or_default();
    let guess = |part: &str, value: &str, reason: &str| Finding::new(part, value, Confidence::Guess, reason);
    let (upstream_value, description) = match naming.is_command() {
        true => (json!({ "command": [address] }), format!("The output of {address}{path}.")),
        false => (json!(address), format!("The response of {method} {path_without_query}.")),
    };
    // Only `infer` has the syntax `{name?}`.
    let request = format!("{method} {upstream}{path}").replace("?}", "}");
    let head = format!(
        "# Proposed by `glossator infer` from {samples}. `sure`, `likely` and `guess` are the confidence in \
         each part.\nupstreams:\n"
    );
    let mut out = Proposal { yaml: head, findings: Vec::new() };
    let line = format!("  {}: {}", yaml::text(upstream), yaml::flow(&upstream_value));
    let no_url = || guess("upstream", address, "the samples have no URL; `--url` sets it");
    out.write_line(&line, naming.address.is_none().then(no_url));
    let _ = writeln!(
        out.yaml,
        "routes:\n  {}:\n    description: {} # guess: describe when a model should call this tool",
        yaml::text(name),
        yaml::flow(&description.replace("?}", "}").into())
    );
    let reason = "the samples have no request; `--url` or `--request` sets it";
    let no_request = || guess("request", &format!("{method} {path}"), reason);
    if !matches!(method.as_str(), "GET" | "HEAD" | "DELETE" | "OPTIONS" | "TRACE" | "RUN") {
        out.write_line(
            "    ",
            guess("request body", "none", "recordings have no request body; add `body` if any"),
        );
    }
    let line = format!("    request: {}", yaml::flow(&request.into()));
    out.write_line(&line, naming.path.is_none().then(no_request));
    if let Some(schema) = input_schema(path) {
        let schema = yaml::block(&schema, 4);
        let _ = writeln!(out.yaml, "    # guess: types of the arguments\n    input:{schema}");
    }
    out
}

/// Input schema, if an argument is optional (`{name?}`). Without a schema, all arguments are required.
fn input_schema(path: &str) -> Option<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for name in names {
        let plain = name.trim_end_matches('?');
        if plain == name {
            required.push(name);
        }
        properties.insert(plain.to_owned(), json!({ "type": "string" }));
    }
    let has_optional = required.len() != properties.len();
    let schema = without_empty(json!({ "type": "object", "properties": properties, "required": required }));
    has_optional.then_some(schema.into())
}

/// Proposal if all others fail: a route with the default rules, which select a parser by media type.
pub(super) fn fallback(naming: &RouteNaming) -> Proposal {
    let mut proposal = file_header(naming, "samples that match no rule");
    let reason = "no rule matches every sample: responses are parsed by their media type";
    proposal.write_line("    ", Finding::new("response", "the default rules", Confidence::Guess, reason));
    proposal
}

/// Makes a text safe for a comment: one line without control characters, of limited length.
pub(super) fn one_line(text: &str) -> String {
    let harmless = |c: char| {
        if c.is_control() || "\u{2028}\u{2029}\u{85}\u{feff}\u{fffe}\u{ffff}".contains(c) { ' ' } else { c }
    };
    cut_characters(&text.chars().map(harmless).collect::<String>(), MAX_COMMENT_LENGTH)
}
