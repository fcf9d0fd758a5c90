//! Context of a message: its transport and headers, its client and its revision.
//!
//! Revision 2026-07-28 repeats parts of the body in headers. Load balancers and gateways use the headers
//! without reading the body, so a request in which headers and body differ is rejected (MCP 2026-07-28,
//! Streamable HTTP, "Server Validation").

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
    time::Duration,
};

use http::{HeaderMap, HeaderName, header::AsHeaderName, request::Parts};
use rmcp::model::JsonObject;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use super::response::{CacheHints, write_tool_result};
use super::sessions::NamedSession;
use super::{
    ErrorKind, LoggedRequest, MessageDispatcher, MessageSender, Rejection, RequestContext, RequestInfo,
    Revision, RpcError, RpcRequest, RpcResponse, RpcResult, ServerInfo, truncated,
};
use crate::model::{
    Arguments, PARAM_HEADER_MAX_INTEGER, ToolResult, decode_header_text, is_exact_in_header,
    param_header_text, param_headers,
};
use crate::pipeline::{Call, McpMessage, Members, ProxiedEntry};
use crate::route::{Scopes, TraceContext};
use crate::settings::units::milliseconds;
use crate::upstream::ClientIdentity;

pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// A message's transport, session, and the context of its request.
#[derive(Debug)]
pub(super) struct MessageContext {
    pub(super) dispatcher: Arc<MessageDispatcher>,
    pub(super) context: RequestContext,
    /// The headers of the HTTP request; `None` for a message over stdio.
    pub(super) head: Option<Parts>,
    /// The session of a legacy message: over HTTP the session that the headers name, over stdio the session
    /// of the latest handshake.
    pub(super) session: Option<Arc<NamedSession>>,
}

/// Session id of stdio in the table of requests in flight. No HTTP session has this id.
const STDIO_SESSION: &str = "stdio";

impl MessageContext {
    /// The context of a message over HTTP.
    pub(super) fn http(dispatcher: Arc<MessageDispatcher>, context: RequestContext, head: Parts) -> Self {
        // Two different ids are an error, which `session_to_check` returns.
        let id = single_value(&head.headers, &SESSION_ID).ok().flatten();
        let session = id.map(|id| Arc::new(dispatcher.sessions.open(id)));
        Self { dispatcher, context, head: Some(head), session }
    }

    /// The client that sent the message.
    pub(super) fn client(&self) -> &ClientIdentity {
        self.context.client()
    }

    /// The id of the client, which owns its sessions, tasks and input requests; `None` without identities.
    pub(super) fn owner(&self) -> Option<&str> {
        self.client().owner()
    }

    pub(super) fn is_stdio(&self) -> bool {
        self.head.is_none()
    }

    /// The headers of the HTTP request, which a route may forward; empty over stdio.
    pub(super) fn headers(&self) -> &HeaderMap {
        static NONE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        self.head.as_ref().map_or(&NONE, |head| &head.headers)
    }

    /// The request as it appears in the log.
    pub(super) fn logged(&self) -> LoggedRequest<'_> {
        self.context.logged(self.head.as_ref())
    }

    /// The revision that the session has negotiated.
    fn negotiated(&self) -> Option<Revision> {
        self.session.as_ref()?.revision()
    }

    /// The revision according to the transport: the header `MCP-Protocol-Version` or the session.
    ///
    /// # Errors
    ///
    /// When the header names a revision that is not supported.
    pub(super) fn revision(&self) -> Result<Revision, RpcError> {
        match &self.head {
            Some(head) => {
                Revision::from_header(single_value(&head.headers, &PROTOCOL_VERSION)?, self.negotiated())
            }
            None => Ok(self.negotiated().unwrap_or(Revision::R2026_07_28)),
        }
    }

    /// The protocol revision of a request.
    ///
    /// # Errors
    ///
    /// As for [`Revision::from_request`] or [`Revision::from_stdio_request`].
    pub(super) fn revision_of(&self, request: &RpcRequest<'_>) -> Result<Revision, RpcError> {
        match &self.head {
            Some(head) => Revision::from_request(&head.headers, self.negotiated(), request),
            None => Revision::from_stdio_request(self.negotiated(), request),
        }
    }

    /// Checks the header `Mcp-Method`, which repeats the method of the message.
    ///
    /// # Errors
    ///
    /// When the header is missing, or differs from `method`.
    pub(super) fn check_method(&self, method: &str) -> Result<(), RpcError> {
        let Some(head) = &self.head else { return Ok(()) };
        match single_value(&head.headers, "mcp-method")? {
            Some(found) if found == method => Ok(()),
            Some(found) => Err(mismatch_error("Mcp-Method", found, method)),
            None => Err(missing_error("Mcp-Method", method)),
        }
    }

    /// Checks the headers `Mcp-Param-…`, which repeat the arguments that the input schema marks with
    /// `x-mcp-header`.
    ///
    /// # Errors
    ///
    /// When a header differs from its argument, or one of the two is missing.
    pub(super) fn check_param_headers(&self, schema: &JsonObject, arguments: &JsonObject) -> RpcResult<()> {
        let Some(head) = &self.head else { return Ok(()) };
        let mut marked_arguments = param_headers(schema, Some(arguments)).into_iter();
        marked_arguments.try_for_each(|(suffix, argument)| check_argument(&head.headers, suffix, argument))
    }

    /// The id of the session of a legacy message.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_ref().map(|session| &*session.id)
    }

    /// The session of the message. It may have ended.
    ///
    /// # Errors
    ///
    /// When the headers name two different sessions.
    pub(super) fn session_to_check(&self) -> Result<Option<&NamedSession>, RpcError> {
        single_value(self.headers(), &SESSION_ID)?;
        Ok(self.session.as_deref())
    }

    /// The session whose later messages can cancel this request: a legacy session over HTTP, or stdio. Since
    /// 2026-07-28, a client over HTTP cancels its request by closing the connection.
    pub(super) fn session_for_cancellation(&self) -> Option<&str> {
        match self.head {
            // A request since 2026-07-28 has no session, even if its headers name one. With the session, it
            // would occupy a request id that a legacy request of the session needs.
            Some(_) => self.session().filter(|_| self.revision().is_ok_and(Revision::has_handshake)),
            None => Some(STDIO_SESSION),
        }
    }
}

/// Members of an upstream's result that are not copied, because [`RpcContext::forwarded`] sets its own.
const REPLACED_MEMBERS: [&str; 4] = ["resultType", "ttlMs", "cacheScope", "_meta"];

/// Context of one JSON-RPC request, until its result is sent.
#[derive(Debug)]
pub(super) struct RpcContext<'a> {
    pub(super) dispatcher: &'a MessageDispatcher,
    pub(super) revision: Revision,
    pub(super) request: &'a RpcRequest<'a>,
    pub(super) message: &'a MessageContext,
    /// Queue of the messages that are sent before the result.
    pub(super) sender: &'a MessageSender,
}

impl RpcContext<'_> {
    /// The capabilities of the client, which it declares with each request or at `initialize`.
    pub(super) fn capabilities(&self) -> Map<String, Value> {
        if !self.revision.has_handshake() {
            return self.request.meta.capabilities();
        }
        let session = self.message.session.as_ref().and_then(|session| session.content.as_ref().ok());
        session.map(|session| session.capabilities.clone()).unwrap_or_default()
    }

    /// Checks the header `Mcp-Name`, which since 2026-07-28 repeats the name of a tool or prompt, the URI of
    /// a resource or the id of a task.
    ///
    /// # Errors
    ///
    /// When the header is missing, or differs from `name`.
    pub(super) fn check_name(&self, name: &str) -> Result<(), RpcError> {
        if self.message.is_stdio() || self.revision.has_handshake() {
            return Ok(());
        }
        match single_value(self.message.headers(), "mcp-name")? {
            Some(found) if decode_value("Mcp-Name", found)? == name => Ok(()),
            Some(found) => Err(mismatch_error("Mcp-Name", found, name)),
            None => Err(missing_error("Mcp-Name", name)),
        }
    }

    /// Checks that the client has the needed scopes.
    ///
    /// # Errors
    ///
    /// When a scope is missing: an error with the `WWW-Authenticate` challenge.
    pub(super) fn may(&self, needed: &Scopes) -> Result<(), RpcError> {
        let client = self.message.client();
        if client.may(needed) {
            return Ok(());
        }
        let all_scopes = &self.dispatcher.gateway.snapshot().lists.needed_scopes;
        let Rejection { text, header, .. } =
            self.dispatcher.filter.authenticator.missing_scope(client, needed, all_scopes);
        let challenge = header.map(|header| Box::new(header.1));
        Err(RpcError { challenge, ..ErrorKind::FORBIDDEN.error(text) })
    }

    /// Cache scope of lists: `private` if clients have identities, because each client then has its own list.
    pub(super) fn cache_scope(&self) -> &'static str {
        if self.message.owner().is_some() { "private" } else { "public" }
    }

    /// `_meta` of every result; empty in legacy revisions.
    pub(super) fn meta(&self) -> &Map<String, Value> {
        let ServerInfo { meta, empty_meta, .. } = &self.dispatcher.server_info;
        if self.revision.has_handshake() { empty_meta } else { meta }
    }

    /// Builds the response with a result of these members.
    pub(super) fn result(&self, members: &impl Serialize) -> RpcResponse {
        self.result_with(self.revision.result_type(), members, None, self.meta())
    }

    /// Builds the response with a result whose `resultType` is not `complete`.
    pub(super) fn result_of_type(&self, result_type: &str, members: &impl Serialize) -> RpcResponse {
        self.result_with(Some(result_type), members, None, self.meta())
    }

    /// Builds the response with a result and its cache hints (TTL and scope), which legacy revisions do not
    /// have.
    pub(super) fn cacheable(&self, members: &impl Serialize, hints: CacheHints) -> RpcResponse {
        self.result_with(self.revision.result_type(), members, Some(hints), self.meta())
    }

    /// Builds the response with a result, these cache hints and this `_meta`, which is omitted if it is
    /// empty.
    pub(super) fn result_with(
        &self,
        result_type: Option<&str>,
        members: &impl Serialize,
        hints: Option<CacheHints>,
        meta: &Map<String, Value>,
    ) -> RpcResponse {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ResultMembers<'a, T: Serialize> {
            #[serde(skip_serializing_if = "Option::is_none")]
            result_type: Option<&'a str>,
            #[serde(flatten)]
            members: &'a T,
            #[serde(skip_serializing_if = "Option::is_none")]
            ttl_ms: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_scope: Option<&'static str>,
            #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
            meta: &'a Map<String, Value>,
        }
        let (ttl, cache_scope) = hints.filter(|_| !self.revision.has_handshake()).unzip();
        let result = ResultMembers { result_type, members, ttl_ms: ttl.map(milliseconds), cache_scope, meta };
        RpcResponse::new(Some(self.request.id.as_json()), "result", &result)
    }

    /// Builds the response with the result of a call. JSON of the upstream is copied byte for byte.
    pub(super) fn tool_result(&self, result: ToolResult) -> RpcResponse {
        let id = self.request.id.as_json();
        let mut body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":").into_bytes();
        write_tool_result(self.revision, result, self.meta(), &mut body);
        body.push(b'}');
        RpcResponse { body, ..RpcResponse::default() }
    }

    /// Builds the response with the members of an upstream's result, copied byte for byte. For a `resource`,
    /// the response has the cache hints of the upstream, or `ttlMs: 0`.
    pub(super) fn forwarded(&self, mut members: Members, resource: Option<&ProxiedEntry>) -> RpcResponse {
        let member = |name: &str| members.get(name).map(|value| RawValue::get(value));
        let hints = resource.map(|resource| {
            let ttl_ms: u64 = member("ttlMs").and_then(|text| text.parse().ok()).unwrap_or(0);
            // If the request forwards headers of the client, the content may depend on them.
            let is_private = resource.route.request.forwards_headers();
            let is_public = member("cacheScope") == Some("\"public\"") && !is_private;
            (Duration::from_millis(ttl_ms), if is_public { self.cache_scope() } else { "private" })
        });
        let meta = member("_meta").and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        let mut meta = meta.unwrap_or_default();
        meta.retain(|name, _| !name.starts_with("io.modelcontextprotocol/"));
        meta.extend(self.meta().clone());
        members.retain(|name, _| !REPLACED_MEMBERS.contains(&name.as_str()));
        self.result_with(self.revision.result_type(), &members, hints, &meta)
    }

    /// Creates a call with these arguments for the request.
    pub(super) fn call(&self, arguments: impl Into<Arguments>) -> Call<'_> {
        let RequestInfo { request_id, span, address, api, .. } = &self.message.context.info;
        let client = self.message.client().clone();
        let call = Call::new(arguments, self.message.headers(), request_id.clone(), *api, client);
        let message = McpMessage {
            method: &self.request.method,
            id: self.request.id.as_json(),
            session: self.message.session(),
        };
        // The trace context in `_meta` takes precedence over the HTTP headers.
        let (parent, state) = self.request.meta.trace();
        let trace = parent.and_then(|parent| TraceContext::parse(&parent, state.as_deref()));
        let (address, span) = (*address, span.clone());
        Call { address, trace, mcp_version: self.revision.as_str(), span, message: Some(message), ..call }
    }
}

/// Returns the value of a header that must not have two different values. Some proxies repeat a header;
/// identical values count as one.
pub(super) fn single_value(headers: &HeaderMap, name: impl AsHeaderName + Copy) -> RpcResult<Option<&str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.any(|other| other != value) {
        return Err(ErrorKind::HEADER_MISMATCH
            .error(format!("header `{}` is present twice, with different values", name.as_str())));
    }
    let text = value.to_str().map_err(|_| {
        ErrorKind::HEADER_MISMATCH
            .error(format!("header `{}` has characters that must be encoded", name.as_str()))
    })?;
    Ok(Some(text.trim_matches([' ', '\t'])))
}

fn check_argument(headers: &HeaderMap, suffix: &str, argument: Option<&Value>) -> Result<(), RpcError> {
    let name = format!("Mcp-Param-{suffix}");
    if let Some(Value::Number(number)) = argument
        && !is_exact_in_header(number)
    {
        return Err(ErrorKind::HEADER_MISMATCH.error(format!(
            "the argument of header `{name}` is {}; numbers in headers are from -{PARAM_HEADER_MAX_INTEGER} \
             to {PARAM_HEADER_MAX_INTEGER}",
            truncated(&number.to_string())
        )));
    }
    match (single_value(headers, name.as_str())?, argument.and_then(param_header_text)) {
        (None, None) => Ok(()),
        (None, Some(expected)) => Err(missing_error(&name, &expected)),
        (Some(found), None) => Err(ErrorKind::HEADER_MISMATCH
            .error(format!("header `{name}` is `{}`, but the argument is missing", truncated(found)))),
        (Some(found), Some(expected)) => {
            let value = decode_value(&name, found)?;
            let is_equal = value == expected
                || matches!(argument, Some(Value::Number(_))) && equal_as_numbers(&value, &expected);
            if is_equal { Ok(()) } else { Err(mismatch_error(&name, found, &expected)) }
        }
    }
}

/// Whether two strings are the same number, such as `42.0` and `42`, in the range of integers that a double
/// represents exactly.
fn equal_as_numbers(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (one.parse::<f64>(), other.parse::<f64>()) else { return false };
    one == other && one.abs() <= PARAM_HEADER_MAX_INTEGER as f64
}

/// Decodes `=?base64?…?=`, the form of a value that is not plain ASCII.
fn decode_value<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, RpcError> {
    decode_header_text(value)
        .ok_or_else(|| ErrorKind::HEADER_MISMATCH.error(format!("header `{name}` is not UTF-8 in Base64")))
}

fn mismatch_error(name: &str, found: &str, expected: &str) -> RpcError {
    ErrorKind::HEADER_MISMATCH.error(format!(
        "header `{name}` is `{}`, but the body says `{}`",
        truncated(found),
        truncated(expected)
    ))
}

fn missing_error(name: &str, expected: &str) -> RpcError {
    ErrorKind::HEADER_MISMATCH
        .error(format!("header `{name}` is missing; the body says `{}`", truncated(expected)))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::json;

    use super::{super::sessions::Session, *};
    use crate::{
        crypto::TokenCipher,
        inbound::{
            authenticate::AuthenticatedClient,
            filter::{Filter, FilterSettings},
            mcp::McpApiSettings,
            request_context::RequestInfo,
        },
        pipeline::{Gateway, Snapshot, SnapshotParts},
        route::RouteTable,
    };

    /// A request of a session, in the revision that its header names.
    fn context_of<T>(
        session: &str,
        revision: Option<&str>,
        dispatcher: &Arc<MessageDispatcher>,
        read: impl FnOnce(&MessageContext) -> T,
    ) -> T {
        let mut request = http::Request::post("/mcp").header(&SESSION_ID, session);
        if let Some(revision) = revision {
            request = request.header(&PROTOCOL_VERSION, revision);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let info = RequestInfo::new(Arc::default(), &head.headers);
        let context = RequestContext { info, identity: AuthenticatedClient::local() };
        read(&MessageContext::http(Arc::clone(dispatcher), context, head))
    }

    fn dispatcher() -> Arc<MessageDispatcher> {
        let gateway =
            Gateway::new(Snapshot::new(RouteTable::new(Vec::new()).unwrap(), SnapshotParts::default()));
        let filter = Filter::new(&FilterSettings::default());
        Arc::new(MessageDispatcher::new(gateway, McpApiSettings::default(), filter))
    }

    #[test]
    fn a_header_names_the_revision_or_else_the_session_does() {
        let dispatcher = dispatcher();
        let session_of = |revision| {
            Session::new(revision, Map::new(), &ClientIdentity::Local)
                .encrypt(&dispatcher.cipher, SystemTime::now())
        };
        let revision = |session: &str, header: Option<&str>| {
            context_of(session, header, &dispatcher, |context| context.revision()).ok()
        };
        for negotiated in [Revision::R2024_11_05, Revision::R2025_06_18, Revision::R2025_11_25] {
            let session = session_of(negotiated);
            assert_eq!(revision(&session, None), Some(negotiated));
            assert_eq!(revision(&session, Some("2025-03-26")), Some(Revision::R2025_03_26));
            assert_eq!(revision(&session, Some("2026-07-28")), Some(Revision::R2026_07_28));
            assert_eq!(revision(&session, Some("2099-01-01")), None);
        }
        let foreign = Session::new(Revision::R2025_11_25, Map::new(), &ClientIdentity::Local)
            .encrypt(&TokenCipher::random(), SystemTime::now());
        for unknown in ["a-session", foreign.as_str()] {
            assert_eq!(revision(unknown, None), Some(Revision::R2025_03_26));
        }
    }

    #[test]
    fn a_per_request_revision_needs_no_session() {
        let dispatcher = dispatcher();
        let cancellable_session = |revision: Option<&str>| {
            context_of("a-session", revision, &dispatcher, |context| {
                context.session_for_cancellation().map(str::to_owned)
            })
        };
        assert_eq!(cancellable_session(Some("2025-11-25")).as_deref(), Some("a-session"));
        assert_eq!(
            cancellable_session(None).as_deref(),
            Some("a-session"),
            "without a header, the revision is 2025-03-26"
        );
        assert_eq!(cancellable_session(Some("2026-07-28")), None);
        assert_eq!(cancellable_session(Some("2099-01-01")), None);
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value);
        }
        headers
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)], arguments: Value, expected: Result<(), &str>) {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "deep": { "type": "object", "properties": { "flag": { "type": "boolean", "x-mcp-header": "Flag" } } },
        } });
        let headers = headers(pairs);
        let mut marked_arguments =
            param_headers(schema.as_object().unwrap(), arguments.as_object()).into_iter();
        let found =
            marked_arguments.try_for_each(|(suffix, argument)| check_argument(&headers, suffix, argument));
        match (found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(found), Err(expected)) => assert!(found.text.contains(expected), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn arguments_that_are_marked_must_be_repeated_as_they_are() {
        check(&[("mcp-param-region", "eu")], json!({ "region": "eu" }), Ok(()));
        check(&[("MCP-PARAM-REGION", " eu ")], json!({ "region": "eu" }), Ok(()));
        check(&[("mcp-param-region", "EU")], json!({ "region": "eu" }), Err("is `EU`"));
        check(&[], json!({ "region": "eu" }), Err("is missing"));
        check(&[], json!({ "region": null }), Ok(()));
        check(&[], json!({}), Ok(()));
        check(&[("mcp-param-region", "eu")], json!({}), Err("is missing"));
        check(&[("mcp-param-flag", "true")], json!({ "deep": { "flag": true } }), Ok(()));
        check(&[("mcp-param-flag", "false")], json!({ "deep": { "flag": true } }), Err("is `false`"));
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        check(&[("mcp-param-count", "42.0")], json!({ "count": 42 }), Ok(()));
        check(&[("mcp-param-count", "43")], json!({ "count": 42 }), Err("is `43`"));
        check(&[("mcp-param-count", "-7")], json!({ "count": -7.0 }), Ok(()));
        for value in ["", "x", "inf", "NaN", "4 2", "42,42"] {
            check(&[("mcp-param-count", value)], json!({ "count": 42 }), Err("but the body says `42`"));
        }
        check(&[("mcp-param-count", "9007199254740991")], json!({ "count": 9007199254740991_u64 }), Ok(()));
        // The same text, but not the same number to every reader.
        for number in [json!(9007199254740993_u64), json!(-9007199254740992_i64)] {
            let text = number.to_string();
            check(&[("mcp-param-count", &text)], json!({ "count": number }), Err("-9007199254740991 to"));
        }
        // A string of digits is a string.
        check(&[("mcp-param-region", "042")], json!({ "region": "42" }), Err("is `042`"));
    }

    #[test]
    fn the_sentinel_is_decoded_and_similar_texts_are_not() {
        check(&[("mcp-param-region", "=?base64?SGVsbG8=?=")], json!({ "region": "Hello" }), Ok(()));
        check(&[("mcp-param-region", "=?base64?SGVsbG8?=")], json!({ "region": "Hello" }), Err("Base64"));
        check(&[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")], json!({ "region": "Hello" }), Err("Base64"));
        check(&[("mcp-param-region", "=?base64?/w==?=")], json!({ "region": "x" }), Err("UTF-8"));
        check(&[("mcp-param-region", "=?base64??=")], json!({ "region": "" }), Ok(()));
        check(&[("mcp-param-region", "")], json!({ "region": "" }), Ok(()));
        check(&[("mcp-param-region", "=?base64?IHBhZGRlZCA=?=")], json!({ "region": " padded " }), Ok(()));
        check(
            &[("mcp-param-region", "=?base64?bGluZTEKbGluZTI=?=")],
            json!({ "region": "line1\nline2" }),
            Ok(()),
        );
        let sentinel_like = json!({ "region": "=?base64?literal?=" });
        check(&[("mcp-param-region", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")], sentinel_like.clone(), Ok(()));
        check(&[("mcp-param-region", "=?base64?literal?=")], sentinel_like, Err("Base64"));
        check(&[("mcp-param-count", "=?base64?NDI=?=")], json!({ "count": 42 }), Ok(()));
        check(&[("mcp-param-flag", "=?base64?dHJ1ZQ==?=")], json!({ "deep": { "flag": true } }), Ok(()));
        check(&[("mcp-param-region", "SGVsbG8=")], json!({ "region": "SGVsbG8=" }), Ok(()));
        check(&[("mcp-param-region", "=?base64?SGVsbG8=")], json!({ "region": "=?base64?SGVsbG8=" }), Ok(()));
        check(
            &[("mcp-param-region", "=?BASE64?SGVsbG8=?=")],
            json!({ "region": "Hello" }),
            Err("is `=?BASE64"),
        );
    }

    #[test]
    fn a_repeated_header_must_have_equal_values() {
        let equal_values = [("mcp-param-region", "eu"), ("mcp-param-region", "eu")];
        check(&equal_values, json!({ "region": "eu" }), Ok(()));
        let different_values = [("mcp-param-region", "eu"), ("mcp-param-region", "us")];
        check(&different_values, json!({ "region": "eu" }), Err("twice"));
        check(&[("mcp-param-region", "caf\u{e9}")], json!({ "region": "caf\u{e9}" }), Err("encoded"));
    }

    #[test]
    fn the_method_must_be_repeated_to_the_letter() {
        let without_header = http::Request::post("/mcp");
        let with_header = http::Request::post("/mcp").header("mcp-method", "tools/call");
        let [(with_header, ()), (without_header, ())] =
            [with_header, without_header].map(|head| head.body(()).unwrap().into_parts());
        let dispatcher = dispatcher();
        let context_of = |head| {
            let info = RequestInfo::from_stdio(&Arc::default());
            let context = RequestContext { info, identity: AuthenticatedClient::local() };
            MessageContext { dispatcher: Arc::clone(&dispatcher), context, head, session: None }
        };
        let [with_header, without_header] = [with_header, without_header].map(|head| context_of(Some(head)));
        with_header.check_method("tools/call").unwrap();
        with_header.check_method("TOOLS/CALL").unwrap_err();
        without_header.check_method("tools/call").unwrap_err();
        context_of(None).check_method("a pipe has no headers").unwrap();
    }
}
