//! `clients`, `auth` of `server` and every `scopes`, held against one another: who may call, and what.

use std::collections::HashSet;

use super::{
    code::Code,
    node::{Kind, Node},
    report::Report,
    section::Section,
    source::Span,
};
use crate::{
    auth::{AccessSettings, ClientSettings, ResourceServer},
    config::ListenerSettings,
    route::Scopes,
    settings::{
        section::{Context, Cursor, Setting},
        value::Named,
    },
};

/// How long the name of a client may be, in bytes.
const NAME_LIMIT_BYTES: usize = 100;

/// Who may call.
pub(super) struct Clients {
    /// Whether clients are told apart.
    pub(super) are_told_apart: bool,
    /// `None` where something is wrong with them, or everybody may call.
    pub(super) access: Option<AccessSettings>,
    /// Whether somebody outside of the file says what callers are allowed.
    lets_others_say: bool,
}

/// Reads `scopes` of a section. `None` where nothing is written, or something is wrong with it.
pub(super) fn scopes(section: &Section<'_, '_>) -> Option<Scopes> {
    section.read("scopes")
}

/// Reads who may call. `auth` is `None` where something is wrong with `server`.
pub(super) fn read(
    context: Context<'_>,
    file: &Section<'_, '_>,
    auth: Option<Option<ResourceServer>>,
    default_scopes: &Scopes,
) -> Clients {
    let (report, entry) = (context.report, file.entry("clients"));
    let has_auth = file.get("server").is_some_and(|server| server.get("auth").is_some());
    let entries = entry.and_then(|entry| entry.value.as_map()).unwrap_or_default();
    let named = match entry {
        None => Ok(Vec::new()),
        Some(entry) => {
            let kind = Named::<ClientSettings>::KIND;
            Named::read(&Cursor::new(context, entry.key.span, &entry.value, "`clients`", kind))
                .map(|Named(clients)| clients)
        }
    };
    for name in entries.iter().map(|entry| &entry.key) {
        let text = &name.text;
        if text.is_empty() || text.len() > NAME_LIMIT_BYTES || text.chars().any(char::is_control) {
            let message =
                format!("the name of a client has 1 to {NAME_LIMIT_BYTES} bytes, all of them visible");
            let help = "write a short word, such as `reports`: it stands in the log";
            report.error(Code::InvalidName.at(name.span), message, help);
        }
    }
    if let (Some(entry), true, false) = (entry, entries.is_empty(), has_auth) {
        let help = "name one under `clients`, with the hash of its key";
        report.error(Code::NoClients.at(entry.key.span), "no client can call: `clients` is empty", help);
    }
    if let Some(auth) = &auth {
        check_subjects(report, entries.iter().map(|entry| &entry.value), auth.as_ref());
    }
    let (tokens, resource) = auth.clone().flatten().map(ResourceServer::described).unwrap_or_default();
    let are_told_apart = entry.is_some() || has_auth;
    let lets_others_say = !tokens.is_empty();
    let with_name = |(name, client)| ClientSettings { name, ..client };
    let access = named.ok().filter(|_| are_told_apart).map(|named| AccessSettings {
        clients: named.into_iter().map(with_name).collect(),
        tokens,
        resource,
        scopes: default_scopes.clone(),
    });
    Clients { are_told_apart, access, lets_others_say }
}

/// `jwt_subjects` name a client only where one server gives tokens.
fn check_subjects<'n>(
    report: &Report<'_>,
    clients: impl Iterator<Item = &'n Node>,
    auth: Option<&ResourceServer>,
) {
    let issuers = auth.map_or(0, |auth| auth.jwt.0.len());
    let subjects = clients.filter_map(|client| client.get("jwt_subjects"));
    for node in subjects.filter(|_| issuers != 1) {
        let (message, help) = match issuers {
            0 => (
                "`jwt_subjects` has no effect: no tokens are taken",
                "say whose tokens are taken, with `auth` under `server`, or leave it out",
            ),
            _ => (
                "several servers give tokens, and each could call a client of its own so",
                "give the client its scopes in its tokens",
            ),
        };
        report.error(Code::AmbiguousSubject.at(node.span), message, help);
    }
}

impl Clients {
    /// Holds every `scopes` of the file against who may call.
    pub(super) fn check(&self, report: &Report<'_>, places: &[&Node]) {
        // What could not be read may be what holds them.
        if report.errors() > 0 {
            return;
        }
        let items = places.iter().flat_map(|node| match &node.kind {
            Kind::List(items) => items.as_slice(),
            _ => &[],
        });
        let Some(access) = &self.access else {
            for node in places {
                let help = "say who may call, under `clients`, or leave it out: everybody may";
                report.error(
                    Code::ScopesWithoutClients.at(node.span),
                    "`scopes` has no effect: callers are not told apart",
                    help,
                );
            }
            return;
        };
        if self.lets_others_say {
            return;
        }
        let mut told = HashSet::new();
        for item in items {
            let Some(name) = item.as_text() else { continue };
            let Ok(scope) = Scopes::new([name]) else { continue };
            let is_held = access.clients.iter().any(|client| client.scopes.hold(&scope));
            if !is_held && told.insert(name) {
                let help = "give it to a client, under `clients`, or leave it out";
                report.warning(
                    Code::UnusedScope.at(item.span),
                    format!("no client has the scope `{name}`"),
                    help,
                );
            }
        }
    }

    /// Says that what clients show can be read on its way.
    pub(super) fn warn_of_open_port(
        &self,
        report: &Report<'_>,
        place: Span,
        listener: &ListenerSettings,
        is_behind: bool,
    ) {
        if self.are_told_apart && !is_behind && !listener.listen.ip().is_loopback() {
            let message =
                "keys and tokens come in the clear: other machines can connect, and there is no TLS";
            let help = "write `tls` under `server`; where a proxy of yours speaks TLS, name it under `trusted_proxies`";
            report.warning(Code::CredentialsWithoutTls.at(place), message, help);
        }
    }
}
