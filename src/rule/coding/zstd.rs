//! `zstd`.

use std::{
    error::Error,
    io::{self, Read},
};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::{Expanded, MEMBER_LIMIT, PART_BYTES, Wrong, nothing_after};
use crate::tool::cut_bytes;

/// How far back data in zstd may point, in bytes; more where the reply itself may be longer (RFC 9659, section 3).
const ZSTD_WINDOW_BYTES: usize = 8 << 20;

pub(super) fn zstd(data: &[u8], out: &mut Expanded) -> Result<(), Wrong> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW_BYTES.max(out.limit_bytes) as u64);
    let mut rest = data;
    let mut part = vec![0; PART_BYTES];
    for frame in 0..MEMBER_LIMIT {
        if frame > 0 && nothing_after(rest).is_ok() {
            return Ok(());
        }
        match decoder.reset(&mut rest) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                rest = usize::try_from(length)
                    .ok()
                    .and_then(|length| rest.get(length..))
                    .ok_or(Wrong::CutOff)?;
                continue;
            }
            Err(error) => return Err(zstd_wrong(&error)),
        }
        loop {
            let length = decoder.read(&mut part).map_err(|error| Wrong::Broken(error.to_string()))?;
            if length > 0 {
                out.add(&part[..length])?;
            } else if decoder.is_finished() {
                break;
            } else {
                let next = BlockDecodingStrategy::UptoBlocks(1);
                decoder.decode_blocks(&mut rest, next).map_err(|error| zstd_wrong(&error))?;
            }
        }
        if let Some(expected) = decoder.get_checksum_from_data()
            && decoder.get_calculated_checksum() != Some(expected)
        {
            return Err(Wrong::Broken("the checksum is not that of the data".to_owned()));
        }
    }
    match nothing_after(rest) {
        Ok(()) => Ok(()),
        Err(_) => Err(Wrong::Broken(format!("more than {MEMBER_LIMIT} frames"))),
    }
}

fn zstd_wrong(error: &FrameDecoderError) -> Wrong {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if inner.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::UnexpectedEof) {
            return Wrong::CutOff;
        }
        cause = inner.source();
    }
    Wrong::Broken(match error {
        FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::BadMagicNumber(_)) => {
            "it does not begin as zstd does".to_owned()
        }
        other => cut_bytes(&other.to_string(), 200),
    })
}
