//! TLS for outgoing connections: trusted CAs, ALPN, and the client certificate of glossator (mTLS).

use std::{io, sync::Arc};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use settings_derive::Section;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::certificates::{Pem, read_certificate, read_identity, read_key, read_trusted_cas, roots};
use super::{TlsError, with_advice};
use crate::crypto::{Digest, parse_digest, sha256};
use crate::settings::suggest::quoted;
use crate::settings::{
    Checked, Code, Cursor, FromText, Invalid, OpenSection, Report, Section as _, Setting, SourceSpan,
    ValueKind, text_of,
};

/// A TLS connection to a server.
type ClientStream = tokio_rustls::client::TlsStream<TcpStream>;

/// TLS configuration for outgoing connections, such as to an upstream or a store: trusted CAs and client
/// certificate. TLS 1.2 and 1.3.
#[derive(Debug, Clone, derive_more::Eq, derive_more::PartialEq)]
pub struct ClientTls {
    /// Built from the options and the system's CAs.
    #[eq(skip)]
    config: Arc<ClientConfig>,
    /// The options that the configuration was built from, for libraries that open their own connections.
    pub(crate) options: Arc<ClientTlsOptions>,
    /// Digest of the system's CAs; `None` if the system's CAs are not trusted.
    system_roots: Option<Digest>,
}

/// The section `tls` of an upstream.
#[derive(Debug, Default, PartialEq, Eq, Section)]
#[section(id = "tls", variables)]
pub struct ClientTlsOptions {
    /// Trusted CAs, in PEM: `file:/path`, `${NAME}` or the text itself.
    #[key(with = read_trusted_cas, file, shown = "those of the system", conflicts = "fingerprint")]
    pub ca: Option<Pem>,
    /// Instead of CAs: the SHA-256 fingerprint of the one trusted certificate, for self-signed servers.
    pub fingerprint: Option<Fingerprint>,
    /// Name that the certificate must have, and that is sent as SNI.
    #[key(with = read_server_name, shown = "the host of `url`")]
    pub server_name: Option<String>,
    /// Client certificate chain, in PEM, for servers that request one.
    #[key(with = read_certificate, file, requires = "key")]
    pub certificate: Option<Pem>,
    /// Its private key, in PEM: `file:/path` or `${NAME}`.
    #[key(with = read_key, file, masked, requires = "certificate")]
    pub key: Option<Pem>,
}

/// SHA-256 fingerprint of a certificate: hexadecimal digits, optionally with the prefix `sha256:`, and with
/// colons between the bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Fingerprint(pub Digest);

impl FromText for Fingerprint {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let trimmed = text.trim();
        let digits: String = trimmed.strip_prefix("sha256:").unwrap_or(trimmed).split(':').collect();
        parse_digest(&digits).map(Self).ok_or_else(|| {
            let help =
                "write the 32 pairs of hexadecimal digits that `openssl x509 -noout -fingerprint -sha256` \
                 shows";
            Invalid::new(format!("expected a SHA-256 fingerprint, found {}", quoted(text)), help)
        })
    }
}

fn read_server_name(value: &Cursor<'_>) -> Checked<Option<String>> {
    let name = text_of(value)?.to_owned();
    if ServerName::try_from(name.as_str()).is_err() {
        let help = "write the host name in the certificate: `internal.example.com`";
        return value.reject(Invalid::without_value(TlsError::ServerName.to_string(), help));
    }
    Ok(Some(name))
}

impl Setting for ClientTls {
    const KIND: ValueKind = ValueKind::Section(ClientTlsOptions::keys);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Self::new(OpenSection::read(value, None)?).or_else(|error| {
            let (node, help) = match error {
                TlsError::Mismatch(_) => (value.node.get("key"), "name the private key of this certificate"),
                _ => (None, NO_ROOTS_HELP),
            };
            let span = node.map_or(value.key_span, |node| node.span);
            value.reject_at(span, Invalid::without_value(error.to_string(), help))
        })
    }
}

const NO_ROOTS_HELP: &str =
    "install `ca-certificates`, or set the trusted CAs: `tls: { ca: file:/etc/ssl/our-ca.pem }`";

impl ClientTls {
    /// Builds the TLS configuration.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if a certificate or key can't be read, if certificate and key do not match, or if the
    /// system's CAs are needed and there are none.
    pub fn new(options: ClientTlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3");
        let mut system_roots = None;
        let builder = match (&options.ca, &options.fingerprint) {
            (Some(Pem(pem)), _) => builder.with_root_certificates(roots(pem)?),
            (None, Some(Fingerprint(fingerprint))) => {
                let pinned = Arc::new(Pinned { fingerprint: *fingerprint, provider });
                builder.dangerous().with_custom_certificate_verifier(pinned)
            }
            (None, None) => {
                let system_certificates = rustls_native_certs::load_native_certs().certs;
                let bytes: Vec<u8> =
                    system_certificates.iter().flat_map(|certificate| certificate.to_vec()).collect();
                system_roots = Some(sha256(&bytes));
                let mut store = RootCertStore::empty();
                // A CA that can't be parsed is not trusted; the others remain valid.
                store.add_parsable_certificates(system_certificates);
                if store.is_empty() {
                    return Err(TlsError::NoSystemRoots);
                }
                builder.with_root_certificates(store)
            }
        };
        let mut config = match options.certificate.as_ref().zip(options.key.as_ref()) {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (certificates, key) = read_identity(certificate, key)?;
                builder.with_client_auth_cert(certificates, key).map_err(TlsError::Mismatch)?
            }
        };
        // TLS secrets must not be written to the file that `SSLKEYLOGFILE` names.
        config.key_log = Arc::new(rustls::NoKeyLog);
        Ok(Self { config: Arc::new(config), options: Arc::new(options), system_roots })
    }

    /// Builds the default TLS configuration, for a server without a section `tls`. `None` if that fails,
    /// which is reported as a problem at `span`.
    pub(crate) fn with_defaults(report: &Report<'_>, span: SourceSpan) -> Option<Self> {
        let result = Self::new(ClientTlsOptions::default());
        result
            .map_err(|error| report.error(Code::InvalidValue.at_span(span), error.to_string(), NO_ROOTS_HELP))
            .ok()
    }

    /// Returns the TLS configuration for a section with an address: its key `tls`, or the defaults if the
    /// address needs TLS. A key `tls` without effect is an error. `scheme` is the URL scheme of addresses
    /// with TLS.
    pub(crate) fn for_address(
        configured: Option<Self>,
        is_tls: bool,
        scheme: &str,
        section: &OpenSection<'_>,
    ) -> Checked<Option<Self>> {
        let value = &section.value;
        match section.entry("tls") {
            Some(entry) if !is_tls => {
                let message = format!("`tls` has no effect: the address is not `{scheme}`");
                let help = format!("write an address with `{scheme}`, or remove `tls`");
                Err(section.reject_at(Code::TlsWithoutHttps.at_span(entry.key.span), &message, &help))
            }
            None if is_tls => {
                value.checked(Self::with_defaults(value.context.report, value.key_span)).map(Some)
            }
            Some(_) | None => Ok(configured),
        }
    }

    /// Copies the configuration, and offers these protocols in the handshake (ALPN, RFC 7301).
    pub fn with_alpn(&self, protocols: &[&[u8]]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Performs the TLS handshake with the server `host`.
    ///
    /// # Errors
    ///
    /// If the certificate is not trusted, the server does not support TLS, or the connection breaks.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<ClientStream> {
        let name = self.options.server_name.as_deref().unwrap_or(host);
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| io::Error::other(TlsError::ServerName))?;
        TlsConnector::from(self.config.clone()).connect(name, stream).await.map_err(with_advice)
    }
}

/// Certificate verifier that trusts exactly one certificate. The handshake still proves that the server has
/// the private key of the certificate.
#[derive(Debug)]
struct Pinned {
    fingerprint: Digest,
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
        // The same digest as `openssl x509 -fingerprint -sha256` prints.
        if sha256(certificate) == self.fingerprint {
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
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
