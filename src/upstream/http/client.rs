//! The HTTP client of one upstream.

use std::{
    error::Error,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body_util::{Either, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use tower::Service;

use super::{
    Address, Ask, HttpSettings, Meanwhile, PendingReply, Protocol, UpstreamError,
    body::{self, BodyError},
    connector::Connector,
    redirect, remove_hop_by_hop,
};
use crate::{
    reply::Reply,
    route::{Under, UpstreamName, UpstreamRequest},
};

/// The longest status line and headers of a reply that are read.
pub(in crate::upstream) const HEAD_LIMIT_BYTES: usize = 128 << 10;

/// The largest number of headers of a reply that are read.
pub(in crate::upstream) const HEADER_COUNT_LIMIT: usize = 256;

/// How long a connection is kept for a next request. Shorter than the servers' own patience (5 s for Apache and
/// Node), so that requests seldom meet a connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// How much of a redirect's own body is read, so that its connection can be used again.
const REDIRECT_BODY_LIMIT_BYTES: usize = 16 << 10;

/// Who asks, unless a route or an upstream's settings say otherwise.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("glossator/", env!("CARGO_PKG_VERSION")));

pub(super) type BoxError = Box<dyn Error + Send + Sync>;
/// What is sent: a whole body, or one that is passed through.
pub(super) type Outgoing = Either<Full<Bytes>, UnsyncBoxBody<Bytes, BoxError>>;

/// One legacy server. Clones share its connections.
///
/// As a `tower::Service` it takes an [`Ask`] and gives the whole [`Reply`]. It is always ready, keeps no
/// deadline but the one of connecting, and tries once: everything else is `policy`. Dropping the
/// future closes the connection, so the upstream sees that no one waits any more.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: HttpSettings,
    client: Client<Connector, Outgoing>,
}

impl HttpUpstream {
    /// Makes the client; nothing is connected yet.
    pub fn new(mut settings: HttpSettings) -> Self {
        remove_hop_by_hop(&mut settings.headers);
        settings.headers.remove(header::CONTENT_LENGTH);
        let connector = Connector::new(&settings);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(settings.idle_connections)
            .http2_only(settings.protocol == Protocol::Http2)
            .http2_max_header_list_size(HEAD_LIMIT_BYTES as u32)
            .http1_max_buf_size(HEAD_LIMIT_BYTES)
            .http1_max_headers(HEADER_COUNT_LIMIT)
            // What old servers do and every browser bears with.
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_ignore_invalid_headers_in_responses(true)
            .build(connector);
        Self { shared: Arc::new(Shared { settings, client }) }
    }

    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        &self.shared.settings.name
    }

    pub(super) fn address(&self) -> &Address {
        &self.shared.settings.address
    }

    /// The version that requests are written in; HTTP/2 takes the one of HTTP/1.1 for its own.
    pub(super) fn version(&self) -> Version {
        match self.shared.settings.protocol {
            Protocol::Http10 => Version::HTTP_10,
            Protocol::Auto | Protocol::Http1 | Protocol::Http2 => Version::HTTP_11,
        }
    }

    pub(super) async fn send(&self, request: Request<Outgoing>) -> Result<Response<Incoming>, UpstreamError> {
        let response = self.shared.client.request(request).await;
        let response = response.map_err(|error| UpstreamError::of_client(self.name(), error))?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(UpstreamError::NotHttp {
                upstream: self.name().clone(),
                source: "it switched to another protocol without being asked".into(),
            });
        }
        Ok(response)
    }

    async fn ask(self, ask: Ask) -> Result<Reply, UpstreamError> {
        let settings = &self.shared.settings;
        let Ask { request, reply_limit_bytes, due: _, repeatable: _, meanwhile } = ask;
        let UpstreamRequest::Http(request) = request;
        let mut headers = request.headers;
        remove_hop_by_hop(&mut headers);
        // The client writes the length that the body has.
        headers.remove(header::CONTENT_LENGTH);
        if !headers.contains_key(header::USER_AGENT) {
            headers.insert(header::USER_AGENT, USER_AGENT);
        }
        for name in settings.headers.keys() {
            headers.remove(name);
        }
        headers.extend(settings.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        // Compressing costs a server near by more than it saves; a route that wants it says so.
        if !headers.contains_key(header::ACCEPT_ENCODING) {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }

        let (mut method, mut content) = (request.method, request.body);
        let uri = match request.under {
            Under::Address => settings.address.join(&request.path_and_query),
            Under::Root => settings.address.join_root(&request.path_and_query),
        };
        let mut uri = uri.map_err(|source| self.unsendable(source))?;
        let mut redirects_left = settings.redirects;
        loop {
            let mut outgoing = Request::new(Either::Left(Full::new(content.clone())));
            *outgoing.method_mut() = method.clone();
            *outgoing.uri_mut() = uri.clone();
            *outgoing.version_mut() = self.version();
            let last = redirects_left == 0;
            *outgoing.headers_mut() = if last { std::mem::take(&mut headers) } else { headers.clone() };
            let response = self.send(outgoing).await?;
            if !last
                && let Some((next_method, next_uri)) =
                    redirect::next(&method, &uri, response.status(), response.headers())
            {
                redirects_left -= 1;
                // Whether it could be read decides only whether the connection is used again.
                let _ = body::read(response.into_body(), REDIRECT_BODY_LIMIT_BYTES, None).await;
                if method != next_method {
                    content = Bytes::new();
                    for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE] {
                        headers.remove(name);
                    }
                }
                (method, uri) = (next_method, next_uri);
                continue;
            }
            return self.whole(response, reply_limit_bytes, meanwhile.as_ref()).await;
        }
    }

    async fn whole(
        &self,
        response: Response<Incoming>,
        limit_bytes: usize,
        meanwhile: Option<&Meanwhile>,
    ) -> Result<Reply, UpstreamError> {
        let (mut head, body) = response.into_parts();
        let upstream = || self.name().clone();
        let body = body::read(body, limit_bytes, meanwhile).await.map_err(|error| match error {
            BodyError::TooLong => UpstreamError::TooLong { upstream: upstream(), limit_bytes },
            BodyError::CutOff(source) => {
                UpstreamError::CutOff { upstream: upstream(), source: source.into() }
            }
        })?;
        remove_hop_by_hop(&mut head.headers);
        Ok(Reply::new(head.status, head.headers, body))
    }

    pub(super) fn unsendable(&self, source: http::Error) -> UpstreamError {
        UpstreamError::Unsendable { upstream: self.name().clone(), source: source.into() }
    }
}

impl Service<Ask> for HttpUpstream {
    type Response = Reply;
    type Error = UpstreamError;
    type Future = PendingReply;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        Box::pin(self.clone().ask(ask))
    }
}
