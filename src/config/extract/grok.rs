//! `grok` as the file has it.

use super::{Form, open, regex};
use crate::{
    config::{
        keys::GROK,
        node::Node,
        report::Report,
        section::{self, Section},
        suggest,
    },
    translate::extract::{CapturePattern, Each, ExtractorKind, GrokError, GrokPatterns, Regex},
};

pub(super) const FORM: Form = Form {
    name: "grok",
    needs: Some(("a pattern", "extract: { grok: '%{IP:client} %{GREEDYDATA:message}' }")),
    read: |value| {
        if value.node.as_text().is_some() {
            let pattern = compiled(value.context.report, value.node, &GrokPatterns::default())?;
            let regex = Regex { patterns: vec![pattern], each: Each::First, allow_empty: false };
            return Some(ExtractorKind::Grok(regex));
        }
        let section = &open(value, &GROK)?;
        let patterns = patterns(section);
        let known = patterns.clone().unwrap_or_default();
        // A name that is unknown because its pattern is wrong is no second problem.
        let compile = |report: &Report<'_>, node: &Node, _| {
            patterns.as_ref()?;
            compiled(report, node, &known)
        };
        let read = regex::read(section, "write `pattern: '%{IP:client} %{GREEDYDATA:message}'`", compile);
        read.map(ExtractorKind::Grok)
    },
};

/// The patterns of the rule. `None` when one is wrong; that has been reported then.
fn patterns(section: &Section<'_, '_>) -> Option<GrokPatterns> {
    let report = section.report;
    if section.entry("patterns").is_none() {
        return Some(GrokPatterns::default());
    }
    let before = report.errors();
    let entries = section.map("patterns")?;
    let mut own = Vec::new();
    for entry in entries {
        let name = &entry.key.text;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let message = format!("`{name}` can't be the name of a pattern");
            report.error(entry.key.span, message, "write letters, digits and `_`: `QUEUE_ID`");
        }
        let text = section::text_of(report, &entry.value, &format!("pattern `{name}`"));
        own.extend(text.map(|text| (name.clone(), text.to_owned())));
    }
    let patterns = GrokPatterns::new(own);
    if report.errors() == before {
        for entry in entries {
            if let (Some(text), node) = (entry.value.as_text(), &entry.value)
                && let Err(error) = patterns.compile(text)
            {
                tell(report, node, text, &error, &patterns);
            }
        }
    }
    (report.errors() == before).then_some(patterns)
}

fn compiled(report: &Report<'_>, node: &Node, patterns: &GrokPatterns) -> Option<CapturePattern> {
    let text = section::text_of(report, node, "the pattern")?;
    match patterns.compile(text) {
        Ok(pattern) if pattern.names().next().is_none() => {
            let help = "name what is to be found: `%{IP:client}`";
            report.error(node.span, "the pattern captures nothing by name", help);
            None
        }
        Ok(pattern) => Some(pattern),
        Err(error) => {
            tell(report, node, text, &error, patterns);
            None
        }
    }
}

fn tell(report: &Report<'_>, node: &Node, text: &str, error: &GrokError, patterns: &GrokPatterns) {
    let (found, help) = match error {
        GrokError::UnknownName(name) => {
            let nearest = suggest::nearest(&name.to_ascii_uppercase(), patterns.names());
            let help = nearest.map_or_else(
                || "the page of `grok` lists the patterns; your own stand in `patterns`".to_owned(),
                |nearest| format!("did you mean `{nearest}`?"),
            );
            (Some(format!("%{{{name}")), help)
        }
        GrokError::Malformed(found) => {
            (Some(format!("%{{{found}")), "write `%{IP:client}`, or `%{NUMBER:bytes:int}`".to_owned())
        }
        GrokError::CaptureName(name) if name.starts_with('[') => {
            let plain = name.trim_matches(['[', ']']).replace("][", ".");
            (Some(name.clone()), format!("write `{plain}`; `structured` makes objects in objects of it"))
        }
        GrokError::CaptureName(name) => {
            (Some(format!(":{name}")), "write letters, digits, `_`, `-`, `.` and `@`".to_owned())
        }
        GrokError::UnknownType(name) => {
            let types = GrokPatterns::TYPES;
            let help = suggest::help(name, "the types are", types).unwrap_or_default();
            (Some(format!(":{name}}}")), help)
        }
        GrokError::Circular(name) => {
            (Some(format!("%{{{name}")), "a pattern has others in it, but never itself".to_owned())
        }
        GrokError::TooLong => (None, "name fewer patterns".to_owned()),
        GrokError::Pattern(_) => {
            (None, "the syntax is that of the `regex` crate, which can't look ahead or back".to_owned())
        }
    };
    // What is wrong may stand in a pattern that this one names.
    let at = found.and_then(|found| text.find(&found)).map(|at| text[..at].chars().count());
    let place = at.map_or(node.span, |at| report.character_in(node, text, at));
    report.error(place, error.to_string(), help);
}
