//! Records: what several extractors share that read one text or many records in it.

use std::borrow::Cow;

use serde_json::{Map, Value, map::Entry};

use super::RECORD_LIMIT;
use crate::translate::{matcher::Pattern, why::Why};

/// How a text is cut into blocks of lines.
///
/// A block has at least one line. Blank lines stand between blocks where nothing else is said.
#[derive(Debug, Default)]
pub struct Blocks {
    /// What stands between two blocks, wherever in a line; not empty. There are no patterns beside it.
    pub delimiter: Option<String>,
    /// A line that matches stands between two blocks and belongs to none.
    pub separator: Option<Pattern>,
    /// A line that matches is the first of a block; lines that belong to no block begun so are passed over.
    pub start: Option<Pattern>,
}

/// One block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block<'t> {
    /// The line of the text that it begins in, from 1.
    pub(super) line: usize,
    /// Its lines.
    pub(super) text: &'t str,
}

impl Blocks {
    /// The blocks of a text, in order.
    pub(super) fn of<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Block<'t>> {
        let (cut, lines) = match &self.delimiter {
            Some(delimiter) => (Some(cut(text, delimiter)), None),
            None => (None, Some(self.of_lines(text))),
        };
        cut.into_iter().flatten().chain(lines.into_iter().flatten())
    }

    fn of_lines<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Block<'t>> {
        let mut lines = text.split_inclusive('\n').enumerate().peekable();
        let mut position = 0;
        std::iter::from_fn(move || {
            // The block as far as it is known: its first line, where it begins and where it ends.
            let mut open: Option<(usize, usize, usize)> = None;
            while let Some((index, line)) = lines.peek() {
                let (index, bare) = (*index, line.trim_end_matches(['\n', '\r']));
                let end = position + line.len();
                let starts = self.start.as_ref().is_some_and(|start| start.regex().is_match(bare));
                if starts && open.is_some() {
                    break;
                }
                lines.next();
                let begin = position;
                position = end;
                if self.separates(bare) && !starts {
                    if open.is_some() {
                        break;
                    }
                    continue;
                }
                match &mut open {
                    Some((_, _, last)) => *last = end,
                    None if starts || self.start.is_none() => open = Some((index + 1, begin, end)),
                    None => {}
                }
            }
            open.map(|(line, begin, end)| Block { line, text: &text[begin..end] })
        })
    }

    fn separates(&self, line: &str) -> bool {
        match &self.separator {
            Some(separator) => separator.regex().is_match(line),
            None => self.start.is_none() && line.trim().is_empty(),
        }
    }
}

/// The parts of a text between what stands between them, without line breaks round them; blank ones are left out.
fn cut<'t>(text: &'t str, delimiter: &'t str) -> impl Iterator<Item = Block<'t>> {
    let mut line = 1;
    text.split(delimiter).filter_map(move |part| {
        let bare = part.trim_start_matches(['\r', '\n']);
        let before = part[..part.len() - bare.len()].matches('\n').count();
        let block = Block { line: line + before, text: bare.trim_end_matches(['\r', '\n']) };
        line += part.matches('\n').count();
        (!block.text.trim().is_empty()).then_some(block)
    })
}

/// The text with `\n` at the end of every line: old servers end theirs with CRLF, and `$` in a pattern does not
/// match before a CR.
pub(super) fn with_plain_line_ends(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

/// Records in a list of at most [`RECORD_LIMIT`]. `what` are they, in the plural.
pub(super) fn gather(found: impl Iterator<Item = Result<Value, Why>>, what: &str) -> Result<Vec<Value>, Why> {
    let records = found.take(RECORD_LIMIT + 1).collect::<Result<Vec<_>, _>>()?;
    if records.len() > RECORD_LIMIT {
        return Err(Why::plainly(format!("expected at most {RECORD_LIMIT} {what}, found more")));
    }
    Ok(records)
}

/// Adds a value under its name; a name that comes again gets a list of its values, in order. Values are no lists
/// themselves.
pub(super) fn add(members: &mut Map<String, Value>, name: impl Into<String>, value: Value) {
    match members.entry(name) {
        Entry::Vacant(entry) => {
            entry.insert(value);
        }
        Entry::Occupied(mut entry) => match entry.get_mut() {
            Value::Array(values) => values.push(value),
            first => {
                let both = vec![first.take(), value];
                *first = Value::Array(both);
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(separator: Option<&str>, start: Option<&str>, text: &str, expected: &[(usize, &str)]) {
        let compiled = |source| Pattern::compile(source).unwrap();
        let blocks =
            Blocks { delimiter: None, separator: separator.map(compiled), start: start.map(compiled) };
        let found: Vec<_> = blocks.of(text).map(|block| (block.line, block.text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn blank_lines_stand_between_blocks() {
        check(None, None, "a\nb\n\nc", &[(1, "a\nb\n"), (4, "c")]);
        check(None, None, "\n \t\r\na\r\n\r\n\n\nb\n\n", &[(3, "a\r\n"), (7, "b\n")]);
        check(None, None, "", &[]);
        check(None, None, "\n\n \n", &[]);
    }

    #[test]
    fn a_line_that_matches_separates() {
        check(Some("^-+$"), None, "a\n\nb\n---\nc\n---\n---\n", &[(1, "a\n\nb\n"), (5, "c\n")]);
        check(Some("^-+$"), None, "a\r\n---\r\nb", &[(1, "a\r\n"), (3, "b")]);
    }

    #[test]
    fn a_line_that_matches_starts_a_block_and_what_is_before_belongs_to_none() {
        check(
            None,
            Some(r"^\d+: "),
            "head\n1: a\n x\n\n y\n2: b\n",
            &[(2, "1: a\n x\n\n y\n"), (6, "2: b\n")],
        );
        check(Some("^$"), Some("^#"), "#1\na\n\nfoot\n#2", &[(1, "#1\na\n"), (5, "#2")]);
        check(Some("^#"), Some("^#"), "#1\n#2\n", &[(1, "#1\n"), (2, "#2\n")]);
    }

    #[test]
    fn a_text_between_blocks_may_stand_anywhere() {
        let blocks = Blocks { delimiter: Some("\x1e".into()), ..Blocks::default() };
        let found: Vec<_> = blocks.of("a\nb\x1ec\n\n d\x1e\r\ne\r\n\x1e \x1e").collect();
        let expected = [(1, "a\nb"), (2, "c\n\n d"), (5, "e")];
        assert_eq!(found, expected.map(|(line, text)| Block { line, text }));
    }

    #[test]
    fn many_lines_and_long_ones_take_linear_time() {
        let many = "\n".repeat(1 << 20) + "a";
        check(None, None, &many, &[((1 << 20) + 1, "a")]);
        let long = "a".repeat(8 << 20);
        check(Some("^-$"), None, &long, &[(1, &long)]);
    }
}
