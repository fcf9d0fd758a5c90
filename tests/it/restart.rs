//! Restart: one process ends and the next begins, and no request is rejected or lost.

use std::time::Duration;

use glossator::pipeline::{Snapshot, SnapshotParts};
use glossator::route::RouteTable;
use serde_json::json;

#[cfg(unix)]
use crate::support::{Client, Program};
use crate::support::{Gate, Scripted, Setup, Step, response, route, soon};

/// Responds to `/thing` at once, and to `/slow` when the gate is open.
async fn slow_and_quick() -> (Scripted, Gate) {
    let gate = Gate::new();
    let upstream = Scripted::start({
        let gate = gate.clone();
        move |request| {
            let done = Step::Send(response("200 OK", "text/plain", "done"));
            match request.line().contains("/slow") {
                true => vec![Step::Hold(gate.clone()), done],
                false => vec![done],
            }
        }
    })
    .await;
    (upstream, gate)
}

fn setup(upstream: &Scripted) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.routes = vec![route("get_thing", "GET /thing"), route("get_slow", "GET /slow")];
    setup
}

const SLOW: &str = "POST /tools/get_slow HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[tokio::test]
async fn connections_during_in_flight_requests_are_served() {
    let (upstream, gate) = slow_and_quick().await;
    let mut setup = setup(&upstream);
    setup.server.shutdown_timeout = Duration::from_secs(3600);
    let mut proxy = setup.start().await;
    let mut slow = proxy.connect().await;
    slow.write(SLOW).await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    proxy.stop();
    for _ in 0..50 {
        let mut client = proxy.connect().await;
        let response = client.send("POST /tools/get_thing", &[], "").await;
        assert_eq!((response.status, response.tool_text().as_str()), (200, "done"));
    }
    let mut client = proxy.connect().await;
    let response = client.send("POST /tools/get_thing", &[], "").await;
    assert_eq!(response.header("connection").as_deref(), Some("close"));
    assert!(client.is_closed().await);
    gate.open();
    assert_eq!(slow.read(false).await.tool_text(), "done");
    assert_eq!(proxy.ended().await, 0);
}

#[tokio::test]
async fn calls_queued_for_a_slot_at_shutdown_are_served() {
    let (upstream, gate) = slow_and_quick().await;
    let mut setup = setup(&upstream);
    setup.server.max_connections = 1;
    let mut proxy = setup.start().await;
    let mut slow = proxy.connect().await;
    slow.write(SLOW).await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    let mut waiting = proxy.connect().await;
    waiting.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    // The connection is accepted, but served only after another one has ended.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    proxy.stop();
    assert!(!gate.is_open());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    gate.open();
    assert_eq!(slow.read(false).await.tool_text(), "done");
    assert_eq!(waiting.read(false).await.tool_text(), "done");
    assert_eq!(proxy.ended().await, 0);
}

#[tokio::test]
async fn queued_calls_do_not_delay_the_shutdown() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let mut setup = setup(&upstream);
    setup.server.max_connections = 1;
    setup.server.shutdown_timeout = Duration::from_millis(20);
    let mut proxy = setup.start().await;
    let mut slow = proxy.connect().await;
    slow.write(SLOW).await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    // More connections than the seconds that a test may take.
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(proxy.connect().await);
    }
    proxy.stop();
    assert_eq!(slow.read(false).await.status, 503);
    assert_eq!(proxy.ended().await, 1);
}

/// Setup with a further route, `change_slow`, whose request may change something, and a shutdown timeout that
/// cuts calls off.
fn setup_with_change(upstream: &Scripted) -> Setup {
    let mut setup = setup(upstream);
    let mut changes = route("change_slow", "POST /slow");
    changes.translator.has_effect = true;
    setup.routes.push(changes);
    setup.server.shutdown_timeout = Duration::from_millis(20);
    setup
}

#[tokio::test]
async fn a_call_over_the_shutdown_timeout_gets_an_error_in_every_api() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let mut setup = setup_with_change(&upstream);
    setup.passthrough = true;
    let mut proxy = setup.start().await;
    let [mut rest, mut through, mut rest_change, mut through_change] =
        [proxy.connect().await, proxy.connect().await, proxy.connect().await, proxy.connect().await];
    rest.write(SLOW).await;
    through.write("GET /elsewhere HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    rest_change.write("POST /tools/change_slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    through_change.write("DELETE /elsewhere HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let call = |tool: &str, meta: serde_json::Value| {
        let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }).to_string()
    };
    let head = |body: &str, more: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        )
    };
    let [mut older, mut newer] = [proxy.connect().await, proxy.connect().await];
    older.write(&head(&call("change_slow", json!({})), "")).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: get_slow\r\n";
    newer.write(&head(&call("get_slow", meta), headers)).await;
    upstream.until("the calls are in flight", |state| state.requests.len() == 6).await;
    proxy.stop();
    // Only a request that does more than read may have changed something.
    let check = |error: &str, may_have_effect: bool| {
        let advice = if may_have_effect { "may have taken effect" } else { "retry in a few seconds" };
        assert!(error.contains("shutting down") && error.contains(advice), "{error}");
        assert_eq!(error.contains("effect"), may_have_effect, "{error}");
    };
    for (client, may_have_effect) in
        [(&mut rest, false), (&mut through, false), (&mut rest_change, true), (&mut through_change, true)]
    {
        let response = client.read(false).await;
        assert_eq!((response.status, response.header("retry-after").as_deref()), (503, Some("2")));
        check(response.json()["error"].as_str().unwrap(), may_have_effect);
        assert!(client.is_closed().await);
    }
    for (client, may_have_effect) in [(&mut older, true), (&mut newer, false)] {
        let response = client.read(false).await;
        assert_eq!(response.status, 200);
        let message = response.json();
        assert_eq!((&message["id"], &message["error"]["code"]), (&json!(7), &json!(-32603)), "{message}");
        check(message["error"]["message"].as_str().unwrap(), may_have_effect);
        assert!(client.is_closed().await);
    }
    assert_eq!(proxy.ended().await, 6);
    upstream.until("the upstream is left", |state| state.closed_connections == 6).await;
}

#[tokio::test]
async fn a_cut_off_call_may_have_taken_effect_even_if_its_tool_is_gone() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let setup = setup_with_change(&upstream);
    let mut proxy = setup.start().await;
    let mut client = proxy.connect().await;
    let params = json!({ "name": "change_slow", "arguments": {} });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write(&format!("{head}{body}")).await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    proxy.gateway.replace(Snapshot::new(RouteTable::new(Vec::new()).unwrap(), SnapshotParts::default()));
    proxy.stop();
    let message = client.read(false).await.json();
    let error = message["error"]["message"].as_str().unwrap();
    assert!(error.contains("may have taken effect"), "{error}");
    assert_eq!(proxy.ended().await, 1);
}

#[tokio::test]
async fn a_stream_that_is_opened_during_the_shutdown_is_to_be_retried() {
    let (upstream, gate) = slow_and_quick().await;
    let mut proxy = setup(&upstream).start().await;
    let mut slow = proxy.connect().await;
    slow.write(SLOW).await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    proxy.stop();
    let headers =
        ["Accept: text/event-stream", "MCP-Protocol-Version: 2025-06-18", "Mcp-Session-Id: of-earlier"];
    let rejected = soon("the rejection", async {
        loop {
            let response = proxy.send("GET /mcp", &headers, "").await;
            if response.status == 503 {
                return response;
            }
        }
    })
    .await;
    assert_eq!(rejected.header("retry-after").as_deref(), Some("2"));
    let error = rejected.json()["error"].clone();
    let text = error["message"].as_str().unwrap();
    assert!(error["code"].is_i64() && text.contains("shutting down"), "{error}");
    assert!(text.contains("retry") && !text.contains("effect"), "nothing was begun: {error}");
    gate.open();
    assert_eq!(slow.read(false).await.tool_text(), "done");
    assert_eq!(proxy.ended().await, 0);
}

#[tokio::test]
async fn after_the_delay_it_ends() {
    let (upstream, _) = slow_and_quick().await;
    let mut setup = setup(&upstream);
    setup.server.shutdown_delay = Duration::from_millis(20);
    let mut proxy = setup.start().await;
    let mut idle = proxy.connect().await;
    assert_eq!(idle.send("GET /health", &[], "").await.status, 200);
    proxy.stop();
    assert!(idle.is_closed().await);
    assert_eq!(proxy.ended().await, 0);
}

#[cfg(unix)]
fn config(upstream: &Scripted, server: &str) -> String {
    format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes:\n  get_thing: {{ request: GET old/thing }}\n  \
         get_slow: {{ request: GET old/slow }}\nserver: {{ {server} }}\n",
        upstream.address
    )
}

#[cfg(unix)]
#[tokio::test]
async fn during_the_delay_it_serves_and_is_not_ready() {
    let (upstream, _) = slow_and_quick().await;
    let config = config(&upstream, "shutdown_delay: 1h, listen: '127.0.0.1:0'");
    let mut program = Program::start(&format!("{config}admin: {{ listen: '127.0.0.1:0' }}\n"), &[]).await;
    let line = program.wait_for_log("admin API listening", 1).await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let admin = line["fields"]["address"].as_str().or_else(|| line["address"].as_str());
    let admin: std::net::SocketAddr = admin.unwrap().parse().unwrap();
    let mut before = program.connect().await;
    assert_eq!(before.send("POST /tools/get_thing", &[], "").await.header("connection"), None);
    assert_eq!(Client::connect(admin).await.send("GET /readyz", &[], "").await.status, 200);
    assert_eq!(health(&["--address", &admin.to_string()], None), (Some(0), "ready\n".to_owned()));
    program.terminate();
    program.wait_for_log("graceful shutdown started", 1).await;
    assert_eq!(Client::connect(admin).await.send("GET /readyz", &[], "").await.status, 503);
    let mut anew = program.connect().await;
    for client in [&mut before, &mut anew] {
        let response = client.send("POST /tools/get_thing", &[], "").await;
        assert_eq!((response.status, response.tool_text().as_str()), (200, "done"));
        assert_eq!(response.header("connection").as_deref(), Some("close"), "the next one goes elsewhere");
        assert!(client.is_closed().await);
    }
    assert!(program.is_running());
    // As in a container, where the process listens on every address.
    let listen = format!("0.0.0.0:{}", admin.port());
    let (status, stderr) = health(&[], Some(&listen));
    assert!(status == Some(1) && stderr.contains("/readyz responded with 503"), "{stderr}");
}

/// Exit status and output of `glossator health`.
#[cfg(unix)]
fn health(arguments: &[&str], listen: Option<&str>) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_glossator"));
    command.arg("health").args(arguments);
    command.envs(listen.map(|listen| ("GLOSSATOR__ADMIN__LISTEN", listen)));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// A secret in a pipe is read when the test writes it, so the program is still reading its configuration.
#[cfg(unix)]
#[tokio::test]
async fn sigterm_while_the_configuration_is_read_ends_the_process_gracefully() {
    let (upstream, _) = slow_and_quick().await;
    let path = |name: &str| std::env::temp_dir().join(format!("glossator-it-{}-{name}", std::process::id()));
    let (file, pipe) = (path("early.yaml"), path("early.pipe"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = config(&upstream, "listen: '127.0.0.1:0'") + "admin: { listen: '127.0.0.1:0', token: 'file:";
    std::fs::write(&file, format!("{config}{}' }}\n", pipe.display())).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_glossator"));
    command.args(["run", "--config"]).arg(&file);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let opened = tokio::task::spawn_blocking({
        let pipe = pipe.clone();
        move || std::fs::OpenOptions::new().write(true).open(pipe).unwrap()
    });
    let mut secret = soon("the program reads its configuration", opened).await.unwrap();
    let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    std::io::Write::write_all(&mut secret, b"0123456789abcdef0123456789abcdef").unwrap();
    drop(secret);
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap());
    let ended = soon("the end of the program", ended).await.unwrap();
    assert!(ended.status.success() && ended.stdout.starts_with(b"listening on "), "{ended:?}");
    for path in [file, pipe] {
        std::fs::remove_file(path).unwrap();
    }
}

/// As `systemctl restart` with a `.socket` unit: the socket outlives the process.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_of_systemd_stays_open_across_restarts() {
    let (upstream, gate) = slow_and_quick().await;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let config = config(&upstream, &format!("listen: '{address}'"));
    let first = Program::start_on(&socket, &config).await;
    assert_eq!(first.address, address);
    let mut slow = first.connect().await;
    slow.write(SLOW).await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    first.terminate();
    let quick = async || {
        let mut client = Client::connect(address).await;
        client.send("POST /tools/get_thing", &[], "").await.tool_text()
    };
    for _ in 0..50 {
        assert_eq!(quick().await, "done");
    }
    gate.open();
    assert_eq!(slow.read(false).await.tool_text(), "done");
    assert!(first.ended().await.0.success());
    let mut between = Client::connect(address).await;
    between.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let second = Program::start_on(&socket, &config).await;
    assert_eq!(between.read(false).await.tool_text(), "done");
    assert_eq!(quick().await, "done");
    drop(second);
}

#[test]
fn a_number_of_sockets_that_is_no_number_is_an_error() {
    let config =
        "upstreams: { old: 'http://127.0.0.1:9' }\nroutes: { get_thing: { request: GET old/thing } }\n";
    let file = std::env::temp_dir().join(format!("glossator-it-{}-sockets.yaml", std::process::id()));
    std::fs::write(&file, config).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_glossator"));
    command.args(["run", "--listen", "127.0.0.1:0", "--config"]).arg(&file).env("LISTEN_FDS", "x");
    let output = command.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let expected = "can't listen on the socket that `LISTEN_FDS` passes (socket activation): \
                    `LISTEN_FDS` is not a number";
    assert!(stderr.contains(expected), "{stderr}");
}

/// `Type=notify`: systemd is notified when clients are served, and when the shutdown has started.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn systemd_is_notified() {
    let (upstream, _) = slow_and_quick().await;
    let file = std::env::temp_dir().join(format!("glossator-it-{}-notify.yaml", std::process::id()));
    let socket = file.with_extension("socket");
    std::fs::write(&file, config(&upstream, "listen: '127.0.0.1:0'")).unwrap();
    let supervisor = tokio::net::UnixDatagram::bind(&socket).unwrap();
    let variables = [("NOTIFY_SOCKET".to_owned(), socket.to_str().unwrap().to_owned())];
    let program = Program::start_with(&file, &[], &variables).await;
    let mut buffer = [0; 100];
    let length = soon("it is ready", supervisor.recv(&mut buffer)).await.unwrap();
    assert_eq!(&buffer[..length], b"READY=1\n");
    program.terminate();
    let length = soon("it stops", supervisor.recv(&mut buffer)).await.unwrap();
    assert_eq!(&buffer[..length], b"STOPPING=1\n");
    assert!(program.ended().await.0.success());
    for left in [file, socket] {
        std::fs::remove_file(left).unwrap();
    }
}
