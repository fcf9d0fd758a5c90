//! Arguments to what an upstream is asked, in the words of its kind.
//!
//! `http` for those that speak HTTP, `command` for programs, `tool` for MCP servers; `filling` puts the arguments of one
//! call in.

mod command;
mod filling;
mod http;
mod tool;

use ::http::HeaderMap;

use crate::{rule::Stop, tool::Arguments};

pub use self::{
    command::{CommandRequest, CommandTemplate, WordTemplate},
    http::{BodyTemplate, HttpRequest, HttpTemplate, JsonTemplate, Under, ValueTemplate},
    tool::{Effect, ToolRequest, ToolTemplate},
};

/// How what the upstream is asked is made of a call's arguments.
#[derive(Debug)]
pub enum RequestTemplate {
    /// By HTTP, or by a CGI program that takes it for HTTP.
    Http(HttpTemplate),
    /// As the words of a command.
    Command(CommandTemplate),
    /// By a call of an MCP server's tool.
    Tool(ToolTemplate),
}

/// What an upstream is asked. Two are equal when all that is sent is the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamRequest {
    /// By HTTP, or by a CGI program that takes it for HTTP.
    Http(HttpRequest),
    /// As the words of a command.
    Command(CommandRequest),
    /// By a call of an MCP server's tool.
    Tool(ToolRequest),
}

/// Why arguments can't be put into a request. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct RequestError {
    sentence: String,
    detail: Option<String>,
}

impl RequestError {
    pub(super) fn new(sentence: &str) -> Self {
        Self::from(sentence.to_owned())
    }

    /// More for the log: it may quote the operator's template.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

impl From<String> for RequestError {
    fn from(sentence: String) -> Self {
        Self { sentence, detail: None }
    }
}

impl RequestTemplate {
    /// Makes the request of a call; `caller` are the headers that the client sent. `stop` ends that when nobody waits any
    /// more, or when it takes more steps than it may: whatever came of it then is no request.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when an argument is missing or can't be written where it belongs.
    pub fn build(
        &self,
        arguments: &Arguments,
        caller: &HeaderMap,
        stop: Option<&Stop>,
    ) -> Result<UpstreamRequest, RequestError> {
        match self {
            Self::Http(template) => template.build(arguments, caller, stop).map(UpstreamRequest::Http),
            Self::Command(template) => template.build(arguments, stop).map(UpstreamRequest::Command),
            Self::Tool(template) => template.build(arguments, caller, stop).map(UpstreamRequest::Tool),
        }
    }

    /// Whether it only reads (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        match self {
            Self::Http(template) => template.method.is_safe(),
            // What a command does, only its author knows.
            Self::Command(_) => false,
            Self::Tool(template) => template.effect == Effect::ReadOnly,
        }
    }

    /// Whether asking twice does what asking once does (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Http(template) => template.method.is_idempotent(),
            Self::Command(_) => false,
            Self::Tool(template) => template.effect >= Effect::Idempotent,
        }
    }

    /// Such as `` `POST` request``.
    pub fn in_words(&self) -> String {
        match self {
            Self::Http(template) => format!("`{}` request", template.method),
            Self::Command(_) => "command".to_owned(),
            Self::Tool(template) => format!("call of `{}`", template.tool),
        }
    }

    /// The tool that it calls, where it calls one.
    pub fn tool(&self) -> Option<&ToolTemplate> {
        match self {
            Self::Tool(template) => Some(template),
            Self::Http(_) | Self::Command(_) => None,
        }
    }

    /// Whether headers of the caller are in it.
    pub fn forwards_headers(&self) -> bool {
        match self {
            Self::Http(template) => !template.forwarded.is_empty(),
            Self::Command(_) => false,
            Self::Tool(template) => !template.forwarded.is_empty(),
        }
    }
}

impl UpstreamRequest {
    /// Whether it only reads (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        match self {
            Self::Http(request) => request.method.is_safe(),
            Self::Command(_) => false,
            Self::Tool(request) => request.effect == Effect::ReadOnly,
        }
    }

    /// Whether asking twice does what asking once does (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Http(request) => request.method.is_idempotent(),
            Self::Command(_) => false,
            Self::Tool(request) => request.effect >= Effect::Idempotent,
        }
    }

    /// About how many bytes of memory it takes, beside its own size.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Http(request) => request.bytes(),
            Self::Command(request) => request.bytes(),
            Self::Tool(request) => request.bytes(),
        }
    }

    /// All that is sent, as bytes: two requests have the same ones only when they are equal. Another program may hold
    /// them against its own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Http(request) => {
                let HttpRequest { method, under, path_and_query, headers, body } = request;
                let under: &[u8] = match under {
                    Under::Address => b"address",
                    Under::Root => b"root",
                    Under::Itself => b"itself",
                };
                write_parts(
                    &mut out,
                    b"http",
                    [method.as_str().as_bytes(), under, path_and_query.as_str().as_bytes(), body],
                );
                write_headers(&mut out, headers);
            }
            Self::Command(CommandRequest { words, stdin }) => {
                let words = words.iter().map(String::as_bytes);
                write_parts(&mut out, b"command", std::iter::once(stdin.as_ref()).chain(words));
            }
            Self::Tool(ToolRequest { tool, arguments, effect, headers }) => {
                let arguments = serde_json::to_vec(arguments).expect("its keys are strings");
                let effect = format!("{effect:?}");
                write_parts(&mut out, b"tool", [tool.as_bytes(), &arguments, effect.as_bytes()]);
                write_headers(&mut out, headers);
            }
        }
        out
    }

    /// Its headers, where it has any.
    pub fn headers(&self) -> Option<&HeaderMap> {
        match self {
            Self::Http(request) => Some(&request.headers),
            Self::Command(_) => None,
            Self::Tool(request) => Some(&request.headers),
        }
    }

    /// Where a header can be added, for what has any.
    pub fn headers_mut(&mut self) -> Option<&mut HeaderMap> {
        match self {
            Self::Http(request) => Some(&mut request.headers),
            Self::Command(_) => None,
            Self::Tool(request) => Some(&mut request.headers),
        }
    }
}

/// Writes parts so that no two lists of them are the same bytes: each has its length before it.
fn write_parts<'p>(out: &mut Vec<u8>, kind: &'static [u8], parts: impl IntoIterator<Item = &'p [u8]>) {
    for part in std::iter::once(kind).chain(parts) {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part);
    }
}

/// Headers have no order, but for those of one name.
fn write_headers(out: &mut Vec<u8>, headers: &HeaderMap) {
    let mut names: Vec<_> = headers.keys().collect();
    names.sort_by_key(|name| name.as_str());
    for name in names {
        for value in headers.get_all(name) {
            write_parts(out, b"header", [name.as_str().as_bytes(), value.as_bytes()]);
        }
    }
}

impl From<HttpRequest> for UpstreamRequest {
    fn from(request: HttpRequest) -> Self {
        Self::Http(request)
    }
}

impl From<ToolRequest> for UpstreamRequest {
    fn from(request: ToolRequest) -> Self {
        Self::Tool(request)
    }
}

impl From<HttpTemplate> for RequestTemplate {
    fn from(template: HttpTemplate) -> Self {
        Self::Http(template)
    }
}

#[cfg(test)]
mod tests {
    use ::http::{Method, uri::PathAndQuery};

    use super::*;

    fn bytes(path: &'static str, body: &'static str, headers: &[(&'static str, &'static str)]) -> Vec<u8> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let request = HttpRequest {
            method: Method::GET,
            under: Under::Address,
            path_and_query: PathAndQuery::from_static(path),
            headers: headers.collect(),
            body: body.into(),
        };
        UpstreamRequest::from(request).to_bytes()
    }

    #[test]
    fn requests_have_the_same_bytes_only_when_they_are_equal() {
        let one = bytes("/a", "b", &[("x-a", "1"), ("x-b", "2")]);
        assert_eq!(one, bytes("/a", "b", &[("x-b", "2"), ("x-a", "1")]));
        for other in [
            bytes("/a", "", &[("x-a", "1"), ("x-b", "2")]),
            bytes("/ab", "", &[("x-a", "1"), ("x-b", "2")]),
            bytes("/a", "b", &[("x-a", "1")]),
            bytes("/a", "b", &[("x-a", "2"), ("x-b", "1")]),
            bytes("/a", "b", &[("x-a", "1x-b2")]),
        ] {
            assert_ne!(one, other);
        }
        let command = |words: &[&str], stdin: &'static str| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            UpstreamRequest::Command(CommandRequest { words, stdin: stdin.into() }).to_bytes()
        };
        assert_ne!(command(&["a", "b"], ""), command(&["ab"], ""));
        assert_ne!(command(&["a"], "b"), command(&["a", "b"], ""));
    }
}
