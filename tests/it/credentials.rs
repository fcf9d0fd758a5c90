//! Credentials for upstreams: sent with every request, or the request is not sent.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glossator::config::{self, Sources};

use crate::support::{Loaded, ReceivedRequest, Response, Scripted, Step, response};

/// The program in front of an upstream with this `auth`.
async fn before(upstream: &Scripted, auth: &str) -> Loaded {
    let text = format!(
        "upstreams: {{ old: {{ url: 'http://{}', credentials: {auth}, circuit_breaker: {{ consecutive_failures: 2 }} }} }}\n\
         routes:\n  get_thing: {{ description: x, request: GET old/thing, forward_headers: [Authorization] }}\n  \
         make_thing: {{ description: x, request: POST old/thing }}\n",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("glossator.yaml", text));
    Loaded::start(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).await
}

async fn call(program: &Loaded, tool: &str) -> Response {
    let headers = ["Authorization: Bearer callers"];
    program.connect().await.send(&format!("POST /tools/{tool}"), &headers, "").await
}

fn ok() -> Vec<Step> {
    vec![Step::Send(response("200 OK", "text/plain", "here"))]
}

/// Server that accepts the bearer token with this number and later ones.
async fn taking_tokens_from(least: Arc<AtomicUsize>) -> Scripted {
    Scripted::start(move |request| {
        let number =
            request.header("authorization").first().and_then(|value| value.strip_prefix("Bearer token-"));
        match number.and_then(|number| number.parse::<usize>().ok()) {
            Some(number) if number >= least.load(Ordering::SeqCst) => ok(),
            _ => vec![Step::Send(response("401 Unauthorized", "text/plain", "who are you?"))],
        }
    })
    .await
}

/// Token server that issues `token-1`, `token-2`, ….
async fn token_server() -> Scripted {
    let count = AtomicUsize::new(0);
    Scripted::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        let token =
            format!(r#"{{"access_token": "token-{number}", "token_type": "Bearer", "expires_in": 3600}}"#);
        vec![Step::Send(response("200 OK", "application/json", &token))]
    })
    .await
}

fn oauth(server: &Scripted) -> String {
    let url = format!("http://{}/oauth/token?tenant=a", server.address);
    format!(
        "{{ oauth: {{ token_url: '{url}', client_id: me, client_secret: s3cr3t, scopes: [read, write] }} }}"
    )
}

#[tokio::test]
async fn the_configured_credential_is_sent_for_every_client() {
    let upstream = Scripted::start(|_| ok()).await;
    for (auth, expected) in [
        ("{ basic: { user: Aladdin, password: open sesame } }", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("{ bearer: a.token }", "Bearer a.token"),
    ] {
        let response = call(&before(&upstream, auth).await, "get_thing").await;
        assert_eq!(response.tool_text(), "here");
        let request = upstream.state().requests.pop().unwrap();
        assert_eq!(request.header("authorization"), [expected]);
    }
}

#[tokio::test]
async fn a_token_is_fetched_once_and_replaced_when_it_is_rejected() {
    let least = Arc::new(AtomicUsize::new(1));
    let (upstream, server) = (taking_tokens_from(least.clone()).await, token_server().await);
    let program = before(&upstream, &oauth(&server)).await;
    for _ in 0..3 {
        assert_eq!(call(&program, "get_thing").await.tool_text(), "here");
    }
    let requests = server.state().requests;
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(requests[0].line(), "POST /oauth/token?tenant=a HTTP/1.1");
    assert_eq!(requests[0].header("authorization"), ["Basic bWU6czNjcjN0"]);
    assert_eq!(requests[0].body, b"grant_type=client_credentials&scope=read+write");

    // The token is revoked. Even a request that must not be repeated is sent again: a server that responds
    // 401 has not processed it.
    least.store(2, Ordering::SeqCst);
    assert_eq!(call(&program, "make_thing").await.tool_text(), "here");
    let sent: Vec<_> =
        upstream.state().requests.iter().map(|request: &ReceivedRequest| request.line().to_owned()).collect();
    assert_eq!(sent[3..], ["POST /thing HTTP/1.1", "POST /thing HTTP/1.1"]);
    assert_eq!(server.state().requests.len(), 2);

    // The next token is refused at once, so requesting another would not help.
    least.store(9, Ordering::SeqCst);
    assert_eq!(call(&program, "get_thing").await.status, 401);
    assert_eq!(call(&program, "get_thing").await.status, 401);
    assert_eq!(server.state().requests.len(), 3);
}

#[tokio::test]
async fn nothing_is_sent_while_there_is_no_token() {
    let upstream = Scripted::start(|_| ok()).await;
    let refusal = r#"{"error": "invalid_client", "error_description": "no such secret: s3cr3t"}"#;
    let server = Scripted::answering(response("401 Unauthorized", "application/json", refusal)).await;
    let program = before(&upstream, &oauth(&server)).await;
    for words in ["Retry later", "Retry in 1 s", "Retry in 1 s", "Retry in 1 s"] {
        let response = call(&program, "get_thing").await;
        assert_eq!(response.status, 502);
        let text = response.tool_text();
        assert!(text.contains("no credential") && text.contains(words), "{text}");
        assert!(!text.contains("s3cr3t") && !text.contains("127.0.0.1"), "{text}");
    }
    assert_eq!(upstream.state().connections, 0);
    assert_eq!(server.state().requests.len(), 1, "a server that fails is left alone");
}

#[tokio::test]
async fn a_token_file_is_read_again_after_a_rejection_and_required() {
    let least = Arc::new(AtomicUsize::new(1));
    let upstream = taking_tokens_from(least.clone()).await;
    let file = std::env::temp_dir().join(format!("glossator-it-token-{}", std::process::id()));
    std::fs::write(&file, "token-1\n").unwrap();
    let program = before(&upstream, &format!("{{ bearer: 'file:{}' }}", file.display())).await;
    assert_eq!(call(&program, "get_thing").await.tool_text(), "here");
    std::fs::write(&file, "token-2\n").unwrap();
    least.store(2, Ordering::SeqCst);
    assert_eq!(call(&program, "get_thing").await.tool_text(), "here");
    std::fs::remove_file(&file).unwrap();
    least.store(3, Ordering::SeqCst);
    let response = call(&program, "get_thing").await;
    assert!(response.tool_text().contains("no credential"), "{}", response.tool_text());
    assert!(!response.text().contains("glossator-it-token"), "{}", response.text());
}

#[tokio::test]
async fn passthrough_forwards_the_clients_credential_and_none_of_ours() {
    let upstream = Scripted::start(|_| ok()).await;
    let text = format!(
        "upstreams: {{ old: {{ url: 'http://{}', credentials: {{ bearer: a.token }} }} }}\npassthrough: old\n",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("glossator.yaml", text)).unwrap();
    let program = Loaded::start(&loaded).await;
    for headers in [&[][..], &["Authorization: Bearer callers"]] {
        program.connect().await.send("GET /page", headers, "").await;
    }
    let requests = upstream.state().requests;
    assert!(requests[0].header("authorization").is_empty(), "{requests:?}");
    assert_eq!(requests[1].header("authorization"), ["Bearer callers"]);
}

#[tokio::test]
async fn parameters_of_an_upstream_are_added_to_every_query() {
    let upstream = Scripted::start(|request| match request.line().split(' ').nth(1).unwrap() {
        // Many servers repeat the query in a redirect, in an order and encoding of their own; others do not.
        old if old.starts_with("/old") => {
            let target = old.replace("/old?q=1&u=ada%20l&v=2", "/mid?v=2&q=1&u=ada+l");
            let head = format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
            vec![Step::Send(head.into_bytes())]
        }
        mid if mid.starts_with("/mid") => {
            vec![Step::Send(b"HTTP/1.1 302 Found\r\nLocation: /new?x\r\nContent-Length: 0\r\n\r\n".to_vec())]
        }
        _ => ok(),
    })
    .await;
    let address = upstream.address;
    let text = format!(
        "upstreams:\n  old:\n    url: http://{address}/base\n    query: {{ u: ada, apikey: 'a&b=ü c' }}\n    \
         max_redirects: 2\n    health_check: {{ path: /health, interval: 100ms }}\n\
         routes:\n  get_page: {{ description: x, request: 'GET old/page?q={{q}}' }}\n  \
         get_all: {{ description: x, request: GET old/all }}\npassthrough: old\n"
    );
    let moved = format!(
        "upstreams: {{ old: {{ url: 'http://{address}', query: {{ u: ada l, v: 2 }}, max_redirects: 2 }} }}\n\
         routes: {{ get_old: {{ description: x, request: 'GET old/old?q=1' }} }}\n"
    );
    let start = async |text| {
        let loaded = config::load(&Sources::from_text("glossator.yaml", text));
        Loaded::start(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).await
    };
    let program = start(text).await;
    program.connect().await.send("POST /tools/get_page", &[], r#"{"q": "1&u=eve"}"#).await;
    program.connect().await.send("POST /tools/get_all", &[], "").await;
    program.connect().await.send("GET /page?p=1", &[], "").await;
    call(&start(moved).await, "get_old").await;
    let own = "u=ada&apikey=a%26b%3D%C3%BC%20c";
    let expected = [
        format!("/base/health?{own}"),
        format!("/base/page?q=1%26u%3Deve&{own}"),
        format!("/base/all?{own}"),
        "/base/page?p=1".to_owned(),
        "/old?q=1&u=ada%20l&v=2".to_owned(),
        "/mid?q=1&u=ada%20l&v=2".to_owned(),
        "/new?x&u=ada%20l&v=2".to_owned(),
    ];
    let has_all = |requests: &[ReceivedRequest]| {
        let lines: Vec<&str> = requests.iter().map(ReceivedRequest::line).collect();
        expected.iter().all(|target| lines.contains(&&*format!("GET {target} HTTP/1.1")))
    };
    let state = upstream.until("the requests", |state| has_all(&state.requests)).await;
    let others = state.requests.iter().filter(|request| !request.line().starts_with("GET /base/health"));
    assert_eq!(others.count(), expected.len() - 1);
}
