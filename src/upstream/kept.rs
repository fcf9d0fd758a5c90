//! Whether a reply was kept from an earlier request.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// What `policy` says to whoever asked about the reply it gave: how long ago it came, where it was kept since; and whom
/// to tell when it turns out to be nothing to keep. Clones are the same one.
#[derive(Clone, Default)]
pub struct Kept(Arc<Facts>);

#[derive(Default)]
struct Facts {
    age: OnceLock<Duration>,
    forget: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Kept {
    /// Says that the reply came so long ago.
    pub fn since(&self, age: Duration) {
        let _ = self.0.age.set(age);
    }

    /// Says what forgets the reply.
    pub fn until_forgotten(&self, forget: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.forget.set(Box::new(forget));
    }

    /// How long ago the reply came; `None` of one that came for this request.
    pub fn age(&self) -> Option<Duration> {
        self.0.age.get().copied()
    }

    /// Has the reply forgotten: its words are an error after all.
    pub fn forget(&self) {
        if let Some(forget) = self.0.forget.get() {
            forget();
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Kept").field(&self.0.age.get()).finish()
    }
}
