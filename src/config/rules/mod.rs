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

use std::cell::Cell;

use self::expand::Expansion;
use self::parameters::{NODE_LIMIT, Parameter, Substitution, TEXT_LIMIT_BYTES, parameter_uses};
use super::compile::RESPONSE;
use super::section::{ReadElsewhere, cursor};
use crate::settings::{
    Budget, Checked, Code, Entry, Key, Named, Node, OpenSection, ProblemContext, Report, Section, Setting,
    SourceSpan, suggest,
};
use crate::translate::expressions;

/// The presets, as a file with named rules.
pub(super) const PRESETS: &str = include_str!("presets.yaml");

/// All named rules: those of the file, and the presets.
pub(super) struct RuleSets<'n> {
    sets: Vec<RuleSet<'n>>,
    budget: Budget,
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
#[derive(Section)]
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
#[derive(Section)]
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
        let help = "write the rules under `response`";
        let missing = || section.missing("named rules have no `response`".to_owned(), help);
        section.entry("response").map(|_| ()).ok_or_else(missing)
    }
}

/// One rule of a `response`, after the expansion of every `use`.
pub(super) struct ExpandedRule {
    pub(super) node: Node,
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
    /// Context for problems in the rule, with the span of the outermost `use`.
    pub(super) context: ProblemContext,
}

impl<'n> RuleSets<'n> {
    /// Parses the named rules of the file and the presets.
    pub(super) fn read(report: &Report<'_>, own: &'n [Entry], presets: Option<&'n Node>) -> Self {
        let presets = presets.and_then(|root| root.get("rules")?.as_map()).unwrap_or_default();
        let own_sets = own.iter().map(|entry| read_set(report, entry, false));
        let hidden = |entry: &&Entry| !own.iter().any(|known| known.key.text == entry.key.text);
        let preset_sets = presets.iter().filter(hidden).map(|entry| read_set(report, entry, true));
        Self {
            sets: own_sets.chain(preset_sets).collect(),
            budget: Budget::new(NODE_LIMIT, TEXT_LIMIT_BYTES),
        }
    }

    /// Expands every `use` in a `response`. Returns `None` after reporting the problems.
    ///
    /// `user` is the owner of the `response` in messages: "the route `get_report`".
    pub(super) fn expand(
        &self,
        report: &Report<'_>,
        user: &str,
        response: &Entry,
    ) -> Option<Vec<ExpandedRule>> {
        Expansion::new(self, report, user).expand(response.key.span, &response.value)
    }

    /// Expands the rules of `defaults.response` for a route.
    pub(super) fn expand_defaults(
        &self,
        report: &Report<'_>,
        route: &str,
        response: &Entry,
    ) -> Option<Vec<ExpandedRule>> {
        let span = response.key.span;
        let text = format!("in `defaults.response`, tried for {route}");
        let user = format!("`defaults.response` for {route}");
        let mut expansion = Expansion::new(self, report, &user);
        expansion.origin = Some(RuleOrigin {
            names: "defaults".to_owned(),
            outermost: "`defaults.response`".to_owned(),
            context: ProblemContext { text, at: span },
        });
        expansion.expand(span, &response.value)
    }

    /// Warns of rules that no route uses, and parses those without required parameters so that their problems
    /// are reported.
    pub(super) fn check_unused(&self, report: &Report<'_>, read: impl Fn(Vec<ExpandedRule>)) {
        for (index, set) in self.sets.iter().enumerate().filter(|(_, set)| !set.preset && !set.used.get()) {
            let Some(response) = set.response else { continue };
            let (span, name) = (set.name.span, &set.name.text);
            let message = format!("no route uses the rules `{name}`");
            let help = "remove them, or add a `use` to the `response` of a route";
            report.warning(Code::UnusedRules.at_span(span), message, help);
            if set.parameters.iter().any(|parameter| parameter.default.is_none()) {
                continue;
            }
            let user = format!("the rules `{name}`");
            let mut expansion = Expansion::new(self, report, &user);
            expansion.chain.push(index);
            let substitution = Substitution { report, budget: &self.budget, arguments: set.arguments(&[]) };
            let substituted = substitution.substitute(response);
            if let Some(rules) = substituted.and_then(|rules| expansion.expand(span, &rules)) {
                read(rules);
            }
        }
    }
}

impl<'n> RuleSet<'n> {
    /// Value of each parameter: the argument, or its default.
    fn arguments<'a>(&'a self, given: &'a [Entry]) -> Vec<(&'a str, &'a Node)> {
        let value_of = |parameter: &Parameter<'n>| {
            let given = given.iter().find(|entry| entry.key.text == parameter.name);
            Some((parameter.name, given.map(|entry| &entry.value).or(parameter.default)?))
        };
        self.parameters.iter().filter_map(value_of).collect()
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
            let message = format!("the rules `{name}` have no parameter `{}`", entry.key.text);
            let help = suggest::help(&entry.key.text, "known parameters", names())
                .unwrap_or_else(|| "remove it".to_owned());
            report.error(Code::UnknownParameter.at_span(entry.key.span), message, help);
        }
        let arguments = self.arguments(given);
        for missing in names().filter(|name| !arguments.iter().any(|(known, _)| known == name)) {
            // An unknown name above is probably the missing one, misspelled.
            if report.errors() == before {
                let message = format!("the rules `{name}` require the parameter `{missing}`");
                let help = format!("add `with: {{ {missing}: … }}`");
                report.error(Code::MissingParameter.at_span(place), message, help);
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
        let at = Code::UnknownParameter.at_span(expressions::span_of_name(report, *span, name));
        report.error(at, format!("the rules `{}` have no parameter `{name}`", entry.key.text), help);
    }
    for Key { text, span } in declared.iter().map(|parameter| &parameter.key) {
        if !found.iter().any(|(name, _)| name == text) {
            let help = format!("write `$({text})` in the rules, or remove it");
            let message = format!("parameter `{text}` is unused");
            report.warning(Code::UnusedParameter.at_span(*span), message, help);
        }
    }
    set
}

/// Span of the first key of a rule, at which problems of the whole rule are reported.
pub(super) fn first_key(node: &Node) -> SourceSpan {
    node.as_map().and_then(|entries| entries.first()).map_or(node.span, |entry| entry.key.span)
}
