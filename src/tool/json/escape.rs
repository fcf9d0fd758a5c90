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

/// How much is copied at once of what is plain between two escapes; as constant lengths are copied without a call.
const STRIDE: usize = 16;

/// Room for a block in which every byte is written as `\\u001f`, and a power of two, so that no place in it has to be checked.
const ROOM: usize = 512;

/// Writes text as the inside of a JSON string.
///
/// JSON inside of JSON, which is what most of it is, has an escape every few bytes. So where they are is found for a
/// block at a time, without a branch, and what is between them is copied in strides.
pub(in crate::tool) fn escape(text: &str, out: &mut Vec<u8>) {
    let mut written = Written { bytes: [0; ROOM + STRIDE], length: 0 };
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // What has no stride behind it is given one.
        let mut last = [b' '; BLOCK + STRIDE];
        let length = rest.len().min(BLOCK);
        let padded = rest.first_chunk().unwrap_or_else(|| {
            last[..length].copy_from_slice(&rest[..length]);
            &last
        });
        let (block, _) = padded.split_first_chunk().expect("a block is shorter");
        match unplain(block) {
            0 => out.extend_from_slice(&padded[..length]),
            marks => {
                written.write(padded, marks, length);
                out.extend_from_slice(&written.bytes[..written.length]);
            }
        }
        rest = &rest[length..];
    }
}

/// What is written of one block.
struct Written {
    bytes: [u8; ROOM + STRIDE],
    length: usize,
}

impl Written {
    /// Writes the first `length` bytes of a block, of which those marked are escaped.
    #[inline]
    fn write(&mut self, padded: &[u8; BLOCK + STRIDE], mut marks: u64, length: usize) {
        self.length = 0;
        let mut plain = 0;
        while marks != 0 {
            let mark = marks.trailing_zeros() as usize;
            marks &= marks - 1;
            self.copy(padded, plain, mark);
            let byte = padded[mark % BLOCK];
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
        let (mut from, mut length) = (from, self.length);
        self.length += to.saturating_sub(from);
        loop {
            let stride = &padded[from % BLOCK..][..STRIDE];
            self.bytes[length % ROOM..][..STRIDE].copy_from_slice(stride);
            (from, length) = (from + STRIDE, length + STRIDE);
            if from >= to {
                break;
            }
        }
    }

    #[inline]
    fn put<const N: usize>(&mut self, escape: &[u8; N]) {
        self.bytes[self.length % ROOM..][..N].copy_from_slice(escape);
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
