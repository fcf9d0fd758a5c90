//! `rules`: named rules, and the expansion of `use`.
//!
//! Before compilation, each `use` in the tree is replaced by the rules that it names; all values keep their
//! spans.
//!
//! In named rules, `$(name)` is a parameter; `parameters` substitutes it. The syntax is unambiguous: `$(`
//! does not occur in jq, templates or `${VARIABLE}`, and a regular expression with `$(name)` could never
//! match, because it requires text after the end of a line. `$$(name)` is an escaped `$(name)`. Substituted
//! text is not expanded again.
//!
//! Presets are named rules in `presets.yaml`. Names in the configuration take precedence, so that a preset in
//! a later version does not replace an operator's rules with the same name.

mod parameters;

use std::cell::Cell;

use self::parameters::{NODE_LIMIT, Substitution, TEXT_LIMIT_BYTES, parameter_uses};
use super::compile::RESPONSE_KIND;
use super::section::{ReadElsewhere, cursor};
use crate::settings::{
    Budget, Checked, Code, Entry, Key, Kind, Named, Node, OpenSection, ProblemContext, Report, Section,
    Setting, SourceSpan, suggest,
};
use crate::translate::expressions;

/// Maximum nesting depth of `use`.
const DEPTH_LIMIT: usize = 16;

/// YAML text of the presets, a file with named rules.
pub(super) const PRESETS: &str = include_str!("presets.yaml");

/// All named rules: the rules of the file and the presets.
pub(super) struct RuleSets<'n> {
    sets: Vec<RuleSet<'n>>,
    budget: Budget,
}

/// Entry of `rules`, or preset: rules with a common name.
struct RuleSet<'n> {
    name: &'n Key,
    is_preset: bool,
    /// Declared parameters with their defaults. A parameter whose default is null is required.
    parameters: &'n [Entry],
    /// The rules; `None` if they have errors, which have already been reported.
    response: Option<&'n Node>,
    is_used: Cell<bool>,
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
    #[key(kind = RESPONSE_KIND)]
    response: ReadElsewhere,
}

impl RuleSetSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let help = "write the rules under `response`";
        let missing = || section.missing("named rules have no `response`".to_owned(), help);
        section.entry("response").map(|_| ()).ok_or_else(missing)
    }
}

/// A rule of a `response` after the expansion of `use`.
pub(super) struct ExpandedRule {
    pub(super) node: Node,
    /// Span of the first key of the rule.
    pub(super) span: SourceSpan,
    /// Origin of the rule, if `use` or `defaults.response` inserted it.
    pub(super) origin: Option<RuleOrigin>,
}

/// Origin of a rule that `use` or `defaults.response` inserted.
#[derive(Debug, Clone)]
pub(super) struct RuleOrigin {
    /// Names of the nested rule sets, from the outermost to the innermost, such as `defaults > http_errors`.
    pub(super) names: String,
    /// Context of problems in the rule, with the span of the outermost `use` or of `defaults.response`.
    pub(super) context: ProblemContext,
}

impl<'n> RuleSets<'n> {
    /// Parses the named rules of the file and the presets.
    pub(super) fn read(report: &Report<'_>, own_entries: &'n [Entry], presets: Option<&'n Node>) -> Self {
        let presets = presets.and_then(|root| root.get("rules")?.as_map()).unwrap_or_default();
        let own_sets = own_entries.iter().map(|entry| read_set(report, entry, false));
        let is_not_overridden =
            |entry: &&Entry| !own_entries.iter().any(|known| known.key.text == entry.key.text);
        let preset_sets = presets.iter().filter(is_not_overridden).map(|entry| read_set(report, entry, true));
        Self {
            sets: own_sets.chain(preset_sets).collect(),
            budget: Budget::new(NODE_LIMIT, TEXT_LIMIT_BYTES),
        }
    }

    /// Expands each `use` in a `response`; if there is no `response`, there are no rules. Returns `None`
    /// after reporting the problems.
    ///
    /// `owner` names the owner of the `response` in messages: "the route `get_report`".
    pub(super) fn expand(
        &self,
        report: &Report<'_>,
        owner: &str,
        response: Option<&Entry>,
    ) -> Option<Vec<ExpandedRule>> {
        let Some(Entry { key, value }) = response else { return Some(Vec::new()) };
        RuleExpansion::new(self, report, owner).expand(key.span, value)
    }

    /// Expands the rules of `defaults.response` for a route.
    pub(super) fn expand_defaults(
        &self,
        report: &Report<'_>,
        route: &str,
        response: Option<&Entry>,
    ) -> Option<Vec<ExpandedRule>> {
        let Some(response) = response else { return Some(Vec::new()) };
        let at = response.key.span;
        let context = ProblemContext { text: format!("in `defaults.response`, tried for {route}"), at };
        let origin = Some(RuleOrigin { names: "defaults".to_owned(), context });
        let owner = format!("`defaults.response` for {route}");
        RuleExpansion { origin, ..RuleExpansion::new(self, report, &owner) }.expand(at, &response.value)
    }

    /// Warns of named rules that no route uses. Parses those without required parameters, so that their
    /// problems are reported.
    pub(super) fn check_unused(&self, report: &Report<'_>, read: impl Fn(Vec<ExpandedRule>)) {
        for (index, set) in
            self.sets.iter().enumerate().filter(|(_, set)| !set.is_preset && !set.is_used.get())
        {
            let Some(response) = set.response else { continue };
            let (span, name) = (set.name.span, &set.name.text);
            let message = format!("no route uses the rules `{name}`");
            let help = "remove them, or add a `use` to the `response` of a route";
            report.warning(Code::UnusedRules.at_span(span), message, help);
            if set.parameters.iter().any(|parameter| matches!(parameter.value.kind, Kind::Null)) {
                continue;
            }
            let owner = format!("the rules `{name}`");
            let mut expansion = RuleExpansion::new(self, report, &owner);
            expansion.chain.push(index);
            let substituted = set.arguments(report, span, &[]).and_then(|arguments| {
                Substitution { report, budget: &self.budget, arguments }.substitute(response)
            });
            if let Some(rules) = substituted.and_then(|rules| expansion.expand(span, &rules)) {
                read(rules);
            }
        }
    }
}

/// Expansion of the `use` items in one `response`.
struct RuleExpansion<'e> {
    sets: &'e RuleSets<'e>,
    report: &'e Report<'e>,
    /// Owner of the `response`, as named in messages.
    owner: &'e str,
    /// Indices of the rule sets that are being expanded, from the outermost to the innermost.
    chain: Vec<usize>,
    /// Origin of the rules that are being expanded; `None` for the rules in the `response` itself.
    origin: Option<RuleOrigin>,
    rules: Vec<ExpandedRule>,
}

impl<'e> RuleExpansion<'e> {
    fn new(sets: &'e RuleSets<'_>, report: &'e Report<'_>, owner: &'e str) -> Self {
        Self { sets, report, owner, chain: Vec::new(), origin: None, rules: Vec::new() }
    }

    /// Expands a `response`; `key_span` is the span of its key. Returns `None` after reporting the problems.
    fn expand(mut self, key_span: SourceSpan, response: &Node) -> Option<Vec<ExpandedRule>> {
        self.add_rules(key_span, response).then_some(self.rules)
    }

    /// Adds the rules of a `response`. Returns `false` after reporting the problems.
    fn add_rules(&mut self, key_span: SourceSpan, response: &Node) -> bool {
        let Some(items) = response.as_list() else {
            let span = if self.chain.is_empty() { key_span } else { response.span };
            return self.add_item(span, response);
        };
        // `fold` checks every item, so that all problems are reported in one run.
        items.iter().fold(true, |is_valid, item| self.add_item(first_key(item), item) & is_valid)
    }

    fn add_item(&mut self, span: SourceSpan, item: &Node) -> bool {
        if item.get("use").is_some() {
            return self.add_use(item).is_some();
        }
        let is_name = |name: &&str| self.sets.sets.iter().any(|set| set.name.text == *name);
        if let Some(name) = item.as_text().filter(is_name) {
            let message = format!("expected a rule, found the name `{name}`");
            let help = format!("write `{{ use: {name} }}`");
            self.report.error(Code::WrongType.at_span(item.span), message, help);
            return false;
        }
        self.rules.push(ExpandedRule { node: item.clone(), span, origin: self.origin.clone() });
        true
    }

    fn add_use(&mut self, item: &Node) -> Option<()> {
        let (report, sets) = (self.report, &self.sets.sets);
        // If there are unknown keys beside `use`, the rest is still checked.
        let settings = UseSettings::read(&cursor(report, first_key(item), item, "a use", UseSettings::KIND));
        let node = item.get("use")?;
        let name = node.as_text()?;
        let argument_entries = item.get("with").and_then(Node::as_map);
        let Some((index, set)) = sets.iter().enumerate().find(|(_, set)| set.name.text == name) else {
            let help = suggest::help(name, "known rules", sets.iter().map(|set| set.name.text.as_str()));
            let message = format!("unknown rules `{name}`");
            return report.reject(Code::UnknownRules.at_span(node.span), message, help);
        };
        set.is_used.set(true);
        if self.chain.contains(&index) {
            let cycle = self.chain.iter().chain([&index]);
            let names: Vec<_> = cycle.map(|index| format!("`{}`", sets[*index].name.text)).collect();
            let message = format!("circular `use`: {}", names.join(" > "));
            let help = "remove one `use` of the cycle";
            return report.reject(Code::RecursiveRules.at_span(node.span), message, help);
        }
        if self.chain.len() == DEPTH_LIMIT {
            let message = format!("named rules are nested more than {DEPTH_LIMIT} levels deep");
            let help = "replace the innermost `use` with its rules";
            return report.reject(Code::RulesTooDeep.at_span(node.span), message, help);
        }
        let arguments = set.arguments(report, node.span, argument_entries.unwrap_or_default());
        let (response, arguments) = (set.response?, arguments?);
        let origin = self.origin_of(set, node.span);
        let context = origin.context.clone();
        let outer_origin = self.origin.replace(origin);
        self.chain.push(index);
        let added = report.in_context(Some(context), || {
            let substitution = Substitution { report, budget: &self.sets.budget, arguments };
            let substituted = substitution.substitute(response)?;
            self.add_rules(response.span, &substituted).then_some(())
        });
        self.chain.pop();
        self.origin = outer_origin;
        added.filter(|()| settings.is_ok())
    }

    /// Returns the origin of the rules of `set` that a `use` at `span` inserts.
    fn origin_of(&self, set: &RuleSet<'_>, span: SourceSpan) -> RuleOrigin {
        let name = &set.name.text;
        let names =
            self.origin.as_ref().map_or_else(|| name.clone(), |origin| format!("{} > {name}", origin.names));
        match &self.origin {
            Some(origin) if !self.chain.is_empty() => RuleOrigin { names, ..origin.clone() },
            Some(_) | None => {
                let kind = if set.is_preset { "preset" } else { "rules" };
                let text = format!("in the {kind} `{name}`, used by {}", self.owner);
                RuleOrigin { names, context: ProblemContext { text, at: span } }
            }
        }
    }
}

impl<'n> RuleSet<'n> {
    /// Returns the value of each parameter: the argument, or else the default. Returns `None` after reporting
    /// unknown and missing arguments.
    fn arguments<'a>(
        &'a self,
        report: &Report<'_>,
        span: SourceSpan,
        entries: &'a [Entry],
    ) -> Option<Vec<(&'a str, &'a Node)>> {
        let before = report.errors();
        let names = || self.parameters.iter().map(|parameter| parameter.key.text.as_str());
        let name = &self.name.text;
        for entry in entries.iter().filter(|entry| !names().any(|known| known == entry.key.text)) {
            let message = format!("the rules `{name}` have no parameter `{}`", entry.key.text);
            let help = suggest::help(&entry.key.text, "known parameters", names())
                .unwrap_or_else(|| "remove it".to_owned());
            report.error(Code::UnknownParameter.at_span(entry.key.span), message, help);
        }
        let value_of = |Entry { key, value }: &'a Entry| {
            let argument = entries.iter().find(|entry| entry.key.text == key.text).map(|entry| &entry.value);
            let default = Some(value).filter(|value| !matches!(value.kind, Kind::Null));
            Some((key.text.as_str(), argument.or(default)?))
        };
        let arguments: Vec<_> = self.parameters.iter().filter_map(value_of).collect();
        let has_unknown = report.errors() > before;
        for missing in names().filter(|name| !arguments.iter().any(|(known, _)| known == name)) {
            // If an unknown argument has been reported, it is probably the missing argument, misspelled.
            if !has_unknown {
                let message = format!("the rules `{name}` require the parameter `{missing}`");
                let help = format!("add `with: {{ {missing}: … }}`");
                report.error(Code::MissingParameter.at_span(span), message, help);
            }
        }
        (report.errors() == before).then_some(arguments)
    }
}

fn read_set<'n>(report: &Report<'_>, entry: &'n Entry, is_preset: bool) -> RuleSet<'n> {
    let mut set = RuleSet {
        name: &entry.key,
        is_preset,
        parameters: &[],
        response: Some(&entry.value),
        is_used: Cell::default(),
    };
    let declared = entry.value.get("parameters").and_then(Node::as_map).unwrap_or_default();
    if RuleSetSettings::keys().names().any(|name| entry.value.get(name).is_some()) {
        let before = report.errors();
        let value = cursor(report, entry.key.span, &entry.value, "named rules", RuleSetSettings::KIND);
        let settings = RuleSetSettings::read(&value);
        parameters::check_names(report, declared);
        set.parameters = declared;
        set.response = entry.value.get("response").filter(|_| settings.is_ok() && report.errors() == before);
    }
    let Some(response) = set.response else { return set };
    let mut uses = Vec::new();
    parameter_uses(response, &mut uses);
    let names = || set.parameters.iter().map(|parameter| parameter.key.text.as_str());
    for (name, span) in uses.iter().filter(|(name, _)| !names().any(|known| known == *name)) {
        let help = suggest::help(name, "known parameters", names()).unwrap_or_else(|| {
            format!("declare it under `parameters`, or write `$$({name})` for a literal `$({name})`")
        });
        let at = Code::UnknownParameter.at_span(expressions::span_of_name(report, *span, name));
        report.error(at, format!("the rules `{}` have no parameter `{name}`", entry.key.text), help);
    }
    for Key { text, span } in declared.iter().map(|parameter| &parameter.key) {
        if !uses.iter().any(|(name, _)| name == text) {
            let help = format!("write `$({text})` in the rules, or remove it");
            let message = format!("parameter `{text}` is unused");
            report.warning(Code::UnusedParameter.at_span(*span), message, help);
        }
    }
    set
}

/// Span of the first key of a rule; problems of the whole rule are reported at this span.
pub(super) fn first_key(node: &Node) -> SourceSpan {
    node.as_map().and_then(|entries| entries.first()).map_or(node.span, |entry| entry.key.span)
}
