//! The protocol without its transports: from a message to its response.

use std::{pin::pin, sync::Arc, time::SystemTime};

use axum::body::Body;
use futures_util::future::join_all;
use http::Response;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{json, value::RawValue};

use super::{
    McpApiSettings,
    client_channel::{OpenRequests, Outbox},
    context::{MessageContext, RpcContext},
    message::{self, ClientMessage, RejectedMessage, RpcId, RpcRequest},
    prompts,
    replicas::Replicas,
    resources,
    response::RpcResponse,
    resumable::ResumableStreams,
    revision::{Lifecycle, Method, MethodRow, RequiredCapability, Revision},
    rpc_error::{ErrorCounts, RpcError},
    server_info::ServerInfo,
    session_subscriptions::SessionSubscriptions,
    sessions::{InFlightRequests, LogLevels, Session, Sessions, UnknownSessions},
    subscriptions::{self, OpenStreams},
    task_elicitation::ElicitingTasks,
    tasks, tools,
};
use crate::{
    crypto::TokenCipher,
    inbound::{authenticate::Authenticator, context::Arrival},
    pipeline::Gateway,
};

/// Dispatches the messages of all transports, and has the state of the endpoint.
#[derive(Debug)]
pub(super) struct MessageDispatcher {
    pub(super) gateway: Gateway,
    /// Authorizes open streams again.
    pub(super) guard: Authenticator,
    pub(super) server_info: ServerInfo,
    pub(super) seal: TokenCipher,
    pub(super) questions: Arc<OpenRequests>,
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
    pub(super) fn new(gateway: Gateway, settings: McpApiSettings, guard: Authenticator) -> Self {
        let seal = settings.secret_key.as_ref().map_or_else(TokenCipher::random, TokenCipher::new);
        let strangers =
            if settings.secret_key.is_some() { UnknownSessions::Reject } else { UnknownSessions::Accept };
        let sessions = Sessions::new(seal.clone(), strangers);
        let streams = OpenStreams::new(settings.max_streams, settings.max_streams_per_client);
        let questions = Arc::new(OpenRequests::new(Replicas::new(
            seal.clone(),
            settings.advertise_url.clone(),
            settings.peer_tls.clone(),
        )));
        Self {
            gateway,
            guard,
            resumables: Arc::new(ResumableStreams::new(settings.resume, Arc::clone(&questions))),
            server_info: ServerInfo::new(settings.server),
            seal,
            questions,
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
    pub(super) async fn revoked(&self, carrier: MessageContext<'_>) {
        match carrier.is_stdio() {
            true => std::future::pending().await,
            false => self.guard.revoked(carrier.context).await,
        }
    }

    /// Responds to a message with a JSON-RPC error, and counts it. `method` is `None` if it could not be
    /// read.
    pub(super) fn error_response(
        &self,
        carrier: MessageContext<'_>,
        id: Option<RpcId<'_>>,
        method: Option<&str>,
        revision: Revision,
        refusal: &RpcError,
    ) -> RpcResponse {
        self.errors.count(method, refusal, revision);
        RpcResponse::error(carrier.logged(), id, revision, refusal)
    }

    /// Handles a body: one message, or a batch if the revision has them. `None` if there is no response, as
    /// to a notification or to a response.
    ///
    /// Messages before the result of a request go to `outbox`. Dropping the future cancels the request.
    pub(super) async fn handle(
        &self,
        carrier: MessageContext<'_>,
        body: &[u8],
        outbox: &Outbox,
    ) -> Option<RpcResponse> {
        match carrier.revision() {
            Ok(revision) if revision.supports_batches() => match message::batch(body) {
                Some(Ok(members)) => Box::pin(self.batch(carrier, &members, outbox)).await,
                Some(Err(refusal)) => Some(self.error_response(carrier, None, None, revision, &refusal)),
                None => self.message(carrier, body, outbox).await,
            },
            Ok(_) | Err(_) => self.message(carrier, body, outbox).await,
        }
    }

    /// Handles all messages of a batch at once, and collects the responses.
    async fn batch(
        &self,
        carrier: MessageContext<'_>,
        members: &[&RawValue],
        outbox: &Outbox,
    ) -> Option<RpcResponse> {
        let answers = join_all(members.iter().map(|member| async {
            let body = member.get().as_bytes();
            match message::message(body) {
                // It must be alone (2025-03-26, Lifecycle, "Initialization").
                Ok(ClientMessage::Request(request)) if request.method == "initialize" => {
                    let refusal = RpcError::NotAMessage("`initialize` can't be part of a batch".into());
                    let revision = Revision::R2025_03_26;
                    Some(self.error_response(
                        carrier,
                        Some(request.id),
                        Some(&request.method),
                        revision,
                        &refusal,
                    ))
                }
                _ => self.message(carrier, body, outbox).await,
            }
        }));
        let answers: Vec<RpcResponse> = answers.await.into_iter().flatten().collect();
        (!answers.is_empty()).then(|| RpcResponse::batch(answers))
    }

    /// Handles one message.
    async fn message(
        &self,
        carrier: MessageContext<'_>,
        body: &[u8],
        outbox: &Outbox,
    ) -> Option<RpcResponse> {
        let request = match message::message(body) {
            Ok(ClientMessage::Request(request)) => request,
            // Boxed, so that the future of every call has no space for it.
            other => return Box::pin(self.other_message(carrier, body, other)).await,
        };
        let session = carrier.cancelling_session();
        let flight = session.and_then(|session| self.in_flight.add(session, request.id.as_json()));
        let Some(flight) = flight else {
            return Some(self.request(carrier, &request, outbox).await);
        };
        tokio::select! {
            biased;
            answer = self.request(carrier, &request, outbox) => Some(answer),
            () = flight.cancelled() => None,
        }
    }

    /// Handles a notification, a response, or an invalid message.
    async fn other_message(
        &self,
        carrier: MessageContext<'_>,
        body: &[u8],
        message: Result<ClientMessage<'_>, RejectedMessage<'_>>,
    ) -> Option<RpcResponse> {
        let said = carrier.revision();
        // For errors before the revision of a request is known.
        let assumed = said.as_ref().copied().unwrap_or(Revision::R2026_07_28);
        let refuse = |id, refusal: &RpcError| Some(self.error_response(carrier, id, None, assumed, refusal));
        let (message, revision) = match (message, said) {
            (Err(RejectedMessage { id, method, refusal }), _) => {
                return Some(self.error_response(carrier, id, method.as_deref(), assumed, &refusal));
            }
            (Ok(_), Err(refusal)) => return refuse(None, &refusal),
            (Ok(message), Ok(revision)) => (message, revision),
        };
        if let Err(refusal) = self.check_session(carrier, revision) {
            return refuse(None, &refusal);
        }
        match (message, revision.lifecycle()) {
            (ClientMessage::Request(request), _) => {
                unreachable!("requests are handled elsewhere: {}", request.method)
            }
            (ClientMessage::Notification(notification), era) => {
                if let (Some(session), Some(id)) = (carrier.cancelling_session(), notification.cancelled()) {
                    self.in_flight.cancel(session, id.as_json());
                    return None;
                }
                match era {
                    Lifecycle::Handshake => None,
                    Lifecycle::PerRequest => {
                        let checked = carrier.check_notification(&notification);
                        checked.err().and_then(|refusal| refuse(None, &refusal))
                    }
                }
            }
            (ClientMessage::Response { id, answered }, _) => match self.answered(carrier, id, answered) {
                true => None,
                false if self.forward_response(carrier, id, body).await => None,
                // Over stdio it can only be late, and needs no response.
                false if carrier.is_stdio() => None,
                false => refuse(
                    None,
                    &RpcError::NotAMessage(
                        "no request with this id is open here; with several replicas, each needs \
                         `server.advertise_url`"
                            .into(),
                    ),
                ),
            },
        }
    }

    /// Checks the session of a message. Since 2026-07-28 there are none, whatever a header names.
    fn check_session(&self, carrier: MessageContext<'_>, revision: Revision) -> Result<(), RpcError> {
        match revision.lifecycle() {
            Lifecycle::Handshake => self.sessions.check(carrier.session_to_check()?, carrier.owner()),
            Lifecycle::PerRequest => Ok(()),
        }
    }

    /// The rest of a stream after the event with this id, from this replica or another.
    pub(super) async fn resumed(
        &self,
        carrier: MessageContext<'_>,
        session: &str,
        id: &str,
    ) -> Option<Response<Body>> {
        if let Some(response) = self.resumables.resume(session, id) {
            return Some(response);
        }
        let (name, _) = id.rsplit_once('.')?;
        self.questions.peers()?.resume(name, carrier).await
    }

    /// Passes a client's response to the call that waits for it. Returns whether one does.
    fn answered(
        &self,
        carrier: MessageContext<'_>,
        id: RpcId<'_>,
        answered: Result<&RawValue, &RawValue>,
    ) -> bool {
        let Some(id) = id.as_text() else { return false };
        let answered = answered.map(ToOwned::to_owned).map_err(|error| {
            let unreadable =
                || ErrorData::new(ErrorCode::INTERNAL_ERROR, "an error that can't be read", None);
            serde_json::from_str(error.get()).unwrap_or_else(|_| unreadable())
        });
        self.questions.complete(&id, carrier.owner(), answered)
    }

    /// Forwards a client's response to the replica that sent the request. Returns whether it was accepted.
    async fn forward_response(&self, carrier: MessageContext<'_>, id: RpcId<'_>, body: &[u8]) -> bool {
        let (Some(id), Some(peers)) = (id.as_text(), self.questions.peers()) else { return false };
        peers.forward_response(&id, carrier, body).await
    }

    async fn request(
        &self,
        carrier: MessageContext<'_>,
        request: &RpcRequest<'_>,
        outbox: &Outbox,
    ) -> RpcResponse {
        let refuse = |revision, refusal: &RpcError| {
            let id = Some(request.id);
            let answer = self.error_response(carrier, id, Some(&request.method), revision, refusal);
            match refusal {
                RpcError::Forbidden { needed } => {
                    let known = || self.gateway.snapshot().needed_scopes();
                    answer.with_challenge(carrier.context.identity.challenge_for(needed, known))
                }
                _ => answer,
            }
        };
        let revision = match carrier.revision_of(request) {
            Ok(revision) => revision,
            // Such an error has the same status in every revision.
            Err(refusal) => return refuse(Revision::R2026_07_28, &refusal),
        };
        let Arrival { request_id, connection, .. } = &carrier.context.arrival;
        let request_id = request_id.clone();
        let (seal, meta) = (&self.seal, self.server_info.result_meta(revision));
        let client = RpcContext { revision, request, carrier, request_id, outbox, seal, meta };
        let result = pin!(self.result(&client));
        let result = connection.ending.unless_overdue(result).await;
        let result = result.unwrap_or(Err(RpcError::ShuttingDown));
        result.unwrap_or_else(|refusal| refuse(revision, &refusal))
    }

    fn has(&self, needs: RequiredCapability) -> bool {
        let snapshot = self.gateway.snapshot();
        match needs {
            RequiredCapability::Nothing => true,
            RequiredCapability::Prompts => snapshot.has_prompts(),
            RequiredCapability::Completions => snapshot.completes(),
            RequiredCapability::Tasks => tasks::any_offered(&snapshot),
            RequiredCapability::Resources => snapshot.has_resources(),
            RequiredCapability::WatchedResources => snapshot.watches_resources(),
        }
    }

    async fn result(&self, client: &RpcContext<'_>) -> Result<RpcResponse, RpcError> {
        let (request, revision) = (client.request, client.revision);
        match revision.lifecycle() {
            Lifecycle::Handshake => {}
            Lifecycle::PerRequest => {
                request.meta.check_capabilities()?;
                client.carrier.check_method(&request.method)?;
            }
        }
        let row = MethodRow::by_name(&request.method);
        let row = row.filter(|row| row.exists_in(revision) && self.has(row.needs));
        let method = row.map(|row| row.method).ok_or_else(|| RpcError::UnknownMethod {
            method: request.method.clone().into_owned(),
            revision,
        })?;
        let server_info = &self.server_info;
        if method != Method::Initialize {
            // A client whose session has ended may still name it while it begins another.
            self.check_session(client.carrier, revision)?;
        }
        // All but calls are boxed: the future of every call would have the size of the largest of them.
        match method {
            Method::Initialize => {
                let requested = request.param("protocolVersion").required_text("params.protocolVersion")?;
                let negotiated = Revision::negotiated(&requested);
                let answer = server_info.initialize(&self.gateway.snapshot(), client, negotiated);
                // Anything but an object counts as none: no client depends on it.
                let capabilities = request.param("capabilities").object_or_empty();
                let session = Session::new(negotiated, capabilities).with_client(client.carrier.client());
                Ok(answer.with_session(session.encrypt(&self.seal, SystemTime::now())))
            }
            Method::SetLevel => {
                let level = request.param("level").level("params.level")?;
                if let Some(session) = client.carrier.session() {
                    self.set_level(session, level);
                }
                Ok(client.result(&json!({})))
            }
            Method::Ping => Ok(client.result(&json!({}))),
            Method::Discover => Ok(server_info.discover(&self.gateway.snapshot(), client)),
            Method::ListTools => tools::list(self, client),
            Method::CallTool => tools::call(self, client).await,
            Method::ListPrompts => prompts::list(self, client),
            Method::GetPrompt => Box::pin(prompts::get(self, client)).await,
            Method::Complete => Box::pin(prompts::complete(self, client)).await,
            Method::Listen => Box::pin(subscriptions::listen(self, client)).await,
            Method::GetTask => Box::pin(tasks::get(self, client)).await,
            Method::UpdateTask => Box::pin(tasks::update(self, client)).await,
            Method::CancelTask => Box::pin(tasks::cancel(self, client)).await,
            Method::ListResources => resources::list(self, client),
            Method::ListResourceTemplates => resources::list_templates(self, client),
            Method::ReadResource => Box::pin(resources::read(self, client)).await,
            Method::Subscribe => Box::pin(resources::subscribe(self, client)).await,
            Method::Unsubscribe => Box::pin(resources::unsubscribe(self, client)).await,
        }
    }
}
