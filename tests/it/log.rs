//! What an operator reads.

use serde_json::Value;

use crate::support::{Program, Scripted, reply};

fn config(upstream: &Scripted) -> String {
    format!(
        "upstreams: {{ old: 'http://{}' }}\nserver: {{ listen: '127.0.0.1:0' }}\n\
         routes: {{ get_thing: {{ request: GET old/thing, reply: {{ extract: json }} }} }}\n",
        upstream.address
    )
}

fn with<'a>(log: &'a [Value], key: &str, value: &str) -> Vec<&'a Value> {
    log.iter().filter(|line| line[key] == value).collect()
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_leaves_its_reason_and_not_itself() {
    let upstream = Scripted::answering(reply("200 OK", "application/json", "not json, a secret")).await;
    let program = Program::start(&config(&upstream), &[]).await;
    let response = program.connect().await.ask("POST /tools/get_thing", &["X-Request-Id: mine"], "").await;
    assert_eq!(response.status, 502);
    let log = program.log().await;
    let reasons = with(&log, "message", "the reply could not be read");
    assert!(!reasons.is_empty(), "{log:?}");
    for line in reasons {
        assert_eq!(
            (&line["level"], &line["tool"], &line["request_id"]),
            (&"WARN".into(), &"get_thing".into(), &"mine".into())
        );
    }
    assert!(log.iter().all(|line| !line.to_string().contains("a secret")), "{log:?}");
}

#[tokio::test]
async fn a_request_that_is_refused_has_one_line() {
    let upstream = Scripted::answering(reply("200 OK", "application/json", "{}")).await;
    let program = Program::start(&config(&upstream), &[]).await;
    let mcp = "Accept: application/json, text/event-stream";
    for (id, line, header, body, status) in [
        ("json", "POST /tools/get_thing", "Content-Type: application/json", "{", 400),
        ("type", "POST /tools/get_thing", "Content-Type: text/plain", "x", 415),
        ("tool", "POST /tools/nothing", "Content-Type: application/json", "{}", 404),
        ("path", "GET /nothing%0Ahere", "X: y", "", 404),
        ("host", "GET /tools", "Host: evil.example.com", "", 403),
        ("mcp-json", "POST /mcp", mcp, "{", 400),
        ("mcp-type", "POST /mcp", "Content-Type: text/plain", "x", 415),
    ] {
        let id_header = format!("X-Request-Id: {id}");
        let mut headers = vec![header, &id_header];
        if id == "mcp-json" {
            headers.push("Content-Type: application/json");
        }
        let response = program.connect().await.ask(line, &headers, body).await;
        assert_eq!(response.status, status, "{id}");
    }
    let log = program.log().await;
    for id in ["json", "type", "tool", "path", "host", "mcp-json", "mcp-type"] {
        let lines = with(&log, "request_id", id);
        assert_eq!(lines.len(), 1, "{id}: {log:?}");
        assert_eq!(lines[0]["message"], "refused a request", "{id}");
    }
}

#[tokio::test]
async fn what_a_rule_hides_from_clients_is_in_the_log_for_whoever_asks_for_every_detail() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "ERR table orders is locked")).await;
    let rules = "[{ when: { text: '^ERR' }, error: The operation failed. }, { extract: text }]";
    let config = |level: &str| {
        format!(
            "{}\nlog: {{ level: {level}, format: json }}\n",
            config(&upstream).replace("{ extract: json }", rules)
        )
    };
    for (level, shown) in [("debug", true), ("info", false)] {
        let program = Program::start(&config(level), &[]).await;
        let response = program.connect().await.ask("POST /tools/get_thing", &[], "").await;
        assert!(!response.text().contains("locked"), "{}", response.text());
        let log = program.log().await;
        assert_eq!(log.iter().any(|line| line.to_string().contains("orders is locked")), shown, "{log:?}");
    }
}
