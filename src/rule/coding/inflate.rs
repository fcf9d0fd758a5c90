//! `gzip` and `deflate`, which are one way to compress in two wrappings.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status, bufread::GzDecoder};

use super::{Expanded, MEMBER_LIMIT, PART_BYTES, Wrong, nothing_after};

pub(super) fn gzip(data: &[u8], out: &mut Expanded) -> Result<(), Wrong> {
    let mut rest = data;
    let mut part = vec![0; PART_BYTES];
    for _ in 0..MEMBER_LIMIT {
        let mut member = GzDecoder::new(&mut rest);
        loop {
            match member.read(&mut part) {
                Ok(0) => break,
                Ok(length) => out.add(&part[..length])?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Wrong::CutOff),
                Err(error) => return Err(Wrong::Broken(error.to_string())),
            }
        }
        // One member after the other is one document (RFC 1952, section 2.2).
        if !rest.starts_with(&[0x1f, 0x8b]) {
            return nothing_after(rest);
        }
    }
    Err(Wrong::Broken(format!("more than {MEMBER_LIMIT} members")))
}

/// In the wrapping of zlib (RFC 1950), as it should be, or without, as it was sent for years (RFC 9110, section
/// 8.4.1.2).
pub(super) fn deflate(data: &[u8], out: &mut Expanded) -> Result<(), Wrong> {
    let wrapped = matches!(data, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0);
    if !wrapped {
        return inflate(data, false, out);
    }
    match inflate(data, true, out) {
        Err(Wrong::Broken(what)) => {
            // Data without the wrapping may by chance begin like one.
            out.bytes.clear();
            inflate(data, false, out).map_err(|_| Wrong::Broken(what))
        }
        other => other,
    }
}

fn inflate(data: &[u8], wrapped: bool, out: &mut Expanded) -> Result<(), Wrong> {
    let mut decoder = Decompress::new(wrapped);
    let mut rest = data;
    let mut part = vec![0; PART_BYTES];
    loop {
        let (read_before, made_before) = (decoder.total_in(), decoder.total_out());
        let status = decoder
            .decompress(rest, &mut part, FlushDecompress::None)
            .map_err(|error| Wrong::Broken(error.to_string()))?;
        // Both are at most the length of a slice.
        let read = (decoder.total_in() - read_before) as usize;
        let made = (decoder.total_out() - made_before) as usize;
        out.add(&part[..made])?;
        rest = &rest[read..];
        match status {
            Status::StreamEnd => return nothing_after(rest),
            Status::Ok | Status::BufError if read == 0 && made == 0 => return Err(Wrong::CutOff),
            Status::Ok | Status::BufError => {}
        }
    }
}
