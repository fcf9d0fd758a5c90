//! Requests as an operator writes them, and as they arrive at the upstream.

use glossator::config::{self, Sources};

use crate::support::{Loaded, Scripted, response};

/// Request line that a route sends for these arguments.
async fn requested(route: &str, arguments: &str) -> String {
    let head = head_of(route, arguments).await;
    head.lines().next().unwrap().strip_suffix(" HTTP/1.1").unwrap().to_owned()
}

/// Request headers that a route sends.
async fn head_of(route: &str, arguments: &str) -> String {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let text = format!(
        "upstreams: {{ old: http://{} }}\nroutes: {{ a: {{ description: A., {route} }} }}",
        upstream.address
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let served = Loaded::start(&loaded).await;
    let json = ["Content-Type: application/json"];
    let response = served.connect().await.send("POST /tools/a", &json, arguments).await;
    assert_eq!(response.tool_text(), "ok", "{route}: {}", response.text());
    let state = upstream.state();
    state.requests[0].head.clone()
}

#[tokio::test]
async fn a_written_path_and_query_go_out_as_they_are() {
    for (written, sent) in [
        ("GET old/gitweb?p=a.git;a=summary", "GET /gitweb?p=a.git;a=summary"),
        ("GET old/a;v=1/b,c(d)!$&'*+=:@~", "GET /a;v=1/b,c(d)!$&'*+=:@~"),
        ("GET old/s?q=a+b,(c)!$'*:@/?&x=caf%e9", "GET /s?q=a+b,(c)!$'*:@/?&x=caf%e9"),
        ("GET old/status?auto", "GET /status?auto"),
        ("GET old/s?q=a|b", "GET /s?q=a%7Cb"),
    ] {
        let written = written.replace('\'', "''");
        assert_eq!(requested(&format!("request: '{written}'"), "{}").await, sent);
    }
}

#[tokio::test]
async fn an_argument_stays_in_its_parameter_for_any_separator() {
    let route = "request: 'GET old/gitweb?p={repo};a=log'";
    let sent = requested(route, r#"{"repo":"a.git;a=blob&x=+"}"#).await;
    assert_eq!(sent, "GET /gitweb?p=a.git%3Ba%3Dblob%26x%3D%2B;a=log");
}

#[tokio::test]
async fn an_upstream_sets_the_host() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let text = format!(
        "upstreams: {{ old: {{ url: 'http://{}', headers: {{ host: reports.test }} }} }}\n\
         routes: {{ a: {{ description: A., request: GET old/ }} }}",
        upstream.address
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    Loaded::start(&loaded).await.connect().await.send("POST /tools/a", &[], "").await;
    assert_eq!(upstream.state().requests[0].header("host"), ["reports.test"]);
}

#[tokio::test]
async fn a_filter_encodes_a_body_in_base64() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let text = format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes: {{ a: {{ description: A., request: {{ method: POST, \
         path: /v3/kv/range, body: {{ json: {{ key: '{{{{ args.key | b64encode }}}}' }} }} }} }} }}",
        upstream.address
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let json = ["Content-Type: application/json"];
    Loaded::start(&loaded).await.connect().await.send("POST /tools/a", &json, r#"{"key":"foo"}"#).await;
    assert_eq!(upstream.state().requests[0].body, br#"{"key":"Zm9v"}"#);
}

#[tokio::test]
async fn any_token_is_a_method() {
    assert_eq!(requested("request: PROPFIND old/dav", "{}").await, "PROPFIND /dav");
    assert_eq!(requested("request: { method: M-SEARCH, path: /x }", "{}").await, "M-SEARCH /x");
}

#[tokio::test]
async fn an_integer_is_sent_as_one_however_the_client_writes_it() {
    let input = "input: { properties: { n: { type: integer }, m: { type: number } }, required: [n] }";
    let line = format!("{input}, request: 'GET old/rooms/{{n}}?n={{n}}&m={{m}}'");
    assert_eq!(requested(&line, r#"{"n":3.0,"m":3.0}"#).await, "GET /rooms/3?n=3&m=3.0");
    assert_eq!(requested(&line, r#"{"n":1e2}"#).await, "GET /rooms/100?n=100");
    let template = r#"request: { path: /rooms, query: { n: "{{ args.n }}", of: "n{{ args.n }}" } }"#;
    assert_eq!(requested(&format!("{input}, {template}"), r#"{"n":1.0e1}"#).await, "GET /rooms?n=10&of=n10");
}

#[tokio::test]
async fn an_argument_that_is_an_empty_text_is_sent_and_an_empty_template_is_not() {
    let input = "input: { properties: { q: { type: string }, r: { type: string } } }";
    let query = r#"query: { q: "{{ args.q }}", r: "{{ args.r }}", s: "{{ args.q or '' }}" }"#;
    let route = format!("{input}, request: {{ path: /s, {query} }}");
    assert_eq!(requested(&route, r#"{"q":""}"#).await, "GET /s?q=");
}

#[tokio::test]
async fn a_header_is_omitted_with_its_optional_argument() {
    let input = "input: { properties: { tenant: { type: [string, array, 'null'] } } }";
    let headers = |template: &str| format!(r#"headers: {{ X-Tenant: "{template}", X-Fixed: a }}"#);
    let omitted = headers("{{ args.tenant | default(omit) }}");
    for headers in [&headers("{{ args.tenant }}"), &omitted] {
        let route = format!("{input}, request: {{ path: /s, {headers} }}");
        for (arguments, sent) in [
            (r#"{"tenant":"blue"}"#, vec!["blue"]),
            (r#"{"tenant":["blue","red"]}"#, vec!["blue", "red"]),
            (r#"{"tenant":null}"#, vec![]),
            (r#"{"tenant":""}"#, vec![]),
            ("{}", vec![]),
        ] {
            let head = head_of(&route, arguments).await.to_ascii_lowercase();
            let found: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("x-tenant: ")).collect();
            assert_eq!(found, sent, "{headers} {arguments}");
            assert!(head.contains("x-fixed: a"), "{head}");
        }
    }
    // Without `input` the argument is optional.
    let head = head_of(&format!("request: {{ path: /s, {omitted} }}"), "{}").await.to_ascii_lowercase();
    assert!(!head.contains("x-tenant"), "{head}");
}
