//! Input requests before the upstream request, in legacy and modern revisions, and for clients without
//! support.

use glossator::config::{self, Sources};
use serde_json::{Map, Value, json};

use super::NEWEST;
use crate::support::{Client, Loaded, ReceivedRequest, Response, Scripted, Step, response, soon};

const ROUTES: &str = r#"
  delete_page:
    description: Deletes a page.
    request: DELETE old/pages/{id}
    confirm: "Really delete page {{ args.id }}?"
  rename_page:
    description: Gives a page another name.
    request:
      method: POST
      path: /pages/{id}
      body: { json: { name: "{{ input_responses.form.name }}", copies: "{{ input_responses.form.copies }}", why: "{{ input_responses.why.text | default('') }}" } }
    input: { type: object, properties: { id: { type: integer } }, required: [id] }
    input_requests:
      - form:
          message: "What shall page {{ args.id }} be called?"
          fields: { name: string, copies: integer? }
        why: { sample: "Why would anybody rename page {{ args.id }}?", optional: true }
      - sure: { when: '$input_responses.form.name == "x"', message: "Really {{ input_responses.form.name }}?" }
  find_page:
    description: Finds a page.
    request: GET old/pages?q={q}
    input_requests:
      words: { message: What are you looking for?, arguments: [q] }
  archive_page:
    description: Archives a page.
    request: PUT old/archive/{id}
    input: { type: object, properties: { id: { type: integer, maximum: 99 } } }
    input_requests:
      page: { message: Which page?, arguments: [id] }
    confirm: "Really archive page {{ args.id }}?"
  sum_up:
    description: A page in few words.
    request: GET old/pages/{id}
    response:
      extract: text
      sample: { messages: "Sum up: {{ text }}", max_tokens: 50 }
      content: "In short: {{ input_responses.sample.text }}"
  where_am_i:
    description: Which folders the client works in.
    request: GET old/pages?n={{ input_responses.folders | length }}
    input_requests: { folders: { roots: true } }
  sign_in:
    description: Signs in.
    request: GET old/session
    input_requests: { door: { message: Sign in first., url: "https://example.com/sign-in" } }
"#;

const PROMPTS: &str = r#"
prompts:
  write_page:
    description: Writes a page.
    arguments: { title: { required: true } }
    input_requests: { about: { message: "What is {{ args.title }} about?", fields: { topic: string } } }
    messages:
      - user: "Write {{ args.title }}, a page about {{ input_responses.about.topic }}."
"#;

/// The program in front of a server that echoes its request.
async fn start() -> (Loaded, Scripted) {
    start_with("").await
}

/// Starts it with these server settings.
async fn start_with(server: &str) -> (Loaded, Scripted) {
    let echo = |request: &ReceivedRequest| {
        let text = format!(
            "{} {}",
            request.line().trim_end_matches(" HTTP/1.1"),
            String::from_utf8_lossy(&request.body)
        );
        vec![Step::Send(response("200 OK", "text/plain", text.trim_end()))]
    };
    let upstream = Scripted::start(echo).await;
    let routes = ROUTES.replace(
        "request: GET old/pages?n={{ input_responses.folders | length }}",
        "request: { path: /pages, query: { n: \"{{ input_responses.folders | length }}\" } }",
    );
    let file = format!(
        "server: {{ {server} }}\nupstreams: {{ old: 'http://{}' }}\nroutes:{routes}{PROMPTS}",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("ask.yaml", &file));
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    (Loaded::start(&loaded).await, upstream)
}

fn upstream_requests(upstream: &Scripted) -> usize {
    upstream.state().requests.len()
}

fn all() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} })
}

/// Calls a tool in revision 2026-07-28.
async fn call_newest(program: &Loaded, capabilities: Value, params: Value) -> Response {
    send_newest(program, "tools/call", capabilities, params).await
}

async fn send_newest(program: &Loaded, method: &str, capabilities: Value, params: Value) -> Response {
    send_newest_with(program, method, capabilities, params, &[]).await
}

/// Sends a message with these additional headers.
async fn send_newest_with(
    program: &Loaded,
    method: &str,
    capabilities: Value,
    mut params: Value,
    more_headers: &[&str],
) -> Response {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let name = format!("Mcp-Name: {}", params["name"].as_str().unwrap());
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let method = format!("Mcp-Method: {method}");
    let version = format!("MCP-Protocol-Version: {NEWEST}");
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        method.as_str(),
        version.as_str(),
        name.as_str(),
    ];
    program.connect().await.send("POST /mcp", &[&headers[..], more_headers].concat(), &body).await
}

/// Result of a call in revision 2026-07-28.
async fn newest(program: &Loaded, params: Value) -> Value {
    let response = call_newest(program, all(), params).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["result"].clone()
}

/// Repeats a call with these input responses, after its first response has requested input.
async fn with_answers(program: &Loaded, capabilities: Value, mut call: Value, responses: Value) -> Response {
    let input_required = call_newest(program, capabilities.clone(), call.clone()).await.json();
    call["requestState"] = input_required["result"]["requestState"].clone();
    call["inputResponses"] = responses;
    call_newest(program, capabilities, call).await
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn sampled_message(text: &str) -> Value {
    json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": text } })
}

/// Text of a result.
#[track_caller]
fn text_of(result: &Value) -> &str {
    assert_eq!(result["resultType"], "complete", "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

/// Checks that a result is a tool error with these words.
#[track_caller]
fn check_rejected(result: &Value, words: &str) {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Nothing was done") && text.contains(words), "{text}");
}

#[tokio::test]
async fn a_call_that_needs_a_yes_waits_for_it() {
    let (program, upstream) = start().await;
    let call = json!({ "name": "delete_page", "arguments": { "id": "7" } });
    let first = newest(&program, call.clone()).await;
    assert_eq!(first["resultType"], "input_required");
    assert_eq!(first["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "glossator", "{first}");
    assert_eq!(
        first["inputRequests"],
        json!({ "confirm": {
            "method": "elicitation/create",
            "params": { "message": "Really delete page 7?", "requestedSchema": { "type": "object", "properties": {} } },
        } })
    );
    assert_eq!(upstream_requests(&upstream), 0);
    let again = |action: Value| {
        let mut call = call.clone();
        call["inputResponses"] = json!({ "confirm": action, "stray": 1 });
        call["requestState"] = first["requestState"].clone();
        call
    };
    for (action, words) in [("decline", "declined"), ("cancel", "did not respond")] {
        let result = newest(&program, again(json!({ "action": action }))).await;
        check_rejected(&result, words);
    }
    assert_eq!(upstream_requests(&upstream), 0);
    let done = newest(&program, again(json!({ "action": "accept" }))).await;
    assert_eq!(text_of(&done), "DELETE /pages/7");
    assert_eq!(upstream_requests(&upstream), 1);
}

#[tokio::test]
async fn an_invalid_timeout_is_reported_before_the_first_input_request() {
    let (program, _upstream) = start().await;
    let call = json!({ "name": "delete_page", "arguments": { "id": "7" } });
    let response = send_newest_with(&program, "tools/call", all(), call, &["X-Request-Timeout: soon"]).await;
    assert!(text_of(&response.json()["result"]).contains("x-request-timeout"), "{}", response.text());
}

#[tokio::test]
async fn rounds_continue_with_earlier_input_responses() {
    let (program, upstream) = start().await;
    let mut call = json!({ "name": "rename_page", "arguments": { "id": 7 } });
    let first = newest(&program, call.clone()).await;
    let mut names: Vec<&String> = first["inputRequests"].as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["form", "why"]);
    assert_eq!(first["inputRequests"]["why"]["params"]["maxTokens"], 1000);

    // Half of the responses: the rest is requested again, and the first half is not lost.
    call["requestState"] = first["requestState"].clone();
    call["inputResponses"] = json!({ "form": accept(json!({ "name": "x", "copies": 2, "stray": true })) });
    let second = newest(&program, call.clone()).await;
    assert_eq!(second["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["why"]);
    assert_ne!(second["requestState"], first["requestState"]);

    // A response to a later input request does not count before that was sent.
    call["requestState"] = second["requestState"].clone();
    call["inputResponses"] = json!({ "why": sampled_message("a whim"), "sure": accept(json!({})) });
    let third = newest(&program, call.clone()).await;
    assert_eq!(third["inputRequests"]["sure"]["params"]["message"], "Really x?");

    call["requestState"] = third["requestState"].clone();
    call["inputResponses"] = json!({ "sure": accept(json!({})) });
    assert_eq!(
        text_of(&newest(&program, call.clone()).await),
        r#"POST /pages/7 {"name":"x","copies":2,"why":"a whim"}"#
    );
    assert_eq!(upstream_requests(&upstream), 1);

    // Optional input requests that the client can't or won't answer are left out.
    let call = json!({ "name": "rename_page", "arguments": { "id": 7 } });
    let form = json!({ "form": accept(json!({ "name": "y" })) });
    let response = with_answers(&program, json!({ "elicitation": {} }), call, form).await;
    assert_eq!(text_of(&response.json()["result"]), r#"POST /pages/7 {"name":"y","why":""}"#);
}

#[tokio::test]
async fn a_state_is_bound_to_its_call_and_responses_to_their_requests() {
    let (program, upstream) = start().await;
    let call = json!({ "name": "delete_page", "arguments": { "id": "7" } });
    let state = newest(&program, call.clone()).await["requestState"].as_str().unwrap().to_owned();
    let yes = json!({ "confirm": { "action": "accept" } });
    let send = |name: &str, arguments: Value, state: String, responses: Value| {
        let params = json!({ "name": name, "arguments": arguments, "requestState": state, "inputResponses": responses });
        call_newest(&program, all(), params)
    };
    let error = |response: Response| (response.status, response.json()["error"]["code"].as_i64().unwrap());
    for response in [
        send("delete_page", json!({ "id": "8" }), state.clone(), yes.clone()).await,
        send("find_page", json!({ "id": "7" }), state.clone(), yes.clone()).await,
        send("delete_page", json!({ "id": "7" }), format!("{state}-TAMPERED"), yes.clone()).await,
        send("delete_page", json!({ "id": "7" }), "7".into(), yes.clone()).await,
        send("delete_page", json!({ "id": "7" }), state.clone(), json!(null)).await,
        send("delete_page", json!({ "id": "7" }), state.clone(), json!({ "confirm": 5 })).await,
        send("delete_page", json!({ "id": "7" }), state.clone(), json!({ "confirm": { "action": "maybe" } }))
            .await,
        send("rename_page", json!({ "id": 7 }), String::new(), json!({})).await,
    ] {
        assert_eq!(error(response), (400, -32602));
    }
    let wrong = json!({ "form": accept(json!({ "name": 5 })) });
    let params = json!({ "name": "rename_page", "arguments": { "id": 7 } });
    let response = with_answers(&program, all(), params, wrong).await;
    assert!(response.text().contains("`name` must be a string"), "{}", response.text());
    assert_eq!(error(response), (400, -32602));
    // Arguments are checked first: no input is requested for an invalid call.
    let params = json!({ "name": "rename_page", "arguments": { "id": "seven" } });
    let result = newest(&program, params).await;
    assert_eq!((result["resultType"].as_str(), result["isError"].as_bool()), (Some("complete"), Some(true)));
    assert_eq!(upstream_requests(&upstream), 0);
}

#[tokio::test]
async fn an_unrequested_response_has_no_effect() {
    let (program, upstream) = start().await;
    let yes = json!({ "confirm": { "action": "accept" }, "sample": sampled_message("a page"), "about": accept(json!({ "topic": "x" })) });
    // `sum_up` reads the page before it sends a sampling request about it.
    for (method, name, reads) in
        [("tools/call", "delete_page", 0), ("prompts/get", "write_page", 0), ("tools/call", "sum_up", 1)]
    {
        let arguments = json!({ "id": "7", "title": "Trains" });
        let mut params = json!({ "name": name, "arguments": arguments, "inputResponses": yes });
        let arguments = params["arguments"].as_object_mut().unwrap();
        arguments.remove(if name == "write_page" { "id" } else { "title" });
        let response = send_newest(&program, method, all(), params).await;
        let result = &response.json()["result"];
        assert_eq!(
            (response.status, result["resultType"].as_str()),
            (200, Some("input_required")),
            "{result}"
        );
        assert!(!result["inputRequests"].as_object().unwrap().is_empty(), "{result}");
        assert_eq!(upstream_requests(&upstream), reads, "{name}");
    }
    // The state of one input request is not valid for another.
    let call = json!({ "name": "rename_page", "arguments": { "id": 7 } });
    let form = accept(json!({ "name": "x", "copies": 1 }));
    let both = json!({ "form": form, "why": sampled_message("a whim"), "sure": accept(json!({})) });
    let next = with_answers(&program, all(), call, both).await.json();
    assert_eq!(next["result"]["inputRequests"]["sure"]["params"]["message"], "Really x?");
    assert_eq!(upstream_requests(&upstream), 1);
    // Without input requests, input responses are ignored.
    let given = json!({ "name": "find_page", "arguments": { "q": "cats" } });
    assert_eq!(text_of(&newest(&program, given).await), "GET /pages?q=cats");
}

#[tokio::test]
async fn unrequested_arguments_are_accepted_but_confirmation_is_requested() {
    let (program, upstream) = start().await;
    let words = json!({ "words": accept(json!({ "q": "cats", "more": 1 })), "stray": accept(json!({})) });
    let call = json!({ "name": "find_page", "arguments": {}, "inputResponses": words });
    assert_eq!(text_of(&newest(&program, call.clone()).await), "GET /pages?q=cats");
    // Arguments of the request are not overridden.
    let mut given = call;
    given["arguments"]["q"] = "dogs".into();
    assert_eq!(text_of(&newest(&program, given).await), "GET /pages?q=dogs");
    // Entered arguments are checked like those of the request.
    for wrong in [json!({ "id": 100 }), json!({ "id": "7" }), json!({})] {
        let responses = json!({ "page": accept(wrong), "confirm": accept(json!({})) });
        let params = json!({ "name": "archive_page", "arguments": {}, "inputResponses": responses });
        let response = call_newest(&program, all(), params).await;
        assert_eq!((response.status, response.json()["error"]["code"].as_i64()), (400, Some(-32602)));
    }
    let both = json!({ "page": accept(json!({ "id": 7 })), "confirm": accept(json!({})) });
    let mut call = json!({ "name": "archive_page", "arguments": {}, "inputResponses": both });
    let first = newest(&program, call.clone()).await;
    let requests = first["inputRequests"].as_object().unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["confirm"], "{first}");
    assert_eq!(requests["confirm"]["params"]["message"], "Really archive page 7?");
    assert_eq!(upstream_requests(&upstream), 2);
    // The confirmed action is the one that is done.
    call["requestState"] = first["requestState"].clone();
    call["inputResponses"]["page"] = accept(json!({ "id": 8 }));
    assert_eq!(text_of(&newest(&program, call).await), "PUT /archive/7");
}

#[tokio::test]
async fn a_client_gets_no_request_that_it_does_not_support() {
    let (program, upstream) = start().await;
    for (tool, arguments, missing) in [
        ("delete_page", json!({ "id": "7" }), json!({ "elicitation": { "form": {} } })),
        ("sum_up", json!({ "id": "7" }), json!({ "sampling": {} })),
        ("where_am_i", json!({}), json!({ "roots": {} })),
        ("sign_in", json!({}), json!({ "elicitation": { "url": {} } })),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        let response = call_newest(&program, json!({}), params).await;
        let error = &response.json()["error"];
        assert_eq!((response.status, error["code"].as_i64()), (400, Some(-32021)), "{error}");
        assert_eq!(error["data"]["requiredCapabilities"], missing);
    }
    let rest = program.connect().await;
    let mut rest = rest;
    let response =
        rest.send("POST /tools/delete_page", &["Content-Type: application/json"], r#"{"id": "7"}"#).await;
    assert_eq!(response.status, 403);
    assert!(
        response.tool_text().contains("`elicitation`") && response.tool_text().contains("No argument"),
        "{}",
        response.tool_text()
    );
    assert_eq!(upstream_requests(&upstream), 0);
}

#[tokio::test]
async fn missing_arguments_are_requested() {
    let (program, _upstream) = start().await;
    let call = json!({ "name": "find_page", "arguments": {} });
    let first = newest(&program, call.clone()).await;
    let schema = &first["inputRequests"]["words"]["params"]["requestedSchema"];
    assert_eq!(
        schema,
        &json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] })
    );
    let words = json!({ "words": accept(json!({ "q": "cats & dogs" })) });
    let done = with_answers(&program, all(), call, words).await.json();
    assert_eq!(text_of(&done["result"]), "GET /pages?q=cats%20%26%20dogs");
    let given = json!({ "name": "find_page", "arguments": { "q": "cats" } });
    assert_eq!(text_of(&newest(&program, given).await), "GET /pages?q=cats");
}

#[tokio::test]
async fn a_rule_has_the_clients_model_summarize_a_response() {
    let (program, upstream) = start().await;
    let call = json!({ "name": "sum_up", "arguments": { "id": "7" } });
    let first = newest(&program, call.clone()).await;
    let request = &first["inputRequests"]["sample"];
    assert_eq!(request["method"], "sampling/createMessage");
    assert_eq!(request["params"]["messages"][0]["content"]["text"], "Sum up: GET /pages/7");
    assert_eq!(request["params"]["maxTokens"], 50);
    let mut again = call;
    again["requestState"] = first["requestState"].clone();
    again["inputResponses"] = json!({ "sample": sampled_message("a page") });
    assert_eq!(text_of(&newest(&program, again).await), "In short: a page");
    assert_eq!(upstream_requests(&upstream), 2, "the reply is asked for again with the answer");
}

#[tokio::test]
async fn roots_and_urls_are_requested_too() {
    let (program, _upstream) = start().await;
    let folders =
        json!({ "folders": { "roots": [{ "uri": "file:///a" }, { "uri": "file:///b", "name": "B" }] } });
    let call = json!({ "name": "where_am_i", "arguments": {} });
    let done = with_answers(&program, all(), call, folders).await.json();
    assert_eq!(text_of(&done["result"]), "GET /pages?n=2");
    let first = newest(&program, json!({ "name": "sign_in", "arguments": {} })).await;
    let door = &first["inputRequests"]["door"]["params"];
    assert_eq!(
        door,
        &json!({ "mode": "url", "message": "Sign in first.", "url": "https://example.com/sign-in" })
    );
    let agreed = json!({ "door": { "action": "accept" } });
    let done = with_answers(&program, all(), json!({ "name": "sign_in" }), agreed).await.json();
    assert_eq!(text_of(&done["result"]), "GET /session");
}

/// Client that has initialized a legacy session.
struct Older {
    connection: Client,
    aside: Client,
    headers: Vec<String>,
}

impl Older {
    async fn connect(program: &Loaded, version: &str, capabilities: Value) -> Self {
        let headers = vec![
            "Content-Type: application/json".to_owned(),
            "Accept: application/json, text/event-stream".to_owned(),
            format!("MCP-Protocol-Version: {version}"),
        ];
        let (connection, aside) = (program.connect().await, program.connect().await);
        let mut client = Self { connection, aside, headers };
        let info = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": info });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let response = client.send(&hello).await;
        let session = response.header("mcp-session-id").unwrap();
        client.headers.push(format!("Mcp-Session-Id: {session}"));
        client
    }

    /// Sends a message while the call waits.
    async fn send(&mut self, message: &Value) -> Response {
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        self.aside.send("POST /mcp", &headers, &message.to_string()).await
    }

    /// Calls a tool, and responds to each input request on its stream.
    async fn call(&mut self, tool: &str, arguments: Value, client_responses: Vec<(&str, Value)>) -> Value {
        self.request("tools/call", tool, arguments, client_responses).await["result"].clone()
    }

    /// Sends a request of any method, and returns the whole response.
    async fn request(
        &mut self,
        method: &str,
        name: &str,
        arguments: Value,
        client_responses: Vec<(&str, Value)>,
    ) -> Value {
        self.begin(method, name, arguments).await;
        for (count, (method, client_response)) in client_responses.into_iter().enumerate() {
            let input_request = self.message(count).await;
            assert_eq!(input_request["method"], method, "{input_request}");
            let mut message = json!({ "jsonrpc": "2.0", "id": input_request["id"] });
            message.as_object_mut().unwrap().extend::<Map<String, Value>>(match client_response {
                Value::Object(client_response) if client_response.contains_key("error") => client_response,
                result => Map::from_iter([("result".to_owned(), result)]),
            });
            assert_eq!(self.send(&message).await.status, 202);
        }
        let response = soon("the result", self.connection.read(false)).await;
        let text = response.text();
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text);
        serde_json::from_str(last).unwrap()
    }

    /// Sends a request without waiting for the response.
    async fn begin(&mut self, method: &str, name: &str, arguments: Value) {
        let params = json!({ "name": name, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
        let mut request =
            format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n", body.len());
        self.headers.iter().for_each(|header| request.push_str(&format!("{header}\r\n")));
        self.connection.write(format!("{request}\r\n{body}")).await;
    }

    /// The n-th message on the stream of the waiting call.
    async fn message(&mut self, count: usize) -> Value {
        loop {
            let text = self.connection.read_until("\"method\":").await;
            // The first event of a stream only has an id.
            let data = text.split("data: ").skip(1).filter(|data| data.contains("\n\n"));
            let data: Vec<&str> = data.filter(|data| data.starts_with('{')).collect();
            if let Some(data) = data.get(count) {
                return serde_json::from_str(data.split_once('\n').unwrap().0).unwrap();
            }
            let seen = text.len();
            soon("another message", self.connection.read_more_than(seen)).await;
        }
    }
}

#[tokio::test]
async fn a_legacy_client_gets_requests_during_its_call() {
    let (program, upstream) = start().await;
    for version in ["2025-06-18", "2025-11-25"] {
        let mut client = Older::connect(&program, version, all()).await;
        let accepted = json!({ "action": "accept", "content": {} });
        let result =
            client.call("delete_page", json!({ "id": "7" }), vec![("elicitation/create", accepted)]).await;
        assert_eq!(result["content"][0]["text"], "DELETE /pages/7");
    }
    assert_eq!(upstream_requests(&upstream), 2);
    let mut client = Older::connect(&program, "2025-11-25", all()).await;
    let client_responses = vec![
        ("elicitation/create", accept(json!({ "name": "x" }))),
        ("sampling/createMessage", sampled_message("a whim")),
        ("elicitation/create", accept(json!({}))),
    ];
    let result = client.call("rename_page", json!({ "id": 7 }), client_responses).await;
    assert_eq!(result["content"][0]["text"], r#"POST /pages/7 {"name":"x","why":"a whim"}"#);
    let result = client
        .call("sum_up", json!({ "id": "7" }), vec![("sampling/createMessage", sampled_message("a page"))])
        .await;
    assert_eq!(result["content"][0]["text"], "In short: a page");
    assert_eq!(upstream_requests(&upstream), 4, "the reply is still there when the answer comes");
    let roots = json!({ "roots": [{ "uri": "file:///a" }] });
    let result = client.call("where_am_i", json!({}), vec![("roots/list", roots)]).await;
    assert_eq!(result["content"][0]["text"], "GET /pages?n=1");
}

#[tokio::test]
async fn a_prompt_requests_input_before_its_messages() {
    let (program, upstream) = start().await;
    let params = json!({ "name": "write_page", "arguments": { "title": "Home" } });
    let get = async |capabilities: Value, params: &Value| {
        send_newest(&program, "prompts/get", capabilities, params.clone()).await.json()
    };
    let first = get(all(), &params).await["result"].clone();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let input_request = &first["inputRequests"]["about"]["params"];
    assert_eq!(input_request["message"], "What is Home about?");
    let mut answered = params.clone();
    answered["requestState"] = first["requestState"].clone();
    answered["inputResponses"] = json!({ "about": accept(json!({ "topic": "trains" })) });
    let written = json!("Write Home, a page about trains.");
    assert_eq!(get(all(), &answered).await["result"]["messages"][0]["content"]["text"], written);
    answered["inputResponses"] = json!({ "about": { "action": "decline" } });
    assert_eq!(get(all(), &answered).await["error"]["code"], -32603);
    answered["arguments"]["title"] = "Start".into();
    assert_eq!(get(all(), &answered).await["error"]["code"], -32602, "the state of another request");
    assert_eq!(get(json!({}), &params).await["error"]["code"], -32021);
    assert_eq!(get(all(), &json!({ "name": "write_page" })).await["error"]["code"], -32602);

    let mut client = Older::connect(&program, "2025-11-25", all()).await;
    let arguments = json!({ "title": "Home" });
    let client_responses = vec![("elicitation/create", accept(json!({ "topic": "trains" })))];
    let response = client.request("prompts/get", "write_page", arguments.clone(), client_responses).await;
    assert_eq!(response["result"]["messages"][0]["content"]["text"], written, "{response}");
    let mut client = Older::connect(&program, "2025-11-25", json!({})).await;
    let response = client.request("prompts/get", "write_page", arguments, Vec::new()).await;
    assert_eq!(response["error"]["code"], -32603, "{response}");
    assert_eq!(upstream_requests(&upstream), 0);
}

#[tokio::test]
async fn a_legacy_client_that_declines_or_lacks_support_gets_an_error() {
    let (program, upstream) = start().await;
    let mut client = Older::connect(&program, "2025-11-25", all()).await;
    for (answer, words) in [
        (json!({ "action": "decline" }), "declined"),
        (json!({ "action": "cancel" }), "did not respond"),
        (json!({ "action": "maybe" }), "`action`"),
        (json!({ "error": { "code": -1, "message": "no such window" } }), "no such window"),
    ] {
        let result =
            client.call("delete_page", json!({ "id": "7" }), vec![("elicitation/create", answer)]).await;
        check_rejected(&result, words);
    }
    let mut mute = Older::connect(&program, "2025-11-25", json!({ "sampling": {} })).await;
    check_rejected(&mute.call("delete_page", json!({ "id": "7" }), vec![]).await, "`elicitation`");
    let mut oldest = Older::connect(&program, "2025-03-26", all()).await;
    check_rejected(&oldest.call("delete_page", json!({ "id": "7" }), vec![]).await, "`elicitation`");
    let mut before_addresses = Older::connect(&program, "2025-06-18", all()).await;
    check_rejected(&before_addresses.call("sign_in", json!({}), vec![]).await, "`elicitation.url`");
    let mut deaf = Older::connect(&program, "2025-11-25", all()).await;
    deaf.headers[1] = "Accept: application/json".to_owned();
    check_rejected(&deaf.call("delete_page", json!({ "id": "7" }), vec![]).await, "`elicitation`");
    assert_eq!(upstream_requests(&upstream), 0);
}

#[tokio::test]
async fn an_input_request_times_out() {
    let upstream = Scripted::start(|_: &ReceivedRequest| vec![]).await;
    let file = format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes:\n  wipe:\n    description: x\n    request: DELETE old/all\n    \
         confirm: Sure?\n    input_timeout: 1s\n",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("ask.yaml", &file)).unwrap();
    let program = Loaded::start(&loaded).await;
    let mut client = Older::connect(&program, "2025-11-25", all()).await;
    check_rejected(&client.call("wipe", json!({}), vec![]).await, "no response came within 1s");
    assert_eq!(upstream_requests(&upstream), 0);
}

#[tokio::test]
async fn a_call_ends_with_a_disconnected_client_that_cannot_resume() {
    let (program, upstream) = start_with("stream_resume_timeout: 0s").await;
    let mut client = Older::connect(&program, "2025-11-25", all()).await;
    client.begin("tools/call", "delete_page", json!({ "id": "7" })).await;
    let input_request = client.message(0).await;
    client.connection = program.connect().await;
    let result = json!({ "action": "accept", "content": {} });
    let client_response = json!({ "jsonrpc": "2.0", "id": input_request["id"], "result": result });
    // The message may overtake the close of the call's connection, while the call still waits.
    let mut taken = 0;
    soon("nobody waits for the answer any more", async {
        while client.send(&client_response).await.status == 202 {
            taken += 1;
        }
    })
    .await;
    assert!(taken <= 1 && upstream_requests(&upstream) <= taken);
    // Later calls are not affected.
    let result = client.call("delete_page", json!({ "id": "8" }), vec![("elicitation/create", result)]).await;
    assert_eq!(result["content"][0]["text"], "DELETE /pages/8");
}

#[tokio::test]
async fn a_resumed_client_can_respond() {
    let (program, upstream) = start().await;
    let mut client = Older::connect(&program, "2025-11-25", all()).await;
    client.begin("tools/call", "delete_page", json!({ "id": "7" })).await;
    let input_request = client.message(0).await;
    client.connection = program.connect().await;
    let result = json!({ "action": "accept", "content": {} });
    let client_response = json!({ "jsonrpc": "2.0", "id": input_request["id"], "result": result });
    assert_eq!(client.send(&client_response).await.status, 202);
    upstream.until("the page is deleted", |state| state.requests.len() == 1).await;
}
