//! A request to arguments: from the path, from the query, from a JSON body, each name once.
//!
//! What is in path and query is text; the input schema says what it is meant to be.

use axum::body::Body;
use http::{HeaderMap, StatusCode, header, request::Parts};
use percent_encoding::percent_decode;
use serde_json::{Map, Number, Value};

use crate::{
    face::door::{BodyError, Door},
    route::Route,
    tool::kind_of,
};

/// Why a request has no arguments that could be checked.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error(transparent)]
    Body(BodyError),
    #[error(
        "expected a body of type `application/json`, found `{found}`; send the header `Content-Type: application/json`"
    )]
    MediaType { found: String },
    #[error("{}: {what}", Self::INVALID_JSON)]
    NotJson { what: String },
    #[error("expected a JSON object with the arguments, found {found}")]
    NotAnObject { found: &'static str },
    #[error("the query is not UTF-8")]
    Query,
    #[error("argument `{name}` is given more than once: in the {first} and in the {second}")]
    Twice { name: String, first: &'static str, second: &'static str },
}

impl DecodeError {
    pub(super) const INVALID_JSON: &str = "Invalid JSON body";

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Body(error) => error.status(),
            Self::MediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NotJson { .. } | Self::NotAnObject { .. } | Self::Query | Self::Twice { .. } => {
                StatusCode::BAD_REQUEST
            }
        }
    }
}

/// Reads the arguments of a call. Whether they fit the input schema is the gateway's question.
pub(super) async fn arguments(
    door: &Door,
    route: &Route,
    in_path: Vec<(String, String)>,
    parts: &Parts,
    body: Body,
) -> Result<Map<String, Value>, DecodeError> {
    let body = door.read(&parts.headers, body).await.map_err(DecodeError::Body)?;
    let mut arguments = if body.is_empty() {
        Map::new()
    } else {
        check_media_type(&parts.headers)?;
        object(&body)?
    };
    let schema = route.input.document();
    let mut taken = Vec::new();
    for (name, value) in in_path {
        let value = typed(schema, &name, vec![value]);
        if arguments.insert(name.clone(), value).is_some() {
            return Err(DecodeError::Twice { name, first: "path", second: "body" });
        }
        taken.push(name);
    }
    for (name, values) in query(parts.uri.query().unwrap_or_default())? {
        let value = typed(schema, &name, values);
        if arguments.insert(name.clone(), value).is_some() {
            let first = if taken.contains(&name) { "path" } else { "body" };
            return Err(DecodeError::Twice { name, first, second: "query" });
        }
    }
    Ok(arguments)
}

/// A body without a type is taken for JSON; what browsers send across origins without asking first is not.
fn check_media_type(headers: &HeaderMap) -> Result<(), DecodeError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(DecodeError::MediaType { found: essence.chars().take(100).collect() }) }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, DecodeError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => Err(DecodeError::NotAnObject { found: kind_of(&other) }),
        Err(error) => Err(DecodeError::NotJson { what: error.to_string() }),
    }
}

/// The names of a query in order of appearance, each with all its values.
fn query(query: &str) -> Result<Vec<(String, Vec<String>)>, DecodeError> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (form_decoded(name)?, form_decoded(value)?);
        match places.get(&name) {
            Some(&place) => {
                let (_, values): &mut (String, Vec<String>) = &mut found[place];
                values.push(value);
            }
            None => {
                places.insert(name.clone(), found.len());
                found.push((name, vec![value]));
            }
        }
    }
    Ok(found)
}

fn form_decoded(text: &str) -> Result<String, DecodeError> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| DecodeError::Query)
}

/// Texts as the value that the schema asks for under this name. What can't be such a value stays a text, so that
/// the check of the schema says what is wrong with it.
fn typed(schema: &Map<String, Value>, name: &str, mut texts: Vec<String>) -> Value {
    let property = schema.get("properties").and_then(|properties| properties.get(name));
    let property = property.map(|property| Wanted::of(schema, property, Wanted::REFERENCES_FOLLOWED));
    let property = property.unwrap_or_default();
    match texts.pop() {
        Some(only) if texts.is_empty() && (property.string || !property.array) => property.value(only),
        last => {
            let items = property.items.map(|items| Wanted::of(schema, items, Wanted::REFERENCES_FOLLOWED));
            let items = items.unwrap_or_default();
            texts.into_iter().chain(last).map(|text| items.value(text)).collect()
        }
    }
}

/// What kinds of value a schema admits, as far as it says so outright.
#[derive(Debug, Default)]
struct Wanted<'a> {
    string: bool,
    number: bool,
    boolean: bool,
    null: bool,
    array: bool,
    object: bool,
    fixed: Vec<&'a Value>,
    items: Option<&'a Value>,
}

impl<'a> Wanted<'a> {
    /// How many `$ref` and combinations are looked into, one inside the other; a schema may refer to itself.
    const REFERENCES_FOLLOWED: u8 = 8;

    fn of(root: &'a Map<String, Value>, schema: &'a Value, depth: u8) -> Self {
        let mut wanted = Self::default();
        wanted.look(root, schema, depth);
        wanted
    }

    fn look(&mut self, root: &'a Map<String, Value>, schema: &'a Value, depth: u8) {
        let Some(schema) = schema.as_object() else { return };
        match schema.get("type") {
            Some(Value::String(kind)) => self.admit(kind),
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).for_each(|kind| self.admit(kind))
            }
            _ => {
                self.fixed.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten());
                self.fixed.extend(schema.get("const"));
            }
        }
        self.items = self.items.or_else(|| schema.get("items"));
        let Some(depth) = depth.checked_sub(1) else { return };
        if let Some(target) =
            schema.get("$ref").and_then(Value::as_str).and_then(|pointer| local(root, pointer))
        {
            self.look(root, target, depth);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
                self.look(root, part, depth);
            }
        }
    }

    fn admit(&mut self, kind: &str) {
        match kind {
            "string" => self.string = true,
            "number" | "integer" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "array" => self.array = true,
            "object" => self.object = true,
            _ => {}
        }
    }

    fn value(&self, text: String) -> Value {
        if self.string {
            return Value::String(text);
        }
        if let Some(fixed) = self.fixed.iter().find(|fixed| is_written(fixed, &text)) {
            return (*fixed).clone();
        }
        match text.as_str() {
            "true" if self.boolean => return Value::Bool(true),
            "false" if self.boolean => return Value::Bool(false),
            "null" if self.null => return Value::Null,
            _ => {}
        }
        // The number keeps its text: `1.0` stays `1.0`.
        if self.number
            && let Ok(number) = text.parse::<Number>()
        {
            return Value::Number(number);
        }
        if self.object
            && let Ok(Value::Object(object)) = serde_json::from_str(&text)
        {
            return Value::Object(object);
        }
        Value::String(text)
    }
}

fn is_written(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            serde_json::from_str::<Value>(text).is_ok_and(|written| written == *value)
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// What `#/…` points to in a document.
fn local<'a>(root: &'a Map<String, Value>, pointer: &str) -> Option<&'a Value> {
    let (first, rest) = match pointer.strip_prefix("#/")?.split_once('/') {
        Some((first, rest)) => (first, format!("/{rest}")),
        None => (pointer.strip_prefix("#/")?, String::new()),
    };
    root.get(first)?.pointer(&rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(property: Value, texts: &[&str], expected: Value) {
        let schema = json!({
            "properties": { "x": property },
            "$defs": { "count": { "type": "integer" }, "loop": { "$ref": "#/$defs/loop" } },
        });
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(typed(schema.as_object().unwrap(), "x", texts).to_string(), expected.to_string());
    }

    #[test]
    fn a_text_becomes_what_the_schema_asks_for() {
        check(json!({ "type": "integer" }), &["5"], json!(5));
        check(json!({ "type": "string" }), &["5"], json!("5"));
        check(json!({ "type": ["string", "integer"] }), &["5"], json!("5"));
        check(json!({ "type": "boolean" }), &["true"], json!(true));
        check(json!({ "type": ["integer", "null"] }), &["null"], json!(null));
        check(json!({ "type": "object" }), &[r#"{"a":1}"#], json!({ "a": 1 }));
        check(json!({ "enum": [1, "two"] }), &["1"], json!(1));
        check(json!({ "enum": [1, "two"] }), &["two"], json!("two"));
        check(json!({ "$ref": "#/$defs/count" }), &["5"], json!(5));
        check(json!({ "anyOf": [{ "type": "number" }, { "type": "null" }] }), &["5"], json!(5));
        check(json!({}), &["5"], json!("5"));
    }

    #[test]
    fn a_number_keeps_its_text() {
        let schema = json!({ "properties": { "x": { "type": "number" } } });
        for text in ["1.0", "12345678901234567890", "0.10", "-3"] {
            let value = typed(schema.as_object().unwrap(), "x", vec![text.to_owned()]);
            assert!(value.is_number(), "{text}");
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_converted_stays_for_the_schema_to_name() {
        check(json!({ "type": "integer" }), &["five"], json!("five"));
        check(json!({ "type": "integer" }), &["05"], json!("05"));
        check(json!({ "type": "boolean" }), &["yes"], json!("yes"));
        check(json!({ "type": "integer" }), &["1", "2"], json!(["1", "2"]));
        check(json!({ "$ref": "#/$defs/loop" }), &["5"], json!("5"));
    }

    #[test]
    fn repeated_names_make_an_array() {
        let numbers = json!({ "type": "array", "items": { "type": "integer" } });
        check(numbers.clone(), &["1", "2"], json!([1, 2]));
        check(numbers, &["1"], json!([1]));
        check(json!({ "type": ["string", "array"] }), &["a"], json!("a"));
    }

    #[test]
    fn a_query_is_read_as_forms_are_written() {
        let found = query("a=1&b=x+y%26z&a=2&&c").unwrap();
        let strings = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let expected = [("a", strings(&["1", "2"])), ("b", strings(&["x y&z"])), ("c", strings(&[""]))];
        assert_eq!(found, expected.map(|(name, values)| (name.to_owned(), values)));
        assert!(matches!(query("a=%ff"), Err(DecodeError::Query)));
    }

    #[test]
    fn a_body_is_one_json_object() {
        assert_eq!(object(br#"{"a": 1.0}"#).unwrap()["a"].to_string(), "1.0");
        for (body, words) in [
            (&b"[1]"[..], "found an array"),
            (b"{\"a\": }", "Invalid JSON body: expected value at line 1 column 7"),
            (b"{\"a\": \"\xff\"}", "Invalid JSON body"),
        ] {
            let error = object(body).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_form_is_not_json() {
        let of = |value: &str| {
            check_media_type(&[(header::CONTENT_TYPE, value.parse().unwrap())].into_iter().collect())
        };
        of("Application/JSON; charset=utf-8").unwrap();
        of("application/vnd.x+json").unwrap();
        for value in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
            assert!(matches!(of(value), Err(DecodeError::MediaType { .. })), "{value}");
        }
    }
}
