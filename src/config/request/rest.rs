//! `rest`: HTTP method and path of the tool's REST endpoint.

use crate::settings::code::Code;
use http::Method;

use super::{method_of, values::warn_of_colon_names};
use crate::{
    config::{language, report::Report, schemas::UsedArguments, section::cursor, tree::Node},
    inbound::rest::RESERVED,
    route::{PathTemplate, RestEndpoint},
    settings::{keys::ValueKind, value::text_of},
};

/// Parses `rest`.
pub(in crate::config) fn rest(
    report: &Report<'_>,
    node: &Node,
    used: &mut UsedArguments,
) -> Option<RestEndpoint> {
    let text = text_of(&cursor(report, node.span, node, "`rest`", ValueKind::Text)).ok()?;
    let help = "write `METHOD /path/{argument}`, such as `POST /weather`";
    let Some((method, path)) = text.trim().split_once(char::is_whitespace) else {
        report.error(
            Code::InvalidEndpoint.at_span(node.span),
            format!("`rest` must have a method and a path, found {}", node.found()),
            help,
        );
        return None;
    };
    let path = path.trim();
    warn_of_colon_names(report, node.span, path);
    let method = method_of(report, language::span_of_name(report, node.span, method), method)?;
    if matches!(method, Method::HEAD | Method::OPTIONS) {
        report.error(
            Code::InvalidMethod.at_span(node.span),
            format!("`rest` can't use the method `{method}`"),
            "use `GET` or `POST`",
        );
        return None;
    }
    let template = match PathTemplate::parse(path) {
        Ok(template) => template,
        Err(error) => {
            report.error(Code::InvalidEndpoint.at_span(node.span), error.to_string(), help);
            return None;
        }
    };
    let own = |reserved: &str| path == reserved || path.starts_with(&format!("{reserved}/"));
    if let Some(reserved) = RESERVED.iter().find(|reserved| own(reserved)) {
        let message = format!("the path `{path}` is reserved: glossator uses `{reserved}` itself");
        report.error(
            Code::InvalidEndpoint.at_span(node.span),
            message,
            "choose another, such as `/weather`; `POST /tools/NAME` always exists",
        );
        return None;
    }
    let is_valid_segment = |segment: &str| {
        !segment.contains('{') || (segment.starts_with('{') && segment.find('}') == Some(segment.len() - 1))
    };
    if let Some(segment) = path.split('/').find(|segment| !is_valid_segment(segment)) {
        let message = format!("an argument in a REST path must be a whole segment, found `{segment}`");
        report.error(
            Code::InvalidEndpoint.at_span(node.span),
            message,
            "write `/reports/{id}`; only the path of the upstream request can have other characters in the segment",
        );
        return None;
    }
    let names: Vec<&str> = template.arguments().collect();
    if let Some(twice) =
        names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name))
    {
        let message = format!("the path contains the argument `{twice}` twice");
        report.error(Code::InvalidEndpoint.at_span(node.span), message, "remove one of the two");
        return None;
    }
    for name in names {
        used.add(name, false, language::span_of_name(report, node.span, name));
    }
    Some(RestEndpoint { method, path: path.to_owned() })
}
