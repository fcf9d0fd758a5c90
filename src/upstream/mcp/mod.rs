//! MCP servers, of every revision since 2024: over Streamable HTTP, or as a child of this process over its pipes.
//!
//! In reading order: [`McpUpstream`] calls a tool and lists all of them, over a `Link`; `revision` says how a server is
//! spoken to and `message` what JSON-RPC it understands; `http_link` sends each message by HTTP and hears the answer,
//! with `events` taking streams apart and `listening` to what a server tells unasked; `child_link` has one child for
//! all calls, with `pipe` reading what it writes and `process` ending it.
//!
//! The SDK is not used here: it takes messages apart into values of its own, in which `1.0` and long numbers lose their
//! text, and it has an HTTP client of its own. The messages are few.

mod child_link;
mod events;
mod http_link;
mod listening;
mod message;
mod pipe;
mod process;
mod revision;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::{sync::watch, time::timeout};
use tracing::warn;

use self::{
    child_link::ChildLink,
    http_link::HttpLink,
    message::{Response, RpcError},
};
use super::{
    Ask, Cause, Meanwhile, UpstreamError, buffer::BodyAccount, error::Withheld, http::HttpSettings,
    program::Program,
};
use crate::{
    reply::Reply,
    route::{ToolRequest, UpstreamName, UpstreamRequest},
    rule::extract::MCP_MEDIA_TYPE,
};

/// One MCP server. Clones share the session with it, or the child.
///
/// It takes an [`Ask`] that is a call of a tool, and gives what the server answered as a [`Reply`] of the type
/// [`MCP_MEDIA_TYPE`]. Dropping the future tells the server that nobody waits any more.
#[derive(Debug, Clone)]
pub struct McpUpstream {
    name: UpstreamName,
    link: Link,
    changed: Changed,
}

/// One MCP server, and how it is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct McpSettings {
    /// What routes call it.
    pub name: UpstreamName,
    /// Where it is.
    pub transport: McpTransport,
}

/// Where an MCP server is.
#[derive(Debug, Clone, PartialEq)]
pub enum McpTransport {
    /// At an address, as Streamable HTTP.
    Http(Box<HttpSettings>),
    /// A program that is started, and spoken to over its standard input and output.
    Child(Program),
}

impl McpSettings {
    /// How it is reached by HTTP, where it is.
    pub fn http(&self) -> Option<&HttpSettings> {
        match &self.transport {
            McpTransport::Http(settings) => Some(settings),
            McpTransport::Child(_) => None,
        }
    }
}

#[derive(Debug, Clone)]
enum Link {
    Http(Arc<HttpLink>),
    Child(Arc<ChildLink>),
}

/// A request on its way out.
struct Outgoing<'a> {
    method: &'static str,
    params: Map<String, Value>,
    /// What it is about, for servers that want that in a header.
    name: Option<&'a str>,
    /// Headers for a server that is reached over HTTP.
    headers: &'a HeaderMap,
    limit_bytes: usize,
    /// The call that it is sent for; `None` of what is read for ourselves.
    ask: Option<&'a Ask>,
}

impl<'a> Outgoing<'a> {
    /// Who hears what happens before its answer is there.
    fn meanwhile(&self) -> Option<&'a Meanwhile> {
        self.ask.and_then(|ask| ask.meanwhile.as_ref())
    }

    /// The account of its answer's body.
    fn account(&self) -> BodyAccount<'a> {
        match self.ask {
            Some(ask) => ask.account(self.limit_bytes),
            None => BodyAccount::none(),
        }
    }
}

/// What came back.
enum Answer {
    /// A JSON-RPC response, whole.
    Message(Bytes),
    /// An HTTP reply that says no in the words of HTTP.
    Refused(Reply),
}

/// Where it is told that a server's tools may be other ones than they were. Clones are the same place.
#[derive(Debug, Clone)]
struct Changed(watch::Sender<()>);

impl Changed {
    fn tell(&self) {
        self.0.send_replace(());
    }
}

/// The tools of a server as it lists them, each as JSON.
pub type ToolList = Vec<Box<RawValue>>;

impl McpUpstream {
    /// How many tools of one server are read; those after them are left out.
    pub const TOOLS_LIMIT: usize = 1000;
    /// How many pages a server's list may have.
    pub const PAGES_LIMIT: usize = 200;
    /// How long one page of the list may be.
    const PAGE_LIMIT_BYTES: usize = 8 << 20;
    /// How long one page may take to come, when the server is there.
    const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
    /// How long a server may take to introduce itself. A child may have to fetch itself first, as `npx` does.
    const START_TIMEOUT: Duration = Duration::from_secs(90);

    /// Makes the client; nothing is connected or started yet.
    pub fn new(settings: McpSettings) -> Self {
        let McpSettings { name, transport } = settings;
        let changed = Changed(watch::Sender::new(()));
        let link = match transport {
            McpTransport::Http(settings) => Link::Http(HttpLink::new(*settings, changed.clone())),
            McpTransport::Child(settings) => {
                Link::Child(ChildLink::new(name.clone(), settings, changed.clone()))
            }
        };
        Self { name, link, changed }
    }

    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        &self.name
    }

    /// Hears that its tools may be other ones than they were when they were listed last.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.0.subscribe()
    }

    /// Ends the session, or the child; the next request begins another.
    pub async fn close(&self) {
        match &self.link {
            Link::Http(link) => link.close().await,
            Link::Child(link) => link.close().await,
        }
    }

    /// Asks for all tools, page by page.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] when the server can't be reached, refuses, or answers something else.
    pub async fn list_tools(&self) -> Result<ToolList, UpstreamError> {
        let (mut tools, mut cursor) = (ToolList::new(), None::<String>);
        for _ in 0..Self::PAGES_LIMIT {
            let page = self.page(cursor.clone()).await?;
            tools.extend(page.tools);
            if tools.len() > Self::TOOLS_LIMIT {
                break;
            }
            // A server that gives the same page again and again has no more to say.
            match page.next_cursor.filter(|next| !next.is_empty() && cursor.as_ref() != Some(next)) {
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
        let (limit, pages) = (Self::TOOLS_LIMIT, Self::PAGES_LIMIT);
        warn!(upstream = %self.name, limit, pages, "the server has more tools than are read: the rest is left out");
        tools.truncate(Self::TOOLS_LIMIT);
        Ok(tools)
    }

    async fn page(&self, cursor: Option<String>) -> Result<Page, UpstreamError> {
        let headers = HeaderMap::new();
        let outgoing = Outgoing {
            method: "tools/list",
            params: cursor.into_iter().map(|cursor| ("cursor".to_owned(), cursor.into())).collect(),
            name: None,
            headers: &headers,
            limit_bytes: Self::PAGE_LIMIT_BYTES,
            ask: None,
        };
        let patience = Self::START_TIMEOUT + Self::PAGE_TIMEOUT;
        let answer = timeout(patience, self.request(&outgoing)).await;
        let answer = answer
            .map_err(|_| UpstreamError::Deadline { upstream: self.name.clone(), after: patience })??;
        let text = match answer {
            Answer::Message(text) => text,
            Answer::Refused(reply) => {
                return Err(not_mcp(&self.name, format!("its status is {}", reply.status)));
            }
        };
        let response = whole_response(&self.name, &text)?;
        let result = match &response.outcome {
            Ok(result) => result,
            // A server of resources or prompts only.
            Err(error) if error.code == RpcError::METHOD_NOT_FOUND => return Ok(Page::default()),
            Err(error) => return Err(not_mcp(&self.name, Withheld::from(error.clone()))),
        };
        serde_json::from_str(result.get()).map_err(|error| not_mcp(&self.name, Withheld::of_json(&error)))
    }

    async fn request(&self, outgoing: &Outgoing<'_>) -> Result<Answer, UpstreamError> {
        match &self.link {
            Link::Http(link) => link.request(outgoing).await,
            Link::Child(link) => link.request(outgoing).await,
        }
    }
}

impl McpUpstream {
    pub(super) async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let Ask { request, reply_limit_bytes, .. } = ask;
        let UpstreamRequest::Tool(ToolRequest { tool, arguments, effect: _, headers }) = request else {
            return Err(UpstreamError::of_another_kind(&self.name));
        };
        let mut params = Map::new();
        params.insert("name".into(), (**tool).into());
        params.insert("arguments".into(), arguments.clone().into());
        let outgoing = Outgoing {
            method: "tools/call",
            params,
            name: Some(tool),
            headers,
            limit_bytes: *reply_limit_bytes,
            ask: Some(ask),
        };
        match self.request(&outgoing).await? {
            Answer::Refused(reply) => Ok(reply),
            Answer::Message(text) => {
                if let Err(error) = &whole_response(&self.name, &text)?.outcome
                    && is_of_no_tool(error)
                {
                    self.changed.tell();
                }
                let mut headers = HeaderMap::new();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MCP_MEDIA_TYPE));
                Ok(Reply::new(StatusCode::OK, headers, text))
            }
        }
    }
}

/// One page of a list of tools.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: ToolList,
    next_cursor: Option<String>,
}

/// Whether a server says that it has no such tool: then its list is another one than was read. Revisions before
/// 2026-07-28 left the code to the server.
fn is_of_no_tool(error: &RpcError) -> bool {
    let says = |words: &str| error.message.to_ascii_lowercase().contains(words);
    error.code == RpcError::METHOD_NOT_FOUND
        || (error.code == RpcError::INVALID_PARAMS && (says("unknown tool") || says("not found")))
}

/// The one response that a text is.
fn whole_response<'a>(upstream: &UpstreamName, text: &'a [u8]) -> Result<Response<'a>, UpstreamError> {
    let text = std::str::from_utf8(text).map_err(|error| not_mcp(upstream, error))?;
    let response = message::messages(text).into_iter().find_map(message::Message::into_response);
    response.ok_or_else(|| not_mcp(upstream, "its answer is not a JSON-RPC response"))
}

fn not_mcp(upstream: &UpstreamName, source: impl Into<Cause>) -> UpstreamError {
    UpstreamError::NotMcp { upstream: upstream.clone(), source: source.into() }
}
