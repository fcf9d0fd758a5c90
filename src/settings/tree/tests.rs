//! Tests of the YAML parser: values that are parsed, and files that are rejected.

use serde_json::Value;

use super::*;
use crate::settings::problem_collector::reading;

#[track_caller]
fn check(text: &str, expected: Result<&str, &str>) {
    let (root, problems) = reading(text, |report| read(report, 0));
    match (root, expected) {
        (Some(root), Ok(expected)) if problems.is_empty() => {
            assert_eq!(root.to_json().to_string(), expected)
        }
        (_, Err(expected)) => {
            let found: Vec<_> = problems
                .iter()
                .map(|p| format!("{}:{} {}", p.line.unwrap(), p.column.unwrap(), p.message))
                .collect();
            assert_eq!(found.join("; "), expected);
        }
        (found, _) => panic!("found {found:?}, {problems:?}, expected {expected:?}"),
    }
}

#[test]
fn values_are_read_as_they_are_written() {
    check(
        "a: 1.0\nb: [yes, true, ~, \"5\"]\nc: |\n  x\n  y\nd: 12345678901234567890.0\n",
        Ok(r#"{"a":1.0,"b":["yes",true,null,"5"],"c":"x\ny\n","d":12345678901234567890.0}"#),
    );
    check("200: a\ntrue: b\n", Ok(r#"{"200":"a","true":"b"}"#));
    check("a: !!str 5\n", Ok(r#"{"a":"5"}"#));
}

#[test]
fn anchors_and_merges_are_put_in() {
    check(
        "a: &x { b: 1, c: 2 }\nd: { <<: *x, c: 3 }\ne: *x\n",
        Ok(r#"{"a":{"b":1,"c":2},"d":{"c":3,"b":1},"e":{"b":1,"c":2}}"#),
    );
    check(
        "a: &x { b: 1 }\nc: &y { b: 2, d: 3 }\ne: { <<: [*x, *y] }\n",
        Ok(r#"{"a":{"b":1},"c":{"b":2,"d":3},"e":{"b":1,"d":3}}"#),
    );
    check("a: { <<: 5 }\n", Err("1:6 `<<` must be a map or a list of maps, found the number `5`"));
    check("<<: {}\n<<: {}\n", Err("2:1 duplicate key `<<`, first defined in line 1"));
}

#[test]
fn only_a_plain_merge_key_merges() {
    check(r#"{ "<<": { "a": 1 }, '<<<': 2 }"#, Ok(r#"{"<<":{"a":1},"<<<":2}"#));
    check("'<<': 5\n", Ok(r#"{"<<":5}"#));
    check("!!str <<: 5\n", Ok(r#"{"<<":5}"#));
    check("a: <<\nb: [<<]\n", Ok(r#"{"a":"<<","b":["<<"]}"#));
    check("a: &x { b: 1 }\n\"<<\": 5\n<<: *x\n", Ok(r#"{"a":{"b":1},"<<":5,"b":1}"#));
    check("'<<': 1\n\"<<\": 2\n", Err("2:1 duplicate key `<<`, first defined in line 1"));
}

#[test]
fn a_syntax_error_has_a_position_and_a_clear_message() {
    check("", Err("1:1 the file is empty"));
    check("# nothing\n", Err("1:1 the file is empty"));
    check("a: \"b\nc: d\n", Err("1:4 this quote has no closing quote"));
    check("a: \"b\nc: \"d\"\n", Err("1:4 this quote has no closing quote"));
    let less_indented = |line| format!("this string continues in line {line}, which is not indented enough");
    check("a:\n  b: \"c\n  d\" # e\nf: g\n", Err(&format!("2:6 {}", less_indented(3))));
    check("a:\n  b: 'c\n\nd'\n", Err(&format!("2:6 {}", less_indented(4))));
    check("a:\n\tb: 1\n", Err("2:1 tabs can't be used for indentation"));
    check("a:\n  b: c\n\td: e\n", Err("3:1 tabs can't be used for indentation"));
    check("a:\n  b: c d\n\t\n\n  \td: e\n", Err("5:3 tabs can't be used for indentation"));
    check("a: [1, 2\nb: 3\n", Err("2:2 unexpected `:`"));
    check("a: b: c\n", Err("1:5 unexpected `:`"));
    check("a: *x\n", Err("1:4 undefined anchor"));
    check("a: 1\n---\nb: 2\n", Err("2:1 a second YAML document begins here; a file must have exactly one"));
    check("a: 1\na: 2\n", Err("2:1 duplicate key `a`, first defined in line 1"));
    check("a: !vault x\n", Err("1:11 the tag `!vault` is not supported"));
    check("? [a]\n: b\n", Err("1:3 a key must be a string, found a list"));
}

#[test]
fn hostile_files_are_rejected_in_time() {
    let refusal = |text: &str| {
        let (root, problems) = reading(text, |report| read(report, 0));
        assert!(root.is_none());
        problems[0].message.clone()
    };
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let previous = level - 1;
        let items = vec![format!("*a{previous}"); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(refusal(&bomb).contains("more than 200000 values"));
    let digits = format!("a: &a {}\nb: [{}]\n", "1".repeat(1 << 20), ["*a"; 20].join(", "));
    assert!(refusal(&digits).contains("more than 16MiB"), "{}", refusal(&digits));
    let mut deep = String::from("a0: &a0 x\n");
    for level in 1..40 {
        deep.push_str(&format!("a{level}: &a{level} {}*a{}{}\n", "[".repeat(60), level - 1, "]".repeat(60)));
    }
    assert!(refusal(&deep).contains("too deep"));
    assert!(refusal(&"[".repeat(100_000)).contains("too deep"));
}

#[track_caller]
fn check_number(text: &str, expected: Option<&str>) {
    assert_eq!(json_number(text).as_deref(), expected);
    if let Some(expected) = expected {
        serde_json::from_str::<Value>(expected).unwrap();
    }
}

#[test]
fn numbers_keep_every_digit() {
    check_number("12345678901234567890.10", Some("12345678901234567890.10"));
    check_number("1.0", Some("1.0"));
    check_number("-0", Some("-0"));
    check_number("+.5e+3", Some("0.5e+3"));
    check_number("5.", Some("5.0"));
    check_number("007", Some("7"));
    check_number("0x1F", Some("31"));
    check_number("0o17", Some("15"));
}

#[test]
fn texts_that_resemble_numbers_are_strings() {
    for text in ["", ".", "-", "1_000", "1e", "1.2.3", "12:30", ".inf", "0x", "0xg", "١"] {
        check_number(text, None);
    }
}
