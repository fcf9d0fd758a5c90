//! Connection pool of one endpoint: idle HTTP/1 connections (keep-alive), and one HTTP/2 connection that all
//! requests share.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use super::connection::{Http1, Http2, HttpConnection, RequestBody};
use super::{Address, HttpSettings, HttpVersion};
use crate::telemetry::CallContext;
use crate::tls::ClientTls;
use crate::upstream::Failure;

/// Time that an idle connection stays open. It is shorter than the keepalive timeouts of servers (5 s for
/// Apache and Node), so that requests seldom use a connection that the server is closing.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum time until a connection is ready again after the end of a response. With a server that responds
/// without reading the whole request, the connection may never be ready.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// Connection pool of one endpoint. When the pool is dropped, idle connections close at once, and other
/// connections once they are idle.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    pub(super) settings: Arc<HttpSettings>,
    /// Configured address.
    pub(super) address: Address,
    /// IP address and port. `None` if `address` is a UNIX socket.
    pub(super) at: Option<SocketAddr>,
    /// TLS settings with the protocols to negotiate (ALPN). `None` for plain HTTP.
    pub(super) tls: Option<ClientTls>,
    /// `Host` of HTTP/1 requests.
    host: HeaderValue,
    /// Whether the endpoint has negotiated HTTP/2. If so, one connection is enough, and requests wait for it.
    uses_h2: AtomicBool,
    connect_lock: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Idle connections, each with the time at which it became idle. The connection that is idle for longest
    /// comes first.
    idle: VecDeque<(Http1, Instant)>,
    shared: Option<Http2>,
    is_sweep_running: bool,
}

/// The response to a request, or the failure, with the request if no part of it can have been sent.
pub(super) type SendResult = Result<Response<ResponseBody>, (Failure, Option<Box<Request<RequestBody>>>)>;

impl ConnectionPool {
    /// Creates an empty pool for `address` if it is a UNIX socket, or else for `at`, one of the IP addresses
    /// of its host.
    pub(super) fn new(settings: &Arc<HttpSettings>, address: &Address, at: Option<SocketAddr>) -> Arc<Self> {
        let protocols: &[&[u8]] = match settings.protocol {
            HttpVersion::Auto => &[b"h2", b"http/1.1"],
            HttpVersion::Http2 => &[b"h2"],
            HttpVersion::Http1 => &[b"http/1.1"],
            // Servers that support only HTTP/1.0 do not negotiate the protocol.
            HttpVersion::Http10 => &[],
        };
        Arc::new(Self {
            settings: settings.clone(),
            address: address.clone(),
            at,
            tls: settings.tls.as_ref().map(|tls| tls.with_alpn(protocols)),
            host: address.host_header(),
            uses_h2: AtomicBool::new(settings.protocol == HttpVersion::Http2),
            connect_lock: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// Sends a request with an absolute URI and waits for the response headers. Records in `context` when the
    /// request is passed to a connection.
    ///
    /// # Errors
    ///
    /// The failure, and the request if no part of it can have been sent.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<RequestBody>,
        context: &CallContext,
    ) -> SendResult {
        let uri = request.uri().clone();
        loop {
            let connection = match self.take() {
                Some(connection) => connection,
                None => match Box::pin(self.connect()).await {
                    Ok(connection) => connection,
                    Err(error) => return Err((error, Some(Box::new(request)))),
                },
            };
            context.request_sent();
            let (result, is_reused, lease) = match connection {
                HttpConnection::Http1(mut connection) => {
                    // Request target in origin form (RFC 9112, section 3.2.1).
                    *request.uri_mut() = uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
                    request.headers_mut().entry(header::HOST).or_insert_with(|| self.host.clone());
                    let is_reused = connection.is_reused;
                    let result = connection.sender.try_send_request(request).await;
                    connection.is_reused = true;
                    (result, is_reused, Some((connection, Arc::clone(self))))
                }
                HttpConnection::Http2(mut shared) => {
                    let is_reused = shared.is_reused.load(Ordering::Relaxed);
                    if let Some(uri) = uri_with_host(&uri, request.headers()) {
                        *request.uri_mut() = uri;
                    }
                    let result = shared.sender.try_send_request(request).await;
                    shared.is_reused.fetch_or(result.is_ok(), Ordering::Relaxed);
                    (result, is_reused, None)
                }
            };
            let mut send_error = match result {
                Ok(response) => return Ok(response.map(|incoming| ResponseBody { incoming, lease })),
                Err(send_error) => send_error,
            };
            let unsent = send_error.take_message().inspect(|_| context.request_unsent());
            // The connection was closed before any part of the request was sent.
            let Some(unsent) = unsent.filter(|_| is_reused) else {
                return Err((Failure::from_exchange(send_error.into_error(), is_reused), None));
            };
            request = unsent;
            request.uri_mut().clone_from(&uri);
        }
    }

    /// Returns the shared HTTP/2 connection, or else takes the most recently used idle connection, so that
    /// surplus connections time out.
    fn take(&self) -> Option<HttpConnection> {
        let mut state = self.state.lock();
        if let Some(shared) = state.shared.as_mut().filter(|shared| !shared.sender.is_closed()) {
            shared.last_used_at = Instant::now();
            return Some(HttpConnection::Http2(shared.clone()));
        }
        loop {
            let (connection, _) = state.idle.pop_back()?;
            if connection.sender.is_ready() {
                return Some(HttpConnection::Http1(connection));
            }
        }
    }

    async fn connect(self: &Arc<Self>) -> Result<HttpConnection, Failure> {
        // If no connection may be idle, requests can't share a connection.
        let will_share = self.uses_h2.load(Ordering::Relaxed) && self.settings.idle_connections > 0;
        let _connect_lock = match will_share {
            // Waiting for a connection attempt of another request takes no longer than the connect timeout.
            true => Some(self.in_time(self.connect_lock.lock()).await?),
            false => None,
        };
        if will_share && let Some(connection) = self.take() {
            return Ok(connection);
        }
        let connection = self.open().await?;
        self.uses_h2.store(matches!(connection, HttpConnection::Http2(_)), Ordering::Relaxed);
        if let HttpConnection::Http2(shared) = &connection
            && self.settings.idle_connections > 0
        {
            let mut state = self.state.lock();
            state.shared = Some(shared.clone());
            self.sweep_later(&mut state);
        }
        Ok(connection)
    }

    /// Returns a connection to the pool, unless the pool is full.
    fn keep(self: &Arc<Self>, connection: Http1) {
        let mut state = self.state.lock();
        if state.idle.len() < self.settings.idle_connections {
            state.idle.push_back((connection, Instant::now()));
            self.sweep_later(&mut state);
        }
    }

    /// Starts the task that closes connections after the idle timeout, unless the task runs already.
    fn sweep_later(self: &Arc<Self>, state: &mut State) {
        if state.is_sweep_running {
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => {
                state.is_sweep_running = true;
                runtime.spawn(sweep(Arc::downgrade(self)));
            }
            // Without a runtime, nothing would close idle connections.
            Err(_) => *state = State::default(),
        }
    }

    /// Closes connections that reached the idle timeout. Returns the time of the next check.
    fn close_old(&self) -> Option<Instant> {
        let now = Instant::now();
        let is_old = |since: Instant| now.saturating_duration_since(since) >= KEEPALIVE_TIMEOUT;
        let mut state = self.state.lock();
        let old_count = state.idle.iter().take_while(|(_, since)| is_old(*since)).count();
        state.idle.drain(..old_count);
        // Requests in flight complete even after the sender is dropped.
        state.shared.take_if(|shared| is_old(shared.last_used_at) || shared.sender.is_closed());
        let oldest_since = state.idle.front().map(|(_, since)| *since);
        let oldest_since =
            oldest_since.into_iter().chain(state.shared.as_ref().map(|shared| shared.last_used_at)).min();
        state.is_sweep_running = oldest_since.is_some();
        oldest_since.map(|since| since + KEEPALIVE_TIMEOUT)
    }
}

async fn sweep(pool: Weak<ConnectionPool>) {
    while let Some(next_check) = pool.upgrade().and_then(|pool| pool.close_old()) {
        tokio::time::sleep_until(next_check).await;
    }
}

/// Response body that returns its connection to the pool once the body was read to its end. If the body is
/// dropped earlier, the connection closes.
#[derive(Debug)]
pub(in crate::upstream) struct ResponseBody {
    incoming: Incoming,
    /// HTTP/1 connection and its pool. `None` for HTTP/2, whose connection is shared.
    lease: Option<(Http1, Arc<ConnectionPool>)>,
}

impl ResponseBody {
    /// Closes the connection, because further bytes on it can't be trusted.
    pub(super) fn close(&mut self) {
        self.lease = None;
    }

    fn return_to_pool(&mut self) {
        let Some((mut connection, pool)) = self.lease.take() else { return };
        if connection.sender.is_ready() {
            pool.keep(connection);
        } else if !connection.sender.is_closed()
            && let Ok(runtime) = Handle::try_current()
        {
            // The connection's task may become ready shortly, on another thread.
            runtime.spawn(async move {
                if let Ok(Ok(())) = timeout(READY_TIMEOUT, connection.sender.ready()).await {
                    pool.keep(connection);
                }
            });
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        if let Poll::Ready(None) = polled {
            self.return_to_pool();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if self.incoming.is_end_stream() {
            self.return_to_pool();
        }
    }
}

/// URI with the value of `Host` as its authority, because `:authority` must equal `Host` (RFC 9113, section
/// 8.3.1). `None` if they are equal already, or `Host` is missing.
fn uri_with_host(uri: &Uri, headers: &HeaderMap) -> Option<Uri> {
    let host = headers.get(header::HOST)?.as_bytes();
    if uri.authority().is_some_and(|authority| authority.as_str().as_bytes() == host) {
        return None;
    }
    let mut parts = uri.clone().into_parts();
    parts.authority = Some(host.try_into().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use http_body_util::BodyExt;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::watch,
        task::JoinSet,
    };

    use super::*;
    use crate::upstream::http::connection::full_body;

    /// Server that responds `ok` with a header. Reports how many connections were opened and are open.
    async fn server(header: &'static str) -> (Address, watch::Receiver<(usize, usize)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (count_sender, counts) = watch::channel((0, 0));
        let count_sender = Arc::new(count_sender);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count_sender.send_modify(|(opened, open)| (*opened, *open) = (*opened + 1, *open + 1));
                let count_sender = count_sender.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(1..) = stream.read(&mut buffer).await {
                        let response = format!("HTTP/1.1 200 OK\r\n{header}Content-Length: 2\r\n\r\nok");
                        stream.write_all(response.as_bytes()).await.unwrap();
                    }
                    count_sender.send_modify(|(_, open)| *open -= 1);
                });
            }
        });
        (address, counts)
    }

    fn pool(address: &Address, idle_connections: usize) -> Arc<ConnectionPool> {
        let settings = HttpSettings::new("old".parse().unwrap(), address.clone());
        let settings = HttpSettings { idle_connections, ..settings };
        ConnectionPool::new(&settings.into(), address, address.ip())
    }

    fn request(address: &Address) -> Request<RequestBody> {
        let mut request = Request::new(full_body(Bytes::new()));
        (*request.method_mut(), *request.uri_mut()) =
            (Method::GET, address.join(&"/".parse().unwrap()).unwrap());
        request
    }

    async fn send(pool: &Arc<ConnectionPool>, address: &Address) -> SendResult {
        pool.send(request(address), &CallContext::default()).await
    }

    async fn get(pool: &Arc<ConnectionPool>, address: &Address) -> Bytes {
        send(pool, address).await.unwrap().into_body().collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn sequential_calls_reuse_the_connection() {
        let (address, counts) = server("").await;
        let pool = pool(&address, 8);
        for _ in 0..20 {
            assert_eq!(get(&pool, &address).await, "ok");
        }
        assert_eq!(*counts.borrow(), (1, 1));
    }

    #[tokio::test]
    async fn an_unfinished_response_closes_its_connection() {
        let (address, mut counts) = server("").await;
        let pool = pool(&address, 8);
        drop(send(&pool, &address).await.unwrap());
        counts.wait_for(|counts| *counts == (1, 0)).await.unwrap();
        assert_eq!(get(&pool, &address).await, "ok");
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_before_its_response_closes_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let pool = pool(&address, 8);
        let mut buffer = [0; 4096];
        let received = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_ne!(stream.read(&mut buffer).await.unwrap(), 0);
            stream
        };
        let mut stream = tokio::select! {
            _ = send(&pool, &address) => panic!("there is no response"),
            stream = received => stream,
        };
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0, "it is closed");
    }

    #[tokio::test]
    async fn idle_connections_are_limited() {
        let (address, mut counts) = server("").await;
        let pool = pool(&address, 2);
        let mut requests = JoinSet::new();
        for _ in 0..5 {
            let (pool, address) = (pool.clone(), address.clone());
            // Each request has its own connection until all have one.
            requests.spawn(async move { send(&pool, &address).await.unwrap() });
        }
        let responses = requests.join_all().await;
        for response in responses {
            response.into_body().collect().await.unwrap();
        }
        counts.wait_for(|counts| *counts == (5, 2)).await.unwrap();
        drop(pool);
        counts.wait_for(|counts| *counts == (5, 0)).await.unwrap();
    }

    #[tokio::test]
    async fn a_server_that_closes_gets_no_second_request() {
        let (address, mut counts) = server("Connection: close\r\n").await;
        let pool = pool(&address, 8);
        for count in 1..4 {
            assert_eq!(get(&pool, &address).await, "ok");
            counts.wait_for(|counts| *counts == (count, 0)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn idle_connections_are_closed_after_a_timeout() {
        let (address, mut counts) = server("").await;
        let pool = pool(&address, 8);
        get(&pool, &address).await;
        assert_eq!(*counts.borrow(), (1, 1));
        tokio::time::pause();
        tokio::time::advance(KEEPALIVE_TIMEOUT + Duration::from_millis(10)).await;
        tokio::time::resume();
        counts.wait_for(|counts| *counts == (1, 0)).await.unwrap();
        // A later connection is handled as well.
        get(&pool, &address).await;
        assert_eq!(*counts.borrow(), (2, 1));
        tokio::time::pause();
        tokio::time::advance(KEEPALIVE_TIMEOUT + Duration::from_millis(10)).await;
        tokio::time::resume();
        counts.wait_for(|counts| *counts == (2, 0)).await.unwrap();
    }

    #[tokio::test]
    async fn waiting_for_a_shared_connection_has_the_connect_timeout() {
        let address: Address = "http://127.0.0.1:9".parse().unwrap();
        let settings = HttpSettings {
            protocol: HttpVersion::Http2,
            connect_timeout: Duration::from_millis(20),
            ..HttpSettings::new("old".parse().unwrap(), address.clone())
        };
        let pool = ConnectionPool::new(&settings.into(), &address, address.ip());
        let _connect_lock = pool.connect_lock.lock().await;
        match send(&pool, &address).await {
            Err((failure, _)) => assert!(matches!(failure, Failure::ConnectTimeout(_)), "{failure:?}"),
            Ok(_) => panic!("there is no server"),
        }
    }

    #[tokio::test]
    async fn a_silent_shared_connection_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let falls_silent = Arc::new(tokio::sync::Notify::new());
        let silent = Arc::clone(&falls_silent);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let silent = Arc::clone(&silent);
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(async |_| {
                        Ok::<_, std::convert::Infallible>(Response::new(http_body_util::Full::<Bytes>::from(
                            "ok",
                        )))
                    });
                    let stream = hyper_util::rt::TokioIo::new(stream);
                    let server =
                        hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
                    let mut serving = std::pin::pin!(server.serve_connection(stream, service));
                    tokio::select! {
                        _ = &mut serving => {}
                        // The connection stays open, like that of a server that lost power.
                        () = silent.notified() => std::future::pending().await,
                    }
                });
            }
        });
        let settings = HttpSettings::new("old".parse().unwrap(), address.clone());
        let settings = HttpSettings { protocol: HttpVersion::Http2, ..settings };
        let pool = ConnectionPool::new(&settings.into(), &address, address.ip());
        assert_eq!(get(&pool, &address).await, "ok");
        falls_silent.notify_one();
        tokio::task::yield_now().await;
        tokio::time::pause();
        let result = timeout(Duration::from_secs(300), send(&pool, &address)).await;
        let (failure, _) = result.expect("that nothing comes is found out").unwrap_err();
        assert!(matches!(failure, Failure::CutOff(_)), "{failure:?}");
        tokio::time::resume();
        assert_eq!(get(&pool, &address).await, "ok", "over another one");
    }
}
