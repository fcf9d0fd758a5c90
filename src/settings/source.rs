//! The files as they were read, and places in them.

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Some words of one file, as byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) file: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A place as people count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
}

/// The files of one configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files(Vec<SourceFile>);

#[derive(Debug, Clone)]
struct SourceFile {
    name: String,
    /// Where it lies; `None` for a text that is no file.
    folder: Option<PathBuf>,
    text: String,
    /// Where each line begins.
    lines: Box<[usize]>,
    /// What must not be shown; unset until the file is read, and then lines are judged by their looks.
    masked: OnceLock<Vec<Range<usize>>>,
    origin: Origin,
}

/// Where a text of the configuration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    File,
    /// A part of the program, so that no operator can fix it.
    BuiltIn,
    /// An environment variable. Its value may be a secret, and is never shown.
    Variable,
    /// A flag of the command line.
    Flag,
}

impl Files {
    /// Adds a file and tells its number.
    pub(crate) fn add(&mut self, name: impl Into<String>, text: String) -> usize {
        let mut lines = Vec::with_capacity(1 + text.matches('\n').count());
        lines.extend(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)));
        self.0.push(SourceFile {
            name: name.into(),
            folder: None,
            text,
            lines: lines.into(),
            masked: OnceLock::new(),
            origin: Origin::File,
        });
        self.0.len() - 1
    }

    /// Says where a file lies, so that others beside it can be named.
    pub(crate) fn lies_at(&mut self, file: usize, path: &Path) {
        self.0[file].folder = Some(path.parent().unwrap_or_else(|| Path::new("")).to_owned());
    }

    /// The folder of the file that holds `span`; `None` when it is a text at hand.
    pub(crate) fn folder(&self, span: Span) -> Option<&Path> {
        self.0[span.file].folder.as_deref()
    }

    /// Adds a file that is a part of the program.
    pub(crate) fn add_built_in(&mut self, name: &str, text: &str) -> usize {
        let index = self.add(name, text.to_owned());
        self.0[index].origin = Origin::BuiltIn;
        index
    }

    /// The file that is a part of the program.
    pub(crate) fn built_in(&self) -> Option<usize> {
        self.0.iter().position(|file| file.origin == Origin::BuiltIn)
    }

    /// Whether a span is in a file that is a part of the program.
    pub(crate) fn is_built_in(&self, span: Span) -> bool {
        self.0[span.file].origin == Origin::BuiltIn
    }

    /// Adds the value of an environment variable or of a flag as a text of that name.
    pub(crate) fn add_outside(&mut self, name: &str, value: &str, origin: Origin) -> Span {
        let file = self.add(name, value.to_owned());
        self.0[file].origin = origin;
        Span { file, start: 0, end: value.len() }
    }

    /// Origin of the text that holds `span`.
    pub(crate) fn origin(&self, span: Span) -> Origin {
        self.0[span.file].origin
    }

    #[cfg(test)]
    pub(crate) fn of_one(name: &str, text: &str) -> Self {
        let mut files = Self::default();
        files.add(name, text.to_owned());
        files
    }

    /// The name of the file that holds `span`.
    pub(crate) fn name(&self, span: Span) -> &str {
        &self.0[span.file].name
    }

    /// The whole text of the file that holds `span`.
    pub(crate) fn text(&self, span: Span) -> &str {
        &self.0[span.file].text
    }

    /// The whole file.
    #[cfg(test)]
    pub(crate) fn whole(&self, file: usize) -> Span {
        Span { file, start: 0, end: self.0[file].text.len() }
    }

    /// The first character of a file.
    pub(crate) fn beginning(&self, file: usize) -> Span {
        Span { file, start: 0, end: 0 }
    }

    /// Some of the text of the file that holds `span`, with `mask` for what must not be shown. `None` where there is no
    /// such part of it.
    pub(crate) fn shown(&self, span: Span, part: Range<usize>, mask: &str) -> Option<String> {
        let text = self.text(span);
        let (mut out, mut at) = (String::new(), part.start);
        text.get(part.clone())?;
        let mut masked = self.masked(span, part.clone());
        masked.sort_by_key(|range| range.start);
        for range in masked {
            if at <= range.start && range.end <= part.end {
                out.push_str(text.get(at..range.start)?);
                out.push_str(mask);
                at = range.end;
            } else if at < range.end {
                // A secret that reaches beyond what is shown, or into another: nothing is.
                return None;
            }
        }
        out.push_str(text.get(at..part.end)?);
        Some(out)
    }

    /// Where `span` begins.
    pub(crate) fn place(&self, span: Span) -> Place {
        let file = &self.0[span.file];
        let line = self.line_index(span);
        let start = floor(&file.text, span.start);
        Place { line: line + 1, column: file.text[file.lines[line]..start].chars().count() + 1 }
    }

    /// The line in which `span` begins, without its end.
    pub(crate) fn line(&self, span: Span) -> Range<usize> {
        let line = self.line_index(span);
        self.line_range(span.file, line)
    }

    /// The words of the line that is `down` lines below the beginning of `span`, if the file has it.
    pub(crate) fn line_below(&self, span: Span, down: usize) -> Option<Span> {
        let file = &self.0[span.file];
        let line = self.line_index(span) + down;
        (line < file.lines.len()).then(|| {
            let range = self.line_range(span.file, line);
            let words = &file.text[range.clone()];
            let start = range.start + (words.len() - words.trim_start().len());
            Span {
                file: span.file,
                start,
                end: range.start + words.trim_end().len().max(start - range.start),
            }
        })
    }

    fn line_index(&self, span: Span) -> usize {
        self.0[span.file].lines.partition_point(|start| *start <= span.start).saturating_sub(1)
    }

    fn line_range(&self, file: usize, line: usize) -> Range<usize> {
        let file = &self.0[file];
        let start = file.lines[line];
        let end = file.lines.get(line + 1).map_or(file.text.len(), |next| next - 1);
        let end = start + file.text[start..end].trim_end_matches('\r').len();
        start..end
    }

    /// Says what must not be shown of a file.
    pub(crate) fn mask(&self, file: usize, ranges: Vec<Range<usize>>) {
        // A file is read once; a second answer would be the same.
        let _ = self.0[file].masked.set(ranges);
    }

    /// What of a line must not be shown.
    pub(crate) fn masked(&self, span: Span, line: Range<usize>) -> Vec<Range<usize>> {
        let file = &self.0[span.file];
        let mut ranges = match file.masked.get() {
            Some(ranges) => ranges
                .iter()
                .filter(|range| range.start < line.end && line.start < range.end)
                .cloned()
                .collect(),
            None => super::secret::secrets_by_looks(&file.text[line.clone()], line.start),
        };
        ranges.extend(super::secret::credentials_in_urls(&file.text[line.clone()], line.start));
        ranges
    }
}

/// The nearest boundary of a character at or before `offset`.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
/// Why a file can't be read, in plain words.
pub(crate) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read by this user".to_owned(),
        io::ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
        _ => format!("can't be read: {error}"),
    }
}
