//! HTTP upstreams: addresses, connection settings, and headers and query parameters of every request.

use http::{HeaderMap, HeaderValue, header::HOST, uri::Authority};

use super::{UpstreamSection, header_name, scalar};
use crate::route::UpstreamName;
use crate::settings::secret::Hidden;
use crate::settings::{
    Checked, Code, Cursor, Entry, Invalid, Kind, Node, ReadContext, Setting, ValueKind, expansion, read_each,
    secret, text_of,
};
use crate::upstream::http::{
    ADDRESS_LIMIT, Address, AddressError, HttpSettings, OutlierDetectionSettings, QueryParameter,
};

/// Addresses of an upstream, at least one.
pub(super) struct Addresses {
    pub(super) first: Address,
    pub(super) other_addresses: Vec<Address>,
}

impl Addresses {
    /// Warns of settings that have no effect, because they apply only to host names or to several addresses.
    fn warn_of_no_effect(&self, value: &Cursor<'_>) {
        if std::iter::once(&self.first).chain(&self.other_addresses).any(|address| address.name().is_some()) {
            return;
        }
        let warn = |name: &str, reason: &str, help: &str| {
            if let Some(entry) = value.sibling_entry(name) {
                let message = format!("`{name}` has no effect: {reason}");
                value.context.report.warning(Code::SingleAddress.at_span(entry.key.span), message, help);
            }
        };
        warn("dns_refresh_interval", "no address has a host name", "remove it");
        if self.other_addresses.is_empty() {
            let help = "write `url: [ADDRESS, ADDRESS]`, or remove it";
            warn("outlier_detection", "there is only one address", help);
        }
    }
}

impl Setting for Addresses {
    const KIND: ValueKind = ValueKind::OneOrMore(&ValueKind::Text);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        addresses(value).inspect(|addresses| addresses.warn_of_no_effect(value))
    }
}

fn addresses(value: &Cursor<'_>) -> Checked<Addresses> {
    let Kind::List(items) = &value.node.kind else {
        return Ok(Addresses { first: address(value)?, other_addresses: Vec::new() });
    };
    if items.is_empty() {
        let help = "write at least one address";
        return value.reject_coded(Code::EmptyValue.at_span(value.node.span), "`url` is an empty list", help);
    }
    if items.len() > ADDRESS_LIMIT {
        let message =
            format!("an upstream can have at most {ADDRESS_LIMIT} addresses, found {}", items.len());
        let help = "use a DNS name that resolves to all of them, or a load balancer";
        return value.reject_coded(Code::TooMany.at_span(value.node.span), message, help);
    }
    let mut found: Vec<Address> = Vec::new();
    let add = |item: &Node| {
        let address = address(&value.part(item, "an address", ValueKind::Text))?;
        if found.contains(&address) {
            let help = "remove one of the two";
            return value.reject_coded(Code::DuplicateValue.at_span(item.span), "duplicate address", help);
        }
        if found.first().is_some_and(|first| first.is_tls() != address.is_tls()) {
            let help = "write two upstreams, or `https://` for all";
            let message = "some addresses are `https://` and some are not";
            return value.reject_coded(Code::MixedSchemes.at_span(item.span), message, help);
        }
        found.push(address);
        Ok(())
    };
    read_each::<(), ()>(items.iter().map(add))?;
    Ok(Addresses { first: found.remove(0), other_addresses: found })
}

fn address(value: &Cursor<'_>) -> Checked<Address> {
    let expanded = expansion::expand(value.context, value.node.span, text_of(value)?)?;
    let text = expanded.text.trim();
    let error = match text.parse::<Address>() {
        // The path of the URL may contain a key, for example of a webhook, so it is masked.
        Ok(address) if expanded.external => return Ok(address.with_hidden_base()),
        Ok(address) => return Ok(address),
        Err(error) => error,
    };
    let subject = if expanded.external { "after variable expansion, the URL" } else { "the URL" };
    let help = match error {
        AddressError::Scheme => "write `http://HOST:PORT`".to_owned(),
        AddressError::Socket => {
            "write an absolute path: `unix:/run/app.sock`, or `unix:/run/app.sock:/base`".to_owned()
        }
        AddressError::Credentials => {
            "remove them, and write `credentials: { basic: { user: NAME, password: \"${NAME}\" } }`"
                .to_owned()
        }
        AddressError::Query => "move it to the `request`, or to `query` of the upstream".to_owned(),
        AddressError::NotAUrl => help_for(text, expanded.external),
    };
    let invalid = Invalid::without_value(format!("{subject} {error}"), help);
    value.reject(invalid.with_code(Code::InvalidAddress))
}

/// Help for a string that is not a URL, by its probable meaning: a variable, a command line or a host.
fn help_for(text: &str, is_external: bool) -> String {
    let displayable = Some(text).filter(|text| !is_external && !text.contains("://"));
    let host = text.split(['/', '?']).next().unwrap_or_default();
    if let Some(name) = displayable.and_then(variable_name) {
        format!("write `${{{name}}}`")
    } else if let Some(words) = displayable.and_then(words_of_command) {
        format!("write `http://HOST:PORT`; for a program, write `{{ command: [{words}] }}`")
    } else if displayable.is_some() && host.parse::<Authority>().is_ok() {
        format!("write `http://{text}`")
    } else {
        "write `http://HOST:PORT`, with a port from 1 to 65535".to_owned()
    }
}

/// Returns the name of an environment variable in the syntax of another program: `$NAME`, `{{ env.NAME }}`,
/// `$(NAME)`, `%NAME%`.
fn variable_name(text: &str) -> Option<&str> {
    let inside = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    let name = inside("{{", "}}")
        .map(|inner| inner.trim().trim_start_matches("env."))
        .or_else(|| inside("$(", ")"))
        .or_else(|| inside("%", "%"))
        .or_else(|| text.strip_prefix('$'))?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// Words of a command line without `RUN` (the keyword of a `request` to a command), as items of a YAML list;
/// `None` if the line has no space, or if a word needs quotes.
fn words_of_command(line: &str) -> Option<String> {
    let is_plain = |word: &&str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./@=+".contains(&b));
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "RUN").collect();
    let is_line = line.contains(char::is_whitespace) && words.iter().all(is_plain);
    (is_line && !words.is_empty()).then(|| words.join(", "))
}

/// Creates the settings of an upstream with these addresses; takes the other settings from `section`.
pub(super) fn settings(
    name: UpstreamName,
    addresses: Addresses,
    section: &mut UpstreamSection,
) -> Box<HttpSettings> {
    Box::new(HttpSettings {
        other_addresses: addresses.other_addresses,
        outlier_detection: section.outlier_detection.clone().on().unwrap_or_else(|| {
            OutlierDetectionSettings { consecutive_failures: None, ..OutlierDetectionSettings::default() }
        }),
        health_check: section.health_check.take(),
        dns_refresh_interval: section.dns_refresh_interval,
        protocol: section.protocol,
        tls: section.tls.take(),
        connect_timeout: section.connect_timeout,
        max_redirects: section.max_redirects.unwrap_or(HttpSettings::REDIRECTS_DEFAULT),
        headers: std::mem::take(&mut section.headers),
        query: section.query.take().unwrap_or_default(),
        auth: section.credentials.take(),
        // With fewer idle connections, connections would be closed after each burst and reopened for the
        // next.
        idle_connections: section.policies.max_in_flight(),
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

/// Parses query parameters; their values have the same form as header values.
pub(super) fn read_query(value: &Cursor<'_>) -> Checked<Option<Vec<QueryParameter>>> {
    let Some(entries) = value.node.as_map() else { return value.reject_kind("a map", None) };
    let read = |entry: &Entry| {
        let (text, is_secret) = expanded(value.context, entry, "parameter")?;
        Ok(QueryParameter { name: entry.key.text.clone(), value: Hidden(text), is_secret })
    };
    read_each(entries.iter().map(read)).map(Some)
}

/// Returns the expanded value of a header or query parameter, and whether it is a secret.
fn expanded(context: ReadContext<'_>, Entry { key, value }: &Entry, what: &str) -> Checked<(String, bool)> {
    let text = scalar(context, value, &format!("the {what} `{}`", key.text))?;
    let expanded = expansion::expand_secret(context, value.span, &text)?;
    let is_secret = secret::is_secret_name(&key.text);
    if is_secret {
        secret::warn_of_inline(context.report, value.span, &key.text, &expanded);
    }
    Ok((expanded.text, expanded.external || value.secret || is_secret))
}

fn header(context: ReadContext<'_>, entry: &Entry) -> Checked<(http::HeaderName, HeaderValue)> {
    let Entry { key, value } = entry;
    // `header_name` would reject `Host`, which is allowed in `headers`: it names a virtual host that differs
    // from the host in the address.
    let is_host = HOST.as_str().eq_ignore_ascii_case(&key.text);
    let name = if is_host { Ok(HOST) } else { header_name(context, &key.text, key.span) };
    let expanded = expanded(context, entry, "header");
    let (name, (text, is_secret)) = (name?, expanded?);
    let mut content = HeaderValue::from_str(&text).map_err(|_| {
        let message =
            format!("the value of the header `{name}` contains line breaks or characters that are not ASCII");
        let help = "write visible ASCII characters only, without a line break at the end";
        context.reject_at(Code::InvalidValue.at_span(value.span), message, help)
    })?;
    if is_host && (text.contains('@') || text.parse::<Authority>().is_err()) {
        let at = Code::InvalidValue.at_span(value.span);
        let help = "write `Host: reports.example.com`, with a port if it is not the default";
        return Err(context.reject_at(at, "the header `host` is not the name of a host", help));
    }
    content.set_sensitive(is_secret);
    Ok((name, content))
}
