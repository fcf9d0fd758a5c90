//! What is written in a route and has no effect there: whoever wrote it expects one.

use http::header::AUTHORIZATION;

use crate::{
    config::{
        code::Code,
        node::{Entry, Kind},
        report::Report,
        route_tests::Example,
        schemas::ArgumentUse,
        section::Section,
        upstreams::{UpstreamFile, auth},
    },
    route::{InputSchema, RequestTemplate},
    upstream::UpstreamSettings,
};

/// A call of a tool has no other end to wait for.
pub(in crate::config) fn refuse_job(section: &Section<'_, '_>) -> Option<()> {
    let Some(entry) = section.entry("async_operation") else { return Some(()) };
    let help = "leave it out: a call of a tool lasts as long as the work does";
    section.report.error(
        Code::WrongUpstreamKind.at(entry.key.span),
        "`async_operation` has no effect on a call of a tool",
        help,
    );
    None
}

/// Without rules there is none that could fail to fit.
pub(in crate::config) fn warn_of_otherwise(section: &Section<'_, '_>) {
    if let Some(entry) = section.entry("on_no_match") {
        section.report.warning(
            Code::RequiresKey.at(entry.key.span),
            "`on_no_match` has no effect without `response`",
            "leave it out: every reply is read by its media type",
        );
    }
}

/// Who gives an argument, in a path or a URI, expects it to matter.
pub(in crate::config) fn warn_of_lost_arguments<'a>(
    report: &Report<'_>,
    lost: impl Iterator<Item = &'a ArgumentUse>,
) {
    for argument in lost {
        let name = &argument.name;
        report.warning(
            Code::UnusedArgument.at(argument.span),
            format!("the argument `{name}` goes nowhere: the request does not have it"),
            format!("put `{{{name}}}` into the request, or take it out here"),
        );
    }
}

/// A command has no headers to put anything into.
pub(in crate::config) fn refuse_headers(section: &Section<'_, '_>) {
    for entry in
        ["forward_headers", "propagate_trace_context"].into_iter().filter_map(|name| section.entry(name))
    {
        let message = format!("`{}` has no effect: a command has no headers", entry.key.text);
        section.report.error(Code::WrongUpstreamKind.at(entry.key.span), message, "leave it out");
    }
}

/// Credentials that the upstream of a route has or is given, and that nobody gets to see.
pub(in crate::config) fn warn_of_credentials(
    section: &Section<'_, '_>,
    entry: &Entry,
    request: &RequestTemplate,
    upstream: Option<&UpstreamFile>,
) {
    let RequestTemplate::Http(template) = request else { return };
    let report = section.report;
    auth::warn_of_idle(report, section, template, upstream.and_then(|file| file.settings.http()));
    let is_cgi = upstream.is_some_and(|file| matches!(file.settings, UpstreamSettings::Cgi(_)));
    if is_cgi && template.carries(&AUTHORIZATION) {
        let message = "`Authorization` has no effect: a CGI program is given no credentials";
        let help = "set a variable for it, under `env` of the upstream";
        report.warning(Code::WrongUpstreamKind.at(entry.key.span), message, help);
    }
}

/// An example with arguments that no call can have shows nothing.
pub(in crate::config) fn warn_of_impossible_examples(
    report: &Report<'_>,
    section: &Section<'_, '_>,
    input: &InputSchema,
    tests: &[Example],
) {
    let Some(Kind::List(items)) = section.get("tests").map(|node| &node.kind) else { return };
    for (test, item) in tests.iter().zip(items) {
        let Some(args) = item.get("args") else { continue };
        if let Err(why) = input.check(test.args.clone().into()) {
            report.warning(
                Code::ImpossibleTest.at(args.span),
                format!("no call has these arguments: {why}"),
                "write what `input` asks for",
            );
        }
    }
}
