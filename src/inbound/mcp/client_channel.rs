//! Messages to the client of a request before its result.
//!
//! - [`Outbox`]: queue of messages that are sent before the result.
//! - [`OpenRequests`]: our open requests to clients up to 2025-11-25, which respond with a message of their
//!   own.
//! - [`CallSubscriber`]: progress notifications and log messages of a call.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    context::RpcContext, protocol::MessageDispatcher, replicas::Replicas, revision::Lifecycle,
    rpc_error::RpcError,
};
use crate::{
    crypto::random_id,
    pipeline::{Progress, Subscriber},
    route::McpLogLevel,
    upstream::ClientIdentity,
};

/// Limit of the messages that wait for a client to read them.
const OUTBOX_LIMIT: usize = 64;

/// Queue of messages to a client before the result of its request. Clones are the same queue.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    /// `None` where the client accepts nothing but the result.
    sender: Option<mpsc::Sender<Bytes>>,
    open_requests: Arc<OpenRequests>,
    /// The client whose responses are accepted.
    client: ClientIdentity,
}

/// Receiving end of an [`Outbox`], from which a transport sends messages in order.
pub(super) type Mailbox = mpsc::Receiver<Bytes>;

/// Why a client sent no input response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClientRequestError {
    /// The client can't receive requests.
    #[error("the client can't receive requests on this connection")]
    NoChannel,
    /// The client does not read, or too many requests are open.
    #[error("too many requests to the client are open")]
    TooManyOpen,
    /// No response came in time.
    #[error("no response came within {0:?}")]
    Timeout(Duration),
    /// The client responded with a JSON-RPC error.
    #[error("the client responded with an error: {message} ({})", code.0)]
    ClientError {
        /// The code.
        code: ErrorCode,
        /// The message.
        message: String,
    },
}

impl Outbox {
    /// Creates a queue for a client that reads a stream, and its receiver.
    pub(super) fn new(open_requests: Arc<OpenRequests>) -> (Self, Mailbox) {
        let (sender, mailbox) = mpsc::channel(OUTBOX_LIMIT);
        (Self { sender: Some(sender), open_requests, client: ClientIdentity::Only }, mailbox)
    }

    /// Sets the client whose responses are accepted: the sender of the request.
    pub(super) fn with_client(self, client: ClientIdentity) -> Self {
        Self { client, ..self }
    }

    /// Creates a queue for a client that accepts one JSON document.
    pub(super) fn closed(open_requests: Arc<OpenRequests>) -> Self {
        Self { sender: None, open_requests, client: ClientIdentity::Only }
    }

    /// Whether messages other than the result reach the client.
    pub(super) fn is_open(&self) -> bool {
        self.sender.is_some()
    }

    /// Sends a notification. It is lost when there is no stream, or the client reads too slowly: no result
    /// depends on it.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        if let Some(sender) = &self.sender {
            let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            // Full or closed.
            let _ = sender.try_send(message.to_string().into());
        }
    }

    /// Sends a notification as soon as the queue has capacity.
    ///
    /// # Errors
    ///
    /// [`ClientRequestError::NoChannel`] if the client does not read any more, or accepts no stream.
    pub(super) async fn send(&self, method: &str, params: &Value) -> Result<(), ClientRequestError> {
        let sender = self.sender.as_ref().ok_or(ClientRequestError::NoChannel)?;
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        sender.send(message.to_string().into()).await.map_err(|_| ClientRequestError::NoChannel)
    }

    /// Sends a request to the client, and waits for its result (revisions up to 2025-11-25).
    ///
    /// # Errors
    ///
    /// [`ClientRequestError`] if there is no result.
    pub(super) async fn send_request(
        &self,
        method: &str,
        params: &Value,
        timeout_after: Duration,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        let sender = self.sender.as_ref().ok_or(ClientRequestError::NoChannel)?;
        let open_request =
            self.open_requests.open(self.client.owner()).ok_or(ClientRequestError::TooManyOpen)?;
        let id = open_request.id().to_owned();
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        sender.try_send(message.to_string().into()).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ClientRequestError::TooManyOpen,
            mpsc::error::TrySendError::Closed(_) => ClientRequestError::NoChannel,
        })?;
        timeout(timeout_after, open_request.result()).await.unwrap_or_else(|_| {
            let unanswered = ClientRequestError::Timeout(timeout_after);
            // The client need not show a form any more (2025-11-25, Lifecycle, "Timeouts").
            let params = json!({ "requestId": id, "reason": unanswered.to_string() });
            self.notify("notifications/cancelled", &params);
            Err(unanswered)
        })
    }
}

/// Limit of our open requests to clients.
const OPEN_REQUESTS_LIMIT: usize = 10_000;

/// A client's result or error.
pub(super) type ClientResult = Result<Box<RawValue>, ErrorData>;

/// Our open requests to clients, in this process.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    /// Issues the ids, which other replicas can decrypt.
    replicas: Option<Replicas>,
    waiting: Mutex<HashMap<String, PendingClientResponse>>,
}

/// An entry of the table of open requests.
#[derive(Debug)]
struct PendingClientResponse {
    /// The client whose response is accepted, if clients have identities.
    owner: Option<Box<str>>,
    result: oneshot::Sender<ClientResult>,
}

/// An open request, withdrawn on drop.
#[derive(Debug)]
pub(super) struct OpenRequest {
    id: String,
    result: oneshot::Receiver<ClientResult>,
    all: Arc<OpenRequests>,
}

impl OpenRequests {
    /// Creates an empty table, with these other replicas.
    pub(super) fn new(replicas: Replicas) -> Self {
        Self { replicas: Some(replicas), waiting: Mutex::default() }
    }

    /// The other replicas.
    pub(super) fn replicas(&self) -> Option<&Replicas> {
        self.replicas.as_ref()
    }

    /// An unpredictable name, by which other replicas find this one.
    pub(super) fn new_id(&self) -> String {
        self.replicas.as_ref().map_or_else(random_id, Replicas::issue_id)
    }

    /// Opens a request to a client, under an unpredictable id. `None` if too many are open.
    pub(super) fn open(self: &Arc<Self>, owner: Option<&str>) -> Option<OpenRequest> {
        let (sender, result) = oneshot::channel();
        let id = self.new_id();
        let mut waiting = self.waiting();
        if waiting.len() >= OPEN_REQUESTS_LIMIT {
            return None;
        }
        waiting.insert(id.clone(), PendingClientResponse { owner: owner.map(Box::from), result: sender });
        Some(OpenRequest { id, result, all: Arc::clone(self) })
    }

    /// Passes a response to the call that waits for it. Returns whether one does, of this client.
    pub(super) fn complete(&self, id: &str, owner: Option<&str>, result: ClientResult) -> bool {
        let mut waiting = self.waiting();
        if waiting.get(id).is_none_or(|open_request| open_request.owner.as_deref() != owner) {
            return false;
        }
        waiting.remove(id).is_some_and(|open_request| open_request.result.send(result).is_ok())
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, PendingClientResponse>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenRequest {
    /// The id of the request.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the response.
    pub(super) async fn result(mut self) -> Result<Box<RawValue>, ClientRequestError> {
        match (&mut self.result).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => {
                Err(ClientRequestError::ClientError { code: error.code, message: error.message.into_owned() })
            }
            Err(_) => Err(ClientRequestError::NoChannel),
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.all.waiting().remove(&self.id);
    }
}

/// Subscriber to the progress and log messages of a call, for the client of a request.
#[derive(Debug)]
pub(super) struct CallSubscriber<'a> {
    outbox: &'a Outbox,
    /// The progress token; without one there are no progress notifications.
    token: Option<Value>,
    level: Option<McpLogLevel>,
}

impl<'a> CallSubscriber<'a> {
    /// Creates a subscriber with the notifications that the client has requested.
    ///
    /// # Errors
    ///
    /// When the requested log level does not exist.
    pub(super) fn new(dispatcher: &MessageDispatcher, rpc: &'a RpcContext<'_>) -> Result<Self, RpcError> {
        let meta = &rpc.request.meta;
        let level = match rpc.revision.lifecycle() {
            Lifecycle::PerRequest => meta.log_level()?,
            Lifecycle::Handshake => {
                rpc.message_context.session().and_then(|session| dispatcher.levels.get(session))
            }
        };
        Ok(Self { outbox: rpc.outbox, token: meta.progress_token(), level })
    }
}

impl Subscriber for CallSubscriber<'_> {
    fn wants_progress(&self) -> bool {
        self.token.is_some() && self.outbox.is_open()
    }

    fn level(&self) -> Option<McpLogLevel> {
        self.level.filter(|_| self.outbox.is_open())
    }

    fn progress(&self, progress: Progress<'_>) {
        let Some(token) = &self.token else { return };
        let mut params = json!({ "progressToken": token, "progress": number(progress.done) });
        if let Some(total) = progress.total {
            params["total"] = number(total);
        }
        if let Some(message) = progress.message {
            params["message"] = message.into();
        }
        self.outbox.notify("notifications/progress", &params);
    }

    fn log(&self, level: McpLogLevel, logger: &str, text: &str) {
        let params = json!({ "level": level.as_str(), "logger": logger, "data": text });
        self.outbox.notify("notifications/message", &params);
    }
}

/// A number, without a fraction if it is whole.
fn number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range")]
    match number.fract() == 0.0 && number.abs() < EXACT {
        true => (number as i64).into(),
        false => number.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_request_to_the_client_is_sent_and_its_response_awaited() {
        let open_requests = Arc::<OpenRequests>::default();
        let (outbox, mut mailbox) = Outbox::new(Arc::clone(&open_requests));
        let request = tokio::spawn(async move {
            let result = outbox.send_request("roots/list", &json!({}), TEST_TIMEOUT).await;
            (result.map(|result| result.get().to_owned()), outbox)
        });
        let sent: Value = serde_json::from_slice(&mailbox.recv().await.unwrap()).unwrap();
        assert_eq!(sent["method"], "roots/list");
        let id = sent["id"].as_str().unwrap();
        assert!(!open_requests.complete("another", None, Ok(RawValue::NULL.to_owned())));
        assert!(open_requests.complete(
            id,
            None,
            serde_json::from_str(r#"{"roots": [ ]}"#).map_err(|_| unreachable!())
        ));
        assert!(!open_requests.complete(id, None, Ok(RawValue::NULL.to_owned())), "one answer to a question");
        let (result, outbox) = request.await.unwrap();
        assert_eq!(result.unwrap(), r#"{"roots": [ ]}"#);

        let client_error = ErrorData::new(ErrorCode::INVALID_REQUEST, "no", None);
        let nothing = json!({});
        let (result, ()) = tokio::join!(outbox.send_request("roots/list", &nothing, TEST_TIMEOUT), async {
            let sent: Value = serde_json::from_slice(&mailbox.recv().await.unwrap()).unwrap();
            open_requests.complete(sent["id"].as_str().unwrap(), None, Err(client_error));
        });
        assert_eq!(
            result.unwrap_err(),
            ClientRequestError::ClientError { code: ErrorCode::INVALID_REQUEST, message: "no".to_owned() }
        );

        assert_eq!(
            outbox.send_request("roots/list", &json!({}), TEST_TIMEOUT).await.unwrap_err(),
            ClientRequestError::Timeout(TEST_TIMEOUT)
        );
        let [sent, cancelled]: [Value; 2] = [mailbox.recv().await, mailbox.recv().await]
            .map(|sent| serde_json::from_slice(&sent.unwrap()).unwrap());
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], sent["id"]);
        drop(mailbox);
        assert_eq!(
            outbox.send_request("x", &json!({}), TEST_TIMEOUT).await.unwrap_err(),
            ClientRequestError::NoChannel
        );
        let closed = Outbox::closed(open_requests);
        assert_eq!(
            closed.send_request("x", &json!({}), TEST_TIMEOUT).await.unwrap_err(),
            ClientRequestError::NoChannel
        );
    }
}
