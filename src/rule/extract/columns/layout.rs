//! Where the cells of a line begin and end.

use std::ops::Range;

/// How far apart tab stops are, in characters.
const TAB_STOP: usize = 8;

/// The characters of a line, tabs as spaces, without white space at the end.
pub(super) fn expanded(line: &str) -> Vec<char> {
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

/// Where words begin and end.
pub(super) fn words(line: &[char]) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut begun = None;
    for (at, character) in line.iter().enumerate() {
        match (character.is_whitespace(), begun) {
            (false, None) => begun = Some(at),
            (true, Some(start)) => {
                words.push(start..at);
                begun = None;
            }
            _ => {}
        }
    }
    words.extend(begun.map(|start| start..line.len()));
    words
}

/// Whether a line is drawn: `-----`, `==== ====`, `---+---`.
pub(super) fn is_rule(line: &str) -> bool {
    line.chars().all(|c| matches!(c, '-' | '=' | '+' | '|') || c.is_whitespace())
        && (line.contains("---") || line.contains("==="))
}

/// The cells of a line that is cut before these characters.
pub(super) fn cut_at(line: &[char], starts: &[usize]) -> Vec<String> {
    let mut cells = Vec::with_capacity(starts.len() + 1);
    let mut from = 0;
    for to in starts.iter().copied().chain([line.len()]) {
        let to = to.clamp(from, line.len().max(from));
        let cell: String = line.get(from..to.min(line.len())).unwrap_or_default().iter().collect();
        cells.push(cell.trim().to_owned());
        from = to;
    }
    cells
}

/// The columns that a header tells.
pub(super) struct Header {
    names: Vec<String>,
    /// Where the names stand.
    spans: Vec<Range<usize>>,
    /// Whether cells begin where the names begin, and nowhere else.
    fixed: bool,
    /// Whether the first column has its name from the rule.
    first_is_given: bool,
}

impl Header {
    /// The columns of a header with a line of `---- -----` under it.
    pub(super) fn ruled(header: &[char], rule: &[char]) -> Self {
        let spans = words(rule);
        let starts: Vec<usize> = spans.iter().skip(1).map(|span| span.start).collect();
        Self { names: cut_at(header, &starts), spans, fixed: true, first_is_given: false }
    }

    /// The columns of a header over rows.
    ///
    /// Words with several spaces between them are names of their own. Those with one space between them are one name
    /// (`Mounted on`) unless most rows have a cell of its own under the second.
    pub(super) fn over<'t>(
        header: &[char],
        rows: impl Iterator<Item = &'t str>,
        first: Option<&str>,
    ) -> Self {
        let words = words(header);
        let close: Vec<usize> =
            (1..words.len()).filter(|&second| words[second].start - words[second - 1].end == 1).collect();
        // How many rows have a cell of its own under the word, less those that have none.
        let mut apart = vec![0_i64; words.len()];
        if !close.is_empty() {
            for row in rows {
                let row = expanded(row);
                for &second in &close {
                    let own = is_blank(&row, words[second - 1].end)
                        && under(&row, &words[second]).iter().any(|c| !c.is_whitespace());
                    apart[second] += if own { 1 } else { -1 };
                }
            }
        }
        let mut spans: Vec<Range<usize>> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let joined = close.binary_search(&index).is_ok() && apart[index] <= 0;
            match spans.last_mut() {
                Some(last) if joined => last.end = word.end,
                _ => spans.push(word.clone()),
            }
        }
        let mut names: Vec<String> = spans.iter().map(|span| header[span.clone()].iter().collect()).collect();
        if let Some(first) = first {
            names.insert(0, first.to_owned());
            spans.insert(0, 0..0);
        }
        Self { names, spans, fixed: false, first_is_given: first.is_some() }
    }

    /// The names, in order.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// What stands in a row before the first column.
    pub(super) fn unnamed(&self, row: &[char]) -> Option<String> {
        let first = self.spans.first()?;
        if self.first_is_given || self.fixed {
            return None;
        }
        let before: String = row.get(..token_start(row, first.start)).unwrap_or(row).iter().collect();
        let before = before.trim();
        (!before.is_empty()).then(|| before.to_owned())
    }

    /// The cells of a row; `None` where one runs into the next.
    pub(super) fn cells(&self, row: &[char]) -> Option<Vec<String>> {
        let mut starts = Vec::with_capacity(self.spans.len());
        let mut before = 0;
        for pair in self.spans.windows(2) {
            let (left, right) = (&pair[0], &pair[1]);
            let cut = if self.fixed { right.start } else { token_start(row, right.start) };
            let crooked = if self.fixed {
                !is_blank(row, cut - 1)
            } else if cut < right.start {
                // A number that is set to the right begins before its name, but not where the cell before it does.
                let alone = row.get(before..cut).is_none_or(|part| part.iter().all(|c| c.is_whitespace()));
                cut < before || cut == 0 || cut < left.end && alone
            } else {
                (left.end..right.start).all(|at| !is_blank(row, at))
                    && (left.end == 0 || !is_blank(row, left.end - 1))
                    && is_blank(row, right.start)
            };
            if crooked {
                return None;
            }
            starts.push(cut);
            before = cut;
        }
        Some(cut_at(row, &starts))
    }
}

/// What stands in a row under a name.
fn under<'r>(row: &'r [char], name: &Range<usize>) -> &'r [char] {
    &row[name.start.min(row.len())..name.end.min(row.len())]
}

fn is_blank(line: &[char], at: usize) -> bool {
    line.get(at).is_none_or(|character| character.is_whitespace())
}

/// Where the word begins that covers a character; the character itself where none does.
fn token_start(line: &[char], at: usize) -> usize {
    if is_blank(line, at) {
        return at;
    }
    line[..at].iter().rposition(|character| character.is_whitespace()).map_or(0, |blank| blank + 1)
}
