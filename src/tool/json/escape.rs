//! Text as the inside of a JSON string.

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

/// How many bytes are looked at together: a bit of a word for each.
const BLOCK: usize = 64;

/// How much is copied at once of what is plain between two escapes; as constant lengths are copied without a call.
const STRIDE: usize = 16;

/// Writes text as the inside of a JSON string.
///
/// JSON inside of JSON, which is what most of it is, has an escape every few bytes. So where they are is found for a
/// block at a time, without a branch, and what is between them is copied in strides.
pub(in crate::tool) fn escape(text: &str, out: &mut Vec<u8>) {
    let (blocks, rest) = text.as_bytes().as_chunks::<BLOCK>();
    for block in blocks {
        match marks(block) {
            0 => out.extend_from_slice(block),
            marks => escape_block(block, marks, out),
        }
    }
    for byte in rest {
        match ESCAPES[usize::from(*byte)] {
            0 => out.push(*byte),
            escape => write_escape(*byte, escape, out),
        }
    }
}

/// A bit for each byte of a block that is not written as it is; the lowest for the first.
#[inline]
fn marks(block: &[u8; BLOCK]) -> u64 {
    /// Takes the lowest bits of eight bytes to the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut flags = [0; BLOCK];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from((*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'));
    }
    let (eights, _) = flags.as_chunks::<8>();
    eights.iter().enumerate().fold(0, |marks, (index, eight)| {
        marks | (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * index)
    })
}

fn escape_block(block: &[u8; BLOCK], mut marks: u64, out: &mut Vec<u8>) {
    let mut padded = [0; BLOCK + STRIDE];
    padded[..BLOCK].copy_from_slice(block);
    // Twice as long at most, and what a stride is too long.
    let (mut written, mut length) = ([0; 2 * BLOCK + STRIDE], 0);
    let mut plain = 0;
    while marks != 0 {
        let mark = marks.trailing_zeros() as usize;
        marks &= marks - 1;
        match mark - plain {
            few if few <= STRIDE => {
                written[length..length + STRIDE].copy_from_slice(&padded[plain..plain + STRIDE]);
                length += few;
            }
            many => {
                written[length..length + many].copy_from_slice(&padded[plain..mark]);
                length += many;
            }
        }
        match ESCAPES[usize::from(padded[mark])] {
            b'u' => {
                out.extend_from_slice(&written[..length]);
                length = 0;
                write_escape(padded[mark], b'u', out);
            }
            short => {
                written[length..length + 2].copy_from_slice(&[b'\\', short]);
                length += 2;
            }
        }
        plain = mark + 1;
    }
    out.extend_from_slice(&written[..length]);
    out.extend_from_slice(&block[plain..]);
}

fn write_escape(byte: u8, escape: u8, out: &mut Vec<u8>) {
    match escape {
        b'u' => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        short => out.extend_from_slice(&[b'\\', short]),
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
