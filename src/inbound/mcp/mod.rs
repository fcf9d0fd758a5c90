//! The Model Context Protocol over Streamable HTTP and stdio: all revisions on one endpoint.
//!
//! Transport and messages:
//!
//! - [`McpEndpoint`]: the HTTP endpoint; `stdio`: the same over stdin and stdout.
//! - `message_parser`: JSON-RPC messages and parameters; `rpc_context`: transport, headers, client and
//!   revision of a message.
//! - `revision`: protocol revisions and the differences between them; `rpc_error`: the table of errors.
//! - `protocol`: dispatch of a message to its method.
//! - `response`: results, errors and event streams, and the messages that precede a result.
//! - `resumable_streams`: streams that a client can resume.
//!
//! Methods:
//!
//! - `server_info` (initialize, discover, lists), `tools`, `prompts_and_resources`, `tasks`.
//! - `elicitation`: input requests of a route, in the form of each revision; `task_elicitation`: input
//!   requests of a task.
//!
//! State and notifications:
//!
//! - `sessions`; `cancellation` of their requests; `subscriptions` of open streams; `session_subscriptions`:
//!   the resources that sessions subscribe to.
//! - `replicas`: forwarding of messages that another replica must handle.
//!
//! Messages are not parsed into trees: an id is returned byte for byte, and JSON of an upstream is copied
//! into the response. The SDK (`rmcp`) provides types for small messages. Its server needs owned values, so
//! the SDK is used only as the reference client in `tests/it/mcp/sdk.rs`.

mod cancellation;
mod elicitation;
mod message_parser;
mod prompts_and_resources;
mod protocol;
mod replicas;
mod response;
mod resumable_streams;
mod revision;
mod rpc_context;
mod rpc_error;
mod server_info;
mod session_subscriptions;
mod sessions;
mod stdio;
mod subscriptions;
mod task_elicitation;
mod tasks;
mod tools;

use std::{
    future::ready,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{body::Body, response::IntoResponse};
use http::{Method, Request, Response, StatusCode, request::Parts};
use settings_derive::Section;
use tokio::time::sleep;

// Some of these names are for the submodules only.
use self::message_parser::{RpcId, RpcRequest};
use self::protocol::MessageDispatcher;
use self::replicas::Replicas;
use self::response::{
    ClientRequestError, MessageReceiver, MessageSender, PendingResponse, ResponseForm, RpcResponse, RpcResult,
};
use self::resumable_streams::LAST_EVENT_ID;
use self::revision::Revision;
use self::rpc_context::{MessageContext, PROTOCOL_VERSION, RpcContext, SESSION_ID};
use self::rpc_error::{ErrorKind, RpcError, truncated};
use self::server_info::ServerInfo;
use self::sessions::NamedSession;
use super::{
    AuthenticatedClient, Filter, LoggedRequest, Rejection, RequestContext, RequestInfo, SHUTTING_DOWN,
    Shutdown,
};
use crate::crypto::SecretKey;
use crate::pipeline::{ApiKind, Gateway};
use crate::settings::{Checked, Cursor, Setting};
use crate::telemetry::Meters;
use crate::tls::ClientTls;

pub use replicas::ReplicaUrl;
pub use resumable_streams::ResumeSettings;

/// `Allow` header of the endpoint.
const METHODS: &str = "GET, POST, DELETE, OPTIONS";

/// `Allow` header where `GET` opens no stream.
const METHODS_WITHOUT_STREAM: &str = "POST, DELETE, OPTIONS";

/// `Allow` header since 2026-07-28, which has neither sessions nor streams opened by `GET` (Streamable HTTP,
/// "Earlier Streamable HTTP Revisions").
const METHODS_WITHOUT_SESSIONS: &str = "POST, OPTIONS";

/// Time after which the response to a pending request becomes a stream with keep-alive comments, because
/// proxies close idle connections.
const STREAM_AFTER: Duration = Duration::from_secs(2);

/// The MCP endpoint. Cheap to clone.
#[derive(Debug, Clone)]
pub struct McpEndpoint(Arc<MessageDispatcher>);

impl McpEndpoint {
    /// Creates an endpoint for the tools of `gateway`.
    pub fn new(gateway: Gateway, settings: McpApiSettings, filter: Filter) -> Self {
        Self(Arc::new(MessageDispatcher::new(gateway, settings, filter)))
    }

    /// Registers the metrics of the endpoint.
    pub fn register(&self, meters: &Meters) {
        let errors = self.0.errors.clone();
        meters.register(move |reading| errors.report(reading));
    }

    /// Responds to one HTTP request, on any path.
    ///
    /// Dropping the future, or the body of the response, cancels the call and its upstream request. In legacy
    /// revisions, the loss of a stream "SHOULD NOT be interpreted as the client cancelling its request"
    /// (Transports, "Sending Messages to the Server"), so a call whose stream can be resumed continues for a
    /// while. Any other call is cancelled, because its client could not fetch the result: it has no event to
    /// resume from, or no session.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let mut info = RequestInfo::take(&mut head, ApiKind::Mcp);
        let page = match self.0.filter.admit(&mut head, &mut info) {
            Ok(page) => page,
            Err(rejection) => return response::rejected(info.logged(&head), &rejection),
        };
        // Preflight requests have no credentials.
        if head.method == Method::OPTIONS {
            let response = page.options(&head.headers, METHODS);
            return page.allow_read(response);
        }
        let (identity, body) = match self.identify(&mut head, &info, body).await {
            Ok(identified) => identified,
            Err(rejection) => {
                return page.allow_read(response::rejected(info.logged(&head), &rejection));
            }
        };
        let (method, context) = (head.method.clone(), RequestContext { info, identity });
        let message = MessageContext::http(Arc::clone(&self.0), context, head);
        page.allow_read(match method {
            Method::POST => self.post(message, body).await,
            _ => Box::pin(self.respond_without_message(&method, &message)).await.unwrap_or_else(|error| {
                response::rejected(message.logged(), &error.rejection(Revision::R2025_11_25))
            }),
        })
    }

    /// Identifies the client of a request by its own credential, or by the identity token of another
    /// replica. An identity token is valid for a single body, so the body is read here.
    async fn identify(
        &self,
        head: &mut Parts,
        info: &RequestInfo,
        body: Body,
    ) -> Result<(AuthenticatedClient, Body), Rejection> {
        let replicas = &self.0.open_requests.replicas;
        let (forwarded, body) = match replicas.forwarded_identity(head, SystemTime::now()) {
            Some(identity_for) => {
                let bytes = Box::pin(self.0.filter.read(&head.headers, "", body)).await?;
                (identity_for(head, &bytes), Body::from(bytes))
            }
            None => (None, body),
        };
        Ok((self.0.filter.authenticator.identify(head, info, forwarded).await?, body))
    }

    /// Responds to a request without a message: `GET` or `DELETE` for a legacy session.
    async fn respond_without_message(
        &self,
        method: &Method,
        message: &MessageContext,
    ) -> RpcResult<Response<Body>> {
        if !matches!(*method, Method::GET | Method::DELETE) {
            return Ok(response::wrong_method(METHODS));
        }
        // A request that names two sessions is invalid in every revision.
        let (revision, session) = (message.revision()?, message.session_to_check()?);
        if !revision.has_handshake() {
            return Ok(response::wrong_method(METHODS_WITHOUT_SESSIONS));
        }
        match (method == Method::GET, session) {
            (true, Some(session)) => self.get(message, session).await,
            // Without a session, no notifications are sent. The client may be a browser.
            (true, None) => Ok(response::wrong_method(METHODS_WITHOUT_STREAM)),
            (false, Some(session)) => self.delete(message, session),
            (false, None) => {
                let reason = "header `Mcp-Session-Id` is missing: it names the session to end";
                Err(ErrorKind::NOT_A_MESSAGE.error(reason))
            }
        }
    }

    /// `GET`: opens the notification stream of a legacy session.
    async fn get(&self, message: &MessageContext, session: &NamedSession) -> RpcResult<Response<Body>> {
        let headers = message.headers();
        let shutdown = message.context.info.connection.shutdown.clone();
        match shutdown.stage() {
            Shutdown::Serving | Shutdown::Delay => {}
            Shutdown::OneRequest => return Ok(response::wrong_method(METHODS_WITHOUT_STREAM)),
            // Not 405: the client would assume that the server has no streams, and never try again.
            Shutdown::Draining | Shutdown::Overdue | Shutdown::Closed => {
                return Ok(response::rejected(message.logged(), &Rejection::for_shutdown(SHUTTING_DOWN)));
            }
        }
        // Not 405 either: the stream exists, but not in a form that the client accepts.
        if let Err(rejection) = response::check_stream_accepted(headers) {
            return Ok(response::rejected(message.logged(), &rejection));
        }
        let dispatcher = &self.0;
        dispatcher.sessions.check(session, message.owner())?;
        if let Some(id) = rpc_context::single_value(headers, &LAST_EVENT_ID)? {
            // The stream is stored at this replica, or at another replica.
            let mut stream = dispatcher.resumables.resume(&session.id, id);
            if let (None, Some((name, _))) = (&stream, id.rsplit_once('.')) {
                stream = dispatcher.open_requests.replicas.resume(name, message).await;
            }
            return stream.ok_or_else(|| ErrorKind::NOT_A_MESSAGE.error(resumable_streams::EVENTS_EXPIRED));
        }
        let client = message.client();
        let (receiver, notifying) = subscriptions::open_session_stream(dispatcher, session, client)?;
        dispatcher.read_subscriptions(&session.id).await;
        let revoked = self.0.filter.authenticator.revoked(&message.context);
        let notifying = async move {
            tokio::select! {
                () = notifying => {}
                () = revoked => {}
                () = shutdown.draining() => {}
            }
            None
        };
        Ok(response::event_stream(None, receiver, Box::pin(notifying)))
    }

    /// `DELETE`: ends a legacy session.
    fn delete(&self, message: &MessageContext, session: &NamedSession) -> RpcResult<Response<Body>> {
        self.0.sessions.check(session, message.owner())?;
        self.0.sessions.end(session);
        self.0.remove_session(&session.id);
        self.0.publish_ended(&session.id);
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    async fn post(&self, message: MessageContext, body: Body) -> Response<Body> {
        let headers = message.headers();
        let received = async {
            let form = response::form(headers)?;
            Ok((form, self.0.filter.read(headers, "", body).await?))
        };
        let (form, body) = match received.await {
            Ok(received) => received,
            Err(rejection) => return response::rejected(message.logged(), &rejection),
        };
        let session = message.session_for_cancellation();
        let session = session.and_then(|session| Some((session.to_owned(), message.revision().ok()?)));
        let (sender, mut receiver) = MessageSender::new();
        let sender = if form == ResponseForm::Json { MessageSender(None) } else { sender };
        let mut pending: PendingResponse = Box::pin(async move { message.handle(&body, &sender).await });
        if form == ResponseForm::Json {
            return into_http_response(pending.await, form);
        }
        tokio::select! {
            biased;
            response = &mut pending => match receiver.try_recv() {
                // A message that is queued just before the result is sent first.
                Ok(first) => response::event_stream(Some(first), receiver, Box::pin(ready(response))),
                Err(_) => into_http_response(response, form),
            },
            first = async {
                tokio::select! {
                    first = receiver.recv() => first,
                    () = sleep(STREAM_AFTER) => None,
                }
            } => match session {
                Some((session, revision)) => {
                    self.0.resumables.respond(&session, revision, first, receiver, pending)
                }
                None => response::event_stream(first, receiver, pending),
            },
        }
    }
}

fn into_http_response(response: Option<RpcResponse>, form: ResponseForm) -> Response<Body> {
    let accepted = || StatusCode::ACCEPTED.into_response();
    response.map_or_else(accepted, |response| response.into_response(form))
}

/// Settings of the MCP API.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "server", process, default)]
pub struct McpApiSettings {
    /// Description of the server for MCP clients, and its lists.
    #[key(name = "mcp", default = McpServerSettings::default(), restart)]
    pub server: McpServerSettings,
    /// Secret key that encrypts session ids, at least 16 bytes; the same on every replica.
    #[key(shown = "a random one", secret, restart)]
    pub secret_key: Option<SecretKey>,
    /// URL at which other replicas reach this one, such as `http://10.0.0.7:8080`, to forward input responses
    /// and resumed streams. With `https://`, the certificate must be issued by a CA of the system. Needs
    /// `secret_key`.
    #[key(
        requires = "secret_key",
        help = "write `secret_key`, the same on every replica; create one with `openssl rand -base64 32`",
        restart
    )]
    pub advertise_url: Option<ReplicaUrl>,
    /// TLS settings for reaching other replicas.
    #[key(skip)]
    pub peer_tls: Option<ClientTls>,
    /// Maximum number of open notification streams.
    // Half of the connections remain for calls.
    #[key(range = 0..=1_000_000, default = 2048, restart)]
    pub max_streams: usize,
    /// Maximum number of open notification streams per client, so that one client cannot use the whole
    /// `max_streams`; further ones are rejected.
    #[key(range = 1..=1_000_000, shown = "no limit per client", restart)]
    pub max_streams_per_client: Option<usize>,
    /// Settings of resumable streams.
    #[key(part)]
    pub resume: ResumeSettings,
}

/// Description of the server for MCP clients, and its lists.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(name = "`mcp` of `server`", id = "server_mcp", process, variables, default)]
pub struct McpServerSettings {
    /// Name of the server for MCP clients.
    #[key(with = read_name, default = "glossator".to_owned(), restart)]
    pub name: String,
    /// Display name of the server for MCP clients.
    #[key(restart)]
    pub title: Option<String>,
    /// Instructions for MCP clients on using the tools together.
    #[key(restart)]
    pub instructions: Option<String>,
    /// Number of tools on one page of a list.
    // Some clients never fetch a second page.
    #[key(range = 1..=10_000, default = 200, restart)]
    pub page_size: usize,
    /// Time for which clients may cache a list of tools.
    #[key(range = 0..=24 * 3_600_000, default = Duration::from_secs(60), restart)]
    pub list_ttl: Duration,
}

fn read_name(value: &Cursor<'_>) -> Checked<String> {
    let name = String::read(value)?;
    if name.trim().is_empty() {
        return value.reject_empty("write a name for this server, or remove it");
    }
    Ok(name)
}
