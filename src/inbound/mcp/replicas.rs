//! Forwarding between replicas: a load balancer may send a message to a replica that can't handle it.
//!
//! Some messages belong to one replica: responses to requests of glossator and resumptions of streams (both
//! up to MCP 2025-11-25), and requests about tasks with input requests. Their id contains, encrypted, the URL
//! of that replica. Another replica that gets the message forwards it once, to that URL.
//!
//! The forwarded request identifies its client by an encrypted token, which is valid for a short time. The
//! authenticator has already removed the credentials from the headers. The token contains a digest of the
//! request, so it is not valid for any other request.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_LENGTH, HOST},
    request::Parts,
};
use http_body_util::{BodyExt, Full, Limited};
use tokio::time::timeout;
use tracing::warn;

use super::{LAST_EVENT_ID, MessageContext, PROTOCOL_VERSION, SESSION_ID};
use crate::crypto::{Purpose, TokenCipher, fingerprint, random_id};
use crate::inbound::host_origin::request_host;
use crate::route::Scopes;
use crate::settings::{FromText, Invalid};
use crate::telemetry::ErrorChain;
use crate::tls::ClientTls;
use crate::upstream::http::{Address, HttpSettings, HttpUpstream, HttpVersion, StreamedBody};
use crate::upstream::{Client, ClientIdentity, Deadline};

/// Lifetime of the id of a request to a client, or of a stream.
const ID_TTL: Duration = Duration::from_secs(60 * 60);

/// Timeout of connecting to another replica, and of its response headers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of the response headers, and then of the body, for a request about a task: the other replica may
/// send a request to the upstream first.
const TASK_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of another replica's response to a forwarded request, in bytes. The response is a JSON-RPC
/// message with a result.
const RESPONSE_LIMIT_BYTES: usize = 256 << 20;

/// Header of a forwarded message, so that it is not forwarded again.
const FORWARDED: HeaderName = HeaderName::from_static("glossator-forwarded");

/// Forwards messages to other replicas, and issues ids that contain the URL of this replica.
#[derive(Debug)]
pub(super) struct Replicas {
    pub(super) cipher: TokenCipher,
    /// The URL at which other replicas reach this one.
    pub(super) own_url: Option<ReplicaUrl>,
    /// TLS settings for requests to other replicas.
    pub(super) tls: Option<ClientTls>,
}

/// The URL of a replica: `http://10.0.0.7:8080`, or the same with `https://`.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Deref, derive_more::Display)]
pub struct ReplicaUrl(Address);

impl FromText for ReplicaUrl {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| {
            let help =
                "write `http://HOST:PORT`, or the same with `https://`, as other replicas reach this one";
            Invalid::without_value("`advertise_url` is not an HTTP address", help)
        })
    }
}

impl ReplicaUrl {
    /// Parses a URL. `None` if it is invalid, or the address of a Unix socket.
    pub fn parse(text: &str) -> Option<Self> {
        let address: Address = text.parse().ok()?;
        address.socket().is_none().then_some(Self(address))
    }
}

impl Replicas {
    /// Issues an unpredictable id for a request to a client, or for a stream. It contains, encrypted, the URL
    /// of this replica, if `advertise_url` is set.
    pub(super) fn issue_id(&self) -> String {
        let id = random_id();
        let Some(own_url) = &self.own_url else { return id };
        let content = format!("{id} {own_url}");
        self.cipher.issue(Purpose::ClientRequest, content.as_bytes(), SystemTime::now() + ID_TTL)
    }

    /// Returns the URL of the other replica that issued an id. `None` if this replica issued it, or if the id
    /// has expired or contains no URL.
    fn issuer(&self, id: &str) -> Option<ReplicaUrl> {
        let content = self.cipher.open(Purpose::ClientRequest, id, SystemTime::now()).ok()?;
        let content = String::from_utf8(content).ok()?;
        let (_, url) = content.split_once(' ')?;
        ReplicaUrl::parse(url).filter(|issuer| Some(issuer) != self.own_url.as_ref())
    }

    /// Forwards an input response to the replica that sent the input request. Returns whether that replica
    /// accepted it.
    pub(super) async fn forward_response(&self, id: &str, message: &MessageContext, body: &[u8]) -> bool {
        let Some(issuer) = self.issuer(id) else { return false };
        let response = self.send(issuer, Method::POST, message, body, REQUEST_TIMEOUT).await;
        response.is_some_and(|response| response.status() == StatusCode::ACCEPTED)
    }

    /// Requests the rest of a stream from the replica that issued its name. `None` if this replica issued it,
    /// or if the request fails.
    pub(super) async fn resume(&self, name: &str, message: &MessageContext) -> Option<Response<Body>> {
        let response = self.send(self.issuer(name)?, Method::GET, message, b"", REQUEST_TIMEOUT).await?;
        (response.status() == StatusCode::OK).then(|| response.map(Body::new))
    }

    /// Forwards a request about a task to the replica at `address`. Returns the status and the body of the
    /// response. `None` if this is the address of this replica, or if the other replica does not respond.
    pub(super) async fn forward_request(
        &self,
        address: &str,
        message: &MessageContext,
        body: &[u8],
    ) -> Option<(StatusCode, Bytes)> {
        let peer = ReplicaUrl::parse(address).filter(|peer| Some(peer) != self.own_url.as_ref())?;
        let wait = TASK_REQUEST_TIMEOUT;
        let (head, body) = self.send(peer, Method::POST, message, body, wait).await?.into_parts();
        let body = within_timeout(address, wait, Limited::new(body, RESPONSE_LIMIT_BYTES).collect()).await?;
        Some((head.status, body.to_bytes()))
    }

    /// Sends a message to another replica, unless the message was already forwarded. `Host` is the host of
    /// the client's request, which every replica allows; the other replica may not allow its own address.
    async fn send(
        &self,
        peer: ReplicaUrl,
        method: Method,
        message: &MessageContext,
        body: &[u8],
        wait: Duration,
    ) -> Option<Response<StreamedBody>> {
        let (_, host) = request_host(message.head.as_ref()?).ok()?;
        let host = host.and_then(|host| HeaderValue::from_bytes(host).ok());
        let forwarded_body = Full::<Bytes>::from(body.to_vec()).map_err(|never| match never {});
        let mut request = Request::new(forwarded_body.boxed_unsync());
        *request.headers_mut() = self.forwarded_headers(message, &method, body)?;
        (*request.method_mut(), *request.uri_mut()) = (method, Uri::from_static(PATH));
        let peer_url = peer.to_string();
        let upstream = HttpUpstream::new(HttpSettings {
            protocol: HttpVersion::Http1,
            tls: self.tls.clone().filter(|_| peer.is_tls()),
            headers: host.map(|host| (HOST, host)).into_iter().collect(),
            connect_timeout: REQUEST_TIMEOUT,
            // Such requests are rare, and each may go to a different replica.
            idle_connections: 0,
            ..HttpSettings::new("peer".parse().expect("`peer` is a valid upstream name"), peer.0)
        });
        let deadline = Deadline::after(wait).at;
        let response = async {
            upstream.stream(request, deadline).await.map_err(|failure| failure.into_error(upstream.name()))
        };
        within_timeout(&peer_url, wait, response).await
    }

    /// Builds the headers of a forwarded message. `None` if the message was already forwarded.
    fn forwarded_headers(&self, message: &MessageContext, method: &Method, body: &[u8]) -> Option<HeaderMap> {
        let mut headers = message.headers().clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if headers.insert(FORWARDED, HeaderValue::from_static("1")).is_some() {
            return None;
        }
        // The `Content-Length` of the client's request may be the length of a whole batch. The HTTP library
        // sets the length of the forwarded message.
        headers.remove(CONTENT_LENGTH);
        headers.remove(IDENTITY);
        if let Some(client) = message.client().client() {
            let token = issue_identity_token(&self.cipher, client, method, &headers, body)?;
            headers.insert(IDENTITY, token);
        }
        Some(headers)
    }

    /// Reads the identity token in a request that another replica forwards. Returns a function that takes the
    /// body and returns the client, or `None` if the token was issued for another request. Returns `None`,
    /// before the body is read, if the request has no identity token, or an expired one. A client can't forge
    /// a token: it is encrypted and authenticated (AEAD) with the secret key of all replicas.
    pub(super) fn forwarded_identity(
        &self,
        head: &Parts,
        now: SystemTime,
    ) -> Option<impl FnOnce(&Parts, &[u8]) -> Option<ClientIdentity> + use<>> {
        head.headers.get(FORWARDED)?;
        let token = head.headers.get(IDENTITY)?.to_str().ok()?;
        let content = self.cipher.open(Purpose::ClientIdentity, token, now).ok()?;
        let (request, id, name, scopes): (String, String, String, Vec<String>) =
            serde_json::from_slice(&content).ok()?;
        Some(move |head: &Parts, body: &[u8]| {
            let target = head.uri.path_and_query()?.as_str();
            let scopes = Scopes::from_client(scopes.iter().map(String::as_str));
            let client = || ClientIdentity::Client(Arc::new(Client::new(&id, &name, scopes)));
            (request == digest(&head.method, target, &head.headers, body)).then(client)
        })
    }
}

/// Waits for the response of another replica, with a timeout. A failure is logged.
async fn within_timeout<T, E: Into<BoxError>>(
    peer: &str,
    wait: Duration,
    request: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    let timed_out = |_| BoxError::from(format!("no response within {wait:?}"));
    let response = timeout(wait, request).await.map_err(timed_out);
    let failed = |error: &BoxError| {
        warn!(peer, error = %ErrorChain(&**error), "message not forwarded to another replica");
    };
    response.and_then(|response| response.map_err(Into::into)).inspect_err(failed).ok()
}

/// Header with the identity token of a client.
pub(super) const IDENTITY: HeaderName = HeaderName::from_static("glossator-client");

/// Lifetime of an identity token: the time to connect to another replica, and some clock skew.
const IDENTITY_TTL: Duration = Duration::from_secs(15);

/// Path at which other replicas accept forwarded messages.
pub(super) const PATH: &str = "/mcp";

/// The headers that an identity token is bound to, in addition to the method, the target and the body.
const BOUND_HEADERS: [HeaderName; 3] = [PROTOCOL_VERSION, SESSION_ID, LAST_EVENT_ID];

/// Issues an identity token for one request to [`PATH`]. `None` if the token can't be a header value.
fn issue_identity_token(
    cipher: &TokenCipher,
    client: &Client,
    method: &Method,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<HeaderValue> {
    let scopes: Vec<&str> = client.scopes.iter().collect();
    let request = digest(method, PATH, headers, body);
    let content = serde_json::json!([request, client.id, client.name, scopes]).to_string();
    let token = cipher.issue(Purpose::ClientIdentity, content.as_bytes(), SystemTime::now() + IDENTITY_TTL);
    HeaderValue::from_str(&token).ok()
}

/// Computes the digest of a request, to which an identity token is bound.
fn digest(method: &Method, target: &str, headers: &HeaderMap, body: &[u8]) -> String {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>();
    let request = (method.as_str(), target, BOUND_HEADERS.map(values), fingerprint(body));
    fingerprint(&serde_json::to_vec(&request).expect("a tuple of texts and bytes can be serialized"))
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::{
        crypto::SecretKey,
        inbound::{
            filter::{Filter, FilterSettings},
            mcp::{McpApiSettings, McpEndpoint, response::MessageSender},
            rest::RestApi,
        },
        pipeline::{Gateway, Snapshot, SnapshotParts},
        route::RouteTable,
    };

    fn replicas_with(secret: &str, own_url: Option<&str>) -> Replicas {
        let secret = SecretKey::new(secret.as_bytes()).unwrap();
        let own_url = own_url.map(|url| ReplicaUrl::parse(url).unwrap());
        Replicas { cipher: TokenCipher::new(&secret), own_url, tls: None }
    }

    #[test]
    fn the_id_of_a_client_request_reveals_its_replica_only_to_replicas() {
        let (secret, own_url) = ("the same for all", "http://10.0.0.7:8080");
        let sending = replicas_with(secret, Some(own_url));
        let id = sending.issue_id();
        assert!(!id.contains("10.0.0.7") && id != sending.issue_id());
        let other = replicas_with(secret, Some("http://10.0.0.8:8080"));
        assert_eq!(other.issuer(&id), ReplicaUrl::parse(own_url));
        assert_eq!(replicas_with(secret, None).issuer(&id), ReplicaUrl::parse(own_url));
        assert_eq!(sending.issuer(&id), None, "this replica issued it");
        assert_eq!(replicas_with("another secret of all", None).issuer(&id), None);
        assert_eq!(other.issuer(&replicas_with(secret, None).issue_id()), None);
        assert_eq!(other.issuer("made up"), None);
    }

    #[test]
    fn a_replica_url_is_an_http_address() {
        for wrong in ["10.0.0.7", "unix:/run/x", "ftp://x", "http://user@x", ""] {
            assert_eq!(ReplicaUrl::parse(wrong), None, "{wrong}");
        }
    }

    /// An endpoint without tools, one of several replicas.
    fn replica(own_url: Option<ReplicaUrl>) -> (McpEndpoint, Gateway) {
        let gateway =
            Gateway::new(Snapshot::new(RouteTable::new(Vec::new()).unwrap(), SnapshotParts::default()));
        let secret = SecretKey::new(b"the same for all");
        let settings =
            McpApiSettings { secret_key: secret, advertise_url: own_url, ..McpApiSettings::default() };
        (McpEndpoint::new(gateway.clone(), settings, Filter::new(&FilterSettings::default())), gateway)
    }

    async fn post(replica: &McpEndpoint, body: String, header: (HeaderName, &str)) -> StatusCode {
        let request = Request::post("/mcp")
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len())
            .header(header.0, header.1);
        replica.handle(request.body(body.into()).unwrap()).await.status()
    }

    fn response_to(id: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"roots":[]}}}}"#)
    }

    async fn post_response(replica: &McpEndpoint, id: &str) -> StatusCode {
        post(replica, response_to(id), (PROTOCOL_VERSION, "2025-11-25")).await
    }

    /// Starts two replicas; only the first has an `advertise_url`, at which the other can connect.
    async fn two_replicas() -> (McpEndpoint, McpEndpoint) {
        let listener = crate::server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own_url = ReplicaUrl::parse(&format!("http://{}", listener.local_addr().unwrap()));
        let (sending, gateway) = replica(own_url);
        let handler = crate::server::HttpHandler::for_clients(
            RestApi::new(gateway, Filter::new(&FilterSettings::default())),
            sending.clone(),
            crate::telemetry::Meters::default(),
            crate::telemetry::Tracer::default(),
        );
        tokio::spawn(async move {
            let _ = crate::server::serve(listener, Default::default(), handler, std::future::pending::<()>())
                .await;
        });
        (sending, replica(None).0)
    }

    /// Sends a request to a client. Returns its id, and its result.
    async fn send_request(sending: &McpEndpoint) -> (String, JoinHandle<Option<String>>) {
        let (sender, mut receiver) = MessageSender::new();
        let dispatcher = Arc::clone(&sending.0);
        let request = tokio::spawn(async move {
            let params = serde_json::json!({});
            let open_requests = &dispatcher.open_requests;
            let result =
                open_requests.send_request(&sender, None, "roots/list", &params, REQUEST_TIMEOUT).await;
            result.ok().map(|result| result.get().to_owned())
        });
        let sent: serde_json::Value = serde_json::from_slice(&receiver.recv().await.unwrap()).unwrap();
        (sent["id"].as_str().unwrap().to_owned(), request)
    }

    #[tokio::test]
    async fn a_response_at_another_replica_is_forwarded_once() {
        let (sending, other) = two_replicas().await;
        let (id, result) = send_request(&sending).await;
        let forwarded = post(&other, response_to(&id), (FORWARDED, "1")).await;
        assert_eq!(forwarded, StatusCode::BAD_REQUEST);
        assert_eq!(post_response(&other, &id).await, StatusCode::ACCEPTED);
        assert_eq!(result.await.unwrap().unwrap(), r#"{"roots":[]}"#);
        assert_eq!(post_response(&other, &id).await, StatusCode::BAD_REQUEST, "nobody waits any more");
        assert_eq!(post_response(&sending, &id).await, StatusCode::BAD_REQUEST);
    }

    #[tokio::test]
    async fn a_response_in_a_batch_is_forwarded_without_the_rest_of_it() {
        let (sending, other) = two_replicas().await;
        let (id, result) = send_request(&sending).await;
        let batch = format!("[{}]", response_to(&id));
        assert_eq!(post(&other, batch, (PROTOCOL_VERSION, "2025-03-26")).await, StatusCode::ACCEPTED);
        assert_eq!(result.await.unwrap().unwrap(), r#"{"roots":[]}"#);
    }
}

#[cfg(test)]
mod identity_token_tests {
    use http::Request;

    use super::*;

    const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#;

    fn request(method: Method, target: &str, headers: &[(HeaderName, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn an_identity_token_is_valid_for_one_request_and_a_short_time() {
        let cipher = TokenCipher::random();
        let session_headers = [(SESSION_ID, "a"), (PROTOCOL_VERSION, "2025-11-25")];
        let sent = request(Method::POST, PATH, &session_headers);
        let client = Client::new("client a", "a", Scopes::from_client(["use"]));
        let token = issue_identity_token(&cipher, &client, &sent.method, &sent.headers, BODY).unwrap();
        let now = SystemTime::now();
        let replicas = |cipher: &TokenCipher| Replicas { cipher: cipher.clone(), own_url: None, tls: None };
        let check = |mut head: Parts, body: &[u8], cipher: &TokenCipher, now| {
            head.headers.insert(FORWARDED, HeaderValue::from_static("1"));
            head.headers.insert(IDENTITY, token.clone());
            replicas(cipher).forwarded_identity(&head, now)?(&head, body)
        };
        let found = check(sent.clone(), BODY, &cipher, now).unwrap();
        assert_eq!(found.owner(), Some("client a"));
        assert!(found.may(&client.scopes) && !found.may(&Scopes::from_client(["more"])));
        assert_eq!(check(sent.clone(), b"{}", &cipher, now), None);
        assert_eq!(check(sent.clone(), b"", &cipher, now), None);
        assert_eq!(check(sent.clone(), BODY, &TokenCipher::random(), now), None);
        assert_eq!(check(sent.clone(), BODY, &cipher, now + IDENTITY_TTL + Duration::from_secs(1)), None);
        for other in [
            request(Method::GET, PATH, &session_headers),
            request(Method::POST, "/message", &session_headers),
            request(Method::POST, "/mcp?a", &session_headers),
            request(Method::POST, PATH, &session_headers[..1]),
            request(Method::POST, PATH, &[(SESSION_ID, "b"), (PROTOCOL_VERSION, "2025-11-25")]),
            request(Method::POST, PATH, &[(SESSION_ID, "a"), (PROTOCOL_VERSION, "2025-06-18")]),
            request(Method::POST, PATH, &[&session_headers[..], &[(LAST_EVENT_ID, "1")]].concat()),
            request(Method::POST, PATH, &[&session_headers[..], &[(SESSION_ID, "b")]].concat()),
        ] {
            assert_eq!(check(other.clone(), BODY, &cipher, now), None, "{other:?}");
        }
        let mut marked = sent;
        marked.headers.insert(FORWARDED, HeaderValue::from_static("1"));
        assert!(replicas(&cipher).forwarded_identity(&marked, now).is_none(), "the request has no identity");
    }
}
