//! TLS with clients: who we are, and whom we let in.

use std::{fmt, io, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::UnixTime,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{ClientCertificate, Identity, MadeOf, TlsError, Vouching};

/// A connection of a client.
pub type ServerStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Who we are to clients, and whether they say who they are. HTTP/2 and HTTP/1.1 are offered.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    /// Who vouches for clients.
    roots: Option<Arc<dyn ClientCertVerifier>>,
    /// What they are made of.
    roots_made_of: MadeOf,
    made_of: MadeOf,
}

/// What [`ServerTls`] is made of.
#[derive(Debug)]
pub struct ServerTlsOptions {
    /// Who we are.
    pub identity: Identity,
    /// Who vouches for clients. `None` asks for no certificate.
    pub client_roots: Option<ClientRoots>,
}

/// Who vouches for clients.
#[derive(Debug)]
pub struct ClientRoots {
    /// The roots in PEM. Whoever shows a certificate of another is turned away.
    pub pem: Vec<u8>,
    /// Whether who shows none is turned away, too.
    pub required: bool,
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
        let verifier = match &options.client_roots {
            None => None,
            Some(ClientRoots { pem, required }) => {
                let roots = Arc::new(super::roots(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = if *required { verifier } else { verifier.allow_unauthenticated() }.build();
                Some(verifier.map_err(|_| TlsError::Roots)?)
            }
        };
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(TlsError::Mismatch)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Nothing of a secret may be written to where `SSLKEYLOGFILE` says.
        config.key_log = Arc::new(rustls::NoKeyLog);
        let Identity { certificates, key } = &options.identity;
        let roots = options.client_roots.as_ref();
        let required: &[u8] = if roots.is_some_and(|roots| roots.required) { b"required" } else { b"" };
        let roots = roots.map_or(&[][..], |roots| &roots.pem);
        let made_of = MadeOf::parts([certificates.as_slice(), key, roots, required]);
        let roots_made_of = MadeOf::parts([roots]);
        Ok(Self { config: Arc::new(config), roots: verifier, roots_made_of, made_of })
    }

    /// Shakes hands with a client.
    ///
    /// # Errors
    ///
    /// When it speaks no TLS, is nobody who is let in, or goes.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<ServerStream> {
        TlsAcceptor::from(self.config.clone()).accept(stream).await
    }

    /// The certificate that a client has shown, if it has: one for which the roots vouch.
    pub fn shown_by(&self, stream: &ServerStream) -> Option<ClientCertificate> {
        let (first, others) = stream.get_ref().1.peer_certificates()?.split_first()?;
        let others = others.iter().map(|one| one.clone().into_owned()).collect();
        let vouching = Vouching { others, roots: Some(self.roots_made_of) };
        ClientCertificate::read(first).map(|read| ClientCertificate { vouching, ..read })
    }

    /// Whether the roots vouch for a certificate: those of now, where the connection was made with others.
    pub fn vouches_for(&self, certificate: &ClientCertificate) -> bool {
        let ClientCertificate { der, vouching, .. } = certificate;
        let Some(roots) = &self.roots else { return false };
        vouching.roots == Some(self.roots_made_of)
            || roots.verify_client_cert(&der.as_slice().into(), &vouching.others, UnixTime::now()).is_ok()
    }

    /// Whether the same roots vouch for clients.
    pub fn has_roots_of(&self, other: &Self) -> bool {
        self.roots_made_of == other.roots_made_of
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
