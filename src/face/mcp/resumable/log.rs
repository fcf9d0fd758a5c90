//! What was said on one stream, and how it is read from some event on.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::Frame;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::face::mcp::stream::{self, KEEP_ALIVE};

/// How many messages of one stream are kept, the result aside; the oldest go first.
pub(super) const MESSAGES_LIMIT: usize = 256;

/// How long those of one stream are together, in bytes.
const MESSAGES_LIMIT_BYTES: usize = 1 << 20;

/// One stream that its client may come back to.
#[derive(Debug)]
pub(super) struct Resumable {
    pub(super) name: String,
    pub(super) session: Box<str>,
    pub(super) log: watch::Sender<Log>,
}

/// What was said on a stream, and who reads it.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The number of the first event that is kept.
    first: u64,
    events: VecDeque<Bytes>,
    pub(super) bytes: usize,
    /// Nothing more will be said.
    pub(super) is_over: bool,
    /// Its session is.
    pub(super) is_closed: bool,
    /// How many have read it; the last of them does.
    readers: u64,
    /// Whether that one is still there.
    is_read: bool,
}

/// A body of events from some event on. Dropping it leaves the stream to the client's next connection.
struct Reading {
    resumable: Arc<Resumable>,
    reader: u64,
    life: Option<Instant>,
    following: Pin<Box<dyn Future<Output = Following> + Send>>,
}

/// What comes next on a stream.
enum Following {
    Event(u64, Bytes),
    Silence(u64),
    End,
}

impl Resumable {
    /// Adds a message.
    pub(super) fn say(&self, message: &[u8]) {
        self.push(|id| stream::as_event(Some(id), message));
        self.log.send_if_modified(|log| {
            while log.events.len() > MESSAGES_LIMIT || log.bytes > MESSAGES_LIMIT_BYTES {
                let Some(oldest) = log.events.pop_front() else { break };
                log.bytes -= oldest.len();
                log.first += 1;
            }
            false
        });
    }

    pub(super) fn push(&self, event: impl FnOnce(&str) -> Vec<u8>) {
        self.log.send_modify(|log| {
            let event = event(&format!("{}.{}", self.name, log.end()));
            log.bytes += event.len();
            log.events.push_back(event.into());
        });
    }

    /// Ready when nobody has read for so long, or its session is over.
    pub(super) async fn abandoned(&self, patience: Duration) {
        let mut log = self.log.subscribe();
        loop {
            let closed = match log.wait_for(|log| log.is_closed || !log.is_read).await {
                Ok(log) => log.is_closed,
                Err(_) => true,
            };
            if closed {
                return;
            }
            tokio::select! {
                () = sleep(patience) => return,
                _ = log.wait_for(|log| log.is_closed || log.is_read) => {}
            }
        }
    }

    /// What comes after so many events, for a reader who is not the last one any more where another has come.
    async fn following(self: Arc<Self>, reader: u64, next: u64, life: Option<Instant>) -> Following {
        let mut log = self.log.subscribe();
        let changed =
            log.wait_for(|log| log.readers != reader || log.is_closed || log.is_over || log.end() > next);
        let life_is_over = async {
            match life {
                Some(life) => sleep_until(life).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            log = changed => match log {
                Ok(log) if log.readers == reader && !log.is_closed => log.event(next),
                Ok(_) | Err(_) => Following::End,
            },
            () = life_is_over => Following::End,
            () = sleep(KEEP_ALIVE.0) => Following::Silence(next),
        }
    }
}

impl Log {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Whether nothing has been forgotten from this event on.
    pub(super) fn keeps(&self, next: u64) -> bool {
        (self.first..=self.end()).contains(&next)
    }

    /// An event, or the first after it that is kept.
    fn event(&self, next: u64) -> Following {
        let number = next.max(self.first);
        let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        match self.events.get(index) {
            Some(event) => Following::Event(number + 1, event.clone()),
            None => Following::End,
        }
    }
}

pub(super) fn read(resumable: Arc<Resumable>, next: u64, life: Option<Instant>) -> Response<Body> {
    let mut reader = 0;
    resumable.log.send_modify(|log| {
        log.readers += 1;
        log.is_read = true;
        reader = log.readers;
    });
    let following = Box::pin(Arc::clone(&resumable).following(reader, next, life));
    stream::as_stream(Response::new(Body::new(Reading { resumable, reader, life, following })))
}

impl http_body::Body for Reading {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (next, bytes) = match ready!(self.following.as_mut().poll(context)) {
            Following::Event(next, event) => (next, event),
            Following::Silence(next) => (next, Bytes::from_static(KEEP_ALIVE.1)),
            Following::End => return Poll::Ready(None),
        };
        let resumable = Arc::clone(&self.resumable);
        self.following = Box::pin(resumable.following(self.reader, next, self.life));
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let reader = self.reader;
        self.resumable.log.send_if_modified(|log| {
            let was_last = log.readers == reader;
            log.is_read &= !was_last;
            was_last
        });
    }
}
