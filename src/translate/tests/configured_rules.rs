//! Tests of the results of configured rules.

use super::*;
use crate::translate::extract::{CssSelector, Html, Json, Pairs, TableForm, Text, Typing};

#[test]
fn a_text_that_a_schema_types_is_shown_as_the_value_it_became() {
    let rules = || vec![success(ExtractorKind::Text(Text { trim: true }), None, None)];
    let typed = translator(rules(), Some(json!({"type": "integer"})));
    check(&typed, &response(200, "text/plain", "3\n"), r#"{"result":3}"#, Some(r#"{"result":3}"#));
    check(&translator(rules(), None), &response(200, "text/plain", " 3\n"), "3", Some(r#"{"result":"3"}"#));
}

#[test]
fn an_empty_response_of_a_declared_type_is_a_success_without_an_extractor() {
    let translator_of = |structured: Option<&str>, content: Option<&str>| {
        let mut rule = success(ExtractorKind::Json(Json), structured, content);
        rule.extract = None;
        translator(vec![rule], None)
    };
    let no_content = response(204, "application/json", "");
    check(&translator_of(None, Some("Written.")), &no_content, "Written.", None);
    check(&translator_of(Some("{ok: true}"), None), &no_content, r#"{"ok":true}"#, Some(r#"{"ok":true}"#));
}

#[test]
fn a_rule_may_pass_on_what_it_wants_and_is_capped() {
    let failures = || Matcher { status: Some(OneOrMore(vec!["5xx".parse().unwrap()])), ..Matcher::default() };
    let unconditional = vec![error(Matcher::default(), "{{ text }}")];
    let result = sent(&run(&translator(unconditional, None), &response(500, "text/plain", "boom at /a/b")))
        .to_string();
    assert!(!result.contains("boom"), "a rule that does not name 5xx passes nothing of one on: {result}");
    let rules = vec![error(failures(), "{{ status }}: {{ text }}")];
    check(&translator(rules, None), &response(500, "text/plain", "boom at /a/b"), "500: boom at /a/b", None);
    let rules = vec![error(Matcher::default(), "{{ text }}")];
    let result = sent(&run(&translator(rules, None), &response(200, "text/plain", "x".repeat(9000))));
    assert_eq!(result["content"][0]["text"].as_str().unwrap().len(), 2048);
}

#[test]
fn a_block_for_each_row_does_no_more_work_than_one_block_may() {
    let mut block = BlockTemplate::new(BlockPayload::Text(
        Template::compile("{% for i in range(9999) %}{{ i }}{% endfor %} {{ item }}").unwrap(),
    ));
    block.each = Some(Jq::compile(".rows", &[]).unwrap());
    let mut rule = success(ExtractorKind::Json(Json), None, None);
    if let RuleAction::Success(success) = &mut rule.action {
        success.content = ContentTemplate(vec![block]);
    }
    let rows = json!({ "rows": vec![1; BLOCK_LIMIT] }).to_string();
    let result = run(&translator(vec![rule], None), &response(200, "application/json", rows));
    let text = sent(&result)["content"][0]["text"].to_string();
    assert!(result.is_error() && text.contains("together exceed"), "{text}");
}

#[test]
fn secrets_are_in_no_note_and_redaction_is_a_step() {
    let secret = SecretPattern::from_literals(r"card \d+").unwrap();
    let mut translator = translator(vec![success(ExtractorKind::Json(Json), None, None)], None);
    translator.redaction = Redaction(vec![secret]);
    let (tool, args) = ("pay".parse().unwrap(), json!({}));
    let input = CallInput::new(&tool, &args);
    // Regardless of its charset.
    let unreadable = response(200, "application/json", "no card 1234");
    let utf16: Vec<u8> = "no card 1234".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for response in [unreadable, response(200, "application/json; charset=utf-16le", utf16)] {
        let notes = translate(&translator, input, &response, &mut Trace::off()).notes;
        assert!(notes.iter().any(|note| note.quoting.is_some()));
        assert!(notes.iter().all(|note| !format!("{note:?}").contains("1234")), "{notes:?}");
    }
    let mut trace = Trace::on();
    let refused = response(402, "text/plain", "card 1234 was refused");
    translate(&translator, input, &refused, &mut trace);
    let step = trace.into_steps().pop().unwrap();
    assert_eq!((step.action.as_str(), step.found.as_str()), ("redact", "matches replaced in the text"));
}

#[test]
fn an_error_hidden_in_a_200_is_seen_by_a_condition_and_captures_reach_the_template() {
    let text = Matcher { text: Some(Pattern::compile("^ERR (?<why>.*)").unwrap()), ..Matcher::default() };
    let json = Matcher { json: Some(Jq::compile("has(\"error\")", &[]).unwrap()), ..Matcher::default() };
    let translator =
        translator(vec![error(text, "{{ why }}"), error(json, "{{ json.error }} ({{ args.city }})")], None);
    let hidden = run(&translator, &response(200, "text/plain", "ERR no such city"));
    assert_eq!(hidden.outcome, ToolOutcome::Error(ErrorType::ReportedError { status: None }));
    check(&translator, &response(200, "text/plain", "ERR no such city"), "no such city", None);
    check(&translator, &response(200, "application/json", r#"{"error": "gone"}"#), "gone (Oslo)", None);
}

#[test]
fn a_success_rule_is_not_for_failures() {
    let translator = translator(vec![success(ExtractorKind::Pairs(Pairs::default()), None, None)], None);
    let result = run(&translator, &response(404, "text/plain", "error: no such city"));
    assert_eq!(result.outcome, ToolOutcome::Error(ErrorType::Upstream { status: 404 }));
}

#[test]
fn a_response_that_matches_no_rule_is_an_error_that_says_so() {
    let only_text =
        Matcher { content_type: Some(OneOrMore(vec!["text/plain".parse().unwrap()])), ..Matcher::default() };
    let mut rule = success(ExtractorKind::Pairs(Pairs::default()), None, None);
    rule.matcher = only_text;
    let mut translator = translator(vec![rule], None);
    let result = run(&translator, &response(200, "text/html", "<p>maintenance</p>"));
    assert_eq!(result.outcome, ToolOutcome::Error(ErrorType::UnparseableResponse));
    let text = sent(&result)["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("type text/html, and matches no rule"), "{text}");
    translator.on_no_match = OnNoMatch::Text;
    check(&translator, &response(200, "text/html", "<p>x</p>"), "<p>x</p>", Some(r#"{"result":"<p>x</p>"}"#));
}

#[test]
fn typed_fields_make_the_structure_and_its_schema() {
    let field = |name: &str, from: &str, kind: FieldKind, missing| {
        let from = FieldPath::exact(from);
        Field { from, missing, ..Field::new(name, kind.into()) }
    };
    let fields = Fields::new(vec![
        field("temperature", "temp", FieldKind::Number(NumberForm::default()), OnMissing::Error),
        field(
            "raining",
            "rain",
            FieldKind::Boolean(Enumeration::from_booleans(&["yes".into()], &["no".into()]).into()),
            OnMissing::Error,
        ),
        field("wind", "wind", FieldKind::Integer(NumberForm::default()), OnMissing::Omit),
    ]);
    let schema = Value::Object(fields.schema());
    let mut rule = success(ExtractorKind::Pairs(Pairs::default()), None, None);
    let kind = ExtractorKind::Pairs(Pairs::default());
    rule.extract =
        Some(Extract::One(Box::new(Extractor { source: None, kind, typing: Typing::Fields(fields) })));
    let translator = translator(vec![rule], Some(schema));
    let expected = r#"{"temperature":5.0,"raining":true}"#;
    check(
        &translator,
        &response(200, "text/plain", "temp: 5.0\nrain: YES\nsky: grey"),
        expected,
        Some(expected),
    );
    for (body, part) in [
        ("temp: warm\nrain: yes", "field `temperature` must be a number; found `warm`"),
        ("rain: yes", "field `temperature` is missing: expected `temp` in the response, found `rain`"),
        ("temp: 5\nrain: maybe", "field `raining` must be one of `yes`, `no`; found `maybe`"),
    ] {
        let text = sent(&run(&translator, &response(200, "text/plain", body))).to_string();
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn jq_and_templates_shape_structure_and_text() {
    let rule = success(
        ExtractorKind::Json(Json),
        Some("{temperature: .main.temp, city: $args.city}"),
        Some("{{ structured.temperature }} °C in {{ args.city }}, was {{ value.main.temp }}"),
    );
    let translator = translator(vec![rule], None);
    let body = r#"{"main": {"temp": 5.50}}"#;
    check(
        &translator,
        &response(200, "application/json", body),
        "5.5 °C in Oslo, was 5.5",
        Some(r#"{"temperature":5.50,"city":"Oslo"}"#),
    );
}

#[test]
fn a_condition_looks_at_the_value_the_arguments_and_what_is_not() {
    let value =
        |filter: &str| Matcher { value: Some(Jq::compile(filter, &[]).unwrap()), ..Matcher::default() };
    let args = Matcher { args: Some(Jq::compile(".city == \"Oslo\"", &[]).unwrap()), ..Matcher::default() };
    let ready = Matcher { text: Some(Pattern::compile("^ready").unwrap()), ..Matcher::default() };
    let not = Matcher { not: Some(Box::new(ready)), ..args };
    let mut refused = error(value(".state == \"refused\""), "refused: {{ value.why }}");
    refused.extract =
        Some(Extract::One(Box::new(Extractor::untyped(ExtractorKind::Pairs(Pairs::default())))));
    let mut success_rule = success(ExtractorKind::Pairs(Pairs::default()), None, None);
    success_rule.matcher = value(".state == \"good\"");
    let translator = translator(vec![refused, success_rule, error(not, "not ready")], None);
    let plain = |body: &'static str| response(200, "text/plain", body);
    check(&translator, &plain("state: refused\nwhy: late"), "refused: late", None);
    check(&translator, &plain("state: good"), r#"{"state":"good"}"#, Some(r#"{"state":"good"}"#));
    // The extractor fails on it, so no condition on its value is true.
    check(&translator, &plain("what?"), "not ready", None);
    let text = sent(&run(&translator, &plain("ready"))).to_string();
    assert!(text.contains("matches no rule"), "{text}");
}

#[test]
fn a_filter_sees_the_captures_of_its_rule() {
    let mut rule = success(ExtractorKind::Json(Json), None, None);
    rule.matcher.headers.0 =
        vec![("x-unit".parse().unwrap(), Pattern::compile("(?<unit>\\w+)( (?<more>x))?").unwrap())];
    let RuleAction::Success(action) = &mut rule.action else { unreachable!() };
    let captures = ["unit".to_owned(), "more".to_owned()];
    action.structured = Some(Jq::compile("{n: ., unit: $unit, more: $more}", &captures).unwrap());
    let translator = translator(vec![rule], None);
    let mut response = response(200, "application/json", "5");
    response.headers.insert("x-unit", HeaderValue::from_static("km"));
    let expected = r#"{"n":5,"unit":"km","more":""}"#;
    check(&translator, &response, expected, Some(expected));
}

#[test]
fn an_error_has_the_code_and_the_structure_that_its_rule_gives_it() {
    let mut rule = error(Matcher::default(), "{{ structured.why }} ({{ value.code }})");
    let RuleAction::Error(action) = &mut rule.action else { unreachable!() };
    action.code = Some(CodeTemplate::new(Template::compile("{{ json.code }}").unwrap()));
    action.structured = Some(Jq::compile("{why: .message, code}", &[]).unwrap());
    let translator = translator(vec![rule], Some(json!({"type": "object", "required": ["other"]})));
    let result = run(&translator, &response(200, "application/json", r#"{"message": "full", "code": 7}"#));
    assert_eq!(
        sent(&result).to_string(),
        r#"{"content":[{"type":"text","text":"full (7)"}],"structuredContent":{"why":"full","code":7},"isError":true,"_meta":{"glossator/upstreamStatus":200,"glossator/upstreamCode":7}}"#
    );
    // Unreadable parts are omitted; the client receives the readable ones.
    let broken = run(&translator, &response(404, "text/plain", "no such disk"));
    assert_eq!(sent(&broken)["content"][0]["text"], "no such disk");
    assert!(broken.structured.is_none() && !broken.meta.contains_key(CODE_META_KEY));
}

#[test]
fn a_code_is_a_scalar_or_is_omitted() {
    for (template, expected) in [
        ("{{ json.n }}", Some(json!(7))),
        ("{{- json.n -}}", Some(json!(7))),
        ("{{ json.s }}", Some(json!("0042"))),
        ("E-{{ json.n }}", Some(json!("E-7"))),
        ("DISK_FULL", Some(json!("DISK_FULL"))),
        ("{{ json.n }}{{ json.n }}", Some(json!("77"))),
        ("{{ json.none }}", None),
        ("{{ json.list }}", None),
        ("{{ json.long }}", None),
        ("{{ json.none.deeper }}", None),
        ("", None),
    ] {
        let mut rule = error(Matcher::default(), "no");
        let RuleAction::Error(action) = &mut rule.action else { unreachable!() };
        action.code = Some(CodeTemplate::new(Template::compile(template).unwrap()));
        let body = json!({"n": 7, "s": "0042", "list": [1], "long": "x".repeat(300)}).to_string();
        let result = run(&translator(vec![rule], None), &response(200, "application/json", body));
        assert_eq!(result.meta.get(CODE_META_KEY), expected.as_ref(), "{template}");
    }
}

#[test]
fn an_error_raised_by_a_filter_reaches_the_client() {
    let raising = |filter| translator(vec![success(ExtractorKind::Json(Json), Some(filter), None)], None);
    let body = || response(200, "application/json", r#"{"ok": false, "why": "disk full"}"#);
    let result = run(&raising(r#"if .ok then . else error("stopped: \(.why)") end"#), &body());
    assert_eq!(result.outcome, ToolOutcome::Error(ErrorType::ReportedError { status: None }));
    assert_eq!(sent(&result)["content"][0]["text"], "stopped: disk full");
    let result = run(&raising("error({message: .why, code: 28, status: 507})"), &body());
    assert_eq!(result.outcome, ToolOutcome::Error(ErrorType::ReportedError { status: Some(507) }));
    assert_eq!(result.meta[CODE_META_KEY], 28);
    // The engine's message on an unfit value is not for clients, and a caught error is not an error.
    for filter in [".why.deeper", "try error(.why) catch . | .deeper", ".why | split(1)"] {
        let text = sent(&run(&raising(filter), &body())).to_string();
        assert!(text.contains("failed on this input") && !text.contains("disk full"), "{text}");
    }
    assert!(sent(&run(&raising("error(null)"), &body())).to_string().contains("could not be rendered"));
    check(
        &raising("try error(.why) catch ."),
        &body(),
        r#"{"result":"disk full"}"#,
        Some(r#"{"result":"disk full"}"#),
    );
}

/// The tree is checked and its text is sent, so the text must not be readable in another way.
#[test]
fn the_parsers_own_keys_do_no_harm_as_names_of_a_page() {
    for (kind, content) in [("Number", "5"), ("Number", "x"), ("RawValue", "[1")] {
        let key = format!("$serde_json::private::{kind}");
        let page = format!("<table><tr><td>{key}<td>{content}</table>");
        for schema in [None, Some(json!({"type": "object"})), Some(json!({"type": ["number", "null"]}))] {
            let table = CssSelector::parse("table").ok();
            let html = Html { table, form: TableForm::Pairs, ..Html::default() };
            let mut rule = success(ExtractorKind::Html(html), None, None);
            let RuleAction::Success(action) = &mut rule.action else { unreachable!() };
            action.limit = Some(Limit { rows: Some(1), ..Limit::default() });
            let is_refused = schema.as_ref().is_some_and(|schema| schema["type"] != "object");
            let result = run(&translator(vec![rule], schema), &response(200, "text/html", page.clone()));
            assert_eq!(result.is_error(), is_refused);
            let mut out = Vec::new();
            write_result(&result, StructuredContentSupport::ObjectsOnly, &mut out);
            let out = String::from_utf8(out).unwrap();
            let expected = format!(r#""structuredContent":{{"{key}":"{content}"}}"#);
            assert!(is_refused || out.contains(&expected), "{out}");
        }
    }
}

/// The rest of a secret that a template cuts in two matches no pattern.
#[test]
fn error_templates_see_redacted_values() {
    let body = r#"{"why": "card 1234567812345678 is blocked", "card": 1234567812345678}"#;
    let long = format!("{body}{}", " ".repeat(100_000));
    for (template, expected) in [
        ("{{ json.why[:12] }}", "card [redact"),
        ("{{ value.why[:12] }}", "card [redact"),
        ("{{ text[9:21] }}", "card [redact"),
        ("{{ json.card // 100 if json.card is number else 'none' }}", "none"),
        ("{{ headers['x-card'][:4] }}", "[red"),
        ("{{ words[:4] }}", "[red"),
    ] {
        for body in [body, &long] {
            let text = Some(Pattern::compile(r"card (?<words>\d+)").unwrap());
            let mut translator =
                translator(vec![error(Matcher { text, ..Matcher::default() }, template)], None);
            let secret = SecretPattern::from_literals(r"\d{16}").unwrap();
            translator.redaction = Redaction(vec![secret]);
            let mut response = response(200, "application/json", body.to_owned());
            response.headers.insert("x-card", HeaderValue::from_static("1234567812345678"));
            let result = run(&translator, &response);
            let found = result.content[0].block.text(None).unwrap_or_default().into_owned();
            assert_eq!(found, expected, "{template}");
        }
    }
}
