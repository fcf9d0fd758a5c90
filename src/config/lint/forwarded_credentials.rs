//! Lint of credentials that a client's request carries to an upstream, or that have no effect there.

use http::header::AUTHORIZATION;

use crate::config::upstreams::ParsedUpstream;
use crate::route::RequestTemplate;
use crate::settings::{Code, Entry, Node, OpenSection};
use crate::upstream::UpstreamSettings;

/// Warns of credentials in a route that the upstream's `credentials` override, that are forwarded from the
/// client, or that are not passed to the upstream.
pub(crate) fn warn_of_credentials(
    section: &OpenSection<'_>,
    entry: &Entry,
    request: &RequestTemplate,
    upstream: Option<&ParsedUpstream>,
) {
    let RequestTemplate::Http(template) = request else { return };
    let settings = upstream.map(|parsed| &parsed.settings);
    if settings.and_then(UpstreamSettings::http).is_none_or(|http| http.auth.is_none()) {
        warn_of_forwarded_authorization(section);
    } else {
        let is_set = template.headers.iter().any(|(name, _)| *name == AUTHORIZATION);
        let request = section.entry("request").filter(|_| is_set).map(|entry| entry.key.span);
        for span in request.into_iter().chain(forwarded_authorization(section).map(|node| node.span)) {
            let message = "`Authorization` has no effect: `credentials` of the upstream sets it";
            let coded_span = Code::OverriddenAuthorization.at_span(span);
            section.report().warning(coded_span, message, "remove one of the two");
        }
    }
    if matches!(settings, Some(UpstreamSettings::Cgi(_))) && template.carries(&AUTHORIZATION) {
        let message = "`Authorization` has no effect: credentials are not passed to a CGI program";
        let help = "set an environment variable under `env` of the upstream";
        section.report().warning(Code::WrongUpstreamKind.at_span(entry.key.span), message, help);
    }
}

/// Returns the items of `forward_headers`.
pub(crate) fn forwarded<'a>(section: &OpenSection<'a>) -> &'a [Node] {
    section.get("forward_headers").and_then(Node::as_list).unwrap_or_default()
}

fn forwarded_authorization<'a>(section: &OpenSection<'a>) -> impl Iterator<Item = &'a Node> {
    let is_authorization = |text: &str| text.eq_ignore_ascii_case("authorization");
    forwarded(section).iter().filter(move |node| node.as_text().is_some_and(is_authorization))
}

/// Warns if the client's token, which was issued for this server, is forwarded to an upstream (MCP, Security
/// Best Practices, "Token Passthrough").
pub(crate) fn warn_of_forwarded_authorization(section: &OpenSection<'_>) {
    for node in forwarded_authorization(section) {
        let message = "the client's `Authorization` is forwarded to the upstream; MCP forbids that for a \
                       token that was issued for this server";
        let help = "configure `credentials` of the upstream; keep this only if clients send tokens that were \
                    issued for the upstream";
        section.report().warning(Code::ForwardedAuthorization.at_span(node.span), message, help);
    }
}
