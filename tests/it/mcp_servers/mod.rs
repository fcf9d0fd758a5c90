//! MCP servers as upstreams: over HTTP, and as child processes.

#[cfg(unix)]
mod child;
mod over_http;
mod param_headers;
mod proxied;

use std::{net::SocketAddr, sync::Arc};

use glossator::{
    config::{self, Sources},
    server::{self, App, RunningApp},
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::Duration};

use crate::support::{Client, ReceivedRequest, Response, Scripted, Step, response, soon};

/// The program with a configuration, which keeps polling for tools, until dropped.
struct Served {
    address: SocketAddr,
    running: RunningApp,
    _stop: oneshot::Sender<()>,
}

impl Served {
    async fn start(text: &str) -> Self {
        Self::start_after(Duration::from_secs(10), text).await
    }

    /// Starts it; the first clients connect after servers had this long to list their tools.
    async fn start_after(patience: Duration, text: &str) -> Self {
        let loaded = config::load(&Sources::from_text("a.yaml", text));
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        let mut app = App::new(&loaded).unwrap();
        app.discover(patience).await;
        Self::with_app(app).await
    }

    async fn with_app(app: App) -> Self {
        let (settings, handler) = (app.settings, app.handler.clone());
        let running = app.run(None);
        let listener = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server::serve(listener, settings, handler, async {
            let _ = stopped.await;
        }));
        Self { address, running, _stop: stop }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Response {
        let mut client = Client::connect(self.address).await;
        let headers = ["Content-Type: application/json"];
        client.send(&format!("POST /tools/{tool}"), &headers, &arguments.to_string()).await
    }

    /// Sends a JSON-RPC request of revision 2026-07-28, and returns the whole response.
    async fn over_mcp(&self, method: &str, mut params: Value) -> Value {
        let mut headers = vec![
            "Content-Type: application/json".to_owned(),
            "Accept: application/json, text/event-stream".to_owned(),
            "MCP-Protocol-Version: 2026-07-28".to_owned(),
            format!("Mcp-Method: {method}"),
        ];
        headers.extend(params["name"].as_str().map(|name| format!("Mcp-Name: {name}")));
        params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let response = Client::connect(self.address).await.send("POST /mcp", &headers, &body).await;
        let text = response.text();
        let json = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text);
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    async fn tools(&self) -> Vec<Value> {
        let list = Client::connect(self.address).await.send("GET /tools", &[], "").await.json();
        list.as_array().unwrap().clone()
    }

    async fn names(&self) -> Vec<String> {
        self.tools().await.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until these are the tools.
    #[track_caller]
    fn until_names(&self, names: &'static [&'static str]) -> impl Future<Output = ()> {
        soon(format!("the tools {names:?}"), async move {
            while self.names().await != names {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }
}

/// Message of a client, and its HTTP request.
struct RpcRequest<'a> {
    http: &'a ReceivedRequest,
    message: Value,
}

impl RpcRequest<'_> {
    fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// Such as `tools/call add`, or the HTTP method if there is no message.
    fn what(&self) -> String {
        match (self.method(), self.message["params"]["name"].as_str()) {
            ("", _) => self.http.line().split(' ').next().unwrap().to_owned(),
            (method, Some(tool)) if method == "tools/call" => format!("{method} {tool}"),
            (method, _) => method.to_owned(),
        }
    }

    /// Response with a result.
    fn result(&self, result: &str) -> Vec<Step> {
        self.answer(&format!(r#""result":{result}"#))
    }

    /// Tool result with a text block.
    fn text(&self, text: &str) -> Vec<Step> {
        self.result(&json!({ "content": [{ "type": "text", "text": text }] }).to_string())
    }

    fn answer(&self, outcome: &str) -> Vec<Step> {
        json(&format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, self.message["id"]))
    }
}

fn json(body: &str) -> Vec<Step> {
    vec![Step::Send(response("200 OK", "application/json", body))]
}

fn status(line: &str) -> Vec<Step> {
    vec![Step::Send(response(line, "text/plain", ""))]
}

/// MCP server of revision 2025-03-26 without sessions. It handles `initialize` itself, and `serve` the rest.
/// Methods that `serve` does not handle are not found.
async fn server(serve: impl Fn(&RpcRequest<'_>) -> Option<Vec<Step>> + Send + Sync + 'static) -> Scripted {
    Scripted::start(move |request| {
        let message = serde_json::from_slice(&request.body).unwrap_or_default();
        let rpc = RpcRequest { http: request, message };
        if let Some(steps) = serve(&rpc) {
            return steps;
        }
        match rpc.method() {
            "initialize" => rpc.result(
                r#"{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}"#,
            ),
            method if method.starts_with("notifications/") => status("202 Accepted"),
            "" => status("405 Method Not Allowed"),
            _ => rpc.answer(r#""error":{"code":-32601,"message":"Method not found"}"#),
        }
    })
    .await
}

/// MCP server with these tools.
async fn server_of(
    tools: Value,
    call: impl Fn(&RpcRequest<'_>, &str) -> Vec<Step> + Send + Sync + 'static,
) -> Scripted {
    let tools = Arc::new(json!({ "tools": tools }).to_string());
    server(move |rpc| match (rpc.method(), rpc.message["params"]["name"].as_str()) {
        ("tools/list", _) => Some(rpc.result(&tools)),
        ("tools/call", Some(tool)) => Some(call(rpc, tool)),
        _ => None,
    })
    .await
}

fn names_of_requests(server: &Scripted) -> Vec<String> {
    let name = |request: &ReceivedRequest| {
        RpcRequest { http: request, message: serde_json::from_slice(&request.body).unwrap_or_default() }
            .what()
    };
    server.state().requests.iter().map(name).collect()
}
