//! One client's connection: HTTP/1.1 with limits, until it closes or the server stops.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, body::Body};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, sync::watch};
use tower::Service;
use tracing::debug;

use crate::{
    config::ListenerSettings,
    face::{Ending, Peer},
    observe::{Chain, RequestId},
};

/// How long the head of a request may be; more is answered with 431.
const HEAD_LIMIT_BYTES: usize = 64 << 10;

/// How many headers a request may have; more is answered with 431.
const HEADER_COUNT_LIMIT: usize = 100;

/// How much is read at a time, at most: a whole head, or some of a body.
const READ_BUFFER_BYTES: usize = HEAD_LIMIT_BYTES;

/// What the server is about to do with its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Keep them.
    Serving,
    /// Let each finish its request.
    Draining,
    /// Close them.
    Cut,
}

/// Serves one connection to its end. While a request is being answered the client is watched: when it leaves, the
/// answer's future is dropped, and with it whatever it asked of an upstream.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    settings: ListenerSettings,
    router: Router,
    mut phases: watch::Receiver<Phase>,
    ending: Ending,
) {
    // Answers are written whole; waiting for more to send would only delay their last part.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%peer, %error, "no TCP_NODELAY");
    }
    let asked = Arc::new(AtomicBool::new(false));
    let service = service_fn({
        let asked = asked.clone();
        move |request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            request.extensions_mut().insert(ending.clone());
            let answering = answer(router.clone(), request);
            async { Ok::<_, Infallible>(answering.await) }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_header_size(HEAD_LIMIT_BYTES)
        .max_buf_size(READ_BUFFER_BYTES)
        .max_headers(HEADER_COUNT_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = reached(&mut phases, Phase::Draining) => {
            if !asked.load(Ordering::Relaxed) {
                // Opened beforehand, as browsers do, and never used: there is nothing to finish.
                return;
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = reached(&mut phases, Phase::Cut) => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(%peer, error = %Chain(&error), "connection ended early");
    }
}

/// Waits for a phase, or a later one. A server that is gone has reached them all.
async fn reached(phases: &mut watch::Receiver<Phase>, sought: Phase) {
    let _ = phases.wait_for(|phase| *phase >= sought).await;
}

/// Gives the request its id and the response the same, unless an upstream's own is passed through.
pub(super) async fn answer(mut router: Router, mut request: Request<Body>) -> http::Response<Body> {
    let request_id = RequestId::of_headers(request.headers());
    request.extensions_mut().insert(request_id.clone());
    let mut response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    response.headers_mut().entry(RequestId::HEADER).or_insert_with(|| request_id.header_value());
    response
}
