//! Connects to an upstream: over TCP, through TLS, or to a socket of this machine.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{net::TcpStream, time::timeout};

use crate::{
    descriptors::{ADMIN_RESERVE, leaves_free},
    tls::{ClientStream, ClientTls},
};

use super::{Address, ConnectTimedOut, HttpSettings, Protocol, outgoing::BoxError};

/// How often the kernel asks after a silent peer.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// Connects within a limit, the handshake included.
#[derive(Debug)]
pub(super) struct Connector {
    way: Way,
    timeout: Duration,
}

#[derive(Debug)]
enum Way {
    Tcp(SocketAddr),
    /// The name is who the server has to be.
    Tls(SocketAddr, Box<str>, ClientTls),
    Socket(Arc<Path>),
}

impl Connector {
    /// To one place: a socket of this machine, or else `at`, which is what the address's host stands for.
    pub(super) fn new(settings: &HttpSettings, address: &Address, at: Option<SocketAddr>) -> Self {
        let way = match (address.socket(), at, &settings.tls) {
            (Some(socket), ..) => Way::Socket(socket.into()),
            (None, None, _) => unreachable!("what is not a socket has a number"),
            (None, Some(at), Some(tls)) => {
                let protocols: &[&[u8]] = match settings.protocol {
                    Protocol::Auto => &[b"h2", b"http/1.1"],
                    Protocol::Http2 => &[b"h2"],
                    // Servers that know HTTP/1.0 only have no name for it.
                    Protocol::Http1 => &[b"http/1.1"],
                    Protocol::Http10 => &[],
                };
                Way::Tls(at, address.authority().host().into(), tls.offering(protocols))
            }
            (None, Some(at), None) => Way::Tcp(at),
        };
        Self { way, timeout: settings.connect_timeout }
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Wire, BoxError> {
        self.in_time(self.way.connect()).await?.map_err(Into::into)
    }

    /// What has to be there within the limit, too.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, BoxError> {
        let after = self.timeout;
        timeout(after, work).await.map_err(|_| ConnectTimedOut { after }.into())
    }
}

impl Way {
    async fn connect(&self) -> io::Result<Wire> {
        match self {
            Self::Tcp(at) => Ok(Wire::Tcp(TokioIo::new(tcp(*at).await?))),
            Self::Tls(at, host, tls) => {
                let stream = tls.connect(host, tcp(*at).await?).await?;
                Ok(Wire::Tls(Box::new(TokioIo::new(stream))))
            }
            #[cfg(unix)]
            Self::Socket(path) => {
                let stream = UnixStream::connect(path).await?;
                leaves_free(&stream, ADMIN_RESERVE)?;
                Ok(Wire::Socket(TokioIo::new(stream)))
            }
            #[cfg(not(unix))]
            Self::Socket(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such sockets"))
            }
        }
    }
}

async fn tcp(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at).await?;
    leaves_free(&stream, ADMIN_RESERVE)?;
    // Requests are written whole; waiting for more to send would only delay them.
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE))?;
    Ok(stream)
}

/// What goes to an upstream and comes from it.
pub(super) enum Wire {
    Tcp(TokioIo<TcpStream>),
    Tls(Box<TokioIo<ClientStream>>),
    #[cfg(unix)]
    Socket(TokioIo<UnixStream>),
}

impl Wire {
    /// Whether both ends agreed on HTTP/2.
    pub(super) fn agreed_on_h2(&self) -> bool {
        match self {
            Self::Tls(stream) => ClientTls::agreed_on_h2(stream.inner()),
            Self::Tcp(_) => false,
            #[cfg(unix)]
            Self::Socket(_) => false,
        }
    }
}

/// The same for every kind of connection.
macro_rules! each {
    ($wire:expr, $stream:ident => $does:expr) => {
        match $wire {
            Wire::Tcp($stream) => $does,
            Wire::Tls($stream) => $does,
            #[cfg(unix)]
            Wire::Socket($stream) => $does,
        }
    };
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        each!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(context))
    }
}
