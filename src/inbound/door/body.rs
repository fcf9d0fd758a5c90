//! Reading the bodies of requests, within a limit for each and one for all clients together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::Door;
use crate::inbound::context::Reason;

/// When to come back with a body for which there is no room.
const AGAIN_AFTER_SECONDS: u64 = 2;

/// What each body may have beside, and is not counted: a crowd that sends long ones, and never their end,
/// keeps nobody out whose is short. Most are shorter.
const FREE_BYTES: usize = 16 << 10;

/// What is held. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Held(Arc<AtomicUsize>);

/// What is held of one body; given back when it is dropped.
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

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Longer than allowed: HTTP 413.
    #[error("the request's body is longer than {limit_bytes} bytes")]
    TooLong {
        /// How long it may be.
        limit_bytes: usize,
    },
    /// Not there in time: HTTP 408.
    #[error("the request's body was not complete within {after:?}")]
    Slow {
        /// How long it may take.
        after: Duration,
    },
    /// Others are sending so much that there is no room for it: HTTP 503.
    #[error("too much is being sent here at once; send it again in a few seconds")]
    Crowded,
    /// Compressed on its way by a coding that is none of ours: HTTP 501 (RFC 9112, section 6.1).
    #[error("the request's `Transfer-Encoding` is not `chunked` alone; send the body as it is")]
    Coded,
    /// The client broke off, or its framing is wrong: HTTP 400, if anyone is still there to read it.
    #[error("the request's body could not be read")]
    CutOff(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Reason for BodyError {
    fn reason(&self) -> &'static str {
        self.as_word()
    }
}

impl BodyError {
    fn as_word(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "body_too_long",
            Self::Slow { .. } => "body_slow",
            Self::Crowded => "bodies_too_many",
            Self::Coded => "body_coded",
            Self::CutOff(_) => "body_cut_off",
        }
    }

    /// The HTTP status that says so.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Coded => StatusCode::NOT_IMPLEMENTED,
            Self::CutOff(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Says when to come back, where that helps.
    pub fn tell(&self, response: &mut HeaderMap) {
        match self {
            Self::Crowded => {
                response.insert(header::RETRY_AFTER, HeaderValue::from(AGAIN_AFTER_SECONDS));
            }
            Self::TooLong { .. } | Self::Slow { .. } | Self::Coded | Self::CutOff(_) => {}
        }
    }
}

impl Door {
    /// Reads a body, at most as much as is allowed.
    ///
    /// # Errors
    ///
    /// [`BodyError`] when it is longer, too slow, or breaks off, or when others send too much.
    pub async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        let read = self.try_read(headers, body).await;
        if let Err(error) = &read {
            self.refused.add(error.as_word());
        }
        read
    }

    async fn try_read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        let (limit_bytes, room_bytes, after) = {
            let checks = self.checks.load();
            (checks.body_limit_bytes, checks.bodies_limit_bytes, checks.body_timeout)
        };
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > limit_bytes as u64) {
            return Err(BodyError::TooLong { limit_bytes });
        }
        if is_coded(headers) {
            return Err(BodyError::Coded);
        }
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let reading = async {
            let (mut body, mut share) = (Limited::new(body, limit_bytes), self.held.share());
            // Untouched memory is none: what is announced and does not come takes nothing.
            let mut whole = Vec::with_capacity(announced.unwrap_or(0) as usize);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                    true => BodyError::TooLong { limit_bytes },
                    false => BodyError::CutOff(error),
                })?;
                let Ok(data) = frame.into_data() else { continue };
                if !share.grow_to(whole.len() + data.len(), room_bytes.max(limit_bytes)) {
                    return Err(BodyError::Crowded);
                }
                whole.extend_from_slice(&data);
            }
            Ok(share.with(whole))
        };
        timeout(after, reading).await.unwrap_or(Err(BodyError::Slow { after }))
    }
}

/// Whether a body was changed on its way by more than being cut into chunks.
pub fn is_coded(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::TRANSFER_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
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
