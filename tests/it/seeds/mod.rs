//! Servers of `config/seeds/`, each mocked as its document describes it, behind its own route file alone.

#[cfg(unix)]
mod codeprism;
#[cfg(unix)]
mod devflow;
#[cfg(unix)]
mod devflow_migrated;
mod kuniumi;
#[cfg(unix)]
mod recorded;
mod weather_response_format;
mod weather_rest;

use std::path::{Path, PathBuf};

use glossator::config::{self, ConfigSource, Environment, Loaded, Sources};
use serde_json::{Value, json};

use crate::support::{Client, Loaded as Serving, ReceivedRequest, Response, Scripted};

/// A legacy revision and the modern one.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/seeds").join(name)
}

/// The program with the route file of a seed, in front of a server.
struct Seed {
    serving: Serving,
    upstream: Scripted,
}

impl Seed {
    async fn start(name: &str, upstream: Scripted) -> Self {
        let sources = Sources {
            origin: ConfigSource::Path(folder(name).join("glossator.yaml")),
            environment: Environment(
                [("LEGACY_URL".to_owned(), format!("http://{}", upstream.address))].into(),
            ),
            flags: Vec::new(),
        };
        let loaded: Loaded = config::load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        Self { serving: Serving::start(&loaded).await, upstream }
    }

    async fn connect(&self) -> Client {
        self.serving.connect().await
    }

    /// Sends a `POST` with a JSON body.
    async fn post(&self, path: &str, body: &str) -> Response {
        self.connect().await.send(&format!("POST {path}"), &["Content-Type: application/json"], body).await
    }

    async fn get(&self, path: &str) -> Response {
        self.connect().await.send(&format!("GET {path}"), &[], "").await
    }

    /// Sends a JSON-RPC request of a revision, and returns the whole response.
    async fn send(&self, revision: &str, method: &str, params: Value) -> Value {
        send(&self.serving, revision, method, params).await
    }

    /// Result of a call over MCP, which must be the same in both revisions.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut results = Vec::new();
        for revision in REVISIONS {
            let params = json!({ "name": tool, "arguments": arguments });
            let answer = self.send(revision, "tools/call", params).await;
            let result = &answer["result"];
            results.push(json!({ "content": result["content"], "structuredContent": result["structuredContent"],
                "isError": result["isError"], "text": result["content"][0]["text"], "_meta": result["_meta"] }));
        }
        let without_meta = |result: &Value| {
            let mut result = result.clone();
            result["_meta"] = Value::Null;
            result
        };
        assert_eq!(without_meta(&results[0]), without_meta(&results[1]));
        results.swap_remove(0)
    }

    /// JSON-RPC error of a call.
    async fn call_error(&self, revision: &str, tool: &str, arguments: Value) -> (i64, String) {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.send(revision, "tools/call", params).await;
        let error = &answer["error"];
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// Tool definitions over MCP.
    async fn tools(&self, revision: &str) -> Vec<Value> {
        self.send(revision, "tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone()
    }
}

/// Sends a JSON-RPC request of a revision, and returns the whole response.
async fn send(serving: &Serving, revision: &str, method: &str, mut params: Value) -> Value {
    let mut headers = vec![
        "Content-Type: application/json".to_owned(),
        "Accept: application/json, text/event-stream".to_owned(),
        format!("MCP-Protocol-Version: {revision}"),
    ];
    if revision == REVISIONS[1] {
        params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {} });
        headers.push(format!("Mcp-Method: {method}"));
        headers.extend(params["name"].as_str().map(|name| format!("Mcp-Name: {name}")));
    }
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let response = serving.connect().await.send("POST /mcp", &headers, &body).await;
    // Both forms are valid; the JSON is the same.
    let text = response.text();
    let json = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Path of a request, with its query.
fn path(request: &ReceivedRequest) -> &str {
    request.line().split(' ').nth(1).unwrap()
}

fn body(request: &ReceivedRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap_or_default()
}

/// Every route file of the seeds is valid, and its examples pass.
#[test]
fn the_route_files_pass_check_and_test() {
    for seed in std::fs::read_dir(folder("")).unwrap() {
        let file = seed.unwrap().path().join("glossator.yaml");
        for command in ["check", "test"] {
            let ran = std::process::Command::new(env!("CARGO_BIN_EXE_glossator"))
                .args([command, "--config"])
                .arg(&file)
                .output()
                .unwrap();
            let output =
                String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success(), "{command} {}:\n{output}", file.display());
        }
        assert!(file.with_file_name("README.md").is_file(), "{} has no page", file.display());
    }
}
