//! Classification of samples as successes and failures, and rules for failures with a success status.

use super::{
    Confidence, Finding, Sample, candidates::non_blank_lines, html_and_xml, run_extractor, sample_text,
};
use crate::authoring::pluralize;
use crate::config::quoted_list;
use crate::settings::fixed_regex;
use crate::translate::Charset;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Samples, classified as successes and failures.
#[derive(Debug, Clone)]
pub(super) struct ClassifiedSamples<'a> {
    pub(super) successes: Vec<&'a Sample>,
    /// Decompressed and decoded texts of the successes; `None` if one of them is binary.
    pub(super) texts: Option<Vec<String>>,
    /// Charset that the rules must set, because the samples declare no charset or a wrong one.
    pub(super) charset: Option<Finding>,
    /// Samples that are failures by their HTTP status.
    pub(super) failures: Vec<&'a Sample>,
    /// Samples that are failures with a success status, each with the evidence.
    pub(super) hidden_failures: Vec<(&'a Sample, ErrorEvidence)>,
    /// Samples that the extractor does not parse, without evidence of an error.
    pub(super) omitted: Vec<&'a Sample>,
}

impl<'a> ClassifiedSamples<'a> {
    /// Label of the charset that the rules must set, if any.
    pub(super) fn charset(&self) -> Option<&str> {
        self.charset.as_ref().map(|finding| finding.value.as_str())
    }

    /// Iterates over the samples that the route handles: successes, failures by status, hidden failures.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Sample> {
        let hidden_failures = self.hidden_failures.iter().map(|(sample, _)| *sample);
        self.successes.iter().copied().chain(self.failures.iter().copied()).chain(hidden_failures)
    }

    /// Returns the samples with `kept` as the only successes. Of the `outliers`, whose format differs,
    /// messages of one line become failures, and the others are omitted.
    pub(super) fn with_successes(&self, kept: &[usize], outliers: &[usize]) -> Self {
        let text = |index: &usize| self.texts.as_ref()?.get(*index).cloned();
        let texts: Option<Vec<String>> = kept.iter().map(text).collect();
        let others = pluralize(kept.len(), "sample");
        let reason = format!("{{names}}: not in the format of {others}; check whether it is an error");
        let evidence = |index: &usize| outlier_message(&text(index)?, texts.as_ref()?, &reason);
        let (mut hidden_failures, mut omitted) = (self.hidden_failures.clone(), Vec::new());
        for index in outliers {
            let sample = self.successes[*index];
            match evidence(index) {
                Some(evidence) => hidden_failures.push((sample, evidence)),
                None => omitted.push(sample),
            }
        }
        let successes = kept.iter().map(|index| self.successes[*index]).collect();
        Self { successes, hidden_failures, omitted, texts, ..self.clone() }
    }
}

/// Pattern of what precedes a message at the start of a text.
const START: &str = r"^\s*";
/// Pattern of what precedes a message in the second line of a text.
const GREETING: &str = r"^[^\n]*\n\s*";

/// Finds evidence of an error in a text that is sent in place of data: one line, or one line below a
/// greeting, such as `OK MPD 0.23`, that successes begin with, too.
fn outlier_message(text: &str, successes: &[String], reason: &str) -> Option<ErrorEvidence> {
    let is_greeted = successes.iter().any(|success| success.lines().next() == text.lines().next());
    let (start, message) = match text.split_once('\n') {
        Some((_, rest)) if is_greeted => (GREETING, rest),
        _ => (START, text),
    };
    let mut lines = non_blank_lines(message);
    lines.next().filter(|line| !line.trim_start().starts_with("OK") && lines.next().is_none())?;
    error_in_text(message, start).or_else(|| {
        let rule =
            json!({ "when": { "text": message_pattern(message, start, successes) }, "error": "{{ why }}" });
        Some(ErrorEvidence { rule, reason: reason.to_owned(), max_confidence: Confidence::Guess })
    })
}

/// Pattern of a message that is sent in place of data: a line whose words are separated by single spaces.
/// If a success matches this pattern too, or the message is below a greeting, the pattern is a line that
/// begins with the first word of the message.
fn message_pattern(message: &str, start: &str, successes: &[String]) -> String {
    // Excludes rows of a table by their delimiters, and JSON and XML documents by their first character.
    const LINE: &str = r"^\s*(?<why>[^\s<{\[,;|][^\s,;|]*(?: [^\s,;|]+)*)\s*$";
    let line = fixed_regex(LINE);
    if start == START && line.is_match(message) && !successes.iter().any(|success| line.is_match(success)) {
        return LINE.to_owned();
    }
    let first = regex::escape(message.split_whitespace().next().unwrap_or_default());
    format!(r"{start}(?<why>{first}(?:\s.*\S)?)\s*$")
}

/// Evidence of an error in a response with a success status, with the error rule that detects it.
#[derive(Debug, Clone)]
pub(super) struct ErrorEvidence {
    /// The rule: conditions on the response and the template of the error, or a preset in `use`.
    rule: Value,
    /// Reason for the rule, with `{}` in place of the number of samples, and `{names}` of their names.
    reason: String,
    /// Maximum confidence in the rule.
    max_confidence: Confidence,
}

impl ErrorEvidence {
    fn sure(rule: Value, reason: &str) -> Self {
        Self { rule, reason: reason.to_owned(), max_confidence: Confidence::Sure }
    }
}

/// Reason for a rule whose evidence is within a single response.
const REPORTED: &str = "{} of the samples report an error with a success status";

/// Words that error messages begin with.
const ERROR_WORDS: &str = "ERR|ERROR|FAIL|FAILED|FAILURE|FATAL|EXCEPTION|DENIED";

/// Members of a document whose value is `false` in an error.
const FLAGS: [&str; 3] = ["success", "ok", "succeeded"];
/// Members of a document that contain a word for success or error.
const STATUS_WORDS: &str = "status @status stat @stat";
/// Members that contain a word or a number for success, and another value in an error.
const RESULT_CODES: &str = "result code errcode errno error_code errorCode retcode ret";
/// Members that contain the message of an error and no data.
const MESSAGES: &str = "message msg errmsg error_message error errors detail reason";

/// JSON or XML document with members.
struct SampleDocument {
    members: Map<String, Value>,
    is_xml: bool,
}

impl SampleDocument {
    fn read(sample: &Sample, text: &str, charset: Option<&str>) -> Option<Self> {
        let is_xml = text.trim_start_matches('\u{feff}').trim_start().starts_with('<');
        let value = match is_xml {
            true if is_page(sample, text) => return None,
            true => run_extractor(&"xml".into(), charset, &[sample]).ok()?.pop()?,
            false => serde_json::from_str(text).ok()?,
        };
        let Value::Object(members) = value else { return None };
        Some(Self { members, is_xml })
    }

    /// Creates evidence with a jq condition on documents of this kind.
    fn evidence(&self, condition: &str, reason: &str, max_confidence: Confidence) -> ErrorEvidence {
        let rule = match self.is_xml {
            true => json!({ "when": { "value": condition }, "extract": "xml", "error": self.message() }),
            false => json!({ "when": { "json": condition }, "error": self.message() }),
        };
        ErrorEvidence { rule, reason: reason.to_owned(), max_confidence }
    }

    /// Whether the document has a member with this name whose value is not empty, `null`, `false` or 0.
    fn has(&self, name: &str) -> bool {
        let empty_values = [Value::Null, false.into(), 0.into(), "".into(), json!([]), json!({})];
        self.members.get(name).is_some_and(|value| !empty_values.contains(value))
    }

    /// Returns a member as a word in lower case; `null` if it is missing.
    fn word(&self, name: &str) -> String {
        let value = self.members.get(name).unwrap_or(&Value::Null);
        value.as_str().map_or_else(|| value.to_string(), str::to_ascii_lowercase)
    }

    /// Finds evidence of an error in the document alone.
    fn error_evidence(&self) -> Option<ErrorEvidence> {
        let is_false = |name: &&str| self.word(name) == "false";
        let is_error_word = |name: &&str| ["error", "fail", "failed", "failure"].contains(&&*self.word(name));
        let status = FLAGS.into_iter().find(is_false).or_else(|| STATUS_WORDS.split(' ').find(is_error_word));
        let condition = match status {
            Some(name) => format!("{} == {}", jq_path(name), self.members[name]),
            None => {
                let path = jq_path(["error", "fault"].into_iter().find(|name| self.has(name))?);
                format!(r#"({path} // "") != "" and {path} != 0 and {path} != [] and {path} != {{}}"#)
            }
        };
        Some(self.evidence(&condition, REPORTED, Confidence::Sure))
    }

    /// Finds evidence of an error by comparison with a success: a different status or a list of errors,
    /// together with missing data or, if the success has no data, with a message.
    fn error_evidence_compared_with(&self, success: &Self) -> Option<ErrorEvidence> {
        let statuses = || STATUS_WORDS.split(' ').chain(RESULT_CODES.split(' '));
        let is_data = |name: &&str| {
            !statuses().chain(MESSAGES.split(' ')).any(|other| other == *name) && success.has(name)
        };
        let mut data = success.members.keys().map(String::as_str).filter(is_data).peekable();
        let has_less_data = match data.peek() {
            Some(_) => !data.all(|name| self.has(name)),
            None => MESSAGES.split(' ').any(|name| self.has(name)),
        };
        let is_success_word = |word: &str| ["success", "ok", "true", "0", "200"].contains(&word);
        let differs = |name: &&str| {
            self.members.contains_key(*name)
                && is_success_word(&success.word(name))
                && !is_success_word(&self.word(name))
        };
        let (name, condition) = match statuses().find(differs) {
            Some(name) => (name, format!("{} != {}", jq_path(name), success.members[name])),
            None if self.has("errors") && !success.has("errors") => {
                ("errors", r#"(.errors // "" | length) > 0 and .data == null"#.to_owned())
            }
            None => return None,
        };
        let reason = format!("another `{name}` than in a success, and less data, in {{}} of the samples");
        has_less_data.then(|| self.evidence(&condition, &reason, Confidence::Likely))
    }

    /// Template that inserts the member with the error message.
    fn message(&self) -> String {
        const PATHS: &str = r#"error.message error["@message"] error.detail errors[0].message message error
            detail reason msg errmsg error_message description result
            fault.value.struct.member[1].value.string errors[0] errors.error errors"#;
        let document = Value::Object(self.members.clone());
        let has_text = |path: &&str| {
            let pointer = format!("/{}", path.replace(['.', '['], "/").replace([']', '"'], ""));
            document.pointer(&pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        };
        let root = if self.is_xml { "value" } else { "json" };
        let found = PATHS.split_whitespace().find(has_text);
        found.map_or_else(|| NO_MESSAGE.to_owned(), |path| message_template(root, path))
    }
}

const NO_MESSAGE: &str = "The service reported an error without a message.";

/// Template that inserts the text at a path.
fn message_template(root: &str, path: &str) -> String {
    format!("{{{{ {root}.{path} | default(\"{NO_MESSAGE}\") }}}}")
}

/// jq path of a member of the document.
fn jq_path(name: &str) -> String {
    if name.starts_with('@') { format!(".\"{name}\"") } else { format!(".{name}") }
}

/// Classifies samples as successes and failures.
pub(super) fn classify(samples: &[Sample]) -> ClassifiedSamples<'_> {
    let (with_success_status, failures): (Vec<_>, Vec<_>) =
        samples.iter().partition(|sample| sample.response.status.is_success());
    let (charset, decoded) = decode(&with_success_status);
    let samples_and_texts = with_success_status.iter().zip(&decoded);
    let pages: Vec<&str> = samples_and_texts
        .filter_map(|(sample, text)| text.as_deref().filter(|text| is_page(sample, text)))
        .collect();
    let is_page_rare = pages.len() * 2 <= with_success_status.len();
    let is_password_in_all = pages.iter().all(|text| html_and_xml::has_password_field(text));
    // A web page may be returned in place of the data that the other samples contain.
    let page_evidence = |sample: &Sample, text: &str| match is_page(sample, text) {
        true if is_page_rare => Some(ErrorEvidence::sure(
            json!({ "use": "html_message" }),
            "a web page instead of data, in {} of the samples",
        )),
        true if !is_password_in_all && html_and_xml::has_password_field(text) => Some(ErrorEvidence::sure(
            json!({
                "when": { "text": html_and_xml::PASSWORD_FIELD },
                "error": "The service responded with a login page instead of data.",
            }),
            "a web page with a password field, in {} of the samples: set `credentials` of the upstream",
        )),
        _ => None,
    };
    let (mut successes, mut texts, mut hidden_failures) = (Vec::new(), Vec::new(), Vec::new());
    let label = charset.as_ref().map(|finding| finding.value.as_str());
    let read =
        |(sample, text): (&&Sample, &Option<String>)| SampleDocument::read(sample, text.as_deref()?, label);
    let documents: Vec<Option<SampleDocument>> = with_success_status.iter().zip(&decoded).map(read).collect();
    for ((sample, text), document) in with_success_status.into_iter().zip(&decoded).zip(&documents) {
        let evidence = text.as_deref().and_then(|text| {
            let compare = |other| document.as_ref()?.error_evidence_compared_with(other);
            page_evidence(sample, text)
                .or_else(|| document.as_ref()?.error_evidence())
                .or_else(|| error_in_text(text, START))
                .or_else(|| documents.iter().flatten().find_map(compare))
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
    ClassifiedSamples { successes, texts, charset, failures, hidden_failures, omitted: Vec::new() }
}

fn is_page(sample: &Sample, text: &str) -> bool {
    html_and_xml::is_html(text, &sample.response.media_type().unwrap_or_default())
}

/// Decodes samples; also returns the charset that a rule must set, if the declared one is missing or wrong.
fn decode(samples: &[&Sample]) -> (Option<Finding>, Vec<Option<String>>) {
    let read = |charset| samples.iter().map(|sample| sample_text(sample, charset)).collect::<Vec<_>>();
    let declared = read(None);
    let Some(undecodable) = declared.iter().position(Option::is_none) else { return (None, declared) };
    let mut fallbacks = ["utf-8", "windows-1252"].into_iter().map(|label| (label, read(Some(label))));
    let fallback = fallbacks.find(|(_, texts)| texts.iter().all(Option::is_some));
    fallback.map_or((None, declared), |(label, texts)| {
        (Some(charset_finding(label, samples[undecodable])), texts)
    })
}

/// Evidence for a charset: a sample that cannot be decoded with the declared one.
fn charset_finding(label: &str, sample: &Sample) -> Finding {
    let problem = match sample.response.charset() {
        Some(name) if name.parse::<Charset>().is_err() => {
            format!("`Content-Type` declares `{name}`, which is not a charset")
        }
        Some(name) => format!("`{name}`, which `Content-Type` declares, does not decode it"),
        None => "the charset that the text declares, or else UTF-8, does not decode it".to_owned(),
    };
    let (confidence, explanation) = match label {
        "utf-8" => (Confidence::Likely, "every sample is in UTF-8"),
        _ => (Confidence::Guess, "this charset decodes any bytes: change it if letters are wrong"),
    };
    Finding::new("charset", label, confidence, format!("{problem}; {explanation}"))
}

/// Finds evidence of an error: a SOAP fault, or a text of at most three lines that begins with an error word.
/// `start` is the pattern of what precedes the text in the response.
fn error_in_text(text: &str, start: &str) -> Option<ErrorEvidence> {
    if html_and_xml::first_in_body(text).as_deref() == Some("Fault") {
        let reason = "a SOAP fault with a success status, in {} of the samples";
        return Some(ErrorEvidence::sure(json!({ "use": "soap" }), reason));
    }
    // `Errors: 0` is data; `ERR 17`, `Error: …` and `ERROR` are errors. A text of more than three lines
    // is data.
    static ERROR: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(&format!(r"(?i)^\s*(?:{ERROR_WORDS})(?:[\s:!\[(-]|$)")));
    static COUNT: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^\s*\w+\s*:\s*[-+]?[0-9]*\.?[0-9]+\s*$"));
    let is_error = ERROR.is_match(text) && !COUNT.is_match(text) && text.trim().lines().count() <= 3;
    let pattern = format!(r"(?i){start}(?:{ERROR_WORDS})\b[\s:!-]*(?<why>[^\r\n]*)");
    let rule = json!({ "when": { "text": pattern }, "error": "{{ why }}" });
    is_error.then(|| ErrorEvidence::sure(rule, REPORTED))
}

/// Rule for a tool error, with its evidence. The rule has conditions on a response with a success status and
/// the template of the error, or a preset in `use`.
pub(super) type InferredErrorRule = (Value, Finding);

/// Returns error rules for the failures among the samples, and one that the successes imply: if all successes
/// have `"ok": true`, then `false` is presumably an error.
pub(super) fn error_rules(classified: &ClassifiedSamples<'_>) -> Vec<InferredErrorRule> {
    let implied = implied_error(classified);
    let hidden = || classified.hidden_failures.iter().map(|(_, evidence)| evidence);
    let mut rules: Vec<InferredErrorRule> = Vec::new();
    for ErrorEvidence { rule, reason, max_confidence } in hidden().chain(&implied) {
        let is_same = |other: &Value| ["when", "use"].iter().all(|key| other.get(key) == rule.get(key));
        if rules.iter().any(|(existing, _)| is_same(existing)) {
            continue;
        }
        let same_failures = classified.hidden_failures.iter().filter(|(_, other)| is_same(&other.rule));
        let names: Vec<&str> = same_failures.map(|(sample, _)| sample.name.as_str()).collect();
        let is_sure = names.len() >= 2 && !classified.successes.is_empty();
        let confidence = if is_sure { Confidence::Sure } else { Confidence::Likely };
        let reason = reason.replace("{}", &names.len().to_string());
        let reason = reason.replace("{names}", &quoted_list(names));
        let condition = "an error in a response with a success status";
        rules.push((rule.clone(), Finding::new("when", condition, confidence.min(*max_confidence), reason)));
    }
    rules
}

/// Evidence for an error that no sample contains: a member is `true` in every success, so `false` indicates
/// an error.
fn implied_error(classified: &ClassifiedSamples<'_>) -> Option<ErrorEvidence> {
    let texts = classified.texts.as_ref()?;
    let documents: Vec<Value> =
        texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>().ok()?;
    let is_true_in_all = |name: &&str| documents.iter().all(|document| document[*name] == true);
    let name = FLAGS.into_iter().find(is_true_in_all)?;
    let error = message_template("json", "message");
    let rule = json!({ "when": { "json": format!(".{name} == false") }, "error": error });
    let reason = format!("every success has `{name}: true`; no sample has `false`");
    Some(ErrorEvidence { rule, reason, max_confidence: Confidence::Guess })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Option<SampleDocument> {
        let Ok(Value::Object(members)) = serde_json::from_str(text) else { return None };
        Some(SampleDocument { members, is_xml: false })
    }

    #[test]
    fn errors_are_distinguished_from_data() {
        for (text, condition) in [
            ("{\"success\": false, \"message\": \"no\"}", ".success == false"),
            ("{\"status\": \"Error\"}", ".status == \"Error\""),
            (
                "{\"error\": {\"code\": 1}}",
                "(.error // \"\") != \"\" and .error != 0 and .error != [] and .error != {}",
            ),
        ] {
            let evidence = document(text).unwrap().error_evidence().unwrap();
            assert_eq!(evidence.rule["when"], json!({ "json": condition }));
        }
        for text in ["ERR 17 NO SUCH STATION\n", "Error: no city", "Error: 10.0.0.1", "ERROR\n"] {
            assert_eq!(error_in_text(text, START).unwrap().rule["error"], "{{ why }}");
        }
        let fault = "<s:Envelope xmlns:s='x'><s:Header/><s:Body><s:Fault/></s:Body></s:Envelope>";
        assert_eq!(error_in_text(fault, START).unwrap().rule, json!({ "use": "soap" }));
        for report in
            ["Errors: 0\n", "Error: 0", "{\"error\": null}", "{\"ok\": true}", "Failover: no\n", "1,2\n", ""]
        {
            let evidence = document(report).and_then(|document| document.error_evidence());
            assert!(evidence.or_else(|| error_in_text(report, START)).is_none(), "{report}");
        }
    }

    #[test]
    fn an_error_lacks_the_status_and_the_data_of_a_success() {
        for (text, success, condition) in [
            (r#"{"code": 4, "msg": "no"}"#, r#"{"code": 0, "msg": "ok"}"#, Some(".code != 0")),
            (r#"{"code": 4, "data": null}"#, r#"{"code": 0, "data": [1]}"#, Some(".code != 0")),
            (
                r#"{"status": "DENIED", "rows": []}"#,
                r#"{"status": "OK", "rows": [1]}"#,
                Some(".status != \"OK\""),
            ),
            (
                r#"{"data": null, "errors": [{"message": "no"}]}"#,
                r#"{"data": {"a": 1}}"#,
                Some(r#"(.errors // "" | length) > 0 and .data == null"#),
            ),
            (r#"{"sent": 5, "errors": 2}"#, r#"{"sent": 5, "errors": 0}"#, None),
            (r#"{"imported": 5, "errors": ["row 7"]}"#, r#"{"imported": 5}"#, None),
            (r#"{"status": "degraded", "disk": 99}"#, r#"{"status": "ok", "disk": 5}"#, None),
            (r#"{"code": 4, "name": "rain"}"#, r#"{"code": 0, "name": "sun"}"#, None),
            (r#"{"code": 0, "data": []}"#, r#"{"code": 0, "data": [1]}"#, None),
        ] {
            let evidence = document(text).unwrap().error_evidence_compared_with(&document(success).unwrap());
            let found = evidence.map(|evidence| evidence.rule["when"]["json"].clone());
            assert_eq!(found, condition.map(Value::from), "{text}");
        }
    }
}
