//! Telemetry for operators: log, metrics, traces, and the request ids that connect them.
//!
//! - [`log`] sets up the log. [`ErrorChain`] formats an error with all its sources, [`Untrusted`] a string
//!   from a client or an upstream.
//! - [`RequestId`] is the same in the log, in tool errors and in `X-Request-Id`. A [`CallContext`] carries it
//!   through all modules.
//! - [`Meters`] is the registry of metrics. [`History`] has the call statistics of the last hour,
//!   [`FailedCalls`] the last failed calls.
//! - [`Tracer`] creates spans. `otlp_encoding` encodes spans and metrics for a collector.
//!
//! Values of requests and responses are logged at `debug` only: at most [`LOGGED_BYTES`] of each, after the
//! redaction of the route, and without the secrets of the configuration. At every other level, a log line has
//! only the type and the length of a value. Credentials are never logged.

pub mod log;

mod call_context;
mod call_history;
mod log_writer;
mod metrics;
mod otlp_encoding;
mod request_id;
mod traces;

pub use call_context::CallContext;
pub use call_history::{
    CallCounts, FAILURES_LIMIT, FailedCall, FailedCalls, HISTORY_ROUTES_LIMIT, History, HistorySlot,
    MatchedRule, SAMPLE_INTERVAL, SLOTS,
};
pub use log::{ErrorChain, LOGGED_BYTES, Untrusted};
pub use metrics::{
    BUCKET_BOUNDS, CallEnd, HistogramSnapshot, LabelCounter, Labels, Meters, MetricFamily, MetricKind,
    MetricValue, MetricsSnapshot, ResponseMismatch, RouteMeters, TextFormat, UpstreamMeters, method_label,
};
pub use otlp_encoding::{Resource, decode_partial_success, encode_spans, service_resource};
pub use request_id::RequestId;
pub use traces::{QUEUE_LIMIT, SamplerName, Sampling, Span, SpanKind, SpanQueue, Tracer};
