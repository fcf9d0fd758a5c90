//! What goes with a call through every room, so that whatever is said on the way can be found by its name.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use tracing::field::{DisplayValue, display};

use super::{RequestId, Span};

/// The name of the call that something is done for, its place in a trace, and how often it was tried. Clones are the same
/// one; what nobody called for has an empty one.
#[derive(Debug, Clone, Default)]
pub struct Ticket(Option<Arc<Written>>);

#[derive(Debug)]
struct Written {
    request_id: RequestId,
    span: Span,
    attempts: AtomicU32,
    /// The call whose request this one waits for, where it has none of its own.
    joined: OnceLock<Ticket>,
}

impl Ticket {
    /// That of a call.
    pub fn new(request_id: RequestId, span: Span) -> Self {
        Self(Some(Arc::new(Written {
            request_id,
            span,
            attempts: AtomicU32::new(0),
            joined: OnceLock::new(),
        })))
    }

    /// The field `request_id` of a line in the log; there is none where nobody called.
    pub fn request_id(&self) -> Option<DisplayValue<&RequestId>> {
        self.0.as_ref().map(|written| display(&written.request_id))
    }

    /// What is told of the call, where traces are on.
    pub fn span(&self) -> Option<&Span> {
        self.0.as_ref().map(|written| &written.span).filter(|span| span.is_on())
    }

    /// Something is sent for it. Says how often something was before.
    pub fn attempt(&self) -> u32 {
        self.0.as_ref().map_or(0, |written| written.attempts.fetch_add(1, Ordering::Relaxed))
    }

    /// How often something was sent for it.
    pub fn attempts(&self) -> u32 {
        self.0.as_ref().map_or(0, |written| written.attempts.load(Ordering::Relaxed))
    }

    /// From now on this call waits for the request of another one.
    pub fn join(&self, other: &Self) {
        if let Some(written) = &self.0 {
            // A call waits for one request at most; a second one would be of the same words.
            let _ = written.joined.set(other.clone());
        }
    }

    /// Whether something was sent that this call waits for: for itself, or for the call that it joined.
    pub fn was_sent(&self) -> bool {
        let joined = self.0.as_ref().and_then(|written| written.joined.get());
        self.attempts() > 0 || joined.is_some_and(|joined| joined.attempts() > 0)
    }
}
