//! Commands as upstreams: real programs with real arguments, which fail, hang and write too much.

use std::{path::PathBuf, time::Duration};

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use crate::support::{Client, Loaded, Program, Response, soon};

const JSON: &str = "Content-Type: application/json";

async fn served(text: &str) -> Loaded {
    let loaded = config::load(&Sources::from_text("a.yaml", text));
    Loaded::start(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).await
}

async fn call(text: &str, arguments: Value) -> Response {
    let served = served(text).await;
    served.connect().await.send("POST /tools/t", &[JSON], &arguments.to_string()).await
}

/// Configuration with one upstream `x` and one route `t`.
fn one(upstream: &str, route: &str) -> String {
    format!("upstreams: {{ x: {upstream} }}\nroutes: {{ t: {{ description: x, {route} }} }}\n")
}

/// Script for `sh`. Its `$1` and so on are the words of the call.
fn script(lines: &str) -> String {
    format!("{{ command: [sh, -c, {}, sh] }}", json!(lines))
}

/// Empty file in which programs leave their process ids.
fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("glossator-it-{name}-{}", std::process::id()));
    std::fs::write(&path, "").unwrap();
    path
}

/// Process ids in the file, once there are this many.
async fn processes(path: &PathBuf, count: usize) -> Vec<u32> {
    soon("the numbers of processes", async {
        loop {
            let text = std::fs::read_to_string(path).unwrap();
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let numbers: Vec<u32> = whole.lines().map(|line| line.trim().parse().unwrap()).collect();
            if numbers.len() == count {
                return numbers;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Whether such a process exists, even as a zombie of ours. Processes of others do not count.
fn is_there(process: u32) -> bool {
    let ps =
        std::process::Command::new("ps").args(["-o", "ppid=,stat=", "-p", &process.to_string()]).output();
    let state = String::from_utf8(ps.unwrap().stdout).unwrap();
    let mut words = state.split_whitespace();
    match (words.next(), words.next()) {
        (Some(parent), Some(state)) => !state.starts_with('Z') || parent == std::process::id().to_string(),
        _ => false,
    }
}

async fn gone(processes: &[u32]) {
    soon("the end of the processes", async {
        while processes.iter().any(|process| is_there(*process)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn arguments_reach_the_program_unchanged() {
    let nasty = "a b; echo $HOME `id` \"'*\\ \n é";
    let text = one(
        "{ command: [printf, '[%s]'] }",
        r#"input: { additionalProperties: true }, request: { arguments: ["{{ args.a }}", "--b={{ args.b }}", "{{ args.c | upper }}", end] }"#,
    );
    let response = call(&text, json!({"a": nasty, "b": [1, true], "c": "up"})).await;
    assert_eq!(response.tool_text(), format!("[{nasty}][--b=1][--b=true][UP][end]"));
}

#[tokio::test]
async fn a_command_line_is_split_into_words_and_absent_ones_omitted() {
    let input = "input: { properties: { a: { type: string }, b: { type: string } } }";
    let text = one(
        "{ command: [printf, '[%s]'] }",
        &format!("{input}, request: 'RUN x one  --a={{a}} {{b}}:{{a}} -{{b}}'"),
    );
    assert_eq!(call(&text, json!({"a": "x y", "b": "z"})).await.tool_text(), "[one][--a=x y][z:x y][-z]");
    assert_eq!(call(&text, json!({"b": "z"})).await.tool_text(), "[one][-z]");
}

#[tokio::test]
async fn an_argument_is_no_option() {
    let text = one("{ command: [ls] }", "request: 'RUN x {path}'");
    let response = call(&text, json!({"path": "--help"})).await;
    assert_eq!(
        (response.status, response.tool_text().contains("`path` must not begin with `-`")),
        (400, true)
    );
    let text = one("{ command: [printf, '[%s]', --] }", "request: 'RUN x {path}'");
    assert_eq!(call(&text, json!({"path": "--help"})).await.tool_text(), "[--][--help]");
}

#[tokio::test]
async fn a_program_gets_stdin_and_a_minimal_environment() {
    let text = one(
        "{ command: [sh, -c, 'cat; echo; env | sort'], env: { set: { GREETING: hi } }, cwd: /tmp }",
        "request: { stdin: { json: '{{ args }}' } }",
    );
    let text = call(&text, json!({"a": 1.50, "b": "x".repeat(100_000)})).await.tool_text();
    let (read, seen) = text.split_once('\n').unwrap();
    assert!(read.starts_with(r#"{"a":1.5"#) && read.len() > 100_000, "{}", &read[..40]);
    // Variables that the shell itself sets are not glossator's.
    let seen: Vec<_> = seen
        .lines()
        .filter(|line| !["_=", "OLDPWD", "SHLVL"].iter().any(|own| line.starts_with(own)))
        .collect();
    assert_eq!(seen[..3], ["GREETING=hi", "LC_ALL=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"]);
    assert_eq!(seen[3..], ["PWD=/tmp"]);
}

#[tokio::test]
async fn a_pattern_keeps_line_breaks_out_of_stdin() {
    // `\r` and `\n` in double quotes are the characters themselves, and in single quotes escapes of the
    // pattern.
    for pattern in [r#""^[^\r\n]*$""#, r"'^[^\r\n]*$'"] {
        let text = one(
            "{ command: [cat] }",
            &format!(
                "request: {{ stdin: \"stats {{{{ args.tube }}}}\\r\\nquit\\r\\n\" }}, \
                 input: {{ properties: {{ tube: {{ type: string, pattern: {pattern} }} }}, required: [tube] }}"
            ),
        );
        assert_eq!(call(&text, json!({"tube": "a b"})).await.tool_text(), "stats a b\r\nquit");
        for tube in ["x\r\nput 0", "x\n", "\r", "\nx"] {
            assert_eq!(call(&text, json!({ "tube": tube })).await.status, 400, "{tube:?}");
        }
    }
}

#[tokio::test]
async fn the_exit_of_a_program_is_a_tool_error_or_matched_by_a_rule() {
    let fails = script("echo out; echo 'secret: no such thing' >&2; exit $1");
    let plain = one(&fails, "request: 'RUN x {code}'");
    let response = call(&plain, json!({"code": "3"})).await;
    assert_eq!(response.status, 502);
    assert!(response.tool_text().contains("ended with exit status 3"), "{}", response.tool_text());
    // Standard error may repeat arguments.
    let text = response.tool_text();
    assert!(text.ends_with("log only at level `debug`. Different arguments may help."), "{text}");
    let text = call(&one(&fails, "request: 'RUN x 3'"), json!({})).await.tool_text();
    assert!(text.ends_with("log only at level `debug`."), "{text}");
    assert!(!response.text().contains("secret"));
    assert_eq!(response.json()["_meta"]["glossator/exit"], 3);
    assert_eq!(call(&plain, json!({"code": "0"})).await.tool_text(), "out\n");

    let rules = "[{ when: { exit_status: 1 }, content: 'nothing found' }, \
        { when: { exit_status: 2-4, stderr: 'no such (?<what>\\w+)' }, error: '{{ exit_status }}: {{ what }}; {{ stderr }}' }, \
        { when: { exit_status: [5, signal] }, structured: '{exit: $exit_status, stderr: $stderr}' }, { extract: text }]";
    let ruled = one(&fails, &format!("request: 'RUN x {{code}}', response: {rules}"));
    assert_eq!(call(&ruled, json!({"code": "1"})).await.tool_text(), "nothing found");
    let response = call(&ruled, json!({"code": "2"})).await;
    assert_eq!((response.status, response.tool_text()), (422, "2: thing; secret: no such thing".into()));
    assert_eq!(
        call(&ruled, json!({"code": "5"})).await.json()["structuredContent"],
        json!({"exit": 5, "stderr": "secret: no such thing\n"})
    );
    assert_eq!(call(&ruled, json!({"code": "9"})).await.status, 502);

    let killed = one(&script("kill -KILL $$"), "request: 'RUN x'");
    let response = call(&killed, json!({})).await;
    assert_eq!(response.json()["_meta"]["glossator/exit"], "SIGKILL");
    assert!(response.tool_text().contains("signal SIGKILL"), "{}", response.tool_text());
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_an_error() {
    let text = one("{ command: [/nowhere/at-all], retry: off }", "request: 'RUN x'");
    let response = call(&text, json!({})).await;
    assert_eq!(response.status, 502);
    assert!(response.tool_text().contains("could not be started"), "{}", response.tool_text());
    assert!(!response.text().contains("nowhere"));
}

#[tokio::test]
async fn a_program_out_of_time_is_ended_with_all_it_started() {
    let left = file("late");
    // One of the child processes ignores SIGTERM.
    let lines = format!(
        "echo $$ >> {0}; (trap '' TERM; sh -c 'echo $$ >> {0}; exec sleep 600') & sleep 600 & echo $! >> {0}; wait",
        left.display()
    );
    let text = one(&script(&lines), "request: 'RUN x', timeout: 300ms");
    let served = served(&text).await;
    let response = served.connect().await.send("POST /tools/t", &[JSON], "{}").await;
    assert_eq!(response.status, 504);
    gone(&processes(&left, 3).await).await;
    std::fs::remove_file(left).unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_program() {
    let left = file("left");
    let lines = format!("echo $$ >> {}; sleep 600", left.display());
    let served = served(&one(&script(&lines), "request: 'RUN x'")).await;
    let mut client: Client = served.connect().await;
    client.write("POST /tools/t HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let running = processes(&left, 1).await;
    assert!(is_there(running[0]));
    drop(client);
    gone(&running).await;
    std::fs::remove_file(left).unwrap();
}

#[tokio::test]
async fn endless_output_is_ended_at_its_limit_and_endless_errors_are_cut() {
    let left = file("endless");
    let lines = format!("echo $$ >> {}; exec yes", left.display());
    let response = call(&one(&script(&lines), "request: 'RUN x', response_limit: 1MiB"), json!({})).await;
    assert_eq!(response.status, 502);
    assert!(response.tool_text().contains("longer than the limit of 1 MiB"), "{}", response.tool_text());
    gone(&processes(&left, 1).await).await;
    std::fs::remove_file(left).unwrap();

    let lines = "i=0; while [ $i -lt 3000 ]; do echo \"line $i of many, each of them long enough\" >&2; i=$((i+1)); done; exit 1";
    let rule = "response: { when: { exit_status: 1 }, error: { text: 'x', structured: '$stderr | {length: length, last: .[-10:]}' } }";
    let response = call(&one(&script(lines), &format!("request: 'RUN x', {rule}")), json!({})).await;
    assert_eq!(response.json()["structuredContent"], json!({"length": 16384, "last": "ng enough\n"}));
}

#[tokio::test]
async fn processes_left_by_a_program_are_killed() {
    let left = file("behind");
    // One child process holds the pipe; the other has closed it.
    let lines = format!(
        "sleep 600 & echo $! >> {0}; sleep 600 >/dev/null 2>&1 & echo $! >> {0}; echo done",
        left.display()
    );
    let response = call(&one(&script(&lines), "request: 'RUN x'"), json!({})).await;
    assert_eq!(response.tool_text(), "done\n");
    gone(&processes(&left, 2).await).await;
    std::fs::remove_file(left).unwrap();
}

#[tokio::test]
async fn a_program_that_does_not_read_is_no_failure() {
    let text = one("{ command: [echo, hello] }", "request: { stdin: '{{ args.text }}' }");
    assert_eq!(call(&text, json!({"text": "x".repeat(1 << 20)})).await.tool_text(), "hello\n");
}

#[tokio::test]
async fn the_debug_log_has_the_details_that_clients_do_not_get() {
    let text = one(
        &script("echo 'why it failed, card 4000123412341234' >&2; exit 7"),
        "request: 'RUN x', redact: ['\\d{16}']",
    );
    let text = format!("{text}server: {{ listen: '127.0.0.1:0' }}\n");
    let program = Program::start(&text, &["--log-level", "debug"]).await;
    let response = program.connect().await.send("POST /tools/t", &["X-Request-Id: mine"], "").await;
    assert_eq!(response.status, 502);
    let log = program.log().await;
    let line = log.iter().find(|line| line["stderr"].is_string()).unwrap_or_else(|| panic!("{log:?}"));
    assert_eq!(line["stderr"], "why it failed, card [redacted]");
    assert_eq!((&line["request_id"], &line["exit_status"]), (&json!("mine"), &json!("7")));
}

#[tokio::test]
async fn no_program_outlives_the_proxy() {
    let left = file("proxy");
    let text =
        one(&script(&format!("trap '' TERM; echo $$ >> {}; sleep 600", left.display())), "request: 'RUN x'");
    let program =
        Program::start(&format!("{text}server: {{ listen: '127.0.0.1:0', shutdown_timeout: 0s }}\n"), &[])
            .await;
    let mut client = program.connect().await;
    client.write("POST /tools/t HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let running = processes(&left, 1).await;
    let _ = program.log().await;
    gone(&running).await;
    std::fs::remove_file(left).unwrap();
}

#[tokio::test]
async fn the_worked_example_runs_what_is_there() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples/commands.yaml");
    let served = Loaded::start(&config::load(&Sources::from_path(&path)).unwrap()).await;
    let mut client = served.connect().await;
    let mut call = async |tool: &str, arguments: Value| {
        client.send(&format!("POST /tools/{tool}"), &[JSON], &arguments.to_string()).await
    };
    let usage = call("disk_usage", json!({"path": "/"})).await.json()["structuredContent"].clone();
    assert_eq!(usage["mounted_on"], "/");
    assert!(usage["size_kib"].as_u64().unwrap() >= usage["used_kib"].as_u64().unwrap(), "{usage}");
    let nowhere = call("disk_usage", json!({"path": "/nowhere at all"})).await;
    assert_eq!(
        (nowhere.status, nowhere.tool_text()),
        (422, "There is no /nowhere at all. Give a path that exists.".into())
    );
    let text = "One\ntwo\nsix\n-v\n";
    let lines = async |response: Response| response.json()["structuredContent"]["result"].clone();
    assert_eq!(
        lines(call("find_lines", json!({"pattern": "o", "text": text})).await).await,
        json!(["One", "two"])
    );
    assert_eq!(
        lines(call("find_lines", json!({"pattern": "o", "text": text, "most": 1})).await).await,
        json!(["One"])
    );
    assert_eq!(lines(call("find_lines", json!({"pattern": "-v", "text": text})).await).await, json!(["-v"]));
    assert_eq!(lines(call("find_lines", json!({"pattern": "none", "text": text})).await).await, json!([]));
    assert!(
        call("find_lines", json!({"pattern": "[", "text": text}))
            .await
            .tool_text()
            .contains("not a basic regular expression")
    );
}

#[tokio::test]
async fn git_output_becomes_a_result() {
    let folder = std::env::temp_dir().join(format!("glossator-it-git-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let git = |words: &[&str]| {
        let author = ["-c", "user.name=Ola", "-c", "user.email=ola@example.com"];
        let done = std::process::Command::new("git")
            .arg("-C")
            .arg(&folder)
            .args(author)
            .args(words)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "Begin; \"all\""]);
    git(&["commit", "-q", "--allow-empty", "-m", "Go on"]);
    let text = one(
        &format!("{{ command: [git, log, '--format=%an%x09%s'], cwd: {} }}", folder.display()),
        "input: { properties: { most: { type: integer }, grep: { type: string } } }, \
         request: { arguments: ['--max-count={{ args.most }}', '--grep={{ args.grep }}'] }, \
         response: { extract: { csv: { delimiter: \"\\t\", columns: [author, subject] } } }",
    );
    assert_eq!(
        call(&text, json!({"most": 1})).await.json()["structuredContent"]["result"],
        json!([{"author": "Ola", "subject": "Go on"}])
    );
    let found = call(&text, json!({"grep": "--output=/tmp/evil"})).await;
    assert!(found.tool_text().contains("found an empty response"), "{}", found.text());
    std::fs::remove_dir_all(folder).unwrap();
}
