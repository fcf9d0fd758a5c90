//! Expansion of `use` in the rules of one `response`.

use std::borrow::Cow;

use super::{ExpandedRule, RuleOrigin, RuleSet, RuleSets, UseSettings, first_key};
use crate::config::{
    code::Code,
    report::{ProblemContext, Report},
    section::cursor,
    source::SourceSpan,
    suggest,
    tree::{Kind, Node},
};
use crate::settings::section::Setting;

/// Maximum nesting depth of `use`.
const DEPTH_LIMIT: usize = 16;

/// Expansion in progress.
pub(super) struct Expansion<'e, 'r> {
    sets: &'e RuleSets<'e>,
    report: &'e Report<'e>,
    /// Owner of the `response`, for messages.
    user: &'e str,
    /// Indices of the rules that are being expanded, the outermost first.
    pub(super) chain: Vec<usize>,
    /// Origin of the rules that are being expanded.
    pub(super) origin: Option<RuleOrigin>,
    rules: Vec<ExpandedRule<'r>>,
}

impl<'e, 'r> Expansion<'e, 'r> {
    pub(super) fn new(sets: &'e RuleSets<'_>, report: &'e Report<'_>, user: &'e str) -> Self {
        Self { sets, report, user, chain: Vec::new(), origin: None, rules: Vec::new() }
    }

    /// Expands the `response` at `place`. Returns `None` after reporting the problems.
    pub(super) fn expand(
        mut self,
        place: SourceSpan,
        response: Cow<'r, Node>,
    ) -> Option<Vec<ExpandedRule<'r>>> {
        self.add_rules(place, response).then_some(self.rules)
    }

    /// Adds the rules of one `response`. Returns `false` after reporting the problems.
    fn add_rules(&mut self, place: SourceSpan, response: Cow<'r, Node>) -> bool {
        let items: Vec<Cow<'r, Node>> = match response {
            Cow::Borrowed(Node { kind: Kind::List(items), .. }) => items.iter().map(Cow::Borrowed).collect(),
            Cow::Owned(Node { kind: Kind::List(items), .. }) => items.into_iter().map(Cow::Owned).collect(),
            one => {
                let span = if self.chain.is_empty() { place } else { one.span };
                return self.add_item(span, one);
            }
        };
        // All items are checked, so that all problems are reported in one run.
        let mut good = true;
        for item in items {
            good &= self.add_item(first_key(&item), item);
        }
        good
    }

    fn add_item(&mut self, span: SourceSpan, item: Cow<'r, Node>) -> bool {
        if item.get("use").is_some() {
            return self.add_use(&item).is_some();
        }
        if let Some(name) = item.as_text()
            && self.sets.sets.iter().any(|set| set.name.text == name)
        {
            self.report.error(
                Code::WrongType.at_span(item.span),
                format!("expected a rule, found the name `{name}`"),
                format!("write `{{ use: {name} }}`"),
            );
            return false;
        }
        self.rules.push(ExpandedRule { node: item, span, origin: self.origin.clone() });
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
            let names = sets.iter().map(|set| set.name.text.as_str());
            report.error(
                Code::UnknownRules.at_span(node.span),
                format!("unknown rules `{name}`"),
                suggest::help(name, "known rules", names),
            );
            return None;
        };
        set.used.set(true);
        if self.chain.contains(&index) {
            let cycle = self.chain.iter().chain([&index]);
            let names: Vec<_> = cycle.map(|index| format!("`{}`", sets[*index].name.text)).collect();
            let message = format!("circular `use`: {}", names.join(" > "));
            report.error(Code::RecursiveRules.at_span(node.span), message, "remove one `use` of the cycle");
            return None;
        }
        if self.chain.len() == DEPTH_LIMIT {
            let message = format!("named rules are nested more than {DEPTH_LIMIT} levels deep");
            report.error(
                Code::RulesTooDeep.at_span(node.span),
                message,
                "replace the innermost `use` by its rules",
            );
            return None;
        }
        let arguments = set.checked_arguments(report, node.span, given.unwrap_or_default());
        let (response, arguments) = (set.response?, arguments?);
        let origin = self.origin_of(set, node.span);
        let context = origin.context.clone();
        let before = self.origin.replace(origin);
        self.chain.push(index);
        let good = report.in_context(Some(context), || {
            let substituted = self.sets.substitution.substitute(report, response, &arguments)?;
            self.add_rules(response.span, Cow::Owned(substituted)).then_some(())
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
                RuleOrigin { names, outermost, span, context: ProblemContext { text, at: span } }
            }
        }
    }
}
