//! Where clients connect to, and who we are to them.

use std::{io, net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use tokio::net::TcpListener;

use crate::{descriptors::client_reserve, tls::ServerTls, upstream::UpstreamBuffer};

/// A port that was taken, with TLS or without.
#[derive(Debug)]
pub struct Listener {
    pub(super) port: TcpListener,
    pub(super) tls: Option<Certificate>,
    /// The memory for responses of upstreams; charged with what clients have not taken.
    pub(super) buffer: Option<UpstreamBuffer>,
    /// How many file descriptors its connections leave free.
    pub(super) reserve: u64,
}

/// Who we are to clients; another may take its place while serving. Clones are the same.
#[derive(Debug, Clone)]
pub struct Certificate(pub(super) Arc<ArcSwap<ServerTls>>);

impl Certificate {
    /// To begin with.
    pub(super) fn new(tls: ServerTls) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(tls)))
    }

    /// For connections that begin from now on.
    pub(super) fn replace(&self, tls: &ServerTls) {
        if **self.0.load() != *tls {
            self.0.store(Arc::new(tls.clone()));
        }
    }
}

impl Listener {
    /// The same port, with TLS where there is a certificate.
    pub fn with(self, tls: Option<Certificate>) -> Self {
        Self { tls, ..self }
    }

    /// The same port, whose connections may take every file descriptor.
    pub(super) fn for_admin(self) -> Self {
        Self { reserve: 0, ..self }
    }

    /// The same port, whose clients are sent what is made of responses in this memory.
    pub fn charging(self, buffer: UpstreamBuffer) -> Self {
        Self { buffer: Some(buffer), ..self }
    }

    /// The address that was taken.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.port.local_addr()
    }

    /// `http`, or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

impl From<TcpListener> for Listener {
    fn from(port: TcpListener) -> Self {
        Self { port, tls: None, buffer: None, reserve: client_reserve() }
    }
}
