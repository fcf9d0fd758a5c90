//! Exporter of spans and metrics to a collector, by OTLP/HTTP with binary protobuf.
//!
//! Calls do not wait for the export. If the collector is unavailable, calls continue, and spans that do not
//! fit into the queue are dropped.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, uri::PathAndQuery};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::connection_limiter::take_log_turn;
use crate::config::{MetricsExport, TelemetrySettings};
use crate::route::{HttpRequest, PathBase};
use crate::telemetry::{
    ErrorChain, LabelCounter, Meters, Resource, SpanQueue, Untrusted, decode_partial_success, encode_spans,
};
use crate::upstream::http::HttpUpstream;
use crate::upstream::{Deadline, UpstreamCall, UpstreamError};

/// Timeout of the last export when the process ends.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of spans in one request.
const BATCH_LIMIT: usize = 512;

/// Maximum number of attempts to send one request.
const MAX_ATTEMPTS: u32 = 5;

/// Delay before the second attempt. It doubles with each further attempt.
const BACKOFF: Duration = Duration::from_secs(1);

/// Maximum length of a response of the collector.
const RESPONSE_LIMIT_BYTES: usize = 64 << 10;

/// Interval of the log lines about a collector that does not respond.
const LOG_INTERVAL: Duration = Duration::from_secs(300);

/// The export tasks, until the process ends.
#[derive(Debug)]
pub(super) struct Exporter {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Exporter {
    /// Starts to export metrics and the spans of a queue, if the settings have collectors for them. Must be
    /// called in a Tokio runtime.
    pub(super) fn start(settings: &TelemetrySettings, queue: Option<SpanQueue>, meters: &Meters) -> Self {
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let TelemetrySettings { traces, metrics, service, timeout, .. } = settings.clone();
        let collector = |settings, signal| {
            let counts = LabelCounter::new(["accepted", "failed"]);
            let registered_counts = counts.clone();
            meters.register(move |reading| {
                let help = "Requests to the collector, by signal and result";
                let family = reading.counter("glossator_telemetry_requests", help);
                family.add_each(&[("signal", signal)], "result", registered_counts.read());
            });
            Collector {
                http: HttpUpstream::new(settings),
                timeout,
                signal,
                counts,
                failed_requests: 0,
                failure_logged: None,
                stop: stop.clone(),
            }
        };
        if let (Some(traces), Some(queue)) = (traces, queue) {
            let registered_counts = queue.counts.clone();
            meters.register(move |reading| {
                let help = "Spans by result of their export";
                reading.counter("glossator_telemetry_spans", help).add_each(
                    &[],
                    "result",
                    registered_counts.read(),
                );
            });
            let collector = collector(traces.collector, "traces");
            tasks.spawn(collector.export_spans(queue, traces.delay, service.clone()));
        }
        if let Some(MetricsExport { collector: settings, interval }) = metrics {
            let collector = collector(settings, "metrics");
            tasks.spawn(collector.export_metrics(meters.clone(), interval, service));
        }
        Self { stop, tasks }
    }

    /// Exports the remaining telemetry, within [`FLUSH_TIMEOUT`].
    pub(super) async fn end(self) {
        self.stop.cancel();
        if timeout(FLUSH_TIMEOUT, self.tasks.join_all()).await.is_err() {
            warn!(timeout = ?FLUSH_TIMEOUT, "telemetry lost at shutdown");
        }
    }
}

/// The collector of one signal (traces or metrics), and the state of the export to it.
struct Collector {
    http: HttpUpstream,
    timeout: Duration,
    signal: &'static str,
    counts: LabelCounter,
    /// Number of failed requests since the collector last accepted one.
    failed_requests: u64,
    /// Time of the last log line about a failed request.
    failure_logged: Option<Instant>,
    stop: CancellationToken,
}

/// Reason why the collector did not accept a request.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the request to the collector failed")]
    Failed(#[source] UpstreamError),
    #[error("the collector did not respond within {0:?}")]
    Timeout(Duration),
    #[error("the collector responded with status {0}")]
    Rejected(StatusCode),
}

impl ExportError {
    /// Whether another attempt may succeed (OTLP specification, "Failures").
    fn is_transient(&self) -> bool {
        match self {
            Self::Failed(_) | Self::Timeout(_) => true,
            Self::Rejected(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
        }
    }
}

impl Collector {
    /// Exports spans in batches until shutdown, and then the remaining spans.
    async fn export_spans(mut self, mut queue: SpanQueue, delay: Duration, service: Resource) {
        let stop = self.stop.clone();
        while let Some(batch) = queue.next_batch(BATCH_LIMIT, delay, &stop).await {
            let spans = batch.len() as u64;
            let attempts = if stop.is_cancelled() { 1 } else { MAX_ATTEMPTS };
            match self.send(encode_spans(batch, &service).into(), attempts).await {
                Some(rejected) => {
                    let rejected = rejected.min(spans);
                    queue.counts.add_many("sent", spans - rejected);
                    queue.counts.add_many("rejected", rejected);
                }
                None => queue.counts.add_many("export_failed", spans),
            }
        }
    }

    /// Exports metrics every `interval`, and once more at shutdown.
    async fn export_metrics(mut self, meters: Meters, interval: Duration, service: Resource) {
        let stop = self.stop.clone();
        loop {
            let is_last = stop.run_until_cancelled(sleep(interval)).await.is_none();
            let body = meters.read().encode(&service, meters.began(), SystemTime::now());
            // If an export fails, the next one makes up for it: all values are cumulative.
            self.send(body.into(), 1).await;
            if is_last {
                return;
            }
        }
    }

    /// Sends a request in up to `attempts` attempts. Returns the number of spans or data points that the
    /// collector rejected; `None` if it did not accept the request.
    async fn send(&mut self, body: Bytes, attempts: u32) -> Option<u64> {
        let (mut backoff, mut is_last) = (BACKOFF, false);
        for attempt in 1..=attempts {
            let error = match self.send_once(body.clone()).await {
                Ok((rejected, message)) => {
                    let (signal, failed_requests) = (self.signal, self.failed_requests);
                    self.counts.add("accepted");
                    (self.failed_requests, self.failure_logged) = (0, None);
                    if failed_requests > 0 {
                        info!(signal, failed_requests, "collector accepts telemetry again");
                    }
                    if rejected > 0 {
                        warn!(signal, rejected, "collector rejected spans or data points");
                        let reason = Untrusted(&message);
                        debug!(signal, rejected, %reason, "error text of the collector");
                    }
                    return Some(rejected);
                }
                Err(error) => error,
            };
            self.counts.add("failed");
            self.failed_requests += 1;
            // An outage is logged when it begins, and then once in each [`LOG_INTERVAL`].
            if take_log_turn(&mut self.failure_logged, LOG_INTERVAL) {
                let (signal, failed_requests, error) =
                    (self.signal, self.failed_requests, ErrorChain(&error));
                warn!(signal, failed_requests, %error, "telemetry export failed");
            }
            if attempt == attempts || is_last || !error.is_transient() {
                break;
            }
            // Shutdown leaves no time to wait: one more attempt is made at once.
            is_last = self.stop.run_until_cancelled(sleep(backoff)).await.is_none();
            backoff *= 2;
        }
        None
    }

    /// Sends a request once. Returns the number of spans or data points that the collector rejected, and the
    /// reason.
    async fn send_once(&self, body: Bytes) -> Result<(u64, String), ExportError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let request = HttpRequest::get(PathBase::UrlItself, PathAndQuery::from_static("/"));
        let request = HttpRequest { method: Method::POST, headers, body, ..request };
        let upstream_call =
            UpstreamCall::new(request.into(), RESPONSE_LIMIT_BYTES, Deadline::after(self.timeout), false);
        let response = timeout(self.timeout, self.http.send(&upstream_call)).await;
        let response =
            response.map_err(|_| ExportError::Timeout(self.timeout))?.map_err(ExportError::Failed)?;
        if !response.status.is_success() {
            return Err(ExportError::Rejected(response.status));
        }
        Ok(decode_partial_success(&response.body))
    }
}
