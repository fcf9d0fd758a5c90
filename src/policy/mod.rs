//! Guards round every call of an upstream, one tower layer a file.
//!
//! From the outside in, and why:
//!
//! 1. [`Deadline`]: the promise to the caller, so it holds for everything below, waiting for a place included.
//! 2. [`Retry`]: what fails in passing is asked again, within the promise. Round all that follows, so that each
//!    attempt is judged, queued and timed as a call of its own, and no place is held while it waits.
//! 3. [`Breaker`]: turns calls away from an upstream that only fails. Round the queue, so that nobody waits for a
//!    place at a door that is shut.
//! 4. [`InFlight`]: protects the upstream. Inside the deadline, so that a call that gives up leaves the queue;
//!    round the upstream, so that a place is held exactly as long as a connection is.
//! 5. [`Attempt`]: the time of one attempt, in which waiting for a place does not count.
//!
//! What is handed through unread has the same gate, and limits of its own: [`Passthrough`].
//!
//! Each tells what it did as an [`UpstreamError`], so that the `gateway` has one kind of failure to put
//! into words. All of them share their state between clones; dropping a call's future gives back what it held.

mod attempt;
mod breaker;
mod deadline;
mod in_flight;
mod passthrough;
mod retry;
mod spread;

use std::{sync::Arc, time::Duration};

use tower::{Service, ServiceBuilder, util::BoxCloneSyncService};

use crate::{
    reply::Reply,
    upstream::{Ask, Upstream, UpstreamError},
};

pub use attempt::Attempt;
pub use breaker::{Breaker, BreakerSettings};
pub use deadline::Deadline;
pub use in_flight::{Gate, InFlight};
pub use passthrough::{Passthrough, PassthroughSettings, StreamedBody};
pub use retry::{Retry, RetrySettings};
pub use spread::spread;

/// A service that answers an [`Ask`] with a [`Reply`]: what a guard stands round, and is itself.
pub trait Answers: Service<Ask, Response = Reply, Error = UpstreamError, Future: Send + 'static> {}

impl<S> Answers for S where S: Service<Ask, Response = Reply, Error = UpstreamError, Future: Send + 'static> {}

/// An upstream with its guards. Clones share the guards' state.
pub type Guarded = BoxCloneSyncService<Ask, Reply, UpstreamError>;

/// How carefully one upstream is asked. The deadline is not here: it comes with each [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySettings {
    /// How many calls may be in flight at a time.
    pub in_flight_limit: usize,
    /// How many more may wait for a place; the next one is turned away at once.
    pub waiting_limit: usize,
    /// How long one may wait for a place before it is turned away.
    pub waiting_timeout: Duration,
    /// How long one attempt may take; as long as the call where there is none.
    pub attempt_timeout: Option<Duration>,
    /// Whether what fails is asked again.
    pub retry: RetrySettings,
    /// Whether an upstream that only fails is left alone.
    pub breaker: BreakerSettings,
}

impl PolicySettings {
    /// For [`in_flight_limit`](Self::in_flight_limit): a legacy server with some dozens of workers.
    pub const IN_FLIGHT_LIMIT_DEFAULT: usize = 128;
    /// The same where each call starts a program, which takes a processor and memory of its own.
    pub const IN_FLIGHT_LIMIT_OF_PROGRAMS: usize = 16;
    /// For [`waiting_limit`](Self::waiting_limit).
    pub const WAITING_LIMIT_DEFAULT: usize = 256;
    /// For [`waiting_timeout`](Self::waiting_timeout).
    pub const WAITING_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            in_flight_limit: Self::IN_FLIGHT_LIMIT_DEFAULT,
            waiting_limit: Self::WAITING_LIMIT_DEFAULT,
            waiting_timeout: Self::WAITING_TIMEOUT_DEFAULT,
            attempt_timeout: None,
            retry: RetrySettings::default(),
            breaker: BreakerSettings::default(),
        }
    }
}

/// Puts the guards round an upstream. What else asks it shares the gate.
pub fn guard(upstream: Upstream, gate: Arc<Gate>, settings: PolicySettings) -> Guarded {
    let name = || upstream.name().clone();
    let (calls, retried, broken, attempted) = (name(), name(), name(), name());
    let guarded = ServiceBuilder::new()
        .layer_fn(move |service| Deadline::new(service, calls.clone()))
        .layer_fn(move |service| Retry::new(service, retried.clone(), settings.retry))
        .layer_fn(move |service| Breaker::new(service, broken.clone(), settings.breaker))
        .layer_fn(move |service| InFlight::new(service, gate.clone()))
        .layer_fn(move |service| Attempt::new(service, attempted.clone(), settings.attempt_timeout))
        .service(upstream);
    Guarded::new(guarded)
}

#[cfg(test)]
mod mock {
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
        upstream::{Ask, Due, Tried, UpstreamError},
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
        Ask {
            request: request.into(),
            reply_limit_bytes: 100,
            due: Due::after(deadline),
            repeatable: true,
            meanwhile: None,
            tried: Tried::default(),
        }
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
    }

    impl Script {
        pub(super) fn new(outcomes: impl IntoIterator<Item = Result<Reply, UpstreamError>>) -> Self {
            Self(Arc::new(Mutex::new(Lines { left: outcomes.into_iter().collect(), asked: 0 })))
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

        fn call(&mut self, _: Ask) -> Self::Future {
            let mut lines = self.0.lock().unwrap();
            lines.asked += 1;
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
}
