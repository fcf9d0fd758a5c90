//! Tables whose cells stand between bars, as `psql`, `mysql`, boxes of SQLite and Markdown draw them.

use std::ops::Range;

use super::{COLUMN_LIMIT, Line, layout::expanded};

/// Where the bars of a table stand, as a line that is drawn across it says: `+----+----+`, `----+----`, `|---|---|`.
pub(super) struct Frame {
    /// Where the line has a bar or a crossing.
    bars: Vec<usize>,
    /// Whether the first of them is the edge of the table.
    has_left: bool,
    /// Whether the last of them is.
    has_right: bool,
    /// Where the line ends.
    end: usize,
    /// Whether it is drawn with bars, as in Markdown: there a bar in a cell has `\` before it.
    is_markdown: bool,
}

/// The cells of a line between bars.
#[derive(Default)]
pub(super) struct Cells {
    /// Their texts, without the white space around them.
    pub(super) texts: Vec<String>,
    /// The same of those that go on in the next line, without the mark that says so.
    goes_on: Vec<Option<String>>,
}

impl Frame {
    /// What a line tells that is drawn across a table; `None` of any other line.
    pub(super) fn of(line: &str) -> Option<Self> {
        let begins = line.trim_start().starts_with(|c| is_dash(c) || is_crossing(c));
        let line = if begins { expanded(line) } else { return None };
        let start = line.iter().position(|c| !c.is_whitespace())?;
        let bars: Vec<usize> = (start..line.len()).filter(|&at| is_crossing(line[at])).collect();
        let is_drawn = line[start..].iter().all(|&c| is_dash(c) || is_crossing(c) || c.is_whitespace());
        let has_dashes = |part: Range<usize>| line[part].iter().any(|&c| is_dash(c) && c != ':');
        let has_cells = bars.windows(2).all(|pair| has_dashes(pair[0] + 1..pair[1]));
        let (first, last) = (*bars.first()?, *bars.last()?);
        let (has_left, has_right) = (first == start, last + 1 == line.len());
        let has_ends =
            (has_left || has_dashes(start..first)) && (has_right || has_dashes(last + 1..line.len()));
        let is_markdown = line[first] == '|';
        // Only Markdown has blanks and colons in such a line.
        let is_plain = is_markdown || line[start..].iter().all(|&c| c != ':' && !c.is_whitespace());
        let frame = Self { has_left, has_right, end: line.len(), is_markdown, bars };
        let is_frame = is_drawn && has_cells && has_ends && is_plain && frame.width() > 0;
        (is_frame && frame.width() <= COLUMN_LIMIT).then_some(frame)
    }

    /// The frame of the table in these lines, the line of its header, and where its rows begin; `None` where none is
    /// drawn. What is above the header is no part of it: titles.
    pub(super) fn around(lines: &[Line<'_>]) -> Option<(Self, usize, usize)> {
        let (at, frame) = lines.iter().enumerate().find_map(|(at, line)| Some((at, Self::of(line.text)?)))?;
        let fits = |at: usize| {
            let cells = lines.get(at).and_then(|line| frame.cells(line.text));
            cells.is_some_and(|cells| cells.texts.len() == frame.width())
        };
        let is_drawn = |at: usize| {
            lines
                .get(at)
                .and_then(|line| Self::of(line.text))
                .is_some_and(|below| below.width() == frame.width())
        };
        // The edge above the header, or the line between the header and the rows.
        if fits(at + 1) && is_drawn(at + 2) {
            return Some((frame, at + 1, at + 3));
        }
        let above = at.checked_sub(1).filter(|&above| fits(above))?;
        Some((frame, above, at + 1))
    }

    /// How many columns there are.
    pub(super) fn width(&self) -> usize {
        (self.bars.len() + 1).saturating_sub(usize::from(self.has_left) + usize::from(self.has_right))
    }

    /// The cells of a line; `None` of one without bars.
    ///
    /// They are cut where the frame has its bars, so that others may stand in a cell; and at its own bars where these
    /// stand elsewhere: in Markdown that nobody aligned, and beside characters that are two columns wide.
    pub(super) fn cells(&self, line: &str) -> Option<Cells> {
        let row = expanded(line);
        if !row.iter().any(|&c| is_bar(c)) {
            return None;
        }
        let is_aligned = self.bars.iter().all(|&at| row.get(at).copied().is_some_and(is_bar))
            && !(self.has_right && row.len() > self.end);
        let mut bars = if is_aligned { self.bars.clone() } else { self.bars_of(&row) };
        let is_first = |at: usize| row[..at].iter().all(|c| c.is_whitespace());
        let from = match bars.first() {
            Some(&at) if self.has_left && is_first(at) => bars.remove(0) + 1,
            _ => 0,
        };
        let to = match bars.last() {
            Some(&at) if self.has_right && at + 1 == row.len() => {
                bars.pop();
                at
            }
            _ => row.len().max(from),
        };
        let mut cells = Cells::default();
        let mut start = from;
        for end in bars.into_iter().chain([to]) {
            let cell = &row[start..end.max(start)];
            let is_full = is_aligned && (end < row.len() || row.len() == self.end);
            cells.texts.push(self.text(cell));
            cells.goes_on.push(cell.split_last().and_then(|(mark, rest)| {
                let goes_on = is_full && !self.is_markdown && matches!(mark, '+' | '↵');
                goes_on.then(|| self.text(rest))
            }));
            start = end + 1;
        }
        Some(cells)
    }

    /// Where a row has bars of its own.
    fn bars_of(&self, row: &[char]) -> Vec<usize> {
        let is_escaped = |at: usize| self.is_markdown && at > 0 && row[at - 1] == '\\';
        (0..row.len()).filter(|&at| is_bar(row[at]) && !is_escaped(at)).collect()
    }

    fn text(&self, cell: &[char]) -> String {
        let text: String = cell.iter().collect();
        let text = text.trim();
        if self.is_markdown { text.replace("\\|", "|") } else { text.to_owned() }
    }
}

impl Cells {
    /// Adds the next line to these cells, where some of them go on and it has nothing for the others; gives it back
    /// where it is a row of its own.
    pub(super) fn take_in(&mut self, next: Self) -> Option<Self> {
        let belongs = self.goes_on.iter().any(Option::is_some)
            && self.texts.len() == next.texts.len()
            && next.texts.iter().zip(&self.goes_on).all(|(text, begun)| begun.is_some() || text.is_empty());
        if !belongs {
            return Some(next);
        }
        let more = next.texts.into_iter().zip(next.goes_on);
        for ((text, goes_on), (added, added_goes_on)) in
            self.texts.iter_mut().zip(&mut self.goes_on).zip(more)
        {
            let Some(begun) = goes_on.take() else { continue };
            *text = format!("{begun}\n{added}");
            *goes_on = added_goes_on.map(|added| format!("{begun}\n{added}"));
        }
        None
    }
}

/// Whether a line ends a table by saying how many rows it has: `(3 rows)`, `3 rows in set (0.00 sec)`.
pub(super) fn is_count(line: &str) -> bool {
    let line = line.trim();
    let inside = line.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let counted = inside.unwrap_or(line).trim_start_matches(|c: char| c.is_ascii_digit());
    let has_digits = counted.len() < inside.unwrap_or(line).len();
    has_digits
        && match inside {
            Some(_) => counted.starts_with(' ') && counted.trim().chars().all(char::is_alphabetic),
            None => counted.starts_with(" row in set") || counted.starts_with(" rows in set"),
        }
}

/// Whether a character draws a line across a table; a colon says in Markdown to which side cells are set.
fn is_dash(c: char) -> bool {
    matches!(c, '-' | '=' | ':' | '─' | '━' | '═' | '╌' | '╍' | '┄' | '┅' | '┈' | '┉')
}

/// Whether a character stands where such a line meets a bar.
fn is_crossing(c: char) -> bool {
    matches!(c, '+' | '|') || ('\u{2500}'..='\u{257f}').contains(&c) && !is_dash(c)
}

/// Whether a character stands between the cells of a row.
fn is_bar(c: char) -> bool {
    matches!(c, '|' | '│' | '┃' | '║' | '┆' | '┇' | '┊' | '┋' | '╎' | '╏')
}
