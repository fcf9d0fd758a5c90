//! `reply`: the rules that say what replies mean.

use super::{
    ask, content, extract,
    keys::{ERROR, RULE},
    language, limit,
    node::{Entry, Kind, Node},
    promise,
    report::Report,
    rules::{Via, WrittenRule},
    schemas::{Asked, AskedAnswer},
    section::Section,
    source::Span,
    suggest, when,
};
use crate::translate::{
    Action, CodeTemplate, ContentTemplate, ErrorRule, Jq, Matcher, Rule, SuccessRule, TEMPLATE_NAMES,
    Template,
    extract::{Extract, Gives},
};

/// One rule, and the places in it that later checks speak of.
pub(super) struct Compiled {
    pub(super) rule: Rule,
    /// The `use` that brought it there.
    pub(super) via: Option<Via>,
    pub(super) span: Span,
    pub(super) fields_span: Option<Span>,
}

/// Reads the rules of a reply. `None` when something is wrong; that has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    rules: Vec<WrittenRule<'_>>,
    used: &mut Asked,
) -> Option<Vec<Compiled>> {
    let mut compiled = Vec::with_capacity(rules.len());
    for WrittenRule { node, span, via } in rules {
        let context = via.as_ref().map(|via| &via.context);
        let mut asked = Asked::default();
        let read = report.within(context.cloned(), || rule(report, &node, span, &mut asked));
        used.all |= asked.all;
        asked.arguments.iter().for_each(|argument| used.add_for(argument, context));
        used.answers.extend(
            asked.answers.into_iter().map(|answer| AskedAnswer { context: context.cloned(), ..answer }),
        );
        compiled.push(read.map(|read| Compiled { via, ..read }));
    }
    let compiled = compiled.into_iter().collect::<Option<Vec<_>>>()?;
    warn_unreachable(report, &compiled);
    Some(compiled)
}

/// Rules of a route itself that ask for the end of a program where none is run. Those that it shares with other routes
/// may be for them.
pub(super) fn warn_of_programs(report: &Report<'_>, own: &[Compiled]) {
    let is_idle = |rule: &&Compiled| rule.via.is_none() && rule.rule.matcher.is_about_programs();
    for rule in own.iter().filter(is_idle) {
        let message = "this rule never holds: `exit_status` and `stderr` are for commands";
        report.warning(rule.span, message, "write `when: { status: … }`");
    }
}

/// The rules of a route and after them those of `defaults.response` that can be asked at all.
pub(super) fn with_defaults(mut own: Vec<Compiled>, defaults: Vec<Compiled>) -> Vec<Compiled> {
    let asked = defaults.into_iter().filter(|rule| !own.iter().any(|first| takes_all_of(first, rule)));
    let asked: Vec<_> = asked.collect();
    own.extend(asked);
    own
}

fn rule(report: &Report<'_>, node: &Node, span: Span, used: &mut Asked) -> Option<Compiled> {
    let section = Section::open(report, span, node, &RULE)?;
    let matcher = match section.entry("when") {
        Some(entry) => when::read(report, entry, used),
        None => Some(Matcher::default()),
    };
    let charset = section.text_node("charset").map(|(node, text)| {
        text.parse()
            .map_err(|error| report.error(node.span, format!("{error}"), "write `iso-8859-1`, or `utf-8`"))
            .ok()
    });
    let captures = matcher.as_ref().map(when::captures).unwrap_or_default();
    let (action, fields_span) = match section.entry("error") {
        Some(entry) => (error(&section, entry, matcher.as_ref(), &captures, used).map(Action::Error), None),
        None => {
            if let Some(entry) = section.entry("status") {
                let help = "conditions stand under `when`; `status` beside `error` is for REST clients";
                report.error(entry.key.span, "`status` has no effect without `error`", help);
            }
            success(&section, &captures, used)
        }
    };
    if let (Some(matcher), Some(action)) = (&matcher, &action) {
        refuse_value_of_nothing(&section, matcher, action.extract())?;
    }
    let charset = match charset {
        Some(charset) => Some(charset?),
        None => None,
    };
    Some(Compiled {
        via: None,
        rule: Rule { matcher: matcher?, charset, action: action? },
        span,
        fields_span,
    })
}

/// A model that is told nothing can do nothing about it.
fn refuse_empty(report: &Report<'_>, error: &Node) {
    if error.as_text().is_some_and(|text| text.trim().is_empty()) {
        let message = "`error` is empty, and a model would not know what is wrong";
        report.error(
            error.span,
            message,
            "say what is wrong, and what to do: `error: \"No such city. Try Oslo.\"`",
        );
    }
}

/// Reads `error`: a template, or a map with one.
fn error(
    section: &Section<'_, '_>,
    entry: &Entry,
    matcher: Option<&Matcher>,
    captures: &[String],
    used: &mut Asked,
) -> Option<ErrorRule> {
    let report = section.report;
    section.refuse_beside(&["content", "limit", "sample"], "error");
    if let Some(entry) = section.entry("structured") {
        let help = "write it inside: `error: { text: …, structured: … }`";
        report.error(entry.key.span, "`structured` has no effect beside `error`", help);
    }
    let extract = section.entry("extract").map(|entry| extract::read(report, entry));
    let beside = section.count("status");
    let inner = match &entry.value.kind {
        Kind::Map(_) => Some(Section::open(report, entry.key.span, &entry.value, &ERROR)?),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => None,
    };
    let structured = inner.as_ref().and_then(|inner| {
        inner.get("structured").map(|node| jq(report, node, "`structured`", captures, used))
    });
    // What is not there has no name.
    let missing = |name: &&str| *name == "structured" && structured.is_none();
    let names: Vec<&str> = TEMPLATE_NAMES
        .into_iter()
        .filter(|name| !missing(name))
        .chain(captures.iter().map(String::as_str))
        .collect();
    let (text, code, status) = match &inner {
        None => {
            refuse_empty(report, &entry.value);
            (template(report, &entry.value, "`error`", &names, used), None, beside)
        }
        Some(inner) => {
            let text = inner.required("text", "write `text: \"…\"`: what the model reads").and_then(|node| {
                refuse_empty(report, node);
                template(report, node, "`text`", &names, used)
            });
            let code = inner
                .get("code")
                .map(|node| template(report, node, "`code`", &names, used).map(CodeTemplate::new));
            if beside.is_some() && inner.entry("status").is_some() {
                section.refuse_beside(&["status"], "error: { status: … }");
            }
            (text, code, inner.count("status").or(beside))
        }
    };
    let rule = ErrorRule {
        extract: whole(extract)?.map(|compiled| compiled.extract),
        text: text?,
        code: whole(code)?,
        structured: whole(structured)?,
        status: status.and_then(|status| u16::try_from(status).ok()),
    };
    if let (Some(extract), false) = (section.entry("extract"), rule.reads_value())
        && !matcher.is_some_and(Matcher::reads_value)
    {
        let help = "it is for `value` in a template, `structured` of the error, and `when: { value: … }`";
        report.warning(
            extract.key.span,
            "`extract` has no effect: nothing of this rule looks at the value",
            help,
        );
    }
    Some(rule)
}

/// Bytes have no value for a condition or a filter to look at.
fn refuse_value_of_nothing(
    section: &Section<'_, '_>,
    matcher: &Matcher,
    extract: Option<&Extract>,
) -> Option<()> {
    let gives_block = extract.is_some_and(|extract| extract.gives() == Gives::Block);
    if gives_block
        && matcher.reads_value()
        && let Some(entry) = section.entry("when")
    {
        let message = "`value` has nothing to look at: `binary` gives a block, and no value";
        section.report.error(entry.key.span, message, "remove one of the two");
        return None;
    }
    Some(())
}

fn success(
    section: &Section<'_, '_>,
    captures: &[String],
    used: &mut Asked,
) -> (Option<Action>, Option<Span>) {
    let report = section.report;
    let extract = section.entry("extract").map(|entry| extract::read(report, entry));
    let structured = section.get("structured").map(|node| jq(report, node, "`structured`", captures, used));
    let names: Vec<&str> = TEMPLATE_NAMES.into_iter().chain(captures.iter().map(String::as_str)).collect();
    let content = section.entry("content").map(|entry| {
        let mut scope = content::Scope { names: &names, captures, used: &mut *used };
        content::read(report, &entry.value, entry.key.span, &mut scope)
    });
    let limit = section.entry("limit").map(|entry| limit::read(report, entry, used).map(Box::new));
    let sample = section.entry("sample").map(|entry| ask::sample(report, entry, &names, used).map(Box::new));
    if let Some(Some(content)) = &content {
        content
            .templates()
            .into_iter()
            .for_each(|template| note_arguments(report, template, section.node.span, used));
    }
    let (Some(extract), Some(structured), Some(content), Some(limit), Some(sample)) =
        (whole(extract), whole(structured), whole(content), whole(limit), whole(sample))
    else {
        return (None, None);
    };
    let fields_span = extract.as_ref().and_then(|compiled| compiled.fields_span);
    let needs_value = section.entry("structured").or_else(|| section.entry("limit"));
    if let (Some(compiled), Some(entry)) = (&extract, needs_value)
        && compiled.extract.gives() == Gives::Block
    {
        let message =
            format!("`{}` has nothing to work on: `binary` gives a block, and no value", entry.key.text);
        report.error(entry.key.span, message, "remove one of the two");
        return (None, None);
    }
    let rule = SuccessRule {
        extract: extract.map(|compiled| compiled.extract),
        structured,
        content: content.unwrap_or(ContentTemplate::Default),
        limit,
        sample,
    };
    if let Some(entry) = section.entry("content")
        && !knows_its_ways(report, entry, &rule)
    {
        return (None, None);
    }
    (Some(Action::Success(rule)), fields_span)
}

/// A template that goes to `structured.x` where no rule gives an `x` fails at every call.
fn knows_its_ways(report: &Report<'_>, entry: &Entry, rule: &SuccessRule) -> bool {
    let Some(value) = promise::schema_of(rule) else { return true };
    let is_object = value.get("type").is_some_and(|kind| kind == "object");
    let before = report.errors();
    for path in rule.content.templates().into_iter().flat_map(Template::paths) {
        let steps: Vec<&str> = path.split('.').collect();
        let way = match steps[..] {
            ["structured", ref way @ ..] if is_object => way,
            ["value", ref way @ ..] => way,
            _ => continue,
        };
        if let Some((name, names)) = promise::missing_on_the_way(&value, way) {
            let message = format!("the template asks for `{path}`, and this rule gives no `{name}`");
            let help = suggest::help(&name, "it gives", names.iter().map(String::as_str));
            report.error(language::words_in(report, entry.value.span, path), message, help);
        }
    }
    report.errors() == before
}

/// What is absent may be; what is there must be right.
pub(super) fn whole<T>(part: Option<Option<T>>) -> Option<Option<T>> {
    match part {
        None => Some(None),
        Some(None) => None,
        Some(some) => Some(some),
    }
}

fn template(
    report: &Report<'_>,
    node: &Node,
    what: &str,
    names: &[&str],
    used: &mut Asked,
) -> Option<Template> {
    let template = language::template(report, node, what, names)?;
    note_arguments(report, &template, node.span, used);
    Some(template)
}

/// A filter; one that sees the arguments may use any of them.
pub(super) fn jq(
    report: &Report<'_>,
    node: &Node,
    what: &str,
    captures: &[String],
    used: &mut Asked,
) -> Option<Jq> {
    used.all |= node.as_text().is_some_and(|text| text.contains("$args"));
    used.add_answers_of_jq(report, node.span, node.as_text().unwrap_or_default());
    language::jq(report, node, what, captures)
}

pub(super) fn note_arguments(report: &Report<'_>, template: &Template, span: Span, used: &mut Asked) {
    used.add_answers(report, template, span);
    match language::arguments_of(template) {
        None => used.all = true,
        Some(arguments) => arguments
            .iter()
            .for_each(|(name, _)| used.add(name, true, language::words_in(report, span, name))),
    }
}

/// Whether the first of two rules takes every reply that the later was written for.
fn takes_all_of(first: &Compiled, later: &Compiled) -> bool {
    // Without a condition a success rule holds for 2xx, and an error rule for all but 5xx.
    let taken = match (&first.rule.action, &later.rule.matcher.status, &later.rule.action) {
        (Action::Success(_), Some(patterns), _) => patterns.iter().all(|pattern| pattern.is_success_only()),
        (Action::Error(_), Some(patterns), _) => !patterns.iter().any(|pattern| pattern.fits_server_errors()),
        (Action::Success(_), None, later) => matches!(later, Action::Success(_)),
        (Action::Error(_), None, _) => true,
    };
    // What is said of the end of a program may be a failure.
    first.rule.matcher.is_empty() && taken && !later.rule.matcher.is_about_programs()
}

/// A rule after one that always holds is never asked. Of named rules some may be idle where others are not, so only
/// when all are it is told, at their `use`.
fn warn_unreachable(report: &Report<'_>, rules: &[Compiled]) {
    let use_of = |rule: &Compiled| rule.via.as_ref().map(|via| via.span);
    let mut told = Vec::new();
    for (index, later) in rules.iter().enumerate() {
        let Some(first) = rules[..index].iter().find(|first| takes_all_of(first, later)) else { continue };
        let place = match first.span.file == later.span.file {
            true => format!("in line {}", report.files().place(first.span).line),
            false => format!("at {}", report.place(first.span)),
        };
        let help = "put the rule without `when` last";
        match (use_of(first), use_of(later)) {
            (from, to) if from == to => {
                let context = later.via.as_ref().map(|via| via.context.clone());
                let message =
                    format!("this rule is never asked: the one {place} has no `when` and comes first");
                match context {
                    Some(context) => {
                        report.within(Some(context), || report.warning(later.span, message, help))
                    }
                    None => report.warning(later.span, message, help),
                }
            }
            (_, Some(span)) => {
                let whole = rules.iter().filter(|rule| use_of(rule) == Some(span));
                if !told.contains(&span) && whole.clone().all(|rule| takes_all_of(first, rule)) {
                    told.push(span);
                    let message =
                        format!("these rules are never asked: the one {place} has no `when` and comes first");
                    report.warning(span, message, help);
                }
            }
            (from, None) => {
                let place = from.map_or(place, |span| {
                    format!("of the rules used in line {}", report.files().place(span).line)
                });
                let message =
                    format!("this rule is never asked: the one {place} has no `when` and comes first");
                report.warning(later.span, message, help);
            }
        }
    }
}
