//! Client certificates: the names in a verified certificate (RFC 5280), by which a client is identified.

use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;

use crate::crypto::Digest;

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
        let mut parsed = Self {
            der: der.to_vec(),
            common_name: common_name(fields.subject()),
            until: Some(fields.validity().not_after.to_system_time()),
            ..Self::default()
        };
        for name in names.into_iter().flatten() {
            match name {
                GeneralName::DnsName(name) => parsed.dns_names.push(name.as_str().to_ascii_lowercase()),
                GeneralName::UniformResourceIdentifier(uri) => parsed.uris.push(uri.as_str().to_owned()),
                _ => {}
            }
        }
        Some(parsed)
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
        let parsed = ClientCertificate::read(&certificate(&["backup \u{fc}"])).unwrap();
        assert_eq!(parsed.common_name.as_deref(), Some("backup \u{fc}"));
        assert_eq!(parsed.dns_names, ["client.test"]);
        assert_eq!(parsed.uris, ["spiffe://test/client"]);
        assert!(parsed.until.is_some());
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
            let expiry = ClientCertificate::read(&der).unwrap().until.unwrap();
            assert_eq!(expiry.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), seconds);
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
