//! Streams of server-sent events (SSE) that outlive their connection (MCP up to 2025-11-25, Transports,
//! "Resumability and Redelivery").
//!
//! A call continues for a while after the connection of its client is lost. Its messages are numbered events.
//! The client can fetch the events after its `Last-Event-ID` over another connection, from any replica.
//!
//! - [`ResumableStreams`]: the resumable streams of this replica.
//! - [`EventLog`]: the events of one stream.
//! - [`read`]: the response that sends a stream on one connection.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{FutureExt, stream::unfold};
use http::{HeaderName, Response};
use parking_lot::Mutex;
use settings_derive::Section;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::response::KEEP_ALIVE;
use super::{MessageReceiver, PendingResponse, Replicas, Revision, response};
use crate::upstream::OnDrop;

/// Header with the id of the last event of a stream that the client has read (WHATWG HTML, "Server-sent
/// events", "The `Last-Event-ID` header").
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Error message for a stream that can't be resumed.
pub(super) const EVENTS_EXPIRED: &str =
    "`Last-Event-ID`: the events after this one are no longer stored; send the request again";

/// Maximum number of resumable streams. Further streams end with their connection.
const STREAMS_LIMIT: usize = 1024;

/// Maximum size of all finished streams together, in bytes. Beyond it, a finished stream is dropped as soon
/// as no client reads it.
const FINISHED_LIMIT_BYTES: usize = 16 << 20;

/// Maximum number of stored messages of one stream, without its result. The oldest are dropped first.
const MESSAGES_LIMIT: usize = 256;

/// Maximum size of the stored messages of one stream, without its result, in bytes.
const MESSAGES_LIMIT_BYTES: usize = 1 << 20;

/// The field `retry` of event streams: time after which a client reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// The streams of this replica that clients can resume.
#[derive(Debug)]
pub(super) struct ResumableStreams {
    settings: ResumeSettings,
    replicas: Arc<Replicas>,
    streams: Mutex<HashMap<String, Arc<ResumableStream>>>,
    finished_bytes: AtomicUsize,
}

/// Settings of resumable streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(id = "server", process, default)]
pub struct ResumeSettings {
    /// How long a call continues after its MCP client has lost the stream; the client can resume it in that
    /// time (revisions up to 2025-11-25). `0s` cancels the call at once.
    #[key(range = 0..=3_600_000, default = Duration::from_secs(15), restart)]
    pub stream_resume_timeout: Duration,
    /// Maximum duration of a connection that carries a resumable stream, for clients that reconnect: those of
    /// 2025-11-25, and older ones that have resumed the stream.
    #[key(range = 1_000..=24 * 3_600_000, shown = "no limit", restart)]
    pub max_stream_duration: Option<Duration>,
}

impl ResumableStreams {
    pub(super) fn new(settings: ResumeSettings, replicas: Arc<Replicas>) -> Self {
        Self { settings, replicas, streams: Mutex::default(), finished_bytes: AtomicUsize::new(0) }
    }

    /// Builds the response to a request in a session: a stream of the message `first`, the queued messages,
    /// and the result of `pending`.
    pub(super) fn respond(
        self: &Arc<Self>,
        session: &str,
        revision: Revision,
        first: Option<Bytes>,
        receiver: MessageReceiver,
        pending: PendingResponse,
    ) -> Response<Body> {
        let Some(resumable) = self.create_stream(session) else {
            return response::event_stream(first, receiver, pending);
        };
        let reconnects = revision.is_primed();
        if reconnects {
            let retry = RETRY.as_millis();
            resumable.push(|id| format!("id: {id}\nretry: {retry}\ndata: \n\n").into_bytes());
        }
        if let Some(first) = first {
            resumable.push_message(&first);
        }
        let expiry = self.expiry().filter(|_| reconnects);
        let response = read(Arc::clone(&resumable), 0, expiry);
        tokio::spawn(Arc::clone(self).drive(resumable, receiver, pending));
        response
    }

    /// Resumes a stream of a session after the event with this id. `None` if this replica does not have the
    /// stream, or no longer the next event.
    pub(super) fn resume(&self, session: &str, id: &str) -> Option<Response<Body>> {
        let (name, number) = id.rsplit_once('.')?;
        let number: u64 = number.parse().ok()?;
        let resumable =
            self.streams.lock().get(name).filter(|stream| *stream.session == *session).cloned()?;
        let is_stored = |next: &u64| {
            let log = resumable.log.borrow();
            (log.first..=log.next_number()).contains(next)
        };
        let next = number.checked_add(1).filter(is_stored)?;
        Some(read(resumable, next, self.expiry()))
    }

    /// Time at which a connection that is opened now must end.
    fn expiry(&self) -> Option<Instant> {
        self.settings.max_stream_duration.map(|duration| Instant::now() + duration)
    }

    /// Closes all streams of a session, and cancels their calls.
    pub(super) fn close_session(&self, session: &str) {
        self.streams.lock().values().filter(|stream| *stream.session == *session).for_each(|stream| {
            stream.log.send_modify(|log| log.is_closed = true);
        });
    }

    /// Creates a resumable stream. `None` if resuming is disabled, or if there are too many streams.
    fn create_stream(&self, session: &str) -> Option<Arc<ResumableStream>> {
        let mut streams = self.streams.lock();
        if self.settings.stream_resume_timeout.is_zero() || streams.len() >= STREAMS_LIMIT {
            return None;
        }
        // The name contains, encrypted, the URL of the replica that has the stream.
        let name = self.replicas.issue_id();
        let log = watch::Sender::default();
        let resumable = Arc::new(ResumableStream { name: name.clone(), session: session.into(), log });
        streams.insert(name, Arc::clone(&resumable));
        Some(resumable)
    }

    /// Records the messages of a call until its client has been disconnected for too long, or the call ends.
    /// The messages of a call that has ended remain stored until no client has read them for a while.
    async fn drive(
        self: Arc<Self>,
        resumable: Arc<ResumableStream>,
        receiver: MessageReceiver,
        mut pending: PendingResponse,
    ) {
        let resume_timeout = self.settings.stream_resume_timeout;
        let recording = async {
            let push = |message: Bytes| {
                resumable.push_message(&message);
                ready(Some(()))
            };
            let response = response::forward_messages((&mut pending).map(Some), receiver, push).await;
            if let Some(response) = response.flatten() {
                // The result must not be dropped, so no limit applies.
                resumable.push(|id| response::as_event(Some(id), &response.body));
            }
        };
        let is_complete = tokio::select! {
            () = recording => true,
            () = resumable.abandoned(resume_timeout) => false,
        };
        // Cancels the call, if it has not ended.
        drop(pending);
        let mut bytes = 0;
        resumable.log.send_modify(|log| {
            log.is_over = true;
            bytes = log.bytes;
        });
        let finished_bytes = self.finished_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if is_complete {
            let resume_timeout =
                if finished_bytes > FINISHED_LIMIT_BYTES { Duration::ZERO } else { resume_timeout };
            resumable.abandoned(resume_timeout).await;
        }
        self.finished_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.streams.lock().remove(&resumable.name);
    }
}

/// A stream that its client can resume.
#[derive(Debug)]
struct ResumableStream {
    name: String,
    session: Box<str>,
    log: watch::Sender<EventLog>,
}

/// The stored events of a stream, and the state of its readers.
#[derive(Debug, Default)]
struct EventLog {
    /// Number of the first stored event.
    first: u64,
    events: VecDeque<Bytes>,
    bytes: usize,
    /// Whether the stream is complete, so that no more events follow.
    is_over: bool,
    /// Whether the session has ended.
    is_closed: bool,
    /// Number of connections that have read the stream so far. The last one is the active reader.
    readers: u64,
    /// Whether the active reader is still connected.
    has_reader: bool,
}

impl ResumableStream {
    /// Adds a message, and drops the oldest messages beyond the limits, but not the message itself.
    fn push_message(&self, message: &[u8]) {
        self.push(|id| response::as_event(Some(id), message));
        self.log.send_if_modified(|log| {
            while log.events.len() > MESSAGES_LIMIT
                || log.bytes > MESSAGES_LIMIT_BYTES && log.events.len() > 1
            {
                let Some(oldest) = log.events.pop_front() else { break };
                log.bytes -= oldest.len();
                log.first += 1;
            }
            false
        });
    }

    fn push(&self, event: impl FnOnce(&str) -> Vec<u8>) {
        self.log.send_modify(|log| {
            let event = event(&format!("{}.{}", self.name, log.next_number()));
            log.bytes += event.len();
            log.events.push_back(event.into());
        });
    }

    /// Waits for the next event for a reader, and returns it with the number of the following event. `None`
    /// at the end of the stream, at `expiry`, or when another connection has become the reader.
    async fn event(&self, reader: u64, next: u64, expiry: Option<Instant>) -> Option<(Bytes, u64)> {
        let mut log = self.log.subscribe();
        let changed = log.wait_for(|log| {
            log.readers != reader || log.is_closed || log.is_over || log.next_number() > next
        });
        tokio::select! {
            biased;
            log = changed => log.ok().filter(|log| log.readers == reader && !log.is_closed)?.event(next),
            () = sleep_until(expiry.unwrap_or_else(Instant::now)), if expiry.is_some() => None,
            () = sleep(KEEP_ALIVE.0) => Some((Bytes::from_static(KEEP_ALIVE.1), next)),
        }
    }

    /// Completes when no client has read the stream for `resume_timeout`, or when the session has ended.
    async fn abandoned(&self, resume_timeout: Duration) {
        let mut log = self.log.subscribe();
        while log.wait_for(|log| log.is_closed || !log.has_reader).await.is_ok_and(|log| !log.is_closed) {
            tokio::select! {
                () = sleep(resume_timeout) => return,
                _ = log.wait_for(|log| log.is_closed || log.has_reader) => {}
            }
        }
    }
}

impl EventLog {
    /// The number of the next event.
    fn next_number(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Returns the event with the number `next`, or the first stored event after it, and the number of the
    /// following event.
    fn event(&self, next: u64) -> Option<(Bytes, u64)> {
        let number = next.max(self.first);
        let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        Some((self.events.get(index)?.clone(), number + 1))
    }
}

/// Builds the response that sends the events of a stream from `next` on, until `expiry`. After the response
/// is dropped, the client can continue on another connection.
fn read(resumable: Arc<ResumableStream>, next: u64, expiry: Option<Instant>) -> Response<Body> {
    let mut reader = 0;
    resumable.log.send_modify(|log| {
        log.readers += 1;
        log.has_reader = true;
        reader = log.readers;
    });
    let stream = Arc::clone(&resumable);
    let disconnect_guard =
        OnDrop::new(move || stream.log.send_modify(|log| log.has_reader &= log.readers != reader));
    let events =
        unfold((resumable, disconnect_guard, next), move |(resumable, disconnect_guard, next)| async move {
            let (event, next) = resumable.event(reader, next, expiry).await?;
            Some((Ok::<_, Infallible>(event), (resumable, disconnect_guard, next)))
        });
    response::as_stream(Body::from_stream(events))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::{crypto::TokenCipher, inbound::mcp::MessageSender};

    fn resumables(max_stream_duration: Option<Duration>) -> Arc<ResumableStreams> {
        let settings = ResumeSettings { max_stream_duration, ..ResumeSettings::default() };
        let replicas = Replicas { cipher: TokenCipher::random(), own_url: None, tls: None };
        Arc::new(ResumableStreams::new(settings, Arc::new(replicas)))
    }

    async fn read_body(response: Response<Body>) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// The ids of the events in a body.
    fn ids(body: &str) -> Vec<&str> {
        body.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_many_messages_stores_the_last_ones() {
        let resumables = resumables(None);
        let (sender, receiver) = MessageSender::new();
        let pending = Box::pin(async move {
            for _ in 0..2 * MESSAGES_LIMIT {
                sender.send("notifications/message", &serde_json::json!({})).await.unwrap();
            }
            std::future::pending().await
        });
        let response = resumables.respond("s", Revision::R2025_11_25, None, receiver, pending);
        let name = resumables.streams.lock().keys().next().unwrap().clone();
        // The paused clock only advances once all messages are recorded.
        sleep(Duration::from_millis(1)).await;
        assert!(resumables.resume("s", &format!("{name}.1")).is_none(), "long forgotten");
        let last = format!("{name}.{}", 2 * MESSAGES_LIMIT - 1);
        drop(resumables.resume("s", &last).unwrap());
        drop(response);
        sleep(Duration::from_secs(20)).await;
        assert!(resumables.streams.lock().is_empty(), "nobody came back");
    }

    #[tokio::test]
    async fn a_message_over_the_limit_is_sent() {
        let (sender, receiver) = MessageSender::new();
        let pending = Box::pin(async move {
            sender.notify("notifications/message", &serde_json::json!("x".repeat(MESSAGES_LIMIT_BYTES)));
            None
        });
        let response = resumables(None).respond("s", Revision::R2025_11_25, None, receiver, pending);
        assert!(read_body(response).await.len() > MESSAGES_LIMIT_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_before_its_stream_for_clients_that_come_back() {
        let resumables = resumables(Some(Duration::from_secs(5)));
        for (revision, comes_back) in [(Revision::R2025_11_25, true), (Revision::R2025_06_18, false)] {
            let (sender, receiver) = MessageSender::new();
            let pending = Box::pin(async move {
                sleep(Duration::from_secs(7)).await;
                sender.notify("notifications/done", &serde_json::json!({}));
                None
            });
            let started_at = Instant::now();
            let body = read_body(resumables.respond("s", revision, None, receiver, pending)).await;
            assert_eq!(body.contains("done"), !comes_back, "{body}");
            assert_eq!(started_at.elapsed().as_secs(), if comes_back { 5 } else { 7 });
            if comes_back {
                let rest = read_body(resumables.resume("s", ids(&body)[0]).unwrap()).await;
                assert!(rest.contains("done") && started_at.elapsed().as_secs() == 7, "{rest}");
            }
        }
    }
}
