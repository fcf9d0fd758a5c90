//! Why no connection came of a handshake, in words that say what to do about it.

use std::io;

use rustls::{AlertDescription, CertificateError};

/// What a library says of a handshake, with the words for whoever has to mend it before it.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
struct Refused {
    words: &'static str,
    #[source]
    source: io::Error,
}

/// The same error with words before it, where there are any.
pub(super) fn in_words(error: io::Error) -> io::Error {
    let words = error.get_ref().and_then(|inner| inner.downcast_ref()).and_then(words_for);
    match words {
        Some(words) => io::Error::new(error.kind(), Refused { words, source: error }),
        None => error,
    }
}

fn words_for(error: &rustls::Error) -> Option<&'static str> {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible};
    Some(match error {
        InvalidCertificate(reason) => words_for_certificate(reason)?,
        InvalidMessage(_) => "what answers there speaks no TLS; is its address `http://`?",
        PeerIncompatible(_) | AlertReceived(AlertDescription::ProtocolVersion) => {
            "it speaks no TLS 1.2 or 1.3, or nothing of it that is safe"
        }
        AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => "it wants a certificate of ours that it trusts: `certificate` and `key` of `tls`",
        _ => return None,
    })
}

fn words_for_certificate(reason: &CertificateError) -> Option<&'static str> {
    Some(match reason {
        CertificateError::UnknownIssuer => {
            "nobody who is trusted vouches for its certificate; name its roots by `ca` of `tls`, or the certificate itself \
             by `fingerprint`"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; look at the clocks"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name; `server_name` of `tls` says for which it should be"
        }
        CertificateError::ApplicationVerificationFailure => {
            "its certificate is another one than `fingerprint` of `tls` names"
        }
        CertificateError::Revoked => "its certificate was revoked",
        // What signs itself is often made as a root is (`openssl req -x509`), and has no variant of its own.
        CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            "it has signed its certificate itself, as a root does; name it by `fingerprint` of `tls`"
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
        let told = in_words(error).to_string();
        match expected {
            Some(words) => assert!(told.contains(words), "{told}"),
            None => assert!(!told.contains('`'), "{told}"),
        }
    }

    #[test]
    fn a_handshake_that_fails_says_what_to_do() {
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
