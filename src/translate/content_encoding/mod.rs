//! Compressed bodies to bytes: what `Content-Encoding` says is undone.

use std::{
    error::Error,
    io::{self, Write},
};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status, bufread::GzDecoder};
use http::header;
use ruzstd::decoding::{
    FrameDecoder, StreamingDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::why::Why;
use crate::model::{LimitedWriter, Reply, cut_bytes};

/// How many codings may lie on each other; more are nobody's wish.
const CODING_LIMIT: usize = 3;

/// How many members of gzip, or frames of zstd, may follow each other: each costs tables, however short it
/// is.
const MEMBER_LIMIT: usize = 10_000;

/// The bytes of a reply's body as they were before they were compressed; the body's own when they never were.
///
/// # Errors
///
/// A sentence that names the coding and says what is wrong: it is unknown, or the data is cut off, broken or
/// longer than `limit_bytes`.
pub(super) fn expand(reply: &Reply, limit_bytes: usize) -> Result<Bytes, Why> {
    // What has no content (a 204, the answer to HEAD) may still say how it would be compressed.
    if reply.body.is_empty() {
        return Ok(Bytes::new());
    }
    let mut body = reply.body.clone();
    // They were applied in the order in which they are named.
    for coding in codings(reply)?.into_iter().rev() {
        body = undo(coding, &body, limit_bytes).map_err(Why::plainly)?;
    }
    Ok(body)
}

/// The names of the codings that are undone, in that order; nothing for a body that was never compressed.
pub(super) fn names(reply: &Reply) -> Option<String> {
    let codings = codings(reply).ok().filter(|codings| !codings.is_empty() && !reply.body.is_empty())?;
    Some(codings.iter().rev().map(|coding| coding.name()).collect::<Vec<_>>().join(", then "))
}

/// A way to compress (RFC 9110, section 8.4.1; RFC 7932; RFC 8878).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// Why data could not be expanded.
#[derive(Debug)]
enum Wrong {
    TooLong,
    CutOff,
    Broken(String),
}

/// Of a decoder, or of the writer that takes what it gives.
impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        const LONGEST_SHOWN_BYTES: usize = 200;
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            match inner.downcast_ref().map(io::Error::kind) {
                Some(io::ErrorKind::FileTooLarge) => return Self::TooLong,
                Some(io::ErrorKind::UnexpectedEof) => return Self::CutOff,
                _ => cause = inner.source(),
            }
        }
        Self::Broken(cut_bytes(&error.to_string(), LONGEST_SHOWN_BYTES))
    }
}

/// The codings that `Content-Encoding` names, in order; `identity` is none.
fn codings(reply: &Reply) -> Result<Vec<Coding>, Why> {
    const LONGEST_SHOWN_BYTES: usize = 40;
    let mut codings = Vec::new();
    for value in reply.headers.get_all(header::CONTENT_ENCODING) {
        for name in value.as_bytes().split(|byte| *byte == b',') {
            let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
            codings.push(match name.as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                "zstd" => Coding::Zstd,
                _ => {
                    let expected = "expected a `Content-Encoding` of gzip, deflate, br, zstd or identity";
                    let found = cut_bytes(&name, LONGEST_SHOWN_BYTES);
                    return Err(Why::new(
                        format!("{expected}, found `{found}`"),
                        format!("{expected}, found text of {} bytes", name.len()),
                    ));
                }
            });
            if codings.len() > CODING_LIMIT {
                return Err(Why::plainly(format!(
                    "expected at most {CODING_LIMIT} codings in `Content-Encoding`, found more"
                )));
            }
        }
    }
    Ok(codings)
}

fn undo(coding: Coding, data: &[u8], limit_bytes: usize) -> Result<Bytes, String> {
    let mut out = LimitedWriter::new(limit_bytes);
    let undone = match coding {
        Coding::Gzip => gzip(data, &mut out),
        Coding::Deflate if is_zlib(data) => match inflate(data, true, &mut out) {
            Err(Wrong::Broken(what)) => {
                // Data without the wrapping may by chance begin like one.
                out = LimitedWriter::new(limit_bytes);
                inflate(data, false, &mut out).map_err(|_| Wrong::Broken(what))
            }
            other => other,
        },
        Coding::Deflate => inflate(data, false, &mut out),
        Coding::Brotli => brotli(data, &mut out),
        Coding::Zstd => zstd(data, limit_bytes, &mut out),
    };
    let name = coding.name();
    match undone {
        Ok(()) => Ok(out.into_bytes().into()),
        Err(Wrong::TooLong) => Err(format!(
            "expected a reply of at most {limit_bytes} bytes, which is its `reply_limit`, found more once {name} was undone"
        )),
        Err(Wrong::CutOff) => {
            Err(format!("expected data in {name}, found data that breaks off after {} bytes", data.len()))
        }
        Err(Wrong::Broken(what)) => {
            Err(format!("expected data in {name}, as `Content-Encoding` says, found what is none: {what}"))
        }
    }
}

/// Padding and a line end after the data are somebody's habit; anything else is not.
fn nothing_after(rest: &[u8]) -> Result<(), Wrong> {
    match rest.iter().all(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        true => Ok(()),
        false => Err(Wrong::Broken(format!("{} bytes follow its end", rest.len()))),
    }
}

fn gzip(data: &[u8], out: &mut LimitedWriter) -> Result<(), Wrong> {
    let mut rest = data;
    for _ in 0..MEMBER_LIMIT {
        io::copy(&mut GzDecoder::new(&mut rest), out)?;
        // One member after the other is one document (RFC 1952, section 2.2).
        if !rest.starts_with(&[0x1f, 0x8b]) {
            return nothing_after(rest);
        }
    }
    Err(Wrong::Broken(format!("more than {MEMBER_LIMIT} members")))
}

/// Whether `deflate` is in the wrapping of zlib (RFC 1950), as it should be, and not without, as it was sent
/// for years (RFC 9110, section 8.4.1.2).
fn is_zlib(data: &[u8]) -> bool {
    matches!(data, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0)
}

/// How much is expanded in one go, in bytes.
const PART_BYTES: usize = 32 << 10;

// Not by the reader that flate2 has: data that is cut off ends there as whole data does.
fn inflate(data: &[u8], wrapped: bool, out: &mut LimitedWriter) -> Result<(), Wrong> {
    let mut decoder = Decompress::new(wrapped);
    let mut part = vec![0; PART_BYTES];
    loop {
        let (read_before, made_before) = (decoder.total_in(), decoder.total_out());
        // Each is at most the length of a slice.
        let status = decoder
            .decompress(&data[read_before as usize..], &mut part, FlushDecompress::None)
            .map_err(|error| Wrong::Broken(error.to_string()))?;
        let (read, made) = (decoder.total_in(), (decoder.total_out() - made_before) as usize);
        out.write_all(&part[..made])?;
        match status {
            Status::StreamEnd => return nothing_after(&data[read as usize..]),
            Status::Ok | Status::BufError if read == read_before && made == 0 => return Err(Wrong::CutOff),
            Status::Ok | Status::BufError => {}
        }
    }
}

// Not by the reader that the crate has: it takes windows beyond the 16 MiB of RFC 7932, which are somebody's
// own extension.
fn brotli(data: &[u8], out: &mut LimitedWriter) -> Result<(), Wrong> {
    let memory = StandardAlloc::default;
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
        out.write_all(&part[..made])?;
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

/// How far back data in zstd may point, in bytes; more where the reply itself may be longer (RFC 9659,
/// section 3).
const ZSTD_WINDOW_BYTES: usize = 8 << 20;

fn zstd(data: &[u8], limit_bytes: usize, out: &mut LimitedWriter) -> Result<(), Wrong> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW_BYTES.max(limit_bytes) as u64);
    let mut rest = data;
    for frame in 0..MEMBER_LIMIT {
        if frame > 0 && nothing_after(rest).is_ok() {
            return Ok(());
        }
        match StreamingDecoder::new_with_decoder(&mut rest, &mut decoder) {
            Ok(mut frame) => io::copy(&mut frame, out)?,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let after = usize::try_from(length).ok().and_then(|length| rest.get(length..));
                rest = after.ok_or(Wrong::CutOff)?;
                continue;
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::BadMagicNumber(_))) => {
                return Err(Wrong::Broken("it does not begin as zstd does".to_owned()));
            }
            Err(error) => return Err(io::Error::other(error).into()),
        };
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

#[cfg(test)]
mod tests;
