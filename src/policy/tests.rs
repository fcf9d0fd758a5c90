//! Test helpers: scripted upstreams under a paused clock.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, uri::PathAndQuery};
use parking_lot::Mutex;

use crate::model::UpstreamResponse;
use crate::route::{HttpRequest, PathBase, UpstreamName};
use crate::upstream::{Deadline, Failure, UpstreamCall, UpstreamResult};

/// Number of requests in flight at a scripted upstream.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlightCount(Arc<AtomicUsize>);

impl InFlightCount {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn enter(&self) -> CountedRequest {
        self.0.fetch_add(1, Ordering::SeqCst);
        CountedRequest(self.clone())
    }
}

struct CountedRequest(InFlightCount);

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) fn name() -> UpstreamName {
    "old".parse().unwrap()
}

pub(super) fn upstream_call(deadline: Duration) -> UpstreamCall {
    let request = HttpRequest::get(PathBase::UpstreamUrl, PathAndQuery::from_static("/"));
    UpstreamCall::new(request.into(), 100, Deadline::after(deadline), true)
}

/// Upstream with scripted results.
#[derive(Debug, Clone)]
pub(super) struct Script(Arc<Mutex<ScriptState>>);

#[derive(Debug)]
struct ScriptState {
    /// Next results. After the last of them, `repeated` is returned each time.
    remaining: VecDeque<UpstreamResult>,
    repeated: Option<UpstreamResult>,
    delay: Duration,
    in_flight: InFlightCount,
    request_count: usize,
    headers: HeaderMap,
}

/// Upstream that responds with this status after a delay.
pub(super) fn slow(code: u16, delay: Duration, in_flight: &InFlightCount) -> Script {
    let script = Script::new([]);
    {
        let mut state = script.0.lock();
        (state.repeated, state.delay, state.in_flight) = (Some(status(code)), delay, in_flight.clone());
    }
    script
}

/// Upstream that responds 200 after a delay.
pub(super) fn answering_after(delay: Duration, in_flight: &InFlightCount) -> Script {
    slow(200, delay, in_flight)
}

impl Script {
    /// Upstream that responds immediately with these results in turn.
    pub(super) fn new(outcomes: impl IntoIterator<Item = UpstreamResult>) -> Self {
        Self(Arc::new(Mutex::new(ScriptState {
            remaining: outcomes.into_iter().collect(),
            repeated: None,
            delay: Duration::ZERO,
            in_flight: InFlightCount::default(),
            request_count: 0,
            headers: HeaderMap::new(),
        })))
    }

    /// Headers of the last request.
    pub(super) fn last_headers(&self) -> HeaderMap {
        self.0.lock().headers.clone()
    }

    /// Number of requests.
    pub(super) fn upstream_calls(&self) -> usize {
        self.0.lock().request_count
    }

    pub(super) async fn send(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        let (outcome, delay, _in_flight) = {
            let mut state = self.0.lock();
            state.request_count += 1;
            state.headers = upstream_call.request.headers().cloned().unwrap_or_default();
            let outcome = state.remaining.pop_front().or_else(|| state.repeated.clone());
            (outcome.expect("the script has an answer"), state.delay, state.in_flight.enter())
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        outcome
    }
}

/// Connection failure.
pub(super) fn failed() -> UpstreamResult {
    Err(Failure::Connect("refused".into()))
}

/// Response with this status.
pub(super) fn status(code: u16) -> UpstreamResult {
    let status = StatusCode::from_u16(code).unwrap();
    Ok(UpstreamResponse::new(status, HeaderMap::new(), Bytes::new()))
}
