//! One client's connection: HTTP/1.1 with limits, or HTTP/2 where TLS agreed on it, until it closes or the server stops.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use axum::body::Body;
use http::{HeaderValue, Request, Response, header};
use http_body::Body as _;
use hyper::{
    body::Incoming,
    rt::{Read, Write},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{
    Answerer,
    activity::{Activity, asking},
    handshakes::HandshakeFailures,
    line_ends::LineEnds,
    patience::Patient,
    untaken::{SHORT_BYTES, Way, counted},
};
use crate::{
    config::ListenerSettings,
    inbound::{
        self, Arrival, Ending,
        filter::{ends_ambiguously, reject_ambiguous_end},
    },
    telemetry::{Chain, RequestId},
    tls::{ClientCertificate, ServerTls},
    wire::others_first,
};

/// How long the head of a request may be; more is answered with 431, and so are more than 100 headers, which is `hyper`'s
/// own limit: told to keep it, it would make room for them anew for every request.
pub(super) const HEAD_LIMIT_BYTES: usize = 64 << 10;

/// How much is read at a time, at most: a whole head, or some of a body.
const READ_BUFFER_BYTES: usize = HEAD_LIMIT_BYTES;

/// How long a handshake of TLS may take, and what was written to be gone when a connection is left.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of an answer the system has ahead of what it could send: it takes megabytes otherwise, and of who reads those
/// slowly nothing is seen for seconds, as of who reads nothing.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 128 << 10;

/// How long a connection without a request is kept when the server ends: its client may have one on its way, as whoever
/// connects while others are still served has.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// What the server is about to do with its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Keep them.
    Serving,
    /// Answer whatever comes, and have clients make other ones: each is closed with its next answer.
    Closing,
    /// Let each finish its request, and close those that have none.
    Draining,
    /// Nothing is waited for any more.
    Closed,
}

/// How many requests one HTTP/2 connection may have open; the next waits.
const STREAM_LIMIT: u32 = 128;

/// What a connection is served with.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) settings: ListenerSettings,
    pub(super) tls: Option<Arc<ArcSwap<ServerTls>>>,
    pub(super) answerer: Answerer,
    pub(super) phases: watch::Receiver<Phase>,
    pub(super) ending: Ending,
    pub(super) handshakes: HandshakeFailures,
}

impl Serving {
    /// Serves one connection to its end, after the handshake of TLS where that is spoken. While a request is being
    /// answered the client is watched: when it leaves, the answer's future is dropped, and with it whatever it asked of
    /// an upstream.
    pub(super) async fn serve(self, stream: TcpStream, peer: SocketAddr, activity: Activity) {
        // Answers are written whole; waiting for more to send would only delay their last part.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%peer, %error, "no TCP_NODELAY");
        }
        #[cfg(target_os = "linux")]
        if let Err(error) = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES) {
            debug!(%peer, %error, "no TCP_NOTSENT_LOWAT");
        }
        let patient = self.settings.write_timeout;
        let Some(tls) = self.tls.as_ref().map(|tls| tls.load_full()) else {
            let stream = TokioIo::new(LineEnds::new(stream));
            let stream = Patient::new(stream, patient, activity.clone(), false);
            let connection = self.connection(peer, None);
            return self.http1(stream, connection, activity).await;
        };
        // All of it boxed: a connection without TLS has no room for it.
        Box::pin(self.serve_tls(tls, stream, peer, activity)).await
    }

    async fn serve_tls(
        mut self,
        tls: Arc<ServerTls>,
        stream: TcpStream,
        peer: SocketAddr,
        activity: Activity,
    ) {
        let patient = self.settings.write_timeout;
        let shaking = timeout(self.settings.header_timeout.min(HANDSHAKE_TIMEOUT), tls.accept(stream));
        let stream = tokio::select! {
            stream = shaking => match stream {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return self.handshakes.add(peer, error.to_string()),
                Err(_) => return self.handshakes.add(peer, "it was not complete in time".to_owned()),
            },
            // Nothing was asked yet.
            () = drained(&mut self.phases, FIRST_REQUEST_TIMEOUT) => return,
        };
        let is_h2 = ServerTls::agreed_on_h2(&stream);
        let mut connection = self.connection(peer, tls.shown_by(&stream).map(Arc::new));
        connection.is_tls = true;
        // Over HTTP/1.1 the HTTP library watches the head of the one request, and nobody else asks when bytes came.
        if is_h2 {
            let stream = Patient::new(TokioIo::new(stream), patient, activity.clone(), true);
            self.http2(stream, connection, activity).await
        } else {
            let stream = TokioIo::new(LineEnds::new(stream));
            let stream = Patient::new(stream, patient, activity.clone(), false);
            self.http1(stream, connection, activity).await
        }
    }

    fn connection(
        &self,
        peer: SocketAddr,
        certificate: Option<Arc<ClientCertificate>>,
    ) -> inbound::Connection {
        inbound::Connection { peer: Some(peer), is_tls: false, certificate, ending: self.ending.clone() }
    }

    async fn http1<S>(mut self, stream: S, from: inbound::Connection, activity: Activity)
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let (asked, from) = (Arc::new(AtomicBool::new(false)), Arc::new(from));
        let peer = from.peer;
        let service = service_fn({
            let asked = asked.clone();
            let (answerer, phases) = (self.answerer.clone(), self.phases.clone());
            move |request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                activity.asked();
                let mut request = request.map(|body| whole_or_asking(body, &activity));
                name_host(&mut request);
                let arrival = Arrival::new(Arc::clone(&from), request.headers());
                request.extensions_mut().insert(arrival);
                let answering = if ends_ambiguously(request.headers()) {
                    Err(reject_ambiguous_end(request))
                } else {
                    Ok(answer(&answerer, request))
                };
                let (activity, phases) = (activity.clone(), phases.clone());
                async move {
                    let mut answer = match answering {
                        Ok(answering) => answering.await,
                        Err(refused) => refused,
                    };
                    if *phases.borrow() > Phase::Serving {
                        // A client, or a balancer, connects anew for its next request, and finds who serves then.
                        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    }
                    // One that the system takes as a whole is gone once it is written. Of a longer one, or one without an
                    // end, it is not known when it is: the next request tells.
                    if answer.body().size_hint().exact().is_some_and(|length| length <= SHORT_BYTES as u64) {
                        others_first().await;
                        activity.answered_shortly();
                        return Ok::<_, Infallible>(answer);
                    }
                    Ok(counted(answer, &activity, Way::Whole))
                }
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.header_timeout)
            .max_header_size(HEAD_LIMIT_BYTES)
            .max_buf_size(READ_BUFFER_BYTES)
            .serve_connection(stream, service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = drained(&mut self.phases, Duration::ZERO) => {
                if asked.load(Ordering::Relaxed) {
                    connection.as_mut().graceful_shutdown();
                }
                // Opened beforehand, as browsers do, and never used: there is nothing to finish.
                let unused = async {
                    sleep(FIRST_REQUEST_TIMEOUT).await;
                    if asked.load(Ordering::Relaxed) {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    biased;
                    ended = connection => ended,
                    () = unused => return,
                    () = reached(&mut self.phases, Phase::Closed) => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!(peer = peer.map(display), error = %Chain(&error), "connection ended early");
        }
    }

    async fn http2<S>(mut self, stream: S, from: inbound::Connection, activity: Activity)
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let from = Arc::new(from);
        let peer = from.peer;
        let service = service_fn({
            let (answerer, activity) = (self.answerer.clone(), activity.clone());
            move |request: Request<Incoming>| {
                let (open, activity) = (activity.request(), activity.clone());
                let mut request = request.map(|body| whole_or_asking(body, &activity));
                name_host(&mut request);
                let arrival = Arrival::new(Arc::clone(&from), request.headers());
                request.extensions_mut().insert(arrival);
                let answering = answer(&answerer, request);
                async move {
                    let answer = counted(answering.await, &activity, Way::InParts);
                    Ok::<_, Infallible>(answer.map(|body| open.answered(body)))
                }
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(HEAD_LIMIT_BYTES as u32)
            .max_concurrent_streams(STREAM_LIMIT)
            .serve_connection(stream, service);
        let mut connection = pin!(connection);
        // Who has connected since has a request on its way.
        let is_late = *self.phases.borrow() >= Phase::Draining;
        let (idle, untaken) = (self.settings.header_timeout, self.settings.write_timeout);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = activity.ended(idle, untaken) => {
                debug!(peer = peer.map(display), "nothing goes on over the connection");
                connection.as_mut().graceful_shutdown();
                // What has been written on is let go out; who takes none of it is left.
                match timeout(untaken.min(HANDSHAKE_TIMEOUT), connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
            () = drained(&mut self.phases, if is_late { FIRST_REQUEST_TIMEOUT } else { Duration::ZERO }) => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = reached(&mut self.phases, Phase::Closed) => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!(peer = peer.map(display), error = %Chain(&error), "connection ended early");
        }
    }
}

/// A body as the faces read it, and watched where there is one.
fn whole_or_asking(body: Incoming, activity: &Activity) -> Body {
    if body.is_end_stream() { Body::empty() } else { asking(body, activity.clone()) }
}

/// Over HTTP/2 the host stands in the URI, and over HTTP/1.1 it may (RFC 9112, section 3.2.2); everybody else looks for it
/// in its header. Where that names another one there are two then, and the door lets nobody in who names two.
fn name_host(request: &mut Request<Body>) {
    let Some(authority) = request.uri().authority() else { return };
    if request.method() == http::Method::CONNECT {
        // It says where a tunnel should lead.
        return;
    }
    let is_named = |named: &HeaderValue| named.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
    let headers = request.headers();
    let is_known = headers.contains_key(header::HOST) && headers.get_all(header::HOST).iter().all(is_named);
    if !is_known && let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().append(header::HOST, host);
    }
    let path = request.uri().path_and_query().cloned();
    if let Some(path) = path {
        *request.uri_mut() = path.into();
    }
}

/// Waits until connections are drained, and so long beyond.
async fn drained(phases: &mut watch::Receiver<Phase>, grace: Duration) {
    reached(phases, Phase::Draining).await;
    if !grace.is_zero() {
        sleep(grace).await;
    }
}

/// Waits for a phase, or a later one. A server that is gone has reached them all.
async fn reached(phases: &mut watch::Receiver<Phase>, sought: Phase) {
    let _ = phases.wait_for(|phase| *phase >= sought).await;
}

/// Gives the request its id and the response the same, unless an upstream's own is passed through.
pub(super) fn answer(
    answerer: &Answerer,
    mut request: Request<Body>,
) -> impl Future<Output = Response<Body>> + use<> {
    let request_id = Arrival::of(&mut request).request_id.clone();
    let answering = answerer.answer(request);
    async move {
        let mut response = answering.await;
        response.headers_mut().entry(RequestId::HEADER).or_insert_with(|| request_id.header_value());
        response
    }
}
