//! Connections to upstreams: TLS, UNIX domain sockets, HTTP/1.0, 1.1 and 2.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use glossator::upstream::http::{ClientTls, ClientTlsOptions, Fingerprint, HttpVersion, Pem};
use http::{Request, Response, Version, header};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        server::WebPkiClientVerifier,
    },
};

use crate::support::{Scripted, Setup};

/// Certificate of a server.
fn certificate(name: &str) -> CertifiedKey<KeyPair> {
    generate_simple_self_signed([name.to_owned()]).unwrap()
}

fn key(certified: &CertifiedKey<KeyPair>) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()).into()
}

/// Server that responds with the HTTP version and the host of the request.
async fn greet(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let version = match request.version() {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    let named = request.headers().get(header::HOST).map(|host| host.to_str().unwrap().to_owned());
    let authority = request.uri().authority().map(ToString::to_string);
    assert!(named.is_none() || authority.is_none() || named == authority, "{named:?} {authority:?}");
    let host = named.or(authority).unwrap_or_default();
    let name = host.split(':').next().unwrap();
    let path = request.uri().path();
    let body = format!(r#"{{"version":"{version}","host":"{name}","path":"{path}"}}"#);
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    Ok(response.body(Full::from(body)).unwrap())
}

fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
    tokio::spawn(async move {
        let served = auto::Builder::new(TokioExecutor::new());
        let _ = served.serve_connection(TokioIo::new(stream), service_fn(greet)).await;
    });
}

/// TLS server. `client` is the certificate that it requires of clients.
async fn tls_server(
    certified: &CertifiedKey<KeyPair>,
    protocols: &[&str],
    client: Option<&CertifiedKey<KeyPair>>,
) -> SocketAddr {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = match client {
        None => builder.unwrap().with_no_client_auth(),
        Some(client) => {
            let mut roots = RootCertStore::empty();
            roots.add(client.cert.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
            builder.unwrap().with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(vec![certified.cert.der().clone()], key(certified)).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream);
                }
            });
        }
    });
    address
}

fn pem(certified: &CertifiedKey<KeyPair>) -> Pem {
    Pem(certified.cert.pem().into_bytes())
}

fn trusting(certified: &CertifiedKey<KeyPair>) -> ClientTlsOptions {
    ClientTlsOptions { ca: Some(pem(certified)), ..ClientTlsOptions::default() }
}

fn setup(address: SocketAddr, tls: ClientTlsOptions) -> Setup {
    let mut setup = Setup::new(address);
    setup.upstream.address = format!("https://localhost:{}", address.port()).parse().unwrap();
    setup.upstream.tls = Some(ClientTls::new(tls).unwrap());
    setup
}

#[track_caller]
fn check_unreachable(response: &crate::support::Response) {
    assert_eq!(response.status, 502, "{}", response.text());
    assert!(response.tool_text().contains("can't be reached"), "{}", response.tool_text());
}

#[tokio::test]
async fn an_upstream_behind_tls_is_reached_in_the_protocol_that_is_agreed_on() {
    let certified = certificate("localhost");
    for (offered, protocol, version) in [
        (&["h2", "http/1.1"][..], HttpVersion::Auto, "2"),
        (&["http/1.1"], HttpVersion::Auto, "1.1"),
        (&[], HttpVersion::Auto, "1.1"),
        (&["h2", "http/1.1"], HttpVersion::Http1, "1.1"),
        (&["h2"], HttpVersion::Http2, "2"),
        (&[], HttpVersion::Http10, "1.0"),
    ] {
        let address = tls_server(&certified, offered, None).await;
        let mut setup = setup(address, trusting(&certified));
        setup.upstream.protocol = protocol;
        let response = setup.start().await.call("get_thing", "").await;
        assert_eq!(response.status, 200, "{protocol:?}: {}", response.text());
        let found = response.json()["structuredContent"].clone();
        assert_eq!(
            (&found["version"], &found["host"]),
            (&version.into(), &"localhost".into()),
            "{protocol:?}"
        );
    }
}

#[tokio::test]
async fn a_configured_host_names_a_virtual_host_and_not_the_certificate() {
    let certified = certificate("localhost");
    for (offered, version) in [("h2", "2"), ("http/1.1", "1.1")] {
        let mut setup = setup(tls_server(&certified, &[offered], None).await, trusting(&certified));
        setup.upstream.headers.insert(header::HOST, "reports.test:81".parse().unwrap());
        let found = setup.start().await.call("get_thing", "").await.json()["structuredContent"].clone();
        assert_eq!((&found["version"], &found["host"]), (&version.into(), &"reports.test".into()));
    }
}

#[tokio::test]
async fn responses_are_not_mixed_up_between_clients() {
    let (certified, other) = (certificate("localhost"), certificate("localhost"));
    let address = tls_server(&certified, &[], None).await;
    check_unreachable(&setup(address, trusting(&other)).start().await.call("get_thing", "").await);

    let elsewhere = certificate("elsewhere.test");
    let address = tls_server(&elsewhere, &[], None).await;
    check_unreachable(&setup(address, trusting(&elsewhere)).start().await.call("get_thing", "").await);
    let named = ClientTlsOptions { server_name: Some("elsewhere.test".into()), ..trusting(&elsewhere) };
    assert_eq!(setup(address, named).start().await.call("get_thing", "").await.status, 200);
}

#[tokio::test]
async fn a_certificate_that_signs_itself_is_known_by_its_fingerprint() {
    let certified = certificate("a name that nobody asks for.test");
    let address = tls_server(&certified, &[], None).await;
    let pinned =
        |digest| ClientTlsOptions { fingerprint: Some(Fingerprint(digest)), ..ClientTlsOptions::default() };
    let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let hash = suite.common.hash_provider.hash(certified.cert.der());
    let right = hash.as_ref().try_into().unwrap();
    assert_eq!(setup(address, pinned(right)).start().await.call("get_thing", "").await.status, 200);
    check_unreachable(&setup(address, pinned([0; 32])).start().await.call("get_thing", "").await);
}

#[tokio::test]
async fn a_server_gets_the_configured_credential() {
    let (certified, client) = (certificate("localhost"), certificate("client.test"));
    let address = tls_server(&certified, &[], Some(&client)).await;
    check_unreachable_or_cut_off(
        &setup(address, trusting(&certified)).start().await.call("get_thing", "").await,
    );
    let key = Some(Pem(client.signing_key.serialize_pem().into_bytes()));
    let known = ClientTlsOptions { certificate: Some(pem(&client)), key, ..trusting(&certified) };
    assert_eq!(setup(address, known).start().await.call("get_thing", "").await.status, 200);
}

/// In TLS 1.3 the server rejects the client certificate after the handshake, so timing decides which error is
/// noticed first.
#[track_caller]
fn check_unreachable_or_cut_off(response: &crate::support::Response) {
    assert_eq!(response.status, 502, "{}", response.text());
}

#[tokio::test]
async fn an_upstream_that_speaks_no_tls_is_not_reached_through_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let refusal = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, refusal).await.unwrap();
        }
    });
    let certified = certificate("localhost");
    check_unreachable(&setup(address, trusting(&certified)).start().await.call("get_thing", "").await);
}

#[tokio::test]
async fn http_2_is_spoken_without_tls_where_it_is_known_to_be_understood() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serve(stream);
        }
    });
    let mut setup = Setup::new(address);
    setup.upstream.protocol = HttpVersion::Http2;
    let response = setup.start().await.call("get_thing", "").await;
    assert_eq!(response.json()["structuredContent"]["version"], "2", "{}", response.text());
}

#[tokio::test]
async fn old_servers_are_called_with_http_1_0() {
    let upstream = Scripted::answering(
        "HTTP/1.0 200\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nold news".to_owned(),
    )
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.protocol = HttpVersion::Http10;
    let proxy = setup.start().await;
    proxy.call("get_thing", "").await;
    let request =
        upstream.until("the request came", |state| !state.requests.is_empty()).await.requests[0].clone();
    assert_eq!(request.line(), "GET /thing HTTP/1.0");
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_of_this_machine_is_reached_with_a_base() {
    let path = std::env::temp_dir().join(format!("glossator-it-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serve(stream);
        }
    });
    let mut setup = Setup::new("127.0.0.1:1".parse().unwrap());
    setup.upstream.address = format!("unix:{}:/api", path.display()).parse().unwrap();
    let response = setup.start().await.call("get_thing", "").await;
    let found = response.json()["structuredContent"].clone();
    assert_eq!(
        (&found["path"], &found["host"]),
        (&"/api/thing".into(), &"localhost".into()),
        "{}",
        response.text()
    );
    std::fs::remove_file(&path).unwrap();
}
