//! TLS 1.2 and 1.3 for clients and servers: certificates, keys, and the TLS configurations built from them.
//!
//! - [`ClientTls`] connects to an upstream.
//! - [`ServerTls`] accepts connections of clients, which may present a [`ClientCertificate`] (mTLS).
//!
//! Both are built when the configuration is loaded, so that errors in a file are reported then. Two that are
//! built from the same files are equal (`==`), so that a reload keeps the connections.
//!
//! No other module uses the TLS library.

mod client;
mod server;

use std::{io, time::SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, RootCertStore};

use crate::settings::{Checked, Cursor, Invalid, Setting, text_of};

pub use client::{ClientTls, ClientTlsOptions, Fingerprint};
pub use server::{ClientCertificate, ClientCertificates, ServerStream, ServerTls, ServerTlsOptions};

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
fn read_certificate<T: From<Pem>>(value: &Cursor<'_>) -> Checked<T> {
    read_certificates(value, |expiries| expiries.into_iter().min()).map(T::from)
}

/// Reads trusted CAs. The CAs expire with the last of them.
fn read_trusted_cas(value: &Cursor<'_>) -> Checked<Option<Pem>> {
    // Old CAs may remain in the file beside their replacements.
    read_certificates(value, |expiries| expiries.into_iter().max()).map(Some)
}

/// Reads certificates, and records their expiry time for `/metrics` and warnings. `expiry` selects it from
/// the times of all certificates.
fn read_certificates(value: &Cursor<'_>, expiry: fn(Vec<SystemTime>) -> Option<SystemTime>) -> Checked<Pem> {
    let pem = Pem::read(value)?;
    if certificates(&pem.0).is_none() {
        let help = "name a PEM file, which begins with `-----BEGIN CERTIFICATE-----`";
        return value.reject(Invalid::without_value(TlsError::Certificates.to_string(), help));
    }
    if let Some(expiry) = expiry(expiries(&pem.0)) {
        value.context.report.add_certificate(value.node.span, expiry);
    }
    Ok(pem)
}

/// Reads a private key.
fn read_key<T: From<Pem>>(value: &Cursor<'_>) -> Checked<T> {
    let pem = Pem::read(value)?;
    if PrivateKeyDer::from_pem_slice(&pem.0).is_err() {
        let help =
            "name a file that begins `-----BEGIN PRIVATE KEY-----`; keys with a password can't be read";
        return value.reject(Invalid::without_value(TlsError::Key.to_string(), help));
    }
    Ok(pem.into())
}

/// Reason why TLS can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's store of trusted CAs is missing or empty.
    #[error("the system has no root certificates that can be read")]
    NoSystemRoots,
    /// A PEM text without a certificate, or with a malformed one.
    #[error("expected certificates in PEM, found no valid one")]
    Certificates,
    /// A PEM text without a private key.
    #[error("expected a private key in PEM, found no valid one")]
    Key,
    /// A key that does not belong to the certificate, or is of an unsupported type.
    #[error("the private key does not match the certificate")]
    Mismatch(#[source] rustls::Error),
    /// Neither a host name nor an IP address.
    #[error("expected a host name or an IP address")]
    ServerName,
}

/// Reads a certificate chain, which begins with the own certificate, and its private key: PKCS#8, PKCS#1 or
/// SEC1, without a password.
fn read_identity(
    Pem(certificate): &Pem,
    Pem(key): &Pem,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
    Ok((certificates(certificate).ok_or(TlsError::Certificates)?, key))
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem).ok_or(TlsError::Certificates)? {
        store.add(certificate).map_err(|_| TlsError::Certificates)?;
    }
    Ok(store)
}

/// Returns the expiry time of each certificate in a PEM text. Certificates that can't be parsed are omitted.
pub fn expiries(pem: &[u8]) -> Vec<SystemTime> {
    certificates(pem)
        .unwrap_or_default()
        .iter()
        .filter_map(|certificate| ClientCertificate::read(certificate)?.until)
        .collect()
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}

/// Adds advice to a TLS error, if there is advice for it.
fn with_advice(error: io::Error) -> io::Error {
    let words = error.get_ref().and_then(|inner| inner.downcast_ref()).and_then(advice_for);
    match words {
        Some(words) => io::Error::new(error.kind(), format!("{words}: {error}")),
        None => error,
    }
}

fn advice_for(error: &rustls::Error) -> Option<&'static str> {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible};
    Some(match error {
        InvalidCertificate(reason) => certificate_advice(reason)?,
        InvalidMessage(_) => "the server does not use TLS; is its URL `http://`?",
        PeerIncompatible(_) | AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server supports no TLS 1.2 or 1.3, or no secure cipher suite"
        }
        AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => "the server requires a client certificate that it trusts: set `certificate` and `key` of `tls`",
        _ => return None,
    })
}

fn certificate_advice(reason: &CertificateError) -> Option<&'static str> {
    Some(match reason {
        CertificateError::UnknownIssuer => {
            "its certificate is not signed by a trusted CA; set `ca` of `tls` to its CA, or `fingerprint` \
             to the certificate's fingerprint"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clocks"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name; `server_name` of `tls` sets the expected one"
        }
        CertificateError::ApplicationVerificationFailure => {
            "its certificate does not match `fingerprint` of `tls`"
        }
        // Self-signed certificates are often created as CAs (`openssl req -x509`), and the TLS library has no
        // error variant for such a server certificate.
        CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is a self-signed CA certificate; set `fingerprint` of `tls`"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use rustls::{InvalidMessage, PeerIncompatible};

    use super::*;

    #[track_caller]
    fn check(error: impl Into<rustls::Error>, expected: Option<&str>) {
        let error = io::Error::new(io::ErrorKind::InvalidData, error.into());
        let message = with_advice(error).to_string();
        match expected {
            Some(words) => assert!(message.contains(words), "{message}"),
            None => assert!(!message.contains('`'), "{message}"),
        }
    }

    #[test]
    fn a_failed_handshake_is_an_error_with_advice() {
        check(CertificateError::UnknownIssuer, Some("`ca` of `tls`"));
        check(CertificateError::NotValidForName, Some("`server_name`"));
        check(CertificateError::ApplicationVerificationFailure, Some("`fingerprint`"));
        check(CertificateError::Expired, Some("has expired"));
        check(InvalidMessage::InvalidContentType, Some("`http://`"));
        check(PeerIncompatible::ServerDoesNotSupportTls12Or13, Some("TLS 1.2"));
        check(rustls::Error::AlertReceived(AlertDescription::CertificateRequired), Some("`certificate`"));
        check(rustls::Error::DecryptError, None);
    }
}
