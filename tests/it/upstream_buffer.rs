//! The memory limit of upstream responses: queueing, rejection, and release.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use glossator::{
    config::{self, Sources},
    upstream::UpstreamBuffer,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Gate, Loaded, ReceivedRequest, Scripted, Step, response, soon};

const LIMIT: usize = 1 << 20;

/// Over the limit by itself, as it counts three times.
const LONG: usize = 400 << 10;

/// Upstream that sends the first part of `/held`, and the rest when the gate is open.
async fn upstream(gate: &Gate) -> Scripted {
    let gate = gate.clone();
    Scripted::start(move |request: &ReceivedRequest| {
        let body = "a".repeat(LONG);
        let whole = response("200 OK", "text/plain", &body);
        match request.line().split(' ').nth(1).unwrap() {
            "/held" => {
                let (first, rest) = whole.split_at(whole.len() / 2);
                vec![Step::Send(first.to_vec()), Step::Hold(gate.clone()), Step::Send(rest.to_vec())]
            }
            "/longer" => vec![Step::Send(response("200 OK", "text/plain", &"a".repeat(7 << 20)))],
            "/short" => vec![Step::Send(response("200 OK", "text/plain", "short"))],
            "/chunked" => {
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
                vec![Step::Send(format!("{head}{LONG:x}\r\n{body}\r\n0\r\n\r\n").into())]
            }
            "/compressed" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: deflate\r\n";
                // "short", in a stored (uncompressed) block.
                let body = b"\x01\x05\x00\xfa\xffshort";
                let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
                vec![Step::Send([head.as_bytes(), body].concat())]
            }
            _ => vec![Step::Send(whole)],
        }
    })
    .await
}

/// MCP server as a shell script, with one tool that returns a long text.
const SERVER: &str = r##"
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%,*}
    case $line in
        *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}}\n' "$id" ;;
        *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$(head -c LENGTH /dev/zero | tr '\0' a)" ;;
    esac
done
"##;

/// CGI program in a file, deleted on drop.
struct CgiScript(PathBuf);

impl CgiScript {
    fn new(text: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("glossator-it-buffer-{}-{number}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }
}

impl Drop for CgiScript {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn served(upstream: &Scripted) -> (Loaded, UpstreamBuffer, CgiScript) {
    let server = SERVER.replace("LENGTH", &LONG.to_string()).replace("${", "$${");
    let print = format!("head -c {LONG} /dev/zero | tr '\\0' a");
    let script = CgiScript::new(&format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; {print}\n"));
    let config = json!({
        "server": { "upstream_buffer_limit": "1MiB" },
        "upstreams": {
            "old": format!("http://{}", upstream.address),
            "program": { "command": ["sh", "-c", print] },
            "script": { "cgi": script.0 },
            "child": { "mcp": { "command": ["sh", "-c", server] } },
        },
        "routes": {
            "held": { "description": "x", "request": "GET old/held", "rest": "GET /held" },
            "short": { "description": "x", "request": "GET old/short", "rest": "GET /short" },
            "rejected": {
                "description": "x", "request": "GET old/long", "rest": "GET /rejected", "timeout": "1s",
            },
            "longer": { "description": "x", "request": "GET old/longer", "rest": "GET /longer" },
            "length": { "description": "x", "request": "GET old/long", "rest": "GET /length" },
            "chunked": { "description": "x", "request": "GET old/chunked", "rest": "GET /chunked" },
            "compressed": { "description": "x", "request": "GET old/compressed", "rest": "GET /compressed" },
            "cached": {
                "description": "x", "request": "GET old/long", "rest": "GET /cached", "cache": { "ttl": "1h" },
            },
            "program": { "description": "x", "request": "RUN program", "rest": "GET /program" },
            "script": { "description": "x", "request": "GET script/", "rest": "GET /script" },
            "child": { "description": "x", "request": "CALL child/long", "rest": "GET /child" },
        },
    });
    let loaded = config::load(&Sources::from_text("a.yaml", config.to_string()))
        .unwrap_or_else(|problems| panic!("{problems}"));
    let served = Loaded::start(&loaded).await;
    let buffer = served.gateway.snapshot().upstream_buffer.clone().unwrap();
    (served, buffer, script)
}

async fn until(what: &str, test: impl Fn() -> bool) {
    soon(what, async {
        while !test() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn every_kind_of_upstream_waits_for_memory() {
    let gate = Gate::new();
    let upstream = upstream(&gate).await;
    let (served, buffer, _script) = served(&upstream).await;
    // So that the next call has a cached response, and the child is running.
    for path in ["/cached", "/child"] {
        assert_eq!(served.connect().await.send(&format!("GET {path}"), &[], "").await.status, 200, "{path}");
    }
    let mut held = served.connect().await;
    held.write("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the response is charged before all of it has come", || buffer.state().used_bytes >= LIMIT).await;
    let paths = ["/length", "/chunked", "/compressed", "/cached", "/program", "/script", "/child"];
    let mut waiting = Vec::new();
    for path in paths {
        let mut client = served.connect().await;
        client.write(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        waiting.push((path, client));
    }
    until("all of them wait", || buffer.state().queued.iter().sum::<usize>() == paths.len()).await;
    assert_eq!(
        served.connect().await.send("GET /short", &[], "").await.status,
        200,
        "short ones wait for nothing"
    );
    gate.open();
    assert_eq!(held.read(false).await.status, 200);
    // Concurrently: a response that one does not read delays the next.
    let mut reading = JoinSet::new();
    for (path, mut client) in waiting {
        reading.spawn(async move { (path, client.read(false).await) });
    }
    for (path, response) in soon("all responses", reading.join_all()).await {
        assert_eq!(response.status, 200, "{path}: {}", response.text());
    }
    until("all memory is free", || {
        buffer.state().used_bytes == 0 && buffer.state().queued.iter().sum::<usize>() == 0
    })
    .await;
    assert_eq!(buffer.state().rejected, 0);
}

#[tokio::test]
async fn a_call_without_memory_gets_retry_after() {
    let gate = Gate::new();
    let upstream = upstream(&gate).await;
    let (served, buffer, _script) = served(&upstream).await;
    let mut held = served.connect().await;
    held.write("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the memory is taken", || buffer.state().used_bytes >= LIMIT).await;
    let response = served.connect().await.send("GET /rejected", &[], "").await;
    assert_eq!((response.status, response.header("retry-after").as_deref()), (503, Some("2")));
    assert!(response.tool_text().contains("buffer for long responses is full"), "{}", response.text());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "rejected" } });
    let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let response = served.connect().await.send("POST /mcp", &headers, &call.to_string()).await;
    let text = response.text();
    let message: Value =
        serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text))
            .unwrap();
    assert_eq!((response.status, &message["result"]["isError"]), (200, &json!(true)), "{text}");
    assert_eq!(message["result"]["_meta"]["glossator/retryAfter"], 2, "{text}");
    assert_eq!(buffer.state().rejected, 2);
    gate.open();
    assert_eq!(held.read(false).await.status, 200);
}

#[tokio::test]
async fn unread_responses_are_charged_too() {
    let gate = Gate::new();
    let upstream = upstream(&gate).await;
    gate.open();
    let (served, buffer, _script) = served(&upstream).await;
    let stream = tokio::net::TcpSocket::new_v4().unwrap();
    stream.set_recv_buffer_size(4096).unwrap();
    let mut stream = stream.connect(served.address).await.unwrap();
    let requests = "GET /longer HTTP/1.1\r\nHost: localhost\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, requests.as_bytes()).await.unwrap();
    until("the result is charged, beyond the limit", || buffer.state().used_bytes > 2 * LIMIT).await;
    drop(stream);
    until("the client has left", || buffer.state().used_bytes == 0).await;
}

/// As many as would take half a gigabyte, if each had its own buffer.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn many_long_responses_stay_within_the_limit_and_their_memory_is_given_back() {
    use crate::support::Program;

    const COUNT: usize = 40;
    let body = format!("{{\"text\":\"{}\"}}", "a".repeat(4 << 20));
    let upstream = Scripted::answering(response("200 OK", "application/json", &body)).await;
    let config = format!(
        "server: {{ listen: '127.0.0.1:0', upstream_buffer_limit: 16MiB }}\nadmin: {{ listen: 'off' }}\n\
         upstreams: {{ old: 'http://{}' }}\n\
         routes: {{ get_thing: {{ description: x, request: GET old/thing, rest: GET /thing }} }}\n",
        upstream.address
    );
    let program = Program::start(&config, &[]).await;
    let before = program.resident_kib();
    let mut clients = Vec::new();
    for _ in 0..COUNT {
        let mut client = program.connect().await;
        client.write("GET /thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        clients.push(client);
    }
    // Concurrently: a client that reads nothing for a while is disconnected when others need the memory.
    let mut reading = JoinSet::new();
    for mut client in clients {
        reading.spawn(async move { client.read(false).await.status });
    }
    let statuses = soon("all responses", reading.join_all()).await;
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    assert!(statuses.contains(&200), "{statuses:?}");
    let most = program.peak_kib() - before;
    assert!(most < 96 << 10, "{most} KiB for a limit of 16 MiB");
    until("the memory is given back", || program.resident_kib() < before + (12 << 10)).await;
}
