//! `clients`: access control, checked against `server.auth` and every `scopes`.

use super::lint;
use crate::auth::{AccessSettings, ClientSettings, ResourceServer};
use crate::route::Scopes;
use crate::settings::{Code, Cursor, Named, Node, ReadContext, Setting};

/// Maximum length of a client's name, in bytes.
const NAME_LIMIT_BYTES: usize = 100;

/// Parsed access control.
pub(super) struct Clients {
    /// Whether clients are authenticated.
    pub(super) are_authenticated: bool,
    /// `None` after errors, or if every client may call.
    pub(super) access: Option<AccessSettings>,
    /// Whether authorization servers grant scopes, so that the file does not list all of them.
    pub(super) has_external_scopes: bool,
}

/// Parses `clients`. `auth` is `None` if `server` has errors.
pub(super) fn read(
    context: ReadContext<'_>,
    file: &Node,
    auth: Option<Option<ResourceServer>>,
    default_scopes: &Scopes,
) -> Clients {
    let (report, entry) = (context.report, file.entry("clients"));
    let has_auth = file.get("server").is_some_and(|server| server.get("auth").is_some());
    let entries = entry.and_then(|entry| entry.value.as_map()).unwrap_or_default();
    let named = entry.map_or(Ok(Named(Vec::new())), |entry| {
        let kind = Named::<ClientSettings>::KIND;
        Named::read(&Cursor::new(context, entry.key.span, &entry.value, "`clients`", kind))
    });
    let named = named.map(|Named(clients)| clients);
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
    if let (Some(entry), Ok([]), false) = (entry, named.as_deref(), has_auth) {
        let help = "add one with the hash of its key: `clients: { reports: { api_key_hashes: [sha256:…] } }`";
        report.error(Code::NoClients.at_span(entry.key.span), "no client can call: `clients` is empty", help);
    }
    if let Some(auth) = &auth {
        lint::clients::check_subjects(report, entries.iter().map(|entry| &entry.value), auth.as_ref());
    }
    let server = auth.flatten();
    let are_authenticated = entry.is_some() || has_auth;
    let has_external_scopes = server.is_some();
    let with_name = |(name, client)| ClientSettings { name, ..client };
    let access = named.ok().filter(|_| are_authenticated).map(|named| AccessSettings {
        clients: named.into_iter().map(with_name).collect(),
        server,
        scopes: default_scopes.clone(),
    });
    Clients { are_authenticated, access, has_external_scopes }
}
