//! Bodies of requests: framing, reading, a limit for each and one for all clients together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::{
    context::{Arrival, Rejection},
    filter::Filter,
};
use crate::{pipeline::Face, telemetry::RequestId};

/// `Retry-After` for a body for which there is no room.
const AGAIN_AFTER_SECONDS: u64 = 2;

/// The part of each body that is not counted: clients that send long ones, and never their end, keep nobody out
/// whose body is short. Most are shorter.
const FREE_BYTES: usize = 16 << 10;

/// The bytes of all bodies that are held. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Held(Arc<AtomicUsize>);

/// The bytes of one body, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    held: Held,
    counted_bytes: usize,
}

/// A body that counts for as long as somebody has a part of it.
struct Whole {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Held {
    pub(super) fn share(&self) -> Share {
        Share { held: self.clone(), counted_bytes: 0 }
    }
}

impl Share {
    /// Whether there is room for a body that is so long by now.
    #[must_use]
    pub(super) fn grow_to(&mut self, length_bytes: usize, limit_bytes: usize) -> bool {
        let more = length_bytes.saturating_sub(FREE_BYTES).saturating_sub(self.counted_bytes);
        let before = self.held.0.fetch_add(more, Ordering::Relaxed);
        self.counted_bytes += more;
        before.saturating_add(more) <= limit_bytes
    }

    /// The body, which counts until nobody has it any more.
    pub(super) fn with(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Whole { bytes, _share: self })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.counted_bytes, Ordering::Relaxed);
    }
}

/// The reasons for which a body is rejected, in the log and in metrics.
pub(super) const BODY_REASONS: [&str; 5] =
    ["body_too_long", "body_slow", "bodies_too_many", "body_coded", "body_cut_off"];

fn too_long(limit_bytes: usize) -> Rejection {
    let text = format!("the request's body is longer than {limit_bytes} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", text)
}

/// Rejects a body with a transfer coding other than `chunked` (RFC 9112, section 6.1).
pub(super) fn check_coding(headers: &HeaderMap) -> Result<(), Rejection> {
    let codings = headers.get_all(header::TRANSFER_ENCODING);
    if codings.iter().all(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return Ok(());
    }
    let text = "the request's `Transfer-Encoding` is not `chunked` alone; send the body as it is";
    Err(Rejection::new(StatusCode::NOT_IMPLEMENTED, "body_coded", text))
}

impl Filter {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// [`Rejection`] when it is longer than its limit, too slow, or breaks off, or when others send too much.
    pub async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Rejection> {
        let read = self.try_read(headers, body).await;
        if let Err(rejection) = &read {
            self.rejected.add(rejection.reason);
        }
        read
    }

    async fn try_read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Rejection> {
        let (limit_bytes, room_bytes, after) = {
            let checks = self.rules.load();
            (checks.body_limit_bytes, checks.bodies_limit_bytes, checks.body_timeout)
        };
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > limit_bytes as u64) {
            return Err(too_long(limit_bytes));
        }
        check_coding(headers)?;
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let reading = async {
            let (mut body, mut share) = (Limited::new(body, limit_bytes), self.held.share());
            // Untouched memory is none: what is announced and does not come takes nothing.
            let mut whole = Vec::with_capacity(announced.unwrap_or(0) as usize);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                    true => too_long(limit_bytes),
                    false => {
                        let text = "the request's body could not be read";
                        Rejection::new(StatusCode::BAD_REQUEST, "body_cut_off", text)
                    }
                })?;
                let Ok(data) = frame.into_data() else { continue };
                if !share.grow_to(whole.len() + data.len(), room_bytes.max(limit_bytes)) {
                    let text = "too much is being sent here at once; send it again in a few seconds";
                    let rejection = Rejection::new(StatusCode::SERVICE_UNAVAILABLE, "bodies_too_many", text);
                    let again_after = HeaderValue::from(AGAIN_AFTER_SECONDS);
                    return Err(rejection.with_header(header::RETRY_AFTER, again_after));
                }
                whole.extend_from_slice(&data);
            }
            Ok(share.with(whole))
        };
        timeout(after, reading).await.unwrap_or_else(|_| {
            let text = format!("the request's body was not complete within {after:?}");
            Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, "body_slow", text))
        })
    }
}

/// Whether the end of an HTTP/1 request is ambiguous: it is chunked more than once.
pub fn ends_ambiguously(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &&[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
    let chunked =
        |value: &HeaderValue| value.as_bytes().split(|byte| *byte == b',').filter(is_chunked).count();
    codings.map(chunked).sum::<usize>() > 1
}

/// The response to such a request (RFC 9112, section 6.1): nothing more is read from its connection.
pub fn reject_ambiguous_end(request: Request<Body>) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let arrival = Arrival::take(&mut parts, Face::Rest);
    let text = "the request's `Transfer-Encoding` says `chunked` more than once";
    let rejection = Rejection::new(StatusCode::BAD_REQUEST, "more than one `chunked`", text);
    let mut response = super::rest::rejected(arrival.logged(&parts), &rejection);
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(RequestId::HEADER, arrival.request_id.header_value());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_of_all_bodies_has_a_limit_and_short_ones_always_have_room() {
        let held = Held::default();
        let mut first = held.share();
        assert!(first.grow_to(FREE_BYTES, 100) && first.grow_to(FREE_BYTES + 60, 100));
        let mut second = held.share();
        assert!(second.grow_to(FREE_BYTES + 40, 100) && !second.grow_to(FREE_BYTES + 41, 100));
        let mut short = held.share();
        assert!(!short.grow_to(FREE_BYTES + 1, 100), "there is none left");
        drop((second, short));
        let body = first.with(vec![7; 3]);
        assert_eq!(held.0.load(Ordering::Relaxed), 60, "it counts on while somebody has it");
        let part = body.slice(1..);
        drop(body);
        assert_eq!(held.0.load(Ordering::Relaxed), 60);
        drop(part);
        assert_eq!(held.0.load(Ordering::Relaxed), 0);
    }
}
