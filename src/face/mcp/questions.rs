//! Questions of ours to clients of the older era, which answer with a message of its own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::ErrorData;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{client::Unanswered, peer::Peers};
use crate::crypto::random_id;

/// How many questions may wait for an answer at once, of all clients.
const LIMIT: usize = 10_000;

/// What a client answered.
pub(super) type Answered = Result<Box<RawValue>, ErrorData>;

/// The questions that wait for an answer in this process.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Gives them their ids, where other replicas shall be able to read those.
    peers: Option<Peers>,
    waiting: Mutex<HashMap<String, Waiting>>,
}

/// What waits for an answer.
#[derive(Debug)]
struct Waiting {
    /// Whose answer is taken, where clients are told apart.
    owner: Option<Box<str>>,
    answer: oneshot::Sender<Answered>,
}

/// One of them; it is withdrawn when this is dropped.
#[derive(Debug)]
pub(super) struct Question {
    id: String,
    answer: oneshot::Receiver<Answered>,
    all: Arc<Questions>,
}

impl Questions {
    /// None yet, of a server that has these other replicas.
    pub(super) fn among(peers: Peers) -> Self {
        Self { peers: Some(peers), waiting: Mutex::default() }
    }

    /// The other replicas.
    pub(super) fn peers(&self) -> Option<&Peers> {
        self.peers.as_ref()
    }

    /// A name that nobody can guess, and by which other replicas find this one.
    pub(super) fn name(&self) -> String {
        self.peers.as_ref().map_or_else(random_id, Peers::name)
    }

    /// A question to a client, under an id that nobody can guess. `None` when too many wait.
    pub(super) fn ask(self: &Arc<Self>, owner: Option<&str>) -> Option<Question> {
        let (sender, answer) = oneshot::channel();
        let id = self.name();
        let mut waiting = self.waiting();
        if waiting.len() >= LIMIT {
            return None;
        }
        waiting.insert(id.clone(), Waiting { owner: owner.map(Box::from), answer: sender });
        Some(Question { id, answer, all: Arc::clone(self) })
    }

    /// Hands an answer to whoever waits for it; whether anybody does, of this client.
    pub(super) fn answer(&self, id: &str, owner: Option<&str>, answered: Answered) -> bool {
        let mut waiting = self.waiting();
        if waiting.get(id).is_none_or(|asked| asked.owner.as_deref() != owner) {
            return false;
        }
        waiting.remove(id).is_some_and(|asked| asked.answer.send(answered).is_ok())
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    /// The id of the request that asks it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the answer.
    pub(super) async fn answer(mut self) -> Result<Box<RawValue>, Unanswered> {
        match (&mut self.answer).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => {
                Err(Unanswered::Refused { code: error.code, message: error.message.into_owned() })
            }
            Err(_) => Err(Unanswered::NoWay),
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.all.waiting().remove(&self.id);
    }
}
