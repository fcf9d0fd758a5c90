//! One endpoint: connections, requests in flight, outlier detection and health.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use settings_derive::Section;
use tokio::time::Instant;
use tracing::{info, warn};

use super::AddressView;
use crate::{
    settings::{
        code::Code,
        section::{Checked, OpenSection},
    },
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
    condition: Mutex<Condition>,
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
            EndpointState::Up | EndpointState::Probing => true,
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
    pub(super) fn checked(&self, well: bool, failures: u32) {
        let change = self.condition().checked(well, failures);
        self.log(change, &CallContext::default());
    }

    /// Records the outcome of a request. The only endpoint of an upstream is used in any state, so nothing is
    /// logged.
    fn record(&self, outcome: RequestOutcome, is_only: bool, context: &CallContext) {
        let change = match outcome {
            RequestOutcome::Success => self.condition().succeeded(),
            RequestOutcome::Failure => {
                self.condition().failed(&self.settings.outlier_detection, Instant::now())
            }
            RequestOutcome::Unknown => None,
        };
        self.log(change.filter(|_| !is_only), context);
    }

    fn log(&self, change: Option<Change>, context: &CallContext) {
        let Some(change) = change else { return };
        let (upstream, request_id) = (&self.settings.name, context.request_id());
        let address = self.view(Instant::now()).address;
        match change {
            Change::Ejected(ejection_time) => {
                warn!(%upstream, request_id, address, ?ejection_time, "endpoint ejected");
            }
            Change::Back => info!(%upstream, request_id, address, "endpoint recovered"),
            Change::Unhealthy => warn!(%upstream, address, "endpoint unhealthy"),
            Change::Healthy => info!(%upstream, address, "endpoint healthy"),
        }
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
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
        match result.map_err(|error| error.facts().stage) {
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

/// Settings of outlier detection: when a failing endpoint is ejected, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "outlier_detection", default, check = Self::complete)]
pub struct OutlierDetectionSettings {
    /// Number of consecutive failures after which an address is ejected.
    // `None` where outlier detection is off.
    #[key(range = 1..=1_000_000, default = Some(3))]
    pub consecutive_failures: Option<u32>,
    /// Duration of the first ejection; it doubles with each further failure.
    #[key(range = 1..=3_600_000, default = Duration::from_secs(5))]
    pub base_ejection_time: Duration,
    /// Maximum duration of an ejection.
    #[key(range = 1..=24 * 3_600_000, default = Duration::from_secs(60))]
    pub max_ejection_time: Duration,
}

impl OutlierDetectionSettings {
    /// Checks that the maximum ejection time is no shorter than the base, and raises a default to it.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        if self.max_ejection_time < self.base_ejection_time {
            if let Some(entry) = section.entry("max_ejection_time") {
                let (message, help) = (
                    "`max_ejection_time` is shorter than `base_ejection_time`",
                    "write at least as much as `base_ejection_time`",
                );
                return Err(section.reject_at(Code::OutOfRange.at_span(entry.value.span), message, help));
            }
            self.max_ejection_time = self.base_ejection_time;
        }
        Ok(self)
    }
}

/// State of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointState {
    /// Requests are sent to it.
    Up,
    /// Ejected after failures.
    Ejected {
        /// Remaining time.
        rest: Duration,
    },
    /// The ejection is over, and the next request probes the endpoint.
    Probing,
    /// Its health checks fail.
    Unhealthy,
}

impl EndpointState {
    /// Labels of all states in metrics and the admin API.
    pub const WORDS: [&str; 4] = ["healthy", "ejected", "probing", "unhealthy"];

    /// Label of this state.
    pub fn as_str(self) -> &'static str {
        let [healthy, ejected, probing, unhealthy] = Self::WORDS;
        match self {
            Self::Up => healthy,
            Self::Ejected { .. } => ejected,
            Self::Probing => probing,
            Self::Unhealthy => unhealthy,
        }
    }
}

/// State of an endpoint, from its requests and its health checks.
#[derive(Debug, Clone, Copy, Default)]
struct Condition {
    /// Failures since the last success.
    failures: u32,
    out_until: Option<Instant>,
    /// A probe is in flight; its outcome decides.
    is_probing: bool,
    /// Failed health checks since the last success.
    failed_checks: u32,
    unhealthy: bool,
}

/// Change of state that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Ejected(Duration),
    Back,
    Unhealthy,
    Healthy,
}

impl Condition {
    pub(super) fn state(&self, now: Instant) -> EndpointState {
        match self.out_until {
            _ if self.unhealthy => EndpointState::Unhealthy,
            None => EndpointState::Up,
            Some(until) if now < until => EndpointState::Ejected { rest: until - now },
            Some(_) => EndpointState::Probing,
        }
    }

    /// Records that a request is sent to the endpoint. Once the ejection is over, this request is the probe.
    /// If it never ends, another probe follows after `base_ejection_time`.
    fn request_started(&mut self, settings: &OutlierDetectionSettings, now: impl FnOnce() -> Instant) {
        let Some(until) = self.out_until else { return };
        let now = now();
        if until <= now {
            (self.out_until, self.is_probing) = (Some(now + settings.base_ejection_time), true);
        }
    }

    /// Records a success, even of a request from before the ejection.
    pub(super) fn succeeded(&mut self) -> Option<Change> {
        (self.failures, self.is_probing) = (0, false);
        self.out_until.take().map(|_| Change::Back)
    }

    pub(super) fn failed(&mut self, settings: &OutlierDetectionSettings, now: Instant) -> Option<Change> {
        let limit = settings.consecutive_failures?;
        // Requests that were in flight together fail together. They count as one failure.
        if self.out_until.is_some_and(|until| now < until) && !std::mem::take(&mut self.is_probing) {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let beyond = self.failures.checked_sub(limit)?;
        let rest =
            settings.base_ejection_time.saturating_mul(1 << beyond.min(16)).min(settings.max_ejection_time);
        self.out_until = Some(now + rest);
        Some(Change::Ejected(rest))
    }

    /// Records a health check. After `failures` consecutive failures the endpoint is unhealthy.
    pub(super) fn checked(&mut self, well: bool, failures: u32) -> Option<Change> {
        if well {
            self.failed_checks = 0;
            return std::mem::take(&mut self.unhealthy).then_some(Change::Healthy);
        }
        self.failed_checks = self.failed_checks.saturating_add(1);
        let now_unhealthy = !self.unhealthy && self.failed_checks >= failures;
        self.unhealthy |= now_unhealthy;
        now_unhealthy.then_some(Change::Unhealthy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_ejection_time_grows_with_each_failure_until_a_success() {
        let settings = OutlierDetectionSettings {
            consecutive_failures: Some(2),
            base_ejection_time: SECOND,
            max_ejection_time: 3 * SECOND,
        };
        let (mut condition, mut now) = (Condition::default(), Instant::now());
        assert_eq!(condition.failed(&settings, now), None);
        for rest in [1, 2, 3, 3] {
            assert_eq!(condition.failed(&settings, now), Some(Change::Ejected(rest * SECOND)));
            assert_eq!(condition.state(now), EndpointState::Ejected { rest: rest * SECOND });
            assert_eq!(condition.failed(&settings, now), None, "it is out already");
            now += rest * SECOND;
            assert_eq!(condition.state(now), EndpointState::Probing);
            condition.request_started(&settings, || now);
            assert_eq!(condition.state(now), EndpointState::Ejected { rest: SECOND }, "one is enough");
        }
        assert_eq!(condition.state(now + 3 * SECOND), EndpointState::Probing, "that one never came back");
        assert_eq!(condition.succeeded(), Some(Change::Back));
        assert_eq!((condition.state(now), condition.failed(&settings, now)), (EndpointState::Up, None));
    }

    #[test]
    fn no_endpoint_is_ejected_if_outlier_detection_is_off() {
        let settings =
            OutlierDetectionSettings { consecutive_failures: None, ..OutlierDetectionSettings::default() };
        let mut condition = Condition::default();
        assert!((0..100).all(|_| condition.failed(&settings, Instant::now()).is_none()));
    }

    #[test]
    fn some_failed_checks_make_it_unhealthy_and_one_good_one_well() {
        let mut condition = Condition::default();
        assert_eq!(condition.checked(false, 2), None);
        assert_eq!(condition.checked(false, 2), Some(Change::Unhealthy));
        assert_eq!(condition.checked(false, 2), None);
        assert_eq!(condition.state(Instant::now()), EndpointState::Unhealthy);
        assert_eq!(condition.checked(true, 2), Some(Change::Healthy));
        assert_eq!(condition.state(Instant::now()), EndpointState::Up);
    }
}
