//! What holds for every reply, and the default rules.

mod shapes;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    extract::{
        Binary, CapturePattern, ColumnLayout, Columns, Count, CssSelector, Csv, Each, EachElement, Extract,
        Extractor, ExtractorKind, Form, GrokPatterns, Header, Html, Indented, Json, Mcp, Metrics,
        MetricsShape, NdJson, Pairs, Path, Pick, Prefixes, Regex, Selected, Table, TableShape, Take, Text,
        Typing, Uneven, Xml,
    },
    *,
};
use crate::{
    reply::Reply,
    tool::{Fault, Outcome, Schema, Shapes, ToolName, ToolResult, write_result},
};

#[test]
fn what_was_expanded_is_a_step_of_the_trace() {
    let mut compressed = reply(200, "text/plain", &b"\x8f\x02\x80hello\n\x03"[..]);
    compressed.headers.insert(http::header::CONTENT_ENCODING, HeaderValue::from_static("br"));
    let (tool, args) = ("get_weather".parse().unwrap(), json!({}));
    let mut trace = Trace::on();
    translate(&translator(vec![], None), Facts::new(&tool, &args), &compressed, &mut trace);
    let steps = trace.into_steps();
    assert_eq!((steps[0].what.as_str(), steps[0].found.as_str()), ("expand", "br: 10 bytes to 6 bytes"));
}

fn reply(status: u16, media_type: &str, body: impl Into<Bytes>) -> Reply {
    let mut headers = HeaderMap::new();
    if !media_type.is_empty() {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap());
    }
    Reply { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
}

fn translator(rules: Vec<Rule>, output: Option<Value>) -> Translator {
    Translator {
        rules,
        otherwise: Otherwise::Error,
        output: output
            .map(|schema| OutputSchema::new(schema.as_object().unwrap().clone(), Wrap::Always).unwrap()),
        wrap: Wrap::Always,
        redaction: Default::default(),
        limits: TranslationLimits::default(),
    }
}

fn success(extract: ExtractorKind, structured: Option<&str>, content: Option<&str>) -> Rule {
    let content = content.map_or(ContentTemplate::Default, |text| {
        let payload = Payload::Text(Template::compile(text).unwrap());
        ContentTemplate::Blocks(vec![BlockTemplate::new(payload)])
    });
    let structured = structured.map(|filter| Jq::compile(filter).unwrap());
    let action = Action::Success(SuccessRule {
        extract: Some(Extract::One(Box::new(Extractor::whole(extract)))),
        structured,
        content,
        limit: None,
    });
    Rule { matcher: Matcher::default(), charset: None, action }
}

fn error(matcher: Matcher, text: &str) -> Rule {
    let action = Action::Error(error_rule(text));
    Rule { matcher, charset: None, action }
}

fn error_rule(text: &str) -> ErrorRule {
    let text = Template::compile(text).unwrap();
    ErrorRule { extract: None, text, code: None, structured: None, status: None }
}

fn run(translator: &Translator, reply: &Reply) -> ToolResult {
    let tool: ToolName = "get_weather".parse().unwrap();
    let args = json!({"city": "Oslo"});
    translate(translator, Facts::new(&tool, &args), reply, &mut Trace::on()).result
}

fn sent(result: &ToolResult) -> Value {
    let mut out = Vec::new();
    write_result(result, Shapes::ObjectsOnly, &mut out);
    serde_json::from_slice(&out).expect("a result is JSON")
}

/// The text of the only block, the structure as text, and whether it is an error.
#[track_caller]
fn check(translator: &Translator, reply: &Reply, text: &str, structured: Option<&str>) {
    let result = sent(&run(translator, reply));
    assert_eq!(result["content"][0]["text"].as_str().unwrap(), text);
    assert_eq!(result.get("structuredContent").map(Value::to_string).as_deref(), structured);
}

#[test]
fn json_is_handed_on_as_it_came() {
    let body = r#"{"z": 1.0, "a": 12345678901234567890}"#;
    let result = run(&translator(vec![], None), &reply(200, "application/json", body));
    let mut out = Vec::new();
    write_result(&result, Shapes::ObjectsOnly, &mut out);
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains(&format!("\"structuredContent\":{body}")), "{out}");
    check(
        &translator(vec![], None),
        &reply(200, "application/json", body),
        body,
        Some(r#"{"z":1.0,"a":12345678901234567890}"#),
    );
    check(
        &translator(vec![], None),
        &reply(200, "application/json", "10"),
        r#"{"result":10}"#,
        Some(r#"{"result":10}"#),
    );
    check(
        &translator(vec![], None),
        &reply(200, "text/plain", "hello\n"),
        "hello\n",
        Some(r#"{"result":"hello\n"}"#),
    );
    check(&translator(vec![], None), &reply(200, "", "[1]"), r#"{"result":[1]}"#, Some(r#"{"result":[1]}"#));
    let done = "Done: the upstream answered 204 No Content without content.";
    check(&translator(vec![], None), &reply(204, "", ""), done, None);
}

#[test]
fn a_text_that_a_schema_types_is_shown_as_the_value_it_became() {
    let rules = || vec![success(ExtractorKind::Text(Text { trim: true }), None, None)];
    let typed = translator(rules(), Some(json!({"type": "integer"})));
    check(&typed, &reply(200, "text/plain", "3\n"), r#"{"result":3}"#, Some(r#"{"result":3}"#));
    check(&translator(rules(), None), &reply(200, "text/plain", " 3\n"), "3", Some(r#"{"result":"3"}"#));
}

#[test]
fn an_empty_json_body_is_missing_not_null() {
    let expects = translator(vec![], Some(json!({"type": "object"})));
    for result in [run(&expects, &reply(200, "application/json", "")), run(&expects, &reply(200, "", ""))] {
        assert_eq!(result.outcome, Outcome::Error(Fault::Unreadable));
    }
}

#[test]
fn an_empty_reply_of_a_declared_type_is_a_success_under_a_rule_without_extractor() {
    let rule = |structured: Option<&str>, content: Option<&str>| {
        let mut rule = success(ExtractorKind::Json(Json), structured, content);
        let Action::Success(action) = &mut rule.action else { unreachable!() };
        action.extract = None;
        translator(vec![rule], None)
    };
    let written = reply(204, "application/json", "");
    check(&rule(None, Some("Written.")), &written, "Written.", None);
    check(&rule(Some("{ok: true}"), None), &written, r#"{"ok":true}"#, Some(r#"{"ok":true}"#));
}

#[test]
fn the_message_of_a_4xx_is_found_where_apis_put_it() {
    for (media_type, body, expected) in [
        ("application/json", r#"{"error": "no such city"}"#, "no such city"),
        ("application/json", r#"{"error": {"code": 7, "message": "no such city"}}"#, "no such city"),
        ("application/json", r#"{"error": "not_found", "message": "no such city"}"#, "no such city"),
        ("application/json", r#"{"error": "invalid_grant", "error_description": "expired"}"#, "expired"),
        ("application/json", r#"{"message": "no such city"}"#, "no such city"),
        ("application/problem+json", r#"{"title": "Not Found", "detail": "no such city"}"#, "no such city"),
        ("application/json", r#"{"errors": [{"detail": "too long"}]}"#, "too long"),
        ("application/json", r#"{"errors": ["too long"]}"#, "too long"),
        (
            "application/json",
            r#"{"detail": [{"loc": ["body", "x"], "msg": "field required"}]}"#,
            "field required",
        ),
        ("text/plain", "no such city\n", "no such city"),
        ("", "no such city", "no such city"),
        (
            "text/html",
            "<h1>no such city</h1>",
            "The upstream refused the request with status 404 Not Found and did not say why.",
        ),
        (
            "application/json",
            "{}",
            "The upstream refused the request with status 404 Not Found and did not say why.",
        ),
        (
            "text/plain",
            "x\n  at a.b.C(D.java:1)",
            "The upstream refused the request with status 404 Not Found and did not say why.",
        ),
    ] {
        let result = run(&translator(vec![], None), &reply(404, media_type, body));
        assert_eq!(result.outcome, Outcome::Error(Fault::Upstream { status: 404 }));
        assert_eq!(sent(&result)["content"][0]["text"], expected, "{body}");
        assert_eq!(result.meta[STATUS_META_KEY], 404);
    }
    let coded = run(
        &translator(vec![], None),
        &reply(400, "application/json", r#"{"error": {"code": "E7", "message": "m"}}"#),
    );
    assert_eq!(coded.meta[CODE_META_KEY], "E7");
}

#[test]
fn nothing_of_a_5xx_body_is_passed_on() {
    for body in [r#"{"error": "db secret"}"#, "db secret", "<p>db secret</p>"] {
        let mut reply = reply(503, "application/json", body);
        reply.headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("30"));
        let text = sent(&run(&translator(vec![], None), &reply)).to_string();
        assert!(!text.contains("secret") && text.contains("503") && text.contains("in 30 seconds"), "{text}");
    }
}

#[test]
fn a_rule_may_pass_on_what_it_wants_and_is_capped() {
    let failures = || Matcher { status: Some(vec!["5xx".parse().unwrap()]), ..Matcher::default() };
    let silent = vec![error(Matcher::default(), "{{ text }}")];
    let unmeant =
        sent(&run(&translator(silent, None), &reply(500, "text/plain", "boom at /a/b"))).to_string();
    assert!(!unmeant.contains("boom"), "a rule that does not name 5xx passes nothing of one on: {unmeant}");
    let rules = vec![error(failures(), "{{ status }}: {{ text }}")];
    check(&translator(rules, None), &reply(500, "text/plain", "boom at /a/b"), "500: boom at /a/b", None);
    let rules = vec![error(Matcher::default(), "{{ text }}")];
    let result = sent(&run(&translator(rules, None), &reply(200, "text/plain", "x".repeat(9000))));
    assert_eq!(result["content"][0]["text"].as_str().unwrap().len(), 2048);
}

#[test]
fn a_block_for_each_row_does_no_more_work_than_one_block_may() {
    let mut block = BlockTemplate::new(Payload::Text(
        Template::compile("{% for i in range(9999) %}{{ i }}{% endfor %} {{ item }}").unwrap(),
    ));
    block.each = Some(Jq::compile(".rows").unwrap());
    let mut rule = success(ExtractorKind::Json(Json), None, None);
    if let Action::Success(success) = &mut rule.action {
        success.content = ContentTemplate::Blocks(vec![block]);
    }
    let rows = json!({ "rows": vec![1; BLOCK_LIMIT] }).to_string();
    let result = run(&translator(vec![rule], None), &reply(200, "application/json", rows));
    let text = sent(&result)["content"][0]["text"].to_string();
    assert!(result.is_error() && text.contains("more work together"), "{text}");
}

#[test]
fn what_a_route_keeps_to_itself_is_in_no_note_and_its_replacing_is_a_step() {
    let secret = SecretPattern::new(&Pattern::compile(r"card \d+").unwrap()).unwrap();
    let mut translator = translator(vec![success(ExtractorKind::Json(Json), None, None)], None);
    translator.redaction = Redaction::new(vec![secret]);
    let (tool, args) = ("pay".parse().unwrap(), json!({}));
    let facts = Facts::new(&tool, &args);
    // In whatever charset it is.
    let unreadable = reply(200, "application/json", "no card 1234");
    let utf16: Vec<u8> = "no card 1234".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for reply in [unreadable, reply(200, "application/json; charset=utf-16le", utf16)] {
        let notes = translate(&translator, facts, &reply, &mut Trace::off()).notes;
        assert!(notes.iter().any(Note::is_body));
        assert!(notes.iter().all(|note| !note.to_string().contains("1234")), "{notes:?}");
    }
    let mut trace = Trace::on();
    let refused = reply(402, "text/plain", "card 1234 was refused");
    translate(&translator, facts, &refused, &mut trace);
    let step = trace.into_steps().pop().unwrap();
    assert_eq!((step.what.as_str(), step.found.as_str()), ("redact", "words were replaced in the text"));
}

#[test]
fn an_error_hidden_in_a_200_is_seen_by_a_condition_and_captures_reach_the_template() {
    let text = Matcher { text: Some(Pattern::compile("^ERR (?<why>.*)").unwrap()), ..Matcher::default() };
    let json = Matcher { json: Some(Jq::compile("has(\"error\")").unwrap()), ..Matcher::default() };
    let translator =
        translator(vec![error(text, "{{ why }}"), error(json, "{{ json.error }} ({{ args.city }})")], None);
    let hidden = run(&translator, &reply(200, "text/plain", "ERR no such city"));
    assert_eq!(hidden.outcome, Outcome::Error(Fault::Reported { status: None }));
    check(&translator, &reply(200, "text/plain", "ERR no such city"), "no such city", None);
    check(&translator, &reply(200, "application/json", r#"{"error": "gone"}"#), "gone (Oslo)", None);
}

#[test]
fn a_success_rule_is_not_for_failures() {
    let translator = translator(vec![success(ExtractorKind::Pairs(Pairs::default()), None, None)], None);
    let result = run(&translator, &reply(404, "text/plain", "error: no such city"));
    assert_eq!(result.outcome, Outcome::Error(Fault::Upstream { status: 404 }));
}

#[test]
fn a_reply_that_fits_no_rule_is_an_error_that_says_so() {
    let only_text = Matcher { content_type: Some(vec!["text/plain".parse().unwrap()]), ..Matcher::default() };
    let mut rule = success(ExtractorKind::Pairs(Pairs::default()), None, None);
    rule.matcher = only_text;
    let mut translator = translator(vec![rule], None);
    let result = run(&translator, &reply(200, "text/html", "<p>maintenance</p>"));
    assert_eq!(result.outcome, Outcome::Error(Fault::Unreadable));
    let text = sent(&result)["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("of type text/html, and fits no rule"), "{text}");
    translator.otherwise = Otherwise::Text;
    check(&translator, &reply(200, "text/html", "<p>x</p>"), "<p>x</p>", Some(r#"{"result":"<p>x</p>"}"#));
}

#[test]
fn typed_fields_make_the_structure_and_its_schema() {
    let field = |name: &str, from: &str, kind: FieldKind, missing| {
        let from = crate::rule::Path::exact(from);
        Field { from, missing, ..Field::new(name, kind.into()) }
    };
    let fields = Fields::new(vec![
        field("temperature", "temp", FieldKind::Number(NumberForm::default()), Missing::IsAnError),
        field(
            "raining",
            "rain",
            FieldKind::Boolean(Booleans { yes: vec!["yes".into()], no: vec!["no".into()] }),
            Missing::IsAnError,
        ),
        field("wind", "wind", FieldKind::Integer(NumberForm::default()), Missing::IsLeftOut),
    ]);
    let schema = Value::Object(fields.schema());
    let mut rule = success(ExtractorKind::Pairs(Pairs::default()), None, None);
    let Action::Success(action) = &mut rule.action else { unreachable!() };
    let kind = ExtractorKind::Pairs(Pairs::default());
    action.extract = Some(Extract::One(Box::new(Extractor { kind, typing: Typing::Fields(fields) })));
    let translator = translator(vec![rule], Some(schema));
    let expected = r#"{"temperature":5.0,"raining":true}"#;
    check(
        &translator,
        &reply(200, "text/plain", "temp: 5.0\nrain: YES\nsky: grey"),
        expected,
        Some(expected),
    );
    for (body, part) in [
        ("temp: warm\nrain: yes", "field `temperature` must be a number; found `warm`"),
        ("rain: yes", "field `temperature` is missing: expected `temp` in the reply, found `rain`"),
        ("temp: 5\nrain: maybe", "field `raining` must be one of `yes`, `no`; found `maybe`"),
    ] {
        let text = sent(&run(&translator, &reply(200, "text/plain", body))).to_string();
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
        &reply(200, "application/json", body),
        "5.5 °C in Oslo, was 5.5",
        Some(r#"{"temperature":5.50,"city":"Oslo"}"#),
    );
}

#[test]
fn a_condition_looks_at_the_value_the_arguments_and_what_is_not() {
    let value = |filter: &str| Matcher { value: Some(Jq::compile(filter).unwrap()), ..Matcher::default() };
    let args = Matcher { args: Some(Jq::compile(".city == \"Oslo\"").unwrap()), ..Matcher::default() };
    let ready = Matcher { text: Some(Pattern::compile("^ready").unwrap()), ..Matcher::default() };
    let not = Matcher { not: Some(Box::new(ready)), ..args };
    let mut refused = error(value(".state == \"refused\""), "refused: {{ value.why }}");
    let Action::Error(rule) = &mut refused.action else { unreachable!() };
    rule.extract = Some(Extract::One(Box::new(Extractor::whole(ExtractorKind::Pairs(Pairs::default())))));
    let mut good = success(ExtractorKind::Pairs(Pairs::default()), None, None);
    good.matcher = value(".state == \"good\"");
    let translator = translator(vec![refused, good, error(not, "not ready")], None);
    let plain = |body: &'static str| reply(200, "text/plain", body);
    check(&translator, &plain("state: refused\nwhy: late"), "refused: late", None);
    check(&translator, &plain("state: good"), r#"{"state":"good"}"#, Some(r#"{"state":"good"}"#));
    // The extractor fails on it, so no condition on its value holds.
    check(&translator, &plain("what?"), "not ready", None);
    let text = sent(&run(&translator, &plain("ready"))).to_string();
    assert!(text.contains("fits no rule"), "{text}");
}

#[test]
fn a_filter_sees_the_captures_of_its_rule() {
    let mut rule = success(ExtractorKind::Json(Json), None, None);
    rule.matcher.headers =
        vec![("x-unit".parse().unwrap(), Pattern::compile("(?<unit>\\w+)( (?<more>x))?").unwrap())];
    let Action::Success(action) = &mut rule.action else { unreachable!() };
    let captures = ["unit".to_owned(), "more".to_owned()];
    action.structured = Some(Jq::compile_with("{n: ., unit: $unit, more: $more}", &captures).unwrap());
    let translator = translator(vec![rule], None);
    let mut reply = reply(200, "application/json", "5");
    reply.headers.insert("x-unit", HeaderValue::from_static("km"));
    let expected = r#"{"n":5,"unit":"km","more":""}"#;
    check(&translator, &reply, expected, Some(expected));
}

#[test]
fn an_error_has_the_code_and_the_structure_that_its_rule_gives_it() {
    let mut rule = error(Matcher::default(), "{{ structured.why }} ({{ value.code }})");
    let Action::Error(action) = &mut rule.action else { unreachable!() };
    action.code = Some(CodeTemplate::new(Template::compile("{{ json.code }}").unwrap()));
    action.structured = Some(Jq::compile("{why: .message, code}").unwrap());
    let translator = translator(vec![rule], Some(json!({"type": "object", "required": ["other"]})));
    let told = run(&translator, &reply(200, "application/json", r#"{"message": "full", "code": 7}"#));
    assert_eq!(
        sent(&told).to_string(),
        r#"{"content":[{"type":"text","text":"full (7)"}],"structuredContent":{"why":"full","code":7},"isError":true,"_meta":{"glossator/upstreamStatus":200,"glossator/upstreamCode":7}}"#
    );
    // What can't be read is left out; the client is told what can be.
    let broken = run(&translator, &reply(404, "text/plain", "no such disk"));
    assert_eq!(sent(&broken)["content"][0]["text"], "no such disk");
    assert!(broken.structured.is_none() && !broken.meta.contains_key(CODE_META_KEY));
}

#[test]
fn a_code_is_a_scalar_or_is_left_out() {
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
        let Action::Error(action) = &mut rule.action else { unreachable!() };
        action.code = Some(CodeTemplate::new(Template::compile(template).unwrap()));
        let body = json!({"n": 7, "s": "0042", "list": [1], "long": "x".repeat(300)}).to_string();
        let result = run(&translator(vec![rule], None), &reply(200, "application/json", body));
        assert_eq!(result.meta.get(CODE_META_KEY), expected.as_ref(), "{template}");
    }
}

#[test]
fn an_error_that_a_filter_raises_is_told_to_the_client() {
    let raising = |filter| translator(vec![success(ExtractorKind::Json(Json), Some(filter), None)], None);
    let body = || reply(200, "application/json", r#"{"ok": false, "why": "disk full"}"#);
    let told = run(&raising(r#"if .ok then . else error("stopped: \(.why)") end"#), &body());
    assert_eq!(told.outcome, Outcome::Error(Fault::Reported { status: None }));
    assert_eq!(sent(&told)["content"][0]["text"], "stopped: disk full");
    let told = run(&raising("error({message: .why, code: 28, status: 507})"), &body());
    assert_eq!(told.outcome, Outcome::Error(Fault::Reported { status: Some(507) }));
    assert_eq!(told.meta[CODE_META_KEY], 28);
    // What the engine says of a value that does not fit is not for clients, and a caught error is none.
    for filter in [".why.deeper", "try error(.why) catch . | .deeper", ".why | split(1)"] {
        let text = sent(&run(&raising(filter), &body())).to_string();
        assert!(text.contains("does not fit the reply") && !text.contains("disk full"), "{text}");
    }
    assert!(sent(&run(&raising("error(null)"), &body())).to_string().contains("could not be put into words"));
    check(
        &raising("try error(.why) catch ."),
        &body(),
        r#"{"result":"disk full"}"#,
        Some(r#"{"result":"disk full"}"#),
    );
}

/// What is checked is the tree and what is sent is its text, so that no reading of the text can come between.
#[test]
fn the_parsers_own_keys_do_no_harm_as_names_of_a_page() {
    for (kind, inside) in [("Number", "5"), ("Number", "x"), ("RawValue", "[1")] {
        let key = format!("$serde_json::private::{kind}");
        let page = format!("<table><tr><td>{key}<td>{inside}</table>");
        for schema in [None, Some(json!({"type": "object"})), Some(json!({"type": ["number", "null"]}))] {
            let take = Take::Table(Table { css: None, shape: TableShape::Pairs });
            let mut rule = success(ExtractorKind::Html(Html { without: None, take }), None, None);
            let Action::Success(action) = &mut rule.action else { unreachable!() };
            action.limit = Some(Limit { rows: Some(1), ..Limit::default() });
            let refuses = schema.as_ref().is_some_and(|schema| schema["type"] != "object");
            let result = run(&translator(vec![rule], schema), &reply(200, "text/html", page.clone()));
            assert_eq!(result.is_error(), refuses);
            let mut out = Vec::new();
            write_result(&result, Shapes::ObjectsOnly, &mut out);
            let out = String::from_utf8(out).unwrap();
            let expected = format!(r#""structuredContent":{{"{key}":"{inside}"}}"#);
            assert!(refuses || out.contains(&expected), "{out}");
        }
    }
}

/// Replies as extractors want them, each for several of them.
const ORDINARY: [&str; 9] = [
    "a: 1\nb: x\n",
    "a,b\r\n1,x\r\n2,-\r\n",
    r#"{"a": 1, "b": "x"}"#,
    r#"[{"a": "1.50", "b": "1h"}, {"a": "-"}]"#,
    "<a><b>1</b><a b='2'/></a>",
    "<table><tr><th>a<th>b<tr><td>1<td>x</table>",
    "a=1&b=x&a=2",
    "a 1\nb 2.5\n",
    r#"{"content": [{"type": "text", "text": "{\"a\": 1}"}], "isError": false}"#,
];

fn any_reply() -> impl Strategy<Value = Reply> {
    let status = prop_oneof![4 => Just(200_u16), 1 => 100_u16..=999];
    let media_type = prop_oneof![
        4 => Just(String::new()),
        1 => "(text|application|image|audio|x)/(plain|json|html|xml|problem\\+json|png|x)(; charset=[a-z0-9-]{0,10})?",
        1 => "[ -~]{0,20}",
    ];
    let body = prop_oneof![
        10 => proptest::sample::select(ORDINARY.to_vec()).prop_map(|body| body.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => "\\PC{0,100}".prop_map(String::into_bytes),
        1 => "( {0,3}\\[?[a-z]{1,4}[:=\\]]? ?[a-z0-9.-]{0,5}\n){0,6}".prop_map(String::into_bytes),
        1 => "((# (TYPE|HELP) )?[a-z]{1,3}(\\{[a-z]=\"[a-z\\\\]\"\\})? ?[0-9.#+INaf-]{0,4}\n){0,4}"
            .prop_map(String::into_bytes),
        1 => "(<[abx]( [ab]='[0-9]')?>|</[abx]>|[0-9]|&[a-z]{1,3};|<!(--|DOCTYPE)|<br>){0,12}"
            .prop_map(String::into_bytes),
        1 => "<table>(<t[rdh]( (col|row)span=[0-9]{1,5})?>|[a-z]|</?table>){0,10}".prop_map(String::into_bytes),
        1 => "<a>(<[ab]( x='[0-9]')?>[0-9]</[ab]>|<x/>){0,4}</a>".prop_map(String::into_bytes),
        1 => "[a-z]{1,3}([, ]{1,3}[a-z\"]{1,3}){0,3}\n([ a-z0-9ø\",\t-]{0,12}\r?\n){0,5}"
            .prop_map(String::into_bytes),
        1 => "\\{\"(error|message|a|b)\": ?(\"[a-z]*\"|[0-9.]{1,6}|null|\\{\\}|\\[1\\])\\}"
            .prop_map(String::into_bytes),
        1 => "\\{\"(content|result|structuredContent)\": ?\\[\\{\"type\": \"(text|image|x)\", \"text\": \"[a-z0-9 ]{0,5}\"\\}\\](, \"isError\": (true|1))?\\}"
            .prop_map(String::into_bytes),
    ];
    let coding = prop_oneof![
        9 => Just(None),
        1 => proptest::sample::select(vec!["gzip", "deflate", "br", "zstd", "compress", "identity"]).prop_map(Some),
    ];
    (status, media_type, body, coding).prop_map(|(status, media_type, body, coding)| {
        let mut reply = reply(status, &media_type, body);
        if let Some(coding) = coding {
            let name = HeaderName::from_static("content-encoding");
            reply.headers.insert(name, HeaderValue::from_static(coding));
        }
        reply
    })
}

fn captures(pattern: &str) -> CapturePattern {
    CapturePattern::plain(Pattern::compile(pattern).unwrap())
}

/// The extractors, by number; with the last one the media type decides.
fn extractor(index: usize) -> Option<ExtractorKind> {
    match index {
        0 => Some(ExtractorKind::Json(Json)),
        1 => Some(ExtractorKind::Text(Text { trim: true })),
        2 => Some(ExtractorKind::Pairs(Pairs::default())),
        3 => Some(ExtractorKind::Header(Header {
            names: vec!["status".into(), "content-type".into()],
            shape: Default::default(),
        })),
        4 => Some(ExtractorKind::Binary(Binary { kind: None, media_type: None })),
        5 => Some(ExtractorKind::Regex(Regex {
            patterns: vec![captures("(?<a>[a-z]+)")],
            each: Each::Match,
            allow_empty: false,
        })),
        6 => Some(ExtractorKind::Regex(Regex {
            patterns: vec![captures("(?<a>.)(?<b>x)?")],
            each: Each::Line,
            allow_empty: true,
        })),
        7 => Some(ExtractorKind::Regex(Regex {
            patterns: vec![captures("(?<a>[0-9]+)"), captures("(?<b>[a-z])")],
            each: Each::Block(Box::default()),
            allow_empty: true,
        })),
        8 => Some(ExtractorKind::Pairs(Pairs {
            separators: vec![":".into(), "=".into()],
            indented: Indented::Nested,
            sections: Some(Pattern::compile(Pairs::BRACKETS).unwrap()),
            blocks: Some(Box::default()),
            ..Pairs::default()
        })),
        9 => Some(ExtractorKind::Pairs(Pairs { indented: Indented::Words, ..Pairs::default() })),
        21 => Some(ExtractorKind::Grok(Regex {
            patterns: vec![GrokPatterns::default().compile("%{WORD:a} ?%{NUMBER:b:float}?").unwrap()],
            each: Each::Match,
            allow_empty: false,
        })),
        10 => Some(ExtractorKind::Metrics(Metrics::default())),
        11 => Some(ExtractorKind::Metrics(Metrics {
            shape: MetricsShape::Object,
            allow_empty: true,
            ..Metrics::default()
        })),
        12 => Some(ExtractorKind::Mcp(Mcp)),
        13 => Some(ExtractorKind::Xml(Xml::default())),
        14 => Some(ExtractorKind::Xml(Xml {
            pick: Pick::Each(Path::parse("//a[1]", &Prefixes::new()).unwrap()),
            ..Xml::default()
        })),
        15 => Some(ExtractorKind::Csv(Csv::default())),
        16 => Some(ExtractorKind::Csv(Csv { uneven: Uneven::Pad, ..Csv::default() })),
        17 => Some(ExtractorKind::Columns(Columns::default())),
        18 => Some(ExtractorKind::Columns(Columns {
            layout: ColumnLayout::Widths { widths: vec![2, 3], names: None },
            ..Columns::default()
        })),
        19 => Some(ExtractorKind::NdJson(NdJson::default())),
        20 => Some(ExtractorKind::Form(Form)),
        22 => Some(ExtractorKind::Html(Html {
            without: Some(CssSelector::parse("x").unwrap()),
            take: Take::Text,
        })),
        23 => Some(ExtractorKind::Html(Html {
            without: None,
            take: Take::Each(EachElement {
                css: CssSelector::parse("a, tr").unwrap(),
                select: vec![Selected {
                    name: "a".into(),
                    css: CssSelector::parse("b, td").ok(),
                    attribute: None,
                    count: Count::FirstOrNone,
                }],
                allow_empty: true,
            }),
        })),
        24 => Some(ExtractorKind::Html(Html {
            without: None,
            take: Take::Table(Table { css: None, shape: TableShape::Rows(Vec::new()) }),
        })),
        25 => Some(ExtractorKind::Html(Html {
            without: None,
            take: Take::Table(Table { css: None, shape: TableShape::Pairs }),
        })),
        _ => None,
    }
}

/// How many extractors there are above.
const EXTRACTORS: usize = 27;

/// What makes a value of `extract`: an extractor and its types by number, and one that gives a part beside it.
type Picked = (usize, usize, usize);

fn any_extract() -> impl Strategy<Value = Picked> {
    let beside = prop_oneof![2 => Just(EXTRACTORS), 1 => 0..EXTRACTORS];
    (0..EXTRACTORS, prop_oneof![Just(0), 0..shapes::TYPINGS], beside)
}

fn extract((kind, typing, beside): Picked) -> Option<Extract> {
    extractor(kind).map(|kind| shapes::extract(kind, shapes::typing(typing), extractor(beside)))
}

fn any_translator() -> impl Strategy<Value = Translator> {
    let shape = (
        prop_oneof![Just(0), 0_usize..4],
        prop_oneof![Just(0), 0..shapes::CONTENTS],
        prop_oneof![Just(0), 0_usize..4],
        0..shapes::LIMITS,
        prop_oneof![2 => Just(0_usize), 1 => 0..shapes::ERRORS],
    );
    (any_extract(), shape).prop_map(|(picked, (filter, content, schema, limit, errors))| {
        let filter = [None, Some("."), Some(".a"), Some("{a: .}")][filter];
        let schema = [
            None,
            Some(json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]})),
            Some(json!({"type": "array", "items": {"type": "string"}})),
            Some(json!({"type": ["object", "number"]})),
        ][schema]
            .clone();
        let mut rules = shapes::errors(errors, || extract(picked));
        if let Some(extract) = extract(picked) {
            let extract = Some(extract);
            let structured = filter.map(|filter| Jq::compile(filter).unwrap());
            let (content, limit) = (shapes::content(content), shapes::limit(limit));
            let action = Action::Success(SuccessRule { extract, structured, content, limit });
            rules.push(Rule { matcher: Matcher::default(), charset: None, action });
        }
        translator(rules, schema)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Every reply has a translation; every success meets its schema; the same reply gives the same result.
    #[test]
    fn every_reply_has_a_translation(translator in any_translator(), reply in any_reply()) {
        let result = run(&translator, &reply);
        prop_assert_eq!(&run(&translator, &reply), &result);
        prop_assert!(!result.content.is_empty());
        let sent = sent(&result);
        prop_assert_eq!(sent["isError"].as_bool(), Some(result.is_error()));
        if result.is_error() {
            prop_assert!(sent.get("structuredContent").is_none() || has_structured_errors(&translator));
            let text = sent["content"][0]["text"].as_str().unwrap();
            prop_assert!(!text.trim().is_empty() && text.len() <= TranslationLimits::DEFAULT_ERROR_TEXT_BYTES);
        } else if let Some(output) = &translator.output {
            let advertised = Schema::compile(&output.advertised()).unwrap();
            prop_assert!(advertised.admits(&sent["structuredContent"]), "{}", sent);
        }
    }

    /// What a typed extractor finds meets the schema that its types give, before any schema of the route.
    #[test]
    fn what_is_typed_meets_the_schema_of_its_types(picked in any_extract(), reply in any_reply()) {
        let extract = extract(picked);
        let Some(schema) = extract.as_ref().and_then(Extract::schema) else { return Ok(()) };
        let (schema, content) = (Value::Object(schema), ContentTemplate::Default);
        let action = Action::Success(SuccessRule { extract, structured: None, content, limit: None });
        let rule = Rule { matcher: Matcher::default(), charset: None, action };
        let result = run(&translator(vec![rule], None), &reply);
        if !result.is_error() {
            let sent = sent(&result);
            let structured = &sent["structuredContent"];
            let value = if schema["type"] == "object" { structured } else { &structured["result"] };
            prop_assert!(Schema::compile(schema.as_object().unwrap()).unwrap().admits(value), "{}", sent);
        }
    }
}

fn has_structured_errors(translator: &Translator) -> bool {
    let actions = translator.rules.iter().map(|rule| &rule.action);
    actions.into_iter().any(|action| matches!(action, Action::Error(ErrorRule { structured: Some(_), .. })))
}
