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

/// Evidence of an error in a response with a success status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ErrorEvidence {
    /// The text begins with a word for an error.
    Word,
    /// This member of the JSON object is false, such as `success`.
    False(&'static str),
    /// The member `status` has this value.
    Status(String),
    /// The member `error` is present and not empty.
    Error,
    /// The text is a SOAP fault.
    SoapFault,
    /// The text is a web page, and the other samples are not.
    WebPage,
    /// The text is a web page with a password field, and other pages have none.
    LoginPage,
}

/// Words with which errors begin.
const ERROR_WORDS: [&str; 8] = ["ERR", "ERROR", "FAIL", "FAILED", "FAILURE", "FATAL", "EXCEPTION", "DENIED"];

/// Classifies the samples.
pub(super) fn classify(samples: &[Sample]) -> ClassifiedSamples<'_> {
    let (good, failures): (Vec<_>, Vec<_>) =
        samples.iter().partition(|sample| sample.response.status.is_success());
    let (charset, decoded) = decode(&good);
    let mut classified = ClassifiedSamples {
        successes: Vec::new(),
        texts: None,
        charset,
        failures,
        hidden_failures: Vec::new(),
    };
    let samples_and_texts = good.iter().zip(&decoded);
    let pages: Vec<&str> = samples_and_texts
        .filter_map(|(sample, text)| text.as_deref().filter(|text| is_page(sample, text)))
        .collect();
    let is_page_rare = pages.len() * 2 <= good.len();
    let is_password_rare = !pages.iter().all(|text| markup::has_password_field(text));
    // A page may stand in for the data, which the other samples have.
    let page_evidence = |sample: &Sample, text: &str| match is_page(sample, text) {
        true if is_page_rare => Some(ErrorEvidence::WebPage),
        true if is_password_rare && markup::has_password_field(text) => Some(ErrorEvidence::LoginPage),
        _ => None,
    };
    let mut texts = Some(Vec::new());
    for (sample, text) in good.into_iter().zip(decoded) {
        let evidence =
            text.as_deref().and_then(|text| page_evidence(sample, text).or_else(|| error_evidence(text)));
        match evidence {
            Some(evidence) => classified.hidden_failures.push((sample, evidence)),
            None => {
                classified.successes.push(sample);
                match (&mut texts, text) {
                    (Some(texts), Some(text)) => texts.push(text),
                    _ => texts = None,
                }
            }
        }
    }
    classified.texts = texts.filter(|texts| !texts.is_empty());
    classified
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
    match fallbacks.find(|(_, texts)| texts.iter().all(Option::is_some)) {
        Some((label, texts)) => (Some(charset_finding(label, samples[undecodable])), texts),
        None => (None, own),
    }
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
        for name in ["success", "ok", "succeeded"] {
            if object.get(name) == Some(&Value::Bool(false)) {
                return Some(ErrorEvidence::False(name));
            }
        }
        if let Some(word) = object.get("status").and_then(Value::as_str)
            && ["error", "fail", "failed", "failure"].iter().any(|known| known.eq_ignore_ascii_case(word))
        {
            return Some(ErrorEvidence::Status(word.to_owned()));
        }
        return object.get("error").filter(|error| means_error(error)).map(|_| ErrorEvidence::Error);
    }
    if markup::first_in_body(text).as_deref() == Some("Fault") {
        return Some(ErrorEvidence::SoapFault);
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
    (is_known && is_short && goes_on && !is_number).then_some(ErrorEvidence::Word)
}

/// Whether an `error` member has a value that means an error.
fn means_error(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) => true,
    }
}

/// Rule for a tool error.
#[derive(Debug, Clone)]
pub(super) struct InferredErrorRule {
    /// The conditions on a response with a success status, and the template of the error; or the preset in
    /// `use`.
    pub(super) source: Value,
    /// Evidence for it.
    pub(super) finding: Finding,
}

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
        let confidence = match texts.len() >= 2 && !classified.successes.is_empty() {
            true => Confidence::Sure,
            false => Confidence::Likely,
        };
        let (source, reason) = error_rule(evidence, &texts);
        rules.push(InferredErrorRule { source, finding: error_finding(confidence, reason) });
        known.push(evidence);
    }
    if let Some(name) = implied_error_member(classified)
        && !known.contains(&&ErrorEvidence::False(name))
    {
        let reason = format!("every success has `{name}: true`; no sample has `false`");
        let (source, _) = error_rule(&ErrorEvidence::False(name), &[]);
        rules.push(InferredErrorRule { source, finding: error_finding(Confidence::Guess, reason) });
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
    ["success", "ok", "succeeded"].into_iter().find(|name| is_true_in_all(name))
}

fn error_finding(confidence: Confidence, reason: String) -> Finding {
    Finding::new("when", "an error in a response with a success status", confidence, reason)
}

/// The rule for errors with this evidence, which samples with these texts have, and the reason for it.
fn error_rule(evidence: &ErrorEvidence, texts: &[String]) -> (Value, String) {
    let count = texts.len();
    let reported = format!("{count} of the samples report it with a success status");
    let own =
        |name: &str, condition: &str, error: &str| json!({ "when": { name: condition }, "error": error });
    let by_member = |condition: &str| (own("json", condition, &message(texts)), reported.clone());
    match evidence {
        ErrorEvidence::Word => {
            let words = ERROR_WORDS.join("|");
            let pattern = format!(r"(?i)^\s*(?:{words})\b[\s:!-]*(?<why>[^\r\n]*)");
            (own("text", &pattern, "{{ why }}"), reported.clone())
        }
        ErrorEvidence::False(name) => by_member(&format!(".{name} == false")),
        ErrorEvidence::Status(word) => by_member(&format!(".status == {}", Value::from(word.as_str()))),
        ErrorEvidence::Error => {
            by_member(r#"(.error // "") != "" and .error != 0 and .error != [] and .error != {}"#)
        }
        ErrorEvidence::SoapFault => {
            let reason = format!("a SOAP fault with a success status, in {count} of the samples");
            (json!({ "use": "soap" }), reason)
        }
        ErrorEvidence::WebPage => {
            let reason = format!("a web page instead of data, in {count} of the samples");
            (json!({ "use": "html_message" }), reason)
        }
        ErrorEvidence::LoginPage => {
            let reason = format!(
                "a web page with a password field, in {count} of the samples: set `credentials` of the \
                 upstream"
            );
            let error = "The service responded with a login page instead of data.";
            (own("text", markup::PASSWORD_FIELD, error), reason)
        }
    }
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
        assert_eq!(error_evidence("ERR 17 NO SUCH STATION\n"), Some(ErrorEvidence::Word));
        assert_eq!(error_evidence("Error: no city"), Some(ErrorEvidence::Word));
        assert_eq!(
            error_evidence("{\"success\": false, \"message\": \"no\"}"),
            Some(ErrorEvidence::False("success"))
        );
        assert_eq!(error_evidence("{\"status\": \"Error\"}"), Some(ErrorEvidence::Status("Error".into())));
        assert_eq!(error_evidence("{\"error\": {\"code\": 1}}"), Some(ErrorEvidence::Error));
        let fault = "<s:Envelope xmlns:s='x'><s:Header/><s:Body><s:Fault/></s:Body></s:Envelope>";
        assert_eq!(error_evidence(fault), Some(ErrorEvidence::SoapFault));
        for report in
            ["Errors: 0\n", "Error: 0", "{\"error\": null}", "{\"ok\": true}", "Failover: no\n", "1,2\n", ""]
        {
            assert_eq!(error_evidence(report), None, "{report}");
        }
    }
}
