//! What answers after a while, for tests under a paused clock.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, uri::PathAndQuery};

use crate::{
    reply::Reply,
    route::{HttpRequest, Under, UpstreamName},
    upstream::{Answers, Ask, Due, UpstreamError},
};

/// How many calls are in the mock right now.
#[derive(Debug, Clone, Default)]
pub(super) struct Inside(Arc<AtomicUsize>);

impl Inside {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn enter(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.clone()
    }
}

pub(super) fn name() -> UpstreamName {
    "old".parse().unwrap()
}

pub(super) fn ask(deadline: Duration) -> Ask {
    let request = HttpRequest {
        method: Method::GET,
        under: Under::Address,
        path_and_query: PathAndQuery::from_static("/"),
        headers: HeaderMap::new(),
        body: Bytes::new(),
    };
    Ask::new(request.into(), 100, Due::after(deadline), true)
}

/// What gives a reply of this status after a while.
#[derive(Debug, Clone)]
pub(super) struct Slow {
    pub(super) code: u16,
    pub(super) delay: Duration,
    pub(super) inside: Inside,
}

pub(super) fn answering_after(delay: Duration, inside: &Inside) -> Slow {
    Slow { code: 200, delay, inside: inside.clone() }
}

impl Answers for Slow {
    async fn answer(&self, _: &Ask) -> Result<Reply, UpstreamError> {
        struct Leave(Inside);
        impl Drop for Leave {
            fn drop(&mut self) {
                self.0.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let _leave = Leave(self.inside.enter());
        tokio::time::sleep(self.delay).await;
        status(self.code)
    }
}

/// What answers at once, with one thing after the other.
#[derive(Debug, Clone)]
pub(super) struct Script(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    left: VecDeque<Result<Reply, UpstreamError>>,
    asked: usize,
    headers: HeaderMap,
}

impl Script {
    pub(super) fn new(outcomes: impl IntoIterator<Item = Result<Reply, UpstreamError>>) -> Self {
        Self(Arc::new(Mutex::new(Lines {
            left: outcomes.into_iter().collect(),
            asked: 0,
            headers: HeaderMap::new(),
        })))
    }

    /// What it was sent last.
    pub(super) fn last_headers(&self) -> HeaderMap {
        self.0.lock().unwrap().headers.clone()
    }

    /// How often it was asked.
    pub(super) fn asked(&self) -> usize {
        self.0.lock().unwrap().asked
    }
}

impl Answers for Script {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let mut lines = self.0.lock().unwrap();
        lines.asked += 1;
        lines.headers = ask.request.headers().cloned().unwrap_or_default();
        lines.left.pop_front().expect("the script has an answer")
    }
}

/// No connection.
pub(super) fn failed() -> Result<Reply, UpstreamError> {
    Err(UpstreamError::Connect { upstream: name(), source: "refused".into() })
}

/// A reply of this status.
pub(super) fn status(code: u16) -> Result<Reply, UpstreamError> {
    let status = StatusCode::from_u16(code).unwrap();
    Ok(Reply::new(status, HeaderMap::new(), Bytes::new()))
}

/// Calls it.
pub(super) async fn call(guarded: &impl Answers, ask: Ask) -> Result<Reply, UpstreamError> {
    guarded.answer(&ask).await
}
