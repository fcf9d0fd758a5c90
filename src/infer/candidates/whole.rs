//! Short reports of fixed words with numbers among them: behind the words that name them, or in a line below a line of
//! such words, as nginx' `stub_status` and `vmstat` have it.

use serde_json::json;

use super::{
    super::types::slug,
    Candidate, full_lines,
    wording::{capture, is_capture_name, is_number, tells},
};

/// More lines are no short report.
const MOST_LINES: usize = 12;
/// More words than that make no pattern that somebody reads.
const MOST_WORDS: usize = 60;

/// The lines of a text, as words.
type Lines<'t> = Vec<Vec<&'t str>>;

pub(super) fn candidate(texts: &[&str]) -> Option<Candidate> {
    let samples: Vec<Lines<'_>> = texts
        .iter()
        .map(|text| {
            full_lines(text).take(MOST_LINES + 1).map(|line| line.split_whitespace().collect()).collect()
        })
        .collect();
    let first = samples.first()?;
    let widths = |lines: &Lines<'_>| lines.iter().map(Vec::len).collect::<Vec<_>>();
    let fits = (2..=MOST_LINES).contains(&first.len()) && widths(first).iter().sum::<usize>() <= MOST_WORDS;
    if !fits || samples.iter().any(|lines| widths(lines) != widths(first)) {
        return None;
    }
    let shape = Shape { samples: &samples };
    // Without a line of values below words, keys and values are read better by what looks for them.
    (1..first.len()).find(|line| shape.is_below_names(*line))?;
    let mut names: Vec<String> = Vec::new();
    let mut parts = Vec::new();
    for (line, words) in first.iter().enumerate() {
        for (index, word) in words.iter().enumerate() {
            if shape.is_constant(line, index) {
                parts.push(regex::escape(word));
                continue;
            }
            // What is neither a number nor always the same would make a pattern of this sample alone.
            if !shape.words(line, index).all(is_number) {
                return None;
            }
            let name =
                shape.name(line, index).filter(|name| is_capture_name(name) && !names.contains(name))?;
            parts.push(capture(&name, shape.words(line, index)));
            names.push(name);
        }
    }
    let pattern = format!(r"^\s*{}\s*$", parts.join(r"\s+"));
    let why = format!(
        "{} numbers in {} lines of words that are always the same, some in a line below their names",
        names.len(),
        first.len()
    );
    let extract = json!({ "regex": { "pattern": pattern } });
    Some(Candidate { reads_all: true, ..Candidate::likely(extract, why) })
}

/// Samples that have as many lines, of as many words.
struct Shape<'s, 't> {
    samples: &'s [Lines<'t>],
}

impl<'t> Shape<'_, 't> {
    fn words(&self, line: usize, index: usize) -> impl Iterator<Item = &'t str> + Clone {
        self.samples.iter().map(move |lines| lines[line][index])
    }

    /// Whether a word is the same in all samples, and no number.
    fn is_constant(&self, line: usize, index: usize) -> bool {
        let word = self.samples[0][line][index];
        self.words(line, index).all(|other| other == word) && !word.contains(|c: char| c.is_ascii_digit())
    }

    fn width(&self, line: usize) -> usize {
        self.samples[0][line].len()
    }

    /// Whether a line has numbers only, and the line above it a word for each.
    fn is_below_names(&self, line: usize) -> bool {
        line > 0
            && (0..self.width(line)).all(|index| self.words(line, index).all(is_number))
            && self.width(line - 1) >= self.width(line)
            && (0..self.width(line - 1)).all(|index| self.is_constant(line - 1, index))
    }

    /// What names a number: the word above it, counted from the end of the line, else the words before it, else the
    /// word behind it.
    fn name(&self, line: usize, index: usize) -> Option<String> {
        let first = &self.samples[0];
        if self.is_below_names(line) {
            let above = self.width(line - 1) - self.width(line) + index;
            return Some(slug(first[line - 1][above]));
        }
        let from = (0..index).rev().take_while(|other| self.is_constant(line, *other)).last();
        if let Some(from) = from {
            let label: Vec<&str> =
                first[line][from..index].iter().copied().filter(|word| tells(word)).collect();
            if !label.is_empty() {
                return Some(slug(&label.join(" ")));
            }
        }
        let behind = index + 1;
        (behind < self.width(line) && self.is_constant(line, behind) && tells(first[line][behind]))
            .then(|| slug(first[line][behind]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expected: Option<&str>) {
        let found = candidate(texts).map(|candidate| candidate.extract["regex"]["pattern"].clone());
        assert_eq!(found.as_ref().and_then(|pattern| pattern.as_str()), expected);
    }

    #[test]
    fn numbers_below_words_are_named_by_them() {
        check(
            &["server accepts handled requests\n 16 16 31 \nReading: 0 Writing: 1 \n"],
            Some(
                r"^\s*server\s+accepts\s+handled\s+requests\s+(?<accepts>[-+]?[0-9.]+)\s+(?<handled>[-+]?[0-9.]+)\s+(?<requests>[-+]?[0-9.]+)\s+Reading:\s+(?<reading>[-+]?[0-9.]+)\s+Writing:\s+(?<writing>[-+]?[0-9.]+)\s*$",
            ),
        );
    }

    #[test]
    fn other_texts_are_for_others() {
        for texts in [
            &["a: 1\nb: 2\n"][..],
            &["name count\nx 5\n"],
            &["a b\n1 2\n", "a c\n1 2\n"],
            &["a b\n1 2\n", "a b\n1 2\n3 4\n"],
            &["1 2\n3 4\n"],
            &["a\n"],
            &[""],
            &[],
        ] {
            check(texts, None);
        }
    }
}
