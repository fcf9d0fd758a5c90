//! What the operators' page is made of: the last hour, failures, upstreams, the workbench.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::{
    operators::{HERE, admin, ask},
    support::{Scripted, reply},
};

async fn told(admin: &glossator::face::admin::Admin, path: &str) -> Value {
    let (status, body) = ask(admin, &format!("GET {path}"), &[HERE]).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Calls a tool by the REST face, under a request id.
async fn call(assembled: &glossator::serve::Assembled, tool: &str, request_id: &str) {
    let request = Request::post(format!("/tools/{tool}"))
        .header("host", "localhost")
        .header("x-request-id", request_id)
        .body(Body::empty())
        .unwrap();
    let _ = tower::Service::call(&mut assembled.router.clone(), request).await.unwrap();
}

#[tokio::test]
async fn the_last_hour_is_told_of_all_calls_and_of_each_route() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "fine")).await;
    let (admin, assembled) = admin(&format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes:\n  a: {{ description: A., request: GET old/a }}\n  \
         b: {{ description: B., request: GET old/b, reply: [{{ error: no }}] }}\n",
        upstream.address
    ));
    call(&assembled, "a", "1").await;
    admin.sample();
    call(&assembled, "a", "2").await;
    call(&assembled, "b", "3").await;
    let history = told(&admin, "/history").await;
    assert_eq!(history["all"]["calls"], json!([1, 2]));
    assert_eq!(history["all"]["errors"], json!([0, 1]));
    assert_eq!(history["all"]["ended"].as_array().unwrap().len(), 2);
    assert_eq!((&history["routes"]["a"]["calls"], &history["routes"]["b"]["errors"]), (&json!(2), &json!(1)));
    assert!(history["routes"]["a"]["p99_ms"].as_f64().unwrap() > 0.0, "{history}");
    assert_eq!(history["routes"]["b"]["errors_by_point"], json!([1]));
    let of_a = told(&admin, "/history/a").await;
    assert_eq!((&of_a["calls"], &of_a["p50_ms"].as_array().unwrap().len()), (&json!([1, 1]), &2));
    assert_eq!(ask(&admin, "GET /history/never", &[HERE]).await.0, 404);
}

#[tokio::test]
async fn the_last_failures_are_told_with_rule_and_reason_and_found_by_their_request_id() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "hunter2")).await;
    let (admin, assembled) = admin(&format!(
        "upstreams: {{ old: 'http://{}', gone: {{ url: 'http://127.0.0.1:1', retry: {{ attempts: 1 }} }} }}\nroutes:\n  \
         a: {{ description: A., request: 'GET old/a', reply: [{{ extract: json }}] }}\n  \
         b: {{ description: B., request: GET gone/b }}\n  \
         c: {{ description: C., request: 'GET old/c/{{x}}' }}\n  \
         d: {{ description: D., request: GET old/d }}\n",
        upstream.address
    ));
    for (tool, request_id) in [("a", "one"), ("b", "two"), ("c", "three"), ("d", "fine")] {
        call(&assembled, tool, request_id).await;
    }
    let all = told(&admin, "/failures").await;
    let failures = all["failures"].as_array().unwrap();
    let names: Vec<_> = failures.iter().map(|failure| failure["request_id"].as_str().unwrap()).collect();
    assert_eq!((names, &all["since_start"]), (vec!["three", "two", "one"], &json!(3)));
    assert_eq!(failures[0]["fault"], "arguments");
    assert!(failures[1]["reason"].as_str().unwrap().contains("could not connect"), "{all}");
    assert_eq!((&failures[2]["rule"], &failures[2]["fault"]), (&json!(1), &json!("unreadable")));
    assert_eq!((&failures[2]["upstream_status"], &failures[2]["face"]), (&json!(200), &json!("rest")));
    assert!(failures[2]["reason"].as_str().unwrap().contains("JSON"), "{all}");
    // What the upstream said stays out.
    assert!(!all.to_string().contains("hunter2"), "{all}");
    let one = told(&admin, "/failures?request_id=two").await;
    assert_eq!((one["failures"].as_array().unwrap().len(), &one["failures"][0]["route"]), (1, &json!("b")));
    assert_eq!(told(&admin, "/failures?route=a&limit=9").await["failures"].as_array().unwrap().len(), 1);
    let (status, why) = ask(&admin, "GET /failures?limit=x", &[HERE]).await;
    assert!(status == 400 && why.contains("`limit` takes a number"), "{why}");
}

#[tokio::test]
async fn upstreams_are_told_with_what_stands_before_them() {
    let upstream = Scripted::answering(reply("200 OK", "text/plain", "fine")).await;
    let (admin, assembled) = admin(&format!(
        "upstreams:\n  old: {{ url: 'http://{}', in_flight: 7 }}\n  gone: {{ url: 'http://127.0.0.1:1', retry: {{ attempts: 1 }}, breaker: {{ failures: 1 }} }}\n  \
         echo: {{ command: [echo] }}\nroutes:\n  \
         a: {{ description: A., request: GET old/a }}\n  b: {{ description: B., request: GET gone/b }}\n  \
         c: {{ description: C., request: RUN echo a }}\n",
        upstream.address
    ));
    call(&assembled, "a", "1").await;
    call(&assembled, "b", "2").await;
    let upstreams = told(&admin, "/upstreams").await["upstreams"].clone();
    let names: Vec<_> = upstreams.as_array().unwrap().iter().map(|upstream| &upstream["name"]).collect();
    assert_eq!(names, ["echo", "gone", "old"]);
    let (echo, gone, old) = (&upstreams[0], &upstreams[1], &upstreams[2]);
    assert_eq!((&echo["kind"], &echo["addresses"]), (&json!("command"), &json!([])));
    assert_eq!((&gone["breaker"]["state"], &gone["guards"]["breaker_opened"]), (&json!("open"), &json!(1)));
    assert!(gone["breaker"]["rest_ms"].as_u64().unwrap() > 0, "{gone}");
    assert_eq!(
        (&old["breaker"]["state"], &old["in_flight"], &old["in_flight_limit"]),
        (&json!("closed"), &json!(0), &json!(7))
    );
    assert_eq!((&old["addresses"][0]["state"], &old["routes"]), (&json!("up"), &json!(1)));
    assert!(
        old["addresses"][0]["address"].as_str().unwrap().contains(&upstream.address.to_string()),
        "{old}"
    );
}

#[tokio::test]
async fn the_process_tells_how_it_stands() {
    let (admin, _assembled) = admin(
        "upstreams: { old: http://127.0.0.1:1 }\nroutes: { a: { description: A., request: GET old/a } }\n",
    );
    let status = told(&admin, "/status").await;
    assert_eq!((&status["ready"], &status["configuration"]["generation"]), (&json!(true), &json!(1)));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["started"].as_u64().unwrap() > 1_700_000_000, "{status}");
}
