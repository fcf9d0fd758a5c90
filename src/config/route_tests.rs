//! `tests`: examples of a route, which `glossator test` runs. [`update_expectation`] rewrites the `expect` of
//! one example in its file, and leaves all other bytes unchanged.

use std::ops::Range;

use super::migrate::with_edits;
use super::rules::first_key;
use super::section::cursor;
use super::{file, yaml};
use crate::model::{EntryChoice, ProgramEnd, ProgramExit, Recording, UpstreamResponse};
use crate::settings::source_text::read_file;
use crate::settings::{
    Checked, Code, Cursor, Entry, Files, FromText, Invalid, Kind, Named, Node, Report, Scalar, Section,
    Setting, SourceSpan, ValueKind, parsed_settings, read_each, text_of,
};
use crate::translate::extract::MCP_MEDIA_TYPE;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

/// Maximum size of a file with recorded responses, in bytes.
const RECORDING_LIMIT_BYTES: u64 = 16 << 20;

/// Example of a route: an upstream response and the expected result.
#[derive(Debug, Clone)]
pub struct Example {
    /// Description.
    pub name: Option<String>,
    /// Position in the file.
    pub position: Position,
    /// Arguments of the call.
    pub args: Map<String, Value>,
    /// Responses to the input requests of the route.
    pub input_responses: Map<String, Value>,
    /// Upstream response.
    pub response: UpstreamResponse,
    /// Expected result; without one, the example fails.
    pub expect: Option<Expectation>,
}

/// Expected parts of a result; parts that are not listed are not compared, except `isError`.
#[derive(Debug, Clone, Section)]
#[section(id = "expect")]
pub struct Expectation {
    /// Structured content.
    #[key(name = "structuredContent")]
    pub structured: Option<Expected<Value>>,
    /// Content blocks as clients receive them, or the text of the first.
    #[key(kind = CONTENT, with = read_content)]
    pub content: Option<Expected<Value>>,
    /// Whether the result is a tool error. Default `false`.
    ///
    /// Always compared, even if it is not listed.
    #[key(name = "isError")]
    pub is_error: Option<Expected<bool>>,
    /// Text that the first block contains.
    pub text: Option<Expected<String>>,
}

impl Expectation {
    /// Whether a tool error is expected.
    pub fn is_error(&self) -> bool {
        self.is_error.as_ref().is_some_and(|expected| expected.value)
    }
}

/// Expected value and its position.
#[derive(Debug, Clone)]
pub struct Expected<T> {
    /// Expected value.
    pub value: T,
    /// Position in the file.
    pub position: Position,
}

/// Expected content: the exact text of the first block, or a list of all blocks, as clients receive them.
const CONTENT: ValueKind =
    ValueKind::Either(&[ValueKind::Text, ValueKind::List(&<Map<String, Value>>::KIND)]);

/// Position in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{file}:{line}:{column}")]
pub struct Position {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Position {
    pub(super) fn new(report: &Report<'_>, span: SourceSpan) -> Self {
        let position = report.files().line_and_column(span);
        Self { file: report.files().name(span).to_owned(), line: position.line, column: position.column }
    }
}

/// Kind of the upstream that the response of an example comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpstreamKind {
    /// HTTP server, or CGI program.
    Http,
    McpServer,
    Program,
}

/// Keys of an example.
#[derive(Section)]
#[section(name = "an example", id = "example")]
pub(super) struct ExampleSettings {
    /// Description of the example.
    name: Option<String>,
    /// Arguments of the call.
    args: Map<String, Value>,
    /// Responses to the input requests of the route, as templates see them.
    input_responses: Map<String, Value>,
    /// Response of the upstream.
    #[key(example = "response: { status: 200, content_type: text/plain, body: \"…\" }")]
    response: ExampleResponse,
    /// Expected result; fields that are not listed are not compared, except `isError`.
    #[key(with = read_expectation)]
    expect: Option<Expectation>,
}

/// Upstream response in an example.
#[derive(Section)]
#[section(name = "`response`", id = "example_response")]
struct ExampleResponse {
    /// HTTP status. Default 200.
    #[key(range = 100..=599)]
    status: Option<u16>,
    /// Commands: exit status, or signal. Default 0.
    #[key(name = "exit_status")]
    exit: Option<ProgramEnd>,
    /// Commands: standard error.
    stderr: Option<Scalar>,
    /// `Content-Type` of the response.
    content_type: Option<HeaderValue>,
    /// Other headers.
    #[key(kind = ValueKind::Map(&ValueKind::Scalar), with = read_headers)]
    headers: HeaderMap,
    /// Response body, or standard output of a command, as text.
    #[key(conflicts = "recording")]
    #[key(kind = ValueKind::Scalar, with = read_body)]
    body: Option<Bytes>,
    /// The same, in Base64.
    #[key(conflicts = "body, recording")]
    body_base64: Option<Bytes>,
    /// File with a recorded response, relative to this file: a body, output of `curl -i`, or a HAR file.
    #[key(kind = ValueKind::Text, with = read_recording)]
    recording: Option<UpstreamResponse>,
    /// Response of a HAR file: its number, or a part of its URL. Default: the last.
    #[key(requires = "recording", help = "add `recording` with the path of a HAR file, or remove `entry`")]
    entry: Option<Scalar>,
}

/// Parses `tests`. Examples with errors are reported and omitted.
pub(super) fn read(report: &Report<'_>, node: &Node, upstream_kind: UpstreamKind) -> Vec<Example> {
    let Some(items) = node.as_list() else {
        let help = "write `tests: [ { response: { body: \"…\" }, expect: { … } } ]`";
        return report.reject_type(node, "`tests` must be a list", help).unwrap_or_default();
    };
    let example = |item| {
        let value = cursor(report, first_key(item), item, "an example", ExampleSettings::KIND);
        example(&value, upstream_kind).ok()
    };
    items.iter().filter_map(example).collect()
}

fn example(value: &Cursor<'_>, upstream_kind: UpstreamKind) -> Checked<Example> {
    if value.node.as_map().is_some() && value.node.get("expect").is_none_or(is_empty) {
        let message = "the example has no `expect`, so it fails";
        let help = "`glossator test --update` writes the current result as `expect`";
        value.context.report.warning(Code::EmptyTest.at_span(value.key_span), message, help);
    }
    let (settings, kind_check) = (ExampleSettings::read(value), check_upstream_kind(value, upstream_kind));
    let ExampleSettings { name, args, input_responses, response, expect } = settings?;
    kind_check?;
    let position = Position::new(value.context.report, value.key_span);
    Ok(Example { name, position, args, input_responses, response: response.compile(upstream_kind), expect })
}

/// Rejects keys for the output of a command in the response of a server, and keys for the response of a
/// server in the output of a command.
fn check_upstream_kind(value: &Cursor<'_>, upstream_kind: UpstreamKind) -> Checked<()> {
    const SERVER_KEYS: &[&str] = &["status", "content_type", "headers"];
    let (rejected_keys, reason) = match upstream_kind {
        UpstreamKind::Http | UpstreamKind::McpServer => {
            (&["exit_status", "stderr"][..], "the route runs no command")
        }
        UpstreamKind::Program => (SERVER_KEYS, "a command has an `exit_status`, but no status or headers"),
    };
    let Some(response) = value.node.get("response") else { return Ok(()) };
    let mut checked = Ok(());
    for entry in rejected_keys.iter().filter_map(|name| response.entry(name)) {
        let message = format!("`{}` has no effect: {reason}", entry.key.text);
        checked = value.reject_coded(Code::WrongUpstreamKind.at_span(entry.key.span), message, "remove it");
    }
    checked
}

impl ExampleResponse {
    fn compile(self, upstream_kind: UpstreamKind) -> UpstreamResponse {
        let Self { status, content_type, body, body_base64, recording, .. } = self;
        let empty = || UpstreamResponse::new(StatusCode::OK, HeaderMap::new(), Bytes::new());
        let recorded = recording.unwrap_or_else(empty);
        let body = body.or(body_base64).unwrap_or(recorded.body);
        if upstream_kind == UpstreamKind::Program {
            let stderr = self.stderr.map(|Scalar(text)| text).unwrap_or_default().into();
            let end = self.exit.unwrap_or(ProgramEnd::Code(0));
            return UpstreamResponse::from_program(body, ProgramExit { end, stderr });
        }
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        let mut headers = recorded.headers;
        if upstream_kind == UpstreamKind::McpServer {
            // Replaces the media type of the transport, which a recording may contain and a route never gets.
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MCP_MEDIA_TYPE));
        }
        if let Some(value) = content_type {
            headers.insert(header::CONTENT_TYPE, value);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        UpstreamResponse::new(status.unwrap_or(recorded.status), headers, body)
    }
}

/// Parses `expect`; an empty value is treated as absent.
fn read_expectation(value: &Cursor<'_>) -> Checked<Option<Expectation>> {
    if is_empty(value.node) { Ok(None) } else { Expectation::read(value).map(Some) }
}

fn is_empty(node: &Node) -> bool {
    matches!(node.kind, Kind::Null) || node.as_map().is_some_and(<[Entry]>::is_empty)
}

impl<T: Setting> Setting for Expected<T> {
    const KIND: ValueKind = T::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let position = Position::new(value.context.report, value.node.span);
        Ok(Self { value: T::read(value)?, position })
    }
}

fn read_content(value: &Cursor<'_>) -> Checked<Option<Expected<Value>>> {
    if value.node.as_text().is_none() && value.node.as_list().is_none() {
        let help = "write the text of the first block, or `[{ type: text, text: \"…\" }]`";
        return value.reject_kind("a string or a list of blocks", Some(help.to_owned()));
    }
    Expected::read(value).map(Some)
}

parsed_settings! {
    ProgramEnd = Scalar, "write `exit_status: 1`";
}

/// Value of `Content-Type`.
impl FromText for HeaderValue {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let help = "write `text/plain; charset=utf-8`";
        Self::from_str(text).map_err(|_| Invalid::new("the value is not a valid header value", help))
    }
}

/// Parses a body in base64.
impl FromText for Bytes {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let text: String = text.split_ascii_whitespace().collect();
        let decoded = BASE64_STANDARD.decode(text).map(Self::from);
        decoded.map_err(|_| Invalid::new("`body_base64` is not Base64", "write text under `body`"))
    }
}

/// Parses a body as text.
fn read_body(value: &Cursor<'_>) -> Checked<Option<Bytes>> {
    let span = value.node.span;
    let text = match &value.node.kind {
        // A number keeps the digits that are written in the file.
        Kind::Number(_) => value.context.report.files().text(span)[span.start..span.end].trim().to_owned(),
        Kind::Null => String::new(),
        _ => Scalar::read(value)?.0,
    };
    Ok(Some(text.into()))
}

fn read_headers(value: &Cursor<'_>) -> Checked<HeaderMap> {
    let Named(headers) = Named::<Scalar>::read(value)?;
    let entries = value.node.as_map().unwrap_or_default();
    let header = |(entry, (name, Scalar(text))): (&Entry, (String, Scalar))| {
        let name = name.parse::<HeaderName>().or_else(|_| {
            let message = format!("`{name}` is not a header name");
            value.reject_at(entry.key.span, Invalid::new(message, "write letters, digits and `-`"))
        })?;
        let content = HeaderValue::from_str(&text).or_else(|_| {
            let invalid = Invalid::new("the value is not a valid header value", "remove line breaks");
            value.reject_at(entry.value.span, invalid)
        })?;
        Ok((name, content))
    };
    read_each(entries.iter().zip(headers).map(header))
}

/// Parses the response in the file `recording`. If the file has several responses, `entry` selects one.
fn read_recording(value: &Cursor<'_>) -> Checked<Option<UpstreamResponse>> {
    let name = text_of(value)?;
    let choice = value.sibling("entry").and_then(|entry| entry.scalar());
    let choice = choice.map(|text| EntryChoice::from(text.as_str()));
    let Some(folder) = value.context.report.files().folder(value.node.span) else {
        let message = "`recording` needs a configuration file, and this configuration is not a file";
        return value.reject(Invalid::new(message, "write the response under `body`"));
    };
    let path = folder.join(name);
    // Neither pipes nor devices are read: reading a pipe could block, and a device has no end.
    let bytes = match path.exists() && !path.is_file() {
        true => Err("is not a file".to_owned()),
        false => read_file(&path, RECORDING_LIMIT_BYTES),
    };
    let bytes = bytes.or_else(|reason| {
        let help = "write a path relative to the folder of this file: `responses/ok.http`";
        let message = format!("the recording {reason}");
        value.reject_coded(Code::UnreadableFile.at_span(value.node.span), message, help)
    })?;
    let response = Recording::read(&bytes.into()).and_then(|recording| recording.choose(choice.as_ref()));
    response.map(Some).or_else(|error| {
        let help = "record the output of `curl -i`, a body, or a HAR file";
        let message = format!("the recording is not a response: {error}");
        value.reject_coded(Code::InvalidRecording.at_span(value.node.span), message, help)
    })
}

/// Returns the text of the file with `expect` as the expected result of an example, whose index begins at 0.
///
/// # Errors
///
/// A message with the reason why the example cannot be rewritten: the new text would parse to something
/// else, or another part of the file would change too (an alias, or a rule with parameters).
pub fn update_expectation(text: &str, route: &str, index: usize, expect: &Value) -> Result<String, String> {
    let root = tree_of(text).ok_or("the file can't be read")?;
    let routes = root.get("routes");
    let example = routes.and_then(|routes| routes.get(route)?.get("tests")?.as_list()?.get(index));
    let example = example.ok_or("its position in the file is unknown; it may come from a YAML alias")?;
    let entries = example.as_map().ok_or("it is not a map")?;
    let expected = with_expect(root.to_json(), route, index, expect);
    let expected = expected.ok_or("its position in the file is unknown")?;
    let entry = example.entry("expect");
    let is_as_expected = |new_text: &String| tree_of(new_text).is_some_and(|tree| tree.to_json() == expected);
    // If the old and the new `expect` differ only in scalars, just those are replaced, which keeps comments
    // and layout. Otherwise, `expect` is rewritten in block style, or in flow style if that fails.
    let mut scalars = Vec::new();
    let only_scalars = entry.and_then(|entry| collect_scalars(text, &entry.value, expect, &mut scalars));
    let with_scalars = only_scalars.map(|()| with_edits(text, scalars));
    let rewritten = [true, false].into_iter().filter_map(|as_block| match entry {
        Some(entry) => replace_expect(text, entry, expect, as_block),
        None => add_expect(text, entries, expect, as_block),
    });
    with_scalars.into_iter().chain(rewritten).find(is_as_expected).ok_or_else(|| {
        "it can't be changed without changing other parts of the file; change it by hand".to_owned()
    })
}

fn tree_of(text: &str) -> Option<Node> {
    file::parsed(&Files::from_text("", text), |report| file::read(report, 0)).ok()
}

/// Returns the value that the whole file must have after the change.
fn with_expect(mut root: Value, route: &str, index: usize, expect: &Value) -> Option<Value> {
    let example = root.get_mut("routes")?.get_mut(route)?.get_mut("tests")?.get_mut(index)?;
    example.as_object_mut()?.insert("expect".into(), expect.clone());
    Some(root)
}

/// Collects the byte range and new text of each scalar that differs; `None` if anything else differs, or if a
/// new scalar has several lines.
fn collect_scalars(
    text: &str,
    node: &Node,
    value: &Value,
    changes: &mut Vec<(Range<usize>, String)>,
) -> Option<()> {
    match (&node.kind, value) {
        (Kind::Map(entries), Value::Object(members)) if entries.len() == members.len() => {
            entries.iter().try_for_each(|entry| {
                collect_scalars(text, &entry.value, members.get(&entry.key.text)?, changes)
            })
        }
        (Kind::List(items), Value::Array(values)) if items.len() == values.len() => {
            items.iter().zip(values).try_for_each(|(item, value)| collect_scalars(text, item, value, changes))
        }
        (Kind::Map(_) | Kind::List(_), _) | (_, Value::Object(_) | Value::Array(_)) => None,
        _ if node.to_json() == *value => Some(()),
        _ => {
            let is_multiline = value.as_str().is_some_and(|value| value.contains('\n'));
            (!is_multiline).then(|| changes.push((node.span.start..end_of(text, node), yaml::flow(value))))
        }
    }
}

/// Converts line breaks to those of the file.
fn with_line_endings_of(text: &str, lines: String) -> String {
    if text.contains("\r\n") { lines.replace('\n', "\r\n") } else { lines }
}

/// Replaces the value of `expect`, which may be empty or null.
fn replace_expect(text: &str, entry: &Entry, value: &Value, as_block: bool) -> Option<String> {
    let (key, node) = (entry.key.span, &entry.value);
    let colon = key.end + text.get(key.end..)?.find(':')? + 1;
    let is_null = matches!(node.kind, Kind::Null);
    let end = if is_null {
        let rest = text.get(colon..)?.lines().next().unwrap_or_default();
        let trimmed = rest.trim_start_matches(' ');
        let word = ["~", "null", "Null", "NULL"].into_iter().find(|word| trimmed.starts_with(word));
        colon + word.map_or(0, |word| rest.len() - trimmed.len() + word.len())
    } else {
        end_of(text, node)
    };
    let (start, new_text) = match (as_block, is_null) {
        (true, _) => (colon, with_line_endings_of(text, yaml::block(value, column(text, key.start)))),
        (false, true) => (colon, format!(" {}", yaml::flow(value))),
        // A comment above the value is kept.
        (false, false) => (node.span.start, yaml::flow(value)),
    };
    splice(text, start..end, new_text)
}

/// Adds `expect` after the last key of an example.
fn add_expect(text: &str, entries: &[Entry], value: &Value, as_block: bool) -> Option<String> {
    let end = end_of(text, &entries.last()?.value);
    if !as_block {
        return splice(text, end..end, format!(", expect: {}", yaml::flow(value)));
    }
    let column = column(text, entries.first()?.key.span.start);
    // The new key is inserted after a comment at the end of the last line.
    let end = end + text.get(end..)?.lines().next().unwrap_or_default().len();
    let lines = format!("\n{}expect:{}", " ".repeat(column), yaml::block(value, column));
    splice(text, end..end, with_line_endings_of(text, lines))
}

/// Replaces a range of a text; `None` if the range ends before its start, because the value of an alias may
/// be above the alias.
fn splice(text: &str, range: Range<usize>, new_text: String) -> Option<String> {
    text.get(range.clone())?;
    Some([&text[..range.start], &new_text, &text[range.end..]].concat())
}

/// Returns the end of a value, excluding trailing comments and blank lines.
fn end_of(text: &str, node: &Node) -> usize {
    let is_flow = text.get(node.span.start..).is_some_and(|rest| rest.starts_with(['{', '[']));
    let last = node.children().last().filter(|_| !is_flow);
    let end = last.map_or(node.span.end, |last| end_of(text, last)).min(text.len());
    let trimmed_end = text.get(..end).map_or(end, |before| before.trim_end().len());
    trimmed_end.max(node.span.start)
}

/// Returns the number of characters before `at` on its line.
fn column(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before[before.rfind('\n').map_or(0, |end| end + 1)..].chars().count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(tests: &str, example: usize, expect: Value, expected: Result<&str, &str>) {
        let text = |tests: &str| format!("# A file.\nroutes:\n  t:\n    tests:\n{tests}\n# The end.\n");
        let found = update_expectation(&text(tests), "t", example, &expect);
        match expected {
            Ok(expected) => assert_eq!(found.as_deref(), Ok(text(expected).as_str())),
            Err(part) => assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{found:?}"),
        }
    }

    #[test]
    fn only_the_expect_of_the_example_changes() {
        check(
            "      - response: { body: '5' } # a comment\n        expect: { text: \"six\" } # another\n      - response: {}\n        expect: {}\n",
            0,
            json!({ "structuredContent": { "a": 5.0 } }),
            Ok(
                "      - response: { body: '5' } # a comment\n        expect: { structuredContent: { a: 5.0 } } # another\n      - response: {}\n        expect: {}\n",
            ),
        );
        check(
            "      - expect:\n          structuredContent:\n            a: 1\n\n        # Why.\n        response: { body: x }",
            0,
            json!({ "isError": true, "text": "a: b\nc" }),
            Ok(
                "      - expect:\n          isError: true\n          text: |-\n            a: b\n            c\n\n        # Why.\n        response: { body: x }",
            ),
        );
        check(
            "      - { response: { body: x }, expect: { text: a } }\n      - { response: { body: y }, expect: { text: b } }",
            1,
            json!({ "text": "c\nd" }),
            Ok(
                "      - { response: { body: x }, expect: { text: a } }\n      - { response: { body: y }, expect: { text: \"c\\nd\" } }",
            ),
        );
        check(
            "      - { response: {}, expect: # Why.\n          { text: a } }",
            0,
            json!({ "text": "c\nd" }),
            Ok("      - { response: {}, expect: # Why.\n          { text: \"c\\nd\" } }"),
        );
    }

    #[test]
    fn comments_and_layout_are_kept_when_scalars_change() {
        check(
            "      - response: { body: x }\n        expect:\n          # Degrees.\n          structuredContent: {a: 1,   b: [two, 'three']} # both\n          text: old # said\n          isError: false",
            0,
            json!({ "isError": true, "structuredContent": { "a": 5, "b": ["two", "4, }"] }, "text": "new: #1" }),
            Ok(
                "      - response: { body: x }\n        expect:\n          # Degrees.\n          structuredContent: {a: 5,   b: [two, \"4, }\"]} # both\n          text: \"new: #1\" # said\n          isError: true",
            ),
        );
    }

    #[test]
    fn lines_end_as_those_of_the_file_do() {
        for before in [
            "routes:\r\n  t:\r\n    tests:\r\n      - response: { body: x } # a\r\n",
            "routes:\r\n  t:\r\n    tests:\r\n      - response: { body: x } # a\r\n        expect:\r\n          text: a\r\n",
        ] {
            let expect = json!({ "isError": true, "text": "a\nb" });
            let updated = update_expectation(before, "t", 0, &expect).unwrap();
            assert!(updated.starts_with(&before[..before.find("# a").unwrap() + 5]), "{updated:?}");
            assert_eq!(updated.matches('\n').count(), updated.matches("\r\n").count(), "{updated:?}");
            assert!(updated.contains("isError: true\r\n"), "{updated:?}");
        }
    }

    #[test]
    fn missing_expectations_are_added() {
        check(
            "      - response: { body: x } # said",
            0,
            json!({ "text": "a" }),
            Ok("      - response: { body: x } # said\n        expect: { text: a }"),
        );
        check(
            "      - { response: { body: x } }",
            0,
            json!({ "text": "a" }),
            Ok("      - { response: { body: x }, expect: { text: a } }"),
        );
        check(
            "      - response:\n          body: |\n            x\n",
            0,
            json!({ "text": "a" }),
            Ok("      - response:\n          body: |\n            x\n        expect: { text: a }\n"),
        );
    }

    #[test]
    fn an_empty_expect_is_replaced() {
        for before in ["expect: {}", "expect:", "expect: ~"] {
            check(
                &format!("      - response: {{ body: x }}\n        {before}\n      - response: {{}}"),
                0,
                json!({ "text": "a" }),
                Ok("      - response: { body: x }\n        expect: { text: a }\n      - response: {}"),
            );
        }
        check(
            "      - { response: { body: x }, expect: {} }",
            0,
            json!({ "text": "a" }),
            Ok("      - { response: { body: x }, expect: { text: a } }"),
        );
    }

    #[test]
    fn shared_parts_are_unchanged() {
        let anchored = "      - response: { body: x }\n        expect: &e { text: a }\n      - response: { body: y }\n        expect: *e";
        check(anchored, 1, json!({ "text": "b" }), Err("by hand"));
        check(anchored, 0, json!({ "text": "b" }), Err("by hand"));
    }
}
