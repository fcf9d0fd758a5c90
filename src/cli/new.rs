//! `glossator new`: copies an entry of the gallery (a route file with recorded responses) into a folder.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};
use include_dir::{Dir, include_dir};
use serde_json::json;

use super::input_output::Screen;
use super::{CommandError, Output};

/// Entries of the gallery, one folder each. The `README.md` beside the folders is the index.
static GALLERY: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/config/gallery");

/// Documentation page of an entry. It is not copied.
const PAGE: &str = "README.md";

#[derive(Debug, Args)]
pub(super) struct NewArguments {
    /// Entry of the gallery to copy
    #[arg(long, value_name = "NAME", value_parser = names())]
    from_gallery: String,
    /// Folder to copy it into; created if it is missing
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

/// Parser that accepts the names of the entries. The help for each name is the heading of its page.
fn names() -> PossibleValuesParser {
    let value = |entry: &'static Dir<'_>| {
        let name = entry.path().to_str().expect("names of entries are ASCII");
        let page = entry.get_file(entry.path().join(PAGE)).and_then(include_dir::File::contents_utf8);
        let heading = page.and_then(|page| page.lines().next()).unwrap_or_default();
        PossibleValue::new(name).help(heading.trim_start_matches("# "))
    };
    GALLERY.dirs().map(value).collect::<Vec<_>>().into()
}

/// Copies all files of the entry. If one of them already exists, copies none.
pub(super) fn new(arguments: &NewArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let name = &arguments.from_gallery;
    let entry = GALLERY.get_dir(name).expect("the parser of the arguments knows the entries");
    let files: Vec<_> = files_of(entry)
        .into_iter()
        .map(|file| {
            let relative_path =
                file.path().strip_prefix(name).expect("paths of files begin with the entry's name");
            (arguments.folder.join(relative_path), file.contents())
        })
        .collect();
    if let Some((path, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        let message = format!("{} exists; no file was written: choose an empty folder", path.display());
        return Err(CommandError::runtime(message));
    }
    for (path, contents) in &files {
        write(path, contents).map_err(|error| {
            CommandError::runtime(format!("{} can't be written: {error}", path.display()))
        })?;
    }
    let paths: Vec<_> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    match arguments.output {
        Output::Json => screen.json(&json!({ "files": paths })),
        Output::Text => {
            for path in paths {
                screen.line(path);
            }
            screen.info_line(&format!(
                "Change the address under `upstreams`, then run `glossator test` in {}. \
                 The documentation of this entry is config/gallery/{name}/{PAGE} in the source repository.",
                arguments.folder.display(),
            ));
        }
    }
    Ok(())
}

/// Returns all files of the entry except its page.
fn files_of<'a>(entry: &'a Dir<'a>) -> Vec<&'a include_dir::File<'a>> {
    let mut files: Vec<_> = entry.files().filter(|file| !file.path().ends_with(PAGE)).collect();
    files.extend(entry.dirs().flat_map(files_of));
    files
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create_new(path)?.write_all(contents)
}
