//! The configured clients by their credentials: API keys, client certificates (mTLS) by subject, alternative
//! name or fingerprint, and subjects (`sub`) of JWTs.

use std::{collections::HashMap, iter::once, sync::Arc, time::SystemTime};

use super::{ApiKeyHash, AuthError, ClientSettings, IdentifiedClient};
use crate::settings::{FromText, Invalid};
use crate::tls::ClientCertificate;
use crate::upstream::Client;

/// A name in a client certificate, or its fingerprint, which identifies a client. Only certificates issued by
/// `client_ca` are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// The common name (CN) of the subject.
    CommonName(String),
    /// A host name among the subject alternative names.
    Dns(String),
    /// A URI among the subject alternative names, such as a SPIFFE id.
    Uri(String),
    /// The fingerprint of exactly this certificate.
    Fingerprint(ApiKeyHash),
}

impl FromText for CertificateName {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        if let Ok(hash) = ApiKeyHash::from_text(&text.replace(':', "").replacen("sha256", "sha256:", 1)) {
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

/// The configured clients, by their credentials.
///
/// Hashes need no comparison in constant time: nobody can choose the hash of a key, or find a key of 256
/// random bits from a part of its hash.
#[derive(Debug, Default)]
pub(super) struct ConfiguredClients {
    keys: HashMap<ApiKeyHash, (Arc<Client>, Option<SystemTime>)>,
    certificates: HashMap<CertificateName, Arc<Client>>,
    /// Clients by the subject (`sub`) of their tokens.
    pub(super) subjects: HashMap<String, Arc<Client>>,
}

impl ConfiguredClients {
    pub(super) fn new(settings: &[ClientSettings]) -> Self {
        let mut clients = Self::default();
        for settings in settings {
            let ClientSettings { api_key_hashes, certificates, jwt_subjects, .. } = settings;
            let client = settings.client();
            let keys = api_key_hashes.0.iter().map(|key| (key.hash, (client.clone(), key.expires)));
            clients.keys.extend(keys);
            clients.certificates.extend(certificates.iter().map(|name| (name.clone(), client.clone())));
            clients.subjects.extend(jwt_subjects.iter().map(|subject| (subject.clone(), client.clone())));
        }
        clients
    }

    /// Identifies a client by its API key. Rejects unknown and expired keys.
    pub(super) fn by_key(&self, key: &str, now: SystemTime) -> Result<IdentifiedClient, AuthError> {
        match self.keys.get(&ApiKeyHash::from_key(key)) {
            Some((_, Some(until))) if *until <= now => Err(AuthError::Invalid("the key has expired")),
            Some((client, until)) => Ok(IdentifiedClient { client: Arc::clone(client), until: *until }),
            None => Err(AuthError::Invalid("the key is unknown")),
        }
    }

    /// Identifies a client by its certificate. Rejects a certificate that matches two clients, which is a
    /// mistake in the configuration, and one that has expired since the connection was opened.
    pub(super) fn by_certificate(
        &self,
        certificate: &ClientCertificate,
        now: SystemTime,
    ) -> Result<IdentifiedClient, AuthError> {
        let ClientCertificate { der, common_name, dns_names, uris, until, .. } = certificate;
        if until.is_some_and(|until| until < now) {
            return Err(AuthError::Invalid("the certificate has expired"));
        }
        let names = once(CertificateName::Fingerprint(ApiKeyHash::from_key(der)))
            .chain(common_name.clone().map(CertificateName::CommonName))
            .chain(dns_names.iter().cloned().map(CertificateName::Dns))
            .chain(uris.iter().cloned().map(CertificateName::Uri));
        let mut found = names.filter_map(|name| self.certificates.get(&name));
        let client = found.next().ok_or(AuthError::Missing)?;
        if found.any(|other| other != client) {
            return Err(AuthError::Invalid("the certificate matches two clients"));
        }
        Ok(IdentifiedClient { client: Arc::clone(client), until: *until })
    }
}

impl ClientSettings {
    /// The identity of the client, which is the same for all its credentials.
    pub(super) fn client(&self) -> Arc<Client> {
        Arc::new(Client::new(&format!("client {}", self.name), &self.name, self.scopes.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::auth::{ApiKey, random_api_key};
    use crate::{route::Scopes, settings::value::OneOrMore};

    #[test]
    fn a_key_is_its_clients_until_its_end() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let until = now + Duration::from_secs(1);
        let (old, new) = (random_api_key(), random_api_key());
        assert_ne!(old, new);
        let settings = ClientSettings {
            name: "reports".to_owned(),
            scopes: Scopes::from_client(["read"]),
            api_key_hashes: OneOrMore(vec![
                ApiKey { hash: ApiKeyHash::from_key(&old), expires: Some(until) },
                ApiKey { hash: ApiKeyHash::from_key(&new), expires: None },
            ]),
            certificates: Vec::new(),
            jwt_subjects: Vec::new(),
        };
        let clients = ConfiguredClients::new(&[settings]);
        let find = |key: &str, now| clients.by_key(key, now).map(|found| found.client.name.clone());
        assert_eq!(find(&old, now).unwrap(), "reports");
        assert_eq!(find(&old, until).unwrap_err(), AuthError::Invalid("the key has expired"));
        assert_eq!(find(&new, until).unwrap(), "reports");
        let hash = ApiKeyHash::from_key(&new).to_string();
        for wrong in ["x", &hash, &new[1..]] {
            assert_eq!(find(wrong, now).unwrap_err(), AuthError::Invalid("the key is unknown"));
        }
        assert!(!format!("{clients:?}").contains(&new[4..]));
    }

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
        let hash = ApiKeyHash::from_key(b"der").to_string();
        let all = [
            client("one", &["cn:backup", "dns:Backup.test"]),
            client("two", &["uri:spiffe://test/two", &hash]),
        ];
        let clients = ConfiguredClients::new(&all);
        let end = SystemTime::now();
        let find = |common_name: Option<&str>, dns: &[&str], uris: &[&str], der: &[u8]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let certificate = ClientCertificate {
                der: der.to_vec(),
                common_name: common_name.map(str::to_owned),
                dns_names: owned(dns),
                uris: owned(uris),
                until: Some(end),
                ..ClientCertificate::default()
            };
            clients.by_certificate(&certificate, end).map(|found| found.client.name.clone())
        };
        assert_eq!(find(Some("backup"), &[], &[], b"").unwrap(), "one");
        assert_eq!(find(None, &["x.test", "backup.test"], &[], b"").unwrap(), "one");
        assert_eq!(find(None, &[], &["spiffe://test/two"], b"").unwrap(), "two");
        assert_eq!(find(None, &[], &[], b"der").unwrap(), "two");
        assert_eq!(find(Some("Backup"), &["backup"], &["cn:backup"], b"x"), Err(AuthError::Missing));
        assert!(matches!(find(Some("backup"), &[], &[], b"der"), Err(AuthError::Invalid(_))));
        let mut certificate = ClientCertificate { der: b"der".to_vec(), ..ClientCertificate::default() };
        assert!(clients.by_certificate(&certificate, end).is_ok());
        certificate.until = Some(end);
        let expired = clients.by_certificate(&certificate, end + Duration::from_secs(1));
        assert!(matches!(expired, Err(AuthError::Invalid("the certificate has expired"))));
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
