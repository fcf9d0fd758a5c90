//! Connects to an upstream: over TCP, through TLS, or to a socket of this machine.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{Extensions, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tower::Service;

use crate::tls::{ClientStream, ClientTls};

use super::{Address, ConnectTimedOut, HttpSettings, Protocol, client::BoxError};

/// How often the kernel asks after a silent peer.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// Connects within a limit, the look-up of the name and the handshake included.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    way: Way,
    timeout: Duration,
}

#[derive(Debug, Clone)]
enum Way {
    /// To these numbers, whatever name is asked for.
    Tcp(HttpConnector, Uri),
    Tls(HttpConnector, Uri, ClientTls),
    Socket(Arc<Path>),
}

impl Connector {
    /// To one place: a socket of this machine, or else what the address's host stands for.
    pub(super) fn new(settings: &HttpSettings, address: &Address, at: Option<SocketAddr>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        tcp.enforce_http(false);
        let place = || match at {
            Some(at) => format!("http://{at}").parse().expect("numbers are a host"),
            None => Uri::from_static("http://localhost"),
        };
        let way = match (address.socket(), &settings.tls) {
            (Some(socket), _) => Way::Socket(socket.into()),
            (None, Some(tls)) => {
                let protocols: &[&[u8]] = match settings.protocol {
                    Protocol::Auto => &[b"h2", b"http/1.1"],
                    Protocol::Http2 => &[b"h2"],
                    // Servers that know HTTP/1.0 only have no name for it.
                    Protocol::Http1 => &[b"http/1.1"],
                    Protocol::Http10 => &[],
                };
                Way::Tls(tcp, place(), tls.offering(protocols))
            }
            (None, None) => Way::Tcp(tcp, place()),
        };
        Self { way, timeout: settings.connect_timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.way {
            Way::Tcp(tcp, _) | Way::Tls(tcp, ..) => Service::poll_ready(tcp, context).map_err(Into::into),
            Way::Socket(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, after) = (self.way.connect(uri), self.timeout);
        Box::pin(async move {
            let stream = tokio::time::timeout(after, connecting).await;
            let stream = stream.unwrap_or_else(|_| Err(ConnectTimedOut { after }.into()))?;
            Ok(Wire { stream, known: Known::default() })
        })
    }
}

impl Way {
    fn connect(&mut self, uri: Uri) -> Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>> {
        match self {
            Self::Tcp(tcp, place) => {
                let connecting = Service::call(tcp, place.clone());
                Box::pin(async move { Ok(Stream::Tcp(connecting.await?)) })
            }
            Self::Tls(tcp, place, tls) => {
                let (host, tls) = (uri.host().unwrap_or_default().to_owned(), tls.clone());
                let connecting = Service::call(tcp, place.clone());
                Box::pin(async move {
                    let tcp = connecting.await?.into_inner();
                    let stream = tls.connect(&host, tcp).await?;
                    Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
                })
            }
            #[cfg(unix)]
            Self::Socket(path) => {
                let path = path.clone();
                Box::pin(async move { Ok(Stream::Socket(TokioIo::new(UnixStream::connect(&path).await?))) })
            }
            #[cfg(not(unix))]
            Self::Socket(_) => Box::pin(async {
                Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such sockets").into())
            }),
        }
    }
}

/// A connection.
pub(super) struct Wire {
    stream: Stream,
    known: Known,
}

/// What is known of a connection. Each reply has that of its own among its extensions.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Facts>);

#[derive(Debug, Default)]
struct Facts {
    is_spoiled: AtomicBool,
    has_answered: AtomicBool,
}

impl Known {
    /// What comes over it can't be relied on: it is read as if it had ended, and so not used again.
    pub(super) fn spoil(&self) {
        self.0.is_spoiled.store(true, Ordering::Relaxed);
    }

    /// It has given a reply.
    pub(super) fn answered(&self) {
        self.0.has_answered.store(true, Ordering::Relaxed);
    }

    /// Whether it had given one before it failed: then it was kept since, and its server may have closed it meanwhile.
    pub(super) fn was_kept(error: &hyper_util::client::legacy::Error) -> bool {
        let mut found = Extensions::new();
        error.connect_info().inspect(|connected| connected.get_extras(&mut found));
        found.get::<Self>().is_some_and(|known| known.0.has_answered.load(Ordering::Relaxed))
    }
}

enum Stream {
    Tcp(TokioIo<TcpStream>),
    Tls(Box<TokioIo<ClientStream>>),
    #[cfg(unix)]
    Socket(TokioIo<UnixStream>),
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(self.known.clone());
        match &self.stream {
            Stream::Tls(stream) if ClientTls::agreed_on_h2(stream.inner()) => connected.negotiated_h2(),
            Stream::Tcp(_) | Stream::Tls(_) => connected,
            #[cfg(unix)]
            Stream::Socket(_) => connected,
        }
    }
}

/// The same for every kind of connection.
macro_rules! each {
    ($wire:expr, $stream:ident => $does:expr) => {
        match $wire {
            Stream::Tcp($stream) => $does,
            Stream::Tls($stream) => $does,
            #[cfg(unix)]
            Stream::Socket($stream) => $does,
        }
    };
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.known.0.is_spoiled.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        each!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        each!(&self.stream, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.get_mut().stream, stream => Pin::new(stream).poll_shutdown(context))
    }
}
