//! `tls` of `server`: who we are to clients, and whom we let in.

use super::{
    keys::SERVER_TLS,
    node::Node,
    report::Report,
    secret::{self, Environment},
    section::Section,
    upstreams::tls::pem,
};
use crate::{
    inbound::mcp::PeerAddress,
    tls::{ClientRoots, ClientTls, ClientTlsOptions, Identity, ServerTls, ServerTlsOptions, TlsError},
};

/// Reads it, where it is there, and how replicas know one another. What is wrong with it has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    environment: &Environment,
    server: Option<&Node>,
    peer: Option<&PeerAddress>,
) -> (Option<ServerTls>, Option<ClientTls>) {
    let Some(server) = server else { return (None, None) };
    let entry = server.entry("tls");
    let section = entry.and_then(|entry| Section::open(report, entry.key.span, &entry.value, &SERVER_TLS));
    let tls = section.as_ref().and_then(|section| own(section, environment));
    let Some(peer) = peer else { return (tls, None) };
    let place = server.get("peer").map_or(server.span, |node| node.span);
    if !peer.is_tls() {
        if tls.is_some() {
            let message = "`peer` is `http://`, and `tls` makes this server speak nothing but TLS";
            report.error(place, message, "write `https://`, with a name that the certificate is for");
        }
        return (tls, None);
    }
    // Where clients have to show a certificate, replicas show each other their own.
    let identity = section.filter(|section| section.get("client_ca").is_some());
    let identity = identity.and_then(|section| {
        let pem = |name| pem(&section, environment, name);
        Some(Identity { certificates: pem("certificate")??, key: pem("key")?? })
    });
    let options = ClientTlsOptions { identity, ..ClientTlsOptions::default() };
    let known = ClientTls::new(options).map_err(|error| {
        report.error(place, error.to_string(), "install `ca-certificates`, or set `SSL_CERT_FILE`");
    });
    (tls, known.ok())
}

/// Whether nobody may come without a certificate.
fn is_required(section: &Section<'_, '_>, environment: &Environment) -> bool {
    let variable = section.get("client_certificate").and_then(|node| Some((node, node.as_text()?)));
    let Some((node, text)) = variable.filter(|(_, text)| text.contains("${")) else {
        return section.word("client_certificate") != Some("optional");
    };
    let found = secret::expand(section.report, environment, node.span, text).map(|expanded| expanded.text);
    match found.as_deref().map(str::trim) {
        Some("optional") => false,
        Some("required") | None => true,
        Some(_) => {
            let message = "with its variables put in, `client_certificate` is not what it takes";
            section.report.error(node.span, message, "look at the variables: write `required` or `optional`");
            true
        }
    }
}

fn own(section: &Section<'_, '_>, environment: &Environment) -> Option<ServerTls> {
    let report = section.report;
    section.required("certificate", "write `certificate: file:/etc/glossator/tls.crt`");
    section.required("key", "write `key: file:/etc/glossator/tls.key`");
    let pem = |name| pem(section, environment, name);
    let (certificates, key, client_roots) = (pem("certificate"), pem("key"), pem("client_ca"));
    let (certificates, key, client_roots) = (certificates??, key??, client_roots?);
    let required = is_required(section, environment);
    if let (Some(entry), None) = (section.entry("client_certificate"), &client_roots) {
        let help = "write `client_ca`, the roots that vouch for clients, or leave it out";
        report.error(entry.key.span, "`client_certificate` has no effect without `client_ca`", help);
    }
    let client_roots = client_roots.map(|pem| ClientRoots { pem, required });
    let identity = Identity { certificates, key };
    let error = match ServerTls::new(ServerTlsOptions { identity, client_roots }) {
        Ok(tls) => return Some(tls),
        Err(error) => error,
    };
    let (key, help) = match &error {
        TlsError::Roots | TlsError::NoSystemRoots => {
            ("client_ca", "name a file that begins `-----BEGIN CERTIFICATE-----`")
        }
        TlsError::Certificates | TlsError::ServerName => {
            ("certificate", "name a file that begins `-----BEGIN CERTIFICATE-----`")
        }
        TlsError::Key => (
            "key",
            "name a file that begins `-----BEGIN PRIVATE KEY-----`; keys with a password can't be read",
        ),
        TlsError::Mismatch(_) => ("key", "name the key that the certificate was made for"),
    };
    let span = section.node.get(key).map_or(section.place, |node| node.span);
    report.error(span, error.to_string(), help);
    None
}
