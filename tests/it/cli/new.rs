//! `glossator new`, and the gallery that it copies from.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{ROOT, glossator, succeeds, warnings_of};

/// The entries: name and folder.
fn entries() -> Vec<(String, PathBuf)> {
    let gallery = fs::read_dir(Path::new(ROOT).join("config/gallery")).unwrap();
    let folders = gallery.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    folders.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

/// All files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// Empty folder, deleted when the test ends.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("glossator-it-{}-{name}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_entry_of_the_gallery_is_copied_checked_and_tested() {
    let index = fs::read_to_string(Path::new(ROOT).join("config/gallery/README.md")).unwrap();
    let entries = entries();
    assert!(!entries.is_empty());
    for (name, original) in entries {
        let folder = TemporaryFolder::new(&name);
        let written: Value = serde_json::from_str(&succeeds(&[
            "new",
            "--from-gallery",
            &name,
            folder.path(),
            "--output",
            "json",
        ]))
        .unwrap();
        let copied = files_below(&folder.0);
        assert_eq!(written["files"].as_array().unwrap().len(), copied.len(), "{name}: {written}");
        // All but the page.
        assert_eq!(copied.len() + 1, files_below(&original).len(), "{name}: {copied:?}");
        let config = folder.0.join("glossator.yaml");
        let config = config.to_str().unwrap();
        // A program that a route runs may be missing on this machine (G0606).
        let warnings = warnings_of(config);
        assert!(warnings.iter().all(|warning| warning["code"] == "G0606"), "{name}: {warnings:?}");
        let tested: Value =
            serde_json::from_str(&succeeds(&["test", "--config", config, "--output", "json"])).unwrap();
        assert!(tested["passed"].as_u64().unwrap() > 0, "{name}: {tested}");
        // No recording without a test.
        let text = fs::read_to_string(config).unwrap();
        for file in copied.iter().filter(|file| file.parent().is_some_and(|dir| dir.ends_with("recordings")))
        {
            let file = file.file_name().unwrap().to_str().unwrap();
            assert!(text.contains(file), "{name}: no test has {file}");
        }
        let page = fs::read_to_string(original.join("README.md")).unwrap();
        assert!(page.starts_with("# "), "{name}: the page begins with its heading");
        assert!(index.contains(&format!("({name}/README.md)")), "{name} is missing in the index");
    }
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let folder = TemporaryFolder::new("new-exists");
    let (name, _) = entries().swap_remove(0);
    fs::write(folder.0.join("glossator.yaml"), "mine").unwrap();
    let output = glossator(&["new", "--from-gallery", &name, folder.path()]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("glossator.yaml exists; no file was written"), "{error}");
    assert_eq!(files_below(&folder.0), [folder.0.join("glossator.yaml")]);
    assert_eq!(fs::read_to_string(folder.0.join("glossator.yaml")).unwrap(), "mine");
}

#[test]
fn an_unknown_entry_is_an_error_that_lists_the_entries() {
    let output = glossator(&["new", "--from-gallery", "no-such-server"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    for (name, _) in entries() {
        assert!(error.contains(&name), "{name} is missing in {error}");
    }
}
