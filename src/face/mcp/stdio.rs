//! MCP over the pipes of a process: a message a line, both ways, and many requests at once (2026-07-28 and 2025-11-25,
//! Transports, "stdio").
//!
//! A client of the older era says at `initialize` what it speaks and what it is capable of; here that is kept for the
//! connection. One of the newer era says so in every request, and needs no handshake.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderValue, request::Parts};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{
    Mcp,
    answer::Answer,
    carrier::Carrier,
    client::Outbox,
    decode::{self, Message},
    header::{PROTOCOL_VERSION, SESSION_ID},
    protocol::Protocol,
    refusal::Refusal,
    revision::Revision,
    session::Session,
    subscriptions,
};
use crate::{
    face::{Arrival, Ending, Shutdown},
    gateway::Face,
    observe::RequestId,
    upstream::Caller,
};

/// How many requests may be in flight at once; one more is refused, so that cancellations and answers are still read.
const IN_FLIGHT_LIMIT: usize = 256;

/// A line that a client wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// What stood in it, without its end.
    Whole(Vec<u8>),
    /// It is longer than a message may be; the rest was passed over.
    TooLong {
        /// How long it may be.
        limit_bytes: usize,
    },
}

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Parted {
    /// Every request was answered, or is of no more use to anybody.
    Clean,
    /// The client said nothing more, and the drain timeout was over before all of its requests were answered.
    CutOff {
        /// How many were not.
        requests: usize,
    },
}

impl Mcp {
    /// Speaks with one client: takes its lines, and puts what it is to be told into `out`, each without a line break.
    ///
    /// After its last line, requests in flight may take as long as `drain`. They are cancelled when `stop` is ready, and
    /// when nobody takes what is put into `out` any more.
    pub async fn converse(
        &self,
        mut lines: mpsc::Receiver<Line>,
        out: mpsc::Sender<Bytes>,
        drain: Duration,
        stop: impl Future<Output = ()>,
    ) -> Parted {
        let mut stop = pin!(stop);
        let gone = out.clone();
        let mut gone = pin!(gone.closed());
        let mut conversation = Conversation::new(Arc::clone(&self.protocol), out);
        loop {
            let line = tokio::select! {
                biased;
                () = &mut stop => return Parted::Clean,
                () = &mut gone => return Parted::Clean,
                // Room for others, and what they have said.
                Some(_) = conversation.running.join_next() => continue,
                line = lines.recv() => line,
            };
            match line {
                None => break,
                Some(Line::Whole(message)) if message.trim_ascii().is_empty() => {}
                Some(Line::Whole(message)) => {
                    conversation.take(message).await;
                    conversation.tell_changes();
                }
                Some(Line::TooLong { limit_bytes }) => {
                    let words = format!("a message may have {limit_bytes} bytes, and this one has more");
                    conversation.refuse(None, Refusal::NotAMessage(words.into())).await;
                }
            }
        }
        conversation.ending.send_replace(Shutdown::Begun);
        let all_answered = async { while conversation.running.join_next().await.is_some() {} };
        let ended = tokio::select! {
            biased;
            () = &mut stop => return Parted::Clean,
            () = &mut gone => return Parted::Clean,
            ended = timeout(drain, all_answered) => ended,
        };
        match ended {
            Ok(()) => Parted::Clean,
            Err(_) => Parted::CutOff { requests: conversation.running.len() },
        }
    }
}

/// One client. Dropping it cancels what it waits for.
struct Conversation {
    protocol: Arc<Protocol>,
    out: mpsc::Sender<Bytes>,
    said: Arc<Said>,
    /// Told when the client says nothing more: what would never end by itself ends then.
    ending: watch::Sender<Shutdown>,
    running: JoinSet<()>,
    /// The requests in flight that have an id, by that.
    cancellable: HashMap<String, AbortHandle>,
    /// What tells a client of the older era of changes, and the session that it is told for.
    telling: JoinSet<()>,
    told_for: Option<HeaderValue>,
}

/// What a client said at its handshake: what each of its requests would carry in its headers over HTTP.
#[derive(Debug, Default)]
struct Said(Mutex<Option<Handshake>>);

#[derive(Debug, Clone)]
struct Handshake {
    revision: HeaderValue,
    session: HeaderValue,
}

impl Conversation {
    fn new(protocol: Arc<Protocol>, out: mpsc::Sender<Bytes>) -> Self {
        let (said, running) = (Arc::default(), JoinSet::new());
        let (ending, _) = watch::channel(Shutdown::Serving);
        Self {
            protocol,
            out,
            said,
            ending,
            running,
            cancellable: HashMap::new(),
            telling: JoinSet::new(),
            told_for: None,
        }
    }

    async fn take(&mut self, message: Vec<u8>) {
        self.cancellable.retain(|_, running| !running.is_finished());
        let (id, wants_answer) = match decode::message(&message) {
            Ok(Message::Request(request)) => (Some(key(request.id.as_json())), true),
            Ok(Message::Notification) => {
                if let Some(id) = decode::cancelled(&message) {
                    self.cancel(&key(id.as_json()));
                    return;
                }
                (None, false)
            }
            // An answer that comes too late is no request: it gets none itself.
            Ok(Message::Response { .. }) => (None, false),
            Err(_) => (None, true),
        };
        if self.running.len() >= IN_FLIGHT_LIMIT && wants_answer {
            return self.refuse(Some(&message), Refusal::TooManyRequests { limit: IN_FLIGHT_LIMIT }).await;
        }
        let mut answering = Box::pin(answer(
            Arc::clone(&self.protocol),
            self.head(),
            message,
            self.out.clone(),
            Arc::clone(&self.said),
            wants_answer,
        ));
        // The beginning of it in the order of the lines: what is said after a handshake finds it done.
        if poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await.is_pending() {
            let running = self.running.spawn(answering);
            if let Some(id) = id {
                self.cancellable.insert(id, running);
            }
        }
    }

    /// What stands beside a message.
    fn head(&self) -> Parts {
        let mut head = self.said.head();
        let ending = Some(Ending::new(self.ending.subscribe()));
        head.extensions.insert(Arc::new(Arrival { ending, ..Arrival::default() }));
        head
    }

    /// From its handshake on, a client of the older era is told what changes without asking for it: over HTTP it opens a
    /// stream, and here is one.
    fn tell_changes(&mut self) {
        let session = self.said.session();
        if session == self.told_for {
            return;
        }
        self.telling.abort_all();
        self.told_for.clone_from(&session);
        let Some(session) = session else { return };
        let (protocol, out) = (Arc::clone(&self.protocol), self.out.clone());
        let Ok(session) = session.to_str() else { return };
        let Ok((place, closed)) = protocol.streams.place_of(session, &Caller::Only) else { return };
        // From now on: what changes after the next answer is not missed.
        let listener = protocol.gateway.changes().listen();
        let subscribed = protocol.subscribed.listen(&protocol.gateway, session);
        self.telling.spawn(async move {
            let (outbox, mut mailbox) = Outbox::new(Arc::clone(&protocol.questions));
            let audience = subscriptions::Audience { gateway: &protocol.gateway, caller: Caller::Only };
            let telling =
                subscriptions::tell_session(listener, &outbox, &audience, &place, subscribed, closed);
            let mut telling = pin!(telling);
            loop {
                let told = tokio::select! {
                    () = &mut telling => return,
                    Some(told) = mailbox.recv() => told,
                };
                if out.send(in_one_line(told.into())).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Ends a request whose client does not wait for it any more; it is told nothing more of it.
    fn cancel(&mut self, id: &str) {
        if let Some(running) = self.cancellable.remove(id) {
            running.abort();
        }
    }

    /// Answers a request that nothing is done for.
    async fn refuse(&self, request: Option<&[u8]>, refusal: Refusal) {
        let head = self.head();
        let carrier = Carrier::Pipe(&head);
        let (id, method) = match request.map(decode::message) {
            Some(Ok(Message::Request(request))) => (Some(request.id), Some(request.method)),
            Some(Ok(Message::Notification | Message::Response { .. }) | Err(_)) | None => (None, None),
        };
        let assumed = carrier.revision().unwrap_or(Revision::R2026_07_28);
        let answer = self.protocol.refuse(carrier, id, method.as_deref(), assumed, &refusal);
        // Nobody reads any more: the conversation is about to end.
        let _ = self.out.send(in_one_line(answer.into_body())).await;
    }
}

/// Two writings of one id are the same id.
fn key(id: &str) -> String {
    serde_json::from_str::<Value>(id).map_or_else(|_| id.to_owned(), |id| id.to_string())
}

impl Said {
    /// What stands beside a message.
    fn head(&self) -> Parts {
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.extensions.insert(RequestId::next());
        head.extensions.insert(Face::Stdio);
        head.extensions.insert(Caller::Only);
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(Handshake { revision, session }) = said {
            head.headers.insert(PROTOCOL_VERSION, revision);
            head.headers.insert(SESSION_ID, session);
        }
        head
    }

    /// The session of the latest handshake.
    fn session(&self) -> Option<HeaderValue> {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.as_ref().map(|said| said.session.clone())
    }

    /// Keeps what a handshake was answered with.
    fn keep(&self, protocol: &Protocol, answer: &Answer) {
        let Some(id) = answer.session() else { return };
        let Ok(session) = Session::open(&protocol.seal, id, SystemTime::now()) else { return };
        if let (Ok(revision), Ok(session)) = (session.revision.parse(), id.parse()) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Handshake { revision, session });
        }
    }
}

/// Answers one message, what it has to say before that included.
async fn answer(
    protocol: Arc<Protocol>,
    head: Parts,
    message: Vec<u8>,
    out: mpsc::Sender<Bytes>,
    said: Arc<Said>,
    wants_answer: bool,
) {
    let (outbox, mut mailbox) = Outbox::new(Arc::clone(&protocol.questions));
    let mut answering = pin!(protocol.take(Carrier::Pipe(&head), &message, &outbox));
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut answering => break answer,
            Some(told) = mailbox.recv() => {
                if out.send(in_one_line(told.into())).await.is_err() {
                    return;
                }
            }
        }
    };
    // What was told before the result goes before it.
    while let Ok(told) = mailbox.try_recv() {
        if out.send(in_one_line(told.into())).await.is_err() {
            return;
        }
    }
    if let Some(answer) = answer.filter(|_| wants_answer) {
        said.keep(&protocol, &answer);
        // Nobody reads any more: the conversation is about to end.
        let _ = out.send(in_one_line(answer.into_body())).await;
    }
}

/// JSON with its line breaks as spaces: an upstream's own may stand in a result, and inside of a string JSON has none.
fn in_one_line(mut json: Vec<u8>) -> Bytes {
    for byte in &mut json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    json.into()
}
