//! Authentication with client certificates (mTLS): subject, alternative name or fingerprint identify a
//! client.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use super::{AuthError, ClientSettings, IdentifiedClient, KeyHash};
use crate::settings::{FromText, Invalid};
use crate::tls::ClientCertificate;
use crate::upstream::Client;

/// A name in a certificate that identifies a client. `client_ca` decides who may issue it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// The common name of the subject, if it has one.
    CommonName(String),
    /// A host name among the subject alternative names.
    Dns(String),
    /// A URI among the subject alternative names, such as a SPIFFE id.
    Uri(String),
    /// The fingerprint of exactly this certificate.
    Fingerprint(KeyHash),
}

impl FromText for CertificateName {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        if let Ok(hash) = KeyHash::from_text(&text.replace(':', "").replacen("sha256", "sha256:", 1)) {
            return Ok(Self::Fingerprint(hash));
        }
        let (kind, name) = text.split_once(':').unwrap_or_default();
        match (kind, name.trim()) {
            ("cn", name) if !name.is_empty() => Ok(Self::CommonName(name.to_owned())),
            ("dns", name) if !name.is_empty() => Ok(Self::Dns(name.to_ascii_lowercase())),
            ("uri", name) if !name.is_empty() => Ok(Self::Uri(name.to_owned())),
            _ => {
                let help = "write `dns:reports.example.com`, as the certificate has it";
                Err(Invalid::new("expected `cn:NAME`, `dns:NAME`, `uri:URI` or `sha256:…`", help))
            }
        }
    }
}

/// The clients that are identified by certificates.
#[derive(Debug, Default)]
pub(super) struct Certificates(HashMap<CertificateName, Arc<Client>>);

impl Certificates {
    pub(super) fn add(&mut self, settings: &ClientSettings, client: &Arc<Client>) {
        self.0.extend(settings.certificates.iter().map(|name| (name.clone(), Arc::clone(client))));
    }

    /// Returns the client of a certificate; none if two clients match, which is a mistake in the
    /// configuration. A connection can outlive the certificate that was presented at its start.
    pub(super) fn find(
        &self,
        certificate: &ClientCertificate,
        now: SystemTime,
    ) -> Result<IdentifiedClient, AuthError> {
        let ClientCertificate { der, common_name, dns_names, uris, until, .. } = certificate;
        if until.is_some_and(|until| until < now) {
            return Err(AuthError::Invalid("the certificate has expired"));
        }
        let names = std::iter::once(CertificateName::Fingerprint(KeyHash::from_key(der)))
            .chain(common_name.clone().map(CertificateName::CommonName))
            .chain(dns_names.iter().cloned().map(CertificateName::Dns))
            .chain(uris.iter().cloned().map(CertificateName::Uri));
        let mut found = names.filter_map(|name| self.0.get(&name));
        let client = found.next().ok_or(AuthError::Missing)?;
        if found.any(|other| other != client) {
            return Err(AuthError::Invalid("the certificate matches two clients"));
        }
        Ok(IdentifiedClient { client: Arc::clone(client), until: *until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{route::Scopes, settings::value::OneOrMore};

    fn client(name: &str, certificates: &[&str]) -> ClientSettings {
        ClientSettings {
            name: name.to_owned(),
            scopes: Scopes::default(),
            api_key_hashes: OneOrMore(Vec::new()),
            certificates: certificates.iter().map(|name| CertificateName::from_text(name).unwrap()).collect(),
            jwt_subjects: Vec::new(),
        }
    }

    #[test]
    fn a_certificate_is_known_by_any_of_its_names() {
        let hash = KeyHash::from_key(b"der").to_string();
        let all = [
            client("one", &["cn:backup", "dns:Backup.test"]),
            client("two", &["uri:spiffe://test/two", &hash]),
        ];
        let mut certificates = Certificates::default();
        all.iter().for_each(|settings| certificates.add(settings, &settings.client()));
        let end = SystemTime::now();
        let find = |common_name: Option<&str>, dns: &[&str], uris: &[&str], der: &[u8]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let shown = ClientCertificate {
                der: der.to_vec(),
                common_name: common_name.map(str::to_owned),
                dns_names: owned(dns),
                uris: owned(uris),
                until: Some(end),
                ..ClientCertificate::default()
            };
            certificates.find(&shown, end).map(|found| found.client.name.clone())
        };
        assert_eq!(find(Some("backup"), &[], &[], b"").unwrap(), "one");
        assert_eq!(find(None, &["x.test", "backup.test"], &[], b"").unwrap(), "one");
        assert_eq!(find(None, &[], &["spiffe://test/two"], b"").unwrap(), "two");
        assert_eq!(find(None, &[], &[], b"der").unwrap(), "two");
        assert_eq!(find(Some("Backup"), &["backup"], &["cn:backup"], b"x"), Err(AuthError::Missing));
        assert!(matches!(find(Some("backup"), &[], &[], b"der"), Err(AuthError::Invalid(_))));
        let mut shown = ClientCertificate { der: b"der".to_vec(), ..ClientCertificate::default() };
        assert!(certificates.find(&shown, end).is_ok());
        shown.until = Some(end);
        let after = certificates.find(&shown, end + std::time::Duration::from_secs(1));
        assert!(matches!(after, Err(AuthError::Invalid("the certificate has expired"))));
    }

    #[test]
    fn a_name_has_its_kind_as_prefix() {
        for wrong in ["", "backup", "cn:", "CN=backup", "email:x@test", "sha256:12"] {
            assert!(CertificateName::from_text(wrong).is_err(), "{wrong}");
        }
        let pairs = ["AB"; 32].join(":");
        let fingerprint = CertificateName::from_text(&format!("sha256:{pairs}"));
        assert!(matches!(fingerprint, Ok(CertificateName::Fingerprint(_))));
        let name = CertificateName::CommonName("a:b".to_owned());
        assert_eq!(CertificateName::from_text("cn:a:b"), Ok(name));
    }
}
