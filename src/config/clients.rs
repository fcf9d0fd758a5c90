//! `clients`: access control. It is checked against `server.auth`, the listener and every `scopes` of the
//! file, including that of `passthrough`.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use super::ServerSettings;
use crate::auth::{AccessSettings, ClientSettings, ResourceServer};
use crate::route::Scopes;
use crate::settings::{Code, Cursor, Entry, Named, Node, ReadContext, Report, Setting};

/// Maximum length of a client's name, in bytes.
const NAME_LIMIT_BYTES: usize = 100;

/// Parsed access control.
pub(super) struct Clients {
    /// Whether clients are authenticated.
    pub(super) are_authenticated: bool,
    /// Settings of access control; `None` after errors, or if every client is admitted.
    pub(super) access: Option<AccessSettings>,
}

/// Parses `clients`. `auth` is `None` if `server` has errors.
pub(super) fn read(
    context: ReadContext<'_>,
    root: &Node,
    auth: Option<Option<ResourceServer>>,
    default_scopes: &Scopes,
) -> Clients {
    let (report, entry) = (context.report, root.entry("clients"));
    let has_auth = root.at_path(&["server", "auth"]).is_some();
    let entries = entry.and_then(|entry| entry.value.as_map()).unwrap_or_default();
    let named_clients = entry.map_or(Ok(Named(Vec::new())), |entry| {
        let kind = Named::<ClientSettings>::KIND;
        Named::<ClientSettings>::read(&Cursor::new(context, entry.key.span, &entry.value, "`clients`", kind))
    });
    let named_clients = named_clients.map(|Named(clients)| clients);
    for name in entries.iter().map(|entry| &entry.key) {
        let text = &name.text;
        if text.is_empty() || text.len() > NAME_LIMIT_BYTES || text.chars().any(char::is_control) {
            let message = format!(
                "the name of a client must have 1 to {NAME_LIMIT_BYTES} bytes without control characters"
            );
            let help = "write a short word, such as `reports`; it appears in the log";
            report.error(Code::InvalidName.at_span(name.span), message, help);
        }
    }
    if let (Some(entry), Ok([]), false) = (entry, named_clients.as_deref(), has_auth) {
        let help = "add one with the hash of its key: `clients: { reports: { api_key_hashes: [sha256:…] } }`";
        report.error(Code::NoClients.at_span(entry.key.span), "no client can call: `clients` is empty", help);
    }
    if let Some(auth) = &auth {
        check_subjects(report, entries, auth.as_ref());
    }
    if let Ok(named_clients) = &named_clients {
        let clients = || named_clients.iter().map(|(_, client)| client);
        check_distinct(report, entries, "certificates", clients().flat_map(|client| &client.certificates));
        check_distinct(report, entries, "jwt_subjects", clients().flat_map(|client| &client.jwt_subjects));
    }
    let are_authenticated = entry.is_some() || has_auth;
    let with_name = |(name, client)| ClientSettings { name, ..client };
    let access = named_clients.ok().filter(|_| are_authenticated).map(|named_clients| AccessSettings {
        clients: named_clients.into_iter().map(with_name).collect(),
        server: auth.flatten(),
        scopes: default_scopes.clone(),
    });
    Clients { are_authenticated, access }
}

/// Checks that `jwt_subjects` identify clients, which requires exactly one authorization server.
fn check_subjects(report: &Report<'_>, clients: &[Entry], auth: Option<&ResourceServer>) {
    let issuers = auth.map_or(0, |auth| auth.jwt.0.len());
    let subjects = clients.iter().filter_map(|client| client.value.get("jwt_subjects"));
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

/// Checks that each value of `key` occurs once, because it identifies one client. `values` are the parsed
/// values of all clients.
fn check_distinct<T: Eq + Hash>(
    report: &Report<'_>,
    clients: &[Entry],
    key: &str,
    values: impl Iterator<Item = T>,
) {
    let nodes = clients.iter().filter_map(|client| client.value.get(key)?.as_list()).flatten();
    let mut seen = HashMap::new();
    for (value, node) in values.zip(nodes) {
        if let Some(first_span) = seen.insert(value, node.span) {
            let message = format!("duplicate value in `{key}`; also at {}", report.file_and_line(first_span));
            let help = "remove one of the two: the value identifies one client";
            report.error(Code::DuplicateValue.at_span(node.span), message, help);
        }
    }
}

impl Clients {
    /// Checks that each scope that a call requires can be granted to a client.
    pub(super) fn check_scopes(&self, report: &Report<'_>, root: &Node) {
        // If there are errors, a client that could not be parsed may have the scope.
        if report.errors() > 0 {
            return;
        }
        let scope_nodes = all_scopes(root);
        let Some(access) = &self.access else {
            for node in scope_nodes {
                let message = "`scopes` has no effect: clients are not authenticated";
                let help = "configure `clients`, or remove `scopes`: without clients every client is allowed";
                report.error(Code::ScopesWithoutClients.at_span(node.span), message, help);
            }
            return;
        };
        // Authorization servers can grant scopes that are not in the file.
        if access.server.is_some() {
            return;
        }
        let mut reported = HashSet::new();
        for item in scope_nodes.into_iter().filter_map(Node::as_list).flatten() {
            let Some(name) = item.as_text() else { continue };
            let scope = Scopes::from_client([name]);
            let is_granted = access.clients.iter().any(|client| client.scopes.contains_all(&scope));
            if !is_granted && reported.insert(name) {
                let message = format!("no client has the scope `{name}`");
                let help = "add it to `scopes` of a client under `clients`, or remove it";
                report.warning(Code::UnusedScope.at_span(item.span), message, help);
            }
        }
    }

    /// Warns if clients send credentials without TLS.
    pub(super) fn warn_of_missing_tls(&self, report: &Report<'_>, root: &Node, server: &ServerSettings) {
        let has_tls = server.tls.is_some() || !server.filter.trusted_proxies.is_empty();
        if self.are_authenticated && !has_tls && !server.listener.listen.ip().is_loopback() {
            let node = root.at_path(&["server", "listen"]).or_else(|| root.get("clients")).unwrap_or(root);
            let message = "clients send keys and tokens without TLS: other machines can connect";
            let help = "configure `server.tls`, or add the address of a proxy that terminates TLS to \
                        `trusted_proxies`";
            report.warning(Code::CredentialsWithoutTls.at_span(node.span), message, help);
        }
    }
}

/// Returns the values of all keys `scopes` except in `clients`: the scopes that calls require, not the scopes
/// that a client has.
fn all_scopes(root: &Node) -> Vec<&Node> {
    let sections = ["defaults", "passthrough"].into_iter().filter_map(|name| root.get(name));
    let named_sections = ["routes", "prompts"].into_iter().filter_map(|name| root.get(name));
    let upstreams = root.get("upstreams").into_iter().flat_map(Node::children);
    let offered = upstreams.flat_map(|upstream| [upstream.get("prompts"), upstream.get("resources")]);
    let all = sections.chain(named_sections.flat_map(Node::children)).chain(offered.flatten());
    all.filter_map(|section| section.get("scopes")).collect()
}
