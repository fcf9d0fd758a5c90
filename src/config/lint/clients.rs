//! Checks of `clients` against `server.auth`, the listener and every `scopes`, also that of `passthrough`.

use std::collections::HashSet;

use crate::auth::ResourceServer;
use crate::config::ListenerSettings;
use crate::config::clients::Clients;
use crate::route::Scopes;
use crate::settings::{Code, Node, Report, SourceSpan};

/// Checks that `jwt_subjects` identify clients, which requires exactly one authorization server.
pub(crate) fn check_subjects<'n>(
    report: &Report<'_>,
    clients: impl Iterator<Item = &'n Node>,
    auth: Option<&ResourceServer>,
) {
    let issuers = auth.map_or(0, |auth| auth.jwt.0.len());
    let subjects = clients.filter_map(|client| client.get("jwt_subjects"));
    for node in subjects.filter(|_| issuers != 1) {
        let (message, help) = match issuers {
            0 => (
                "`jwt_subjects` has no effect: no tokens are accepted",
                "configure the issuer of tokens under `server.auth.jwt`, or remove it",
            ),
            _ => (
                "`jwt_subjects` is ambiguous: several issuers are accepted, and each could use this subject",
                "remove it, and use scopes in the client's tokens",
            ),
        };
        report.error(Code::AmbiguousSubject.at_span(node.span), message, help);
    }
}

/// Checks every `scopes` of the file against the clients.
pub(crate) fn check_scopes(clients: &Clients, report: &Report<'_>, places: &[&Node]) {
    // A client with errors may have the scope.
    if report.errors() > 0 {
        return;
    }
    let Some(access) = &clients.access else {
        for node in places {
            let message = "`scopes` has no effect: clients are not authenticated";
            let help = "configure `clients`, or remove `scopes`: without clients every client is allowed";
            report.error(Code::ScopesWithoutClients.at_span(node.span), message, help);
        }
        return;
    };
    if clients.has_external_scopes {
        return;
    }
    let mut reported = HashSet::new();
    for item in places.iter().filter_map(|node| node.as_list()).flatten() {
        let Some(name) = item.as_text() else { continue };
        let scope = Scopes::from_client([name]);
        let is_held = access.clients.iter().any(|client| client.scopes.contains_all(&scope));
        if !is_held && reported.insert(name) {
            let message = format!("no client has the scope `{name}`");
            let help = "add it to `scopes` of a client under `clients`, or remove it";
            report.warning(Code::UnusedScope.at_span(item.span), message, help);
        }
    }
}

/// Warns of credentials of clients that are sent without TLS.
pub(crate) fn warn_of_open_port(
    clients: &Clients,
    report: &Report<'_>,
    place: SourceSpan,
    listener: &ListenerSettings,
    is_behind: bool,
) {
    if clients.are_authenticated && !is_behind && !listener.listen.ip().is_loopback() {
        let message = "clients send keys and tokens without TLS: other machines can connect";
        let help =
            "configure `server.tls`, or add the address of a proxy that terminates TLS to `trusted_proxies`";
        report.warning(Code::CredentialsWithoutTls.at_span(place), message, help);
    }
}

/// Checks that `passthrough` has `scopes` if there are clients.
pub(crate) fn check_passthrough_scopes(report: &Report<'_>, node: &Node, clients: &Clients) {
    if clients.are_authenticated && node.get("scopes").is_none() {
        let message = "`passthrough` needs `scopes`, because there are `clients`";
        let help = "write `passthrough: { upstream: NAME, scopes: [legacy] }`, or `scopes: []` for every \
                    authenticated client";
        report.error(Code::PassthroughWithoutScopes.at_span(node.span), message, help);
    }
}
