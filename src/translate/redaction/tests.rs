//! Patterns, what they replace, and how long that takes.

use serde_json::{Map, Value, json};

use super::*;
use crate::translate::matcher::Pattern;

fn redaction(patterns: &[&str]) -> Redaction {
    let secret = |source: &&str| SecretPattern::new(&Pattern::compile(source).unwrap()).unwrap();
    Redaction::new(patterns.iter().map(secret).collect())
}

#[track_caller]
fn check(patterns: &[&str], text: &str, expected: &str) {
    let redaction = redaction(patterns);
    let hidden = redaction.hide(text).into_owned();
    assert_eq!(hidden, expected);
    assert_eq!(redaction.hide(&hidden), expected, "what is hidden stays as it is");
}

#[test]
fn what_matches_is_replaced() {
    check(&[r"\b\d{4}-\d{4}\b"], "card 1234-5678 of Bo", "card [redacted] of Bo");
    check(&[r"card \d+", r"\d+ of \w+"], "card 12 of Bo", "[redacted]");
    check(&[r"\d"], "1234 x 5", "[redacted] x [redacted]");
    check(&[r"\w+"], "a b", "[redacted] [redacted]");
    check(&[r"(?i)user=(?<secret>\w+)"], "user=bo, USER=al", "user=[redacted], USER=[redacted]");
    check(&[r"user=(?<secret>\w+)|anna"], "user=bo, anna", "user=[redacted], [redacted]");
    check(&["søn"], "person: søn!", "person: [redacted]!");
    check(&[], "as it is", "as it is");
}

#[test]
fn a_secret_at_the_cut_is_replaced_as_a_whole() {
    let redaction = redaction(&["(?s)KEY.*?END"]);
    let long = format!("{}KEY{}END and more", "x".repeat(90), "y".repeat(5000));
    let shown = redaction.capped(&long, 100);
    assert!(shown.len() <= 100 && shown.ends_with(" […]") && !shown.contains(['K', 'y']), "{shown}");
    let many = format!("{} tail", "KEYyEND ".repeat(40));
    let shown = redaction.capped(&many, 64);
    assert!(shown.len() <= 64 && shown.ends_with("[…]") && !shown.contains('y'), "{shown}");
    let begun = redaction.beginning(&format!("why {long}"), 100);
    assert_eq!(begun, "why");
}

#[test]
fn a_quote_that_was_cut_is_not_shown() {
    let redaction = redaction(&["secret"]);
    let check = |sentence: &str, expected: &str| {
        assert_eq!(redaction.without_cut_quotes(sentence), expected);
    };
    check(
        "line 3: expected `key: value`, found `a `b` sec…`",
        "line 3: expected `key: value`, found [redacted]",
    );
    check("a value of `sec…` expected", "a value of [redacted] expected");
    check("expected XML, found \"<sec…\"", "expected XML, found [redacted]");
    check("found `sec […]`, not gzip", "found [redacted], not gzip");
    check("expected `a`, found `b`", "expected `a`, found `b`");
}

#[test]
fn every_part_of_a_value_is_looked_through() {
    let redaction = redaction(&[r"\d{6,}", "bo@x"]);
    let value =
        json!({"card": 1234567, "n": 5, "bo@x": [{"to": "bo@x!"}, true], "1234567": 1, "12345678": 2});
    assert_eq!(
        redaction.hide_in(value),
        json!({"card": "[redacted]", "n": 5, "[redacted]": [{"to": "[redacted]!"}, true], "[redacted]+": 1,
            "[redacted]+2": 2})
    );
    assert_eq!(redaction.hide_in(json!("x".repeat(REACH_BYTES + 1))), json!("[redacted]"));
}

#[test]
fn a_pattern_says_what_is_to_be_replaced() {
    let refused = |source| SecretPattern::new(&Pattern::compile(source).unwrap()).unwrap_err();
    assert_eq!(refused(r"\d*"), SecretPatternError::MatchesNothing);
    assert_eq!(refused("(?<card>x)"), SecretPatternError::Capture("card".into()));
}

#[test]
fn a_long_text_is_looked_through_in_linear_time() {
    // Each `KEY` begins a match that has no end: far more of them than are shown.
    let redaction = redaction(&["(?s)KEY.*END|token"]);
    let text = "KEYtoken".repeat(1 << 15);
    assert!(!redaction.capped(&text, 2048).contains("token"));
}

#[test]
fn a_text_of_any_length_is_looked_through() {
    let redaction = redaction(&["se+cret"]);
    for before in [0, REACH_BYTES - 3, REACH_BYTES, 3 * REACH_BYTES - 1] {
        let (before, secret) = ("é".repeat(before / 2), "s".to_owned() + &"e".repeat(1000) + "cret");
        let text = format!("{before}{secret} and {before}{secret}");
        assert_eq!(redaction.hide_long(&text), format!("{before}[redacted] and {before}[redacted]"));
    }
    assert_eq!(Redaction::default().hide_long("secret"), "secret");
}

#[test]
fn many_names_that_become_one_are_told_apart_in_linear_time() {
    let members: Map<String, Value> =
        (0..20_000).map(|number| (format!("secret{number}"), number.into())).collect();
    let Value::Object(hidden) = redaction(&[r"secret\d+"]).hide_in(Value::Object(members)) else {
        panic!("an object stays one")
    };
    assert_eq!((hidden.len(), hidden.get("[redacted]+19999")), (20_000, Some(&Value::from(19_999))));
}
