//! The server itself: limits of a connection, and its end.

use std::time::Duration;

use glossator::serve::Drained;

use crate::support::{Gate, Scripted, Setup, Step, reply};

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_end() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |_| {
        vec![Step::Hold(held.clone()), Step::Send(reply("200 OK", "text/plain", "done"))]
    })
    .await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let mut idle = proxy.connect().await;
    assert_eq!(idle.ask("GET /health", &[], "").await.status, 200);
    let mut unused = proxy.connect().await;
    let mut client = proxy.connect().await;
    client.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    upstream.until("the call is in flight", |state| state.asked.len() == 1).await;
    proxy.stop();
    assert!(idle.is_closed().await && unused.is_closed().await, "nothing is in flight there");
    gate.open();
    let response = client.read(false).await;
    assert_eq!((response.status, response.told().as_str()), (200, "done"));
    assert_eq!(response.header("connection").as_deref(), Some("close"));
    assert_eq!(proxy.ended().await, Drained::All);
}

#[tokio::test]
async fn a_request_that_outlasts_the_drain_is_cut_off() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.drain_timeout = Duration::from_millis(20);
    let mut proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    upstream.until("the call is in flight", |state| state.asked.len() == 1).await;
    proxy.stop();
    assert!(client.is_closed().await);
    assert_eq!(proxy.ended().await, Drained::CutOff { connections: 1 });
    upstream.until("the upstream is left", |state| state.left == 1).await;
}

#[tokio::test]
async fn a_head_has_limits() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.header_read_timeout = Duration::from_millis(50);
    let proxy = setup.start().await;
    let many: Vec<String> = (0..200).map(|index| format!("X-{index}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(proxy.ask("GET /health", &many, "").await.status, 431);
    let long = format!("X-Long: {}", "y".repeat(100_000));
    assert_eq!(proxy.ask("GET /health", &[&long], "").await.status, 431);
    assert_eq!(proxy.ask("GET /health and more", &[], "").await.status, 400);
    let mut slow = proxy.connect().await;
    slow.write("GET /health HTTP/1.1\r\nHost: loc").await;
    assert!(slow.is_closed().await);
}

#[tokio::test]
async fn one_connection_more_than_the_limit_waits_for_its_turn() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.connection_limit = 1;
    let proxy = setup.start().await;
    let mut first = proxy.connect().await;
    assert_eq!(first.ask("GET /health", &[], "").await.status, 200);
    let second = proxy.ask("GET /health", &[], "");
    let free = async {
        assert_eq!(first.ask("GET /health", &[], "").await.status, 200);
        drop(first);
    };
    let (second, ()) = tokio::join!(second, free);
    assert_eq!(second.status, 200);
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "ok")).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = proxy.connect().await;
    for _ in 0..3 {
        assert_eq!(client.ask("POST /tools/get_thing", &[], "").await.told(), "ok");
    }
    client
        .write(
            "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /status HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )
        .await;
    assert!(client.read(false).await.text().contains("ok"));
    assert!(client.read(false).await.text().contains("uptime"));
}
