//! Policies over real sockets, as an operator writes them and as callers see them.

use glossator::config::{self, Sources};
use serde_json::json;

use crate::support::{Gate, Loaded, Response, Scripted, Step, reply};

/// A configuration before one upstream, whose address stands for `OLD`.
async fn serve(upstream: &Scripted, text: &str) -> Loaded {
    Loaded::start(&load(upstream, text)).await
}

fn load(upstream: &Scripted, text: &str) -> config::Loaded {
    let text = text.replace("OLD", &format!("http://{}", upstream.address));
    config::load(&Sources::of_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn call(served: &Loaded, tool: &str, headers: &[&str]) -> Response {
    served.connect().await.ask(&format!("POST /tools/{tool}"), headers, "").await
}

#[tokio::test]
async fn who_calls_too_often_is_told_when_to_come_again() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "ok")).await;
    let text = "
        upstreams: { old: OLD }
        routes:
          a: { description: A., request: GET old/a, rate: { limit: 1 per hour } }
          b: { description: B., request: GET old/b }";
    let mut served = serve(&upstream, text).await;
    assert_eq!(call(&served, "a", &[]).await.told(), "ok");
    let refused = call(&served, "a", &[]).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(refused.header("retry-after").as_deref(), Some("3600"));
    let told = "This tool is called too often. All its callers together may call it once per hour. Nothing was sent; \
                try again in 3600 s.";
    assert_eq!(refused.told(), told);
    assert_eq!(refused.json()["_meta"]["glossator/retryAfter"], 3600);
    assert_eq!(call(&served, "b", &[]).await.told(), "ok", "another route has nothing to do with it");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "a" } });
    let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let mcp = served.connect().await.ask("POST /mcp", &headers, &body.to_string()).await;
    assert_eq!((mcp.status, &mcp.json()["result"]["isError"]), (200, &true.into()), "{}", mcp.text());
    served.swap.to(&load(&upstream, &text.replace("B.", "Another."))).unwrap();
    assert_eq!(call(&served, "a", &[]).await.status, 429, "a reload forgives nothing");
    assert_eq!(upstream.state().asked.len(), 2);
    assert_eq!(served.gateway.snapshot().counts.routes["a"].too_often.get(), 3);
}

#[tokio::test]
async fn callers_are_told_apart_by_the_word_of_a_proxy_that_is_trusted() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "ok")).await;
    let text = "
        server: { trusted_proxies: [127.0.0.1] }
        upstreams: { old: { url: OLD, caller_rate: 1 per hour } }
        routes:
          a: { description: A., request: GET old/a }
          b: { description: B., request: GET old/b }";
    let served = serve(&upstream, text).await;
    let (one, other) = (["X-Forwarded-For: 203.0.113.9"], ["X-Forwarded-For: 203.0.113.9, 203.0.113.10"]);
    assert_eq!(call(&served, "a", &one).await.status, 200);
    assert_eq!(call(&served, "a", &other).await.status, 200);
    let refused = call(&served, "b", &one).await;
    assert_eq!(refused.status, 429);
    assert!(refused.told().contains("One caller may call it once per hour."), "{}", refused.told());
    let distrusting = serve(&upstream, &text.replace("server: { trusted_proxies: [127.0.0.1] }", "")).await;
    assert_eq!(call(&distrusting, "a", &one).await.status, 200);
    assert_eq!(call(&distrusting, "a", &other).await.status, 429, "anybody can write that header");
}

#[tokio::test]
async fn the_rate_of_an_upstream_counts_what_is_passed_through() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "ok")).await;
    let text = "
        upstreams: { old: { url: OLD, rate: 1 per hour } }
        passthrough: old
        routes:
          a: { description: A., request: GET old/a }";
    let served = serve(&upstream, text).await;
    let mut client = served.connect().await;
    assert_eq!(client.ask("GET /other", &[], "").await.text(), "ok");
    let refused = client.ask("GET /other", &[], "").await;
    assert_eq!((refused.status, refused.header("retry-after").as_deref()), (429, Some("3600")));
    assert_eq!(call(&served, "a", &[]).await.status, 429);
    assert_eq!(upstream.state().asked.len(), 1);
}

#[tokio::test]
async fn a_caller_that_waits_for_less_says_so() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |_| vec![Step::Hold(held.clone())]).await;
    let text =
        "upstreams: { old: OLD }\nroutes: { a: { description: A., request: GET old/a, deadline: 1h } }";
    let served = serve(&upstream, text).await;
    let late = call(&served, "a", &["X-Request-Timeout: 0.05"]).await;
    assert_eq!(late.status, 504);
    assert_eq!(late.told(), "The service gave no complete reply within 50 ms. Try again, or ask for less.");
    upstream.until("the request is dropped", |state| state.left == 1).await;
    let wrong = call(&served, "a", &["X-Request-Timeout: soon"]).await;
    assert_eq!((wrong.status, wrong.told().contains("such as `2.5`")), (400, true));
}
