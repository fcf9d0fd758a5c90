//! `when`: the conditions of a rule.

use super::{
    keys::WHEN,
    language,
    node::{Entry, Kind, Node},
    reply::{self, whole},
    report::Report,
    schemas::Asked,
    section::{self, Section},
    upstreams::scalar,
};
use crate::translate::{ExitPattern, Matcher, MediaPattern, Pattern, StatusPattern, TEMPLATE_NAMES};

/// Reads `when`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry, used: &mut Asked) -> Option<Matcher> {
    let section = Section::open(report, entry.key.span, &entry.value, &WHEN)?;
    let status = section.get("status").map(|node| {
        one_or_more(node)
            .iter()
            .map(|item| {
                let text = scalar(report, item, "`status`")?;
                let parsed = text.parse::<StatusPattern>();
                parsed
                    .map_err(|error| {
                        report.error(item.span, error.to_string(), "write `404`, `4xx` or `400-499`")
                    })
                    .ok()
            })
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Option<Vec<_>>>()
    });
    let exit = section.get("exit_status").map(|node| {
        one_or_more(node)
            .iter()
            .map(|item| {
                let parsed = scalar(report, item, "`exit_status`")?.parse::<ExitPattern>();
                let help = "write `1`, `1-9`, or `signal` where no status is left";
                parsed.map_err(|error| report.error(item.span, error.to_string(), help)).ok()
            })
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Option<Vec<_>>>()
    });
    let content_type = section.get("content_type").map(|node| {
        one_or_more(node)
            .iter()
            .map(|item| {
                let text = section::text_of(report, item, "`content_type`")?;
                let parsed = text.parse::<MediaPattern>();
                let help = "write the type without parameters: `text/plain`, `text/*`";
                parsed.map_err(|error| report.error(item.span, error.to_string(), help)).ok()
            })
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Option<Vec<_>>>()
    });
    let headers: Vec<_> = section
        .map("header")
        .unwrap_or_default()
        .iter()
        .map(|Entry { key, value }| {
            let name = key.text.parse::<http::HeaderName>().map_err(|_| {
                report.error(
                    key.span,
                    format!("`{}` is not a header name", key.text),
                    "write letters, digits and `-`",
                );
            });
            let pattern =
                language::pattern(report, value, &format!("the pattern of the header `{}`", key.text))?;
            refuse_taken_names(report, value, pattern.names())?;
            Some((name.ok()?, pattern))
        })
        .collect();
    let pattern = |name: &'static str, what: &str| {
        section.get(name).map(|node| {
            let pattern = language::pattern(report, node, what)?;
            refuse_taken_names(report, node, pattern.names())?;
            Some(pattern)
        })
    };
    let (stderr, text) = (pattern("stderr", "`stderr`"), pattern("text", "`text`"));
    let of_headers = headers.iter().flatten().map(|(_, pattern)| pattern);
    let captures = captures_of(stderr.iter().flatten().chain(of_headers), text.iter().flatten());
    used.all |= section.get("args").is_some();
    let mut condition = |name: &'static str, what: &str| {
        section.get(name).map(|node| reply::jq(report, node, what, &captures, used))
    };
    let (json, args, value) =
        (condition("json", "`json`"), condition("args", "`args`"), condition("value", "`value`"));
    let not = section.entry("not").map(|entry| read(report, entry, used).map(Box::new));
    if let (Some(Some(not)), Some(entry)) = (&not, section.entry("not"))
        && not.is_empty()
    {
        let message = "`not` says nothing, so the rule would never hold";
        report.error(entry.key.span, message, "write a condition in it: `not: { text: '^OK' }`");
        return None;
    }
    Some(Matcher {
        status: whole(status)?,
        exit: whole(exit)?,
        stderr: whole(stderr)?,
        content_type: whole(content_type)?,
        headers: headers.into_iter().collect::<Option<Vec<_>>>()?,
        text: whole(text)?,
        json: whole(json)?,
        args: whole(args)?,
        value: whole(value)?,
        not: whole(not)?,
    })
}

/// The names that patterns give to what they capture.
pub(super) fn captures(matcher: &Matcher) -> Vec<String> {
    let of_headers = matcher.headers.iter().map(|(_, pattern)| pattern);
    captures_of(matcher.stderr.iter().chain(of_headers), matcher.text.iter())
}

fn captures_of<'a>(
    headers: impl Iterator<Item = &'a Pattern>,
    text: impl Iterator<Item = &'a Pattern>,
) -> Vec<String> {
    headers.chain(text).flat_map(|pattern| pattern.names().iter().cloned()).collect()
}

fn one_or_more(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items,
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
            std::slice::from_ref(node)
        }
    }
}

/// A capture must not take the place of a name that templates have anyway.
fn refuse_taken_names(report: &Report<'_>, node: &Node, captures: &[String]) -> Option<()> {
    let taken = captures.iter().find(|name| TEMPLATE_NAMES.contains(&name.as_str()));
    if let Some(name) = taken {
        let message = format!("the capture `{name}` has the name of something that templates see anyway");
        report.error(language::words_in(report, node.span, name), message, format!("call it `found_{name}`"));
    }
    taken.is_none().then_some(())
}
