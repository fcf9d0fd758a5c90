//! TLS with clients: the server certificate (one for all server names, no SNI selection), the trusted CAs of
//! client certificates (mTLS), and the names in client certificates, which are read after verification (RFC
//! 5280).

use std::{io, sync::Arc, time::SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use settings_derive::{Section, Word};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;

use super::certificates::{Pem, read_certificate, read_identity, read_key, read_trusted_cas, roots};
use super::{ClientTls, ClientTlsOptions, TlsError};
use crate::crypto::{Digest, sha256};
use crate::settings::{Checked, Cursor, Invalid, OpenSection, Section as _, Setting, ValueKind};

/// A TLS connection from a client.
pub type ServerStream = tokio_rustls::server::TlsStream<TcpStream>;

/// TLS configuration for connections from clients: the server certificate, and whether clients present one.
/// Offers HTTP/2 and HTTP/1.1.
#[derive(Debug, Clone, derive_more::Eq, derive_more::PartialEq)]
pub struct ServerTls {
    /// Built from the options, as `roots` is.
    #[eq(skip)]
    config: Arc<ServerConfig>,
    /// Verifies client certificates against the trusted CAs; `None` without client certificates.
    #[eq(skip)]
    roots: Option<Arc<dyn ClientCertVerifier>>,
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

/// Whether clients need a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Word)]
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
            let place = value.node.get("key").map_or(value.place, |node| node.span);
            value.reject_at(place, Invalid::without_value(error.to_string(), help))
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
        let verifier = match &options.client_ca {
            None => None,
            Some(Pem(pem)) => {
                let roots = Arc::new(roots(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = if is_required { verifier } else { verifier.allow_unauthenticated() }.build();
                Some(verifier.map_err(|_| TlsError::Certificates)?)
            }
        };
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(TlsError::Mismatch)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // TLS secrets must not be written to the file that `SSLKEYLOGFILE` names.
        config.key_log = Arc::new(rustls::NoKeyLog);
        let trusted_cas = sha256(options.client_ca.as_ref().map_or(&[], |Pem(pem)| pem));
        Ok(Self { config: Arc::new(config), roots: verifier, trusted_cas, options: Arc::new(options) })
    }

    /// Builds the TLS configuration for connections to another replica, which has the same settings.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if the system has no trusted CAs.
    pub fn to_replica(&self) -> Result<ClientTls, TlsError> {
        let ServerTlsOptions { certificate, key, client_ca, .. } = &*self.options;
        // If clients must present a certificate, replicas present their server certificates to each other.
        let own = |pem: &Pem| client_ca.is_some().then(|| pem.clone());
        let (certificate, key) = (own(certificate), own(key));
        ClientTls::new(ClientTlsOptions { certificate, key, ..ClientTlsOptions::default() })
    }

    /// Performs the TLS handshake with a client.
    ///
    /// # Errors
    ///
    /// When the client does not support TLS, has no trusted certificate, or disconnects.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<ServerStream> {
        TlsAcceptor::from(self.config.clone()).accept(stream).await
    }

    /// Returns the verified certificate that a client has presented, if any.
    pub fn client_certificate(&self, stream: &ServerStream) -> Option<ClientCertificate> {
        let (first, others) = stream.get_ref().1.peer_certificates()?.split_first()?;
        let intermediates = others.iter().map(|one| one.clone().into_owned()).collect();
        let verified_with = Some(self.trusted_cas);
        Some(ClientCertificate { intermediates, verified_with, ..ClientCertificate::read(first)? })
    }

    /// Whether a trusted CA has signed a certificate. Verifies it again if the trusted CAs have changed since
    /// the connection was opened.
    pub fn trusts(&self, certificate: &ClientCertificate) -> bool {
        let ClientCertificate { der, intermediates, verified_with, .. } = certificate;
        let Some(roots) = &self.roots else { return false };
        *verified_with == Some(self.trusted_cas)
            || roots.verify_client_cert(&der.as_slice().into(), intermediates, UnixTime::now()).is_ok()
    }
}

/// A client certificate: its names, its expiry time, and the data to verify it again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate in DER.
    pub der: Vec<u8>,
    /// The common name of the subject; `None` if there is none, or more than one.
    pub common_name: Option<String>,
    /// DNS names of the subject alternative names, in lower case.
    pub dns_names: Vec<String>,
    /// URIs of the subject alternative names.
    pub uris: Vec<String>,
    /// Time at which the certificate expires.
    pub until: Option<SystemTime>,
    /// Intermediate certificates that the client has presented.
    pub(crate) intermediates: Vec<CertificateDer<'static>>,
    /// Digest of the trusted CAs that verified the certificate; `None` before verification.
    pub(crate) verified_with: Option<Digest>,
}

/// `id-at-commonName` (RFC 5280, appendix A.1).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

impl ClientCertificate {
    /// Parses a certificate in DER; `None` if it can't be parsed.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let fields = certificate.tbs_certificate();
        let names = fields.get_extension::<SubjectAltName>().ok()?.map(|(_, names)| names.0);
        let mut found = Self {
            der: der.to_vec(),
            common_name: common_name(fields.subject()),
            until: Some(fields.validity().not_after.to_system_time()),
            ..Self::default()
        };
        for name in names.into_iter().flatten() {
            match name {
                GeneralName::DnsName(name) => found.dns_names.push(name.as_str().to_ascii_lowercase()),
                GeneralName::UniformResourceIdentifier(uri) => found.uris.push(uri.as_str().to_owned()),
                _ => {}
            }
        }
        Some(found)
    }
}

/// Returns the common name of a subject; `None` if there is none, or more than one.
fn common_name(subject: &Name) -> Option<String> {
    let mut names = subject.iter().filter(|attribute| attribute.oid == COMMON_NAME);
    let AttributeTypeAndValue { value, .. } = names.next().filter(|_| names.next().is_none())?;
    let is_text = matches!(value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    String::from_utf8(value.value().to_vec()).ok().filter(|_| is_text)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common_names: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["Client.Test".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::URI("spiffe://test/client".try_into().unwrap()));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        for name in common_names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_is_read() {
        let read = ClientCertificate::read(&certificate(&["backup \u{fc}"])).unwrap();
        assert_eq!(read.common_name.as_deref(), Some("backup \u{fc}"));
        assert_eq!(read.dns_names, ["client.test"]);
        assert_eq!(read.uris, ["spiffe://test/client"]);
        assert!(read.until.is_some());
        assert_eq!(ClientCertificate::read(&certificate(&[])).unwrap().common_name, None);
        assert!(ClientCertificate::read(b"no certificate").is_none());
    }

    #[test]
    fn a_certificate_has_its_expiry() {
        // Two encodings: years from 2050 on need four digits.
        for (year, seconds) in [(2031, 1_938_211_200), (2050, 2_537_827_200)] {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 6, 3);
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            let found = ClientCertificate::read(&der).unwrap().until.unwrap();
            assert_eq!(found.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), seconds);
            for end in 0..der.len() {
                let _ = ClientCertificate::read(&der[..end]);
            }
        }
    }

    #[test]
    fn a_client_is_identified_by_a_single_common_name() {
        for (subject, expected) in
            [("O=Example,CN=backup", Some("backup")), ("CN=backup,CN=other", None), ("O=Example", None)]
        {
            assert_eq!(common_name(&subject.parse().unwrap()).as_deref(), expected, "{subject}");
        }
    }
}
