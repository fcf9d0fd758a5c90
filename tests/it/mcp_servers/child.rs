//! MCP servers that are children of the program.

use serde_json::json;

use super::Served;
use crate::support::soon;

/// A server of a few lines, as a shell runs it: it answers each request by what is in it.
const SERVER: &str = r##"
echo "a line for people"
echo "to its standard error, with $WORD and ${HIDDEN:-nothing}" >&2
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
text() { answer "$1" "{\"content\":[{\"type\":\"text\",\"text\":\"$2\"}]}"; }
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%,*}
    case $line in
        *'"initialize"'*) answer "$id" '{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}' ;;
        *'"tools/list"'*) answer "$id" '{"tools":[{"name":"die","inputSchema":{"type":"object"}},{"name":"pid","inputSchema":{"type":"object"}},{"name":"stay","inputSchema":{"type":"object"}},{"name":"word","inputSchema":{"type":"object"}}]}' ;;
        *'"name":"pid"'*) text "$id" "$$" ;;
        *'"name":"word"'*) text "$id" "$WORD ${HIDDEN:-nothing} $(pwd)" ;;
        *'"name":"stay"'*) sleep 1000 & text "$id" "$!" ;;
        *'"name":"die"'*) exit 3 ;;
    esac
done
"##;

async fn served(more: &str) -> Served {
    // What the shell reads as a variable is not for the configuration.
    let command = json!(["sh", "-c", SERVER.replace("${", "$${")]);
    Served::start(&format!(
        "upstreams: {{ old: {{ mcp: {{ command: {command}, environment: {{ set: {{ WORD: hello }} }}, cwd: / }}{more} }} }}"
    ))
    .await
}

/// Whether a process is there and not only waiting to be reaped.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

#[tokio::test]
async fn a_child_is_started_with_its_own_environment_and_serves_every_call() {
    let served = served("").await;
    assert_eq!(served.names().await, ["die", "pid", "stay", "word"]);
    assert_eq!(served.call("word", json!({})).await.told(), "hello nothing /");
    let (one, other) = tokio::join!(served.call("pid", json!({})), served.call("pid", json!({})));
    assert_eq!(one.told(), other.told(), "one child for all calls");
}

#[tokio::test]
async fn a_child_that_ends_is_started_again_and_the_call_is_cut_off() {
    let served = served(", retry: off").await;
    let first = served.call("pid", json!({})).await.told();
    let told = served.call("die", json!({})).await.told();
    assert!(told.starts_with("The service broke off"), "{told}");
    let second = served.call("pid", json!({})).await.told();
    assert_ne!(first, second);
    assert!(!is_alive(&first));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn with_the_program_end_the_child_and_what_it_started() {
    let served = served("").await;
    let child = served.call("pid", json!({})).await.told();
    let grandchild = served.call("stay", json!({})).await.told();
    assert!(is_alive(&child) && is_alive(&grandchild));
    served.keeping.end().await;
    soon("the end of both", async {
        while is_alive(&child) || is_alive(&grandchild) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_program_that_is_not_there_takes_nothing_else_away() {
    let served = Served::start(
        "upstreams: { none: { mcp: { command: [/no/such/program] } }, http: 'http://127.0.0.1:9' }\n\
         routes: { one: { request: GET http/a }, other: { request: CALL none/x } }",
    )
    .await;
    assert_eq!(served.names().await, ["one", "other"]);
    let told = served.call("other", json!({})).await.told();
    assert!(told.contains("can't be reached") || told.contains("left alone"), "{told}");
}
