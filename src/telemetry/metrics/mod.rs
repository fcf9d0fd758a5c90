//! Metrics: counters, gauges and histograms.
//!
//! - [`Meters`] is the registry.
//! - [`RouteMeters`] are the metrics of one route, looked up once when a configuration becomes active.
//! - [`Meters::register`] adds the metrics of another module.
//! - [`MetricsSnapshot`] has the values of all metrics at one time. [`TextFormat`] formats it for Prometheus.
//! - `histogram` has the histograms of durations and the bounds of their buckets.

mod histogram;
mod route;
mod snapshot;

use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{Method, StatusCode};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

pub use histogram::{BUCKET_BOUNDS, HistogramSnapshot};
pub use route::{CallEnd, LabelCounter, ResponseMismatch, RouteMeters, UpstreamMeters};
pub use snapshot::{Labels, MetricFamily, MetricKind, MetricValue, MetricsSnapshot, TextFormat};

use self::histogram::Histogram;
use super::FailedCalls;
use crate::descriptors;

/// Registry of all metrics of the process. Clones share it.
#[derive(derive_more::Debug, Clone, Default)]
#[debug("Meters")]
pub struct Meters(Arc<Registry>);

#[derive(Default)]
struct Registry {
    started_at: StartTime,
    routes: Mutex<BTreeMap<RouteKey, Arc<RouteMeters>>>,
    upstreams: Mutex<BTreeMap<Arc<str>, Arc<UpstreamMeters>>>,
    http: HttpDurations,
    failures: FailedCalls,
    sources: Mutex<Vec<MeterSource>>,
}

/// Tool, upstream, and number of rules of a route. Routes with different keys have separate metrics. The
/// metrics of a key continue after a reload.
type RouteKey = (Arc<str>, Arc<str>, usize);

/// Function that adds the metrics of another module to a snapshot.
type MeterSource = Box<dyn Fn(&mut MetricsSnapshot) + Send + Sync>;

/// The time at which counting began.
struct StartTime(SystemTime);

impl Default for StartTime {
    fn default() -> Self {
        Self(SystemTime::now())
    }
}

impl Meters {
    /// Number of routes, or of upstreams, from which unused ones are removed before another is added, and not
    /// only when a snapshot is created. It bounds the number of series if an MCP server keeps renaming its
    /// tools.
    pub const TRACKED_LIMIT: usize = 10_000;

    /// Registers a source of metrics from another module. `source` is called for every snapshot.
    pub fn register(&self, source: impl Fn(&mut MetricsSnapshot) + Send + Sync + 'static) {
        self.0.sources.lock().push(Box::new(source));
    }

    /// Returns the metrics of a route with this number of rules, and creates them if needed.
    pub fn route(&self, tool: Arc<str>, upstream: Arc<str>, rules: usize) -> Arc<RouteMeters> {
        let upstream_meters =
            get_or_create(&mut self.0.upstreams.lock(), Arc::clone(&upstream), UpstreamMeters::default);
        let (key, failures) = ((tool, upstream, rules), self.0.failures.clone());
        get_or_create(&mut self.0.routes.lock(), key.clone(), || {
            RouteMeters::new(key, upstream_meters, failures)
        })
    }

    /// Time at which counting began.
    pub fn began(&self) -> SystemTime {
        self.0.started_at.0
    }

    /// Counts an HTTP request, once the headers of its response are complete.
    pub fn http_answered(
        &self,
        scheme: &'static str,
        method: &Method,
        status: StatusCode,
        duration: Duration,
    ) {
        let status = status.as_u16().min(LAST_STATUS);
        self.0.http.get((scheme, method_label(method), status)).observe(duration);
    }

    /// Returns the last failed calls.
    pub fn failures(&self) -> &FailedCalls {
        &self.0.failures
    }

    /// Returns the metrics of all routes. Several may have the same tool name.
    pub(super) fn routes(&self) -> Vec<Arc<RouteMeters>> {
        self.0.routes.lock().values().cloned().collect()
    }

    /// Creates a snapshot of all metrics. Series of routes and upstreams that are used by neither a
    /// configuration nor a call in flight are removed; otherwise they would be exported until the process
    /// ends.
    pub fn read(&self) -> MetricsSnapshot {
        let mut snapshot = MetricsSnapshot::default();
        in_use(&self.0.routes).iter().for_each(|(_, route)| route.report(&mut snapshot));
        in_use(&self.0.upstreams).iter().for_each(|(name, upstream)| upstream.report(name, &mut snapshot));
        report_http(&mut snapshot, &self.0.http);
        for source in self.0.sources.lock().iter() {
            source(&mut snapshot);
        }
        let help = "Log lines dropped because standard error was not read quickly enough";
        snapshot.counter("glossator_log_lines_dropped", help).set(super::log::dropped());
        report_process(&mut snapshot, self.0.started_at.0);
        snapshot
    }
}

/// Metrics of one kind, by their label values, which are constants. Each metric is created when it is first
/// used.
#[derive(Debug, Default)]
struct ByLabel<T, K = &'static str>(Mutex<BTreeMap<K, Arc<T>>>);

impl<T: Default, K: Copy + Ord> ByLabel<T, K> {
    fn get(&self, label: K) -> Arc<T> {
        Arc::clone(self.0.lock().entry(label).or_default())
    }

    fn all(&self) -> Vec<(K, Arc<T>)> {
        self.0.lock().iter().map(|(label, metric)| (*label, Arc::clone(metric))).collect()
    }
}

/// Returns the metrics that a configuration or a call still uses, in the order of their keys, and removes the
/// others.
fn in_use<K: Clone + Ord, M>(registered: &Mutex<BTreeMap<K, Arc<M>>>) -> Vec<(K, Arc<M>)> {
    let mut registered = registered.lock();
    registered.retain(|_, meters| Arc::strong_count(meters) > 1);
    registered.iter().map(|(key, meters)| (key.clone(), Arc::clone(meters))).collect()
}

/// Returns the metrics with this key, and creates them if needed.
fn get_or_create<K: Ord, M>(
    registered: &mut BTreeMap<K, Arc<M>>,
    key: K,
    create: impl FnOnce() -> M,
) -> Arc<M> {
    if registered.len() >= Meters::TRACKED_LIMIT && !registered.contains_key(&key) {
        registered.retain(|_, meters| Arc::strong_count(meters) > 1);
    }
    Arc::clone(registered.entry(key).or_insert_with(|| Arc::new(create())))
}

/// Gauges that are read from `/proc/self/status`: prefix of the line, name, help, and unit of the number in
/// the line.
const STATUS_LINES: [(&str, &str, &str, u64); 3] = [
    ("VmRSS:", "process_resident_memory_bytes", "Resident memory of the process, in bytes", 1024),
    ("VmSize:", "process_virtual_memory_bytes", "Virtual memory of the process, in bytes", 1024),
    ("Threads:", "process_threads", "Threads of the process", 1),
];

/// Adds the metrics of the process. Metrics that the system does not provide are omitted.
fn report_process(snapshot: &mut MetricsSnapshot, started_at: SystemTime) {
    let since_epoch = started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    snapshot
        .gauge("process_start_time_seconds", "Start time of the process, in seconds since 1970")
        .set(since_epoch.as_secs_f64());
    let cpu_time: Duration = clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default();
    snapshot
        .counter("process_cpu_seconds", "CPU time of the process, in seconds")
        .set(cpu_time.as_secs_f64());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (line, name, help, unit) in STATUS_LINES {
        if let Some(number) = number_after(&status, line).and_then(|number| number.checked_mul(unit)) {
            snapshot.gauge(name, help).set(number);
        }
    }
    if let Ok(descriptor_entries) = fs::read_dir("/proc/self/fd") {
        snapshot
            .gauge("process_open_fds", "Open file descriptors of the process")
            .set(descriptor_entries.count());
    }
    if let Some(max) = descriptors::limit() {
        snapshot.gauge("process_max_fds", "Maximum number of open file descriptors").set(max);
    }
}

/// Returns the first number in the line that begins with `name`.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Durations of HTTP requests until the response headers, by scheme, method and status.
type HttpDurations = ByLabel<Histogram, (&'static str, &'static str, u16)>;

/// Highest status with a series of its own. A passthrough upstream may return a higher one, which is counted
/// as this status.
const LAST_STATUS: u16 = 599;

/// Adds the metrics of HTTP requests.
fn report_http(snapshot: &mut MetricsSnapshot, durations: &HttpDurations) {
    let help = "Duration of HTTP requests until the response headers, by scheme, method and status";
    let requests = snapshot.histogram("glossator_http_request_duration_seconds", help);
    for ((scheme, method, status), histogram) in durations.all() {
        let status = status.to_string();
        let labels = [("scheme", scheme), ("method", method), ("status", status.as_str())];
        requests.add(&labels, histogram.read());
    }
}

/// Label of a method. All unknown methods have the same label, because clients can send any name: the
/// cardinality of labels stays bounded.
pub fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::TRACE => "TRACE",
        Method::CONNECT => "CONNECT",
        _ => "_OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn metrics_are_written_in_the_prometheus_format() {
        let meters = Meters::default();
        let route = meters.route("get_x".into(), "old".into(), 2);
        route.call_started("mcp");
        route.call_started("mcp");
        let end =
            CallEnd { api: "mcp", mcp_version: "2025-11-25", outcome: "error", error_type: Some("upstream") };
        route.call_ended(end, 3 * MILLISECOND);
        route.rule_matched(Some(0));
        route.rule_matched(None);
        route.unmatched(ResponseMismatch::NoRule);
        route.upstream_responded("2xx", 2 * MILLISECOND);
        meters.http_answered("http", &Method::POST, StatusCode::OK, 4 * MILLISECOND);
        meters.http_answered(
            "http",
            &Method::from_bytes(b"BREW").unwrap(),
            StatusCode::IM_A_TEAPOT,
            MILLISECOND,
        );
        let text = TextFormat::OpenMetrics.write(&meters.read());
        for line in [
            r#"glossator_calls_total{route="get_x",upstream="old",api="mcp",mcp_version="2025-11-25",outcome="error",error_type="upstream"} 1"#,
            r#"glossator_calls_in_flight{route="get_x",api="mcp"} 1"#,
            r#"glossator_call_duration_seconds_bucket{route="get_x",api="mcp",outcome="error",le="0.005"} 1"#,
            r#"glossator_rule_matches_total{route="get_x",rule="1"} 1"#,
            r#"glossator_rule_matches_total{route="get_x",rule="2"} 0"#,
            r#"glossator_rule_matches_total{route="get_x",rule="default"} 1"#,
            r#"glossator_unmatched_responses_total{route="get_x",reason="no_rule"} 1"#,
            r#"glossator_upstream_requests_total{upstream="old",result="2xx"} 1"#,
            r#"glossator_http_request_duration_seconds_count{scheme="http",method="POST",status="200"} 1"#,
            r#"glossator_http_request_duration_seconds_count{scheme="http",method="_OTHER",status="418"} 1"#,
            "# TYPE glossator_call_duration_seconds histogram",
            "# UNIT process_start_time_seconds seconds",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_metrics_of_an_unchanged_route_continue_after_a_reload() {
        let meters = Meters::default();
        let before = meters.route("a".into(), "old".into(), 1);
        before.rule_matched(Some(0));
        meters.route("a".into(), "old".into(), 1).rule_matched(Some(0));
        let changed = meters.route("a".into(), "old".into(), 3);
        changed.rule_matched(None);
        let text = TextFormat::Prometheus.write(&meters.read());
        assert!(text.contains("glossator_rule_matches_total{route=\"a\",rule=\"1\"} 2\n"), "{text}");
        assert!(text.contains("glossator_rule_matches_total{route=\"a\",rule=\"default\"} 1\n"), "{text}");
    }

    #[test]
    fn the_metrics_of_a_removed_route_disappear() {
        let meters = Meters::default();
        let used_route = meters.route("kept".into(), "old".into(), 0);
        let removed_route = meters.route("gone".into(), "other".into(), 0);
        for route in [&used_route, &removed_route] {
            route.upstream_responded("2xx", MILLISECOND);
        }
        let is_exported = |name: &str| TextFormat::Prometheus.write(&meters.read()).contains(name);
        assert!(is_exported("\"kept\"") && is_exported("\"gone\"") && is_exported("\"other\""));
        drop(removed_route);
        assert!(
            is_exported("\"kept\"")
                && is_exported("\"old\"")
                && !is_exported("\"gone\"")
                && !is_exported("\"other\"")
        );
    }

    #[test]
    fn routes_that_are_no_more_are_forgotten_before_there_are_too_many() {
        let meters = Meters::default();
        let used_route = meters.route("kept".into(), "old".into(), 0);
        for number in 0..2 * Meters::TRACKED_LIMIT {
            meters.route(number.to_string().into(), "old".into(), 0);
        }
        assert!(meters.0.routes.lock().len() <= Meters::TRACKED_LIMIT);
        assert!(Arc::ptr_eq(&used_route, &meters.route("kept".into(), "old".into(), 0)));
    }
}
