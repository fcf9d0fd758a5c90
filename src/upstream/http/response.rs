//! Incoming HTTP response: framing checks, hop-by-hop headers, and the body up to a limit.

use std::{error::Error, io};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header, response::Parts};
use http_body::Body;
use http_body_util::BodyExt;

use super::secret_scrubber::SecretScrubber;
use super::{ProgressEvent, ProgressSender, ResponseBody};
use crate::model::UpstreamResponse;
use crate::upstream::buffer::BodyAccount;
use crate::upstream::{Failure, UpstreamResult};

/// Response whose headers have arrived.
pub(in crate::upstream) struct IncomingResponse {
    pub(in crate::upstream) head: Parts,
    pub(in crate::upstream) body: ResponseBody,
    /// Scrubber of secrets in the response.
    pub(in crate::upstream) scrubber: SecretScrubber,
}

impl IncomingResponse {
    /// Reads the whole body, and redacts secrets in the response.
    pub(in crate::upstream) async fn read_whole(
        self,
        limit_bytes: usize,
        mut account: BodyAccount,
        progress: Option<&ProgressSender>,
    ) -> UpstreamResult {
        let Self { mut head, body, scrubber } = self;
        let body = read_body(body, limit_bytes, &mut account, progress).await?;
        remove_hop_by_hop(&mut head.headers);
        let response = UpstreamResponse::new(head.status, head.headers, body);
        account.finish_response(scrubber.scrub(response)).await
    }
}

/// Rejects a response with ambiguous or unknown framing. Repeated equal lengths are merged.
///
/// The HTTP library rejects lengths that are not numbers or contradict each other, chunks without a size, and
/// chunks in HTTP/1.0. This function rejects what the library accepts but a proxy must not: if two parsers
/// see different ends of a body, one parses as the next response what the other parses as the body (response
/// smuggling; RFC 9112, sections 6.3 and 11.2).
pub(super) fn check_framing(version: Version, headers: &mut HeaderMap) -> Result<(), &'static str> {
    if version > Version::HTTP_11 {
        return Ok(());
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err("it has both `Content-Length` and `Transfer-Encoding`, so its end is ambiguous");
        }
        let mut transfer_codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        let first_coding =
            transfer_codings.next().map(|coding| coding.as_bytes().trim_ascii()).unwrap_or_default();
        // RFC 2616 had `identity`, which means no encoding.
        let is_known =
            first_coding.eq_ignore_ascii_case(b"chunked") || first_coding.eq_ignore_ascii_case(b"identity");
        if transfer_codings.next().is_some() || !is_known {
            return Err("its `Transfer-Encoding` is not `chunked`");
        }
    }
    let lengths = headers.get_all(header::CONTENT_LENGTH);
    if lengths.iter().count() > 1 || lengths.iter().any(|length| length.as_bytes().contains(&b',')) {
        // The HTTP library has rejected lengths that differ.
        let first = lengths.iter().next().and_then(|length| length.to_str().ok()?.split(',').next());
        if let Some(Ok(first)) = first.map(|first| HeaderValue::from_str(first.trim())) {
            headers.insert(header::CONTENT_LENGTH, first);
        }
    }
    Ok(())
}

/// Whether a response announces a body although its status excludes one. The response nevertheless ends after
/// its headers (RFC 9112, section 6.3), so bytes of the body may arrive later and be parsed as the next
/// response.
///
/// `false` for status 304: its `Content-Length` is the length of the body that a 200 response would have (RFC
/// 9110, section 8.6).
pub(super) fn announces_unread_body(status: StatusCode, headers: &HeaderMap) -> bool {
    let has_length = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    status == StatusCode::NO_CONTENT && (has_length || headers.contains_key(header::TRANSFER_ENCODING))
}

/// Hop-by-hop headers (RFC 9110, section 7.6.1; `Keep-Alive` and `Proxy-Connection` are older). `Trailer` is
/// not one of them, because it describes the message.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "te",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
    "proxy-authorization",
    "keep-alive",
    "proxy-connection",
];

/// Removes hop-by-hop headers, and the headers that `Connection` lists: a proxy never forwards them.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let connection_options =
        values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok());
    // Removing the length or the host would change the meaning of the message.
    let connection_options = connection_options
        .filter(|name: &HeaderName| *name != header::CONTENT_LENGTH && *name != header::HOST);
    // One search for the present names is faster than a removal of every name in the list.
    let hop_by_hop = headers.keys().filter(|name| HOP_BY_HOP.contains(&name.as_str())).cloned();
    for name in connection_options.chain(hop_by_hop).collect::<Vec<_>>() {
        headers.remove(name);
    }
}

/// Maximum memory that is allocated in advance for an announced body length, in bytes.
const TRUSTED_BYTES: usize = 1 << 20;

/// Reads the rest of a short body that is not needed, so that its connection can be reused. Errors are
/// ignored.
pub(in crate::upstream) async fn discard_body(body: ResponseBody) {
    const DISCARD_LIMIT_BYTES: usize = 16 << 10;
    let _ = read_body(body, DISCARD_LIMIT_BYTES, &mut BodyAccount::none(), None).await;
}

/// Reads a whole body. If the announced length is over `limit_bytes`, nothing is read. Each chunk is reported
/// as progress. Memory for a long body is first reserved in `account`. Trailers are ignored.
async fn read_body(
    mut body: ResponseBody,
    limit_bytes: usize,
    account: &mut BodyAccount,
    progress: Option<&ProgressSender>,
) -> Result<Bytes, Failure> {
    let hint = body.size_hint();
    let announced_bytes = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if announced_bytes > limit_bytes {
        return Err(Failure::TooLong(limit_bytes));
    }
    account.cover(announced_bytes).await?;
    let mut received = BytesMut::with_capacity(announced_bytes.min(TRUSTED_BYTES));
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame.map_err(broken_body)?.into_data() else { continue };
        if chunk.is_empty() {
            continue;
        }
        if chunk.len() > limit_bytes - received.len() {
            return Err(Failure::TooLong(limit_bytes));
        }
        account.grow(received.len() + chunk.len()).await?;
        received.extend_from_slice(&chunk);
        if let Some(progress) = progress {
            progress.send(ProgressEvent::Received { bytes: received.len() as u64, of: hint.exact() });
        }
    }
    Ok(received.freeze())
}

fn broken_body(error: hyper::Error) -> Failure {
    let kind = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    match kind {
        // Invalid chunked encoding.
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Failure::NotHttp(error.into()),
        Some(_) | None => Failure::CutOff(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_named_by_connection_are_removed() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONNECTION, "close, X-Secret-Of-One-Hop".parse().unwrap());
        headers.append(header::CONNECTION, "x-other, content-length".parse().unwrap());
        for name in ["x-secret-of-one-hop", "x-other", "keep-alive", "content-length", "x-end-to-end"] {
            headers.insert(name, "1".parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        let mut remaining: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        remaining.sort_unstable();
        assert_eq!(remaining, ["content-length", "x-end-to-end"]);
    }
}
