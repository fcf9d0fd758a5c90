//! Whether a path leads out of its place, however the server that is asked reads it.

use percent_encoding::percent_decode;

/// How often servers decode a path before they walk along it: once, and once more by what stands behind them.
const DECODINGS: usize = 3;

/// What servers of long ago take for `.`, `/` and `\`: UTF-8 that is longer than it needs to be (RFC 3629, section 10).
const OVERLONG: [(&[u8], u8); 6] = [
    (&[0xc0, 0xae], b'.'),
    (&[0xc0, 0xaf], b'/'),
    (&[0xc1, 0x9c], b'\\'),
    (&[0xe0, 0x80, 0xae], b'.'),
    (&[0xe0, 0x80, 0xaf], b'/'),
    (&[0xe0, 0x81, 0x9c], b'\\'),
];

/// Whether some server would go up a folder by this path, or take it to end early.
///
/// `..%2Fx` is one segment by the letter (RFC 3986, section 2.2), and nginx, as others do, decodes it before it looks for
/// `..`; so it is read here in every way in which it is read elsewhere: decoded once and again, cut at `\` as well as at
/// `/`, without what follows a `;`, a `?` or a `#`, and to the end at a zero byte, where C ends it.
pub fn leads_out(path: &str) -> bool {
    if !path.contains('%') && !path.contains("..") {
        return false;
    }
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..DECODINGS {
        if goes_up(&bytes) {
            return true;
        }
        let decoded: Vec<u8> = percent_decode(&bytes).collect();
        if decoded == bytes {
            return false;
        }
        bytes = shortened(&decoded);
    }
    goes_up(&bytes)
}

fn goes_up(path: &[u8]) -> bool {
    let is_up = |segment: &[u8]| {
        let name = segment.split(|byte| matches!(byte, b';' | b'?' | b'#')).next().unwrap_or_default();
        name.trim_ascii() == b".."
    };
    path.contains(&0) || path.split(|byte| matches!(byte, b'/' | b'\\')).any(is_up)
}

fn shortened(bytes: &[u8]) -> Vec<u8> {
    let mut short = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let overlong = OVERLONG.iter().find(|(long, _)| rest.starts_with(long));
        (rest, _) = match overlong {
            Some((long, plain)) => (&rest[long.len()..], short.push(*plain)),
            None => (after, short.push(first)),
        };
    }
    short
}

#[cfg(test)]
mod tests {
    use super::leads_out;

    #[test]
    fn every_way_up_is_seen() {
        for path in [
            "/a/../b",
            "/..",
            "/a/%2e%2E/b",
            "/a/.%2e",
            "/a/..%2Fb",
            "/a/b%2f..%2fc",
            "/a/..%5Cb",
            "/a\\..\\b",
            "/a/..;x=1/b",
            "/a/..%3Bx/b",
            "/a/..%3Fx/b",
            "/a/..%2523",
            "/a/%252e%252e%252fb",
            "/a/..%252fb",
            "/a/%c0%ae%c0%ae/b",
            "/a/..%c0%afb",
            "/a/..%e0%80%afb",
            "/a/..%c1%9cb",
            "/a/..%20/b",
            "/a%00.txt",
            "/a%2500.txt",
        ] {
            assert!(leads_out(path), "{path}");
        }
    }

    #[test]
    fn what_stays_is_left_alone() {
        for path in [
            "/",
            "/a/b.txt",
            "/a..b/c",
            "/a/...",
            "/a/..b/b..",
            "/a/what%3F/b",
            "/group%2Fproject/file%20name.tar.gz",
            "/100%25/a%2Fb",
            "/a/.well-known/b",
            "/a/./b",
            "/S%C3%A3o%20Paulo",
            "/%C0%E9%AE",
            "/a;v=1..2/b",
            "/50%",
        ] {
            assert!(!leads_out(path), "{path}");
        }
    }
}
