//! Classification of samples as successes and failures, and rules for failures with a success status.

use super::{Confidence, Finding, Sample, markup, trial};
use crate::translate::Charset;
use serde_json::{Value, json};

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

impl ErrorEvidence {
    const REPORTED: &str = "{} of the samples report it with a success status";

    /// A condition on the JSON document, such as `.ok == false`.
    fn in_json(condition: &str) -> Self {
        Self { rule: json!({ "when": { "json": condition } }), reason: Self::REPORTED }
    }

    /// The member of this name is false.
    fn with_false_member(name: &str) -> Self {
        Self::in_json(&format!(".{name} == false"))
    }

    /// A pattern in the text, and the template of the error.
    fn in_text(pattern: &str, error: &str, reason: &'static str) -> Self {
        Self { rule: json!({ "when": { "text": pattern }, "error": error }), reason }
    }

    /// A preset.
    fn with_preset(name: &str, reason: &'static str) -> Self {
        Self { rule: json!({ "use": name }), reason }
    }
}

/// Words with which errors begin.
const ERROR_WORDS: [&str; 8] = ["ERR", "ERROR", "FAIL", "FAILED", "FAILURE", "FATAL", "EXCEPTION", "DENIED"];

/// Members of a JSON object that are `false` in an error.
const FLAGS: [&str; 3] = ["success", "ok", "succeeded"];

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
        true if is_page_rare => Some(ErrorEvidence::with_preset(
            "html_message",
            "a web page instead of data, in {} of the samples",
        )),
        true if is_password_rare && markup::has_password_field(text) => Some(ErrorEvidence::in_text(
            markup::PASSWORD_FIELD,
            "The service responded with a login page instead of data.",
            "a web page with a password field, in {} of the samples: set `credentials` of the upstream",
        )),
        _ => None,
    };
    let (mut successes, mut texts, mut hidden_failures) = (Vec::new(), Vec::new(), Vec::new());
    for (sample, text) in good.into_iter().zip(decoded) {
        let evidence =
            text.as_deref().and_then(|text| page_evidence(sample, text).or_else(|| error_evidence(text)));
        match evidence {
            Some(evidence) => hidden_failures.push((sample, evidence)),
            None => {
                successes.push(sample);
                texts.push(text);
            }
        }
    }
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    let texts = texts.filter(|texts| !texts.is_empty());
    ClassifiedSamples { successes, texts, charset, failures, hidden_failures }
}

fn is_page(sample: &Sample, text: &str) -> bool {
    markup::is_html(text, &sample.response.media_type().unwrap_or_default())
}

/// Decodes samples; also returns the charset that a rule must set for them.
fn decode(samples: &[&Sample]) -> (Option<Finding>, Vec<Option<String>>) {
    let read = |charset| samples.iter().map(|sample| trial::text(sample, charset)).collect::<Vec<_>>();
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
        Some(name) => format!("the text is not in `{name}`, which `Content-Type` declares"),
        None if label == "utf-8" => "the document declares an unknown charset".to_owned(),
        None => "the text is not in UTF-8, and `Content-Type` declares no charset".to_owned(),
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
            return Some(ErrorEvidence::with_false_member(name));
        }
        if let Some(word) = object.get("status").and_then(Value::as_str)
            && ["error", "fail", "failed", "failure"].iter().any(|known| known.eq_ignore_ascii_case(word))
        {
            return Some(ErrorEvidence::in_json(&format!(".status == {}", Value::from(word))));
        }
        let condition = r#"(.error // "") != "" and .error != 0 and .error != [] and .error != {}"#;
        let error = object.get("error").filter(|error| means_error(error));
        return error.map(|_| ErrorEvidence::in_json(condition));
    }
    if markup::first_in_body(text).as_deref() == Some("Fault") {
        let reason = "a SOAP fault with a success status, in {} of the samples";
        return Some(ErrorEvidence::with_preset("soap", reason));
    }
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    // `Errors: 0` is a report; `ERR 17`, `Error: …` and `ERROR` are errors. A report has several lines.
    let is_short = text.trim_end().lines().count() <= 3;
    let goes_on =
        rest.trim().is_empty() || rest.starts_with([' ', ':', '!', '-', '[', '(', '\t', '\r', '\n']);
    let is_number = rest.trim_start_matches([':', ' ']).trim().parse::<f64>().is_ok() && rest.contains(':');
    let is_known = ERROR_WORDS.iter().any(|known| known.eq_ignore_ascii_case(word));
    let pattern = format!(r"(?i)^\s*(?:{})\b[\s:!-]*(?<why>[^\r\n]*)", ERROR_WORDS.join("|"));
    let evidence = ErrorEvidence::in_text(&pattern, "{{ why }}", ErrorEvidence::REPORTED);
    (is_known && is_short && goes_on && !is_number).then_some(evidence)
}

/// Whether an `error` member has a value that means an error.
fn means_error(error: &Value) -> bool {
    let nothing = [Value::Null, false.into(), "".into(), json!([]), json!({})];
    !nothing.contains(error) && error.as_f64() != Some(0.0)
}

/// Rule for a tool error, with the evidence for it: the conditions on a response with a success status,
/// and the template of the error; or the preset in `use`.
pub(super) type InferredErrorRule = (Value, Finding);

/// Error rules for the failures among the samples, and one that the successes imply: if all have `"ok":
/// true`, `false` is presumably an error.
pub(super) fn error_rules(classified: &ClassifiedSamples<'_>) -> Vec<InferredErrorRule> {
    let mut rules: Vec<InferredErrorRule> = Vec::new();
    let mut known: Vec<&ErrorEvidence> = Vec::new();
    for (_, evidence) in &classified.hidden_failures {
        if known.contains(&evidence) {
            continue;
        }
        let same = classified.hidden_failures.iter().filter(|(_, other)| other == evidence);
        let texts: Vec<String> =
            same.filter_map(|(sample, _)| trial::text(sample, classified.charset())).collect();
        let is_sure = texts.len() >= 2 && !classified.successes.is_empty();
        let confidence = if is_sure { Confidence::Sure } else { Confidence::Likely };
        let reason = evidence.reason.replace("{}", &texts.len().to_string());
        rules.push(error_rule(evidence, &texts, confidence, reason));
        known.push(evidence);
    }
    let implied = implied_error_member(classified).map(|name| (name, ErrorEvidence::with_false_member(name)));
    if let Some((name, evidence)) = implied.filter(|(_, evidence)| !known.contains(&evidence)) {
        let reason = format!("every success has `{name}: true`; no sample has `false`");
        rules.push(error_rule(&evidence, &[], Confidence::Guess, reason));
    }
    rules
}

/// The rule for errors with this evidence, which samples with these texts have.
fn error_rule(
    evidence: &ErrorEvidence,
    texts: &[String],
    confidence: Confidence,
    reason: String,
) -> InferredErrorRule {
    let mut source = evidence.rule.clone();
    if source["when"]["json"].is_string() {
        source["error"] = message(texts).into();
    }
    (source, Finding::new("when", "an error in a response with a success status", confidence, reason))
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
        "error.message error.detail message error detail reason msg error_message description";
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
        for text in ["ERR 17 NO SUCH STATION\n", "Error: no city"] {
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
