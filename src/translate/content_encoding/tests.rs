//! Every coding there and back, cut off, broken, and beyond its limit.

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

fn expanded(coding: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    expanded_within(LIMIT, coding, body)
}

fn expanded_within(limit: usize, coding: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_ENCODING, coding.parse().unwrap());
    let reply = Reply::new(StatusCode::OK, headers, Bytes::copy_from_slice(body));
    expand(&reply, limit).map(|bytes| bytes.to_vec()).map_err(|why| why.to_string())
}

#[track_caller]
fn check(coding: &str, body: &[u8], expected: Result<&str, &str>) {
    match (expanded(coding, body), expected) {
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

/// `hello` and a line end, as one part that is not compressed.
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
fn every_coding_is_undone() {
    for (coding, body) in samples(b"temp: 5\n") {
        check(coding, &body, Ok("temp: 5\n"));
    }
    check("br", HELLO_IN_BROTLI, Ok("hello\n"));
    check("X-Gzip", &gzipped(b"x"), Ok("x"));
    check("identity", b"temp: 5\n", Ok("temp: 5\n"));
    check("", b"x", Ok("x"));
}

#[test]
fn several_codings_are_undone_from_the_last_to_the_first() {
    check("deflate, gzip", &gzipped(&zlibbed(b"x")), Ok("x"));
    check("gzip , identity,deflate,zstd", &zstandard(&zlibbed(&gzipped(b"x"))), Ok("x"));
    check("gzip, gzip, gzip, gzip", b"x", Err("expected at most 3 codings"));
}

#[test]
fn members_and_frames_that_follow_each_other_are_one_document() {
    check("gzip", &[gzipped(b"a"), gzipped(b"b"), vec![0; 9]].concat(), Ok("ab"));
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0xyz".to_vec();
    check("zstd", &[skipped.clone(), zstandard(b"a"), skipped, zstandard(b"b")].concat(), Ok("ab"));
    let many = gzipped(b"").repeat(MEMBER_LIMIT + 1);
    check("gzip", &many, Err("more than 10000 members"));
    check("zstd", &zstandard(b"").repeat(MEMBER_LIMIT + 1), Err("more than 10000 frames"));
    for (coding, mut body) in samples(b"a") {
        body.extend(b"\r\n");
        check(coding, &body, Ok("a"));
        body.extend(b"<!-- -->");
        assert!(expanded(coding, &body).is_err(), "{coding}");
    }
}

#[test]
fn an_empty_body_was_never_compressed() {
    check("gzip", b"", Ok(""));
    check("compress", b"", Ok(""));
}

#[test]
fn what_is_cut_off_broken_or_unknown_says_so() {
    for (coding, body) in samples("Tromsø, Bodø, Vardø, Alta".as_bytes()) {
        for length in 1..body.len() {
            let error = expanded(coding, &body[..length]).unwrap_err();
            assert!(error.starts_with(&format!("expected data in {coding}")), "{error}");
        }
        check(coding, &body[..body.len() - 2], Err("breaks off"));
        check(coding, b"temp: 5 degrees and nothing else\n", Err("found what is none"));
    }
    check("br", &HELLO_IN_BROTLI[..6], Err("expected data in br, found data that breaks off after 6 bytes"));
    check(
        "br",
        b"\xff\xff\xff\xff\xff",
        Err("expected data in br, as `Content-Encoding` says, found what is none"),
    );
    check("compress", b"x", Err("of gzip, deflate, br, zstd or identity, found `compress`"));
    let mut tampered = gzipped(b"temp: 5\n");
    let at = tampered.len() - 6;
    tampered[at] ^= 1;
    check("gzip", &tampered, Err("found what is none"));
    let mut tampered = zstandard(b"temp: 5\n");
    let last = tampered.len() - 1;
    tampered[last] ^= 1;
    check("zstd", &tampered, Err("the checksum is not that of the data"));
}

/// A frame of many blocks, each of one byte that stands for 128 KiB (RFC 8878, section 3.1.1.2).
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
    let path = format!("{}/tests/golden/{case}/reply.http", env!("CARGO_MANIFEST_DIR"));
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    Reply::from_recording(&bytes).unwrap().body.to_vec()
}

#[test]
fn a_gigabyte_in_a_small_file_is_refused_where_the_limit_is() {
    let bombs = [("zstd", bomb_in_zstandard(8192)), ("br", recorded("compressed_bomb_br"))];
    for (coding, body) in bombs {
        assert!(body.len() < 40_000, "{coding}");
        let begun = Instant::now();
        check(coding, &body, Err("at most 1000 bytes, which is its `reply_limit`, found more once"));
        // A gigabyte takes ten times as long, and more.
        assert!(begun.elapsed() < Duration::from_secs(2), "{coding}: {:?}", begun.elapsed());
    }
    let whole = expanded_within(2 << 20, "zstd", &bomb_in_zstandard(16)).unwrap();
    assert!(whole.len() == 2 << 20 && whole.iter().all(|byte| *byte == b'a'));
}

#[test]
fn nothing_expands_beyond_the_limit() {
    for (coding, body) in samples(&[b'a'; LIMIT]) {
        check(coding, &body, Ok(&"a".repeat(LIMIT)));
    }
    for (coding, body) in samples(&[b'a'; LIMIT + 1]) {
        check(coding, &body, Err("at most 1000 bytes, which is its `reply_limit`, found more once"));
    }
    for (coding, body) in samples(&vec![b'a'; 2_000_000]) {
        check(coding, &body, Err("`reply_limit`"));
    }
    check("br", BOMB_IN_BROTLI, Err("found more once br was undone"));
}
