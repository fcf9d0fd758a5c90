//! Telemetry for operators: a log with one line per call, a request id to find it by, whole error chains.
//!
//! In reading order: [`log`] sets up the subscriber. [`RequestId`] is the same text in the log, in a tool
//! error and in `X-Request-Id`; a [`CallContext`] passes it through all modules. [`Chain`] writes an error
//! with all its sources, [`Foreign`] an untrusted text. [`Meters`] count, [`History`] has their values of the
//! last hour, and [`Failures`] the last calls that failed.
//!
//! Values of requests and responses are logged at `debug` only: at most [`LOGGED_BYTES`] of each, after the route's
//! redaction and without our secrets. At every other level a line says what kind of value it was, and how long.
//! Credentials are never logged.

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
