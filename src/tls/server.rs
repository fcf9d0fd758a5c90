//! TLS with clients: who we are, and whom we let in.

use std::{fmt, io, sync::Arc};

use rustls::{ServerConfig, crypto::ring, server::WebPkiClientVerifier};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{
    Identity, TlsError,
    pem::{self, MadeOf},
};

/// A connection of a client.
pub type ServerStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Who we are to clients, and whether they say who they are. HTTP/2 and HTTP/1.1 are offered.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    made_of: MadeOf,
}

/// What [`ServerTls`] is made of.
#[derive(Debug)]
pub struct ServerTlsOptions {
    /// Who we are.
    pub identity: Identity,
    /// The roots in PEM that vouch for clients; those without a certificate of theirs are turned away. `None` asks for
    /// no certificate.
    pub client_roots: Option<Vec<u8>>,
}

impl ServerTls {
    /// Makes a configuration of it.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for what can't be read, or does not go together.
    pub fn new(options: ServerTlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3");
        let (certificates, key) = options.identity.read()?;
        let builder = match &options.client_roots {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(pem::roots(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|_| TlsError::Roots)?)
            }
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(TlsError::Mismatch)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Nothing of a secret may be written to where `SSLKEYLOGFILE` says.
        config.key_log = Arc::new(rustls::NoKeyLog);
        let Identity { certificates, key } = &options.identity;
        let roots = options.client_roots.as_deref().unwrap_or_default();
        let made_of = MadeOf::parts([certificates.as_slice(), key, roots]);
        Ok(Self { config: Arc::new(config), made_of })
    }

    /// Shakes hands with a client.
    ///
    /// # Errors
    ///
    /// When it speaks no TLS, is nobody who is let in, or goes.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<ServerStream> {
        TlsAcceptor::from(self.config.clone()).accept(stream).await
    }

    /// Whether a connection agreed on HTTP/2.
    pub fn agreed_on_h2(stream: &ServerStream) -> bool {
        stream.get_ref().1.alpn_protocol() == Some(b"h2")
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.made_of == other.made_of
    }
}

impl Eq for ServerTls {}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerTls(…)")
    }
}
