//! Dispatch of JSON-RPC messages to MCP methods, independent of the transport.

use std::{
    future::{Future, ready},
    pin::{Pin, pin},
    sync::Arc,
};

use futures_util::future::join_all;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{json, value::RawValue};
use tracing::debug;

use super::cancellation::InFlightRequests;
use super::message_parser::{self, ClientMessage, RejectedMessage};
use super::prompts_and_resources::{complete, get_prompt, read_resource, subscribe, unsubscribe, uri_of};
use super::response::{ClientResult, OpenRequests};
use super::resumable_streams::ResumableStreams;
use super::rpc_error::ErrorCounts;
use super::session_subscriptions::SessionSubscriptions;
use super::sessions::{Sessions, UnknownSessions};
use super::subscriptions::OpenStreams;
use super::task_elicitation::ElicitingTasks;
use super::tools::call_tool;
use super::{
    ErrorKind, McpApiSettings, MessageContext, MessageSender, Replicas, Revision, RpcContext, RpcError,
    RpcId, RpcRequest, RpcResponse, RpcResult, ServerInfo, server_info, subscriptions, tasks, truncated,
};
use crate::crypto::TokenCipher;
use crate::inbound::{Filter, cut_off_by_shutdown};
use crate::pipeline::{Gateway, Snapshot};
use crate::telemetry::Untrusted;

/// Dispatcher of the messages of all transports, with the state of the MCP endpoint.
#[derive(Debug)]
pub(super) struct MessageDispatcher {
    pub(super) gateway: Gateway,
    /// Filter of requests over HTTP. Its authenticator also authorizes open streams again.
    pub(super) filter: Filter,
    pub(super) server_info: ServerInfo,
    pub(super) cipher: TokenCipher,
    pub(super) open_requests: OpenRequests,
    pub(super) eliciting_tasks: Arc<ElicitingTasks>,
    pub(super) sessions: Sessions,
    pub(super) streams: OpenStreams,
    pub(super) resumables: Arc<ResumableStreams>,
    pub(super) in_flight: InFlightRequests,
    pub(super) subscribed: Arc<SessionSubscriptions>,
    pub(super) errors: ErrorCounts,
}

impl MessageDispatcher {
    pub(super) fn new(gateway: Gateway, settings: McpApiSettings, filter: Filter) -> Self {
        let cipher = settings.secret_key.as_ref().map_or_else(TokenCipher::random, TokenCipher::new);
        let unknown_sessions =
            if settings.secret_key.is_some() { UnknownSessions::Reject } else { UnknownSessions::Accept };
        let replicas =
            Replicas { cipher: cipher.clone(), own_url: settings.advertise_url, tls: settings.peer_tls };
        let replicas = Arc::new(replicas);
        Self {
            gateway,
            filter,
            resumables: Arc::new(ResumableStreams::new(settings.resume, Arc::clone(&replicas))),
            server_info: ServerInfo::new(settings.server),
            sessions: Sessions::new(cipher.clone(), unknown_sessions),
            cipher,
            open_requests: OpenRequests::new(replicas),
            eliciting_tasks: Arc::default(),
            in_flight: InFlightRequests::default(),
            streams: OpenStreams::new(settings.max_streams, settings.max_streams_per_client),
            subscribed: Arc::default(),
            errors: ErrorCounts::default(),
        }
    }

    /// Snapshot that determines the capabilities to declare. The capabilities for prompts and resources
    /// depend on the lists of MCP servers, so the function waits for these lists.
    pub(super) async fn snapshot_for_capabilities(&self) -> Arc<Snapshot> {
        let is_complete =
            |snapshot: &Snapshot| snapshot.awaited.prompts.is_empty() && !snapshot.awaited.resources;
        self.gateway.complete_snapshot(is_complete).await
    }
}

type Handler = for<'a> fn(&'a RpcContext<'a>) -> Pin<Box<dyn Future<Output = RpcResult> + Send + 'a>>;

/// Function that checks whether a revision has a method.
type RevisionCheck = fn(Revision) -> bool;

/// Function that checks whether the server has the capability that a method needs. Without the capability,
/// the method is unknown. `None` for methods that need no capability.
type CapabilityCheck = Option<fn(&Snapshot) -> bool>;

/// A row in the table of methods: the name of the method, as in messages, the two checks, and the handler.
pub(super) struct MethodRow(pub(super) &'static str, RevisionCheck, CapabilityCheck, Handler);

const ALL: RevisionCheck = |_| true;
const HANDSHAKE: RevisionCheck = Revision::has_handshake;
const NO_HANDSHAKE: RevisionCheck = |revision| !revision.has_handshake();
const COMPLETIONS: CapabilityCheck = Some(Snapshot::completes);
const PROMPTS: CapabilityCheck = Some(Snapshot::has_prompts);
const RESOURCES: CapabilityCheck = Some(Snapshot::has_resources);
const WATCHES: CapabilityCheck = Some(Snapshot::watches_resources);
const TASKS: CapabilityCheck = Some(tasks::has_task_tools);

const METHODS: [MethodRow; 18] = [
    MethodRow("initialize", HANDSHAKE, None, |rpc| Box::pin(server_info::initialize(rpc))),
    MethodRow("ping", HANDSHAKE, None, |rpc| Box::pin(ready(Ok(rpc.result(&json!({})))))),
    MethodRow("logging/setLevel", HANDSHAKE, None, |rpc| Box::pin(ready(set_level(rpc)))),
    MethodRow("server/discover", NO_HANDSHAKE, None, |rpc| Box::pin(server_info::discover(rpc))),
    MethodRow("tools/list", ALL, None, |rpc| Box::pin(server_info::list_page(rpc))),
    MethodRow("tools/call", ALL, None, |rpc| Box::pin(call_tool(rpc))),
    MethodRow("prompts/list", ALL, PROMPTS, |rpc| Box::pin(server_info::list_page(rpc))),
    MethodRow("prompts/get", ALL, PROMPTS, |rpc| Box::pin(get_prompt(rpc))),
    MethodRow("completion/complete", ALL, COMPLETIONS, |rpc| Box::pin(complete(rpc))),
    MethodRow("subscriptions/listen", NO_HANDSHAKE, None, |rpc| Box::pin(subscriptions::listen(rpc))),
    MethodRow("tasks/get", NO_HANDSHAKE, TASKS, |rpc| Box::pin(tasks::get(rpc))),
    MethodRow("tasks/update", NO_HANDSHAKE, TASKS, |rpc| Box::pin(tasks::update(rpc))),
    MethodRow("tasks/cancel", NO_HANDSHAKE, TASKS, |rpc| Box::pin(tasks::cancel(rpc))),
    MethodRow("resources/list", ALL, RESOURCES, |rpc| Box::pin(server_info::list_page(rpc))),
    MethodRow("resources/templates/list", ALL, RESOURCES, |rpc| Box::pin(server_info::list_page(rpc))),
    MethodRow("resources/read", ALL, RESOURCES, |rpc| Box::pin(read_resource(rpc))),
    MethodRow("resources/subscribe", HANDSHAKE, WATCHES, |rpc| Box::pin(subscribe(rpc))),
    MethodRow("resources/unsubscribe", HANDSHAKE, WATCHES, |rpc| Box::pin(unsubscribe(rpc))),
];

impl MethodRow {
    /// Finds a method by its name, in any revision.
    pub(super) fn by_name(name: &str) -> Option<&'static Self> {
        METHODS.iter().find(|Self(known, ..)| *known == name)
    }

    /// Whether the revision has the method, and the server has the capability for it.
    async fn is_available(&self, revision: Revision, dispatcher: &MessageDispatcher) -> bool {
        let Self(_, has_method, needed, _) = self;
        has_method(revision)
            && match needed {
                Some(has_capability) => has_capability(&*dispatcher.snapshot_for_capabilities().await),
                None => true,
            }
    }
}

impl MessageContext {
    /// Builds the response with a JSON-RPC error, and logs and counts the error. `method` is `None` if it
    /// could not be read.
    pub(super) fn error_response(
        &self,
        id: Option<RpcId<'_>>,
        method: Option<&str>,
        revision: Revision,
        error: &RpcError,
    ) -> RpcResponse {
        self.dispatcher.errors.count(method, error, revision);
        self.logged().log_rejection(&error.rejection(revision));
        RpcResponse::error(id, revision, error)
    }

    /// Handles a body: a single message, or a batch if the revision has batches. `None` if no response is
    /// sent: the message is a notification or itself a response, or the request was cancelled.
    ///
    /// Messages that precede the result of a request go to `sender`. Dropping the future cancels the request.
    pub(super) async fn handle(&self, body: &[u8], sender: &MessageSender) -> Option<RpcResponse> {
        match self.revision() {
            Ok(revision) if revision.supports_batches() => match message_parser::batch(body) {
                Some(Ok(members)) => Box::pin(self.batch(&members, sender)).await,
                Some(Err(error)) => Some(self.error_response(None, None, revision, &error)),
                None => self.message(body, sender).await,
            },
            Ok(_) | Err(_) => self.message(body, sender).await,
        }
    }

    /// Handles all messages of a batch concurrently, and collects the responses.
    async fn batch(&self, members: &[&RawValue], sender: &MessageSender) -> Option<RpcResponse> {
        let responses = join_all(members.iter().map(|member| async {
            let body = member.get().as_bytes();
            match message_parser::message(body) {
                // `initialize` must not be part of a batch (2025-03-26, Lifecycle, "Initialization").
                Ok(ClientMessage::Request(RpcRequest { id, method, .. })) if method == "initialize" => {
                    let error = ErrorKind::NOT_A_MESSAGE.error("`initialize` can't be part of a batch");
                    Some(self.error_response(Some(id), Some(&method), Revision::R2025_03_26, &error))
                }
                _ => self.message(body, sender).await,
            }
        }));
        let responses: Vec<RpcResponse> = responses.await.into_iter().flatten().collect();
        (!responses.is_empty()).then(|| RpcResponse::batch(responses))
    }

    /// Handles one message. A later message of the same session can cancel a request.
    async fn message(&self, body: &[u8], sender: &MessageSender) -> Option<RpcResponse> {
        let request = match message_parser::message(body) {
            Ok(ClientMessage::Request(request)) => request,
            // Boxed, so that the future of a call needs no memory for other messages.
            other => return Box::pin(self.other_message(body, other)).await,
        };
        let in_flight = &self.dispatcher.in_flight;
        let session = self.session_for_cancellation();
        let registration = session.and_then(|session| in_flight.add(session, request.id.as_json()));
        let Some((cancelled, _in_flight)) = registration else {
            return Some(self.request(&request, sender).await);
        };
        tokio::select! {
            biased;
            response = self.request(&request, sender) => Some(response),
            () = cancelled.notified() => None,
        }
    }

    /// Handles a notification, a response, or an invalid message.
    async fn other_message(
        &self,
        body: &[u8],
        message: Result<ClientMessage<'_>, RejectedMessage<'_>>,
    ) -> Option<RpcResponse> {
        let declared = self.revision();
        // Revision for errors that occur before the revision of the request is known.
        let assumed = declared.as_ref().copied().unwrap_or(Revision::R2026_07_28);
        let reject = |error: &RpcError| Some(self.error_response(None, None, assumed, error));
        match (message, declared.and_then(|revision| self.check_session(revision))) {
            (Err(RejectedMessage { id, method, error }), _) => {
                Some(self.error_response(id, method.as_deref(), assumed, &error))
            }
            (Ok(_), Err(error)) => reject(&error),
            (Ok(ClientMessage::Request(request)), Ok(())) => {
                unreachable!("handled elsewhere: {}", request.method)
            }
            (Ok(ClientMessage::Notification(notification)), Ok(())) => {
                if let (Some(session), Some((id, reason))) =
                    (self.session_for_cancellation(), notification.cancelled())
                {
                    if self.dispatcher.in_flight.cancel(session, id.as_json())
                        && let Some(reason) = reason
                    {
                        debug!(reason = %Untrusted(&reason), "request cancelled by its client");
                    }
                    return None;
                }
                // The header may be missing. If it is present, a gateway may use it, so it must name the same
                // method as the body.
                let is_repeated = !assumed.has_handshake() && self.headers().contains_key("mcp-method");
                let method = notification.method.as_deref().filter(|_| is_repeated)?;
                self.check_method(method).err().and_then(|error| reject(&error))
            }
            (Ok(ClientMessage::Response { id, result }), Ok(())) => {
                let open_requests = &self.dispatcher.open_requests;
                // Ids of requests that glossator sends are non-empty strings.
                let id: String = serde_json::from_str(id.as_json()).unwrap_or_default();
                let is_accepted = open_requests.complete(&id, self.owner(), client_result(result))
                    || open_requests.replicas.forward_response(&id, self, body).await;
                // Over stdio, an unknown response can only be a late one, and gets no error.
                if is_accepted || self.is_stdio() {
                    return None;
                }
                reject(&ErrorKind::NOT_A_MESSAGE.error(
                    "no request with this id is open here; with several replicas, each needs \
                     `server.advertise_url`",
                ))
            }
        }
    }

    /// Checks the session of the message. A message since 2026-07-28 has no session, even if its headers name
    /// one.
    fn check_session(&self, revision: Revision) -> Result<(), RpcError> {
        if !revision.has_handshake() {
            return Ok(());
        }
        match self.session_to_check()? {
            Some(session) => self.dispatcher.sessions.check(session, self.owner()),
            None => Ok(()),
        }
    }

    async fn request(&self, request: &RpcRequest<'_>, sender: &MessageSender) -> RpcResponse {
        let reject = |revision, error: &RpcError| {
            self.error_response(Some(request.id), Some(&request.method), revision, error)
        };
        let revision = match self.revision_of(request) {
            Ok(revision) => revision,
            // An error about the revision has the same status in every revision.
            Err(error) => return reject(Revision::R2026_07_28, &error),
        };
        let rpc = RpcContext { dispatcher: &self.dispatcher, revision, request, message: self, sender };
        let result = self.context.info.connection.shutdown.unless_overdue(pin!(rpc.respond())).await;
        let cut_off = || Err(ErrorKind::SHUTTING_DOWN.error(cut_off_by_shutdown(rpc.may_have_effect())));
        let result = result.unwrap_or_else(cut_off);
        result.unwrap_or_else(|error| reject(revision, &error))
    }
}

impl RpcContext<'_> {
    async fn respond(&self) -> RpcResult {
        let Self { request, revision, message, .. } = *self;
        let has_no_handshake = !revision.has_handshake();
        if has_no_handshake {
            request.meta.check_capabilities()?;
            message.check_method(&request.method)?;
        }
        let MethodRow(name, _, _, handler) = match MethodRow::by_name(&request.method) {
            Some(row) if row.is_available(revision, self.dispatcher).await => row,
            Some(_) | None => {
                let method = truncated(&request.method);
                let revision = revision.as_str();
                let reason = format!("this server does not support method `{method}` in revision {revision}");
                return Err(ErrorKind::UNKNOWN_METHOD.error(reason));
            }
        };
        if has_no_handshake {
            // The log level is checked for all methods, not only for methods that send log messages
            // (2026-07-28, Logging, "Error Handling").
            request.meta.log_level()?;
        }
        // A client whose session has ended may still send its id when it begins a new session.
        if *name != "initialize" {
            message.check_session(revision)?;
        }
        handler(self).await
    }

    /// Whether the request may have had an effect by the time it is cut off.
    fn may_have_effect(&self) -> bool {
        let snapshot = self.dispatcher.gateway.snapshot();
        match &*self.request.method {
            // A tool that is unknown now may have been known when the call began.
            "tools/call" => {
                let tool = self.request.name().ok().and_then(|name| snapshot.table.by_tool(&name));
                tool.is_none_or(|route| route.may_have_effect())
            }
            // Resources without a route are proxied, and only read.
            "resources/read" => {
                let found = uri_of(self).ok().and_then(|uri| snapshot.table.by_uri(&uri));
                found.is_some_and(|(route, _)| route.may_have_effect())
            }
            // Prompts and tasks may call any route.
            method => method == "prompts/get" || method.starts_with("tasks/"),
        }
    }
}

/// Converts the response of a client to a request that glossator sent.
fn client_result(result: Result<&RawValue, &RawValue>) -> ClientResult {
    result.map(ToOwned::to_owned).map_err(|error| {
        let unreadable = || ErrorData::new(ErrorCode::INTERNAL_ERROR, "an error that can't be read", None);
        serde_json::from_str(error.get()).unwrap_or_else(|_| unreadable())
    })
}

/// `logging/setLevel`.
fn set_level(rpc: &RpcContext<'_>) -> RpcResult {
    let level = rpc.request.params.level.level("params.level")?;
    if let Some(session) = &rpc.message.session
        && session.is_storable()
    {
        rpc.dispatcher.set_level(&session.id, level);
    }
    Ok(rpc.result(&json!({})))
}
