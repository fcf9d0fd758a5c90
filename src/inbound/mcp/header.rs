//! The headers with which revision 2026-07-28 repeats parts of the body, held against the body.
//!
//! Balancers and gateways decide by them without reading the body, so a request in which the two differ must
//! not be served (MCP 2026-07-28, Streamable HTTP, "Server Validation").

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, header::AsHeaderName};
use serde_json::{Map, Number, Value};

use super::refusal::{Refusal, Short};

pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The last event of a stream that a client has read (WHATWG HTML, "Server-sent events").
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The value of a header that there must not be two of. One that some proxy repeated word for word counts
/// once.
pub(super) fn sole(headers: &HeaderMap, name: impl AsHeaderName + Copy) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.any(|other| other != value) {
        return Err(Refusal::Headers(format!(
            "header `{}` is there twice, with different values",
            name.as_str()
        )));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\t']))),
        Err(_) => {
            Err(Refusal::Headers(format!("header `{}` has characters that must be encoded", name.as_str())))
        }
    }
}

/// `Mcp-Method` repeats `method`.
pub(super) fn check_method(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    match sole(headers, &METHOD)? {
        Some(found) if found == method => Ok(()),
        Some(found) => Err(differs("Mcp-Method", found, method)),
        None => Err(missing("Mcp-Method", method)),
    }
}

/// `Mcp-Method` of a notification need not be there, and where it is it repeats `method`: the revision says nothing of
/// it, and who decides by it must not be told something else than we are.
pub(super) fn check_method_if_any(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    match sole(headers, &METHOD)? {
        None => Ok(()),
        Some(_) => check_method(headers, method),
    }
}

/// `Mcp-Name` repeats `params.name`.
pub(super) fn check_name(headers: &HeaderMap, name: &str) -> Result<(), Refusal> {
    match sole(headers, &NAME)? {
        Some(found) if decoded("Mcp-Name", found)? == name => Ok(()),
        Some(found) => Err(differs("Mcp-Name", found, name)),
        None => Err(missing("Mcp-Name", name)),
    }
}

/// `Mcp-Param-…` repeat the arguments that the tool's input schema marks with `x-mcp-header`.
pub(super) fn check_arguments(
    headers: &HeaderMap,
    schema: &Map<String, Value>,
    arguments: &Map<String, Value>,
) -> Result<(), Refusal> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
    for (name, property) in properties {
        let Value::Object(property) = property else { continue };
        let argument = arguments.get(name);
        if let Some(suffix) = property.get("x-mcp-header").and_then(Value::as_str) {
            check_argument(headers, suffix, argument)?;
        }
        // A marked property may lie deeper, as long as only `properties` lead to it.
        let none = Map::new();
        check_arguments(headers, property, argument.and_then(Value::as_object).unwrap_or(&none))?;
    }
    Ok(())
}

fn check_argument(headers: &HeaderMap, suffix: &str, argument: Option<&Value>) -> Result<(), Refusal> {
    let name = format!("Mcp-Param-{suffix}");
    if let Some(Value::Number(number)) = argument
        && !is_safe(number)
    {
        return Err(Refusal::Headers(format!(
            "the argument of header `{name}` is {}; what is repeated in a header is from -{MOST_SAFE} to {MOST_SAFE}",
            Short(&number.to_string())
        )));
    }
    let expected: Option<Cow<'_, str>> = match argument {
        Some(Value::String(text)) => Some(text.as_str().into()),
        Some(Value::Bool(flag)) => Some(flag.to_string().into()),
        Some(Value::Number(number)) => Some(number.to_string().into()),
        // Arrays and objects have no header; the input schema is about to refuse them.
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => None,
    };
    match (sole(headers, name.as_str())?, expected) {
        (None, None) => Ok(()),
        (None, Some(expected)) => Err(missing(&name, &expected)),
        (Some(found), None) => Err(Refusal::Headers(format!(
            "header `{name}` is `{}`, but the argument is not there",
            Short(found)
        ))),
        (Some(found), Some(expected)) => {
            let value = decoded(&name, found)?;
            let equal = value == expected
                || matches!(argument, Some(Value::Number(_))) && equal_as_numbers(&value, &expected);
            if equal { Ok(()) } else { Err(differs(&name, found, &expected)) }
        }
    }
}

/// The largest whole number that every reader of a header has exactly: 2^53 - 1 (MCP 2026-07-28, Streamable HTTP,
/// "Schema Extension").
const MOST_SAFE: u64 = 9_007_199_254_740_991;

/// Whether no reader takes the number for another one.
fn is_safe(number: &Number) -> bool {
    number.as_f64().is_some_and(|value| value.abs() <= MOST_SAFE as f64)
}

/// `42.0` and `42` are the same number. Neither is beyond what a double has exactly.
fn equal_as_numbers(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other && one.abs() <= MOST_SAFE as f64,
        _ => false,
    }
}

/// Undoes the sentinel `=?base64?…?=` round a value that is not plain ASCII.
fn decoded<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, Refusal> {
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(value.into());
    };
    let bytes = BASE64_STANDARD.decode(encoded).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Cow::Owned).ok_or_else(|| Refusal::Headers(format!("header `{name}` is not UTF-8 in Base64")))
}

fn differs(name: &str, found: &str, expected: &str) -> Refusal {
    Refusal::Headers(format!(
        "header `{name}` is `{}`, but the body says `{}`",
        Short(found),
        Short(expected)
    ))
}

fn missing(name: &str, expected: &str) -> Refusal {
    Refusal::Headers(format!("header `{name}` is missing; the body says `{}`", Short(expected)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value);
        }
        headers
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)], arguments: Value, expected: Result<(), &str>) {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "deep": { "type": "object", "properties": { "flag": { "type": "boolean", "x-mcp-header": "Flag" } } },
        } });
        let found =
            check_arguments(&headers(pairs), schema.as_object().unwrap(), arguments.as_object().unwrap());
        match (found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(Refusal::Headers(found)), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn arguments_that_are_marked_must_be_repeated_as_they_are() {
        check(&[("mcp-param-region", "eu")], json!({ "region": "eu" }), Ok(()));
        check(&[("MCP-PARAM-REGION", " eu ")], json!({ "region": "eu" }), Ok(()));
        check(&[("mcp-param-region", "EU")], json!({ "region": "eu" }), Err("is `EU`"));
        check(&[], json!({ "region": "eu" }), Err("is missing"));
        check(&[], json!({ "region": null }), Ok(()));
        check(&[], json!({}), Ok(()));
        check(&[("mcp-param-region", "eu")], json!({}), Err("not there"));
        check(&[("mcp-param-flag", "true")], json!({ "deep": { "flag": true } }), Ok(()));
        check(&[("mcp-param-flag", "false")], json!({ "deep": { "flag": true } }), Err("is `false`"));
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        check(&[("mcp-param-count", "42.0")], json!({ "count": 42 }), Ok(()));
        check(&[("mcp-param-count", "43")], json!({ "count": 42 }), Err("is `43`"));
        check(&[("mcp-param-count", "-7")], json!({ "count": -7.0 }), Ok(()));
        for odd in ["", "x", "inf", "NaN", "4 2", "42,42"] {
            check(&[("mcp-param-count", odd)], json!({ "count": 42 }), Err("but the body says `42`"));
        }
        check(&[("mcp-param-count", "9007199254740991")], json!({ "count": 9007199254740991_u64 }), Ok(()));
        // Equal to the letter, and not the same number to every reader.
        for beyond in [json!(9007199254740993_u64), json!(-9007199254740992_i64)] {
            let text = beyond.to_string();
            check(&[("mcp-param-count", &text)], json!({ "count": beyond }), Err("-9007199254740991 to"));
        }
        // A text of digits is a text.
        check(&[("mcp-param-region", "042")], json!({ "region": "42" }), Err("is `042`"));
    }

    #[test]
    fn the_sentinel_is_undone_and_what_only_looks_like_it_is_not() {
        check(&[("mcp-param-region", "=?base64?SGVsbG8=?=")], json!({ "region": "Hello" }), Ok(()));
        check(&[("mcp-param-region", "=?base64?SGVsbG8?=")], json!({ "region": "Hello" }), Err("Base64"));
        check(&[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")], json!({ "region": "Hello" }), Err("Base64"));
        check(&[("mcp-param-region", "=?base64?/w==?=")], json!({ "region": "x" }), Err("UTF-8"));
        check(&[("mcp-param-region", "=?base64??=")], json!({ "region": "" }), Ok(()));
        check(&[("mcp-param-region", "")], json!({ "region": "" }), Ok(()));
        check(&[("mcp-param-region", "=?base64?IHBhZGRlZCA=?=")], json!({ "region": " padded " }), Ok(()));
        check(
            &[("mcp-param-region", "=?base64?bGluZTEKbGluZTI=?=")],
            json!({ "region": "line1\nline2" }),
            Ok(()),
        );
        let looks_like_it = json!({ "region": "=?base64?literal?=" });
        check(&[("mcp-param-region", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")], looks_like_it.clone(), Ok(()));
        check(&[("mcp-param-region", "=?base64?literal?=")], looks_like_it, Err("Base64"));
        check(&[("mcp-param-count", "=?base64?NDI=?=")], json!({ "count": 42 }), Ok(()));
        check(&[("mcp-param-flag", "=?base64?dHJ1ZQ==?=")], json!({ "deep": { "flag": true } }), Ok(()));
        check(&[("mcp-param-region", "SGVsbG8=")], json!({ "region": "SGVsbG8=" }), Ok(()));
        check(&[("mcp-param-region", "=?base64?SGVsbG8=")], json!({ "region": "=?base64?SGVsbG8=" }), Ok(()));
        check(
            &[("mcp-param-region", "=?BASE64?SGVsbG8=?=")],
            json!({ "region": "Hello" }),
            Err("is `=?BASE64"),
        );
    }

    #[test]
    fn a_header_that_is_there_twice_must_agree_with_itself() {
        let twice = [("mcp-param-region", "eu"), ("mcp-param-region", "eu")];
        check(&twice, json!({ "region": "eu" }), Ok(()));
        let torn = [("mcp-param-region", "eu"), ("mcp-param-region", "us")];
        check(&torn, json!({ "region": "eu" }), Err("twice"));
        check(&[("mcp-param-region", "caf\u{e9}")], json!({ "region": "caf\u{e9}" }), Err("encoded"));
    }

    #[test]
    fn method_and_name_must_be_repeated_to_the_letter() {
        let good = headers(&[("mcp-method", "tools/call"), ("mcp-name", "=?base64?YmVyZ2VuIMOl?=")]);
        check_method(&good, "tools/call").unwrap();
        check_name(&good, "bergen å").unwrap();
        check_method(&good, "TOOLS/CALL").unwrap_err();
        check_method(&HeaderMap::new(), "tools/call").unwrap_err();
        check_name(&HeaderMap::new(), "x").unwrap_err();
    }
}
