//! Leak test for secrets: every place that can hold a secret has one, and all output of the program is
//! searched for them.
//!
//! The upstreams are hostile: they echo everything they receive, in every kind of response.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use glossator::{
    auth::PresentedCredential,
    config::{self, ConfigSource, Environment, Sources},
    tls::Pem,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::{Client, Program, ReceivedRequest, Scripted, Step, response};

/// Marker that every secret contains.
const CANARY: &str = "cAnArY";

fn secret(name: &str) -> String {
    format!("{CANARY}-{name}/s3cr3t+0123456789")
}

/// Fails if the output contains a secret, also in base64.
#[track_caller]
fn assert_no_secrets(what: &str, text: &str) {
    let encoded: Vec<String> = (0..3)
        .map(|shift| {
            // At most three characters next to the marker also encode its neighbours.
            let text = STANDARD.encode(format!("{}{CANARY}", &"xxx"[..shift]));
            text.trim_end_matches('=')[[0, 2, 3][shift]..7].to_owned()
        })
        .collect();
    for form in encoded.iter().map(String::as_str).chain([CANARY]) {
        if let Some(at) = text.find(form) {
            let around: String =
                text[..at].chars().rev().take(300).collect::<Vec<_>>().iter().rev().collect();
            let behind: String = text[at..].chars().take(100).collect();
            panic!("a secret ({form}) in {what}:\n…{around}{behind}…");
        }
    }
}

/// Response of an upstream, by the end of the path. Each echoes the whole request.
fn echo(request: &ReceivedRequest) -> Vec<Step> {
    let path = request.line().split(' ').nth(1).unwrap();
    let quoted = Value::from(request.head.as_str()).to_string();
    let credential = request.header("authorization").join("; ");
    let json = |status: &str, body: &str| response(status, "application/json", body);
    let sent = match path.rsplit('/').next().unwrap().split('?').next().unwrap() {
        "ok" => response("200 OK", "text/plain", &request.head),
        "ok_json" => json("200 OK", &format!(r#"{{"echo": {quoted}}}"#)),
        "hidden" => json("200 OK", &format!(r#"{{"success": false, "error": {quoted}}}"#)),
        "bad" => response("400 Bad Request", "text/plain", &request.head),
        "bad_json" => json("403 Forbidden", &format!(r#"{{"error": {{"message": {quoted}}}}}"#)),
        "bad_php" => {
            let body = format!(r#"{{"detail": {}}}"#, quoted.replace('/', r"\/"));
            response("422 Unprocessable", "application/problem+json", &body)
        }
        "bad_html" => {
            let body = format!("<h1>No</h1><pre>{}</pre>", request.head.replace('&', "&amp;"));
            response("404 Not Found", "text/html", &body)
        }
        "cut" => {
            let begins: String = credential.chars().take(credential.len().saturating_sub(5)).collect();
            json("400 Bad Request", &format!(r#"{{"message": "no such key: {begins}"}}"#))
        }
        "unauthorized" => {
            let head = format!("WWW-Authenticate: Bearer error=\"{credential}\"");
            format!("HTTP/1.1 401 Unauthorized\r\n{head}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        }
        "broken" => response("500 Oh", "text/plain", &request.head),
        "away" => {
            let place = format!("http://127.0.0.1:1/?{credential}");
            format!("HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        }
        "near" => {
            let place = format!("/ok?{credential}");
            format!("HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        }
        "no_http" => format!("{}\r\n\r\n", request.head).into_bytes(),
        "odd_head" => format!("HTTP/1.1 200 OK {credential}\r\nX {credential}: 1\r\n\r\n").into_bytes(),
        "cut_off" => format!("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{}", request.head).into_bytes(),
        "unreadable" => json("200 OK", &format!("not JSON: {}", request.head)),
        // A client that uses HTTP/2.
        "*" => format!("HTTP/1.1 400 Bad Request\r\n\r\n{}", request.head).into_bytes(),
        other => panic!("nothing is known of {other}"),
    };
    vec![Step::Send(sent), Step::Close]
}

const WAYS: [&str; 16] = [
    "ok",
    "ok_json",
    "hidden",
    "bad",
    "bad_json",
    "bad_php",
    "bad_html",
    "cut",
    "unauthorized",
    "broken",
    "away",
    "near",
    "no_http",
    "odd_head",
    "cut_off",
    "unreadable",
];

/// Configuration, environment and files.
struct Hunt {
    folder: PathBuf,
    text: String,
    variables: Vec<(String, String)>,
    upstreams: Vec<&'static str>,
    _servers: Vec<Scripted>,
}

impl Hunt {
    async fn prepare() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("glossator-it-hunt-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            format!("file:{}", folder.join(name).display())
        };
        let upstream = Scripted::start(echo).await;
        let tokens = Scripted::start(|_| {
            let token = format!(r#"{{"access_token": "{}", "expires_in": 3600}}"#, secret("token"));
            vec![Step::Send(response("200 OK", "application/json", &token))]
        })
        .await;
        let refusing = Scripted::start(|request| {
            let body = format!("{} {}", request.head, String::from_utf8_lossy(&request.body));
            let body = serde_json::json!({ "error": body, "error_description": body }).to_string();
            vec![Step::Send(response("401 Unauthorized", "application/json", &body))]
        })
        .await;
        let odd = Scripted::start(|request| {
            vec![Step::Send(format!("{} {}\r\n\r\n", request.head, secret("odd")).into_bytes()), Step::Close]
        })
        .await;
        let no_tls = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let no_tls_at = no_tls.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = no_tls.accept().await {
                let _ = stream.write_all(b"no TLS is spoken here\r\n").await;
            }
        });
        // Old versions of Redis repeat the words of an unknown command: here the password of the login.
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let store_at = store.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = store.accept().await {
                let mut words = vec![0; 4096];
                let length = stream.read(&mut words).await.unwrap_or_default();
                let words = String::from_utf8_lossy(&words[..length]).replace("\r\n", " ");
                let error = format!("-ERR unknown command `HELLO`, with args beginning with: {words}\r\n");
                let _ = stream.write_all(error.as_bytes()).await;
            }
        });
        let variables = [
            "SERVER", "KEY", "COOKIE", "PATH_KEY", "PASSWORD", "CLIENT", "BEARER", "TLS", "ADMIN", "STORE",
            "WORD",
        ];
        let mut variables: Vec<(String, String)> =
            variables.map(|name| (format!("HUNT_{name}"), secret(&name.to_lowercase()))).into();
        let made = rcgen::generate_simple_self_signed(["client.test".to_owned()]).unwrap();
        variables.push(("HUNT_CERTIFICATE".into(), made.cert.pem()));
        // An invalid key would be reported as a problem, so this key is valid and has no marker.
        variables.push(("HUNT_TLS_KEY".into(), made.signing_key.serialize_pem()));
        let (upstream_at, tokens_at) = (upstream.address, tokens.address);
        let (refusing_at, odd_at) = (refusing.address, odd.address);
        let oauth = |at: SocketAddr, style: &str| {
            format!(
                "{{ oauth: {{ token_url: 'http://{at}/token', client_id: me, client_secret: '${{HUNT_CLIENT}}', \
                 client_auth_method: {style} }} }}"
            )
        };
        let kinds = [
            ("header", "headers: { X-Api-Key: '${HUNT_KEY}', Cookie: 'session=${HUNT_COOKIE}' }".to_owned()),
            (
                "in_file",
                format!(
                    "headers: {{ Authorization: Bearer {}, X-Token: {} }}",
                    secret("inline"),
                    secret("b")
                ),
            ),
            ("query", format!("query: {{ apikey: '${{HUNT_KEY}}', password: {} }}", secret("b"))),
            ("query_of_data", "query: { p: '${HUNT_COOKIE}' }".to_owned()),
            ("basic", "credentials: { basic: { user: me, password: '${HUNT_PASSWORD}' } }".to_owned()),
            ("bearer", "credentials: { bearer: '${HUNT_BEARER}' }".to_owned()),
            (
                "token_file",
                format!("credentials: {{ bearer: '{}' }}", file("token", &(secret("file") + "\n"))),
            ),
            ("oauth", format!("credentials: {}", oauth(tokens_at, "client_secret_basic"))),
            ("refused", format!("credentials: {}", oauth(refusing_at, "client_secret_post"))),
            ("refused_basic", format!("credentials: {}", oauth(refusing_at, "client_secret_basic"))),
            ("odd", format!("credentials: {}", oauth(odd_at, "client_secret_post"))),
            ("http2", "protocol: http2, credentials: { bearer: '${HUNT_BEARER}' }".to_owned()),
        ];
        let mut text = "server: { listen: '127.0.0.1:0', secret_key: '${HUNT_SERVER}' }\n\
                        admin: { listen: '127.0.0.1:0', token: '${HUNT_ADMIN}' }\n\
                        log: { level: trace, format: json }\nupstreams:\n"
            .to_owned();
        text = format!("shared_state: {{ url: 'redis://{store_at}', password: '${{HUNT_STORE}}' }}\n{text}");
        let mut upstreams = vec!["path", "tls"];
        writeln!(text, "  path: 'http://{upstream_at}/${{HUNT_PATH_KEY}}'").unwrap();
        writeln!(
            text,
            "  tls: {{ url: 'https://{no_tls_at}', circuit_breaker: off, retry: off, credentials: {{ bearer: '${{HUNT_BEARER}}' }}, tls: {{ certificate: \
             '${{HUNT_CERTIFICATE}}', key: '${{HUNT_TLS_KEY}}', ca: '${{HUNT_CERTIFICATE}}' }} }}"
        )
        .unwrap();
        for (name, keys) in &kinds {
            let more = "max_redirects: 3, circuit_breaker: off, retry: off";
            writeln!(text, "  {name}: {{ url: 'http://{upstream_at}', {more}, {keys} }}").unwrap();
            upstreams.push(name);
        }
        // Programs that write all they know where only the log may show it.
        let tells =
            "'env >&2; echo \"$0\" >&2; exit 3', '${HUNT_WORD}'], env: { set: { A: '${HUNT_KEY}', B: ";
        writeln!(text, "  program: {{ command: [sh, -c, {tells}'${{HUNT_COOKIE}}' }} }} }}").unwrap();
        writeln!(text, "  child: {{ mcp: {{ command: [sh, -c, {tells}'${{HUNT_COOKIE}}' }} }} }} }}")
            .unwrap();
        text += "routes:\n";
        writeln!(text, "  program_fails: {{ description: x, request: RUN program }}").unwrap();
        let rule = "response: { when: { exit_status: 3 }, error: '{{ stderr }}' }";
        writeln!(text, "  program_told: {{ description: x, request: RUN program, {rule} }}").unwrap();
        writeln!(text, "  child_fails: {{ description: x, request: CALL child/any }}").unwrap();
        for upstream in &upstreams {
            for way in WAYS {
                let rules = match way {
                    "unreadable" => ", response: { extract: json }",
                    "hidden" => {
                        ", response: [{ when: { json: '.success == false' }, error: '{{ json.error }}' }, { extract: json }]"
                    }
                    _ => "",
                };
                writeln!(
                    text,
                    "  {upstream}_{way}: {{ description: x, request: GET {upstream}/{way}{rules}, tests: \
                     [{{ response: {{ status: 200, body: '{{}}' }}, expect: {{ structuredContent: {{ a: 1 }} }} }}] }}"
                )
                .unwrap();
            }
        }
        std::fs::write(folder.join("glossator.yaml"), &text).unwrap();
        Self { folder, text, variables, upstreams, _servers: vec![upstream, tokens, refusing, odd] }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("glossator.yaml")
    }

    /// All output of a command.
    async fn output_of(&self, arguments: &[&str], variables: &[(&str, String)]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glossator"));
        command.args(arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(!printed.is_empty(), "{arguments:?} says nothing");
        printed.into_owned()
    }
}

impl Drop for Hunt {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_and_no_log_gets_a_secret() {
    let hunt = Hunt::prepare().await;
    let mut program = Program::start_with(&hunt.file(), &[], &hunt.variables).await;
    for upstream in &hunt.upstreams {
        for way in WAYS {
            // If a variable is in the path of an upstream, its pages contain links with it, which are data.
            // So are parameters whose names are not those of credentials.
            let is_data = *upstream == "path" || *upstream == "query_of_data";
            if is_data && (way.starts_with("ok") || way == "near") {
                continue;
            }
            let tool = format!("{upstream}_{way}");
            let response = program.connect().await.send(&format!("POST /tools/{tool}"), &[], "").await;
            assert_no_secrets(&format!("the answer of {tool}"), &(response.head.clone() + response.text()));
            let call = format!(
                r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "{tool}", "arguments": {{}}}}}}"#
            );
            let headers = [
                "Content-Type: application/json",
                "Accept: application/json, text/event-stream",
                "MCP-Protocol-Version: 2025-06-18",
            ];
            let response = program.connect().await.send("POST /mcp", &headers, &call).await;
            assert!(response.text().contains("\"content\""), "{}", response.text());
            assert_no_secrets(
                &format!("the MCP answer of {tool}"),
                &(response.head.clone() + response.text()),
            );
        }
    }
    for tool in ["program_fails", "program_told", "child_fails"] {
        let response = program.connect().await.send(&format!("POST /tools/{tool}"), &[], "").await;
        assert!(response.status >= 400, "{tool}: {}", response.text());
        assert_no_secrets(&format!("the answer of {tool}"), &(response.head.clone() + response.text()));
    }
    program.wait_for_log("command failed", 2).await;
    program.wait_for_log("standard error of the MCP program", 3).await;
    for page in ["/tools", "/openapi.json", "/health", "/status", "/nothing"] {
        let response = program.connect().await.send(&format!("GET {page}"), &[], "").await;
        assert_no_secrets(page, &(response.head.clone() + response.text()));
    }
    let line: Value = serde_json::from_str(&program.wait_for_log("admin API listening", 1).await).unwrap();
    let admin: SocketAddr = line["address"].as_str().unwrap().parse().unwrap();
    let shows = format!("Authorization: Bearer {}", secret("admin"));
    let send = |line: &'static str| {
        let shows = shows.clone();
        async move {
            Client::connect(admin).await.send(line, &[&shows, "Content-Type: application/json"], "").await
        }
    };
    for page in ["GET /config", "GET /routes", "GET /metrics", "GET /readyz", "GET /nothing"] {
        let response = send(page).await;
        assert!(response.status == 200 || page.ends_with("nothing"), "{page}: {}", response.text());
        assert_no_secrets(page, &(response.head.clone() + response.text()));
    }
    let rejected = Client::connect(admin).await.send("GET /config", &[], "").await;
    assert_no_secrets("a refusal", &(rejected.head.clone() + rejected.text()));
    // A reload that finds problems beside the secrets reports them.
    let broken = hunt
        .text
        .replace("max_redirects: 3", "max_redirects: 300")
        .replace("certificate: '", "certificat: '");
    std::fs::write(hunt.file(), broken).unwrap();
    program.signal("HUP");
    program.wait_for_log("config reload failed", 1).await;
    let reloaded = send("POST /reload").await;
    assert_eq!(reloaded.status, 422);
    assert_no_secrets("a reload", &(reloaded.head.clone() + reloaded.text()));
    program.terminate();
    let (_, log) = program.ended().await;
    assert!(
        log.contains("\"TRACE\"") && log.contains("no credential is available"),
        "the log has every detail"
    );
    assert_no_secrets("the log", &log);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_prints_a_secret() {
    let hunt = Hunt::prepare().await;
    let (good, recording) = (hunt.file(), hunt.folder.join("response.http"));
    std::fs::write(&recording, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno such thing")
        .unwrap();
    let (good, recording) = (good.to_str().unwrap(), recording.to_str().unwrap());
    for arguments in [
        &["check", "--config", good][..],
        &["check", "--output", "json", "--config", good],
        &["test", "--config", good],
        &["test", "--output", "json", "--config", good],
        &["explain", "basic_bad", "--response", recording, "--config", good],
        &["explain", "oauth_ok", "--args", "{}", "--config", good],
        &["explain", "path_ok", "--args", "{}", "--output", "json", "--config", good],
        &["schema"],
    ] {
        assert_no_secrets(&format!("{arguments:?}"), &hunt.output_of(arguments, &[]).await);
    }
    // An error in every line in turn, so that each line is shown.
    let lines: Vec<&str> = hunt.text.lines().take_while(|line| *line != "routes:").collect();
    let broken = hunt.folder.join("broken.yaml");
    let mistakes: std::collections::BTreeSet<String> = (2..lines.len())
        .flat_map(|index| {
            let with = |line: String| {
                let before = lines[..index].join("\n");
                format!("{before}\n{line}\n{}\nroutes: {{}}\n", lines[index + 1..].join("\n"))
            };
            let line = lines[index];
            [
                with(line.replace("url:", "ulr:")),
                with(line.replace("auth:", "aut:")),
                with(line.replace("bearer:", "baerer:")),
                with(line.replace("password:", "passwort:")),
                with(format!("{line} }}")),
                with(format!("{line} \"")),
                with(line.replace(" }", "")),
                with(line.replace("http://", "htp://")),
            ]
        })
        .collect();
    for mistake in mistakes {
        let environment = Environment(hunt.variables.iter().cloned().collect());
        let origin = ConfigSource::Text { name: "broken.yaml".into(), text: mistake.clone() };
        let sources = Sources { origin, environment, flags: Vec::new() };
        assert_no_secrets("the sources", &format!("{sources:?}"));
        match config::load(&sources) {
            Ok(loaded) => assert_no_secrets("what was loaded", &format!("{loaded:?}")),
            Err(problems) => {
                assert_no_secrets(&mistake, &format!("{problems}\n{problems:?}"));
                assert_no_secrets("the same as JSON", &serde_json::to_string(&problems).unwrap());
            }
        }
    }
    std::fs::write(&broken, hunt.text.replace("url:", "ulr:")).unwrap();
    let broken = broken.to_str().unwrap();
    for output in ["text", "json"] {
        let arguments = ["check", "--output", output, "--config", broken];
        assert_no_secrets("a broken file", &hunt.output_of(&arguments, &[]).await);
    }
    // Values that were meant for another variable.
    for key in [
        "LISTEN",
        "DRAIN",
        "BODY_LIMIT",
        "ADVERTISE_URL",
        "ALLOWED_HOSTS",
        "ALLOWED_ORIGINS",
        "PAGE_SIZE",
        "SECRTE",
    ] {
        let wrong = [(&*format!("GLOSSATOR__SERVER__{key}"), format!("http://me:{}@host", secret("wrong")))];
        let printed = hunt.output_of(&["check", "--config", good], &wrong).await;
        assert!(printed.contains(key), "{printed}");
        assert_no_secrets(key, &printed);
    }
}

#[test]
fn debug_output_of_a_secret_names_its_kind_only() {
    let text = secret("debug");
    assert_eq!(format!("{:?}", PresentedCredential::Secret(text.as_str().into())), "Secret(…)");
    assert_eq!(format!("{:?}", Pem(text.clone().into())), "Pem(…)");
    let environment = Environment([("NAME".to_owned(), text.clone())].into());
    assert_eq!(format!("{environment:?}"), r#"["NAME"]"#);
    let source = ConfigSource::Text { name: "a.yaml".into(), text };
    assert_eq!(format!("{source:?}"), r#"Text { name: "a.yaml", .. }"#);
}
