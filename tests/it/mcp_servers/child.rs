//! MCP servers as child processes.

use glossator::{
    config::{self, Sources},
    server::App,
};
use serde_json::json;

use super::{Served, server};
use crate::support::{Gate, Piped, Scripted, Step, response, soon};

/// MCP server as a short shell script. It selects the response by the content of the request.
const SERVER: &str = r##"
echo "a line for people"
echo "to its standard error, with $WORD and ${HIDDEN:-nothing}" >&2
hung=0
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
text() { answer "$1" "{\"content\":[{\"type\":\"text\",\"text\":\"$2\"}]}"; }
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%,*}
    case $line in
        *'"initialize"'*) answer "$id" '{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}' ;;
        *'"tools/list"'*) answer "$id" '{"tools":[{"name":"die","inputSchema":{"type":"object"}},{"name":"flood","inputSchema":{"type":"object"}},{"name":"flood_end","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"hung","inputSchema":{"type":"object"}},{"name":"noise","inputSchema":{"type":"object"}},{"name":"pid","inputSchema":{"type":"object"}},{"name":"stay","inputSchema":{"type":"object"}},{"name":"word","inputSchema":{"type":"object"}}]}' ;;
        *'"name":"pid"'*) text "$id" "$$" ;;
        *'"name":"word"'*) text "$id" "$WORD ${HIDDEN:-nothing} $(pwd)" ;;
        *'"name":"stay"'*) sleep 1000 & text "$id" "$!" ;;
        *'"name":"die"'*) exit 3 ;;
        *'"name":"fail"'*) answer "$id" '{"content":[{"type":"text","text":"no"}],"isError":true}' ;;
        *'"name":"hang"'*) hung=$((hung + 1)) ;;
        *'"name":"hung"'*) text "$id" "$hung" ;;
        *'"name":"noise"'*)
            printf '{"id":%s,"level":"info","result":{"rows":3}}\n' "$id"
            printf '{"jsonrpc":"2.0","id":%s,"level":"info"}\n' "$id"
            text "$id" done
            ;;
        *'"name":"flood_end"'*)
            printf '{"result":{"content":[{"type":"text","text":"'
            head -c 67200000 /dev/zero | tr '\0' a
            printf '"}]},"jsonrpc":"2.0","id":%s}\n' "$id"
            ;;
        *'"name":"flood"'*)
            printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
            head -c 67200000 /dev/zero | tr '\0' a
            ;;
    esac
done
"##;

async fn served(more: &str) -> Served {
    served_with(more, "").await
}

async fn served_with(more: &str, routes: &str) -> Served {
    // Shell variables are escaped, so that the configuration does not expand them.
    let command = json!(["sh", "-c", SERVER.replace("${", "$${")]);
    Served::start(&format!(
        "upstreams:\n  old:\n    {{ mcp: {{ command: {command}, env: {{ set: {{ WORD: hello }} }}, cwd: / }}{more} }}\n\
         {routes}"
    ))
    .await
}

/// Whether a process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

#[tokio::test]
async fn a_child_is_started_with_its_own_environment_and_serves_every_call() {
    let served = served("").await;
    assert_eq!(
        served.names().await,
        ["die", "flood", "flood_end", "hang", "hung", "noise", "pid", "stay", "word"]
    );
    assert_eq!(served.call("word", json!({})).await.tool_text(), "hello nothing /");
    let (one, other) = tokio::join!(served.call("pid", json!({})), served.call("pid", json!({})));
    assert_eq!(one.tool_text(), other.tool_text(), "one child for all calls");
}

#[tokio::test]
async fn a_child_that_ends_is_started_again_and_the_call_is_cut_off() {
    let served = served(", retry: off").await;
    let first = served.call("pid", json!({})).await.tool_text();
    let text = served.call("die", json!({})).await.tool_text();
    assert!(text.starts_with("The service closed the connection"), "{text}");
    let second = served.call("pid", json!({})).await.tool_text();
    assert_ne!(first, second);
    assert!(!is_alive(&first));
}

#[tokio::test]
async fn an_error_over_stdio_has_no_http_status() {
    let command = json!(["sh", "-c", SERVER.replace("${", "$${")]);
    let upstreams = json!({ "old": { "mcp": { "command": command } } });
    let config = format!("upstreams: {upstreams}\nroutes: {{ a: {{ request: CALL old/fail }} }}");
    let served = Served::start(&config).await;
    let failed = served.over_mcp("tools/call", json!({ "name": "a", "arguments": {} })).await;
    let result = &failed["result"];
    assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!("no")), "{failed}");
    assert_eq!(result["_meta"].get("glossator/upstreamStatus"), None, "{failed}");
}

#[tokio::test]
async fn a_line_of_a_log_on_standard_output_is_no_answer() {
    let served = served("").await;
    assert_eq!(served.call("noise", json!({})).await.tool_text(), "done");
}

#[tokio::test]
async fn a_message_over_the_hard_limit_fails_its_own_call_and_no_other() {
    let served = served(", response_limit: 100MiB, timeout: 50s, retry: off").await;
    let hang = served.call("hang", json!({}));
    let floods = async {
        soon("a call that hangs", async { while served.call("hung", json!({})).await.tool_text() != "1" {} })
            .await;
        // The second line does not even end.
        for tool in ["flood_end", "flood"] {
            let text = served.call(tool, json!({})).await.tool_text();
            assert!(text.contains("longer than the limit of 64 MiB"), "{tool}: {text}");
        }
    };
    tokio::select! {
        answered = hang => panic!("{}", answered.text()),
        () = floods => {}
    }
}

#[tokio::test]
async fn a_tool_of_a_server_that_starts_is_not_ready_and_not_unknown() {
    let go = std::env::temp_dir().join(format!("glossator-it-slow-{}", std::process::id()));
    let _ = std::fs::remove_file(&go);
    let slow =
        format!("while [ ! -e {} ]; do sleep 0.02; done\n{}", go.display(), SERVER.replace("${", "$${"));
    let config = format!(
        "upstreams: {{ slow: {{ mcp: {{ command: {} }}, tools: {{ prefix: slow_ }} }} }}",
        json!(["sh", "-c", slow])
    );
    let served = Served::start_after(std::time::Duration::ZERO, &config).await;
    let early = served.call("slow_noise", json!({})).await;
    assert_eq!((early.status, early.header("retry-after")), (503, Some("2".to_owned())));
    assert!(early.text().contains("Not ready"), "{}", early.text());
    assert_eq!(served.call("fast_noise", json!({})).await.status, 404);
    let over_mcp = served.over_mcp("tools/call", json!({ "name": "slow_noise", "arguments": {} })).await;
    assert_eq!(over_mcp["result"]["isError"], true, "{over_mcp}");
    assert_eq!(over_mcp["result"]["_meta"]["glossator/retryAfter"], 2);
    let list = served.over_mcp("tools/list", json!({})).await;
    assert_eq!((&list["result"]["tools"], &list["result"]["ttlMs"]), (&json!([]), &json!(0)));
    std::fs::write(&go, "").unwrap();
    soon("the tool", async {
        while served.call("slow_noise", json!({})).await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    std::fs::remove_file(&go).unwrap();
    let list = served.over_mcp("tools/list", json!({})).await;
    assert_eq!(list["result"]["ttlMs"], json!(60000));
    assert_eq!(served.call("slow_nothing", json!({})).await.status, 404);
}

#[tokio::test]
async fn a_server_that_hangs_at_its_start_delays_only_what_needs_it() {
    let go = std::env::temp_dir().join(format!("glossator-it-hung-{}", std::process::id()));
    let _ = std::fs::remove_file(&go);
    let slow =
        format!("while [ ! -e {} ]; do sleep 0.02; done\n{}", go.display(), SERVER.replace("${", "$${"));
    let old = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let config = format!(
        "upstreams:\n  old: 'http://{}'\n  slow: {{ mcp: {{ command: {} }}, tools: {{ prefix: slow_ }} }}\n\
         routes:\n  quick: {{ request: GET old/quick }}\n  own: {{ request: CALL slow/noise }}\n",
        old.address,
        json!(["sh", "-c", slow])
    );
    let loaded = config::load(&Sources::from_text("a.yaml", config));
    let mut app = App::new(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).unwrap();
    app.start().await;
    let served = Served::with_app(app).await;
    let quick = async |tool: &'static str| served.call(tool, json!({})).await;
    let by_mcp = json!({ "name": "quick", "arguments": {} });
    {
        let waiting = async { tokio::join!(served.names(), quick("slow_pid"), quick("own")) };
        let mut waiting = std::pin::pin!(waiting);
        tokio::select! {
            (names, ..) = &mut waiting => panic!("nothing waits: {names:?}"),
            () = async {
                assert_eq!(quick("quick").await.tool_text(), "well");
                let result = served.over_mcp("tools/call", by_mcp).await;
                assert_eq!(result["result"]["content"][0]["text"], "well", "{result}");
                assert_eq!(quick("fast_noise").await.status, 404);
            } => {}
        }
        std::fs::write(&go, "").unwrap();
        let (names, pid, own) = soon("the lists", waiting).await;
        assert!(names.contains(&"slow_pid".to_owned()), "{names:?}");
        assert!(pid.tool_text().parse::<u32>().is_ok(), "{}", pid.text());
        assert_eq!(own.tool_text(), "done");
    }
    std::fs::remove_file(&go).unwrap();
}

/// A client may send the next message before the response to `initialize`.
#[tokio::test]
async fn over_stdio_a_handshake_that_waits_for_lists_precedes_the_next_message() {
    let gate = Gate::new();
    let held = gate.clone();
    let notes = server(move |rpc| match rpc.method() {
        "initialize" => {
            let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "prompts": {} },
                "serverInfo": { "name": "notes", "version": "1" } });
            Some(rpc.result(&result.to_string()))
        }
        "tools/list" => Some(rpc.result(r#"{"tools":[]}"#)),
        "prompts/list" => {
            let mut steps = vec![Step::Hold(held.clone())];
            steps.extend(rpc.result(r#"{"prompts":[{"name":"sum_up"}]}"#));
            Some(steps)
        }
        _ => None,
    })
    .await;
    let config = format!("upstreams: {{ notes: {{ mcp: 'http://{}/mcp' }} }}", notes.address);
    let mut piped = Piped::start(&config);
    let client = json!({ "name": "t", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    piped.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
    piped.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "prompts/list" }));
    notes
        .until("the list is requested", |state| {
            let is_list = |body: &[u8]| String::from_utf8_lossy(body).contains("prompts/list");
            state.requests.iter().any(|request| is_list(&request.body))
        })
        .await;
    gate.open();
    let hello = piped.next().await;
    assert!(hello["result"]["capabilities"]["prompts"].is_object(), "{hello}");
    let list = piped.next().await;
    assert_eq!(list["result"]["prompts"][0]["name"], "sum_up", "{list}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn with_the_program_end_the_child_and_what_it_started() {
    let served = served("").await;
    let child = served.call("pid", json!({})).await.tool_text();
    let grandchild = served.call("stay", json!({})).await.tool_text();
    assert!(is_alive(&child) && is_alive(&grandchild));
    served.running.end().await;
    soon("the end of both", async {
        while is_alive(&child) || is_alive(&grandchild) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_missing_program_does_not_affect_other_upstreams() {
    let served = Served::start(
        "upstreams:\n  none: { mcp: { command: [/no/such/program] }, tools: off }\n  http: 'http://127.0.0.1:9'\n\
         routes: { one: { request: GET http/a }, other: { request: CALL none/x } }",
    )
    .await;
    assert_eq!(served.names().await, ["one", "other"]);
    let text = served.call("other", json!({})).await.tool_text();
    assert!(text.starts_with("The program behind this tool could not be started."), "{text}");
}

/// Without a list of tools, only a call starts the program.
#[tokio::test]
async fn the_restart_backoff_begins_with_the_exit() {
    let routes = "routes: { die: { request: CALL old/die }, pid: { request: CALL old/pid } }";
    let served = served_with(", tools: off", routes).await;
    for _ in 0..3 {
        let text = served.call("die", json!({})).await.tool_text();
        assert!(text.contains("closed the connection"), "{text}");
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(30)).await;
        tokio::time::resume();
    }
    let pid = served.call("pid", json!({})).await.tool_text();
    assert!(is_alive(&pid), "{pid}");
}

#[tokio::test]
async fn a_call_between_two_starts_says_when_the_server_is_restarted() {
    let served = Served::start(
        "upstreams: { none: { mcp: { command: [/no/such/program] } } }\n\
         routes: { other: { request: CALL none/x } }",
    )
    .await;
    let expected = "The MCP server behind this tool is not running, and is being restarted. No request was \
                    sent. Retry in ";
    let mut text = String::new();
    // The first starts follow at once.
    for _ in 0..6 {
        text = served.call("other", json!({})).await.tool_text();
        if text.contains(expected) {
            break;
        }
    }
    assert!(text.contains(expected), "{text}");
}
