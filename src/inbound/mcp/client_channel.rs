//! Messages to the client of a request before its result.
//!
//! - [`Outbox`]: queue of messages that are sent before the result.
//! - [`OpenRequests`]: our open requests to clients up to 2025-11-25, which respond with a message of their
//!   own.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use rmcp::model::ErrorData;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::Replicas;
use crate::upstream::OnDrop;

/// Limit of the messages that wait for a client to read them.
const OUTBOX_LIMIT: usize = 64;

/// Queue of messages to a client before the result of its request. Clones are the same queue. `None` where
/// the client accepts nothing but the result.
#[derive(Debug, Clone)]
pub(super) struct Outbox(pub(super) Option<mpsc::Sender<Bytes>>);

/// Receiving end of an [`Outbox`], from which a transport sends messages in order.
pub(super) type Mailbox = mpsc::Receiver<Bytes>;

/// Why a client sent no input response.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
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
    #[error("the client responded with an error: {} ({})", .0.message, .0.code.0)]
    ClientError(ErrorData),
}

impl Outbox {
    /// Creates a queue for a client that reads a stream, and its receiver.
    pub(super) fn new() -> (Self, Mailbox) {
        let (sender, mailbox) = mpsc::channel(OUTBOX_LIMIT);
        (Self(Some(sender)), mailbox)
    }

    /// Sends a notification. It is lost when there is no stream, or the client reads too slowly: no result
    /// depends on it.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        if let Some(sender) = &self.0 {
            // Full or closed.
            let _ = sender.try_send(notification(method, params));
        }
    }

    /// Sends a notification as soon as the queue has capacity.
    ///
    /// # Errors
    ///
    /// [`ClientRequestError::NoChannel`] if the client does not read any more, or accepts no stream.
    pub(super) async fn send(&self, method: &str, params: &Value) -> Result<(), ClientRequestError> {
        let sender = self.0.as_ref().ok_or(ClientRequestError::NoChannel)?;
        sender.send(notification(method, params)).await.map_err(|_| ClientRequestError::NoChannel)
    }
}

fn notification(method: &str, params: &Value) -> Bytes {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string().into()
}

/// Limit of our open requests to clients.
const OPEN_REQUESTS_LIMIT: usize = 10_000;

/// A client's result or error.
pub(super) type ClientResult = Result<Box<RawValue>, ErrorData>;

/// Our open requests to clients, in this process.
#[derive(Debug)]
pub(super) struct OpenRequests {
    /// The other replicas. They can decrypt the ids.
    pub(super) replicas: Arc<Replicas>,
    /// By id: the client whose response is accepted, if clients have identities, and the request that waits.
    waiting: Mutex<HashMap<String, WaitingRequest>>,
}

type WaitingRequest = (Option<Box<str>>, oneshot::Sender<ClientResult>);

impl OpenRequests {
    pub(super) fn new(replicas: Arc<Replicas>) -> Self {
        Self { replicas, waiting: Mutex::default() }
    }

    /// Sends a request to a client, and waits for the response of its `owner` (revisions up to 2025-11-25).
    ///
    /// # Errors
    ///
    /// [`ClientRequestError`] if there is no result.
    pub(super) async fn send_request(
        &self,
        outbox: &Outbox,
        owner: Option<&str>,
        method: &str,
        params: &Value,
        timeout_after: Duration,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        let sender = outbox.0.as_ref().ok_or(ClientRequestError::NoChannel)?;
        let id = self.replicas.issue_id();
        let (response, result) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= OPEN_REQUESTS_LIMIT {
                return Err(ClientRequestError::TooManyOpen);
            }
            waiting.insert(id.clone(), (owner.map(Box::from), response));
        }
        let _withdrawal = OnDrop::new(|| drop(self.waiting.lock().remove(&id)));
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        sender.try_send(message.to_string().into()).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ClientRequestError::TooManyOpen,
            mpsc::error::TrySendError::Closed(_) => ClientRequestError::NoChannel,
        })?;
        match timeout(timeout_after, result).await {
            Ok(Ok(result)) => result.map_err(ClientRequestError::ClientError),
            Ok(Err(_)) => Err(ClientRequestError::NoChannel),
            Err(_) => {
                let unanswered = ClientRequestError::Timeout(timeout_after);
                // The client need not show a form any more (2025-11-25, Lifecycle, "Timeouts").
                let params = json!({ "requestId": id, "reason": unanswered.to_string() });
                outbox.notify("notifications/cancelled", &params);
                Err(unanswered)
            }
        }
    }

    /// Passes a response to the call that waits for it. Returns whether one does, of this client.
    pub(super) fn complete(&self, id: &str, owner: Option<&str>, result: ClientResult) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.get(id).is_none_or(|(expected, _)| expected.as_deref() != owner) {
            return false;
        }
        waiting.remove(id).is_some_and(|(_, sender)| sender.send(result).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::TokenCipher;

    const TEST_TIMEOUT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_request_to_the_client_is_sent_and_its_response_awaited() {
        let replicas = Replicas::new(TokenCipher::random(), None, None);
        let open_requests = Arc::new(OpenRequests::new(Arc::new(replicas)));
        let (outbox, mut mailbox) = Outbox::new();
        let all = Arc::clone(&open_requests);
        let request = tokio::spawn(async move {
            let result = all.send_request(&outbox, None, "roots/list", &json!({}), TEST_TIMEOUT).await;
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

        let client_error = ErrorData::invalid_request("no", None);
        let nothing = json!({});
        let (result, ()) = tokio::join!(
            open_requests.send_request(&outbox, None, "roots/list", &nothing, TEST_TIMEOUT),
            async {
                let sent: Value = serde_json::from_slice(&mailbox.recv().await.unwrap()).unwrap();
                open_requests.complete(sent["id"].as_str().unwrap(), None, Err(client_error));
            }
        );
        assert_eq!(
            result.unwrap_err(),
            ClientRequestError::ClientError(ErrorData::invalid_request("no", None))
        );

        assert_eq!(
            open_requests
                .send_request(&outbox, None, "roots/list", &json!({}), TEST_TIMEOUT)
                .await
                .unwrap_err(),
            ClientRequestError::Timeout(TEST_TIMEOUT)
        );
        let [sent, cancelled]: [Value; 2] = [mailbox.recv().await, mailbox.recv().await]
            .map(|sent| serde_json::from_slice(&sent.unwrap()).unwrap());
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], sent["id"]);
        drop(mailbox);
        assert_eq!(
            open_requests.send_request(&outbox, None, "x", &json!({}), TEST_TIMEOUT).await.unwrap_err(),
            ClientRequestError::NoChannel
        );
        let closed = Outbox(None);
        assert_eq!(
            open_requests.send_request(&closed, None, "x", &json!({}), TEST_TIMEOUT).await.unwrap_err(),
            ClientRequestError::NoChannel
        );
    }
}
