//! The command line, as a person uses it.

mod check;
mod explain;
mod import;
mod infer;
mod key;
mod migrate;
mod new;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use glossator::model::Schema;
use serde_json::{Value, json};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn glossator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glossator")).args(arguments).current_dir(ROOT).output().unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = glossator(arguments);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{arguments:?} gave {}\n{out}{err}", output.status);
    out
}

/// The warnings of a good file, as `check` prints them for programs.
#[track_caller]
fn warnings_of(file: &str) -> Vec<Value> {
    let checked = succeeds(&["check", "--config", file, "--output", "json"]);
    let found: Vec<Value> = serde_json::from_str(&checked).unwrap();
    found.into_iter().filter(|problem| problem["severity"] != "note").collect()
}

/// Temporary file, deleted when the test ends.
struct TemporaryFile(std::path::PathBuf);

impl TemporaryFile {
    fn new(name: &str, contents: impl AsRef<[u8]>) -> Self {
        let file = std::env::temp_dir().join(format!("glossator-it-{}-{name}", std::process::id()));
        std::fs::write(&file, contents).unwrap();
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// As with `glossator check 2>&1 | head`.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let bad = TemporaryFile::new("unread.yaml", "upstreams: 3\n");
    for arguments in [&["check", "--config", bad.path()][..], &["schema"], &["explain", "nothing"]] {
        let [out, err] = [(); 2].map(|()| {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer
        });
        let mut program = Command::new(env!("CARGO_BIN_EXE_glossator"));
        let status = program.args(arguments).current_dir(ROOT).stdout(out).stderr(err).status().unwrap();
        let expected = glossator(arguments).status;
        assert_eq!(status, expected, "{arguments:?}");
    }
}

/// Every sample configuration is valid, and its examples pass.
#[test]
fn everything_in_config_is_good() {
    let folder = Path::new(ROOT).join("config");
    let entries = [folder.join("examples"), folder].map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<_> = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 8);
    for file in files {
        let file = file.to_str().unwrap();
        assert_eq!(warnings_of(file), Vec::<Value>::new(), "{file} has warnings");
        assert!(succeeds(&["test", "--config", file]).contains(" 0 failed"));
    }
}

/// Every YAML block of the README and of the reference that is a whole file loads, and its examples pass.
#[test]
fn the_files_in_the_documents_are_good() {
    let chapters =
        ["configuration", "requests", "resources", "responses", "routes", "rules", "tests", "upstreams"];
    let chapters = chapters.map(|chapter| format!("config/book/reference/{chapter}.md"));
    for document in ["README.md".to_owned()].into_iter().chain(chapters) {
        let text = std::fs::read_to_string(Path::new(ROOT).join(&document)).unwrap();
        let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let whole: Vec<_> =
            blocks.filter(|block| block.contains("upstreams:") && block.contains("routes:")).collect();
        assert!(!whole.is_empty(), "{document} shows no configuration");
        for (number, block) in whole.into_iter().enumerate() {
            let file =
                std::env::temp_dir().join(format!("glossator-it-{}-{number}.yaml", std::process::id()));
            std::fs::write(&file, block).unwrap();
            succeeds(&["check", "--config", file.to_str().unwrap()]);
            succeeds(&["test", "--config", file.to_str().unwrap()]);
            std::fs::remove_file(file).unwrap();
        }
    }
}

/// Texts that such a route leaves out come from the server at run time.
#[test]
fn a_route_that_leaves_all_words_to_an_mcp_server_is_good() {
    for address in ["http://127.0.0.1:3000/mcp", "{ command: [/usr/bin/env, mcp-server] }"] {
        let text = format!(
            "upstreams: {{ tools: {{ mcp: {address}, tools: off }} }}\nroutes:\n  add: {{ request: CALL tools/add }}\n"
        );
        let file = TemporaryFile::new("call.yaml", text);
        let checked = glossator(&["check", "--config", file.path()]);
        let (out, err) =
            (String::from_utf8(checked.stdout).unwrap(), String::from_utf8(checked.stderr).unwrap());
        assert!(checked.status.success() && err.is_empty(), "{out}{err}");
        assert_eq!(out, format!("{}: good, 1 route and 1 upstream\n", file.path()));
    }
}

#[test]
fn a_wrong_file_and_a_wrong_usage_have_different_statuses() {
    let found = glossator(&["check", "--config", "tests/problems/unknown_key_at_the_root/config.yaml"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(!found.stderr.is_empty());
    assert_eq!(glossator(&["frobnicate"]).status.code(), Some(2));
    assert_eq!(
        glossator(&["explain", "nope", "--response", "x", "--config", "config/demo.yaml"]).status.code(),
        Some(2)
    );
    let missing = glossator(&["check", "--config", "config/nowhere.yaml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("config/nowhere.yaml"));
    assert_eq!(glossator(&["init", "x"]).status.code(), Some(2), "`infer` has one name");
}

#[test]
fn the_error_about_a_renamed_flag_names_the_new_one() {
    for (was, now) in [("--reply", "--response"), ("--type", "--content-type")] {
        let output = glossator(&["explain", "get_weather", was, "x", "--config", "config/demo.yaml"]);
        assert_eq!(output.status.code(), Some(2));
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.contains(&format!("`{was}` is now `{now}`")), "{err}");
    }
}

#[test]
fn the_error_about_a_file_without_its_flag_names_the_flag() {
    for arguments in [&["check", "routes.yaml"][..], &["run", "routes.yaml"], &["routes.yaml"]] {
        let output = glossator(arguments);
        assert_eq!(output.status.code(), Some(2));
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            err, "glossator: unexpected argument `routes.yaml`; write `--config routes.yaml`\n",
            "{arguments:?}"
        );
    }
    let other = String::from_utf8(glossator(&["check", "routes"]).stderr).unwrap();
    assert!(other.contains("unexpected argument 'routes' found"), "{other}");
}

/// JSON lines on standard error, with their levels.
#[track_caller]
fn json_lines(output: &Output) -> Vec<Value> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Result<Vec<Value>, _> = stderr.lines().map(serde_json::from_str).collect();
    let lines = lines.unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert!(!lines.is_empty() && lines.iter().all(|line| line["level"].is_string()), "{stderr}");
    lines
}

#[test]
fn problems_at_the_start_are_json_where_the_log_is() {
    let bad = "tests/problems/unknown_key_at_the_root/config.yaml";
    for command in ["run", "stdio", "cgi"] {
        for file in [bad, "config/nowhere.yaml"] {
            json_lines(&glossator(&[command, "--log-format", "json", "--config", file]));
        }
        let warned = TemporaryFile::new(
            &format!("warned-{command}.yaml"),
            "upstreams: { old: http://127.0.0.1:1 }\nroutes: { a: { request: GET old/a } }\nserver: { listen: '192.0.2.1:1' }\nlog: { format: json }\n",
        );
        let lines = json_lines(&glossator(&[command, "--config", warned.path()]));
        let warning = lines.iter().find(|line| line.to_string().contains("has no `description`"));
        assert_eq!(warning.unwrap()["level"], "WARN", "{command}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for listen in [address.as_str(), "nowhere"] {
        json_lines(&glossator(&["demo", "--log-format", "json", "--listen", listen]));
    }
}

#[test]
fn usage_errors_are_json_if_the_log_is() {
    for arguments in [
        &["run", "--log-format", "json", "--nothing"][..],
        &["--log-format=json", "frobnicate"],
        &["stdio", "--nothing", "--log-format", "json"],
    ] {
        let output = glossator(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let [line] = &json_lines(&output)[..] else { panic!("{output:?}") };
        let message = line["message"].as_str().unwrap();
        assert!(line["level"] == "ERROR" && message.contains("Usage"), "{line}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_glossator"));
    let command = command.arg("--nothing").env("GLOSSATOR__LOG__FORMAT", "json");
    json_lines(&command.output().unwrap());
    let text = String::from_utf8(glossator(&["run", "--nothing"]).stderr).unwrap();
    assert!(text.starts_with("error: "), "{text}");
}

#[test]
fn permanent_failures_have_their_own_exit_status() {
    for command in ["run", "stdio", "cgi", "test"] {
        for file in ["tests/problems/unknown_key_at_the_root/config.yaml", "config/nowhere.yaml"] {
            let output = glossator(&[command, "--config", file]);
            assert_eq!(output.status.code(), Some(78), "{command} {file}");
            assert!(!output.stderr.is_empty(), "{command} {file}");
        }
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = glossator(&["run", "--config", "config/demo.yaml", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1), "the port may be free at the next try");
    assert!(String::from_utf8(output.stderr).unwrap().contains(&address));
}

#[test]
fn the_default_paths_are_tried_in_order() {
    let folder = std::env::temp_dir().join(format!("glossator-it-{}-default", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glossator"));
        command.arg("check").current_dir(&folder).output().unwrap()
    };
    let missing = check();
    std::fs::write(
        folder.join("glossator.yaml"),
        "upstreams: { old: http://127.0.0.1:9 }\npassthrough: old\n",
    )
    .unwrap();
    let found = check();
    std::fs::remove_dir_all(&folder).unwrap();
    let stderr = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(78), "{stderr}");
    for place in ["`./glossator.yaml`", "`/etc/glossator/glossator.yaml`", "--config"] {
        assert!(stderr.contains(place), "{stderr}");
    }
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    assert!(String::from_utf8(found.stdout).unwrap().starts_with("glossator.yaml: good"));
}

#[test]
fn a_failed_example_shows_its_position_and_both_sides() {
    let file = std::env::temp_dir().join(format!("glossator-it-{}-test.yaml", std::process::id()));
    let routes = "upstreams: { old: http://127.0.0.1:9 }\nroutes:\n  tool:\n    description: d\n    request: GET old/x\n    tests:\n      \
                  - response: { content_type: text/plain, body: five }\n        expect: { text: six }\n";
    std::fs::write(&file, routes).unwrap();
    let failed = glossator(&["test", "--config", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let out = String::from_utf8(failed.stdout).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{out}");
    for part in ["test tool/1 ... FAILED", ":8:", "- six", "+ five", "0 passed, 1 failed in 1 route"] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
}

#[test]
fn examples_are_chosen_by_route_and_by_name() {
    let example = "      - { name: cold, response: { content_type: text/plain, body: \"1\" }, expect: { text: \"1\" } }\n      \
                   - { name: warm, response: { content_type: text/plain, body: \"2\" }, expect: { text: \"2\" } }\n";
    let route =
        |name: &str| format!("  {name}:\n    description: d\n    request: GET old/x\n    tests:\n{example}");
    let routes = format!(
        "upstreams: {{ old: http://127.0.0.1:9 }}\nroutes:\n{}{}{}",
        route("a"),
        route("a_cold"),
        route("b")
    );
    let file = TemporaryFile::new("choose.yaml", routes);
    let run = |more: &[&str]| {
        let arguments: Vec<&str> = ["test", "--config", file.path()].iter().chain(more).copied().collect();
        let output = glossator(&arguments);
        (output.status.code(), [output.stdout, output.stderr].concat())
    };
    for (more, passed, routes) in [
        (&[][..], 6, "3 routes"),
        (&["--route", "a"], 2, "1 route"),
        (&["--route", "a", "--route", "b"], 4, "2 routes"),
        (&["cold"], 4, "3 routes"),
        (&["cold", "--route", "a"], 1, "1 route"),
        (&["b/"], 2, "1 route"),
        (&["b/warm"], 1, "1 route"),
    ] {
        let (code, out) = run(more);
        let out = String::from_utf8(out).unwrap();
        let last = format!("{passed} passed, 0 failed in {routes}\n");
        assert!(code == Some(0) && out.ends_with(&last), "{more:?}: {out}");
    }
    for (more, part) in [
        (&["--route", "c"][..], "there is no route `c`; there are `a`, `a_cold`, `b`"),
        (&["hot"], "no test has `hot` in its name"),
        (&["b/", "--route", "a"], "no test of `a` has `b/` in its name"),
    ] {
        let (code, out) = run(more);
        let out = String::from_utf8(out).unwrap();
        assert!(code == Some(2) && out.contains(part), "{more:?}: {out}");
    }
}

#[test]
fn an_unknown_route_is_an_error_even_if_there_are_no_routes() {
    let file =
        TemporaryFile::new("no-routes.yaml", "upstreams: { old: 'http://127.0.0.1:9' }\npassthrough: old\n");
    let output = glossator(&["test", "--route", "x", "--config", file.path()]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && err.contains("no route `x`; there are none\n"), "{err}");
}

#[test]
fn update_writes_actual_results_and_keeps_the_rest_of_the_file() {
    let file = std::env::temp_dir().join(format!("glossator-it-{}-update.yaml", std::process::id()));
    let before = "# Kept.\nupstreams: { old: 'http://127.0.0.1:9' }\nroutes:\n  tool:\n    description: d # Kept.\n    request: GET old/x\n    \
                  tests:\n      - response: { content_type: text/plain, body: five } # Kept.\n        expect: { text: six } # Kept.\n      \
                  - { response: { content_type: text/plain, body: seven }, expect: {} }\n      \
                  - { response: { content_type: text/plain, body: \"8\" }, expect: { isError: true, text: x } }\n      \
                  - name: new\n        response: { content_type: text/plain, body: nine }\n";
    std::fs::write(&file, before).unwrap();
    let path = file.to_str().unwrap();
    let first = glossator(&["test", "--update", "--config", path]);
    let after = std::fs::read_to_string(&file).unwrap();
    let second = glossator(&["test", "--config", path]);
    std::fs::remove_file(&file).unwrap();
    let out = String::from_utf8(first.stdout).unwrap();
    assert!(first.status.success() && out.contains("4 updated"), "{out}");
    let expected = before
        .replace("text: six", "text: five")
        .replace("expect: {}", "expect: { structuredContent: { result: seven } }")
        .replace("{ isError: true, text: x }", "{ structuredContent: { result: \"8\" } }")
        + "        expect: { structuredContent: { result: nine } }\n";
    assert_eq!(after, expected);
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stdout));
}

#[test]
fn an_expected_part_that_the_result_lacks_is_a_difference() {
    let file = TemporaryFile::new(
        "lacks.yaml",
        "upstreams: { old: 'http://127.0.0.1:9' }\nroutes:\n  tool:\n    description: d\n    \
         request: GET old/x\n    tests:\n      \
         - { response: { content_type: image/png, body: \"\\0\" }, expect: { text: l, structuredContent: { a: 1 } } }\n",
    );
    let failed = glossator(&["test", "--output", "json", "--config", file.path()]);
    let json: Value = serde_json::from_slice(&failed.stdout).unwrap();
    let differences = json["tests"][0]["differences"].as_array().unwrap();
    let found: Vec<_> =
        differences.iter().map(|difference| (&difference["what"], &difference["found"])).collect();
    assert_eq!(
        found,
        [(&json!("structuredContent"), &json!("nothing")), (&json!("text"), &json!("nothing"))]
    );
}

#[test]
fn update_of_an_alias_changes_its_anchor_or_writes_two_values() {
    let file_of = |expect: &str, body: &str| {
        format!(
            "upstreams: {{ old: 'http://127.0.0.1:9' }}\nroutes:\n  tool:\n    description: d\n    request: GET old/x\n    \
             tests:\n      - response: {{ content_type: application/json, body: '{body}' }}\n        \
             expect: {{ structuredContent: {{ {expect} }} }}\n"
        )
    };
    let before = "a: &x a long text that is replaced, b: *x";
    for (body, expected) in
        [(r#"{"a": "c", "b": "c"}"#, "a: &x c, b: *x"), (r#"{"a": "c", "b": "d"}"#, "a: c, b: d")]
    {
        let file = TemporaryFile::new("update-alias.yaml", file_of(before, body));
        succeeds(&["test", "--update", "--config", file.path()]);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), file_of(expected, body));
    }
}

#[test]
fn update_writes_an_error_in_place_of_a_success_only_with_accept_errors() {
    let before = "upstreams: { old: 'http://127.0.0.1:9' }\nroutes:\n  tool:\n    description: d\n    \
                  request: GET old/x\n    tests:\n      \
                  - response: { status: 404, content_type: text/plain, body: no such }\n        \
                  expect: { text: such }\n";
    let file = TemporaryFile::new("update-errors.yaml", before);
    let refused = glossator(&["test", "--update", "--config", file.path()]);
    let out = [refused.stdout, refused.stderr].map(|out| String::from_utf8(out).unwrap()).concat();
    assert_eq!(refused.status.code(), Some(1), "{out}");
    for part in [
        "test tool/1 ... FAILED: a success has become an error\n",
        "0 passed, 1 failed, 0 updated in 1 route",
        "tool/1 is unchanged: a success has become an error; `--accept-errors` writes it",
    ] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), before);
    let out = succeeds(&["test", "--update", "--accept-errors", "--config", file.path()]);
    assert!(out.contains("test tool/1 ... updated: a success has become an error\n"), "{out}");
    let expected = before.replace("{ text: such }", "{ isError: true, text: such }");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), expected);
    let alone = glossator(&["test", "--accept-errors", "--config", file.path()]);
    assert_eq!(alone.status.code(), Some(2), "{}", String::from_utf8_lossy(&alone.stderr));
}

#[test]
fn only_the_updated_one_of_two_tests_with_the_same_name_is_shown_as_updated() {
    let file = TemporaryFile::new(
        "same-name.yaml",
        "upstreams: { old: 'http://127.0.0.1:9' }\nroutes:\n  tool:\n    description: d\n    \
         request: GET old/x\n    tests:\n      \
         - { name: \"2\", response: { content_type: text/plain, body: a }, expect: { text: b } }\n      \
         - { response: { status: 404, content_type: text/plain, body: no }, expect: { text: b } }\n",
    );
    let output = glossator(&["test", "--update", "--config", file.path()]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("test tool/2 ... updated\n") && out.contains("test tool/2 ... FAILED"), "{out}");
}

#[test]
fn update_writes_an_error_as_the_first_expectation_only_with_accept_errors() {
    let before = "upstreams: { old: 'http://127.0.0.1:9' }\nroutes:\n  tool:\n    description: d\n    \
                  request: GET old/x\n    tests:\n      \
                  - { response: { status: 404, content_type: text/plain, body: none }, expect: {} }\n      \
                  - response: { status: 404, content_type: text/plain, body: no such }\n";
    let file = TemporaryFile::new("first-errors.yaml", before);
    let refused = glossator(&["test", "--update", "--config", file.path()]);
    let out = [refused.stdout, refused.stderr].map(|out| String::from_utf8(out).unwrap()).concat();
    assert_eq!(refused.status.code(), Some(1), "{out}");
    for part in [
        "test tool/1 ... FAILED: the result is an error\n",
        "no `expect` yet; `--update --accept-errors` writes the result",
        "0 passed, 2 failed, 0 updated in 1 route",
        "tool/2 is unchanged: the result is an error; `--accept-errors` writes it",
    ] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), before);
    let out = succeeds(&["test", "--update", "--accept-errors", "--config", file.path()]);
    assert!(out.contains("0 passed, 0 failed, 2 updated in 1 route"), "{out}");
    let expected = before.replace("expect: {}", "expect: { isError: true, text: none }")
        + "        expect: { isError: true, text: no such }\n";
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), expected);
}

#[test]
fn update_writes_another_error_in_place_of_an_error_only_with_accept_errors() {
    let before = "upstreams: { old: 'http://127.0.0.1:9' }\nroutes:\n  tool:\n    description: d\n    \
                  request: GET old/x\n    tests:\n      \
                  - response: { status: 404, content_type: text/plain, body: none }\n        \
                  expect: { isError: true, text: no such city }\n";
    let file = TemporaryFile::new("other-errors.yaml", before);
    let refused = glossator(&["test", "--update", "--config", file.path()]);
    let out = [refused.stdout, refused.stderr].map(|out| String::from_utf8(out).unwrap()).concat();
    assert_eq!(refused.status.code(), Some(1), "{out}");
    let unchanged = "tool/1 is unchanged: the error is another one; `--accept-errors` writes it";
    assert!(out.contains(unchanged), "{out}");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), before);
    succeeds(&["test", "--update", "--accept-errors", "--config", file.path()]);
    let expected = before.replace("no such city", "none");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), expected);
}

#[test]
fn check_lists_tools_without_an_output_schema_and_the_reason() {
    let routes = "upstreams: { old: http://127.0.0.1:9 }\nroutes:\n  \
                  a: { description: d, request: GET old/a }\n  \
                  b: { description: d, request: GET old/b }\n  \
                  c: { description: d, request: GET old/c, response: { extract: json, structured: .x } }\n  \
                  d: { description: d, request: GET old/d, response: { extract: { html: { select: { x: p } } } } }\n  \
                  e: { description: d, request: GET old/e, output: { type: object }, response: { extract: json } }\n  \
                  f: { description: d, request: GET old/f, response: [ { use: odata } ] }\n  \
                  g:\n    description: d\n    request: GET old/g\n    response:\n      \
                  - use: html_message\n      - extract: json\n";
    let file = TemporaryFile::new("promise.yaml", routes);
    let out = succeeds(&["check", "--config", file.path()]);
    let lines: Vec<&str> = out.lines().skip(1).collect();
    let expected = [
        "no output schema: `f`, because a rule of `odata` changes the value with `structured`",
        "no output schema: `a`, `b`, because no rule defines the shape of a success",
        "no output schema: `c`, because rule 1 changes the value with `structured`",
        "no output schema: `g`, because the rule in line 14 has an extractor without `fields`",
        "A tool gets one from `output`, or from `fields` with types in each of its rules.",
    ];
    assert_eq!(lines, expected, "{out}");
    let notes: Vec<Value> =
        serde_json::from_str(&succeeds(&["check", "--config", file.path(), "--output", "json"])).unwrap();
    assert_eq!(notes.len(), 5);
    assert_eq!(
        (&notes[2]["severity"], &notes[2]["code"], &notes[2]["line"]),
        (&json!("note"), &json!("G0524"), &json!(5))
    );
    let message = "`c` has no output schema, because rule 1 changes the value with `structured`";
    assert_eq!(notes[2]["message"], message);
}

#[test]
fn explain_prints_every_step() {
    let recording = std::env::temp_dir().join(format!("glossator-it-{}.http", std::process::id()));
    std::fs::write(
        &recording,
        "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nStation: Oslo\nTemp: 5.0\nSky: Grey\nRain: no\n",
    )
    .unwrap();
    let explained = succeeds(&[
        "explain",
        "get_weather",
        "--response",
        recording.to_str().unwrap(),
        "--config",
        "config/demo.yaml",
    ]);
    let rejected = succeeds(&[
        "explain",
        "get_weather",
        "--response",
        recording.to_str().unwrap(),
        "--status",
        "404",
        "--args",
        "{\"city\": \"Paris\"}",
        "--config",
        "config/demo.yaml",
    ]);
    std::fs::remove_file(&recording).unwrap();
    for part in [
        "rule 1",
        "`status` is 200, expected `404`",
        "rule 2",
        "matches",
        "extract pairs",
        "schema",
        "5.0 °C in Oslo, grey.",
        "tool result",
    ] {
        assert!(explained.contains(part), "{part} is missing in\n{explained}");
    }
    assert!(
        rejected.contains("tool error") && rejected.contains("There is no station in Paris"),
        "{rejected}"
    );
    let request = succeeds(&[
        "explain",
        "book_visit",
        "--args",
        "{\"station\": 1, \"day\": \"monday\"}",
        "--config",
        "config/demo.yaml",
    ]);
    assert!(request.contains("POST /visits") && request.contains("station=1&day=monday"), "{request}");
}

#[test]
fn explain_names_the_named_rules_that_decided() {
    let folder = std::env::temp_dir().join(format!("glossator-it-named-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (config, recording) = (folder.join("config.yaml"), folder.join("response.http"));
    std::fs::write(
        &config,
        "upstreams: { old: http://127.0.0.1:9000 }\nrules:\n  report: { extract: json }\n\
         defaults:\n  response: { use: error_key }\nroutes:\n  \
         call:\n    description: d\n    request: POST /x\n    response: { use: jsonrpc }\n  \
         read:\n    description: d\n    request: GET /x\n    response: [{ when: { status: 404 }, error: none }, { use: report }]\n  \
         rest:\n    description: d\n    request: GET /y\n",
    )
    .unwrap();
    let explain = |route: &str, body: &str, output: &[&str]| {
        std::fs::write(
            &recording,
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}"),
        )
        .unwrap();
        let (config, recording) = (config.to_str().unwrap(), recording.to_str().unwrap());
        succeeds(&[&["explain", route, "--response", recording, "--config", config], output].concat())
    };
    let failed = explain("call", r#"{"error": {"message": "no such block"}}"#, &[]);
    assert!(failed.contains("from jsonrpc > json_failure: matches"), "{failed}");
    let done = explain("call", r#"{"result": 5}"#, &[]);
    assert!(done.contains("from jsonrpc > json_failure: does not match: `json`: "), "{done}");
    assert!(done.contains("from jsonrpc: matches"), "{done}");
    let read = explain("read", "5", &[]);
    assert!(read.contains("from report: matches"), "{read}");
    let rest = explain("rest", r#"{"error": "away"}"#, &["--output", "json"]);
    assert!(rest.contains("from defaults > error_key > json_failure: matches"), "{rest}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// An editor with the JSON Schema reports the same as `check`.
#[test]
fn the_schema_accepts_a_valid_file_and_rejects_an_invalid_one() {
    let schema: Value = serde_json::from_str(&succeeds(&["schema"])).unwrap();
    let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
    let file =
        |route: Value| json!({ "upstreams": { "old": "http://127.0.0.1:9" }, "routes": { "tool": route } });
    let good = json!({ "description": "d", "request": "GET old/x/{city}", "timeout": "2s",
        "response": [{ "when": { "status": 404 }, "error": "no {{ args.city }}" },
            { "extract": { "pairs": { "separator": ":", "fields": { "temp": "number" } } }, "content": "{{ structured.temp }}" }] });
    assert_eq!(schema.violations(&file(good), 8), []);
    for wrong in [
        json!({ "request": "GET old/x", "replies": [] }),
        json!({ "request": "GET old/x", "envelope": "soap" }),
        json!({ "request": "GET old/x", "response": { "extract": { "paris": {} } } }),
        json!({ "request": "GET old/x", "output": [] }),
    ] {
        assert!(!schema.accepts(&file(wrong.clone())), "{wrong}");
    }
}

/// An editor without access to the network would complete and check nothing.
#[test]
fn schema_refers_to_no_other_document() {
    fn check(value: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    assert!(reference.starts_with("#/$defs/"), "{reference}");
                }
                members.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&serde_json::from_str(&succeeds(&["schema"])).unwrap());
}

/// The demo, its seven tools, and Ctrl-C.
#[test]
fn the_demo_serves_until_ctrl_c() {
    let mut demo = Demo::start();
    for (tool, arguments, status, part) in [
        ("get_weather", json!({"city": "Oslo"}), 200, "5.0 °C in Oslo, cloudy."),
        ("get_weather", json!({"city": "Paris"}), 404, "There is no station in Paris"),
        ("get_weather", json!({}), 400, "argument `city` is required"),
        ("get_station", json!({"id": 3}), 200, "\"height_m\": 100.0"),
        ("list_stations", json!({}), 200, "{\"result\":[{\"id\": 1"),
        ("count_stations", json!({}), 200, "{\"result\":3}"),
        ("book_visit", json!({"station": 2, "day": "friday"}), 409, "closed on friday"),
        ("book_visit", json!({"station": 2, "day": "monday"}), 200, "V-1998-0042"),
        ("get_statistics", json!({}), 502, "status 500"),
        ("get_radar", json!({}), 504, "within 1"),
    ] {
        let (found, body) = demo.post(&format!("/tools/{tool}"), &arguments.to_string());
        assert_eq!(found, status, "{tool}: {body}");
        assert!(body.contains(part), "{tool}: {body}");
        assert!(!body.contains("java") && !body.contains("10.1.2.3"), "{body}");
        let result: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(result["isError"], status != 200);
    }
    assert!(demo.interrupt().success(), "Ctrl-C ends the demo cleanly");
}

struct Demo {
    child: Child,
    address: String,
    _out: BufReader<ChildStdout>,
}

impl Demo {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_glossator"))
            .args(["demo", "--listen", "127.0.0.1:0", "--log-level", "off"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect(&line).to_owned();
        Self { child, address, _out: out }
    }

    /// Sends one request, and returns status and body.
    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}",
            self.address
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    fn interrupt(&mut self) -> std::process::ExitStatus {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

/// A failed test leaves no process behind.
impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
