//! `glossator migrate`: renames keys in files of earlier versions.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};

use super::{glossator, succeeds};

const OLD: &str = "server:\n  drain: 5s   # a comment\n  \"watch\": 0s\n\
 upstreams: { old: http://127.0.0.1:9 }\npassthrough: old\n";
const NEW: &str = "server:\n  shutdown_timeout: 5s   # a comment\n  \"reload_interval\": 0s\n\
 upstreams: { old: http://127.0.0.1:9 }\npassthrough: old\n";
const PAGE: &str = "Text.\n\n```yaml\nserver: { drain: 5s }\n```\n";

/// Temporary folder, deleted when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("glossator-it-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
        Self(folder)
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).to_str().unwrap().to_owned()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_folder_is_rewritten_with_a_list_of_changes() {
    let folder =
        Folder::new("migrate", &[("a.yaml", OLD), ("inner/b.md", PAGE), ("c.txt", OLD), ("d.yml", NEW)]);
    let a = folder.path("a.yaml");
    fs::set_permissions(&a, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&a, folder.path("before")).unwrap();
    let out = succeeds(&["migrate", folder.path("").as_str()]);
    let expected = format!(
        "{a}:2:3: server: `drain` is now `shutdown_timeout`\n\
         {a}:3:3: server: `watch` is now `reload_interval`\n\
         {}:4:11: server: `drain` is now `shutdown_timeout`\n3 changes in 2 of 3 files\n",
        folder.path("inner/b.md")
    );
    assert_eq!(out, expected);
    assert_eq!(folder.read("a.yaml"), NEW);
    assert_eq!(folder.read("inner/b.md"), PAGE.replace("drain", "shutdown_timeout"));
    assert_eq!(folder.read("c.txt"), OLD);
    assert_eq!(fs::metadata(&a).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(folder.read("before"), OLD, "who reads the old file while it is replaced reads it whole");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 5, "nothing is left beside");
    succeeds(&["check", "--config", &a]);
    let twice = [folder.path(""), folder.path("inner/../a.yaml")];
    assert_eq!(succeeds(&["migrate", &twice[0], &twice[1]]), "nothing to rename in 3 files\n");
    fs::write(&a, OLD).unwrap();
    assert!(succeeds(&["migrate", &twice[0], &twice[1]]).ends_with("2 changes in 1 of 3 files\n"));
}

#[test]
fn a_diff_changes_nothing() {
    let folder = Folder::new("migrate-diff", &[("a.yaml", OLD)]);
    let a = folder.path("a.yaml");
    let out = succeeds(&["migrate", "--diff", &a]);
    assert!(
        out.starts_with(&format!(
            "--- {a}\n+++ {a}\n@@ -1,5 +1,5 @@\n server:\n-  drain: 5s   # a comment\n"
        )),
        "{out}"
    );
    let json: Value =
        serde_json::from_str(&succeeds(&["migrate", "--diff", "--output", "json", &a])).unwrap();
    assert_eq!(json["diff"], out);
    let change = json!({
        "file": a, "line": 3, "column": 3, "section": "server", "was": "watch", "now": "reload_interval",
    });
    assert_eq!(json["changes"][1], change);
    assert_eq!(folder.read("a.yaml"), OLD);
}

#[test]
fn invalid_yaml_changes_nothing() {
    let folder = Folder::new("migrate-broken", &[("a.yaml", OLD), ("b.yaml", "server: [\n")]);
    let run = |arguments: &[&str]| {
        let output = glossator(&[&["migrate"], arguments].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, err) = run(&[&folder.path("")]);
    assert_eq!(status, 78);
    assert!(err.contains("b.yaml:1:9: ") && err.ends_with("glossator: nothing was changed\n"), "{err}");
    assert_eq!(folder.read("a.yaml"), OLD);
    let json = glossator(&["migrate", "--output", "json", &folder.path("")]).stdout;
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap()["changes"], json!([]));
    assert_eq!(run(&["--keep-going", &folder.path("")]).0, 78);
    assert_eq!(folder.read("a.yaml"), NEW);
    assert_eq!(run(&["--output", "json", &folder.path("b.yaml")]), (78, String::new()));
    for wrong in [&[][..], &["nowhere.yaml"], &["Cargo.toml"]] {
        assert_eq!(run(wrong).0, 2, "{wrong:?}");
    }
}

/// All configuration in this repository has current names.
#[test]
fn the_repository_has_current_names() {
    for path in [
        "config",
        "tests/golden",
        "tests/explain",
        "tests/fuzz/routes.yaml",
        "tests/page",
        "tests/store",
        "tests/conformance",
        "README.md",
        "src/config/rules",
        "deploy/compose.yaml",
        "deploy/kubernetes.yaml",
        "deploy/compose-replicas.yaml",
    ] {
        let out = succeeds(&["migrate", "--diff", path]);
        assert_eq!(out, "", "{path}");
    }
}

#[test]
fn an_old_variable_is_answered_with_its_new_name() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_glossator"));
    let output = command.env("GLOSSATOR__SERVER__DRAIN", "5s").args(["run", "--config", "config/demo.yaml"]);
    let output = output.current_dir(super::ROOT).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.contains(
            "GLOSSATOR__SERVER__DRAIN: error[G0102]: this variable was renamed to `GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT`"
        ),
        "{err}"
    );
}
