//! Tests from a response to a result, through all parts of a rule.

mod configured_rules;
mod limits;
mod properties;
mod shapes;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::extract::{Extract, Extractor, ExtractorKind};
use super::*;
use crate::model::{
    ErrorType, StructuredContentSupport, ToolName, ToolOutcome, ToolResult, UpstreamResponse, write_result,
};
use crate::settings::OneOrMore;

fn response(status: u16, media_type: &str, body: impl Into<Bytes>) -> UpstreamResponse {
    let mut headers = HeaderMap::new();
    if !media_type.is_empty() {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap());
    }
    UpstreamResponse::new(StatusCode::from_u16(status).unwrap(), headers, body.into())
}

fn translator(rules: Vec<Rule>, output: Option<Value>) -> Translator {
    Translator {
        rules,
        on_no_match: OnNoMatch::Error,
        output: output.map(|schema| {
            OutputSchema::new(schema.as_object().unwrap().clone(), WrapNonObjects::Always).unwrap()
        }),
        wrap: WrapNonObjects::Always,
        redaction: Default::default(),
        limits: TranslationLimits::default(),
        has_effect: false,
    }
}

fn success(extract: ExtractorKind, structured: Option<&str>, content: Option<&str>) -> Rule {
    let content = content.map_or_else(ContentTemplate::default, |text| {
        let payload = BlockPayload::Text(Template::compile(text).unwrap());
        ContentTemplate(vec![BlockTemplate::new(payload)])
    });
    let structured = structured.map(|filter| Jq::compile(filter, &[]).unwrap());
    let action = RuleAction::Success(SuccessRule { structured, content, limit: None, sample: None });
    let extract = Some(Extract::One(Box::new(Extractor::untyped(extract))));
    Rule { matcher: Matcher::default(), extract, charset: None, action }
}

fn error(matcher: Matcher, text: &str) -> Rule {
    let action = RuleAction::Error(error_rule(text));
    Rule { matcher, extract: None, charset: None, action }
}

fn error_rule(text: &str) -> ErrorRule {
    let text = Template::compile(text).unwrap();
    ErrorRule { text, code: None, structured: None, status: None }
}

fn run(translator: &Translator, response: &UpstreamResponse) -> ToolResult {
    let tool: ToolName = "get_weather".parse().unwrap();
    let args = json!({"city": "Oslo"});
    translate(translator, CallInput::new(&tool, &args), response, &mut Trace::on()).result
}

fn sent(result: &ToolResult) -> Value {
    let mut out = Vec::new();
    write_result(result, StructuredContentSupport::ObjectsOnly, &mut out);
    serde_json::from_slice(&out).expect("a result is JSON")
}

/// Checks the text of the only block, the structured content, and whether it is an error.
#[track_caller]
fn check(translator: &Translator, response: &UpstreamResponse, text: &str, structured: Option<&str>) {
    let result = sent(&run(translator, response));
    assert_eq!(result["content"][0]["text"].as_str().unwrap(), text);
    assert_eq!(result.get("structuredContent").map(Value::to_string).as_deref(), structured);
}

#[test]
fn json_is_passed_on_unchanged() {
    let body = r#"{"z": 1.0, "a": 12345678901234567890}"#;
    let result = run(&translator(vec![], None), &response(200, "application/json", body));
    let mut out = Vec::new();
    write_result(&result, StructuredContentSupport::ObjectsOnly, &mut out);
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains(&format!("\"structuredContent\":{body}")), "{out}");
    check(
        &translator(vec![], None),
        &response(200, "application/json", body),
        body,
        Some(r#"{"z":1.0,"a":12345678901234567890}"#),
    );
    check(
        &translator(vec![], None),
        &response(200, "application/json", "10"),
        r#"{"result":10}"#,
        Some(r#"{"result":10}"#),
    );
    check(
        &translator(vec![], None),
        &response(200, "text/plain", "hello\n"),
        "hello\n",
        Some(r#"{"result":"hello\n"}"#),
    );
    check(
        &translator(vec![], None),
        &response(200, "", "[1]"),
        r#"{"result":[1]}"#,
        Some(r#"{"result":[1]}"#),
    );
    let message = "Done: the service responded with status 204 No Content and no content.";
    check(&translator(vec![], None), &response(204, "", ""), message, None);
}

#[test]
fn an_empty_json_body_is_missing_not_null() {
    let object_translator = translator(vec![], Some(json!({"type": "object"})));
    for result in [
        run(&object_translator, &response(200, "application/json", "")),
        run(&object_translator, &response(200, "", "")),
    ] {
        assert_eq!(result.outcome, ToolOutcome::Error(ErrorType::UnparseableResponse));
    }
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
        ("text/html", "<h1>no such city</h1>", "no such city"),
        ("text/plain", "<!DOCTYPE html>\n<title>404</title><p>no such city", "no such city"),
        (
            "text/html",
            "<h1>404 Not Found</h1>",
            "The service rejected the request with status 404 Not Found and gave no reason.",
        ),
        (
            "application/json",
            "{}",
            "The service rejected the request with status 404 Not Found and gave no reason.",
        ),
        (
            "text/plain",
            "x\n  at a.b.C(D.java:1)",
            "The service rejected the request with status 404 Not Found and gave no reason.",
        ),
    ] {
        let result = run(&translator(vec![], None), &response(404, media_type, body));
        assert_eq!(result.outcome, ToolOutcome::Error(ErrorType::Upstream { status: 404 }));
        assert_eq!(sent(&result)["content"][0]["text"], expected, "{body}");
        assert_eq!(result.meta[STATUS_META_KEY], 404);
    }
    let coded = run(
        &translator(vec![], None),
        &response(400, "application/json", r#"{"error": {"code": "E7", "message": "m"}}"#),
    );
    assert_eq!(coded.meta[CODE_META_KEY], "E7");
}

#[test]
fn nothing_of_a_5xx_body_is_passed_on() {
    for body in [r#"{"error": "db secret"}"#, "db secret", "<p>db secret</p>"] {
        let mut response = response(503, "application/json", body);
        response.headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("30"));
        let text = sent(&run(&translator(vec![], None), &response)).to_string();
        assert!(!text.contains("secret") && text.contains("503") && text.contains("in 30 seconds"), "{text}");
    }
}

#[test]
fn decompression_is_a_step_of_the_trace() {
    let mut compressed = response(200, "text/plain", &b"\x8f\x02\x80hello\n\x03"[..]);
    compressed.headers.insert(http::header::CONTENT_ENCODING, HeaderValue::from_static("br"));
    let (tool, args) = ("get_weather".parse().unwrap(), json!({}));
    let mut trace = Trace::on();
    translate(&translator(vec![], None), CallInput::new(&tool, &args), &compressed, &mut trace);
    let steps = trace.into_steps();
    assert_eq!(
        (steps[0].action.as_str(), steps[0].found.as_str()),
        ("decompress", "br: 10 bytes to 6 bytes")
    );
}
