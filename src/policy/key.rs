//! What makes two requests the same.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cache::compact;
use crate::{
    route::{TraceContext, UpstreamRequest},
    upstream::Ask,
};

/// One upstream, as long as it stays as it is. Another one of the same name is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Whom(u64);

impl Whom {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Everything that a reply depends on: who is asked, and all that is sent. Whatever of a caller goes into a request, its
/// credentials for instance, is a part of it; so nobody gets a reply to a request that was not theirs, word for word.
/// Keys are compared as a whole, not by a hash.
///
/// Only the trace that a call belongs to is left out: it is another one each time, and replies say nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    whom: Whom,
    /// A longer reply is an error, so the limit is a part of what comes of a request.
    reply_limit_bytes: usize,
    request: UpstreamRequest,
}

impl Key {
    pub(super) fn of(whom: Whom, ask: &Ask) -> Self {
        // Whatever an `Ask` has besides is no part of what is sent.
        let Ask {
            request,
            reply_limit_bytes,
            due: _,
            repeatable: _,
            caller: _,
            meanwhile: _,
            ticket: _,
            charge: _,
            traced: _,
        } = ask;
        let mut request = request.clone();
        if let Some(headers) = request.headers_mut() {
            TraceContext::remove(headers);
        }
        Self { whom, reply_limit_bytes: *reply_limit_bytes, request }
    }

    /// The same in memory of its own: headers of a caller are a part of all that was read of its connection at once.
    pub(super) fn compact(&self) -> Self {
        let mut own = self.clone();
        if let Some(headers) = own.request.headers_mut() {
            compact(headers);
        }
        own
    }

    /// What tells it from all others, but for who is asked.
    pub(super) fn parts(&self) -> [Vec<u8>; 2] {
        [self.reply_limit_bytes.to_string().into_bytes(), self.request.to_bytes()]
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.request.bytes()
    }
}
