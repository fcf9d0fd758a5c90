//! One endpoint: its connections, and its requests in flight.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use http::StatusCode;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    AddressView,
    outlier_detection::{EndpointCondition, EndpointState, StateChange},
};
use crate::{
    telemetry::CallContext,
    upstream::{
        FailureStage, UpstreamError,
        http::{Address, HttpSettings, connection::Connector, pool::ConnectionPool},
    },
};

/// One IP address or UNIX socket of an upstream. Its connections close when it is dropped.
#[derive(Debug)]
pub(in crate::upstream::http) struct Endpoint {
    id: u64,
    settings: Arc<HttpSettings>,
    address: Address,
    at: Option<SocketAddr>,
    connections: Arc<ConnectionPool>,
    in_flight: AtomicUsize,
    condition: Mutex<EndpointCondition>,
}

impl Endpoint {
    /// Creates the endpoint of an address. `at` is one of the IP addresses of its host, and `None` for a UNIX
    /// socket.
    pub(super) fn new(settings: &Arc<HttpSettings>, address: &Address, at: Option<SocketAddr>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            settings: settings.clone(),
            address: address.clone(),
            at,
            connections: ConnectionPool::new(settings, address, Connector::new(settings, address, at)),
            in_flight: AtomicUsize::new(0),
            condition: Mutex::default(),
        })
    }

    /// Number that is unique in the process.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Configured address.
    pub(in crate::upstream::http) fn address(&self) -> &Address {
        &self.address
    }

    /// IP address and port.
    pub(super) fn socket_address(&self) -> Option<SocketAddr> {
        self.at
    }

    pub(in crate::upstream::http) fn connections(&self) -> &Arc<ConnectionPool> {
        &self.connections
    }

    pub(super) fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether requests may be sent to it.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        match self.condition().state(now) {
            EndpointState::Healthy | EndpointState::Probing => true,
            EndpointState::Ejected { .. } | EndpointState::Unhealthy => false,
        }
    }

    pub(super) fn view(&self, now: Instant) -> AddressView {
        let address = match self.at {
            Some(at) if self.address.name().is_some() => format!("{} ({})", self.address, at.ip()),
            Some(_) | None => self.address.to_string(),
        };
        AddressView { address, state: self.condition().state(now), in_flight: self.in_flight() }
    }

    /// Records the result of a health check.
    pub(super) fn record_check(&self, passed: bool, unhealthy_threshold: u32) {
        let change = self.condition().record_check(passed, unhealthy_threshold);
        self.log(change, &CallContext::default());
    }

    /// Records the outcome of a request. The only endpoint of an upstream is used in any state, so nothing is
    /// logged.
    fn record(&self, outcome: RequestOutcome, is_only: bool, context: &CallContext) {
        let change = match outcome {
            RequestOutcome::Success => self.condition().record_success(),
            RequestOutcome::Failure => {
                self.condition().record_failure(&self.settings.outlier_detection, Instant::now())
            }
            RequestOutcome::Unknown => None,
        };
        self.log(change.filter(|_| !is_only), context);
    }

    fn log(&self, change: Option<StateChange>, context: &CallContext) {
        let Some(change) = change else { return };
        let (upstream, request_id) = (&self.settings.name, context.request_id());
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

    fn condition(&self) -> MutexGuard<'_, EndpointCondition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Outcome of a request, as evidence for the health of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// The endpoint responds.
    Success,
    /// The endpoint does not respond, or responds with a gateway error (502, 503, 504).
    Failure,
    /// No evidence.
    Unknown,
}

impl RequestOutcome {
    /// Outcome of a request, by the status of the response or the error.
    pub(super) fn from_result(result: Result<StatusCode, &UpstreamError>) -> Self {
        match result.map_err(|error| error.properties().stage) {
            Ok(StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
            | Err(FailureStage::NotReached | FailureStage::NoResponse | FailureStage::Malformed) => {
                Self::Failure
            }
            Ok(_) => Self::Success,
            // A response that is too long proves that the server responds; glossator's own limits prove
            // nothing.
            Err(
                FailureStage::TooLong
                | FailureStage::Unread
                | FailureStage::Rejected
                | FailureStage::Unsendable,
            ) => Self::Unknown,
        }
    }
}

/// Request in flight at its endpoint, counted there until this is dropped.
#[derive(Debug)]
pub(in crate::upstream::http) struct InFlightRequest {
    endpoint: Arc<Endpoint>,
    pub(super) deadline: Instant,
    /// Whether there was no other endpoint to choose from.
    is_only: bool,
    is_recorded: bool,
}

impl InFlightRequest {
    pub(super) fn new(endpoint: Arc<Endpoint>, is_only: bool, deadline: Instant) -> Self {
        endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
        endpoint.condition().request_started(&endpoint.settings.outlier_detection, Instant::now);
        Self { endpoint, deadline, is_only, is_recorded: false }
    }

    pub(in crate::upstream::http) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Records the outcome of the request, or of its first part.
    pub(super) fn record(&mut self, outcome: RequestOutcome, context: &CallContext) {
        self.is_recorded = true;
        self.endpoint.record(outcome, self.is_only, context);
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if !self.is_recorded && Instant::now() >= self.deadline {
            // Dropped because its deadline has passed, not because its client cancelled it.
            self.endpoint.record(RequestOutcome::Failure, self.is_only, &CallContext::default());
        }
        self.endpoint.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
