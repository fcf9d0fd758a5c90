//! Streams that outlive their connection (MCP up to 2025-11-25, Transports, "Resumability and Redelivery").
//!
//! A call goes on for a while when its client's connection breaks. Everything that it says has an id, under which the
//! client asks for the rest by a connection of its own, at any replica. In reading order: [`Resumables`] are the streams of this replica; the `log` of one is what was said on
//! it.

mod log;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use tokio::{sync::watch, time::Instant};

use self::log::{Log, Resumable, read};
use super::{
    client::Mailbox,
    questions::Questions,
    revision::Revision,
    stream::{self, Answering},
};

/// How many streams are kept at once; further ones end with their connection.
const STREAMS_LIMIT: usize = 1024;

/// How long all streams are together that are at their end and have been read, in bytes; what is more is not kept for
/// clients that have not heard the last of it.
const READ_LIMIT_BYTES: usize = 16 << 20;

/// How long a client should wait before it comes back.
const RETRY: Duration = Duration::from_secs(1);

/// The streams of this replica that clients may come back to.
#[derive(Debug)]
pub(in crate::face::mcp) struct Resumables {
    settings: ResumeSettings,
    questions: Arc<Questions>,
    streams: Mutex<HashMap<String, Arc<Resumable>>>,
    read_bytes: AtomicUsize,
}

/// How patiently streams wait for their clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeSettings {
    /// How long a stream waits for a client that has left it; none waits where this is zero.
    pub patience: Duration,
    /// How long one connection carries a stream, for clients that know how to come back; as long as it takes where
    /// there is none.
    pub connection_life: Option<Duration>,
}

impl Default for ResumeSettings {
    fn default() -> Self {
        Self { patience: Duration::from_secs(15), connection_life: None }
    }
}

impl Resumables {
    pub(in crate::face::mcp) fn new(settings: ResumeSettings, questions: Arc<Questions>) -> Self {
        Self { settings, questions, streams: Mutex::default(), read_bytes: AtomicUsize::new(0) }
    }

    /// The response to a request of a session: a stream that says `first`, what else comes into the mailbox, and then
    /// what `answering` gives.
    pub(in crate::face::mcp) fn respond(
        self: &Arc<Self>,
        session: &str,
        revision: Revision,
        first: Option<Bytes>,
        mailbox: Mailbox,
        answering: Answering,
    ) -> Response<Body> {
        let Some(resumable) = self.begin(session) else {
            return stream::respond(first, mailbox, answering);
        };
        let knows_to_return = revision.is_primed();
        if knows_to_return {
            let retry = RETRY.as_millis();
            resumable.push(|id| format!("id: {id}\nretry: {retry}\ndata: \n\n").into_bytes());
        }
        if let Some(first) = first {
            resumable.say(&first);
        }
        let life =
            self.settings.connection_life.filter(|_| knows_to_return).map(|life| Instant::now() + life);
        let response = read(Arc::clone(&resumable), 0, life);
        tokio::spawn(Arc::clone(self).drive(resumable, mailbox, answering));
        response
    }

    /// The rest of a stream of a session, after the event of this id. `None` where there is no such stream here.
    pub(in crate::face::mcp) fn resume(&self, session: &str, id: &str) -> Option<Response<Body>> {
        let (name, number) = id.rsplit_once('.')?;
        let number: u64 = number.parse().ok()?;
        let resumable = self.streams().get(name).filter(|found| *found.session == *session).cloned()?;
        let next = number.checked_add(1).filter(|next| resumable.log.borrow().keeps(*next))?;
        let life = self.settings.connection_life.map(|life| Instant::now() + life);
        Some(read(resumable, next, life))
    }

    /// Ends all streams of a session, and what they wait for.
    pub(in crate::face::mcp) fn end_of(&self, session: &str) {
        self.streams().values().filter(|stream| *stream.session == *session).for_each(|stream| {
            stream.log.send_modify(|log| log.is_closed = true);
        });
    }

    /// Whether streams wait for clients at all.
    pub(in crate::face::mcp) fn are_kept(&self) -> bool {
        self.settings.patience > Duration::ZERO
    }

    fn begin(&self, session: &str) -> Option<Arc<Resumable>> {
        let mut streams = self.streams();
        if streams.len() >= STREAMS_LIMIT {
            return None;
        }
        // Another replica can tell from it where the stream is.
        let name = self.questions.name();
        let (log, _) = watch::channel(Log::default());
        let resumable = Arc::new(Resumable { name: name.clone(), session: session.into(), log });
        streams.insert(name, Arc::clone(&resumable));
        Some(resumable)
    }

    /// Notes what a call says until it is over, or its client has been away for too long; and keeps that for a while.
    async fn drive(
        self: Arc<Self>,
        resumable: Arc<Resumable>,
        mut mailbox: Mailbox,
        mut answering: Answering,
    ) {
        let patience = self.settings.patience;
        let saying = async {
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answering => {
                        mailbox.close();
                        // What was said just before the result goes before it too.
                        while let Some(message) = mailbox.recv().await {
                            resumable.say(&message);
                        }
                        if let Some(answer) = answer {
                            // Whatever else goes, this stays.
                            resumable.push(|id| stream::as_event(Some(id), &answer.into_body()));
                        }
                        break;
                    }
                    Some(message) = mailbox.recv() => resumable.say(&message),
                }
            }
        };
        let is_said = tokio::select! {
            () = saying => true,
            () = resumable.abandoned(patience) => false,
        };
        // Now the call ends, if it has not.
        drop(answering);
        let mut bytes = 0;
        resumable.log.send_modify(|log| {
            log.is_over = true;
            bytes = log.bytes;
        });
        let all = self.read_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if is_said {
            let patience = if all > READ_LIMIT_BYTES { Duration::ZERO } else { patience };
            resumable.abandoned(patience).await;
        }
        self.read_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.streams().remove(&resumable.name);
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<String, Arc<Resumable>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
