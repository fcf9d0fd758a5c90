//! The client of a request, until its result: what it speaks, what it is capable of, and the way to tell or ask it
//! something before the result is there.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rmcp::model::ErrorCode;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::{sync::mpsc, time::timeout};

use super::{
    answer::Answer,
    carrier::Carrier,
    message::Request,
    questions::Questions,
    refusal::Refusal,
    revision::{Era, Revision},
    telling,
};
use crate::{
    crypto::Seal,
    face::context::Arrival,
    gateway::{Call, Message},
    observe::RequestId,
    route::Scopes,
    tool::ToolResult,
    upstream::Caller,
};

/// Who waits for the result of a request.
#[derive(Debug)]
pub(super) struct Client<'a> {
    pub(super) revision: Revision,
    pub(super) request: &'a Request<'a>,
    pub(super) carrier: Carrier<'a>,
    /// What the request is named in the log and in errors.
    pub(super) request_id: RequestId,
    /// What is sent before the result.
    pub(super) outbox: &'a Outbox,
    pub(super) seal: &'a Seal,
    /// What `_meta` of a result holds beside what the result itself brings.
    pub(super) meta: &'a Map<String, Value>,
}

/// How long a result may be kept, and by whom (since 2026-07-28).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CacheHints {
    ttl_ms: u64,
    cache_scope: &'static str,
}

impl Client<'_> {
    /// What the client can be asked, as it says itself: with each request, or at `initialize`.
    pub(super) fn capabilities(&self) -> Map<String, Value> {
        self.carrier.capabilities(self.request, self.revision, self.seal)
    }

    /// Whether it may ask for something.
    ///
    /// # Errors
    ///
    /// [`Refusal::Forbidden`] when it may not.
    pub(super) fn may(&self, needed: &Scopes) -> Result<(), Refusal> {
        match needed.is_empty() || self.carrier.caller().may(needed) {
            true => Ok(()),
            false => Err(Refusal::Forbidden { needed: needed.clone() }),
        }
    }

    /// Who may keep what it is told of lists: where callers are told apart, they are told different things.
    pub(super) fn cache_scope(&self) -> &'static str {
        if self.carrier.owner().is_some() { "private" } else { "public" }
    }

    /// How long the result may be kept, and by whom; nothing in the era of handshakes.
    pub(super) fn cache_hints(&self, lasts: Duration, cache_scope: &'static str) -> Option<CacheHints> {
        let ttl_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        match self.revision.era() {
            Era::Handshake => None,
            Era::PerRequest => Some(CacheHints { ttl_ms, cache_scope }),
        }
    }

    /// The result of the request.
    pub(super) fn result(&self, members: &impl Serialize) -> Answer {
        Answer::result(self.request.id, self.revision.result_type(), members, self.meta)
    }

    /// The result of a call, in blocks that the client knows.
    pub(super) fn tool_result(&self, mut result: ToolResult) -> Answer {
        self.revision.adapt(&mut result);
        Answer::tool_result(self.request.id, self.revision, &result, self.meta)
    }

    /// A call with these arguments, made for the request.
    pub(super) fn call(&self, arguments: Map<String, Value>) -> Call<'_> {
        let Arrival { request_id, span, address, api, .. } = &self.carrier.context.arrival;
        let caller = self.carrier.caller().clone();
        let call = Call::new(arguments, self.carrier.headers(), request_id.clone(), *api, caller);
        let message = Message {
            method: &self.request.method,
            id: self.request.id.as_json(),
            session: self.carrier.session(),
        };
        let (address, span, trace) = (*address, span.clone(), telling::trace(self));
        Call { address, trace, protocol: self.revision.as_str(), span, message: Some(message), ..call }
    }
}

/// How many messages may wait for a client to read them.
const OUTBOX_LIMIT: usize = 64;

/// What is sent to a client before the result of its request. Clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    /// `None` where the client takes nothing but the result.
    sender: Option<mpsc::Sender<Bytes>>,
    questions: Arc<Questions>,
    /// Whose answers are taken, where clients are told apart.
    caller: Caller,
}

/// The other end: what a transport sends on, in order.
pub(super) type Mailbox = mpsc::Receiver<Bytes>;

/// Why a client gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    /// There is no way to ask it.
    #[error("the client takes no questions on this request")]
    NoWay,
    /// It does not read, or too many wait for theirs.
    #[error("too many questions wait for an answer")]
    TooMany,
    /// Nothing came in time.
    #[error("no answer came within {0:?}")]
    TooLate(Duration),
    /// It answered with a JSON-RPC error.
    #[error("the client refused: {message} ({})", code.0)]
    Refused {
        /// Its code.
        code: ErrorCode,
        /// Its words.
        message: String,
    },
}

impl Outbox {
    /// For a client that reads a stream, and what is put into it.
    pub(super) fn new(questions: Arc<Questions>) -> (Self, Mailbox) {
        let (sender, mailbox) = mpsc::channel(OUTBOX_LIMIT);
        (Self { sender: Some(sender), questions, caller: Caller::Only }, mailbox)
    }

    /// The same for the sender of a request.
    pub(super) fn of(self, caller: Caller) -> Self {
        Self { caller, ..self }
    }

    /// For a client that takes one JSON document.
    pub(super) fn closed(questions: Arc<Questions>) -> Self {
        Self { sender: None, questions, caller: Caller::Only }
    }

    /// Whether anything but the result reaches the client.
    pub(super) fn is_open(&self) -> bool {
        self.sender.is_some()
    }

    /// Tells the client something. It is lost when there is no way, or the client reads too slowly: a notification
    /// is nothing that a result depends on.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        if let Some(sender) = &self.sender {
            let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            // Full, or nobody reads any more.
            let _ = sender.try_send(message.to_string().into());
        }
    }

    /// Tells the client something, as soon as it has read enough of what it was told before.
    ///
    /// # Errors
    ///
    /// [`Unanswered::NoWay`] when nobody reads any more, or never did.
    pub(super) async fn send(&self, method: &str, params: &Value) -> Result<(), Unanswered> {
        let sender = self.sender.as_ref().ok_or(Unanswered::NoWay)?;
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        sender.send(message.to_string().into()).await.map_err(|_| Unanswered::NoWay)
    }

    /// Asks the client something, and waits for its result (revisions up to 2025-11-25).
    ///
    /// # Errors
    ///
    /// [`Unanswered`].
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Value,
        patience: Duration,
    ) -> Result<Box<RawValue>, Unanswered> {
        let sender = self.sender.as_ref().ok_or(Unanswered::NoWay)?;
        let question = self.questions.ask(self.caller.owner()).ok_or(Unanswered::TooMany)?;
        let message = json!({ "jsonrpc": "2.0", "id": question.id(), "method": method, "params": params });
        sender.try_send(message.to_string().into()).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unanswered::TooMany,
            mpsc::error::TrySendError::Closed(_) => Unanswered::NoWay,
        })?;
        timeout(patience, question.answer()).await.unwrap_or(Err(Unanswered::TooLate(patience)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_question_is_sent_and_its_answer_awaited() {
        let questions = Arc::<Questions>::default();
        let (outbox, mut mailbox) = Outbox::new(Arc::clone(&questions));
        let asked = tokio::spawn(async move {
            let answer = outbox.ask("roots/list", &json!({}), PATIENCE).await;
            (answer.map(|result| result.get().to_owned()), outbox)
        });
        let sent: Value = serde_json::from_slice(&mailbox.recv().await.unwrap()).unwrap();
        assert_eq!(sent["method"], "roots/list");
        let id = sent["id"].as_str().unwrap();
        assert!(!questions.answer("another", None, Ok(RawValue::NULL.to_owned())));
        assert!(questions.answer(
            id,
            None,
            serde_json::from_str(r#"{"roots": [ ]}"#).map_err(|_| unreachable!())
        ));
        assert!(!questions.answer(id, None, Ok(RawValue::NULL.to_owned())), "one answer to a question");
        let (answer, outbox) = asked.await.unwrap();
        assert_eq!(answer.unwrap(), r#"{"roots": [ ]}"#);

        let refused = rmcp::model::ErrorData::new(ErrorCode::INVALID_REQUEST, "no", None);
        let nothing = json!({});
        let (answer, ()) = tokio::join!(outbox.ask("roots/list", &nothing, PATIENCE), async {
            let sent: Value = serde_json::from_slice(&mailbox.recv().await.unwrap()).unwrap();
            questions.answer(sent["id"].as_str().unwrap(), None, Err(refused));
        });
        assert_eq!(
            answer.unwrap_err(),
            Unanswered::Refused { code: ErrorCode::INVALID_REQUEST, message: "no".to_owned() }
        );

        assert_eq!(
            outbox.ask("roots/list", &json!({}), PATIENCE).await.unwrap_err(),
            Unanswered::TooLate(PATIENCE)
        );
        drop(mailbox);
        assert_eq!(outbox.ask("x", &json!({}), PATIENCE).await.unwrap_err(), Unanswered::NoWay);
        let closed = Outbox::closed(questions);
        assert_eq!(closed.ask("x", &json!({}), PATIENCE).await.unwrap_err(), Unanswered::NoWay);
    }
}
