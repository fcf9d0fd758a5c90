//! Rules for errors that come with a success status.

use serde_json::{Value, json};

use super::{
    Finding, Sure,
    samples::{ERROR_WORDS, Sign, Sorted},
    trial,
};

/// A rule that makes a tool error.
#[derive(Debug, Clone)]
pub(super) struct ErrorRule {
    /// When it holds.
    pub(super) when: Value,
    /// The template of its text.
    pub(super) error: String,
    /// What speaks for it.
    pub(super) finding: Finding,
}

/// The rules for the errors that were seen, and for one that the successes speak of.
pub(super) fn rule(sorted: &Sorted<'_>) -> Option<Vec<ErrorRule>> {
    let mut rules: Vec<ErrorRule> = Vec::new();
    let mut known: Vec<Sign> = Vec::new();
    let charset = sorted.charset.as_ref().map(|charset| charset.label);
    for (_, sign) in &sorted.hidden {
        // One rule has all words.
        let sign = if matches!(sign, Sign::Word(_)) { Sign::Word(ERROR_WORDS[0]) } else { sign.clone() };
        if known.contains(&sign) {
            continue;
        }
        let same = |other: &Sign| *other == sign || matches!((other, &sign), (Sign::Word(_), Sign::Word(_)));
        let texts: Vec<String> = sorted
            .hidden
            .iter()
            .filter(|(_, other)| same(other))
            .filter_map(|(sample, _)| trial::text(sample, charset))
            .collect();
        let sure = if texts.len() >= 2 && !sorted.successes.is_empty() { Sure::Sure } else { Sure::Likely };
        rules.push(of_sign(
            &sign,
            &texts,
            sure,
            format!("{} of the samples say so with a success status", texts.len()),
        ));
        known.push(sign);
    }
    if let Some(name) = promised(sorted)
        && !known.contains(&Sign::False(name))
    {
        let why = format!("every success says `{name}: true`; no sample shows the other");
        rules.push(of_sign(&Sign::False(name), &[], Sure::Guess, why));
    }
    (!rules.is_empty()).then_some(rules)
}

/// The member that says `true` in every success, and would say `false` of an error.
fn promised(sorted: &Sorted<'_>) -> Option<&'static str> {
    let texts = sorted.texts.as_ref()?;
    let says = |name: &str| {
        texts.iter().all(|text| {
            serde_json::from_str::<Value>(text).is_ok_and(|value| value.get(name) == Some(&Value::Bool(true)))
        })
    };
    ["success", "ok", "succeeded"].into_iter().find(|name| says(name))
}

fn of_sign(sign: &Sign, texts: &[String], sure: Sure, why: String) -> ErrorRule {
    let (when, error) = match sign {
        Sign::Word(_) => {
            let words = ERROR_WORDS.join("|");
            let pattern = format!(r"(?i)^\s*(?:{words})\b[\s:!-]*(?<why>[^\r\n]*)");
            (json!({ "status": "2xx", "text": pattern }), "{{ why }}".to_owned())
        }
        Sign::False(name) => {
            (json!({ "status": "2xx", "json": format!(".{name} == false") }), message(texts))
        }
        Sign::Status(word) => {
            let condition = format!(".status == {}", Value::from(word.as_str()));
            (json!({ "status": "2xx", "json": condition }), message(texts))
        }
        Sign::Error => {
            let condition = r#"(.error // "") != "" and .error != 0 and .error != [] and .error != {}"#;
            (json!({ "status": "2xx", "json": condition }), message(texts))
        }
    };
    let value = "an error in a reply with a success status".to_owned();
    ErrorRule { when, error, finding: Finding { part: "when".into(), value, sure, why } }
}

/// The template for where these texts have their message.
fn message(texts: &[String]) -> String {
    const PLACES: [&str; 9] = [
        "error.message",
        "error.detail",
        "message",
        "error",
        "detail",
        "reason",
        "msg",
        "error_message",
        "description",
    ];
    const OTHERWISE: &str = "The upstream reported an error without a message.";
    let values: Vec<Value> = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let at = |value: &Value, place: &str| {
        value
            .pointer(&format!("/{}", place.replace('.', "/")))
            .is_some_and(|found| found.as_str().is_some_and(|text| !text.is_empty()))
    };
    let place =
        PLACES.into_iter().filter(|place| values.iter().any(|value| at(value, place))).max_by_key(|place| {
            let order = PLACES.len() - PLACES.iter().position(|other| other == place).unwrap_or_default();
            (values.iter().filter(|value| at(value, place)).count(), order)
        });
    match place {
        Some(place) => format!("{{{{ json.{place} | default(\"{OTHERWISE}\") }}}}"),
        None if values.is_empty() => format!("{{{{ json.message | default(\"{OTHERWISE}\") }}}}"),
        None => OTHERWISE.to_owned(),
    }
}
