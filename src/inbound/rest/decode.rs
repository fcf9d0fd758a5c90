//! A request to arguments: from the path, from the query, from a JSON body, each name once.
//!
//! What is in path and query is text; the input schema says what it is meant to be.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, request::Parts};
use percent_encoding::percent_decode;
use serde_json::{Map, Value};

use crate::{
    inbound::{
        context::Reason,
        door::{BodyError, Door},
    },
    model::{ARGUMENT_VALUE_LIMIT, kind_of, values_within},
    route::Route,
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

impl Reason for DecodeError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Body(error) => error.reason(),
            Self::MediaType { .. } => "media type of the body",
            Self::NotJson { .. } => "invalid JSON",
            Self::NotAnObject { .. } => "arguments are not a JSON object",
            Self::Query => "query is not UTF-8",
            Self::Twice { .. } => "argument given more than once",
        }
    }
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

/// Reads the arguments of a call, and gives the body back beside them: it counts among those that are held for as long as
/// somebody has it. Whether they fit the input schema is the gateway's question.
pub(super) async fn arguments(
    door: &Door,
    route: &Route,
    in_path: Vec<(String, String)>,
    parts: &Parts,
    body: Body,
) -> Result<(Map<String, Value>, Bytes), DecodeError> {
    let body = door.read(&parts.headers, body).await.map_err(DecodeError::Body)?;
    let mut arguments = if body.is_empty() {
        Map::new()
    } else {
        check_media_type(&parts.headers)?;
        object(&body)?
    };
    let mut taken = Vec::new();
    for (name, value) in in_path {
        let value = route.input.of_texts(&name, vec![value]);
        if arguments.insert(name.clone(), value).is_some() {
            return Err(DecodeError::Twice { name, first: "path", second: "body" });
        }
        taken.push(name);
    }
    for (name, values) in query(parts.uri.query().unwrap_or_default())? {
        let value = route.input.of_texts(&name, values);
        if arguments.insert(name.clone(), value).is_some() {
            let first = if taken.contains(&name) { "path" } else { "body" };
            return Err(DecodeError::Twice { name, first, second: "query" });
        }
    }
    Ok((arguments, body))
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
    values_within(body, ARGUMENT_VALUE_LIMIT)
        .map_err(|many| DecodeError::NotJson { what: many.to_string() })?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
