//! Expiry of the configured certificates.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::settings::{Code, Node, Report, SourceSpan};

/// Time before the expiry of a certificate at which warnings begin.
const WARNED_BEFORE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Expiry of the certificates that a setting contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Path of the setting, such as `server.tls.certificate`.
    pub setting: String,
    /// In a chain, the expiry of the certificate that expires first; for several trusted CAs, of the one that
    /// expires last.
    pub at: SystemTime,
}

/// Lists the expiry of each configured certificate with the path of its setting. Warns of certificates that
/// have expired or will expire soon.
pub(super) fn read(report: &Report<'_>, root: &Node) -> Vec<CertificateExpiry> {
    let (expiries, now) = (report.certificates(), SystemTime::now());
    for (span, at) in &expiries {
        let date =
            Timestamp::try_from(*at).map_or_else(|_| "an unknown date".to_owned(), |at| at.to_string());
        let message = match *at {
            at if at <= now => format!("the certificate has expired: it was valid until {date}"),
            at if at <= now + WARNED_BEFORE => {
                format!("the certificate expires within a week, at {date}")
            }
            _ => continue,
        };
        let help = "renew it; `glossator run` reloads a changed file by itself";
        report.warning(Code::ExpiringCertificate.at_span(*span), message, help);
    }
    let mut found = Vec::new();
    add_settings(root, "", &expiries, &mut found);
    found
}

/// Adds the settings within `node` whose spans are in `expiries`; `path` is the path of `node`.
fn add_settings(
    node: &Node,
    path: &str,
    expiries: &[(SourceSpan, SystemTime)],
    found: &mut Vec<CertificateExpiry>,
) {
    let expiry = expiries.iter().find(|(span, _)| *span == node.span);
    found.extend(expiry.map(|(_, at)| CertificateExpiry { setting: path.to_owned(), at: *at }));
    for entry in node.as_map().unwrap_or_default() {
        let dot = if path.is_empty() { "" } else { "." };
        add_settings(&entry.value, &format!("{path}{dot}{}", entry.key.text), expiries, found);
    }
    for (index, item) in node.as_list().unwrap_or_default().iter().enumerate() {
        add_settings(item, &format!("{path}[{index}]"), expiries, found);
    }
}
