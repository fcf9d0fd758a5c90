//! Display of problems in a terminal: colours, and an excerpt of the line with carets below it.

use std::fmt;

use unicode_width::UnicodeWidthChar;

use super::{
    credential_forms::{replaced, tokens_in},
    problem::{Problem, Problems, Severity},
    source_text::{Files, SourceSpan},
};

/// `{}` is plain text; `{:#}` has terminal colours.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_coloured = formatter.alternate();
        let style = |text: String, code: &str| match is_coloured {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text,
        };
        let location = match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.file),
            _ => self.file.clone(),
        };
        let (severity, colour) = match self.severity {
            Severity::Error => ("error", RED),
            Severity::Warning => ("warning", YELLOW),
            Severity::Note => ("note", BLUE),
        };
        let label = style(format!("{severity}[{}]", self.code), colour);
        write!(formatter, "{}: {label}: {}", style(location, BOLD), self.message)?;
        let help = self.help.as_ref().map(|help| format!("{} {help}", style("help:".to_owned(), CYAN)));
        match (&self.excerpt, self.line) {
            (Some(excerpt), Some(line)) => {
                let number = line.to_string();
                let margin = " ".repeat(number.len());
                let indent = " ".repeat(excerpt.caret_cell);
                let carets = style("^".repeat(excerpt.caret_width), colour);
                write!(formatter, "\n{number} | {}\n{margin} | {indent}{carets}", excerpt.text)?;
                help.map_or(Ok(()), |help| write!(formatter, " {help}"))
            }
            _ => help.map_or(Ok(()), |help| write!(formatter, "\n  {help}")),
        }
    }
}

/// Colour codes (ECMA-48, "SGR").
const BOLD: &str = "1";
const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const BLUE: &str = "1;34";
const CYAN: &str = "36";

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.as_slice().iter().enumerate() {
            formatter.write_str(if index > 0 { "\n\n" } else { "" })?;
            problem.fmt(formatter)?;
        }
        Ok(())
    }
}

/// Text shown in place of a secret.
const MASK: &str = "*****";

/// Line of the file with a problem, with secrets masked and control characters escaped, and the position of
/// the carets below the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excerpt {
    text: String,
    caret_cell: usize,
    caret_width: usize,
}

impl Excerpt {
    /// Maximum width of an excerpt in cells; longer lines are truncated around the caret.
    const MAX_CELLS: usize = 160;
    /// Maximum number of cells before the caret in a truncated line.
    const CELLS_BEFORE: usize = 60;

    pub(super) fn new(files: &Files, span: SourceSpan) -> Self {
        let line = files.line(span);
        let (text, masked) = (files.text(span), files.masked(span, line.clone()));
        let [start, end] = [span.start, span.end].map(|offset| offset.clamp(line.start, line.end));
        // Characters as displayed, with their widths in terminal cells; number of cells before the span and
        // within it.
        let (mut characters, mut caret, mut width) = (Vec::new(), 0, 0);
        for (at, character) in text[line.clone()].char_indices().map(|(at, c)| (at + line.start, c)) {
            let (displayed, cells) = match masked.iter().find(|range| range.contains(&at)) {
                // The whole secret has one mask, so that its length is not visible.
                Some(range) if at > range.start.max(line.start) => continue,
                Some(_) => (MASK.to_owned(), MASK.len()),
                None => escape_with_width(character),
            };
            caret += if at < start { cells } else { 0 };
            width += if (start..end).contains(&at) { cells } else { 0 };
            characters.push((displayed, cells));
        }
        let total: usize = characters.iter().map(|(_, cells)| cells).sum();
        let min_cut = if total > Self::MAX_CELLS { caret.saturating_sub(Self::CELLS_BEFORE) } else { 0 };
        // Cut between characters: a character may be several cells wide.
        let mut cut = 0;
        for (_, cells) in &characters {
            cut += if cut < min_cut { *cells } else { 0 };
        }
        let (mut excerpt, mut cell) = (if cut > 0 { "…".to_owned() } else { String::new() }, 0);
        for (displayed, cells) in &characters {
            if (cut..cut + Self::MAX_CELLS).contains(&cell) {
                excerpt.push_str(displayed);
            }
            cell += cells;
        }
        if cut + Self::MAX_CELLS < total {
            excerpt.push('…');
        }
        let max_width = Self::MAX_CELLS.saturating_sub(caret - cut).max(1);
        Self {
            text: excerpt.trim_end().to_owned(),
            caret_cell: caret - cut + usize::from(cut > 0),
            caret_width: width.clamp(1, max_width),
        }
    }
}

/// Escapes a character for a terminal; returns the text and its width in cells.
fn escape_with_width(character: char) -> (String, usize) {
    let displayed = if character == '\t' { "    ".to_owned() } else { escaped(character) };
    let cells = displayed.chars().filter_map(UnicodeWidthChar::width).sum();
    (displayed, cells)
}

/// Escapes control characters, line separators, the byte order mark, and characters that change the direction
/// of the text after them.
fn escaped(character: char) -> String {
    let is_escaped = character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}');
    if is_escaped { character.escape_unicode().to_string() } else { character.to_string() }
}

/// Formats a message for a terminal: masks tokens, because the message may quote a value of the file, escapes
/// control characters, and replaces line breaks and tabs with spaces.
pub(super) fn escape_message(message: &str) -> String {
    let masked = replaced(message, &tokens_in(message), MASK);
    masked.replace(['\n', '\r', '\t'], " ").chars().map(escaped).collect()
}
