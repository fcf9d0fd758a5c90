//! One endpoint: its connections, and its requests in flight.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::AddressView;
use super::outlier_detection::{EndpointCondition, EndpointState, StateChange};
use crate::telemetry::CallContext;
use crate::upstream::http::pool::ConnectionPool;
use crate::upstream::http::{Address, HttpSettings};
use crate::upstream::{AttemptedEndpoints, Evidence, Failure, RequestEvidence};

/// One IP address or UNIX socket of an upstream. Dropping the endpoint closes its connections.
#[derive(Debug)]
pub(in crate::upstream::http) struct Endpoint {
    /// Number that is unique in the process.
    pub(super) id: u64,
    pub(in crate::upstream::http) connections: Arc<ConnectionPool>,
    pub(super) in_flight: AtomicUsize,
    condition: Mutex<EndpointCondition>,
}

impl Endpoint {
    /// Creates the endpoint of an address. `at` is one of the IP addresses of the address's host; `None` for
    /// a UNIX socket.
    pub(super) fn new(settings: &Arc<HttpSettings>, address: &Address, at: Option<SocketAddr>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            connections: ConnectionPool::new(settings, address, at),
            in_flight: AtomicUsize::new(0),
            condition: Mutex::default(),
        })
    }

    /// Whether requests may be sent to the endpoint: it is neither ejected nor unhealthy.
    pub(super) fn is_available(&self, now: Instant) -> bool {
        match self.condition.lock().state(now) {
            EndpointState::Healthy | EndpointState::Probing => true,
            EndpointState::Ejected { .. } | EndpointState::Unhealthy => false,
        }
    }

    pub(super) fn view(&self, now: Instant) -> AddressView {
        let ConnectionPool { address, at, .. } = &*self.connections;
        let address = match at {
            Some(at) if address.name().is_some() => format!("{address} ({})", at.ip()),
            Some(_) | None => address.to_string(),
        };
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        AddressView { address, state: self.condition.lock().state(now), in_flight }
    }

    /// Records the result of a health check.
    pub(super) fn record_check(&self, passed: bool, unhealthy_threshold: u32) {
        let change = self.condition.lock().record_check(passed, unhealthy_threshold);
        self.log(change, &CallContext::default());
    }

    /// Records the evidence of a request. The only endpoint of an upstream is used in any state, so its
    /// changes are not logged.
    fn record(&self, evidence: Evidence, is_only: bool, context: &CallContext) {
        let change = match evidence {
            Evidence::Success => self.condition.lock().record_success(),
            Evidence::Failure => self
                .condition
                .lock()
                .record_failure(&self.connections.settings.outlier_detection, Instant::now()),
            Evidence::None => None,
        };
        self.log(change.filter(|_| !is_only), context);
    }

    fn log(&self, change: Option<StateChange>, context: &CallContext) {
        let Some(change) = change else { return };
        let (upstream, request_id) = (&self.connections.settings.name, context.request_id());
        let address = self.view(Instant::now()).address;
        match change {
            StateChange::Ejected(ejection_time) => {
                warn!(%upstream, request_id, address, ?ejection_time, "endpoint ejected");
            }
            StateChange::Recovered => info!(%upstream, request_id, address, "endpoint recovered"),
            StateChange::Unhealthy => warn!(%upstream, address, "endpoint unhealthy"),
            StateChange::Healthy => info!(%upstream, address, "endpoint healthy"),
        }
    }
}

/// Request in flight at an endpoint. The endpoint counts the request until this struct is dropped.
#[derive(Debug)]
pub(in crate::upstream::http) struct InFlightRequest {
    pub(in crate::upstream::http) endpoint: Arc<Endpoint>,
    /// Context of the call that the request is for.
    pub(in crate::upstream::http) context: CallContext,
    /// Endpoints that the call was sent to.
    pub(super) attempted_endpoints: AttemptedEndpoints,
    pub(super) deadline: Instant,
    /// Whether the upstream had no other endpoint.
    is_only: bool,
    is_recorded: bool,
}

impl InFlightRequest {
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        is_only: bool,
        attempted_endpoints: &AttemptedEndpoints,
        deadline: Instant,
        context: &CallContext,
    ) -> Self {
        endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
        endpoint
            .condition
            .lock()
            .request_started(&endpoint.connections.settings.outlier_detection, Instant::now());
        let (context, attempted_endpoints) = (context.clone(), attempted_endpoints.clone());
        Self { endpoint, context, attempted_endpoints, deadline, is_only, is_recorded: false }
    }

    /// Records the result of the request: after the whole response, or after the headers of a streamed
    /// response.
    pub(in crate::upstream::http) fn record(&mut self, result: Result<StatusCode, &Failure>) {
        self.is_recorded = true;
        self.endpoint.record(RequestEvidence::new(result).endpoint, self.is_only, &self.context);
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if !self.is_recorded && Instant::now() >= self.deadline {
            // The request was dropped because its deadline has passed, not because its client cancelled it.
            self.endpoint.record(Evidence::Failure, self.is_only, &CallContext::default());
        }
        self.endpoint.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
