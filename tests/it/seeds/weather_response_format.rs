//! Seed 000: the response format.

use serde_json::{Value, json};

use super::{Seed, path};
use crate::support::{Scripted, Step, response};

/// Output of Python's `json.dumps(result, ensure_ascii=False, indent=2)` for the object below.
const PRETTY: &str = r#"{
  "location": "Bodø \"sør\"",
  "temperature": -5.0,
  "conditions": "Snø ❄",
  "humidity": 78,
  "wind_speed": 1.50,
  "hours": [
    1,
    2
  ],
  "none": [],
  "nothing": {},
  "more": null
}"#;

/// JSON of the server: Python's `json.dumps`, in one line.
const BODY: &str = r#"{"location": "Bod\u00f8 \"s\u00f8r\"", "temperature": -5.0, "conditions": "Snø ❄", "humidity": 78, "wind_speed": 1.50, "hours": [1, 2], "none": [], "nothing": {}, "more": null}"#;

const NOT_FOUND: &str = r#"{"error": "Fant ikke stedet «Ås»", "code": 404}"#;

async fn weather() -> Seed {
    let upstream = Scripted::start(|request| {
        vec![match path(request) {
            "/forecast?location=Bod%C3%B8" => Step::Send(response("200 OK", "application/json", BODY)),
            "/forecast?location=broken" => Step::Send(response("200 OK", "application/json", "{oops")),
            "/forecast?location=crash" => Step::Send(response(
                "500 Internal Server Error",
                "text/plain",
                "Traceback (most recent call last):\n  File \"/srv/app.py\", line 5, in get\n",
            )),
            "/forecast?location=cut" => Step::Close,
            _ => Step::Send(response("200 OK", "application/json", NOT_FOUND)),
        }]
    })
    .await;
    Seed::start("weather-response-format", upstream).await
}

/// Reads a result as the workshop's agent does: `isError` first, then `structuredContent`, then the text.
fn agent_reads(result: &Value) -> String {
    let text = || result["content"][0]["text"].as_str().unwrap().to_owned();
    if result["isError"] == true {
        text()
    } else {
        result.get("structuredContent").filter(|found| !found.is_null()).map_or_else(text, Value::to_string)
    }
}

#[tokio::test]
async fn a_success_has_text_structure_and_status_in_every_api() {
    let seed = weather().await;
    let over_rest = seed.post("/weather", r#"{"location": "Bodø"}"#).await;
    assert_eq!(
        (over_rest.status, over_rest.header("content-type").as_deref()),
        (200, Some("application/json"))
    );
    let over_mcp = seed.call("get_weather_forecast", json!({ "location": "Bodø" })).await;
    let expected: Value = serde_json::from_str(BODY).unwrap();
    for result in [over_rest.json(), over_mcp] {
        assert_eq!(result["content"], json!([{ "type": "text", "text": PRETTY }]));
        assert_eq!(result["structuredContent"], expected);
        assert_eq!(result["isError"], json!(false));
        assert_eq!(agent_reads(&result), expected.to_string());
    }
    assert!(over_rest.text().contains(r#""wind_speed": 1.50"#), "numbers keep their text");
}

#[tokio::test]
async fn an_error_in_a_200_is_an_error_whose_text_carries_the_json() {
    let seed = weather().await;
    let over_rest = seed.post("/weather", r#"{"location": "Ås"}"#).await;
    assert_eq!(over_rest.status, 200, "the agent's server always said 200");
    let over_mcp = seed.call("get_weather_forecast", json!({ "location": "Ås" })).await;
    for result in [over_rest.json(), over_mcp] {
        assert_eq!(result["isError"], json!(true));
        assert_eq!(result["content"], json!([{ "type": "text", "text": NOT_FOUND }]));
        assert!(result.get("structuredContent").is_none_or(Value::is_null), "{result}");
        assert_eq!(agent_reads(&result), NOT_FOUND);
    }
}

#[tokio::test]
async fn unexpected_failures_are_errors_without_internals() {
    let seed = weather().await;
    for place in ["broken", "crash", "cut"] {
        let over_rest = seed.post("/weather", &json!({ "location": place }).to_string()).await.json();
        let over_mcp = seed.call("get_weather_forecast", json!({ "location": place })).await;
        for result in [over_rest, over_mcp] {
            assert_eq!(result["isError"], json!(true), "{place}");
            let text = agent_reads(&result);
            assert!(!text.is_empty() && !text.contains("/srv") && !text.contains("127.0.0.1"), "{text}");
        }
    }
}
