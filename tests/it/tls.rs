//! TLS with clients over HTTP/1.1 and HTTP/2, renewed certificates, and slow clients.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use glossator::config::{self, Sources};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, CertifiedKey, KeyPair, generate_simple_self_signed};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{PrivatePkcs8KeyDer, ServerName},
    },
};

#[cfg(unix)]
use crate::support::Program;
use crate::{
    admin::{HERE, admin},
    mcp::{NEWEST, streams::message},
    support::{Loaded, Scripted, Step, response, soon},
};

pub(crate) fn certified() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

pub(crate) fn section(certified: &CertifiedKey<KeyPair>, more: &str) -> String {
    let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    format!("tls: {{ certificate: {certificate:?}, key: {key:?}{more} }}")
}

fn load(upstream: SocketAddr, server: &str) -> config::Loaded {
    let text =
        format!("server: {{ {server} }}\nupstreams: {{ old: 'http://{upstream}' }}\npassthrough: old\n");
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Connects as a client that trusts one certificate, offers these protocols, and may have its own
/// certificate.
pub(crate) async fn shake(
    address: SocketAddr,
    trusted: &CertifiedKey<KeyPair>,
    protocols: &[&str],
    own: Option<&CertifiedKey<KeyPair>>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
            builder.with_client_auth_cert(vec![own.cert.der().clone()], key.into()).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// Sends a request and reads to the end of the connection.
async fn send(stream: &mut TlsStream<TcpStream>, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    // Some connections end without a close notification.
    let _ = soon("an answer", stream.read_to_string(&mut response)).await;
    Ok(response)
}

pub(crate) type Sender = http2::SendRequest<Full<Bytes>>;

pub(crate) async fn http2_client(
    address: SocketAddr,
    trusted: &CertifiedKey<KeyPair>,
) -> (Sender, tokio::task::JoinHandle<hyper::Result<()>>) {
    let stream = shake(address, trusted, &["h2", "http/1.1"], None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

pub(crate) async fn get(sender: &mut Sender, uri: &str) -> Response<Incoming> {
    let request = Request::get(uri).body(Full::default()).unwrap();
    soon("an answer", sender.send_request(request)).await.unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn clients_come_through_tls_in_http_1_1_and_http_2() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let certified = certified();
    let served = Loaded::start(&load(upstream.address, &section(&certified, ""))).await;
    for protocols in [&[][..], &["http/1.1"]] {
        let mut stream = shake(served.address, &certified, protocols, None).await.unwrap();
        let response = send(&mut stream, "/old").await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK") && response.ends_with("old"), "{response}");
    }
    let (mut sender, _) = http2_client(served.address, &certified).await;
    let mut other = sender.clone();
    let responses = tokio::join!(
        get(&mut other, "https://localhost/tools"),
        get(&mut sender, "https://localhost:8443/old?a=b")
    );
    assert_eq!(text(responses.0).await, "[]");
    assert_eq!(text(responses.1).await, "old");
    let response = get(&mut sender, "https://evil.example.com/tools").await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN, "{}", text(response).await);
    let state = upstream.state();
    let last = state.requests.last().unwrap();
    assert_eq!(last.line(), "GET /old?a=b HTTP/1.1");
    assert_eq!(last.header("x-forwarded-proto"), ["https"]);
    assert_eq!(last.header("x-forwarded-host"), ["localhost:8443"]);
    assert_eq!(last.header("host"), [upstream.address.to_string()]);
}

/// As if the client's machine were suspended: its connection stays open, but not even a ping is answered.
#[tokio::test]
async fn a_client_of_http_2_that_falls_silent_does_not_hold_the_end_up() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let certified = Arc::new(certified());
    let keys = format!("shutdown_timeout: 1h, write_timeout: 20ms, {}", section(&certified, ""));
    let mut served = Loaded::start(&load(upstream.address, &keys)).await;
    let address = served.address;
    let handshake = tokio::task::spawn_blocking(move || {
        // A runtime that does not run after its first request.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sender = runtime.block_on(async {
            let (mut sender, _) = http2_client(address, &certified).await;
            assert_eq!(text(get(&mut sender, "https://localhost/old").await).await, "old");
            sender
        });
        (runtime, sender)
    });
    let (runtime, _sender) = handshake.await.unwrap();
    served.stop();
    assert_eq!(served.ended().await, 0);
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_client_without_a_required_certificate_is_rejected() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let (certified, client, stranger) = (certified(), certified(), certified());
    let more = format!(", client_ca: {:?}", client.cert.pem());
    let served = Loaded::start(&load(upstream.address, &section(&certified, &more))).await;
    for (own, expected) in [(None, false), (Some(&stranger), false), (Some(&client), true)] {
        let response = match shake(served.address, &certified, &[], own).await {
            Ok(mut stream) => send(&mut stream, "/old").await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        assert_eq!(response.ends_with("old"), expected, "{response}");
    }
    assert_eq!(upstream.state().requests.len(), 1);
}

#[tokio::test]
async fn connections_without_a_handshake_are_closed() {
    let certified = certified();
    let server = format!("header_timeout: 50ms, keepalive_timeout: 50ms, {}", section(&certified, ""));
    let served = Loaded::start(&load("127.0.0.1:1".parse().unwrap(), &server)).await;
    for words in ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\0\x01\x02", ""] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        let _ = soon("the end of the connection", stream.read_to_end(&mut response)).await;
        assert!(!response.starts_with(b"HTTP"), "{response:?}");
    }
    let (sender, connection) = http2_client(served.address, &certified).await;
    soon("the end of a connection on which nothing is asked", connection).await.unwrap().unwrap();
    drop(sender);
}

#[cfg(unix)]
#[tokio::test]
async fn failed_handshakes_are_logged_together() {
    let (certified, other) = (certified(), certified());
    let program = Program::start(
        &format!(
            "server: {{ listen: '127.0.0.1:0', {} }}\nupstreams: {{ old: http://127.0.0.1:1 }}\npassthrough: old\n",
            section(&certified, "")
        ),
        &[],
    )
    .await;
    for _ in 0..20 {
        assert!(shake(program.address, &other, &[], None).await.is_err());
    }
    let mut plain = TcpStream::connect(program.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let _ = soon("the end of the connection", plain.read_to_end(&mut Vec::new())).await;
    let log = program.log().await;
    let lines: Vec<_> = log.iter().filter(|line| line["message"] == "TLS handshakes failed").collect();
    assert!(matches!(lines.len(), 1 | 2), "at first and at the end: {log:?}");
    assert_eq!(lines.iter().map(|line| line["failures"].as_u64().unwrap()).sum::<u64>(), 21);
    for line in lines {
        assert_eq!((&line["level"], &line["client"]), (&json!("INFO"), &json!("127.0.0.1")));
        assert!(!line["error"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_for_new_connections() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let (before, after) = (certified(), certified());
    let mut served = Loaded::start(&load(upstream.address, &section(&before, ""))).await;
    let mut open = shake(served.address, &before, &[], None).await.unwrap();
    assert_eq!(served.app.apply(&load(upstream.address, &section(&after, ""))).unwrap(), [""; 0]);
    assert!(shake(served.address, &before, &[], None).await.is_err());
    assert!(shake(served.address, &after, &[], None).await.is_ok());
    assert!(send(&mut open, "/old").await.unwrap().ends_with("old"));
    assert_eq!(served.app.apply(&load(upstream.address, "")).unwrap(), ["server.tls"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_certificate_that_is_renewed_in_its_file_is_taken_up() {
    let folder = std::env::temp_dir().join(format!("glossator-it-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let (before, after) = (certified(), certified());
    write("crt", before.cert.pem());
    write("key", before.signing_key.serialize_pem());
    let at = |name: &str| folder.join(name).display().to_string();
    write(
        "glossator.yaml",
        format!(
            "server: {{ listen: '127.0.0.1:0', reload_interval: 100ms, tls: {{ certificate: 'file:{}', key: 'file:{}' }} }}\n\
             upstreams: {{ old: http://127.0.0.1:1 }}\npassthrough: old\n",
            at("crt"),
            at("key")
        ),
    );
    let mut program = Program::start_from(&folder.join("glossator.yaml"), &[]).await;
    assert!(shake(program.address, &before, &[], None).await.is_ok());
    write("crt", after.cert.pem());
    let line = program.wait_for_log("config reload failed", 1).await;
    assert!(line.contains("does not match the certificate") && !line.contains("BEGIN"), "{line}");
    assert!(shake(program.address, &before, &[], None).await.is_ok());
    write("key", after.signing_key.serialize_pem());
    program.wait_for_log("config reloaded", 1).await;
    soon("the new certificate", async { while shake(program.address, &after, &[], None).await.is_err() {} })
        .await;
    std::fs::remove_dir_all(folder).unwrap();
}

/// Certificate that is valid until then.
fn certified_until(end: SystemTime) -> CertifiedKey<KeyPair> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = end.into();
    let signing_key = KeyPair::generate().unwrap();
    CertifiedKey { cert: params.self_signed(&signing_key).unwrap(), signing_key }
}

#[tokio::test]
async fn when_certificates_expire_is_warned_of_and_measured() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let now = SystemTime::now();
    let file = |own: SystemTime, roots: [SystemTime; 2]| {
        let roots: String = roots.iter().map(|end| certified_until(*end).cert.pem()).collect();
        format!(
            "server: {{ {} }}\nupstreams: {{ old: {{ url: 'https://old.test', tls: {{ ca: {roots:?} }} }} }}\npassthrough: old\n",
            section(&certified_until(own), "")
        )
    };
    let load = |text: String| {
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
    };
    // One CA may have expired, as long as another one has not.
    for (own, roots, expected) in [
        (now + 30 * DAY, [now - DAY, now + 8 * DAY], &[][..]),
        (now - DAY, [now + 8 * DAY; 2], &["the certificate has expired"]),
        (
            now + 6 * DAY,
            [now - DAY, now - 2 * DAY],
            &["the certificate expires within a week", "the certificate has expired"],
        ),
    ] {
        let loaded = load(file(own, roots));
        let warned: Vec<_> = loaded.warnings.iter().map(|problem| &problem.message).collect();
        let is_expected = |(error, words): (&&String, &&str)| error.starts_with(*words);
        assert!(warned.len() == expected.len() && warned.iter().zip(expected).all(is_expected), "{warned:?}");
    }
    let (admin, mut app) = admin(&file(now + 30 * DAY, [now + 40 * DAY, now + 50 * DAY]));
    let in_seconds = |end: SystemTime| end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for (own, root) in [(30, 50), (31, 51)] {
        if own == 31 {
            let reloaded = load(file(now + 31 * DAY, [now + 40 * DAY, now + 51 * DAY]));
            assert_eq!(app.apply(&reloaded).unwrap(), [""; 0]);
        }
        let (_, text) = crate::admin::send(&admin, "GET /metrics", &[HERE]).await;
        for (setting, days) in [("server.tls.certificate", own), ("upstreams.old.tls.ca", root)] {
            let line = format!(
                "glossator_certificate_expiry_timestamp_seconds{{setting=\"{setting}\"}} {}\n",
                in_seconds(now + days * DAY)
            );
            assert!(text.contains(&line), "no {line} in\n{text}");
        }
    }
}

/// Upstream with endless responses.
async fn endless() -> Scripted {
    Scripted::start(|_| {
        vec![Step::Send("HTTP/1.1 200 OK\r\n\r\n".into()), Step::Endlessly(vec![b'a'; 64 << 10])]
    })
    .await
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_loses_it() {
    let (upstream, certified) = (endless().await, certified());
    let request = b"GET /old HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let closed = |count: usize| move |state: &crate::support::State| state.closed_connections == count;

    let served = Loaded::start(&load(upstream.address, "write_timeout: 100ms")).await;
    let mut plain = TcpStream::connect(served.address).await.unwrap();
    plain.write_all(request).await.unwrap();
    upstream.until("the upstream is left", closed(1)).await;

    let server = format!("write_timeout: 100ms, {}", section(&certified, ""));
    let served = Loaded::start(&load(upstream.address, &server)).await;
    let mut secure = shake(served.address, &certified, &[], None).await.unwrap();
    secure.write_all(request).await.unwrap();
    upstream.until("the upstream is left", closed(2)).await;

    // Over HTTP/2 the connection is healthy, and only the flow control window of the response is full.
    let (mut sender, _) = http2_client(served.address, &certified).await;
    let response = get(&mut sender, "https://localhost/old").await;
    upstream.until("the upstream is left", closed(3)).await;
    drop((plain, secure, response));
}

#[tokio::test]
async fn a_slow_reader_gets_its_whole_response() {
    let (upstream, certified) = (endless().await, certified());
    let server = format!("write_timeout: 2s, {}", section(&certified, ""));
    let served = Loaded::start(&load(upstream.address, &server)).await;
    let (mut sender, _) = http2_client(served.address, &certified).await;
    let mut body = get(&mut sender, "https://localhost/old").await.into_body();
    let started = tokio::time::Instant::now();
    // The other wait for a while: the test is that it takes longer than the limit.
    while started.elapsed() < Duration::from_secs(3) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        soon("more of the body", body.frame()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_client_is_known_by_its_certificate_and_by_no_header() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let (own, client, stranger) = (certified(), certified(), certified());
    let more = format!(", client_ca: {:?}, client_certificate: optional", client.cert.pem());
    let text = format!(
        "server: {{ {} }}
upstreams: {{ old: 'http://{}' }}
clients:
  backup: {{ certificates: ['dns:localhost'], scopes: [read] }}
  other: {{ certificates: ['cn:other'] }}
routes:
  get_old: {{ description: x, request: GET old/old, rest: GET /old, scopes: [read] }}
",
        section(&own, &more),
        upstream.address
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let served = Loaded::start(&loaded).await;
    for (shown, path, status) in
        [(Some(&client), "/old", "200 OK"), (None, "/old", "401 Unauthorized"), (Some(&stranger), "/old", "")]
    {
        let response = match shake(served.address, &own, &["http/1.1"], shown).await {
            Ok(mut stream) => send(&mut stream, path).await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        let line = response.lines().next().unwrap_or_default();
        assert_eq!(line.strip_prefix("HTTP/1.1 ").unwrap_or_default(), status, "{response}");
    }
    let mut stream = shake(served.address, &own, &["http/1.1"], None).await.unwrap();
    let request = "GET /old HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-SSL-Client-Verify: SUCCESS\r\n\
                X-SSL-Client-S-DN: CN=other\r\nX-Forwarded-Client-Cert: DNS=localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    let _ = soon("an answer", stream.read_to_string(&mut response)).await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    // The credential in the request decides, even with a valid certificate.
    let mut stream = shake(served.address, &own, &["http/1.1"], Some(&client)).await.unwrap();
    let wrong = "GET /old HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-API-Key: wrong\r\n\r\n";
    stream.write_all(wrong.as_bytes()).await.unwrap();
    let mut response = String::new();
    let _ = soon("an answer", stream.read_to_string(&mut response)).await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
}

/// Sends a request over a connection that stays open, and returns the status.
async fn get_status(stream: &mut TlsStream<TcpStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = vec![0; 64 << 10];
    let count = soon("an answer", stream.read(&mut response)).await.unwrap();
    String::from_utf8_lossy(&response[..count]).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_connection_ends_with_its_certificate_or_its_trusted_cas() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let (own, lasting, other) = (certified(), certified(), certified());
    let end = SystemTime::now() + Duration::from_secs(4);
    let short = certified_until(end);
    let loaded = |roots: &[&CertifiedKey<KeyPair>], own: &CertifiedKey<KeyPair>| {
        let roots: String = roots.iter().map(|root| root.cert.pem()).collect();
        let more = if roots.is_empty() { String::new() } else { format!(", client_ca: {roots:?}") };
        let text = format!(
            "server: {{ {} }}
upstreams: {{ old: 'http://{}' }}
clients: {{ backup: {{ api_key_hashes: '{}', certificates: ['dns:localhost'] }} }}
routes: {{ get_old: {{ description: x, request: GET old/old, rest: GET /old }} }}
",
            section(own, &more),
            upstream.address,
            glossator::auth::ApiKeyHash::from_key("glk_backup-backup-backup-backup"),
        );
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let mut served = Loaded::start(&loaded(&[&lasting, &short], &own)).await;
    let mut of_lasting = shake(served.address, &own, &["http/1.1"], Some(&lasting)).await.unwrap();
    let mut of_short = shake(served.address, &own, &["http/1.1"], Some(&short)).await.unwrap();
    const GOOD: &str = "HTTP/1.1 200 OK";
    const BAD: &str = "HTTP/1.1 401 Unauthorized";
    assert_eq!(
        [get_status(&mut of_lasting, "/old").await, get_status(&mut of_short, "/old").await],
        [GOOD, GOOD]
    );
    // A stream that it has opened ends with it.
    let mut stream = shake(served.address, &own, &["http/1.1"], Some(&short)).await.unwrap();
    let listen = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": { "notifications": {} } });
    stream.write_all(message(NEWEST, listen, "Connection: close\r\n").as_bytes()).await.unwrap();
    let mut received = String::new();
    let _ = soon("the end of the stream", stream.read_to_string(&mut received)).await;
    assert!(received.contains("acknowledged") && received.contains("\"result\""), "{received}");
    assert!(SystemTime::now() >= end - Duration::from_secs(1));
    assert_eq!(
        [get_status(&mut of_lasting, "/old").await, get_status(&mut of_short, "/old").await],
        [GOOD, BAD]
    );
    // Another server certificate, and another CA beside the client's: it stays connected.
    served.app.apply(&loaded(&[&other, &lasting], &certified())).unwrap();
    assert_eq!(get_status(&mut of_lasting, "/old").await, GOOD);
    // The client's CA is removed.
    served.app.apply(&loaded(&[&other], &own)).unwrap();
    assert_eq!(get_status(&mut of_lasting, "/old").await, BAD);
}
