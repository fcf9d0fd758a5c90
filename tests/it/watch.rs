//! Watched resources: polled while clients are subscribed, with notifications of changes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glossator::{
    config::{self, Sources},
    pipeline::{ChangeEvent, Gateway, WATCHED_LIMIT, WatchError},
    server,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::support::{ReceivedRequest, Scripted, Step, soon};

/// Version of the resource at the upstream.
type Version = Arc<AtomicUsize>;

struct Watched {
    gateway: Gateway,
    upstream: Scripted,
    version: Version,
}

impl Watched {
    async fn start(answer: impl Fn(&ReceivedRequest, usize) -> String + Send + Sync + 'static) -> Self {
        let version = Version::default();
        let now = Arc::clone(&version);
        let script = move |request: &ReceivedRequest| {
            vec![Step::Send(answer(request, now.load(Ordering::SeqCst)).into_bytes())]
        };
        let upstream = Scripted::start(script).await;
        Self { gateway: gateway(&upstream.address.to_string()), upstream, version }
    }

    fn change(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until the upstream was polled this many times more.
    async fn await_polls(&self, times: usize) {
        let before = self.upstream.state().requests.len();
        self.upstream.until("another look", |state| state.requests.len() >= before + times).await;
    }

    /// Checks that there are no further changes.
    async fn nothing_more(&self, listener: &mut Receiver<ChangeEvent>) {
        self.gateway.publish(ChangeEvent::Prompts);
        assert_eq!(listener.recv().await, Ok(ChangeEvent::Prompts));
    }
}

fn gateway(address: &str) -> Gateway {
    let text = format!(
        "upstreams: {{ old: {{ url: http://{address}, retry: off, circuit_breaker: off }} }}
routes:
  news: {{ description: News., request: GET old/news, resource: {{ uri: news:all, poll_interval: 100ms }} }}
  page: {{ description: A page., request: \"GET old/pages/{{x}}\", resource: {{ uri: \"page://{{x}}\", poll_interval: 1d }} }}
  still: {{ description: Unwatched., request: GET old/still, resource: news:still }}
"
    );
    let loaded =
        config::load(&Sources::from_text("config.yaml", text)).unwrap_or_else(|error| panic!("{error}"));
    server::App::new(&loaded).unwrap().gateway
}

fn ok(headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

fn news() -> Result<ChangeEvent, RecvError> {
    Ok(ChangeEvent::Resource("news:all".into()))
}

#[tokio::test]
async fn subscribers_are_notified_when_contents_change() {
    // The response has a new `Date` each time, which does not count as a change.
    let count = AtomicUsize::new(0);
    let watched = Watched::start(move |_, version| {
        let date = count.fetch_add(1, Ordering::SeqCst);
        ok(&format!("x-date: {date}\r\n"), &format!("news {version}"))
    })
    .await;
    let mut listener = watched.gateway.changes.subscribe();
    let one = watched.gateway.watch("news:all").unwrap();
    let other = watched.gateway.watch("news:all").unwrap();
    assert_eq!((watched.gateway.watched(), &one.uri), (1, &other.uri));
    watched.await_polls(3).await;
    watched.nothing_more(&mut listener).await;
    watched.change();
    assert_eq!(soon("the change", listener.recv()).await, news());
    drop(one);
    watched.change();
    assert_eq!(soon("the second change", listener.recv()).await, news());
    watched.nothing_more(&mut listener).await;
    assert_eq!(watched.upstream.state().connections, 1, "one question at a time");
    drop(other);
    assert_eq!(watched.gateway.watched(), 0);
}

#[tokio::test]
async fn an_upstream_with_validators_gets_conditional_requests() {
    let watched = Watched::start(|request, version| {
        let etag = format!("\"v{version}\"");
        if request.header("if-none-match") == [etag.as_str()] {
            assert_eq!(request.header("if-modified-since"), ["Sat, 21 Nov 2026 09:30:00 GMT"]);
            return "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned();
        }
        let headers = format!("etag: {etag}\r\nlast-modified: Sat, 21 Nov 2026 09:30:00 GMT\r\n");
        ok(&headers, &format!("news {version}"))
    })
    .await;
    let mut listener = watched.gateway.changes.subscribe();
    let _watching = watched.gateway.watch("news:all").unwrap();
    watched.await_polls(3).await;
    watched.change();
    assert_eq!(soon("the change", listener.recv()).await, news());
    watched.await_polls(2).await;
    watched.nothing_more(&mut listener).await;
    let requests = watched.upstream.state().requests;
    assert_eq!(requests[0].header("if-none-match"), Vec::<&str>::new());
    assert_eq!(requests[1].header("if-none-match"), ["\"v0\""]);
    assert_eq!(requests.last().unwrap().header("if-none-match"), ["\"v1\""]);
}

#[tokio::test]
async fn a_failure_is_no_change_and_a_resource_that_is_gone_is_one() {
    let watched = Watched::start(|_, version| match version {
        0 | 2 => ok("", "news"),
        1 => "HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
    })
    .await;
    let mut listener = watched.gateway.changes.subscribe();
    let _watching = watched.gateway.watch("news:all").unwrap();
    for _ in 0..2 {
        watched.await_polls(2).await;
        watched.change();
    }
    watched.await_polls(2).await;
    watched.nothing_more(&mut listener).await;
    watched.change();
    assert_eq!(soon("the end of it", listener.recv()).await, news());
    watched.await_polls(2).await;
    watched.nothing_more(&mut listener).await;
}

#[tokio::test]
async fn polled_resources_are_limited_and_opt_in() {
    // The upstream is unreachable, which does not matter here.
    let gateway = gateway("127.0.0.1:1");
    assert_eq!(gateway.watch("news:none").unwrap_err(), WatchError::Unknown);
    assert_eq!(gateway.watch("news:still").unwrap_err(), WatchError::Unwatched);
    let watching: Vec<_> =
        (0..WATCHED_LIMIT).map(|number| gateway.watch(&format!("page://{number}")).unwrap()).collect();
    assert_eq!(gateway.watch("page://more").unwrap_err(), WatchError::ServerLimit);
    let again = gateway.watch("page://0").unwrap();
    drop(watching);
    assert_eq!(gateway.watched(), 1);
    drop(again);
    assert_eq!(gateway.watched(), 0);
}
