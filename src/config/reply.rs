//! `reply`: the rules that say what replies mean.

use super::{
    content, extract,
    keys::{RULE, WHEN},
    language,
    node::{Entry, Kind, Node},
    report::Report,
    schemas::Asked,
    section::{self, Section},
    source::Span,
    upstreams::scalar,
};
use crate::rule::{
    Action, ContentTemplate, ErrorRule, Jq, Matcher, MediaPattern, Rule, StatusPattern, SuccessRule,
    TEMPLATE_NAMES, Template, extract::Gives,
};

/// The names that the template of an error may use: there is no value yet.
const ERROR_NAMES: [&str; 5] = ["args", "status", "headers", "text", "json"];

/// One rule, and the places in it that later checks speak of.
pub(super) struct Compiled {
    pub(super) rule: Rule,
    pub(super) span: Span,
    pub(super) fields_span: Option<Span>,
}

/// Reads `reply`: one rule, or a list of them. `None` when something is wrong; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry, used: &mut Asked) -> Option<Vec<Compiled>> {
    let rules: Vec<(&Node, Span)> = match &entry.value.kind {
        Kind::List(items) => items.iter().map(|item| (item, first_key(item))).collect(),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
            vec![(&entry.value, entry.key.span)]
        }
    };
    let compiled: Vec<_> = rules.into_iter().map(|(node, span)| rule(report, node, span, used)).collect();
    let compiled = compiled.into_iter().collect::<Option<Vec<_>>>()?;
    warn_unreachable(report, &compiled);
    Some(compiled)
}

fn first_key(node: &Node) -> Span {
    node.as_map().and_then(|entries| entries.first()).map_or(node.span, |entry| entry.key.span)
}

fn rule(report: &Report<'_>, node: &Node, span: Span, used: &mut Asked) -> Option<Compiled> {
    let section = Section::open(report, span, node, &RULE)?;
    let matcher = match section.entry("when") {
        Some(entry) => when(report, entry, used),
        None => Some(Matcher::default()),
    };
    let charset = section.text_node("charset").map(|(node, text)| {
        text.parse()
            .map_err(|error| report.error(node.span, format!("{error}"), "write `iso-8859-1`, or `utf-8`"))
            .ok()
    });
    let captures = captures(matcher.as_ref());
    let (action, fields_span) = match section.get("error") {
        Some(error) => {
            section.refuse_beside(&["extract", "structured", "content"], "error");
            let template = template(report, error, "`error`", &ERROR_NAMES, &captures, used);
            let status = section.count("status").and_then(|status| u16::try_from(status).ok());
            (template.map(|text| Action::Error(ErrorRule { text, status })), None)
        }
        None => {
            if let Some(entry) = section.entry("status") {
                let help = "conditions stand under `when`; `status` beside `error` is for REST clients";
                report.error(entry.key.span, "`status` has no effect without `error`", help);
            }
            success(&section, &captures, used)
        }
    };
    let charset = match charset {
        Some(charset) => Some(charset?),
        None => None,
    };
    Some(Compiled { rule: Rule { matcher: matcher?, charset, action: action? }, span, fields_span })
}

fn success(
    section: &Section<'_, '_>,
    captures: &[String],
    used: &mut Asked,
) -> (Option<Action>, Option<Span>) {
    let report = section.report;
    let extract = section.entry("extract").map(|entry| extract::read(report, entry));
    let structured = section.get("structured").map(|node| jq(report, node, "`structured`", used));
    let names: Vec<&str> = TEMPLATE_NAMES.into_iter().chain(captures.iter().map(String::as_str)).collect();
    let content =
        section.entry("content").map(|entry| content::read(report, &entry.value, entry.key.span, &names));
    if let Some(Some(content)) = &content {
        content
            .templates()
            .into_iter()
            .for_each(|template| note_arguments(report, template, section.node.span, used));
    }
    let (Some(extract), Some(structured), Some(content)) =
        (whole(extract), whole(structured), whole(content))
    else {
        return (None, None);
    };
    let fields_span = extract.as_ref().and_then(|compiled| compiled.fields_span);
    if let (Some(compiled), Some(entry)) = (&extract, section.entry("structured"))
        && compiled.extractor.kind.gives() == Gives::Block
    {
        let message = "`structured` has nothing to work on: `binary` gives a block, and no value";
        report.error(entry.key.span, message, "remove one of the two");
        return (None, None);
    }
    let rule = SuccessRule {
        extract: extract.map(|compiled| compiled.extractor),
        structured,
        content: content.unwrap_or(ContentTemplate::Default),
    };
    (Some(Action::Success(rule)), fields_span)
}

/// What is absent may be; what is there must be right.
fn whole<T>(part: Option<Option<T>>) -> Option<Option<T>> {
    match part {
        None => Some(None),
        Some(None) => None,
        Some(some) => Some(some),
    }
}

fn captures(matcher: Option<&Matcher>) -> Vec<String> {
    let Some(matcher) = matcher else { return Vec::new() };
    let patterns = matcher.headers.iter().map(|(_, pattern)| pattern).chain(&matcher.text);
    patterns.flat_map(|pattern| pattern.names().iter().cloned()).collect()
}

fn template(
    report: &Report<'_>,
    node: &Node,
    what: &str,
    names: &[&str],
    captures: &[String],
    used: &mut Asked,
) -> Option<Template> {
    let names: Vec<&str> = names.iter().copied().chain(captures.iter().map(String::as_str)).collect();
    let template = language::template(report, node, what, &names)?;
    note_arguments(report, &template, node.span, used);
    Some(template)
}

/// A filter; one that sees the arguments may use any of them.
fn jq(report: &Report<'_>, node: &Node, what: &str, used: &mut Asked) -> Option<Jq> {
    used.all |= node.as_text().is_some_and(|text| text.contains("$args"));
    language::jq(report, node, what)
}

fn note_arguments(report: &Report<'_>, template: &Template, span: Span, used: &mut Asked) {
    match language::arguments_of(template) {
        None => used.all = true,
        Some(arguments) => arguments
            .iter()
            .for_each(|(name, _)| used.add(name, true, language::words_in(report, span, name))),
    }
}

fn when(report: &Report<'_>, entry: &Entry, used: &mut Asked) -> Option<Matcher> {
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
                    format!("`{}` is no name of a header", key.text),
                    "write letters, digits and `-`",
                );
            });
            let pattern =
                language::pattern(report, value, &format!("the pattern of the header `{}`", key.text));
            Some((name.ok()?, pattern?))
        })
        .collect();
    let text = section.get("text").map(|node| {
        let pattern = language::pattern(report, node, "`text`")?;
        refuse_taken_names(report, node, pattern.names())?;
        Some(pattern)
    });
    let json = section.get("json").map(|node| jq(report, node, "`json`", used));
    Some(Matcher {
        status: whole(status)?,
        content_type: whole(content_type)?,
        headers: headers.into_iter().collect::<Option<Vec<_>>>()?,
        text: whole(text)?,
        json: whole(json)?,
    })
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

/// A rule after one that always holds is never asked.
fn warn_unreachable(report: &Report<'_>, rules: &[Compiled]) {
    let success_only = |rule: &Rule| match (&rule.matcher.status, &rule.action) {
        (Some(patterns), _) => patterns.iter().all(|pattern| pattern.is_success_only()),
        (None, Action::Success(_)) => true,
        (None, Action::Error(_)) => false,
    };
    for (index, first) in rules.iter().enumerate().filter(|(_, first)| first.rule.matcher.is_empty()) {
        let takes_all = matches!(first.rule.action, Action::Error(_));
        for later in &rules[index + 1..] {
            if takes_all || success_only(&later.rule) {
                let place = report.files().place(first.span).line;
                report.warning(
                    later.span,
                    format!(
                        "this rule is never asked: the one in line {place} has no `when` and comes first"
                    ),
                    "put the rule without `when` last",
                );
            }
        }
    }
}
