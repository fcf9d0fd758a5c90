//! `rules`: rules with a name, and what comes of a `use` of them.
//!
//! A `use` is replaced by the rules that it names before any of them is compiled: the tree of the file is put
//! together anew, and every value keeps the place where it was written. In the texts of named rules `$(name)`
//! stands for a parameter; `$(` is no syntax of jq, templates or `${VARIABLE}`, and in a pattern it could
//! match nothing but the end of a line and then more of the same line. `$$(name)` stands for the characters
//! themselves. What was put in is not looked through again. `expand` puts rules in the place of a `use`,
//! `parameters` values in the place of their names.
//!
//! Presets are named rules, in `presets.yaml` beside this file. Names in the configuration take precedence,
//! so that presets of a later version replace no name of the operator.

mod expand;
mod parameters;

use std::{borrow::Cow, cell::Cell};

use self::{
    expand::Expansion,
    parameters::{Filler, Parameter, marks},
};
use settings_derive::Section as DeriveSection;

use super::{
    keys::RESPONSE,
    language,
    node::{Entry, Key, Node},
    report::{Context, Report},
    section::{ReadElsewhere, cursor},
    source::Span,
    suggest,
};
use crate::settings::{
    code::Code,
    section::{Checked, OpenSection, Section as _, Setting},
    value::Named,
};

/// The presets, as a file of rules.
pub(super) const PRESETS: &str = include_str!("presets.yaml");

/// All named rules: those of the file, and the presets.
pub(super) struct RuleSets<'n> {
    sets: Vec<RuleSet<'n>>,
    filler: Filler,
}

/// Rules with a name.
struct RuleSet<'n> {
    name: &'n Key,
    preset: bool,
    parameters: Vec<Parameter<'n>>,
    /// `None` when something is wrong with their form; that has been reported then.
    response: Option<&'n Node>,
    used: Cell<bool>,
}

/// A use of named rules.
#[derive(DeriveSection)]
#[section(name = "a use of named rules", id = "use")]
pub(super) struct UseSettings {
    /// Name of rules under `rules`, or of a preset, which replace this item.
    #[key(name = "use", example = "use: NAME")]
    name: String,
    /// Values of their parameters.
    #[key(name = "with")]
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
    parameters: Named<ReadElsewhere>,
    /// Rules.
    #[key(kind = RESPONSE)]
    response: ReadElsewhere,
}

impl RuleSetSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let missing =
            || section.missing("named rules has no `response`".to_owned(), "write `response:` and the rules");
        section.entry("response").map(|_| ()).ok_or_else(missing)
    }
}

/// One rule of a reply, after every `use` has been replaced.
pub(super) struct WrittenRule<'n> {
    pub(super) node: Cow<'n, Node>,
    /// Its first key.
    pub(super) span: Span,
    /// The `use` that brought it there.
    pub(super) via: Option<Via>,
}

/// How a rule came into a reply.
#[derive(Debug, Clone)]
pub(super) struct Via {
    /// The names on the way, the innermost last.
    pub(super) names: String,
    /// Where the outermost `use` stands.
    pub(super) span: Span,
    /// What problems of the rule say.
    pub(super) context: Context,
}

impl<'n> RuleSets<'n> {
    /// Reads the named rules of the file and the presets.
    pub(super) fn read(report: &Report<'_>, own: &'n [Entry], presets: &'n [Entry]) -> Self {
        let own_sets = own.iter().map(|entry| read_set(report, entry, false));
        let hidden = |entry: &&Entry| !own.iter().any(|known| known.key.text == entry.key.text);
        let preset_sets = presets.iter().filter(hidden).map(|entry| read_set(report, entry, true));
        Self { sets: own_sets.chain(preset_sets).collect(), filler: Filler::default() }
    }

    /// The rules of a reply, every `use` replaced. `None` when something is wrong; that has been reported
    /// then.
    ///
    /// `user` says whose reply it is: "the route `get_report`".
    pub(super) fn expand<'r>(
        &self,
        report: &Report<'_>,
        user: &str,
        reply: &'r Entry,
    ) -> Option<Vec<WrittenRule<'r>>> {
        Expansion::new(self, report, user).of(reply.key.span, Cow::Borrowed(&reply.value))
    }

    /// The rules of `defaults.response`, for a route.
    pub(super) fn expand_defaults<'r>(
        &self,
        report: &Report<'_>,
        route: &str,
        reply: &'r Entry,
    ) -> Option<Vec<WrittenRule<'r>>> {
        let span = reply.key.span;
        let words = format!("in `defaults.response`, tried for {route}");
        let via = Via { names: "defaults".to_owned(), span, context: Context { words, at: span } };
        let user = format!("`defaults.response` for {route}");
        let mut expansion = Expansion::new(self, report, &user);
        expansion.via = Some(via);
        expansion.of(span, Cow::Borrowed(&reply.value))
    }

    /// Reads rules that no route uses, as far as that can be done without arguments, and says that they are
    /// idle.
    pub(super) fn check_unused(&self, report: &Report<'_>, read: impl Fn(&Report<'_>, Vec<WrittenRule<'_>>)) {
        for (index, set) in self.sets.iter().enumerate().filter(|(_, set)| !set.preset && !set.used.get()) {
            let Some(reply) = set.response else { continue };
            report.warning(
                Code::UnusedRules.at(set.name.span),
                format!("the rules `{}` are used by no route", set.name.text),
                "remove them, or write `use` in a route's `response`",
            );
            if set.parameters.iter().any(|parameter| parameter.default.is_none()) {
                continue;
            }
            let user = format!("the rules `{}`", set.name.text);
            let mut expansion = Expansion::new(self, report, &user);
            expansion.chain.push(index);
            if let Some(filled) = self.filler.fill(report, reply, &set.arguments(&[]))
                && let Some(rules) = expansion.of(set.name.span, Cow::Owned(filled))
            {
                read(report, rules);
            }
        }
    }
}

impl<'n> RuleSet<'n> {
    /// What each parameter stands for: what was given, or its default.
    fn arguments<'a>(&'a self, given: &'a [Entry]) -> Vec<(&'a str, &'a Node)> {
        let value_of = |parameter: &Parameter<'n>| -> Option<&'a Node> {
            let given = given.iter().find(|entry| entry.key.text == parameter.name);
            given.map(|entry| &entry.value).or(parameter.default)
        };
        self.parameters.iter().filter_map(|parameter| Some((parameter.name, value_of(parameter)?))).collect()
    }

    /// The same, once it is known that everything is there and nothing else.
    fn given<'a>(
        &'a self,
        report: &Report<'_>,
        place: Span,
        given: &'a [Entry],
    ) -> Option<Vec<(&'a str, &'a Node)>> {
        let before = report.errors();
        let names = || self.parameters.iter().map(|parameter| parameter.name);
        let name = &self.name.text;
        for entry in given.iter().filter(|entry| !names().any(|known| known == entry.key.text)) {
            let help = suggest::help(&entry.key.text, "its parameters", names());
            let message = format!("the rules `{name}` have no parameter `{}`", entry.key.text);
            report.error(
                Code::UnknownParameter.at(entry.key.span),
                message,
                help.unwrap_or_else(|| "leave it out".to_owned()),
            );
        }
        let arguments = self.arguments(given);
        for missing in names().filter(|name| !arguments.iter().any(|(known, _)| known == name)) {
            // A wrong name above is probably the one that is missing.
            if report.errors() == before {
                let message = format!("the rules `{name}` need the parameter `{missing}`");
                report.error(
                    Code::MissingParameter.at(place),
                    message,
                    format!("write `with: {{ {missing}: … }}` beside it"),
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
    let Some(reply) = set.response else { return set };
    let mut found = Vec::new();
    marks(reply, &mut found);
    let names = || set.parameters.iter().map(|parameter| parameter.name);
    for (name, span) in found.iter().filter(|(name, _)| !names().any(|known| known == *name)) {
        let help = suggest::help(name, "its parameters", names()).unwrap_or_else(|| {
            format!("declare it under `parameters`, or write `$$({name})` for the characters themselves")
        });
        let place = language::span_of_name(report, *span, name);
        report.error(
            Code::UnknownParameter.at(place),
            format!("the rules `{}` have no parameter `{name}`", entry.key.text),
            help,
        );
    }
    for idle in declared.iter().filter(|parameter| !found.iter().any(|(name, _)| *name == parameter.key.text))
    {
        let message = format!("the parameter `{}` stands nowhere in the rules", idle.key.text);
        report.warning(
            Code::UnusedParameter.at(idle.key.span),
            message,
            format!("write `$({})` where its value goes", idle.key.text),
        );
    }
    set
}

/// Where the first key of a rule stands, which is where the rule begins for its reader.
pub(super) fn first_key(node: &Node) -> Span {
    node.as_map().and_then(|entries| entries.first()).map_or(node.span, |entry| entry.key.span)
}
