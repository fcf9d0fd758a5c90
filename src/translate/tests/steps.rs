//! How many steps a translation takes: what serves other calls too takes a number of them, and no more.

use std::fmt::Write;

use super::*;
use crate::translate::extract::{Each, Json, Pairs};

/// Whether the translation of a reply takes more than ten thousand steps.
fn is_long(rule: Rule, body: &str) -> bool {
    let tool: ToolName = "get_weather".parse().unwrap();
    let (args, stop) = (json!({}), Stop::after(10_000));
    let facts = Facts { stop: Some(&stop), ..Facts::new(&tool, &args) };
    let media_type = if body.starts_with('{') { "application/json" } else { "text/plain" };
    let translation = translate(
        &translator(vec![rule], None),
        facts,
        &reply(200, media_type, body.to_owned()),
        &mut Trace::off(),
    );
    assert!(stop.has_run_out() || translation.result.outcome == Outcome::Success, "{:?}", translation.notes);
    stop.has_run_out()
}

fn filter(filter: &str) -> Rule {
    success(ExtractorKind::Json(Json), Some(filter), None)
}

fn content(template: &str) -> Rule {
    success(ExtractorKind::Json(Json), None, Some(template))
}

#[test]
fn a_short_reply_that_makes_much_work_is_told_from_one_that_does_not() {
    let n = r#"{"n":40000}"#;
    assert!(is_long(filter("reduce range(.n) as $i (0; . + $i)"), n));
    assert!(is_long(filter("[range(.n)] | length"), n));
    assert!(is_long(filter("[limit(.n; repeat(1))] | length"), n));
    assert!(is_long(content("{% for i in range(structured.n) %}{{ i }}{% endfor %}"), n));
    let rows: Vec<Value> = (0..25)
        .map(|id| json!({"id": id, "name": format!("pump {id}"), "pressure": 1.5, "tags": ["a", "bb"], "on": id % 2 == 0}))
        .collect();
    let table = json!({"items": rows}).to_string();
    assert!(!is_long(
        filter(
            "{on: [.items[] | select(.on) | {id, name, bar: (.pressure * 2)}], mean: ([.items[].pressure] | add / length)}"
        ),
        &table
    ));
    assert!(!is_long(
        filter("[.items[] | \"\\(.id): \\(.name | sub(\"pump\"; \"P\")) \\(.tags | join(\"/\"))\"]"),
        &table
    ));
    assert!(!is_long(
        content(
            "{% for item in structured[\"items\"] %}- {{ item.id }}: {{ item.name | upper }}\n{% endfor %}"
        ),
        &table
    ));
    // Every condition and every block counts, not each alone.
    let mut rule = filter(".");
    rule.matcher.json = Some(Jq::compile("[range(100)] | length > 0").unwrap());
    assert!(!is_long(rule, n));
    let block = || {
        BlockTemplate::new(Payload::Text(
            Template::compile("{% for i in range(500) %}{{ i }}{% endfor %}").unwrap(),
        ))
    };
    let mut rule = filter(".");
    if let Action::Success(rule) = &mut rule.action {
        rule.content = ContentTemplate::Blocks((0..10).map(|_| block()).collect());
    }
    assert!(is_long(rule, n));
}

#[test]
fn patterns_that_look_again_and_again_are_counted() {
    let matches = |pattern: &str| {
        let pattern = Pattern::compile(pattern).unwrap();
        let patterns = vec![extract::CapturePattern::plain(pattern)];
        success(
            ExtractorKind::Regex(extract::Regex { patterns, each: Each::Match, allow_empty: false }),
            None,
            None,
        )
    };
    assert!(is_long(matches("(?<x>a+b|a)"), &"a".repeat(7_000)));
    let mut lines = String::new();
    for line in 0..150 {
        let _ = writeln!(lines, "line_{line}: {}", line * 7919);
    }
    assert!(!is_long(matches(r"(?m)^(?<key>\w+): (?<value>\d+)$"), &lines));
    assert!(!is_long(success(ExtractorKind::Pairs(Pairs::default()), None, None), &lines));
}
