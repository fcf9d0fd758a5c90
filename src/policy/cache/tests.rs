//! Tests of the response cache: cacheability, freshness, revalidation and coalescing.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, uri::PathAndQuery};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::*;
use crate::policy::metrics::route_events;
use crate::policy::tests::{InFlightCount, Script, answering_after, failed, name, status, upstream_call};
use crate::policy::{CircuitBreaker, CircuitBreakerSettings, OrOff, ReplicaSharing};
use crate::shared_state::{MemoryStore, SharedStore};

const SECOND: Duration = Duration::from_secs(1);

/// Response 200 with these headers.
fn success(headers: &[(&str, &str)]) -> UpstreamResult {
    response_with(200, headers)
}

fn response_with(code: u16, headers: &[(&str, &str)]) -> UpstreamResult {
    let mut response = status(code)?;
    for (name, value) in headers {
        response.headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    Ok(response)
}

/// Cache of a route that shares it with no other.
fn unshared_cache(settings: Option<CacheSettings>) -> ResponseCache {
    ResponseCache {
        upstream: name(),
        upstream_id: 7,
        settings,
        store: CacheStore::new(1 << 20),
        remote: None,
        in_flight: None,
        events: route_events(),
    }
}

/// Cache in front of a mock upstream.
struct Cached {
    cache: Arc<ResponseCache>,
    upstream: Script,
}

fn cache(script: &Script, settings: CacheSettings) -> Cached {
    Cached { cache: Arc::new(unshared_cache(Some(settings))), upstream: script.clone() }
}

/// Coalescing without a cache.
fn coalescing(upstream: Script) -> Cached {
    let cache = ResponseCache { in_flight: Some(Mutex::default()), ..unshared_cache(None) };
    Cached { cache: Arc::new(cache), upstream }
}

async fn call(cached: &Cached, upstream_call: UpstreamCall) -> UpstreamResult {
    respond(cached, upstream_call).await.map(|response| response.response)
}

async fn respond(cached: &Cached, upstream_call: UpstreamCall) -> Result<CallResponse, Failure> {
    let upstream = cached.upstream.clone();
    cached
        .cache
        .get_or_fetch(&upstream_call, move |upstream_call| async move { upstream.send(&upstream_call).await })
        .await
}

const UPSTREAM_TTL: CacheSettings =
    CacheSettings { ttl: CacheTtl::Upstream, stale_if_error: None, ignore_cache_control: false };
const TEN_SECONDS: CacheSettings =
    CacheSettings { ttl: CacheTtl::For(Duration::from_secs(10)), ..UPSTREAM_TTL };

/// Number of upstream requests for calls after each of these waits.
async fn upstream_calls(settings: CacheSettings, responses: &[UpstreamResult], waits: &[u64]) -> usize {
    let script = Script::new(responses.iter().cloned());
    let service = cache(&script, settings);
    for wait in waits {
        tokio::time::advance(Duration::from_secs(*wait)).await;
        let _ = call(&service, upstream_call(30 * SECOND)).await;
    }
    script.upstream_calls()
}

#[tokio::test(start_paused = true)]
async fn a_cached_response_is_reused_while_fresh_with_its_age() {
    let script = Script::new([success(&[]), success(&[])]);
    let service = cache(&script, TEN_SECONDS);
    let one = async || {
        let response = respond(&service, upstream_call(SECOND)).await.unwrap();
        (response.age, response.response.headers.get(header::AGE).cloned())
    };
    assert_eq!(one().await, (None, None));
    tokio::time::advance(9 * SECOND).await;
    assert_eq!(one().await, (Some(9 * SECOND), Some("9".parse().unwrap())));
    tokio::time::advance(SECOND).await;
    assert_eq!(one().await, (None, None));
    let events = &service.cache.events;
    assert_eq!((script.upstream_calls(), events.get("cache_hit"), events.get("cache_miss")), (2, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn only_successful_responses_are_cached() {
    for code in [201, 206, 301, 304, 404, 429, 500, 503] {
        let responses = [response_with(code, &[("cache-control", "max-age=60")]), success(&[])];
        assert_eq!(upstream_calls(TEN_SECONDS, &responses, &[0, 0]).await, 2, "{code}");
        assert_eq!(upstream_calls(UPSTREAM_TTL, &responses, &[0, 0]).await, 2, "{code}");
    }
    assert_eq!(upstream_calls(TEN_SECONDS, &[failed(), success(&[])], &[0, 0, 0]).await, 2);
}

#[tokio::test(start_paused = true)]
async fn no_store_is_respected() {
    for headers in [
        [("cache-control", "no-store")],
        [("cache-control", "private, max-age=60")],
        [("set-cookie", "a=b")],
        [("vary", "*")],
    ] {
        let responses = [success(&headers), success(&headers)];
        assert_eq!(upstream_calls(TEN_SECONDS, &responses, &[0, 0]).await, 2, "{headers:?}");
    }
    let settings = CacheSettings { ignore_cache_control: true, ..TEN_SECONDS };
    assert_eq!(upstream_calls(settings, &[success(&[("cache-control", "no-store")])], &[0, 0]).await, 1);
    assert_eq!(
        upstream_calls(TEN_SECONDS, &[success(&[("cache-control", "no-cache, max-age=0")])], &[0, 5]).await,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn the_upstream_sets_the_lifetime_if_configured() {
    let minute = || success(&[("cache-control", "max-age=60")]);
    assert_eq!(upstream_calls(UPSTREAM_TTL, &[minute(), minute()], &[0, 59, 1]).await, 2);
    let aged = || success(&[("cache-control", "max-age=60"), ("age", "50")]);
    assert_eq!(upstream_calls(UPSTREAM_TTL, &[aged(), aged()], &[0, 9, 1]).await, 2);
    assert_eq!(upstream_calls(UPSTREAM_TTL, &[success(&[]), success(&[])], &[0, 0]).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stale_response_is_revalidated_and_reused() {
    let etag = [("etag", "\"7\""), ("cache-control", "max-age=10"), ("x-first", "1")];
    let script = Script::new([
        success(&etag),
        response_with(304, &[("etag", "\"7\""), ("cache-control", "max-age=5")]),
        success(&[("x-second", "1")]),
    ]);
    let service = cache(&script, UPSTREAM_TTL);
    let one = async || call(&service, upstream_call(SECOND)).await.unwrap();
    one().await;
    tokio::time::advance(10 * SECOND).await;
    let again = one().await;
    assert_eq!((again.status.as_u16(), again.headers.contains_key("x-first")), (200, true));
    let sent_headers = script.last_headers();
    assert_eq!(sent_headers[header::IF_NONE_MATCH], "\"7\"");
    tokio::time::advance(4 * SECOND).await;
    one().await;
    assert_eq!(script.upstream_calls(), 2, "good for as long as was said last");
    tokio::time::advance(SECOND).await;
    assert!(one().await.headers.contains_key("x-second"));
    assert_eq!(service.cache.events.get("cache_revalidated"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stale_response_replaces_an_error_if_configured() {
    let settings = CacheSettings { stale_if_error: Some(60 * SECOND), ..TEN_SECONDS };
    let script = Script::new([
        success(&[("x-first", "1")]),
        failed(),
        response_with(503, &[]),
        response_with(404, &[]),
        failed(),
    ]);
    let service = cache(&script, settings);
    let one = async || call(&service, upstream_call(SECOND)).await.map(|response| response.status.as_u16());
    assert_eq!(one().await.unwrap(), 200);
    tokio::time::advance(20 * SECOND).await;
    assert_eq!(one().await.unwrap(), 200, "instead of no connection");
    assert_eq!(one().await.unwrap(), 200, "instead of 503");
    assert_eq!(service.cache.events.get("cache_stale"), 2);
    assert_eq!(one().await.unwrap(), 404, "which is an answer");
    one().await.unwrap_err();
    let response = success(&[("cache-control", "max-age=1, stale-if-error=9")]);
    assert_eq!(upstream_calls(UPSTREAM_TTL, &[response, failed(), failed()], &[0, 5, 5]).await, 3);
}

#[tokio::test(start_paused = true)]
async fn the_upstream_allows_stale_responses_unless_the_route_does() {
    let shorter = CacheSettings { stale_if_error: Some(SECOND), ..UPSTREAM_TTL };
    let allowed = "max-age=10, stale-if-error=9";
    let forbidden = "max-age=10, stale-if-error=9, must-revalidate";
    for (settings, header, stale_responses) in [
        (TEN_SECONDS, allowed, 1),
        (UPSTREAM_TTL, allowed, 1),
        (shorter, allowed, 0),
        (TEN_SECONDS, forbidden, 0),
    ] {
        let script = Script::new([success(&[("cache-control", header)]), failed()]);
        let service = cache(&script, settings);
        call(&service, upstream_call(SECOND)).await.unwrap();
        tokio::time::advance(15 * SECOND).await;
        let _ = call(&service, upstream_call(SECOND)).await;
        assert_eq!(service.cache.events.get("cache_stale"), stale_responses, "{settings:?} {header}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_response_replaces_a_timeout() {
    let settings = CacheSettings { stale_if_error: Some(60 * SECOND), ..TEN_SECONDS };
    let in_flight = InFlightCount::default();
    let cache = Arc::new(unshared_cache(Some(settings)));
    let key = cache.key(&upstream_call(SECOND));
    cache.store.0.insert(key.clone(), Arc::new(CachedResponse::new(success(&[("x-first", "1")]).unwrap())));
    tokio::time::advance(20 * SECOND).await;
    let slow = Cached { cache, upstream: answering_after(60 * SECOND, &in_flight) };
    let started = Instant::now();
    assert!(call(&slow, upstream_call(10 * SECOND)).await.unwrap().headers.contains_key("x-first"));
    assert_eq!((started.elapsed(), in_flight.count()), (9 * SECOND, 0));
}

#[tokio::test(start_paused = true)]
async fn equal_hashes_of_different_requests_do_not_match() {
    let script = Script::new([success(&[]), success(&[]), success(&[]), success(&[])]);
    let service = cache(&script, TEN_SECONDS);
    let call_with_header = |name: &'static str, value: &'static str| {
        let mut upstream_call = upstream_call(SECOND);
        upstream_call.request.headers_mut().unwrap().insert(name, HeaderValue::from_static(value));
        upstream_call
    };
    for (name, value) in
        [("authorization", "a"), ("authorization", "b"), ("x-tenant", "a"), ("x-tenant", "a")]
    {
        call(&service, call_with_header(name, value)).await.unwrap();
    }
    assert_eq!(script.upstream_calls(), 3);
    call(&service, call_with_header("traceparent", "1")).await.unwrap();
    call(&service, call_with_header("traceparent", "2")).await.unwrap();
    assert_eq!(script.upstream_calls(), 4, "a trace is no other question");
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_an_error_is_invalidated() {
    let script = Script::new([success(&[]), success(&[])]);
    let service = cache(&script, TEN_SECONDS);
    respond(&service, upstream_call(SECOND)).await.unwrap().entry.unwrap().invalidate();
    call(&service, upstream_call(SECOND)).await.unwrap();
    assert_eq!(script.upstream_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_conditional_request_bypasses_the_cache() {
    let script = Script::new([success(&[]), response_with(304, &[])]);
    let service = cache(&script, TEN_SECONDS);
    call(&service, upstream_call(SECOND)).await.unwrap();
    let mut conditional = upstream_call(SECOND);
    conditional.request.headers_mut().unwrap().insert(header::IF_NONE_MATCH, HeaderValue::from_static("x"));
    assert_eq!(call(&service, conditional).await.unwrap().status.as_u16(), 304);
}

#[tokio::test(start_paused = true)]
async fn a_cached_response_does_not_retain_its_read_buffer() {
    let buffer = Bytes::from(vec![b'x'; 100_000]);
    let mut response = success(&[]).unwrap();
    response.body = buffer.slice(..10);
    response.headers.insert("x-a", HeaderValue::from_maybe_shared(buffer.slice(10..20)).unwrap());
    let service = cache(&Script::new([Ok(response)]), TEN_SECONDS);
    call(&service, upstream_call(SECOND)).await.unwrap();
    let cached = call(&service, upstream_call(SECOND)).await.unwrap();
    let is_part = |bytes: &[u8]| buffer.as_ptr_range().contains(&bytes.as_ptr());
    assert!(!is_part(&cached.body) && !is_part(cached.headers["x-a"].as_bytes()));
    assert!(service.cache.store.0.weight() < 2_000);
}

/// Cache of one replica, for an upstream with this identity.
fn replica(script: &Script, settings: CacheSettings, memory: &MemoryStore, identity: &str) -> Cached {
    let sharing = ReplicaSharing { store: SharedStore::in_memory(memory), identity: identity.into() };
    let cache = ResponseCache { remote: Some(RemoteCache(sharing)), ..unshared_cache(Some(settings)) };
    Cached { cache: Arc::new(cache), upstream: script.clone() }
}

fn call_to(path: &'static str, headers: &[(&str, &str)]) -> UpstreamCall {
    let mut upstream_call = upstream_call(SECOND);
    let crate::route::UpstreamRequest::Http(request) = &mut upstream_call.request else {
        panic!("it is by HTTP")
    };
    request.path_and_query = PathAndQuery::from_static(path);
    for (name, value) in headers {
        request.headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    upstream_call
}

#[tokio::test(start_paused = true)]
async fn requests_during_a_store_lookup_share_it() {
    let script = Script::new((0..2).map(|_| success(&[])));
    let one = replica(&script, TEN_SECONDS, &MemoryStore::default(), "same");
    let (first, second) = tokio::join!(call(&one, upstream_call(SECOND)), call(&one, upstream_call(SECOND)));
    assert_eq!((first.unwrap().status, second.unwrap().status), (StatusCode::OK, StatusCode::OK));
    let events = &one.cache.events;
    assert_eq!(
        (script.upstream_calls(), events.get("cache_hit"), events.get("cache_hit_from_replica")),
        (1, 1, 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn equal_calls_on_many_threads_send_one_request() {
    for round in 0..2_000 {
        let script = Script::new((0..8).map(|_| success(&[])));
        let cache = ResponseCache { in_flight: Some(Mutex::default()), ..unshared_cache(Some(TEN_SECONDS)) };
        let service = Arc::new(Cached { cache: Arc::new(cache), upstream: script.clone() });
        let mut calls = JoinSet::new();
        for _ in 0..8 {
            let service = service.clone();
            calls.spawn(async move { call(&service, upstream_call(SECOND)).await.unwrap().status });
        }
        assert_eq!(calls.join_all().await, [StatusCode::OK; 8]);
        assert_eq!(script.upstream_calls(), 1, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_share_cached_responses_with_their_age() {
    let memory = MemoryStore::default();
    let script = Script::new((0..5).map(|_| success(&[("x-a", "1")])));
    let [one, other] = [(); 2].map(|()| replica(&script, TEN_SECONDS, &memory, "same"));
    call(&one, upstream_call(SECOND)).await.unwrap();
    tokio::time::advance(4 * SECOND).await;
    let CallResponse { response, age, .. } = respond(&other, upstream_call(SECOND)).await.unwrap();
    assert_eq!((script.upstream_calls(), age), (1, Some(4 * SECOND)));
    assert_eq!(
        (&response.headers["x-a"], &response.headers["age"]),
        (&"1".parse().unwrap(), &"4".parse().unwrap())
    );
    // From now on the response is cached locally, which needs no store. It is no younger for that.
    memory.disconnect();
    tokio::time::advance(5 * SECOND).await;
    call(&other, upstream_call(SECOND)).await.unwrap();
    assert_eq!(script.upstream_calls(), 1);
    tokio::time::advance(SECOND).await;
    call(&other, upstream_call(SECOND)).await.unwrap();
    assert_eq!(script.upstream_calls(), 2, "without the store each asks for itself");
    let events = &other.cache.events;
    assert_eq!(
        (events.get("cache_hit"), events.get("cache_hit_from_replica"), events.get("cache_miss")),
        (2, 1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_shared_response_is_returned_only_for_its_own_request() {
    let memory = MemoryStore::default();
    let script = Script::new((0..9).map(|_| success(&[])));
    let one = replica(&script, TEN_SECONDS, &memory, "same");
    call(&one, call_to("/a", &[("authorization", "Bearer ada")])).await.unwrap();
    let other = || replica(&script, TEN_SECONDS, &memory, "same");
    for (upstream_call, expected_calls) in [
        (call_to("/a", &[("authorization", "Bearer grace")]), 2),
        (call_to("/a", &[]), 3),
        (call_to("/b", &[("authorization", "Bearer ada")]), 4),
        (call_to("/a", &[("authorization", "Bearer ada")]), 4),
    ] {
        call(&other(), upstream_call).await.unwrap();
        assert_eq!(script.upstream_calls(), expected_calls);
    }
    let elsewhere = replica(&script, TEN_SECONDS, &memory, "another address");
    call(&elsewhere, call_to("/a", &[("authorization", "Bearer ada")])).await.unwrap();
    assert_eq!(script.upstream_calls(), 5);
    assert!(
        memory.names().iter().all(|name| !name.contains("ada") && name.starts_with("glossator:response:"))
    );
}

#[tokio::test(start_paused = true)]
async fn entries_of_other_writers_are_ignored() {
    let memory = MemoryStore::default();
    let script = Script::new((0..9).map(|_| success(&[])));
    let fresh = || replica(&script, TEN_SECONDS, &memory, "same");
    call(&fresh(), call_to("/a", &[])).await.unwrap();
    let first_name = memory.names().remove(0);
    let sealed = memory.value(&first_name);
    assert!(!sealed.windows(4).any(|bytes| bytes == b"x-a:"), "it is sealed");
    for planted in ["", "anything", "\u{1}\0\u{c8}"] {
        memory.insert(&first_name, Bytes::from(planted));
        let replica = fresh();
        let calls_before = script.upstream_calls();
        call(&replica, call_to("/a", &[])).await.unwrap();
        assert_eq!(script.upstream_calls(), calls_before + 1);
    }
    // The response to one request is stored under the key of another.
    call(&fresh(), call_to("/b", &[])).await.unwrap();
    let second_name = memory.names().into_iter().find(|name| *name != first_name).unwrap();
    memory.insert(&second_name, sealed);
    let calls_before = script.upstream_calls();
    call(&fresh(), call_to("/b", &[])).await.unwrap();
    assert_eq!(script.upstream_calls(), calls_before + 1);
}

#[tokio::test(start_paused = true)]
async fn an_invalidated_response_is_removed_at_all_replicas() {
    let memory = MemoryStore::default();
    let script = Script::new((0..9).map(|_| success(&[])));
    let one = replica(&script, TEN_SECONDS, &memory, "same");
    let response = respond(&one, upstream_call(SECOND)).await.unwrap();
    assert_eq!(memory.names().len(), 1);
    response.entry.unwrap().invalidate();
    assert!(memory.names().is_empty());
    call(&replica(&script, TEN_SECONDS, &memory, "same"), upstream_call(SECOND)).await.unwrap();
    assert_eq!(script.upstream_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stale_shared_response_is_revalidated_or_replaces_an_error() {
    let memory = MemoryStore::default();
    let etag = || success(&[("etag", "\"7\""), ("x-first", "1")]);
    let script = Script::new([etag(), response_with(304, &[("etag", "\"7\"")])]);
    call(&replica(&script, TEN_SECONDS, &memory, "same"), upstream_call(SECOND)).await.unwrap();
    tokio::time::advance(60 * SECOND).await;
    let response =
        call(&replica(&script, TEN_SECONDS, &memory, "same"), upstream_call(SECOND)).await.unwrap();
    assert_eq!(
        (script.last_headers().get("if-none-match"), &response.headers["x-first"]),
        (Some(&"\"7\"".parse().unwrap()), &"1".parse().unwrap())
    );
    let stale = CacheSettings { stale_if_error: Some(60 * SECOND), ..TEN_SECONDS };
    let script = Script::new([success(&[("x-first", "1")]), failed(), failed()]);
    call(&replica(&script, stale, &memory, "stale"), upstream_call(SECOND)).await.unwrap();
    tokio::time::advance(30 * SECOND).await;
    let response = call(&replica(&script, stale, &memory, "stale"), upstream_call(SECOND)).await.unwrap();
    assert_eq!(&response.headers["x-first"], "1");
    tokio::time::advance(41 * SECOND).await;
    call(&replica(&script, stale, &memory, "stale"), upstream_call(SECOND)).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn responses_too_long_to_share_are_cached_locally() {
    let memory = MemoryStore::default();
    let mut long_response = success(&[]).unwrap();
    long_response.body = vec![0; 20_000].into();
    let script = Script::new([Ok(long_response.clone()), Ok(long_response)]);
    let [one, other] = [(); 2].map(|()| replica(&script, TEN_SECONDS, &memory, "same"));
    for service in [&one, &one, &other, &other] {
        call(service, upstream_call(SECOND)).await.unwrap();
    }
    assert_eq!((script.upstream_calls(), memory.names().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn equal_simultaneous_calls_share_one_request() {
    let in_flight = InFlightCount::default();
    let service = coalescing(answering_after(SECOND, &in_flight));
    let other = || {
        let mut upstream_call = upstream_call(SECOND);
        upstream_call
            .request
            .headers_mut()
            .unwrap()
            .insert("authorization", HeaderValue::from_static("another"));
        upstream_call
    };
    let calls = async {
        let (a, b, c) = tokio::join!(
            call(&service, upstream_call(SECOND)),
            call(&service, upstream_call(SECOND)),
            call(&service, other())
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
    };
    let looks = async {
        tokio::time::sleep(SECOND / 2).await;
        assert_eq!(in_flight.count(), 2, "one for two, and one for who sends something else");
    };
    tokio::join!(calls, looks);
    assert_eq!(service.cache.events.get("coalesced"), 1);
    assert!(service.cache.in_flight.as_ref().unwrap().lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_first_call_may_be_cancelled_and_the_others_get_the_response() {
    let in_flight = InFlightCount::default();
    let service = coalescing(answering_after(3 * SECOND, &in_flight));
    let started = Instant::now();
    let leaving = timeout(SECOND, call(&service, upstream_call(SECOND)));
    let staying = async {
        tokio::time::sleep(SECOND / 2).await;
        call(&service, upstream_call(10 * SECOND)).await
    };
    let (left, stayed) = tokio::join!(leaving, staying);
    left.unwrap_err();
    stayed.unwrap();
    assert_eq!(started.elapsed(), 3 * SECOND, "the request was not begun anew");
}

#[tokio::test(start_paused = true)]
async fn a_request_without_waiting_calls_is_cancelled() {
    let in_flight = InFlightCount::default();
    let service = coalescing(answering_after(60 * SECOND, &in_flight));
    let one = timeout(SECOND, call(&service, upstream_call(SECOND)));
    let other = timeout(2 * SECOND, call(&service, upstream_call(SECOND)));
    let (one, other) = tokio::join!(one, other);
    assert!(one.is_err() && other.is_err());
    tokio::task::yield_now().await;
    assert_eq!(in_flight.count(), 0);
    assert!(service.cache.in_flight.as_ref().unwrap().lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_completed_shared_request_serves_later_calls() {
    let script = Script::new([failed(), failed()]);
    let service = coalescing(script.clone());
    let mut first = std::pin::pin!(call(&service, upstream_call(SECOND)));
    timeout(Duration::ZERO, first.as_mut()).await.unwrap_err();
    while script.upstream_calls() == 0 {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    call(&service, upstream_call(SECOND)).await.unwrap_err();
    assert_eq!((script.upstream_calls(), service.cache.events.get("coalesced")), (1, 1));
    first.await.unwrap_err();
    assert!(service.cache.in_flight.as_ref().unwrap().lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn all_coalesced_calls_get_the_failure_and_the_next_sends_again() {
    let script = Script::new([failed(), failed()]);
    let service = coalescing(script.clone());
    let (one, other) =
        tokio::join!(call(&service, upstream_call(SECOND)), call(&service, upstream_call(SECOND)));
    assert!(matches!(one, Err(Failure::Connect(_))), "{one:?}");
    assert!(matches!(other, Err(Failure::Connect(_))), "{other:?}");
    assert_eq!(script.upstream_calls(), 1);
    call(&service, upstream_call(SECOND)).await.unwrap_err();
    assert_eq!(script.upstream_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_client_that_began_rejects_no_other_client() {
    let script = Script::new([Err(Failure::ClientBusy(2)), success(&[])]);
    let service = coalescing(script.clone());
    let (first, other) =
        tokio::join!(call(&service, upstream_call(SECOND)), call(&service, upstream_call(SECOND)));
    assert!(matches!(first, Err(Failure::ClientBusy(_))), "{first:?}");
    other.unwrap();
    assert_eq!(script.upstream_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn coalesced_calls_share_the_revalidated_response() {
    let etag = [("etag", "\"7\""), ("x-first", "1")];
    let script = Script::new([success(&etag), response_with(304, &[("etag", "\"7\"")])]);
    let cache = ResponseCache { in_flight: Some(Mutex::default()), ..unshared_cache(Some(UPSTREAM_TTL)) };
    let service = Cached { cache: Arc::new(cache), upstream: script.clone() };
    call(&service, upstream_call(SECOND)).await.unwrap();
    let (one, other) =
        tokio::join!(call(&service, upstream_call(SECOND)), call(&service, upstream_call(SECOND)));
    for response in [one.unwrap(), other.unwrap()] {
        assert_eq!((response.status.as_u16(), &response.headers["x-first"]), (200, &"1".parse().unwrap()));
    }
    let events = &service.cache.events;
    assert_eq!(
        (script.upstream_calls(), events.get("coalesced"), events.get("cache_revalidated")),
        (2, 1, 1)
    );
}

fn key(upstream_id: u64, path: &'static str) -> CacheKey {
    ResponseCache { upstream_id, ..unshared_cache(None) }.key(&call_to(path, &[]))
}

fn entry(bytes: usize) -> Arc<CachedResponse> {
    let mut response = status(200).unwrap();
    response.body = vec![0; bytes].into();
    Arc::new(CachedResponse::new(response))
}

#[tokio::test]
async fn the_store_is_bounded_and_evicts_unused_entries() {
    let store = CacheStore::new(10_000);
    let used = key(0, "/used");
    store.0.insert(used.clone(), entry(2_000));
    for id in 1..100 {
        assert!(store.0.get(&used).is_some(), "{id}");
        store.0.insert(key(id, "/other"), entry(2_000));
        assert!(
            store.0.weight() <= 10_000 && store.0.len() >= 3.min(id as usize),
            "{id}: {}",
            store.0.weight()
        );
    }
    store.0.insert(used.clone(), entry(20_000));
    assert!(store.0.get(&used).is_none(), "it is too large, and what was there is old");
    store.set_limit(0);
    assert_eq!((store.0.weight(), store.0.len(), store.0.capacity()), (0, 0, 0));
    store.set_limit(10_000);
    store.0.insert(used.clone(), entry(2_000));
    assert!(store.0.get(&used).is_some());
}

#[tokio::test]
async fn invalidating_a_response_does_not_remove_its_replacement() {
    let store = CacheStore::new(10_000);
    let (key, first, second) = (key(0, "/a"), entry(1), entry(2));
    store.0.insert(key.clone(), first.clone());
    store.0.insert(key.clone(), second.clone());
    store.invalidate(&key, &first);
    assert!(store.0.get(&key).is_some());
    store.invalidate(&key, &second);
    assert!(store.0.get(&key).is_none());
    assert_eq!(store.0.weight(), 0);
}

#[test]
fn another_upstream_of_the_same_name_is_another_one() {
    assert_ne!(key(1, "/a"), key(2, "/a"));
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_later_than_a_stale_response_is_late_for_its_circuit_breaker() {
    let settings = CacheSettings { stale_if_error: Some(3600 * SECOND), ..TEN_SECONDS };
    for in_flight in [None, Some(Mutex::default())] {
        let cache = Arc::new(ResponseCache { in_flight, ..unshared_cache(Some(settings)) });
        cache.get_or_fetch(&upstream_call(SECOND), async |_| success(&[])).await.unwrap();
        tokio::time::advance(60 * SECOND).await;
        let breaker_settings = CircuitBreakerSettings { consecutive_failures: 1, open_for: 60 * SECOND };
        let breaker = CircuitBreaker::new(name(), None, OrOff::On(breaker_settings), route_events());
        let guarded = Arc::clone(&breaker);
        let send = async move |upstream_call: UpstreamCall| {
            guarded.run(&upstream_call, std::pin::pin!(std::future::pending())).await
        };
        let started = Instant::now();
        let response = cache.get_or_fetch(&upstream_call(10 * SECOND), send).await.unwrap();
        assert!(response.age.is_some() && started.elapsed() < 10 * SECOND);
        tokio::task::yield_now().await;
        assert!(!breaker.is_closed(), "it did not answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cached_response_comes_with_the_result_of_the_request_for_it() {
    let settings = CacheSettings { stale_if_error: Some(3600 * SECOND), ..TEN_SECONDS };
    let script = Script::new([success(&[("etag", "\"1\"")]), status(304), status(503), failed()]);
    let service = cache(&script, settings);
    let mut results = Vec::new();
    for wait in [0, 1, 20, 20, 20] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        let response = respond(&service, upstream_call(30 * SECOND)).await.unwrap();
        assert_eq!(response.response.status.as_u16(), 200);
        let result = response.upstream_result;
        results.push(result.map(|result| match result {
            Ok(status) => status.to_string(),
            Err(error) => error.failure.properties().label.to_owned(),
        }));
    }
    let expected = ["200 OK", "none", "304 Not Modified", "503 Service Unavailable", "connection_failed"];
    let results = results.iter().map(|result| result.as_deref().unwrap_or("none"));
    assert_eq!(results.collect::<Vec<_>>(), expected);
}
