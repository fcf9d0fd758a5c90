//! Text as the inside of a JSON string.

use super::block::{BLOCK, unplain};

/// How a byte is written inside a JSON string (RFC 8259, section 7): 0 as it is, `u` as `\u00xx`, else after a
/// backslash.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'u';
        byte += 1;
    }
    escapes[b'\n' as usize] = b'n';
    escapes[b'\r' as usize] = b'r';
    escapes[b'\t' as usize] = b't';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

/// How much is written before the room for more is made.
const CHUNK: usize = 16 * BLOCK;

/// As long as the longest escape: `\\u001f`.
const LONGEST: usize = 6;

/// How much is copied at once of what is plain between two escapes; as constant lengths are copied without a call.
const STRIDE: usize = 16;

/// Writes text as the inside of a JSON string.
///
/// JSON inside of JSON, which is what most of it is, has an escape every few bytes. So where they are is found for a
/// block at a time, without a branch, and what is between them is copied in strides.
pub(in crate::tool) fn escape(text: &str, out: &mut Vec<u8>) {
    for chunk in text.as_bytes().chunks(CHUNK) {
        let before = out.len();
        out.resize(before + LONGEST * chunk.len() + BLOCK + STRIDE, 0);
        let mut room = Room { bytes: &mut out[before..], length: 0 };
        let mut rest = chunk;
        while let Some(padded) = rest.first_chunk() {
            room.write(padded, BLOCK);
            rest = &rest[BLOCK..];
        }
        // What has no stride behind it is given one.
        while !rest.is_empty() {
            let (block, left) = rest.split_at(rest.len().min(BLOCK));
            let mut padded = [b' '; BLOCK + STRIDE];
            padded[..block.len()].copy_from_slice(block);
            room.write(&padded, block.len());
            rest = left;
        }
        let written = room.length;
        out.truncate(before + written);
    }
}

/// Where a chunk is written: six times as long, and more than a stride longer.
struct Room<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Room<'_> {
    /// Writes the first `length` bytes of a block.
    #[inline]
    fn write(&mut self, padded: &[u8; BLOCK + STRIDE], length: usize) {
        let (block, _) = padded.split_first_chunk().expect("a block is shorter");
        let mut marks = unplain(block);
        let mut plain = 0;
        while marks != 0 {
            let mark = marks.trailing_zeros() as usize;
            marks &= marks - 1;
            self.copy(padded, plain, mark);
            let byte = padded[mark];
            match ESCAPES[usize::from(byte)] {
                b'u' => {
                    let digits = b"0123456789abcdef";
                    let (high, low) = (digits[usize::from(byte >> 4)], digits[usize::from(byte & 0xf)]);
                    self.put(&[b'\\', b'u', b'0', b'0', high, low]);
                }
                short => self.put(&[b'\\', short]),
            }
            plain = mark + 1;
        }
        self.copy(padded, plain, length);
    }

    /// Writes what is between two places of a block, and perhaps more behind it, where the next is written.
    #[inline]
    fn copy(&mut self, padded: &[u8; BLOCK + STRIDE], from: usize, to: usize) {
        if to - from <= STRIDE {
            self.bytes[self.length..][..STRIDE].copy_from_slice(&padded[from..][..STRIDE]);
        } else {
            // Mostly the whole of it.
            self.bytes[self.length..][..to - from].copy_from_slice(&padded[from..to]);
        }
        self.length += to - from;
    }

    #[inline]
    fn put<const N: usize>(&mut self, escape: &[u8; N]) {
        self.bytes[self.length..][..N].copy_from_slice(escape);
        self.length += N;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_reads_back_as_it_was(
            text in "\\PC*|[\\x00-\\x7f]*|([a-z\u{e9} ]{0,40}[\"\\\\\n\u{1}]{0,3}){0,12}|[\"\\\\]{0,200}",
        ) {
            let mut out = vec![b'"'];
            escape(&text, &mut out);
            out.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), &*text);
        }
    }
}
