//! Forms of lines that are known by themselves: metrics, form fields.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;

use super::{Candidate, full_lines};

static SAMPLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^[A-Za-z_:][A-Za-z0-9_:]*(\{[^}]*\})?\s+[-+0-9.eEInfNa]+(\s+[0-9.]+)?$"#)
        .expect("a good pattern")
});
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[A-Za-z0-9._~%+\-\[\]]+=[^\s&]*(&[A-Za-z0-9._~%+\-\[\]]+=[^\s&]*)*$")
        .expect("a good pattern")
});

/// Prometheus' text.
pub(super) fn metrics(texts: &[&str]) -> Option<Candidate> {
    let is_one = |text: &&str| {
        let told = full_lines(text).any(|line| line.starts_with("# TYPE ") || line.contains('{'));
        told && full_lines(text).all(|line| line.starts_with('#') || SAMPLE.is_match(line.trim()))
    };
    texts
        .iter()
        .all(is_one)
        .then(|| Candidate::strict(json!("metrics"), "every line is a sample of a metric, or tells of one"))
}

/// `a=1&b=2`.
pub(super) fn form(texts: &[&str], media_type: &str) -> Option<Candidate> {
    let named = media_type == "application/x-www-form-urlencoded";
    let is_one = |text: &&str| FORM.is_match(text.trim()) && (named || text.contains('&'));
    texts
        .iter()
        .all(is_one)
        .then(|| Candidate::strict(json!("form"), "every sample is `name=value&…` in one line"))
}
