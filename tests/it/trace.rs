//! Propagation of the trace context to the upstream.

use glossator::config::{self, Sources};
use serde_json::json;

use crate::support::{Loaded, Scripted, response};

const HEADER: &str = "00-11111111111111111111111111111111-1111111111111111-01";
const META: &str = "00-22222222222222222222222222222222-2222222222222222-01";

/// Trace context that the upstream receives for a client with these headers and `_meta`.
async fn trace_headers(keys: &str, headers: &[&str], meta: Option<&str>) -> (Vec<String>, Vec<String>) {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "fine")).await;
    let file = format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes:\n  ask:\n    description: Asks.\n    {keys}\n",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("trace.yaml", &file))
        .unwrap_or_else(|problems| panic!("{problems}"));
    let program = Loaded::start(&loaded).await;
    let mut all = vec!["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    all.extend(headers);
    let params =
        json!({ "name": "ask", "_meta": { "traceparent": meta, "tracestate": "a=1", "baggage": "user=me" } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let (line, body) = match meta {
        Some(_) => ("POST /mcp", body.as_str()),
        None => ("POST /tools/ask", "{}"),
    };
    let response = program.connect().await.send(line, &all, body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let request = &upstream.state().requests[0];
    let values = |name| request.header(name).into_iter().map(str::to_owned).collect();
    assert!(request.header("baggage").is_empty());
    (values("traceparent"), values("tracestate"))
}

#[tokio::test]
async fn the_trace_context_is_read_from_meta_or_else_from_the_headers() {
    let header = format!("traceparent: {HEADER}");
    let request = "request: GET old/x";
    let one = |parent: &str, state: &[&str]| {
        (vec![parent.to_owned()], state.iter().map(|state| (*state).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(trace_headers(request, &[&header, "tracestate: b=2"], None).await, one(HEADER, &["b=2"]));
    assert_eq!(trace_headers(request, &[&header, "tracestate: b=2"], Some(META)).await, one(META, &["a=1"]));
    assert_eq!(trace_headers(request, &[&header], Some("nonsense")).await, one(HEADER, &[]));
    assert_eq!(
        trace_headers(request, &["traceparent: 00-0-0-0", "baggage: user=me"], None).await,
        (vec![], vec![])
    );
}

#[tokio::test]
async fn a_route_keeps_its_own_or_sends_none() {
    let header = format!("traceparent: {HEADER}");
    let own = "request: { path: /x, headers: { traceparent: mine } }";
    assert_eq!(trace_headers(own, &[&header], Some(META)).await, (vec!["mine".to_owned()], vec![]));
    let none = "request: GET old/x\n    propagate_trace_context: false";
    assert_eq!(trace_headers(none, &[&header], Some(META)).await, (vec![], vec![]));
}
