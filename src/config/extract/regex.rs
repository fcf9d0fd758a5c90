//! `regex` as the file has it.

use super::{Alone, Form};
use crate::{
    config::{
        keys::REGEX,
        language,
        node::{Kind, Node},
        report::Report,
    },
    rule::{
        Pattern,
        extract::{Each, ExtractorKind, Regex},
    },
};

pub(super) const FORM: Form = Form {
    name: "regex",
    keys: &REGEX,
    alone: Alone::Needs("a pattern", "extract: { regex: '(?<name>…)' }"),
    short: Some(|report, node, _| match &node.kind {
        Kind::Text(_) => Some(
            captures(report, node)
                .map(|pattern| ExtractorKind::Regex(Regex { pattern, each: Each::default() })),
        ),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => None,
    }),
    options: |section| {
        let each = section.word("each").map_or(Each::First, |word| match word {
            "match" => Each::Match,
            "line" => Each::Line,
            _ => Each::First,
        });
        let pattern =
            captures(section.report, section.required("pattern", "write `pattern: '(?<name>…)'`")?)?;
        Some(ExtractorKind::Regex(Regex { pattern, each }))
    },
};

fn captures(report: &Report<'_>, node: &Node) -> Option<Pattern> {
    let pattern = language::pattern(report, node, "the pattern")?;
    if pattern.names().is_empty() {
        let help = "name what is to be found: `(?<temperature>\\d+)`";
        report.error(node.span, "the pattern captures nothing by name", help);
        return None;
    }
    Some(pattern)
}
