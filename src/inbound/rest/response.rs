//! Conversion of tool results to HTTP responses: status, envelope, headers.

use std::time::Duration;

use axum::{body::Body, response::IntoResponse};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::inbound::{Rejection, media_ranges};
use crate::model::{
    ErrorType, Structured, StructuredContentSupport, ToolOutcome, ToolResult, write_escaped, write_result,
};
use crate::pipeline::{AGE_META, Snapshot};
use crate::route::{Envelope, ErrorStatus, Route};
use crate::translate::{CODE_META_KEY, LIMIT_META_KEY, RETRY_AFTER_META_KEY};
use crate::upstream::{ClientIdentity, whole_seconds};

/// Media type in `Accept` that selects the envelope with the MCP tool result, regardless of the route.
pub(super) const MCP_ENVELOPE: &str = "application/vnd.glossator.mcp+json";
/// Media type in `Accept` that selects the envelope with the plain value, regardless of the route.
pub(super) const PLAIN_ENVELOPE: &str = "application/vnd.glossator.plain+json";

/// REST clients accept JSON of any type. A route that opted out of `{"result": …}` returns the plain value,
/// as its `outputSchema` in `GET /tools` declares.
pub(super) const STRUCTURED_CONTENT_SUPPORT: StructuredContentSupport = StructuredContentSupport::Any;

pub(super) const JSON: &str = "application/json";

/// Selects the envelope whose media type has the greatest weight in `Accept`; the first one if weights are
/// equal. Returns the envelope and its media type; `None` if `Accept` lists neither. Wildcards do not count.
fn accepted_envelope(headers: &HeaderMap) -> Option<(Envelope, &'static str)> {
    let accepted = media_ranges(headers).filter(|range| range.weight > 0.0).filter_map(|range| {
        let envelopes = [(Envelope::Mcp, MCP_ENVELOPE), (Envelope::Plain, PLAIN_ENVELOPE)];
        Some((envelopes.into_iter().find(|(_, media_type)| range.is_exactly(media_type))?, range.weight))
    });
    accepted.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(envelope, _)| envelope)
}

/// Builds the response to a call, in the envelope that `Accept` selects, or else in the envelope of the
/// route.
pub(super) fn result(result: &ToolResult, route: &Route, headers: &HeaderMap) -> Response<Body> {
    let (envelope, media_type) = accepted_envelope(headers).unwrap_or((route.envelope, JSON));
    let mut out = Vec::new();
    match envelope {
        Envelope::Mcp => write_result(result, STRUCTURED_CONTENT_SUPPORT, &mut out),
        Envelope::Plain => write_plain(result, &mut out),
    }
    let status = status_of(result.outcome, route.error_status);
    let meta_number = |key: &str| result.meta.get(key).and_then(Value::as_u64).map(HeaderValue::from);
    // The plain value has no member that reports a truncation, so a header does.
    let limit = result.meta.get(LIMIT_META_KEY).filter(|_| envelope == Envelope::Plain);
    let limit = limit.and_then(|limit| HeaderValue::from_str(&limit.to_string()).ok());
    let retry_after = meta_number(RETRY_AFTER_META_KEY).filter(|_| !status.is_success());
    (
        [(header::VARY, "accept")],
        limit.map(|limit| [("glossator-limit", limit)]),
        meta_number(AGE_META).map(|age| [(header::AGE, age)]),
        retry_after.map(|seconds| [(header::RETRY_AFTER, seconds)]),
        build_response(status, Body::from(out), media_type),
    )
        .into_response()
}

/// Builds the rejection of a call to a tool that is not listed yet. The route is unknown, and so is its
/// envelope.
pub(super) fn not_ready(result: &ToolResult) -> Rejection {
    let rejection =
        Rejection::new(StatusCode::SERVICE_UNAVAILABLE, "tool is not listed yet", result.message());
    rejection.with_retry_after(result.meta.get(RETRY_AFTER_META_KEY).and_then(Value::as_u64))
}

/// Builds the response to `GET /tools`: a list, or the object of `tools/list` for a client that accepts the
/// MCP envelope. The list is `[{…definition…, "endpoint": "/weather", "method": "POST"}]`, sorted by tool
/// name. `mount` is the prefix of every endpoint.
pub(super) fn tool_list(
    headers: &HeaderMap,
    snapshot: &Snapshot,
    client: &ClientIdentity,
    mount: &str,
) -> Response<Body> {
    let entries = snapshot.lists.tools.seen_by(client).map(|entry| {
        let definition = entry.json(STRUCTURED_CONTENT_SUPPORT).get();
        let route = snapshot.table.by_tool(&entry.key);
        let Some(endpoint) = route.and_then(|route| route.endpoints().next()) else {
            return definition.to_owned();
        };
        let members = definition.strip_suffix('}').expect("a definition is a JSON object");
        let (path, method) = (json!(format!("{mount}{}", endpoint.path)), json!(endpoint.method.as_str()));
        format!("{members},\"endpoint\":{path},\"method\":{method}}}")
    });
    let list = format!("[{}]", entries.collect::<Vec<_>>().join(","));
    let (envelope, media_type) = accepted_envelope(headers).unwrap_or((Envelope::Plain, JSON));
    let body = match envelope {
        Envelope::Mcp => format!("{{\"tools\":{list}}}"),
        Envelope::Plain => list,
    };
    ([(header::VARY, "accept")], build_response(StatusCode::OK, body.into(), media_type)).into_response()
}

/// Returns the HTTP status for the outcome of a call.
fn status_of(outcome: ToolOutcome, error_status: ErrorStatus) -> StatusCode {
    let error_type = match (outcome, error_status) {
        (ToolOutcome::Success, _) | (ToolOutcome::Error(_), ErrorStatus::Always200) => return StatusCode::OK,
        (ToolOutcome::Error(error_type), ErrorStatus::Mapped) => error_type,
    };
    match error_type {
        ErrorType::Arguments => StatusCode::BAD_REQUEST,
        // REST has no input requests, so REST clients can't call such a tool.
        ErrorType::Forbidden | ErrorType::InputMissing => StatusCode::FORBIDDEN,
        // A 407 would make the client treat glossator as its proxy, and send its proxy password.
        ErrorType::Upstream { status: 407 } => StatusCode::BAD_GATEWAY,
        ErrorType::Upstream { status } => StatusCode::from_u16(status)
            .ok()
            .filter(StatusCode::is_client_error)
            .unwrap_or(StatusCode::BAD_GATEWAY),
        ErrorType::ReportedError { status } => status
            .and_then(|status| StatusCode::from_u16(status).ok())
            .filter(|status| !status.is_informational())
            .unwrap_or(StatusCode::UNPROCESSABLE_ENTITY),
        ErrorType::UnparseableResponse | ErrorType::Unreachable => StatusCode::BAD_GATEWAY,
        ErrorType::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorType::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorType::RateLimited => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// Writes the structured content alone, or `{"result": TEXT}` without structured content. A tool error is
/// `{"error": TEXT}`, with `code` and `details` if the rule has a code and structured content.
///
/// The structured content is the same as in the MCP envelope, so it matches the `outputSchema` in
/// `GET /tools`. Without structured content, `result` is the list of content blocks if there are several or
/// one is not text (such as an image).
fn write_plain(result: &ToolResult, out: &mut Vec<u8>) {
    let key = match (result.outcome, &result.structured) {
        (ToolOutcome::Success, Some(structured)) => return write_structured(structured, out),
        (ToolOutcome::Success, None) => "result",
        (ToolOutcome::Error(_), _) => "error",
    };
    out.extend_from_slice(format!("{{\"{key}\":").as_bytes());
    let has_text = result.content.iter().any(|content| content.block.text(None).is_some());
    if has_text && (result.is_error() || result.content.len() == 1) {
        write_escaped(&result.message(), out);
    } else {
        let mut serialized = Vec::new();
        write_result(result, STRUCTURED_CONTENT_SUPPORT, &mut serialized);
        let mut mcp_result: Value = serde_json::from_slice(&serialized).unwrap_or_default();
        out.extend_from_slice(mcp_result["content"].take().to_string().as_bytes());
    }
    if result.is_error() {
        if let Some(code) = result.meta.get(CODE_META_KEY) {
            out.extend_from_slice(format!(",\"code\":{code}").as_bytes());
        }
        if let Some(structured) = &result.structured {
            out.extend_from_slice(b",\"details\":");
            write_structured(structured, out);
        }
    }
    out.push(b'}');
}

fn write_structured(structured: &Structured, out: &mut Vec<u8>) {
    let json = structured.json.bytes();
    if structured.is_wrapped(STRUCTURED_CONTENT_SUPPORT) {
        out.extend_from_slice(b"{\"result\":");
        out.extend_from_slice(json);
        out.push(b'}');
    } else {
        out.extend_from_slice(json);
    }
}

/// Builds an error of the API itself, which is the same in both envelopes.
fn error(status: StatusCode, message: &str) -> Response<Body> {
    value(status, &json!({ "error": message }))
}

/// Builds the error of a passthrough request, with `Retry-After` if a limit of glossator rejected it.
pub(super) fn upstream_failed(status: StatusCode, message: &str, delay: Option<Duration>) -> Response<Body> {
    let retry_after =
        delay.map(|delay| [(header::RETRY_AFTER, HeaderValue::from(whole_seconds(delay).max(1)))]);
    (retry_after, error(status, message)).into_response()
}

/// Builds a 405 with the header `Allow`.
pub(super) fn wrong_method(method: &Method, allowed: &[Method]) -> Response<Body> {
    let allowed_list = listed(allowed);
    let message = format!("`{method}` is not allowed here; use {allowed_list}");
    ([(header::ALLOW, allowed_list)], error(StatusCode::METHOD_NOT_ALLOWED, &message)).into_response()
}

/// Methods in the format of `Allow`.
pub(super) fn listed(methods: &[Method]) -> String {
    methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ")
}

/// Builds a response with a JSON document.
pub(super) fn value(status: StatusCode, value: &Value) -> Response<Body> {
    build_response(status, value.to_string().into(), JSON)
}

fn build_response(status: StatusCode, body: Body, media_type: &'static str) -> Response<Body> {
    let headers = [(header::CONTENT_TYPE, media_type), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{BlockText, Content, ContentBlock, JsonText};

    fn status(error_type: ErrorType) -> u16 {
        status_of(ToolOutcome::Error(error_type), ErrorStatus::Mapped).as_u16()
    }

    fn plain(result: &ToolResult) -> String {
        let mut out = Vec::new();
        write_plain(result, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_status_matches_the_error() {
        assert_eq!(status_of(ToolOutcome::Success, ErrorStatus::Mapped), 200);
        for (error_type, expected) in [
            (ErrorType::Arguments, 400),
            (ErrorType::InputMissing, 403),
            (ErrorType::Forbidden, 403),
            (ErrorType::Upstream { status: 404 }, 404),
            (ErrorType::Upstream { status: 429 }, 429),
            (ErrorType::Upstream { status: 407 }, 502),
            (ErrorType::Upstream { status: 500 }, 502),
            (ErrorType::Upstream { status: 302 }, 502),
            (ErrorType::Upstream { status: 1000 }, 502),
            (ErrorType::ReportedError { status: None }, 422),
            (ErrorType::ReportedError { status: Some(409) }, 409),
            (ErrorType::ReportedError { status: Some(100) }, 422),
            (ErrorType::UnparseableResponse, 502),
            (ErrorType::Unreachable, 502),
            (ErrorType::Timeout, 504),
            (ErrorType::Unavailable, 503),
            (ErrorType::RateLimited, 429),
        ] {
            assert_eq!(status(error_type), expected, "{error_type:?}");
            assert_eq!(status_of(ToolOutcome::Error(error_type), ErrorStatus::Always200), 200);
        }
    }

    #[test]
    fn the_client_may_choose_the_envelope() {
        let envelope_for = |accept: &str| {
            let headers = [(header::ACCEPT, accept.parse().unwrap())].into_iter().collect();
            accepted_envelope(&headers).map(|(envelope, _)| envelope)
        };
        assert_eq!(envelope_for("application/json, */*"), None);
        assert_eq!(envelope_for("application/vnd.glossator.plain+json"), Some(Envelope::Plain));
        assert_eq!(
            envelope_for("*/*;q=0.1, Application/Vnd.Glossator.MCP+json ; q=0.5"),
            Some(Envelope::Mcp)
        );
        let both = "application/vnd.glossator.mcp+json;q=0.2, application/vnd.glossator.plain+json;q=0.3";
        assert_eq!(envelope_for(both), Some(Envelope::Plain));
        assert_eq!(envelope_for("application/vnd.glossator.plain+json;q=0"), None);
        assert_eq!(envelope_for("application/vnd.glossator.plain+json;q=loud"), None);
    }

    #[test]
    fn the_plain_envelope_is_the_value_or_the_error() {
        let structured = |json: &'static str| {
            let mut result = ToolResult::new(
                ToolOutcome::Success,
                vec![ContentBlock::Text(BlockText::StructuredContent).into()],
            );
            result.structured =
                Some(Structured::new(JsonText::check(&Bytes::from_static(json.as_bytes())).unwrap()));
            result
        };
        assert_eq!(plain(&structured(r#"{"b": 1.0, "a": 2}"#)), r#"{"b": 1.0, "a": 2}"#);
        assert_eq!(plain(&structured("[1]")), r#"{"result":[1]}"#);
        assert_eq!(plain(&ToolResult::text("it is \"5\"")), r#"{"result":"it is \"5\""}"#);
        assert_eq!(plain(&ToolResult::error(ErrorType::Unavailable, "busy")), r#"{"error":"busy"}"#);
        let mut full = ToolResult::error(ErrorType::Unavailable, "disk full").with_meta(CODE_META_KEY, 28);
        full.structured = structured(r#"{"disk":"sda"}"#).structured;
        assert_eq!(plain(&full), r#"{"error":"disk full","code":28,"details":{"disk":"sda"}}"#);
        let image = ContentBlock::Image { data: "AA==".into(), mime_type: "image/png".into() };
        let picture = ToolResult::new(ToolOutcome::Success, vec![Content::from(image)]);
        let blocks = r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#;
        assert_eq!(plain(&picture), format!(r#"{{"result":[{blocks}]}}"#));
        let mut several = picture;
        several.content.extend(["a", "b"].map(Content::text));
        let texts = r#"{"type":"text","text":"a"},{"type":"text","text":"b"}"#;
        assert_eq!(plain(&several), format!(r#"{{"result":[{blocks},{texts}]}}"#));
        several.outcome = ToolOutcome::Error(ErrorType::Unavailable);
        assert_eq!(plain(&several), r#"{"error":"a\nb"}"#);
    }
}
