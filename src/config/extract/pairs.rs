//! `pairs` as the file has it.

use super::{Form, open, records};
use crate::{
    config::{
        keys::PAIRS,
        language,
        node::Kind,
        section::{self, Section},
    },
    translate::{
        Pattern,
        extract::{ExtractorKind, Indented, Pairs},
    },
};

pub(super) const FORM: Form = Form {
    name: "pairs",
    needs: None,
    read: |value| {
        if matches!(value.node.kind, Kind::Nothing) {
            return Some(ExtractorKind::Pairs(Pairs::default()));
        }
        let section = &open(value, &PAIRS)?;
        let before = section.report.errors();
        let separators =
            words(section, "separator", "write what stands between key and value: `separator: \"=\"`");
        let pattern = pattern(section);
        let comments = words(section, "comment", "write what such lines begin with: `comment: \"#\"`");
        let unquote = section.flag("unquote").unwrap_or(false);
        let section_end = section
            .get("section_end")
            .and_then(|node| language::pattern(section.report, node, "`section_end`"));
        let (indented, sections, records) = (indented(section), sections(section), records::read(section));
        if pattern.is_some() {
            section.refuse_beside(&["separator"], "pattern");
            if indented == Indented::Nested {
                section.refuse_beside(&["indented"], "pattern");
            }
        }
        if let Some(entry) = section.entry("section_end").filter(|_| section.get("sections").is_none()) {
            let help = "write how a section begins: `sections: '^BEGIN:(?<name>.+)'`";
            section.report.error(entry.key.span, "`section_end` has no effect without `sections`", help);
        }
        if section.report.errors() > before {
            return None;
        }
        let records = records?;
        Some(ExtractorKind::Pairs(Pairs {
            pattern,
            separators: separators.unwrap_or_else(|| vec![Pairs::DEFAULT_SEPARATOR.to_owned()]),
            comments: comments.unwrap_or_default(),
            unquote,
            indented,
            sections,
            section_end,
            blocks: records.blocks,
            allow_empty: records.allow_empty,
        }))
    },
};

/// One text or several, none of them empty.
fn words(section: &Section<'_, '_>, name: &'static str, help: &str) -> Option<Vec<String>> {
    let node = section.get(name)?;
    let items = records::one_or_more(node);
    let mut words = Vec::new();
    for item in items {
        match section::text_of(section.report, item, &format!("`{name}`"))? {
            "" => section.report.error(item.span, format!("`{name}` is empty"), help.to_owned()),
            text => words.push(text.to_owned()),
        }
    }
    if items.is_empty() {
        section.report.error(node.span, format!("`{name}` is empty"), help.to_owned());
    }
    (!words.is_empty()).then_some(words)
}

/// A pattern with the names `key` and `value`.
fn pattern(section: &Section<'_, '_>) -> Option<Pattern> {
    let node = section.get("pattern")?;
    let pattern = language::pattern(section.report, node, "`pattern`")?;
    let mut names = pattern.names().to_vec();
    names.sort_unstable();
    if names != ["key", "value"] {
        let found = if names.is_empty() { "none".to_owned() } else { format!("`{}`", names.join("`, `")) };
        let message = format!("`pattern` of `pairs` captures `key` and `value`, found {found}");
        section.report.error(node.span, message, "write `pattern: '(?<key>\\w+)=(?<value>\\S*)'`");
        return None;
    }
    Some(pattern)
}

fn indented(section: &Section<'_, '_>) -> Indented {
    match section.word("indented") {
        Some("nested") => Indented::Nested,
        Some("lines") => Indented::Lines,
        Some("words") => Indented::Words,
        Some("fold") => Indented::Fold,
        _ => Indented::Same,
    }
}

/// `true` is a name in brackets; else a pattern with one name.
fn sections(section: &Section<'_, '_>) -> Option<Pattern> {
    let node = section.get("sections")?;
    if let Kind::Flag(flag) = node.kind {
        return flag.then(|| Pattern::compile(Pairs::BRACKETS).expect("the pattern is ours"));
    }
    let pattern = language::pattern(section.report, node, "`sections`")?;
    if pattern.names().len() != 1 {
        let message = format!("`sections` captures one name, found {}", pattern.names().len());
        section.report.error(node.span, message, "write `sections: '^# (?<name>.+)'`");
        return None;
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_pattern_compiles() {
        assert_eq!(Pattern::compile(Pairs::BRACKETS).unwrap().names(), ["name"]);
    }
}
