//! Expansion of `use` in the rules of one `response`.

use super::{ExpandedRule, RuleOrigin, RuleSet, RuleSets, Substitution, UseSettings, first_key};
use crate::config::section::cursor;
use crate::settings::{Code, Node, ProblemContext, Report, Setting, SourceSpan, suggest};

/// Maximum nesting depth of `use`.
const DEPTH_LIMIT: usize = 16;

/// Expansion in progress.
pub(super) struct Expansion<'e> {
    sets: &'e RuleSets<'e>,
    report: &'e Report<'e>,
    /// Owner of the `response`, for messages.
    user: &'e str,
    /// Indices of the rules that are being expanded, the outermost first.
    pub(super) chain: Vec<usize>,
    /// Origin of the rules that are being expanded.
    pub(super) origin: Option<RuleOrigin>,
    rules: Vec<ExpandedRule>,
}

impl<'e> Expansion<'e> {
    pub(super) fn new(sets: &'e RuleSets<'_>, report: &'e Report<'_>, user: &'e str) -> Self {
        Self { sets, report, user, chain: Vec::new(), origin: None, rules: Vec::new() }
    }

    /// Expands the `response` at `place`. Returns `None` after reporting the problems.
    pub(super) fn expand(mut self, place: SourceSpan, response: &Node) -> Option<Vec<ExpandedRule>> {
        self.add_rules(place, response).then_some(self.rules)
    }

    /// Adds the rules of one `response`. Returns `false` after reporting the problems.
    fn add_rules(&mut self, place: SourceSpan, response: &Node) -> bool {
        let Some(items) = response.as_list() else {
            let span = if self.chain.is_empty() { place } else { response.span };
            return self.add_item(span, response);
        };
        // All items are checked, so that all problems are reported in one run.
        items.iter().fold(true, |good, item| self.add_item(first_key(item), item) & good)
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
        // An unknown key beside `use` does not prevent the check of the rest.
        let read = UseSettings::read(&cursor(report, first_key(item), item, "a use", UseSettings::KIND));
        let node = item.get("use")?;
        let name = node.as_text()?;
        let given = item.get("with").and_then(Node::as_map);
        let Some((index, set)) = sets.iter().enumerate().find(|(_, set)| set.name.text == name) else {
            let help = suggest::help(name, "known rules", sets.iter().map(|set| set.name.text.as_str()));
            let message = format!("unknown rules `{name}`");
            return report.reject(Code::UnknownRules.at_span(node.span), message, help);
        };
        set.used.set(true);
        if self.chain.contains(&index) {
            let cycle = self.chain.iter().chain([&index]);
            let names: Vec<_> = cycle.map(|index| format!("`{}`", sets[*index].name.text)).collect();
            let message = format!("circular `use`: {}", names.join(" > "));
            let help = "remove one `use` of the cycle";
            return report.reject(Code::RecursiveRules.at_span(node.span), message, help);
        }
        if self.chain.len() == DEPTH_LIMIT {
            let message = format!("named rules are nested more than {DEPTH_LIMIT} levels deep");
            let help = "replace the innermost `use` by its rules";
            return report.reject(Code::RulesTooDeep.at_span(node.span), message, help);
        }
        let arguments = set.checked_arguments(report, node.span, given.unwrap_or_default());
        let (response, arguments) = (set.response?, arguments?);
        let origin = self.origin_of(set, node.span);
        let context = origin.context.clone();
        let before = self.origin.replace(origin);
        self.chain.push(index);
        let good = report.in_context(Some(context), || {
            let substitution = Substitution { report, budget: &self.sets.budget, arguments };
            let substituted = substitution.substitute(response)?;
            self.add_rules(response.span, &substituted).then_some(())
        });
        self.chain.pop();
        self.origin = before;
        good.filter(|()| read.is_ok())
    }

    /// Origin of the rules of `set`, inserted by a `use` at `span`.
    fn origin_of(&self, set: &RuleSet<'_>, span: SourceSpan) -> RuleOrigin {
        let name = &set.name.text;
        let names =
            self.origin.as_ref().map_or_else(|| name.clone(), |origin| format!("{} > {name}", origin.names));
        match &self.origin {
            Some(origin) if !self.chain.is_empty() => RuleOrigin { names, ..origin.clone() },
            Some(_) | None => {
                let outermost = format!("the {} `{name}`", if set.preset { "preset" } else { "rules" });
                let text = format!("in {outermost}, used by {}", self.user);
                RuleOrigin { names, outermost, context: ProblemContext { text, at: span } }
            }
        }
    }
}
