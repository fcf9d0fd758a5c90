//! Sends spans and meters to a collector, by OTLP over HTTP. Nobody waits for it: where the collector is not there, calls
//! go on, and what finds no room is dropped.

use std::{
    mem,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, uri::PathAndQuery};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{debug, info, warn};

use crate::{
    config::{MetricsFile, TelemetryFile},
    route::{HttpRequest, Under},
    telemetry::{
        Accepted, Batch, Chain, Foreign, MeterSource, Meters, Reading, Service, SpanQueue, Tracing, Words,
        read_answer,
    },
    upstream::{
        Ask, Due, UpstreamError,
        http::{HttpSettings, HttpUpstream},
    },
};

/// How long what is left may take to be sent when the process ends.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// How many spans are sent together.
const BATCH_LIMIT: usize = 512;

/// How often one request is sent that finds no collector.
const ATTEMPTS: u32 = 5;

/// How long to wait before the second time; it doubles with each.
const BACKOFF: Duration = Duration::from_secs(1);

/// How much of an answer is read.
const ANSWER_LIMIT_BYTES: usize = 64 << 10;

/// How often it is said that the collector does not answer, while it does not.
const SAY_EVERY: Duration = Duration::from_secs(300);

/// What is to be sent, and where; made before anything is.
#[derive(Debug)]
pub struct Telemetry {
    file: TelemetryFile,
    queue: Option<SpanQueue>,
    meters: Meters,
    counted: Counted,
}

/// What was sent.
#[derive(Debug, Clone, Default)]
struct Counted {
    spans: Words,
    traces: Words,
    metrics: Words,
}

/// What is being sent, until the process ends.
#[derive(Debug)]
pub struct Sending {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Telemetry {
    /// What a configuration says of it, and what makes the spans.
    pub(super) fn of(file: &TelemetryFile, meters: &Meters) -> (Tracing, Self) {
        let (tracing, queue) = match &file.traces {
            Some(traces) => {
                let (tracing, queue) = Tracing::new(&file.service, traces.sampling);
                (tracing, Some(queue))
            }
            None => (Tracing::off(), None),
        };
        let counted = Counted::default();
        if file.traces.is_some() || file.metrics.is_some() {
            counted.expect(file);
            meters.register(counted.clone());
        }
        (tracing, Self { file: file.clone(), queue, meters: meters.clone(), counted })
    }

    /// Begins to send. Within a runtime.
    pub fn send(self) -> Sending {
        let Self { file, queue, meters, counted } = self;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        if let (Some(traces), Some(queue)) = (file.traces, queue) {
            let collector = Collector::new(traces.to, file.timeout, "traces", counted.traces.clone());
            let (service, stopped) = (file.service.clone(), stopped.clone());
            let sending =
                Spans { queue, batch: Batch::default(), collector, service, counted: counted.spans, stopped };
            tasks.push(tokio::spawn(sending.run(traces.delay)));
        }
        if let Some(MetricsFile { to, interval }) = file.metrics {
            let collector = Collector::new(to, file.timeout, "metrics", counted.metrics);
            tasks.push(tokio::spawn(send_meters(collector, file.service, meters, interval, stopped)));
        }
        Sending { stop, tasks }
    }
}

impl Sending {
    /// Sends what is left, within [`FLUSH_TIMEOUT`].
    pub async fn end(self) {
        self.stop.send_replace(true);
        let all = async {
            for task in self.tasks {
                let _ = task.await;
            }
        };
        if timeout(FLUSH_TIMEOUT, all).await.is_err() {
            warn!(after = ?FLUSH_TIMEOUT, "not all telemetry could be sent before the end");
        }
    }
}

/// The spans, batch by batch.
struct Spans {
    queue: SpanQueue,
    /// What waits for others to be sent with.
    batch: Batch,
    collector: Collector,
    service: Service,
    counted: Words,
    stopped: watch::Receiver<bool>,
}

impl Spans {
    async fn run(mut self, delay: Duration) {
        let mut stopped = self.stopped.clone();
        loop {
            tokio::select! {
                () = stop(&mut stopped) => break,
                () = self.fill(delay) => {}
            }
            let batch = mem::take(&mut self.batch);
            self.ship(batch, ATTEMPTS).await;
        }
        loop {
            let mut batch = mem::take(&mut self.batch);
            self.queue.take(&mut batch, BATCH_LIMIT);
            if batch.is_empty() {
                return;
            }
            self.ship(batch, 1).await;
        }
    }

    /// Waits for a first span, and then for others for a while.
    async fn fill(&mut self, delay: Duration) {
        self.queue.fill(&mut self.batch, BATCH_LIMIT).await;
        let until = Instant::now() + delay;
        while self.batch.len() < BATCH_LIMIT {
            if timeout_at(until, self.queue.fill(&mut self.batch, BATCH_LIMIT)).await.is_err() {
                break;
            }
        }
    }

    async fn ship(&mut self, batch: Batch, attempts: u32) {
        let spans = batch.len() as u64;
        let body = Bytes::from(batch.encode(&self.service));
        let stopped = self.stopped.clone();
        match self.collector.send(body, attempts, stopped).await {
            Some(rejected) => {
                let rejected = rejected.min(spans);
                self.counted.add_many("sent", spans - rejected);
                self.counted.add_many("rejected", rejected);
            }
            None => self.counted.add_many("lost", spans),
        }
        self.counted.add_many("no_room", self.queue.dropped());
    }
}

/// Tells of the meters every `interval`, and once more at the end.
async fn send_meters(
    mut collector: Collector,
    service: Service,
    meters: Meters,
    interval: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let body = || Bytes::from(meters.read().encode(&service, meters.began(), SystemTime::now()));
    loop {
        tokio::select! {
            () = stop(&mut stopped) => break,
            () = sleep(interval) => {}
        }
        // What is not told now is told the next time: only sums are sent.
        collector.send(body(), 1, stopped.clone()).await;
    }
    collector.send(body(), 1, stopped).await;
}

/// Ready when the process is about to end.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Where one kind of telemetry goes.
struct Collector {
    http: HttpUpstream,
    timeout: Duration,
    signal: &'static str,
    counted: Words,
    failing: Option<Failing>,
}

/// Since it does not answer.
struct Failing {
    requests: u64,
    said: Instant,
}

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
enum Untaken {
    #[error("the collector was not reached")]
    Failed(#[source] UpstreamError),
    #[error("the collector did not answer in {0:?}")]
    Late(Duration),
    #[error("the collector answered with status {0}")]
    Refused(StatusCode),
}

impl Untaken {
    /// Whether it may be taken later (OTLP specification, "Failures").
    fn is_passing(&self) -> bool {
        match self {
            Self::Failed(_) | Self::Late(_) => true,
            Self::Refused(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
        }
    }
}

impl Collector {
    fn new(to: HttpSettings, timeout: Duration, signal: &'static str, counted: Words) -> Self {
        Self { http: HttpUpstream::new(to), timeout, signal, counted, failing: None }
    }

    /// Sends a request, several times where that may help. Gives how many of its parts were not taken after all; `None`
    /// when nothing was.
    async fn send(&mut self, body: Bytes, attempts: u32, mut stopped: watch::Receiver<bool>) -> Option<u64> {
        let (mut pause, mut is_last) = (BACKOFF, false);
        for attempt in 1..=attempts {
            let error = match self.send_once(body.clone()).await {
                Ok(accepted) => {
                    self.answered();
                    if accepted.rejected > 0 {
                        let (signal, rejected) = (self.signal, accepted.rejected);
                        warn!(signal, rejected, "the collector did not take all telemetry");
                        let reason = Foreign(&accepted.message);
                        debug!(signal, rejected, %reason, "the collector's own words");
                    }
                    return Some(accepted.rejected);
                }
                Err(error) => error,
            };
            self.failed(&error);
            if attempt == attempts || is_last || !error.is_passing() {
                break;
            }
            tokio::select! {
                () = sleep(pause) => {}
                // There is no time left to wait in; it is tried once more.
                () = stop(&mut stopped) => is_last = true,
            }
            pause *= 2;
        }
        None
    }

    async fn send_once(&self, body: Bytes) -> Result<Accepted, Untaken> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let request = HttpRequest {
            method: Method::POST,
            under: Under::Itself,
            path_and_query: PathAndQuery::from_static("/"),
            headers,
            body,
        };
        let ask = Ask::new(request.into(), ANSWER_LIMIT_BYTES, Due::after(self.timeout), false);
        let reply = timeout(self.timeout, self.http.answer(&ask)).await;
        let reply = reply.map_err(|_| Untaken::Late(self.timeout))?.map_err(Untaken::Failed)?;
        if !reply.status.is_success() {
            return Err(Untaken::Refused(reply.status));
        }
        Ok(read_answer(&reply.body))
    }

    fn answered(&mut self) {
        self.counted.add("taken");
        if let Some(failing) = self.failing.take() {
            info!(signal = self.signal, failed = failing.requests, "the collector takes telemetry again");
        }
    }

    /// It is said when it begins, and then seldom.
    fn failed(&mut self, error: &Untaken) {
        self.counted.add("failed");
        let now = Instant::now();
        let failing = self.failing.get_or_insert(Failing { requests: 0, said: now });
        failing.requests += 1;
        if failing.requests == 1 || now - failing.said >= SAY_EVERY {
            failing.said = now;
            let (signal, failed, error) = (self.signal, failing.requests, Chain(error));
            warn!(signal, failed, %error, "telemetry is not taken; calls go on");
        }
    }
}

impl Counted {
    fn expect(&self, file: &TelemetryFile) {
        if file.traces.is_some() {
            self.spans.expect(["sent", "rejected", "lost", "no_room"]);
            self.traces.expect(["taken", "failed"]);
        }
        if file.metrics.is_some() {
            self.metrics.expect(["taken", "failed"]);
        }
    }
}

impl MeterSource for Counted {
    fn tell(&self, reading: &mut Reading) {
        let help = "Spans by what became of them";
        let family = reading.counter("glossator_telemetry_spans", help);
        for (result, count) in self.spans.read() {
            family.add(vec![("result", result.into())], count);
        }
        let help = "Requests to the collector, by what they told and what came of them";
        let family = reading.counter("glossator_telemetry_requests", help);
        for (signal, words) in [("traces", &self.traces), ("metrics", &self.metrics)] {
            for (result, count) in words.read() {
                family.add(vec![("signal", signal.into()), ("result", result.into())], count);
            }
        }
    }
}
