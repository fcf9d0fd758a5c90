//! HTTP upstreams: connection settings, and the headers of every request.

use http::{HeaderMap, HeaderValue};

use super::addresses::Addresses;
use super::{UpstreamSection, header_name, scalar};
use crate::route::UpstreamName;
use crate::settings::{
    Checked, Code, Cursor, Entry, Node, ReadContext, Report, Setting, ValueKind, read_each, secret,
};
use crate::tls::ClientTls;
use crate::upstream::http::{HttpSettings, OutlierDetectionSettings};

/// Creates the settings of an upstream with these addresses from the keys of `written`; `node` is the source
/// of `written`. Returns `None` after reporting the problems.
pub(super) fn settings(
    report: &Report<'_>,
    node: &Node,
    name: UpstreamName,
    addresses: Addresses,
    written: &mut UpstreamSection,
) -> Option<HttpSettings> {
    let tls = match (addresses.first.is_tls(), written.tls.take()) {
        (true, None) => {
            let url = node.get("url").or_else(|| node.get("mcp")).unwrap_or(node);
            Some(ClientTls::with_defaults(report, url.span)?)
        }
        (false, Some(_)) => {
            let help = "write an `https://` address, or remove `tls`";
            let place = node.entry("tls").map_or(node.span, |entry| entry.key.span);
            let message = "`tls` has no effect: the address is not `https://`";
            return report.reject(Code::TlsWithoutHttps.at_span(place), message, help);
        }
        (_, tls) => tls,
    };
    Some(HttpSettings {
        others: addresses.others,
        outlier_detection: written.outlier_detection.clone().on().unwrap_or_else(|| {
            OutlierDetectionSettings { consecutive_failures: None, ..OutlierDetectionSettings::default() }
        }),
        health_check: written.health_check.take(),
        dns_refresh_interval: written.dns_refresh_interval,
        protocol: written.protocol,
        tls,
        connect_timeout: written.connect_timeout,
        max_redirects: written.max_redirects.unwrap_or(HttpSettings::REDIRECTS_DEFAULT),
        headers: std::mem::take(&mut written.headers),
        auth: written.credentials.take(),
        // With fewer, connections would be closed after every burst and reopened for the next.
        idle_connections: written.policies.max_in_flight(),
        ..HttpSettings::new(name, addresses.first)
    })
}

/// Map of headers; values may contain `${VARIABLE}` or be `file:/path`.
impl Setting for HeaderMap {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Scalar);
    const ABSENT: Option<fn() -> Self> = Some(Self::new);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Some(entries) = value.node.as_map() else { return value.reject_kind("a map", None) };
        let mut headers = Self::new();
        let add = |entry: &Entry| {
            let (name, content) = header(value.context, entry)?;
            if headers.insert(name, content).is_none() {
                return Ok(());
            }
            let message = format!("duplicate header `{}`", entry.key.text);
            let at = Code::DuplicateKey.at_span(entry.key.span);
            Err(value.context.reject_at(at, message, "remove one of the two"))
        };
        read_each::<(), ()>(entries.iter().map(add))?;
        Ok(headers)
    }
}

fn header(
    context: ReadContext<'_>,
    Entry { key, value }: &Entry,
) -> Checked<(http::HeaderName, HeaderValue)> {
    let name = header_name(context, &key.text, key.span);
    let text = scalar(context, value, &format!("the header `{}`", key.text));
    let (name, text) = (name?, text?);
    let expanded = secret::expand_secret(context, value.span, &text)?;
    let mut content = HeaderValue::from_str(&expanded.text).map_err(|_| {
        let message =
            format!("the value of the header `{name}` contains line breaks or characters that are not ASCII");
        let help = "remove a line break at the end of the secret";
        context.reject_at(Code::InvalidValue.at_span(value.span), message, help)
    })?;
    let is_secret = secret::is_secret_name(&key.text);
    if is_secret {
        secret::warn_of_inline(context.report, value.span, &key.text, &expanded);
    }
    content.set_sensitive(expanded.external || value.secret || is_secret);
    Ok((name, content))
}
