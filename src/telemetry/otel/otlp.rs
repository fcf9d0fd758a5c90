//! Spans and meters as OTLP has them (opentelemetry-proto 1.x, over HTTP, in protobuf).

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::{
    tonic::{
        collector::{
            metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse},
            trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
        },
        common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
        metrics::v1::{
            AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
            ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
        },
        resource::v1::Resource,
    },
    transform::trace::tonic::group_spans_by_resource_and_scope,
};
use prost::Message;

use super::{
    Service,
    names::{Attribute, Named, named},
    queue::Batch,
};
use crate::telemetry::meters::{BOUNDS, Family, Kind, Labels, Reading, Value};

impl Batch {
    /// A request that tells of these spans.
    pub fn encode(self, service: &Service) -> Vec<u8> {
        let resource = (&service.resource()).into();
        let resource_spans = group_spans_by_resource_and_scope(self.0, &resource);
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }
}

impl Reading {
    /// A request that tells of these meters: what is counted since `began`, as it is at `now`.
    pub fn encode(&self, service: &Service, began: SystemTime, now: SystemTime) -> Vec<u8> {
        let times = (nanos(began), nanos(now));
        let metrics = self.families().iter().flat_map(|family| metrics_of(family, times)).collect();
        let attributes = service.attributes().iter().map(|(key, value)| text(key, value)).collect();
        let scope = InstrumentationScope {
            name: Service::NAME.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..InstrumentationScope::default()
        };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(Resource { attributes, ..Resource::default() });
        let resource_metrics =
            vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
    }
}

/// What a collector says of a request that it took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// How many spans or points it did not take after all.
    pub rejected: u64,
    /// Why.
    pub message: String,
}

/// Reads the answer to a request. One that can't be read says nothing: that it came is enough.
pub fn read_answer(body: &[u8]) -> Accepted {
    // Both have the same members under the same numbers.
    const _: fn(ExportMetricsServiceResponse) = |response| drop(response.partial_success);
    let answer = ExportTraceServiceResponse::decode(body).ok().and_then(|answer| answer.partial_success);
    answer.map_or_else(Accepted::default, |partial| Accepted {
        rejected: u64::try_from(partial.rejected_spans).unwrap_or_default(),
        message: partial.error_message,
    })
}

fn metrics_of(family: &Family, times: (u64, u64)) -> Vec<Metric> {
    let named = named(family);
    named.into_iter().filter_map(|named| metric_of(family, &named, times)).collect()
}

fn metric_of(family: &Family, named: &Named, (began, now): (u64, u64)) -> Option<Metric> {
    let (mut numbers, mut histograms) = (Vec::new(), Vec::new());
    for (labels, value) in family.points() {
        let Some(attributes) = attributes_of(named, labels) else { continue };
        let number = match value {
            Value::Whole(number) => {
                number_data_point::Value::AsInt(i64::try_from(*number).unwrap_or(i64::MAX))
            }
            Value::Real(number) => number_data_point::Value::AsDouble(*number),
            Value::Durations(durations) => {
                histograms.push(HistogramDataPoint {
                    attributes,
                    start_time_unix_nano: began,
                    time_unix_nano: now,
                    count: durations.count(),
                    sum: Some(durations.seconds()),
                    bucket_counts: durations.ranges.to_vec(),
                    explicit_bounds: BOUNDS.to_vec(),
                    ..HistogramDataPoint::default()
                });
                continue;
            }
        };
        // A gauge has no beginning.
        let start_time_unix_nano = if family.kind == Kind::Gauge { 0 } else { began };
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
        Kind::Counter => {
            metric::Data::Sum(Sum { data_points: numbers, aggregation_temporality, is_monotonic: true })
        }
        Kind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers }),
        Kind::Histogram => {
            metric::Data::Histogram(Histogram { data_points: histograms, aggregation_temporality })
        }
    };
    Some(Metric {
        name: named.name.to_string(),
        description: family.help.to_owned(),
        unit: named.unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

/// The attributes of a point; none where it is not one of this metric.
fn attributes_of(named: &Named, labels: &Labels) -> Option<Vec<KeyValue>> {
    let mut attributes = Vec::with_capacity(labels.len());
    for (label, value) in labels {
        match (named.label)(label, value) {
            Attribute::Text(key, value) => attributes.push(text(&key, &value)),
            Attribute::Number(key, number) => attributes.push(pair(key, any_value::Value::IntValue(number))),
            Attribute::LeftOut => {}
            Attribute::NotOfThis => return None,
        }
    }
    attributes.extend(named.more.iter().map(|(key, value)| text(key, value)));
    Some(attributes)
}

fn text(key: &str, value: &str) -> KeyValue {
    pair(key, any_value::Value::StringValue(value.to_owned()))
}

fn pair(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
