//! Decompression of response bodies, by `Content-Encoding`.

use std::{
    error::Error,
    io::{self, ErrorKind, Write},
};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status, bufread::GzDecoder};
use http::header;
use ruzstd::decoding::{
    FrameDecoder, StreamingDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};
use settings_derive::EnumSetting;

use super::read_error::{ReadError, at_most};
use crate::model::{LimitedWriter, UpstreamResponse, cut_bytes};
use crate::settings::EnumSetting as _;

/// Maximum number of encodings of one body; no server needs more.
const ENCODING_LIMIT: usize = 3;

/// Maximum number of consecutive gzip members or zstd frames of one body: each one allocates tables, even a
/// short one.
const MEMBER_LIMIT: usize = 10_000;

/// Returns the decompressed body of a response; a body without an encoding is returned without a copy.
///
/// # Errors
///
/// A message that names the encoding and the problem: the encoding is unknown, or the data is truncated,
/// corrupt or longer than `limit_bytes`.
pub(super) fn decompress(response: &UpstreamResponse, limit_bytes: usize) -> Result<Bytes, ReadError> {
    // A response without a body (a 204, or the response to HEAD) may still have `Content-Encoding`.
    if response.body.is_empty() {
        return Ok(Bytes::new());
    }
    let mut body = response.body.clone();
    // Encodings are listed in the order in which they were applied.
    for encoding in encodings(response)?.into_iter().rev() {
        body = decode(encoding, &body, limit_bytes).map_err(ReadError::unquoted)?;
    }
    Ok(body)
}

/// Content encoding (RFC 9110, section 8.4.1; RFC 7932; RFC 8878).
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
enum ContentEncoding {
    Gzip,
    Deflate,
    #[value("br")]
    Brotli,
    Zstd,
}

/// Classifies the error of a decoder, or of the limited writer that receives its output: data that is too
/// long, data that ends early, or invalid data.
fn kind_of(error: &io::Error) -> ErrorKind {
    let first: &(dyn Error + 'static) = error;
    let mut kinds = std::iter::successors(Some(first), |&error| error.source())
        .filter_map(|error| error.downcast_ref().map(io::Error::kind));
    let is_known = |kind: &ErrorKind| matches!(kind, ErrorKind::FileTooLarge | ErrorKind::UnexpectedEof);
    kinds.find(is_known).unwrap_or(ErrorKind::InvalidData)
}

/// Encodings that `Content-Encoding` lists, in order, without `identity`.
fn encodings(response: &UpstreamResponse) -> Result<Vec<ContentEncoding>, ReadError> {
    const MAX_SHOWN: usize = 40;
    let mut found = Vec::new();
    for value in response.headers.get_all(header::CONTENT_ENCODING) {
        for name in value.as_bytes().split(|byte| *byte == b',') {
            let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
            let name = if name == "x-gzip" { "gzip" } else { &name };
            if matches!(name, "" | "identity") {
                continue;
            }
            let Some(encoding) = ContentEncoding::from_name(name) else {
                let expected = "expected a `Content-Encoding` of gzip, deflate, br, zstd or identity, found ";
                return Err(ReadError::with_quote(MAX_SHOWN, expected, name));
            };
            found.push(encoding);
            at_most(ENCODING_LIMIT, found.len(), "encodings in `Content-Encoding`")?;
        }
    }
    Ok(found)
}

fn decode(encoding: ContentEncoding, data: &[u8], limit_bytes: usize) -> Result<Bytes, String> {
    const MAX_SHOWN_BYTES: usize = 200;
    let mut out = LimitedWriter::new(limit_bytes);
    let decoded = match encoding {
        ContentEncoding::Gzip => gzip(data, &mut out),
        ContentEncoding::Deflate => match inflate(data, true, &mut out) {
            // Some servers send raw deflate data, without the zlib wrapper (RFC 9110, section 8.4.1.2).
            Err(error) if kind_of(&error) == ErrorKind::InvalidData => {
                out = LimitedWriter::new(limit_bytes);
                inflate(data, false, &mut out)
            }
            other => other,
        },
        ContentEncoding::Brotli => brotli(data, &mut out),
        ContentEncoding::Zstd => zstd(data, limit_bytes, &mut out),
    };
    let Err(error) = decoded else { return Ok(out.written.into()) };
    let name = encoding.as_str();
    Err(match kind_of(&error) {
        ErrorKind::FileTooLarge => {
            format!(
                "the response is longer than {limit_bytes} bytes (`response_limit`) after {name} decoding"
            )
        }
        ErrorKind::UnexpectedEof => {
            format!("expected data in {name}, found data that ends early, after {} bytes", data.len())
        }
        _ => format!(
            "expected data in {name}, as `Content-Encoding` declares, found invalid data: {}",
            cut_bytes(&error.to_string(), MAX_SHOWN_BYTES)
        ),
    })
}

/// Accepts zero bytes and line ends after the data, which some servers append; anything else is an error.
fn check_trailing(rest: &[u8]) -> io::Result<()> {
    match rest.iter().all(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} bytes of trailing data", rest.len()))),
    }
}

fn gzip(data: &[u8], out: &mut LimitedWriter) -> io::Result<()> {
    let mut rest = data;
    for _ in 0..MEMBER_LIMIT {
        io::copy(&mut GzDecoder::new(&mut rest), out)?;
        // Consecutive members belong to one document (RFC 1952, section 2.2).
        if !rest.starts_with(&[0x1f, 0x8b]) {
            return check_trailing(rest);
        }
    }
    Err(io::Error::other(format!("more than {MEMBER_LIMIT} members")))
}

/// Runs a decoder up to the end that its data declares. Each `step` decodes input into a buffer, and returns
/// the numbers of bytes read and written, and whether the end was reached.
fn decode_in_steps(
    mut data: &[u8],
    out: &mut LimitedWriter,
    mut step: impl FnMut(&[u8], &mut [u8]) -> io::Result<(usize, usize, bool)>,
) -> io::Result<()> {
    const BUFFER_BYTES: usize = 32 << 10;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let (consumed, produced, is_end) = step(data, &mut buffer)?;
        out.write_all(&buffer[..produced])?;
        data = &data[consumed..];
        if is_end {
            return check_trailing(data);
        }
        if consumed == 0 && produced == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

// Does not use flate2's reader, which reports success at the end of truncated data.
fn inflate(data: &[u8], is_wrapped: bool, out: &mut LimitedWriter) -> io::Result<()> {
    let mut decoder = Decompress::new(is_wrapped);
    decode_in_steps(data, out, |data, buffer| {
        let totals_before = (decoder.total_in(), decoder.total_out());
        let status = decoder.decompress(data, buffer, FlushDecompress::None).map_err(io::Error::other)?;
        // Each count is at most the length of a slice, so it fits into `usize`.
        let (consumed, produced) =
            (decoder.total_in() - totals_before.0, decoder.total_out() - totals_before.1);
        Ok((consumed as usize, produced as usize, status == Status::StreamEnd))
    })
}

// Does not use the crate's reader, which accepts windows beyond the 16 MiB of RFC 7932 (a non-standard
// extension).
fn brotli(data: &[u8], out: &mut LimitedWriter) -> io::Result<()> {
    let memory = StandardAlloc::default;
    let mut state = BrotliState::new_strict(memory(), memory(), memory());
    decode_in_steps(data, out, |data, buffer| {
        let (mut available_in, mut consumed) = (data.len(), 0);
        let (mut available_out, mut produced, mut total) = (buffer.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut consumed,
            data,
            &mut available_out,
            &mut produced,
            buffer,
            &mut total,
            &mut state,
        );
        match result {
            BrotliResult::ResultFailure => Err(io::Error::other("corrupt Brotli stream")),
            result => Ok((consumed, produced, matches!(result, BrotliResult::ResultSuccess))),
        }
    })
}

/// Maximum zstd window, in bytes (RFC 9659, section 3). The response limit is the maximum if it is higher.
const ZSTD_WINDOW_BYTES: usize = 8 << 20;

fn zstd(data: &[u8], limit_bytes: usize, out: &mut LimitedWriter) -> io::Result<()> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW_BYTES.max(limit_bytes) as u64);
    let mut rest = data;
    for frame in 0..MEMBER_LIMIT {
        if frame > 0 && check_trailing(rest).is_ok() {
            return Ok(());
        }
        match StreamingDecoder::new_with_decoder(&mut rest, &mut decoder) {
            Ok(mut frame) => io::copy(&mut frame, out)?,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let after = usize::try_from(length).ok().and_then(|length| rest.get(length..));
                rest = after.ok_or(ErrorKind::UnexpectedEof)?;
                continue;
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        if let Some(expected) = decoder.get_checksum_from_data()
            && decoder.get_calculated_checksum() != Some(expected)
        {
            return Err(io::Error::other("checksum mismatch"));
        }
    }
    check_trailing(rest).map_err(|_| io::Error::other(format!("more than {MEMBER_LIMIT} frames")))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        time::{Duration, Instant},
    };

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };
    use http::{HeaderMap, StatusCode};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const LIMIT: usize = 1000;

    fn decompressed(encoding: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        decompressed_within(LIMIT, encoding, body)
    }

    fn decompressed_within(limit: usize, encoding: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
        let response = UpstreamResponse::new(StatusCode::OK, headers, Bytes::copy_from_slice(body));
        decompress(&response, limit).map(|bytes| bytes.to_vec()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(encoding: &str, body: &[u8], expected: Result<&str, &str>) {
        match (decompressed(encoding, body), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(String::from_utf8(found).unwrap(), expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    fn gzipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlibbed(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn deflated(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstandard(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    /// `hello` and a line end, as one uncompressed block.
    const HELLO_IN_BROTLI: &[u8] = b"\x8f\x02\x80hello\n\x03";
    /// A million times `a`.
    const BOMB_IN_BROTLI: &[u8] = b"\x5f\x3f\x42\x8f\x5f\x22\x2c\x1e\x0b\x04\xf2\x73\x1e\x00";

    fn samples(text: &[u8]) -> [(&'static str, Vec<u8>); 4] {
        [
            ("gzip", gzipped(text)),
            ("deflate", zlibbed(text)),
            ("deflate", deflated(text)),
            ("zstd", zstandard(text)),
        ]
    }

    #[test]
    fn every_encoding_is_decoded() {
        for (encoding, body) in samples(b"temp: 5\n") {
            check(encoding, &body, Ok("temp: 5\n"));
        }
        check("br", HELLO_IN_BROTLI, Ok("hello\n"));
        check("X-Gzip", &gzipped(b"x"), Ok("x"));
        check("identity", b"temp: 5\n", Ok("temp: 5\n"));
        check("", b"x", Ok("x"));
    }

    #[test]
    fn several_encodings_are_decoded_from_the_last_to_the_first() {
        check("deflate, gzip", &gzipped(&zlibbed(b"x")), Ok("x"));
        check("gzip , identity,deflate,zstd", &zstandard(&zlibbed(&gzipped(b"x"))), Ok("x"));
        check("gzip, gzip, gzip, gzip", b"x", Err("expected at most 3 encodings"));
    }

    #[test]
    fn members_and_frames_that_follow_each_other_are_one_document() {
        check("gzip", &[gzipped(b"a"), gzipped(b"b"), vec![0; 9]].concat(), Ok("ab"));
        let skippable_frame = b"\x50\x2a\x4d\x18\x03\0\0\0xyz".to_vec();
        check(
            "zstd",
            &[skippable_frame.clone(), zstandard(b"a"), skippable_frame, zstandard(b"b")].concat(),
            Ok("ab"),
        );
        let many = gzipped(b"").repeat(MEMBER_LIMIT + 1);
        check("gzip", &many, Err("more than 10000 members"));
        check("zstd", &zstandard(b"").repeat(MEMBER_LIMIT + 1), Err("more than 10000 frames"));
        for (encoding, mut body) in samples(b"a") {
            body.extend(b"\r\n");
            check(encoding, &body, Ok("a"));
            body.extend(b"<!-- -->");
            assert!(decompressed(encoding, &body).is_err(), "{encoding}");
        }
    }

    #[test]
    fn an_empty_body_was_never_compressed() {
        check("gzip", b"", Ok(""));
        check("compress", b"", Ok(""));
    }

    #[test]
    fn truncated_corrupt_and_unknown_encodings_are_errors() {
        for (encoding, body) in samples("Tromsø, Bodø, Vardø, Alta".as_bytes()) {
            for length in 1..body.len() {
                let error = decompressed(encoding, &body[..length]).unwrap_err();
                assert!(error.starts_with(&format!("expected data in {encoding}")), "{error}");
            }
            check(encoding, &body[..body.len() - 2], Err("ends early"));
            check(encoding, b"temp: 5 degrees and nothing else\n", Err("found invalid data"));
        }
        check(
            "br",
            &HELLO_IN_BROTLI[..6],
            Err("expected data in br, found data that ends early, after 6 bytes"),
        );
        check(
            "br",
            b"\xff\xff\xff\xff\xff",
            Err("expected data in br, as `Content-Encoding` declares, found invalid data"),
        );
        check("compress", b"x", Err("of gzip, deflate, br, zstd or identity, found `compress`"));
        let mut tampered = gzipped(b"temp: 5\n");
        let at = tampered.len() - 6;
        tampered[at] ^= 1;
        check("gzip", &tampered, Err("found invalid data"));
        let mut tampered = zstandard(b"temp: 5\n");
        let last = tampered.len() - 1;
        tampered[last] ^= 1;
        check("zstd", &tampered, Err("checksum mismatch"));
    }

    /// A frame of many blocks, each of one byte that represents 128 KiB (RFC 8878, section 3.1.1.2).
    fn bomb_in_zstandard(blocks: usize) -> Vec<u8> {
        let block = |is_last: usize| ((128 << 10) << 3 | 0b010 | is_last).to_le_bytes()[..3].to_vec();
        // No size, no checksum; a window of 128 KiB.
        let mut frame = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
        for index in 1..=blocks {
            frame.extend(block(usize::from(index == blocks)));
            frame.push(b'a');
        }
        frame
    }

    /// The body of a recording in `tests/golden`.
    fn recorded(case: &str) -> Vec<u8> {
        let path = format!("{}/tests/golden/{case}/response.http", env!("CARGO_MANIFEST_DIR"));
        let bytes = Bytes::from(std::fs::read(path).unwrap());
        UpstreamResponse::from_recording(&bytes).unwrap().body.to_vec()
    }

    #[test]
    fn a_gigabyte_in_a_small_file_is_rejected_at_the_limit() {
        let bombs = [("zstd", bomb_in_zstandard(8192)), ("br", recorded("compressed_bomb_br"))];
        for (encoding, body) in bombs {
            assert!(body.len() < 40_000, "{encoding}");
            let started = Instant::now();
            check(encoding, &body, Err("longer than 1000 bytes (`response_limit`) after"));
            // A gigabyte takes ten times as long, and more.
            assert!(started.elapsed() < Duration::from_secs(2), "{encoding}: {:?}", started.elapsed());
        }
        let output = decompressed_within(2 << 20, "zstd", &bomb_in_zstandard(16)).unwrap();
        assert!(output.len() == 2 << 20 && output.iter().all(|byte| *byte == b'a'));
    }

    #[test]
    fn nothing_is_decompressed_beyond_the_limit() {
        for (encoding, body) in samples(&[b'a'; LIMIT]) {
            check(encoding, &body, Ok(&"a".repeat(LIMIT)));
        }
        for (encoding, body) in samples(&[b'a'; LIMIT + 1]) {
            check(encoding, &body, Err("longer than 1000 bytes (`response_limit`) after"));
        }
        for (encoding, body) in samples(&vec![b'a'; 2_000_000]) {
            check(encoding, &body, Err("`response_limit`"));
        }
        check("br", BOMB_IN_BROTLI, Err("after br decoding"));
    }
}
