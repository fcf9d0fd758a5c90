//! Moves one key of a text into another section, with its lines and the comment above it.

use std::ops::Range;

use super::walk::Move;
use crate::settings::SourceSpan;
use crate::settings::source::line_start;

/// Indentation of the keys in a new section, in spaces.
const INDENT: usize = 2;

/// Moves a key. `None` if its lines, or its part between two commas, contain anything else.
pub(super) fn apply(text: &str, key: SourceSpan, action: &Move) -> Option<String> {
    let is_flow = text[action.section.start..].starts_with('{');
    if is_flow { move_in_flow_map(text, key, action) } else { move_in_block_map(text, key, action) }
}

/// Moves a key in flow style: `{ name: x, title: y }`.
fn move_in_flow_map(text: &str, key: SourceSpan, action: &Move) -> Option<String> {
    let close = closing_brace(text, action.section)?;
    let next = action.keys.iter().map(|own| own.start).filter(|start| *start > key.start).min();
    let written = text[key.start..next.unwrap_or(close)].trim_end().trim_end_matches(',').trim_end();
    if written.contains('#') {
        return None;
    }
    let member = format!("{}{}", action.leaf, &written[key.end - key.start..]);
    let own = key.start..key.start + written.len();
    let Some((target, inside)) = &action.target else {
        return Some(with_edits(text, vec![(own, format!("{}: {{ {member} }}", action.parent))]));
    };
    // Includes the comma after it, or before it.
    let removed = match next {
        Some(next) => key.start..next,
        None => text[..key.start].trim_end().strip_suffix(',').map_or(key.start, str::len)..own.end,
    };
    Some(with_edits(text, vec![(removed, String::new()), add_to_flow_map(text, *target, inside, &member)?]))
}

/// Adds a member to a flow map.
fn add_to_flow_map(
    text: &str,
    target: SourceSpan,
    inside: &[SourceSpan],
    member: &str,
) -> Option<(Range<usize>, String)> {
    let close = closing_brace(text, target)?;
    let at = text[..close].trim_end().len();
    let before = if inside.is_empty() { " " } else { ", " };
    let after = if at == close { " " } else { "" };
    Some((at..at, format!("{before}{member}{after}")))
}

fn closing_brace(text: &str, map: SourceSpan) -> Option<usize> {
    map.end.checked_sub(1).filter(|close| text[*close..].starts_with('}'))
}

/// Moves a key in block style.
fn move_in_block_map(text: &str, key: SourceSpan, action: &Move) -> Option<String> {
    let column = column(text, key)?;
    let own = lines_of(text, key, column);
    let written = &text[own.clone()];
    let line_end = if written.contains("\r\n") { "\r\n" } else { "\n" };
    let at_key = line_start(&text[..key.start]) - own.start + column;
    let member = format!("{}{}{}", &written[..at_key], action.leaf, &written[at_key + key.end - key.start..]);
    let member = if member.ends_with('\n') { member } else { member + line_end };
    let Some((target, inside)) = &action.target else {
        let head = format!("{}{}:{line_end}", " ".repeat(column), action.parent);
        return Some(with_edits(text, vec![(own, head + &indented(&member, 0, INDENT))]));
    };
    if text[target.start..].starts_with('{') {
        let one = member.trim();
        if one.contains(['\n', '#', '|', '>']) {
            return None;
        }
        let added = add_to_flow_map(text, *target, inside, one)?;
        return Some(with_edits(text, vec![(own, String::new()), added]));
    }
    let last = inside.iter().max_by_key(|key| key.start)?;
    let inner = self::column(text, *last)?;
    let end = lines_of(text, *last, inner).end;
    let line = if text[..end].ends_with('\n') { "" } else { line_end };
    let member = indented(&member, column, inner);
    Some(with_edits(text, vec![(own, String::new()), (end..end, format!("{line}{member}"))]))
}

/// Column of a key that is the first of its line.
fn column(text: &str, key: SourceSpan) -> Option<usize> {
    let before = &text[line_start(&text[..key.start])..key.start];
    before.bytes().all(|byte| byte == b' ').then_some(before.len())
}

/// Lines of a key and its value, with the comments directly above it.
fn lines_of(text: &str, key: SourceSpan, column: usize) -> Range<usize> {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let begin = line_start(&text[..key.start]);
    let is_comment = |line: &&str| indent(line) == column && line.trim_start().starts_with('#');
    let comments = text[..begin].split_inclusive('\n').rev().take_while(is_comment);
    let start = begin - comments.map(str::len).sum::<usize>();
    let (mut at, mut end) = (begin, begin);
    for line in text[begin..].split_inclusive('\n') {
        let words = line.trim();
        let is_item = words.starts_with("- ") || words == "-";
        let belongs = is_item || words.starts_with(['}', ']']);
        let is_inside = at == begin || indent(line) > column || indent(line) == column && belongs;
        if !words.is_empty() && !is_inside {
            break;
        }
        at += line.len();
        end = if words.is_empty() { end } else { at };
    }
    start..end
}

/// Shifts the indentation of lines from one column to another.
pub(super) fn indented(lines: &str, from: usize, to: usize) -> String {
    let shift = |line: &str| {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        let removed = from.saturating_sub(to).min(line.len() - line.trim_start_matches(' ').len());
        " ".repeat(to.saturating_sub(from)) + &line[removed..]
    };
    lines.split_inclusive('\n').map(shift).collect()
}

/// Replaces ranges of a text.
pub(in crate::config) fn with_edits(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut text = text.to_owned();
    for (range, words) in edits.into_iter().rev() {
        text.replace_range(range, &words);
    }
    text
}
