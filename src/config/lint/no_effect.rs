//! Checks for settings of a route that have no effect.

use http::header::AUTHORIZATION;

use crate::{
    config::{
        code::Code,
        report::Report,
        route_tests::Example,
        schemas::ArgumentUse,
        tree::{Entry, Kind, Node},
        upstreams::UpstreamFile,
    },
    route::{HttpTemplate, InputSchema, RequestTemplate},
    settings::section::OpenSection,
    upstream::{UpstreamSettings, http::HttpSettings},
};

/// Rejects `async_operation` on a route that calls an MCP tool: the call ends when the work does.
pub(in crate::config) fn reject_async_operation(section: &OpenSection<'_>) -> Option<()> {
    let Some(entry) = section.entry("async_operation") else { return Some(()) };
    let help = "remove it: a call of an MCP tool ends when its work is done";
    section.value.context.report.error(
        Code::WrongUpstreamKind.at_span(entry.key.span),
        "`async_operation` has no effect on a call of an MCP tool",
        help,
    );
    None
}

/// Warns about `on_no_match` without `response`: without rules, the default rules always apply.
pub(in crate::config) fn warn_of_unused_on_no_match(section: &OpenSection<'_>) {
    if let Some(entry) = section.entry("on_no_match") {
        section.value.context.report.warning(
            Code::RequiresKey.at_span(entry.key.span),
            "`on_no_match` has no effect without `response`",
            "remove it: without rules the default rules apply",
        );
    }
}

/// Warns of arguments in a REST path or a resource URI that the request does not use.
pub(in crate::config) fn warn_of_unused_arguments<'a>(
    report: &Report<'_>,
    unused: impl Iterator<Item = &'a ArgumentUse>,
) {
    for argument in unused {
        let name = &argument.name;
        report.warning(
            Code::UnusedArgument.at_span(argument.span),
            format!("argument `{name}` is unused: the request does not contain it"),
            format!("add `{{{name}}}` to the request, or remove it here"),
        );
    }
}

/// Rejects settings for headers in a route that runs a command.
pub(in crate::config) fn report_headers(section: &OpenSection<'_>) {
    for entry in
        ["forward_headers", "propagate_trace_context"].into_iter().filter_map(|name| section.entry(name))
    {
        let message = format!("`{}` has no effect: a command has no headers", entry.key.text);
        section.value.context.report.error(
            Code::WrongUpstreamKind.at_span(entry.key.span),
            message,
            "remove it",
        );
    }
}

/// Warns of credentials in a route that are overridden, or that are not passed to the upstream.
pub(in crate::config) fn warn_of_credentials(
    section: &OpenSection<'_>,
    entry: &Entry,
    request: &RequestTemplate,
    upstream: Option<&UpstreamFile>,
) {
    let RequestTemplate::Http(template) = request else { return };
    let report = section.value.context.report;
    warn_of_authorization(report, section, template, upstream.and_then(|file| file.settings.http()));
    let is_cgi = upstream.is_some_and(|file| matches!(file.settings, UpstreamSettings::Cgi(_)));
    if is_cgi && template.carries(&AUTHORIZATION) {
        let message = "`Authorization` has no effect: credentials are not passed to a CGI program";
        let help = "set an environment variable under `env` of the upstream";
        report.warning(Code::WrongUpstreamKind.at_span(entry.key.span), message, help);
    }
}

/// Warns of examples whose arguments violate the input schema.
pub(in crate::config) fn warn_of_impossible_examples(
    report: &Report<'_>,
    section: &OpenSection<'_>,
    input: &InputSchema,
    tests: &[Example],
) {
    let Some(Kind::List(items)) = section.entry("tests").map(|entry| &entry.value.kind) else { return };
    for (test, item) in tests.iter().zip(items) {
        let Some(args) = item.get("args") else { continue };
        if let Err(why) = input.check(test.args.clone().into()) {
            report.warning(
                Code::ImpossibleTest.at_span(args.span),
                format!("`args` violates the input schema: {why}"),
                "write arguments that match `input`",
            );
        }
    }
}

/// Warns of `Authorization` in a route if its upstream has `credentials`, or if it is forwarded from the
/// client.
fn warn_of_authorization(
    report: &Report<'_>,
    section: &OpenSection<'_>,
    template: &HttpTemplate,
    upstream: Option<&HttpSettings>,
) {
    let is_authorization = |name: &http::HeaderName| *name == AUTHORIZATION;
    let by_auth = upstream.is_some_and(|upstream| upstream.auth.is_some());
    if let Some(entry) = section.entry("request")
        && by_auth
        && template.headers.iter().any(|(name, _)| is_authorization(name))
    {
        let message = "`Authorization` has no effect: `credentials` of the upstream sets it";
        report.warning(
            Code::OverriddenAuthorization.at_span(entry.key.span),
            message,
            "remove one of the two",
        );
    }
    for node in forwarded(section) {
        if node.as_text().is_some_and(|text| text.eq_ignore_ascii_case("authorization")) {
            match by_auth {
                true => {
                    let message = "`Authorization` has no effect: `credentials` of the upstream sets it";
                    report.warning(
                        Code::OverriddenAuthorization.at_span(node.span),
                        message,
                        "remove one of the two",
                    );
                }
                false => warn_of_forwarded_authorization(report, node),
            }
        }
    }
}

/// Items of `forward_headers`.
pub(in crate::config) fn forwarded<'a>(section: &OpenSection<'a>) -> &'a [Node] {
    section.entry("forward_headers").and_then(|entry| entry.value.as_list()).unwrap_or_default()
}

/// Warns that a client's token for this server is forwarded to an upstream (MCP, Security Best Practices,
/// "Token Passthrough").
pub(in crate::config) fn warn_of_forwarded_authorization(report: &Report<'_>, node: &Node) {
    let message = "the client's `Authorization` is forwarded to the upstream; MCP forbids that for a token that was \
                   issued for this server";
    let help = "configure `credentials` of the upstream; keep this only if clients send tokens that were issued \
                for the upstream";
    report.warning(Code::ForwardedAuthorization.at_span(node.span), message, help);
}
