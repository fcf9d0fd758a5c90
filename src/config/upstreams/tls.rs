//! `tls` of an upstream: whom to take it for, and who we are.

use crate::{
    config::{
        report::Report,
        secret::{self, Environment},
        section::Section,
        source::Span,
    },
    tls::{ClientTls, ClientTlsOptions, Identity, TlsError, Trust, expiries},
};

/// TLS with every default, for an `https://` address in the place of the whole upstream.
pub(in crate::config) fn plain(report: &Report<'_>, span: Span) -> Option<ClientTls> {
    made(report, span, None, ClientTlsOptions::default())
}

/// A key that takes PEM, where it is. `None` when something is wrong with it; that has
/// been reported then.
pub(in crate::config) fn pem(
    section: &Section<'_, '_>,
    environment: &Environment,
    name: &'static str,
) -> Option<Option<Vec<u8>>> {
    let Some((node, text)) = section.text_node(name) else {
        return section.get(name).is_none().then_some(None);
    };
    let pem = secret::expand_secret(section.report, environment, node.span, text)?.text.into_bytes();
    let expiries = expiries(&pem);
    let expiry = match name {
        "key" => None,
        "certificate" => expiries.into_iter().min(),
        // Those of CAs that were replaced may go on standing beside the new ones.
        _ => expiries.into_iter().max(),
    };
    if let Some(expiry) = expiry {
        section.report.certificates_at(node.span, expiry);
    }
    Some(Some(pem))
}

/// Reads `tls`. `None` when something is wrong with it; that has been reported then.
pub(in crate::config) fn read(section: &Section<'_, '_>, environment: &Environment) -> Option<ClientTls> {
    made(section.report, section.place, Some(section), options(section, environment)?)
}

/// What `tls` says. `None` when something is wrong with it; that has been reported then.
pub(in crate::config) fn options(
    section: &Section<'_, '_>,
    environment: &Environment,
) -> Option<ClientTlsOptions> {
    let report = section.report;
    let pem = |name| pem(section, environment, name);
    let (ca, certificate, key) = (pem("ca"), pem("certificate"), pem("key"));
    let pin = section.text_node("fingerprint").map(|(node, text)| {
        let pin = fingerprint(text);
        if pin.is_none() {
            let help =
                "write what `openssl x509 -noout -fingerprint -sha256` shows: 32 pairs of hexadecimal digits";
            report.error(node.span, format!("expected a SHA-256 fingerprint, found {}", node.found()), help);
        }
        pin
    });
    let server_name = section.text("server_name").map(str::to_owned);
    let trust = match (ca?, pin) {
        (Some(_), Some(_)) => {
            section.refuse_beside(&["ca"], "fingerprint");
            return None;
        }
        (Some(pem), None) => Trust::Roots(pem),
        (None, Some(pin)) => Trust::Pinned(pin?),
        (None, None) => Trust::System,
    };
    let identity = match (certificate?, key?) {
        (Some(certificates), Some(key)) => Some(Identity { certificates, key }),
        (None, None) => None,
        (Some(_), None) => {
            section.missing(
                "`certificate` has no `key` beside it".into(),
                "write `key: file:/run/secrets/client.key`",
            );
            return None;
        }
        (None, Some(_)) => {
            section.missing(
                "`key` has no `certificate` beside it".into(),
                "write `certificate: file:/run/secrets/client.pem`",
            );
            return None;
        }
    };
    Some(ClientTlsOptions { trust, identity, server_name })
}

/// TLS with these options, that stand in a section or, as defaults, nowhere.
pub(in crate::config) fn made(
    report: &Report<'_>,
    span: Span,
    section: Option<&Section<'_, '_>>,
    options: ClientTlsOptions,
) -> Option<ClientTls> {
    let error = match ClientTls::new(options) {
        Ok(tls) => return Some(tls),
        Err(error) => error,
    };
    let (key, help) = match &error {
        TlsError::NoSystemRoots => {
            ("", "install `ca-certificates`, or name the roots: `tls: { ca: file:/etc/ssl/our-ca.pem }`")
        }
        TlsError::Roots => ("ca", "name a file that begins `-----BEGIN CERTIFICATE-----`"),
        TlsError::Certificates => ("certificate", "name a file that begins `-----BEGIN CERTIFICATE-----`"),
        TlsError::Key => (
            "key",
            "name a file that begins `-----BEGIN PRIVATE KEY-----`; keys with a password can't be read",
        ),
        TlsError::Mismatch(_) => ("key", "name the key that the certificate was made for"),
        TlsError::ServerName => {
            ("server_name", "write the name that the certificate is for: `internal.example.com`")
        }
    };
    let node = section.and_then(|section| section.node.get(key));
    report.error(node.map_or(span, |node| node.span), error.to_string(), help);
    None
}

/// Hexadecimal digits, with colons between the pairs or without.
fn fingerprint(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    let digits: String = text.strip_prefix("sha256:").unwrap_or(text).split(':').collect();
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}
