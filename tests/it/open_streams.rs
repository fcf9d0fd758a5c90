//! Open streams whose client loses its permission, and its calls in flight.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use glossator::{
    auth::ApiKeyHash,
    config::{self, Sources},
};
use serde_json::{Value, json};

use crate::{
    mcp::{NEWEST, streams::message},
    support::{Client, Gate, Loaded, Response, Scripted, Step, response, soon},
    tokens::{ISSUER, Login, RESOURCE, claims},
};

const ADA: &str = "glk_ada-ada-ada-ada-ada-ada-ada-ada";
const BOB: &str = "glk_bob-bob-bob-bob-bob-bob-bob-bob";
const OLDER: &str = "2025-11-25";

/// Upstream whose `/feed` never ends, and whose `/wait` waits at the gate.
async fn upstream(gate: &Gate) -> Scripted {
    let (held, never) = (gate.clone(), Gate::new());
    Scripted::start(move |request| match request.line().split(' ').nth(1).unwrap() {
        "/feed" => vec![
            Step::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n".to_vec()),
            Step::Hold(never.clone()),
        ],
        _ => vec![Step::Hold(held.clone()), Step::Send(response("200 OK", "text/plain", "done"))],
    })
    .await
}

fn load(upstream: &Scripted, more: &str) -> config::Loaded {
    let (scopes, all) = match more.is_empty() {
        true => ("", ""),
        false => (", scopes: []", "defaults: { scopes: [use] }"),
    };
    let file = format!(
        "{more}
{all}
upstreams: {{ old: 'http://{}' }}
passthrough: {{ upstream: old{scopes} }}
routes: {{ wait: {{ description: x, request: GET old/wait }} }}
",
        upstream.address,
    );
    config::load(&Sources::from_text("a.yaml", file)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn client(name: &str, key: &str, scopes: &str) -> String {
    format!("  {name}: {{ api_key_hashes: '{}', scopes: [{scopes}] }}\n", ApiKeyHash::from_key(key))
}

/// All kinds of open streams, with one credential.
struct Open {
    of_session: Client,
    subscription: Client,
    feed: Client,
}

async fn send(served: &Loaded, shown: &str, version: &str, content: Value, headers: &str) -> Client {
    let mut client = served.connect().await;
    client.write(message(version, content, &format!("Authorization: Bearer {shown}\r\n{headers}"))).await;
    client
}

async fn get(served: &Loaded, shown: &str, path: &str, headers: &str) -> Client {
    let mut client = served.connect().await;
    client
        .write(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {shown}\r\n{headers}\r\n"))
        .await;
    client
}

impl Open {
    async fn with_credential(served: &Loaded, shown: &str) -> Self {
        let params = json!({ "protocolVersion": OLDER, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let begun: Response =
            soon("the answer", send(served, shown, OLDER, hello, "").await.read(false)).await;
        let session = begun.header("mcp-session-id").unwrap();
        let headers = format!(
            "Accept: text/event-stream\r\nMCP-Protocol-Version: {OLDER}\r\nMcp-Session-Id: {session}\r\n"
        );
        let mut of_session = get(served, shown, "/mcp", &headers).await;
        of_session.read_until(": open").await;
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let listen = json!({ "jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params });
        let mut subscription = send(served, shown, NEWEST, listen, "").await;
        subscription.read_until("acknowledged").await;
        let mut feed = get(served, shown, "/feed", "").await;
        feed.read_until("first").await;
        Self { of_session, subscription, feed }
    }

    /// Waits until those that receive change notifications have received this many.
    async fn await_tools_changed(&mut self, times: usize) {
        const NOTIFICATION: &str = "notifications/tools/list_changed";
        for stream in [&mut self.of_session, &mut self.subscription] {
            let mut text = stream.read_until(NOTIFICATION).await;
            while text.matches(NOTIFICATION).count() < times {
                soon("another change", stream.read_more_than(text.len())).await;
                text = stream.read_until(NOTIFICATION).await;
            }
        }
    }

    /// Waits until all have ended: MCP streams properly, with a last message, and the passthrough stream cut
    /// off.
    async fn have_ended(mut self) {
        soon("the end of the stream", self.of_session.read(false)).await;
        let last = soon("the end of the subscription", self.subscription.read(false)).await;
        assert!(last.text().contains("\"id\":9,\"result\""), "{}", last.text());
        let fed = self.feed.read_to_end().await;
        assert!(fed.ends_with("first\r\n"), "it must not look like its end: {fed}");
    }
}

#[tokio::test]
async fn open_streams_end_with_their_key_and_calls_complete() {
    let gate = Gate::new();
    let upstream = upstream(&gate).await;
    let clients = |ada: &str, bob: &str| load(&upstream, &format!("clients:\n{ada}{bob}"));
    let (ada, bob) = (client("ada", ADA, "use"), client("bob", BOB, "use"));
    let mut served = Loaded::start(&clients(&ada, &bob)).await;
    let (mut of_ada, mut of_bob) =
        (Open::with_credential(&served, ADA).await, Open::with_credential(&served, BOB).await);
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "wait" } });
    let mut calling = send(&served, ADA, NEWEST, call, "").await;
    upstream
        .until("the call is there", |state| {
            state.requests.iter().any(|request| request.line().contains("/wait"))
        })
        .await;
    // A change of another client does not affect them.
    let other = client("other", "glk_other-other-other-other-other", "use");
    served.app.apply(&clients(&format!("{ada}{other}"), &bob)).unwrap();
    of_ada.await_tools_changed(1).await;
    of_bob.await_tools_changed(1).await;
    // Ada's client is removed.
    served.app.apply(&clients(&other, &bob)).unwrap();
    of_ada.have_ended().await;
    gate.open();
    let result = soon("the result", calling.read(false)).await;
    assert!(result.text().contains("done"), "{}", result.text());
    // Bob's scopes change.
    of_bob.await_tools_changed(2).await;
    served.app.apply(&clients(&other, &client("bob", BOB, "use, more"))).unwrap();
    of_bob.have_ended().await;
}

#[tokio::test]
async fn public_streams_end_when_authentication_is_enabled() {
    let upstream = upstream(&Gate::new()).await;
    let mut served = Loaded::start(&load(&upstream, "")).await;
    let open = Open::with_credential(&served, "whoever").await;
    served.app.apply(&load(&upstream, &format!("clients:\n{}", client("ada", ADA, "use")))).unwrap();
    open.have_ended().await;
}

#[tokio::test]
async fn streams_of_a_token_end_when_it_expires() {
    let (upstream, login) = (upstream(&Gate::new()).await, Login::new());
    let tokens = format!("{{ issuer: {ISSUER}, clock_skew: 0s, jwks: {:?} }}", login.jwks());
    let auth = format!("server: {{ auth: {{ resource: {RESOURCE}, jwt: {tokens} }} }}");
    let served = Arc::new(Loaded::start(&load(&upstream, &auth)).await);
    let token = |rest: f64| {
        let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + rest;
        login.by_edwards(&claims(json!({ "exp": exp, "scope": "use" })))
    };
    let mut long = Open::with_credential(&served, &token(300.0)).await;
    // The certificate must last until all streams are open, which depends on the machine.
    let mut rest = 0.1;
    let short = loop {
        let (served, token) = (Arc::clone(&served), token(rest));
        match tokio::spawn(async move { Open::with_credential(&served, &token).await }).await {
            Ok(open) => break open,
            Err(late) if rest > 9.0 => panic!("{late}"),
            Err(_) => rest *= 3.0,
        }
    };
    short.have_ended().await;
    served.gateway.publish(glossator::pipeline::ChangeEvent::Tools);
    long.await_tools_changed(1).await;
}
