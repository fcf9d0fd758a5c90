//! Tests of the limits of a translation: values in one tree, and steps on threads that also serve other
//! calls.

use std::fmt::Write;

use super::*;
use crate::translate::extract::{Csv, ExtractPart, Json, Mcp, Pairs, SearchScope};

/// Checks the result for a response under a limit of ten values.
#[track_caller]
fn check_values(rules: Vec<Rule>, media_type: &str, body: &str, expected: Result<(), &str>) {
    let mut translator = translator(rules, None);
    translator.limits.values = 10;
    let result = run(&translator, &response(200, media_type, body.to_owned()));
    let text = result.content[0].block.text(result.structured.as_ref()).unwrap_or_default().into_owned();
    match expected {
        Ok(()) => assert!(!result.is_error(), "{text}"),
        Err(position) => {
            let message = format!("expected at most 10 values (`max_values`), found more{position}.");
            assert!(result.is_error() && text.ends_with(&message), "{text}");
        }
    }
}

const TEN_VALUES: &str = "[1,2,3,4,5,6,7,8,9]";
const ELEVEN_VALUES: &str = "[1,2,3,4,5,6,7,8,9,\n{}]";
const POSITION: &str = " at line 1, column 19";

#[track_caller]
fn check_json(rule: impl Fn() -> Rule) {
    check_values(vec![rule()], "application/json", TEN_VALUES, Ok(()));
    check_values(vec![rule()], "application/json", ELEVEN_VALUES, Err(POSITION));
}

#[test]
fn json_with_too_many_values_is_an_error_once_a_rule_looks_into_it() {
    let json = || ExtractorKind::Json(Json);
    check_values(vec![success(json(), None, None)], "application/json", ELEVEN_VALUES, Ok(()));
    check_values(vec![success(json(), None, Some("Done."))], "application/json", ELEVEN_VALUES, Ok(()));
    check_json(|| success(json(), Some("."), None));
    check_json(|| success(json(), None, Some("{{ value | length }}")));
    check_json(|| success(json(), None, Some("{{ structured.result | length }}")));
    check_json(|| {
        let mut rule = success(json(), None, None);
        let RuleAction::Success(action) = &mut rule.action else { unreachable!("it was made as one") };
        action.limit = Some(Limit { rows: Some(3), ..Limit::default() });
        rule
    });
}

/// If the next rule applied, an error in a response of many values would be taken for a success.
#[test]
fn a_condition_on_too_large_a_response_stops_rule_matching() {
    let compile_filter = |filter: &str| Some(Jq::compile(filter, &[]).unwrap());
    let catch_all = || success(ExtractorKind::Json(Json), None, None);
    let json = Matcher { json: compile_filter(".error"), ..Matcher::default() };
    check_values(vec![error(json, "no"), catch_all()], "application/json", ELEVEN_VALUES, Err(POSITION));
    let value = Matcher { value: compile_filter(".error"), ..Matcher::default() };
    check_values(vec![error(value, "no"), catch_all()], "application/json", ELEVEN_VALUES, Err(POSITION));
    let not = Matcher { json: compile_filter(".error"), ..Matcher::default() };
    let not = Matcher { not: Some(Box::new(not)), ..Matcher::default() };
    check_values(vec![error(not, "no"), catch_all()], "application/json", ELEVEN_VALUES, Err(POSITION));
}

#[test]
fn results_of_other_extractors_are_counted_too() {
    let csv_rule = || success(ExtractorKind::Csv(Csv::default()), None, None);
    check_values(vec![csv_rule()], "text/csv", "a,b\n1,2\n3,4\n5,6\n", Ok(()));
    check_values(vec![csv_rule()], "text/csv", "a,b\n1,2\n3,4\n5,6\n7,8\n", Err(""));
    let part = |name: &str| ExtractPart {
        name: name.to_owned(),
        extractor: Extractor::untyped(ExtractorKind::Json(Json)),
        optional: false,
    };
    let parts_rule = || {
        let mut rule = success(ExtractorKind::Json(Json), None, None);
        rule.extract = Some(Extract::Parts(vec![part("a"), part("b")]));
        rule
    };
    check_values(vec![parts_rule()], "application/json", "[1,2,3,4]", Ok(()));
    check_values(vec![parts_rule()], "application/json", "[1,2,3,4,5]", Err(""));
}

/// Checks the error text of a rule with one part.
#[track_caller]
fn check_part(kind: ExtractorKind, optional: bool, body: &str, expected: &str) {
    let mut rule = success(ExtractorKind::Json(Json), None, None);
    let part = ExtractPart { name: "a".to_owned(), extractor: Extractor::untyped(kind), optional };
    rule.extract = Some(Extract::Parts(vec![part]));
    let result = run(&translator(vec![rule], None), &response(200, "text/plain", body.to_owned()));
    let text = result.content[0].block.text(None).unwrap_or_default().into_owned();
    assert!(result.is_error() && text.contains(expected), "{text}");
}

#[test]
fn an_optional_part_with_too_many_matches_is_an_error() {
    let pattern = extract::CapturePattern::plain(Pattern::compile("(?<a>x)").unwrap());
    let patterns = extract::CapturePatterns(vec![pattern]);
    let regex = extract::Regex { patterns, each: SearchScope::Match, records: extract::Records::default() };
    check_part(ExtractorKind::Regex(regex), true, &"x".repeat(100_001), "expected at most 100000 matches");
}

#[test]
fn an_mcp_part_without_a_value_is_an_error() {
    check_part(ExtractorKind::Mcp(Mcp), false, r#"{"content": []}"#, "expected structured content or a text");
}

#[test]
fn the_output_of_a_filter_is_counted() {
    let mut translator = translator(vec![success(ExtractorKind::Json(Json), Some("[., .]"), None)], None);
    translator.limits.values = 10;
    let result = run(&translator, &response(200, "application/json", "[1,2,3,4,5]"));
    let text = result.content[0].block.text(None).unwrap_or_default().into_owned();
    assert!(text.contains("`structured` returned more values than `max_values` allows"), "{text}");
}

/// Whether the translation of a response takes more than ten thousand steps.
fn is_long(rule: Rule, body: &str) -> bool {
    let tool: ToolName = "get_weather".parse().unwrap();
    let (args, work_budget) = (json!({}), WorkBudget::with_steps(10_000));
    let input = CallInput { work_budget: Some(&work_budget), ..CallInput::new(&tool, &args) };
    let media_type = if body.starts_with('{') { "application/json" } else { "text/plain" };
    let translation = translate(
        &translator(vec![rule], None),
        input,
        &response(200, media_type, body.to_owned()),
        &mut Trace::off(),
    );
    assert!(
        work_budget.is_used_up() || translation.result.outcome == ToolOutcome::Success,
        "{:?}",
        translation.notes
    );
    work_budget.is_used_up()
}

fn filter_rule(filter: &str) -> Rule {
    success(ExtractorKind::Json(Json), Some(filter), None)
}

fn content_rule(template: &str) -> Rule {
    success(ExtractorKind::Json(Json), None, Some(template))
}

#[test]
fn a_short_response_with_much_work_is_detected() {
    let body = r#"{"n":40000}"#;
    assert!(is_long(filter_rule("reduce range(.n) as $i (0; . + $i)"), body));
    assert!(is_long(filter_rule("[range(.n)] | length"), body));
    assert!(is_long(filter_rule("[limit(.n; repeat(1))] | length"), body));
    assert!(is_long(content_rule("{% for i in range(structured.n) %}{{ i }}{% endfor %}"), body));
    let rows: Vec<Value> = (0..25)
        .map(|id| json!({"id": id, "name": format!("pump {id}"), "pressure": 1.5, "tags": ["a", "bb"], "on": id % 2 == 0}))
        .collect();
    let table = json!({"items": rows}).to_string();
    assert!(!is_long(
        filter_rule(
            "{on: [.items[] | select(.on) | {id, name, bar: (.pressure * 2)}], mean: ([.items[].pressure] | add / length)}"
        ),
        &table
    ));
    assert!(!is_long(
        filter_rule("[.items[] | \"\\(.id): \\(.name | sub(\"pump\"; \"P\")) \\(.tags | join(\"/\"))\"]"),
        &table
    ));
    assert!(!is_long(
        content_rule(
            "{% for item in structured[\"items\"] %}- {{ item.id }}: {{ item.name | upper }}\n{% endfor %}"
        ),
        &table
    ));
    // Conditions and blocks add up.
    let mut rule = filter_rule(".");
    rule.matcher.json = Some(Jq::compile("[range(100)] | length > 0", &[]).unwrap());
    assert!(!is_long(rule, body));
    let block = || {
        BlockTemplate::new(BlockPayload::Text(
            Template::compile("{% for i in range(500) %}{{ i }}{% endfor %}").unwrap(),
        ))
    };
    let mut rule = filter_rule(".");
    if let RuleAction::Success(rule) = &mut rule.action {
        rule.content = ContentTemplate((0..10).map(|_| block()).collect());
    }
    assert!(is_long(rule, body));
}

#[test]
fn patterns_that_look_again_and_again_are_counted() {
    let regex_rule = |pattern: &str| {
        let pattern = Pattern::compile(pattern).unwrap();
        let patterns = extract::CapturePatterns(vec![extract::CapturePattern::plain(pattern)]);
        success(
            ExtractorKind::Regex(extract::Regex {
                patterns,
                each: SearchScope::Match,
                records: extract::Records::default(),
            }),
            None,
            None,
        )
    };
    assert!(is_long(regex_rule("(?<x>a+b|a)"), &"a".repeat(7_000)));
    let mut lines = String::new();
    for line in 0..150 {
        let _ = writeln!(lines, "line_{line}: {}", line * 7919);
    }
    assert!(!is_long(regex_rule(r"(?m)^(?<key>\w+): (?<value>\d+)$"), &lines));
    assert!(!is_long(success(ExtractorKind::Pairs(Pairs::default()), None, None), &lines));
}
