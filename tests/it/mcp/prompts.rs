//! Prompts over real sockets, in legacy and modern revisions.

use glossator::pipeline::{Snapshot, SnapshotParts};
use glossator::route::RouteTable;
use serde_json::{Value, json};

use super::served::{LIFECYCLES, Served};
use crate::support::{ReceivedRequest, Scripted, Step, response};

/// Every kind of block, and every kind of failure.
const CONFIGURATION: &str = r#"
upstreams: { old: "LEGACY" }
routes:
  get_report:
    description: The report of a station.
    request: GET old/report/{city}
    input:
      properties: { city: { enum: [oslo, bergen, nowhere, broken] }, days: { type: integer } }
      required: [city]
    response:
      - when: { status: 404 }
        error: "There is no station in {{ args.city }}."
      - extract: { pairs: { fields: { Temp: number } } }
        content: [{ text: "{{ structured.Temp }} °C for {{ args.days | default(1) }}" }, { as: json }]
  get_media:
    description: All that is not text.
    request: GET old/picture
    response:
      content:
        - { image: response, media_type: image/png }
        - { audio: response, media_type: audio/wav }
        - { resource: response, media_type: application/pdf }
        - resource_link: { uri: "old://all", name: all }
  prices:
    description: What things cost.
    request: GET old/prices
    resource: { uri: prices://today, media_type: text/csv }
  picture:
    description: The picture of a day.
    request: GET old/picture/{day}
    resource: picture://{day}
prompts:
  sources:
    description: Documents that are read where they are.
    arguments: { day: { required: true } }
    messages:
      - user:
          - resource: prices://today
          - resource: { uri: "picture://{{ args.day }}" }
            annotations: { priority: 1 }
  assess:
    title: Assess a station
    description: Asks for an assessment.
    arguments:
      city: { title: City, description: Where it is., required: true }
      days: { description: How many. }
      tone:
    messages:
      - user: "Assess {{ args.city }}{% if args.tone %}, {{ args.tone }}{% endif %}."
      - user:
          - route: get_report
            args: { city: "{{ args.city }}", days: "{{ args.days | default('') }}" }
            annotations: { audience: [assistant], priority: 0.5 }
          - text: "{% if args.tone %}Be {{ args.tone }}.{% endif %}"
      - assistant: "It is"
  media:
    description: Shows what is not text.
    messages:
      - user: [{ route: get_media }]
      - user:
          - resource: { uri: "note://{{ 1 + 1 }}", text: "<b>", media_type: text/html }
          - resource_link: { uri: "https://example.com/", name: home, description: The page. }
  plain:
    description: Says hello.
    messages: [{ user: Hello. }]
  silent:
    description: May have nothing to say.
    arguments: { what: }
    messages: [{ user: "{% if args.what %}{{ args.what }}{% endif %}" }]
"#;

async fn served() -> (Served, Scripted) {
    let upstream = Scripted::start(|request: &ReceivedRequest| {
        let path = request.line().split(' ').nth(1).unwrap();
        vec![Step::Send(match path {
            "/report/oslo" => response("200 OK", "text/plain", "Temp: 5.0\n"),
            "/report/nowhere" => response("404 Not Found", "text/plain", "ERR at /srv/station.c:17"),
            "/report/broken" => response("500 Oops", "text/plain", "panic: password=hunter2"),
            "/prices" => response("200 OK", "text/plain", "nail,1\n"),
            "/picture/sunday" => response("404 Not Found", "text/plain", "closed on sundays, see /srv/hours"),
            "/picture" | "/picture/today" => response("200 OK", "application/octet-stream", "PNG\0"),
            _ => response("404 Not Found", "text/plain", "no"),
        })]
    })
    .await;
    (Served::start(CONFIGURATION, &upstream).await, upstream)
}

fn get(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

#[tokio::test]
async fn prompts_are_listed_with_their_arguments() {
    let (served, _upstream) = served().await;
    for revision in LIFECYCLES {
        assert_eq!(served.capabilities(revision).await["prompts"], json!({ "listChanged": true }));
        let list = served.result(revision, "prompts/list", json!({})).await;
        let names: Vec<_> =
            list["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]).collect();
        assert_eq!(names, ["assess", "media", "plain", "silent", "sources"]);
        assert_eq!(
            list["prompts"][0],
            json!({
                "name": "assess",
                "title": "Assess a station",
                "description": "Asks for an assessment.",
                "arguments": [
                    { "name": "city", "title": "City", "description": "Where it is.", "required": true },
                    { "name": "days", "description": "How many.", "required": false },
                    { "name": "tone", "required": false },
                ],
            })
        );
        assert_eq!(list["prompts"][2], json!({ "name": "plain", "description": "Says hello." }));
    }
    let list = served.result(LIFECYCLES[1], "prompts/list", json!({})).await;
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(60_000), &json!("public")));
    assert_eq!(list["resultType"], "complete");
}

#[tokio::test]
async fn a_prompt_has_its_arguments_and_the_results_of_routes() {
    let (served, _upstream) = served().await;
    let text = |role: &str, text: &str| json!({ "role": role, "content": { "type": "text", "text": text } });
    let hinted = |text: &str| {
        json!({ "role": "user", "content": { "type": "text", "text": text,
            "annotations": { "audience": ["assistant"], "priority": 0.5 } } })
    };
    for revision in LIFECYCLES {
        let whole = get("assess", json!({ "city": "oslo", "days": "3", "tone": "gentle" }));
        let result = served.result(revision, "prompts/get", whole).await;
        assert_eq!(result["description"], "Asks for an assessment.");
        assert_eq!(
            result["messages"],
            json!([
                text("user", "Assess oslo, gentle."),
                hinted("5.0 °C for 3"),
                hinted(r#"{"Temp":5.0}"#),
                text("user", "Be gentle."),
                text("assistant", "It is"),
            ])
        );
        // An empty text yields no message, and a missing argument is not passed on.
        let least = served.result(revision, "prompts/get", get("assess", json!({ "city": "oslo" }))).await;
        assert_eq!(least["messages"][0], text("user", "Assess oslo."));
        assert_eq!(least["messages"][1], hinted("5.0 °C for 1"));
        assert_eq!(least["messages"].as_array().unwrap().len(), 4);
        let plain = served.result(revision, "prompts/get", json!({ "name": "plain" })).await;
        assert_eq!(plain["messages"], json!([text("user", "Hello.")]));
        let meta = "io.modelcontextprotocol/serverInfo";
        assert_eq!(plain["_meta"].get(meta).is_some(), revision == LIFECYCLES[1], "{plain}");
    }
}

#[tokio::test]
async fn images_audio_documents_and_links_are_blocks_of_messages() {
    let (served, _upstream) = served().await;
    let blocks = async |revision: &str| -> Vec<Value> {
        let result = served.result(revision, "prompts/get", json!({ "name": "media" })).await;
        result["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect()
    };
    for revision in LIFECYCLES {
        assert_eq!(
            blocks(revision).await,
            [
                json!({ "type": "image", "data": "UE5HAA==", "mimeType": "image/png" }),
                json!({ "type": "audio", "data": "UE5HAA==", "mimeType": "audio/wav" }),
                blocks(revision).await[2].clone(),
                json!({ "type": "resource_link", "uri": "old://all", "name": "all" }),
                json!({ "type": "resource",
                    "resource": { "uri": "note://2", "mimeType": "text/html", "text": "<b>" } }),
                json!({ "type": "resource_link", "uri": "https://example.com/", "name": "home",
                    "description": "The page." }),
            ]
        );
        let document = &blocks(revision).await[2];
        assert_eq!(
            (&document["type"], &document["resource"]["blob"]),
            (&json!("resource"), &json!("UE5HAA=="))
        );
    }
    // Kinds of block that a revision lacks become text: an unknown kind would invalidate the whole prompt.
    let kinds = |blocks: Vec<Value>| -> Vec<String> {
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    let text = "text";
    assert_eq!(kinds(blocks("2025-03-26").await), ["image", "audio", "resource", text, "resource", text]);
    assert_eq!(kinds(blocks("2024-11-05").await), ["image", text, "resource", text, "resource", text]);
}

#[tokio::test]
async fn documents_are_read_by_their_uris() {
    let (served, _upstream) = served().await;
    let day = |day: &str| get("sources", json!({ "day": day }));
    for revision in LIFECYCLES {
        let result = served.result(revision, "prompts/get", day("today")).await;
        let document = |contents: Value| json!({ "type": "resource", "resource": contents });
        let mut picture = document(
            json!({ "uri": "picture://today", "mimeType": "application/octet-stream", "blob": "UE5HAA==" }),
        );
        picture["annotations"] = json!({ "priority": 1.0 });
        assert_eq!(
            result["messages"],
            json!([
                { "role": "user", "content": document(
                    json!({ "uri": "prices://today", "mimeType": "text/csv", "text": "nail,1\n" })) },
                { "role": "user", "content": picture },
            ])
        );
        let (_, code, message) = served.error(revision, "prompts/get", day("sunday")).await;
        assert_eq!(code, -32603, "{message}");
        assert!(message.contains("not found") && !message.contains("/srv"), "{message}");
    }
}

#[tokio::test]
async fn request_errors_are_described_and_internal_failures_are_not() {
    let (served, upstream) = served().await;
    for revision in LIFECYCLES {
        for (params, code, words) in [
            (json!({ "name": "assess" }), -32602, "argument `city` is required"),
            (get("assess", json!({ "city": "oslo", "citi": "x" })), -32602, "argument `citi` is unknown"),
            (get("assess", json!({ "city": 5 })), -32602, "argument `city` must be a string, found a number"),
            (get("plain", json!({ "a": "b" })), -32602, "this prompt takes none"),
            (json!({ "name": "nobody" }), -32602, "unknown prompt `nobody`"),
            // The route's own schema reports invalid typed values.
            (get("assess", json!({ "city": "berlin" })), -32602, "must be one of `oslo`"),
            (get("assess", json!({ "city": "oslo", "days": "many" })), -32602, "`days`"),
            (get("assess", json!({ "city": "nowhere" })), -32603, "There is no station in nowhere."),
            (get("assess", json!({ "city": "broken" })), -32603, "the prompt can't be built: "),
            (json!({ "name": "silent" }), -32603, "no message"),
        ] {
            let shown = params.to_string();
            let (status, found, message) = served.error(revision, "prompts/get", params).await;
            assert_eq!((status, found), (200, code), "{shown}: {message}");
            assert!(message.contains(words), "{shown}: {message}");
            assert!(!message.contains("/srv") && !message.contains("hunter2"), "{message}");
        }
        let (_, code, _) = served.error(revision, "prompts/get", json!({})).await;
        assert_eq!(code, -32602);
        let (_, code, _) = served.error(revision, "prompts/list", json!({ "cursor": "tools" })).await;
        assert_eq!(code, -32602);
    }
    // No request was sent for arguments that no prompt has.
    assert!(upstream.state().requests.iter().all(|request| !request.line().contains("berlin")));
}

#[tokio::test]
async fn the_routes_of_a_prompt_are_called_concurrently() {
    let gate = crate::support::Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |request: &ReceivedRequest| {
        let body = request.line().split(' ').nth(1).unwrap().to_owned();
        vec![Step::Hold(held.clone()), Step::Send(response("200 OK", "text/plain", &body))]
    })
    .await;
    let text = "
upstreams: { old: LEGACY }
routes:
  page: { description: A page., request: 'GET old/{page}' }
prompts:
  both:
    description: Two pages.
    messages: [{ user: [{ route: page, args: { page: first } }, { route: page, args: { page: second } }] }]
";
    let served = Served::start(text, &upstream).await;
    let prompt = served.result(LIFECYCLES[1], "prompts/get", json!({ "name": "both" }));
    let both = async {
        upstream.until("both requests", |state| state.requests.len() == 2).await;
        gate.open();
    };
    let (result, ()) = tokio::join!(prompt, both);
    let texts = result["messages"].as_array().unwrap().iter().map(|message| &message["content"]["text"]);
    assert_eq!(texts.collect::<Vec<_>>(), ["/first", "/second"]);
}

#[tokio::test]
async fn a_disconnected_client_cancels_the_calls_of_its_prompt() {
    let gate = crate::support::Gate::new();
    let upstream = Scripted::start(move |_| vec![Step::Hold(gate.clone())]).await;
    let text = "
upstreams: { old: LEGACY }
routes:
  page: { description: A page., request: GET old/page }
prompts:
  both: { description: Two pages., messages: [{ user: [{ route: page }, { route: page }] }] }
";
    let served = Served::start(text, &upstream).await;
    tokio::select! {
        response = served.post(LIFECYCLES[1], "prompts/get", json!({ "name": "both" })) => panic!("{response:?}"),
        _ = upstream.until("both requests", |state| state.requests.len() == 2) => {}
    }
    // Dropping the future closes the connection as well.
    upstream.until("both given up", |state| state.closed_connections == 2).await;
}

#[tokio::test]
async fn the_prompts_capability_needs_prompts() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "x")).await;
    let text = "upstreams: { old: LEGACY }\nroutes: { a: { description: x, request: GET old/ } }";
    let served = Served::start(text, &upstream).await;
    for (revision, status) in LIFECYCLES.into_iter().zip([200, 404]) {
        let capabilities = served.capabilities(revision).await;
        assert!(capabilities.get("prompts").is_none() && capabilities.get("completions").is_none());
        for method in ["prompts/list", "prompts/get", "completion/complete"] {
            let (found, code, _) = served.error(revision, method, json!({ "name": "x" })).await;
            assert_eq!((found, code), (status, -32601), "{revision} {method}");
        }
    }
}

/// `Mcp-Name` is compared with the name of a prompt, as with that of a tool.
#[tokio::test]
async fn the_header_must_repeat_the_name_of_the_prompt() {
    use super::{Endpoint, Post};
    let post = Post::per_request("prompts/get", json!({ "name": "plain" })).header("mcp-name", "other");
    let text = CONFIGURATION.replace("LEGACY", "http://127.0.0.1:9");
    let loaded = glossator::config::load(&glossator::config::Sources::from_text("a.yaml", text)).unwrap();
    let endpoint = Endpoint::new();
    let parts = SnapshotParts { prompts: loaded.prompts, ..SnapshotParts::default() };
    endpoint.gateway.replace(Snapshot::new(RouteTable::new(Vec::new()).unwrap(), parts));
    assert_eq!(endpoint.send(post.clone()).await.error(), (400, -32020));
    assert_eq!(endpoint.send(post.clone().without("mcp-name")).await.error(), (400, -32020));
    let encoded = post.header("mcp-name", "=?base64?cGxhaW4=?=");
    assert_eq!(endpoint.send(encoded).await.result()["messages"][0]["content"]["text"], "Hello.");
}

#[tokio::test]
async fn the_page_shows_what_happens() {
    let page = include_str!("../../../config/book/reference/prompts.md");
    let block = |kind: &str| {
        let rest = page.split(&format!("```{kind}\n")).nth(1).unwrap();
        rest.split("```").next().unwrap()
    };
    let upstream = Scripted::answering(response("200 OK", "text/plain", "Temp: 5.0\n")).await;
    let text = block("yaml").replace("http://127.0.0.1:9000", "LEGACY");
    let served = Served::start(&text, &upstream).await;
    let shown: Value = serde_json::from_str(block("json")).unwrap();
    for revision in LIFECYCLES {
        let params = get("assess_station", json!({ "city": "Oslo" }));
        assert_eq!(served.result(revision, "prompts/get", params).await["messages"], shown);
    }
}
