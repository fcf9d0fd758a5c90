//! A process that has run out of file descriptors.

use std::time::Instant;

use serde_json::Value;

use crate::support::{Client, Gate, Program, Scripted, Step, response, soon};

const REQUEST: &str = "GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n";

const ACCEPT_FAILED: &str = "accepting a connection failed";

async fn start(limit: &str) -> (Program, Gate, Scripted) {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |_| {
        vec![Step::Hold(held.clone()), Step::Send(response("200 OK", "text/plain", "old"))]
    })
    .await;
    let config = format!(
        "server: {{ listen: '127.0.0.1:0' }}\nadmin: {{ listen: '127.0.0.1:0' }}\n\
         upstreams: {{ old: {{ url: 'http://{}', retry: off, circuit_breaker: off, max_in_flight: 1 }} }}\n\
         routes: {{ held: {{ description: x, request: GET old/held, rest: GET /held }} }}\n",
        upstream.address
    );
    (Program::start_limited(&config, limit).await, gate, upstream)
}

async fn admin(program: &mut Program) -> Client {
    let line: Value = serde_json::from_str(&program.wait_for_log("admin API listening", 1).await).unwrap();
    let address = line["fields"]["address"].as_str().or_else(|| line["address"].as_str()).unwrap();
    Client::connect(address.parse().unwrap()).await
}

#[tokio::test]
async fn the_admin_api_responds_without_free_descriptors() {
    let (mut program, gate, _upstream) = start("-n 128").await;
    program.wait_for_log("the limit of open files is lower than the configured limits may need", 1).await;
    let started = Instant::now();
    let mut clients = Vec::new();
    for _ in 0..150 {
        let mut client = program.connect().await;
        client.write(REQUEST).await;
        clients.push(client);
    }
    program.wait_for_log(ACCEPT_FAILED, 1).await;
    for path in ["/healthz", "/metrics"] {
        let response = admin(&mut program).await.send(&format!("GET {path}"), &[], "").await;
        assert_eq!(response.status, 200, "{path}");
    }
    program.wait_for_log(ACCEPT_FAILED, 2).await;
    gate.open();
    drop(clients);
    // The clients' descriptors are closed one by one, so at first there may be none for the upstream.
    soon("a good response", async {
        loop {
            let mut client = program.connect().await;
            client.write(REQUEST).await;
            if client.read(false).await.status == 200 {
                break;
            }
        }
    })
    .await;
    let most = started.elapsed().as_secs() + 2;
    let log = program.log().await;
    let failures: Vec<_> = log.iter().filter(|line| line.to_string().contains(ACCEPT_FAILED)).collect();
    assert!(failures.len() as u64 <= most, "{failures:?}");
    assert!(failures.iter().any(|line| !line.to_string().contains("\"failures\":1,")), "{failures:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_soft_limit_is_raised_to_the_hard_one() {
    let (program, ..) = start("-Sn 200").await;
    let (soft, hard) = program.file_limits();
    assert_eq!(soft, hard);
    assert_ne!(soft, "200");
}
