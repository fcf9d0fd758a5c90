//! `shared`: the store of several replicas.

use std::str::FromStr;

use super::{
    keys::{SHARED, TLS},
    node::{Kind, Node},
    report::Report,
    secret::{self, Environment},
    section::{self, Section},
    upstreams::{auth, tls},
};
use crate::{
    seal::Secret,
    shared_state::{StoreAddress, StoreAddressError, StoreSettings},
};

/// Reads it. `None` where there is none, or something is wrong with it; that has been reported then.
pub(super) fn read(
    file: &Section<'_, '_>,
    environment: &Environment,
    secret: Option<&Secret>,
) -> Option<StoreSettings> {
    let (report, entry) = (file.report, file.entry("shared")?);
    let section = match &entry.value.kind {
        Kind::Text(_) => None,
        _ => Some(file.section("shared", &SHARED)?),
    };
    let written = match &section {
        None => Some(&entry.value),
        Some(section) => section.required("url", "write `url: redis://store:6379`"),
    };
    let address = written.and_then(|node| address(report, environment, node));
    let text = |name| {
        let Some((node, text)) =
            section.as_ref().and_then(|section: &Section<'_, '_>| section.text_node(name))
        else {
            return Some(None);
        };
        let expanded = secret::expand_secret(report, environment, node.span, text)?;
        if name == "password" {
            auth::warn_of_inline(report, node, name, &expanded);
        }
        Some(Some(expanded.text))
    };
    let (user, password, prefix) = (text("user"), text("password"), text("prefix"));
    let prefix = prefix.and_then(|prefix| match prefix {
        Some(prefix) => self::prefix(report, section.as_ref()?.get("prefix")?, prefix),
        None => Some(StoreSettings::PREFIX_DEFAULT.to_owned()),
    });
    let of_section = section.as_ref();
    if let (Some(Some(_)), Some(None), Some(section)) = (&user, &password, of_section) {
        section.missing(
            "`user` has no `password` beside it".into(),
            "write `password: file:/run/secrets/store`",
        );
    }
    let database = of_section.and_then(|section| section.count("database"));
    let timeout = of_section.and_then(|section| section.duration("timeout"));
    let entry_limit = of_section.and_then(|section| section.size("entry_limit"));
    let tls_section = of_section.and_then(|section| section.section("tls", &TLS));
    let (user, password, prefix) = (user?, password?, prefix?);
    let address = address?;
    let tls = match (&tls_section, address.is_tls()) {
        (Some(section), true) => Some(tls::read(section, environment)?),
        (None, true) => Some(tls::plain(report, entry.value.span)?),
        (Some(section), false) => {
            // What is wrong with it is told as well.
            tls::read(section, environment);
            report.error(
                section.place,
                "`tls` has no effect: `url` is not `rediss://`",
                "write `rediss://`, or leave it out",
            );
            None
        }
        (None, false) => None,
    };
    if let (Some(_), Some(node), Some(written)) =
        (database, of_section.and_then(|section| section.get("database")), address.database)
    {
        let message = format!("`database` has no effect beside the {written} that `url` ends with");
        report.error(node.span, message, "remove one of the two");
    }
    let Some(secret) = secret else {
        let help =
            "write `server: { secret: … }`, the same on every replica: `openssl rand -base64 32` makes one";
        report.error(
            entry.key.span,
            "`shared` needs `server.secret`: what is kept there is sealed with it",
            help,
        );
        return None;
    };
    Some(StoreSettings {
        database: address
            .database
            .or_else(|| database.and_then(|number| u32::try_from(number).ok()))
            .unwrap_or_default(),
        address,
        tls,
        user,
        password,
        prefix,
        timeout: timeout.unwrap_or(StoreSettings::TIMEOUT_DEFAULT),
        entry_limit_bytes: entry_limit.unwrap_or(StoreSettings::ENTRY_LIMIT_BYTES_DEFAULT),
        secret: secret.clone(),
    })
}

fn address(report: &Report<'_>, environment: &Environment, node: &Node) -> Option<StoreAddress> {
    let text = section::text_of(report, node, "the address of the store")?;
    let expanded = secret::expand(report, environment, node.span, text)?;
    let error = match StoreAddress::from_str(expanded.text.trim()) {
        Ok(address) => return Some(address),
        Err(error) => error,
    };
    let help = match error {
        StoreAddressError::Credentials => {
            "write them as `user` and `password` of `shared`, which takes `file:/path`"
        }
        StoreAddressError::Scheme
        | StoreAddressError::Host
        | StoreAddressError::Port
        | StoreAddressError::Database => {
            "write `redis://store:6379`, `rediss://store:6379/1` or `unix:/run/valkey.sock`"
        }
    };
    let message = if expanded.foreign {
        format!("with its variables put in, this is not an address of a store: {error}")
    } else {
        format!("this is not an address of a store: {error}")
    };
    report.error(node.span, message, help);
    None
}

/// Nothing that would make a name of another kind, or a pattern, of it.
fn prefix(report: &Report<'_>, node: &Node, text: String) -> Option<String> {
    const LIMIT_BYTES: usize = 64;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/{}".contains(&byte);
    if !text.is_empty() && text.len() <= LIMIT_BYTES && text.bytes().all(is_good) {
        return Some(text);
    }
    let message = format!("`prefix` takes 1 to {LIMIT_BYTES} letters, digits and `-_.:/{{}}`");
    report.error(node.span, message, "write the name of the service: `prefix: weather-tools`");
    None
}

/// Warns of limits that say what holds without a store where there is none.
pub(super) fn warn_of_directions(report: &Report<'_>, root: &Node) {
    let Some(entries) = root.as_map() else { return };
    for entry in entries {
        if matches!(entry.key.text.as_str(), "rate" | "caller_rate")
            && let Some(limit) = entry.value.as_map()
            && let Some(direction) = limit.iter().find(|key| key.key.text == "without_store")
        {
            let message = "`without_store` has no effect without `shared`: every process counts for itself";
            report.warning(direction.key.span, message, "write `shared: redis://…`, or leave it out");
        }
    }
    for section in ["defaults", "upstreams", "routes"] {
        let Some(named) = root.get(section) else { continue };
        if section == "defaults" {
            warn_of_directions(report, named);
        } else {
            named
                .as_map()
                .unwrap_or_default()
                .iter()
                .for_each(|entry| warn_of_directions(report, &entry.value));
        }
    }
}
