//! Policies over real sockets, as an operator configures them and clients experience them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use glossator::config::{self, Sources};
use glossator::policy::CircuitBreakerView;
use serde_json::{Value, json};

use crate::support::{Gate, Loaded, Response, Scripted, Step, response, soon};

/// Serves a configuration in front of one upstream. `OLD` is replaced by its address.
async fn serve(upstream: &Scripted, text: &str) -> Loaded {
    Loaded::start(&load(upstream, text)).await
}

fn load(upstream: &Scripted, text: &str) -> config::Loaded {
    let text = text.replace("OLD", &format!("http://{}", upstream.address));
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn call(served: &Loaded, tool: &str, headers: &[&str]) -> Response {
    served.connect().await.send(&format!("POST /tools/{tool}"), headers, "").await
}

#[tokio::test]
async fn a_rate_limited_client_gets_retry_after() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let text = "
        upstreams: { old: OLD }
        routes:
          a: { description: A., request: GET old/a, rate_limit: { rate: 1 per hour } }
          b: { description: B., request: GET old/b }";
    let mut served = serve(&upstream, text).await;
    assert_eq!(call(&served, "a", &[]).await.tool_text(), "ok");
    let rejected = call(&served, "a", &[]).await;
    assert_eq!(rejected.status, 429, "{}", rejected.text());
    assert_eq!(rejected.header("retry-after").as_deref(), Some("3600"));
    let message = "The rate limit of this tool is exceeded: 1 in 3600 s for all clients together. \
                No request was sent. Retry in 3600 s.";
    assert_eq!(rejected.tool_text(), message);
    assert_eq!(rejected.json()["_meta"]["glossator/retryAfter"], 3600);
    assert_eq!(call(&served, "b", &[]).await.tool_text(), "ok", "another route has nothing to do with it");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "a" } });
    let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let mcp = served.connect().await.send("POST /mcp", &headers, &body.to_string()).await;
    assert_eq!((mcp.status, &mcp.json()["result"]["isError"]), (200, &true.into()), "{}", mcp.text());
    served.app.apply(&load(&upstream, &text.replace("B.", "Another."))).unwrap();
    assert_eq!(call(&served, "a", &[]).await.status, 429, "a reload forgives nothing");
    assert_eq!(upstream.state().requests.len(), 2);
    assert_eq!(served.gateway.snapshot().policies.routes["a"].events.get("rate_limited"), 3);
    served.app.apply(&load(&upstream, &text.replace("1 per hour", "2 per hour"))).unwrap();
    assert_eq!(call(&served, "a", &[]).await.status, 200, "another limit begins anew");
    served.app.apply(&load(&upstream, &text.replace("a: {", "c: {"))).unwrap();
    served.app.apply(&load(&upstream, text)).unwrap();
    assert_eq!(call(&served, "a", &[]).await.status, 200, "so does that of a route that was removed");
    assert_eq!(call(&served, "a", &[]).await.status, 429);
}

/// A response proves that the upstream is reachable. The failures of one route are no evidence about others.
#[tokio::test]
async fn a_route_that_is_never_served_rejects_no_call_of_another() {
    let upstream = Scripted::start(|request| {
        let is_good = request.line().starts_with("GET /good");
        let status = if is_good { "200 OK" } else { "503 Service Unavailable" };
        vec![Step::Send(response(status, "text/plain", "ok"))]
    })
    .await;
    let served = serve(
        &upstream,
        "
        upstreams: { old: { url: OLD, retry: off, circuit_breaker: { consecutive_failures: 3, open_for: 1h } } }
        routes:
          bad: { description: Bad., request: GET old/bad }
          worse: { description: Worse., request: GET old/worse, circuit_breaker: off }
          again:
            description: Again.
            request: GET old/again
            retry: { max_attempts: 2, initial_backoff: 1ms }
            circuit_breaker: { consecutive_failures: 2 }
          good: { description: Good., request: GET old/good }",
    )
    .await;
    for _ in 0..3 {
        assert_eq!(call(&served, "bad", &[]).await.status, 502);
    }
    let rejected = call(&served, "bad", &[]).await;
    assert_eq!((rejected.status, rejected.header("retry-after").as_deref()), (503, Some("3600")));
    assert!(
        rejected.tool_text().contains("This tool is temporarily unavailable"),
        "{}",
        rejected.tool_text()
    );
    for _ in 0..5 {
        assert_eq!(call(&served, "worse", &[]).await.status, 502, "its circuit breaker is off");
    }
    assert_eq!(call(&served, "again", &[]).await.status, 502);
    assert_eq!(call(&served, "again", &[]).await.status, 503, "both attempts of the first call count");
    assert_eq!(call(&served, "good", &[]).await.tool_text(), "ok");
    assert_eq!(upstream.state().requests.len(), 3 + 5 + 2 + 1);
    let snapshot = served.gateway.snapshot();
    let state = |route: &str| state_of(snapshot.policies.routes[route].circuit_breaker());
    assert_eq!(["bad", "worse", "again", "good"].map(state), ["open", "off", "open", "closed"]);
    let events = &snapshot.policies.routes["bad"].events;
    assert_eq!((events.get("circuit_breaker_opened"), events.get("circuit_breaker_rejected")), (1, 1));
    assert_eq!(state_of(snapshot.policies.upstreams[&"old".parse().unwrap()].view().breaker), "closed");
}

/// State of a circuit breaker in the admin API.
fn state_of(breaker: CircuitBreakerView) -> Value {
    json!(breaker)["state"].clone()
}

/// An unreachable upstream is unreachable for every route.
#[tokio::test]
async fn an_upstream_that_is_not_there_rejects_calls_of_all_routes_until_it_is_healthy() {
    let is_healthy = Arc::new(AtomicBool::new(false));
    let upstream = {
        let is_healthy = is_healthy.clone();
        Scripted::start(move |request| match request.line().starts_with("GET /health") {
            true if !is_healthy.load(Ordering::Relaxed) => {
                vec![Step::Send(response("500 Internal Server Error", "text/plain", "not yet"))]
            }
            true => vec![Step::Send(response("200 OK", "text/plain", "well"))],
            false if is_healthy.load(Ordering::Relaxed) => {
                vec![Step::Send(response("200 OK", "text/plain", "ok"))]
            }
            false => vec![Step::Reset],
        })
        .await
    };
    let served = serve(
        &upstream,
        "
        upstreams:
          old:
            url: OLD
            retry: off
            circuit_breaker: { consecutive_failures: 2, open_for: 1h }
            health_check: { path: /health, interval: 100ms, unhealthy_threshold: 1000 }
        routes:
          a: { description: A., request: GET old/a }
          b: { description: B., request: GET old/b }",
    )
    .await;
    assert_eq!(call(&served, "a", &[]).await.status, 502);
    assert_eq!(call(&served, "b", &[]).await.status, 502);
    assert_eq!(call(&served, "a", &[]).await.status, 503);
    let snapshot = served.gateway.snapshot();
    let state = || state_of(snapshot.policies.upstreams[&"old".parse().unwrap()].view().breaker);
    assert_eq!(state(), "open");
    assert_eq!(state_of(snapshot.policies.routes["a"].circuit_breaker()), "closed");
    is_healthy.store(true, Ordering::Relaxed);
    soon("the circuit is closed", async {
        while state() != "closed" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(call(&served, "b", &[]).await.tool_text(), "ok");
}

#[tokio::test]
async fn clients_are_distinguished_by_a_trusted_proxys_header() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let text = "
        server: { trusted_proxies: [127.0.0.1] }
        upstreams: { old: { url: OLD, rate_limit_per_client: 1 per hour } }
        routes:
          a: { description: A., request: GET old/a }
          b: { description: B., request: GET old/b }";
    let served = serve(&upstream, text).await;
    let (one, other) = (["X-Forwarded-For: 203.0.113.9"], ["X-Forwarded-For: 203.0.113.9, 203.0.113.10"]);
    assert_eq!(call(&served, "a", &one).await.status, 200);
    assert_eq!(call(&served, "a", &other).await.status, 200);
    let rejected = call(&served, "b", &one).await;
    assert_eq!(rejected.status, 429);
    assert!(rejected.tool_text().contains(": 1 in 3600 s for each client."), "{}", rejected.tool_text());
    let distrusting = serve(&upstream, &text.replace("server: { trusted_proxies: [127.0.0.1] }", "")).await;
    assert_eq!(call(&distrusting, "a", &one).await.status, 200);
    assert_eq!(call(&distrusting, "a", &other).await.status, 429, "anybody can write that header");
}

#[tokio::test]
async fn the_rate_of_an_upstream_counts_what_is_passed_through() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let text = "
        upstreams: { old: { url: OLD, rate_limit: 1 per hour } }
        passthrough: old
        routes:
          a: { description: A., request: GET old/a }";
    let served = serve(&upstream, text).await;
    let mut client = served.connect().await;
    assert_eq!(client.send("GET /other", &[], "").await.text(), "ok");
    let rejected = client.send("GET /other", &[], "").await;
    assert_eq!((rejected.status, rejected.header("retry-after").as_deref()), (429, Some("3600")));
    assert_eq!(call(&served, "a", &[]).await.status, 429);
    assert_eq!(upstream.state().requests.len(), 1);
}

#[tokio::test]
async fn a_client_may_set_a_shorter_timeout() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |_| vec![Step::Hold(held.clone())]).await;
    let text = "upstreams: { old: OLD }\nroutes: { a: { description: A., request: GET old/a, timeout: 1h } }";
    let served = serve(&upstream, text).await;
    let late = call(&served, "a", &["X-Request-Timeout: 0.05"]).await;
    assert_eq!(late.status, 504);
    assert_eq!(
        late.tool_text(),
        "The service sent no complete response within 50 ms. Retry, or request less."
    );
    upstream.until("the request is dropped", |state| state.closed_connections == 1).await;
    let without_time = call(&served, "a", &["X-Request-Timeout: 0.05", "Prefer: wait=0"]).await;
    assert_eq!(without_time.tool_text(), late.tool_text());
    let wrong = call(&served, "a", &["X-Request-Timeout: soon"]).await;
    assert_eq!((wrong.status, wrong.tool_text().contains("such as `2.5`")), (400, true));
}

async fn in_city(served: &Loaded, city: &str) -> Response {
    let body = json!({ "city": city }).to_string();
    served.connect().await.send("POST /tools/a", &["Content-Type: application/json"], &body).await
}

#[tokio::test]
async fn a_cached_response_is_reused_with_its_age_and_translated_again() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "temp: 5")).await;
    let text = "
        upstreams: { old: OLD }
        routes:
          a:
            description: A.
            request: GET old/a/{city}
            cache: 1h
            response: { extract: pairs, content: 'first: {{ text }}' }";
    let mut served = serve(&upstream, text).await;
    let first = in_city(&served, "Oslo").await;
    assert_eq!((first.tool_text().as_str(), first.header("age")), ("first: temp: 5", None));
    let second = in_city(&served, "Oslo").await;
    assert_eq!((second.tool_text().as_str(), second.header("age").is_some()), ("first: temp: 5", true));
    assert!(second.json()["_meta"]["glossator/age"].is_u64(), "{}", second.text());
    in_city(&served, "Bergen").await;
    assert_eq!(upstream.state().requests.len(), 2);
    served.app.apply(&load(&upstream, &text.replace("first:", "second:"))).unwrap();
    let again = in_city(&served, "Oslo").await;
    assert_eq!(again.tool_text(), "second: temp: 5", "the reply is kept, not the result");
    assert_eq!(upstream.state().requests.len(), 2);
    let snapshot = served.gateway.snapshot();
    assert_eq!(
        (
            snapshot.policies.routes["a"].events.get("cache_hit"),
            snapshot.policies.routes["a"].events.get("cache_miss")
        ),
        (2, 2)
    );
}

#[tokio::test]
async fn responses_that_rules_treat_as_errors_are_not_cached() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ERR restarting")).await;
    let text = "
        upstreams: { old: OLD }
        routes:
          a:
            description: A.
            request: GET old/a
            cache: 1h
            response: [{ when: { text: ^ERR }, error: it restarts }, { extract: text }]";
    let served = serve(&upstream, text).await;
    for _ in 0..2 {
        assert_eq!(call(&served, "a", &[]).await.tool_text(), "it restarts");
    }
    assert_eq!(upstream.state().requests.len(), 2);
}

#[tokio::test]
async fn cached_responses_are_separate_per_authorized_client() {
    let upstream = Scripted::start(|request| {
        let who = request.header("authorization").concat();
        vec![Step::Send(response("200 OK", "text/plain", &format!("for {who}")))]
    })
    .await;
    let text = "
        upstreams: { old: OLD }
        routes:
          a: { description: A., request: GET old/a, cache: 1h, forward_headers: [Authorization] }";
    let served = serve(&upstream, text).await;
    for _ in 0..2 {
        for who in ["one", "other"] {
            let header = format!("Authorization: {who}");
            assert_eq!(call(&served, "a", &[&header]).await.tool_text(), format!("for {who}"));
        }
    }
    assert_eq!(upstream.state().requests.len(), 2);
}

#[tokio::test]
async fn a_stale_response_is_revalidated_by_its_etag() {
    let upstream = Scripted::start(|request| {
        vec![Step::Send(match request.header("if-none-match").first() {
            Some(&"\"7\"") => b"HTTP/1.1 304 Not Modified\r\nETag: \"7\"\r\n\r\n".to_vec(),
            _ => b"HTTP/1.1 200 OK\r\nETag: \"7\"\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
                .to_vec(),
        })]
    })
    .await;
    let text =
        "upstreams: { old: OLD }\nroutes: { a: { description: A., request: GET old/a, cache: upstream } }";
    let served = serve(&upstream, text).await;
    for _ in 0..3 {
        assert_eq!(call(&served, "a", &[]).await.tool_text(), "ok");
    }
    let state = upstream.state();
    let conditions: Vec<_> =
        state.requests.iter().map(|request| request.header("if-none-match").len()).collect();
    assert_eq!(conditions, [0, 1, 1]);
    assert_eq!(served.gateway.snapshot().policies.routes["a"].events.get("cache_revalidated"), 2);
}

#[tokio::test]
async fn a_rejected_passthrough_names_its_limit() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    for (limit, status, words) in [
        ("rate_limit: 1 per hour", 429, "the rate limit of the upstream is exceeded"),
        ("max_in_flight_per_client: 1", 429, "too many of your requests to the upstream are in flight"),
        ("max_in_flight: 1", 503, "the upstream is busy"),
    ] {
        let before = upstream.state().requests.len();
        let text = format!("upstreams: {{ old: {{ url: OLD, {limit} }} }}\npassthrough: old\nroutes: {{}}");
        let served = serve(&upstream, &text).await;
        let mut first = served.connect().await;
        first.write("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        upstream.until("the first is in flight", |state| state.requests.len() > before).await;
        let rejected = served.connect().await.send("GET /b", &[], "").await;
        assert_eq!(rejected.status, status, "{limit}: {}", rejected.text());
        assert!(rejected.text().contains(words), "{limit}: {}", rejected.text());
    }
    gate.open();
}

#[tokio::test]
async fn calls_for_the_same_are_one_request_which_lives_as_long_as_one_of_them_waits() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    let text =
        "upstreams: { old: OLD }\nroutes: { a: { description: A., request: GET old/a, coalesce: true } }";
    let served = serve(&upstream, text).await;
    let (mut first, mut second) = (served.connect().await, served.connect().await);
    let request = "POST /tools/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    first.write(request).await;
    upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
    second.write(request).await;
    let events = served.gateway.snapshot().policies.routes["a"].events.clone();
    soon("the second call joins it", async {
        while events.get("coalesced") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(first);
    gate.open();
    assert_eq!(second.read(false).await.tool_text(), "done");
    assert_eq!((upstream.state().requests.len(), upstream.state().closed_connections), (1, 0));
}

#[tokio::test]
async fn a_coalesced_call_that_times_out_does_not_claim_that_nothing_was_sent() {
    for policy in ["coalesce: true", "cache: 1m"] {
        let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
        let text = format!(
            "
            upstreams: {{ old: OLD }}
            routes:
              a:
                description: A.
                request: POST old/a
                annotations: {{ readOnlyHint: true }}
                {policy}"
        );
        let served = serve(&upstream, &text).await;
        let mut first = served.connect().await;
        first.write("POST /tools/a HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
        let second = call(&served, "a", &["X-Request-Timeout: 0.05"]).await;
        let events = served.gateway.snapshot().policies.routes["a"].events.clone();
        assert_eq!((second.status, events.get("coalesced")), (504, 1), "{policy}: {}", second.text());
        assert!(!second.tool_text().contains("No request was sent"), "{policy}: {}", second.tool_text());
        assert!(
            second.tool_text().contains("sent no complete response within 50 ms"),
            "{policy}: {}",
            second.tool_text()
        );
        gate.open();
        assert_eq!(first.read(false).await.tool_text(), "done");
    }
}

#[tokio::test]
async fn a_request_that_hangs_is_sent_once_more() {
    let upstream = Scripted::start(|request| match request.connection {
        0 => vec![Step::Hold(Gate::new())],
        _ => vec![Step::Send(response("200 OK", "text/plain", "quick"))],
    })
    .await;
    let text = "upstreams: { old: OLD }\nroutes: { a: { description: A., request: GET old/a, hedge: 50ms } }";
    let served = serve(&upstream, text).await;
    assert_eq!(call(&served, "a", &[]).await.tool_text(), "quick");
    upstream.until("the other one is dropped", |state| state.closed_connections == 1).await;
    let events = served.gateway.snapshot().policies.routes["a"].events.clone();
    assert_eq!((events.get("hedged"), events.get("hedge_won")), (1, 1));
}

#[tokio::test]
async fn a_stale_response_replaces_a_failure_if_configured() {
    let failing = Arc::new(AtomicBool::new(false));
    let fails = failing.clone();
    let upstream = Scripted::start(move |_| {
        vec![Step::Send(match fails.load(Ordering::SeqCst) {
            false => response("200 OK", "text/plain", "well"),
            true => response("503 Service Unavailable", "text/plain", "down"),
        })]
    })
    .await;
    let text = "
        upstreams: { old: { url: OLD, retry: off } }
        routes:
          a: { description: A., request: GET old/a, cache: { ttl: 1ms, stale_if_error: 1h } }
          b: { description: B., request: GET old/b, cache: 1ms }";
    let served = serve(&upstream, text).await;
    for tool in ["a", "b"] {
        assert_eq!(call(&served, tool, &[]).await.tool_text(), "well");
    }
    failing.store(true, Ordering::SeqCst);
    let events = served.gateway.snapshot().policies.routes["a"].events.clone();
    soon("the kept reply is old", async {
        while events.get("cache_stale") == 0 {
            assert_eq!(call(&served, "a", &[]).await.tool_text(), "well");
        }
    })
    .await;
    soon("nothing stands in", async { while call(&served, "b", &[]).await.status != 502 {} }).await;
}

#[tokio::test]
async fn a_client_cannot_use_every_slot() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    let text = format!(
        "server: {{ trusted_proxies: [127.0.0.1] }}
upstreams: {{ old: {{ url: 'http://{}', max_in_flight_per_client: 1 }} }}
passthrough: old
routes: {{ get_thing: {{ description: x, request: GET old/thing, rest: GET /thing }} }}
",
        upstream.address
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let served = Loaded::start(&loaded).await;
    let get = async |path: &str, from: &str| {
        let from = format!("X-Forwarded-For: {from}");
        served.connect().await.send(&format!("GET {path}"), &[&from], "").await
    };
    let first = get("/thing", "10.0.0.1");
    let others = async {
        upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
        let second = get("/thing", "10.0.0.1").await;
        assert!(second.tool_text().contains("the limit per client is 1"), "{}", second.text());
        let through = get("/elsewhere", "10.0.0.1").await;
        for response in [second, through] {
            assert_eq!((response.status, response.header("retry-after").as_deref()), (429, Some("2")));
        }
        let opening = async {
            upstream.until("another's is too", |state| state.requests.len() == 2).await;
            gate.open();
        };
        let (another, ()) = tokio::join!(get("/elsewhere", "10.0.0.9"), opening);
        assert_eq!(another.status, 200);
    };
    assert_eq!(tokio::join!(first, others).0.tool_text(), "done");
    assert_eq!(get("/thing", "10.0.0.1").await.tool_text(), "done", "its place is free again");
}
