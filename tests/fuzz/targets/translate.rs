//! Any reply under any of these routes: content, no panic, and every success meets its schema.
//!
//! The first byte picks the route, the next two the status, the fourth the media type; the rest is the body.

#![no_main]

use std::sync::{Arc, LazyLock};

use glossator::{
    config::{self, Sources},
    reply::Reply,
    route::Route,
    rule::{Facts, Trace, translate},
    tool::{Schema, Shapes, write_result},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

struct Case {
    route: Arc<Route>,
    output: Option<Schema>,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let loaded = config::load(&Sources::of_text("routes.yaml", include_str!("../routes.yaml"))).expect("the file is good");
    let case = |route: Arc<Route>| Case {
        output: route.definition.output_schema.as_ref().map(|schema| Schema::compile(schema).expect("it was advertised")),
        route,
    };
    loaded.routes.into_iter().map(|file| case(file.route)).collect()
});

const MEDIA_TYPES: [&str; 8] = [
    "", "text/plain", "application/json", "text/html", "image/png", "application/problem+json",
    "text/plain; charset=utf-16le", "text/plain; charset=shift_jis",
];

fuzz_target!(|data: &[u8]| {
    let [picked, high, low, media_type, body @ ..] = data else { return };
    let case = &CASES[usize::from(*picked) % CASES.len()];
    let status = 100 + u16::from_be_bytes([*high, *low]) % 900;
    let mut headers = HeaderMap::new();
    let media_type = MEDIA_TYPES[usize::from(*media_type) % MEDIA_TYPES.len()];
    if !media_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    let status = StatusCode::from_u16(status).expect("100 to 999");
    let reply = Reply::new(status, headers, body.to_vec().into());
    let args = json!({ "city": "Oslo" });
    let facts = Facts::new(&case.route.definition.name, &args);
    let result = translate(&case.route.translator, facts, &reply, &mut Trace::on()).result;
    let mut written = Vec::new();
    write_result(&result, Shapes::ObjectsOnly, &mut written);
    let written: Value = serde_json::from_slice(&written).expect("a result is JSON");
    assert!(!result.content.is_empty());
    if let (Some(output), false) = (&case.output, result.is_error()) {
        assert!(output.admits(&written["structuredContent"]), "{written}");
    }
});
