//! What holds for all input, as functions of bytes: the fuzz targets run them for long, `tests/it/fuzz.rs`
//! for a moment over the corpus and what mutation makes of it. A law that does not hold panics.

use std::{
    cell::RefCell,
    ffi::OsString,
    io::Cursor,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use glossator::{
    authoring::{
        import,
        infer::{self, RouteNaming, Sample},
    },
    config::{self, Sources},
    inbound::cgi,
    model::{Recording, Schema, StructuredContentSupport, UpstreamResponse, write_result},
    route::Route,
    server,
    translate::{CallInput, Trace, translate as translated},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// What holds for any bytes.
pub(crate) type Law = fn(&[u8]);

/// Every law, by the name of its target and of its folder in the corpus.
pub(crate) const LAWS: [(&str, Law); 7] = [
    ("cgi", cgi_request),
    ("configuration", configuration),
    ("http", http_request),
    ("infer", inferred),
    ("openapi", openapi),
    ("recording", recording),
    ("translate", translate),
];

/// The routes of `translate` and `http`.
const ROUTES: &str = include_str!("routes.yaml");

struct Case {
    route: Arc<Route>,
    output: Option<Schema>,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let loaded = config::load(&Sources::from_text("routes.yaml", ROUTES)).expect("the file is good");
    let case = |route: Arc<Route>| Case {
        output: route
            .definition
            .output_schema
            .as_ref()
            .map(|schema| Schema::compile(schema).expect("it was advertised")),
        route,
    };
    loaded.routes.iter().map(|file| case(Arc::clone(&file.route))).collect()
});

/// The first line, and what comes after it.
fn line(data: &[u8]) -> (String, &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (line, rest) = end.map_or((data, &data[..0]), |end| (&data[..end], &data[end + 1..]));
    (String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned(), rest)
}

/// Any file: it loads, or is told what is wrong; never a panic.
pub(crate) fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(problems) = config::load(&Sources::from_text("routes.yaml", text)) {
        assert!(!problems.as_slice().is_empty());
        let _ = problems.to_string();
    }
}

/// Any response under any route: content, no panic, and every success meets its schema.
///
/// The first line is `ROUTE STATUS MEDIA-TYPE`, the rest is the body.
pub(crate) fn translate(data: &[u8]) {
    let (first, body) = line(data);
    let mut words = first.splitn(3, ' ');
    let name = words.next().unwrap_or_default();
    let by_name = CASES.iter().find(|case| case.route.definition.name.as_str() == name);
    let length = name.bytes().map(usize::from).sum::<usize>();
    let case = by_name.unwrap_or(&CASES[length % CASES.len()]);
    let status = words.next().and_then(|status| status.parse().ok()).unwrap_or(StatusCode::OK);
    let mut headers = HeaderMap::new();
    if let Some(Ok(media_type)) = words.next().map(HeaderValue::from_str) {
        headers.insert(CONTENT_TYPE, media_type);
    }
    let response = UpstreamResponse::new(status, headers, body.to_vec().into());
    let args = json!({ "city": "Oslo" });
    let input = CallInput::new(&case.route.definition.name, &args);
    let result = translated(&case.route.translator, input, &response, &mut Trace::on()).result;
    let mut written = Vec::new();
    write_result(&result, StructuredContentSupport::ObjectsOnly, &mut written);
    let written: Value = serde_json::from_slice(&written).expect("a result is JSON");
    assert!(!result.content.is_empty());
    if let (Some(output), false) = (&case.output, result.is_error()) {
        assert!(output.accepts(&written["structuredContent"]), "{written}");
    }
}

/// Any file of recorded replies.
pub(crate) fn recording(data: &[u8]) {
    if let Ok(read) = Recording::read(&Bytes::copy_from_slice(data)) {
        let _ = read.choose(None);
    }
}

/// Any sample: the file that is proposed loads.
pub(crate) fn inferred(data: &[u8]) {
    let Ok(response) = UpstreamResponse::from_recording(&Bytes::copy_from_slice(data)) else { return };
    let naming = RouteNaming {
        name: "sample".into(),
        upstream: "legacy".into(),
        address: Some("http://127.0.0.1:9".into()),
        method: "GET".into(),
        path: Some("/x".into()),
    };
    let proposal = infer::propose(&[Sample { name: "sample".into(), response }], &naming);
    if let Err(problems) = config::load(&Sources::from_text("proposed.yaml", &proposal.yaml)) {
        panic!("{problems}\n{}", proposal.yaml);
    }
}

/// Any document: what is made of it loads.
pub(crate) fn openapi(data: &[u8]) {
    let Ok(document) = serde_json::from_slice(data) else { return };
    if let Ok(imported) = import::openapi(document, "", None, &[])
        && let Err(problems) = config::load(&Sources::from_text("imported.yaml", &imported.yaml))
    {
        panic!("{problems}\n{}", imported.yaml);
    }
}

thread_local! {
    static SERVED: RefCell<Option<(tokio::runtime::Runtime, server::HttpHandler)>> = const { RefCell::new(None) };
}

/// Any request of a client, on the REST and the MCP face: an answer, which is what it says it is.
///
/// The first line is `METHOD TARGET`, then headers, an empty line, the body. Nobody listens where the routes
/// lead.
pub(crate) fn http_request(data: &[u8]) {
    let (first, mut rest) = line(data);
    let Some((method, target)) = first.split_once(' ') else { return };
    let mut request = Request::builder().method(method).uri(target);
    let mut has_host = false;
    loop {
        let (header, after) = line(rest);
        rest = after;
        let Some((name, value)) = header.split_once(':') else { break };
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value.trim())) else {
            return;
        };
        has_host |= name == HOST;
        request = request.header(name, value);
    }
    if !has_host {
        request = request.header(HOST, "localhost");
    }
    let Ok(request) = request.body(Body::from(rest.to_vec())) else { return };
    SERVED.with_borrow_mut(|served| {
        let (runtime, handler) = served.get_or_insert_with(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let quick = format!("defaults: {{ retry: off, circuit_breaker: off, timeout: 1s }}\n{ROUTES}");
            let loaded = config::load(&Sources::from_text("routes.yaml", &quick)).expect("the file is good");
            let app = runtime.block_on(async { server::App::new(&loaded).expect("no conflicts") });
            (runtime, app.handler)
        });
        runtime.block_on(async {
            let answer = handler.handle(request).await;
            let status = answer.status();
            assert!(status != StatusCode::INTERNAL_SERVER_ERROR, "{status}");
            let media_type =
                answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let is_json = media_type.starts_with("application/json");
            // A stream of events has no end.
            let body = tokio::time::timeout(Duration::from_millis(20), answer.into_body().collect()).await;
            if let (Ok(Ok(body)), true) = (body, is_json) {
                let body = body.to_bytes();
                assert!(
                    body.is_empty() || serde_json::from_slice::<Value>(&body).is_ok(),
                    "{status}: {body:?}"
                );
            }
        });
    });
}

/// Any variables of a web server: a request, or a reason why not.
///
/// A line is `NAME=VALUE`; after an empty one comes the body.
pub(crate) fn cgi_request(data: &[u8]) {
    let mut rest = data;
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    while variables.len() < 200 {
        let (variable, after) = line(rest);
        rest = after;
        let Some((name, value)) = variable.split_once('=') else { break };
        variables.push((name.into(), value.into()));
    }
    match cgi::request(&variables, Cursor::new(rest.to_vec())) {
        Ok(request) => {
            assert!(request.headers().keys().all(|name| name != "connection" && name != "transfer-encoding"))
        }
        Err(error) => assert!(error.status.is_client_error() || error.status.is_server_error()),
    }
}
