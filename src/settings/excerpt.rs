//! Excerpt of a line for a problem, with carets below it, and text made safe for a terminal.

use unicode_width::UnicodeWidthChar;

use super::{
    credential_forms::{replaced, tokens_in},
    source_text::{Files, SourceSpan},
};

/// Text shown in place of a secret.
const MASK: &str = "*****";

/// Line of a problem, with terminal control characters escaped, and the position of the carets below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    pub(super) caret_cell: usize,
    pub(super) caret_width: usize,
}

impl Excerpt {
    /// Maximum width of an excerpt in cells; longer lines are truncated around the caret.
    const MAX_CELLS: usize = 160;
    /// Number of cells before the caret in a truncated line.
    const CELLS_BEFORE: usize = 60;

    pub(super) fn new(files: &Files, span: SourceSpan) -> Self {
        let line = files.line(span);
        let (text, masked) = (files.text(span), files.masked(span, line.clone()));
        let [start, end] = [span.start, span.end].map(|offset| offset.clamp(line.start, line.end));
        // Characters as displayed, with their widths in terminal cells; number of cells before the span and
        // within it.
        let (mut characters, mut caret, mut width) = (Vec::new(), 0, 0);
        for (at, character) in text[line.clone()].char_indices().map(|(at, c)| (at + line.start, c)) {
            let (shown, cells) = match masked.iter().find(|range| range.contains(&at)) {
                // The whole secret has one mask, so that its length is not visible.
                Some(range) if at > range.start.max(line.start) => continue,
                Some(_) => (MASK.to_owned(), MASK.len()),
                None => escape_with_width(character),
            };
            caret += if at < start { cells } else { 0 };
            width += if (start..end).contains(&at) { cells } else { 0 };
            characters.push((shown, cells));
        }
        let total: usize = characters.iter().map(|(_, cells)| cells).sum();
        let cut = if total > Self::MAX_CELLS { caret.saturating_sub(Self::CELLS_BEFORE) } else { 0 };
        let (mut excerpt, mut cell) = (if cut > 0 { "…".to_owned() } else { String::new() }, 0);
        for (shown, cells) in &characters {
            if (cut..cut + Self::MAX_CELLS).contains(&cell) {
                excerpt.push_str(shown);
            }
            cell += cells;
        }
        if cut + Self::MAX_CELLS < total {
            excerpt.push('…');
        }
        let most = Self::MAX_CELLS.saturating_sub(caret - cut).max(1);
        Self {
            text: excerpt.trim_end().to_owned(),
            caret_cell: caret - cut + usize::from(cut > 0),
            caret_width: width.clamp(1, most),
        }
    }
}

/// Escapes a character for a terminal; returns the text and its width in cells.
fn escape_with_width(character: char) -> (String, usize) {
    let shown = if character == '\t' { "    ".to_owned() } else { escaped(character) };
    let cells = shown.chars().filter_map(UnicodeWidthChar::width).sum();
    (shown, cells)
}

/// Escapes a control character, or a character that changes the direction of the text after it.
fn escaped(character: char) -> String {
    let is_escaped = character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{2028}' | '\u{2029}' | '\u{feff}');
    if is_escaped { character.escape_unicode().to_string() } else { character.to_string() }
}

/// Formats a message for a terminal: masks tokens, because the message may quote a value of the file, escapes
/// control characters, and replaces line breaks and tabs with spaces.
pub(super) fn shown_text(message: &str) -> String {
    let masked = replaced(message, &tokens_in(message), MASK);
    masked.replace(['\n', '\r', '\t'], " ").chars().map(escaped).collect()
}
