//! Tests of the page with every key in one file, `full-file.md`: each key has its description above its first
//! occurrence.

use super::reference::all_sections;
use super::*;
use crate::settings::{KeySpec, KeyTable, Node, ValueKind};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/book/reference/full-file.md");

const INTRODUCTION: &str = "\
# Every key in one file

This file has every key of every section, and `glossator check` accepts it with the variables that it names. A
comment describes each key where it occurs first, with its default and its range. The values are examples, not
defaults. To find the page of a key, use the [index of keys](keys.md). This page is generated.
";

/// The longest line of a comment.
const WIDTH: usize = 110;

/// Key of a section, and its position in the text.
struct PositionedKey {
    at: usize,
    section: &'static KeyTable,
    key: &'static KeySpec,
}

/// Finds the keys below a value. User-defined names, such as those of routes, are no keys.
fn find_keys(kind: ValueKind, node: &Node, found: &mut Vec<PositionedKey>) {
    match kind {
        ValueKind::Section(section) => {
            let section = section();
            for entry in node.as_map().unwrap_or_default() {
                let Some(key) = section.get(&entry.key.text) else { continue };
                found.push(PositionedKey { at: entry.key.span.start, section, key });
                find_keys(key.kind, &entry.value, found);
            }
        }
        ValueKind::Map(inner) => {
            node.as_map().unwrap_or_default().iter().for_each(|entry| find_keys(*inner, &entry.value, found));
        }
        ValueKind::List(inner) => {
            node.as_list().unwrap_or_default().iter().for_each(|item| find_keys(*inner, item, found));
        }
        ValueKind::OneOrMore(inner) => {
            node.one_or_more().iter().for_each(|item| find_keys(*inner, item, found))
        }
        ValueKind::Either(kinds) => {
            if let Some(kind) = kinds.iter().find(|kind| fits(**kind, node)) {
                find_keys(*kind, node, found);
            }
        }
        _ => {}
    }
}

/// Whether a value may be of this kind, as far as its keys show it.
fn fits(kind: ValueKind, node: &Node) -> bool {
    match kind {
        ValueKind::Section(section) => {
            node.as_map().is_some_and(|map| map.iter().all(|entry| section().get(&entry.key.text).is_some()))
        }
        ValueKind::Map(inner) => node
            .as_map()
            .is_some_and(|map| map.iter().all(|entry| is_plain(*inner) || fits(*inner, &entry.value))),
        ValueKind::List(inner) => node
            .as_list()
            .is_some_and(|items| items.iter().all(|item| is_plain(*inner) || fits(*inner, item))),
        ValueKind::OneOrMore(inner) => node.one_or_more().iter().all(|item| fits(*inner, item)),
        ValueKind::Either(kinds) => kinds.iter().any(|kind| fits(*kind, node)),
        kind => is_plain(kind) && node.as_map().is_none() && node.as_list().is_none(),
    }
}

/// Whether it has no keys below it.
fn is_plain(kind: ValueKind) -> bool {
    !matches!(
        kind,
        ValueKind::Section(_)
            | ValueKind::Map(_)
            | ValueKind::List(_)
            | ValueKind::OneOrMore(_)
            | ValueKind::Either(_)
    )
}

/// The description of a key with its default and its range.
fn description(key: &KeySpec) -> String {
    let description = key.full_description().replace('`', "");
    match key.kind {
        ValueKind::Count(min, max) if min == max => description,
        ValueKind::Duration(..)
        | ValueKind::Size(..)
        | ValueKind::Count(..)
        | ValueKind::Fraction
        | ValueKind::Enum(_)
        | ValueKind::Boolean => {
            format!("{description} ({})", key.kind.to_string().replace('`', ""))
        }
        _ => description,
    }
}

/// A comment in lines of the usual length, after an indent.
fn comment(indent: &str, text: &str, lines: &mut String) {
    let mut line = format!("{indent}#");
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = format!("{indent}#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
}

/// The full file with its comments, and the keys that it does not show in every section.
fn annotated() -> (String, Vec<String>) {
    let (root, _) = crate::settings::problem_collector::reading(FULL, |report| file::read(report, 0));
    let sections = all_sections();
    let mut found = Vec::new();
    let top: ValueKind = ValueKind::Section(|| all_sections()[0]);
    find_keys(top, &root.unwrap(), &mut found);
    found.sort_by_key(|key| key.at);
    let mut described = BTreeSet::new();
    found.retain(|key| described.insert((key.section.id, key.key.name)));
    let mut found = found.into_iter().peekable();
    let mut file = String::new();
    let mut start = 0;
    // Its first line is for readers of the test.
    for line in FULL.split_inclusive('\n') {
        let end = start + line.len();
        let indent = &line[..line.len() - line.trim_start().len()];
        while let Some(key) = found.next_if(|key| key.at < end) {
            let before = FULL[start..key.at].trim_start();
            let text = description(key.key);
            let is_own_line = before.trim_start_matches("- ").is_empty();
            let text = if is_own_line { text } else { format!("- {}: {text}", key.key.name) };
            comment(indent, &text, &mut file);
        }
        if start > 0 {
            file.push_str(line);
        }
        start = end;
    }
    let keys = sections.iter().flat_map(|section| section.keys().map(move |key| (section.id, key.name)));
    let missing = keys.filter(|key| !described.contains(key));
    (file, missing.map(|(section, key)| format!("{section}.{key}")).collect())
}

#[test]
fn the_page_of_the_full_file_has_every_key_with_its_description() {
    let (file, missing) = annotated();
    assert!(missing.is_empty(), "tests/full.yaml does not show {missing:?}");
    let expected = format!("{INTRODUCTION}\n```yaml\n{file}```\n");
    #[expect(clippy::disallowed_methods, reason = "an environment variable that is a switch of the tests")]
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(PAGE, &expected).unwrap();
    }
    let actual = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(actual == expected, "{PAGE} is behind the keys: run with UPDATE_GOLDEN=1");
}

#[test]
fn the_full_file_with_its_comments_loads() {
    let (file, _) = annotated();
    let loaded = loaded(&file);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(tree(&file), tree(FULL));
}
