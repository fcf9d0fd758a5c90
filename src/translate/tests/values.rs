//! The limit of the values that are read of a reply into one tree.

use super::*;
use crate::translate::extract::{Csv, Json, Part};

/// What becomes of a reply under a limit of ten values.
#[track_caller]
fn check(rules: Vec<Rule>, media_type: &str, body: &str, expected: Result<(), &str>) {
    let mut translator = translator(rules, None);
    translator.limits.values = 10;
    let result = run(&translator, &reply(200, media_type, body.to_owned()));
    let text = result.content[0].block.text(result.structured.as_ref()).unwrap_or_default().into_owned();
    match expected {
        Ok(()) => assert!(!result.is_error(), "{text}"),
        Err(place) => {
            let words = format!("expected at most 10 values, which is the `value_limit`, found more{place}.");
            assert!(result.is_error() && text.ends_with(&words), "{text}");
        }
    }
}

const TEN: &str = "[1,2,3,4,5,6,7,8,9]";
const ELEVEN: &str = "[1,2,3,4,5,6,7,8,9,\n{}]";
const PLACE: &str = " at line 1, column 19";

#[track_caller]
fn check_json(rule: impl Fn() -> Rule) {
    check(vec![rule()], "application/json", TEN, Ok(()));
    check(vec![rule()], "application/json", ELEVEN, Err(PLACE));
}

#[test]
fn json_with_too_many_values_is_an_error_once_a_rule_looks_into_it() {
    let json = || ExtractorKind::Json(Json);
    check(vec![success(json(), None, None)], "application/json", ELEVEN, Ok(()));
    check_json(|| success(json(), Some("."), None));
    check_json(|| success(json(), None, Some("{{ value | length }}")));
    check_json(|| success(json(), None, Some("{{ structured.result | length }}")));
    check_json(|| {
        let mut rule = success(json(), None, None);
        let Action::Success(action) = &mut rule.action else { unreachable!("it was made as one") };
        action.limit = Some(Limit { rows: Some(3), ..Limit::default() }.into());
        rule
    });
}

/// Were the next rule taken, an error in a reply of many values would pass for a success.
#[test]
fn a_condition_that_can_not_look_inside_leaves_the_reply_to_no_other_rule() {
    let looks = |filter: &str| Some(Jq::compile(filter).unwrap());
    let everything = || success(ExtractorKind::Json(Json), None, None);
    let json = Matcher { json: looks(".error"), ..Matcher::default() };
    check(vec![error(json, "no"), everything()], "application/json", ELEVEN, Err(PLACE));
    let value = Matcher { value: looks(".error"), ..Matcher::default() };
    check(vec![error(value, "no"), everything()], "application/json", ELEVEN, Err(PLACE));
    let not = Matcher { json: looks(".error"), ..Matcher::default() };
    let not = Matcher { not: Some(Box::new(not)), ..Matcher::default() };
    check(vec![error(not, "no"), everything()], "application/json", ELEVEN, Err(PLACE));
}

#[test]
fn what_other_extractors_find_is_counted_too() {
    let rows = || success(ExtractorKind::Csv(Csv::default()), None, None);
    check(vec![rows()], "text/csv", "a,b\n1,2\n3,4\n5,6\n", Ok(()));
    check(vec![rows()], "text/csv", "a,b\n1,2\n3,4\n5,6\n7,8\n", Err(""));
    let part = |name: &str| Part {
        name: name.to_owned(),
        extractor: Extractor::whole(ExtractorKind::Json(Json)),
        optional: false,
    };
    let parts = || {
        let mut rule = success(ExtractorKind::Json(Json), None, None);
        let Action::Success(action) = &mut rule.action else { unreachable!("it was made as one") };
        action.extract = Some(Extract::Parts(vec![part("a"), part("b")]));
        rule
    };
    check(vec![parts()], "application/json", "[1,2,3,4]", Ok(()));
    check(vec![parts()], "application/json", "[1,2,3,4,5]", Err(""));
}

#[test]
fn what_a_filter_gives_is_counted() {
    let mut translator = translator(vec![success(ExtractorKind::Json(Json), Some("[., .]"), None)], None);
    translator.limits.values = 10;
    let result = run(&translator, &reply(200, "application/json", "[1,2,3,4,5]"));
    let text = result.content[0].block.text(None).unwrap_or_default().into_owned();
    assert!(text.contains("`structured` gave more than 10 values, which is the `value_limit`"), "{text}");
}
