//! A response as it arrives: its headers, where it ends, and its body up to a limit.

use std::{error::Error, io};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version,
    header::{self, Entry},
};
use http_body::Body;
use http_body_util::BodyExt;

use super::{ProgressEvent, ProgressSender, ResponseBody, UpstreamError, secret_scrubber::ResponseScrubber};
use crate::{model::UpstreamResponse, route::UpstreamName, upstream::buffer::BodyAccount};

/// A response whose head is there.
pub(in crate::upstream) struct IncomingResponse {
    pub(super) upstream: UpstreamName,
    pub(super) response: Response<ResponseBody>,
    pub(super) scrubber: ResponseScrubber,
}

impl IncomingResponse {
    pub(in crate::upstream) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(in crate::upstream) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The body as it arrives, and the scrubber for it.
    pub(in crate::upstream) fn into_body(self) -> (ResponseBody, ResponseScrubber) {
        (self.response.into_body(), self.scrubber)
    }

    /// Reads the body to its end.
    pub(in crate::upstream) async fn whole(
        self,
        limit_bytes: usize,
        mut account: BodyAccount<'_>,
        meanwhile: Option<&ProgressSender>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let Self { upstream, response, scrubber } = self;
        let (mut head, body) = response.into_parts();
        let body = read_body(&upstream, body, limit_bytes, &mut account, meanwhile).await?;
        remove_hop_by_hop(&mut head.headers);
        let upstream_response = scrubber.scrub(UpstreamResponse::new(head.status, head.headers, body));
        account.finish_reply(upstream_response).await.map_err(|full| full.of(&upstream))
    }
}

/// Rejects a response whose end is declared in two ways, or in an unknown way. Duplicate equal lengths are
/// merged.
///
/// The HTTP client rejects lengths that are no numbers or contradict each other, chunks of no size, and
/// chunks in HTTP/1.0. Responses that it accepts, but a proxy must not, are rejected here: where two parsers
/// may see two ends, one of them parses as the next response what the other parsed as this one's body (RFC
/// 9112, sections 6.3 and 11.2).
pub(super) fn check_framing(version: Version, headers: &mut HeaderMap) -> Result<(), &'static str> {
    if version > Version::HTTP_11 {
        return Ok(());
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err(
                "it has both `Content-Length` and `Transfer-Encoding`, so nobody can say where it ends",
            );
        }
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        let only = codings.next().and_then(|coding| coding.to_str().ok()).unwrap_or_default().trim();
        // `identity` was one in RFC 2616, and means nothing.
        let is_known = only.eq_ignore_ascii_case("chunked") || only.eq_ignore_ascii_case("identity");
        if codings.next().is_some() || !is_known {
            return Err("its `Transfer-Encoding` is another than `chunked`");
        }
    }
    let lengths = headers.get_all(header::CONTENT_LENGTH);
    if lengths.iter().count() > 1 || lengths.iter().any(|length| length.as_bytes().contains(&b',')) {
        // The client has refused those that differ.
        let first = lengths.iter().next().and_then(|length| length.to_str().ok()?.split(',').next());
        if let Some(Ok(first)) = first.map(|first| HeaderValue::from_str(first.trim())) {
            headers.insert(header::CONTENT_LENGTH, first);
        }
    }
    Ok(())
}

/// Whether a response that has no body by its status announces one. It ends with its headers all the same
/// (RFC 9112, section 6.3), so bytes of that body may arrive later, when the connection waits for the next
/// response.
///
/// Not 304: there a length is that of the body which a 200 would have had (RFC 9110, section 8.6).
pub(super) fn announces_unread_body(status: StatusCode, headers: &HeaderMap) -> bool {
    let has_length = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    status == StatusCode::NO_CONTENT && (has_length || headers.contains_key(header::TRANSFER_ENCODING))
}

/// Whether a header is one of a single hop (RFC 9110, section 7.6.1; `Keep-Alive` and `Proxy-Connection` are
/// older). `Trailer` is not among them: it describes the message.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "keep-alive"
            | "proxy-connection"
    )
}

/// Drops the headers of one hop, and those that `Connection` names: they never cross to another connection.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if let Entry::Occupied(connection) = headers.entry(header::CONNECTION) {
        let (_, values) = connection.remove_entry_mult();
        // These two name no header, and most messages have one of them.
        let values = values.filter(|value| value != "keep-alive" && value != "close");
        for value in values.collect::<Vec<_>>() {
            remove_named(headers, &value);
        }
    }
    // Looking is quicker than removing.
    let present: Vec<HeaderName> = headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    for name in present {
        headers.remove(name);
    }
}

/// Drops the headers that a value of `Connection` names.
fn remove_named(headers: &mut HeaderMap, value: &HeaderValue) {
    let names = value.to_str().unwrap_or_default().split(',');
    let names = names.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    // A peer that names the framing or the host would change what the message is.
    for name in names.filter(|name| name != header::CONTENT_LENGTH && name != header::HOST) {
        headers.remove(name);
    }
}

/// How much memory is allocated at once because a peer announces so much.
const TRUSTED_BYTES: usize = 1 << 20;

/// Reads what is short of a body that nobody needs, so that its connection can be used again. Nothing depends
/// on whether it could be read.
pub(super) async fn drain(upstream: &UpstreamName, body: ResponseBody) {
    const DRAIN_LIMIT_BYTES: usize = 16 << 10;
    let _ = read_body(upstream, body, DRAIN_LIMIT_BYTES, &mut BodyAccount::none(), None).await;
}

/// Reads a body whole. One that announces more than `limit_bytes` is not read at all. One that arrives in
/// several pieces reports each as progress. Memory for a long one is reserved first, with `account`.
async fn read_body(
    upstream: &UpstreamName,
    mut body: ResponseBody,
    limit_bytes: usize,
    account: &mut BodyAccount<'_>,
    meanwhile: Option<&ProgressSender>,
) -> Result<Bytes, UpstreamError> {
    let too_long = || UpstreamError::TooLong { upstream: upstream.clone(), limit_bytes };
    let hint = body.size_hint();
    let announced = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if announced > limit_bytes {
        return Err(too_long());
    }
    account.cover(announced).await.map_err(|full| full.of(upstream))?;
    let received = |bytes: usize| {
        if let Some(meanwhile) = meanwhile {
            meanwhile.send(ProgressEvent::Received { bytes: bytes as u64, of: hint.exact() });
        }
    };
    let Some(first) = next_chunk(upstream, &mut body).await? else { return Ok(Bytes::new()) };
    if first.len() > limit_bytes {
        return Err(too_long());
    }
    received(first.len());
    // Most responses arrive in one piece, which is returned as it is.
    let Some(second) = next_chunk(upstream, &mut body).await? else { return Ok(first) };
    let mut whole = BytesMut::with_capacity(announced.min(TRUSTED_BYTES).max(first.len() + second.len()));
    whole.extend_from_slice(&first);
    let mut chunk = second;
    loop {
        if chunk.len() > limit_bytes - whole.len() {
            return Err(too_long());
        }
        account.grow(whole.len() + chunk.len()).await.map_err(|full| full.of(upstream))?;
        whole.extend_from_slice(&chunk);
        received(whole.len());
        match next_chunk(upstream, &mut body).await? {
            Some(next) => chunk = next,
            None => return Ok(whole.freeze()),
        }
    }
}

/// The next bytes; trailers are passed over.
async fn next_chunk(
    upstream: &UpstreamName,
    body: &mut ResponseBody,
) -> Result<Option<Bytes>, UpstreamError> {
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame.map_err(|error| broken_body(upstream, error))?.into_data()
            && !chunk.is_empty()
        {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

fn broken_body(upstream: &UpstreamName, error: hyper::Error) -> UpstreamError {
    let upstream = upstream.clone();
    let kind = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    match kind {
        // Its chunks are none.
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
            UpstreamError::NotHttp { upstream, source: error.into() }
        }
        Some(_) | None => UpstreamError::CutOff { upstream, source: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_names_goes_and_the_rest_stays() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONNECTION, "close, X-Secret-Of-One-Hop".parse().unwrap());
        headers.append(header::CONNECTION, "x-other, content-length".parse().unwrap());
        for name in ["x-secret-of-one-hop", "x-other", "keep-alive", "content-length", "x-end-to-end"] {
            headers.insert(name, "1".parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x-end-to-end"]);
    }
}
