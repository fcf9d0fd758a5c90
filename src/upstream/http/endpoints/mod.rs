//! Endpoints of one upstream (its UNIX sockets and IP addresses) and load balancing between them.
//!
//! - [`Endpoint`]: one IP address or UNIX socket with its own connections. `outlier_detection`: ejects an
//!   endpoint that fails.
//! - `resolve`: periodic DNS lookups.
//! - [`Endpoints`]: load balancing, which selects an endpoint for each request.
//! - `health`: health checks in the background.

mod endpoint;
mod health;
mod outlier_detection;
mod resolve;

use std::sync::{Arc, OnceLock, atomic::Ordering};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::HttpSettings;
use crate::settings::secret::Hidden;
use crate::telemetry::CallContext;
use crate::upstream::{AttemptedEndpoints, Failure, FailureStage};

use endpoint::Endpoint;
pub(super) use endpoint::InFlightRequest;
pub use health::{HealthCheckSettings, jitter};
pub use outlier_detection::{EndpointState, OutlierDetectionSettings};
pub(super) use resolve::Lookup;

/// Maximum number of endpoints of one upstream, after DNS lookups. Further addresses are not used.
pub const ADDRESS_LIMIT: usize = 64;

/// All endpoints of one upstream.
#[derive(Debug)]
pub(super) struct Endpoints {
    settings: Arc<HttpSettings>,
    current: ArcSwap<Vec<Entry>>,
    /// `None` if no address has a host name.
    dns: Option<resolve::DnsCache>,
    health_checks: OnceLock<AbortOnDropHandle<()>>,
    /// Callback for each successful health check.
    pub(super) when_healthy: OnceLock<Hidden<Box<dyn Fn() + Send + Sync>>>,
}

/// Endpoint, and whether it is a last resort, used only if every other endpoint is unavailable.
#[derive(Debug, Clone)]
struct Entry {
    endpoint: Arc<Endpoint>,
    last_resort: bool,
}

impl Endpoints {
    /// Creates the endpoints without lookups or connections. Within a Tokio runtime, starts the health checks
    /// if they are configured.
    pub(super) fn new(settings: Arc<HttpSettings>, lookup: Lookup) -> Arc<Self> {
        let has_names = settings.addresses().any(|address| address.name().is_some());
        let addresses = settings.addresses().filter(|address| address.name().is_none()).take(ADDRESS_LIMIT);
        let endpoint = |address| Endpoint::new(&settings, address, address.ip());
        let entries = addresses.map(|address| Entry { endpoint: endpoint(address), last_resort: false });
        let endpoints = Arc::new(Self {
            current: ArcSwap::from_pointee(entries.collect()),
            dns: has_names.then(|| resolve::DnsCache::new(lookup)),
            settings,
            health_checks: OnceLock::new(),
            when_healthy: OnceLock::new(),
        });
        endpoints.clone().start_health_checks();
        endpoints
    }

    /// Selects an endpoint for a request and counts the request there. Prefers endpoints that are neither
    /// ejected nor unhealthy, and not in `tried`.
    ///
    /// # Errors
    ///
    /// [`Failure`] if no address is known, because no host name could be resolved.
    pub(super) async fn pick(
        self: &Arc<Self>,
        attempted_endpoints: &AttemptedEndpoints,
        deadline: Instant,
        context: &CallContext,
    ) -> Result<InFlightRequest, Failure> {
        let endpoints = self.known().await?;
        let endpoint = pick(&endpoints, attempted_endpoints, |_| true).expect("there is an endpoint");
        if endpoints.len() > 1 {
            attempted_endpoints.add(endpoint.id);
        }
        Ok(InFlightRequest::new(endpoint, endpoints.len() == 1, attempted_endpoints, deadline, context))
    }

    /// Records the failure of a request. If the endpoint was not reached and there is another endpoint, moves
    /// the request to the other endpoint and returns `true`.
    pub(super) fn fail_over(&self, in_flight: &mut InFlightRequest, failure: &Failure) -> bool {
        in_flight.record(Err(failure));
        let is_unreached = failure.properties().stage == FailureStage::NotReached;
        let other = is_unreached.then(|| self.pick_other(in_flight)).flatten();
        other.map(|other| *in_flight = other).is_some()
    }

    fn pick_other(&self, failed: &InFlightRequest) -> Option<InFlightRequest> {
        let endpoints = self.current.load();
        // The only endpoint is never recorded in `tried`.
        let is_eligible = |rank: Rank| !rank.is_ejected && !rank.is_tried;
        let endpoint =
            pick(&endpoints, &failed.attempted_endpoints, is_eligible).filter(|_| endpoints.len() > 1)?;
        failed.attempted_endpoints.add(endpoint.id);
        Some(InFlightRequest::new(
            endpoint,
            false,
            &failed.attempted_endpoints,
            failed.deadline,
            &failed.context,
        ))
    }

    /// Snapshots of the current endpoints.
    pub(super) fn view(&self) -> Vec<AddressView> {
        let now = Instant::now();
        self.current.load().iter().map(|entry| entry.endpoint.view(now)).collect()
    }
}

/// Snapshot of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddressView {
    /// Configured address, with the IP address if it has a host name.
    pub address: String,
    /// State, from outlier detection and health checks.
    #[serde(flatten)]
    pub state: EndpointState,
    /// Requests in flight.
    pub in_flight: usize,
}

/// Rank of an endpoint for a request; the lowest rank is the best. The first field that differs decides. Even
/// if all endpoints are ejected or unhealthy, one of them is tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_ejected: bool,
    is_tried: bool,
    is_last_resort: bool,
}

/// Selects an endpoint of the best rank. `None` if `fits` rejects that rank. Load balancing is "power of two
/// choices": of two random endpoints, the one with fewer requests in flight is selected. The load is nearly
/// as even as with the least loaded endpoint, and simultaneous requests do not all choose the same endpoint.
fn pick(
    endpoints: &[Entry],
    attempted_endpoints: &AttemptedEndpoints,
    fits: impl Fn(Rank) -> bool,
) -> Option<Arc<Endpoint>> {
    if let [only] = endpoints {
        return Some(only.endpoint.clone());
    }
    let now = Instant::now();
    let ranked = endpoints.iter().map(|Entry { endpoint, last_resort }| {
        let (is_ejected, is_tried) = (!endpoint.is_available(now), attempted_endpoints.has(endpoint.id));
        (Rank { is_ejected, is_tried, is_last_resort: *last_resort }, endpoint)
    });
    let mut ranked: Vec<_> = ranked.collect();
    let best = ranked.iter().map(|(rank, _)| *rank).min().filter(|rank| fits(*rank))?;
    ranked.retain(|(rank, _)| *rank == best);
    fastrand::shuffle(&mut ranked);
    let two = ranked.into_iter().take(2).map(|(_, endpoint)| endpoint);
    two.min_by_key(|endpoint| endpoint.in_flight.load(Ordering::Relaxed)).cloned()
}

#[cfg(test)]
mod tests;
