//! Dispatch of JSON-RPC messages to MCP methods, independent of the transport.

use std::{pin::pin, sync::Arc, time::SystemTime};

use axum::body::Body;
use futures_util::future::join_all;
use http::Response;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{json, value::RawValue};
use tracing::debug;

use super::{
    McpApiSettings,
    client_channel::{OpenRequests, Outbox},
    context::{MessageContext, RpcContext},
    lists,
    message::{self, ClientMessage, RejectedMessage, RpcId, RpcRequest},
    prompts,
    replicas::Replicas,
    resources,
    response::RpcResponse,
    resumable::ResumableStreams,
    revision::{Lifecycle, Method, MethodRow, RequiredCapability, Revision},
    rpc_error::{ErrorCounts, RpcError},
    server_info::{self, ServerInfo},
    session_subscriptions::SessionSubscriptions,
    sessions::{InFlightRequests, LogLevels, Session, Sessions, UnknownSessions},
    subscriptions::{self, OpenStreams},
    task_elicitation::ElicitingTasks,
    tasks, tools,
};
use crate::{
    crypto::TokenCipher,
    inbound::{authenticate::Authenticator, context::UnauthenticatedRequest},
    pipeline::{Gateway, Snapshot},
    telemetry::Untrusted,
};

/// Dispatches the messages of all transports, and has the state of the endpoint.
#[derive(Debug)]
pub(super) struct MessageDispatcher {
    pub(super) gateway: Gateway,
    /// Authorizes open streams again.
    pub(super) authenticator: Authenticator,
    pub(super) server_info: ServerInfo,
    pub(super) cipher: TokenCipher,
    pub(super) open_requests: Arc<OpenRequests>,
    pub(super) eliciting_tasks: Arc<ElicitingTasks>,
    pub(super) levels: LogLevels,
    pub(super) sessions: Sessions,
    pub(super) streams: Arc<OpenStreams>,
    pub(super) resumables: Arc<ResumableStreams>,
    pub(super) in_flight: InFlightRequests,
    pub(super) subscribed: Arc<SessionSubscriptions>,
    pub(super) errors: ErrorCounts,
}

impl MessageDispatcher {
    pub(super) fn new(gateway: Gateway, settings: McpApiSettings, authenticator: Authenticator) -> Self {
        let cipher = settings.secret_key.as_ref().map_or_else(TokenCipher::random, TokenCipher::new);
        let unknown_sessions =
            if settings.secret_key.is_some() { UnknownSessions::Reject } else { UnknownSessions::Accept };
        let sessions = Sessions::new(cipher.clone(), unknown_sessions);
        let streams = OpenStreams::new(settings.max_streams, settings.max_streams_per_client);
        let open_requests = Arc::new(OpenRequests::new(Replicas::new(
            cipher.clone(),
            settings.advertise_url.clone(),
            settings.peer_tls.clone(),
        )));
        Self {
            gateway,
            authenticator,
            resumables: Arc::new(ResumableStreams::new(settings.resume, Arc::clone(&open_requests))),
            server_info: ServerInfo::new(settings.server),
            cipher,
            open_requests,
            eliciting_tasks: Arc::default(),
            levels: LogLevels::default(),
            in_flight: InFlightRequests::default(),
            sessions,
            streams,
            subscribed: Arc::default(),
            errors: ErrorCounts::default(),
        }
    }

    /// Completes when the sender of a message may no longer have an open stream; never over stdio.
    pub(super) async fn revoked(&self, message_context: MessageContext<'_>) {
        match message_context.is_stdio() {
            true => std::future::pending().await,
            false => self.authenticator.revoked(message_context.context).await,
        }
    }

    /// Responds to a message with a JSON-RPC error, and counts it. `method` is `None` if it could not be
    /// read.
    pub(super) fn error_response(
        &self,
        message_context: MessageContext<'_>,
        id: Option<RpcId<'_>>,
        method: Option<&str>,
        revision: Revision,
        error: &RpcError,
    ) -> RpcResponse {
        self.errors.count(method, error, revision);
        RpcResponse::error(message_context.logged(), id, revision, error)
    }

    /// Handles a body: one message, or a batch if the revision has them. `None` if there is no response, as
    /// to a notification or to a response.
    ///
    /// Messages before the result of a request go to `outbox`. Dropping the future cancels the request.
    pub(super) async fn handle(
        &self,
        message_context: MessageContext<'_>,
        body: &[u8],
        outbox: &Outbox,
    ) -> Option<RpcResponse> {
        match message_context.revision() {
            Ok(revision) if revision.supports_batches() => match message::batch(body) {
                Some(Ok(members)) => Box::pin(self.batch(message_context, &members, outbox)).await,
                Some(Err(error)) => Some(self.error_response(message_context, None, None, revision, &error)),
                None => self.message(message_context, body, outbox).await,
            },
            Ok(_) | Err(_) => self.message(message_context, body, outbox).await,
        }
    }

    /// Handles all messages of a batch at once, and collects the responses.
    async fn batch(
        &self,
        message_context: MessageContext<'_>,
        members: &[&RawValue],
        outbox: &Outbox,
    ) -> Option<RpcResponse> {
        let responses = join_all(members.iter().map(|member| async {
            let body = member.get().as_bytes();
            match message::message(body) {
                // It must be alone (2025-03-26, Lifecycle, "Initialization").
                Ok(ClientMessage::Request(request)) if request.method == "initialize" => {
                    let error = RpcError::NotAMessage("`initialize` can't be part of a batch".into());
                    let revision = Revision::R2025_03_26;
                    Some(self.error_response(
                        message_context,
                        Some(request.id),
                        Some(&request.method),
                        revision,
                        &error,
                    ))
                }
                _ => self.message(message_context, body, outbox).await,
            }
        }));
        let responses: Vec<RpcResponse> = responses.await.into_iter().flatten().collect();
        (!responses.is_empty()).then(|| RpcResponse::batch(responses))
    }

    /// Handles one message.
    async fn message(
        &self,
        message_context: MessageContext<'_>,
        body: &[u8],
        outbox: &Outbox,
    ) -> Option<RpcResponse> {
        let request = match message::message(body) {
            Ok(ClientMessage::Request(request)) => request,
            // Boxed, so that the future of every call has no space for it.
            other => return Box::pin(self.other_message(message_context, body, other)).await,
        };
        let session = message_context.cancelling_session();
        let flight = session.and_then(|session| self.in_flight.add(session, request.id.as_json()));
        let Some(flight) = flight else {
            return Some(self.request(message_context, &request, outbox).await);
        };
        tokio::select! {
            biased;
            response = self.request(message_context, &request, outbox) => Some(response),
            () = flight.cancelled() => None,
        }
    }

    /// Handles a notification, a response, or an invalid message.
    async fn other_message(
        &self,
        message_context: MessageContext<'_>,
        body: &[u8],
        message: Result<ClientMessage<'_>, RejectedMessage<'_>>,
    ) -> Option<RpcResponse> {
        let declared = message_context.revision();
        // For errors before the revision of a request is known.
        let assumed = declared.as_ref().copied().unwrap_or(Revision::R2026_07_28);
        let reject =
            |id, error: &RpcError| Some(self.error_response(message_context, id, None, assumed, error));
        let (message, revision) = match (message, declared) {
            (Err(RejectedMessage { id, method, error }), _) => {
                return Some(self.error_response(message_context, id, method.as_deref(), assumed, &error));
            }
            (Ok(_), Err(error)) => return reject(None, &error),
            (Ok(message), Ok(revision)) => (message, revision),
        };
        if let Err(error) = self.check_session(message_context, revision) {
            return reject(None, &error);
        }
        match (message, revision.lifecycle()) {
            (ClientMessage::Request(request), _) => {
                unreachable!("requests are handled elsewhere: {}", request.method)
            }
            (ClientMessage::Notification(notification), lifecycle) => {
                if let (Some(session), Some((id, reason))) =
                    (message_context.cancelling_session(), notification.cancelled())
                {
                    if self.in_flight.cancel(session, id.as_json())
                        && let Some(reason) = reason
                    {
                        debug!(reason = %Untrusted(&reason), "request cancelled by its client");
                    }
                    return None;
                }
                match lifecycle {
                    Lifecycle::Handshake => None,
                    Lifecycle::PerRequest => {
                        let checked = message_context.check_notification(&notification);
                        checked.err().and_then(|error| reject(None, &error))
                    }
                }
            }
            (ClientMessage::Response { id, result }, _) => {
                match self.complete_open_request(message_context, id, result) {
                    true => None,
                    false if self.forward_response(message_context, id, body).await => None,
                    // Over stdio it can only be late, and needs no response.
                    false if message_context.is_stdio() => None,
                    false => reject(
                        None,
                        &RpcError::NotAMessage(
                            "no request with this id is open here; with several replicas, each needs \
                         `server.advertise_url`"
                                .into(),
                        ),
                    ),
                }
            }
        }
    }

    /// Checks the session of a message. Since 2026-07-28 there are none, whatever a header names.
    fn check_session(&self, message_context: MessageContext<'_>, revision: Revision) -> Result<(), RpcError> {
        match revision.lifecycle() {
            Lifecycle::Handshake => {
                self.sessions.check(message_context.session_to_check()?, message_context.owner())
            }
            Lifecycle::PerRequest => Ok(()),
        }
    }

    /// Resumes a stream after the event with this id, at this replica or another.
    pub(super) async fn resume(
        &self,
        message_context: MessageContext<'_>,
        session: &str,
        id: &str,
    ) -> Option<Response<Body>> {
        if let Some(response) = self.resumables.resume(session, id) {
            return Some(response);
        }
        let (name, _) = id.rsplit_once('.')?;
        self.open_requests.replicas()?.resume(name, message_context).await
    }

    /// Passes a client's response to the call that waits for it. Returns whether one does.
    fn complete_open_request(
        &self,
        message_context: MessageContext<'_>,
        id: RpcId<'_>,
        result: Result<&RawValue, &RawValue>,
    ) -> bool {
        let Some(id) = id.as_text() else { return false };
        let result = result.map(ToOwned::to_owned).map_err(|error| {
            let unreadable =
                || ErrorData::new(ErrorCode::INTERNAL_ERROR, "an error that can't be read", None);
            serde_json::from_str(error.get()).unwrap_or_else(|_| unreadable())
        });
        self.open_requests.complete(&id, message_context.owner(), result)
    }

    /// Forwards a client's response to the replica that sent the request. Returns whether it was accepted.
    async fn forward_response(
        &self,
        message_context: MessageContext<'_>,
        id: RpcId<'_>,
        body: &[u8],
    ) -> bool {
        let (Some(id), Some(replicas)) = (id.as_text(), self.open_requests.replicas()) else { return false };
        replicas.forward_response(&id, message_context, body).await
    }

    async fn request(
        &self,
        message_context: MessageContext<'_>,
        request: &RpcRequest<'_>,
        outbox: &Outbox,
    ) -> RpcResponse {
        let reject = |revision, error: &RpcError| {
            let id = Some(request.id);
            let response = self.error_response(message_context, id, Some(&request.method), revision, error);
            match error {
                RpcError::Forbidden { needed } => {
                    let known = || self.gateway.snapshot().needed_scopes();
                    response.with_challenge(message_context.context.identity.challenge_for(needed, known))
                }
                _ => response,
            }
        };
        let revision = match message_context.revision_of(request) {
            Ok(revision) => revision,
            // Such an error has the same status in every revision.
            Err(error) => return reject(Revision::R2026_07_28, &error),
        };
        let UnauthenticatedRequest { request_id, connection, .. } = &message_context.context.request;
        let request_id = request_id.clone();
        let (cipher, meta) = (&self.cipher, self.server_info.result_meta(revision));
        let rpc = RpcContext { revision, request, message_context, request_id, outbox, cipher, meta };
        let result = pin!(self.result(&rpc));
        let result = connection.ending.unless_overdue(result).await;
        let result = result.unwrap_or(Err(RpcError::ShuttingDown));
        result.unwrap_or_else(|error| reject(revision, &error))
    }

    /// Snapshot for the capabilities of the server. Those for prompts and resources depend on lists of MCP
    /// servers.
    async fn snapshot_for_capabilities(&self) -> Arc<Snapshot> {
        let is_complete =
            |snapshot: &Snapshot| snapshot.awaited.prompts.is_empty() && !snapshot.awaited.resources;
        self.gateway.complete_snapshot(is_complete).await
    }

    /// Whether the server has what a method needs.
    async fn has(&self, needs: RequiredCapability) -> bool {
        if needs == RequiredCapability::Nothing {
            return true;
        }
        let snapshot = self.snapshot_for_capabilities().await;
        match needs {
            RequiredCapability::Nothing => true,
            RequiredCapability::Prompts => snapshot.has_prompts(),
            RequiredCapability::Completions => snapshot.completes(),
            RequiredCapability::Tasks => tasks::any_offered(&snapshot),
            RequiredCapability::Resources => snapshot.has_resources(),
            RequiredCapability::WatchedResources => snapshot.watches_resources(),
        }
    }

    async fn result(&self, rpc: &RpcContext<'_>) -> Result<RpcResponse, RpcError> {
        let (request, revision) = (rpc.request, rpc.revision);
        match revision.lifecycle() {
            Lifecycle::Handshake => {}
            Lifecycle::PerRequest => {
                request.meta.check_capabilities()?;
                rpc.message_context.check_method(&request.method)?;
            }
        }
        let method = match MethodRow::by_name(&request.method).filter(|row| row.exists_in(revision)) {
            Some(row) if self.has(row.needs).await => row.method,
            Some(_) | None => {
                let method = request.method.clone().into_owned();
                return Err(RpcError::UnknownMethod { method, revision });
            }
        };
        match revision.lifecycle() {
            Lifecycle::Handshake => {}
            // Not only where log messages are sent (2026-07-28, Logging, "Error Handling").
            Lifecycle::PerRequest => {
                request.meta.log_level()?;
            }
        }
        let server_info = &self.server_info;
        if method != Method::Initialize {
            // A client whose session has ended may still name it while it begins another.
            self.check_session(rpc.message_context, revision)?;
        }
        // All but calls are boxed: the future of every call would have the size of the largest of them.
        match method {
            Method::Initialize => {
                let requested = request.param("protocolVersion").required_text("params.protocolVersion")?;
                let negotiated = Revision::negotiated(&requested);
                let snapshot = self.snapshot_for_capabilities().await;
                let response = server_info.initialize(&snapshot, rpc, negotiated);
                // Anything but an object counts as none: no client depends on it.
                let capabilities = request.param("capabilities").object_or_empty();
                let session = Session::new(negotiated, capabilities)
                    .with_client(rpc.message_context.client())
                    .with_declared(server_info::declared_lists(&snapshot, rpc));
                Ok(response.with_session(session.encrypt(&self.cipher, SystemTime::now())))
            }
            Method::SetLevel => {
                let level = request.param("level").level("params.level")?;
                if let Some(session) = rpc.message_context.session() {
                    self.set_level(session, level);
                }
                Ok(rpc.result(&json!({})))
            }
            Method::Ping => Ok(rpc.result(&json!({}))),
            Method::Discover => {
                let snapshot = self.snapshot_for_capabilities().await;
                Ok(server_info.discover(&snapshot, rpc))
            }
            Method::ListTools => Box::pin(lists::list_tools(self, rpc)).await,
            Method::CallTool => tools::call(self, rpc).await,
            Method::ListPrompts => Box::pin(lists::list_prompts(self, rpc)).await,
            Method::GetPrompt => Box::pin(prompts::get(self, rpc)).await,
            Method::Complete => Box::pin(prompts::complete(self, rpc)).await,
            Method::Listen => Box::pin(subscriptions::listen(self, rpc)).await,
            Method::GetTask => Box::pin(tasks::get(self, rpc)).await,
            Method::UpdateTask => Box::pin(tasks::update(self, rpc)).await,
            Method::CancelTask => Box::pin(tasks::cancel(self, rpc)).await,
            Method::ListResources => Box::pin(lists::list_resources(self, rpc)).await,
            Method::ListResourceTemplates => Box::pin(lists::list_resource_templates(self, rpc)).await,
            Method::ReadResource => Box::pin(resources::read(self, rpc)).await,
            Method::Subscribe => Box::pin(resources::subscribe(self, rpc)).await,
            Method::Unsubscribe => Box::pin(resources::unsubscribe(self, rpc)).await,
        }
    }
}
