//! Policy stack around every upstream call, in the order in which policies are applied.
//!
//! [`RoutePolicies::call`] is the stack of a route's calls. [`UpstreamPolicies::call`] is the stack of
//! requests that follow from a call (polling an asynchronous operation) or that no client sent (polling a
//! resource). In these functions and the functions that they call, each policy has a comment with the reason
//! for its position.
//!
//! Dropping the future of a call cancels its request and releases its slots.

use std::{
    collections::{BTreeMap, HashMap},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{StatusCode, uri::PathAndQuery};
use parking_lot::Mutex;
use tokio::time::timeout_at;

use super::cache::{RemoteCache, ResponseCache};
use super::metrics::{CircuitBreakerView, UpstreamView, route_events, upstream_events};
use super::{
    CacheEntry, CacheStore, CircuitBreaker, ConcurrencyLimit, Hedge, OverLimit, PolicySettings, RateLimit,
    Retry, RoutePolicySettings,
};
use crate::model::{ProgramEnd, ToolName, UpstreamResponse};
use crate::route::{McpMethod, UpstreamName, UpstreamRequest};
use crate::shared_state::SharedStore;
use crate::telemetry::{LabelCounter, Span, SpanKind, method_label};
use crate::upstream::http::HttpUpstream;
use crate::upstream::mcp::McpUpstream;
use crate::upstream::{
    Deadline, Failure, FailureStage, OnDrop, RateLimitScope, Upstream, UpstreamCall, UpstreamError,
    UpstreamResult,
};

/// Access of one upstream to the state that all replicas share.
#[derive(Debug, Clone)]
pub struct ReplicaSharing {
    /// Store that the replicas share.
    pub store: SharedStore,
    /// Fingerprint of the upstream's settings, so that responses cached under other settings are not used.
    pub identity: Arc<str>,
}

/// Policies of all upstreams and routes.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// Policies of each upstream.
    pub upstreams: BTreeMap<UpstreamName, Arc<UpstreamPolicies>>,
    /// Policies of each route.
    pub routes: HashMap<ToolName, Arc<RoutePolicies>>,
    /// Cached responses of all routes.
    pub store: CacheStore,
}

/// Upstream with the policies that apply to all requests to it.
#[derive(Debug)]
pub struct UpstreamPolicies {
    pub(crate) upstream: Upstream,
    pub(super) settings: PolicySettings,
    sharing: Option<ReplicaSharing>,
    /// Counters of policy events, such as `retry`.
    pub events: LabelCounter,
    /// Attempts by result: `2xx`, `exit_success`, `dropped`, or an error label.
    pub(super) attempts: LabelCounter,
    /// Passthrough requests by result, with the same labels.
    pub(super) passthrough: LabelCounter,
    /// Id for cache keys, which no other upstream of this process has had.
    id: u64,
    rate_per_client: Option<RateLimit>,
    retry: Retry,
    breaker: Arc<CircuitBreaker>,
    pub(super) rate: Option<RateLimit>,
    pub(super) concurrency: ConcurrencyLimit,
}

/// Policies that apply to all calls of one route, in addition to those of its upstream.
#[derive(Debug)]
pub struct RoutePolicies {
    /// Policies of the upstream.
    pub upstream: Arc<UpstreamPolicies>,
    /// Settings that these policies were created from.
    pub settings: RoutePolicySettings,
    /// Counters of policy events, such as `cache_hit`.
    pub events: LabelCounter,
    rate_per_client: Option<RateLimit>,
    responses: Option<Arc<ResponseCache>>,
    rate: Option<RateLimit>,
    hedge: Option<Hedge>,
    retry: Retry,
    breaker: Arc<CircuitBreaker>,
}

/// Response to a call, with its cache status.
#[derive(Debug, Clone)]
pub struct CallResponse {
    /// Response of the upstream.
    pub response: UpstreamResponse,
    /// Age of a cached response; `None` for a response that is not cached.
    pub age: Option<Duration>,
    /// Cache entry of the response, if it is cached.
    pub entry: Option<CacheEntry>,
    /// Result of the upstream request that was sent for the call; `None` if no request was sent. For a cached
    /// response, it is the result of the revalidation, or the failure that the stale response replaces.
    pub upstream_result: Option<Result<StatusCode, UpstreamError>>,
}

impl CallResponse {
    /// Creates the response to a call from an upstream response that is not cached.
    pub fn from_upstream(response: UpstreamResponse) -> Self {
        let upstream_result = Some(Ok(response.status));
        Self { response, age: None, entry: None, upstream_result }
    }
}

impl RoutePolicies {
    /// Calls the upstream for the route.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] if there is no response.
    pub async fn call(self: &Arc<Self>, upstream_call: &UpstreamCall) -> Result<CallResponse, UpstreamError> {
        let upstream = &self.upstream;
        let call = Box::pin(async {
            // Rate limits per client. First, so that a client over its limit is rejected before any work,
            // even if the cache has the response.
            for rate in upstream.rate_per_client.iter().chain(&self.rate_per_client) {
                rate.admit(&upstream_call.client, OverLimit::Rejected).await?;
            }
            // Response cache and coalescing. After the limits per client; before the policies that protect
            // the upstream, because a cached response causes no request.
            match &self.responses {
                Some(responses) => {
                    let route = self.clone();
                    let send = move |upstream_call| async move { route.send(&upstream_call).await };
                    Box::pin(responses.get_or_fetch(upstream_call, send)).await
                }
                None => self.send(upstream_call).await.map(CallResponse::from_upstream),
            }
        });
        // Timeout of the call, including the time in the queue. Outside of coalescing, because each call that
        // waits for a shared request has its own timeout.
        upstream.within_deadline(upstream_call, call).await
    }

    /// Applies the route's rate limit, retries and hedging to a request.
    async fn send(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        // Rate limit of the route, for all clients together. After the cache, because cached responses do not
        // count.
        if let Some(rate) = &self.rate {
            rate.admit(&upstream_call.client, OverLimit::Rejected).await?;
        }
        // Retries, within the timeout. Around everything below, so that the circuit breakers count each
        // attempt, each attempt has its own queueing and timeout, and no slot is held during backoff.
        let first = self.retry.run(upstream_call, || self.attempt_for_route(upstream_call));
        match &self.hedge {
            // Hedging. Around the retries, so that the second request is not retried.
            Some(hedge) => {
                let second = async |upstream_call: UpstreamCall| self.attempt_for_route(&upstream_call).await;
                Box::pin(hedge.race(upstream_call, first, second)).await
            }
            None => first.await,
        }
    }

    /// Sends one attempt, counted by the circuit breaker of the route.
    async fn attempt_for_route(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        // Circuit breaker of the route, for responses 502, 503 and 504. Outside of the upstream's circuit
        // breaker, whose rejections say nothing about the route.
        let attempt = pin!(self.upstream.attempt(upstream_call, OverLimit::Rejected));
        self.breaker.run(upstream_call, attempt).await
    }
}

impl UpstreamPolicies {
    /// Sends a request that follows from a call, or that no client sent. Over the rate limit, the request
    /// waits, where a call would be rejected. Only the policies of the upstream apply.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] if there is no response.
    pub async fn call(&self, upstream_call: &UpstreamCall) -> Result<UpstreamResponse, UpstreamError> {
        let call = Box::pin(self.retry.run(upstream_call, || self.attempt(upstream_call, OverLimit::Waits)));
        self.within_deadline(upstream_call, call).await
    }

    /// Sends one attempt, with the policies that protect the upstream.
    async fn attempt(&self, upstream_call: &UpstreamCall, over_limit: OverLimit) -> UpstreamResult {
        // Circuit breaker of the upstream. Before the queue and the rate limit, so that a rejected call uses
        // neither.
        let attempt = pin!(async {
            // Rate limit. Inside of the retries, because each attempt is a request; before the queue, so that
            // a waiting request holds no slot.
            if let Some(rate) = &self.rate {
                rate.admit(&upstream_call.client, over_limit).await?;
            }
            // Concurrency limit. Inside of the timeout, so that a call that times out leaves the queue;
            // around the request, so that a slot is held exactly as long as a request is in flight. Follow-up
            // requests do not count towards the limit of their client.
            let client = matches!(over_limit, OverLimit::Rejected).then_some(&upstream_call.client);
            let _slot = self.concurrency.acquire(client).await?;
            // Attempt timeout, without the time in the queue.
            self.within_attempt(upstream_call).await
        });
        self.breaker.run(upstream_call, attempt).await
    }

    /// Sends a request to the upstream, counted and traced, within the attempt timeout.
    async fn within_attempt(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        let deadline = self.settings.attempt_timeout.map(Deadline::after);
        // The upstream client gets the earlier of the two deadlines, because it counts a request that is
        // dropped after its deadline as a failure.
        let shortened_call = deadline
            .filter(|deadline| deadline.at < upstream_call.deadline.at)
            .map(|deadline| Box::new(UpstreamCall { deadline, ..upstream_call.clone() }));
        let upstream_call = shortened_call.as_deref().unwrap_or(upstream_call);
        // Metrics and span. Innermost, because they count requests that are really sent.
        let request = pin!(self.send(upstream_call));
        let Some(deadline) = deadline else { return request.await };
        timeout_at(deadline.at, request).await.unwrap_or_else(|_| {
            self.events.add("attempt_timeout");
            Err(Failure::AttemptTimeout(deadline.after))
        })
    }

    /// Sends one upstream request, with metrics and a span. With tracing, the request carries the trace
    /// context of this span. If the future is dropped (timeout, client gone), the request counts as
    /// `dropped`.
    async fn send(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        let context = &upstream_call.context;
        let earlier_attempts = context.attempt_started();
        let span = context.span().map(|call| call.child(SpanKind::Client, "upstream"));
        let traced_call = span.as_ref().map(|span| {
            Box::new(trace_request(span, upstream_call.clone(), earlier_attempts, &self.upstream))
        });
        let span = span.unwrap_or_default();
        let drop_guard = OnDrop::new(|| {
            context.attempt_ended();
            self.attempts.add("dropped");
            span.failed("dropped");
        });
        let outcome = self.upstream.send(traced_call.as_deref().unwrap_or(upstream_call)).await;
        drop_guard.disarm();
        let result = outcome.as_ref().map_err(|failure| failure.properties());
        match result {
            // Nothing was sent: for example, an MCP program is not restarted yet, or a credential is missing.
            Err(properties) if properties.stage == FailureStage::Rejected => context.attempt_rejected(),
            _ => context.attempt_ended(),
        }
        self.attempts.add(result.map_or_else(|properties| properties.label, result_label));
        if span.is_recorded() {
            record_result(&span, &outcome);
        }
        outcome
    }

    /// Applies the call's timeout. The call is boxed, because otherwise its future would enlarge all futures
    /// up to the client's connection.
    async fn within_deadline<T>(
        &self,
        upstream_call: &UpstreamCall,
        call: Pin<Box<impl Future<Output = Result<T, Failure>>>>,
    ) -> Result<T, UpstreamError> {
        let result = timeout_at(upstream_call.deadline.at, call).await.unwrap_or_else(|_| {
            self.events.add("timeout");
            Err(Failure::Timeout(upstream_call.deadline.after))
        });
        result.map_err(|failure| failure.into_error(self.name()))
    }
}

impl UpstreamPolicies {
    /// Creates the policies of an upstream. `sharing` is the state shared by replicas, if there are several.
    pub fn new(upstream: Upstream, settings: PolicySettings, sharing: Option<ReplicaSharing>) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let (name, events) = (upstream.name(), upstream_events());
        let rate =
            |scope, settings| RateLimit::new(scope, name.as_str(), settings, &events, sharing.as_ref());
        let (per_client, all) = (settings.rate_limit_per_client, settings.rate_limit);
        let breaker = CircuitBreaker::new(name.clone(), None, settings.circuit_breaker, events.clone());
        if let Some(http) = upstream.http() {
            let breaker = Arc::downgrade(&breaker);
            http.when_healthy(move || {
                if let Some(breaker) = breaker.upgrade() {
                    breaker.on_health_check_passed();
                }
            });
        }
        Arc::new(Self {
            rate_per_client: rate(RateLimitScope::ClientOfUpstream, per_client),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            retry: Retry::new(name.clone(), settings.retry, events.clone()),
            breaker,
            rate: rate(RateLimitScope::Upstream, all),
            concurrency: ConcurrencyLimit::new(
                settings.max_in_flight(),
                settings.max_in_flight_per_client,
                Duration::ZERO,
                events.clone(),
            ),
            upstream,
            settings,
            sharing,
            events,
            attempts: LabelCounter::default(),
            passthrough: LabelCounter::default(),
        })
    }

    /// Name of the upstream.
    pub fn name(&self) -> &UpstreamName {
        self.upstream.name()
    }

    /// Current state of the upstream, for metrics and the admin API.
    pub fn view(&self) -> UpstreamView {
        let (in_flight, queued) = self.concurrency.usage();
        UpstreamView {
            kind: (&self.upstream).into(),
            breaker: self.breaker.view(),
            in_flight,
            in_flight_limit: self.settings.max_in_flight(),
            queued,
            addresses: self.upstream.http().map(HttpUpstream::addresses).unwrap_or_default(),
            program: self.upstream.mcp().and_then(McpUpstream::program_state),
        }
    }
}

impl RoutePolicies {
    /// Creates the policies of the route with this tool. Its responses are cached in `store`.
    pub fn new(
        upstream: Arc<UpstreamPolicies>,
        tool: &ToolName,
        settings: RoutePolicySettings,
        store: &CacheStore,
    ) -> Arc<Self> {
        let (events, name, sharing) = (route_events(), upstream.name(), upstream.sharing.as_ref());
        let rate = |scope, settings| RateLimit::new(scope, tool.as_str(), settings, &events, sharing);
        let (per_client, all) = (settings.rate_limit_per_client, settings.rate_limit);
        let is_coalescing = settings.coalesces();
        let responses = (is_coalescing || settings.cache.is_some()).then(|| {
            Arc::new(ResponseCache {
                upstream: name.clone(),
                upstream_id: upstream.id,
                settings: settings.cache,
                store: store.clone(),
                remote: sharing.cloned().map(RemoteCache),
                in_flight: is_coalescing.then(Mutex::default),
                events: events.clone(),
            })
        });
        let breaker = settings.circuit_breaker.unwrap_or(upstream.settings.circuit_breaker);
        let breaker = CircuitBreaker::new(name.clone(), Some(tool.clone()), breaker, events.clone());
        let retry = settings.retry.unwrap_or(upstream.settings.retry);
        let retry = Retry { settings: retry, ..upstream.retry.clone() };
        let hedge = settings.hedge.map(|settings| Hedge {
            settings,
            budget: retry.budget.clone(),
            breakers: [upstream.breaker.clone(), breaker.clone()],
            events: events.clone(),
            times: Default::default(),
        });
        Arc::new(Self {
            rate_per_client: rate(RateLimitScope::ClientOfRoute, per_client),
            responses,
            rate: rate(RateLimitScope::Route, all),
            hedge,
            retry,
            breaker,
            events,
            settings,
            upstream,
        })
    }

    /// State of the route's circuit breaker.
    pub fn circuit_breaker(&self) -> CircuitBreakerView {
        self.breaker.view()
    }
}

/// Label for a response: its status class, such as `2xx`; for a program, `exit_success` or `exit_failure`.
pub fn result_label(response: &UpstreamResponse) -> &'static str {
    match &response.exit {
        None => status_class(response.status),
        Some(exit) if exit.end.is_success() => "exit_success",
        Some(_) => "exit_failure",
    }
}

/// Label for the class of a status, such as `2xx`.
pub fn status_class(status: StatusCode) -> &'static str {
    const CLASSES: [&str; 6] = ["", "1xx", "2xx", "3xx", "4xx", "5xx"];
    CLASSES[usize::from(status.as_u16() / 100).min(5)]
}

/// Adds the trace context to the request if it is propagated, and fills the span if it is recorded.
fn trace_request(
    span: &Span,
    mut upstream_call: UpstreamCall,
    earlier_attempts: u32,
    upstream: &Upstream,
) -> UpstreamCall {
    if upstream_call.traced
        && let (Some(context), Some(headers)) = (span.context(), upstream_call.request.headers_mut())
    {
        context.write(headers);
    }
    if span.is_recorded() {
        describe_request(span, &upstream_call.request, earlier_attempts, upstream);
    }
    upstream_call
}

/// Describes the request in the span (OpenTelemetry semantic conventions for HTTP clients and for MCP).
fn describe_request(span: &Span, request: &UpstreamRequest, earlier_attempts: u32, upstream: &Upstream) {
    let name = upstream.name().as_str();
    // The server's address, if there is only one.
    let address = upstream.http().and_then(HttpUpstream::sole_address);
    span.text("glossator.upstream", name.to_owned());
    match request {
        UpstreamRequest::Http(request) => {
            let method = method_label(&request.method);
            span.rename(|| method.to_owned());
            span.text("http.request.method", method);
            // Without the query, which may contain a credential.
            let path = request.path_and_query.path().parse::<PathAndQuery>().ok();
            if let Some(url) = address.zip(path).and_then(|(address, path)| address.join(&path).ok()) {
                span.text("url.full", url.to_string());
            }
            if earlier_attempts > 0 {
                span.number("http.request.resend_count", earlier_attempts);
            }
        }
        UpstreamRequest::Mcp(request) => {
            let method: &'static str = request.method.into();
            span.text("mcp.method.name", method);
            match request.method {
                McpMethod::CallTool => {
                    span.rename(|| format!("{method} {}", request.target));
                    span.text("gen_ai.operation.name", "execute_tool");
                    span.text("gen_ai.tool.name", request.target.to_string());
                }
                McpMethod::GetPrompt => span.rename(|| format!("{method} {}", request.target)),
                // Without the target: a URI contains values of the client, and span names must have a low
                // cardinality.
                McpMethod::ReadResource | McpMethod::Complete => span.rename(|| method.to_owned()),
            }
        }
        UpstreamRequest::Command(_) => span.rename(|| format!("run {name}")),
    }
    let Some(address) = address else { return };
    if let Some(socket) = address.socket() {
        span.text("server.address", socket.display().to_string());
        return;
    }
    if let Some((host, port)) = address.host() {
        span.text("server.address", host.to_owned());
        span.number("server.port", port);
    }
}

/// Records the result in the span.
fn record_result(span: &Span, outcome: &UpstreamResult) {
    match outcome {
        Ok(UpstreamResponse { exit: Some(exit), .. }) => {
            if let ProgramEnd::Code(code) = exit.end {
                span.number("process.exit.code", code);
            }
            if !exit.end.is_success() {
                span.failed(exit.end.to_string());
            }
        }
        Ok(response) => {
            span.number("http.response.status_code", response.status.as_u16());
            // For a client span, 4xx is an error, too (semantic conventions for HTTP, "Status").
            if response.status.is_client_error() || response.status.is_server_error() {
                span.failed(response.status.as_str().to_owned());
            }
        }
        Err(failure) => span.failed(failure.properties().label),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::timeout,
    };

    use super::*;
    use crate::{
        policy::tests::{InFlightCount, answering_after, name, upstream_call},
        upstream::{UpstreamSettings, http::HttpSettings},
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn policies_for(address: &str, settings: PolicySettings) -> Arc<UpstreamPolicies> {
        let upstream = HttpSettings::new(name(), format!("http://{address}").parse().unwrap());
        UpstreamPolicies::new(Upstream::new(UpstreamSettings::Http(Box::new(upstream))), settings, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_past_its_deadline_is_dropped() {
        let policies = policies_for("127.0.0.1:9", PolicySettings::default());
        let in_flight = InFlightCount::default();
        let (upstream_call, slow) = (upstream_call(2 * SECOND), answering_after(3 * SECOND, &in_flight));
        let error =
            policies.within_deadline(&upstream_call, Box::pin(slow.send(&upstream_call))).await.unwrap_err();
        assert!(matches!(error.failure, Failure::Timeout(after) if after == 2 * SECOND), "{error}");
        assert_eq!(policies.events.get("timeout"), 1);
        assert_eq!(in_flight.count(), 0, "the request continues after the deadline");
        let quick = answering_after(SECOND, &in_flight);
        let upstream_call = UpstreamCall { deadline: Deadline::after(2 * SECOND), ..upstream_call };
        policies.within_deadline(&upstream_call, Box::pin(quick.send(&upstream_call))).await.unwrap();
    }

    #[tokio::test]
    async fn an_attempt_ends_before_its_call_does() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings =
            PolicySettings { attempt_timeout: Some(Duration::from_millis(50)), ..PolicySettings::default() };
        let policies = policies_for(&silent.local_addr().unwrap().to_string(), settings);
        let once = UpstreamCall { idempotent: false, ..upstream_call(60 * SECOND) };
        let error = policies.call(&once).await.unwrap_err();
        assert!(matches!(error.failure, Failure::AttemptTimeout(_)), "{error}");
        assert_eq!((policies.events.get("attempt_timeout"), policies.events.get("timeout")), (1, 0));
        assert_eq!(policies.attempts.read().collect::<Vec<_>>(), [("dropped", 1)]);
        assert_eq!(policies.concurrency.usage(), (0, 0));
    }

    #[tokio::test]
    async fn an_attempt_counts_once_and_a_dropped_one_as_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let policies = policies_for(&address, PolicySettings::default());
        let upstream_call = upstream_call(9 * SECOND);
        let served = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
            stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await.unwrap();
        };
        let (sent, ()) = tokio::join!(policies.send(&upstream_call), served);
        sent.unwrap();
        let silent = timeout(Duration::from_millis(20), policies.send(&upstream_call));
        silent.await.unwrap_err();
        assert_eq!(policies.attempts.read().collect::<Vec<_>>(), [("2xx", 1), ("dropped", 1)]);
    }
}
