//! Parameters of named rules, and their substitution.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::config::{
    code::Code,
    report::Report,
    source::SourceSpan,
    tree::{Budget, Cost, Entry, Key, Kind, Node, TextNode},
};

/// Maximum number of nodes that all `use` insert together.
const NODE_LIMIT: usize = 2_000_000;
/// Maximum number of bytes of text that all `use` insert together.
const TEXT_LIMIT_BYTES: usize = 64 << 20;

/// Parameter of named rules.
pub(super) struct Parameter<'n> {
    pub(super) name: &'n str,
    /// `None` if the parameter is required.
    pub(super) default: Option<&'n Node>,
}

/// Parses the parameters that rules declare.
pub(super) fn declared<'n>(report: &Report<'_>, entries: &'n [Entry]) -> Vec<Parameter<'n>> {
    for entry in entries.iter().filter(|entry| !PARAMETER_NAME.is_match(&entry.key.text)) {
        let message = format!("`{}` is not a parameter name", entry.key.text);
        report.error(
            Code::InvalidName.at_span(entry.key.span),
            message,
            "write letters, digits and `_`, beginning with a letter",
        );
    }
    let default = |node: &'n Node| (!matches!(node.kind, Kind::Null)).then_some(node);
    entries.iter().map(|entry| Parameter { name: &entry.key.text, default: default(&entry.value) }).collect()
}

/// Collects the parameters that a value uses, with their spans.
pub(super) fn parameter_uses<'n>(node: &'n Node, found: &mut Vec<(&'n str, SourceSpan)>) {
    let find_in_text = |text: &'n str, span: SourceSpan, found: &mut Vec<(&'n str, SourceSpan)>| {
        let named = PARAMETER_USE.captures_iter(text).filter(|usage| usage.name("escape").is_none());
        found.extend(named.filter_map(|usage: Captures<'n>| Some((usage.name("name")?.as_str(), span))));
    };
    match &node.kind {
        Kind::Text(text) => find_in_text(&text.text, node.span, found),
        Kind::List(items) => items.iter().for_each(|item| parameter_uses(item, found)),
        Kind::Map(entries) => {
            for Entry { key, value } in entries {
                find_in_text(&key.text, key.span, found);
                parameter_uses(value, found);
            }
        }
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) => {}
    }
}

/// Substitutes parameters within a budget for the inserted nodes and text.
pub(super) struct ParameterSubstitution {
    budget: Budget,
}

impl Default for ParameterSubstitution {
    fn default() -> Self {
        Self { budget: Budget::new(NODE_LIMIT, TEXT_LIMIT_BYTES) }
    }
}

impl ParameterSubstitution {
    /// Returns a copy of a value with its parameters substituted.
    pub(super) fn substitute(
        &self,
        report: &Report<'_>,
        node: &Node,
        arguments: &[(&str, &Node)],
    ) -> Option<Node> {
        let kind = match &node.kind {
            Kind::Text(text) => {
                if let Some(argument) = single_parameter(&text.text, arguments) {
                    let cost = Cost::from_node(argument);
                    self.spend(report, cost.nodes, cost.text_bytes, node.span)?;
                    return Some(argument.clone());
                }
                let substituted = self.substitute_in_text(report, node.span, &text.text, arguments)?;
                Kind::Text(TextNode { text: substituted, style: text.style })
            }
            Kind::List(items) => Kind::List(
                items.iter().map(|item| self.substitute(report, item, arguments)).collect::<Option<_>>()?,
            ),
            Kind::Map(entries) => Kind::Map(self.substitute_in_map(report, entries, arguments)?),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) => node.kind.clone(),
        };
        self.spend(report, 1, 0, node.span)?;
        Some(Node { span: node.span, kind, secret: node.secret })
    }

    fn substitute_in_map(
        &self,
        report: &Report<'_>,
        entries: &[Entry],
        arguments: &[(&str, &Node)],
    ) -> Option<Vec<Entry>> {
        let mut substituted: Vec<Entry> = Vec::with_capacity(entries.len());
        for Entry { key, value } in entries {
            let text = self.substitute_in_text(report, key.span, &key.text, arguments)?;
            if text != key.text && substituted.iter().any(|known| known.key.text == text) {
                report.error(
                    Code::DuplicateKey.at_span(key.span),
                    format!("duplicate key `{text}`"),
                    "use another value of the parameter",
                );
                return None;
            }
            let value = self.substitute(report, value, arguments)?;
            substituted.push(Entry { key: Key { text, span: key.span }, value });
        }
        Some(substituted)
    }

    fn substitute_in_text(
        &self,
        report: &Report<'_>,
        span: SourceSpan,
        text: &str,
        arguments: &[(&str, &Node)],
    ) -> Option<String> {
        let (mut out, mut from) = (String::new(), 0);
        for found in PARAMETER_USE.captures_iter(text) {
            let Some((whole, name)) = found.get(0).zip(found.name("name")) else { continue };
            out.push_str(&text[from..whole.start()]);
            from = whole.end();
            if found.name("escape").is_some() {
                out.push_str(&whole.as_str()[1..]);
                continue;
            }
            let Some((_, argument)) = arguments.iter().find(|(known, _)| *known == name.as_str()) else {
                out.push_str(whole.as_str());
                continue;
            };
            let Some(scalar) = argument.scalar() else {
                let message = format!(
                    "the parameter `{}` is used inside a string, so it can't be {}",
                    name.as_str(),
                    argument.found()
                );
                let help = "write a string or a number; a list or a map can only replace a whole value";
                report.error(Code::WrongType.at_span(argument.span), message, help);
                return None;
            };
            self.spend(report, 0, scalar.len(), span)?;
            out.push_str(&scalar);
        }
        self.spend(report, 0, text.len() - from, span)?;
        out.push_str(&text[from..]);
        Some(out)
    }

    /// Counts inserted nodes and text. Returns `None` over the limit, which is reported once.
    fn spend(&self, report: &Report<'_>, nodes: usize, text_bytes: usize, span: SourceSpan) -> Option<()> {
        if self.budget.exceeded().is_some() {
            return None;
        }
        let spent = self.budget.spend(nodes, text_bytes).map_err(|limit| {
            let message =
                format!("after the expansion of named rules, the configuration has more than {limit}");
            report.error(Code::TooLarge.at_span(span), message, "use fewer named rules in named rules");
        });
        spent.ok()
    }
}

/// The argument, if the text is exactly one parameter.
fn single_parameter<'a>(text: &str, arguments: &[(&str, &'a Node)]) -> Option<&'a Node> {
    let name = text.strip_prefix("$(")?.strip_suffix(')')?;
    arguments.iter().find(|(known, _)| *known == name).map(|(_, argument)| *argument)
}

/// Matches a parameter in a text; an additional `$` before it is the escape.
static PARAMETER_USE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?<escape>\$)?\$\((?<name>[A-Za-z_][A-Za-z0-9_]*)\)")
        .expect("the pattern is fixed and right")
});

static PARAMETER_NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z_][A-Za-z0-9_]*$").expect("the pattern is fixed and right"));
