//! The server itself: connection limits, and its shutdown.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use glossator::{
    config::ListenerSettings,
    server::{self, HttpHandler},
};
use tokio::sync::oneshot;

use crate::support::{Client, Gate, Program, Scripted, Setup, Step, response, soon};

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_end() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let mut idle = proxy.connect().await;
    assert_eq!(idle.send("GET /health", &[], "").await.status, 200);
    let mut unused = proxy.connect().await;
    let mut client = proxy.connect().await;
    client.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    proxy.stop();
    assert!(idle.is_closed().await && unused.is_closed().await, "nothing is in flight there");
    gate.open();
    let response = client.read(false).await;
    assert_eq!((response.status, response.tool_text().as_str()), (200, "done"));
    assert_eq!(response.header("connection").as_deref(), Some("close"));
    assert_eq!(proxy.ended().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_never_pauses_does_not_hold_the_end_up() {
    // Dropped before the runtime is, which releases the worker.
    let (_until_the_end, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(Some(held));
    let (begun, has_begun) = oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    let handler = HttpHandler::new(move |_| {
        let held = held.lock().unwrap().take().unwrap();
        begun.lock().unwrap().take().unwrap().send(()).unwrap();
        async move {
            let _ = held.recv();
            http::Response::default()
        }
    });
    let listener = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let settings =
        ListenerSettings { shutdown_timeout: Duration::from_millis(20), ..ListenerSettings::default() };
    let serving = server::serve(listener, settings, handler, async { has_begun.await.unwrap() });
    let mut client = Client::connect(address).await;
    client.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(soon("the end of the server", serving).await, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn the_second_signal_ends_the_program_at_once() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let config = format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes: {{ get_thing: {{ request: GET old/thing }} }}\n\
         server: {{ listen: '127.0.0.1:0', shutdown_timeout: 1h }}\n",
        upstream.address
    );
    let mut program = Program::start(&config, &[]).await;
    let mut client = program.connect().await;
    client.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    program.terminate();
    // As `timeout` does, which signals the process and then its group.
    program.terminate();
    program.wait_for_log("graceful shutdown started", 1).await;
    assert!(program.is_running(), "the call in flight was not waited for");
    soon("the second signal counts", async {
        while program.is_running() {
            program.terminate();
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(program.ended().await.0.code(), Some(143));
}

#[cfg(unix)]
#[tokio::test]
async fn two_interrupts_end_the_program_with_their_status() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let config = format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes: {{ get_thing: {{ request: GET old/thing }} }}\n\
         server: {{ listen: '127.0.0.1:0', shutdown_timeout: 1h }}\n",
        upstream.address
    );
    let mut program = Program::start(&config, &[]).await;
    let mut client = program.connect().await;
    client.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    soon("the second signal counts", async {
        while program.is_running() {
            program.signal("INT");
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(program.ended().await.0.code(), Some(130));
}

/// A secret is a pipe. It is opened after the program has started to read its configuration, and is not read
/// before it is written.
#[cfg(unix)]
#[tokio::test]
async fn signals_that_mean_nothing_and_early_ones_do_not_end_the_program() {
    use std::io::{BufRead as _, Write as _};
    let at = |name: &str| std::env::temp_dir().join(format!("glossator-it-{}-{name}", std::process::id()));
    let (pipe, file) = (at("pipe"), at("early.yaml"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let secret = format!("secret_key: '${{file:{}}}'", pipe.display());
    let config = format!(
        "upstreams: {{ old: http://127.0.0.1:9 }}\npassthrough: old\nserver: {{ reload_interval: 0s, {secret} }}\n"
    );
    std::fs::write(&file, config).unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_glossator"))
        .args(["run", "--listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, ready) = oneshot::channel();
    // Not a thread of the runtime, which would wait for it: a program that has exited opens no pipe.
    std::thread::spawn({
        let (pipe, pid, stdout) = (pipe.clone(), child.id().to_string(), child.stdout.take().unwrap());
        move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
            for signal in ["HUP", "USR1", "USR2"] {
                let sent = std::process::Command::new("kill").args(["-s", signal, &pid]).status();
                assert!(sent.unwrap().success());
            }
            // Whether the program still reads is checked below.
            let _ = pipe.write_all(b"0123456789abcdef");
            drop(pipe);
            let mut line = String::new();
            std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
            sender.send(line)
        }
    });
    let ready = soon("the program listens, or has ended", ready).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for left in [pipe, file] {
        std::fs::remove_file(left).unwrap();
    }
    assert!(ready.starts_with("listening on "), "{ready:?}");
}

#[tokio::test]
async fn a_head_has_limits() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.header_timeout = Duration::from_millis(50);
    let proxy = setup.start().await;
    let many: Vec<String> = (0..200).map(|index| format!("X-{index}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(proxy.send("GET /health", &many, "").await.status, 431);
    let long = format!("X-Long: {}", "y".repeat(100_000));
    assert_eq!(proxy.send("GET /health", &[&long], "").await.status, 431);
    assert_eq!(proxy.send("GET /health and more", &[], "").await.status, 400);
    let mut slow = proxy.connect().await;
    slow.write("GET /health HTTP/1.1\r\nHost: loc").await;
    assert!(slow.is_closed().await);
}

#[tokio::test]
async fn an_idle_connection_is_kept_for_longer_than_headers_may_take() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.header_timeout = Duration::from_millis(50);
    setup.server.keepalive_timeout = Duration::from_millis(600);
    let proxy = setup.start().await;
    let (mut idle, mut slow) = (proxy.connect().await, proxy.connect().await);
    let started = Instant::now();
    assert_eq!(slow.send("GET /health", &[], "").await.status, 200);
    slow.write("GET /health HTTP/1.1\r\nHost: loc").await;
    assert!(slow.is_closed().await);
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(idle.send("GET /health", &[], "").await.status, 200);
    let started = Instant::now();
    assert!(idle.is_closed().await);
    assert!(started.elapsed() > Duration::from_millis(400), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_while_all_others_are_active() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.max_connections = 1;
    let proxy = setup.start().await;
    let first = async {
        let mut first = proxy.connect().await;
        assert_eq!(first.send("POST /tools/get_thing", &[], "").await.tool_text(), "ok");
    };
    let second = async {
        upstream.until("the first is asked", |state| state.requests.len() == 1).await;
        let mut second = proxy.connect().await;
        second.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        gate.open();
        assert_eq!(second.read(false).await.status, 200);
    };
    tokio::join!(first, second);
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = proxy.connect().await;
    for _ in 0..3 {
        assert_eq!(client.send("POST /tools/get_thing", &[], "").await.tool_text(), "ok");
    }
    client
        .write(
            "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /status HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )
        .await;
    assert!(client.read(false).await.text().contains("ok"));
    assert!(client.read(false).await.text().contains("uptime"));
}
