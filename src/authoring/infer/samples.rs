//! Classification of samples as successes and failures, and rules for failures with a success status.

use super::{Confidence, Finding, Sample, markup, sample_text};
use crate::settings::fixed_regex;
use crate::translate::Charset;
use regex::Regex;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Classified samples.
#[derive(Debug)]
pub(super) struct ClassifiedSamples<'a> {
    /// Successes.
    pub(super) successes: Vec<&'a Sample>,
    /// Decompressed and decoded texts of the successes; `None` if one of them is binary.
    pub(super) texts: Option<Vec<String>>,
    /// Charset that the rules must set, because the samples declare none, or a wrong one.
    pub(super) charset: Option<Finding>,
    /// Failures by HTTP status.
    pub(super) failures: Vec<&'a Sample>,
    /// Failures with a success status, with the evidence.
    pub(super) hidden_failures: Vec<(&'a Sample, ErrorEvidence)>,
}

impl<'a> ClassifiedSamples<'a> {
    /// Label of the charset that the rules must set.
    pub(super) fn charset(&self) -> Option<&str> {
        self.charset.as_ref().map(|finding| finding.value.as_str())
    }

    /// All samples: successes, failures by status, hidden failures.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Sample> {
        let hidden_failures = self.hidden_failures.iter().map(|(sample, _)| *sample);
        self.successes.iter().copied().chain(self.failures.iter().copied()).chain(hidden_failures)
    }
}

/// Evidence of an error in a response with a success status, which is also the condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorEvidence {
    /// The conditions on the response and the template of the error, which is missing if the samples
    /// decide it; or the preset in `use`.
    rule: Value,
    /// The reason for it, with `{}` for the number of samples.
    reason: &'static str,
}

/// Reason of the evidence in a text.
const REPORTED: &str = "{} of the samples report it with a success status";

/// A condition on the JSON document, such as `.ok == false`.
fn in_json(condition: &str) -> ErrorEvidence {
    ErrorEvidence { rule: json!({ "when": { "json": condition } }), reason: REPORTED }
}

/// The member of this name is false.
fn with_false_member(name: &str) -> ErrorEvidence {
    in_json(&format!(".{name} == false"))
}

/// Words with which errors begin.
const ERROR_WORDS: &str = "ERR|ERROR|FAIL|FAILED|FAILURE|FATAL|EXCEPTION|DENIED";

/// Members of a JSON object that are `false` in an error.
const FLAGS: [&str; 3] = ["success", "ok", "succeeded"];

/// Words for success in a member of a JSON object.
const SUCCESS_WORDS: [&str; 4] = ["success", "ok", "SUCCESS", "OK"];

/// Classifies the samples.
pub(super) fn classify(samples: &[Sample]) -> ClassifiedSamples<'_> {
    let (good, failures): (Vec<_>, Vec<_>) =
        samples.iter().partition(|sample| sample.response.status.is_success());
    let (charset, decoded) = decode(&good);
    let samples_and_texts = good.iter().zip(&decoded);
    let pages: Vec<&str> = samples_and_texts
        .filter_map(|(sample, text)| text.as_deref().filter(|text| is_page(sample, text)))
        .collect();
    let is_page_rare = pages.len() * 2 <= good.len();
    let is_password_rare = !pages.iter().all(|text| markup::has_password_field(text));
    // A page may stand in for the data, which the other samples have.
    let page_evidence = |sample: &Sample, text: &str| match is_page(sample, text) {
        true if is_page_rare => Some(ErrorEvidence {
            rule: json!({ "use": "html_message" }),
            reason: "a web page instead of data, in {} of the samples",
        }),
        true if is_password_rare && markup::has_password_field(text) => Some(ErrorEvidence {
            rule: json!({
                "when": { "text": markup::PASSWORD_FIELD },
                "error": "The service responded with a login page instead of data.",
            }),
            reason: "a web page with a password field, in {} of the samples: set `credentials` of the \
                     upstream",
        }),
        _ => None,
    };
    let (mut successes, mut texts, mut hidden_failures) = (Vec::new(), Vec::new(), Vec::new());
    for (sample, text) in good.into_iter().zip(&decoded) {
        let evidence = text.as_deref().and_then(|text| {
            let by_word = || evidence_by_word(text, &decoded);
            page_evidence(sample, text).or_else(|| error_evidence(text)).or_else(by_word)
        });
        match evidence {
            Some(evidence) => hidden_failures.push((sample, evidence)),
            None => {
                successes.push(sample);
                texts.push(text.clone());
            }
        }
    }
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    let texts = texts.filter(|texts| !texts.is_empty());
    ClassifiedSamples { successes, texts, charset, failures, hidden_failures }
}

/// Evidence of an error in a short JSON document: its `result` or `status` is not the word for success that a
/// document of at least twice its length has there.
fn evidence_by_word(text: &str, all: &[Option<String>]) -> Option<ErrorEvidence> {
    let document: Value = serde_json::from_str(text).ok()?;
    let name = ["result", "status"].into_iter().find(|name| document[*name].is_string())?;
    let longer = all.iter().flatten().filter(|other| other.len() >= 2 * text.len());
    let mut words = longer.filter_map(|other| serde_json::from_str::<Value>(other).ok()?.get(name).cloned());
    let is_success = |word: &Value| SUCCESS_WORDS.iter().any(|known| word == known);
    let word = words.find(is_success).filter(|_| !is_success(&document[name]))?;
    let reason = "a short document without the word of the successes, in {} of the samples";
    Some(ErrorEvidence { reason, ..in_json(&format!(".{name} != {word}")) })
}

fn is_page(sample: &Sample, text: &str) -> bool {
    markup::is_html(text, &sample.response.media_type().unwrap_or_default())
}

/// Decodes samples; also returns the charset that a rule must set for them.
fn decode(samples: &[&Sample]) -> (Option<Finding>, Vec<Option<String>>) {
    let read = |charset| samples.iter().map(|sample| sample_text(sample, charset)).collect::<Vec<_>>();
    let own = read(None);
    let Some(undecodable) = own.iter().position(Option::is_none) else { return (None, own) };
    let mut fallbacks = ["utf-8", "windows-1252"].into_iter().map(|label| (label, read(Some(label))));
    let fallback = fallbacks.find(|(_, texts)| texts.iter().all(Option::is_some));
    fallback.map_or((None, own), |(label, texts)| (Some(charset_finding(label, samples[undecodable])), texts))
}

/// The evidence for a charset in a sample that can't be decoded with its own.
fn charset_finding(label: &str, sample: &Sample) -> Finding {
    let wrong = match sample.response.charset() {
        Some(name) if name.parse::<Charset>().is_err() => {
            format!("`Content-Type` declares `{name}`, which is not a charset")
        }
        Some(name) => format!("`{name}`, which `Content-Type` declares, does not decode it"),
        None => "the charset in the text, or else UTF-8, does not decode it".to_owned(),
    };
    let (confidence, right) = match label {
        "utf-8" => (Confidence::Likely, "every sample is in UTF-8"),
        _ => (Confidence::Guess, "this charset decodes any bytes: change it if letters are wrong"),
    };
    Finding::new("charset", label, confidence, format!("{wrong}; {right}"))
}

fn error_evidence(text: &str) -> Option<ErrorEvidence> {
    if let Ok(Value::Object(object)) = serde_json::from_str(text) {
        if let Some(name) = FLAGS.into_iter().find(|name| object.get(*name) == Some(&Value::Bool(false))) {
            return Some(with_false_member(name));
        }
        if let Some(word) = object.get("status").and_then(Value::as_str)
            && ["error", "fail", "failed", "failure"].iter().any(|known| known.eq_ignore_ascii_case(word))
        {
            return Some(in_json(&format!(".status == {}", Value::from(word))));
        }
        let condition = r#"(.error // "") != "" and .error != 0 and .error != [] and .error != {}"#;
        let nothing = [Value::Null, false.into(), "".into(), json!([]), json!({})];
        let is_error = |error: &&Value| !nothing.contains(error) && error.as_f64() != Some(0.0);
        return object.get("error").filter(is_error).map(|_| in_json(condition));
    }
    if markup::first_in_body(text).as_deref() == Some("Fault") {
        let reason = "a SOAP fault with a success status, in {} of the samples";
        return Some(ErrorEvidence { rule: json!({ "use": "soap" }), reason });
    }
    // `Errors: 0` is a report; `ERR 17`, `Error: …` and `ERROR` are errors. A report has several lines.
    static ERROR: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(&format!(r"(?i)^\s*(?:{ERROR_WORDS})(?:[\s:!\[(-]|$)")));
    static COUNT: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^\s*\w+\s*:\s*[-+]?[0-9]*\.?[0-9]+\s*$"));
    let is_error = ERROR.is_match(text) && !COUNT.is_match(text) && text.trim().lines().count() <= 3;
    let pattern = format!(r"(?i)^\s*(?:{ERROR_WORDS})\b[\s:!-]*(?<why>[^\r\n]*)");
    let rule = json!({ "when": { "text": pattern }, "error": "{{ why }}" });
    is_error.then_some(ErrorEvidence { rule, reason: REPORTED })
}

/// Rule for a tool error, with the evidence for it: the conditions on a response with a success status,
/// and the template of the error; or the preset in `use`.
pub(super) type InferredErrorRule = (Value, Finding);

/// Error rules for the failures among the samples, and one that the successes imply: if all have `"ok":
/// true`, `false` is presumably an error.
pub(super) fn error_rules(classified: &ClassifiedSamples<'_>) -> Vec<InferredErrorRule> {
    let mut rules = Vec::new();
    let mut known: Vec<&ErrorEvidence> = Vec::new();
    let mut add = |evidence: &ErrorEvidence, texts: &[String], confidence, reason: String| {
        let mut rule = evidence.rule.clone();
        if rule["when"]["json"].is_string() {
            rule["error"] = message(texts).into();
        }
        let what = "an error in a response with a success status";
        rules.push((rule, Finding::new("when", what, confidence, reason)));
    };
    for (_, evidence) in &classified.hidden_failures {
        if known.contains(&evidence) {
            continue;
        }
        let same = classified.hidden_failures.iter().filter(|(_, other)| other == evidence);
        let texts: Vec<String> =
            same.filter_map(|(sample, _)| sample_text(sample, classified.charset())).collect();
        let is_sure = texts.len() >= 2 && !classified.successes.is_empty();
        let confidence = if is_sure { Confidence::Sure } else { Confidence::Likely };
        add(evidence, &texts, confidence, evidence.reason.replace("{}", &texts.len().to_string()));
        known.push(evidence);
    }
    let implied = implied_error_member(classified).map(|name| (name, with_false_member(name)));
    if let Some((name, evidence)) = implied.filter(|(_, evidence)| !known.contains(&evidence)) {
        let reason = format!("every success has `{name}: true`; no sample has `false`");
        add(&evidence, &[], Confidence::Guess, reason);
    }
    rules
}

/// The member that is `true` in every success, and presumably `false` in an error.
fn implied_error_member(classified: &ClassifiedSamples<'_>) -> Option<&'static str> {
    let texts = classified.texts.as_ref()?;
    let is_true_in_all = |name: &str| {
        texts.iter().all(|text| {
            serde_json::from_str::<Value>(text).is_ok_and(|value| value.get(name) == Some(&Value::Bool(true)))
        })
    };
    FLAGS.into_iter().find(|name| is_true_in_all(name))
}

/// Template for the member that has the message in these texts.
fn message(texts: &[String]) -> String {
    const ERROR_PATHS: &str =
        "error.message error.detail message error detail reason msg error_message description result";
    const FALLBACK_MESSAGE: &str = "The service reported an error without a message.";
    let values: Vec<Value> = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let count = |path: &&str| {
        let pointer = format!("/{}", path.replace('.', "/"));
        let found = values.iter().filter_map(|value| value.pointer(&pointer)?.as_str());
        found.filter(|text| !text.is_empty()).count()
    };
    // The last of equals is the maximum, and the first is wanted.
    match ERROR_PATHS.rsplit(' ').filter(|path| count(path) > 0).max_by_key(count) {
        Some(path) => format!("{{{{ json.{path} | default(\"{FALLBACK_MESSAGE}\") }}}}"),
        None if values.is_empty() => format!("{{{{ json.message | default(\"{FALLBACK_MESSAGE}\") }}}}"),
        None => FALLBACK_MESSAGE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_distinguished_from_reports() {
        for (text, condition) in [
            ("{\"success\": false, \"message\": \"no\"}", ".success == false"),
            ("{\"status\": \"Error\"}", ".status == \"Error\""),
            (
                "{\"error\": {\"code\": 1}}",
                "(.error // \"\") != \"\" and .error != 0 and .error != [] and .error != {}",
            ),
        ] {
            assert_eq!(error_evidence(text).unwrap().rule, json!({ "when": { "json": condition } }));
        }
        for text in ["ERR 17 NO SUCH STATION\n", "Error: no city", "Error: 10.0.0.1", "ERROR\n"] {
            assert_eq!(error_evidence(text).unwrap().rule["error"], "{{ why }}");
        }
        let fault = "<s:Envelope xmlns:s='x'><s:Header/><s:Body><s:Fault/></s:Body></s:Envelope>";
        assert_eq!(error_evidence(fault).unwrap().rule, json!({ "use": "soap" }));
        for report in
            ["Errors: 0\n", "Error: 0", "{\"error\": null}", "{\"ok\": true}", "Failover: no\n", "1,2\n", ""]
        {
            assert_eq!(error_evidence(report), None, "{report}");
        }
    }
}
