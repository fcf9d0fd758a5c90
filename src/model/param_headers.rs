//! Arguments that clients repeat in `Mcp-Param-…` headers, and the encoding of text in headers (MCP
//! 2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters" and "Value Encoding").
//!
//! The keyword `x-mcp-header` in an input schema marks such an argument. A client sends the headers, and
//! drops a tool with an invalid `x-mcp-header`. A server compares the headers with the arguments.

use std::{borrow::Cow, collections::HashMap};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderValue;
use serde_json::{Map, Number, Value};

use super::schema::{LocatedSchema, subschemas};
use super::violation::shown;

/// Keyword of a property in an input schema that names the header of the argument.
pub const PARAM_HEADER_KEYWORD: &str = "x-mcp-header";

/// Maximum integer that every reader of a header represents exactly: 2^53 - 1.
pub const PARAM_HEADER_MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// Error for an invalid `x-mcp-header` keyword. Clients reject a tool with such a keyword.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at `{pointer}`: {message}")]
pub struct InvalidParamHeader {
    /// JSON Pointer of the schema that contains the keyword.
    pub pointer: String,
    /// Reason, in one sentence.
    pub message: String,
    /// Suggested fix.
    pub help: &'static str,
}

/// Returns each `x-mcp-header` of a property, nested properties included, with the value of the argument if
/// it is present.
pub fn param_headers<'s>(
    schema: &'s Map<String, Value>,
    arguments: Option<&'s Map<String, Value>>,
) -> Vec<(&'s str, Option<&'s Value>)> {
    let mut found = Vec::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Value::Object(property) = property else { continue };
        let argument = arguments.and_then(|arguments| arguments.get(name));
        let header = property.get(PARAM_HEADER_KEYWORD).and_then(Value::as_str);
        found.extend(header.map(|header| (header, argument)));
        found.append(&mut param_headers(property, argument.and_then(Value::as_object)));
    }
    found
}

/// Returns the header value of an argument, not yet encoded. `None` for `null`, which has no header, and for
/// arrays and objects, for which `x-mcp-header` is invalid.
pub fn param_header_text(argument: &Value) -> Option<Cow<'_, str>> {
    match argument {
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::Number(number) => Some(integer_text(number).unwrap_or_else(|| number.to_string()).into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether a number is within [`PARAM_HEADER_MAX_INTEGER`], in absolute value.
pub fn is_exact_in_header(number: &Number) -> bool {
    number.as_f64().is_some_and(|value| value.abs() <= PARAM_HEADER_MAX_INTEGER as f64)
}

/// Formats an integer without decimal point and exponent: `42` for `42.0`.
fn integer_text(number: &Number) -> Option<String> {
    let value = number.as_f64().filter(|value| value.fract() == 0.0 && is_exact_in_header(number))?;
    Some((value as i64).to_string())
}

/// Encodes text as a header value. Printable ASCII without surrounding spaces is unchanged. Other text is
/// base64 between `=?base64?` and `?=`, and so are the empty string and text that begins with `=?base64?`.
pub fn encode_header_text(text: &str) -> HeaderValue {
    let is_plain = !text.is_empty()
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    let encoded = (!is_plain).then(|| format!("=?base64?{}?=", BASE64_STANDARD.encode(text)));
    HeaderValue::from_str(encoded.as_deref().unwrap_or(text)).expect("printable ASCII only")
}

/// Decodes a header value; `None` if the text between `=?base64?` and `?=` is not base64 of UTF-8.
pub fn decode_header_text(value: &str) -> Option<Cow<'_, str>> {
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(value.into());
    };
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Finds every invalid `x-mcp-header` of an input schema.
pub fn invalid_param_headers(schema: &Map<String, Value>) -> Vec<InvalidParamHeader> {
    let (root, mut invalid) = (Value::Object(schema.clone()), Vec::new());
    // JSON Pointers of schemas, by the header name in lower case.
    let mut pointers = HashMap::new();
    for LocatedSchema { schema, pointer, is_property } in subschemas(&root) {
        let Some(header) = schema.get(PARAM_HEADER_KEYWORD) else { continue };
        let mut report = |message: String, help| {
            let message = format!("`{PARAM_HEADER_KEYWORD}` {message}");
            invalid.push(InvalidParamHeader { pointer: pointer.clone(), message, help });
        };
        let Some(name) = header.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_tchar)) else {
            let help = "write letters, digits and `-`: `Region` becomes the header `Mcp-Param-Region`";
            report(format!("must be part of a header name; found {}", shown(header)), help);
            continue;
        };
        if let Some(first_pointer) = pointers.insert(name.to_ascii_lowercase(), pointer.clone()) {
            let help = "rename one; header names are case-insensitive";
            report(format!("must be unique; `{first_pointer}` has the same one"), help);
        }
        match schema.get("type").and_then(Value::as_str) {
            _ if !is_property || pointer.is_empty() => report(
                "applies only to properties, reached through `properties`".to_owned(),
                "move it to a property of the root, or of a nested `properties`",
            ),
            Some("string" | "integer" | "boolean") => {}
            _ => {
                let found = schema.get("type").map_or_else(|| "no type".to_owned(), shown);
                report(
                    format!(
                        "applies only to arguments of type `string`, `integer` or `boolean`; found {found}"
                    ),
                    "write `type: string`, or remove the header",
                );
            }
        }
    }
    invalid
}

/// Whether a byte is a token character, `tchar` (RFC 9110, section 5.6.2).
pub(super) fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_headers_are_found_where_they_are() {
        let schema = json!({
            "type": "object",
            "properties": {
                "good": { "type": "string", "x-mcp-header": "Good" },
                "deep": { "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
                "x-mcp-header": { "type": "string" },
                "a/b": { "type": "string", "x-mcp-header": "" },
                "same": { "type": "boolean", "x-mcp-header": "gOOD" },
                "number": { "type": "number", "x-mcp-header": "Number" },
                "list": { "type": "array", "items": { "type": "string", "x-mcp-header": "Item" } },
            },
            "allOf": [{ "properties": { "z": { "type": "string", "x-mcp-header": "Z" } } }],
            "examples": [{ "x-mcp-header": 7 }],
        });
        let found = invalid_param_headers(schema.as_object().unwrap());
        let expected = [
            ("/properties/a~1b", "must be part of a header name"),
            ("/properties/same", "must be unique; `/properties/good`"),
            ("/properties/number", "applies only to arguments"),
            ("/properties/list/items", "applies only to properties"),
            ("/allOf/0/properties/z", "applies only to properties"),
        ];
        assert_eq!(found.len(), expected.len());
        for (found, (pointer, words)) in found.iter().zip(expected) {
            assert!(found.pointer == pointer && found.message.contains(words), "{found}");
        }
    }

    #[test]
    fn an_encoded_text_is_decoded_to_itself() {
        for (text, encoded) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", "=?base64??="),
        ] {
            assert_eq!(encode_header_text(text).to_str().unwrap(), encoded);
            assert_eq!(decode_header_text(encoded).unwrap(), text);
        }
        assert_eq!(decode_header_text("=?base64?/w==?="), None);
    }

    #[test]
    fn an_integer_has_neither_point_nor_exponent() {
        for (argument, text) in [
            ("42", Some("42")),
            ("42.0", Some("42")),
            ("-7e1", Some("-70")),
            ("9007199254740993", Some("9007199254740993")),
            ("1.5", Some("1.5")),
            ("true", Some("true")),
            ("\"042\"", Some("042")),
            ("null", None),
            ("[1]", None),
        ] {
            let argument: Value = serde_json::from_str(argument).unwrap();
            assert_eq!(param_header_text(&argument).as_deref(), text, "{argument}");
        }
    }
}
