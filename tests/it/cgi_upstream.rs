//! CGI programs as upstreams: scripts in the style of their time.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use crate::support::{Loaded, Program, Response};

/// Script in its own file, deleted on drop.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, lines: &str) -> Self {
        let path = std::env::temp_dir().join(format!("glossator-it-{name}-{}.cgi", std::process::id()));
        std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    async fn call(&self, route: &str, arguments: Value) -> Response {
        let path = self.0.display();
        let text = format!(
            "upstreams: {{ old: {{ cgi: {path} }} }}\nroutes: {{ t: {{ description: x, {route} }} }}\n"
        );
        let loaded = config::load(&Sources::from_text("a.yaml", text));
        let served = Loaded::start(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).await;
        served
            .connect()
            .await
            .send("POST /tools/t", &["Content-Type: application/json"], &arguments.to_string())
            .await
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

#[tokio::test]
async fn a_script_sees_the_request_and_nothing_of_ours() {
    let script = Script::new(
        "variables",
        "echo 'Content-Type: text/plain'; echo; env | grep -v '^_=\\|^PWD\\|^OLDPWD\\|^SHLVL' | sort; cat",
    );
    let route = "request: { method: POST, path: '/a/{name}?x={name}', headers: { X-Tenant: blue, Proxy: evil, \
        Authorization: secret }, body: { text: 'the body' } }";
    let text = script.call(route, json!({"name": "b c"})).await.tool_text();
    let expected = format!(
        "CONTENT_LENGTH=8\nCONTENT_TYPE=text/plain; charset=utf-8\nGATEWAY_INTERFACE=CGI/1.1\nHTTP_HOST=localhost\n\
         HTTP_USER_AGENT=glossator/{version}\nHTTP_X_TENANT=blue\nLC_ALL=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin\n\
         PATH_INFO=/a/b c\nQUERY_STRING=x=b%20c\nREMOTE_ADDR=127.0.0.1\nREQUEST_METHOD=POST\n\
         REQUEST_URI=/{file}/a/b%20c?x=b%20c\nSCRIPT_FILENAME={path}\nSCRIPT_NAME=/{file}\nSERVER_NAME=localhost\n\
         SERVER_PORT=80\nSERVER_PROTOCOL=HTTP/1.1\nSERVER_SOFTWARE=glossator/{version}\nthe body",
        version = env!("CARGO_PKG_VERSION"),
        file = script.0.file_name().unwrap().to_str().unwrap(),
        path = script.0.display(),
    );
    let own: Vec<&str> = text.lines().filter(|line| !line.starts_with("TRACEPARENT")).collect();
    assert_eq!(own.join("\n"), expected);
}

#[tokio::test]
async fn its_status_is_the_truth() {
    let script = Script::new(
        "status",
        "printf 'Status: 404 Gone Fishing\\r\\nContent-Type: text/plain\\r\\n\\r\\nno such page'",
    );
    let response = script.call("request: GET old/x", json!({})).await;
    assert_eq!((response.status, response.tool_text()), (404, "no such page".into()));
    assert_eq!(response.json()["_meta"]["glossator/upstreamStatus"], 404);
}

#[tokio::test]
async fn an_invalid_cgi_response_is_a_tool_error() {
    for lines in [
        "echo hello",
        "exit 1",
        "echo 'HTTP/1.1 200 OK'; echo; echo x",
        "printf 'Content-Type: text/plain\\n'",
    ] {
        let response = Script::new("wrong", lines).call("request: GET old/x", json!({})).await;
        assert_eq!(response.status, 502, "{lines}");
        assert!(
            response.tool_text().contains("wrote a response that is not valid CGI"),
            "{}",
            response.tool_text()
        );
        assert!(!response.text().contains("hello"));
    }
}

#[tokio::test]
async fn its_redirects_are_not_followed_and_its_body_has_a_limit() {
    let script = Script::new("redirect", "echo 'Location: /elsewhere'; echo");
    let response = script.call("request: GET old/x", json!({})).await;
    assert!(response.tool_text().contains("does not follow"), "{}", response.tool_text());
    let script = Script::new("endless", "echo 'Content-Type: text/plain'; echo; exec yes");
    let response = script.call("request: GET old/x, response_limit: 10KiB", json!({})).await;
    assert!(response.tool_text().contains("longer than the limit of 10 KiB"), "{}", response.tool_text());
}

#[tokio::test]
async fn an_argument_stays_in_its_segment() {
    let script = Script::new("segment", "echo 'Content-Type: text/plain'; echo; echo $PATH_INFO");
    let route = "request: 'GET old/a/{name}'";
    assert_eq!(script.call(route, json!({"name": "b.c"})).await.tool_text(), "/a/b.c\n");
    assert_eq!(script.call(route, json!({"name": "../../etc"})).await.status, 400);
    for (route, args) in [
        (route, json!({"name": "a/b"})),
        ("request: { path: '/a/{name}/{other}' }", json!({"name": "a/b", "other": "c"})),
    ] {
        let response = script.call(route, args).await;
        assert_eq!(
            (response.status, response.tool_text()),
            (400, "argument `name` must not contain `/`".into())
        );
    }
    let in_query = script.call("request: 'GET old/a?x={name}'", json!({"name": "a/b"})).await;
    assert_eq!(in_query.tool_text(), "/a\n");
}

#[tokio::test]
async fn the_worked_example_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples");
    let loaded = config::load(&Sources::from_path(folder.join("cgi.yaml"))).unwrap();
    let served = Loaded::start(&loaded).await;
    let mut client = served.connect().await;
    let mut call = async |tool: &str, arguments: Value| {
        let line = format!("POST /tools/{tool}");
        client.send(&line, &["Content-Type: application/json"], &arguments.to_string()).await
    };
    assert_eq!(
        call("find_number", json!({"name": "mo"})).await.json()["structuredContent"]["result"],
        json!([{"name": "Mona", "number": "17-23", "room": 4}, {"name": "Moritz", "number": "17-42", "room": 11}])
    );
    assert!(call("find_number", json!({"name": "zz"})).await.tool_text().starts_with("Nobody is called zz"));
    assert_eq!(call("find_number", json!({"name": "1"})).await.tool_text(), "name must be letters");
    assert_eq!(
        call("add_number", json!({"name": "Ola", "number": "1"})).await.tool_text(),
        "phonebook.example.com would add: name=Ola&number=1\n"
    );
}

#[tokio::test]
async fn standard_error_is_logged() {
    let failing = Script::new("failing", "echo 'no database, card 4000123412341234' >&2; exit 3");
    let answering = Script::new("answering", "echo 'Status: 204'; echo; echo 'out of paper' >&2; exit 4");
    let missing = Script::new("missing", "echo 'Status: 404'; echo; exit 1");
    let (failing, answering, missing) = (failing.0.display(), answering.0.display(), missing.0.display());
    let program = Program::start(
        &format!(
            "upstreams: {{ a: {{ cgi: {failing} }}, b: {{ cgi: {answering} }}, c: {{ cgi: {missing} }} }}\n\
             server: {{ listen: '127.0.0.1:0' }}\ndefaults: {{ redact: ['\\d{{16}}'] }}\n\
             routes: {{ a: {{ description: x, request: GET a/ }}, b: {{ description: x, request: GET b/ }}, \
             c: {{ description: x, request: GET c/ }} }}\n"
        ),
        &["--log-level", "debug"],
    )
    .await;
    let mut client = program.connect().await;
    assert_eq!(client.send("POST /tools/a", &["X-Request-Id: mine"], "").await.status, 502);
    assert_eq!(client.send("POST /tools/b", &["X-Request-Id: yours"], "").await.status, 200);
    assert_eq!(client.send("POST /tools/c", &["X-Request-Id: its"], "").await.status, 404);
    let log = program.log().await;
    let of = |id: &str, level: &str, key: &str| {
        let mut lines = log.iter().filter(|line| line["request_id"] == id && line["level"] == level);
        lines.find_map(|line| line[key].as_str().map(str::to_owned)).unwrap_or_else(|| panic!("{log:?}"))
    };
    let error = of("mine", "WARN", "error");
    assert!(error.ends_with("ended with exit status 3; 34 bytes on standard error"), "{error}");
    let text = of("mine", "DEBUG", "text");
    assert!(text.starts_with("on standard error: no database, card [redacted]; "), "{text}");
    let stderr = of("yours", "DEBUG", "stderr");
    assert_eq!((of("yours", "WARN", "exit_status").as_str(), stderr.as_str()), ("4", "out of paper"));
    // A response that reports the failure itself is used, so nothing is to be done.
    assert_eq!(of("its", "DEBUG", "exit_status"), "1");
    assert!(log.iter().all(|line| line["request_id"] != "its" || line["level"] != "WARN"), "{log:?}");
}
