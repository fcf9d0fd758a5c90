//! Texts of the configuration files, and spans in them.

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::credential_forms::{credentials_in, merged, replaced};
use super::secret::{Hidden, probable_secrets};
use super::units::format_size;

/// Byte range in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceSpan {
    pub(crate) file: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Line and column of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineAndColumn {
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
}

/// Files of one configuration; variables and flags are additional texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files(Vec<SourceFile>);

/// Text of one file, variable or flag.
#[derive(Debug, Clone)]
struct SourceFile {
    name: String,
    /// Folder of the file; `None` for a text that is not a file.
    folder: Option<PathBuf>,
    /// The text may contain secrets.
    text: Hidden<String>,
    /// Byte ranges of secrets, set when the file is parsed. Until then, secrets are found by text search.
    masked: OnceLock<Vec<Range<usize>>>,
    origin: Origin,
}

/// Origin of a text of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    File,
    /// Part of the program; operators cannot change it.
    BuiltIn,
    /// Environment variable. Its value may be a secret and is never printed.
    Variable,
    /// Command-line flag.
    Flag,
}

impl Files {
    /// Adds a text and returns its index.
    pub(crate) fn add(&mut self, name: impl Into<String>, text: impl Into<String>, origin: Origin) -> usize {
        let (name, text) = (name.into(), Hidden(text.into()));
        self.0.push(SourceFile { name, folder: None, text, masked: OnceLock::new(), origin });
        self.0.len() - 1
    }

    /// Creates a collection with one file, whose index is 0.
    pub(crate) fn from_text(name: &str, text: &str) -> Self {
        let mut files = Self::default();
        files.add(name, text, Origin::File);
        files
    }

    /// Sets the folder of a file from its path; relative paths in the file are resolved against the folder.
    pub(crate) fn set_folder_of(&mut self, file: usize, path: &Path) {
        self.0[file].folder = Some(path.parent().unwrap_or_else(|| Path::new("")).to_owned());
    }

    /// Folder of the file that contains `span`; `None` for a text that is not a file.
    pub(crate) fn folder(&self, span: SourceSpan) -> Option<&Path> {
        self.0[span.file].folder.as_deref()
    }

    /// Index of the built-in text, if there is one.
    pub(crate) fn built_in(&self) -> Option<usize> {
        self.0.iter().position(|file| file.origin == Origin::BuiltIn)
    }

    /// Origin of the text that contains `span`.
    pub(crate) fn origin(&self, span: SourceSpan) -> Origin {
        self.0[span.file].origin
    }

    /// Name of the file that contains `span`.
    pub(crate) fn name(&self, span: SourceSpan) -> &str {
        &self.0[span.file].name
    }

    /// Text of the file that contains `span`.
    pub(crate) fn text(&self, span: SourceSpan) -> &str {
        &self.0[span.file].text.0
    }

    /// Span of a whole file.
    pub(crate) fn whole(&self, file: usize) -> SourceSpan {
        SourceSpan { file, start: 0, end: self.0[file].text.0.len() }
    }

    /// Empty span at the beginning of a file.
    pub(crate) fn beginning(&self, file: usize) -> SourceSpan {
        SourceSpan { file, start: 0, end: 0 }
    }

    /// Returns a part of the file that contains `span`, with `mask` in place of each secret; `None` if the
    /// range is invalid or cuts through a secret.
    pub(crate) fn shown(&self, span: SourceSpan, part: Range<usize>, mask: &str) -> Option<String> {
        let text = self.text(span).get(part.clone())?;
        let masked = self.masked(span, part.clone()).into_iter().map(|range| {
            // If a secret extends beyond the range, nothing is shown.
            let is_inside = part.start <= range.start && range.end <= part.end;
            is_inside.then(|| range.start - part.start..range.end - part.start)
        });
        Some(replaced(text, &masked.collect::<Option<Vec<_>>>()?, mask))
    }

    /// Line and column of the beginning of `span`.
    pub(crate) fn line_and_column(&self, span: SourceSpan) -> LineAndColumn {
        let text_before = self.text_before(span);
        let column = text_before[line_start(text_before)..].chars().count() + 1;
        LineAndColumn { line: text_before.matches('\n').count() + 1, column }
    }

    /// Byte range of the line in which `span` begins, without its line break.
    pub(crate) fn line(&self, span: SourceSpan) -> Range<usize> {
        let start = line_start(self.text_before(span));
        let line = self.text(span)[start..].lines().next().unwrap_or_default();
        start..start + line.trim_end_matches('\r').len()
    }

    /// Span of the trimmed line that is `down` lines below the beginning of `span`; `None` if the file is
    /// shorter.
    pub(crate) fn line_below(&self, span: SourceSpan, down: usize) -> Option<SourceSpan> {
        let text = self.text(span);
        let mut start = line_start(self.text_before(span));
        for _ in 0..down {
            start += text[start..].find('\n')? + 1;
        }
        let line = text[start..].lines().next().unwrap_or_default();
        start += line.len() - line.trim_start().len();
        Some(SourceSpan { file: span.file, start, end: start + line.trim().len() })
    }

    /// Text of the file before `span`.
    fn text_before(&self, span: SourceSpan) -> &str {
        let text = self.text(span);
        &text[..text.floor_char_boundary(span.start)]
    }

    /// Sets the byte ranges of the secrets in a file.
    pub(crate) fn mask(&self, file: usize, ranges: Vec<Range<usize>>) {
        let text = &self.0[file].text.0;
        // The range of a block string ends at the next key, whose line is not part of the secret.
        let trimmed = ranges.into_iter().map(|range| {
            let length = text.get(range.clone()).map_or_else(|| range.len(), |text| text.trim_end().len());
            range.start..range.start + length
        });
        // `set` fails if the file was parsed before. That parse found the same ranges.
        let _ = self.0[file].masked.set(trimmed.collect());
    }

    /// Byte ranges of the secrets in the byte range `line` of the file that contains `span`, in order and
    /// without overlap.
    pub(crate) fn masked(&self, span: SourceSpan, line: Range<usize>) -> Vec<Range<usize>> {
        let file = &self.0[span.file];
        let is_overlapping = |range: &&Range<usize>| range.start < line.end && line.start < range.end;
        let mut ranges = match file.masked.get() {
            Some(ranges) => ranges.iter().filter(is_overlapping).cloned().collect(),
            None => probable_secrets(&file.text.0[line.clone()], line.start),
        };
        let credentials = credentials_in(&file.text.0[line.clone()]).into_iter();
        ranges.extend(credentials.map(|range| line.start + range.start..line.start + range.end));
        merged(ranges)
    }
}

/// Offset at which the last line of a text begins.
pub(crate) fn line_start(text: &str) -> usize {
    text.rfind('\n').map_or(0, |at| at + 1)
}

/// Describes an I/O error of a file without technical terms, as the end of a sentence.
pub(crate) fn describe_io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "is not readable by this user".to_owned(),
        io::ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
        _ => format!("can't be read: {error}"),
    }
}

/// Reads a file of at most `limit_bytes`.
///
/// # Errors
///
/// The error is the end of a sentence about the file, such as "does not exist".
pub(crate) fn read_file(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(limit_bytes + 1).read_to_end(&mut bytes)) {
        Ok(length) if length as u64 <= limit_bytes => Ok(bytes),
        Ok(_) => Err(format!("is longer than {}", format_size(limit_bytes))),
        Err(error) => Err(describe_io_error(&error)),
    }
}
