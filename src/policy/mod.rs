//! Guards round every call of an upstream, one tower layer a file.
//!
//! From the outside in, and why:
//!
//! 1. [`Deadline`]: the promise to the caller, so it holds for everything below, waiting for a place included.
//! 2. [`InFlight`]: protects the upstream. Inside the deadline, so that a call that gives up leaves the queue;
//!    round the upstream, so that a place is held exactly as long as a connection is.
//!
//! What is handed through unread has the same gate, and limits of its own: [`Passthrough`].
//!
//! Each tells what it did as an [`UpstreamError`], so that the `gateway` has one kind of failure to put
//! into words. All of them share their state between clones; dropping a call's future gives back what it held.

mod deadline;
mod in_flight;
mod passthrough;

use std::{sync::Arc, time::Duration};

use tower::{ServiceBuilder, util::BoxCloneSyncService};

use crate::{
    reply::Reply,
    upstream::{Ask, Upstream, UpstreamError},
};

pub use deadline::Deadline;
pub use in_flight::{Gate, InFlight};
pub use passthrough::{Passthrough, PassthroughSettings, StreamedBody};

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
}

impl PolicySettings {
    /// For [`in_flight_limit`](Self::in_flight_limit): a legacy server with some dozens of workers.
    pub const IN_FLIGHT_LIMIT_DEFAULT: usize = 128;
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
        }
    }
}

/// Puts the guards round an upstream. What else asks it shares the gate.
pub fn guard(upstream: Upstream, gate: Arc<Gate>) -> Guarded {
    let name = upstream.name().clone();
    let guarded = ServiceBuilder::new()
        .layer_fn(move |service| Deadline::new(service, name.clone()))
        .layer_fn(move |service| InFlight::new(service, gate.clone()))
        .service(upstream);
    Guarded::new(guarded)
}

#[cfg(test)]
mod mock {
    //! A service that answers after a while, for tests under a paused clock.

    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use bytes::Bytes;
    use http::{HeaderMap, Method, StatusCode, uri::PathAndQuery};
    use tower::{Service, util::BoxCloneSyncService};

    use crate::{
        reply::Reply,
        route::{UpstreamName, UpstreamRequest},
        upstream::{Ask, UpstreamError},
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
        let request = UpstreamRequest {
            method: Method::GET,
            path_and_query: PathAndQuery::from_static("/"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        Ask { request, reply_limit_bytes: 100, deadline }
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
                let reply = Reply { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::new() };
                Ok::<_, Infallible>(reply)
            }
        });
        let service = tower::ServiceExt::map_err(service, |never: Infallible| match never {});
        BoxCloneSyncService::new(service)
    }

    /// Calls a fresh clone, as the gateway does.
    pub(super) async fn call<S>(service: &S, ask: Ask) -> Result<Reply, UpstreamError>
    where
        S: Service<Ask, Response = Reply, Error = UpstreamError> + Clone,
    {
        tower::ServiceExt::oneshot(service.clone(), ask).await
    }
}
