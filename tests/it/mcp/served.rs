//! Served configuration as an operator writes it, over real sockets, with requests in legacy and modern
//! revisions.

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use crate::support::{Loaded, Response, Scripted};

/// The last legacy revision, and the modern one.
pub(crate) const LIFECYCLES: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Running program.
pub(crate) struct Served(Loaded);

impl Served {
    /// Serves a configuration in front of a server. `LEGACY` in it is replaced by the server's address.
    pub(crate) async fn start(text: &str, upstream: &Scripted) -> Self {
        let text = text.replace("LEGACY", &format!("http://{}", upstream.address));
        let loaded = config::load(&Sources::from_text("glossator.yaml", text));
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        Self(Loaded::start(&loaded).await)
    }

    /// Sends a request of a revision, with all that it requires, and returns the response.
    pub(crate) async fn post(&self, revision: &str, method: &str, mut params: Value) -> Response {
        let mut headers = vec![
            "Content-Type: application/json".to_owned(),
            "Accept: application/json, text/event-stream".to_owned(),
            format!("MCP-Protocol-Version: {revision}"),
        ];
        if revision == LIFECYCLES[1] {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = revision.into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            headers.push(format!("Mcp-Method: {method}"));
            let name = params["name"].as_str().or_else(|| params["uri"].as_str());
            headers.extend(name.map(|name| format!("Mcp-Name: {name}")));
        }
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        self.0.connect().await.send("POST /mcp", &headers, &body).await
    }

    /// Result of a successful request.
    pub(crate) async fn result(&self, revision: &str, method: &str, params: Value) -> Value {
        let response = self.post(revision, method, params).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let message = response.json();
        assert!(message.get("error").is_none(), "{revision} {method}: {message}");
        message["result"].clone()
    }

    /// HTTP status, code and message of a JSON-RPC error.
    pub(crate) async fn error(&self, revision: &str, method: &str, params: Value) -> (u16, i64, String) {
        let response = self.post(revision, method, params).await;
        let message = response.json();
        let error = &message["error"];
        let message = error["message"].as_str().unwrap_or_else(|| panic!("{revision} {method}: {message}"));
        (response.status, error["code"].as_i64().unwrap(), message.to_owned())
    }

    /// Capabilities that the server declares.
    pub(crate) async fn capabilities(&self, revision: &str) -> Value {
        if revision == LIFECYCLES[1] {
            return self.result(revision, "server/discover", json!({})).await["capabilities"].clone();
        }
        let params = json!({ "protocolVersion": revision, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        self.result(revision, "initialize", params).await["capabilities"].clone()
    }
}
