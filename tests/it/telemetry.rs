//! Traces and metrics, as a collector receives them.

use std::path::PathBuf;

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value as Said},
    metrics::v1::{Metric, metric::Data},
    trace::v1::Span,
};
use prost::Message;
use serde_json::json;

use crate::support::{Program, Scripted, response, soon};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const MCP: [&str; 2] = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];

/// Collector that accepts everything.
async fn collector() -> Scripted {
    Scripted::answering(response("200 OK", "application/x-protobuf", "")).await
}

/// Writes a configuration to a file, and starts the program with these variables.
async fn start(upstream: &Scripted, more: &str, variables: &[(&str, String)]) -> (Program, PathBuf) {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file =
        std::env::temp_dir().join(format!("glossator-it-telemetry-{}-{number}.yaml", std::process::id()));
    let config = format!(
        "server: {{ listen: '127.0.0.1:0' }}\nadmin: {{ listen: '127.0.0.1:0' }}\n\
         upstreams: {{ old: 'http://{}' }}\npassthrough: old\n\
         routes:\n  ask: {{ description: Asks., request: 'GET old/thing?key={{x}}', rest: 'GET /ask/{{x}}' }}\n{more}",
        upstream.address
    );
    std::fs::write(&file, config).unwrap();
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    (Program::start_with(&file, &[], &variables).await, file)
}

fn to(collector: &Scripted) -> [(&'static str, String); 3] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address)),
        ("OTEL_BSP_SCHEDULE_DELAY", "20".to_owned()),
        ("OTEL_METRICS_EXPORTER", "none".to_owned()),
    ]
}

fn spans_in(state: &crate::support::State) -> Vec<Span> {
    let bodies = state.requests.iter().filter(|request| request.line().starts_with("POST /v1/traces "));
    let requests = bodies.filter_map(|request| ExportTraceServiceRequest::decode(&request.body[..]).ok());
    let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|spans| spans.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

/// Waits for this many spans.
async fn spans(collector: &Scripted, count: usize) -> Vec<Span> {
    let state = collector.until("the spans", |state| spans_in(state).len() >= count).await;
    spans_in(&state)
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|pair| pair.key == key)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        Said::StringValue(text) => text.clone(),
        Said::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn span_named(spans: &[Span], name: &str) -> Span {
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", names(spans))).clone()
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn check(span: &Span, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(attribute(&span.attributes, key).as_deref(), Some(*value), "{key} of {span:?}");
    }
}

#[tokio::test]
async fn a_rest_call_continues_its_clients_trace_and_the_upstream_ours() {
    let (upstream, collector) =
        (Scripted::answering(response("503 No", "text/plain", "no")).await, collector().await);
    let (program, file) =
        start(&upstream, "defaults: { retry: { max_attempts: 2, initial_backoff: 1ms } }\n", &to(&collector))
            .await;
    let mut client = program.connect().await;
    let parent = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01");
    let response =
        client.send("GET /ask/a%20b", &[&parent, "tracestate: a=1", "X-Request-Id: mine"], "").await;
    assert_eq!(response.status, 502, "{}", response.text());
    let spans = spans(&collector, 3).await;
    let server = span_named(&spans, "GET /ask/{x}");
    assert_eq!(
        (hex(&server.trace_id).as_str(), hex(&server.parent_span_id).as_str()),
        (TRACE, "00f067aa0ba902b7")
    );
    assert_eq!(server.kind, 2);
    check(
        &server,
        &[
            ("http.request.method", "GET"),
            ("http.route", "/ask/{x}"),
            ("http.response.status_code", "502"),
            ("url.path", "/ask/a%20b"),
            ("url.scheme", "http"),
            ("error.type", "502"),
            ("gen_ai.tool.name", "ask"),
            ("glossator.request_id", "mine"),
            ("glossator.outcome", "error"),
            ("glossator.error_type", "upstream_error"),
        ],
    );
    let attempts: Vec<&Span> = spans.iter().filter(|span| span.kind == 3).collect();
    assert_eq!(attempts.len(), 2);
    let requests = upstream.state().requests;
    for (number, (attempt, request)) in attempts.into_iter().zip(&requests).enumerate() {
        assert_eq!(attempt.parent_span_id, server.span_id);
        let url = format!("http://{}/thing", upstream.address);
        let port = upstream.address.port().to_string();
        let known = [
            ("url.full", url.as_str()),
            ("server.address", "127.0.0.1"),
            ("server.port", port.as_str()),
            ("http.response.status_code", "503"),
            ("error.type", "503"),
            ("glossator.upstream", "old"),
        ];
        check(attempt, &known);
        assert_eq!(
            attribute(&attempt.attributes, "http.request.resend_count"),
            (number > 0).then(|| "1".to_owned())
        );
        assert_eq!(request.header("traceparent"), [format!("00-{TRACE}-{}-01", hex(&attempt.span_id))]);
        assert_eq!(request.header("tracestate"), ["a=1"]);
    }
    let log = program.log().await;
    let call = log.iter().find(|line| line["message"] == "call").unwrap();
    assert_eq!(call["trace_id"], TRACE);
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn an_mcp_call_has_its_own_span_with_the_parent_from_meta() {
    let (upstream, collector) =
        (Scripted::answering(response("200 OK", "text/plain", "ok")).await, collector().await);
    let (program, file) = start(&upstream, "", &to(&collector)).await;
    let mut client = program.connect().await;
    let meta = json!({ "traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01") });
    let params = json!({ "name": "ask", "arguments": { "x": "1" }, "_meta": meta });
    let older = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }).to_string();
    let revision = "MCP-Protocol-Version: 2025-06-18";
    let response = client.send("POST /mcp", &[MCP[0], MCP[1], revision], &older).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let found = spans(&collector, 3).await;
    let (http, call) = (span_named(&found, "POST"), span_named(&found, "tools/call ask"));
    assert_eq!(
        (hex(&call.trace_id).as_str(), hex(&call.parent_span_id).as_str()),
        (TRACE, "00f067aa0ba902b7")
    );
    assert_ne!(http.trace_id, call.trace_id);
    assert_eq!((call.kind, call.links.len(), &call.links[0].span_id), (2, 1, &http.span_id));
    check(
        &call,
        &[
            ("mcp.method.name", "tools/call"),
            ("mcp.protocol.version", "2025-06-18"),
            ("gen_ai.tool.name", "ask"),
            ("gen_ai.operation.name", "execute_tool"),
            ("jsonrpc.request.id", "7"),
            ("network.transport", "tcp"),
        ],
    );
    assert_eq!(attribute(&call.attributes, "error.type"), None);
    assert_eq!(span_named(&found, "GET").parent_span_id, call.span_id);

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "it", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "ask", "arguments": {}, "_meta": meta });
    let newer = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params }).to_string();
    let headers =
        [MCP[0], MCP[1], "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: ask"];
    let response = client.send("POST /mcp", &headers, &newer).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(response.text().contains("\"isError\":true"), "{}", response.text());
    let found = spans(&collector, 5).await;
    let call =
        found.iter().find(|span| attribute(&span.attributes, "jsonrpc.request.id").as_deref() == Some("a"));
    let call = call.unwrap();
    check(
        call,
        &[
            ("mcp.protocol.version", "2026-07-28"),
            ("error.type", "tool_error"),
            ("glossator.error_type", "invalid_arguments"),
        ],
    );
    let http = found.iter().find(|span| span.span_id == call.parent_span_id).unwrap();
    assert_eq!((http.name.as_str(), &http.trace_id), ("POST", &call.trace_id));
    drop(program);
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn the_clients_sampling_decision_is_respected_and_propagated() {
    let (upstream, collector) =
        (Scripted::answering(response("200 OK", "text/plain", "ok")).await, collector().await);
    let (program, file) = start(&upstream, "", &to(&collector)).await;
    let mut client = program.connect().await;
    client.send("GET /ask/1", &[&format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-00")], "").await;
    client.send("GET /handed/through", &[&format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01")], "").await;
    let spans = spans(&collector, 2).await;
    assert_eq!(spans.len(), 2, "only the second is told of: {:?}", names(&spans));
    let requests = upstream.state().requests;
    let unsampled = requests[0].header("traceparent")[0].to_owned();
    assert!(unsampled.starts_with(&format!("00-{TRACE}-")) && unsampled.ends_with("-00"), "{unsampled}");
    assert!(!unsampled.contains("00f067aa0ba902b7"), "{unsampled}");
    let client_span = spans.iter().find(|span| span.kind == 3).unwrap();
    assert_eq!(requests[1].header("traceparent"), [format!("00-{TRACE}-{}-01", hex(&client_span.span_id))]);
    drop(program);
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn queued_telemetry_is_exported_at_shutdown() {
    let (upstream, collector) =
        (Scripted::answering(response("200 OK", "text/plain", "ok")).await, collector().await);
    let telemetry = format!(
        "telemetry:\n  endpoint: http://{}/otlp/\n  headers: {{ X-Tenant: weather }}\n  service_name: old name\n  \
         resource_attributes: {{ deployment.environment.name: test }}\n  metrics_interval: 1h\n",
        collector.address
    );
    let variables = [
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000".to_owned()),
        ("OTEL_SERVICE_NAME", "weather".to_owned()),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=a%20b".to_owned()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2".to_owned()),
    ];
    let (program, file) = start(&upstream, &telemetry, &variables).await;
    program.connect().await.send("GET /ask/1", &[], "").await;
    assert!(collector.state().requests.is_empty());
    program.terminate();
    let (status, log) = program.ended().await;
    assert!(status.success() && !log.contains("hunter2"), "{log}");
    let state = collector.state();
    let request = |path: &str| state.requests.iter().find(|request| request.line().contains(path)).unwrap();
    let traces = request("POST /otlp/v1/traces ");
    assert_eq!(traces.header("content-type"), ["application/x-protobuf"]);
    assert_eq!(
        (traces.header("x-tenant"), traces.header("authorization")),
        (vec!["weather"], vec!["Bearer hunter2"])
    );
    let export = ExportTraceServiceRequest::decode(&traces.body[..]).unwrap();
    let resource = export.resource_spans[0].resource.clone().unwrap().attributes;
    for (key, value) in
        [("service.name", "weather"), ("team", "a b"), ("deployment.environment.name", "test")]
    {
        assert_eq!(attribute(&resource, key).as_deref(), Some(value), "{resource:?}");
    }
    assert!(attribute(&resource, "service.version").is_some());
    assert_eq!(export.resource_spans[0].scope_spans[0].spans.len(), 2);
    let metrics = ExportMetricsServiceRequest::decode(&request("POST /otlp/v1/metrics ").body[..]).unwrap();
    let resource = metrics.resource_metrics[0].resource.clone().unwrap().attributes;
    assert_eq!(attribute(&resource, "service.name").as_deref(), Some("weather"));
    std::fs::remove_file(file).unwrap();
}

/// With all its retries, the shutdown would take much longer.
#[tokio::test]
async fn a_failed_export_is_retried_at_shutdown() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let collector = Scripted::answering(response("503 No", "text/plain", "")).await;
    let (program, file) = start(&upstream, "", &to(&collector)).await;
    program.connect().await.send("GET /ask/1", &[], "").await;
    collector.until("the first time", |state| state.requests.len() == 1).await;
    program.terminate();
    let (status, output) = program.ended().await;
    assert!(status.success(), "{output}");
    assert_eq!(collector.state().requests.len(), 2, "{output}");
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn metrics_are_exported_with_their_standard_names() {
    let (upstream, collector) =
        (Scripted::answering(response("200 OK", "text/plain", "ok")).await, collector().await);
    let variables = [
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("http://{}/here", collector.address)),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100".to_owned()),
    ];
    let (program, file) = start(&upstream, "", &variables).await;
    let mut client = program.connect().await;
    client.send("GET /ask/1", &[], "").await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "ask", "arguments": {} } });
    client.send("POST /mcp", &[MCP[0], MCP[1], "MCP-Protocol-Version: 2025-06-18"], &call.to_string()).await;
    let metrics = |state: &crate::support::State| -> Vec<Metric> {
        let last = state.requests.iter().rev().find(|request| request.line().starts_with("POST /here "));
        let request = last.and_then(|request| ExportMetricsServiceRequest::decode(&request.body[..]).ok());
        let scopes = request
            .into_iter()
            .flat_map(|request| request.resource_metrics)
            .flat_map(|all| all.scope_metrics);
        scopes.flat_map(|scope| scope.metrics).collect()
    };
    let state = collector.until("the calls", |state| {
        metrics(state).iter().any(|metric| metric.name == "mcp.server.operation.duration")
    });
    let metrics = metrics(&state.await);
    let found = |name: &str| {
        let metric = metrics.iter().find(|metric| metric.name == name);
        metric.unwrap_or_else(|| {
            panic!("no {name} in {:?}", metrics.iter().map(|m| &m.name).collect::<Vec<_>>())
        })
    };
    let Some(Data::Histogram(calls)) = &found("mcp.server.operation.duration").data else {
        panic!("{metrics:?}")
    };
    assert_eq!((calls.data_points.len(), calls.aggregation_temporality), (1, 2));
    let point = &calls.data_points[0];
    assert_eq!((point.count, point.bucket_counts.len()), (1, point.explicit_bounds.len() + 1));
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "ask"),
        ("error.type", "tool_error"),
        ("network.transport", "tcp"),
    ] {
        assert_eq!(attribute(&point.attributes, key).as_deref(), Some(value), "{point:?}");
    }
    assert_eq!(found("http.server.request.duration").unit, "s");
    let Some(Data::Sum(calls)) = &found("glossator.calls").data else { panic!("{metrics:?}") };
    assert!(calls.is_monotonic && calls.data_points.len() == 2, "{calls:?}");
    assert!(calls.data_points.iter().all(|point| point.start_time_unix_nano > 0));
    let Some(Data::Gauge(_)) = &found("glossator.upstream_in_flight_requests").data else {
        panic!("{metrics:?}")
    };
    found("process.memory.usage");
    assert!(
        collector.state().requests.iter().all(|request| !request.line().contains("traces")),
        "nobody asked for traces"
    );
    drop(program);
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_no_call_and_one_line() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "1".to_owned()),
        ("OTEL_METRICS_EXPORTER", "none".to_owned()),
    ];
    let (mut program, file) = start(&upstream, "", &variables).await;
    let mut client = program.connect().await;
    for _ in 0..20 {
        assert_eq!(client.send("GET /ask/1", &[], "").await.status, 200);
    }
    let line = program.wait_for_log("telemetry export failed", 1).await;
    assert!(line.contains("\"signal\":\"traces\""), "{line}");
    let operators: serde_json::Value =
        serde_json::from_str(&program.wait_for_log("admin API listening", 1).await).unwrap();
    let address = operators["address"].as_str().unwrap().parse().unwrap();
    let mut operator = crate::support::Client::connect(address).await;
    soon("it is counted", async {
        let failed = |text: &str| {
            text.lines().any(|line| {
                line.strip_prefix("glossator_telemetry_requests_total{signal=\"traces\",result=\"failed\"} ")
                    .is_some_and(|count| count != "0")
            })
        };
        while !failed(operator.send("GET /metrics", &[], "").await.text()) {}
    })
    .await;
    let metrics = operator.send("GET /metrics", &[], "").await;
    let accepted = "glossator_telemetry_requests_total{signal=\"traces\",result=\"accepted\"} 0\n";
    assert!(metrics.text().contains(accepted), "{}", metrics.text());
    let log = program.log().await;
    assert_eq!(log.iter().filter(|line| line["message"] == "telemetry export failed").count(), 1);
    std::fs::remove_file(file).unwrap();
}
