//! Tests of templates: output, errors and limits.

use serde_json::Value as Json;

use super::*;
use crate::translate::work_budget::{STOPPED, WorkBudget};

#[track_caller]
fn check(source: &str, variables: &str, expected: Result<&str, &str>) {
    let variables: Json = serde_json::from_str(variables).unwrap();
    let rendered = Template::compile(source).and_then(|template| template.render(&from_json(&variables)));
    match (rendered, expected) {
        (Ok(text), Ok(expected)) => assert_eq!(text, expected),
        (Err(error), Err(part)) => assert!(error.message.contains(part), "{error}"),
        (found, _) => panic!("found {found:?}, expected {expected:?}"),
    }
}

#[test]
fn numbers_come_out_as_they_went_in() {
    check(
        "{{ a }} {{ b }} {{ c }} {{ d }} {{ e }}",
        r#"{"a": 1.0, "b": 12345678901234567890, "c": 0.1, "d": -5, "e": 0.12345678901234567890}"#,
        Ok("1.0 12345678901234567890 0.1 -5 0.12345678901234567890"),
    );
    check("{{ a > 30 }} {{ a * 2 }} {{ a | tojson }}", r#"{"a": 1.50}"#, Ok("false 3.0 1.5"));
    check("{{ a | redact }}", r#"{"a": "no /srv/data/x at 10.0.0.7"}"#, Ok("no [path] at [address]"));
    check("{{ a + 1 }}", r#"{"a": 1.5}"#, Ok("2.5"));
}

#[test]
fn structures_are_written_as_json() {
    check(
        "{{ a }} {{ b }} {{ c }}",
        r#"{"a": {"z": [1.0, "x"]}, "b": true, "c": null}"#,
        Ok(r#"{"z":[1.0,"x"]} true null"#),
    );
}

#[test]
fn an_undefined_name_is_an_error_not_an_empty_text() {
    check("{{ nope }}", "{}", Err("undefined"));
    check("{{ nope | default('x') }}", "{}", Ok("x"));
    check("{% if nope %}a{% else %}b{% endif %}", "{}", Ok("b"));
}

#[test]
fn a_template_that_does_too_much_is_stopped() {
    check(
        "{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}",
        "{}",
        Err("takes more than 2000000 steps"),
    );
}

#[test]
fn repeated_lookups_of_a_template_are_limited() {
    let text = "ab".repeat(500_000);
    let rows: Vec<Value> = (0..20_000).map(Value::from).collect();
    let variables = Value::from_pairs([("text", Value::from(text)), ("rows", Value::from(rows))]);
    for source in [
        "{% for c in text %}{{ 'x' if 'c' in text }}{% endfor %}",
        "{% set copy = text %}{% for c in rows %}{{ 'x' if 'c' in copy }}{% endfor %}",
        "{% for c in rows %}{{ text | upper | first }}{% endfor %}",
        "{% for c in rows %}{{ 'x' if -1 in rows }}{% endfor %}",
    ] {
        let error = Template::compile(source).unwrap().render(&variables).unwrap_err();
        assert!(error.message.starts_with("reads more than 33554432 bytes"), "{source}: {error}");
    }
    let once = "{% for row in rows %}{{ row }}{% endfor %}{{ text | length }}";
    assert!(Template::compile(once).unwrap().render(&variables).unwrap().ends_with("1000000"));
}

#[test]
fn a_text_that_a_template_makes_has_an_end() {
    let text = "ab".repeat(500_000);
    let variables = Value::from_pairs([("text", Value::from(text)), ("few", Value::from(2))]);
    for source in [
        "{{ (text * 100)[:1] }}",
        "{{ (100 * few * text)[:1] }}",
        "{{ ([text] * 100000000) | length }}",
        "{% set n = namespace(t=text) %}{% for i in range(40) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
        "{% set n = namespace(t=text) %}{% for i in range(40) %}{% set n.t = n.t + n.t %}{% endfor %}",
        "{% set n = namespace(t=[1]) %}{% for i in range(40) %}{% set n.t = n.t + n.t %}{% endfor %}",
        "{% for i in range(9999) %}{% set t = 'a' * 100000 %}{% endfor %}",
    ] {
        let error = Template::compile(source).unwrap().render(&variables).unwrap_err();
        assert!(error.message.contains("bytes of strings and lists"), "{source}: {error}");
    }
    check("{{ 'ab' * 2 ~ 3 * 'c' }} {{ 2 * 3.5 }} {{ ([1] * 2) | list }}", "{}", Ok("ababccc 7.0 [1,1]"));
    check("{{ nope * 2 }}", "{}", Err("tried to use * operator on unsupported types undefined and number"));
    check("{{ {} * 2 }}", "{}", Err("tried to use * operator"));
}

#[test]
fn an_error_names_the_undefined_variable() {
    for (source, name) in [
        ("{{ nope }}", "nope"),
        ("{{ a ~ b }}{{ a.c.d }}", "a.c"),
        ("{{ rows[0].c | upper }}", "rows[0].c"),
        ("{% for row in rows %}{{ row.c }}{% endfor %}", "row.c"),
    ] {
        let variables = from_json(&serde_json::json!({"a": 2, "b": 3, "rows": [{}]}));
        let error = Template::compile(source).unwrap().render(&variables).unwrap_err();
        assert_eq!(error.message, format!("`{name}` is undefined"));
        let line = format!("failed: `{name}` is undefined, at line 1 of the template");
        assert_eq!(error.in_part("failed").plain, line);
    }
}

#[test]
fn an_error_has_its_position_in_the_configured_template() {
    check("{{ a | min }}", r#"{"a": 2}"#, Err("in `"));
    for part in ["looked_up", "copied", "times"] {
        let error = Template::compile("{{ a ~ b }}{{ (a * b).c.d ~ b }}").unwrap();
        let error = error.render(&from_json(&serde_json::json!({"a": 2, "b": 3}))).unwrap_err();
        assert!(!error.message.contains(part), "{error}");
    }
}

#[test]
fn a_template_stops_when_the_call_is_cancelled() {
    let template = Template::compile("{{ 1 if text else 2 }}").unwrap();
    let work_budget = WorkBudget::default();
    let budget = TemplateBudget::new(Some(&work_budget));
    let variables = Value::from_pairs([("text", "a")]);
    assert_eq!(template.render_within(&variables, &budget).unwrap(), "1");
    work_budget.cancel();
    assert_eq!(template.render_within(&variables, &budget).unwrap_err().message, STOPPED);
}

#[test]
fn json_of_values_that_share_others_has_an_end() {
    let doubled = "{% set a = ['x' * 1000000] %}".to_owned() + &"{% set a = [a, a] %}".repeat(30);
    for expression in ["{{ a | tojson }}", "{{ a }}", "{{ a | markdown_table }}"] {
        check(&format!("{doubled}{expression}"), "{}", Err("builds more than 67108864 bytes"));
    }
}

#[test]
fn templates_have_a_budget_together() {
    let template = Template::compile("{% for i in range(9999) %}{{ i }}{% endfor %}").unwrap();
    let (variables, budget) = (Value::from(()), TemplateBudget::new(None));
    let error = (0..1000).find_map(|_| template.render_within(&variables, &budget).err()).unwrap();
    assert!(error.message.contains("together exceed"), "{error}");
    assert!(template.render(&variables).is_ok());
}

#[test]
fn a_template_that_nests_too_deep_is_rejected() {
    let wide = |open: &str| format!("{{{{ {}1 }}}}", open.repeat(100_000));
    for source in
        [wide("not "), wide("1+"), wide("-"), "{% if 1 %}".to_owned() + &"{% elif 1 %}".repeat(100_000)]
    {
        check(&source, "{}", Err("more than 400 operators"));
    }
    check(&"{{ a.b.c | default(1) + 1 }}".repeat(200), r#"{"a": {"b": {}}}"#, Ok(&"2".repeat(200)));
}

#[test]
fn sliced_variables_are_listed_too() {
    let template = Template::compile("{{ text[2:6] }} {{ args.q[:5] }} {{ other['a:b'] }}").unwrap();
    assert_eq!(template.used.names, ["args", "other", "text"]);
    assert!(template.used.paths.contains("args.q"));
    let headers = Template::compile("{{ headers['x-id'][:4] }} {{ json.rows[0][1][2:] }}").unwrap();
    assert_eq!(headers.used.names, ["headers", "json"]);
    check("{{ text[2:6] }}", r#"{"text": "abcdefgh"}"#, Ok("cdef"));
}

#[test]
fn a_template_lists_its_names() {
    let template = Template::compile("{{ args.city }}{% for x in structured.items %}{{ x }}{% endfor %}");
    assert_eq!(template.unwrap().used.names, ["args", "structured"]);
}

#[test]
fn a_variable_of_a_branch_is_unknown_outside_it() {
    let names = |source: &str| Template::compile(source).unwrap().used.names;
    let loops = "{% for x in rows %}{{ x }}{{ loop.index }}{% else %}{{ x }}{{ loop.index }}{% endfor %}";
    assert_eq!(names(loops), ["loop", "rows", "x"]);
    assert_eq!(names("{% if a %}{% set x = 1 %}{{ x }}{% else %}{{ x }}{% endif %}"), ["a", "x"]);
    assert_eq!(names("{% if a %}{% set x = 1 %}{% endif %}{{ x }}"), ["a", "x"]);
    assert_eq!(names("{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}"), ["y"]);
    assert_eq!(names("{% with x = 1 %}{{ x }}{% endwith %}{{ x }}"), ["x"]);
}

#[test]
fn a_template_stays_within_its_step_budget() {
    let text = "ab\n".repeat(1000);
    let variables = Value::from_pairs([("text", text.as_str()), ("letters", "abcdefghijklmnopqrstuvwxyz")]);
    let has_run_out = |source: &str| {
        let work_budget = WorkBudget::with_steps(10_000);
        let budget = TemplateBudget::new(Some(&work_budget));
        let template = Template::compile(source).unwrap();
        // Each of several blocks may take the limit of one; together they may not.
        let failed = (0..5).any(|_| template.render_within(&variables, &budget).is_err());
        assert_eq!(failed, work_budget.is_used_up(), "{source}");
        work_budget.is_used_up()
    };
    for source in [
        "{% for i in range(9999) %}{{ i }}{% endfor %}",
        "{% for i in range(500) %}{{ i }}{% endfor %}",
        "{% for c in letters %}{% for d in letters %}{{ text | length }}{% endfor %}{% endfor %}",
        "{{ text | replace('a', text) | length }}",
        "{% for line in text | lines %}{{ line | replace('a', letters) }}{% endfor %}",
    ] {
        assert!(has_run_out(source), "{source}");
    }
    assert!(!has_run_out("{% for c in letters %}{{ c }}: {{ text[:10] }}\n{% endfor %}"));
}
