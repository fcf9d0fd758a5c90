//! Response rules and output schema of a route.

use super::{RouteContext, RouteSettings};
use crate::config::lint::output_schema;
use crate::config::response::CompiledRule;
use crate::config::schemas::UsedArguments;
use crate::config::section::read_in_scope;
use crate::config::{response, schemas};
use crate::model::own_types;
use crate::route::{InputSchema, LogNotification, SamplingNeed};
use crate::settings::{Code, Entry, Kind, Node, OpenSection, Report};
use crate::translate::{Limit, OnNoMatch, OutputSchema, Rule, RuleAction, WrapNonObjects};

/// Parses `response`, and appends the rules of `defaults.response`. Returns the rules and the number of rules
/// that are the route's own; `None` after reporting the problems.
pub(super) fn rules(
    section: &OpenSection<'_>,
    settings: &RouteSettings,
    context: &RouteContext<'_>,
    name: &str,
    calls_mcp_tool: bool,
    used: &mut UsedArguments,
) -> Option<(Vec<CompiledRule>, usize)> {
    let report = section.report();
    let owner = format!("the route `{name}`");
    let own_rules = context.rules.expand(report, &owner, section.entry("response"));
    let own_rules = own_rules.and_then(|rules| response::read(report, rules, used));
    if let (Some(entry), None) = (section.entry("default_rules"), context.default_response) {
        let message = "`default_rules` has no effect: `defaults` has no `response`";
        let help = "remove it, or write `response` under `defaults`";
        report.warning(Code::RequiresKey.at_span(entry.key.span), message, help);
    }
    let defaults = context.default_response.filter(|_| settings.default_rules != Some(false));
    let defaults = context.rules.expand_defaults(report, &owner, defaults);
    let defaults = defaults.and_then(|rules| response::read(report, rules, used));
    let (own_rules, defaults) = (own_rules?, defaults?);
    let own_count = own_rules.len();
    // A success rule never matches an error of an MCP server, so error rules may follow it.
    if !calls_mcp_tool {
        response::warn_of_late_errors(report, &own_rules, &defaults);
    }
    let rules = response::with_defaults(own_rules, defaults);
    response::warn_of_errors_only(report, &rules);
    Some((rules, own_count))
}

/// Parses `argument_error`. It is compiled like the `error` of a rule, with the error message as the
/// response.
pub(super) fn argument_error(
    report: &Report<'_>,
    context: &RouteContext<'_>,
    entry: &Entry,
    used: &mut UsedArguments,
) -> Option<Rule> {
    let span = entry.key.span;
    let rule = Node::new(Kind::Map(vec![Entry::new("error", entry.value.clone(), span)]), span);
    let response = Entry::new("response", rule, span);
    let rules = context.rules.expand(report, "`argument_error`", Some(&response))?;
    response::read(report, rules, used)?.pop().map(|compiled| compiled.rule)
}

/// Whether rules send sampling requests, and whether at least one of the requests is required.
pub(super) fn sampled(rules: &[CompiledRule]) -> Option<SamplingNeed> {
    let samples = rules.iter().filter_map(|compiled| match &compiled.rule.action {
        RuleAction::Success(rule) => rule.sample.as_ref(),
        RuleAction::Error(_) => None,
    });
    let all_optional = samples.map(|sample| sample.options.optional).reduce(|first, other| first && other)?;
    Some(if all_optional { SamplingNeed::Optional } else { SamplingNeed::Needed })
}

/// What becomes of a response that no rule matches: the configured value, or the default.
pub(super) fn on_no_match(
    configured: Option<OnNoMatch>,
    own_count: usize,
    calls_mcp_tool: bool,
) -> OnNoMatch {
    // Rules of `defaults.response` are not specific to the route, so other responses pass through. The result
    // of an MCP tool has a known form that includes errors, so its rules, and the rules of `tools.response`,
    // are for exceptions only, and other results pass through too.
    let passes = own_count == 0 || calls_mcp_tool;
    configured.unwrap_or(if passes { OnNoMatch::Text } else { OnNoMatch::Error })
}

/// Returns the output schema of a route: the configured `output`, or a schema derived from the rules.
///
/// # Errors
///
/// The reason why there is no output schema; `None` if an error has been reported.
pub(super) fn output(
    section: &OpenSection<'_>,
    rules: Option<&[CompiledRule]>,
    own_count: usize,
    on_no_match: OnNoMatch,
    wrap: WrapNonObjects,
    is_tool: bool,
) -> Result<OutputSchema, Option<String>> {
    let report = section.report();
    let configured =
        section.entry("output").map(|entry| (entry, schemas::output(report, &entry.value, wrap)));
    let rules = rules.ok_or(None)?;
    let derived = |rules| output_schema::derived(report, rules, on_no_match, wrap);
    let Some((entry, schema)) = configured else {
        return derived(rules).map_err(|reason| {
            // Only the rules of `defaults.response` prevent an output schema.
            if is_tool && derived(&rules[..own_count]).is_ok() {
                let help = "write `output`, or `default_rules: false`";
                let message =
                    "the tool has no output schema: a rule of `defaults.response` may return another shape";
                report.warning(Code::NoOutputSchema.at_span(section.value.key_span), message, help);
            }
            Some(reason)
        });
    };
    let schema = schema.ok_or(None)?;
    output_schema::compare(report, &schema, &entry.value, rules);
    Ok(schema)
}

/// Marks the paging arguments that are strings in the input schema, so that the value for the next page is
/// formatted as a string.
pub(super) fn mark_text_arguments(limit: &mut Limit, input: &InputSchema) {
    let Limit { more: Some(paging), text_arguments, .. } = limit else { return };
    let properties = input.document().get("properties");
    let is_text = |name: &&String| {
        let property = properties.and_then(|properties| properties.get(name)?.as_object());
        let types: Vec<_> = property.into_iter().flat_map(own_types).collect();
        let admits = |kind: &str| types.contains(&kind);
        admits("string") && !admits("integer") && !admits("number")
    };
    *text_arguments = paging.arguments().filter(is_text).cloned().collect();
}

/// Parses `notifications`: log notifications that are sent to clients during a call. Returns `None` after
/// reporting the problems.
pub(super) fn notifications(
    route: &OpenSection<'_>,
    used: &mut UsedArguments,
) -> Option<Vec<LogNotification>> {
    let Some(entry) = route.entry("notifications") else { return Some(Vec::new()) };
    if entry.value.as_list().is_none() {
        let help = "write `notifications: [{ level: info, text: \"weather of {{ args.city }} requested\" }]`";
        let message = "`notifications` must be a list of notifications";
        return route.report().reject_type(&entry.value, message, help);
    }
    read_in_scope(route.report(), entry, &LogNotification::NAMES, used)
}
