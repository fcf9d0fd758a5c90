//! Where a reply ends: what says it in two ways that differ, or in a way that is not known, is not read.
//!
//! Most of it is the HTTP client's: lengths that are no numbers or contradict each other, chunks of no size, chunks in
//! HTTP/1.0. Here is what it reads and a proxy must not: where two readers may see two ends, one of them takes for the
//! next reply what the other took for this one's body (RFC 9112, sections 6.3 and 11.2).

use http::{HeaderMap, HeaderValue, StatusCode, Version, header};

/// What is wrong with it, if something is. A length that is there twice, and the same, is there once then.
pub(super) fn check(version: Version, headers: &mut HeaderMap) -> Result<(), &'static str> {
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

/// Whether a response that has no body by its status says that one follows. It ends with its headers all the same (RFC 9112,
/// section 6.3), so bytes of that body may arrive later, when the connection waits for the next response.
///
/// Not 304: there a length is that of the body which a 200 would have had (RFC 9110, section 8.6).
pub(super) fn announces_body_that_is_not_read(status: StatusCode, headers: &HeaderMap) -> bool {
    let has_length = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    status == StatusCode::NO_CONTENT && (has_length || headers.contains_key(header::TRANSFER_ENCODING))
}
