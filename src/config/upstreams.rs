//! `upstreams`: where the legacy servers are, and how each is asked.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    keys::{TLS, UPSTREAM},
    node::{Entry, Kind, Node},
    policies,
    report::Report,
    secret::{self, Environment},
    section::Section,
    source::Span,
    tls,
};
use crate::{
    policy::PolicySettings,
    route::UpstreamName,
    upstream::{Address, AddressError, Protocol, UpstreamSettings},
};

/// One legacy server, and how carefully it is asked.
#[derive(Debug, Clone)]
pub struct UpstreamFile {
    /// Where it is, and how it is reached.
    pub settings: UpstreamSettings,
    /// The guards round it.
    pub policy: PolicySettings,
    /// What its routes take where they say nothing.
    pub(super) deadline: Option<Duration>,
    pub(super) reply_limit_bytes: Option<usize>,
    pub(super) value_limit: Option<usize>,
}

/// What upstreams take where they say nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpstreamDefaults {
    pub(super) connect_timeout: Option<Duration>,
    pub(super) policy: PolicySettings,
}

/// Headers that belong to the message or the connection, not to whoever writes a file.
pub(super) const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Reads one upstream. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    environment: &Environment,
    defaults: UpstreamDefaults,
    entry: &Entry,
) -> Option<UpstreamFile> {
    let name = match entry.key.text.parse::<UpstreamName>() {
        Ok(name) => Some(name),
        Err(error) => {
            report.error(
                entry.key.span,
                error.to_string(),
                "the name is yours to choose: `weather`, `billing-v1`",
            );
            None
        }
    };
    if let Some(text) = entry.value.as_text() {
        let address = address(report, environment, &entry.value, text)?;
        let tls = if address.is_tls() { Some(tls::plain(report, entry.value.span)?) } else { None };
        let mut upstream = plain(name?, address, defaults);
        upstream.settings.tls = tls;
        return Some(upstream);
    }
    if !matches!(entry.value.kind, Kind::Map(_)) {
        let message = format!("an upstream is a URL or a map, found {}", entry.value.found());
        report.error(entry.value.span, message, "write `NAME: http://127.0.0.1:9000`");
        return None;
    }
    let section = Section::open(report, entry.key.span, &entry.value, &UPSTREAM)?;
    let url = section.required("url", "write `url: http://127.0.0.1:9000`");
    let address = url.and_then(|node| {
        let text = super::section::text_of(report, node, "`url`")?;
        address(report, environment, node, text)
    });
    let (connect_timeout, redirects) = (section.duration("connect_timeout"), section.count("redirects"));
    let headers = headers(&section, environment);
    let policy = policies::read(&section, defaults.policy);
    let (deadline, reply_limit_bytes) = (section.duration("deadline"), section.size("reply_limit"));
    let value_limit = section.count("value_limit").and_then(|count| usize::try_from(count).ok());
    let protocol = section.word("protocol").map_or(Protocol::Auto, |word| match word {
        "http1.0" => Protocol::Http10,
        "http1" => Protocol::Http1,
        "http2" => Protocol::Http2,
        _ => Protocol::Auto,
    });
    let own_tls = section.section("tls", &TLS).map(|section| tls::read(&section, environment));
    let address = address?;
    let tls = match (address.is_tls(), section.entry("tls")) {
        (true, Some(_)) => Some(own_tls??),
        (true, None) => Some(tls::plain(report, url?.span)?),
        (false, None) => None,
        (false, Some(entry)) => {
            let help = "write an `https://` address, or leave `tls` out";
            report.error(entry.key.span, "`tls` has no effect: the address is not `https://`", help);
            return None;
        }
    };
    let mut upstream = plain(name?, address, defaults);
    (upstream.settings.protocol, upstream.settings.tls) = (protocol, tls);
    if let Some(connect_timeout) = connect_timeout {
        upstream.settings.connect_timeout = connect_timeout;
    }
    if let Some(redirects) = redirects {
        upstream.settings.redirects = u8::try_from(redirects).unwrap_or(u8::MAX);
    }
    upstream.policy = policy;
    upstream.settings.headers = headers;
    upstream.settings.idle_connections = upstream.policy.in_flight_limit;
    Some(UpstreamFile { deadline, reply_limit_bytes, value_limit, ..upstream })
}

fn plain(name: UpstreamName, address: Address, defaults: UpstreamDefaults) -> UpstreamFile {
    let mut settings = UpstreamSettings::new(name, address);
    let policy = defaults.policy;
    if let Some(connect_timeout) = defaults.connect_timeout {
        settings.connect_timeout = connect_timeout;
    }
    // Fewer would close, after every burst, connections that the next one opens again.
    settings.idle_connections = policy.in_flight_limit;
    UpstreamFile { settings, policy, deadline: None, reply_limit_bytes: None, value_limit: None }
}

fn address(report: &Report<'_>, environment: &Environment, node: &Node, text: &str) -> Option<Address> {
    let expanded = secret::expand(report, environment, node.span, text)?;
    let text = expanded.text.trim();
    let error = match text.parse::<Address>() {
        Ok(address) => return Some(address),
        Err(error) => error,
    };
    let subject = if expanded.foreign { "with its variables put in, the URL" } else { "the URL" };
    let (message, help) = match error {
        AddressError::Scheme => {
            ("is not `http://`, `https://` or `unix:`".to_owned(), "write `http://HOST:PORT`".to_owned())
        }
        AddressError::Socket => (
            "names no socket".to_owned(),
            "write it from the root on: `unix:/run/app.sock`, or `unix:/run/app.sock:/base`".to_owned(),
        ),
        AddressError::Credentials => (
            "has a user or password in it".to_owned(),
            "leave them out, and write `headers: { Authorization: \"Basic ${NAME}\" }`".to_owned(),
        ),
        AddressError::Query => (
            "has a query or a fragment in it".to_owned(),
            "leave it out; queries belong to routes".to_owned(),
        ),
        AddressError::NotAUrl => {
            let guess = text.split(['/', '?']).next().unwrap_or_default();
            let help = match guess.parse::<http::uri::Authority>() {
                Ok(_) if !expanded.foreign && !text.contains("://") => format!("write `http://{text}`"),
                _ => "write `http://HOST:PORT`, with a port from 1 to 65535".to_owned(),
            };
            ("is no URL that can be reached".to_owned(), help)
        }
    };
    report.error(node.span, format!("{subject} {message}"), help);
    None
}

fn headers(section: &Section<'_, '_>, environment: &Environment) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for Entry { key, value } in section.map("headers").unwrap_or_default() {
        let name = header_name(section.report, &key.text, key.span);
        let text = scalar(section.report, value, &format!("the header `{}`", key.text));
        let (Some(name), Some(text)) = (name, text) else { continue };
        let Some(expanded) = secret::expand_secret(section.report, environment, value.span, &text) else {
            continue;
        };
        let Ok(mut content) = HeaderValue::from_str(&expanded.text) else {
            section.report.error(
                value.span,
                format!("the value of the header `{name}` has line breaks or characters that are not ASCII"),
                "look for a line break at the end of the secret",
            );
            continue;
        };
        content.set_sensitive(expanded.foreign || value.secret || secret::is_secret_name(&key.text));
        if headers.insert(name, content).is_some() {
            section.report.error(
                key.span,
                format!("the header `{}` is here twice", key.text),
                "keep one of them",
            );
        }
    }
    headers
}

/// The name of a header that a file may set or let through.
pub(super) fn header_name(report: &Report<'_>, text: &str, span: Span) -> Option<HeaderName> {
    let Ok(name) = text.parse::<HeaderName>() else {
        report.error(
            span,
            format!("`{text}` is no name of a header"),
            "write letters, digits and `-`: `X-Request-Id`",
        );
        return None;
    };
    if OWN_HEADERS.contains(&name.as_str()) {
        let message =
            format!("the header `{name}` belongs to the connection and is written by the proxy itself");
        report.error(span, message, "leave it out");
        return None;
    }
    Some(name)
}

/// A text, number or flag, as text.
pub(super) fn scalar(report: &Report<'_>, node: &Node, what: &str) -> Option<String> {
    let text = node.scalar();
    if text.is_none() {
        report.error(node.span, format!("{what} takes a text, found {}", node.found()), None);
    }
    text
}
