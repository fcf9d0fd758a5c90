//! An MCP server that is reached by HTTP.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, uri::PathAndQuery};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::{
    sync::Mutex,
    task::AbortHandle,
    time::{Duration, timeout},
};
use tracing::{debug, info};

use super::{
    Answer, Changed, McpUpstream, Outgoing,
    events::Events,
    listening::{self, Heard},
    message::{self, RpcError},
    not_mcp,
    revision::{self, Agreed, PER_REQUEST},
};
use crate::{
    reply::Reply,
    route::{HttpRequest, Under, UpstreamName},
    upstream::{
        Meanwhile, UpstreamError,
        http::{HttpSettings, HttpUpstream, Opened, Veils},
    },
};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// How much of an introduction is read.
const INTRODUCTION_LIMIT_BYTES: usize = 1 << 20;
/// How long a server may take to end a stream that has said everything, so that its connection can be used again.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take to hear that a session is over.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// The way to one server, and the session with it.
#[derive(Debug)]
pub(super) struct HttpLink {
    http: HttpUpstream,
    session: Mutex<Option<Arc<Session>>>,
    ids: AtomicU64,
    changed: Changed,
    own: Weak<Self>,
}

/// What was agreed on with the server; until it forgets it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) agreed: Agreed,
    id: Option<HeaderValue>,
    listening: std::sync::Mutex<Option<AbortHandle>>,
}

/// What a server says of itself, and the session that it begins.
type Introduced = (Box<RawValue>, Option<HeaderValue>);

/// Why a request was not answered.
enum Unanswered {
    /// The server does not know the session: the request was not looked at.
    Forgotten,
    /// The server begins no session, and says so in the words of HTTP.
    Refused(Reply),
    /// For another reason.
    Failed(UpstreamError),
}

impl From<UpstreamError> for Unanswered {
    fn from(error: UpstreamError) -> Self {
        Self::Failed(error)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let listening = self.listening.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(listening) = listening.take() {
            listening.abort();
        }
    }
}

impl Drop for HttpLink {
    /// Nobody waits for it here; `close` does.
    fn drop(&mut self) {
        let session = self.session.get_mut().take();
        if let Some(session) = session
            && let Some(id) = session.id.clone()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let http = self.http.clone();
            runtime.spawn(timeout(GOODBYE_TIMEOUT, async move {
                let headers = session_headers(&session.agreed, Some(&id));
                http.open(bare(Method::DELETE, headers, Bytes::new()), soon()).await
            }));
        }
    }
}

impl HttpLink {
    pub(super) fn new(settings: HttpSettings, changed: Changed) -> Arc<Self> {
        let http = HttpUpstream::new(settings);
        Arc::new_cyclic(|own| Self {
            http,
            session: Mutex::default(),
            ids: AtomicU64::new(1),
            changed,
            own: own.clone(),
        })
    }

    fn name(&self) -> &UpstreamName {
        self.http.name()
    }

    /// Sends a request and waits for its answer. A session that the server has forgotten is begun anew, once.
    pub(super) async fn request(&self, outgoing: &Outgoing<'_>) -> Result<Answer, UpstreamError> {
        match self.try_request(outgoing).await {
            Ok(answer) => Ok(answer),
            Err(Unanswered::Refused(reply)) => Ok(Answer::Refused(reply)),
            Err(Unanswered::Failed(error)) => Err(error),
            Err(Unanswered::Forgotten) => Err(not_mcp(self.name(), "it forgets every session at once")),
        }
    }

    async fn try_request(&self, outgoing: &Outgoing<'_>) -> Result<Answer, Unanswered> {
        let session = self.session().await?;
        match self.in_session(&session, outgoing).await {
            Err(Unanswered::Forgotten) => {}
            answered => return answered,
        }
        info!(upstream = %self.name(), "the server has forgotten the session: another is begun");
        self.forget(&session).await;
        let session = self.session().await?;
        // Who forgets may have been started anew, with other tools.
        if outgoing.method != "tools/list" {
            self.changed.tell();
        }
        self.in_session(&session, outgoing).await
    }

    async fn in_session(
        &self,
        session: &Arc<Session>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answer, Unanswered> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let params = revision::params(outgoing, id, session.agreed.is_per_request());
        let body = message::request(id, outgoing.method, params);
        let mut waiting = Waiting { link: &self.own, session, id, is_over: false };
        let response =
            self.post(Some(session), outgoing.headers, body, outgoing.method, outgoing.name).await?;
        let answer = self.answer(session, response, id, outgoing).await;
        waiting.is_over = true;
        answer
    }

    /// The answer to a request, in whatever form it comes.
    async fn answer(
        &self,
        session: &Arc<Session>,
        response: Opened,
        id: u64,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answer, Unanswered> {
        let status = response.status();
        if status.is_success() && is_of_events(response.headers()) {
            return Ok(Answer::Message(
                self.among_events(session, response.into_body(), id, outgoing).await?,
            ));
        }
        let reply = response.whole(outgoing.limit_bytes, outgoing.meanwhile).await?;
        let text = std::str::from_utf8(&reply.body).unwrap_or_default();
        if let Some(response) = message::response_to(text, id) {
            return Ok(Answer::Message(reply.body.slice_ref(response.text.as_bytes())));
        }
        if status.is_success() {
            return Err(not_mcp(self.name(), "its answer has no response to the request").into());
        }
        // An error without an id is about the message as a whole. Servers of the older eras say that they do not know
        // a session with 404, and many with 400.
        if session.id.is_some() && matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Err(Unanswered::Forgotten);
        }
        Ok(Answer::Refused(reply))
    }

    /// Reads a stream until the answer is there; what comes before it is heard as well.
    async fn among_events(
        &self,
        session: &Arc<Session>,
        (mut body, veils): (Incoming, Veils),
        id: u64,
        outgoing: &Outgoing<'_>,
    ) -> Result<Bytes, UpstreamError> {
        let limit_bytes = outgoing.limit_bytes;
        let mut events = Events::new(limit_bytes);
        loop {
            let too_long = |_| UpstreamError::TooLong { upstream: self.name().clone(), limit_bytes };
            while let Some(data) = events.next().map_err(too_long)? {
                if let Some(response) = message::response_to(&data, id) {
                    let text = Bytes::copy_from_slice(response.text.as_bytes());
                    tokio::spawn(timeout(END_TIMEOUT, body.collect()));
                    return Ok(veils.over(Reply::new(StatusCode::OK, HeaderMap::new(), text)).body);
                }
                self.hear(session, &data, outgoing.meanwhile.map(|meanwhile| (id, meanwhile)));
            }
            let cut_off = |source| UpstreamError::CutOff { upstream: self.name().clone(), source };
            match body.frame().await {
                Some(Ok(frame)) => frame.into_data().iter().for_each(|piece| events.push(piece)),
                Some(Err(error)) => return Err(cut_off(error.into())),
                None => return Err(cut_off("the stream ended before the answer".into())),
            }
        }
    }

    /// Takes what a server says beside answers.
    pub(super) fn hear(&self, session: &Arc<Session>, text: &str, call: Option<(u64, &Meanwhile)>) {
        for message in message::messages(text) {
            match listening::heard(self.name(), &message, call) {
                Heard::Nothing => {}
                Heard::ToolsChanged => self.changed.tell(),
                Heard::Asked(answer) => self.tell(session, answer),
            }
        }
    }

    /// Tells that the tools may be other ones now.
    pub(super) fn tools_changed(&self) {
        self.changed.tell();
    }

    /// Sends something that wants no answer, on the side.
    fn tell(&self, session: &Arc<Session>, body: Bytes) {
        let (Some(link), session) = (self.own.upgrade(), session.clone()) else { return };
        tokio::spawn(async move {
            let headers = HeaderMap::new();
            let told = link.post(Some(&session), &headers, body, "notifications/cancelled", None);
            if let Ok(Ok(response)) = timeout(GOODBYE_TIMEOUT, told).await {
                let _ = timeout(END_TIMEOUT, response.whole(INTRODUCTION_LIMIT_BYTES, None)).await;
            }
        });
    }

    /// The session, begun where there is none.
    async fn session(&self) -> Result<Arc<Session>, Unanswered> {
        let mut open = self.session.lock().await;
        if let Some(session) = &*open {
            return Ok(session.clone());
        }
        let begun = timeout(McpUpstream::START_TIMEOUT, self.begin()).await;
        let after = McpUpstream::START_TIMEOUT;
        let session =
            begun.map_err(|_| UpstreamError::Deadline { upstream: self.name().clone(), after })??;
        let session = Arc::new(session);
        if session.agreed.tells_changes
            && let Some(link) = self.own.upgrade()
        {
            let task = tokio::spawn(listening::listen(Arc::downgrade(&link), Arc::downgrade(&session)));
            *session.listening.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                Some(task.abort_handle());
        }
        info!(upstream = %self.name(), revision = session.agreed.revision, "speaking MCP with the server");
        *open = Some(session.clone());
        Ok(session)
    }

    /// Asks in the newest words first, as the revision has it; whoever does not know them is older (MCP 2026-07-28,
    /// Streamable HTTP, "Backward Compatibility").
    async fn begin(&self) -> Result<Session, Unanswered> {
        let discovered = self.introduce("server/discover", Map::new(), true).await?;
        if let Ok((result, _)) = &discovered
            && let Ok(agreed) = Agreed::of_discover(result)
        {
            return Ok(Session { agreed, id: None, listening: Default::default() });
        }
        let newer = discovered.err().filter(|refused| refused.code == RpcError::UNSUPPORTED_REVISION);
        let initialized = self.introduce("initialize", revision::initialize(), false).await?;
        let (result, id) = initialized.map_err(|refused| not_mcp(self.name(), newer.unwrap_or(refused)))?;
        let agreed = Agreed::of_initialize(&result).map_err(|why| not_mcp(self.name(), why))?;
        let session = Session { agreed, id, listening: Default::default() };
        let told = message::notification("notifications/initialized", Map::new());
        let response =
            self.post(Some(&session), &HeaderMap::new(), told, "notifications/initialized", None).await?;
        let _ = response.whole(INTRODUCTION_LIMIT_BYTES, None).await;
        Ok(session)
    }

    /// Sends what begins a session. The inner error is the server's own no.
    async fn introduce(
        &self,
        method: &'static str,
        params: Map<String, Value>,
        is_per_request: bool,
    ) -> Result<Result<Introduced, RpcError>, Unanswered> {
        let (id, headers) = (self.ids.fetch_add(1, Ordering::Relaxed), HeaderMap::new());
        let limit_bytes = INTRODUCTION_LIMIT_BYTES;
        let outgoing =
            Outgoing { method, params, name: None, headers: &headers, limit_bytes, meanwhile: None };
        let agreed = Agreed { revision: PER_REQUEST, tells_changes: false };
        let session = Session { agreed, id: None, listening: Default::default() };
        let session = Arc::new(session);
        let body = message::request(id, method, revision::params(&outgoing, id, is_per_request));
        let own = is_per_request.then_some(&*session);
        let response = self.post(own, &headers, body, method, None).await?;
        let given = response.headers().get(&SESSION_ID).cloned();
        match self.answer(&session, response, id, &outgoing).await {
            Ok(Answer::Message(text)) => {
                let whole = super::whole_response(self.name(), &text)?;
                Ok(match whole.outcome {
                    Ok(result) => Ok((result.to_owned(), given)),
                    Err(error) => Err(error),
                })
            }
            // Whoever must not come in, or finds nobody, is not older.
            Ok(Answer::Refused(reply)) if is_final(reply.status) => Err(Unanswered::Refused(reply)),
            Ok(Answer::Refused(reply)) => {
                let message = format!("`{method}` is answered with status {}", reply.status);
                let text = std::str::from_utf8(&reply.body).unwrap_or_default();
                Ok(Err(message::error_in(text).unwrap_or(RpcError { code: 0, message })))
            }
            Err(Unanswered::Failed(error @ UpstreamError::NotMcp { .. })) if is_per_request => {
                Ok(Err(RpcError { code: 0, message: error.to_string() }))
            }
            Err(unanswered) => Err(unanswered),
        }
    }

    /// Sends one message.
    async fn post(
        &self,
        session: Option<&Session>,
        more: &HeaderMap,
        body: Bytes,
        method: &str,
        name: Option<&str>,
    ) -> Result<Opened, UpstreamError> {
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
    pub(super) async fn open_stream(&self, session: &Session) -> Result<Option<Incoming>, UpstreamError> {
        let response = if session.agreed.is_per_request() {
            let (id, headers) = (self.ids.fetch_add(1, Ordering::Relaxed), HeaderMap::new());
            let params = [("notifications".to_owned(), json!({ "toolsListChanged": true }))];
            let method = "subscriptions/listen";
            let outgoing = Outgoing {
                method,
                params: params.into_iter().collect(),
                name: None,
                headers: &headers,
                limit_bytes: INTRODUCTION_LIMIT_BYTES,
                meanwhile: None,
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

    async fn send(
        &self,
        session: Option<&Session>,
        method: Method,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Opened, UpstreamError> {
        if let Some(session) = session {
            headers.extend(session_headers(&session.agreed, session.id.as_ref()));
        }
        self.http.open(bare(method, headers, body), soon()).await
    }

    /// Lets go of a session, unless another was begun already.
    async fn forget(&self, session: &Arc<Session>) {
        let mut open = self.session.lock().await;
        if open.as_ref().is_some_and(|now| Arc::ptr_eq(now, session)) {
            *open = None;
        }
    }

    /// Ends the session: a server keeps what belongs to it until then.
    pub(super) async fn close(&self) {
        let Some(session) = self.session.lock().await.take() else { return };
        if session.id.is_some() {
            let sent = self.send(Some(&session), Method::DELETE, HeaderMap::new(), Bytes::new());
            if !matches!(timeout(GOODBYE_TIMEOUT, sent).await, Ok(Ok(_))) {
                debug!(upstream = %self.name(), "the server was not told that the session is over");
            }
        }
    }
}

/// A request whose answer is waited for. Where that ends early, the server is told; of revision 2026-07-28 the end of
/// the stream says it.
struct Waiting<'a> {
    link: &'a Weak<HttpLink>,
    session: &'a Arc<Session>,
    id: u64,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over
            && !self.session.agreed.is_per_request()
            && tokio::runtime::Handle::try_current().is_ok()
            && let Some(link) = self.link.upgrade()
        {
            link.tell(self.session, message::cancelled(self.id));
        }
    }
}

/// What every message of a session says of it.
fn session_headers(agreed: &Agreed, id: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(agreed.revision));
    headers.extend(id.cloned().map(|id| (SESSION_ID, id)));
    headers
}

/// When a request has found its place at the latest; whoever waits for its answer has a limit of their own.
fn soon() -> tokio::time::Instant {
    tokio::time::Instant::now() + McpUpstream::START_TIMEOUT
}

fn bare(method: Method, headers: HeaderMap, body: Bytes) -> HttpRequest {
    let (under, path_and_query) = (Under::Itself, PathAndQuery::from_static("/"));
    HttpRequest { method, under, path_and_query, headers, body }
}

fn is_of_events(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

/// What no other words change.
fn is_final(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::PROXY_AUTHENTICATION_REQUIRED
                | StatusCode::TOO_MANY_REQUESTS
        )
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
