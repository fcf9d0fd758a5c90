//! `glossator check`: its forms, colours, counts and exit statuses.

use std::os::unix::ffi::OsStrExt;

use super::*;

/// One error and one warning.
const BROKEN: &str = "upstreams: { old: http://127.0.0.1:9, idle: http://127.0.0.1:9 }\n\
                      routes:\n  \
                      get: { description: d, request: GET old/get, timout: 5s }\n  \
                      put: { request: GET old/put }\n";
/// Good, with one warning.
const WARNED: &str = "upstreams: { old: http://127.0.0.1:9 }\nroutes:\n  get: { request: GET old/get }\n";

fn check(file: &TemporaryFile, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = glossator(&[&["check", "--config", file.path()], arguments].concat());
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn the_last_line_counts_errors_and_warnings() {
    let broken = TemporaryFile::new("count-broken.yaml", BROKEN);
    let (status, out, err) = check(&broken, &[]);
    assert_eq!((status, out), (Some(1), format!("{}: 1 error, 1 warning\n", broken.path())), "{err}");
    assert!(err.contains(":3:48: error[G0101]: unknown key `timout` in a route\n"), "{err}");
    assert!(err.contains(":4:3: warning[G0412]: "), "{err}");
    let warned = TemporaryFile::new("count-warned.yaml", WARNED);
    let (status, out, _) = check(&warned, &[]);
    assert!(out.contains(": good, 1 route and 1 upstream; 0 errors, 1 warning\n"), "{out}");
    assert_eq!(status, Some(0));
}

#[test]
fn denied_warnings_are_a_failure() {
    let warned = TemporaryFile::new("denied.yaml", WARNED);
    let (status, out, _) = check(&warned, &["--deny-warnings"]);
    assert_eq!(status, Some(1));
    assert!(out.starts_with(&format!("{}: 0 errors, 1 warning\n", warned.path())), "{out}");
    let good =
        TemporaryFile::new("denied-good.yaml", WARNED.replace("{ request", "{ description: d, request"));
    assert_eq!(check(&good, &["--deny-warnings"]).0, Some(0));
}

#[test]
fn colours_are_for_terminals_or_on_request() {
    let broken = TemporaryFile::new("colour.yaml", BROKEN);
    for (arguments, is_coloured) in
        [(&[][..], false), (&["--color", "always"], true), (&["--color", "never"], false)]
    {
        let (_, out, err) = check(&broken, arguments);
        assert_eq!(out.contains('\u{1b}'), is_coloured, "{arguments:?}");
        assert_eq!(err.contains("\u{1b}[1;31merror[G0101]\u{1b}[0m: "), is_coloured, "{err}");
    }
}

#[test]
fn programs_read_an_array_of_objects() {
    let broken = TemporaryFile::new("array.yaml", BROKEN);
    let (status, out, err) = check(&broken, &["--output", "json"]);
    let problems: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!((status, problems.len(), err.as_str()), (Some(1), 2, ""));
    let expected = json!({
        "severity": "error", "code": "G0101", "file": broken.path(), "line": 3, "column": 48,
        "message": "unknown key `timout` in a route", "help": "did you mean `timeout`?",
    });
    assert_eq!(problems[0], expected);
}

#[test]
fn github_reads_workflow_commands() {
    let broken = TemporaryFile::new("github.yaml", BROKEN);
    let (status, out, err) = check(&broken, &["--output", "github"]);
    assert_eq!((status, out.lines().count(), err.as_str()), (Some(1), 2, ""));
    let first = format!(
        "::error file={},line=3,col=48,title=G0101::unknown key `timout` in a route%0Ahelp: did you mean `timeout`?",
        broken.path()
    );
    assert_eq!(out.lines().next(), Some(first.as_str()));
    assert!(out.lines().nth(1).unwrap().starts_with("::warning file="), "{out}");
}

#[test]
fn code_scanning_reads_sarif() {
    let broken = TemporaryFile::new("sarif.yaml", BROKEN);
    let (status, out, _) = check(&broken, &["--output", "sarif"]);
    let log: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &log["version"]), (Some(1), &json!("2.1.0")));
    let run = &log["runs"][0];
    let rules: Vec<_> =
        run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    assert_eq!(rules, [&json!("G0101"), &json!("G0412")]);
    let levels: Vec<_> = run["results"].as_array().unwrap().iter().map(|result| &result["level"]).collect();
    assert_eq!(levels, [&json!("error"), &json!("warning")]);
}

#[test]
fn a_code_is_explained() {
    let text = succeeds(&["check", "--explain", "g0303"]);
    assert!(text.starts_with("G0303: No route uses the upstream.\n\n"), "{text}");
    assert!(text.contains("```yaml\n"), "{text}");
    let json: Value =
        serde_json::from_str(&succeeds(&["check", "--explain", "G0107", "--output", "json"])).unwrap();
    assert_eq!(json["code"], "G0107");
    assert_eq!(glossator(&["check", "--explain", "G9999"]).status.code(), Some(2));
}

#[test]
fn a_setting_that_is_not_utf8_is_an_error() {
    let token = std::ffi::OsStr::from_bytes(b"s3cr3t\xff");
    let mut command = Command::new(env!("CARGO_BIN_EXE_glossator"));
    command.env("GLOSSATOR__ADMIN__TOKEN", token).args(["check", "--config", "config/demo.yaml"]);
    let output = command.current_dir(ROOT).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let expected = "GLOSSATOR__ADMIN__TOKEN: error[G0002]: the value of this variable is not UTF-8";
    assert!(text.contains(expected) && !text.contains("s3cr3t"), "{text}");
}
