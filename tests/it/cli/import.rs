//! `glossator import openapi`: the generated routes, and the requests that they send.

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use super::{TemporaryFile, glossator, succeeds, warnings_of};
use crate::support::{Loaded, Scripted, Step, response};

const SHOP: &str = r##"
openapi: 3.0.3
info: { title: "The Shop: orders", version: "2" }
servers: [{ url: "https://{region}.shop.example/api", variables: { region: { default: eu } } }]
paths:
  /orders/{order-id}:
    parameters:
      - { $ref: "#/components/parameters/OrderId" }
    get:
      operationId: get order
      summary: One order.
      tags: [orders]
      parameters:
        - { name: "fields[]", in: query, explode: false, schema: { type: array, items: { type: string } } }
        - { name: page, in: query, schema: { type: integer, minimum: 1, nullable: true } }
        - { name: X-Tenant, in: header, schema: { type: string } }
        - { name: Authorization, in: header, schema: { type: string } }
        - { name: session, in: cookie, schema: { type: string } }
      responses:
        "200":
          description: It.
          content:
            application/json: { schema: { $ref: "#/components/schemas/Order" } }
            application/xml: { schema: { $ref: "#/components/schemas/Order" } }
        "404": { description: None. }
    delete: { deprecated: true, tags: [orders], responses: { "204": { description: Gone. } } }
  /orders:
    post:
      operationId: create
      description: |
        Makes an order,
        and sends it.
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: "#/components/schemas/Order" } } }
      responses:
        "201": { description: Made., content: { application/json: { schema: { $ref: "#/components/schemas/Order" } } } }
        "202": { description: Later. }
  /search:
    post:
      operationId: create
      tags: [orders]
      requestBody:
        content: { application/x-www-form-urlencoded: { schema: { properties: { q: { type: string } } } } }
      responses: { default: { description: Anything. } }
  /upload:
    post:
      requestBody: { required: true, content: { multipart/form-data: { schema: { type: object } } } }
      responses: {}
  /elsewhere: { $ref: "other.yaml#/paths/x" }
components:
  parameters:
    OrderId: { name: order-id, in: path, required: true, schema: { type: integer } }
  schemas:
    Base: { type: object, required: [id, name], properties: { id: { type: integer, readOnly: true } } }
    Order:
      allOf:
        - { $ref: "#/components/schemas/Base" }
        - type: object
          properties:
            name: { type: string, maxLength: 40 }
            count: { type: integer }
            parts: { type: array, items: { $ref: "#/components/schemas/Order" } }
  securitySchemes:
    key: { type: apiKey, in: header, name: X-Key }
    login: { type: oauth2, flows: { clientCredentials: { tokenUrl: "https://login.example/token", scopes: {} } } }
"##;

/// JSON output of the command for a document.
fn imported(name: &str, document: &str, arguments: &[&str]) -> Value {
    let file = TemporaryFile::new(name, document);
    let mut all = vec!["import", "openapi", file.path(), "--output", "json"];
    all.extend(arguments);
    serde_json::from_str(&succeeds(&all)).unwrap()
}

#[test]
fn a_document_becomes_a_file_that_is_good() {
    let report = imported("shop.yaml", SHOP, &[]);
    let yaml = report["config"].as_str().unwrap();
    let file = TemporaryFile::new("shop-routes.yaml", yaml);
    assert_eq!(warnings_of(file.path()), Vec::<Value>::new(), "{yaml}");
    for part in [
        "url: \"https://eu.shop.example/api\"",
        "# headers: { X-Key: \"${THE_SHOP_ORDERS_KEY}\" }",
        "# credentials: { oauth: { token_url: \"https://login.example/token\",",
        "  get_order:\n    description: One order.",
        "path: \"/orders/{order_id}\"",
        "Accept: application/json",
        "description: \"Makes an order, and sends it.\"",
        "name: { type: string, maxLength: 40 }",
        "required: [name]",
        "  create_2:",
        "  delete_orders_order-id:\n    description: \"Deprecated. DELETE /orders/{order-id}.\"",
    ] {
        assert!(yaml.contains(part), "{part} is missing in\n{yaml}");
    }
    let remarks: Vec<String> = report["remarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|remark| format!("{}: {}", remark["about"].as_str().unwrap(), remark["what"].as_str().unwrap()))
        .collect();
    assert_eq!(
        remarks,
        [
            "GET /orders/{order-id}: without the parameter `session`: it is a cookie",
            "POST /upload: omitted: a body is required, and it is `multipart/form-data`; only JSON, forms \
             and text are supported",
            "/elsewhere: omitted: `other.yaml#/paths/x` refers to another document, which is not supported",
        ]
    );
    assert_eq!(report["routes"], 4);
}

#[test]
fn texts_of_the_document_remain_in_their_comments() {
    let text = "x\n    headers: { X-Evil: y }\n    #";
    let schemes = json!({
        "header": { "type": "apiKey", "in": "header", "name": text },
        "place": { "type": "apiKey", "in": text, "name": text },
        "oauth": { "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": text } } },
    });
    let document = json!({
        "openapi": "3.1.0", "info": { "title": text, "version": text },
        "servers": [{ "url": "http://127.0.0.1:1" }],
        "paths": { "/a": { "get": {} } }, "components": { "securitySchemes": schemes },
    });
    let report = imported("comments.json", &document.to_string(), &[]);
    let yaml = report["config"].as_str().unwrap();
    assert!(!yaml.lines().any(|line| line.trim_start().starts_with("headers:")), "{yaml}");
}

#[test]
fn only_a_body_contains_objects_and_no_path_a_list() {
    let operation = |kind: Value| {
        let ids = json!({ "name": "ids", "in": "path", "required": true, "schema": { "type": kind } });
        let filter = json!({ "name": "filter", "in": "query", "schema": { "type": "object" } });
        json!({ "get": { "parameters": [ids, filter], "responses": {} } })
    };
    let paths = json!({ "/lists/{ids}": operation(json!(["array", "null"])),
        "/objects/{ids}": operation(json!("object")), "/texts/{ids}": operation(json!("string")) });
    let document =
        json!({ "openapi": "3.1.0", "servers": [{ "url": "http://127.0.0.1:1" }], "paths": paths });
    let report = imported("path-lists.json", &document.to_string(), &[]);
    let object = "it is an object, which only a body can contain";
    let remarks = [
        (
            "/lists/{ids}",
            "omitted: the parameter `ids` is required, and a path can't contain a list".to_owned(),
        ),
        ("/objects/{ids}", format!("omitted: the parameter `ids` is required, and {object}")),
        ("/texts/{ids}", format!("without the parameter `filter`: {object}")),
    ];
    let remarks = remarks.map(|(path, what)| json!({ "about": format!("GET {path}"), "what": what }));
    assert_eq!(report["remarks"], json!(remarks));
    assert_eq!(report["routes"], 1);
}

#[test]
fn a_list_that_may_be_null_is_joined() {
    let parameter = |place: &str, name: &str| {
        let schema = json!({ "type": "array", "items": { "type": "string" }, "nullable": true });
        json!({ "name": name, "in": place, "explode": false, "schema": schema })
    };
    let get = json!({ "parameters": [parameter("query", "ids"), parameter("header", "X-Tags")] });
    let document = json!({ "openapi": "3.0.3", "servers": [{ "url": "http://127.0.0.1:1" }],
        "paths": { "/a": { "get": get } } });
    let report = imported("null-lists.json", &document.to_string(), &[]);
    let yaml = report["config"].as_str().unwrap();
    for argument in ["ids", "X_Tags"] {
        let template = format!("{{{{ args.{argument} | default([]) | join(',') }}}}");
        assert!(yaml.contains(&template), "{yaml}");
    }
}

#[test]
fn json_is_read_as_well_and_tags_choose() {
    let mut document: Value = serde_json::from_value(config::yaml::read("shop.yaml", SHOP).unwrap()).unwrap();
    document["servers"] = json!([{ "url": "/api" }]);
    let written = document.to_string();
    let report = imported("shop.json", &written, &["--tag", "orders", "--url", "http://127.0.0.1:1"]);
    let yaml = report["config"].as_str().unwrap();
    assert_eq!(report["routes"], 3, "{yaml}");
    assert!(yaml.contains("get_order:") && !yaml.contains("Makes an order"), "{yaml}");
}

#[tokio::test]
async fn an_imported_route_sends_the_documented_request() {
    let upstream = Scripted::start(|request| {
        let body = match request.line().starts_with("GET") {
            true => r#"{"id": 7, "name": "Bo", "parts": [{"id": 8, "name": "x"}]}"#,
            false => r#"{"id": 8, "name": "An"}"#,
        };
        vec![Step::Send(response("200 OK", "application/json", body))]
    })
    .await;
    let url = format!("http://{}/api", upstream.address);
    let report = imported("shop-call.yaml", SHOP, &["--url", &url]);
    let yaml = report["config"].as_str().unwrap();
    let program = Loaded::start(&config::load(&Sources::from_text("shop.yaml", yaml)).unwrap()).await;
    for (tool, arguments) in [
        ("get_order", r#"{"order_id": 7, "fields": ["id", "name"], "X_Tenant": "north"}"#),
        ("get_order", r#"{"order_id": 7}"#),
        ("create", r#"{"name": "An", "parts": [{"name": "y"}]}"#),
        ("create_2", r#"{"q": "a b"}"#),
    ] {
        let json = ["Content-Type: application/json"];
        let line = format!("POST /tools/{tool}");
        let response = program.connect().await.send(&line, &json, arguments).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(response.json()["structuredContent"]["name"].is_string(), "{}", response.text());
    }
    let requests = upstream.state().requests;
    let lines: Vec<_> = requests.iter().map(|request| request.line().replace(" HTTP/1.1", "")).collect();
    assert_eq!(
        lines,
        [
            "GET /api/orders/7?fields%5B%5D=id%2Cname",
            "GET /api/orders/7",
            "POST /api/orders",
            "POST /api/search"
        ]
    );
    assert_eq!((requests[0].header("x-tenant"), requests[1].header("x-tenant")), (vec!["north"], vec![]));
    assert_eq!(requests[0].header("accept"), ["application/json"]);
    assert_eq!(requests[2].body, br#"{"name":"An","parts":[{"name":"y"}]}"#);
    assert_eq!(requests[3].body, b"q=a%20b");
}

#[test]
fn an_unusable_document_is_an_error_with_help() {
    for (document, words) in [
        (
            "swagger: '2.0'",
            "expected an OpenAPI document with `openapi: 3.0` or `3.1`, found `swagger: \"2.0\"`",
        ),
        ("routes: {}", "found neither `openapi` nor `swagger` in it"),
        ("openapi: 3.1.0\npaths: { /a: { get: {} } }", "set `--url http://HOST:PORT/BASE`"),
        (
            "openapi: 3.1.0\nservers: [{ url: 'ftp://a' }]\npaths: { /a: { get: {} } }",
            "`ftp://a` is not a usable server URL",
        ),
        ("openapi: 3.1.0\nservers: [{ url: 'http://a' }]", "no operation"),
        ("openapi: [", "no closing"),
        ("\n", "found an empty file"),
    ] {
        let file = TemporaryFile::new("no-routes.yaml", document);
        let output = glossator(&["import", "openapi", file.path()]);
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && printed.contains(words), "{document}\n{printed}");
    }
}
