//! `rules`: named rules, and the expansion of `use`.
//!
//! Before compilation, each `use` is replaced in the tree by the rules that it names; every value keeps its
//! span. In named rules, `$(name)` is a parameter. `$(` is not part of the syntax of jq, templates or
//! `${VARIABLE}`, and a pattern `$(name)` could never match, because no text follows the end of a line in the
//! same line. `$$(name)` is the escape for a literal `$(name)`. Substituted text is not expanded again.
//! `expand` replaces a `use`, `parameters` substitutes the parameters.
//!
//! Presets are named rules in `presets.yaml`, next to this file. Names in the configuration take precedence,
//! so that a preset of a later version does not replace an operator's rules of the same name.

mod expand;
mod parameters;

use std::{borrow::Cow, cell::Cell};

use self::{
    expand::Expansion,
    parameters::{Parameter, ParameterSubstitution, parameter_uses},
};
use settings_derive::Section as DeriveSection;

use super::{
    keys::RESPONSE,
    language,
    report::{ProblemContext, Report},
    section::{ReadElsewhere, cursor},
    source::SourceSpan,
    suggest,
    tree::{Entry, Key, Node},
};
use crate::settings::{
    code::Code,
    section::{Checked, OpenSection, Section as _, Setting},
    value::Named,
};

/// The presets, as a file with named rules.
pub(super) const PRESETS: &str = include_str!("presets.yaml");

/// All named rules: those of the file, and the presets.
pub(super) struct RuleSets<'n> {
    sets: Vec<RuleSet<'n>>,
    substitution: ParameterSubstitution,
}

/// Named rules.
struct RuleSet<'n> {
    name: &'n Key,
    preset: bool,
    parameters: Vec<Parameter<'n>>,
    /// The rules; `None` if they have errors, which have been reported.
    response: Option<&'n Node>,
    used: Cell<bool>,
}

/// Use of named rules.
#[derive(DeriveSection)]
#[section(name = "a use of named rules", id = "use")]
pub(super) struct UseSettings {
    /// Name of rules under `rules`, or of a preset, which replace this item.
    #[key(name = "use", example = "use: NAME")]
    name: String,
    /// Values of their parameters.
    #[key(name = "with", public)]
    arguments: Named<ReadElsewhere>,
}

/// Map form of named rules.
#[derive(DeriveSection)]
#[section(name = "named rules", id = "rules", check_keys = Self::check_keys)]
pub(super) struct RuleSetSettings {
    /// Purpose of the rules.
    description: Option<String>,
    /// Parameters, used as `$(name)` in the rules, each with its default; a parameter without a default is
    /// required.
    #[key(public)]
    parameters: Named<ReadElsewhere>,
    /// Rules.
    #[key(kind = RESPONSE)]
    response: ReadElsewhere,
}

impl RuleSetSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let missing = || {
            section.missing("named rules have no `response`".to_owned(), "write the rules under `response`")
        };
        section.entry("response").map(|_| ()).ok_or_else(missing)
    }
}

/// One rule of a `response`, after the expansion of every `use`.
pub(super) struct ExpandedRule<'n> {
    pub(super) node: Cow<'n, Node>,
    /// Span of its first key.
    pub(super) span: SourceSpan,
    /// The `use` that inserted it.
    pub(super) origin: Option<RuleOrigin>,
}

/// Origin of a rule that a `use` inserted.
#[derive(Debug, Clone)]
pub(super) struct RuleOrigin {
    /// Names of the nested rules, the innermost last.
    pub(super) names: String,
    /// The outermost of them in a sentence: "the preset `soap`".
    pub(super) outermost: String,
    /// Span of the outermost `use`.
    pub(super) span: SourceSpan,
    /// Context for problems in the rule.
    pub(super) context: ProblemContext,
}

impl<'n> RuleSets<'n> {
    /// Parses the named rules of the file and the presets.
    pub(super) fn read(report: &Report<'_>, own: &'n [Entry], presets: &'n [Entry]) -> Self {
        let own_sets = own.iter().map(|entry| read_set(report, entry, false));
        let hidden = |entry: &&Entry| !own.iter().any(|known| known.key.text == entry.key.text);
        let preset_sets = presets.iter().filter(hidden).map(|entry| read_set(report, entry, true));
        Self { sets: own_sets.chain(preset_sets).collect(), substitution: ParameterSubstitution::default() }
    }

    /// Expands every `use` in a `response`. Returns `None` after reporting the problems.
    ///
    /// `user` is the owner of the `response` in messages: "the route `get_report`".
    pub(super) fn expand<'r>(
        &self,
        report: &Report<'_>,
        user: &str,
        response: &'r Entry,
    ) -> Option<Vec<ExpandedRule<'r>>> {
        Expansion::new(self, report, user).expand(response.key.span, Cow::Borrowed(&response.value))
    }

    /// Expands the rules of `defaults.response` for a route.
    pub(super) fn expand_defaults<'r>(
        &self,
        report: &Report<'_>,
        route: &str,
        response: &'r Entry,
    ) -> Option<Vec<ExpandedRule<'r>>> {
        let span = response.key.span;
        let text = format!("in `defaults.response`, tried for {route}");
        let origin = RuleOrigin {
            names: "defaults".to_owned(),
            outermost: "`defaults.response`".to_owned(),
            span,
            context: ProblemContext { text, at: span },
        };
        let user = format!("`defaults.response` for {route}");
        let mut expansion = Expansion::new(self, report, &user);
        expansion.origin = Some(origin);
        expansion.expand(span, Cow::Borrowed(&response.value))
    }

    /// Warns of rules that no route uses, and parses those without required parameters so that their problems
    /// are reported.
    pub(super) fn check_unused(
        &self,
        report: &Report<'_>,
        read: impl Fn(&Report<'_>, Vec<ExpandedRule<'_>>),
    ) {
        for (index, set) in self.sets.iter().enumerate().filter(|(_, set)| !set.preset && !set.used.get()) {
            let Some(response) = set.response else { continue };
            report.warning(
                Code::UnusedRules.at_span(set.name.span),
                format!("no route uses the rules `{}`", set.name.text),
                "remove them, or add a `use` to the `response` of a route",
            );
            if set.parameters.iter().any(|parameter| parameter.default.is_none()) {
                continue;
            }
            let user = format!("the rules `{}`", set.name.text);
            let mut expansion = Expansion::new(self, report, &user);
            expansion.chain.push(index);
            if let Some(substituted) = self.substitution.substitute(report, response, &set.arguments(&[]))
                && let Some(rules) = expansion.expand(set.name.span, Cow::Owned(substituted))
            {
                read(report, rules);
            }
        }
    }
}

impl<'n> RuleSet<'n> {
    /// Value of each parameter: the argument, or its default.
    fn arguments<'a>(&'a self, given: &'a [Entry]) -> Vec<(&'a str, &'a Node)> {
        let value_of = |parameter: &Parameter<'n>| -> Option<&'a Node> {
            let given = given.iter().find(|entry| entry.key.text == parameter.name);
            given.map(|entry| &entry.value).or(parameter.default)
        };
        self.parameters.iter().filter_map(|parameter| Some((parameter.name, value_of(parameter)?))).collect()
    }

    /// Like [`Self::arguments`]. Returns `None` after reporting unknown and missing arguments.
    fn checked_arguments<'a>(
        &'a self,
        report: &Report<'_>,
        place: SourceSpan,
        given: &'a [Entry],
    ) -> Option<Vec<(&'a str, &'a Node)>> {
        let before = report.errors();
        let names = || self.parameters.iter().map(|parameter| parameter.name);
        let name = &self.name.text;
        for entry in given.iter().filter(|entry| !names().any(|known| known == entry.key.text)) {
            let help = suggest::help(&entry.key.text, "known parameters", names());
            let message = format!("the rules `{name}` have no parameter `{}`", entry.key.text);
            report.error(
                Code::UnknownParameter.at_span(entry.key.span),
                message,
                help.unwrap_or_else(|| "remove it".to_owned()),
            );
        }
        let arguments = self.arguments(given);
        for missing in names().filter(|name| !arguments.iter().any(|(known, _)| known == name)) {
            // An unknown name above is probably the missing one, misspelled.
            if report.errors() == before {
                let message = format!("the rules `{name}` require the parameter `{missing}`");
                report.error(
                    Code::MissingParameter.at_span(place),
                    message,
                    format!("add `with: {{ {missing}: … }}`"),
                );
            }
        }
        (report.errors() == before).then_some(arguments)
    }
}

fn read_set<'n>(report: &Report<'_>, entry: &'n Entry, preset: bool) -> RuleSet<'n> {
    let mut set = RuleSet {
        name: &entry.key,
        preset,
        parameters: Vec::new(),
        response: Some(&entry.value),
        used: Cell::default(),
    };
    let declared = entry.value.get("parameters").and_then(Node::as_map).unwrap_or_default();
    if RuleSetSettings::keys().names().any(|name| entry.value.get(name).is_some()) {
        let before = report.errors();
        let value = cursor(report, entry.key.span, &entry.value, "named rules", RuleSetSettings::KIND);
        let read = RuleSetSettings::read(&value);
        set.parameters = parameters::declared(report, declared);
        set.response = entry.value.get("response").filter(|_| read.is_ok() && report.errors() == before);
    }
    let Some(response) = set.response else { return set };
    let mut found = Vec::new();
    parameter_uses(response, &mut found);
    let names = || set.parameters.iter().map(|parameter| parameter.name);
    for (name, span) in found.iter().filter(|(name, _)| !names().any(|known| known == *name)) {
        let help = suggest::help(name, "known parameters", names()).unwrap_or_else(|| {
            format!("declare it under `parameters`, or write `$$({name})` for a literal `$({name})`")
        });
        let place = language::span_of_name(report, *span, name);
        report.error(
            Code::UnknownParameter.at_span(place),
            format!("the rules `{}` have no parameter `{name}`", entry.key.text),
            help,
        );
    }
    for idle in declared.iter().filter(|parameter| !found.iter().any(|(name, _)| *name == parameter.key.text))
    {
        let message = format!("parameter `{}` is unused", idle.key.text);
        report.warning(
            Code::UnusedParameter.at_span(idle.key.span),
            message,
            format!("write `$({})` in the rules, or remove it", idle.key.text),
        );
    }
    set
}

/// Span of the first key of a rule, at which problems of the whole rule are reported.
pub(super) fn first_key(node: &Node) -> SourceSpan {
    node.as_map().and_then(|entries| entries.first()).map_or(node.span, |entry| entry.key.span)
}
