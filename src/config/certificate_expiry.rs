//! Expiry of the configured certificates.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::settings::{Code, Node, Report};

/// Time before the expiry of a certificate at which warnings begin.
const WARNED_BEFORE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Expiry of the certificates that a setting contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Path of the setting, such as `server.tls.certificate`.
    pub setting: String,
    /// Time of the expiry: the earliest one in a certificate chain, the latest one of several trusted CAs.
    pub at: SystemTime,
}

/// Lists the expiry of each configured certificate with the path of its setting. Warns of certificates that
/// have expired or will expire soon.
pub(super) fn read(report: &Report<'_>, root: &Node) -> Vec<CertificateExpiry> {
    let (expiries, now) = (report.certificates(), SystemTime::now());
    for (span, expires_at) in &expiries {
        let date = Timestamp::try_from(*expires_at)
            .map_or_else(|_| "an unknown date".to_owned(), |expires_at| expires_at.to_string());
        let message = match *expires_at {
            expires_at if expires_at <= now => {
                format!("the certificate has expired: it was valid until {date}")
            }
            expires_at if expires_at <= now + WARNED_BEFORE => {
                format!("the certificate expires within a week, at {date}")
            }
            _ => continue,
        };
        let help = "renew it; `glossator run` reloads a changed file by itself";
        report.warning(Code::ExpiringCertificate.at_span(*span), message, help);
    }
    let (mut found, mut values) = (Vec::new(), vec![(String::new(), root)]);
    while let Some((path, node)) = values.pop() {
        if let Some((_, expires_at)) = expiries.iter().find(|(span, _)| *span == node.span) {
            let setting = path.trim_start_matches('.').to_owned();
            found.push(CertificateExpiry { setting, at: *expires_at });
        }
        let entries = node.as_map().unwrap_or_default().iter();
        values.extend(entries.map(|entry| (format!("{path}.{}", entry.key.text), &entry.value)));
        let items = node.as_list().unwrap_or_default().iter().enumerate();
        values.extend(items.map(|(index, item)| (format!("{path}[{index}]"), item)));
    }
    // The stack has reversed the order of the file.
    found.reverse();
    found
}
