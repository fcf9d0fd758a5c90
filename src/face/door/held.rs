//! How much of requests' bodies is held at once, of all clients together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;

/// What each body may have beside, and is not counted: a crowd that sends long ones, and never their end, keeps nobody
/// out whose is short. Most are shorter.
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
