//! Certificates and private keys in PEM, and when they expire.

use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{ClientCertificate, TlsError};
use crate::settings::{Checked, Cursor, Invalid, Setting, text_of};

/// Certificates or a private key in PEM. `Debug` does not print the content.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[debug("Pem(…)")]
pub struct Pem(pub Vec<u8>);

impl Setting for Pem {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        text_of(value).map(|text| Self(text.as_bytes().to_vec()))
    }
}

/// Reads a certificate chain of glossator. The chain expires with the first of its certificates.
pub(super) fn read_certificate<T: From<Pem>>(value: &Cursor<'_>) -> Checked<T> {
    read_certificates(value, |expiries| expiries.into_iter().min()).map(T::from)
}

/// Reads trusted CAs. The CAs expire with the last of them.
pub(super) fn read_trusted_cas(value: &Cursor<'_>) -> Checked<Option<Pem>> {
    // Old CAs may remain in the file beside their replacements.
    let pem = read_certificates(value, |expiries| expiries.into_iter().max())?;
    match roots(&pem.0) {
        Ok(_) => Ok(Some(pem)),
        Err(error) => value.reject(Invalid::without_value(error.to_string(), CERTIFICATES_HELP)),
    }
}

const CERTIFICATES_HELP: &str = "name a PEM file, which begins with `-----BEGIN CERTIFICATE-----`";

/// Reads certificates, and records their expiry time for `/metrics` and warnings. `select_expiry` selects it
/// from the times of all certificates.
fn read_certificates(
    value: &Cursor<'_>,
    select_expiry: fn(Vec<SystemTime>) -> Option<SystemTime>,
) -> Checked<Pem> {
    let pem = Pem::read(value)?;
    if certificates(&pem.0).is_none() {
        let message = TlsError::Certificates.to_string();
        return value.reject(Invalid::without_value(message, CERTIFICATES_HELP));
    }
    if let Some(expiry) = select_expiry(expiries(&pem.0)) {
        value.context.report.add_certificate(value.node.span, expiry);
    }
    Ok(pem)
}

/// Reads a private key.
pub(super) fn read_key<T: From<Pem>>(value: &Cursor<'_>) -> Checked<T> {
    let pem = Pem::read(value)?;
    if PrivateKeyDer::from_pem_slice(&pem.0).is_err() {
        let help =
            "name a PEM file, which begins with `-----BEGIN PRIVATE KEY-----`; encrypted keys can't be read";
        return value.reject(Invalid::without_value(TlsError::Key.to_string(), help));
    }
    Ok(pem.into())
}

/// Reads a certificate chain, leaf certificate first, and its unencrypted private key: PKCS#8, PKCS#1 or
/// SEC1.
pub(super) fn read_identity(
    Pem(certificate): &Pem,
    Pem(key): &Pem,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
    Ok((certificates(certificate).ok_or(TlsError::Certificates)?, key))
}

pub(super) fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem).ok_or(TlsError::Certificates)? {
        store.add(certificate).map_err(|_| TlsError::Certificates)?;
    }
    Ok(store)
}

/// Returns the expiry time of each certificate in PEM data. Certificates that can't be parsed are omitted;
/// malformed PEM gives an empty list.
pub fn expiries(pem: &[u8]) -> Vec<SystemTime> {
    certificates(pem)
        .unwrap_or_default()
        .iter()
        .filter_map(|certificate| ClientCertificate::read(certificate)?.until)
        .collect()
}

pub(super) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}
