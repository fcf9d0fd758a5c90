//! Substitution of the parameters of named rules.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::settings::{Budget, Code, Entry, Key, Kind, Node, Report, SourceSpan, TreeSize, fixed_regex};

/// Maximum number of nodes that all `use` of the configuration insert together. Nested `use` can multiply the
/// nodes exponentially.
pub(super) const NODE_LIMIT: usize = 2_000_000;
/// Maximum total length of the strings that all `use` of the configuration insert, in bytes.
pub(super) const TEXT_LIMIT_BYTES: usize = 64 << 20;

/// Checks the names of the parameters that named rules declare.
pub(super) fn check_names(report: &Report<'_>, declared: &[Entry]) {
    for Key { text, span } in declared.iter().map(|parameter| &parameter.key) {
        if !PARAMETER_NAME.is_match(text) {
            let help = "write letters, digits and `_`, beginning with a letter or `_`";
            let message = format!("`{text}` is not a parameter name");
            report.error(Code::InvalidName.at_span(*span), message, help);
        }
    }
}

/// Collects the parameters that a value uses, with their spans.
pub(super) fn parameter_uses<'n>(node: &'n Node, found: &mut Vec<(&'n str, SourceSpan)>) {
    let mut find_in_text = |text: &'n str, span: SourceSpan| {
        let uses = PARAMETER_USE.captures_iter(text).filter(|usage| usage.name("escape").is_none());
        found.extend(uses.filter_map(|usage: Captures<'n>| Some((usage.name("name")?.as_str(), span))));
    };
    node.as_text().into_iter().for_each(|text| find_in_text(text, node.span));
    for Entry { key, .. } in node.as_map().unwrap_or_default() {
        find_in_text(&key.text, key.span);
    }
    node.children().for_each(|child| parameter_uses(child, found));
}

/// Substitution of arguments for parameters.
pub(super) struct Substitution<'a> {
    pub(super) report: &'a Report<'a>,
    pub(super) budget: &'a Budget,
    /// Value of each parameter.
    pub(super) arguments: Vec<(&'a str, &'a Node)>,
}

impl Substitution<'_> {
    /// Returns a copy of a value in which parameters are substituted; `None` after reporting a problem.
    pub(super) fn substitute(&self, node: &Node) -> Option<Node> {
        let kind = match &node.kind {
            Kind::Text(text) => {
                let parameter = text.strip_prefix("$(").and_then(|name| name.strip_suffix(')'));
                if let Some(argument) = parameter.and_then(|name| self.argument(name)) {
                    let cost = TreeSize::from_node(argument);
                    self.spend(cost.nodes, cost.text_bytes, node.span)?;
                    return Some(argument.clone());
                }
                Kind::Text(self.substitute_in_text(node.span, text)?)
            }
            Kind::List(items) => {
                Kind::List(items.iter().map(|item| self.substitute(item)).collect::<Option<_>>()?)
            }
            Kind::Map(entries) => Kind::Map(self.substitute_in_map(entries)?),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) => node.kind.clone(),
        };
        self.spend(1, 0, node.span)?;
        Some(Node { kind, ..*node })
    }

    fn substitute_in_map(&self, entries: &[Entry]) -> Option<Vec<Entry>> {
        let (mut substituted, mut seen) = (Vec::new(), HashSet::new());
        for Entry { key, value } in entries {
            let text = self.substitute_in_text(key.span, &key.text)?;
            if !seen.insert(text.clone()) {
                let (message, help) =
                    (format!("duplicate key `{text}`"), "use another value of the parameter");
                return self.report.reject(Code::DuplicateKey.at_span(key.span), message, help);
            }
            let value = self.substitute(value)?;
            substituted.push(Entry { key: Key { text, span: key.span }, value });
        }
        Some(substituted)
    }

    fn substitute_in_text(&self, span: SourceSpan, text: &str) -> Option<String> {
        self.spend(0, text.len(), span)?;
        let mut is_valid = true;
        let substituted = PARAMETER_USE.replace_all(text, |captures: &Captures<'_>| {
            let inserted = match self.argument(&captures["name"]) {
                _ if captures.name("escape").is_some() => Some(captures[0][1..].to_owned()),
                None => Some(captures[0].to_owned()),
                Some(argument) => self.insertable(&captures["name"], argument),
            };
            // Nothing is inserted after a problem, so that the string does not exceed the limit.
            let inserted = inserted.filter(|text| is_valid && self.spend(0, text.len(), span).is_some());
            is_valid &= inserted.is_some();
            inserted.unwrap_or_default()
        });
        is_valid.then(|| substituted.into_owned())
    }

    /// Converts an argument to text that is inserted into a string. Returns `None` after reporting a list or
    /// map.
    fn insertable(&self, name: &str, argument: &Node) -> Option<String> {
        argument.scalar().or_else(|| {
            let description = argument.describe();
            let message =
                format!("the parameter `{name}` is used inside a string, so it can't be {description}");
            let help = "write a string or a number; a list or a map can only replace a whole value";
            self.report.reject(Code::WrongType.at_span(argument.span), message, help)
        })
    }

    fn argument(&self, name: &str) -> Option<&Node> {
        self.arguments.iter().find(|(known, _)| *known == name).map(|(_, argument)| *argument)
    }

    /// Charges inserted nodes and bytes to the budget. Returns `None` if the limit is exceeded, which is
    /// reported once.
    fn spend(&self, nodes: usize, text_bytes: usize, span: SourceSpan) -> Option<()> {
        if self.budget.exceeded().is_some() {
            return None;
        }
        let Err(limit) = self.budget.spend(nodes, text_bytes) else { return Some(()) };
        let message = format!("after the expansion of named rules, the configuration has more than {limit}");
        self.report.reject(Code::TooLarge.at_span(span), message, "use fewer named rules in named rules")
    }
}

/// Use of a parameter in a string. Another `$` before it escapes it.
static PARAMETER_USE: LazyLock<Regex> =
    LazyLock::new(|| fixed_regex(r"(?<escape>\$)?\$\((?<name>[A-Za-z_][A-Za-z0-9_]*)\)"));

static PARAMETER_NAME: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^[A-Za-z_][A-Za-z0-9_]*$"));
