//! Reload of the configuration while serving.

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use crate::support::{Client, Loaded, Scripted, response};
#[cfg(unix)]
use crate::support::{Program, soon};

/// Configuration with one tool for each of `names`, and more settings.
fn config(upstream: &Scripted, names: &[&str], more: &str) -> String {
    let routes: String =
        names.iter().map(|name| format!("  {name}: {{ request: GET old/{name} }}\n")).collect();
    format!("upstreams: {{ old: 'http://{}' }}\nroutes:\n{routes}{more}", upstream.address)
}

fn load(text: &str) -> config::Loaded {
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn tools(client: &mut Client) -> Vec<String> {
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let rest = client.send("GET /tools", &[], "").await.json();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let mcp = client.send("POST /mcp", &headers, &body).await.json();
    assert_eq!(names(&rest), names(&mcp["result"]["tools"]), "the faces agree");
    names(&rest)
}

#[tokio::test]
async fn a_call_in_flight_ends_with_the_table_that_it_began_with() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    let mut served = Loaded::start(&load(&config(&upstream, &["old_tool"], ""))).await;
    let (mut calling, mut client) = (served.connect().await, served.connect().await);
    calling.write("POST /tools/old_tool HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    let other = load(&config(&upstream, &["new_tool", "other_tool"], "server: { body_limit: 10KiB }"));
    assert_eq!(served.app.apply(&other).unwrap(), [""; 0]);
    assert_eq!(tools(&mut client).await, ["new_tool", "other_tool"]);
    assert_eq!(client.send("POST /tools/old_tool", &[], "").await.status, 404);
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(10 << 10));
    let response = client.send("POST /tools/new_tool", &["Content-Type: application/json"], &long).await;
    assert_eq!(response.status, 413, "what comes in is judged by the new settings, too");
    gate.open();
    assert_eq!(calling.read(false).await.tool_text(), "done");
}

#[tokio::test]
async fn an_upstream_that_stays_the_same_keeps_its_connections() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut served = Loaded::start(&load(&config(&upstream, &["a"], ""))).await;
    let mut client = served.connect().await;
    assert_eq!(client.send("POST /tools/a", &[], "").await.tool_text(), "ok");
    served.app.apply(&load(&config(&upstream, &["b"], ""))).unwrap();
    assert_eq!(client.send("POST /tools/b", &[], "").await.tool_text(), "ok");
    assert_eq!(upstream.state().connections, 1);
    served.app.apply(&load(&config(&upstream, &["b"], "defaults: { max_in_flight: 7 }"))).unwrap();
    assert_eq!(client.send("POST /tools/b", &[], "").await.tool_text(), "ok");
    assert_eq!(upstream.state().connections, 2);
}

#[tokio::test]
async fn tls_settings_with_equal_certificates_are_equal() {
    let certified = || rcgen::generate_simple_self_signed(["old.test".to_owned()]).unwrap().cert.pem();
    let (one, other) = (certified(), certified());
    let file = |ca: &str, more: &str| {
        let tls = format!("{{ ca: {ca:?}{more} }}");
        load(&format!(
            "upstreams: {{ old: {{ url: 'https://old.test', tls: {tls} }}, plain: https://old.test }}\nroutes: {{ a: {{ request: GET old/a }}, b: {{ request: GET plain/b }} }}"
        ))
    };
    let same = |left: &config::Loaded, right: &config::Loaded, index: usize| {
        left.upstreams[index].settings == right.upstreams[index].settings
    };
    assert!(same(&file(&one, ""), &file(&one, ""), 0));
    assert!(same(&file(&one, ""), &file(&one, ""), 1), "the roots of the system are the same, too");
    assert!(!same(&file(&one, ""), &file(&other, ""), 0));
    assert!(!same(&file(&one, ""), &file(&one, ", server_name: new.test"), 0));
}

#[cfg(unix)]
#[tokio::test]
async fn sighup_activates_a_valid_file_and_reports_an_invalid_one() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let file = std::env::temp_dir().join(format!("glossator-it-reload-{}.yaml", std::process::id()));
    let listen = "server: { listen: '127.0.0.1:0' }";
    std::fs::write(&file, config(&upstream, &["a"], listen)).unwrap();
    let mut program = Program::start_from(&file, &[]).await;
    let mut client = program.connect().await;
    assert_eq!(tools(&mut client).await, ["a"]);

    std::fs::write(&file, config(&upstream, &["a", "b"], "server: { listn: x }")).unwrap();
    program.signal("HUP");
    let line = program.wait_for_log("config reload failed", 1).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    let report = line["report"].as_str().unwrap();
    assert_eq!((&line["level"], &line["problems"]), (&"ERROR".into(), &1.into()));
    assert!(report.contains("unknown key `listn`") && report.contains("did you mean `listen`?"), "{report}");
    assert_eq!(tools(&mut client).await, ["a"]);

    std::fs::write(
        &file,
        config(&upstream, &["b"], "server: { listen: '127.0.0.1:1' }\nlog: { level: debug }"),
    )
    .unwrap();
    program.signal("HUP");
    let line = program.wait_for_log("take effect only after a restart", 1).await;
    assert!(line.contains("server.listen, log.level"), "{line}");
    soon("the new table", async { while tools(&mut client).await != ["b"] {} }).await;
    std::fs::remove_file(&file).unwrap();
    program.signal("HUP");
    let line = program.wait_for_log("config reload failed", 2).await;
    assert!(line.contains("the configuration does not exist"), "{line}");
    assert_eq!(tools(&mut client).await, ["b"]);
    assert!(program.is_running());
}
