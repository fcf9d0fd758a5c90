//! Connections to one endpoint: TCP, TLS or a UNIX domain socket, with HTTP/1 or HTTP/2 over it.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::HttpVersion;
use super::pool::ConnectionPool;
use crate::descriptors::{ADMIN_RESERVE, check_reserve};
use crate::upstream::Failure;

/// Maximum length of the status line and headers of a response, in bytes.
pub(in crate::upstream) const HEAD_LIMIT_BYTES: usize = 128 << 10;

/// Maximum number of response headers. It is the default of `hyper`, which allocates memory for each response
/// if another number is set.
pub(in crate::upstream) const HEADER_COUNT_LIMIT: usize = 100;

/// Idle time of a TCP connection before the kernel probes the peer.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// HTTP/2 keepalive: time without data, while responses are pending, before the server is pinged, and timeout
/// of the ping. All requests share the connection, so a dead connection would fail all requests until the
/// kernel closes it after a quarter of an hour.
const H2_PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Request body: complete in memory, or streamed by passthrough.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// Request body from bytes in memory.
pub(super) fn full_body(content: Bytes) -> RequestBody {
    Full::new(content).map_err(|never| match never {}).boxed_unsync()
}

/// Connection after the HTTP handshake.
pub(super) enum HttpConnection {
    Http1(Http1),
    Http2(Http2),
}

/// HTTP/2 connection, which all requests share.
#[derive(Debug, Clone)]
pub(super) struct Http2 {
    pub(super) sender: http2::SendRequest<RequestBody>,
    /// Whether the connection has served a request.
    pub(super) is_reused: Arc<AtomicBool>,
    /// Time of the last request.
    pub(super) last_used_at: Instant,
}

/// HTTP/1 connection, which serves one request after another. Dropping it closes the connection, so that the
/// server learns at once that its response is no longer needed.
#[derive(Debug)]
pub(super) struct Http1 {
    pub(super) sender: http1::SendRequest<RequestBody>,
    /// Whether the connection has served a request.
    pub(super) is_reused: bool,
    _driver: AbortOnDropHandle<Result<(), hyper::Error>>,
}

/// Byte stream that carries HTTP.
trait IoStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> IoStream for T {}

impl ConnectionPool {
    /// Opens a connection within the connect timeout, which includes the TLS handshake. A spawned task drives
    /// the connection until it closes.
    pub(super) async fn open(&self) -> Result<HttpConnection, Failure> {
        let opened = self.in_time(self.open_stream()).await?;
        let (stream, is_h2) = opened.map_err(|error| Failure::Connect(error.into()))?;
        let handshake = match self.settings.protocol == HttpVersion::Http2 || is_h2 {
            true => http2_handshake(stream).await.map(HttpConnection::Http2),
            false => http1_handshake(stream).await.map(HttpConnection::Http1),
        };
        handshake.map_err(|error| Failure::from_exchange(error, false))
    }

    /// Applies the connect timeout to `work`.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let connect_timeout = self.settings.connect_timeout;
        timeout(connect_timeout, work).await.map_err(|_| Failure::ConnectTimeout(connect_timeout))
    }

    /// Opens a byte stream. Also returns whether HTTP/2 was negotiated.
    async fn open_stream(&self) -> io::Result<(Box<dyn IoStream>, bool)> {
        if let Some(path) = self.address.socket() {
            let stream = UnixStream::connect(path).await?;
            check_reserve(&stream, ADMIN_RESERVE)?;
            return Ok((Box::new(stream), false));
        }
        let stream = connect_tcp(self.at.expect("an address without a socket has an IP address")).await?;
        let Some(tls) = &self.tls else { return Ok((Box::new(stream), false)) };
        // The TLS client verifies the host name against the server's certificate.
        let stream = tls.connect(self.address.authority().host(), stream).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Box::new(stream), is_h2))
    }
}

async fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    check_reserve(&stream, ADMIN_RESERVE)?;
    // Requests are written as a whole; Nagle's algorithm would only delay them.
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE))?;
    Ok(stream)
}

async fn http1_handshake(stream: Box<dyn IoStream>) -> Result<Http1, hyper::Error> {
    let handshake = http1::Builder::new()
        .max_buf_size(HEAD_LIMIT_BYTES)
        // Old servers send headers with all of these errors, and browsers accept them.
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await?;
    // Errors of the connection reach the request that waits for a response.
    let driver = AbortOnDropHandle::new(tokio::spawn(connection));
    Ok(Http1 { sender, is_reused: false, _driver: driver })
}

async fn http2_handshake(stream: Box<dyn IoStream>) -> Result<Http2, hyper::Error> {
    let handshake = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_LIMIT_BYTES as u32)
        .keep_alive_interval(H2_PING.0)
        .keep_alive_timeout(H2_PING.1)
        .handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await?;
    // Errors of the connection reach all requests that wait for a response.
    tokio::spawn(connection);
    Ok(Http2 { sender, is_reused: Arc::default(), last_used_at: Instant::now() })
}
