//! `glossator explain`, word for word: one folder per case under `tests/explain`.
//!
//! `config.yaml` has a route `get_report`, `response.http` is the response, `arguments.json` has the
//! arguments of the call, if there are any. `expected.txt` is the output. `UPDATE_GOLDEN=1 cargo test --test
//! it cli::explain` rewrites it; read the diff.

use std::{fs, path::Path};

use super::{ROOT, TemporaryFile, glossator, succeeds};

#[test]
fn every_explain_folder_has_its_expected_output() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let root = Path::new(ROOT).join("tests/explain");
    let mut cases: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 3, "cases are missing: found {}", cases.len());
    let mut different = Vec::new();
    for case in cases {
        let file = |name: &str| case.join(name).to_str().unwrap().to_owned();
        let (config, response) = (file("config.yaml"), file("response.http"));
        let mut arguments = vec!["explain", "get_report", "--config", &config, "--response", &response];
        let given = fs::read_to_string(file("arguments.json")).ok();
        if let Some(given) = &given {
            arguments.extend(["--args", given]);
        }
        let found = succeeds(&arguments);
        if update {
            fs::write(file("expected.txt"), &found).unwrap();
        } else if fs::read_to_string(file("expected.txt")).unwrap_or_default() != found {
            different.push(format!("{}\n{found}", case.display()));
        }
    }
    assert!(different.is_empty(), "what is told differs:\n{}", different.join("\n"));
}

#[test]
fn unused_arguments_about_a_response_are_errors() {
    let config = TemporaryFile::new(
        "said.yaml",
        "upstreams: { legacy: http://127.0.0.1:9 }\nroutes:\n  get_report:\n    description: A report.\n    request: GET legacy/\n    response:\n      - extract: text\n",
    );
    let whole = TemporaryFile::new("said.http", "HTTP/1.1 200 OK\r\n\r\na");
    let body = TemporaryFile::new("said.txt", "a");
    for (option, value, part) in [
        ("--status", "99", "'99' for '--status <CODE>': expected a status from 100 to 599"),
        ("--status", "600", "'600' for '--status <CODE>': expected a status from 100 to 599"),
        ("--content-type", "plain", "expected a media type such as `text/plain`"),
    ] {
        let arguments =
            ["explain", "get_report", "--config", config.path(), "--response", body.path(), option, value];
        let output = glossator(&arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(part), "{arguments:?}: {stderr}");
    }
    let explain = |response: &TemporaryFile| {
        let arguments = ["explain", "get_report", "--config", config.path(), "--response", response.path()];
        let ignored_flags = ["--status", "404", "--content-type", "text/html; charset=utf-8"];
        let output = glossator(&[&arguments[..], &ignored_flags].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(explain(&body), "");
    assert_eq!(
        explain(&whole),
        "`--status` overrides the value of the recording, 200 OK\n\
         `--content-type` overrides the value of the recording, no media type\n"
    );
}

#[test]
fn failures_are_written_as_json_on_request() {
    let bad = TemporaryFile::new("failures-bad.yaml", "routes: 5\n");
    let good = TemporaryFile::new(
        "failures-good.yaml",
        "upstreams: { legacy: http://127.0.0.1:9 }\nroutes:\n  get_report:\n    description: A report.\n    request: GET legacy/\n",
    );
    for (arguments, member) in [
        (vec!["test", "--config", bad.path()], "problems"),
        (vec!["explain", "x", "--config", bad.path()], "problems"),
        (vec!["test", "--config", "/nowhere.yaml"], "problems"),
        (vec!["test", "--config", good.path(), "--route", "x"], "error"),
        (vec!["explain", "x", "--config", good.path()], "error"),
        (vec!["explain", "get_report", "--config", good.path(), "--response", "/nowhere"], "error"),
        (vec!["infer", "/nowhere"], "error"),
    ] {
        let output = glossator(&[&arguments[..], &["--output", "json"]].concat());
        let output_json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
        assert!(output_json["ok"] == false && !output_json[member].is_null(), "{arguments:?}: {output_json}");
    }
}

#[test]
fn a_resource_is_explained_by_its_uri() {
    let config = TemporaryFile::new(
        "resource.yaml",
        "upstreams: { legacy: http://127.0.0.1:9 }\nroutes:\n  page: { description: A page., request: \"GET legacy/pages/{number}\", resource: \"book://{number}\" }\n",
    );
    let stdout = succeeds(&["explain", "book://7%208", "--config", config.path()]);
    assert!(stdout.starts_with("GET /pages/7%208"), "{stdout}");
    let body = TemporaryFile::new("resource.txt", "a page");
    let stdout = succeeds(&["explain", "book://7", "--config", config.path(), "--response", body.path()]);
    assert!(stdout.contains("tool result") && stdout.contains("a page"), "{stdout}");
    assert_eq!(glossator(&["explain", "book://7/8", "--config", config.path()]).status.code(), Some(2));
}

#[test]
fn a_request_is_shown_as_the_upstream_gets_it() {
    let config = TemporaryFile::new(
        "sent.yaml",
        "upstreams:\n  soap:\n    url: http://127.0.0.1:9/demo\n    headers: { Content-Type: text/xml, X-A: 1, X-Key: \"${KEY:-k3y}\" }\n    \
         credentials: { basic: { user: u, password: \"${PASSWORD:-pa55}\" } }\n  \
         hook:\n    url: \"http://127.0.0.1:9${HOOK:-/T000/B111}\"\n\
         routes:\n  x: { description: X., request: { method: POST, upstream: soap, path: /x, headers: { X-A: 2, X-B: 3, Authorization: none }, body: { xml: <a/> } } }\n  \
         y: { description: Y., request: GET hook/y }\n",
    );
    let shown = succeeds(&["explain", "x", "--config", config.path(), "--args", "{}"]);
    let (line, rest) = shown.split_once('\n').unwrap();
    let (headers, body) = rest.split_once("\n\n").unwrap();
    let mut headers: Vec<&str> = headers.lines().collect();
    headers.sort_unstable();
    let expected =
        ["authorization: [redacted]", "content-type: text/xml", "x-a: 1", "x-b: 3", "x-key: [redacted]"];
    assert_eq!((line, headers, body), ("POST /demo/x   (to upstream `soap`)", expected.to_vec(), "<a/>\n"));
    let shown = succeeds(&["explain", "y", "--config", config.path(), "--output", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["target"], "/…/y");
}

#[test]
fn an_argument_that_a_cgi_program_cannot_get_is_an_error() {
    let config = TemporaryFile::new(
        "segments.yaml",
        "upstreams: { git: { cgi: /bin/true }, web: http://127.0.0.1:9 }\nroutes:\n  \
         log: { description: A log., request: \"GET git/{repo}/log/\" }\n  \
         page: { description: A page., request: \"GET web/{repo}/log/\" }\n",
    );
    let explained = |route: &str| {
        succeeds(&["explain", route, "--config", config.path(), "--args", r#"{"repo": "a/b"}"#])
    };
    let shown = explained("log");
    assert!(shown.starts_with("arguments    invalid; no request is sent to the upstream\n"), "{shown}");
    assert!(shown.contains("argument `repo` must not contain `/`"), "{shown}");
    assert_eq!(explained("page"), "GET /a%2Fb/log/   (to upstream `web`)\n");
}

#[test]
fn a_command_is_explained_by_its_words_and_by_its_end() {
    let config = ["--config", "config/examples/commands.yaml"];
    let explained = |more: &[&str]| succeeds(&[&["explain", "find_lines"], &config[..], more].concat());
    let args = r#"{"pattern": "it's", "text": "one\ntwo", "most": 3}"#;
    let shown = explained(&["--args", args]);
    let expected = r"grep --ignore-case --max-count=3 '--regexp=it'\''s'   (the command `search`)";
    assert_eq!(shown, format!("{expected}\n\none\ntwo\n"));
    let json: serde_json::Value =
        serde_json::from_str(&explained(&["--args", args, "--output", "json"])).unwrap();
    assert_eq!(json["command"][3], "--regexp=it's");
    let nothing = TemporaryFile::new("nothing.txt", "");
    let response = ["--response", nothing.path()];
    let stdout = explained(&[&response[..], &["--exit-status", "1", "--args", args]].concat());
    assert!(stdout.starts_with("output       exit status 1, 0 bytes\nrule 1       matches\n"), "{stdout}");
    let without_response = explained(&["--exit-status", "1", "--stderr", "no such file", "--args", args]);
    assert!(without_response.starts_with("output       exit status 1, 0 bytes\n"), "{without_response}");
    let stdout = explained(
        &[&response[..], &["--exit-status", "SIGKILL", "--stderr", "killed", "--args", args]].concat(),
    );
    assert!(
        stdout.contains("does not match: exit status is SIGKILL, expected `exit_status` to be `1`"),
        "{stdout}"
    );
    assert!(stdout.contains("was terminated by signal SIGKILL"), "{stdout}");
    for (option, value) in [("--status", "200"), ("--content-type", "text/plain"), ("--exit-status", "300")] {
        let wrong = [&["explain", "find_lines"], &config[..], &response[..], &[option, value]].concat();
        assert!(!glossator(&wrong).status.success(), "{option}");
    }
    let of_a_server = ["explain", "get_weather", "--config", "config/demo.yaml", "--exit-status", "1"];
    assert!(!glossator(&[&of_a_server[..], &response[..]].concat()).status.success());
}

#[test]
fn an_mcp_response_has_the_given_media_type_or_its_own_but_not_that_of_the_recording() {
    let config = ["explain", "close_issue", "--config", "config/examples/mcp-servers.yaml", "--response"];
    let body = TemporaryFile::new("tool.txt", r#"{"content": [{"type": "text", "text": "closed"}]}"#);
    let explained = |more: &[&str]| succeeds(&[&config[..], &[body.path()], more].concat());
    assert!(explained(&[]).starts_with("response     200 OK, application/vnd.mcp+json, "));
    let given = explained(&["--content-type", "text/plain"]);
    assert!(given.starts_with("response     200 OK, text/plain, "), "{given}");

    let message = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"closed"}]}}"#;
    let sent = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{message}");
    let recording = TemporaryFile::new("tool.http", &sent);
    let explained = succeeds(&[&config[..], &[recording.path()]].concat());
    assert!(explained.starts_with("response     200 OK, application/vnd.mcp+json, "), "{explained}");
    assert!(explained.contains("\ncontent      text \"closed\"\n"), "{explained}");
}

#[test]
fn a_recorded_mcp_response_of_a_test_has_not_the_media_type_of_the_recording() {
    let message = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"closed"}]}}"#;
    let sent = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{message}");
    let recording = TemporaryFile::new("tested.http", &sent);
    let config = format!(
        "upstreams: {{ tracker: {{ mcp: http://127.0.0.1:1/mcp }} }}\n\
         routes:\n  close:\n    description: Closes an issue.\n    request: CALL tracker/close\n    \
         tests: [{{ response: {{ recording: {} }}, expect: {{ text: closed }} }}]\n",
        recording.path()
    );
    let config = TemporaryFile::new("tested.yaml", &config);
    succeeds(&["test", "--config", config.path()]);
}
