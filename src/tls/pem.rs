//! Certificates and keys in PEM, and what can be wrong with them.

use std::{fmt, time::SystemTime};

use ring::digest::{Context, SHA256};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::shown;

/// A certificate chain and its private key.
#[derive(Clone)]
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
    /// The same of those who may vouch for others.
    #[error("expected root certificates in PEM, found none that can be read")]
    Roots,
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

impl Identity {
    pub(super) fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| TlsError::Key)?;
        Ok((certificates(&self.certificates).ok_or(TlsError::Certificates)?, key))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Identity(…)")
    }
}

pub(super) fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem).ok_or(TlsError::Roots)? {
        store.add(certificate).map_err(|_| TlsError::Roots)?;
    }
    Ok(store)
}

/// When each certificate of a PEM text expires; those that can't be read are left out.
pub fn expiries(pem: &[u8]) -> Vec<SystemTime> {
    certificates(pem).unwrap_or_default().iter().filter_map(|certificate| shown::until(certificate)).collect()
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}

/// What something was made of, to be compared. Keys are in it as a digest only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MadeOf([u8; 32]);

impl MadeOf {
    /// Of these parts, in this order.
    pub(super) fn parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let digest = context.finish();
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}
