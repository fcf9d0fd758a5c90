//! Escapes on any processor: they are found for 64 bytes together, without a branch, and what is between them is copied
//! in strides.

use wide::u8x16;

use super::{LONGEST, control};

/// Number of bytes that are looked at together: one bit of a word for each.
const BLOCK: usize = 64;

/// How much is copied at once of what is plain between two escapes; as constant lengths are copied without a call.
const STRIDE: usize = 16;

/// Room for some blocks, and a power of two, so that no place in it has to be checked.
const ROOM: usize = 1024;

/// Room for what one block may become.
const GROWN: usize = LONGEST * BLOCK;

pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut written = Written { bytes: [0; ROOM + STRIDE], length: 0 };
    let mut rest = text;
    while !rest.is_empty() {
        // What has no stride behind it is given one.
        let mut last = [b' '; BLOCK + STRIDE];
        let length = rest.len().min(BLOCK);
        let padded = rest.first_chunk().unwrap_or_else(|| {
            last[..length].copy_from_slice(&rest[..length]);
            &last
        });
        let (block, _) = padded.split_first_chunk().expect("a block is shorter");
        if written.length > ROOM - GROWN {
            written.flush(out);
        }
        written.write(padded, escaped(block), length);
        rest = &rest[length..];
    }
    written.flush(out);
}

/// What is written of some blocks.
struct Written {
    bytes: [u8; ROOM + STRIDE],
    length: usize,
}

impl Written {
    fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.length]);
        self.length = 0;
    }

    /// Writes the first `length` bytes of a block, of which those marked are escaped.
    #[inline]
    fn write(&mut self, padded: &[u8; BLOCK + STRIDE], mut marks: u64, length: usize) {
        let mut plain = 0;
        while marks != 0 {
            let mark = marks.trailing_zeros() as usize;
            marks &= marks - 1;
            self.copy(padded, plain, mark);
            let byte = padded[mark % BLOCK];
            if byte >= b' ' {
                // A quote or a backslash stands for itself behind a backslash: with what follows it.
                self.put(b"\\", 1);
                plain = mark;
            } else {
                let (escape, length) = control(byte);
                self.put(&escape, length);
                plain = mark + 1;
            }
        }
        self.copy(padded, plain, length);
    }

    /// Writes what is between two places of a block, and perhaps more behind it, where the next is written.
    #[inline]
    fn copy(&mut self, padded: &[u8; BLOCK + STRIDE], mut from: usize, to: usize) {
        let mut length = self.length;
        self.length += to - from;
        loop {
            let stride = &padded[from % BLOCK..][..STRIDE];
            self.bytes[length % ROOM..][..STRIDE].copy_from_slice(stride);
            (from, length) = (from + STRIDE, length + STRIDE);
            if from >= to {
                break;
            }
        }
    }

    /// The same of an escape, of which so much counts.
    #[inline]
    fn put<const N: usize>(&mut self, escape: &[u8; N], length: usize) {
        self.bytes[self.length % ROOM..][..N].copy_from_slice(escape);
        self.length += length;
    }
}

/// A bit for each byte of a block that must be escaped in a JSON string, the lowest for the first.
#[inline]
fn escaped(block: &[u8; BLOCK]) -> u64 {
    let (sixteens, _) = block.as_chunks();
    let words = sixteens.iter().map(|sixteen| {
        let lane = u8x16::new(*sixteen);
        let is_control = lane.min(u8x16::splat(0x1f)).simd_eq(lane);
        let marked = lane.simd_eq(u8x16::splat(b'"')) | lane.simd_eq(u8x16::splat(b'\\')) | is_control;
        u64::from(marked.to_bitmask())
    });
    words.enumerate().fold(0, |bits, (index, word)| bits | word << (16 * index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_escaped_or_is_not() {
        for byte in 0..=u8::MAX {
            let expected = if byte < 0x20 || b"\"\\".contains(&byte) { u64::MAX } else { 0 };
            assert_eq!(escaped(&[byte; BLOCK]), expected, "{byte}");
        }
    }
}
