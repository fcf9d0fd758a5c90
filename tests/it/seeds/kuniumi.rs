//! Seed 003: functions that return plain text.

use serde_json::{Value, json};

use super::{REVISIONS, Seed, body, folder, path};
#[cfg(unix)]
use crate::support::Cgi;
use crate::support::{ReceivedRequest, Response, Scripted, Step, response};

const TEXT: &str = "text/plain; charset=utf-8";

/// The functions as their document describes them: Go's text of values, `Error: …`, and `http.Error`.
fn functions(request: &ReceivedRequest) -> Vec<Step> {
    let args = body(request);
    let (x, y) = (args["x"].as_i64().unwrap_or_default(), args["y"].as_i64().unwrap_or_default());
    let (status, text) = match path(request) {
        "/functions/Add" if x == 666 => ("500 Internal Server Error", "function failed\n".to_owned()),
        "/functions/Add" if x == 400 => ("400 Bad Request", "Invalid JSON body\n".to_owned()),
        "/functions/Add" if x == 404 => ("404 Not Found", "Function not found: Add\n".to_owned()),
        "/functions/Add" if x == 777 => return vec![Step::Close],
        "/functions/Add" => ("200 OK", (x + y).to_string()),
        "/functions/Divide" if y == 0 => ("200 OK", "Error: division \"by\" zero".to_owned()),
        "/functions/Divide" => ("200 OK", format!("{}", x as f64 / y as f64)),
        "/functions/Swap" => ("200 OK", format!("[{y} {x}]")),
        "/functions/Reset" => ("200 OK", String::new()),
        other => {
            ("404 Not Found", format!("Function not found: {}\n", other.trim_start_matches("/functions/")))
        }
    };
    vec![Step::Send(response(status, TEXT, &text))]
}

async fn kuniumi() -> Seed {
    Seed::start("kuniumi", Scripted::start(functions).await).await
}

#[tokio::test]
async fn words_become_the_same_values_in_every_api() {
    let seed = kuniumi().await;
    for (function, arguments, expected) in [
        ("Add", json!({ "x": 7, "y": 3 }), r#"{"result":10}"#),
        ("Divide", json!({ "x": 7, "y": 2 }), r#"{"result":3.5}"#),
        ("Swap", json!({ "x": 20, "y": 10 }), r#"{"result0":10,"result1":20}"#),
        ("Reset", json!({}), "{}"),
    ] {
        let tool = format!("functions.{function}");
        let result = seed.call(&tool, arguments.clone()).await;
        assert_eq!((&result["isError"], &result["text"]), (&json!(false), &json!(expected)), "{function}");
        assert_eq!(result["structuredContent"].to_string(), expected);
        for endpoint in [format!("/functions/{function}"), format!("/tools/{tool}")] {
            let response = seed.post(&endpoint, &arguments.to_string()).await;
            assert_eq!((response.status, response.text()), (200, expected), "{endpoint}");
            assert_eq!(response.header("content-type").as_deref(), Some("application/json"));
        }
    }
}

#[track_caller]
fn check_error(response: &Response, status: u16, expected: &str) {
    assert_eq!((response.status, response.text()), (status, expected));
    assert_eq!(response.header("content-type").as_deref(), Some("application/json"));
}

#[tokio::test]
async fn every_error_is_json_with_its_status() {
    let seed = kuniumi().await;
    for (function, arguments, status, expected) in [
        ("Divide", json!({ "x": 1, "y": 0 }), 500, r#"{"error":"division \"by\" zero"}"#),
        ("Add", json!({ "x": 666, "y": 0 }), 500, r#"{"error":"function failed"}"#),
        ("Add", json!({ "x": 400, "y": 0 }), 400, r#"{"error":"Invalid JSON body"}"#),
        ("Add", json!({ "x": 404, "y": 0 }), 404, r#"{"error":"Function not found: Add"}"#),
        (
            "Add",
            json!({ "x": "not_a_number", "y": 3 }),
            400,
            r#"{"error":"argument `x` must be an integer; found `not_a_number`"}"#,
        ),
        (
            "Add",
            json!({ "x": 777, "y": 0 }),
            502,
            concat!(
                r#"{"error":"The service closed the connection before its response was complete. "#,
                r#"The request may have taken effect: check before you retry."}"#,
            ),
        ),
    ] {
        let result = seed.call(&format!("functions.{function}"), arguments.clone()).await;
        assert_eq!((&result["isError"], &result["text"]), (&json!(true), &json!(expected)));
        assert_eq!(result["structuredContent"], Value::Null);
        let response = seed.post(&format!("/functions/{function}"), &arguments.to_string()).await;
        check_error(&response, status, expected);
    }
}

#[tokio::test]
async fn errors_before_the_function_are_json_too() {
    let seed = kuniumi().await;
    let broken = seed.post("/functions/Add", "{\"x\": ").await;
    assert_eq!(broken.status, 400);
    assert_eq!(broken.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(broken.json()["error"], "Invalid JSON body");
    assert!(broken.json()["details"]["reason"].as_str().unwrap().contains("line 1"), "{}", broken.text());
    let elsewhere = seed.post("/NonExistent", "{}").await;
    assert_eq!((elsewhere.status, elsewhere.json()["error"].is_string()), (404, true));
    for revision in REVISIONS {
        let (code, message) = seed.call_error(revision, "functions.NonExistent", json!({})).await;
        assert!(code == -32602 && message.contains("functions.NonExistent"), "{code} {message}");
    }
    assert_eq!(seed.upstream.state().requests.len(), 0);
    let missing = seed.post("/functions/NonExistent", "{}").await;
    check_error(&missing, 404, r#"{"error":"Function not found: NonExistent"}"#);
}

/// The scenarios of the document that run the program as `cgi`. There the functions are not under
/// `/functions`; the two lines of shell that a web server needs anyway put them there.
#[cfg(unix)]
#[tokio::test]
async fn a_web_server_gets_the_same_over_cgi() {
    let upstream = Scripted::start(functions).await;
    let send = |function: &str, body: &str| {
        Cgi::from_file(&folder("kuniumi").join("glossator.yaml"), &format!("POST /functions/{function}"))
            .with("LEGACY_URL", &format!("http://{}", upstream.address))
            .json(body)
    };
    for (function, body, status, expected) in [
        ("Add", r#"{"x": 10, "y": 20}"#, "200 OK", r#"{"result":30}"#),
        ("Swap", r#"{"x": 20, "y": 10}"#, "200 OK", r#"{"result0":10,"result1":20}"#),
        ("Reset", "{}", "200 OK", "{}"),
        ("NonExistent", "{}", "404 Not Found", r#"{"error":"Function not found: NonExistent"}"#),
        ("Add", r#"{"x": 666, "y": 0}"#, "500 Internal Server Error", r#"{"error":"function failed"}"#),
        (
            "Add",
            r#"{"x": "not_a_number", "y": 3}"#,
            "400 Bad Request",
            r#"{"error":"argument `x` must be an integer; found `not_a_number`"}"#,
        ),
    ] {
        let answer = send(function, body).run().await;
        let head = &answer.response.head;
        assert!(
            head.starts_with(&format!("Status: {status}\nContent-Type: application/json\n")),
            "{answer:?}"
        );
        assert_eq!(answer.response.text(), expected);
    }
}

#[tokio::test]
async fn the_openapi_document_has_the_errors_of_every_operation() {
    let seed = kuniumi().await;
    let document = seed.get("/openapi.json").await.json();
    let mut operations = 0;
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            operations += 1;
            for status in ["400", "500"] {
                let schema = &operation["responses"][status]["content"]["application/json"]["schema"];
                let expected = json!({ "type": "object", "properties": { "error": { "type": "string" } },
                    "required": ["error"] });
                assert_eq!(*schema, expected);
            }
        }
    }
    assert_eq!(operations, 10);
    let add = &document["components"]["schemas"]["functions.Add.output"];
    assert_eq!(add["properties"]["result"]["type"], "integer");
}
