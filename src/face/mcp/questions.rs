//! Questions of ours to clients of the older era, which answer with a message of its own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::ErrorData;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{client::Unanswered, peer::Peers};
use crate::seal::random_id;

/// How many questions may wait for an answer at once, of all clients.
const LIMIT: usize = 10_000;

/// What a client answered.
pub(super) type Answered = Result<Box<RawValue>, ErrorData>;

/// The questions that wait for an answer in this process.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Gives them their ids, where other replicas shall be able to read those.
    peers: Option<Peers>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Answered>>>,
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

    /// A question under an id that nobody can guess. `None` when too many wait.
    pub(super) fn ask(self: &Arc<Self>) -> Option<Question> {
        let (sender, answer) = oneshot::channel();
        let id = self.name();
        let mut waiting = self.waiting();
        if waiting.len() >= LIMIT {
            return None;
        }
        waiting.insert(id.clone(), sender);
        Some(Question { id, answer, all: Arc::clone(self) })
    }

    /// Hands an answer to whoever waits for it; whether anybody does.
    pub(super) fn answer(&self, id: &str, answered: Answered) -> bool {
        let asked = self.waiting().remove(id);
        asked.is_some_and(|asked| asked.send(answered).is_ok())
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Answered>>> {
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
