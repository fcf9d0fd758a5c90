//! Tests of metrics as servers print them, and of invalid ones.

use super::*;

fn metrics(names: &[&str], shape: MetricsShape) -> Metrics {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Metrics { names, shape, help: false, allow_empty: false }
}

#[track_caller]
fn check(metrics: &Metrics, text: &str, expected: Result<&str, &str>) {
    match (metrics.extract(text), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, _) => panic!("found {:.400}", format!("{found:?}")),
    }
}

#[track_caller]
fn check_sample(line: &str, expected: Result<&str, &str>) {
    let list = expected.map(|expected| format!("[{expected}]"));
    check(&metrics(&[], MetricsShape::Samples), line, list.as_deref().map_err(|error| *error));
}

#[test]
fn a_sample_has_name_type_labels_and_value() {
    check_sample("up 1", Ok(r#"{"name":"up","type":"untyped","labels":{},"value":1}"#));
    check_sample(
        "# HELP rpc_seconds Time \\\\ of\\ncalls\n# TYPE rpc_seconds histogram\r\nrpc_seconds_bucket{le=\"0.5\",} 1.445961e+06 1395066363000\r\n",
        Ok(concat!(
            r#"{"name":"rpc_seconds_bucket","type":"histogram","labels":{"le":"0.5"},"#,
            r#""value":1.445961e+06,"timestamp":1395066363000}"#
        )),
    );
    check_sample(
        "a { x = \"C:\\\\D\" , y=\"\\\"q\\\"\\n\\z}\" }\t-.5",
        Ok(r#"{"name":"a","type":"untyped","labels":{"x":"C:\\D","y":"\"q\"\n\\z}"},"value":-0.5}"#),
    );
    check_sample(
        "{\"jvm.memory\",\"area.of\"=\"heap\"} 5.",
        Ok(r#"{"name":"jvm.memory","type":"untyped","labels":{"area.of":"heap"},"value":5}"#),
    );
}

#[test]
fn help_is_included_if_configured() {
    let metrics = Metrics { help: true, ..metrics(&[], MetricsShape::Samples) };
    let expected = r#"[{"name":"a","type":"untyped","help":"x\ny","labels":{},"value":1}]"#;
    check(&metrics, "# HELP a x\\ny\na 1\n", Ok(expected));
}

#[test]
fn values_without_a_json_number_are_null_with_their_text() {
    for (text, word) in [("NaN", "NaN"), ("+Inf", "+Inf"), ("Inf", "+Inf"), ("-Inf", "-Inf")] {
        let expected =
            format!(r#"{{"name":"a","type":"untyped","labels":{{}},"value":null,"not_a_number":"{word}"}}"#);
        check_sample(&format!("a {text}"), Ok(&expected));
    }
}

#[test]
fn openmetrics_has_exemplars_and_an_end() {
    let text = "# TYPE a counter\n# UNIT a seconds\na_total 17.0 1520879607.7 # {trace=\"k\"} 0.67 1520879606\n\
        a_created 1520430000\n# EOF\n";
    check(
        &metrics(&[], MetricsShape::Samples),
        text,
        Ok(concat!(
            r#"[{"name":"a_total","type":"counter","labels":{},"value":17.0,"timestamp":1520879607.7,"#,
            r#""exemplar":{"labels":{"trace":"k"},"value":0.67,"timestamp":1520879606}},"#,
            r#"{"name":"a_created","type":"counter","labels":{},"value":1520430000}]"#
        )),
    );
    check_sample("a 1\n# EOF\nb 2", Err("line 3: expected nothing after `# EOF`, found `b 2`"));
}

#[test]
fn names_select_samples_and_other_lines_are_not_parsed() {
    let text = "node_load1 0.5\nnode_load15 0.2\nbroken {{{\nother 1\nother{x=\"y\"} 2\n";
    let object = |names: &[&str]| metrics(names, MetricsShape::Object);
    check(&object(&["node_load1", "other"]), text, Ok(r#"{"node_load1":0.5,"other":1}"#));
    check(&object(&["node_*"]), text, Ok(r#"{"node_load1":0.5,"node_load15":0.2}"#));
    check(
        &object(&["gone", "n*z"]),
        text,
        Err("expected samples of `gone`, `n*z` without labels, found none among 5"),
    );
    let rows = r#"[{"metric":"other","value":1},{"metric":"other","x":"y","value":2}]"#;
    check(&metrics(&["other"], MetricsShape::Rows), text, Ok(rows));
}

#[test]
fn a_star_matches_any_characters() {
    let is_match = |pattern: &str, name| matches_wildcard(&[pattern.to_owned()], name);
    for pattern in ["*", "abc", "a*", "*c", "a*c", "*b*", "a**c", "*a*b*c*", "abc*"] {
        assert!(is_match(pattern, "abc"), "{pattern}");
    }
    for pattern in ["ab", "b*", "*b", "abc*c", "*a*a*", "abcd*", ""] {
        assert!(!is_match(pattern, "abc"), "{pattern}");
    }
}

#[test]
fn an_invalid_metric_is_an_error_with_its_line() {
    check_sample("up 1\r<html>\r", Err("line 2: expected the name of a metric, found `<html>`"));
    check_sample("up 1\n<html>", Err("line 2: expected the name of a metric, found `<html>`"));
    check_sample("Service restarting", Err("line 1: expected a value, found `restarting`"));
    check_sample("up", Err("expected a value, found an empty string"));
    check_sample("up 1 soon", Err("expected a time after the value, found `soon`"));
    check_sample("up 1 2 3", Err("expected the end of the line, found `3`"));
    check_sample("up{a=1} 1", Err("expected a quoted string, found `1} 1`"));
    check_sample("up{a=\"1} 1", Err("expected `\"` at the end"));
    check_sample("up{a=\"1\" b=\"2\"} 1", Err("expected `,` or `}` after a label, found `b=\"2\"} 1`"));
    check_sample("up{a=\"1\",a=\"2\"} 1", Err("expected each label once, found `a`"));
    check_sample("up{\"a\"} 1", Err("expected one name of a metric, found two"));
    check_sample("{} 1", Err("expected the name of a metric, found none"));
    let error = metrics(&[], MetricsShape::Samples).extract("# only comments").unwrap_err();
    assert_eq!(error.to_string(), "expected samples, found none");
    check(&metrics(&[], MetricsShape::Object), "a 1\na 2", Err("line 2: expected each name once, found `a`"));
    check(&metrics(&[], MetricsShape::Rows), "a{value=\"x\"} 1", Err("line 1: expected no label `value`"));
}

#[test]
fn an_empty_result_is_valid_if_configured() {
    let lenient = |shape| Metrics { allow_empty: true, ..metrics(&["x"], shape) };
    check(&lenient(MetricsShape::Samples), "a 1", Ok("[]"));
    check(&lenient(MetricsShape::Object), "", Ok("{}"));
}

#[test]
fn hostile_responses_take_linear_time_and_bounded_memory() {
    let all = || metrics(&[], MetricsShape::Samples);
    check(&all(), &"a 1\n".repeat(110_000), Err("line 100001: expected at most 100000 samples"));
    check(&metrics(&["b"], MetricsShape::Samples), &"a 1\n".repeat(110_000), Err("none among 110000"));
    let types: String = (0..120_000).map(|index| format!("# TYPE m{index} gauge\n")).collect();
    check(&all(), &types, Err("expected at most 100000 metrics"));
    let labels: String = (0..400).map(|index| format!("l{index}=\"\",")).collect();
    check(&all(), &format!("a{{{labels}}} 1\n").repeat(3_000), Err("expected at most 1000000 labels"));
    let many_labels: String = (0..2_000).map(|index| format!("l{index}=\"\",")).collect();
    check_sample(&format!("a{{{many_labels}}} 1"), Err("expected at most 1000 labels"));
    let long = "h".repeat(100 << 10);
    let repeated = format!("# HELP a {long}\n# TYPE a {long}\n{}", "a 1\n".repeat(90_000));
    check(&all(), &repeated, Err("line 330: expected at most 33554432 bytes of types and help"));
    let with_help = Metrics { help: true, ..all() };
    check(&with_help, &repeated, Err("line 166: expected at most 33554432 bytes of types and help"));
    for piece in ["a", "a{", "a{b=\"", "{\"", "\\", "a{x=\"\\"] {
        let text = format!("{piece}{}", piece.repeat((256 << 10) / piece.len()));
        assert!(all().extract(&text).is_err());
    }
    assert!(all().extract(&format!("a {}", "1".repeat(256 << 10))).is_err(), "more digits than are read");
    assert!(metrics(&["*a*a*a*a*b"], MetricsShape::Samples).extract(&"a".repeat(256 << 10)).is_err());
}
