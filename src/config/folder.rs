//! Reader of the configuration files: a single file, or a folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{ConfigSource, Sources};
use crate::settings::{Code, Files, Origin, Problem, source_text};

/// Maximum length of a file, in bytes.
const FILE_LIMIT_BYTES: u64 = 4 << 20;
/// Maximum number of files in a folder.
const FILE_COUNT_LIMIT: usize = 1000;

/// Reads the file or folder at `path`. Returns the readable files, and a problem for each file that cannot be
/// read.
pub(super) fn read(path: &Path) -> (Files, Vec<Problem>) {
    let (mut files, mut problems) = (Files::default(), Vec::new());
    let paths = list(path).unwrap_or_else(|problem| {
        problems.push(*problem);
        Vec::new()
    });
    for path in paths {
        let name = name_of(&path);
        match read_one(&path).and_then(|bytes| text_of(&name, bytes)) {
            Ok(text) => {
                let index = files.add(name, without_bom(&text), Origin::File);
                files.set_folder_of(index, &path);
            }
            Err(problem) => problems.push(*problem),
        }
    }
    (files, problems)
}

/// Removes the byte order mark (BOM) that some editors write.
pub(super) fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Decodes the contents of a file; returns a problem if they are not UTF-8.
pub(super) fn text_of(name: &str, bytes: Vec<u8>) -> Result<String, Box<Problem>> {
    String::from_utf8(bytes).map_err(|error| {
        let start = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let single = Files::from_text(name, &String::from_utf8_lossy(&bytes));
        let span = source_text::SourceSpan { file: 0, start, end: start + '\u{fffd}'.len_utf8() };
        let message = format!("the file is not UTF-8 text: invalid byte 0x{:02x}", bytes[start]);
        let (coded_span, help) = (Code::NotUtf8.at_span(span), Some("save it as UTF-8".to_owned()));
        Box::new(Problem::with_span(&single, coded_span, message, help))
    })
}

fn list(path: &Path) -> Result<Vec<PathBuf>, Box<Problem>> {
    let metadata = fs::metadata(path).map_err(|error| {
        let help = "name a file or a folder with `--config PATH`, or try `glossator demo`";
        unreadable(path, &format!("the configuration {}", source_text::describe_io_error(&error)), help)
    })?;
    if metadata.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    // Neither pipes nor devices are read: reading a pipe could block, and a device has no end.
    if !metadata.is_dir() {
        let help = "name a file or a folder with `--config PATH`";
        return Err(unreadable(path, "the configuration is neither a file nor a folder", help));
    }
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| {
        let message = format!("the folder {}", source_text::describe_io_error(&error));
        unreadable(path, &message, "check its permissions")
    })?;
    let mut paths: Vec<_> =
        entries.iter().map(fs::DirEntry::path).filter(|path| is_config_file(path)).collect();
    paths.sort();
    if paths.is_empty() {
        let help = "add one, or name a file with `--config PATH`";
        return Err(unreadable(path, "the folder has no `.yaml` or `.yml` file", help));
    }
    if paths.len() > FILE_COUNT_LIMIT {
        let message =
            format!("the folder has {} files, more than the limit of {FILE_COUNT_LIMIT}", paths.len());
        return Err(unreadable(path, &message, "combine several routes in one file"));
    }
    Ok(paths)
}

fn unreadable(path: &Path, message: &str, help: &str) -> Box<Problem> {
    Box::new(Problem::without_span(Code::UnreadableFile, name_of(path), message, Some(help.to_owned())))
}

/// Whether a path is a YAML file that is not hidden. Mounted secrets and editors create hidden files.
fn is_config_file(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    !is_hidden
        && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
        && path.is_file()
}

fn read_one(path: &Path) -> Result<Vec<u8>, Box<Problem>> {
    source_text::read_file(path, FILE_LIMIT_BYTES).map_err(|reason| {
        let help = "check its path and permissions; split a long file into several files in one folder";
        unreadable(path, &format!("the file {reason}"), help)
    })
}

fn name_of(path: &Path) -> String {
    path.display().to_string()
}

impl Sources {
    /// Returns the paths of the configuration files. `None` if the configuration is not in a file.
    pub fn files(&self) -> Option<Vec<PathBuf>> {
        let ConfigSource::Path(path) = &self.origin else { return None };
        Some(list(path).unwrap_or_else(|_| vec![path.clone()]))
    }
}
