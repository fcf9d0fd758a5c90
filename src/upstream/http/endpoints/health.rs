//! Active health checks of every endpoint, in the background, until the upstream is dropped.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use http::uri::PathAndQuery;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use settings_derive::Section;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::{Endpoint, Endpoints};
use crate::route::{HttpRequest, PathBase};
use crate::settings::secret::Hidden;
use crate::settings::{Checked, Cursor, Invalid, Setting, text_of};
use crate::telemetry::{CallContext, ErrorChain};
use crate::upstream::Failure;
use crate::upstream::http::client::request_to;
use crate::upstream::http::connection::{BoxError, full_body};
use crate::upstream::http::pool::ConnectionPool;

/// Maximum length of a response body that is read so that the connection can be reused, in bytes. After a
/// longer body, an HTTP/1 connection closes.
const BODY_LIMIT_BYTES: usize = 64 << 10;

/// Settings of active health checks.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "health_check")]
pub struct HealthCheckSettings {
    /// Path that is requested with `GET`, after the base path of each address: `/health`. A 2xx response is
    /// healthy.
    #[key(example = "path: /health")]
    pub path: PathAndQuery,
    /// Interval between two checks, ±10 %.
    #[key(range = 100..=3_600_000, default = Duration::from_secs(10))]
    pub interval: Duration,
    /// Timeout of a check.
    #[key(range = 1..=3_600_000, default = Duration::from_secs(2))]
    pub timeout: Duration,
    /// Number of consecutive failed checks after which an address gets no requests; one success restores it.
    #[key(range = 1..=1_000, default = 2)]
    pub unhealthy_threshold: u32,
}

impl Setting for PathAndQuery {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let text = text_of(value)?;
        if let Some(path) = text.parse().ok().filter(|_| text.starts_with('/')) {
            return Ok(path);
        }
        let message = format!("{} must begin with `/`, found {}", value.name, value.node.describe());
        value.reject(Invalid::new(message, "write `path: /health`"))
    }
}

impl Endpoints {
    /// Starts the health checks if they are configured. Outside a Tokio runtime, does nothing.
    pub(super) fn start_health_checks(self: Arc<Self>) {
        if let (Some(settings), Ok(runtime)) = (self.settings.health_check.clone(), Handle::try_current()) {
            let health_checks = runtime.spawn(check_all(Arc::downgrade(&self), settings));
            let _ = self.health_checks.set(AbortOnDropHandle::new(health_checks));
        }
    }
}

async fn check_all(endpoints: Weak<Endpoints>, settings: HealthCheckSettings) {
    loop {
        let Some(upgraded) = endpoints.upgrade() else { return };
        let entries = upgraded.known().await.unwrap_or_default();
        drop(upgraded);
        join_all(entries.iter().map(|entry| check_one(&endpoints, &entry.endpoint, &settings))).await;
        drop(entries);
        sleep(jitter(settings.interval)).await;
    }
}

async fn check_one(endpoints: &Weak<Endpoints>, endpoint: &Endpoint, settings: &HealthCheckSettings) {
    let outcome = timeout(settings.timeout, send_check(endpoint, &settings.path)).await;
    let outcome = outcome.unwrap_or_else(|_| Err("no response in time".into()));
    if let Err(error) = &outcome {
        debug!(address = %endpoint.connections.address, error = %ErrorChain(&**error), "health check failed");
    }
    endpoint.record_check(outcome.is_ok(), settings.unhealthy_threshold);
    if let (Ok(()), Some(endpoints)) = (outcome, endpoints.upgrade()) {
        endpoints.when_healthy.get().inspect(|Hidden(callback)| callback());
    }
}

async fn send_check(endpoint: &Endpoint, path: &PathAndQuery) -> Result<(), BoxError> {
    let ConnectionPool { settings, address, .. } = &*endpoint.connections;
    let to_error = |failure: Failure| failure.into_error(&settings.name);
    let request = HttpRequest::get(PathBase::UpstreamUrl, path.clone());
    let request = request_to(settings, address, &request).map_err(to_error)?;
    let response = endpoint.connections.send(request.map(full_body), &CallContext::default()).await;
    let response = response.map_err(|(failure, _)| to_error(failure))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), BODY_LIMIT_BYTES).collect().await;
    if let Err(error) = body
        && !error.is::<LengthLimitError>()
    {
        return Err(error);
    }
    if status.is_success() { Ok(()) } else { Err(format!("it responded with status {status}").into()) }
}

/// Adds ±10 % jitter to an interval, so that events that started together spread out.
pub fn jitter(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + fastrand::f64() / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_spread_by_ten_percent() {
        let waits: Vec<Duration> = (0..100).map(|_| jitter(Duration::from_secs(10))).collect();
        assert!(waits.iter().all(|wait| (9.0..=11.0).contains(&wait.as_secs_f64())), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }
}
