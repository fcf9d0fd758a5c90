//! `tests`: examples of a route, to be run by `glossator test`.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

use super::{
    keys::{EXAMPLE, EXAMPLE_RESPONSE, EXPECT},
    node::{Entry, Kind, Node},
    recording,
    report::Report,
    section::Section,
    source::Span,
    upstreams::scalar,
};
use crate::{
    model::{End, Exit, UpstreamResponse},
    translate::extract::MCP_MEDIA_TYPE,
};

/// One example: a reply, and what clients get of it.
#[derive(Debug, Clone)]
pub struct Example {
    /// What it shows.
    pub name: Option<String>,
    /// Where it stands.
    pub position: Position,
    /// The arguments of the call.
    pub args: Map<String, Value>,
    /// The answers to the questions of the route.
    pub answers: Map<String, Value>,
    /// What the upstream answers.
    pub response: UpstreamResponse,
    /// What clients get.
    pub expect: Expectation,
}

/// What is expected of a result; what is not named is not compared.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// The structured content.
    pub structured: Option<Expected<Value>>,
    /// The content.
    pub content: Option<Expected<ExpectedContent>>,
    /// Whether it is a tool error; compared always.
    pub is_error: bool,
    /// Where `isError` stands, if it does.
    pub is_error_position: Option<Position>,
    /// Words that the text of the first block has in it.
    pub text: Option<Expected<String>>,
    /// Whether nothing is expected yet: the example does not hold.
    pub is_missing: bool,
}

/// Something expected, and where it stands.
#[derive(Debug, Clone)]
pub struct Expected<T> {
    /// What.
    pub value: T,
    /// Where.
    pub position: Position,
}

/// The content that is expected.
#[derive(Debug, Clone)]
pub enum ExpectedContent {
    /// The text of the first block, letter for letter.
    FirstText(String),
    /// All blocks, as clients get them.
    Blocks(Vec<Value>),
}

/// A place in a file of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file's name, as given.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Position {
    pub(super) fn of(report: &Report<'_>, span: Span) -> Self {
        let place = report.files().place(span);
        Self { file: report.files().name(span).to_owned(), line: place.line, column: place.column }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Who answers in the examples of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answerer {
    Server,
    McpServer,
    Program,
}

/// Reads `tests`; what is wrong is reported and left out.
pub(super) fn read(report: &Report<'_>, node: &Node, answerer: Answerer) -> Vec<Example> {
    let Kind::List(items) = &node.kind else {
        let help = "write `tests: [ { response: { body: \"…\" }, expect: { … } } ]`";
        report.error(node.span, format!("`tests` takes a list, found {}", node.found()), help);
        return Vec::new();
    };
    items.iter().filter_map(|item| example(report, item, answerer)).collect()
}

fn example(report: &Report<'_>, node: &Node, answerer: Answerer) -> Option<Example> {
    let place = node.as_map().and_then(|entries| entries.first()).map_or(node.span, |entry| entry.key.span);
    let section = Section::open(report, place, node, &EXAMPLE)?;
    let name = section.text("name").map(str::to_owned);
    let args = section.map("args").map(Node::entries_to_json).unwrap_or_default();
    let answers = section.map("input_responses").map(Node::entries_to_json).unwrap_or_default();
    section.required("response", "write `response: { status: 200, content_type: text/plain, body: \"…\" }`");
    let response =
        section.section("response", &EXAMPLE_RESPONSE).and_then(|section| response(&section, answerer));
    let is_empty =
        |node: &Node| matches!(node.kind, Kind::Nothing) || node.as_map().is_some_and(<[Entry]>::is_empty);
    let expect = match section.get("expect").filter(|node| !is_empty(node)) {
        Some(_) => section.section("expect", &EXPECT).and_then(|section| expectation(&section)),
        None => {
            report.warning(
                place,
                "the example expects nothing",
                "`glossator test --update` writes what is found",
            );
            Some(Expectation { is_missing: true, ..Expectation::default() })
        }
    };
    let position = Position::of(report, place);
    Some(Example { name, position, args, answers, response: response?, expect: expect? })
}

/// How a program ended in an example; `None` where a server answers.
fn exit_given(section: &Section<'_, '_>, answerer: Answerer) -> Option<Exit> {
    let report = section.report;
    let (other, whose) = match answerer {
        Answerer::Server | Answerer::McpServer => {
            (["exit_status", "stderr"].as_slice(), "the route asks no command")
        }
        Answerer::Program => {
            (["status", "content_type", "headers"].as_slice(), "a command has an `exit_status`, and no head")
        }
    };
    for entry in other.iter().filter_map(|name| section.entry(name)) {
        report.error(entry.key.span, format!("`{}` has no effect: {whose}", entry.key.text), "leave it out");
    }
    let end = section.get("exit_status").and_then(|node| {
        let parsed = scalar(report, node, "`exit_status`")?.parse::<End>();
        parsed.map_err(|error| report.error(node.span, error.to_string(), "write `exit_status: 1`")).ok()
    });
    let stderr = section.get("stderr").and_then(|node| scalar(report, node, "`stderr`")).unwrap_or_default();
    (answerer == Answerer::Program).then(|| Exit { end: end.unwrap_or(End::Code(0)), stderr: stderr.into() })
}

fn response(section: &Section<'_, '_>, answerer: Answerer) -> Option<UpstreamResponse> {
    let report = section.report;
    let before = report.errors();
    let exit = exit_given(section, answerer);
    let status = section.count("status").and_then(|status| u16::try_from(status).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let recorded = match section.get("recording") {
        None => UpstreamResponse::new(StatusCode::OK, HeaderMap::new(), Bytes::new()),
        Some(_) => {
            section.refuse_beside(&["body", "body_base64"], "recording");
            recording::read(section)?
        }
    };
    if let (None, Some(entry)) = (section.get("recording"), section.entry("entry")) {
        report.error(entry.key.span, "`entry` has no effect without `recording`", "name a HAR file");
    }
    let mut headers = recorded.headers;
    if answerer == Answerer::McpServer {
        headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(MCP_MEDIA_TYPE));
    }
    if let Some((node, text)) = section.text_node("content_type") {
        match HeaderValue::from_str(text) {
            Ok(value) => {
                headers.insert(header::CONTENT_TYPE, value);
            }
            Err(_) => {
                report.error(node.span, "this is not a header value", "write `text/plain; charset=utf-8`")
            }
        }
    }
    for Entry { key, value } in section.map("headers").unwrap_or_default() {
        let Some(text) = scalar(report, value, "a header") else { continue };
        match (key.text.parse::<http::HeaderName>(), HeaderValue::from_str(&text)) {
            (Ok(name), Ok(content)) => {
                headers.append(name, content);
            }
            (Err(_), _) => report.error(
                key.span,
                format!("`{}` is not a header name", key.text),
                "write letters, digits and `-`",
            ),
            (_, Err(_)) => report.error(value.span, "this is not a header value", "leave line breaks out"),
        }
    }
    let body = match (section.get("body"), section.text_node("body_base64")) {
        (Some(_), Some((node, _))) => {
            report.error(node.span, "`body_base64` has no effect beside `body`", "remove one of the two");
            None
        }
        (Some(node), None) => match &node.kind {
            // A number keeps the digits that it was written with.
            Kind::Number(_) => {
                Some(report.files().text(node.span)[node.span.start..node.span.end].trim().to_owned())
            }
            Kind::Nothing => Some(String::new()),
            Kind::Flag(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => scalar(report, node, "`body`"),
        }
        .map(Bytes::from),
        (None, Some((node, text))) => {
            let text: String = text.split_ascii_whitespace().collect();
            let decoded = BASE64_STANDARD.decode(text);
            decoded
                .map_err(|error| {
                    report.error(node.span, format!("this is not Base64: {error}"), "write text under `body`")
                })
                .ok()
                .map(Bytes::from)
        }
        (None, None) => Some(recorded.body),
    };
    let status = status.unwrap_or(recorded.status);
    let body = body?;
    (report.errors() == before).then(|| match exit {
        Some(exit) => UpstreamResponse::of_program(body, exit),
        None => UpstreamResponse::new(status, headers, body),
    })
}

fn expectation(section: &Section<'_, '_>) -> Option<Expectation> {
    let report = section.report;
    let before = report.errors();
    let at = |node: &Node| Position::of(report, node.span);
    let structured =
        section.get("structuredContent").map(|node| Expected { value: node.to_json(), position: at(node) });
    let content = section.get("content").map(|node| {
        let value = match &node.kind {
            Kind::Text(text) => ExpectedContent::FirstText(text.text.clone()),
            Kind::List(items) => ExpectedContent::Blocks(items.iter().map(Node::to_json).collect()),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Map(_) => {
                let help = "write the text of the first block, or `[{ type: text, text: \"…\" }]`";
                report.error(
                    node.span,
                    format!("`content` takes a text or a list of blocks, found {}", node.found()),
                    help,
                );
                ExpectedContent::Blocks(Vec::new())
            }
        };
        Expected { value, position: at(node) }
    });
    let is_error = section.flag("isError");
    let is_error_position = section.get("isError").map(at);
    let text =
        section.text_node("text").map(|(node, text)| Expected { value: text.to_owned(), position: at(node) });
    (report.errors() == before).then_some(Expectation {
        structured,
        content,
        is_error: is_error.unwrap_or(false),
        is_error_position,
        text,
        is_missing: false,
    })
}
