//! Which of 64 bytes are what, as the bits of a word: the lowest is for the first.

use wide::u8x16;

/// As many bytes as a word has bits.
pub(super) const BLOCK: usize = 64;

/// The one before the space.
const LAST_CONTROL: u8 = 0x1f;

/// What is looked at together.
pub(super) type Block = [u8; BLOCK];

/// What JSON is told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) quotes: u64,
    pub(super) backslashes: u64,
    /// What is below a space.
    pub(super) controls: u64,
    /// Spaces, and what is below.
    pub(super) blanks: u64,
    /// Brackets, braces, colons and commas.
    pub(super) structure: u64,
}

/// The marks of a block.
#[inline]
pub(super) fn marks(block: &Block) -> Marks {
    Marks {
        quotes: bits(block, |lane| is(lane, b'"')),
        backslashes: bits(block, |lane| is(lane, b'\\')),
        controls: bits(block, |lane| is_at_most(lane, LAST_CONTROL)),
        blanks: bits(block, |lane| is_at_most(lane, b' ')),
        structure: bits(block, |lane| {
            // Both kinds of brackets differ by one bit alone.
            let curly = lane | u8x16::splat(b'[' ^ b'{');
            is(curly, b'{') | is(curly, b'}') | is(lane, b':') | is(lane, b',')
        }),
    }
}

/// A bit for each byte of a block that is not written as it is inside of a JSON string.
#[inline]
pub(super) fn unplain(block: &Block) -> u64 {
    bits(block, |lane| is(lane, b'"') | is(lane, b'\\') | is_at_most(lane, LAST_CONTROL))
}

/// The control characters that may stand between the parts of a document.
#[inline]
pub(super) fn line_spaces(block: &Block) -> u64 {
    bits(block, |lane| is(lane, b'\n') | is(lane, b'\r') | is(lane, b'\t'))
}

#[inline]
fn is(lane: u8x16, byte: u8) -> u8x16 {
    lane.simd_eq(u8x16::splat(byte))
}

#[inline]
fn is_at_most(lane: u8x16, byte: u8) -> u8x16 {
    lane.min(u8x16::splat(byte)).simd_eq(lane)
}

/// The bits of what comes of sixteen bytes at a time.
#[inline]
fn bits(block: &Block, of: impl Fn(u8x16) -> u8x16) -> u64 {
    let (sixteens, _) = block.as_chunks();
    let words = sixteens.iter().map(|sixteen| u64::from(of(u8x16::new(*sixteen)).to_bitmask()));
    words.enumerate().fold(0, |bits, (index, word)| bits | word << (16 * index))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bits_of(block: &Block, is: fn(u8) -> bool) -> u64 {
        block.iter().enumerate().fold(0, |word, (index, byte)| word | u64::from(is(*byte)) << index)
    }

    /// What a byte is, said plainly.
    fn marks_of(block: &Block) -> Marks {
        let bits = |is| bits_of(block, is);
        Marks {
            quotes: bits(|byte| byte == b'"'),
            backslashes: bits(|byte| byte == b'\\'),
            controls: bits(|byte| byte < 0x20),
            blanks: bits(|byte| byte <= b' '),
            structure: bits(|byte| b"[]{}:,".contains(&byte)),
        }
    }

    proptest! {
        #[test]
        fn a_byte_is_what_it_is(block in proptest::array::uniform32(any::<u16>())) {
            let block: Block = block.map(u16::to_le_bytes).concat().try_into().unwrap();
            let expected = marks_of(&block);
            prop_assert_eq!(marks(&block), expected);
            prop_assert_eq!(line_spaces(&block), expected.controls & bits_of(&block, |byte| b"\t\r\n".contains(&byte)));
            prop_assert_eq!(unplain(&block), expected.quotes | expected.backslashes | expected.controls);
        }
    }

    #[test]
    fn every_byte_is_known() {
        for byte in 0..=u8::MAX {
            assert_eq!(marks(&[byte; BLOCK]), marks_of(&[byte; BLOCK]), "{byte}");
        }
    }
}
