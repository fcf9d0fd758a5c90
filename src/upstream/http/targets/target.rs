//! One place, with connections of its own.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use http::StatusCode;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    AddressView, State,
    condition::{Change, Condition},
};
use crate::{
    model::Reply,
    telemetry::Ticket,
    upstream::{
        Stage, UpstreamError,
        http::{Address, HttpSettings, connector::Connector, pool::Pool},
    },
};

/// One place. Its connections close when it is dropped, so a place that a name leads to no more is soon forgotten.
#[derive(Debug)]
pub(in crate::upstream::http) struct Target {
    id: u64,
    settings: Arc<HttpSettings>,
    address: Address,
    at: Option<SocketAddr>,
    connections: Arc<Pool>,
    in_flight: AtomicUsize,
    alone: AtomicBool,
    condition: Mutex<Condition>,
}

impl Target {
    /// A place at an address; `at` is what its name stands for, and nothing for a socket of this machine.
    pub(super) fn new(settings: &Arc<HttpSettings>, address: &Address, at: Option<SocketAddr>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            settings: settings.clone(),
            address: address.clone(),
            at,
            connections: Pool::new(settings, address, Connector::new(settings, address, at)),
            in_flight: AtomicUsize::new(0),
            alone: AtomicBool::new(true),
            condition: Mutex::default(),
        })
    }

    /// Whether there is no other.
    pub(super) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// Tells it from every other place.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Where it is, as it is written.
    pub(in crate::upstream::http) fn address(&self) -> &Address {
        &self.address
    }

    /// Where it is, in numbers.
    pub(super) fn at(&self) -> Option<SocketAddr> {
        self.at
    }

    pub(in crate::upstream::http) fn connections(&self) -> &Arc<Pool> {
        &self.connections
    }

    pub(super) fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether a request may go there.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        match self.condition().state(now) {
            State::Up | State::ToBeTried => true,
            State::LeftOut { .. } | State::Unhealthy => false,
        }
    }

    pub(super) fn view(&self, now: Instant) -> AddressView {
        let address = match self.at {
            Some(at) if self.address.name().is_some() => format!("{} ({})", self.address, at.ip()),
            Some(_) | None => self.address.to_string(),
        };
        AddressView { address, state: self.condition().state(now), in_flight: self.in_flight() }
    }

    /// A check of its health ended.
    pub(super) fn checked(&self, well: bool, failures: u32) {
        let change = self.condition().checked(well, failures);
        self.log(change, &Ticket::default());
    }

    fn learn(&self, outcome: Outcome, ticket: &Ticket) {
        let change = match outcome {
            Outcome::Success => self.condition().succeeded(),
            Outcome::Failure => self.condition().failed(&self.settings.ejection, Instant::now()),
            Outcome::Unknown => None,
        };
        self.log(change, ticket);
    }

    fn log(&self, change: Option<Change>, ticket: &Ticket) {
        let Some(change) = change else { return };
        // With one place there is nobody to ask in its stead, so nothing is left out.
        let alone = self.alone.load(Ordering::Relaxed);
        let (upstream, request_id) = (&self.settings.name, ticket.request_id());
        let address = self.view(Instant::now()).address;
        match change {
            Change::LeftOut(rest) if !alone => {
                warn!(%upstream, request_id, address, ?rest, "address fails and is left out");
            }
            Change::Back if !alone => info!(%upstream, request_id, address, "address answers again"),
            Change::Unhealthy => warn!(%upstream, address, "address is not healthy"),
            Change::Healthy => info!(%upstream, address, "address is healthy again"),
            Change::LeftOut(_) | Change::Back => {}
        }
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request showed of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream::http) enum Outcome {
    /// It answers.
    Success,
    /// It does not, or says that it can't.
    Failure,
    /// Nothing was learnt.
    Unknown,
}

impl Outcome {
    pub(in crate::upstream::http) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Self::Failure
            }
            _ => Self::Success,
        }
    }

    pub(in crate::upstream::http) fn of_error(error: &UpstreamError) -> Self {
        match error.facts().stage {
            Stage::NotReached | Stage::NoResponse | Stage::Malformed => Self::Failure,
            // One that answers too much is there, and our own limits say nothing of it.
            Stage::TooLong | Stage::Unread | Stage::Rejected | Stage::Unsendable => Self::Unknown,
        }
    }

    pub(in crate::upstream::http) fn of(result: &Result<Reply, UpstreamError>) -> Self {
        match result {
            Ok(reply) => Self::of_status(reply.status),
            Err(error) => Self::of_error(error),
        }
    }
}

/// A request at its place: counted there until this is dropped.
#[derive(Debug)]
pub(in crate::upstream::http) struct Load {
    target: Arc<Target>,
    due: Instant,
    told: bool,
}

impl Load {
    pub(super) fn new(target: Arc<Target>, due: Instant) -> Self {
        target.in_flight.fetch_add(1, Ordering::Relaxed);
        target.condition().asked(&target.settings.ejection, Instant::now);
        Self { target, due, told: false }
    }

    pub(in crate::upstream::http) fn target(&self) -> &Target {
        &self.target
    }

    /// What came of the request, or of its first part.
    pub(in crate::upstream::http) fn tell(&mut self, outcome: Outcome, ticket: &Ticket) {
        self.told = true;
        self.target.learn(outcome, ticket);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if !self.told && Instant::now() >= self.due {
            // Given up when its time was over, not because its caller left.
            self.target.learn(Outcome::Failure, &Ticket::default());
        }
        self.target.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
