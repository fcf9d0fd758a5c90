//! TLS termination: the server certificate (one for all server names, no SNI selection), and mTLS, the
//! verification of client certificates against trusted CAs.

use std::{io, sync::Arc};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::UnixTime;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use settings_derive::{EnumSetting, Section};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::certificates::{Pem, read_certificate, read_identity, read_key, read_trusted_cas, roots};
use super::{ClientCertificate, ClientTls, ClientTlsOptions, TlsError};
use crate::crypto::{Digest, sha256};
use crate::settings::{Checked, Cursor, Invalid, OpenSection, Section as _, Setting, ValueKind};

/// A TLS connection from a client.
pub type ServerStream = tokio_rustls::server::TlsStream<TcpStream>;

/// TLS configuration for connections from clients: the server certificate, and the verification of client
/// certificates. Offers HTTP/2 and HTTP/1.1.
#[derive(Debug, Clone, derive_more::Eq, derive_more::PartialEq)]
pub struct ServerTls {
    /// Built from the options, like `client_verifier`.
    #[eq(skip)]
    config: Arc<ServerConfig>,
    /// Verifies client certificates against the trusted CAs; `None` without client certificates.
    #[eq(skip)]
    client_verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// Digest of the trusted CAs. It shows whether they have changed since a certificate was verified.
    pub(crate) trusted_cas: Digest,
    options: Arc<ServerTlsOptions>,
}

/// The section `tls` of `server`: our certificate, and the trusted CAs of client certificates.
#[derive(Debug, PartialEq, Eq, Section)]
#[section(name = "`tls` of `server`", id = "server_tls", process, variables)]
pub struct ServerTlsOptions {
    /// Certificate chain of this server, in PEM: `file:/path`, `${NAME}` or the text itself.
    #[key(with = read_certificate, file, example = "certificate: file:/etc/glossator/tls.crt", live)]
    pub certificate: Pem,
    /// Its private key, in PEM: `file:/path` or `${NAME}`.
    #[key(with = read_key, file, example = "key: file:/etc/glossator/tls.key", masked, live)]
    pub key: Pem,
    /// Trusted CAs of client certificates, in PEM; clients without such a certificate are rejected.
    #[key(with = read_trusted_cas, file, shown = "no client certificates", live)]
    pub client_ca: Option<Pem>,
    /// Whether a client certificate is required, or optional beside other credentials.
    #[key(
        default = ClientCertificates::Required,
        requires = "client_ca",
        help = "write `client_ca`, the trusted CAs for clients, or remove this key",
        live
    )]
    pub client_certificate: ClientCertificates,
}

/// Whether clients need a certificate (mTLS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum ClientCertificates {
    /// Connections without one are rejected.
    Required,
    /// Clients without one may use another credential.
    Optional,
}

impl Setting for ServerTls {
    const KIND: ValueKind = ValueKind::Section(ServerTlsOptions::keys);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Self::new(OpenSection::read(value, None)?).or_else(|error| {
            let help = "name the private key of this certificate";
            let span = value.node.get("key").map_or(value.key_span, |node| node.span);
            value.reject_at(span, Invalid::without_value(error.to_string(), help))
        })
    }
}

impl ServerTls {
    /// Builds the TLS configuration.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if a certificate or key can't be read, or if certificate and key do not match.
    pub fn new(options: ServerTlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3");
        let is_required = options.client_certificate == ClientCertificates::Required;
        let (certificates, key) = read_identity(&options.certificate, &options.key)?;
        let client_verifier = match &options.client_ca {
            None => None,
            Some(Pem(pem)) => {
                let roots = Arc::new(roots(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = if is_required { verifier } else { verifier.allow_unauthenticated() }.build();
                Some(verifier.map_err(|_| TlsError::Certificates)?)
            }
        };
        let builder = match &client_verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(TlsError::Mismatch)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // TLS secrets must not be written to the file that `SSLKEYLOGFILE` names.
        config.key_log = Arc::new(rustls::NoKeyLog);
        let trusted_cas = sha256(options.client_ca.as_ref().map_or(&[], |Pem(pem)| pem));
        let (config, options) = (Arc::new(config), Arc::new(options));
        Ok(Self { config, client_verifier, trusted_cas, options })
    }

    /// Builds the TLS configuration for connections to another replica, which has the same settings.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if the system has no trusted CAs.
    pub fn to_replica(&self) -> Result<ClientTls, TlsError> {
        let ServerTlsOptions { certificate, key, client_ca, .. } = &*self.options;
        // If clients may present a certificate, replicas present their server certificates to each other.
        let presented = |pem: &Pem| client_ca.is_some().then(|| pem.clone());
        let (certificate, key) = (presented(certificate), presented(key));
        ClientTls::new(ClientTlsOptions { certificate, key, ..ClientTlsOptions::default() })
    }

    /// Performs the TLS handshake with a client.
    ///
    /// # Errors
    ///
    /// If the client does not support TLS, lacks a required certificate or presents an untrusted one, or
    /// disconnects.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<ServerStream> {
        TlsAcceptor::from(self.config.clone()).accept(stream).await
    }

    /// Returns the verified certificate that a client has presented, if any.
    pub fn client_certificate(&self, stream: &ServerStream) -> Option<ClientCertificate> {
        let (leaf, others) = stream.get_ref().1.peer_certificates()?.split_first()?;
        let intermediates = others.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let verified_with = Some(self.trusted_cas);
        Some(ClientCertificate { intermediates, verified_with, ..ClientCertificate::read(leaf)? })
    }

    /// Whether a trusted CA has signed a certificate. Verifies it again if the trusted CAs have changed since
    /// the connection was opened.
    pub fn trusts(&self, certificate: &ClientCertificate) -> bool {
        let ClientCertificate { der, intermediates, verified_with, .. } = certificate;
        let Some(verifier) = &self.client_verifier else { return false };
        *verified_with == Some(self.trusted_cas)
            || verifier.verify_client_cert(&der.as_slice().into(), intermediates, UnixTime::now()).is_ok()
    }
}
