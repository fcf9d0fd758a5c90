//! TLS to an upstream: whom to trust, and who we are.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

/// Whom an `https://` upstream is taken for, and how it knows us. TLS 1.2 and 1.3.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

/// What [`ClientTls`] is made of.
#[derive(Debug, Default)]
pub struct ClientTlsOptions {
    /// Whom to trust.
    pub trust: Trust,
    /// A certificate chain and its private key, both in PEM, for upstreams that ask who calls.
    pub identity: Option<Identity>,
    /// The name that the upstream's certificate must be for, and that is sent as SNI; the host of the address
    /// where there is none.
    pub server_name: Option<String>,
}

/// Whom to trust.
#[derive(Debug, Default)]
pub enum Trust {
    /// The roots of the system.
    #[default]
    System,
    /// These roots in PEM, and no others.
    Roots(Vec<u8>),
    /// The one certificate with this SHA-256 fingerprint, whatever it says of itself: old servers sign their own.
    Pinned([u8; 32]),
}

/// A certificate chain and its private key.
pub struct Identity {
    /// One or more certificates in PEM, our own first.
    pub certificates: Vec<u8>,
    /// The key in PEM: PKCS#8, PKCS#1 or SEC1, without a password.
    pub key: Vec<u8>,
}

/// Why TLS can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's store of roots is missing or empty.
    #[error("the system has no root certificates that can be read")]
    NoSystemRoots,
    /// A PEM text without a certificate in it, or with one that is broken.
    #[error("expected certificates in PEM, found none that can be read")]
    Certificates,
    /// A PEM text without a private key in it.
    #[error("expected a private key in PEM, found none that can be read")]
    Key,
    /// A key that is not the certificate's, or of a kind that is not known.
    #[error("the private key does not go with the certificate")]
    Mismatch(#[source] rustls::Error),
    /// No name of a host, and no address.
    #[error("expected a host name or an IP address")]
    ServerName,
}

impl ClientTls {
    /// Makes a configuration of it.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for what can't be read, or does not go together.
    pub fn new(options: ClientTlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3");
        let builder = match options.trust {
            Trust::System => builder.with_root_certificates(system_roots()?),
            Trust::Roots(pem) => builder.with_root_certificates(own_roots(&pem)?),
            Trust::Pinned(fingerprint) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint, provider })),
        };
        let mut config = match options.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|_| TlsError::Key)?;
                builder
                    .with_client_auth_cert(certificates(&identity.certificates)?, key)
                    .map_err(TlsError::Mismatch)?
            }
        };
        // Nothing of a secret may be written to where `SSLKEYLOGFILE` says.
        config.key_log = Arc::new(rustls::NoKeyLog);
        let server_name =
            options.server_name.map(ServerName::try_from).transpose().map_err(|_| TlsError::ServerName)?;
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// The same, offering these protocols (ALPN, RFC 7301).
    pub(super) fn offering(&self, protocols: &[&[u8]]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Self { config: Arc::new(config), server_name: self.server_name.clone() }
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// The name to ask for at `host`.
    pub(super) fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        if let Some(name) = &self.server_name {
            return Ok(name.clone());
        }
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        ServerName::try_from(host.to_owned()).map_err(|_| TlsError::ServerName)
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Identity(…)")
    }
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // A root that can't be read is one less to trust; the others still hold.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() { Err(TlsError::NoSystemRoots) } else { Ok(store) }
}

fn own_roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem)? {
        store.add(certificate).map_err(|_| TlsError::Certificates)?;
    }
    Ok(store)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or(TlsError::Certificates)
}

/// Takes one certificate for who it is, and no other. That the peer has its key is checked as always.
#[derive(Debug)]
struct Pinned {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint(certificate) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// SHA-256 of a certificate as it is sent, which is what `openssl x509 -fingerprint -sha256` shows.
fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    let provider = ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let rustls::SupportedCipherSuite::Tls13(suite) = provider else {
        unreachable!("the suite is one of TLS 1.3")
    };
    let hash = suite.common.hash_provider.hash(certificate);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
