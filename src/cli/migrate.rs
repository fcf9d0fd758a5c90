//! `glossator migrate`: renames keys of earlier versions in configuration files and documentation.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
};

use clap::Args;
use diffy::DiffOptions;
use serde_json::{Value, json};

use super::input_output::{Screen, TextStyle, read_input};
use super::{CONFIG_STATUS, CommandError, Output};
use crate::authoring::pluralize;
use crate::config::{Change, Format, Migrated, Remark, migrate as migrated};
use crate::settings::Problem;

/// Maximum length of a file that is rewritten, in bytes. It is the maximum length of a configuration file.
const FILE_LIMIT_BYTES: u64 = 4 << 20;

#[derive(Debug, Args)]
pub(super) struct MigrateArguments {
    /// Files, or folders, searched recursively: configurations (`.yaml`, `.yml`), and pages with YAML blocks
    /// (`.md`)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print the changes as a unified diff, and change nothing
    #[arg(long)]
    diff: bool,
    /// Rewrite the other files if one is not valid YAML
    #[arg(long)]
    keep_going: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

/// A file before and after the migration.
struct Rewritten {
    path: PathBuf,
    name: String,
    before: String,
    after: Migrated,
}

pub(super) fn migrate(arguments: &MigrateArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let mut paths = BTreeMap::new();
    for path in &arguments.paths {
        find_files(path, &mut paths)?;
    }
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for (path, format) in paths.values() {
        let name = path.display().to_string();
        let before = read_input(path, FILE_LIMIT_BYTES, "file")?;
        match migrated(&name, &before, *format) {
            Ok(after) => {
                let before = String::from_utf8(before).expect("only UTF-8 is migrated");
                files.push(Rewritten { path: path.clone(), name, before, after });
            }
            Err(file_problems) => problems.extend(file_problems.as_slice().to_vec()),
        }
    }
    let is_written = problems.is_empty() || arguments.keep_going;
    if is_written && !arguments.diff {
        let changed = files.iter().filter(|file| file.after.text != file.before);
        replace_files(changed.map(|file| (file.path.as_path(), file.after.text.as_str())))
            .map_err(|(path, error)| CommandError::runtime(format!("{}: {error}", path.display())))?;
    }
    if !is_written {
        files.clear();
    }
    match arguments.output {
        Output::Json => screen.json(&as_json(&files, &problems, arguments.diff)),
        Output::Text => {
            screen.problems(&problems);
            if is_written {
                show(&files, arguments.diff, screen);
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(match (arguments.output, arguments.keep_going) {
        (Output::Json, _) => CommandError::Reported(CONFIG_STATUS),
        (Output::Text, true) => CommandError::config("only the other files were checked"),
        (Output::Text, false) => CommandError::config("nothing was changed"),
    })
}

/// Collects the files at a path, by their canonical paths, because the command line may name a file twice.
/// Skips symbolic links in folders, because they may lead to other places, and hidden entries.
fn find_files(path: &Path, found: &mut BTreeMap<PathBuf, (PathBuf, Format)>) -> Result<(), CommandError> {
    let usage_error = |error: io::Error| CommandError::usage(format!("{}: {error}", path.display()));
    if fs::metadata(path).map_err(usage_error)?.is_file() {
        let Some(format) = format_of(path) else {
            let message = format!("{}: expected a `.yaml`, `.yml` or `.md` file", path.display());
            return Err(CommandError::usage(message));
        };
        found
            .entry(fs::canonicalize(path).map_err(usage_error)?)
            .or_insert_with(|| (path.to_owned(), format));
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(usage_error)? {
        let entry = entry.map_err(usage_error)?;
        let (kind, path) = (entry.file_type().map_err(usage_error)?, entry.path());
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && (kind.is_dir() || (kind.is_file() && format_of(&path).is_some())) {
            find_files(&path, found)?;
        }
    }
    Ok(())
}

fn format_of(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "yaml" | "yml" => Some(Format::Yaml),
        "md" => Some(Format::Markdown),
        _ => None,
    }
}

/// Replaces each file atomically: writes temporary files in the same folders, then renames each of these to
/// its file. If that fails, returns the file that can't be written.
pub(super) fn replace_files<'f>(
    files: impl IntoIterator<Item = (&'f Path, &'f str)>,
) -> Result<(), (&'f Path, io::Error)> {
    let mut temporaries = Vec::new();
    let mut result = Ok(());
    for (path, text) in files {
        // Resolves a symbolic link, so that its target is replaced and not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let temporary = target.with_file_name(format!(".{name}.new-{}", std::process::id()));
        result = write_temporary(&target, &temporary, text).map_err(|error| (path, error));
        temporaries.push((temporary, target, path));
        if result.is_err() {
            break;
        }
    }
    for (temporary, target, path) in temporaries {
        if result.is_ok() {
            result = fs::rename(&temporary, target).map_err(|error| (path, error));
        }
        if result.is_err() {
            let _ = fs::remove_file(temporary);
        }
    }
    result
}

/// Writes the file `path` with the permissions, and if possible the owner, of the file `original`.
fn write_temporary(original: &Path, path: &Path, text: &str) -> io::Result<()> {
    let metadata = fs::metadata(original)?;
    let mut file = File::create_new(path)?;
    // Can fail if the file belongs to another user or group, because only root may set these freely.
    let _ = fchown(&file, Some(metadata.uid()), Some(metadata.gid()));
    file.set_permissions(metadata.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn show(files: &[Rewritten], diff: bool, screen: &mut Screen) {
    for Rewritten { name, before, after, .. } in files {
        if diff {
            show_diff(name, before, &after.text, screen);
        } else {
            for Change { line, column, section, was: old_name, now: new_name } in &after.changes {
                let new_name = TextStyle::Good.apply(&format!("`{new_name}`"));
                screen.line(format!("{name}:{line}:{column}: {section}: `{old_name}` is now {new_name}"));
            }
        }
    }
    for Rewritten { name, after, .. } in files {
        for Remark { line, column, message } in &after.remarks {
            screen.info_line(&format!("{name}:{line}:{column}: check this: {message}"));
        }
    }
    if !diff {
        let changes = files.iter().map(|file| file.after.changes.len()).sum();
        let changed = files.iter().filter(|file| file.after.text != file.before).count();
        screen.line(match changes {
            0 => format!("nothing to rename in {}", pluralize(files.len(), "file")),
            _ => {
                format!("{} in {changed} of {}", pluralize(changes, "change"), pluralize(files.len(), "file"))
            }
        });
    }
}

/// Returns the unified diff of a file; empty if nothing has changed.
fn diff_of(name: &str, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let mut options = DiffOptions::new();
    options.set_original_filename(name.to_owned()).set_modified_filename(name.to_owned());
    options.create_patch(before, after).to_string()
}

fn show_diff(name: &str, before: &str, after: &str, screen: &mut Screen) {
    for line in diff_of(name, before, after).lines() {
        screen.line(match line.as_bytes().first() {
            Some(b'+') => TextStyle::Good.apply(line),
            Some(b'-') => TextStyle::Bad.apply(line),
            _ => line.to_owned(),
        });
    }
}

fn as_json(files: &[Rewritten], problems: &[Problem], diff: bool) -> Value {
    let (mut changes, mut remarks) = (Vec::new(), Vec::new());
    for Rewritten { name, after, .. } in files {
        let in_file = |mut item: Value| {
            item["file"] = name.as_str().into();
            item
        };
        changes.extend(after.changes.iter().map(|change| in_file(json!(change))));
        remarks.extend(after.remarks.iter().map(|remark| in_file(json!(remark))));
    }
    let mut json =
        json!({ "ok": problems.is_empty(), "changes": changes, "remarks": remarks, "problems": problems });
    if diff {
        let diffs = files.iter().map(|file| diff_of(&file.name, &file.before, &file.after.text));
        json["diff"] = diffs.collect::<String>().into();
    }
    json
}
