//! `br`.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{Expanded, PART_BYTES, Wrong, nothing_after};

pub(super) fn brotli(data: &[u8], out: &mut Expanded) -> Result<(), Wrong> {
    let memory = StandardAlloc::default;
    // Strict: windows beyond the 16 MiB of RFC 7932 are somebody's own extension.
    let mut state = BrotliState::new_strict(memory(), memory(), memory());
    let (mut left, mut position, mut total) = (data.len(), 0, 0);
    let mut part = vec![0; PART_BYTES];
    loop {
        let (mut room, mut made) = (part.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut position,
            data,
            &mut room,
            &mut made,
            &mut part,
            &mut total,
            &mut state,
        );
        out.add(&part[..made])?;
        match result {
            BrotliResult::ResultSuccess => return nothing_after(&data[position..]),
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput => return Err(Wrong::CutOff),
            BrotliResult::ResultFailure => {
                return Err(Wrong::Broken(format!("no such code at byte {position}")));
            }
        }
    }
}
