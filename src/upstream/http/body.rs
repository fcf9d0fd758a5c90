//! Reads the body of a reply, and never more than a limit of it.

use std::{error::Error, io};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;

use super::{Happened, Meanwhile, ReplyBody};
use crate::upstream::buffer::{BodyAccount, BufferFull};

/// How much room is made at once on a peer's word that so much will come.
const TRUSTED_BYTES: usize = 1 << 20;

/// Why a body was not read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It is longer than the limit, or says that it will be.
    TooLong,
    /// Its chunks are none.
    Malformed(hyper::Error),
    /// The connection ended before it did.
    CutOff(hyper::Error),
    /// No memory was free for it.
    Full(BufferFull),
}

impl From<BufferFull> for BodyError {
    fn from(full: BufferFull) -> Self {
        Self::Full(full)
    }
}

impl BodyError {
    fn of(error: hyper::Error) -> Self {
        let why = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
        match why {
            Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Self::Malformed(error),
            Some(_) | None => Self::CutOff(error),
        }
    }
}

/// Reads a body whole. One that says it is longer than `limit_bytes` is not read at all. One that comes in several
/// pieces tells of each. Memory for a long one is reserved first, with `account`.
pub(super) async fn read(
    mut body: ReplyBody,
    limit_bytes: usize,
    account: &mut BodyAccount<'_>,
    meanwhile: Option<&Meanwhile>,
) -> Result<Bytes, BodyError> {
    let hint = body.size_hint();
    let announced = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if announced > limit_bytes {
        return Err(BodyError::TooLong);
    }
    account.cover(announced).await?;
    let received = |bytes: usize| {
        if let Some(meanwhile) = meanwhile {
            meanwhile.tell(Happened::Received { bytes: bytes as u64, of: hint.exact() });
        }
    };
    let Some(first) = next_chunk(&mut body).await? else { return Ok(Bytes::new()) };
    if first.len() > limit_bytes {
        return Err(BodyError::TooLong);
    }
    received(first.len());
    // Most replies come in one piece, which is handed on as it is.
    let Some(second) = next_chunk(&mut body).await? else { return Ok(first) };
    let mut whole = BytesMut::with_capacity(announced.min(TRUSTED_BYTES).max(first.len() + second.len()));
    whole.extend_from_slice(&first);
    let mut chunk = second;
    loop {
        if chunk.len() > limit_bytes - whole.len() {
            return Err(BodyError::TooLong);
        }
        account.grow(whole.len() + chunk.len()).await?;
        whole.extend_from_slice(&chunk);
        received(whole.len());
        match next_chunk(&mut body).await? {
            Some(next) => chunk = next,
            None => return Ok(whole.freeze()),
        }
    }
}

/// The next bytes; trailers are passed over.
async fn next_chunk(body: &mut ReplyBody) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame.map_err(BodyError::of)?.into_data()
            && !chunk.is_empty()
        {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}
