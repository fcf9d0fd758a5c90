//! Tests of endpoints: DNS lookups, load balancing, outlier detection and failover.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::{StatusCode, uri::PathAndQuery};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
};

use super::*;
use crate::route::{HttpRequest, PathBase};
use crate::telemetry::CallContext;
use crate::upstream::http::HttpUpstream;
use crate::upstream::http::connection::full_body;
use crate::upstream::{Deadline, UpstreamCall, UpstreamError};

const BAD_GATEWAY: Result<StatusCode, &Failure> = Ok(StatusCode::BAD_GATEWAY);

/// Server that responds with its own name, and reports how many connections to it are open.
async fn server(name: &'static str) -> (std::net::SocketAddr, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (count_sender, count_receiver) = watch::channel(0);
    let count_sender = Arc::new(count_sender);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count_sender.send_modify(|count| *count += 1);
            let count_sender = count_sender.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
                    stream.write_all(response.as_bytes()).await.unwrap();
                }
                count_sender.send_modify(|count| *count -= 1);
            });
        }
    });
    (address, count_receiver)
}

/// Fake DNS records, to be changed by a test, and a counter of lookups.
#[derive(Debug, Clone, Default)]
pub(in crate::upstream::http) struct FakeDns(
    Arc<(Mutex<Vec<std::net::SocketAddr>>, AtomicUsize, AtomicBool)>,
);

impl FakeDns {
    fn set(&self, addresses: &[std::net::SocketAddr]) {
        *self.0.0.lock() = addresses.to_vec();
    }

    fn lookups(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    /// From now on, lookups never complete.
    fn hang(&self) {
        self.0.2.store(true, Ordering::SeqCst);
    }

    pub(super) async fn lookup(&self) -> std::io::Result<Vec<std::net::SocketAddr>> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        if self.0.2.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let found = self.0.0.lock().clone();
        if found.is_empty() { Err(std::io::Error::other("no such name")) } else { Ok(found) }
    }
}

fn upstream(records: &FakeDns, dns_refresh_interval: Duration) -> HttpUpstream {
    let settings = HttpSettings::new("old".parse().unwrap(), "http://old.test:80".parse().unwrap());
    HttpUpstream::with_lookup(
        HttpSettings { dns_refresh_interval, ..settings },
        Lookup::Scripted(records.clone()),
    )
}

async fn fetch_body(upstream: &HttpUpstream) -> Result<String, UpstreamError> {
    let request = HttpRequest::get(PathBase::UpstreamUrl, PathAndQuery::from_static("/"));
    let upstream_call =
        UpstreamCall::new(request.into(), 100, Deadline::after(Duration::from_secs(20)), true);
    Ok(String::from_utf8(upstream.send(&upstream_call).await?.body.to_vec()).unwrap())
}

#[tokio::test]
async fn requests_spread_over_the_addresses_of_a_name() {
    let (records, (a, _), (b, _)) = (FakeDns::default(), server("a").await, server("b").await);
    records.set(&[a, b, a]);
    let upstream = upstream(&records, Duration::from_secs(60));
    let mut counts = HashMap::new();
    for _ in 0..100 {
        *counts.entry(fetch_body(&upstream).await.unwrap()).or_insert(0) += 1;
    }
    assert!(counts["a"] > 10 && counts["b"] > 10, "{counts:?}");
    assert_eq!(records.lookups(), 1);
    let view = upstream.addresses();
    assert_eq!(view.len(), 2, "an address that the answer contains twice is one endpoint: {view:?}");
    assert_eq!(view[0].address, format!("http://old.test ({})", a.ip()));
    assert!(view.iter().all(|one| (one.state, one.in_flight) == (EndpointState::Healthy, 0)), "{view:?}");
}

#[tokio::test]
async fn calls_and_passthrough_send_the_same_host_without_the_default_port() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let records = FakeDns::default();
    records.set(&[listener.local_addr().unwrap()]);
    let hosts = tokio::spawn(async move {
        let mut hosts = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.unwrap();
            let request = String::from_utf8_lossy(&buffer[..count]).to_ascii_lowercase();
            hosts.push(request.lines().find(|line| line.starts_with("host:")).unwrap().to_owned());
            stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await.unwrap();
        }
        hosts
    });
    let upstream = upstream(&records, Duration::from_secs(60));
    fetch_body(&upstream).await.unwrap();
    let request = http::Request::get("/").header("host", "proxy.test:80").body(full_body(Bytes::new()));
    upstream.stream(request.unwrap(), Instant::now() + Duration::from_secs(20)).await.unwrap();
    assert_eq!(hosts.await.unwrap(), ["host: old.test", "host: old.test"]);
}

#[tokio::test]
async fn a_changed_record_is_seen_though_connections_are_kept_alive() {
    let (records, (a, mut open_connections), (b, _)) =
        (FakeDns::default(), server("a").await, server("b").await);
    records.set(&[a]);
    // So short that it has expired at each request.
    let upstream = upstream(&records, Duration::from_nanos(1));
    assert_eq!(fetch_body(&upstream).await.unwrap(), "a");
    records.set(&[b]);
    assert_eq!(fetch_body(&upstream).await.unwrap(), "b");
    tokio::time::timeout(Duration::from_secs(20), open_connections.wait_for(|count| *count == 0))
        .await
        .unwrap()
        .unwrap();
    records.set(&[]);
    assert_eq!(
        fetch_body(&upstream).await.unwrap(),
        "b",
        "what was true a moment ago is the best that is known"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_looked_up_in_the_background_when_it_is_time() {
    let records = FakeDns::default();
    let settings = HttpSettings::new("old".parse().unwrap(), "http://old.test:80".parse().unwrap());
    let endpoints = Endpoints::new(
        Arc::new(HttpSettings { dns_refresh_interval: Duration::from_secs(30), ..settings }),
        Lookup::Scripted(records.clone()),
    );
    let addresses = |text: &str| -> Vec<std::net::SocketAddr> { vec![text.parse().unwrap()] };
    records.set(&addresses("10.0.0.1:80"));
    let first_address =
        async || endpoints.known().await.unwrap()[0].endpoint.connections.at.unwrap().to_string();
    assert_eq!(first_address().await, "10.0.0.1:80");
    records.set(&addresses("10.0.0.2:80"));
    tokio::time::advance(Duration::from_secs(29)).await;
    assert_eq!((first_address().await.as_str(), records.lookups()), ("10.0.0.1:80", 1));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(first_address().await, "10.0.0.1:80", "nobody waits for it");
    while records.lookups() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(first_address().await, "10.0.0.2:80");
    records.set(&addresses("10.0.0.3:80"));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(first_address().await, "10.0.0.3:80", "the cached addresses have expired");
}

#[tokio::test(start_paused = true)]
async fn a_failed_lookup_is_an_error_and_cached() {
    let records = FakeDns::default();
    let upstream = upstream(&records, Duration::from_secs(30));
    for _ in 0..10 {
        let error = fetch_body(&upstream).await.unwrap_err();
        assert!(matches!(error, UpstreamError { failure: Failure::Connect(_), .. }), "{error}");
        assert_eq!(std::error::Error::source(&error.failure).unwrap().to_string(), "no such name");
    }
    assert_eq!(records.lookups(), 1);
    let (address, _) = server("a").await;
    records.set(&[address]);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(fetch_body(&upstream).await.unwrap(), "a");
}

/// Endpoints at these IP addresses.
fn endpoints(addresses: &[&str]) -> Arc<Endpoints> {
    let mut addresses = addresses.iter().map(|text| text.parse().unwrap());
    let settings = HttpSettings::new("old".parse().unwrap(), addresses.next().unwrap());
    let outlier_detection = OutlierDetectionSettings {
        consecutive_failures: Some(1),
        base_ejection_time: Duration::from_secs(5),
        ..OutlierDetectionSettings::default()
    };
    let settings = HttpSettings { other_addresses: addresses.collect(), outlier_detection, ..settings };
    Endpoints::new(Arc::new(settings), Lookup::System)
}

async fn pick_endpoint(
    endpoints: &Arc<Endpoints>,
    attempted_endpoints: &AttemptedEndpoints,
) -> InFlightRequest {
    let deadline = Instant::now() + Duration::from_secs(1);
    endpoints.pick(attempted_endpoints, deadline, &CallContext::default()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_less_loaded_of_two_endpoints_is_picked() {
    let endpoints = endpoints(&["http://10.0.0.1", "http://10.0.0.2"]);
    let mut in_flight_requests = Vec::new();
    for _ in 0..10 {
        in_flight_requests.push(pick_endpoint(&endpoints, &AttemptedEndpoints::default()).await);
    }
    assert!(endpoints.view().iter().all(|one| one.in_flight == 5), "{:?}", endpoints.view());
    drop(in_flight_requests);
    assert!(endpoints.view().iter().all(|one| one.in_flight == 0), "{:?}", endpoints.view());
}

#[tokio::test(start_paused = true)]
async fn a_failing_endpoint_is_ejected_and_then_probed_by_one_call() {
    let endpoints = endpoints(&["http://10.0.0.1", "http://10.0.0.2"]);
    let mut failing = pick_endpoint(&endpoints, &AttemptedEndpoints::default()).await;
    failing.record(BAD_GATEWAY);
    let failing_id = failing.endpoint.id;
    for _ in 0..20 {
        assert_ne!(pick_endpoint(&endpoints, &AttemptedEndpoints::default()).await.endpoint.id, failing_id);
    }
    tokio::time::advance(Duration::from_secs(5)).await;
    let mut in_flight_requests = Vec::new();
    for _ in 0..20 {
        in_flight_requests.push(pick_endpoint(&endpoints, &AttemptedEndpoints::default()).await);
    }
    assert_eq!(in_flight_requests.iter().filter(|in_flight| in_flight.endpoint.id == failing_id).count(), 1);
    for in_flight in &mut in_flight_requests {
        in_flight.record(Ok(StatusCode::OK));
    }
    assert!(endpoints.view().iter().all(|one| one.state == EndpointState::Healthy));
}

#[tokio::test(start_paused = true)]
async fn all_endpoints_are_used_if_all_are_ejected() {
    let endpoints = endpoints(&["http://10.0.0.1", "http://10.0.0.2"]);
    for _ in 0..2 {
        pick_endpoint(&endpoints, &AttemptedEndpoints::default()).await.record(BAD_GATEWAY);
    }
    let is_ejected = |one: &AddressView| matches!(one.state, EndpointState::Ejected { .. });
    assert!(endpoints.view().iter().all(is_ejected));
    let attempted_endpoints = AttemptedEndpoints::default();
    let (one, other) = (
        pick_endpoint(&endpoints, &attempted_endpoints).await,
        pick_endpoint(&endpoints, &attempted_endpoints).await,
    );
    assert_ne!(one.endpoint.id, other.endpoint.id);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_follows_goes_to_another_address() {
    let endpoints = endpoints(&["http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3"]);
    for _ in 0..20 {
        let attempted_endpoints = AttemptedEndpoints::default();
        let mut ids: Vec<_> = [
            pick_endpoint(&endpoints, &attempted_endpoints).await,
            pick_endpoint(&endpoints, &attempted_endpoints).await,
            pick_endpoint(&endpoints, &attempted_endpoints).await,
        ]
        .iter()
        .map(|in_flight| in_flight.endpoint.id)
        .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3);
        let fourth = pick_endpoint(&endpoints, &attempted_endpoints).await;
        assert!(endpoints.pick_other(&fourth).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_request_is_a_failure_and_a_cancelled_one_is_not() {
    let endpoints = endpoints(&["http://10.0.0.1", "http://10.0.0.2"]);
    drop(pick_endpoint(&endpoints, &AttemptedEndpoints::default()).await);
    assert!(endpoints.view().iter().all(|one| one.state == EndpointState::Healthy));
    let in_flight = pick_endpoint(&endpoints, &AttemptedEndpoints::default()).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    drop(in_flight);
    assert_eq!(endpoints.view().iter().filter(|one| one.state != EndpointState::Healthy).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_other_address_family_is_used_if_the_first_is_ejected() {
    let records = FakeDns::default();
    records.set(&["[::1]:80".parse().unwrap(), "127.0.0.1:80".parse().unwrap()]);
    let settings = HttpSettings::new("old".parse().unwrap(), "http://old.test:80".parse().unwrap());
    let endpoints = Endpoints::new(Arc::new(settings), Lookup::Scripted(records.clone()));
    for _ in 0..20 {
        assert!(
            pick_endpoint(&endpoints, &AttemptedEndpoints::default())
                .await
                .endpoint
                .connections
                .at
                .unwrap()
                .is_ipv6()
        );
    }
    let attempted_endpoints = AttemptedEndpoints::default();
    let first = pick_endpoint(&endpoints, &attempted_endpoints).await;
    let other = endpoints.pick_other(&first).unwrap();
    assert!(
        first.endpoint.connections.at.unwrap().is_ipv6() && other.endpoint.connections.at.unwrap().is_ipv4()
    );
}

#[tokio::test(start_paused = true)]
async fn an_only_address_that_cannot_be_reached_is_tried_once() {
    let (endpoints, attempted_endpoints) = (endpoints(&["http://10.0.0.1"]), AttemptedEndpoints::default());
    let in_flight = pick_endpoint(&endpoints, &attempted_endpoints).await;
    assert!(endpoints.pick_other(&in_flight).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_lookup_delays_one_request_only() {
    let records = FakeDns::default();
    records.set(&["127.0.0.1:9".parse().unwrap()]);
    let settings = HttpSettings::new("old".parse().unwrap(), "http://old.test:80".parse().unwrap());
    let (timeout, refresh) = (settings.connect_timeout, settings.dns_refresh_interval);
    let endpoints = Endpoints::new(Arc::new(settings), Lookup::Scripted(records.clone()));
    assert_eq!(endpoints.known().await.unwrap().len(), 1);
    records.hang();
    for _ in 0..2 {
        tokio::time::advance(3 * refresh).await;
        let started = Instant::now();
        assert_eq!(endpoints.known().await.unwrap().len(), 1);
        assert_eq!(started.elapsed(), timeout);
        let started = Instant::now();
        for _ in 0..10 {
            assert_eq!(endpoints.known().await.unwrap().len(), 1);
        }
        assert_eq!(started.elapsed(), Duration::ZERO, "what is known is the best that there is");
    }
}

#[tokio::test]
async fn a_long_response_to_a_health_check_is_a_success() {
    const BODY_BYTES: usize = 1 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
            let _ = stream.write_all(&[head.as_bytes(), &vec![b'x'; BODY_BYTES]].concat()).await;
        }
    });
    let health_check = HealthCheckSettings {
        path: PathAndQuery::from_static("/"),
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(2),
        unhealthy_threshold: 1,
    };
    let settings = HttpSettings::new("old".parse().unwrap(), address);
    let upstream = HttpUpstream::new(HttpSettings { health_check: Some(health_check), ..settings });
    let (healthy, mut checked) = watch::channel(false);
    upstream.when_healthy(move || healthy.send_modify(|is_healthy| *is_healthy = true));
    let checked = tokio::time::timeout(Duration::from_secs(5), checked.wait_for(|is_healthy| *is_healthy));
    checked.await.expect("a check succeeds").unwrap();
}
