//! Telemetry for operators: log, metrics, traces, and the request ids that connect them.
//!
//! - [`log`] sets up the log. [`Chain`] writes an error with all its sources, [`Foreign`] an untrusted text.
//! - [`RequestId`] is the same text in the log, in a tool error and in `X-Request-Id`. A [`CallContext`]
//!   passes it through all modules.
//! - [`Meters`] is the registry of metrics. [`History`] has their values of the last hour, [`Failures`] the
//!   last failed calls.
//! - [`Tracing`] creates spans. `otlp` encodes them, and metrics, for a collector.
//!
//! Values of requests and responses are logged at `debug` only: at most [`LOGGED_BYTES`] of each, after the
//! route's redaction and without our secrets. At every other level a line has the type of a value, and its
//! length. Credentials are never logged.

pub mod log;

mod call_context;
mod failures;
mod history;
mod log_writer;
mod metrics;
mod otlp;
mod traces;

pub use call_context::{CallContext, RequestId, RequestIdError};
pub use failures::{Decided, FAILURES_LIMIT, Failure, Failures};
pub use history::{HISTORY_ROUTES_LIMIT, History, Past, SAMPLE_INTERVAL, SLOTS, Tally};
pub use log::{Chain, Foreign, LOGGED_BYTES, Quoted};
pub use metrics::{
    BOUNDS, CallEnd, Durations, Family, Kind, Labels, MeterSource, Meters, Reading, RouteMeters, Strange,
    TextFormat, UpstreamMeters, Value, Words, method_word,
};
pub use otlp::{Accepted, Service, read_answer};
pub use traces::{Batch, QUEUE_LIMIT, SamplerName, Sampling, Span, SpanKind, SpanQueue, Tracing};
