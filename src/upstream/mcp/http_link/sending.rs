//! What is sent: messages, and the headers that say of which session they are.

use std::sync::atomic::Ordering;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header, uri::PathAndQuery};

use super::{HttpLink, INTRODUCTION_LIMIT_BYTES, Session};
use crate::{
    route::{HttpRequest, Under},
    upstream::{
        UpstreamError,
        http::{IncomingResponse, ResponseBody},
        mcp::{
            McpUpstream, Outgoing, message,
            revision::{self, Agreed},
        },
    },
};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

impl HttpLink {
    /// Sends one message.
    pub(super) async fn post(
        &self,
        session: Option<&Session>,
        more: &HeaderMap,
        body: Bytes,
        method: &str,
        name: Option<&str>,
    ) -> Result<IncomingResponse, UpstreamError> {
        let mut headers = more.clone();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if session.is_some_and(|session| session.agreed.is_per_request()) {
            headers.insert(METHOD, header_value(method));
            headers.extend(name.map(|name| (NAME, header_value(name))));
        }
        self.send(session, Method::POST, headers, body).await
    }

    /// Opens the stream on which the server tells what nobody asked for, or says that it has none.
    pub(in crate::upstream::mcp) async fn open_stream(
        &self,
        session: &Session,
    ) -> Result<Option<ResponseBody>, UpstreamError> {
        let response = if session.agreed.is_per_request() {
            let (id, headers) = (self.ids.fetch_add(1, Ordering::Relaxed), HeaderMap::new());
            let params = [("notifications".to_owned(), session.agreed.declared.changes().into())];
            let method = "subscriptions/listen";
            let outgoing = Outgoing {
                method,
                params: params.into_iter().collect(),
                name: None,
                headers: &headers,
                limit_bytes: INTRODUCTION_LIMIT_BYTES,
                ask: None,
            };
            let body = message::request(id, method, revision::params(&outgoing, id, true));
            self.post(Some(session), &headers, body, method, None).await?
        } else {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            self.send(Some(session), Method::GET, headers, Bytes::new()).await?
        };
        let has_events = response.status().is_success() && is_of_events(response.headers());
        Ok(has_events.then(|| response.into_body().0))
    }

    pub(super) async fn send(
        &self,
        session: Option<&Session>,
        method: Method,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<IncomingResponse, UpstreamError> {
        if let Some(session) = session {
            headers.extend(session_headers(&session.agreed, session.id.as_ref()));
        }
        self.http.open(bare(method, headers, body), soon()).await
    }
}

/// What every message of a session says of it.
pub(super) fn session_headers(agreed: &Agreed, id: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(agreed.revision));
    headers.extend(id.cloned().map(|id| (SESSION_ID, id)));
    headers
}

/// When a request has found its place at the latest; whoever waits for its answer has a limit of their own.
pub(super) fn soon() -> tokio::time::Instant {
    tokio::time::Instant::now() + McpUpstream::START_TIMEOUT
}

pub(super) fn bare(method: Method, headers: HeaderMap, body: Bytes) -> HttpRequest {
    let (under, path_and_query) = (Under::Itself, PathAndQuery::from_static("/"));
    HttpRequest { method, under, path_and_query, headers, body }
}

pub(super) fn is_of_events(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

/// A text as the value of a header; encoded where it must be (MCP 2026-07-28, Streamable HTTP, "Value Encoding").
fn header_value(text: &str) -> HeaderValue {
    let is_plain = !text.is_empty()
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    let encoded = (!is_plain).then(|| format!("=?base64?{}?=", BASE64_STANDARD.encode(text)));
    HeaderValue::from_str(encoded.as_deref().unwrap_or(text)).expect("printable ASCII only")
}
