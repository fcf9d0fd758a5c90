//! Errors of TLS, with advice for failed handshakes.

use std::io;

use rustls::{AlertDescription, CertificateError};

/// Reason why TLS can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's store of trusted CAs is missing or empty.
    #[error("the system has no root certificates that can be read")]
    NoSystemRoots,
    /// PEM data without a certificate, or with a malformed one.
    #[error("expected certificates in PEM, found no valid one")]
    Certificates,
    /// PEM data without a valid private key.
    #[error("expected a private key in PEM, found no valid one")]
    Key,
    /// A key that does not belong to the certificate, or is of an unsupported type.
    #[error("the private key does not match the certificate")]
    Mismatch(#[source] rustls::Error),
    /// Neither a host name nor an IP address.
    #[error("expected a host name or an IP address")]
    ServerName,
}

/// Adds advice to a TLS error, if there is advice for it.
pub(super) fn with_advice(error: io::Error) -> io::Error {
    let advice = error.get_ref().and_then(|inner| inner.downcast_ref()).and_then(advice_for);
    match advice {
        Some(advice) => io::Error::new(error.kind(), format!("{advice}: {error}")),
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
            "the server's certificate is not signed by a trusted CA; set `ca` of `tls` to its CA, or \
             `fingerprint` to the certificate's fingerprint"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; check the clocks"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name; `server_name` of `tls` sets the expected one"
        }
        CertificateError::ApplicationVerificationFailure => {
            "the server's certificate does not match `fingerprint` of `tls`"
        }
        // Self-signed certificates are often created as CAs (`openssl req -x509`), and the TLS library has no
        // error variant for such a server certificate.
        CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            "the server's certificate is a self-signed CA certificate; set `fingerprint` of `tls`"
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
            Some(advice) => assert!(message.contains(advice), "{message}"),
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
