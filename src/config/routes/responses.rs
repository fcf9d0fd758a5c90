//! What the rules of a route make of replies, and what it promises of them.

use super::{RouteSettings, Surroundings};
use crate::{
    config::{
        code::Code,
        lint::{min_items, output_schema},
        node::{Entry, Kind, Node},
        report::Report,
        response::{self, Compiled},
        schemas::{self, UsedArguments},
    },
    route::SamplingNeed,
    settings::section::OpenSection,
    translate::{OnNoMatch, OutputSchema, Rule, RuleAction, WrapNonObjects},
};

/// The rules of a route.
pub(super) struct RouteRules {
    /// Its own, and after them those of `defaults.response`.
    pub(super) all: Vec<Compiled>,
    pub(super) own_count: usize,
}

/// Reads `reply`, and puts the rules of `defaults` behind it. `None` when something is wrong; that has been
/// reported then.
pub(super) fn rules(
    section: &OpenSection<'_>,
    settings: &RouteSettings,
    around: &Surroundings<'_>,
    name: &str,
    used: &mut UsedArguments,
) -> Option<RouteRules> {
    let report = section.value.context.report;
    let user = format!("the route `{name}`");
    let own = match section.entry("response") {
        Some(entry) => {
            around.rules.expand(report, &user, entry).and_then(|rules| response::read(report, rules, used))
        }
        None => Some(Vec::new()),
    };
    let wanted = settings.default_rules != Some(false);
    if let (Some(entry), None) = (section.entry("default_rules"), around.default_response) {
        let help = "leave it out, or write `response` under `defaults`";
        report.warning(
            Code::RequiresKey.at(entry.key.span),
            "`default_rules` has no effect: `defaults` has no `response`",
            help,
        );
    }
    let defaults = match around.default_response.filter(|_| wanted) {
        Some(entry) => around
            .rules
            .expand_defaults(report, &user, entry)
            .and_then(|rules| response::read(report, rules, used)),
        None => Some(Vec::new()),
    };
    let (own, defaults) = (own?, defaults?);
    let own_count = own.len();
    Some(RouteRules { all: response::with_defaults(own, defaults), own_count })
}

/// Reads the form of an error about arguments: the `error` of a rule for a reply that is its sentence.
pub(super) fn argument_error(
    report: &Report<'_>,
    around: &Surroundings<'_>,
    written: &Entry,
    used: &mut UsedArguments,
) -> Option<Rule> {
    let place = written.key.span;
    let rule = Node::new(Kind::Map(vec![Entry::new("error", written.value.clone(), place)]), place);
    let reply = Entry::new("response", rule, place);
    let rules = around.rules.expand(report, "`argument_error`", &reply)?;
    response::read(report, rules, used)?.pop().map(|compiled| compiled.rule)
}

/// Whether rules ask the client's model, and can do without.
pub(super) fn sampled(rules: &[Compiled]) -> Option<SamplingNeed> {
    let samples = rules.iter().filter_map(|compiled| match &compiled.rule.action {
        RuleAction::Success(rule) => rule.sample.as_deref(),
        RuleAction::Error(_) => None,
    });
    samples.map(|sample| if sample.optional { SamplingNeed::Optional } else { SamplingNeed::Needed }).reduce(
        |first, other| match (first, other) {
            (SamplingNeed::Optional, SamplingNeed::Optional) => SamplingNeed::Optional,
            (SamplingNeed::Needed, _) | (_, SamplingNeed::Needed) => SamplingNeed::Needed,
        },
    )
}

/// What becomes of a reply that no rule fits.
pub(super) fn otherwise(written: Option<OnNoMatch>, own_count: usize, calls_a_tool: bool) -> OnNoMatch {
    match written {
        // The rules of `defaults` say nothing of what its replies look like, so the default rules go on
        // reading them.
        None if own_count == 0 => OnNoMatch::Text,
        // What a tool answers is known to be a tool result, whatever rules are for some of them.
        None if calls_a_tool => OnNoMatch::Text,
        Some(written) => written,
        None => OnNoMatch::Error,
    }
}

/// What a route promises of its results.
#[derive(Default)]
pub(super) struct Output {
    pub(super) schema: Option<OutputSchema>,
    /// Why there is no schema, where nothing is wrong with the file.
    pub(super) why_none: Option<String>,
}

/// The schema of what the route gives: as written, or as the rules promise.
pub(super) fn output(
    section: &OpenSection<'_>,
    rules: Option<&[Compiled]>,
    own_count: usize,
    otherwise: OnNoMatch,
    wrap: WrapNonObjects,
) -> Output {
    let report = section.value.context.report;
    let written = section.entry("output").map(|entry| (entry, schemas::output(report, &entry.value, wrap)));
    let Some(rules) = rules else { return Output::default() };
    let Some((entry, written)) = written else {
        return match output_schema::derived(rules, otherwise, wrap) {
            Ok(derived) => Output { schema: Some(derived), why_none: None },
            Err(why) => {
                output_schema::warn_of_defaults(report, section, &rules[..own_count], otherwise, wrap);
                Output { schema: None, why_none: Some(why) }
            }
        };
    };
    let Some(written) = written else { return Output::default() };
    output_schema::compare(report, &written, &entry.value, rules);
    min_items::warn(report, &written, &entry.value, rules);
    Output { schema: Some(written), why_none: None }
}
