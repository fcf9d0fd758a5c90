//! Traces: spans of requests, calls and attempts, sampling, and the queue of finished spans.

use std::{borrow::Cow, fmt, net::SocketAddr, str::FromStr, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Version, header, uri::Authority};
use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{Span as _, SpanContext, Status, TraceContextExt, TraceState, Tracer as _, TracerProvider},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan, SpanData, SpanProcessor},
};
use parking_lot::Mutex;
use settings_derive::EnumSetting;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::metrics::{LabelCounter, method_label};
use super::otlp_encoding::scope;
use crate::route::TraceContext;

/// Maximum length of `User-Agent` in a span, in characters.
const USER_AGENT_LIMIT: usize = 200;

/// The side of a request that a span describes: the server receives the request, the client sends it.
pub use opentelemetry::trace::SpanKind;

/// Creator of spans, which are empty if traces are disabled. Clones share the tracer.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<SdkTracer>>);

/// A span of a trace. It ends when its last clone is dropped. If traces are disabled, it is empty and costs
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct Span(Option<Arc<ActiveSpan>>);

#[derive(Debug)]
struct ActiveSpan {
    tracer: Tracer,
    context: SpanContext,
    span: Mutex<SdkSpan>,
}

impl Tracer {
    /// Creates a tracer, and the queue of its finished spans.
    pub fn new(sampling: Sampling) -> (Self, SpanQueue) {
        let (sender, spans) = mpsc::channel(QUEUE_LIMIT);
        let counts = LabelCounter::new(["sent", "rejected", "export_failed", "queue_full"]);
        let queue = SpanQueue { spans, counts: counts.clone() };
        let root = Sampler::TraceIdRatioBased(sampling.ratio);
        let sampler = if sampling.by_parent { Sampler::ParentBased(Box::new(root)) } else { root };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(QueueSender { spans: sender, counts })
            .with_sampler(sampler)
            .build();
        (Self(Some(Arc::new(provider.tracer_with_scope(scope())))), queue)
    }

    /// Whether spans are created.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a span in the trace of the client (`parent`), or in a new trace.
    pub fn begin(&self, kind: SpanKind, name: &'static str, parent: Option<&TraceContext>) -> Span {
        self.begin_within(kind, name, parent.and_then(context_of))
    }

    /// Starts the span of a client's request (semantic conventions for HTTP servers), in the trace of its
    /// `traceparent`. The span omits the query, which may contain arguments.
    pub fn begin_http_request<B>(
        &self,
        request: &Request<B>,
        scheme: &'static str,
        peer: Option<SocketAddr>,
    ) -> Span {
        if !self.is_on() {
            return Span::default();
        }
        let parent = TraceContext::from_headers(request.headers());
        let span = self.begin(SpanKind::Server, method_label(request.method()), parent.as_ref());
        if !span.is_recorded() {
            return span;
        }
        span.text("http.request.method", method_label(request.method()));
        span.text("url.scheme", scheme);
        span.text("url.path", request.uri().path().to_owned());
        let header_text = |name| request.headers().get(name).map(HeaderValue::to_str).and_then(Result::ok);
        if let Some(host) = header_text(header::HOST).and_then(|host| host.parse::<Authority>().ok()) {
            span.text("server.address", host.host().to_owned());
            if let Some(port) = host.port_u16() {
                span.number("server.port", port);
            }
        }
        if let Some(agent) = header_text(header::USER_AGENT) {
            span.text("user_agent.original", agent.chars().take(USER_AGENT_LIMIT).collect::<String>());
        }
        if let Some(peer) = peer {
            span.text("network.peer.address", peer.ip().to_canonical().to_string());
        }
        let version = match request.version() {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        };
        span.text("network.protocol.version", version);
        span
    }

    fn begin_within(&self, kind: SpanKind, name: &'static str, parent: Option<SpanContext>) -> Span {
        let Some(tracer) = &self.0 else { return Span::default() };
        let parent =
            parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        let span = tracer.build_with_context(tracer.span_builder(name).with_kind(kind), &parent);
        let context = span.span_context().clone();
        Span(Some(Arc::new(ActiveSpan { tracer: self.clone(), context, span: Mutex::new(span) })))
    }
}

impl Span {
    /// Whether traces are enabled. If not, the span is empty.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the span is sampled, so that its attributes are exported.
    pub fn is_recorded(&self) -> bool {
        self.0.as_ref().is_some_and(|active| active.context.is_sampled())
    }

    /// Starts a child span.
    pub fn child(&self, kind: SpanKind, name: &'static str) -> Self {
        match &self.0 {
            Some(active) => active.tracer.begin_within(kind, name, Some(active.context.clone())),
            None => Self::default(),
        }
    }

    /// Starts a span in the trace of `parent`, with a link to this span. Without `parent`, starts a child
    /// span.
    pub fn child_or_linked(&self, kind: SpanKind, name: &'static str, parent: Option<&TraceContext>) -> Self {
        let Some(active) = &self.0 else { return Self::default() };
        let Some(parent) = parent.and_then(context_of) else { return self.child(kind, name) };
        let span = active.tracer.begin_within(kind, name, Some(parent));
        span.with(|span| span.add_link(active.context.clone(), Vec::new()));
        span
    }

    /// Renames the span.
    pub fn rename(&self, name: impl FnOnce() -> String) {
        self.with(|span| span.update_name(name()));
    }

    /// Sets a string attribute.
    pub fn text(&self, key: &'static str, text: impl Into<Cow<'static, str>>) {
        self.with(|span| span.set_attribute(KeyValue::new(key, text.into())));
    }

    /// Sets a numeric attribute.
    pub fn number(&self, key: &'static str, number: impl TryInto<i64>) {
        if let Ok(number) = number.try_into() {
            self.with(|span| span.set_attribute(KeyValue::new(key, number)));
        }
    }

    /// Marks the span as failed. `kind` is the error type.
    pub fn failed(&self, kind: impl Into<Cow<'static, str>>) {
        self.text("error.type", kind);
        self.with(|span| span.set_status(Status::error("")));
    }

    /// Returns the trace context of the span, for outgoing requests.
    pub fn context(&self) -> Option<TraceContext> {
        let context = &self.0.as_ref()?.context;
        let parent = format!(
            "00-{}-{}-{:02x}",
            context.trace_id(),
            context.span_id(),
            context.trace_flags().to_u8() & TraceFlags::SAMPLED.to_u8()
        );
        let state = context.trace_state().header();
        TraceContext::parse(&parent, Some(state.as_str()))
    }

    /// Returns the trace id, which displays as 32 hexadecimal digits.
    pub fn trace_id(&self) -> Option<impl fmt::Display + use<>> {
        self.0.as_ref().map(|active| active.context.trace_id())
    }

    fn with(&self, change: impl FnOnce(&mut SdkSpan)) {
        if let Some(active) = self.0.as_ref().filter(|active| active.context.is_sampled()) {
            change(&mut active.span.lock());
        }
    }
}

/// Converts a trace context to the type of the tracing library. `None` if it is invalid.
fn context_of(trace: &TraceContext) -> Option<SpanContext> {
    let mut parts = trace.parent().split('-').skip(1);
    let (trace_id, span_id) = (TraceId::from_hex(parts.next()?).ok()?, SpanId::from_hex(parts.next()?).ok()?);
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    // A `tracestate` that the library can't parse is omitted; the trace context is valid without it.
    let state = trace.state().and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    let context = SpanContext::new(trace_id, span_id, TraceFlags::new(flags), true, state);
    context.is_valid().then_some(context)
}

/// Sampling settings: which traces are exported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Whether the sampled flag in a client's trace context decides for its trace.
    pub by_parent: bool,
    /// Share of all other traces that is exported, from 0 to 1.
    pub ratio: f64,
}

/// A sampler by its name in `OTEL_TRACES_SAMPLER`, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum SamplerName {
    /// Traces are not exported.
    Off,
    /// All traces.
    AlwaysOn,
    /// No traces are exported, but spans still have ids and a trace context for outgoing requests.
    AlwaysOff,
    /// A share of all traces.
    #[value("traceidratio")]
    TraceIdRatio,
    /// The client's decision; without one, all.
    #[value("parentbased_always_on")]
    ParentBasedAlwaysOn,
    /// The client's decision; without one, none.
    #[value("parentbased_always_off")]
    ParentBasedAlwaysOff,
    /// The client's decision; without one, a share.
    #[value("parentbased_traceidratio")]
    ParentBasedTraceIdRatio,
}

impl SamplerName {
    /// Whether the sampler has a ratio.
    pub fn takes_ratio(self) -> bool {
        matches!(self, Self::TraceIdRatio | Self::ParentBasedTraceIdRatio)
    }

    /// Returns the sampling settings, with this ratio if the sampler has one; `None` for [`Off`](Self::Off).
    pub fn sampling(self, ratio: f64) -> Option<Sampling> {
        let (by_parent, ratio) = match self {
            Self::Off => return None,
            Self::AlwaysOn => (false, 1.0),
            Self::AlwaysOff => (false, 0.0),
            Self::TraceIdRatio => (false, ratio),
            Self::ParentBasedAlwaysOn => (true, 1.0),
            Self::ParentBasedAlwaysOff => (true, 0.0),
            Self::ParentBasedTraceIdRatio => (true, ratio),
        };
        Some(Sampling { by_parent, ratio })
    }
}

/// Maximum number of spans that wait to be exported. Further spans are dropped and counted.
pub const QUEUE_LIMIT: usize = 8192;

/// The receiving end of the queue of finished spans.
#[derive(Debug)]
pub struct SpanQueue {
    spans: mpsc::Receiver<SpanData>,
    /// Number of spans by the result of their export. Spans that do not fit into the queue are counted as
    /// well.
    pub counts: LabelCounter,
}

/// The sending end of the queue. Calls do not wait for it: if it is full, spans are dropped.
#[derive(Debug)]
struct QueueSender {
    spans: mpsc::Sender<SpanData>,
    counts: LabelCounter,
}

impl SpanProcessor for QueueSender {
    fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.counts.add("queue_full");
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl SpanQueue {
    /// Waits for a span, and then up to `delay` for more. Returns at most `limit` spans; `None` when `stop`
    /// is cancelled and no spans are left.
    pub async fn next_batch(
        &mut self,
        limit: usize,
        delay: Duration,
        stop: &CancellationToken,
    ) -> Option<Vec<SpanData>> {
        let mut spans = Vec::new();
        let gathering = async {
            self.spans.recv_many(&mut spans, limit).await;
            let deadline = Instant::now() + delay;
            while spans.len() < limit {
                let capacity = limit - spans.len();
                match timeout_at(deadline, self.spans.recv_many(&mut spans, capacity)).await {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                }
            }
        };
        // If the future is cancelled, the spans that were received remain in `spans`.
        stop.run_until_cancelled(gathering).await;
        while spans.len() < limit
            && let Ok(span) = self.spans.try_recv()
        {
            spans.push(span);
        }
        (!spans.is_empty()).then_some(spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parent(flags: &str) -> TraceContext {
        let text = format!("{}{flags}", PARENT.strip_suffix("01").unwrap());
        TraceContext::parse(&text, Some("a=1")).unwrap()
    }

    const ALL: Sampling = Sampling { by_parent: true, ratio: 1.0 };

    fn tracer_with(sampling: Sampling) -> (Tracer, SpanQueue) {
        Tracer::new(sampling)
    }

    fn batch(queue: &mut SpanQueue) -> Vec<SpanData> {
        let stop = CancellationToken::new();
        stop.cancel();
        queue.next_batch(usize::MAX, Duration::ZERO, &stop).now_or_never().unwrap().unwrap_or_default()
    }

    fn ended_names(queue: &mut SpanQueue) -> Vec<String> {
        batch(queue).into_iter().map(|span| span.name.into_owned()).collect()
    }

    #[test]
    fn a_span_continues_the_trace_of_its_client_with_its_own_id() {
        let (tracer, mut queue) = tracer_with(ALL);
        let span = tracer.begin(SpanKind::Server, "a", Some(&parent("01")));
        let context = span.context().unwrap();
        assert!(
            context.parent().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-")
                && context.parent().ends_with("-01")
        );
        assert_ne!(context.parent(), PARENT);
        assert_eq!(context.state(), Some("a=1"));
        assert_eq!(span.trace_id().unwrap().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let child = span.child(SpanKind::Client, "b");
        child.rename(|| "c".into());
        drop(child);
        assert_eq!(ended_names(&mut queue), ["c"]);
        drop(span.clone());
        assert!(ended_names(&mut queue).is_empty(), "it is not over yet");
        drop(span);
        assert_eq!(ended_names(&mut queue), ["a"]);
    }

    #[test]
    fn the_sampling_decision_of_the_client_is_respected() {
        let (tracer, mut queue) = tracer_with(ALL);
        let span = tracer.begin(SpanKind::Server, "a", Some(&parent("00")));
        assert!(span.is_on() && !span.is_recorded());
        span.text("x", "y");
        let context = span.context().unwrap();
        assert!(
            context.parent().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-")
                && context.parent().ends_with("-00")
        );
        assert!(!span.child(SpanKind::Client, "b").is_recorded());
        drop(span);
        assert!(ended_names(&mut queue).is_empty());
        let (tracer, _queue) = tracer_with(SamplerName::AlwaysOn.sampling(1.0).unwrap());
        assert!(tracer.begin(SpanKind::Server, "a", Some(&parent("00"))).is_recorded());
        let (tracer, _queue) = tracer_with(SamplerName::ParentBasedAlwaysOff.sampling(1.0).unwrap());
        assert!(!tracer.begin(SpanKind::Server, "a", None).is_recorded());
        assert!(tracer.begin(SpanKind::Server, "a", Some(&parent("01"))).is_recorded());
    }

    #[test]
    fn a_second_trace_context_becomes_a_link() {
        let (tracer, mut queue) = tracer_with(ALL);
        let request = tracer.begin(SpanKind::Server, "request", None);
        drop(request.child_or_linked(SpanKind::Server, "linked", Some(&parent("01"))));
        drop(request.child_or_linked(SpanKind::Server, "child", None));
        let batch = batch(&mut queue);
        let [linked, child] = &batch[..] else { panic!("{batch:?}") };
        assert_eq!(linked.span_context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(linked.links.len(), 1);
        assert_eq!(child.span_context.trace_id().to_string(), request.trace_id().unwrap().to_string());
        assert!(child.links.is_empty());
    }

    #[test]
    fn without_traces_no_span_is_created() {
        let span = Tracer::default().begin(SpanKind::Server, "a", Some(&parent("01")));
        assert!(!span.is_on() && span.context().is_none() && span.trace_id().is_none());
        span.rename(|| unreachable!("nobody asks for a name"));
    }

    #[test]
    fn a_full_queue_drops_spans_and_counts_them() {
        let (tracer, mut queue) = tracer_with(ALL);
        for _ in 0..SPAN_COUNT {
            drop(tracer.begin(SpanKind::Server, "a", None));
        }
        assert_eq!(queue.counts.get("queue_full"), 10);
        assert_eq!(batch(&mut queue).len(), QUEUE_LIMIT);
    }

    const SPAN_COUNT: usize = QUEUE_LIMIT + 10;
}
