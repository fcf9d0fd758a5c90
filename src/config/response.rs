//! `response`: rules that translate upstream responses.

use http::StatusCode;
use serde_json::{Value, json};

use super::lint::output_schema;
use super::rules::{ExpandedRule, RuleOrigin};
use super::schemas::UsedArguments;
use super::section::{cursor, in_scope};
use crate::model::ProgramEnd;
use crate::settings::{Checked, Code, Cursor, Invalid, Node, Report, Section, Setting, SourceSpan, suggest};
use crate::translate::expressions::Scope;
use crate::translate::extract::{Extract, ValueCount};
use crate::translate::{
    Charset, ErrorRule, ITEM, ListPath, Matcher, Outcome, Rule, RuleAction, SuccessRule, TEMPLATE_VARIABLES,
    expressions,
};

/// Compiled rule, with spans for later checks.
pub(super) struct CompiledRule {
    pub(super) rule: Rule,
    /// Source of the rule, after the expansion of named rules.
    pub(super) node: Node,
    /// Origin of the rule, if `use` or `defaults.response` inserted it.
    pub(super) origin: Option<RuleOrigin>,
    pub(super) span: SourceSpan,
}

/// Parses and compiles the rules of a `response`. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    rules: Vec<ExpandedRule>,
    used: &mut UsedArguments,
) -> Option<Vec<CompiledRule>> {
    let compiled = rules.into_iter().map(|ExpandedRule { node, span, origin }| {
        let context = origin.as_ref().map(|origin| origin.context.clone());
        used.context.clone_from(&context);
        let value = cursor(report, span, &node, "a rule", RuleSettings::KIND);
        let rule = |scope: &Scope| {
            let value = value.in_scope(scope);
            RuleSettings::read(&value).and_then(|rule| rule.compile(&value))
        };
        let rule = report.in_context(context, || in_scope(&TEMPLATE_VARIABLES, used, rule))?;
        Some(CompiledRule { rule, node, origin, span })
    });
    // Every rule is parsed before an error is returned, so that all problems are reported.
    let compiled: Vec<_> = compiled.collect();
    let compiled: Vec<_> = compiled.into_iter().collect::<Option<_>>()?;
    warn_unreachable(report, &compiled);
    Some(compiled)
}

/// Warns of rules with `exit_status` or `stderr` in a route that runs no program. Shared rules cause no
/// warning, because other routes may need them.
pub(super) fn warn_of_command_conditions(report: &Report<'_>, own_rules: &[CompiledRule]) {
    let never_matches = |rule: &&CompiledRule| rule.origin.is_none() && rule.rule.matcher.is_about_programs();
    for rule in own_rules.iter().filter(never_matches) {
        let message = "this rule never matches: `exit_status` and `stderr` apply to commands only";
        report.warning(Code::UnreachableRule.at_span(rule.span), message, "write `when: { status: … }`");
    }
}

/// Appends the rules of `defaults.response` to the rules of a route, except unreachable ones.
pub(super) fn with_defaults(
    mut own_rules: Vec<CompiledRule>,
    defaults: Vec<CompiledRule>,
) -> Vec<CompiledRule> {
    let is_reachable = |rule: &CompiledRule| !own_rules.iter().any(|first| matches_all_of(first, rule));
    let reachable: Vec<_> = defaults.into_iter().filter(is_reachable).collect();
    own_rules.extend(reachable);
    own_rules
}

/// Keys of a rule.
#[derive(Section)]
#[section(name = "a rule", id = "rule")]
pub(super) struct RuleSettings {
    /// Conditions; the rule matches if all are true. Without `when` it always matches.
    #[key(default = Matcher::default())]
    when: Matcher,
    /// Makes the response a tool error: a template for its text, or a map.
    #[key(with = read_error)]
    error: Option<ErrorRule>,
    /// HTTP status of that error for REST clients.
    #[key(range = 400..=599, requires = "error",
        help = "write conditions under `when`; `status` beside `error` is for REST clients")]
    status: Option<u16>,
    /// Extractor that parses the response; chosen by the media type when absent.
    #[key(public)]
    extract: Option<Extract>,
    #[key(part)]
    success: SuccessRule,
    /// Charset of the response, if it declares none or a wrong one.
    charset: Option<Charset>,
}

impl RuleSettings {
    fn compile(self, value: &Cursor<'_>) -> Checked<Rule> {
        let reject = |name: &str, message: &str| {
            let span = value.node.entry(name).map_or(value.key_span, |entry| entry.key.span);
            value.reject_coded(Code::ConflictingKeys.at_span(span), message, "remove one of the two")
        };
        let extract = self.extract;
        if extract.as_ref().is_some_and(|extract| extract.value_count() == ValueCount::Block) {
            // `binary` returns a content block, not a value: keys that read a value have no effect.
            if self.when.reads_value() {
                return reject(
                    "when",
                    "`value` has no effect: `binary` returns a content block and no value",
                );
            }
            let is_set = |name: &&str| value.node.get(name).is_some();
            if let Some(name) = ["structured", "limit"].into_iter().find(is_set) {
                let message =
                    format!("`{name}` has no effect: `binary` returns a content block and no value");
                return reject(name, &message);
            }
        }
        let action = match self.error {
            Some(rule) => {
                if self.status.and(rule.status).is_some() {
                    return reject("status", "`status` has no effect beside `error: { status: … }`");
                }
                let rule = ErrorRule { status: rule.status.or(self.status), ..rule };
                let reads_value = rule.reads_value() || self.when.reads_value();
                if let Some(entry) = value.node.entry("extract").filter(|_| !reads_value) {
                    let message = "`extract` has no effect: this rule does not use the value";
                    let help = "use `value` in a template, in `structured` of the error, or in \
                                `when: { value: … }`; or remove it";
                    value.context.report.warning(Code::UnusedExtract.at_span(entry.key.span), message, help);
                }
                RuleAction::Error(rule)
            }
            None => {
                check_paths(value, &self.success, extract.as_ref())?;
                RuleAction::Success(self.success)
            }
        };
        Ok(Rule { matcher: self.when, extract, charset: self.charset, action })
    }
}

/// Parses `error`. The variable `structured` is only available if `error.structured` is set.
fn read_error(value: &Cursor<'_>) -> Checked<Option<ErrorRule>> {
    let is_available = |name: &&str| *name != "structured" || value.node.get(name).is_some();
    let names: Vec<_> = TEMPLATE_VARIABLES.into_iter().filter(is_available).collect();
    Scope::from_cursor(value).with_names(&names, || ErrorRule::read(value)).map(Some)
}

/// Rejects templates in `content` that use an unknown field of `structured`, `value` or `item`, because they
/// would fail at every call.
fn check_paths(value: &Cursor<'_>, rule: &SuccessRule, extract: Option<&Extract>) -> Checked<()> {
    let Some(content) = value.node.get("content") else { return Ok(()) };
    let Some(schema) = output_schema::known_schema_of(rule, extract) else { return Ok(()) };
    let structured = match schema.get("type").and_then(Value::as_str) {
        Some("object") => Some(schema.clone()),
        Some(_) => json!({ "type": "object", "properties": { "result": schema } }).as_object().cloned(),
        None => None,
    };
    let mut checked = Ok(());
    for block in &rule.content.0 {
        let list = block.each.as_ref().and_then(|each| each.source().parse::<ListPath>().ok());
        for path in block.templates().flat_map(|template| &template.used.paths) {
            let steps: Vec<&str> = path.split('.').collect();
            let (schema, steps) = match (&steps[..], &structured, &list) {
                (["structured", fields @ ..], Some(structured), _) => (structured, fields.to_vec()),
                (["value", fields @ ..], ..) => (&schema, fields.to_vec()),
                (["item", fields @ ..], Some(structured), Some(ListPath(list))) => {
                    let list = list.iter().map(String::as_str);
                    (structured, list.chain([ITEM]).chain(fields.iter().copied()).collect())
                }
                _ => continue,
            };
            let Some((name, names)) = output_schema::first_unknown_field(schema, &steps) else { continue };
            let displayed_path = path.replace(&format!(".{ITEM}"), ITEM);
            let message =
                format!("the template uses `{displayed_path}`, but the value of this rule has no `{name}`");
            let list_help = "a list has items and no fields: write a loop, or a number such as `[0]`";
            let help = suggest::help(&name, "its fields", names.iter().map(String::as_str));
            let help = help.or_else(|| Some(list_help.to_owned()));
            let word = if path.contains(ITEM) { &name } else { path };
            let span = expressions::span_of_name(value.context.report, content.span, word);
            checked =
                value.reject_at(span, Invalid { code: Code::UnknownName, message, help, shows_value: true });
        }
    }
    checked
}

/// All possible outcomes of a request: HTTP statuses, exit statuses and signals.
fn outcomes() -> impl Iterator<Item = Outcome> {
    let statuses = (100..600).filter_map(|status| StatusCode::from_u16(status).ok());
    let ends = (0..=255).map(ProgramEnd::Code).chain((1..=127).map(ProgramEnd::Signal));
    statuses.map(|status| (status, None)).chain(ends.map(|end| (end.http_status(), Some(end))))
}

/// Whether `first` matches every response that `later` matches.
fn matches_all_of(first: &CompiledRule, later: &CompiledRule) -> bool {
    let is_covered = |outcome| first.rule.accepts(outcome) || !later.rule.accepts(outcome);
    covers(first, later) && outcomes().all(is_covered)
}

/// Whether all responses that `later` matches meet the conditions of `first`, except those on the outcome.
fn covers(first: &CompiledRule, later: &CompiledRule) -> bool {
    let extract_of = |rule: &CompiledRule| rule.node.get("extract").map(Node::to_json);
    let has_same_extract = || extract_of(first) == extract_of(later);
    let (first, later) = (&first.rule, &later.rule);
    // The same bytes may be a different text in another charset.
    let reads_the_same = first.charset == later.charset || first.matcher.is_empty();
    // Equal conditions on the value match the same responses only if the extractors are equal too.
    let has_conditions = first.matcher.covers_except_status(&later.matcher)
        || first.matcher == later.matcher && has_same_extract();
    reads_the_same && has_conditions
}

/// Warns of error rules for 2xx responses after a success rule that matches all of them: these errors would
/// be returned as successes. An error rule without conditions causes no warning, because it handles the other
/// statuses.
pub(super) fn warn_of_late_errors(
    report: &Report<'_>,
    own_rules: &[CompiledRule],
    defaults: &[CompiledRule],
) {
    let successes = || outcomes().filter(|(status, end)| status.is_success() && end.is_none());
    let is_success = |rule: &CompiledRule| matches!(rule.rule.action, RuleAction::Success(_));
    for (index, later) in own_rules.iter().chain(defaults).enumerate() {
        let is_for_success = || successes().any(|outcome| later.rule.accepts(outcome));
        if is_success(later) || later.rule.matcher.is_empty() || !is_for_success() {
            continue;
        }
        let is_first = |first: &&CompiledRule| {
            covers(first, later) && successes().all(|outcome| first.rule.accepts(outcome))
        };
        let first = own_rules.iter().chain(defaults).take(index).find(is_first);
        // Unreachable rules have already been reported, except rules of `defaults.response`.
        let is_late = |first: &&CompiledRule| index >= own_rules.len() || !matches_all_of(first, later);
        if first.filter(is_late).is_some_and(is_success) {
            let context = later.origin.as_ref().map(|origin| origin.context.clone());
            let message = "a success (2xx) never becomes this error: a rule before it matches the same 2xx";
            let help = "move it before that rule; if it is for failures, add a `status` or `exit_status`";
            let at = Code::UnreachableRule.at_span(later.span);
            report.in_context(context, || report.warning(at, message, help));
        }
    }
}

/// Warns of a route that cannot return a success: its first rule without conditions is an error, and no rule
/// before it returns a success.
pub(super) fn warn_of_errors_only(report: &Report<'_>, rules: &[CompiledRule]) {
    let is_success = |rule: &Rule| matches!(rule.action, RuleAction::Success(_));
    let decides = |rule: &&CompiledRule| is_success(&rule.rule) || rule.rule.matcher.is_empty();
    let Some(first) = rules.iter().find(decides) else { return };
    if is_success(&first.rule) {
        return;
    }
    let help = "write its conditions under `when`, such as `when: { status: 404 }`, or the rule for a \
                success before it; `status` beside `error` is for REST clients";
    let message = "every response becomes an error of a rule without `when`";
    // A named rule may be useful in another route, so the warning is reported at the `use`.
    let context = first.origin.as_ref().map(|origin| origin.context.clone());
    let span = context.as_ref().map_or(first.span, |context| context.at);
    report.in_context(context, || report.warning(Code::OnlyErrors.at_span(span), message, help));
}

/// Warns of rules that are unreachable because an earlier rule matches the same responses. Some of several
/// named rules may be unreachable in one route only, so a `use` is reported only if all of its rules are
/// unreachable.
fn warn_unreachable(report: &Report<'_>, rules: &[CompiledRule]) {
    let use_of = |rule: &CompiledRule| rule.origin.as_ref().map(|origin| origin.context.at);
    for (index, later) in rules.iter().enumerate() {
        let earlier = &rules[..index];
        let covering = |later: &CompiledRule| earlier.iter().find(|first| matches_all_of(first, later));
        let Some(first) = covering(later) else { continue };
        let other_use = use_of(later).filter(|span| use_of(first) != Some(*span));
        let line_of = |span| report.files().line_and_column(span).line;
        let location = match use_of(first) {
            Some(span) if use_of(later) != Some(span) => {
                format!("in the rules used in line {}", line_of(span))
            }
            _ if first.span.file == later.span.file => format!("in line {}", line_of(first.span)),
            _ => format!("at {}", report.file_and_line(first.span)),
        };
        let (reason, help) = match first.rule.matcher.is_empty() {
            true => ("has no `when`", "move the rule without `when` to the end"),
            false => ("matches the same responses", "move it before that one, or remove it"),
        };
        let warn = |span, rules: &str| {
            let message = format!("unreachable {rules}: the one {location} comes first and {reason}");
            report.warning(Code::UnreachableRule.at_span(span), message, help);
        };
        if let Some(span) = other_use {
            let is_of_use = |rule: &&CompiledRule| use_of(rule) == Some(span);
            let is_first = !earlier.iter().any(|rule| is_of_use(&rule));
            if is_first && rules.iter().filter(is_of_use).all(|rule| covering(rule).is_some()) {
                warn(span, "rules");
            }
        } else {
            let context = later.origin.as_ref().map(|origin| origin.context.clone());
            report.in_context(context, || warn(later.span, "rule"));
        }
    }
}
