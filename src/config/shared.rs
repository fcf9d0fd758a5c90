//! `shared_state`: the store of several replicas.

use std::str::FromStr;

use super::{
    keys::{SHARED, TLS},
    node::{Kind, Node},
    report::Report,
    secret::{self, Environment},
    section::{self, Section},
    source::Span,
    upstreams::{auth, tls},
};
use crate::{
    crypto::Secret,
    shared_state::{StoreAddress, StoreAddressError, StoreLogin, StoreSettings, StoreTls},
    tls::{ClientTlsOptions, Trust},
};

/// Reads it. `None` where there is none, or something is wrong with it; that has been reported then.
pub(super) fn read(
    file: &Section<'_, '_>,
    environment: &Environment,
    secret: Option<&Secret>,
) -> Option<StoreSettings> {
    let (report, entry) = (file.report, file.entry("shared_state")?);
    let section = match &entry.value.kind {
        Kind::Text(_) => None,
        _ => Some(file.section("shared_state", &SHARED)?),
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
        if name == "password" || name == "sentinel_password" {
            auth::warn_of_inline(report, node, name, &expanded);
        }
        Some(Some(expanded.text))
    };
    let prefix = text("prefix");
    let prefix = prefix.and_then(|prefix| match prefix {
        Some(prefix) => self::prefix(report, section.as_ref()?.get("prefix")?, prefix),
        None => Some(StoreSettings::PREFIX_DEFAULT.to_owned()),
    });
    let of_section = section.as_ref();
    let login = |user_key: &'static str, password_key: &'static str| {
        let (user, password) = (text(user_key), text(password_key));
        let (user, password) = (user?, password?);
        if let (Some(_), None, Some(section)) = (&user, &password, of_section) {
            let message = format!("`{user_key}` has no `{password_key}` beside it");
            section.missing(message, &format!("write `{password_key}: file:/run/secrets/store`"));
        }
        Some(StoreLogin { user, password })
    };
    let (own_login, sentinel_login) =
        (login("user", "password"), login("sentinel_user", "sentinel_password"));
    let database = of_section.and_then(|section| section.count("database"));
    let timeout = of_section.and_then(|section| section.duration("timeout"));
    let entry_limit = of_section.and_then(|section| section.size("entry_limit"));
    let tls_section = of_section.and_then(|section| section.section("tls", &TLS));
    let (login, sentinel_login, prefix) = (own_login?, sentinel_login?, prefix?);
    let address = address?;
    let tls = match (&tls_section, address.is_tls()) {
        (section, true) => {
            Some(store_tls(report, environment, section.as_ref(), entry.value.span, &address)?)
        }
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
    let key = |name| of_section.and_then(|section| section.get(name));
    if let (Some(database), Some(node)) = (database, key("database")) {
        if let Some(written) = address.database {
            let message = format!("`database` has no effect beside the {written} that `url` ends with");
            report.error(node.span, message, "remove one of the two");
        } else if address.is_cluster() && database != 0 {
            report.error(node.span, "a Cluster has no databases", "leave it out; `prefix` keeps names apart");
        }
    }
    for name in ["sentinel_user", "sentinel_password"] {
        if let (Some(node), false) = (key(name), address.is_sentinel()) {
            let message = format!("`{name}` has no effect: `url` is not `redis+sentinel://`");
            report.error(node.span, message, "leave it out, or name the Sentinels in `url`");
        }
    }
    let Some(secret) = secret else {
        let help =
            "write `server: { secret: … }`, the same on every replica: `openssl rand -base64 32` makes one";
        report.error(
            entry.key.span,
            "`shared_state` needs `server.secret`: what is kept there is sealed with it",
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
        login,
        sentinel_login,
        prefix,
        timeout: timeout.unwrap_or(StoreSettings::TIMEOUT_DEFAULT),
        entry_limit_bytes: entry_limit.unwrap_or(StoreSettings::ENTRY_LIMIT_BYTES_DEFAULT),
        secret: secret.clone(),
    })
}

/// TLS to a store. `None` when something is wrong with it; that has been reported then.
fn store_tls(
    report: &Report<'_>,
    environment: &Environment,
    section: Option<&Section<'_, '_>>,
    place: Span,
    address: &StoreAddress,
) -> Option<StoreTls> {
    let options = match section {
        Some(section) => tls::options(section, environment)?,
        None => ClientTlsOptions::default(),
    };
    let nodes_lack = section.filter(|_| address.is_cluster());
    for name in ["fingerprint", "server_name"] {
        if let Some(node) = nodes_lack.and_then(|section| section.get(name)) {
            let message = format!("`{name}` has no effect with a Cluster: each node has its own certificate");
            report.error(
                node.span,
                message,
                "leave it out, and have `ca` vouch for all nodes by their addresses",
            );
        }
    }
    let ca = match &options.trust {
        Trust::Roots(pem) => Some(pem.clone()),
        Trust::System | Trust::Pinned(_) => None,
    };
    let identity = options.identity.clone();
    let place = section.map_or(place, |section| section.place);
    Some(StoreTls { client: tls::made(report, place, section, options)?, ca, identity })
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
            "write them as `user` and `password` of `shared_state`, which takes `file:/path`"
        }
        StoreAddressError::Scheme
        | StoreAddressError::Host
        | StoreAddressError::Port
        | StoreAddressError::Database => {
            "write `redis://store:6379`, `rediss://store:6379/1` or `unix:/run/valkey.sock`"
        }
        StoreAddressError::SeveralHosts => {
            "write `redis+cluster://a:6379,b:6379`, or `redis+sentinel://a:26379,b:26379/mymaster`"
        }
        StoreAddressError::Primary => "write `redis+sentinel://a:26379,b:26379/mymaster`",
        StoreAddressError::ClusterDatabase => {
            "write `redis+cluster://a:6379,b:6379`; `prefix` keeps names apart"
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
        if matches!(entry.key.text.as_str(), "rate_limit" | "rate_limit_per_client")
            && let Some(limit) = entry.value.as_map()
            && let Some(direction) = limit.iter().find(|key| key.key.text == "on_store_failure")
        {
            let message =
                "`on_store_failure` has no effect without `shared_state`: every process counts for itself";
            report.warning(direction.key.span, message, "write `shared_state: redis://…`, or leave it out");
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
