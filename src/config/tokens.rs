//! `auth` of `server`: whose tokens are taken, and what clients are told of where they are given.

use std::time::Duration;

use super::{
    keys::{SERVER_AUTH, TLS, TOKENS},
    node::{Kind, Node},
    report::Report,
    secret::{self, Environment},
    section::{self, Section},
    upstreams::tls,
};
use crate::{
    auth::{Algorithm, KeyList, KeySource, Resource, ResourceUrl, TokenSettings},
    upstream::http::{HttpSettings, TokenUrl},
};

/// Reads `auth`. What is wrong with it has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    environment: &Environment,
    server: &Node,
) -> (Vec<TokenSettings>, Option<Resource>) {
    let auth = server
        .entry("auth")
        .and_then(|entry| Section::open(report, entry.key.span, &entry.value, &SERVER_AUTH));
    let Some(auth) = auth else { return (Vec::new(), None) };
    let url = resource(&auth, environment);
    let written: Vec<&Node> = match auth.get("jwt") {
        None => Vec::new(),
        Some(Node { kind: Kind::List(items), .. }) => items.iter().collect(),
        Some(one) => vec![one],
    };
    let tokens: Vec<TokenSettings> =
        written.iter().filter_map(|node| token(environment, &auth, node, url.as_ref())).collect();
    for (index, node) in written.iter().enumerate() {
        let issuer = |node: &Node| node.get("issuer").and_then(Node::as_text).map(str::to_owned);
        if issuer(node).is_some() && written[..index].iter().any(|other| issuer(other) == issuer(node)) {
            report.error(
                node.span,
                "this issuer stands there twice",
                "write all of its audiences in one place",
            );
        }
    }
    if written.is_empty() {
        let help =
            "write `jwt: { issuer: https://login.example.com, jwks: https://login.example.com/jwks.json }`";
        auth.missing("`auth` takes nobody's tokens".to_owned(), help);
    }
    let servers = auth.texts("authorization_servers").map(|texts| {
        let expand = |(node, text): (&Node, &str)| outside(report, environment, node, text);
        texts.into_iter().filter_map(expand).collect()
    });
    if let (Some(entry), None) = (auth.entry("authorization_servers"), auth.get("resource")) {
        let help = "write `resource`, the address that clients reach, or leave it out";
        report.error(
            entry.key.span,
            "`authorization_servers` has no effect without `resource`: nobody is told them",
            help,
        );
    }
    let servers =
        servers.unwrap_or_else(|| tokens.iter().map(|token| token.issuer.clone()).collect::<Vec<String>>());
    (tokens, url.map(|url| Resource { url, servers }))
}

/// A text, with what comes from outside put in.
fn outside(report: &Report<'_>, environment: &Environment, node: &Node, text: &str) -> Option<String> {
    Some(secret::expand(report, environment, node.span, text)?.text)
}

fn resource(auth: &Section<'_, '_>, environment: &Environment) -> Option<ResourceUrl> {
    let (node, text) = auth.text_node("resource")?;
    let text = outside(auth.report, environment, node, text)?;
    let url = match text.parse::<ResourceUrl>() {
        Ok(url) => url,
        Err(error) => {
            auth.report.error(node.span, error.to_string(), "write `https://tools.example.com/mcp`");
            return None;
        }
    };
    if url.is_open() {
        let message = "tokens are given for an address without TLS, so they come in the clear";
        auth.report.warning(node.span, message, "write an `https://` address");
    }
    Some(url)
}

fn token(
    environment: &Environment,
    auth: &Section<'_, '_>,
    node: &Node,
    resource: Option<&ResourceUrl>,
) -> Option<TokenSettings> {
    let report = auth.report;
    let section = Section::open(report, node.span, node, &TOKENS)?;
    let text =
        |node: &Node, what: &str| outside(report, environment, node, section::text_of(report, node, what)?);
    let issuer = section.required("issuer", "write `issuer: https://login.example.com`");
    let issuer = issuer.and_then(|node| text(node, "`issuer`"));
    let audiences: Vec<String> = match section.get("audience") {
        None => resource.map(|url| url.as_str().to_owned()).into_iter().collect(),
        Some(Node { kind: Kind::List(items), .. }) => {
            items.iter().filter_map(|item| text(item, "an item of `audience`")).collect()
        }
        Some(one) => text(one, "`audience`").into_iter().collect(),
    };
    // A `resource` that could not be read has been told of.
    let has_own = section.get("audience").is_some() || auth.get("resource").is_none();
    if has_own && (audiences.is_empty() || audiences.iter().any(String::is_empty)) {
        let help = "write `audience`, or `resource` beside `jwt`: what is for others must not be taken here";
        section.missing("the tokens have no audience".to_owned(), help);
    }
    let keys = keys(&section, environment);
    let algorithms = algorithms(&section, environment);
    let scope_claim = match section.text_node("scope_claim") {
        Some((node, text)) => outside(report, environment, node, text)?,
        None => TokenSettings::SCOPE_CLAIM_DEFAULT.to_owned(),
    };
    Some(TokenSettings {
        issuer: issuer?,
        audiences,
        keys: keys?,
        algorithms,
        leeway: leeway(&section, environment).unwrap_or(TokenSettings::LEEWAY_DEFAULT),
        scope_claim,
    })
}

fn leeway(section: &Section<'_, '_>, environment: &Environment) -> Option<Duration> {
    let node = section.get("clock_skew")?;
    let Some(text) = node.as_text().filter(|text| text.contains("${")) else {
        return section.duration("clock_skew");
    };
    let text = outside(section.report, environment, node, text)?;
    let read = section.duration_as("clock_skew", &text)?;
    if read.is_err() {
        let message = "with its variables put in, `clock_skew` is not what it takes";
        section.report.error(
            node.span,
            message,
            "look at the variables: write a duration up to `5m`, such as `30s`",
        );
    }
    read.ok()
}

fn algorithms(section: &Section<'_, '_>, environment: &Environment) -> Vec<Algorithm> {
    let Some(texts) = section.texts("algorithms") else { return TokenSettings::ALGORITHMS_DEFAULT.to_vec() };
    if texts.is_empty() {
        section.missing("`algorithms` is empty: no token could be taken".to_owned(), "name one: `[RS256]`");
    }
    let read = |(node, written): (&Node, &str)| {
        let expanded = secret::expand(section.report, environment, node.span, written)?;
        let text = expanded.text.trim();
        let found = Algorithm::named(text);
        if found.is_none() {
            let known = super::suggest::listed(Algorithm::ALL.iter().map(|one| one.as_str()));
            let help = match text.to_ascii_lowercase().as_str() {
                "none" => format!("a token that nobody has signed is anybody's; write one of {known}"),
                shared if shared.starts_with("hs") => {
                    format!("who can check such a token can make one; write one of {known}")
                }
                _ => format!("write one of {known}"),
            };
            let message = match expanded.foreign {
                true => "with its variables put in, it is not taken for a signature".to_owned(),
                false => format!("`{text}` is not taken for a signature"),
            };
            section.report.error(node.span, message, help);
        }
        found
    };
    texts.into_iter().filter_map(read).collect()
}

/// `jwks`: a document in a file, or a server that gives it.
fn keys(section: &Section<'_, '_>, environment: &Environment) -> Option<KeySource> {
    let report = section.report;
    let own_tls = section.section("tls", &TLS).map(|section| tls::read(&section, environment));
    section.required("jwks", "write `jwks: https://login.example.com/jwks.json`, or `file:/path`")?;
    let (node, written) = section.text_node("jwks")?;
    let expanded = secret::expand_secret(report, environment, node.span, written)?;
    let text = expanded.text.trim();
    if written.starts_with("file:") || text.starts_with('{') {
        if let Some(entry) = section.entry("tls") {
            report.error(entry.key.span, "`tls` has no effect: `jwks` is not a server", "leave it out");
        }
        let refuse = |error: crate::auth::NotAKeyList| {
            let help = "name a JWK set: `{\"keys\": [{\"kty\": \"RSA\", …}]}`";
            report.error(node.span, format!("`jwks` can't be used: {error}"), help);
        };
        return KeyList::read(text.as_bytes()).map_err(refuse).ok().map(KeySource::Written);
    }
    let Ok(url) = text.parse::<TokenUrl>() else {
        let help = "write `https://HOST/PATH`, or `file:/path`";
        report.error(node.span, "`jwks` is not a URL that keys can be asked for at", help);
        return None;
    };
    let tls = match (url.address.is_tls(), own_tls) {
        (true, Some(tls)) => Some(tls?),
        (true, None) => Some(tls::plain(report, node.span)?),
        (false, None) if url.address.is_near() => None,
        (false, None) => {
            let message = "the keys come from another machine without TLS: who is between can sign tokens";
            report.error(node.span, message, "write an `https://` address, or `file:/path`");
            return None;
        }
        (false, Some(_)) => {
            report.error(node.span, "`tls` has no effect: `jwks` is not `https://`", "leave `tls` out");
            return None;
        }
    };
    let name = "jwks".parse().expect("a word is a name");
    let server = Box::new(HttpSettings { tls, ..HttpSettings::new(name, url.address) });
    Some(KeySource::Server { server, path_and_query: url.path_and_query })
}
