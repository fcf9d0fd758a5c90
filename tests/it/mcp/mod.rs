//! The MCP API over a real gateway; only the legacy server is a mock.

mod input_requests;
mod completions;
mod handshake;
mod lists;
mod per_request;
mod prompts;
mod replicas;
mod resources;
mod resume;
mod sdk;
mod served;
#[cfg(unix)]
mod stdio;
pub(crate) mod streams;
mod tasks;
mod notifications;
mod wire;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use glossator::{
    inbound::{
        filter::{Filter, FilterSettings},
        mcp::{McpApiSettings, McpEndpoint},
    },
    model::{ErrorFormat, ToolDefinition},
    pipeline::{Gateway, Snapshot, SnapshotParts},
    policy::{PolicySettings, UpstreamPolicies},
    route::{
        Envelope, ErrorStatus, HttpTemplate, InputSchema, PathTemplate, RequestTemplate, Route, RouteTable,
        UpstreamName,
    },
    translate::{OnNoMatch, OutputSchema, TranslationLimits, Translator, WrapNonObjects},
    upstream::{
        Upstream, UpstreamSettings,
        http::{Address, HttpSettings},
    },
};
use http::{HeaderMap, HeaderName, Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::support::policies;

pub(crate) const OLDER: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const NEWEST: &str = "2026-07-28";

/// MCP endpoint in front of a legacy server that responds by path.
pub(crate) struct Endpoint {
    pub(crate) mcp: McpEndpoint,
    pub(crate) gateway: Gateway,
    /// Events of requests to `/silent`, which never responds.
    pub(crate) silent: mpsc::UnboundedReceiver<Silent>,
}

/// Event of a request to `/silent`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    Asked,
    Given,
}

/// Complete response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Response {
    pub(crate) async fn read<B>(response: http::Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
    {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { status: head.status, headers: head.headers, body }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The result of a request that has one.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        let json = self.json();
        assert!(json.get("error").is_none(), "{json}");
        json["result"].clone()
    }

    /// Status and code of a JSON-RPC error.
    #[track_caller]
    pub(crate) fn error(&self) -> (u16, i64) {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        (self.status.as_u16(), self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{self:?}")))
    }
}

/// `POST` to the endpoint: well-formed, unless a test changes it.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Post {
    fn new(body: Vec<u8>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("host", "127.0.0.1:8080".parse().unwrap());
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
        Self { headers, body }
    }

    /// Request of a client that has initialized with 2025-11-25.
    pub(crate) fn handshake(method: &str, params: Value) -> Self {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Self::new(body.to_string().into()).header("mcp-protocol-version", "2025-11-25")
    }

    /// Request of revision 2026-07-28, with all that it requires.
    pub(crate) fn per_request(method: &str, mut params: Value) -> Self {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let name = params["name"].as_str().map(str::to_owned);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let post = Self::new(body.to_string().into())
            .header("mcp-protocol-version", NEWEST)
            .header("mcp-method", method);
        match name {
            Some(name) => post.header("mcp-name", &name),
            None => post,
        }
    }

    /// The same request in a legacy and in the modern revision.
    pub(crate) fn both(method: &str, params: Value) -> [Self; 2] {
        [Self::handshake(method, params.clone()), Self::per_request(method, params)]
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
        self.headers.insert(name.parse::<HeaderName>().unwrap(), value);
        self
    }

    pub(crate) fn another(mut self, name: &str, value: &str) -> Self {
        self.headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces text in the message.
    pub(crate) fn replace(self, from: &str, to: &str) -> Self {
        let text = String::from_utf8(self.body.clone()).unwrap();
        self.body(text.replace(from, to))
    }

    pub(crate) fn request(&self) -> Request<Body> {
        let mut request = Request::post("/mcp").body(Body::from(self.body.clone())).unwrap();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl Endpoint {
    pub(crate) fn new() -> Self {
        Self::with(McpApiSettings::default(), FilterSettings::default())
    }

    pub(crate) fn with(settings: McpApiSettings, filter: FilterSettings) -> Self {
        let (events, silent) = mpsc::unbounded_channel();
        let settings_of = |address| HttpSettings::new("legacy".parse().unwrap(), address);
        let upstream = Upstream::new(UpstreamSettings::Http(Box::new(settings_of(legacy(events)))));
        let routes = routes(upstream.name());
        let policies = policies(UpstreamPolicies::new(upstream, PolicySettings::default(), None), &routes);
        let table = RouteTable::new(routes.into_iter().map(Arc::new).collect()).unwrap();
        let parts = SnapshotParts { policies, ..SnapshotParts::default() };
        let gateway = Gateway::new(Snapshot::new(table, parts));
        Self { mcp: McpEndpoint::new(gateway.clone(), settings, Filter::new(&filter)), gateway, silent }
    }

    pub(crate) async fn send(&self, post: Post) -> Response {
        Response::read(self.mcp.handle(post.request()).await).await
    }

    /// Call in a legacy revision.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.send(Post::handshake("tools/call", json!({ "name": tool, "arguments": arguments })))
            .await
            .result()
    }
}

/// Starts a legacy server that responds by path, and reports what happens to requests for `/silent`.
fn legacy(silent: mpsc::UnboundedSender<Silent>) -> Address {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let silent = silent.clone();
            let service = hyper::service::service_fn(move |request| answer(request, silent.clone()));
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    silent: mpsc::UnboundedSender<Silent>,
) -> Result<http::Response<Body>, Infallible> {
    struct Gone(mpsc::UnboundedSender<Silent>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(Silent::Given);
        }
    }
    let response = |status: u16, media_type: &str, body: String| {
        let response = http::Response::builder().status(status).header("content-type", media_type);
        Ok(response.body(Body::from(body)).unwrap())
    };
    let path = request.uri().path();
    match path {
        "/array" => response(200, "application/json", "[1, 2.50]".into()),
        "/down" => response(500, "text/plain", "panic at /srv/app.py:7, password=hunter2".into()),
        "/none" => response(404, "application/json", r#"{"error": "no such city"}"#.into()),
        "/pretty" => response(200, "application/json", "{\n  \"a\": 1,\r\n  \"b\": \"x\"\n}\n".into()),
        "/silent" => {
            let _gone = Gone(silent.clone());
            silent.send(Silent::Asked).unwrap();
            std::future::pending().await
        }
        "/text" => response(200, "text/plain", "plain \"words\"\n".into()),
        _ => match path.strip_prefix("/echo/") {
            Some(text) => {
                let body = format!(r#"{{"z":"{text}","n":1.0,"big":12345678901234567890,"a":0.10}}"#);
                response(200, "application/json", body)
            }
            None => response(404, "text/plain", "not here".into()),
        },
    }
}

/// Eight tools. `echo` and `marked` have an argument.
fn routes(upstream: &UpstreamName) -> Vec<Route> {
    let input = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required });
    let nothing = || input(json!({}), &[]);
    let text = json!({ "city": { "type": "string" } });
    let marked = json!({ "city": { "type": "string", "x-mcp-header": "City" } });
    let numbers = json!({ "type": "array", "items": { "type": "number" } });
    vec![
        route(upstream, "array", "/array", nothing(), Some((numbers.clone(), WrapNonObjects::Always))),
        route(upstream, "bare", "/array", nothing(), Some((numbers, WrapNonObjects::LegacyClients))),
        route(upstream, "down", "/down", nothing(), None),
        route(upstream, "echo", "/echo/{city}", input(text, &["city"]), None),
        route(upstream, "marked", "/echo/{city}", input(marked, &["city"]), None),
        route(upstream, "none", "/none", nothing(), None),
        route(upstream, "pretty", "/pretty", nothing(), None),
        route(upstream, "silent", "/silent", nothing(), None),
        route(upstream, "text", "/text", nothing(), None),
    ]
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not an object"),
    }
}

fn route(
    upstream: &UpstreamName,
    name: &str,
    path: &str,
    input: Value,
    output: Option<(Value, WrapNonObjects)>,
) -> Route {
    let input = object(input);
    let wrap = output.as_ref().map_or(WrapNonObjects::Always, |(_, wrap)| *wrap);
    let output = output.map(|(schema, wrap)| OutputSchema::new(object(schema), wrap).unwrap());
    let definition = ToolDefinition {
        name: name.parse().unwrap(),
        title: None,
        description: Some(format!("The tool {name}.")),
        annotations: Some(object(json!({ "readOnlyHint": true, "x-extra": 1.5 }))),
        input_schema: input.clone().into(),
        output_schema: output.as_ref().map(OutputSchema::advertised),
        unwrapped_output_schema: output.as_ref().and_then(OutputSchema::advertised_unwrapped),
        meta: None,
    };
    Route {
        definition,
        input: InputSchema::new(&input).unwrap(),
        completions: Vec::new(),
        is_tool: true,
        resource: None,
        scopes: Default::default(),
        input_requests: Default::default(),
        rest: None,
        upstream: upstream.clone(),
        request: RequestTemplate::Http(HttpTemplate {
            path: PathTemplate::parse(path).unwrap(),
            ..HttpTemplate::default()
        }),
        async_operation: None,
        log: Vec::new(),
        propagates_trace_context: true,
        argument_error: None,
        translator: Translator {
            rules: Vec::new(),
            on_no_match: OnNoMatch::Text,
            output,
            wrap,
            redaction: Default::default(),
            limits: TranslationLimits::default(),
            has_effect: false,
        },
        timeout: Duration::from_secs(10),
        idempotent: true,
        response_limit_bytes: 1 << 20,
        envelope: Envelope::Mcp,
        error_status: ErrorStatus::Mapped,
        error_format: ErrorFormat::Text,
    }
}
