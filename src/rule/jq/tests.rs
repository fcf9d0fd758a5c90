use std::sync::LazyLock;

use serde_json::json;

use super::*;

/// As a debug build is slow.
const MOST: usize = 200_000;

/// What a filter sees beside its value: these arguments, and nothing else of note.
fn names(args: &Value) -> JqNames<'_> {
    static NO_HEADERS: LazyLock<Value> = LazyLock::new(|| json!({}));
    JqNames {
        args,
        answers: &Value::Null,
        status: 200,
        exit: None,
        headers: &NO_HEADERS,
        captures: &[],
        most_values: MOST,
        stop: None,
    }
}

#[track_caller]
fn check(filter: &str, input: &str, expected: Result<&str, &str>) {
    let input = serde_json::from_str(input).unwrap();
    let args = json!({"city": "Oslo"});
    match (Jq::compile(filter).and_then(|jq| jq.apply(&input, names(&args))), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
        (Err(error), Err(part)) => assert!(error.message.contains(part), "{error}"),
        (found, _) => panic!("found {found:?}, expected {expected:?}"),
    }
}

#[test]
fn a_filter_reshapes_a_value_and_keeps_the_text_of_numbers() {
    check(
        "{temperature: .temp, big: .big, city: $args.city}",
        r#"{"temp": 5.0, "big": 12345678901234567890}"#,
        Ok(r#"{"temperature":5.0,"big":12345678901234567890,"city":"Oslo"}"#),
    );
    check("map(.a) | add", r#"[{"a": 1}, {"a": 2}]"#, Ok("3"));
}

#[test]
fn a_filter_gives_one_value_or_an_error() {
    check(".[]", "[1, 2]", Err("more than one value"));
    check("empty", "[]", Err("no value"));
    check(".a.b", r#"{"a": 1}"#, Err("does not fit the reply"));
    check("infinite", "null", Err("JSON has not"));
    check("{(1|tostring): 2}", "null", Ok(r#"{"1":2}"#));
}

#[test]
fn what_is_wrong_with_a_filter_is_said() {
    check("{a: .b", "null", Err("`{` is never closed"));
    check(".a | frobnicate", "null", Err("there is no filter `frobnicate`"));
    check("$nope", "null", Err("there is no variable `$nope`"));
    check("map(", "null", Err("`(` is never closed"));
    check(".a |", "null", Err("expected"));
}

#[test]
fn a_filter_can_not_reach_the_world() {
    for filter in
        ["env", "$ENV", "now", "input", "inputs", "halt", "halt_error", "debug", "stderr", "localtime"]
    {
        check(filter, "null", Err("there is no"));
    }
    check("import \"a\" as a; 1", "null", Err(""));
}

#[test]
fn a_filter_that_nests_without_end_is_refused() {
    for filter in ["(".repeat(100_000), "-".repeat(100_000) + "1", ".a".to_owned() + &"|.a".repeat(100_000)] {
        check(&filter, "null", Err("more than 400 operators"));
    }
    check(&(".".to_owned() + &"|.".repeat(390)), "1", Ok("1"));
}

#[test]
fn a_filter_has_an_end_whatever_the_reply() {
    check("{total: (.price * .count)}", r#"{"price": "x", "count": 1000000000000}"#, Err("does not fit"));
    check("[range(.n)] | length", r#"{"n": 1e15}"#, Err("does not fit"));
    check("reduce .[] as $x (\"aaaaaaaa\"; . + .)", &format!("[{}0]", "0,".repeat(60)), Err("does not fit"));
    check("reduce .[] as $x (3; . * .)", &format!("[{}0]", "0,".repeat(60)), Err("does not fit"));
    check(". += . | . *= 2", "\"ab\"", Ok("\"abababab\""));
    check("[repeat(1)]", "null", Err("does not fit"));
    check("until(false; .)", "null", Err("does not fit"));
    check("reduce range(60) as $x (1; [., .])", "null", Err("more than"));
    check(".a | fromjson", &format!(r#"{{"a": "{}"}}"#, "[".repeat(100_000)), Err("does not fit"));
    check(".a | fromjson | .[0].b", r#"{"a": "[{\"b\": 1.0}]"}"#, Ok("1.0"));
    check(
        "{b: .a}",
        &format!(r#"{{"a": {}}}"#, "9".repeat(200_000)),
        Ok(&format!(r#"{{"b":{}}}"#, "9".repeat(200_000))),
    );
    check("def f: [f]; f", "null", Err("`f` calls itself"));
    check("def f: def g: f; g; f", "null", Err("`f` calls itself"));
    check("def f(x): x + 1; f(f(1))", "null", Ok("3"));
}

#[test]
fn loops_and_paths_work_within_the_bounds() {
    check("[range(3)], [range(1; 4)], [range(5; 0; -2)] | add", "null", Err("more than one"));
    check("[[range(3)], [range(1; 4)], [range(5; 0; -2)]]", "null", Ok("[[0,1,2],[1,2,3],[5,3,1]]"));
    check("[recurse(.c[]) | .v] | add", r#"{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": []}]}"#, Ok("6"));
    check("[limit(3; repeat(7))]", "null", Ok("[7,7,7]"));
    check("until(. > 100; . * 2)", "1", Ok("128"));
    check(".a += 1 | .b[0] *= 2", r#"{"a": 1, "b": [4]}"#, Ok(r#"{"a":2,"b":[8]}"#));
    check("[.[] + (10, 20)]", "[1, 2]", Ok("[11,12,21,22]"));
    check("{a: 1} * {b: {c: 2}} | .b.c + 1", "null", Ok("3"));
    check("map(.x) | add, length | tostring", "[]", Err("more than one"));
}

#[test]
fn a_condition_that_fails_does_not_hold() {
    let empty = json!({});
    let names = names(&empty);
    let holds = |filter: &str, input| Jq::compile(filter).unwrap().holds(&input, names);
    assert!(holds("has(\"error\")", json!({"error": null})));
    assert!(!holds(".error", json!({"error": null})));
    assert!(!holds(".a.b.c", json!("text")));
    assert!(!holds("empty", json!(1)));
    assert!(holds("$status == 200", json!(1)));
}

#[test]
fn lists_are_gone_through_freely_and_crossed_within_bounds() {
    let numbers = |count| Value::from((0..count).collect::<Vec<u32>>()).to_string();
    let long = numbers(30_000);
    let crossed_ends = |filter: &str| {
        let (input, empty) = (serde_json::from_str(&long).unwrap(), json!({}));
        let names = JqNames { most_values: 1_000_000, ..names(&empty) };
        let error = Jq::compile(filter).unwrap().apply(&input, names).unwrap_err();
        assert!(
            error.detail.as_ref().is_some_and(|detail| detail.contains("too much work")),
            "{filter}: {error:?}"
        );
    };
    check("[.[] | select(. % 2 == 0) | . + 1] | length", &long, Ok("15000"));
    for crossed in [
        "[.[] as $a | .[] as $b | $a] | length",
        ". as $all | [.[] | $all[]] | length",
        "[.[] == .[]] | length",
        "[.[] - .[]] | length",
        "[{a: .[], b: .[]}] | length",
        "[\"\\(.[]) \\(.[])\"] | length",
        "def both($a; $b): $a; [both(.[]; .[])] | length",
        ". as $all | [$all[.[]:.[]] | length] | length",
        "first(.[] as $a | .[] as $b | select($a < 0) | $a)",
        ". as $all | .[] |= last($all[] | select(. >= 0))",
    ] {
        crossed_ends(crossed);
    }
    check("[.[] as $a | .[] as $b | $a * $b] | add", &numbers(100), Ok("24502500"));
}

#[test]
fn what_is_counted_is_a_path_all_the_same() {
    let tree = r#"{"a": [{"n": 1}, {"n": 2}], "b": [{"n": 3}]}"#;
    check("[path(.a[] | select(.n > 1) | .n)]", tree, Ok(r#"[["a",1,"n"]]"#));
    check("(.[] | .[] | .n) |= . + 1 | [.. | numbers]", tree, Ok(r#"[2,3,4]"#));
    check("del(.a[] | select(.n == 1) | .n) | .a", tree, Ok(r#"[{},{"n":2}]"#));
    check("[path(recurse(.[]?) | numbers)] | length", tree, Ok(r#"3"#));
    check("(recurse(.[]?) | numbers) |= . * 2 | [.. | numbers]", tree, Ok(r#"[2,4,6]"#));
}

#[test]
fn a_filter_ends_when_nobody_waits_any_more() {
    let (jq, empty, stop) =
        (Jq::compile("reduce range(9) as $i (0; . + $i)").unwrap(), Value::Null, Stop::default());
    let names = || JqNames { stop: Some(&stop), ..names(&empty) };
    assert!(jq.apply(&empty, names()).is_ok());
    stop.now();
    assert!(jq.apply(&empty, names()).is_err());
}
