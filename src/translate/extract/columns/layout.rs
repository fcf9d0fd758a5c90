//! Cell layout of a text table: cells are below the names of a header, or between the bars of a [`Frame`].

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{COLUMN_LIMIT, LineBlock};
use crate::settings::fixed_regex;
use crate::translate::read_error::ReadError;

/// Distance of tab stops, in characters.
const TAB_STOP: usize = 8;

/// Expands the tabs of a line, and removes trailing white space.
pub(super) fn expand_tabs(line: &str) -> Vec<char> {
    let line = line.trim_end();
    let mut characters = Vec::with_capacity(line.len());
    for character in line.chars() {
        match character {
            '\t' => characters.resize(characters.len() + TAB_STOP - characters.len() % TAB_STOP, ' '),
            other => characters.push(other),
        }
    }
    characters
}

/// Ranges of the words of a line.
pub(super) fn words(line: &[char]) -> Vec<Range<usize>> {
    let runs = line.chunk_by(|left, right| left.is_whitespace() == right.is_whitespace());
    let ranges = runs.scan(0, |end, run| {
        *end += run.len();
        Some((run, *end - run.len()..*end))
    });
    ranges.filter(|(run, _)| !is_blank(run, 0)).map(|(_, range)| range).collect()
}

/// Whether a line is a horizontal rule: `-----`, `==== ====`, `---+---`, `├───┼───┤`.
pub(super) fn is_rule(line: &str) -> bool {
    Frame::parse(line).is_some()
        || line.chars().all(|c| matches!(c, '-' | '=' | '+' | '|') || c.is_whitespace())
            && (line.contains("---") || line.contains("==="))
}

/// Splits a line into cells before each position in `starts`.
pub(super) fn cut_at(line: &[char], starts: &[usize]) -> Vec<String> {
    let mut from = 0;
    let cells = starts.iter().copied().chain([line.len()]).map(|to| {
        let cell = &line[from..to.clamp(from, line.len())];
        from += cell.len();
        cell.iter().collect::<String>().trim().to_owned()
    });
    cells.collect()
}

/// Columns of a header line.
#[derive(Default)]
pub(super) struct HeaderLine {
    /// The names, in order.
    pub(super) names: Vec<String>,
    /// Positions of the names.
    spans: Vec<Range<usize>>,
    /// For each name, whether most rows have text below it.
    filled: Vec<bool>,
    /// Whether cells begin exactly at the positions of their names.
    is_fixed: bool,
    /// Whether `first_column` gives the name of the first column, because the header has none for it.
    first_is_given: bool,
    /// Whether the words of a row are its cells, regardless of their positions.
    has_word_cells: bool,
}

impl HeaderLine {
    /// Columns of a header that has a line of `---- -----` below it.
    pub(super) fn ruled(header: &[char], rule: &[char]) -> Self {
        let spans = words(rule);
        let starts: Vec<usize> = spans.iter().skip(1).map(|span| span.start).collect();
        Self { names: cut_at(header, &starts), spans, is_fixed: true, ..Self::default() }
    }

    /// Columns of a header, from its words and the rows below it.
    ///
    /// Words separated by several spaces are separate names. Words separated by one space are one name
    /// (`Mounted on`), with two exceptions: most rows have a separate cell below the second word, or
    /// `field_names` (the names that fields use) decide otherwise. If every row has as many words as the
    /// header, the words are the cells.
    pub(super) fn from_header<'t>(
        header: &[char],
        rows: impl Iterator<Item = &'t str> + Clone,
        first_column: Option<&str>,
        field_names: &[&str],
    ) -> Self {
        let words = words(header);
        let boundaries = boundaries(header, &words, field_names);
        let has_word_cells =
            !boundaries.contains(&None) && words_are_cells(&words, rows.clone(), first_column.is_some());
        let is_close = |&second: &usize| words[second].start - words[second - 1].end == 1;
        let close_words: Vec<usize> =
            (1..words.len()).filter(|index| !has_word_cells && is_close(index)).collect();
        // For each word, the number of rows with a separate cell below it, minus the number of other rows.
        let mut separate_counts = vec![0_i64; words.len()];
        let mut count = 0;
        if !close_words.is_empty() {
            for row in rows.clone() {
                let row = expand_tabs(row);
                count += 1;
                for &second in &close_words {
                    let is_separate = is_blank(&row, words[second - 1].end) && has_text(&row, &words[second]);
                    separate_counts[second] += if is_separate { 1 } else { -1 };
                }
            }
        }
        let mut spans: Vec<Range<usize>> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let is_joined = close_words.binary_search(&index).is_ok()
                && match boundaries[index] {
                    None => true,
                    Some(0) => separate_counts[index] <= 0,
                    // The field name may also be the first word of a longer name (`Mounted` for
                    // `Mounted on`).
                    Some(1) => separate_counts[index] == -count && count > 0,
                    Some(_) => false,
                };
            match spans.last_mut() {
                Some(last) if is_joined => last.end = word.end,
                _ => spans.push(word.clone()),
            }
        }
        let mut names: Vec<String> = spans.iter().map(|span| header[span.clone()].iter().collect()).collect();
        if let Some(first_column) = first_column {
            names.insert(0, first_column.to_owned());
            spans.insert(0, 0..0);
        }
        let filled = if has_word_cells { Vec::new() } else { filled_columns(&spans, rows) };
        Self { names, spans, filled, first_is_given: first_column.is_some(), has_word_cells, is_fixed: false }
    }

    /// The name that the header itself has for the first column, although `first_column` is set: a word at
    /// the beginning of the line.
    pub(super) fn first_named(&self) -> Option<&str> {
        let is_named = self.first_is_given
            && !self.has_word_cells
            && self.spans.get(1).is_some_and(|span| span.start == 0);
        self.names.get(1).filter(|_| is_named).map(String::as_str)
    }

    /// Checks that a row has no text before the first column.
    ///
    /// # Errors
    ///
    /// A message that quotes the text.
    pub(super) fn check_first_column(&self, row: &[char]) -> Result<(), ReadError> {
        let is_free = self.first_is_given || self.is_fixed || self.has_word_cells;
        let Some(first) = self.spans.first().filter(|_| !is_free) else { return Ok(()) };
        let text_before: String = row.get(..token_start(row, first.start)).unwrap_or(row).iter().collect();
        if text_before.trim().is_empty() {
            return Ok(());
        }
        let expected = "expected a name in the header for every cell, found ";
        let error = ReadError::with_quote(usize::MAX, expected, text_before.trim());
        Err(error.with_suffix(" before the first; `first_column` names it"))
    }

    /// Splits a row into its cells.
    ///
    /// # Errors
    ///
    /// A message, if the cells can't be separated: a cell runs into the next one, or words between two names
    /// may belong to either column.
    pub(super) fn cells(&self, row: &[char]) -> Result<Vec<String>, ReadError> {
        const EXPECTED: &str = "expected cells below the words of the header, found";
        const FIX: &str = "; `columns` or `widths` set where cells begin";
        if self.has_word_cells {
            return Ok(words(row).into_iter().map(|word| row[word].iter().collect()).collect());
        }
        let mut starts = Vec::with_capacity(self.spans.len());
        let mut previous_cut = 0;
        for (index, pair) in self.spans.windows(2).enumerate() {
            let (left, right) = (&pair[0], &pair[1]);
            let cut = if self.is_fixed { right.start } else { token_start(row, right.start) };
            let crosses_boundary = if self.is_fixed {
                !is_blank(row, cut - 1)
            } else if cut < right.start {
                // A right-aligned number begins before its name, but after the cell to its left.
                cut < previous_cut || cut == 0 || cut < left.end && !has_text(row, &(previous_cut..cut))
            } else {
                (left.end..right.start).all(|at| !is_blank(row, at))
                    && (left.end == 0 || !is_blank(row, left.end - 1))
                    && is_blank(row, right.start)
            };
            if crosses_boundary {
                return Err(read_error!("{EXPECTED} one that runs into the next{FIX}"));
            }
            let from = previous_cut.max(left.end);
            let stray_word = if self.is_fixed { None } else { word_between(row, from, cut, right.start) };
            if let Some(word) = stray_word.or_else(|| self.ambiguous_word(row, from, cut, index)) {
                return Err(ReadError::with_quotes(usize::MAX, |quoted| {
                    let (left, right) = (quoted(&self.names[index]), quoted(&self.names[index + 1]));
                    format!("{EXPECTED} {} between {left} and {right}{FIX}", quoted(&word))
                }));
            }
            starts.push(cut);
            previous_cut = cut;
        }
        Ok(cut_at(row, &starts))
    }

    /// Returns the last words before a cut if their column is unknown: they are between two names and below
    /// neither, and one of the two columns is empty in this row but filled in most rows (`n/a`, left-aligned
    /// among numbers).
    fn ambiguous_word(&self, row: &[char], from: usize, cut: usize, left_index: usize) -> Option<String> {
        let part = row.get(from..cut.min(row.len()))?;
        let end = from + part.iter().rposition(|c| !c.is_whitespace())? + 1;
        let gap = row[from..end].windows(2).rposition(|pair| pair.iter().all(|c| c.is_whitespace()));
        let start = match gap {
            Some(gap) => from + gap + 2,
            // Text that begins below the left name belongs to that column.
            None if !is_blank(row, from) => return None,
            None => from + 1,
        };
        let is_missed =
            |index: usize| self.filled.get(index) == Some(&true) && !has_text(row, &self.spans[index]);
        let is_nearer_to_right = self.spans[left_index + 1].start.saturating_sub(end)
            <= start - self.spans[left_index].end.min(start);
        (is_missed(left_index + 1) || is_missed(left_index) && is_nearer_to_right)
            .then(|| row[start..end].iter().collect())
    }
}

/// For each name, whether most rows have text below it.
fn filled_columns<'t>(spans: &[Range<usize>], rows: impl Iterator<Item = &'t str>) -> Vec<bool> {
    let (mut counts, mut row_count) = (vec![0_usize; spans.len()], 0_usize);
    for row in rows {
        let row = expand_tabs(row);
        row_count += 1;
        for (count, span) in counts.iter_mut().zip(spans) {
            *count += usize::from(has_text(&row, span));
        }
    }
    counts.into_iter().map(|count| count * 2 > row_count).collect()
}

/// For each word of a header, the number of field names that begin at the word or end before it. If the
/// number is 2, a column certainly begins at the word. `None` if the word and the previous one are in one
/// field name.
fn boundaries(header: &[char], words: &[Range<usize>], field_names: &[&str]) -> Vec<Option<usize>> {
    let mut names: Vec<Vec<char>> = field_names.iter().map(|name| name.chars().collect()).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable_by_key(|name| std::cmp::Reverse(name.len()));
    let mut boundaries = vec![Some(0); words.len() + 1];
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let fits = |name: &&Vec<char>| {
            header[word.start..].starts_with(name) && is_blank(header, word.start + name.len())
        };
        let name = names.iter().find(fits);
        boundaries[index] = boundaries[index].map(|count| count + usize::from(name.is_some()));
        index += 1;
        let Some(name) = name else { continue };
        while words.get(index).is_some_and(|next| next.start < word.start + name.len()) {
            boundaries[index] = None;
            index += 1;
        }
        boundaries[index] = Some(1);
    }
    boundaries
}

/// Whether every row has as many words as the header, so that the words are the cells.
///
/// Equal numbers may be a coincidence, if names and cells have several words each. They count as one if most
/// rows have either of two signs: more words are below a name than the name has (`RESTARTS`: `1 (3d ago)`),
/// or the row ends in two words one space apart, like words of one cell, and the last word is not below its
/// name (`Mounted on`: `/my disk`).
fn words_are_cells<'t>(
    header: &[Range<usize>],
    rows: impl Iterator<Item = &'t str>,
    first_is_given: bool,
) -> bool {
    let expected = header.len() + usize::from(first_is_given);
    let mut group_starts: Vec<usize> = (0..header.len())
        .filter(|&index| index == 0 || header[index].start - header[index - 1].end > 1)
        .collect();
    group_starts.push(header.len());
    let (mut count, mut counterexamples) = (0_usize, 0_usize);
    for row in rows {
        if row.split_whitespace().count() != expected {
            return false;
        }
        count += 1;
        let row = words(&expand_tabs(row));
        let mut at = 0;
        let is_crowded = group_starts.windows(2).any(|group| {
            let from = header[group[0]].start;
            let to = header.get(group[1]).map_or(usize::MAX, |next| next.start);
            at += row[at..].iter().take_while(|word| word.start < from).count();
            let inside_count = row[at..].iter().take_while(|word| word.end < to).count();
            at += inside_count;
            inside_count > group[1] - group[0]
        });
        let is_close = match (header, row.as_slice()) {
            ([.., left, right], [.., before, last]) => {
                let is_under = last.start < right.end && right.start < last.end;
                right.start - left.end == 1 && last.start - before.end == 1 && !is_under
            }
            _ => false,
        };
        counterexamples += usize::from(is_crowded || is_close);
    }
    count > 0 && counterexamples * 2 <= count
}

/// Returns the word before a cut, if the word is between two names, below neither, and one space before the
/// next cell. It belongs to a right-aligned cell of several words, or to a cell that extends past its name.
fn word_between(row: &[char], from: usize, cut: usize, name: usize) -> Option<String> {
    if cut >= name || cut < from + 2 || !is_blank(row, cut - 1) || is_blank(row, cut - 2) {
        return None;
    }
    let start = token_start(row, cut - 2);
    (start >= from).then(|| row[start..cut - 1].iter().collect())
}

/// Whether a row has text below a name.
fn has_text(row: &[char], name: &Range<usize>) -> bool {
    (name.start..name.end.min(row.len())).any(|at| !is_blank(row, at))
}

fn is_blank(line: &[char], at: usize) -> bool {
    line.get(at).is_none_or(|character| character.is_whitespace())
}

/// Start of the word at a position, or the position itself if it is blank.
fn token_start(line: &[char], at: usize) -> usize {
    if is_blank(line, at) {
        return at;
    }
    line[..at].iter().rposition(|character| character.is_whitespace()).map_or(0, |blank| blank + 1)
}

/// Positions of the vertical bars of a framed table, from the horizontal rule above or below its header:
/// `+----+----+`, `----+----`, `|---|---|`.
pub(super) struct Frame {
    /// Positions of the bars and crossings.
    bars: Vec<usize>,
    /// Whether the first bar is the left edge of the table.
    has_left: bool,
    /// Whether the last bar is the right edge.
    has_right: bool,
    /// Length of the rule, in characters.
    end: usize,
    /// Whether the table is a Markdown table, in which a bar inside a cell is escaped as `\|`.
    is_markdown: bool,
}

/// A cell between the bars of a line, as in `psql`, `mysql`, SQLite boxes and Markdown.
#[derive(derive_more::AsRef)]
pub(super) struct Cell {
    /// Text without surrounding white space.
    #[as_ref(str)]
    pub(super) text: String,
    /// Text without the continuation mark; `None` if the cell does not continue in the next line.
    continued: Option<String>,
}

impl Frame {
    /// Parses a horizontal rule of a table; `None` for any other line.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let is_candidate = line.trim_start().starts_with(|c| is_dash(c) || is_crossing(c));
        let line = if is_candidate { expand_tabs(line) } else { return None };
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
        // Only a Markdown rule has blanks and colons.
        let is_plain = is_markdown || line[start..].iter().all(|&c| c != ':' && !c.is_whitespace());
        let frame = Self { has_left, has_right, end: line.len(), is_markdown, bars };
        let is_frame = is_drawn && has_cells && has_ends && is_plain && frame.width() > 0;
        (is_frame && frame.width() <= COLUMN_LIMIT).then_some(frame)
    }

    /// Finds the frame of the table in these lines, the index of its header line, and the index of its first
    /// row; `None` without a horizontal rule. Lines above the header are titles, and not part of the table.
    pub(super) fn around(lines: &[LineBlock<'_>]) -> Option<(Self, usize, usize)> {
        let (at, frame) =
            lines.iter().enumerate().find_map(|(at, line)| Some((at, Self::parse(line.text)?)))?;
        let fits = |at: usize| {
            let cells = lines.get(at).and_then(|line| frame.cells(line.text));
            cells.is_some_and(|cells| cells.len() == frame.width())
        };
        let is_drawn = |at: usize| {
            let below = lines.get(at).and_then(|line| Self::parse(line.text));
            below.is_some_and(|below| below.width() == frame.width())
        };
        // The rule is either the top edge above the header, or the line between header and rows.
        if fits(at + 1) && is_drawn(at + 2) {
            return Some((frame, at + 1, at + 3));
        }
        let above = at.checked_sub(1).filter(|&above| fits(above))?;
        Some((frame, above, at + 1))
    }

    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        (self.bars.len() + 1).saturating_sub(usize::from(self.has_left) + usize::from(self.has_right))
    }

    /// Splits a line into cells; `None` for a line without bars.
    ///
    /// Splits at the bars of the frame, so that a cell may contain bars. A line with bars at other positions
    /// is split at its own bars: in unaligned Markdown, and with characters that are two columns wide.
    pub(super) fn cells(&self, line: &str) -> Option<Vec<Cell>> {
        let row = expand_tabs(line);
        if !row.iter().any(|&c| is_bar(c)) {
            return None;
        }
        let is_aligned = self.bars.iter().all(|&at| row.get(at).copied().is_some_and(is_bar))
            && !(self.has_right && row.len() > self.end);
        let is_escaped = |at: usize| self.is_markdown && at > 0 && row[at - 1] == '\\';
        let own_bars = || (0..row.len()).filter(|&at| is_bar(row[at]) && !is_escaped(at)).collect();
        let mut bars = if is_aligned { self.bars.clone() } else { own_bars() };
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
        let mut start = from;
        let cells = bars.into_iter().chain([to]).map(|end| {
            let cell = &row[start..end.max(start)];
            start = end + 1;
            let is_full = is_aligned && (end < row.len() || row.len() == self.end);
            let continued = match cell {
                [beginning @ .., '+' | '↵'] if is_full && !self.is_markdown => Some(self.text(beginning)),
                _ => None,
            };
            Cell { text: self.text(cell), continued }
        });
        Some(cells.collect())
    }

    fn text(&self, cell: &[char]) -> String {
        let text: String = cell.iter().collect();
        let text = text.trim();
        if self.is_markdown { text.replace("\\|", "|") } else { text.to_owned() }
    }
}

/// Merges the next line into a row if some cells of the row continue, and the next line has no text for the
/// others. Otherwise returns the next line, which is a row of its own.
pub(super) fn merge(row: &mut [Cell], next: Vec<Cell>) -> Option<Vec<Cell>> {
    let is_continuation = row.iter().any(|cell| cell.continued.is_some())
        && row.len() == next.len()
        && row.iter().zip(&next).all(|(cell, added)| cell.continued.is_some() || added.text.is_empty());
    if !is_continuation {
        return Some(next);
    }
    for (cell, added) in row.iter_mut().zip(next) {
        let Some(beginning) = cell.continued.take() else { continue };
        cell.text = format!("{beginning}\n{}", added.text);
        cell.continued = added.continued.map(|added| format!("{beginning}\n{added}"));
    }
    None
}

/// Whether a line is the number of rows at the end of a table: `(3 rows)`, `3 rows in set (0.00 sec)`.
pub(super) fn is_count(line: &str) -> bool {
    static COUNT: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"^(\([0-9]+ \s*\p{Alphabetic}*\s*\)$|[0-9]+ rows? in set)"));
    COUNT.is_match(line.trim())
}

/// Whether a character is part of a horizontal rule; in Markdown, a colon sets the alignment of a column.
fn is_dash(c: char) -> bool {
    matches!(c, '-' | '=' | ':' | '─' | '━' | '═' | '╌' | '╍' | '┄' | '┅' | '┈' | '┉')
}

/// Whether a character is a crossing or a bar in a horizontal rule.
fn is_crossing(c: char) -> bool {
    matches!(c, '+' | '|') || ('\u{2500}'..='\u{257f}').contains(&c) && !is_dash(c)
}

/// Whether a character separates the cells of a row.
fn is_bar(c: char) -> bool {
    matches!(c, '|' | '│' | '┃' | '║' | '┆' | '┇' | '┊' | '┋' | '╎' | '╏')
}
