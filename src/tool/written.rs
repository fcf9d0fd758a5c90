//! JSON on its way out, a large value in it shared rather than copied.

use bytes::Bytes;

/// From this length on a value is shared. A copy of 5 KB costs as much as a part of its own, one of 16 KB more: it takes room in
/// the processor's caches.
pub(super) const SHARED_FROM_BYTES: usize = 8 << 10;

/// JSON that was written.
#[derive(Debug, Default)]
pub struct Written {
    text: Vec<u8>,
    shared: Option<Shared>,
}

/// A value that belongs into a text, and is not there yet.
#[derive(Debug)]
pub struct Shared {
    /// Before this byte of the text.
    pub(super) at: usize,
    /// What an upstream sent.
    pub(super) json: Bytes,
}

impl Written {
    /// A text, and the value that belongs into it, if one does.
    pub fn new(text: Vec<u8>, shared: Option<Shared>) -> Self {
        Self { text, shared }
    }

    /// All of it in one, which copies what is shared.
    pub fn into_vec(self) -> Vec<u8> {
        match self.shared {
            None => self.text,
            Some(Shared { at, json }) => [&self.text[..at], &json, &self.text[at..]].concat(),
        }
    }

    /// Its parts in order, empty ones among them.
    pub fn into_parts(self) -> [Bytes; 3] {
        let mut before = Bytes::from(self.text);
        match self.shared {
            None => [before, Bytes::new(), Bytes::new()],
            Some(Shared { at, json }) => {
                let after = before.split_off(at);
                [before, json, after]
            }
        }
    }
}

impl From<Vec<u8>> for Written {
    fn from(text: Vec<u8>) -> Self {
        Self::new(text, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_stands_where_it_belongs() {
        let written = || {
            let shared = Shared { at: 5, json: Bytes::from_static(b"[1]") };
            Written::new(b"{\"a\":}".to_vec(), Some(shared))
        };
        assert_eq!(written().into_vec(), b"{\"a\":[1]}");
        assert_eq!(written().into_parts().concat(), b"{\"a\":[1]}");
        let whole = Written::from(b"{}".to_vec());
        assert_eq!(whole.into_parts().concat(), b"{}");
    }
}
