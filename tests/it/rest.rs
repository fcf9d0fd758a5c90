//! The REST API as its clients see it.

use std::time::Duration;

use glossator::{
    config::{self, Sources},
    inbound::filter::FilterSettings,
    model::ErrorFormat,
    route::{Envelope, ErrorStatus, JsonTemplate, RequestBodyTemplate},
    translate::{Redaction, SecretPattern},
};
use serde_json::{Value, json};

use crate::support::{Loaded, Proxy, Response, RouteExt, Scripted, Setup, http_of, response, route};

const JSON: &str = "Content-Type: application/json";

/// Proxy whose upstream echoes the JSON body: all arguments.
async fn echo(endpoint: &str, schema: Value) -> (Proxy, Scripted) {
    let upstream = Scripted::start(|request| {
        let body = String::from_utf8(request.body.clone()).unwrap();
        vec![crate::support::Step::Send(response("200 OK", "application/json", &body))]
    })
    .await;
    let mut echo = route("echo", "POST /echo").with_endpoint(endpoint).taking(schema);
    http_of(&mut echo).body = Some(RequestBodyTemplate::Json(JsonTemplate::AllArguments));
    let mut setup = Setup::new(upstream.address);
    setup.routes = vec![echo];
    (setup.start().await, upstream)
}

async fn answering(status: &str, media_type: &str, body: &str) -> Setup {
    let upstream = Scripted::answering(response(status, media_type, body)).await;
    Setup::new(upstream.address)
}

#[track_caller]
fn check_structured(response: &Response, expected: Value) {
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["structuredContent"], expected);
}

/// Checks an error of the API itself.
#[track_caller]
fn check_error(response: &Response, status: u16, words: &str) {
    assert_eq!(response.status, status, "{}", response.text());
    let error = response.json()["error"].as_str().expect("an error").to_owned();
    assert!(error.contains(words), "{error}");
    assert_eq!(response.header("content-type").as_deref(), Some("application/json"));
    assert!(response.header("x-request-id").is_some());
}

#[tokio::test]
async fn a_get_endpoint_takes_arguments_from_path_and_query_with_their_types() {
    let schema = json!({ "type": "object", "properties": {
        "city": { "type": "string" }, "days": { "type": "integer" }, "wind": { "type": "boolean" },
        "tags": { "type": "array", "items": { "type": "string" } } } });
    let (proxy, _upstream) = echo("GET /weather/{city}", schema).await;
    let response = proxy.get("/weather/S%C3%A3o%20Paulo?days=5&wind=true&tags=a&tags=b+c").await;
    let expected = json!({ "city": "São Paulo", "days": 5, "wind": true, "tags": ["a", "b c"] });
    check_structured(&response, expected);
    let wrong = proxy.get("/weather/oslo?days=five").await;
    assert_eq!(wrong.status, 400);
    assert_eq!(wrong.tool_text(), "argument `days` must be an integer; found `five`");
    check_error(&proxy.get("/weather/oslo?city=bergen").await, 400, "`city` is present more than once");
}

#[tokio::test]
async fn a_large_response_is_translated_in_the_pool_and_complete() {
    let body = format!("{{\"items\": [{}1.0]}}", "1.0, ".repeat(60_000));
    let proxy = answering("200 OK", "application/json", &body).await.start().await;
    let response = proxy.send("POST /tools/get_thing", &[], "").await;
    assert_eq!(response.status, 200);
    assert!(response.text().contains(&format!("\"structuredContent\":{body}")));
}

#[tokio::test]
async fn a_head_is_answered_like_a_get_without_its_body() {
    let (proxy, upstream) = echo("GET /weather/{city}", json!({ "type": "object" })).await;
    let mut client = proxy.connect().await;
    let response = client.send("HEAD /weather/oslo", &[], "").await;
    assert_eq!((response.status, response.body.len()), (200, 0));
    assert!(response.header("content-length").unwrap().parse::<usize>().unwrap() > 0);
    assert_eq!(client.send("HEAD /health", &[], "").await.status, 200);
    assert_eq!(upstream.state().requests.len(), 1);
}

#[tokio::test]
async fn a_post_takes_arguments_from_a_json_body() {
    let (proxy, _upstream) = echo("POST /weather", json!({ "type": "object" })).await;
    let body = r#"{"big": 12345678901234567890, "one": 1.0}"#;
    for endpoint in ["/weather", "/tools/echo"] {
        let response = proxy.send(&format!("POST {endpoint}"), &[JSON], body).await;
        assert_eq!(response.status, 200);
        assert!(response.text().contains("12345678901234567890"), "{}", response.text());
        assert!(response.text().contains("1.0"), "{}", response.text());
    }
    check_structured(&proxy.send("POST /weather", &[], "").await, json!({}));
    check_structured(&proxy.send("POST /weather", &[], r#"{"a":1}"#).await, json!({ "a": 1 }));
    check_structured(
        &proxy.send("POST /weather?b=2", &[JSON], r#"{"a":1}"#).await,
        json!({ "a": 1, "b": "2" }),
    );
}

#[tokio::test]
async fn a_body_that_is_no_json_object_has_its_own_error() {
    let (proxy, upstream) = echo("POST /weather", json!({ "type": "object" })).await;
    check_error(&proxy.call("echo", "[1]").await, 400, "found an array");
    check_error(&proxy.call("echo", "{\"a\":").await, 400, "Invalid JSON body");
    check_error(&proxy.call("echo", &"[".repeat(100_000)).await, 400, "Invalid JSON body");
    let form = proxy.send("POST /weather", &["Content-Type: application/x-www-form-urlencoded"], "a=b").await;
    check_error(&form, 415, "expected a body of type `application/json`");
    assert_eq!(upstream.state().requests.len(), 0);
}

#[tokio::test]
async fn a_body_over_the_limit_is_rejected_in_any_encoding() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.filter = FilterSettings { body_limit_bytes: 100, ..FilterSettings::default() };
    let proxy = setup.start().await;
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(100));
    check_error(&proxy.call("get_thing", &long).await, 413, "longer than 100 bytes");
    let mut client = proxy.connect().await;
    client
        .write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    client.write(format!("{:x}\r\n{long}\r\n", long.len())).await;
    check_error(&client.read(false).await, 413, "longer than 100 bytes");
    assert_eq!(upstream.state().requests.len(), 0);
}

#[tokio::test]
async fn a_body_that_never_ends_is_not_waited_for() {
    let mut setup = answering("200 OK", "text/plain", "ok").await;
    setup.filter.body_timeout = Duration::from_millis(20);
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{").await;
    check_error(&client.read(false).await, 408, "not complete within");
}

#[tokio::test]
async fn the_plain_envelope_is_the_value_alone() {
    let upstream = Scripted::start(|request| {
        let (status, body) = match request.line().split(' ').nth(1).unwrap() {
            "/object" => ("200 OK", r#"{"b": 1.0}"#),
            "/array" => ("200 OK", "[1, 2]"),
            _ => ("404 Not Found", r#"{"message": "no such thing"}"#),
        };
        vec![crate::support::Step::Send(response(status, "application/json", body))]
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.routes = ["object", "array", "missing"].map(|name| route(name, &format!("GET /{name}"))).into();
    setup.routes.iter_mut().for_each(|route| route.envelope = Envelope::Plain);
    let proxy = setup.start().await;
    assert_eq!(proxy.call("object", "").await.text(), r#"{"b": 1.0}"#);
    assert_eq!(proxy.call("array", "").await.text(), r#"{"result":[1, 2]}"#);
    let missing = proxy.call("missing", "").await;
    assert_eq!((missing.status, missing.text()), (404, r#"{"error":"no such thing"}"#));

    let response =
        proxy.send("POST /tools/object", &["Accept: application/vnd.glossator.mcp+json"], "").await;
    assert_eq!(response.json()["isError"], false);
    assert_eq!(response.header("content-type").as_deref(), Some("application/vnd.glossator.mcp+json"));
    assert_eq!(response.header("vary").as_deref(), Some("accept"));
}

#[tokio::test]
async fn the_status_matches_the_error_unless_configured() {
    for (theirs, ours) in
        [("404 Not Found", 404), ("429 Slow Down", 429), ("500 Oops", 502), ("302 Found", 502)]
    {
        let setup = answering(theirs, "text/plain", "what went wrong").await;
        let response = setup.start().await.call("get_thing", "").await;
        assert_eq!((response.status, &response.json()["isError"]), (ours, &json!(true)), "{theirs}");
        let mut setup = answering(theirs, "text/plain", "what went wrong").await;
        setup.routes[0].error_status = ErrorStatus::Always200;
        let response = setup.start().await.call("get_thing", "").await;
        assert_eq!((response.status, &response.json()["isError"]), (200, &json!(true)), "{theirs}");
    }
}

#[tokio::test]
async fn a_500_keeps_its_body_to_itself() {
    let trace = "Traceback: File \"/srv/app.py\" password=hunter2";
    let response = answering("500 Oops", "text/plain", trace).await.start().await.call("get_thing", "").await;
    assert!(!response.text().contains("hunter2") && !response.text().contains("/srv"), "{}", response.text());
}

#[tokio::test]
async fn missing_paths_and_wrong_methods_have_different_errors() {
    let mut setup = answering("200 OK", "text/plain", "ok").await;
    setup.routes = vec![route("get_thing", "GET /thing").with_endpoint("GET /thing")];
    let proxy = setup.start().await;
    check_error(&proxy.call("get_thin", "{}").await, 404, "unknown tool `get_thin`");
    check_error(&proxy.get("/nothing").await, 404, "`GET /tools` lists all tools");
    let wrong = proxy.send("DELETE /thing", &[], "").await;
    check_error(&wrong, 405, "`DELETE` is not allowed here; use GET, HEAD");
    assert_eq!(wrong.header("allow").as_deref(), Some("GET, HEAD"));
    let wrong = proxy.get("/tools/get_thing").await;
    assert_eq!((wrong.status, wrong.header("allow").as_deref()), (405, Some("POST")));
    let wrong = proxy.send("POST /health", &[], "").await;
    assert_eq!((wrong.status, wrong.header("allow").as_deref()), (405, Some("GET, HEAD")));
    let options = proxy.send("OPTIONS /thing", &[], "").await;
    assert_eq!((options.status, options.header("allow").as_deref()), (204, Some("GET, HEAD")));
}

#[tokio::test]
async fn the_manifest_has_the_url_of_each_tool() {
    let mut setup = answering("200 OK", "text/plain", "ok").await;
    setup.routes = vec![route("b", "GET /b/{id}").with_endpoint("GET /b/{id}"), route("a", "GET /a")];
    let proxy = setup.start().await;
    let tools = proxy.get("/tools").await.json();
    let place = |index: usize| {
        ["name", "endpoint", "method"].map(|key| tools[index][key].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(place(0), ["a", "/tools/a", "POST"]);
    assert_eq!(place(1), ["b", "/b/{id}", "GET"]);
    assert_eq!(tools[1]["inputSchema"]["required"], json!(["id"]));
    assert_eq!(proxy.get("/health").await.json(), json!({ "status": "ok" }));
    let status = proxy.get("/status").await.json();
    assert_eq!((&status["name"], &status["tools"]), (&json!("glossator"), &json!(2)));
}

#[tokio::test]
async fn a_client_may_have_the_manifest_as_mcp_lists_tools() {
    let proxy = answering("200 OK", "text/plain", "ok").await.start().await;
    let accept = "Accept: application/vnd.glossator.mcp+json";
    let response = proxy.send("GET /tools", &[accept], "").await;
    assert_eq!(response.json()["tools"][0]["endpoint"], "/tools/get_thing");
    assert_eq!(response.header("content-type").as_deref(), Some("application/vnd.glossator.mcp+json"));
    assert_eq!(response.header("vary").as_deref(), Some("accept"));
}

#[tokio::test]
async fn a_route_may_replace_the_status_endpoint() {
    let of = async |endpoint: &str| {
        let mut setup = answering("200 OK", "text/plain", "theirs").await;
        setup.routes = vec![route("get_thing", "GET /thing").with_endpoint(endpoint)];
        setup.start().await
    };
    let get = of("GET /status").await;
    assert_eq!(get.get("/status").await.tool_text(), "theirs");
    assert_eq!(get.send("HEAD /status", &[], "").await.status, 200);
    check_error(&get.send("POST /status", &[], "").await, 405, "use GET, HEAD");
    let post = of("POST /status").await;
    assert_eq!(post.send("POST /status", &[], "").await.tool_text(), "theirs");
    assert_eq!(post.get("/status").await.json()["name"], "glossator");
    check_error(&post.send("PUT /status", &[], "").await, 405, "use POST, GET, HEAD");
    let mut setup = answering("200 OK", "text/plain", "theirs").await;
    setup.routes = vec![route("get_thing", "GET /{city}").with_endpoint("GET /{city}")];
    let any = setup.start().await;
    assert_eq!(any.get("/status").await.json()["name"], "glossator");
    assert_eq!(any.get("/oslo").await.tool_text(), "theirs");
}

/// Checks that every `$ref` in a document resolves.
#[track_caller]
fn check_references(whole: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get("$ref") {
                let pointer = target.strip_prefix('#').expect("nothing leads out of the document");
                assert!(whole.pointer(pointer).is_some(), "{target} leads nowhere");
            }
            members.values().for_each(|member| check_references(whole, member));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(whole, item)),
        _ => {}
    }
}

#[tokio::test]
async fn openapi_describes_every_operation_and_its_errors() {
    let mut setup = answering("200 OK", "text/plain", "ok").await;
    let schema = json!({ "type": "object",
        "$defs": { "day": { "type": "string", "format": "date" } },
        "properties": {
            "city": { "type": "string", "description": "A city." },
            "day": { "$ref": "#/$defs/day" },
            "near": { "type": "object" }
        },
        "required": ["city", "day"] });
    let read = route("forecast", "GET /{city}").with_endpoint("GET /weather/{city}").taking(schema.clone());
    let mut plain = route("functions.Add", "POST /add").with_endpoint("POST /weather/{city}").taking(schema);
    plain.envelope = Envelope::Plain;
    let mut late = route("late", "GET /late");
    late.error_status = ErrorStatus::Always200;
    setup.routes = vec![read, plain, late];
    let proxy = setup.start().await;
    let response = proxy.get("/openapi.json").await;
    assert_eq!(response.header("content-type").as_deref(), Some("application/json"));
    let document = response.json();
    assert_eq!(document["openapi"], "3.1.0");
    check_references(&document, &document);

    let paths: Vec<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["/weather/{city}", "/tools/forecast", "/tools/functions.Add", "/tools/late"];
    assert!(expected.iter().all(|path| paths.contains(path)) && paths.len() == 4, "{paths:?}");
    let mut ids = Vec::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            for status in ["200", "400", "500", "503"] {
                let schema = &operation["responses"][status]["content"]["application/json"]["schema"];
                let is_always_200 = operation["operationId"] == "late" && status.starts_with('5');
                assert_ne!(schema.is_object(), is_always_200, "{status} of {operation}");
            }
        }
    }
    ids.sort();
    assert_eq!(ids, ["forecast", "functions.Add", "late", "tools/forecast", "tools/functions.Add"]);

    let read = &document["paths"]["/weather/{city}"]["get"];
    let parameter = |index: usize| {
        let parameter = &read["parameters"][index];
        (parameter["name"].clone(), parameter["in"].clone(), parameter["required"].clone())
    };
    assert_eq!(parameter(0), (json!("city"), json!("path"), json!(true)));
    assert_eq!(parameter(1), (json!("day"), json!("query"), json!(true)));
    assert_eq!(parameter(2), (json!("near"), json!("query"), json!(false)));
    assert!(read["requestBody"].is_null());
    let write = &document["paths"]["/weather/{city}"]["post"];
    assert_eq!(write["parameters"].as_array().unwrap().len(), 1);
    let body = &document["components"]["schemas"]["functions.Add.body"];
    assert_eq!((&body["required"], &body["properties"]["city"]), (&json!(["day"]), &Value::Null));
    for status in ["400", "500"] {
        assert_eq!(
            write["responses"][status]["content"]["application/json"]["schema"],
            json!({ "type": "object", "properties": { "error": { "type": "string" } }, "required": ["error"] })
        );
    }
    check_error(&proxy.send("POST /openapi.json", &[], "").await, 405, "use GET, HEAD");
}

#[tokio::test]
async fn openapi_lists_the_errors_of_the_rules_of_a_route() {
    let text = "
        upstreams: { old: 'http://127.0.0.1:9' }
        routes:
          book:
            description: A.
            request: GET old/book
            envelope: plain
            response:
              - { when: { status: 404 }, error: { text: No such book., code: gone, status: 404 } }
              - { when: { json: .failed }, error: { text: Failed., structured: '{why: .why}' } }
              - extract: json";
    let loaded = config::load(&Sources::from_text("a.yaml", text)).unwrap();
    let served = Loaded::start(&loaded).await;
    let document = served.connect().await.send("GET /openapi.json", &[], "").await.json();
    let responses = &document["paths"]["/tools/book"]["post"]["responses"];
    for status in ["404", "422"] {
        let response = &responses[status];
        assert_eq!(response["description"], "The service reported an error.", "{document}");
        let properties = &response["content"]["application/json"]["schema"]["properties"];
        assert!(properties["code"].is_object() && properties["details"].is_object(), "{properties}");
    }
    for status in ["200", "400", "4XX", "500", "502", "503", "504"] {
        assert!(responses[status].is_object(), "{status}");
    }
    assert!(document["components"]["securitySchemes"].is_null(), "there are no clients");
}

#[tokio::test]
async fn foreign_hosts_are_rejected_and_probes_are_not() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    for path in ["/tools", "/elsewhere"] {
        client.write(format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n")).await;
        check_error(&client.read(false).await, 403, "host `evil.example` is not allowed");
        let rejected = client.send(&format!("GET {path}"), &["Origin: https://evil.example"], "").await;
        check_error(&rejected, 403, "origin `https://evil.example` is not allowed");
    }
    client.write("GET /health HTTP/1.1\r\nHost: 10.0.0.7:8080\r\n\r\n").await;
    assert_eq!(client.read(false).await.status, 200);
    assert_eq!(upstream.state().connections, 0);
    let page = client.send("GET /tools", &["Origin: http://localhost:6274"], "").await;
    assert_eq!((page.status, page.header("access-control-allow-origin")), (200, None), "nobody named it");
}

#[tokio::test]
async fn a_request_keeps_the_id_that_it_came_with() {
    let proxy = answering("500 Oops", "text/plain", "").await.start().await;
    let response = proxy.send("POST /tools/get_thing", &["X-Request-Id: trace-7"], "").await;
    assert_eq!(response.header("x-request-id").as_deref(), Some("trace-7"));
    assert_eq!(response.json()["_meta"]["glossator/requestId"], "trace-7");
    let unfit = proxy.send("POST /tools/get_thing", &["X-Request-Id: two words"], "").await;
    assert_ne!(unfit.header("x-request-id").as_deref(), Some("two words"));
}

#[tokio::test]
async fn every_error_is_json_text_if_configured() {
    let mut setup = answering("404 Not Found", "text/plain", "no \"such\" thing").await;
    let schema = json!({ "type": "object", "properties": { "day": { "type": "integer" } } });
    let read = |name: &str| {
        let mut route = route(name, "GET /thing").taking(schema.clone());
        route.error_format = ErrorFormat::Json;
        route
    };
    let mut plain = read("plain");
    plain.envelope = Envelope::Plain;
    setup.routes = vec![read("mcp"), plain];
    let proxy = setup.start().await;
    for (arguments, status, message) in [
        ("{}", 404, "no \"such\" thing"),
        (r#"{"day": "x"}"#, 400, "argument `day` must be an integer; found `x`"),
    ] {
        let response = proxy.call("mcp", arguments).await;
        assert_eq!((response.status, response.json()["isError"].clone()), (status, json!(true)));
        assert_eq!(response.tool_text(), json!({ "error": message }).to_string());
        // The envelope contains the same JSON, and not as a string.
        let response = proxy.call("plain", arguments).await;
        assert_eq!((response.status, response.json()), (status, json!({ "error": message })));
    }
}

#[tokio::test]
async fn the_text_of_every_error_has_the_limit_of_its_route() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    let mut route = route("pick", "GET /{city}").taking(json!({
        "type": "object",
        "properties": { "city": { "enum": ["oslo", "bergen"] } },
        "additionalProperties": { "type": "number" }
    }));
    route.translator.limits.error_text_bytes = 64;
    setup.routes = vec![route];
    let proxy = setup.start().await;
    for arguments in
        [json!({ "city": "x".repeat(1 << 20) }), json!({ "city": "oslo", "y".repeat(1 << 20): "text" })]
    {
        let response = proxy.call("pick", &arguments.to_string()).await;
        let text = response.json()["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(response.status, 400);
        assert!(text.len() <= 64 && text.ends_with("[…]"), "{} bytes: {text:.200}", text.len());
    }
}

#[tokio::test]
async fn an_invalid_argument_is_quoted_without_secrets() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    let mut route = route("pay", "GET /{card}").taking(json!({
        "type": "object",
        "properties": { "card": { "type": "integer" } },
    }));
    let pattern = SecretPattern::from_literals(r"\d{4}-\d{4}").unwrap();
    route.translator.redaction = Redaction(vec![pattern]);
    setup.routes = vec![route];
    let response = setup.start().await.call("pay", r#"{"card": "1234-5678"}"#).await;
    let message = "argument `card` must be an integer; found `[redacted]`";
    assert_eq!((response.status, &response.json()["content"][0]["text"]), (400, &json!(message)));
}

#[tokio::test]
async fn retry_after_of_an_upstream_is_forwarded() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let head = format!("HTTP/1.1 {status}\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n");
        let upstream = Scripted::answering(head).await;
        let response = Setup::new(upstream.address).start().await.call("get_thing", "").await;
        assert_eq!(response.json()["_meta"]["glossator/retryAfter"], 60, "{}", response.text());
        assert_eq!(response.header("retry-after").as_deref(), Some("60"), "{}", response.head);
    }
}
