//! Expiry of the configured certificates.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::settings::{Code, Kind, Node, Report};

/// Time before the expiry of a certificate at which a warning starts.
const WARNED_BEFORE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Expiry of the certificates of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Path of the setting: `server.tls.certificate`.
    pub setting: String,
    /// Expiry of the first certificate of a chain to expire, or of the last of several trusted CAs.
    pub at: SystemTime,
}

/// Lists the certificates with the paths of their settings, and warns of those that have expired or expire
/// soon.
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
    visit(root, "", &mut |node, setting| {
        let expiry = expiries.iter().find(|(span, _)| *span == node.span);
        found.extend(expiry.map(|(_, at)| CertificateExpiry { setting: setting.to_owned(), at: *at }));
    });
    found
}

/// Visits every string, with its path.
fn visit(node: &Node, path: &str, visitor: &mut impl FnMut(&Node, &str)) {
    match &node.kind {
        Kind::Text(_) => visitor(node, path),
        Kind::Map(entries) => {
            for entry in entries {
                let before = if path.is_empty() { String::new() } else { format!("{path}.") };
                visit(&entry.value, &format!("{before}{}", entry.key.text), visitor);
            }
        }
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{path}[{index}]"), visitor);
            }
        }
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) => {}
    }
}
