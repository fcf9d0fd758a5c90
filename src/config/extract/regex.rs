//! `regex` as the file has it.

use super::{Form, open, records};
use crate::{
    config::{keys::REGEX, language, node::Node, report::Report, section::Section},
    translate::{
        Pattern,
        extract::{CapturePattern, Each, ExtractorKind, Regex},
    },
};

pub(super) const FORM: Form = Form {
    name: "regex",
    needs: Some(("a pattern", "extract: { regex: '(?<name>…)' }")),
    read: |value| {
        if value.node.as_text().is_some() {
            let pattern = plain(value.context.report, value.node, Lines::OfTheText)?;
            let regex = Regex { patterns: vec![pattern], each: Each::First, allow_empty: false };
            return Some(ExtractorKind::Regex(regex));
        }
        let section = &open(value, &REGEX)?;
        read(section, "write `pattern: '(?<name>…)'`", plain).map(ExtractorKind::Regex)
    },
};

/// What `^` and `$` are in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// The ends of the text, unless the pattern says otherwise.
    OfTheText,
    /// The ends of every line in it.
    Each,
}

/// Reads `pattern`, one or several, and the keys of records; `compile` reads one pattern.
pub(super) fn read(
    section: &Section<'_, '_>,
    help: &str,
    compile: impl Fn(&Report<'_>, &Node, Lines) -> Option<CapturePattern>,
) -> Option<Regex> {
    let report = section.report;
    let records = records::read(section);
    let node = section.required("pattern", help)?;
    let nodes = records::one_or_more(node);
    if nodes.is_empty() {
        report.error(node.span, "`pattern` names no pattern", help.to_owned());
        return None;
    }
    let in_blocks = section.get("each").and_then(Node::as_text) == Some("block");
    let lines = if in_blocks { Lines::Each } else { Lines::OfTheText };
    let patterns: Vec<_> = nodes.iter().map(|node| compile(report, node, lines)).collect();
    let (patterns, records) = (patterns.into_iter().collect::<Option<_>>()?, records?);
    let each = match (records.each, records.blocks) {
        (_, Some(blocks)) => Each::Block(blocks),
        (Some("match"), None) => Each::Match,
        (Some("line"), None) => Each::Line,
        (_, None) => Each::First,
    };
    if matches!(each, Each::Match) && nodes.len() > 1 {
        let message = "`each: match` takes one pattern, found several";
        let help = "write `each: line` or `each: block`, which join what several patterns find in one record";
        report.error(nodes[1].span, message, help);
        return None;
    }
    Some(Regex { patterns, each, allow_empty: records.allow_empty })
}

fn plain(report: &Report<'_>, node: &Node, lines: Lines) -> Option<CapturePattern> {
    let pattern: Pattern = match lines {
        Lines::OfTheText => language::pattern(report, node, "the pattern")?,
        Lines::Each => language::pattern_of_lines(report, node, "the pattern")?,
    };
    if pattern.names().is_empty() {
        let help = "name what is to be found: `(?<temperature>\\d+)`";
        report.error(node.span, "the pattern captures nothing by name", help);
        return None;
    }
    Some(CapturePattern::plain(pattern))
}
