//! TLS to an upstream: trusted CAs, and our client certificate (mTLS).

use std::{fmt, io, sync::Arc};

use ::ring::digest;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use settings_derive::Section;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{
    CertificateAndKey, Pem, SourceDigest, TlsError, read_certificate, read_key, read_trusted_cas, roots,
    with_advice,
};
use crate::settings::{
    code::Code,
    keys::ValueKind,
    report::Report,
    section::{Checked, Cursor, Invalid, OpenSection, Section as _, Setting},
    source::SourceSpan,
    suggest::quoted,
    value::{FromText, text_of, text_settings},
};

/// A TLS connection to an upstream.
pub type ClientStream = tokio_rustls::client::TlsStream<TcpStream>;

/// Client configuration for an `https://` upstream: its trusted CAs, and our certificate. TLS 1.2 and 1.3.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    options: Arc<ClientTlsOptions>,
    made_of: SourceDigest,
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        self.made_of == other.made_of && self.config.alpn_protocols == other.config.alpn_protocols
    }
}

impl Eq for ClientTls {}

/// The section `tls` of an upstream.
#[derive(Debug, Section)]
#[section(id = "tls", variables, check_keys = Self::check_keys)]
pub(crate) struct TlsSection {
    /// Trusted CAs, in PEM: `file:/path`, `${NAME}` or the text itself.
    #[key(with = read_trusted_cas, file, shown = "those of the system", conflicts = "fingerprint")]
    ca: Option<Pem>,
    /// Instead of CAs: the SHA-256 fingerprint of the one trusted certificate, for self-signed servers.
    fingerprint: Option<Fingerprint>,
    /// Name that the certificate must have, and that is sent as SNI.
    #[key(with = read_server_name, shown = "the host of `url`")]
    server_name: Option<String>,
    /// Client certificate chain, in PEM, for servers that request one.
    #[key(with = read_certificate, file)]
    certificate: Option<Pem>,
    /// Its private key, in PEM: `file:/path` or `${NAME}`.
    #[key(with = read_key, file, masked)]
    key: Option<Pem>,
}

impl TlsSection {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let (message, help) = match (section.entry("certificate"), section.entry("key")) {
            (Some(_), Some(_)) | (None, None) => return Ok(()),
            (Some(_), None) => {
                ("`certificate` has no `key` beside it", "write `key: file:/run/secrets/client.key`")
            }
            (None, Some(_)) => {
                ("`key` has no `certificate` beside it", "write `certificate: file:/run/secrets/client.pem`")
            }
        };
        Err(section.missing(message.to_owned(), help))
    }
}

/// The SHA-256 fingerprint of a certificate: hexadecimal digits, with colons between the pairs or without.
#[derive(Debug)]
struct Fingerprint([u8; 32]);

text_settings!(Fingerprint);

impl FromText for Fingerprint {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let trimmed = text.trim();
        let digits: String = trimmed.strip_prefix("sha256:").unwrap_or(trimmed).split(':').collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.filter(|_| is_hexadecimal && digits.len() == 64);
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(|| {
            let help =
                "write what `openssl x509 -noout -fingerprint -sha256` shows: 32 pairs of hexadecimal digits";
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
    const KIND: ValueKind = ValueKind::Section(TlsSection::keys);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let TlsSection { ca, fingerprint, server_name, certificate, key } = OpenSection::read(value, None)?;
        let trust = match (ca, fingerprint) {
            (Some(Pem(pem)), _) => Trust::Cas(pem),
            (None, Some(Fingerprint(fingerprint))) => Trust::Pinned(fingerprint),
            (None, None) => Trust::System,
        };
        let identity =
            certificate.zip(key).map(|(Pem(certificates), Pem(key))| CertificateAndKey { certificates, key });
        Self::new(ClientTlsOptions { trust, identity, server_name }).or_else(|error| {
            let place = value.node.get("key").filter(|_| matches!(error, TlsError::Mismatch(_)));
            let help = match error {
                TlsError::Mismatch(_) => "name the private key of this certificate",
                _ => NO_ROOTS_HELP,
            };
            let place = place.map_or(value.place, |node| node.span);
            value.reject_at(place, Invalid::without_value(error.to_string(), help))
        })
    }
}

const NO_ROOTS_HELP: &str =
    "install `ca-certificates`, or name the roots: `tls: { ca: file:/etc/ssl/our-ca.pem }`";

/// Options of [`ClientTls`].
#[derive(Debug, Default)]
pub struct ClientTlsOptions {
    /// The trusted certificates.
    pub trust: Trust,
    /// Our certificate chain and its private key, both in PEM, for upstreams that request a client
    /// certificate.
    pub identity: Option<CertificateAndKey>,
    /// The name that the upstream's certificate must have, and that is sent as SNI. `None` for the host of
    /// the address.
    pub server_name: Option<String>,
}

/// The trusted certificates.
#[derive(Debug, Default)]
pub enum Trust {
    /// The CAs of the system.
    #[default]
    System,
    /// These CAs in PEM, and no others.
    Cas(Vec<u8>),
    /// The one certificate with this SHA-256 fingerprint, independent of its names and issuer: old servers
    /// have self-signed ones.
    Pinned([u8; 32]),
}

impl ClientTls {
    /// Builds a configuration.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if a part can't be read, or the parts do not belong together.
    pub fn new(options: ClientTlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3");
        let builder = match &options.trust {
            Trust::System => {
                let found = rustls_native_certs::load_native_certs().certs;
                parts.push(b"system".to_vec());
                parts.extend(found.iter().map(|certificate| certificate.to_vec()));
                builder.with_root_certificates(system_roots(found)?)
            }
            Trust::Cas(pem) => {
                let roots = roots(pem)?;
                parts.extend([b"roots".to_vec(), pem.clone()]);
                builder.with_root_certificates(roots)
            }
            Trust::Pinned(fingerprint) => {
                parts.extend([b"pinned".to_vec(), fingerprint.to_vec()]);
                let pinned = Arc::new(Pinned { fingerprint: *fingerprint, provider });
                builder.dangerous().with_custom_certificate_verifier(pinned)
            }
        };
        let mut config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = identity.read()?;
                parts.extend([b"identity".to_vec(), identity.certificates.clone(), identity.key.clone()]);
                builder.with_client_auth_cert(certificates, key).map_err(TlsError::Mismatch)?
            }
        };
        // Secrets must not be written to the file that `SSLKEYLOGFILE` names.
        config.key_log = Arc::new(rustls::NoKeyLog);
        parts.extend(
            options.server_name.iter().flat_map(|name| [b"name".to_vec(), name.clone().into_bytes()]),
        );
        let server_name = options.server_name.clone().map(ServerName::try_from).transpose();
        let server_name = server_name.map_err(|_| TlsError::ServerName)?;
        let made_of = SourceDigest::parts(parts.iter().map(Vec::as_slice));
        Ok(Self { config: Arc::new(config), server_name, options: Arc::new(options), made_of })
    }

    /// The options that it was built from, for a library that opens its own connections.
    pub fn options(&self) -> &ClientTlsOptions {
        &self.options
    }

    /// TLS with all defaults, without a section `tls`. `None` if that is impossible, which is reported.
    pub(crate) fn with_defaults(report: &Report<'_>, place: SourceSpan) -> Option<Self> {
        let made = Self::new(ClientTlsOptions::default());
        made.map_err(|error| {
            report.error(Code::InvalidValue.at_span(place), error.to_string(), NO_ROOTS_HELP)
        })
        .ok()
    }

    /// Copies the configuration, with these protocols in the handshake (ALPN, RFC 7301).
    pub fn with_alpn(&self, protocols: &[&[u8]]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Performs the handshake with the server `host`.
    ///
    /// # Errors
    ///
    /// When the certificate is not trusted, the server does not support TLS, or the connection breaks.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<ClientStream> {
        let server_name = self.server_name(host).map_err(io::Error::other)?;
        TlsConnector::from(self.config.clone()).connect(server_name, stream).await.map_err(with_advice)
    }

    /// Whether HTTP/2 was negotiated.
    pub fn negotiated_h2(stream: &ClientStream) -> bool {
        stream.get_ref().1.alpn_protocol() == Some(b"h2")
    }

    /// The name for SNI and certificate checks at `host`.
    fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
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

fn system_roots(found: Vec<CertificateDer<'static>>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // An unreadable CA is not trusted; the others remain valid.
    store.add_parsable_certificates(found);
    if store.is_empty() { Err(TlsError::NoSystemRoots) } else { Ok(store) }
}

/// Trusts exactly one certificate. The handshake still proves that the peer has its key.
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

/// SHA-256 of a certificate in DER, which is the output of `openssl x509 -fingerprint -sha256`.
fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    let hash = digest::digest(&digest::SHA256, certificate);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
