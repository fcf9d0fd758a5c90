//! Passthrough: requests to paths that glossator does not serve are proxied to an upstream, so that its
//! existing clients can use the port of glossator.
//!
//! Method, path, query, both bodies and all end-to-end headers are forwarded unchanged, and bodies are
//! streamed. `Host` is set to the host of the upstream. Added headers:
//!
//! - `X-Forwarded-For`: the address of the peer is appended to the list of a trusted proxy.
//! - `X-Forwarded-Host` and `X-Forwarded-Proto`, unless a trusted proxy has set them.
//! - `Via`, also in the response.
//!
//! The filter has already removed `X-Forwarded-…` from requests of clients that are not trusted proxies.

use std::{
    borrow::Cow,
    net::IpAddr,
    task::{Context, Poll},
    time::Instant,
};

use axum::body::Body;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts,
};
use http_body::Body as _;
use http_body_util::BodyExt;
use tracing::{info, warn};

use super::response;
use crate::inbound::authenticate::revocable;
use crate::inbound::filter::{FORWARDED_FOR, check_transfer_encoding};
use crate::inbound::{Authenticator, Rejection, RequestContext, RequestInfo, StreamedPassthrough};
use crate::policy::Passthrough;
use crate::route::{TraceContext, UpstreamName, is_path_traversal};
use crate::settings::units::milliseconds;
use crate::telemetry::{ErrorChain, RequestId, Span, SpanKind, Untrusted, method_label};
use crate::upstream::http::remove_hop_by_hop;
use crate::upstream::{ClientIdentity, Failure, UpstreamError};
use crate::wire::{MapPoll, PolledFrame};

const VIA: HeaderValue = HeaderValue::from_static("1.1 glossator");

/// Proxies a request that [`check`] has accepted.
pub(super) async fn forward(
    upstream: &Passthrough,
    authenticator: &Authenticator,
    context: &RequestContext,
    mut parts: Parts,
    body: Body,
) -> Response<Body> {
    let mut log_line = PassthroughLog {
        started: Instant::now(),
        request_id: context.info.request_id.clone(),
        upstream: upstream.name().clone(),
        method: method_label(&parts.method),
        path: Untrusted(parts.uri.path()).to_string(),
        client_address: context.info.address,
        client: context.client().clone(),
        status: None,
        rejected_by: None,
        bytes: 0,
    };
    // Removed first: otherwise a client could remove one of the headers below by naming it in `Connection`.
    remove_hop_by_hop(&mut parts.headers);
    add_forwarded_headers(&mut parts, &context.info);
    let span = context.info.span.child(SpanKind::Client, "passthrough");
    add_trace_context(&span, &mut parts, upstream);
    let body = body.map_err(Into::into).boxed_unsync();
    let response = match upstream.stream(Request::from_parts(parts, body), context.client()).await {
        Ok(upstream_response) => {
            let mut response = upstream_response.map(|body| match body.size_hint().exact() {
                Some(_) => Body::new(body),
                // A stream of unknown length may be open for a long time, so its client is authorized again
                // at intervals.
                None => revocable(Body::new(body), authenticator.revoked(context)),
            });
            response.headers_mut().append(header::VIA, VIA);
            StreamedPassthrough::mark(&mut response);
            let status = response.status();
            span.number("http.response.status_code", status.as_u16());
            if status.is_client_error() || status.is_server_error() {
                span.failed(status.as_str().to_owned());
            }
            response
        }
        Err(error) => {
            span.failed(error.failure.properties().label);
            log_line.rejected_by = error.failure.properties().rejected_by;
            if log_line.rejected_by.is_none() {
                let request_id = &context.info.request_id;
                warn!(
                    %request_id, upstream = %upstream.name(), error = %ErrorChain(&error),
                    "passthrough failed"
                );
            }
            let (status, message) = failure(&error);
            response::upstream_failed(status, message, error.failure.properties().retry_after)
        }
    };
    log_line.status = Some(response.status());
    response.map(|body| {
        Body::new(MapPoll::new(body, move |polled: PolledFrame<axum::Error>, _: &mut Context<'_>| {
            // The closure must capture the whole `log_line`, so that it is logged when the body is dropped.
            let log_line = &mut log_line;
            if let Poll::Ready(Some(Ok(frame))) = &polled {
                log_line.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
            }
            polled
        }))
    })
}

/// Log line of a proxied request. It is written when the response body has ended or is dropped.
struct PassthroughLog {
    started: Instant,
    request_id: RequestId,
    upstream: UpstreamName,
    method: &'static str,
    path: String,
    client_address: Option<IpAddr>,
    client: ClientIdentity,
    /// HTTP status of the response; `None` if the client disconnected or the server stopped before the
    /// response began.
    status: Option<StatusCode>,
    /// The limit of glossator that rejected the request, if any.
    rejected_by: Option<&'static str>,
    /// Number of body bytes that were sent to the client.
    bytes: u64,
}

impl Drop for PassthroughLog {
    fn drop(&mut self) {
        info!(
            method = self.method,
            path = %self.path,
            status = self.status.map(|status| status.as_u16()),
            response_bytes = self.bytes,
            duration_ms = milliseconds(self.started.elapsed()),
            rejected_by = self.rejected_by,
            upstream = %self.upstream,
            request_id = %self.request_id,
            client = self.client.address_in_log(self.client_address).map(tracing::field::display),
            client_name = self.client.name_in_log().map(tracing::field::display),
            "passthrough"
        );
    }
}

/// Adds the trace context of the span, if traces are enabled, to the upstream request.
fn add_trace_context(span: &Span, parts: &mut Parts, upstream: &Passthrough) {
    let Some(context) = span.context() else { return };
    TraceContext::remove(&mut parts.headers);
    context.write(&mut parts.headers);
    if span.is_recorded() {
        let method = method_label(&parts.method);
        span.rename(|| method.to_owned());
        span.text("http.request.method", method);
        span.text("glossator.upstream", upstream.name().as_str().to_owned());
    }
}

/// Checks that a request can be proxied.
pub(super) fn check(parts: &Parts) -> Result<(), Rejection> {
    let reject =
        |status, message: Cow<'static, str>| Err(Rejection::new(status, "can't be proxied", message));
    if parts.method == Method::CONNECT {
        let message = "`CONNECT` is not supported: this is not a tunnel";
        return reject(StatusCode::NOT_IMPLEMENTED, message.into());
    }
    if !parts.uri.path().starts_with('/') {
        return reject(StatusCode::BAD_REQUEST, "the request's path does not begin with `/`".into());
    }
    // A path traversal could leave the base path of the upstream, and bypass the reserved paths of glossator.
    if is_path_traversal(parts.uri.path()) {
        let message = "the request path has a `..` segment or a NUL byte, literally or percent-encoded";
        return reject(StatusCode::BAD_REQUEST, message.into());
    }
    check_transfer_encoding(&parts.headers)?;
    // An `Upgrade` to `h2c` or TLS may be ignored (RFC 9110, section 7.8). Other protocols, such as
    // `websocket`, are rejected: the client could not use a response without the upgrade.
    let upgrades = joined_values(&parts.headers, &header::UPGRADE);
    let is_ignored = |name: &str| {
        name.is_empty() || name.eq_ignore_ascii_case("h2c") || name.to_ascii_lowercase().starts_with("tls/")
    };
    let Some(protocol) = upgrades.split(',').map(str::trim).find(|name| !is_ignored(name)) else {
        return Ok(());
    };
    let protocol: String = protocol.chars().take(100).collect();
    let message = format!("an upgrade to another protocol (`{protocol}`) can't be proxied");
    reject(StatusCode::NOT_IMPLEMENTED, message.into())
}

fn add_forwarded_headers(parts: &mut Parts, info: &RequestInfo) {
    let connection = &info.connection;
    let headers = &mut parts.headers;
    if let Some(peer) = connection.peer {
        let mut addresses = joined_values(headers, &FORWARDED_FOR);
        if !addresses.is_empty() {
            addresses.push_str(", ");
        }
        addresses.push_str(&peer.ip().to_canonical().to_string());
        if let Ok(addresses) = HeaderValue::from_str(&addresses) {
            headers.insert(FORWARDED_FOR, addresses);
        }
    }
    if let Some(host) = headers.get(header::HOST).cloned() {
        headers.entry("x-forwarded-host").or_insert(host);
    }
    let scheme = if connection.is_tls { "https" } else { "http" };
    headers.entry("x-forwarded-proto").or_insert(HeaderValue::from_static(scheme));
    headers.append(header::VIA, VIA);
}

fn joined_values(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<_> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(", ")
}

const BAD_GATEWAY: StatusCode = StatusCode::BAD_GATEWAY;
const BUSY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;

/// Status and error message for an upstream request that failed.
fn failure(error: &UpstreamError) -> (StatusCode, &'static str) {
    match error.failure {
        Failure::Connect(_) | Failure::NotStarted(_) => (BAD_GATEWAY, "the upstream can't be reached"),
        Failure::ConnectTimeout(_) | Failure::Timeout(_) | Failure::AttemptTimeout(_) => {
            (StatusCode::GATEWAY_TIMEOUT, "the upstream did not respond in time")
        }
        Failure::CutOff(_) => (BAD_GATEWAY, "the upstream closed the connection before it responded"),
        Failure::NotHttp(_)
        | Failure::NotCgi(_)
        | Failure::NotMcp(_)
        | Failure::HeadTooLong
        | Failure::TooLong(_) => (BAD_GATEWAY, "the upstream's response can't be parsed"),
        // Passthrough has no response buffer and calls no MCP servers, so the last two do not occur.
        Failure::Busy(_) | Failure::CircuitOpen { .. } | Failure::BufferFull(_) | Failure::Restarting(_) => {
            (BUSY, "the upstream is busy")
        }
        Failure::SlowUpload(_) => (StatusCode::REQUEST_TIMEOUT, "the request's body arrived too slowly"),
        Failure::ClientBusy(_) => (TOO_MANY, "too many of your requests to the upstream are in flight"),
        Failure::Credential(_) => (BAD_GATEWAY, "no credential is available for the upstream"),
        Failure::RateLimited { .. } => (TOO_MANY, "the rate limit of the upstream is exceeded"),
        Failure::RateLimitUnavailable => (BUSY, "the rate limit of the upstream can't be checked right now"),
        Failure::Unsendable(_) => (StatusCode::BAD_REQUEST, "the request can't be proxied"),
    }
}
