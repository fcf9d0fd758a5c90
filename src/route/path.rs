//! Path and query templates, and resolution of a `Location`.
//!
//! An argument is percent-encoded, and a path that a server may resolve to a parent folder is rejected, so an
//! argument cannot cause path traversal or a request to another server (SSRF). The fixed text of a query is
//! sent byte for byte.

use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use serde_json::Value;
use url::{Position, Url};

use super::request::items_of;
use crate::model::{Arguments, kind_of};
use crate::settings::suggest::quoted;

/// All characters except the unreserved characters of RFC 3986, section 2.3.
pub(super) const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Appends `name=value` to a query or a form.
pub fn push_parameter(encoded: &mut String, name: &str, value: &str) {
    if !encoded.is_empty() {
        encoded.push('&');
    }
    encoded.extend(utf8_percent_encode(name, ESCAPED));
    encoded.push('=');
    encoded.extend(utf8_percent_encode(value, ESCAPED));
}

/// Path template such as `/v1/forecast/{location}`.
///
/// An argument is percent-encoded as a whole, so it stays within its segment: `/`, `?`, `#` and `%` have no
/// special meaning. Arguments that result in the segment `.` or `..`, or in a path traversal once a server
/// decodes the path, are rejected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathTemplate {
    parts: Vec<PathPart>,
    /// Whether the upstream receives the path decoded, as a CGI program does. An argument with `/` would then
    /// become several segments.
    pub is_sent_decoded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathPart {
    Fixed(String),
    Argument(String),
}

/// Reason why a string is not a valid template of a path, a query or a resource URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathTemplateError {
    message: String,
    /// Argument that the error is about, as it is in the braces.
    pub argument: Option<String>,
}

impl PathTemplateError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), argument: None }
    }

    pub(super) fn with_argument(message: impl Into<String>, argument: &str) -> Self {
        Self { message: message.into(), argument: Some(argument.to_owned()) }
    }
}

impl PathTemplate {
    /// Parses a path template.
    ///
    /// # Errors
    ///
    /// [`PathTemplateError`] for a string that does not begin with `/`, an unmatched brace, an invalid
    /// argument name, a character that must be encoded, or a path traversal.
    pub fn parse(text: &str) -> Result<Self, PathTemplateError> {
        let invalid = |message: String| Err(PathTemplateError::new(message));
        if !text.starts_with('/') {
            return invalid(format!("a path begins with `/`, found {}", quoted(text)));
        }
        let parts = parse_parts(text)?;
        let is_invalid = |c: &char| {
            !c.is_ascii_graphic() || matches!(c, '?' | '#' | '"' | '<' | '>' | '\\' | '^' | '`' | '|')
        };
        for part in &parts {
            if let PathPart::Fixed(text) = part
                && let Some(character) = text.chars().find(is_invalid)
            {
                return invalid(format!("a path can't have {character:?}; write it percent-encoded"));
            }
        }
        if let Some(dots) = text.split('/').find(|segment| matches!(*segment, "." | "..")) {
            return invalid(format!("a path can't have the segment `{dots}`"));
        }
        if is_path_traversal(text) {
            let reason = "has a `..` segment or a NUL byte once a server decodes it";
            return invalid(format!("the path `{text}` {reason}"));
        }
        Ok(Self { parts, is_sent_decoded: false })
    }

    /// Names of the arguments, in order.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        arguments_in(&self.parts)
    }

    /// Builds the path from the arguments.
    ///
    /// # Errors
    ///
    /// A message for the model if an argument is missing, empty, not a scalar, or would change the segments
    /// of the path.
    pub(super) fn fill(&self, arguments: &Arguments) -> Result<String, String> {
        let mut path = String::new();
        for part in &self.parts {
            match part {
                PathPart::Fixed(text) => path.push_str(text),
                PathPart::Argument(name) => {
                    let text = scalar(name, arguments.get(name))?;
                    if text.is_empty() {
                        return Err(format!("argument `{name}` must not be empty"));
                    }
                    if self.is_sent_decoded && text.contains('/') {
                        return Err(format!("argument `{name}` must not contain `/`"));
                    }
                    path.extend(utf8_percent_encode(&text, ESCAPED));
                }
            }
        }
        // Segments are only complete after rendering: `{a}{b}` with two arguments `.` is `..`.
        if path.split('/').any(|segment| matches!(segment, "." | "..")) || is_path_traversal(&path) {
            let names: Vec<_> = self.arguments().map(|name| format!("`{name}`")).collect();
            let names = names.join(" or ");
            return Err(format!(
                "argument {names} must not be `.` or `..`, nor have `..` between slashes or a NUL byte"
            ));
        }
        Ok(path)
    }
}

/// Splits a template into fixed text and arguments.
pub(super) fn parse_parts(text: &str) -> Result<Vec<PathPart>, PathTemplateError> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(brace_index) = rest.find(['{', '}']) {
        let braces = rest[brace_index..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, after) = braces.ok_or_else(|| {
            PathTemplateError::new(format!("unmatched brace in `{text}`; write an argument as `{{name}}`"))
        })?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let message = format!("`{{{name}}}` is not an argument name; use ASCII letters, digits and `_`");
            return Err(PathTemplateError::with_argument(message, name));
        }
        if brace_index > 0 {
            parts.push(PathPart::Fixed(rest[..brace_index].to_owned()));
        }
        parts.push(PathPart::Argument(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(PathPart::Fixed(rest.to_owned()));
    }
    Ok(parts)
}

/// Names of the arguments in a template, in order.
pub(super) fn arguments_in(parts: &[PathPart]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        PathPart::Argument(name) => Some(name.as_str()),
        PathPart::Fixed(_) => None,
    })
}

/// Whether two hexadecimal digits follow each `%`.
pub(super) fn is_percent_encoded(text: &str) -> bool {
    let is_hex = |index: usize| text.as_bytes().get(index).is_some_and(u8::is_ascii_hexdigit);
    text.match_indices('%').all(|(index, _)| is_hex(index + 1) && is_hex(index + 2))
}

/// Converts a scalar argument to a string; an error names the argument.
pub(super) fn scalar(name: &str, value: Option<&Value>) -> Result<String, String> {
    let value = value.ok_or_else(|| format!("argument `{name}` is required; found nothing"))?;
    scalar_text(value).ok_or_else(|| {
        format!("argument `{name}` must be a string, a number or a boolean; found {}", kind_of(value))
    })
}

/// Converts a string, a number or a boolean to a string; `None` for other values.
pub fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Characters that must be encoded in a query. Allowed are unreserved characters, sub-delimiters, `:`, `@`,
/// `/` and `?` (RFC 3986, section 3.4), and the `%` of existing percent-encodings.
const QUERY_ESCAPED: &AsciiSet =
    &BRACKETS.add(b' ').add(b'"').add(b'#').add(b'\\').add(b'^').add(b'`').add(b'|');
const BRACKETS: &AsciiSet = &CONTROLS.add(b'<').add(b'>').add(b'[').add(b']').add(b'{').add(b'}');

/// [`QUERY_ESCAPED`] and `%`, for text in which a `%` is not part of a percent-encoding.
const QUERY_ESCAPED_AND_PERCENT: &AsciiSet = &QUERY_ESCAPED.add(b'%');

/// Query template such as `p={repository};a=summary`.
///
/// Fixed text is sent byte for byte, because servers distinguish `;` from `%3B`, and text in a charset other
/// than UTF-8 can only be written percent-encoded. Only characters that a query must not contain are encoded.
/// An argument is encoded as a whole, so it stays within its parameter.
#[derive(Debug, Default)]
pub struct QueryTemplate {
    parameters: Vec<Parameter>,
}

/// Parameter of a query: the text between two separators (`&` or `;`).
#[derive(Debug)]
struct Parameter {
    /// Separator before the parameter; unused for the first parameter.
    separator: char,
    /// Text before the value, including `=`.
    name: String,
    value: Vec<PathPart>,
}

impl QueryTemplate {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    ///
    /// [`PathTemplateError`] for an unmatched brace or an invalid argument name.
    pub fn parse(text: &str) -> Result<Self, PathTemplateError> {
        let mut parameters = Vec::new();
        let mut separator = '&';
        for with_separator in text.split_inclusive(['&', ';']) {
            let parameter = with_separator.trim_end_matches(['&', ';']);
            let previous_separator = separator;
            separator = if with_separator.ends_with(';') { ';' } else { '&' };
            if parameter.is_empty() {
                continue;
            }
            let value_start = parameter.find('=').map_or(0, |equals| equals + 1);
            let value_start = if parameter[..value_start].contains('{') { 0 } else { value_start };
            let (name, value) = parameter.split_at(value_start);
            let mut value = parse_parts(value)?;
            for part in &mut value {
                if let PathPart::Fixed(text) = part {
                    *text = encode_literal(text);
                }
            }
            parameters.push(Parameter { separator: previous_separator, name: encode_literal(name), value });
        }
        Ok(Self { parameters })
    }

    /// Names of the arguments, in order.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().flat_map(|parameter| arguments_in(&parameter.value))
    }

    /// Names of the arguments that are only a part of a value: without them, the query can't be built.
    pub fn needed_arguments(&self) -> impl Iterator<Item = &str> {
        let parts = self.parameters.iter().filter(|parameter| parameter.value.len() > 1);
        parts.flat_map(|parameter| arguments_in(&parameter.value))
    }

    /// Builds the query from the arguments. A parameter whose value is exactly one argument is omitted if the
    /// argument is missing, and repeated for each item of an array.
    ///
    /// # Errors
    ///
    /// A message for the model if an argument is missing or not a scalar.
    pub(super) fn fill(&self, arguments: &Arguments) -> Result<String, String> {
        let mut query = String::new();
        for Parameter { separator, name, value } in &self.parameters {
            let values = match value.as_slice() {
                [PathPart::Argument(argument)] => {
                    let items = items_of(arguments.get(argument)).iter();
                    items.map(|item| encode_argument(argument, Some(item))).collect::<Result<_, _>>()?
                }
                parts => {
                    let part = |part: &PathPart| match part {
                        PathPart::Fixed(text) => Ok(text.clone()),
                        PathPart::Argument(name) => encode_argument(name, arguments.get(name)),
                    };
                    vec![parts.iter().map(part).collect::<Result<String, _>>()?]
                }
            };
            for value in values {
                if !query.is_empty() {
                    query.push(*separator);
                }
                query.push_str(name);
                query.push_str(&value);
            }
        }
        Ok(query)
    }
}

fn encode_argument(name: &str, value: Option<&Value>) -> Result<String, String> {
    Ok(utf8_percent_encode(&scalar(name, value)?, ESCAPED).to_string())
}

/// Encodes only the characters that a query must not contain.
fn encode_literal(text: &str) -> String {
    let escaped = if is_percent_encoded(text) { QUERY_ESCAPED } else { QUERY_ESCAPED_AND_PERCENT };
    utf8_percent_encode(text, escaped).to_string()
}

/// Number of times that a path may be percent-decoded: by the server, and again by programs behind it.
const MAX_DECODINGS: usize = 3;

/// Overlong UTF-8 encodings of `.`, `/` and `\`, which very old servers accept (RFC 3629, section 10).
const OVERLONG: [(&[u8], u8); 6] = [
    (&[0xc0, 0xae], b'.'),
    (&[0xc0, 0xaf], b'/'),
    (&[0xc1, 0x9c], b'\\'),
    (&[0xe0, 0x80, 0xae], b'.'),
    (&[0xe0, 0x80, 0xaf], b'/'),
    (&[0xe0, 0x81, 0x9c], b'\\'),
];

/// Whether a path is a path traversal: a server may resolve it to a parent of the base path, or truncate it.
///
/// `..%2Fx` is one segment by RFC 3986, section 2.2, but nginx and others decode it before they check for
/// `..`. The path is therefore checked in every way in which servers read it: decoded repeatedly, split at
/// `\` as well as `/`, without the part after a `;`, a `?` or a `#`, and up to a NUL byte, where C strings
/// end.
pub fn is_path_traversal(path: &str) -> bool {
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..MAX_DECODINGS {
        if has_parent_segment_or_nul(&bytes) {
            return true;
        }
        let decoded: Vec<u8> = percent_decode(&bytes).collect();
        if decoded == bytes {
            return false;
        }
        bytes = decode_overlong(&decoded);
    }
    has_parent_segment_or_nul(&bytes)
}

fn has_parent_segment_or_nul(path: &[u8]) -> bool {
    let is_parent = |segment: &[u8]| {
        let name = segment.split(|byte| matches!(byte, b';' | b'?' | b'#')).next().unwrap_or_default();
        name.trim_ascii() == b".."
    };
    path.contains(&0) || path.split(|byte| matches!(byte, b'/' | b'\\')).any(is_parent)
}

fn decode_overlong(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let overlong = OVERLONG.iter().find(|(long, _)| rest.starts_with(long));
        (rest, _) = match overlong {
            Some((long, plain)) => (&rest[long.len()..], decoded.push(*plain)),
            None => (after, decoded.push(first)),
        };
    }
    decoded
}

/// Resolves the `Location` of a response against the URI of the request, as browsers do (WHATWG URL). `None`
/// if the target has another origin (scheme, host and port), or contains a user or password.
pub fn resolve_location(request_uri: &str, location: &str) -> Option<PathAndQuery> {
    let request_uri = Url::parse(request_uri).ok()?;
    let target = request_uri.join(location).ok()?;
    if target.origin() != request_uri.origin() || target.authority().contains('@') {
        return None;
    }
    target[Position::BeforePath..Position::AfterQuery].parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(template: &str, arguments: Value, expected: Result<&str, &str>) {
        let arguments = Arguments::from(arguments.as_object().unwrap().clone());
        match (PathTemplate::parse(template).unwrap().fill(&arguments), expected) {
            (Ok(path), Ok(expected)) => assert_eq!(path, expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn an_argument_stays_in_its_segment() {
        check("/forecast/{city}/day/{n}", json!({"city": "Oslo", "n": 3}), Ok("/forecast/Oslo/day/3"));
        check("/f/{c}", json!({"c": "a/admin?x=1#y"}), Ok("/f/a%2Fadmin%3Fx%3D1%23y"));
        check("/f/{c}", json!({"c": "São Paulo"}), Ok("/f/S%C3%A3o%20Paulo"));
        check("/f/{c}", json!({"c": "a%2fb"}), Ok("/f/a%252fb"));
        check("/f/{c}", json!({"c": ".."}), Err("must not be"));
        check("/f/{c}{d}", json!({"c": ".", "d": "."}), Err("must not be"));
        check("/f/{c}", json!({"c": "../admin"}), Err("between slashes"));
        check("/f/{c}", json!({"c": "a\\..\\..\\b"}), Err("between slashes"));
        check("/f/.{c}", json!({"c": "./x"}), Err("between slashes"));
        check("/f/{c}.txt", json!({"c": "secret\0"}), Err("a NUL byte"));
        check("/f/{c}", json!({"c": ""}), Err("must not be empty"));
        check("/f/{c}", json!({}), Err("is required"));
        check("/f/{c}", json!({"c": ["x"]}), Err("found an array"));
    }

    #[test]
    fn an_invalid_path_is_rejected() {
        for text in [
            "",
            "f",
            "/a b",
            "/{",
            "/}",
            "/{a",
            "/{}",
            "/{a b}",
            "/a?b",
            "/../x",
            "/%2e%2e/x",
            "/a\r\nb",
            "/{a{b}}",
        ] {
            assert!(PathTemplate::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_argument_gives_a_path_of_the_same_segments(text in ".*") {
            let path = PathTemplate::parse("/a/{x}/b").unwrap();
            let mut arguments = Arguments::default();
            arguments.values.insert("x".to_owned(), text.clone().into());
            if let Ok(path) = path.fill(&arguments) {
                prop_assert_eq!(path.split('/').count(), 4);
                prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#'));
                let middle = path.strip_prefix("/a/").unwrap().strip_suffix("/b").unwrap();
                prop_assert_eq!(percent_encoding::percent_decode_str(middle).decode_utf8().unwrap(), text);
            }
        }
    }
}

#[cfg(test)]
mod traversal_tests {
    use super::is_path_traversal;

    #[test]
    fn every_form_of_parent_segment_is_detected() {
        for path in [
            "/a/../b",
            "/..",
            "/a/%2e%2E/b",
            "/a/.%2e",
            "/a/..%2Fb",
            "/a/b%2f..%2fc",
            "/a/..%5Cb",
            "/a\\..\\b",
            "/a/..;x=1/b",
            "/a/..%3Bx/b",
            "/a/..%3Fx/b",
            "/a/..%2523",
            "/a/%252e%252e%252fb",
            "/a/..%252fb",
            "/a/%c0%ae%c0%ae/b",
            "/a/..%c0%afb",
            "/a/..%e0%80%afb",
            "/a/..%c1%9cb",
            "/a/..%20/b",
            "/a%00.txt",
            "/a%2500.txt",
        ] {
            assert!(is_path_traversal(path), "{path}");
        }
    }

    #[test]
    fn paths_that_stay_inside_are_unchanged() {
        for path in [
            "/",
            "/a/b.txt",
            "/a..b/c",
            "/a/...",
            "/a/..b/b..",
            "/a/what%3F/b",
            "/group%2Fproject/file%20name.tar.gz",
            "/100%25/a%2Fb",
            "/a/.well-known/b",
            "/a/./b",
            "/S%C3%A3o%20Paulo",
            "/%C0%E9%AE",
            "/a;v=1..2/b",
            "/50%",
        ] {
            assert!(!is_path_traversal(path), "{path}");
        }
    }
}

#[cfg(test)]
mod query_tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(template: &str, arguments: Value, expected: Result<&str, &str>) {
        let template = QueryTemplate::parse(template).unwrap();
        let filled = template.fill(&Arguments::from(arguments.as_object().unwrap().clone()));
        match (filled, expected) {
            (Ok(query), Ok(expected)) => assert_eq!(query, expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn literal_text_is_sent_unchanged() {
        for query in [
            "auto",
            "p=a.git;a=summary",
            "a=!$'()*,;:@/?~-._",
            "a=x+y%20z",
            "name=caf%e9",
            "a==b",
            "=x",
            "empty=",
            "a%5B%5D=1",
        ] {
            check(query, json!({}), Ok(query));
        }
    }

    #[test]
    fn characters_that_are_invalid_in_a_query_are_encoded() {
        check("a=b c|d\"e", json!({}), Ok("a=b%20c%7Cd%22e"));
        check("a[]=é", json!({}), Ok("a%5B%5D=%C3%A9"));
        check("a=50%&b=5%2", json!({}), Ok("a=50%25&b=5%252"));
        check("a=x#y", json!({}), Ok("a=x%23y"));
    }

    #[test]
    fn an_argument_stays_in_its_parameter() {
        check("p={p};a=log", json!({ "p": "a;b&c=d+e" }), Ok("p=a%3Bb%26c%3Dd%2Be;a=log"));
        check("n={n}&x={a}-{b}", json!({ "n": 5, "a": true, "b": "/" }), Ok("n=5&x=true-%2F"));
        check("{flag}", json!({ "flag": "a b" }), Ok("a%20b"));
        check("x={a}-{b}", json!({ "a": 1 }), Err("`b` is required"));
        check("x=a{a}", json!({ "a": [1] }), Err("found an array"));
    }

    #[test]
    fn a_parameter_of_one_argument_is_omitted_or_repeated() {
        check("a={a};b={b}&c={c}", json!({ "c": "1" }), Ok("c=1"));
        check("a={a};b={b}&c={c}", json!({ "a": "", "b": null, "c": [1, "x y"] }), Ok("a=&c=1&c=x%20y"));
    }

    #[test]
    fn braces_have_their_other_half_and_names() {
        for text in ["a={", "a=}", "a={b", "a={}", "a={b c}", "a={b{c}}"] {
            assert!(QueryTemplate::parse(text).is_err(), "{text:?}");
        }
    }
}
