//! Reader for the configuration files: one file, or those of a folder.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{
    code::Code,
    problem::Problem,
    source::{self, Files},
    units,
};

/// Maximum length of a file, in bytes.
const FILE_LIMIT_BYTES: u64 = 4 << 20;
/// Maximum number of files in a folder.
const FILE_COUNT_LIMIT: usize = 1000;

/// Reads the file or folder at `path`. Returns the readable files, and a problem for each unreadable one.
pub(super) fn read(path: &Path) -> (Files, Vec<Problem>) {
    let (mut files, mut problems) = (Files::default(), Vec::new());
    let paths = match list(path) {
        Ok(paths) => paths,
        Err(problem) => return (files, vec![*problem]),
    };
    for path in paths {
        match read_one(&path) {
            Ok(bytes) => {
                if let Some(file) = add(&mut files, &mut problems, &name_of(&path), bytes) {
                    files.set_path(file, &path);
                }
            }
            Err(problem) => problems.push(*problem),
        }
    }
    (files, problems)
}

/// Creates the files from the text of one file.
pub(super) fn from_text(name: &str, text: &str) -> (Files, Vec<Problem>) {
    let (mut files, mut problems) = (Files::default(), Vec::new());
    add(&mut files, &mut problems, name, text.as_bytes().to_vec());
    (files, problems)
}

/// Adds a file with these bytes, or a problem if they are not UTF-8.
pub(super) fn add(
    files: &mut Files,
    problems: &mut Vec<Problem>,
    name: &str,
    bytes: Vec<u8>,
) -> Option<usize> {
    match String::from_utf8(bytes) {
        Ok(text) => {
            // Some editors write a byte order mark, which is not part of the text.
            let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
            Some(files.add(name, text))
        }
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let bytes = error.into_bytes();
            let mut single = Files::default();
            let file = single.add(name, String::from_utf8_lossy(&bytes).into_owned());
            let words = source::SourceSpan { file, start: valid, end: valid + '\u{fffd}'.len_utf8() };
            let message = format!("the file is not UTF-8 text: invalid byte 0x{:02x}", bytes[valid]);
            problems.push(Problem::with_span(
                &single,
                Code::NotUtf8.at_span(words),
                message,
                Some("save it as UTF-8".to_owned()),
            ));
            None
        }
    }
}

pub(super) fn list(path: &Path) -> Result<Vec<PathBuf>, Box<Problem>> {
    let problem_of = |message: String, help: &str| {
        Box::new(Problem::without_span(Code::UnreadableFile, name_of(path), message, Some(help.to_owned())))
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            let message = format!("the configuration {}", source::describe_io_error(&error));
            return Err(problem_of(
                message,
                "name a file or a folder with `--config PATH`, or try `glossator demo`",
            ));
        }
    };
    if metadata.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    // Reading a pipe could block, and a device has no end.
    if !metadata.is_dir() {
        return Err(problem_of(
            "the configuration is neither a file nor a folder".to_owned(),
            "name a file or a folder with `--config PATH`",
        ));
    }
    let entries =
        std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(|error| {
            problem_of(format!("the folder {}", source::describe_io_error(&error)), "check its permissions")
        })?;
    let mut paths: Vec<_> =
        entries.iter().map(std::fs::DirEntry::path).filter(|path| is_config_file(path)).collect();
    paths.sort();
    if paths.is_empty() {
        return Err(problem_of(
            "the folder has no `.yaml` or `.yml` file".to_owned(),
            "add one, or name a file with `--config PATH`",
        ));
    }
    if paths.len() > FILE_COUNT_LIMIT {
        return Err(problem_of(
            format!("the folder has {} files, more than the limit of {FILE_COUNT_LIMIT}", paths.len()),
            "combine several routes in one file",
        ));
    }
    Ok(paths)
}

/// Whether it is a YAML file that is not hidden; mounted secrets and editors create hidden files.
fn is_config_file(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    !hidden
        && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
        && path.is_file()
}

fn read_one(path: &Path) -> Result<Vec<u8>, Box<Problem>> {
    let problem_of = |message: String, help: &str| {
        Box::new(Problem::without_span(Code::UnreadableFile, name_of(path), message, Some(help.to_owned())))
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| {
            // Reserve the length of the file and 1 byte to detect its end: a growing buffer would fragment
            // the heap.
            let length = file.metadata()?.len().min(FILE_LIMIT_BYTES);
            bytes.reserve_exact(usize::try_from(length).unwrap_or_default() + 1);
            file.take(FILE_LIMIT_BYTES + 1).read_to_end(&mut bytes)
        })
        .map_err(|error| {
            problem_of(
                format!("the file {}", source::describe_io_error(&error)),
                "check its path and permissions",
            )
        })?;
    if bytes.len() as u64 > FILE_LIMIT_BYTES {
        let message = format!("the file is longer than {}", units::format_size(FILE_LIMIT_BYTES));
        return Err(problem_of(message, "split it into several files in one folder, and name the folder"));
    }
    // The text is kept in memory while the configuration is active.
    bytes.shrink_to_fit();
    Ok(bytes)
}

fn name_of(path: &Path) -> String {
    path.display().to_string()
}
