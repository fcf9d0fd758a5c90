//! HTTP client of one upstream, and passthrough: forwarding a request and its response unmodified.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Instant;
use tracing::info;

use super::connection::RequestBody;
use super::credentials::{Credential, CredentialSource};
use super::endpoints::{AddressView, Endpoints, InFlightRequest, Lookup};
use super::pool::SendResult;
use super::response::{
    IncomingResponse, announces_unread_body, check_framing, discard_body, remove_hop_by_hop,
};
use super::secret_scrubber::{REDACTED, SecretScrubber};
use super::{
    Address, AttemptedEndpoints, HttpSettings, QueryParameter, ResponseBody, UpstreamCall, UpstreamError,
    connection,
};
use crate::model::UpstreamResponse;
use crate::route::{HttpRequest, UpstreamName, UpstreamRequest, push_parameter, resolve_location};
use crate::settings::secret::Hidden;
use crate::telemetry::{CallContext, ErrorChain};
use crate::upstream::{Failure, UpstreamResult};
use crate::wire::{MapPoll, PolledFrame};

/// Maximum number of repetitions of one attempt after the server has closed a reused connection.
const RECONNECT_LIMIT: u32 = 3;

/// `User-Agent` of requests, unless the route or the settings of the upstream set another value.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("glossator/", env!("CARGO_PKG_VERSION")));

/// HTTP client of one upstream. Clones share its connections.
///
/// The client has timeouts only for connecting, for token requests and for the wait for memory. It sends a
/// request again only if a reused connection was closed, an endpoint was not reached, or a credential was
/// rejected, and to follow a redirect. Other timeouts and retries are in `policy`. Dropping the future of a
/// response closes the connection, so the upstream learns that the response is no longer needed.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    pub(super) settings: Arc<HttpSettings>,
    pub(super) endpoints: Arc<Endpoints>,
    credentials: Option<CredentialSource>,
    /// Redacts the secrets in the settings' headers, queries and addresses.
    scrubber: SecretScrubber,
}

impl HttpUpstream {
    /// Creates the client without connecting. Within a Tokio runtime, starts the health checks if they are
    /// configured.
    pub fn new(settings: HttpSettings) -> Self {
        Self::with_lookup(settings, Lookup::System)
    }

    /// Creates the client with the resolver `lookup`.
    pub(super) fn with_lookup(mut settings: HttpSettings, lookup: Lookup) -> Self {
        remove_hop_by_hop(&mut settings.headers);
        settings.headers.remove(header::CONTENT_LENGTH);
        let credentials = settings.auth.as_ref().map(|auth| CredentialSource::new(auth, &settings.name));
        let scrubber = SecretScrubber::from_settings(&settings);
        let settings = Arc::new(settings);
        let endpoints = Endpoints::new(settings.clone(), lookup);
        Self { settings, endpoints, credentials, scrubber }
    }

    /// Name that routes use.
    pub fn name(&self) -> &UpstreamName {
        &self.settings.name
    }

    /// Endpoints and their states, with the IP addresses of resolved host names. Host names that are not
    /// resolved yet are missing.
    pub fn addresses(&self) -> Vec<AddressView> {
        self.endpoints.view()
    }

    /// Sets a callback for each successful health check of an address. Only the first callback is used.
    pub fn when_healthy(&self, callback: impl Fn() + Send + Sync + 'static) {
        let _ = self.endpoints.when_healthy.set(Hidden(Box::new(callback)));
    }

    /// The configured address, if there is only one.
    pub fn sole_address(&self) -> Option<&Address> {
        let settings = &self.settings;
        settings.other_addresses.is_empty().then_some(&settings.address)
    }

    /// Sends a request without the retries of `policy`, such as a token request, and reads the response.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], if there is no response.
    pub async fn send(&self, upstream_call: &UpstreamCall) -> Result<UpstreamResponse, UpstreamError> {
        self.send_unnamed(upstream_call).await.map_err(|failure| failure.into_error(self.name()))
    }

    /// Like [`Self::send`], but the failure does not contain the name of the upstream: `policy` adds the name
    /// after the last attempt.
    pub(in crate::upstream) async fn send_unnamed(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        let UpstreamCall { request, response_limit_bytes, deadline, attempted_endpoints, context, .. } =
            upstream_call;
        let UpstreamRequest::Http(request) = request else { return Err(Failure::wrong_kind()) };
        let reconnects_left = if upstream_call.idempotent { RECONNECT_LIMIT } else { 0 };
        let (response, mut in_flight) =
            self.open_at_any(request, attempted_endpoints, deadline.latest, context, reconnects_left).await?;
        let account = upstream_call.account(*response_limit_bytes);
        let result =
            response.read_whole(*response_limit_bytes, account, upstream_call.progress.as_ref()).await;
        in_flight.record(result.as_ref().map(|upstream_response| upstream_response.status));
        result
    }

    /// Sends a request with the context of its call, and returns the response once its headers have arrived.
    pub(in crate::upstream) async fn open(
        &self,
        context: &CallContext,
        request: HttpRequest,
        deadline: Instant,
    ) -> Result<IncomingResponse, Failure> {
        let attempted_endpoints = AttemptedEndpoints::default();
        let (response, mut in_flight) =
            self.open_at_any(&request, &attempted_endpoints, deadline, context, 0).await?;
        in_flight.record(Ok(response.head.status));
        Ok(response)
    }

    /// Sends a request to one endpoint, and to another endpoint if the first can't be reached.
    async fn open_at_any(
        &self,
        request: &HttpRequest,
        attempted_endpoints: &AttemptedEndpoints,
        deadline: Instant,
        context: &CallContext,
        mut reconnects_left: u32,
    ) -> Result<(IncomingResponse, InFlightRequest), Failure> {
        let credential = match &self.credentials {
            Some(credentials) => Some(credentials.credential(context).await.map_err(Failure::Credential)?),
            None => None,
        };
        let mut in_flight = self.endpoints.pick(attempted_endpoints, deadline, context).await?;
        loop {
            match self.open_at(&in_flight, request, credential.clone()).await {
                Ok(response) => return Ok((response, in_flight)),
                // A server may close an idle connection at any time (RFC 9112, section 9.3.1), so a closed
                // one does not count as a failure of the server.
                Err(failure) if reconnects_left > 0 && failure.is_of_reused_connection() => {
                    reconnects_left -= 1;
                    let (upstream, request_id) = (self.name(), context.request_id());
                    let error = failure.into_error(upstream);
                    let error = ErrorChain(&error);
                    info!(
                        %upstream, request_id, %error,
                        "idle connection was closed, resending the request"
                    );
                }
                Err(failure) if self.endpoints.fail_over(&mut in_flight, &failure) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Sends a request to one endpoint. Follows redirects at this endpoint, and renews a rejected credential
    /// once.
    async fn open_at(
        &self,
        in_flight: &InFlightRequest,
        request: &HttpRequest,
        mut credential: Option<Credential>,
    ) -> Result<IncomingResponse, Failure> {
        let mut next_request = request_to(&self.settings, &in_flight.endpoint.connections.address, request)?;
        let token_cache = self.credentials.as_ref().and_then(CredentialSource::cache);
        let (mut redirects_left, mut is_renewed) = (self.settings.max_redirects, false);
        loop {
            let mut response = self.send_as(in_flight, &next_request, credential.as_ref()).await?;
            if !is_renewed
                && response.status() == StatusCode::UNAUTHORIZED
                && let Some((token_cache, rejected)) = token_cache.zip(credential.as_ref())
                && let Some(renewed) = token_cache
                    .replace_rejected(rejected, &in_flight.context)
                    .await
                    .map_err(Failure::Credential)?
            {
                // A server that responds 401 has not processed the request, so any request may be sent again.
                discard_body(response.into_body()).await;
                response = self.send_as(in_flight, &next_request, Some(&renewed)).await?;
                (credential, is_renewed) = (Some(renewed), true);
            }
            let redirect = redirect_target(
                next_request.method(),
                next_request.uri(),
                response.status(),
                response.headers(),
            );
            let Some((method, uri)) = redirect.filter(|_| redirects_left > 0) else {
                let (head, body) = response.into_parts();
                let mut scrubber = self.scrubber.clone();
                if let Some(credential) = credential {
                    scrubber.add(credential.scrubber);
                }
                return Ok(IncomingResponse { head, body, scrubber });
            };
            redirects_left -= 1;
            discard_body(response.into_body()).await;
            if *next_request.method() != method {
                next_request.body_mut().clear();
                for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE] {
                    next_request.headers_mut().remove(name);
                }
            }
            let uri = with_query(&self.settings, uri).map_err(|error| Failure::Unsendable(error.into()))?;
            (*next_request.method_mut(), *next_request.uri_mut()) = (method, uri);
        }
    }

    /// Sends a request with a credential, and records whether the upstream accepted the credential.
    async fn send_as(
        &self,
        in_flight: &InFlightRequest,
        request: &Request<Bytes>,
        credential: Option<&Credential>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let mut request = request.clone().map(connection::full_body);
        if let Some(credential) = credential {
            request.headers_mut().insert(header::AUTHORIZATION, credential.value.clone());
        }
        let response = send_to(in_flight, request).await.map_err(|(failure, _)| failure)?;
        let token_cache = self.credentials.as_ref().and_then(CredentialSource::cache);
        if let (Some(token_cache), Some(credential)) = (token_cache, credential)
            && response.status() != StatusCode::UNAUTHORIZED
        {
            token_cache.accepted(credential);
        }
        Ok(response)
    }
}

/// Builds the HTTP request for an address, with its headers but without a credential.
pub(super) fn request_to(
    settings: &HttpSettings,
    address: &Address,
    request: &HttpRequest,
) -> Result<Request<Bytes>, Failure> {
    let uri = address.uri(request.base, &request.path_and_query);
    let uri = uri.and_then(|uri| with_query(settings, uri));
    let mut outgoing = Request::new(request.body.clone());
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = uri.map_err(|error| Failure::Unsendable(error.into()))?;
    *outgoing.version_mut() = settings.protocol.version();
    *outgoing.headers_mut() = configured_headers(settings, request);
    let headers = outgoing.headers_mut();
    headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    // Compression costs more than it saves if the server is near. A route that needs compression sets the
    // header.
    headers.entry(header::ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    Ok(outgoing)
}

/// Headers of a request, from its route and from the settings.
fn configured_headers(settings: &HttpSettings, request: &HttpRequest) -> HeaderMap {
    let mut headers = request.headers.clone();
    remove_hop_by_hop(&mut headers);
    // The HTTP library sets the actual length.
    headers.remove(header::CONTENT_LENGTH);
    // `extend` replaces existing headers and preserves several values of one name.
    headers.extend(settings.headers.clone());
    headers
}

impl HttpSettings {
    /// Path, query and headers of a request for display: secrets are masked, and headers that are the same
    /// for every request, such as `User-Agent`, are omitted.
    pub fn describe_request(&self, request: &HttpRequest) -> (String, HeaderMap) {
        let mut target = format!("{}{}", self.address.displayed_base(), request.path_and_query);
        for QueryParameter { name, value, is_secret } in &self.query {
            target.push(if target.contains('?') { '&' } else { '?' });
            let mut parameter = String::new();
            push_parameter(&mut parameter, name, if *is_secret { "" } else { &value.0 });
            target.extend([parameter.as_str(), if *is_secret { REDACTED } else { "" }]);
        }
        let mut headers = configured_headers(self, request);
        let redacted = HeaderValue::from_static(REDACTED);
        headers.values_mut().filter(|value| value.is_sensitive()).for_each(|value| *value = redacted.clone());
        if self.auth.is_some() {
            headers.insert(header::AUTHORIZATION, redacted);
        }
        (target, headers)
    }
}

/// Appends the parameters of the settings to the query of a URI. They replace parameters of the same names,
/// such as those that a server has repeated in `Location`.
fn with_query(settings: &HttpSettings, uri: Uri) -> Result<Uri, http::Error> {
    if settings.query.is_empty() {
        return Ok(uri);
    }
    let (mut configured, mut prefixes) = (Vec::new(), Vec::new());
    for QueryParameter { name, value, .. } in &settings.query {
        for (parameters, value) in [(&mut configured, &*value.0), (&mut prefixes, "")] {
            parameters.push(String::new());
            push_parameter(parameters.last_mut().expect("it was just added"), name, value);
        }
    }
    let is_other =
        |pair: &&str| !pair.is_empty() && !prefixes.iter().any(|prefix| pair.starts_with(prefix.as_str()));
    let others = uri.query().unwrap_or_default().split('&').filter(is_other);
    let query: Vec<&str> = others.chain(configured.iter().map(String::as_str)).collect();
    let path_and_query = format!("{}?{}", uri.path(), query.join("&")).parse()?;
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(path_and_query);
    Ok(Uri::from_parts(parts)?)
}

/// Sends one request and checks the framing of the response.
///
/// # Errors
///
/// The failure, and the request if no part of it can have been sent.
async fn send_to(in_flight: &InFlightRequest, request: Request<RequestBody>) -> SendResult {
    let mut response = in_flight.endpoint.connections.send(request, &in_flight.context).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err((Failure::NotHttp("it switched protocols without a request for it".into()), None));
    }
    if let Err(reason) = check_framing(response.version(), response.headers_mut()) {
        response.body_mut().close();
        return Err((Failure::NotHttp(reason.into()), None));
    }
    if announces_unread_body(response.status(), response.headers()) {
        response.body_mut().close();
        // Clients must not see the length of the announced body either (RFC 9110, section 8.6).
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    Ok(response)
}

/// Method and URI of the next request after a redirect, if glossator follows the redirect. It follows only
/// redirects to the same origin: with the same method if the status requires that (307, 308), otherwise as
/// `GET` or `HEAD`.
///
/// Any other redirect is a response for the route's rules: clients disagree about a 301 or 302 of an unsafe
/// request, and another host would receive the request's credentials.
fn redirect_target(
    method: &Method,
    request_uri: &Uri,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<(Method, Uri)> {
    let next_method = match status {
        StatusCode::SEE_OTHER if method == Method::HEAD => Method::HEAD,
        // RFC 9110, section 15.4.4: the response to a request of any method is at the location.
        StatusCode::SEE_OTHER => Method::GET,
        // RFC 9110, sections 15.4.8 and 15.4.9: the request had no effect, and the same request is sent to
        // the location.
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => method.clone(),
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND
            if method == Method::GET || method == Method::HEAD =>
        {
            method.clone()
        }
        _ => return None,
    };
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let mut target = request_uri.clone().into_parts();
    target.path_and_query = Some(resolve_location(&request_uri.to_string(), location)?);
    Some((next_method, Uri::from_parts(target).ok()?))
}

/// Response body that is streamed to a client. It counts as a request in flight at its endpoint until it is
/// dropped.
pub type StreamedBody = UnsyncBoxBody<Bytes, hyper::Error>;

impl HttpUpstream {
    /// Forwards a request and streams the response: nothing is buffered, limited or parsed.
    ///
    /// Method, path, query, body and end-to-end headers are unchanged, with these exceptions:
    ///
    /// - Hop-by-hop headers are removed, and `Expect`, which glossator has handled itself.
    /// - `Host` becomes the host of the upstream, because a legacy server may know no other name, or the
    ///   `Host` in the upstream's `headers`, which only requests between replicas have.
    /// - The upstream's other `headers` and its `query` are not added, because they may be credentials that
    ///   only routes may use.
    ///
    /// If an endpoint can't be reached, another endpoint is tried. A future that is dropped after `deadline`
    /// counts as a failure of the endpoint.
    ///
    /// # Errors
    ///
    /// [`Failure`] if no response headers arrive. A later failure truncates the body.
    pub async fn stream(
        &self,
        mut request: Request<RequestBody>,
        deadline: Instant,
    ) -> Result<Response<StreamedBody>, Failure> {
        *request.version_mut() = self.settings.protocol.version();
        request.extensions_mut().clear();
        remove_hop_by_hop(request.headers_mut());
        request.headers_mut().remove(header::EXPECT);
        let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        let (attempted_endpoints, context) = (AttemptedEndpoints::default(), CallContext::default());
        let mut in_flight = self.endpoints.pick(&attempted_endpoints, deadline, &context).await?;
        loop {
            let address = &in_flight.endpoint.connections.address;
            *request.uri_mut() = address.join(&path).map_err(|error| Failure::Unsendable(error.into()))?;
            let configured_host = self.settings.headers.get(header::HOST).cloned();
            let host = configured_host.unwrap_or_else(|| address.host_header());
            request.headers_mut().insert(header::HOST, host);
            let (failure, unsent) = match send_to(&in_flight, request).await {
                Ok(mut response) => {
                    in_flight.record(Ok(response.status()));
                    remove_hop_by_hop(response.headers_mut());
                    return Ok(response.map(|body| error_after_flush(body, in_flight)));
                }
                Err(failed) => failed,
            };
            let fails_over = self.endpoints.fail_over(&mut in_flight, &failure);
            match unsent.filter(|_| fails_over) {
                Some(unsent) => request = *unsent,
                None => return Err(failure),
            }
        }
    }
}

/// Delays an error by one poll. The server writes nothing after an error, so the bytes before it must be
/// flushed first.
fn error_after_flush(body: ResponseBody, in_flight: InFlightRequest) -> StreamedBody {
    let mut delayed = None;
    UnsyncBoxBody::new(MapPoll::new(body, move |polled: PolledFrame<_>, context: &mut Context<'_>| {
        let _ = &in_flight;
        if let Some(error) = delayed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(Some(Err(error))) = polled {
            delayed = Some(error);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        polled
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, status: u16, location: &str, expected: Option<(&Method, &str)>) {
        let request_uri: Uri = "http://old.test:81/a/b/c?q=1".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, location.parse().unwrap());
        let found = redirect_target(method, &request_uri, StatusCode::from_u16(status).unwrap(), &headers);
        let found = found.map(|(method, uri)| (method, uri.to_string()));
        assert_eq!(found, expected.map(|(method, uri)| (method.clone(), uri.to_owned())), "{location}");
    }

    #[test]
    fn a_reference_is_resolved_by_rfc_3986() {
        for (location, expected) in [
            ("http://old.test:81/x", "http://old.test:81/x"),
            ("HTTP://OLD.TEST:81/x", "http://old.test:81/x"),
            ("//old.test:81/x", "http://old.test:81/x"),
            ("/x?y", "http://old.test:81/x?y"),
            ("x", "http://old.test:81/a/b/x"),
            ("../x#part", "http://old.test:81/a/x"),
            ("../../../x/./y/..", "http://old.test:81/x/"),
            ("?z", "http://old.test:81/a/b/c?z"),
            ("", "http://old.test:81/a/b/c?q=1"),
            // Not valid, but browsers follow it.
            ("/the file?a b", "http://old.test:81/the%20file?a%20b"),
            ("\t/x\ty ", "http://old.test:81/xy"),
            ("\\x\\y", "http://old.test:81/x/y"),
            ("/x/%2e%2E/%2e/y", "http://old.test:81/y"),
            // On the same server, whatever it looks like.
            ("/%2F%2Fevil.test/..%2fx", "http://old.test:81/%2F%2Fevil.test/..%2fx"),
            ("/.//evil.test/", "http://old.test:81//evil.test/"),
            ("http://old.test:81\\@evil.test/", "http://old.test:81/@evil.test/"),
            ("http:/x", "http://old.test:81/x"),
        ] {
            check(&Method::GET, 302, location, Some((&Method::GET, expected)));
        }
    }

    #[test]
    fn no_request_leaves_its_origin() {
        for location in [
            "http://evil.test/x",
            "http://old.test/x",
            "https://old.test:81/x",
            "//evil.test/",
            "file:///etc/passwd",
            "http://old.test:81@evil.test/",
            "http://me@old.test:81/",
            "//me@old.test:81/",
            "http://:password@old.test:81/",
            "/\\evil.test/x",
            "\\\\evil.test/x",
            "/\t/evil.test/x",
            "ht\ttp://evil.test/x",
            "https:/x",
            "http://old.test.:81/",
            "http://xn--old-.test:81/",
            "http://old.test:99999/x",
            "javascript:alert(1)",
        ] {
            check(&Method::GET, 302, location, None);
        }
    }

    #[test]
    fn an_unsafe_request_is_repeated_only_where_nothing_was_done() {
        check(&Method::POST, 307, "/x", Some((&Method::POST, "http://old.test:81/x")));
        check(&Method::POST, 308, "/x/", Some((&Method::POST, "http://old.test:81/x/")));
        check(&Method::POST, 307, "http://other.test:81/x", None);
        check(&Method::POST, 302, "/x", None);
        check(&Method::POST, 303, "/x", Some((&Method::GET, "http://old.test:81/x")));
        check(&Method::HEAD, 303, "/x", Some((&Method::HEAD, "http://old.test:81/x")));
        check(&Method::GET, 304, "/x", None);
    }
}
