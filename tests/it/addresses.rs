//! One upstream at several addresses.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use glossator::{
    policy::{OrOff, RetrySettings},
    upstream::http::{EndpointState, HealthCheckSettings, HttpUpstream, OutlierDetectionSettings},
};

use crate::support::{Gate, Scripted, Setup, Step, response, route, soon};

/// Address without a listener.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

async fn answering(text: &'static str) -> Scripted {
    Scripted::answering(response("200 OK", "text/plain", text)).await
}

/// Two addresses, and a client that sends a request once.
fn both(one: SocketAddr, other: SocketAddr) -> Setup {
    let mut setup = Setup::new(one);
    setup.upstream.other_addresses = vec![format!("http://{other}").parse().unwrap()];
    setup.policy.retry = OrOff::Off;
    setup
}

#[tokio::test]
async fn calls_are_spread_and_an_address_that_is_gone_is_not_noticed() {
    let (one, other) = (answering("one").await, answering("other").await);
    let mut setup = both(one.address, other.address);
    setup.upstream.other_addresses.push(format!("http://{}", nowhere()).parse().unwrap());
    // A request with an effect fails over, too, because nothing was sent to the unreachable address.
    setup.routes.push(route("make_thing", "POST /thing"));
    let proxy = setup.start().await;
    for _ in 0..40 {
        assert_eq!(proxy.call("make_thing", "").await.status, 200);
    }
    let (one, other) = (one.state().requests.len(), other.state().requests.len());
    assert!(one > 5 && other > 5 && one + other == 40, "{one} and {other}");
}

#[tokio::test]
async fn passthrough_fails_over_to_another_endpoint_with_its_body() {
    let there = answering("there").await;
    let mut setup = both(nowhere(), there.address);
    setup.passthrough = true;
    let proxy = setup.start().await;
    for _ in 0..20 {
        assert_eq!(proxy.send("PUT /thing", &[], "a body").await.text(), "there");
    }
    let state = there.state();
    assert!(state.requests.len() == 20 && state.requests.iter().all(|request| request.body == b"a body"));
    assert_eq!(state.requests[0].header("host"), [there.address.to_string()]);
}

#[tokio::test]
async fn a_retry_uses_another_endpoint() {
    let bad = Scripted::answering(response("503 Service Unavailable", "text/plain", "no")).await;
    let good = answering("yes").await;
    let mut setup = both(bad.address, good.address);
    setup.policy.retry = OrOff::On(RetrySettings {
        max_attempts: 2,
        initial_backoff: Duration::from_millis(1),
        ..RetrySettings::default()
    });
    setup.upstream.outlier_detection.consecutive_failures = None;
    let proxy = setup.start().await;
    // Few enough for the retry budget, whichever endpoint the first attempts select.
    let mut calls = 0;
    while bad.state().requests.len() < 3 {
        assert_eq!(proxy.call("get_thing", "").await.tool_text(), "yes");
        calls += 1;
    }
    assert_eq!(good.state().requests.len(), calls);
}

#[tokio::test]
async fn a_failing_or_silent_endpoint_is_ejected() {
    for silent in [false, true] {
        let bad =
            Scripted::start(move |_| if silent { vec![Step::Hold(Gate::new())] } else { vec![Step::Close] })
                .await;
        let good = answering("yes").await;
        let mut setup = both(bad.address, good.address);
        setup.upstream.outlier_detection = OutlierDetectionSettings {
            consecutive_failures: Some(2),
            base_ejection_time: Duration::from_secs(3600),
            max_ejection_time: Duration::from_secs(3600),
        };
        // Far more than the good server needs on a busy machine.
        setup.policy.attempt_timeout = Some(Duration::from_millis(400));
        let proxy = setup.start().await;
        let mut failed = 0;
        for _ in 0..50 {
            failed += usize::from(proxy.call("get_thing", "").await.status != 200);
        }
        assert_eq!((failed, bad.state().requests.len(), good.state().requests.len()), (2, 2, 48));
    }
}

#[tokio::test]
async fn an_unhealthy_endpoint_is_not_used_until_it_recovers() {
    let gate = Gate::new();
    let recovered = gate.clone();
    let unhealthy = Scripted::start(move |request| {
        let status = if request.line().starts_with("GET /health") && !recovered.is_open() {
            "500 Internal Server Error"
        } else {
            "200 OK"
        };
        vec![Step::Send(response(status, "text/plain", "ill"))]
    })
    .await;
    let good = answering("good").await;
    let mut settings = both(unhealthy.address, good.address).upstream;
    settings.health_check = Some(HealthCheckSettings {
        path: "/health".parse().unwrap(),
        interval: Duration::from_millis(10),
        timeout: Duration::from_secs(5),
        unhealthy_threshold: 2,
    });
    let upstream = HttpUpstream::new(settings);
    let state = || upstream.addresses()[0].state;
    soon("it is found ill", async {
        while state() != EndpointState::Unhealthy {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(upstream.addresses()[1].state, EndpointState::Healthy);
    gate.open();
    soon("it is found well", async {
        while state() != EndpointState::Healthy {
            tokio::task::yield_now().await
        }
    })
    .await;
    // Health checks end with the upstream, and so do their connections.
    drop(upstream);
    let closed = |state: &crate::support::State| state.closed_connections == state.connections;
    unhealthy.until("nobody asks any more", closed).await;
    good.until("nobody asks any more", closed).await;
}
