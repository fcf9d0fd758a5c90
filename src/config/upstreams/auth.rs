//! `credentials` of an upstream: the authentication of glossator to it.

use ::http::header;

use super::scalar;
use crate::{
    config::{
        code::Code,
        keys::{BASIC, CREDENTIALS, OAUTH},
        node::{Entry, Node},
        report::Report,
        secret::{self, Environment, Expanded},
        section::Section,
        suggest,
    },
    route::{HttpTemplate, UpstreamName},
    tls::ClientTls,
    upstream::http::{
        AddressError, AuthSettings, AuthStyle, BearerToken, HiddenText, HttpSettings, OAuthSettings, TokenUrl,
    },
};

/// Reads `credentials`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(section: &Section<'_, '_>, environment: &Environment) -> Option<Written> {
    let auth = section.section("credentials", &CREDENTIALS)?;
    let ways = [
        auth.section("basic", &BASIC).map(|section| basic(&section, environment)),
        auth.text_node("bearer").map(|(node, text)| bearer(&auth, environment, node, text)),
        auth.section("oauth", &OAUTH).map(|section| oauth(&section, environment)),
    ];
    if let Some(headers) = section.map("headers")
        && let Some(entry) = headers.iter().find(|entry| entry.key.text.eq_ignore_ascii_case("authorization"))
    {
        let message = "`Authorization` has no effect beside `credentials`, which writes it";
        section.report.error(Code::ConflictingKeys.at(entry.key.span), message, "remove one of the two");
        return None;
    }
    let written = auth.node.as_map().unwrap_or_default();
    match written {
        [] => {
            let help = format!("write one of {}", suggest::listed(CREDENTIALS.names()));
            auth.missing("`credentials` does not say in which way".into(), &help);
            None
        }
        [_] => ways.into_iter().flatten().next()?,
        [_, second, ..] => {
            let message =
                format!("`{}` stands beside another way, and there is one `Authorization`", second.key.text);
            section.report.error(Code::ConflictingKeys.at(second.key.span), message, "keep one of them");
            None
        }
    }
}

/// What was written; it needs the name of its upstream yet.
pub(super) enum Written {
    /// Something that asks nobody.
    Ready(AuthSettings),
    /// Something that asks a token server, which is named as the upstream is.
    Asking(Box<dyn FnOnce(UpstreamName) -> AuthSettings>),
}

impl Written {
    pub(super) fn named(self, name: &UpstreamName) -> AuthSettings {
        match self {
            Self::Ready(settings) => settings,
            Self::Asking(settings) => settings(name.clone()),
        }
    }
}

fn basic(section: &Section<'_, '_>, environment: &Environment) -> Option<Written> {
    let user = section.required("user", "write `user: NAME`");
    let password = required_secret(section, environment, "password");
    let user = user.and_then(|node| {
        let text = scalar(section.report, node, "`user`")?;
        let user = secret::expand_secret(section.report, environment, node.span, &text)?.text;
        if user.contains(':') {
            let help = "no server could tell it from the password (RFC 7617, section 2)";
            section.report.error(Code::InvalidValue.at(node.span), "`user` has a colon in it", help);
            return None;
        }
        Some(user)
    });
    Some(Written::Ready(AuthSettings::Basic { user: user?, password: HiddenText::new(&password?) }))
}

fn bearer(section: &Section<'_, '_>, environment: &Environment, node: &Node, text: &str) -> Option<Written> {
    let report = section.report;
    let (file, token) = if text.starts_with("file:") {
        // It is read once to see that it can be; from then on it is read by whoever sends it.
        let (path, token) = secret::own_file(report, environment, node.span, text)?;
        (Some(path), token)
    } else {
        let expanded = secret::expand_secret(report, environment, node.span, text)?;
        warn_of_inline(report, node, "bearer", &expanded);
        (None, expanded.text)
    };
    let Ok(bearer) = BearerToken::new(token.trim()) else {
        let help = match token.trim().split_once(' ') {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("bearer") => {
                "leave out the word `Bearer`: it is written before it"
            }
            _ => "look for line breaks and spaces in it",
        };
        let message = "the token is empty, or has white space or characters that are not ASCII";
        report.error(Code::InvalidValue.at(node.span), message, help);
        return None;
    };
    Some(Written::Ready(file.map_or(AuthSettings::Bearer(bearer), AuthSettings::BearerFile)))
}

fn oauth(section: &Section<'_, '_>, environment: &Environment) -> Option<Written> {
    let report = section.report;
    let url = section.required("token_url", "write `token_url: https://login.example.com/oauth/token`");
    let url = url.and_then(|node| {
        let text = crate::config::section::text_of(report, node, "`token_url`")?;
        token_url(report, environment, node, text)
    });
    let client_id = section.required("client_id", "write `client_id: NAME`").and_then(|node| {
        let text = scalar(report, node, "`client_id`")?;
        Some(secret::expand_secret(report, environment, node.span, &text)?.text)
    });
    let client_secret = required_secret(section, environment, "client_secret");
    let style = match section.word("client_auth_method") {
        Some("client_secret_post") => AuthStyle::Post,
        _ => AuthStyle::Basic,
    };
    let scopes = section.texts("scopes").unwrap_or_default();
    let scopes: Vec<String> = scopes.into_iter().map(|(_, text)| text.to_owned()).collect();
    let audience = section.text("audience").map(|audience| ("audience".to_owned(), audience.to_owned()));
    let mut parameters: Vec<(String, String)> = audience.into_iter().collect();
    for Entry { key, value } in section.map("parameters").unwrap_or_default() {
        const OWN: [&str; 5] = ["grant_type", "client_id", "client_secret", "scope", "audience"];
        if OWN.contains(&key.text.as_str()) {
            let message =
                format!("the parameter `{}` is written by what stands beside `parameters`", key.text);
            report.error(Code::ReservedName.at(key.span), message, "use the key for it, or leave it out");
        }
        if let Some(text) = scalar(report, value, &format!("the parameter `{}`", key.text)) {
            parameters.push((key.text.clone(), text));
        }
    }
    let own_tls = section.read_with::<ClientTls>(environment, "tls");
    let url = url?;
    let tls = match (url.address.is_tls(), section.entry("tls")) {
        (true, Some(_)) => Some(own_tls?),
        (true, None) => Some(ClientTls::by_default(report, section.place)?),
        (false, None) => None,
        (false, Some(entry)) => {
            let help = "write an `https://` address, or leave `tls` out";
            report.error(
                Code::TlsWithoutHttps.at(entry.key.span),
                "`tls` has no effect: `token_url` is not `https://`",
                help,
            );
            return None;
        }
    };
    let (client_id, client_secret) = (client_id?, HiddenText::new(&client_secret?));
    Some(Written::Asking(Box::new(move |name| {
        let server = HttpSettings { tls, ..HttpSettings::new(name, url.address) };
        let path_and_query = url.path_and_query;
        AuthSettings::OAuth(Box::new(OAuthSettings {
            server,
            path_and_query,
            client_id,
            client_secret,
            style,
            scopes,
            parameters,
        }))
    })))
}

fn token_url(report: &Report<'_>, environment: &Environment, node: &Node, text: &str) -> Option<TokenUrl> {
    let expanded = secret::expand(report, environment, node.span, text)?;
    let url = match expanded.text.trim().parse::<TokenUrl>() {
        Ok(url) => url,
        Err(error) => {
            let help = match error {
                AddressError::Credentials => "leave them out; `client_id` and `client_secret` say who asks",
                _ => "write `https://HOST/PATH`",
            };
            report.error(
                Code::InvalidAddress.at(node.span),
                "`token_url` is not a URL that a token can be asked for at",
                help,
            );
            return None;
        }
    };
    if !url.address.is_tls() && !url.address.is_near() {
        let message = "the client's secret goes to `token_url` without TLS, and the token comes back so";
        report.warning(
            Code::CredentialsWithoutTls.at(node.span),
            message,
            "write an `https://` address (RFC 6749, section 3.2)",
        );
    }
    Some(url)
}

/// A secret that must be there.
fn required_secret(
    section: &Section<'_, '_>,
    environment: &Environment,
    name: &'static str,
) -> Option<String> {
    let node =
        section.required(name, &format!("write `{name}: ${{NAME}}` or `{name}: file:/run/secrets/NAME`"))?;
    let text = scalar(section.report, node, &format!("`{name}`"))?;
    let expanded = secret::expand_secret(section.report, environment, node.span, &text)?;
    warn_of_inline(section.report, node, name, &expanded);
    if expanded.text.is_empty() {
        section.report.error(
            Code::EmptyValue.at(node.span),
            format!("`{name}` is empty"),
            "look at where its value comes from",
        );
        return None;
    }
    Some(expanded.text)
}

/// Who can read the file can read what stands in it.
pub(in crate::config) fn warn_of_inline(report: &Report<'_>, node: &Node, name: &str, expanded: &Expanded) {
    if !expanded.foreign && !expanded.text.is_empty() {
        let message =
            format!("the value of `{name}` stands in the file itself, for everyone who can read it");
        report.warning(
            Code::SecretInFile.at(node.span),
            message,
            "write `${NAME}` for an environment variable, or `file:/path`",
        );
    }
}

/// What a route says of `Authorization` where its upstream has `credentials`.
pub(in crate::config) fn warn_of_idle(
    report: &Report<'_>,
    section: &Section<'_, '_>,
    template: &HttpTemplate,
    upstream: Option<&HttpSettings>,
) {
    let is_authorization = |name: &::http::HeaderName| *name == header::AUTHORIZATION;
    let by_auth = upstream.is_some_and(|upstream| upstream.auth.is_some());
    if let Some(entry) = section.entry("request")
        && by_auth
        && template.headers.iter().any(|(name, _)| is_authorization(name))
    {
        let message = "`Authorization` has no effect here: the `credentials` of the upstream writes it";
        report.warning(Code::OverriddenAuthorization.at(entry.key.span), message, "remove one of the two");
    }
    for (node, text) in section.texts("forward_headers").unwrap_or_default() {
        if text.eq_ignore_ascii_case("authorization") {
            match by_auth {
                true => {
                    let message =
                        "`Authorization` has no effect here: the `credentials` of the upstream writes it";
                    report.warning(
                        Code::OverriddenAuthorization.at(node.span),
                        message,
                        "remove one of the two",
                    );
                }
                false => warn_of_passing_on(report, node),
            }
        }
    }
}

/// A token that clients have for this program is none of an upstream's business (MCP, Security Best
/// Practices, "Token Passthrough").
pub(in crate::config) fn warn_of_passing_on(report: &Report<'_>, node: &Node) {
    let message = "the caller's `Authorization` goes on to the upstream; MCP forbids that for a token that was given \
                   for this server";
    let help = "give the upstream `credentials` of its own; keep this only where clients send what was given for the upstream";
    report.warning(Code::ForwardedAuthorization.at(node.span), message, help);
}
