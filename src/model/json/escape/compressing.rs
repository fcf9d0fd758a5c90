//! Escapes where the processor can leave bytes out of a vector (AVX-512 VBMI2: servers from about 2020 on).

use fearless_simd::{Avx512, Simd, mask8x64, prelude::*, u8x32};

use super::control;

/// What is written together: as many bytes as have room with a backslash before each. Blanks, in which a text ends early.
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
            ..b' ' => {
                let (escape, length) = control(*byte);
                out.extend_from_slice(&escape[..length]);
            }
            plain => out.push(*plain),
        }
    }
}
