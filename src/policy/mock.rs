//! A service that answers after a while, for tests under a paused clock.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, uri::PathAndQuery};
use tower::{Service, util::BoxCloneSyncService};

use crate::{
    reply::Reply,
    route::{HttpRequest, Under, UpstreamName},
    upstream::{Ask, Due, UpstreamError},
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

pub(super) fn answering_after(
    delay: Duration,
    inside: &Inside,
) -> BoxCloneSyncService<Ask, Reply, UpstreamError> {
    struct Leave(Inside);
    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let inside = inside.clone();
    let service = tower::service_fn(move |_: Ask| {
        let inside = inside.clone();
        async move {
            let _leave = Leave(inside.enter());
            tokio::time::sleep(delay).await;
            let reply = Reply::new(StatusCode::OK, HeaderMap::new(), Bytes::new());
            Ok::<_, Infallible>(reply)
        }
    });
    let service = tower::ServiceExt::map_err(service, |never: Infallible| match never {});
    BoxCloneSyncService::new(service)
}

/// A service that answers at once, with one thing after the other.
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

impl Service<Ask> for Script {
    type Response = Reply;
    type Error = UpstreamError;
    type Future = std::future::Ready<Result<Reply, UpstreamError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut ask: Ask) -> Self::Future {
        let mut lines = self.0.lock().unwrap();
        lines.asked += 1;
        lines.headers = ask.request.headers_mut().cloned().unwrap_or_default();
        std::future::ready(lines.left.pop_front().expect("the script has an answer"))
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

/// Calls a fresh clone, as the gateway does.
pub(super) async fn call<S>(service: &S, ask: Ask) -> Result<Reply, UpstreamError>
where
    S: Service<Ask, Response = Reply, Error = UpstreamError> + Clone,
{
    tower::ServiceExt::oneshot(service.clone(), ask).await
}
