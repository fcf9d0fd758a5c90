//! Completion over real sockets, in legacy and modern revisions.

use serde_json::{Value, json};

use super::served::{LIFECYCLES, Served};
use crate::support::{ReceivedRequest, Scripted, Step, response};

const CONFIGURATION: &str = r#"
upstreams: { old: "LEGACY" }
routes:
  list_cities:
    description: The cities, one a line.
    request: GET old/cities
  search_parts:
    description: Parts of a machine.
    request: GET old/parts/{machine}?q={letters}
  many:
    description: Very many values.
    request: GET old/many
  fails:
    description: Fails.
    request: GET old/fails
  get_picture:
    description: A picture.
    request: GET old/picture/{gate}/{size}
    input:
      properties: { gate: { enum: [North, South, Northeast] }, size: { oneOf: [{ const: 1 }, { const: 12 }] } }
      required: [gate, size]
  report:
    description: A report.
    request: GET old/{kind}/{day}/{page}
    resource: report://{kind}/{day}/{page}
    input:
      properties: { kind: { enum: [Sales, Stock] }, day: { type: string }, page: { type: integer } }
      required: [kind, day, page]
    completions:
      day:
        route: search_parts
        args: { machine: "{{ args.kind }}", letters: "{{ args.day }}" }
        values: "[.parts[].name]"
prompts:
  all:
    description: Every kind of completion.
    arguments:
      style: { completions: [short, thorough, Shorter, ashore] }
      city: { completions: { route: list_cities } }
      machine:
      part:
        completions:
          route: search_parts
          args: { machine: "{{ args.machine }}", letters: "{{ args.part }}" }
          values: "[.parts[] | select(.stock > 0) | .name]"
      number: { completions: { route: many } }
      broken: { completions: { route: fails } }
      shapeless: { completions: { route: search_parts, args: { machine: x, letters: x } } }
      unreadable: { completions: { route: search_parts, args: { machine: x, letters: x }, values: ".parts.name" } }
      gate: { required: true }
      size: { required: true }
    messages:
      - user: "{{ args | tojson }}"
      - user: [{ route: get_picture, args: { gate: "{{ args.gate }}", size: "{{ args.size }}" } }]
"#;

async fn served() -> (Served, Scripted) {
    let upstream = Scripted::start(|request: &ReceivedRequest| {
        let path = request.line().split(' ').nth(1).unwrap();
        vec![Step::Send(match path {
            "/cities" => response("200 OK", "text/plain", "Oslo\n  Bergen \n\nOslo\nNordoslo\n"),
            "/many" => {
                let values: Vec<usize> = (0..250).collect();
                response("200 OK", "application/json", &json!(values).to_string())
            }
            "/fails" => response("500 Oops", "text/plain", "panic"),
            _ if path.starts_with("/parts/") => {
                let parts = json!({ "parts": [{ "name": "belt", "stock": 1 }, { "name": "bolt", "stock": 0 },
                    { "name": "V-belt", "stock": 2 }, { "name": path, "stock": 1 }] });
                response("200 OK", "application/json", &parts.to_string())
            }
            _ => response("404 Not Found", "text/plain", "no"),
        })]
    })
    .await;
    (Served::start(CONFIGURATION, &upstream).await, upstream)
}

fn params(argument: &str, typed: &str, others: Value) -> Value {
    json!({ "ref": { "type": "ref/prompt", "name": "all" }, "argument": { "name": argument, "value": typed },
        "context": { "arguments": others } })
}

#[tokio::test]
async fn values_come_from_lists_routes_and_schemas() {
    let (served, _upstream) = served().await;
    for revision in LIFECYCLES {
        assert_eq!(served.capabilities(revision).await["completions"], json!({}));
        for (argument, typed, others, expected) in [
            ("style", "", json!({}), json!(["short", "thorough", "Shorter", "ashore"])),
            ("style", "SHO", json!({}), json!(["short", "Shorter", "ashore"])),
            ("style", "x", json!({}), json!([])),
            ("city", "", json!({}), json!(["Oslo", "Bergen", "Nordoslo"])),
            ("city", "os", json!({}), json!(["Oslo", "Nordoslo"])),
            // The route has filtered by the typed text, so values without it follow at the end.
            ("part", "be", json!({ "machine": "press" }), json!(["belt", "V-belt", "/parts/press?q=be"])),
            // An argument without completions.
            ("machine", "p", json!({}), json!([])),
            // A route that fails, lacks an argument, or returns no list or no value that the filter accepts.
            ("broken", "", json!({}), json!([])),
            ("part", "be", json!({}), json!([])),
            ("shapeless", "", json!({}), json!([])),
            ("unreadable", "", json!({}), json!([])),
            // Passed to a route whose schema lists the values.
            ("gate", "north", json!({}), json!(["North", "Northeast"])),
            ("size", "2", json!({}), json!(["12"])),
        ] {
            let result =
                served.result(revision, "completion/complete", params(argument, typed, others)).await;
            let completion = &result["completion"];
            assert_eq!(completion["values"], expected, "{revision} {argument} {typed}");
            assert_eq!(completion["total"], expected.as_array().unwrap().len());
            assert_eq!(completion["hasMore"], false);
        }
        let result = served.result(revision, "completion/complete", params("number", "1", json!({}))).await;
        let completion = &result["completion"];
        assert_eq!(completion["values"].as_array().unwrap().len(), 100);
        assert_eq!(completion["values"][0], "1");
        assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(133), &json!(true)));
    }
    let result = served.result(LIFECYCLES[1], "completion/complete", params("style", "", json!({}))).await;
    assert_eq!(result["resultType"], "complete");
    assert!(result["_meta"].get("io.modelcontextprotocol/serverInfo").is_some(), "{result}");
}

#[tokio::test]
async fn the_arguments_of_a_resource_template_are_completed() {
    let (served, _upstream) = served().await;
    let params = |uri: &str, argument: &str, typed: &str| {
        json!({ "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": argument, "value": typed },
            "context": { "arguments": { "kind": "Sales" } } })
    };
    let template = "report://{kind}/{day}/{page}";
    for revision in LIFECYCLES {
        for (uri, argument, typed, expected) in [
            (template, "kind", "st", json!(["Stock"])),
            (template, "day", "be", json!(["belt", "V-belt", "/parts/Sales?q=be", "bolt"])),
            (template, "page", "1", json!([])),
            // A URI that matches the template is accepted, too.
            ("report://Sales/monday/1", "kind", "", json!(["Sales", "Stock"])),
        ] {
            let params = params(uri, argument, typed);
            let result = served.result(revision, "completion/complete", params).await;
            assert_eq!(result["completion"]["values"], expected, "{uri} {argument}");
        }
        let unknown = params(template, "city", "");
        let (_, code, message) = served.error(revision, "completion/complete", unknown).await;
        assert_eq!((code, message.contains("no argument `city`")), (-32602, true), "{message}");
    }
}

#[tokio::test]
async fn a_configuration_with_only_resources_supports_completions() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "x")).await;
    let text = |input: &str| {
        format!(
            "upstreams: {{ old: LEGACY }}\nroutes: {{ a: {{ description: x, request: 'GET old/{{n}}', resource: 'a://{{n}}', \
             input: {{ properties: {{ n: {{ {input} }} }}, required: [n] }} }} }}"
        )
    };
    for (input, completes) in [("enum: [a, b]", true), ("type: string", false)] {
        let served = Served::start(&text(input), &upstream).await;
        let capabilities = served.capabilities(LIFECYCLES[1]).await;
        assert_eq!(capabilities.get("completions").is_some(), completes, "{capabilities}");
    }
}

#[tokio::test]
async fn requests_that_cannot_be_completed_are_rejected() {
    let (served, _upstream) = served().await;
    let argument = json!({ "name": "city", "value": "" });
    let prompt = json!({ "type": "ref/prompt", "name": "all" });
    for revision in LIFECYCLES {
        for (params, words) in [
            (json!({ "ref": prompt }), "`params.argument`"),
            (json!({ "argument": argument }), "`params.ref`"),
            (json!({ "ref": { "type": "ref/tool", "name": "all" }, "argument": argument }), "`params.ref`"),
            (json!({ "ref": { "type": "ref/prompt" }, "argument": argument }), "`params.ref`"),
            (json!({ "ref": prompt, "argument": { "name": "city" } }), "`params.argument`"),
            (json!({ "ref": prompt, "argument": { "name": "city", "value": 5 } }), "`params.argument`"),
            (
                json!({ "ref": prompt, "argument": argument, "context": { "arguments": { "a": 5 } } }),
                "`params.context.arguments`",
            ),
            (json!({ "ref": prompt, "argument": argument, "context": [] }), "`params.context.arguments`"),
            (json!({ "ref": { "type": "ref/prompt", "name": "no" }, "argument": argument }), "prompt `no`"),
            (json!({ "ref": prompt, "argument": { "name": "no", "value": "" } }), "no argument `no`"),
            (
                json!({ "ref": { "type": "ref/resource", "uri": "x://y" }, "argument": argument }),
                "resource template `x://y`",
            ),
        ] {
            let shown = params.to_string();
            let (_, code, message) = served.error(revision, "completion/complete", params).await;
            assert_eq!(code, -32602, "{shown}: {message}");
            assert!(message.contains(words), "{shown}: {message}");
        }
    }
}

#[tokio::test]
async fn the_first_revision_has_the_method_and_no_word_for_the_capability() {
    let (served, _upstream) = served().await;
    assert!(served.capabilities("2024-11-05").await.get("completions").is_none());
    let result = served.result("2024-11-05", "completion/complete", params("style", "sh", json!({}))).await;
    assert_eq!(result["completion"]["values"][0], "short");
}
