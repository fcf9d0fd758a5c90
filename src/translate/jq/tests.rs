//! Tests of jq filters: results, errors, and limits of work and memory.

use std::sync::LazyLock;

use serde_json::json;

use super::bounds::{EFFECTIVE_MEMORY_LIMIT_BYTES, EFFECTIVE_WORK_LIMIT};
use super::*;

/// Because a debug build is slow.
const MAX_COUNT: usize = 200_000;

/// Variables of a filter: these arguments, and defaults.
fn variables(args: &Value) -> JqVariables<'_> {
    static NO_HEADERS: LazyLock<Value> = LazyLock::new(|| json!({}));
    JqVariables {
        args,
        input_responses: &Value::Null,
        status: 200,
        exit: None,
        headers: &NO_HEADERS,
        captures: &[],
        max_values: MAX_COUNT,
        work_budget: None,
    }
}

#[track_caller]
fn check(filter: &str, input: &str, expected: Result<&str, &str>) {
    let input = serde_json::from_str(input).unwrap();
    let args = json!({"city": "Oslo"});
    match (Jq::compile(filter, &[]).and_then(|jq| jq.apply(&input, variables(&args))), expected) {
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
    check(".a.b", r#"{"a": 1}"#, Err("failed on this input"));
    check("infinite", "null", Err("which is not JSON"));
    check("{(1|tostring): 2}", "null", Ok(r#"{"1":2}"#));
}

#[test]
fn filter_errors_are_reported() {
    check("{a: .b", "null", Err("`{` is never closed"));
    check(".a | frobnicate", "null", Err("there is no filter `frobnicate`"));
    check("$nope", "null", Err("there is no variable `$nope`"));
    check("map(", "null", Err("`(` is never closed"));
    check(".a |", "null", Err("expected"));
}

#[test]
fn a_filter_is_pure() {
    for filter in
        ["env", "$ENV", "now", "input", "inputs", "halt", "halt_error", "debug", "stderr", "localtime"]
    {
        check(filter, "null", Err("there is no"));
    }
    check("import \"a\" as a; 1", "null", Err(""));
}

#[test]
fn a_filter_that_nests_too_deep_is_rejected() {
    for filter in ["(".repeat(100_000), "-".repeat(100_000) + "1", ".a".to_owned() + &"|.a".repeat(100_000)] {
        check(&filter, "null", Err("more than 400 operators"));
    }
    check(&(".".to_owned() + &"|.".repeat(390)), "1", Ok("1"));
}

#[test]
fn a_filter_ends_for_any_response() {
    const WORK: &str = "takes more than 500000 steps, the work limit of a filter";
    const MEMORY: &str = "builds more than 3355443 bytes, the memory limit of a filter";
    check("{total: (.price * .count)}", r#"{"price": "x", "count": 1000000000000}"#, Err(MEMORY));
    check("[range(.n)] | length", r#"{"n": 1e15}"#, Err(WORK));
    check("reduce range(.n) as $i (0; . + $i)", r#"{"n": 40000}"#, Err(WORK));
    check("reduce .[] as $x (\"aaaaaaaa\"; . + .)", &format!("[{}0]", "0,".repeat(60)), Err(MEMORY));
    check("reduce .[] as $x (3; . * .)", &format!("[{}0]", "0,".repeat(60)), Err("builds an integer of"));
    check(". += . | . *= 2", "\"ab\"", Ok("\"abababab\""));
    check("[repeat(1)]", "null", Err(WORK));
    check("until(false; .)", "null", Err(WORK));
    const DEPTH: &str = "builds a value nested more than 4000 levels deep";
    check("until(false; [.])", "null", Err(DEPTH));
    check("[limit(1; recurse([[.]]) | select(false))]", "null", Err(DEPTH));
    check("reduce range(10000) as $i (1; {a: .})", "null", Err(DEPTH));
    check("reduce range(60) as $x (1; [., .])", "null", Err("more values than `max_values`"));
    for expression in [
        "tojson",
        "tostring",
        "\"\\(.)\"",
        "sort",
        "unique",
        "group_by(.)",
        "contains([1])",
        "indices([1])",
        "walk(.)",
        "[paths]",
        "flatten",
        "[..]",
        ". == [.]",
        ". - [1]",
        "[.[] | tojson]",
    ] {
        check(
            &format!("reduce range(60) as $x (1; [., .]) | {expression}"),
            "null",
            Err("limit of a filter"),
        );
    }
    check(".a | fromjson", &format!(r#"{{"a": "{}"}}"#, "[".repeat(100_000)), Err("failed on this input"));
    check(".a | fromjson | .[0].b", r#"{"a": "[{\"b\": 1.0}]"}"#, Ok("1.0"));
    check("def f: [f]; f", "null", Err("`f` calls itself"));
    check("def f: def g: f; g; f", "null", Err("`f` calls itself"));
    check("def f(x): x + 1; f(f(1))", "null", Ok("3"));
    check("[configured_filter, configured_filter_]", "null", Err("there is no filter `configured_filter`"));
    check("def configured_filter: 1; configured_filter", "null", Ok("1"));
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
    let variables = variables(&empty);
    let holds = |filter: &str, input| Jq::compile(filter, &[]).unwrap().is_true(&input, variables);
    assert!(holds("has(\"error\")", json!({"error": null})));
    assert!(!holds(".error", json!({"error": null})));
    assert!(!holds(".a.b.c", json!("text")));
    assert!(!holds("empty", json!(1)));
    assert!(holds("$status == 200", json!(1)));
}

#[test]
fn lists_are_iterated_freely_and_crossed_within_bounds() {
    let numbers = |count| Value::from((0..count).collect::<Vec<u32>>()).to_string();
    let long = numbers(3_000);
    let crossed_ends = |filter: &str| {
        let (input, empty) = (serde_json::from_str(&long).unwrap(), json!({}));
        let variables = JqVariables { max_values: 1_000_000, ..variables(&empty) };
        let error = Jq::compile(filter, &[]).unwrap().apply(&input, variables).unwrap_err();
        assert!(error.message.contains("limit of a filter"), "{filter}: {error:?}");
    };
    check("[.[] | select(. % 2 == 0) | . + 1] | length", &long, Ok("1500"));
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
    check("[.[] as $a | .[] as $b | $a * $b] | add", &numbers(70), Ok("5832225"));
}

#[test]
fn counted_expressions_are_still_paths() {
    let tree = r#"{"a": [{"n": 1}, {"n": 2}], "b": [{"n": 3}]}"#;
    check("[path(.a[] | select(.n > 1) | .n)]", tree, Ok(r#"[["a",1,"n"]]"#));
    check("(.[] | .[] | .n) |= . + 1 | [.. | numbers]", tree, Ok(r#"[2,3,4]"#));
    check("del(.a[] | select(.n == 1) | .n) | .a", tree, Ok(r#"[{},{"n":2}]"#));
    check("[path(recurse(.[]?) | numbers)] | length", tree, Ok(r#"3"#));
    check("(recurse(.[]?) | numbers) |= . * 2 | [.. | numbers]", tree, Ok(r#"[2,4,6]"#));
}

#[test]
fn a_filter_stops_when_the_call_is_cancelled() {
    let (jq, empty, work_budget) =
        (Jq::compile("reduce range(9) as $i (0; . + $i)", &[]).unwrap(), Value::Null, WorkBudget::default());
    let variables = || JqVariables { work_budget: Some(&work_budget), ..variables(&empty) };
    assert!(jq.apply(&empty, variables()).is_ok());
    work_budget.cancel();
    assert!(jq.apply(&empty, variables()).is_err());
}

#[test]
fn a_long_path_does_not_take_the_stack() {
    let check_all = || {
        let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let set =
            |length| format!("setpath([range({length}) | \"a\"]; 2) | getpath([range({length}) | \"a\"])");
        check(&set(100), &nested(100), Ok("2"));
        let deep = "reduce range(1000) as $i (1; {a: .})";
        check(&format!("{deep} | {}", set(1000)), "null", Err("nested more than 4000 levels"));
        check(
            &format!("{deep} | del(getpath([range(1000) | \"a\"]))"),
            "null",
            Err("nested more than 4000 levels"),
        );
    };
    // The same as the program's threads.
    std::thread::Builder::new().stack_size(128 << 20).spawn(check_all).unwrap().join().unwrap();
}

/// Steps taken and bytes allocated by a filter.
#[track_caller]
fn cost(filter: &str, input: &Value) -> (u64, u64) {
    let empty = json!({});
    let budget = RunBudget::new(None);
    let converted = to_jq(input).unwrap();
    let result = Jq::compile(filter, &[]).unwrap().apply_to(converted, variables(&empty), &budget);
    assert!(result.is_ok(), "{filter}: {result:?}");
    (EFFECTIVE_WORK_LIMIT - budget.steps_left.get(), EFFECTIVE_MEMORY_LIMIT_BYTES - budget.bytes_left.get())
}

#[test]
fn a_list_twice_as_long_takes_twice_as_much() {
    let rows = |count: usize| -> Value {
        let row = |number| json!({"key": format!("k{number}"), "value": number, "list": [number, number]});
        (0..count).map(row).collect()
    };
    for filter in [
        "reduce .[] as $x ([]; . + [$x])",
        "reduce .[] as $x ([]; . + [$x.list | add])",
        "reduce .[] as $x ({}; .all += [$x.value])",
        "reduce .[] as $x ({}; .all |= . + [$x | if .value > 3 then .key else .value end])",
        "reduce .[] as $x ({}; .[$x.key] = $x.value)",
        "reduce .[] as $x (\"\"; . + ($x | .key | ascii_upcase))",
        "reduce .[] as $x ({}; . * {($x.key): {a: 1}})",
        "[foreach .[] as $x (0; . + $x.value)]",
        "map(.list) | add",
        "map(.key) | add",
        "map(.key) | join(\", \")",
        "map({(.key): .value}) | add",
        "from_entries",
        "from_entries | with_entries(.value += 1)",
        "map(to_entries | from_entries)",
        "map(.key) | join(\" \") | gsub(\"k\"; \"K\")",
        "map(.key) | join(\" \") | [match(\"k[0-9]+\"; \"g\") | .string]",
        "map(.key) | join(\" \") | split(\" \")",
        "group_by(.key) | map(length)",
        "map(.list) | flatten",
    ] {
        let (once, twice) = (cost(filter, &rows(200)), cost(filter, &rows(400)));
        let is_twice = |once: u64, twice: u64| twice as f64 <= 2.2 * once as f64;
        assert!(is_twice(once.0, twice.0) && is_twice(once.1, twice.1), "{filter}: {once:?} {twice:?}");
    }
}

#[test]
fn comparisons_of_a_sort_take_time_but_no_steps_of_the_filter() {
    let spent = |filter: &str| {
        let (work_budget, empty) = (WorkBudget::with_steps(1_000_000), json!({}));
        let numbers = Value::from((0..1024).collect::<Vec<u32>>());
        let variables = JqVariables { work_budget: Some(&work_budget), ..variables(&empty) };
        Jq::compile(filter, &[]).unwrap().apply(&numbers, variables).unwrap();
        1_000_000 - work_budget.steps_left().unwrap()
    };
    for filter in ["sort", "sort_by(-.)", "group_by(. % 7)", "unique"] {
        let time = spent(filter) - spent("reverse");
        assert!((1024 * 10 / 4..1024 * 16 / 4).contains(&time), "{filter}: {time}");
    }
    let million = Value::from((0..EFFECTIVE_WORK_LIMIT / 10).collect::<Vec<u64>>());
    assert!(cost("sort", &million).0 < EFFECTIVE_WORK_LIMIT / 5);
}

#[test]
fn the_steps_of_a_loop_do_not_depend_on_the_size_of_its_value() {
    let filter = "reduce range(2500) as $i ({all: ., n: 0}; .n += 1) | .n";
    let numbers = |count: usize| Value::from(vec![json!([1]); count]);
    assert_eq!(cost(filter, &numbers(3)).0, cost(filter, &numbers(3_000)).0);
}

#[test]
fn the_values_that_a_run_creates_are_counted() {
    const MEMORY: &str = "bytes, the memory limit of a filter";
    let numbers = Value::from((0..20_000).collect::<Vec<u32>>()).to_string();
    let text = Value::from("a ".repeat(200_000)).to_string();
    for filter in [
        "[range(100) as $i | .[0] = $i] | length",
        "reduce range(100) as $i ({}; .[\"\\($i)\"] = ($all | .[0] = $i))",
        "reduce range(100) as $i ([]; . + [$all + [$i]])",
        "[range(100) as $i | {all: ($all | map(.))}] | length",
        "[range(200) as $i | $all | tojson] | length",
        "[range(100) as $i | $all | sort] | length",
        "[range(100) as $i | $all | reverse] | length",
        "[foreach range(100) as $i ($all; . + [$i])] | length",
    ] {
        check(&format!(". as $all | {filter}"), &numbers, Err(MEMORY));
    }
    for filter in [
        "split(\"\") | length",
        "[scan(\".\")] | length",
        "[range(100) | $all | explode] | length",
        "[range(100) | $all | ascii_upcase] | length",
        "[range(100) | $all | @base64] | length",
        "[range(100) | \"\\($all)!\"] | length",
        "[range(100) | $all + \"!\"] | length",
    ] {
        check(&format!(". as $all | {filter}"), &text, Err(MEMORY));
    }
    check("gsub(\"a\"; \"b\") | length", &Value::from("a ".repeat(1000)).to_string(), Ok("2000"));
}

#[test]
fn nothing_catches_the_end_of_a_run() {
    for filter in [
        "try until(false; .) catch 1",
        "[.[]?, (until(false; .)?)]",
        "(until(false; .) // 1)",
        "first((until(false; .)?), 1)",
        "[limit(1; (until(false; .)?), 1)]",
    ] {
        check(filter, "[]", Err("the work limit of a filter"));
    }
    let empty = json!({});
    assert!(!Jq::compile("(until(false; .)?) // true", &[]).unwrap().is_true(&json!(1), variables(&empty)));
    assert!(Jq::compile("(until(false; .)?) // false", &[]).unwrap().is_true_before_request(&empty, &empty));
}

#[test]
fn a_round_costs_what_the_page_says() {
    let cost_of_each = |filter: &str| {
        let list = |count: usize| Value::from(vec![0; count]);
        (cost(filter, &list(300)).0 - cost(filter, &list(200)).0) / 100
    };
    let about = |steps: u64| steps..steps + 8;
    assert!(about(JQ_FOLD_STEPS).contains(&cost_of_each("reduce .[] as $x (0; . + $x)")));
    assert!(about(JQ_ROUND_STEPS).contains(&cost_of_each("last(range(length))")));
    assert!(about(1).contains(&cost_of_each("[.[] | . + 1]")));
}

#[test]
fn a_truncated_message_of_the_engine_is_marked() {
    let (jq, empty) = (Jq::compile(". + 1", &[]).unwrap(), json!({}));
    let is_cut = |text: String| jq.apply(&text.into(), variables(&empty)).unwrap_err().is_detail_cut;
    assert!(!is_cut("é".to_owned()));
    // The limit lies between two characters, or inside one.
    assert!((0..3).all(|before| is_cut("x".repeat(before) + &"é".repeat(200))));
}

#[test]
fn numbers_out_of_bounds_are_not_computed_with() {
    const BOUNDS: &str = "at most 400 digits and an exponent from -400 to 400";
    let nines = |count: usize| "9".repeat(count);
    check(".b", &format!(r#"{{"a": {}, "b": 1}}"#, nines(401)), Err(BOUNDS));
    check(".a", &format!(r#"{{"a": {}}}"#, nines(400)), Ok(&nines(400)));
    check(".a", r#"{"a": 1e-9998}"#, Err(BOUNDS));
    for filter in ["tonumber", "fromjson", "try tonumber catch error", "\"[\\(.)]\" | fromjson"] {
        let text = Value::from(nines(200_000)).to_string();
        let (jq, empty) = (Jq::compile(filter, &[]).unwrap(), json!({}));
        let error = jq.apply(&serde_json::from_str(&text).unwrap(), variables(&empty)).unwrap_err();
        let detail = error.detail.unwrap_or_default();
        assert!(detail.contains(BOUNDS), "{filter}: {detail}");
    }
    check(
        "fromjson",
        r#""{\"a\": \"1e9998 \\\"2e9998\", \"b\": -1.5e300}""#,
        Ok(r#"{"a":"1e9998 \"2e9998","b":-1.5e+300}"#),
    );
    check("tonumber", "\"12.50\"", Ok("12.50"));
    check("[.[] | try tonumber catch \"no\"]", r#"["1", "1e999", "x"]"#, Ok(r#"[1,"no","no"]"#));
}

#[test]
fn patterns_find_what_they_find_elsewhere() {
    let text = "\"Zoë: aXbX\"";
    check("[match(\"X\"; \"g\") | .offset]", text, Ok("[6,8]"));
    check(
        "match(\"(?<v>[a-z])X\") | [.offset, .length, .string, .captures]",
        text,
        Ok(r#"[5,2,"aX",[{"offset":5,"length":1,"string":"a","name":"v"}]]"#),
    );
    check("sub(\"(?<v>[a-z])X\"; \"<\\(.v)>\")", text, Ok("\"Zoë: <a>bX\""));
    check("gsub(\"x\"; \"-\"; \"i\")", text, Ok("\"Zoë: a-b-\""));
    check("gsub(\"\"; \"-\")", "\"ab\"", Ok("\"-a-b-\""));
    check("[sub(\"a\"; \"1\", \"2\")]", "\"ab\"", Ok(r#"["1b","2b"]"#));
    check("[scan(\"[a-z]X\")]", text, Ok(r#"["aX","bX"]"#));
    check("[splits(\"X\")]", text, Ok(r#"["Zoë: a","b",""]"#));
    check("split(\"X\"; null)", text, Ok(r#"["Zoë: a","b",""]"#));
    check("capture(\"(?<y>[0-9]+)-(?<m>[0-9]+)\")", "\"2026-05\"", Ok(r#"{"y":"2026","m":"05"}"#));
    check("[test(\"x\"), test(\"x\"; \"i\"), test(\"q\")]", text, Ok("[false,true,false]"));
    // The second group is before the first.
    check("[match(\"(?:(a)|(b))+\").captures[].offset]", "\"ba\"", Ok("[1,0]"));
    check("test(\"(\")", text, Err("failed on this input"));
    check("test(\"a\"; \"q\")", text, Err("failed on this input"));
    check("test(\"(a{900}){900}\")", text, Err("failed on this input"));
}
