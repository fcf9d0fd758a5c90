//! OTLP encoding of traces and metrics (opentelemetry-proto 1.x, protobuf over HTTP).
//!
//! Names follow OpenTelemetry's semantic conventions 1.41; the conventions for MCP are still in development.
//! The exporter is in the module `server`, because it needs an HTTP client.

use std::{
    borrow::Cow,
    time::{SystemTime, UNIX_EPOCH},
};

use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_proto::{
    tonic::{
        collector::{
            metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse},
            trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
        },
        metrics::v1::{
            AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
            ResourceMetrics, ScopeMetrics, Sum, metric,
        },
    },
    transform::trace::tonic::group_spans_by_resource_and_scope,
};
use opentelemetry_sdk::trace::SpanData;
use prost::Message;

/// OTLP resource: the service that produces telemetry, with its attributes.
pub use opentelemetry_sdk::Resource;

use super::metrics::{BUCKET_BOUNDS, MetricFamily, MetricKind, MetricValue, MetricsSnapshot};

/// Encodes these spans as an export request.
pub fn encode_spans(spans: Vec<SpanData>, service: &Resource) -> Vec<u8> {
    let resource_spans = group_spans_by_resource_and_scope(spans, &service.into());
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

impl MetricsSnapshot {
    /// Encodes these metrics as an export request: counted since `started_at`, with their values at `now`.
    pub fn encode(&self, service: &Resource, started_at: SystemTime, now: SystemTime) -> Vec<u8> {
        let times = (nanos(started_at), nanos(now));
        let pairs = |family| otlp_metrics_of(family).into_iter().map(move |metric| (family, metric));
        let metrics = self.0.iter().flat_map(pairs);
        let metrics = metrics.filter_map(|(family, metric)| metric_of(family, &metric, times)).collect();
        let scope = Some((scope(), None).into());
        let scope_metrics = vec![ScopeMetrics { scope, metrics, ..ScopeMetrics::default() }];
        let resource = Some(service.into());
        let resource_metrics =
            vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
    }
}

/// Parses the response to an export request that was accepted. Returns the number of spans or data points
/// that were rejected nevertheless (OTLP "partial success"), and the reason. A response that can't be parsed
/// counts as one without rejections.
pub fn decode_partial_success(body: &[u8]) -> (u64, String) {
    // The responses for traces and metrics have the same fields with the same numbers.
    const _: fn(ExportMetricsServiceResponse) = |response| drop(response.partial_success);
    let response = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let partial = response.partial_success.unwrap_or_default();
    (u64::try_from(partial.rejected_spans).unwrap_or_default(), partial.error_message)
}

fn metric_of(family: &MetricFamily, otlp: &OtlpMetric, (started_at, now): (u64, u64)) -> Option<Metric> {
    let (mut numbers, mut histograms) = (Vec::new(), Vec::new());
    for (labels, value) in &family.points {
        let attributes = labels.iter().map(|(label, value)| (otlp.label)(label, value));
        // A label can exclude its point from this metric.
        let Some(attributes) = attributes.collect::<Option<Vec<_>>>() else { continue };
        let constant_attributes = otlp.attributes.iter().map(|(key, value)| text_attribute(*key, value));
        let attributes =
            attributes.into_iter().flatten().chain(constant_attributes).map(|pair| (&pair).into()).collect();
        let number = match value {
            MetricValue::Integer(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
            MetricValue::Float(number) => (*number).into(),
            MetricValue::Histogram(durations) => {
                histograms.push(HistogramDataPoint {
                    attributes,
                    start_time_unix_nano: started_at,
                    time_unix_nano: now,
                    count: durations.count(),
                    sum: Some(durations.seconds()),
                    bucket_counts: durations.buckets.to_vec(),
                    explicit_bounds: BUCKET_BOUNDS.to_vec(),
                    ..HistogramDataPoint::default()
                });
                continue;
            }
        };
        // A gauge has no start time.
        let start_time_unix_nano = if family.kind == MetricKind::Gauge { 0 } else { started_at };
        numbers.push(NumberDataPoint {
            attributes,
            start_time_unix_nano,
            time_unix_nano: now,
            value: Some(number),
            ..NumberDataPoint::default()
        });
    }
    if numbers.is_empty() && histograms.is_empty() {
        return None;
    }
    let aggregation_temporality = AggregationTemporality::Cumulative as i32;
    let data = match family.kind {
        MetricKind::Counter => {
            metric::Data::Sum(Sum { data_points: numbers, aggregation_temporality, is_monotonic: true })
        }
        MetricKind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers }),
        MetricKind::Histogram => {
            metric::Data::Histogram(Histogram { data_points: histograms, aggregation_temporality })
        }
    };
    Some(Metric {
        name: otlp.name.to_string(),
        description: family.help.to_owned(),
        unit: otlp.unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

fn text_attribute(key: impl Into<Key>, value: &str) -> KeyValue {
    KeyValue::new(key, value.to_owned())
}

/// Instrumentation scope of all telemetry: this program.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(NAME).with_version(env!("CARGO_PKG_VERSION")).build()
}

fn nanos(time: SystemTime) -> u64 {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

/// The name of the program, and the default of `service.name`.
const NAME: &str = "glossator";

/// Builds the OTLP resource of the service, which produces all telemetry. The `attributes` override the
/// built-in ones, and `name` overrides `service.name`.
pub fn service_resource(
    name: Option<String>,
    attributes: impl IntoIterator<Item = (String, String)>,
) -> Resource {
    Resource::builder_empty()
        .with_attributes([
            text_attribute("service.name", NAME),
            text_attribute("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .with_attributes(attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)))
        .with_attributes(name.map(|name| KeyValue::new("service.name", name)))
        .build()
}

/// The OTLP name and attributes of a metric.
struct OtlpMetric {
    name: Cow<'static, str>,
    /// The unit in UCUM.
    unit: &'static str,
    /// Converts a label to an attribute.
    label: fn(&'static str, &str) -> Attribute,
    /// Attributes of all points of the metric.
    attributes: &'static [(&'static str, &'static str)],
}

/// Outer `None`: points with this label are not part of the metric. Inner `None`: the label has no attribute.
type Attribute = Option<Option<KeyValue>>;

/// Returns the OTLP metrics for a family. If the semantic conventions have a name for the same data, only
/// that name is used.
fn otlp_metrics_of(family: &MetricFamily) -> Vec<OtlpMetric> {
    let (name, unit, label): (_, _, fn(&'static str, &str) -> Attribute) = match family.name {
        "glossator_call_duration_seconds" => {
            // Omits calls over REST, which are no MCP operations, and over CGI, whose transport is unknown.
            let operations = OtlpMetric {
                name: "mcp.server.operation.duration".into(),
                unit: "s",
                label: mcp_label,
                attributes: &[("mcp.method.name", "tools/call"), ("gen_ai.operation.name", "execute_tool")],
            };
            return vec![glossator_metric(family), operations];
        }
        "glossator_http_request_duration_seconds" => ("http.server.request.duration", "s", http_label),
        "process_cpu_seconds" => ("process.cpu.time", "s", glossator_label),
        "process_resident_memory_bytes" => ("process.memory.usage", "By", glossator_label),
        "process_virtual_memory_bytes" => ("process.memory.virtual", "By", glossator_label),
        "process_threads" => ("process.thread.count", "{thread}", glossator_label),
        "process_open_fds" => ("process.unix.file_descriptor.count", "{file_descriptor}", glossator_label),
        // Each data point of a counter has the start time already.
        "process_start_time_seconds" => return Vec::new(),
        _ => return vec![glossator_metric(family)],
    };
    vec![OtlpMetric { name: name.into(), unit, label, attributes: &[] }]
}

/// Names a metric so that a conversion from OTLP to Prometheus results in the original name.
fn glossator_metric(family: &MetricFamily) -> OtlpMetric {
    let units = [("_seconds", "s"), ("_bytes", "By")];
    let name_and_unit =
        units.into_iter().find_map(|(ending, unit)| Some((family.name.strip_suffix(ending)?, unit)));
    let (name, unit) = name_and_unit.unwrap_or((family.name, ""));
    OtlpMetric { name: name.replacen('_', ".", 1).into(), unit, label: glossator_label, attributes: &[] }
}

fn glossator_label(label: &'static str, value: &str) -> Attribute {
    Some(match label {
        "route" => Some(text_attribute("gen_ai.tool.name", value)),
        "mcp_version" | "error_type" if value.is_empty() => None,
        "mcp_version" => Some(text_attribute("mcp.protocol.version", value)),
        label => Some(text_attribute(format!("glossator.{label}"), value)),
    })
}

fn http_label(label: &'static str, value: &str) -> Attribute {
    let status = |number: i64| KeyValue::new("http.response.status_code", number);
    Some(match label {
        "scheme" => Some(text_attribute("url.scheme", value)),
        "method" => Some(text_attribute("http.request.method", value)),
        "status" => value.parse().ok().map(status),
        label => Some(text_attribute(label, value)),
    })
}

fn mcp_label(label: &'static str, value: &str) -> Attribute {
    Some(match (label, value) {
        ("route", tool) => Some(text_attribute("gen_ai.tool.name", tool)),
        ("api", "mcp") => Some(text_attribute("network.transport", "tcp")),
        ("api", "stdio") => Some(text_attribute("network.transport", "pipe")),
        ("api", _) => return None,
        ("outcome", "success") => None,
        // Without an attribute, the calls of a tool with both outcomes would be two points with the same
        // attributes, which OTLP does not allow.
        ("outcome", "task") => Some(text_attribute("glossator.outcome", "task")),
        ("outcome", "error") => Some(text_attribute("error.type", "tool_error")),
        ("outcome", outcome) => Some(text_attribute("error.type", outcome)),
        (label, value) => Some(text_attribute(label, value)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_service_name_overrides_attributes_and_the_default() {
        let name = |service: &Resource| service.get(&"service.name".into()).map(|name| name.to_string());
        let attributes = || [("service.name".to_owned(), "b".to_owned()), ("x".to_owned(), "y".to_owned())];
        assert_eq!(name(&service_resource(Some("a".into()), attributes())).as_deref(), Some("a"));
        assert_eq!(name(&service_resource(None, attributes())).as_deref(), Some("b"));
        assert_eq!(name(&service_resource(None, [])).as_deref(), Some("glossator"));
        assert_eq!(service_resource(None, attributes()).len(), 3);
    }

    #[test]
    fn otlp_names_map_back_to_prometheus_names() {
        let mut snapshot = MetricsSnapshot::default();
        for (name, expected) in [
            ("glossator_calls", ("glossator.calls", "")),
            ("glossator_upstream_request_duration_seconds", ("glossator.upstream_request_duration", "s")),
            ("glossator_cache_limit_bytes", ("glossator.cache_limit", "By")),
        ] {
            let metric = glossator_metric(snapshot.counter(name, ""));
            assert_eq!((&*metric.name, metric.unit), expected);
        }
    }

    #[test]
    fn a_call_outside_mcp_has_no_mcp_attributes() {
        assert_eq!(mcp_label("api", "rest"), None);
        assert_eq!(mcp_label("api", "stdio"), Some(Some(text_attribute("network.transport", "pipe"))));
        assert_ne!(mcp_label("outcome", "task"), mcp_label("outcome", "success"));
        assert_eq!(mcp_label("outcome", "error"), Some(Some(text_attribute("error.type", "tool_error"))));
    }
}
