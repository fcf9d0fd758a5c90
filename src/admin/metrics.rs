//! Metrics of the process in the text formats of Prometheus and OpenMetrics. The metrics of the
//! configuration, policies, upstream buffer and shared state are read at scrape time.

use std::{sync::Arc, time::SystemTime};

use axum::{extract::State, response::IntoResponse};
use http::{HeaderMap, header};

use super::{Api, Process};
use crate::inbound::{MediaRange, media_ranges};
use crate::pipeline::Gateway;
use crate::policy;
use crate::telemetry::{MetricsSnapshot, TextFormat};

pub(super) async fn scrape(State(api): State<Arc<Api>>, headers: HeaderMap) -> impl IntoResponse {
    let format = accepted_format(&headers);
    ([(header::CONTENT_TYPE, format.media_type())], format.write(&api.meters.read()))
}

/// Selects the metrics format: OpenMetrics for clients whose `Accept` names it, otherwise Prometheus.
fn accepted_format(headers: &HeaderMap) -> TextFormat {
    let is_requested =
        |range: MediaRange<'_>| range.weight > 0.0 && range.is_exactly("application/openmetrics-text");
    if media_ranges(headers).any(is_requested) { TextFormat::OpenMetrics } else { TextFormat::Prometheus }
}

/// Adds the metrics that are read at scrape time: from the process status, the active configuration, and the
/// state of its policies, upstream buffer and store.
pub(super) fn report_metrics(reading: &mut MetricsSnapshot, process: &Process, gateway: &Gateway) {
    let status = process.status();
    let since = status.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    reading.gauge("glossator_build_info", "Version of the program").add(&version, 1_u64);
    let reloads = reading.counter("glossator_config_reloads", "Reloads of the configuration by result");
    // The first generation was loaded at startup, not by a reload.
    let counts = [("success", status.generation.saturating_sub(1)), ("failure", status.failures)];
    reloads.add_each(&[], "result", counts);
    let help = "Whether the last reload of the configuration was successful";
    reading.gauge("glossator_config_last_reload_successful", help).set(u64::from(status.failure.is_none()));
    let help = "Whether a changed setting takes effect only after a restart";
    reading
        .gauge("glossator_config_restart_pending", help)
        .set(u64::from(!status.restart_pending.is_empty()));
    let help = "Time of the last successful reload, or of the start";
    reading.gauge("glossator_config_last_reload_success_timestamp_seconds", help).set(since.as_secs_f64());
    let snapshot = gateway.snapshot();
    policy::metrics::read(reading, &snapshot.policies);
    if let Some(buffer) = &snapshot.upstream_buffer {
        let buffer = buffer.state();
        let help = "Memory charged for upstream responses, in bytes";
        reading.gauge("glossator_upstream_buffer_bytes", help).set(buffer.used_bytes);
        let help = "Limit of the memory for upstream responses, in bytes";
        reading.gauge("glossator_upstream_buffer_limit_bytes", help).set(buffer.limit_bytes);
        let help = "Calls that wait for memory for their upstream response";
        reading.gauge("glossator_upstream_buffer_queued", help).set(buffer.queued.iter().sum::<usize>());
        let help = "Calls rejected because no memory was free for their upstream response";
        reading.counter("glossator_upstream_buffer_rejected", help).set(buffer.rejected);
    }
    if let Some(shared) = &gateway.shared {
        let help = "Whether the store of shared state is reachable";
        reading.gauge("glossator_shared_state_up", help).set(u64::from(shared.state().is_up));
        let help = "Operations of the shared state, and those of them that failed";
        let operations = reading.counter("glossator_shared_state_operations", help);
        operations.add_each(&[], "result", shared.counts().read());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_the_format_that_it_accepts() {
        let accepted = |accept: &str| {
            accepted_format(&[(header::ACCEPT, accept.parse().unwrap())].into_iter().collect())
        };
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(accepted(prometheus), TextFormat::OpenMetrics);
        assert_eq!(accepted("text/html,*/*"), TextFormat::Prometheus);
        assert_eq!(accepted_format(&HeaderMap::new()), TextFormat::Prometheus);
    }
}
