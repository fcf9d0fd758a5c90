//! An upstream that speaks HTTP: its address, whom it is taken for, and what every request has.

use http::{HeaderMap, HeaderValue};

use super::{UpstreamDefaults, addresses, auth, header_name, scalar};
use crate::{
    config::{
        code::Code,
        node::{Entry, Node},
        report::Report,
        secret::{self, Environment},
        section::Section,
    },
    policy::PolicySettings,
    route::UpstreamName,
    settings::{
        keys::ValueKind,
        section::{Checked, Context, Cursor, Setting},
    },
    tls::ClientTls,
    upstream::http::{Address, HttpSettings, HttpVersion},
};

/// An upstream that is nothing but its address.
pub(super) fn line(
    report: &Report<'_>,
    environment: &Environment,
    defaults: UpstreamDefaults,
    node: &Node,
    text: &str,
) -> Option<impl FnOnce(UpstreamName) -> HttpSettings> {
    let address = addresses::address(report, environment, node, text)?;
    let tls = if address.is_tls() { Some(ClientTls::by_default(report, node.span)?) } else { None };
    Some(move |name| HttpSettings { tls, ..plain(name, address, defaults, &defaults.policy) })
}

/// An upstream with keys. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    section: &Section<'_, '_>,
    environment: &Environment,
    defaults: UpstreamDefaults,
    policy: &PolicySettings,
) -> Option<impl FnOnce(UpstreamName) -> HttpSettings> {
    let report = section.report;
    let (name, url) = match section.get("mcp") {
        Some(node) => {
            section.refuse_beside(&["url"], "mcp");
            ("`mcp`", Some(node))
        }
        None => ("`url`", section.required("url", "write `url: http://127.0.0.1:9000`")),
    };
    let addresses = url.and_then(|node| addresses::read(report, environment, node, name));
    let (connect_timeout, redirects) = (section.duration("connect_timeout"), section.count("max_redirects"));
    let headers = headers(section, environment);
    let auth = section.get("credentials").map(|_| auth::read(section, environment));
    let protocol = section.word("protocol").map_or(HttpVersion::Auto, |word| match word {
        "http1.0" => HttpVersion::Http10,
        "http1" => HttpVersion::Http1,
        "http2" => HttpVersion::Http2,
        _ => HttpVersion::Auto,
    });
    let own_tls = section.read_with::<ClientTls>(environment, "tls");
    let addresses = addresses?;
    let care = addresses::care(section, &addresses);
    let tls = match (addresses.first.is_tls(), section.entry("tls")) {
        (true, Some(_)) => Some(own_tls?),
        (true, None) => Some(ClientTls::by_default(report, url?.span)?),
        (false, None) => None,
        (false, Some(entry)) => {
            let help = "write an `https://` address, or leave `tls` out";
            report.error(
                Code::TlsWithoutHttps.at(entry.key.span),
                "`tls` has no effect: the address is not `https://`",
                help,
            );
            return None;
        }
    };
    let redirects = redirects.map(|redirects| u8::try_from(redirects).unwrap_or(u8::MAX));
    let policy = *policy;
    let auth = match auth {
        Some(auth) => Some(auth?),
        None => None,
    };
    Some(move |name| {
        let auth = auth.map(|auth| auth.named(&name));
        let plain = plain(name, addresses.first, defaults, &policy);
        HttpSettings {
            others: addresses.others,
            outlier_detection: care.outlier_detection,
            health_check: care.health_check,
            dns_refresh_interval: care.dns_refresh_interval,
            protocol,
            tls,
            connect_timeout: connect_timeout.unwrap_or(plain.connect_timeout),
            max_redirects: redirects.unwrap_or(plain.max_redirects),
            headers,
            auth,
            ..plain
        }
    })
}

fn plain(
    name: UpstreamName,
    address: Address,
    defaults: UpstreamDefaults,
    policy: &PolicySettings,
) -> HttpSettings {
    let settings = HttpSettings::new(name, address);
    HttpSettings {
        connect_timeout: defaults.connect_timeout.unwrap_or(settings.connect_timeout),
        // Fewer would close, after every burst, connections that the next one opens again.
        idle_connections: policy.max_in_flight,
        ..settings
    }
}

/// Reads `headers`. What is wrong with them has been reported then.
fn headers(section: &Section<'_, '_>, environment: &Environment) -> HeaderMap {
    headers_of(section.report, environment, section.map("headers").unwrap_or_default())
}

/// A map of headers, whose values may be `${VARIABLE}` or `file:/path`.
impl Setting for HeaderMap {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Scalar);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Some(entries) = value.node.as_map() else { return value.reject_kind("a map", None) };
        let Context { report, environment, .. } = value.context;
        let before = report.errors();
        let headers = headers_of(report, environment, entries);
        value.checked((report.errors() == before).then_some(headers))
    }

    fn when_absent() -> Option<Self> {
        Some(Self::new())
    }
}

fn headers_of(report: &Report<'_>, environment: &Environment, entries: &[Entry]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for Entry { key, value } in entries {
        let name = header_name(report, &key.text, key.span);
        let text = scalar(report, value, &format!("the header `{}`", key.text));
        let (Some(name), Some(text)) = (name, text) else { continue };
        let Some(expanded) = secret::expand_secret(report, environment, value.span, &text) else {
            continue;
        };
        let Ok(mut content) = HeaderValue::from_str(&expanded.text) else {
            report.error(
                Code::InvalidValue.at(value.span),
                format!("the value of the header `{name}` has line breaks or characters that are not ASCII"),
                "look for a line break at the end of the secret",
            );
            continue;
        };
        if secret::is_secret_name(&key.text) {
            auth::warn_of_inline(report, value, &key.text, &expanded);
        }
        content.set_sensitive(expanded.foreign || value.secret || secret::is_secret_name(&key.text));
        if headers.insert(name, content).is_some() {
            report.error(
                Code::DuplicateKey.at(key.span),
                format!("the header `{}` is here twice", key.text),
                "keep one of them",
            );
        }
    }
    headers
}
