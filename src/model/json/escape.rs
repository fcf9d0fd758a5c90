//! Text as the inside of a JSON string (RFC 8259, section 7).
//!
//! JSON inside of JSON, which is what most of it is, has an escape every few bytes. `serde_json` takes 9.2 µs
//! for 16 KB of it, of some 36 that a whole call takes, and vectors of AVX-512 take 1.3; for 1 MB it is 578
//! and 79 µs of 920.

#[cfg(target_arch = "x86_64")]
use fearless_simd::Level;

/// Writes text as the inside of a JSON string.
pub(in crate::model) fn escape(text: &str, out: &mut Vec<u8>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Level::new().as_avx512() {
        return vectors::escape(avx512, text.as_bytes(), out);
    }
    escape_plainly(text, out);
}

fn escape_plainly(text: &str, out: &mut Vec<u8>) {
    let quoted = serde_json::to_vec(text).expect("a text is written as JSON");
    out.extend_from_slice(&quoted[1..quoted.len() - 1]);
}

/// Escapes where the processor can leave bytes out of a vector (AVX-512 VBMI2: servers from about 2020 on).
#[cfg(target_arch = "x86_64")]
mod vectors {
    use fearless_simd::{Avx512, Simd, mask8x64, prelude::*, u8x32};

    /// What is written together: as many bytes as have room with a backslash before each. Blanks, in which a
    /// text ends early.
    const HALF: [u8; 32] = [b' '; 32];

    /// The second of each two bits.
    const SECOND: u64 = 0xaaaa_aaaa_aaaa_aaaa;

    /// Puts a backslash before each of 32 bytes, and leaves those out again that are not wanted.
    pub(super) fn escape(avx512: Avx512, text: &[u8], out: &mut Vec<u8>) {
        // What is not inlined here is compiled for every processor, and slow.
        avx512.vectorize(
            #[inline(always)]
            || {
                let (halves, rest) = text.as_chunks();
                for half in halves {
                    escape_half(avx512, half, out);
                }
                if !rest.is_empty() {
                    let mut last = HALF;
                    last[..rest.len()].copy_from_slice(rest);
                    escape_half(avx512, &last, out);
                    // The blanks at its end were written as they are.
                    out.truncate(out.len() - (HALF.len() - rest.len()));
                }
            },
        );
    }

    #[inline(always)]
    fn escape_half(avx512: Avx512, half: &[u8; HALF.len()], out: &mut Vec<u8>) {
        let bytes = u8x32::load_array_ref(avx512, half);
        let controls = bytes.simd_lt(b' ');
        let escaped = (bytes.simd_eq(b'"') | bytes.simd_eq(b'\\') | controls).to_bitmask();
        if escaped == 0 {
            return out.extend_from_slice(half);
        }
        let all = |byte| u8x32::splat(avx512, byte);
        let letters = if controls.all_false() {
            bytes
        } else {
            let (line, carriage, tab) = (bytes.simd_eq(b'\n'), bytes.simd_eq(b'\r'), bytes.simd_eq(b'\t'));
            if (controls & !(line | carriage | tab)).any_true() {
                return one_by_one(half, out);
            }
            line.select(all(b'n'), carriage.select(all(b'r'), tab.select(all(b't'), bytes)))
        };
        let (few, many) = all(b'\\').interleave(letters);
        let wanted = mask8x64::from_bitmask(avx512, firsts(escaped) | SECOND);
        out.extend_from_slice(few.combine(many).compress(wanted).as_slice());
        out.truncate(out.len() - (HALF.len() - escaped.count_ones() as usize));
    }

    /// Each of the lower 32 bits as the first of two.
    #[inline(always)]
    fn firsts(mut bits: u64) -> u64 {
        bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
        bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
        bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
        (bits | bits << 1) & 0x5555_5555_5555_5555
    }

    /// Control characters that have no letter are seldom.
    #[cold]
    fn one_by_one(bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                0x08 => out.extend_from_slice(b"\\b"),
                0x0c => out.extend_from_slice(b"\\f"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                ..b' ' => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                plain => out.push(*plain),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_reads_back_as_it_was(
            text in "\\PC*|[\\x00-\\x7f]*|([a-z\u{e9} ]{0,40}[\"\\\\\n\u{1}]{0,3}){0,12}|[\"\\\\\n\r\t]{0,200}|[\u{1}\"]{0,900}",
        ) {
            let (mut out, mut plain) = (Vec::new(), Vec::new());
            escape(&text, &mut out);
            escape_plainly(&text, &mut plain);
            prop_assert_eq!(&out, &plain, "the same on every processor");
            let quoted = [b"\"", out.as_slice(), b"\""].concat();
            prop_assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
        }
    }
}
