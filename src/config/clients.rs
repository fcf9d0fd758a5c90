//! `clients` and every `scopes`: who may call, and what.

use std::{
    collections::{HashMap, HashSet},
    time::SystemTime,
};

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use super::{
    keys::{CLIENT, CLIENT_KEY},
    node::{Entry, Kind, Node},
    report::Report,
    secret::{self, Environment},
    section::{self, Section},
    source::Span,
    tokens,
};
use crate::{
    auth::{AccessSettings, CertificateName, ClientSettings, KeyHash, NotACertificateName, NotAHash},
    config::ListenerSettings,
    route::Scopes,
};

/// How long the name of a client may be, in bytes.
const NAME_LIMIT_BYTES: usize = 100;

/// Who may call, as it is written.
pub(super) struct Written {
    /// `None` where everybody may.
    pub(super) access: Option<AccessSettings>,
    /// Whether somebody outside of the file says what callers are allowed.
    lets_others_say: bool,
}

/// Reads `scopes` of a section. `None` where nothing is written, or something is wrong with it, which has been
/// reported then.
pub(super) fn scopes(section: &Section<'_, '_>) -> Option<Scopes> {
    let texts = section.texts("scopes")?;
    let mut names = Vec::new();
    for (node, text) in texts {
        match Scopes::new([text]) {
            Ok(_) => names.push(text),
            Err(error) => {
                section.report.error(node.span, error.to_string(), "write words such as `weather.read`");
            }
        }
    }
    Scopes::new(names).ok()
}

/// Reads who may call. What is wrong with it has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    environment: &Environment,
    file: &Section<'_, '_>,
    server: Option<&Node>,
    default_scopes: &Scopes,
) -> Written {
    let mut seen = HashMap::new();
    let entries = file.map("clients").unwrap_or_default();
    let clients: Vec<_> =
        entries.iter().filter_map(|entry| client(report, environment, entry, &mut seen)).collect();
    let (tokens, resource) =
        server.map(|server| tokens::read(report, environment, server)).unwrap_or_default();
    let has_auth = server.is_some_and(|server| server.get("auth").is_some());
    let is_on = file.get("clients").is_some() || has_auth;
    if let (Some(entry), true, false) = (file.entry("clients"), entries.is_empty(), has_auth) {
        let place = entry.key.span;
        let help = "name one under `clients`, with the hash of its key";
        report.error(place, "nobody may call: there are no clients", help);
    }
    for entry in entries {
        let Some(node) = entry.value.get("jwt_subjects") else { continue };
        match tokens.len() {
            1 => {}
            0 => {
                let help = "say whose tokens are taken, with `auth` under `server`, or leave it out";
                report.error(node.span, "`jwt_subjects` has no effect: no tokens are taken", help);
            }
            _ => {
                let message = "several servers give tokens, and each could call a client of its own so";
                report.error(node.span, message, "give the client its scopes in its tokens");
            }
        }
    }
    let lets_others_say = !tokens.is_empty();
    let settings = AccessSettings { clients, tokens, resource, scopes: default_scopes.clone() };
    Written { access: is_on.then_some(settings), lets_others_say }
}

fn client(
    report: &Report<'_>,
    environment: &Environment,
    entry: &Entry,
    seen: &mut HashMap<String, Span>,
) -> Option<ClientSettings> {
    let name = &entry.key.text;
    if name.is_empty() || name.len() > NAME_LIMIT_BYTES || name.chars().any(char::is_control) {
        let message = format!("the name of a client has 1 to {NAME_LIMIT_BYTES} bytes, all of them visible");
        report.error(entry.key.span, message, "write a short word, such as `reports`: it stands in the log");
    }
    let section = Section::open(report, entry.key.span, &entry.value, &CLIENT)?;
    let scopes = scopes(&section).unwrap_or_default();
    let written: Vec<&Node> = match section.get("api_key_hashes") {
        None => Vec::new(),
        Some(Node { kind: Kind::List(items), .. }) => items.iter().collect(),
        Some(one) => vec![one],
    };
    let keys = written.iter().filter_map(|node| key(report, environment, node, seen)).collect();
    let certificates = section.texts("certificates").unwrap_or_default();
    let certificates: Vec<CertificateName> = certificates
        .into_iter()
        .filter_map(|(node, text)| {
            let refuse = |error: NotACertificateName| {
                let help = "write `dns:reports.example.com`, as the certificate has it";
                report.error(node.span, error.to_string(), help);
            };
            text.parse().map_err(refuse).ok()
        })
        .collect();
    let subjects = section.texts("jwt_subjects").unwrap_or_default();
    let subjects: Vec<String> = subjects.into_iter().map(|(_, text)| text.to_owned()).collect();
    let shows_something =
        ["api_key_hashes", "certificates", "jwt_subjects"].iter().any(|name| entry.value.get(name).is_some());
    if !shows_something {
        let help = "write `api_key_hashes: [sha256:…]`, a hash as `glossator key` prints it";
        section.missing(format!("nobody can be `{name}`: it has nothing to show"), help);
    }
    Some(ClientSettings { name: name.clone(), scopes, keys, certificates, subjects })
}

fn key(
    report: &Report<'_>,
    environment: &Environment,
    node: &Node,
    seen: &mut HashMap<String, Span>,
) -> Option<(KeyHash, Option<SystemTime>)> {
    let section = match node.as_map() {
        Some(_) => Some(Section::open(report, node.span, node, &CLIENT_KEY)?),
        None => None,
    };
    let hash = match &section {
        Some(section) => section.required("hash", "write `hash: sha256:…`")?,
        None => node,
    };
    let text = section::text_of(report, hash, "the hash of a key")?;
    let expanded = secret::expand_secret(report, environment, hash.span, text)?;
    let read = match expanded.text.trim().parse::<KeyHash>() {
        Ok(read) => read,
        Err(error) => {
            let help = match error {
                NotAHash::Unnamed => {
                    "`glossator key` makes a key and its hash, and `glossator key --stdin` hashes one; the key itself does not belong in the file"
                }
                NotAHash::Digits { .. } => "copy the whole hash, as `glossator key` prints it",
            };
            report.error(hash.span, error.to_string(), help);
            return None;
        }
    };
    if let Some(other) = seen.insert(read.to_string(), hash.span) {
        let message = format!("this hash stands at {}, too", report.place(other));
        report.error(hash.span, message, "give each client keys of its own");
    }
    let expires = match section.as_ref().and_then(|section| section.text_node("expires")) {
        None => None,
        Some((node, text)) => Some(end(report, node, text)?),
    };
    if expires.is_some_and(|end| end <= SystemTime::now()) {
        report.warning(node.span, "the key has expired", "remove it");
    }
    Some((read, expires))
}

fn end(report: &Report<'_>, node: &Node, text: &str) -> Option<SystemTime> {
    let at_midnight = |date: Date| date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let end = text.parse::<Timestamp>().ok().or_else(|| text.parse::<Date>().ok().and_then(at_midnight));
    if end.is_none() {
        let help = "write `2027-01-31` for its first moment in UTC, or `2027-01-31T12:00:00Z`";
        report.error(node.span, format!("expected a date, found {}", node.found()), help);
    }
    end.map(SystemTime::from)
}

impl Written {
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
                report.error(node.span, "`scopes` has no effect: callers are not told apart", help);
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
                report.warning(item.span, format!("no client has the scope `{name}`"), help);
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
        if self.access.is_some() && !is_behind && !listener.listen.ip().is_loopback() {
            let message =
                "keys and tokens come in the clear: other machines can connect, and there is no TLS";
            let help = "write `tls` under `server`; where a proxy of yours speaks TLS, name it under `trusted_proxies`";
            report.warning(place, message, help);
        }
    }
}
