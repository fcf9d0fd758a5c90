//! MCP upstreams of all published revisions, and of 2024-10-07: over Streamable HTTP, or a child process over
//! stdio.
//!
//! - [`McpUpstream`] calls tools, gets prompts, reads resources and lists them over a `Link`.
//! - `lifecycle` has the differences between revisions, `jsonrpc` the messages.
//! - `http` is Streamable HTTP; `sse` parses its event streams, and `param_headers` sets the `Mcp-Param-…`
//!   headers of calls.
//! - `supervisor` starts and restarts a child process that serves all calls; `child_process` is the actor
//!   that owns the child process, and reads its output.
//!
//! The SDK's client is not used. It parses results into its own types, which lose unknown members, the order
//! of members and the exact bytes, so content could not be passed on byte for byte. It also hides the status
//! and body of an HTTP error, which rules read, and does not support revisions before 2024-11-05.

mod child_process;
mod http;
mod jsonrpc;
mod lifecycle;
mod param_headers;
mod sse;
mod supervisor;

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tracing::warn;

use self::http::HttpLink;
use self::jsonrpc::{JsonRpcError, ServerMessage};
use self::lifecycle::ServerCapabilities;
use self::param_headers::MarkedSchema;
use self::supervisor::ChildLink;
use super::buffer::BodyAccount;
use super::error::QuotedSource;
use super::http::HttpSettings;
use super::program::Program;
use super::{Failure, ProgressSender, UpstreamCall, UpstreamError, UpstreamResult};
use crate::model::UpstreamResponse;
use crate::route::{McpMethod, McpServerRequest, UpstreamName, UpstreamRequest};
use crate::telemetry::CallContext;
use crate::translate::extract::MCP_MEDIA_TYPE;

pub use self::supervisor::ProgramState;

/// Client of one MCP server. Clones share the session, or the child process.
///
/// It sends a tool call (or `prompts/get`, …) and returns the JSON-RPC response as an [`UpstreamResponse`] of
/// type [`MCP_MEDIA_TYPE`]. Dropping the future cancels the request: by `notifications/cancelled`, or in
/// revision 2026-07-28 over HTTP by closing the stream.
#[derive(Debug, Clone)]
pub struct McpUpstream {
    link: Link,
    /// Channel that notifies when the lists of the server may have changed.
    changed: watch::Sender<()>,
}

/// Transport to an MCP server, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum McpTransport {
    /// Streamable HTTP.
    Http(Box<HttpSettings>),
    /// Child process over stdio.
    Child(Program),
}

#[derive(Debug, Clone)]
enum Link {
    Http(Arc<HttpLink>),
    Child(Arc<ChildLink>),
}

/// Request to an MCP server, independent of the transport.
struct McpRequest<'a> {
    method: &'static str,
    params: Map<String, Value>,
    /// Name of the tool, prompt or resource, which revision 2026-07-28 requires in a header.
    name: Option<&'a str>,
    /// Headers for a server over HTTP.
    headers: Cow<'a, HeaderMap>,
    limit_bytes: usize,
    /// Call that the request is for. `None` for glossator's own requests.
    upstream_call: Option<&'a UpstreamCall>,
}

impl<'a> McpRequest<'a> {
    /// Creates a request of glossator itself, which belongs to no call.
    fn new(method: &'static str, params: Map<String, Value>, limit_bytes: usize) -> Self {
        Self { method, params, name: None, headers: Cow::default(), limit_bytes, upstream_call: None }
    }

    /// Channel for progress before the response.
    fn progress(&self) -> Option<&'a ProgressSender> {
        self.upstream_call.and_then(|upstream_call| upstream_call.progress.as_ref())
    }

    /// Context of the call, or an empty context if there is no call.
    fn context(&self) -> CallContext {
        self.upstream_call.map(|upstream_call| upstream_call.context.clone()).unwrap_or_default()
    }

    /// Memory account for the response body.
    fn account(&self) -> BodyAccount {
        self.upstream_call.map_or_else(BodyAccount::none, |call| call.account(self.limit_bytes))
    }
}

/// Error message for a response body without a JSON-RPC response.
const NO_RESPONSE: &str = "its response body has no JSON-RPC response to the request";

/// List of a server, each entry as JSON.
pub type McpList = Vec<Box<str>>;

/// All lists of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpLists {
    /// Tools.
    pub tools: McpList,
    /// Prompts. `None` if they are not wanted, or the server does not declare any.
    pub prompts: Option<McpList>,
    /// Resources, and resource templates. `None` if they are not wanted, or the server does not declare any.
    pub resources: Option<[McpList; 2]>,
    /// Whether the server declares completions.
    pub completes: bool,
}

/// Name of a list: method of the request, and member of the result.
type ListName = (&'static str, &'static str);

const TOOLS: ListName = ("tools/list", "tools");
const PROMPTS: ListName = ("prompts/list", "prompts");
const RESOURCES: ListName = ("resources/list", "resources");
const RESOURCE_TEMPLATES: ListName = ("resources/templates/list", "resourceTemplates");

/// Lists to fetch in addition to the list of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedLists {
    /// List of prompts.
    pub prompts: bool,
    /// Lists of resources and of resource templates.
    pub resources: bool,
}

impl McpUpstream {
    /// Maximum number of entries that are read from one list. Further entries are ignored.
    pub const LIST_LIMIT: usize = 1000;
    /// Maximum number of pages of one list.
    pub const PAGES_LIMIT: usize = 200;
    /// Maximum length of a page of a list, in bytes.
    const PAGE_LIMIT_BYTES: usize = 8 << 20;
    /// Timeout of one page once the server is initialized.
    const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
    /// Timeout of initialization. A program may have to be downloaded first, as by `npx`.
    const START_TIMEOUT: Duration = Duration::from_secs(90);

    /// Creates the client, without connecting or starting a program.
    pub fn new(transport: McpTransport) -> Self {
        let changed = watch::Sender::new(());
        let link = match transport {
            McpTransport::Http(settings) => Link::Http(HttpLink::new(*settings, changed.clone())),
            McpTransport::Child(program) => Link::Child(ChildLink::new(program, changed.clone())),
        };
        Self { link, changed }
    }

    /// Name that routes use.
    pub fn name(&self) -> &UpstreamName {
        match &self.link {
            Link::Http(link) => link.http.name(),
            Link::Child(link) => &link.program.name,
        }
    }

    /// Receiver that is notified when the lists may have changed since they were read.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// State of the program. `None` for a server over HTTP.
    pub fn program_state(&self) -> Option<ProgramState> {
        let Link::Child(link) = &self.link else { return None };
        Some(link.program_state())
    }

    /// Ends the session, or stops the child process. The next request starts another.
    pub async fn close(&self) {
        match &self.link {
            Link::Http(link) => link.close().await,
            Link::Child(link) => link.close().await,
        }
    }

    /// Fetches the lists. If a list of prompts or resources fails, the list in `known_lists` is used and the
    /// error is returned with the lists, so that the tools remain available.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] if the server is unreachable, rejects the request, or sends an invalid response.
    pub async fn list(
        &self,
        requested: RequestedLists,
        known_lists: Option<&McpLists>,
    ) -> Result<(McpLists, Option<UpstreamError>), UpstreamError> {
        let to_error = |failure: Failure| failure.into_error(self.name());
        let (tools, declared) = self.tools().await.map_err(to_error)?;
        let mut lists = McpLists { tools, completes: declared.completions, ..McpLists::default() };
        let mut list_error = None;
        let mut or_known = |list: Result<McpList, Failure>, known: Option<&McpList>| {
            list.unwrap_or_else(|failure| {
                list_error = Some(to_error(failure));
                known.cloned().unwrap_or_default()
            })
        };
        if requested.prompts && declared.prompts {
            let known_prompts = known_lists.and_then(|known| known.prompts.as_ref());
            lists.prompts = Some(or_known(self.list_of(PROMPTS).await, known_prompts));
        }
        if requested.resources && declared.resources {
            let known_resources = known_lists.and_then(|known| known.resources.as_ref());
            let resources =
                or_known(self.list_of(RESOURCES).await, known_resources.map(|[resources, _]| resources));
            let templates = self.list_of(RESOURCE_TEMPLATES).await;
            lists.resources =
                Some([resources, or_known(templates, known_resources.map(|[_, templates]| templates))]);
        }
        Ok((lists, list_error))
    }

    /// Fetches the list of tools. Also returns the capabilities of the server.
    async fn tools(&self) -> Result<(McpList, ServerCapabilities), Failure> {
        let mut tools = self.list_of(TOOLS).await?;
        let agreed = match &self.link {
            Link::Child(link) => link.agreed().await?,
            Link::Http(link) => {
                let agreed = link.agreed().await?;
                // Tools of earlier revisions have no `Mcp-Param-…` headers.
                let marked_tools = if agreed.is_sessionless() { &mut tools } else { &mut McpList::new() };
                link.param_headers.update(self.name(), marked_tools);
                agreed
            }
        };
        Ok((tools, agreed.declared))
    }

    /// Fetches one list, page by page.
    async fn list_of(&self, name @ (method, _): ListName) -> Result<McpList, Failure> {
        let (mut list, mut cursor) = (McpList::new(), None::<String>);
        for _ in 0..Self::PAGES_LIMIT {
            let (entries, next_cursor) = self.page(name, cursor.clone()).await?;
            list.extend(entries);
            if list.len() > Self::LIST_LIMIT {
                break;
            }
            // A repeated cursor would loop, so it ends the list.
            match next_cursor.filter(|next| !next.is_empty() && cursor.as_ref() != Some(next)) {
                Some(next) => cursor = Some(next),
                None => return Ok(list),
            }
        }
        let (limit, pages) = (Self::LIST_LIMIT, Self::PAGES_LIMIT);
        warn!(
            upstream = %self.name(), list = method, limit, pages,
            "list of the MCP server truncated: it is over the limit"
        );
        list.truncate(Self::LIST_LIMIT);
        Ok(list)
    }

    /// Fetches the entries of a page, and the cursor of the next page.
    async fn page(
        &self,
        (method, member): ListName,
        cursor: Option<String>,
    ) -> Result<(McpList, Option<String>), Failure> {
        let params = cursor.into_iter().map(|cursor| ("cursor".to_owned(), cursor.into())).collect();
        let outgoing = McpRequest::new(method, params, Self::PAGE_LIMIT_BYTES);
        let page_timeout = Self::START_TIMEOUT + Self::PAGE_TIMEOUT;
        let response = timeout(page_timeout, self.request(&outgoing)).await;
        let response = response.map_err(|_| Failure::Timeout(page_timeout))??;
        if !response.status.is_success() {
            return Err(Failure::NotMcp(format!("its status is {}", response.status).into()));
        }
        let result = match whole_response(&response.body)?.outcome() {
            Ok(result) => result,
            // The server has no list of this kind.
            Err(error) if error.code == JsonRpcError::METHOD_NOT_FOUND => return Ok((McpList::new(), None)),
            Err(error) => return Err(Failure::NotMcp(QuotedSource::from(error).into())),
        };
        let page = || -> Result<_, serde_json::Error> {
            let members: HashMap<String, &RawValue> = serde_json::from_str(result.get())?;
            let json_of = |member| members.get(member).map_or("null", |value| value.get());
            let entries: Vec<Box<RawValue>> = serde_json::from_str(json_of(member))?;
            Ok((entries.into_iter().map(Into::into).collect(), serde_json::from_str(json_of("nextCursor"))?))
        };
        page().map_err(|error| Failure::NotMcp(QuotedSource::from_json(&error).into()))
    }

    /// Sends a request and returns the JSON-RPC response, or an HTTP error response that contains no
    /// JSON-RPC.
    async fn request(&self, outgoing: &McpRequest<'_>) -> UpstreamResult {
        match &self.link {
            Link::Http(link) => link.request(outgoing).await,
            Link::Child(link) => link.request(outgoing).await,
        }
    }
}

impl McpUpstream {
    pub(super) async fn call(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        let UpstreamCall { request, response_limit_bytes, .. } = upstream_call;
        let UpstreamRequest::Mcp(request) = request else { return Err(Failure::wrong_kind()) };
        let McpServerRequest { method, target, arguments, headers } = request;
        let params = match method {
            McpMethod::CallTool | McpMethod::GetPrompt => Map::from_iter([
                ("name".to_owned(), (**target).into()),
                ("arguments".to_owned(), arguments.clone().into()),
            ]),
            McpMethod::ReadResource => Map::from_iter([("uri".to_owned(), (**target).into())]),
            McpMethod::Complete => arguments.clone(),
        };
        let outgoing = McpRequest {
            method: method.into(),
            params,
            name: (*method != McpMethod::Complete).then_some(target),
            headers: Cow::Borrowed(headers),
            limit_bytes: *response_limit_bytes,
            upstream_call: Some(upstream_call),
        };
        let param_link = match &self.link {
            Link::Http(link) if *method == McpMethod::CallTool => Some(link),
            Link::Http(_) | Link::Child(_) => None,
        };
        let sent_schema = param_link.and_then(|link| link.param_headers.schema_of(target));
        let sent_at = Instant::now();
        let mut response = self.request(&outgoing).await?;
        let error = (*method == McpMethod::CallTool).then(|| error_of(&response)).flatten();
        if error.as_ref().is_some_and(JsonRpcError::is_of_unknown_tool) {
            self.changed.send_replace(());
        }
        // The server has rejected the call without processing it. The check is boxed, so that it does not
        // enlarge the future of every call.
        if let Some(link) = param_link
            && error.is_some_and(|error| error.code == JsonRpcError::HEADER_MISMATCH)
            && Box::pin(self.has_other_param_headers(link, target, sent_schema.as_ref(), sent_at)).await
        {
            response = Box::pin(self.request(&outgoing)).await?;
        }
        Ok(response)
    }

    /// Reads the list of tools again after the server has rejected the headers of a call. Returns whether the
    /// input schema of the tool is no longer `sent_schema` (MCP 2026-07-28, Streamable HTTP, "Client
    /// Behavior").
    async fn has_other_param_headers(
        &self,
        link: &Arc<HttpLink>,
        tool: &str,
        sent_schema: Option<&MarkedSchema>,
        sent_at: Instant,
    ) -> bool {
        // In earlier revisions the error code may mean anything.
        if !link.agreed().await.is_ok_and(|agreed| agreed.is_sessionless()) {
            return false;
        }
        let has_changed = || link.param_headers.schema_of(tool).as_ref() != sent_schema;
        let mut refreshed_at = link.param_headers.refreshed_at.lock().await;
        if has_changed() {
            return true;
        }
        if refreshed_at.is_some_and(|refreshed_at| refreshed_at > sent_at) {
            return false;
        }
        let started_at = Instant::now();
        let tools = self.list_of(TOOLS).await;
        *refreshed_at = Some(started_at);
        let Ok(mut tools) = tools else { return false };
        link.param_headers.update(self.name(), &mut tools);
        let has_changed = has_changed();
        if has_changed {
            self.changed.send_replace(());
        }
        has_changed
    }
}

/// Upstream response whose body is a JSON-RPC response. Its status is always 200, even if the HTTP status was
/// another.
fn message_response(text: Bytes) -> UpstreamResponse {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MCP_MEDIA_TYPE));
    UpstreamResponse::new(StatusCode::OK, headers, text)
}

/// JSON-RPC error in a response.
fn error_of(response: &UpstreamResponse) -> Option<JsonRpcError> {
    /// Maximum length of a response that is searched for an error. Longer responses count as results.
    const SEARCHED_BYTES: usize = 16 << 10;
    let text = std::str::from_utf8(&response.body).ok().filter(|text| text.len() <= SEARCHED_BYTES)?;
    jsonrpc::error_in(text)
}

/// Parses the JSON-RPC response in a body.
fn whole_response(text: &[u8]) -> Result<ServerMessage<'_>, Failure> {
    let text = std::str::from_utf8(text).map_err(|error| Failure::NotMcp(error.into()))?;
    let response = jsonrpc::messages(text).into_iter().find(ServerMessage::is_response);
    response.ok_or_else(|| Failure::NotMcp("its response is not a JSON-RPC response".into()))
}
