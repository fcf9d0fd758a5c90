//! Compressed bodies to bytes: what `Content-Encoding` says is undone.

mod brotli;
mod inflate;
mod zstd;

use std::cell::OnceCell;

use bytes::Bytes;
use http::header;

use self::{
    brotli::brotli,
    inflate::{deflate, gzip},
    zstd::zstd,
};
use super::why::Why;
use crate::{reply::Reply, tool::cut_bytes};

/// How many codings may lie on each other; more are nobody's wish.
const CODING_LIMIT: usize = 3;

/// How many members of gzip, or frames of zstd, may follow each other: each costs tables, however short it is.
const MEMBER_LIMIT: usize = 10_000;

/// The body of a reply, expanded when first asked for, and once.
pub(crate) struct Body<'a> {
    reply: &'a Reply,
    limit_bytes: usize,
    expanded: OnceCell<Result<Bytes, Why>>,
}

impl<'a> Body<'a> {
    /// The body of a reply that may have `limit_bytes` when expanded.
    pub(crate) fn new(reply: &'a Reply, limit_bytes: usize) -> Self {
        Self { reply, limit_bytes, expanded: OnceCell::new() }
    }

    /// The bytes as they were before they were compressed; the body's own when they never were.
    ///
    /// # Errors
    ///
    /// A sentence that names the coding and says what is wrong: it is unknown, or the data is cut off, broken or
    /// longer than the limit.
    pub(crate) fn bytes(&self) -> Result<&Bytes, Why> {
        self.expanded.get_or_init(|| expand(self.reply, self.limit_bytes)).as_ref().map_err(Clone::clone)
    }

    /// What was expanded, in words; `None` for a body that was never compressed.
    pub(crate) fn told(&self) -> Option<String> {
        if self.reply.body.is_empty() {
            return None;
        }
        let names: Vec<_> = match codings(self.reply) {
            Ok(codings) if codings.is_empty() => return None,
            Ok(codings) => codings.iter().rev().map(|coding| coding.name()).collect(),
            Err(why) => return Some(why.to_string()),
        };
        Some(match self.bytes() {
            Ok(bytes) => {
                format!("{}: {} bytes to {} bytes", names.join(", then "), self.reply.body.len(), bytes.len())
            }
            Err(why) => why.to_string(),
        })
    }
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

fn expand(reply: &Reply, limit_bytes: usize) -> Result<Bytes, Why> {
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
    let mut out = Expanded { bytes: Vec::new(), limit_bytes };
    let undone = match coding {
        Coding::Gzip => gzip(data, &mut out),
        Coding::Deflate => deflate(data, &mut out),
        Coding::Brotli => brotli(data, &mut out),
        Coding::Zstd => zstd(data, &mut out),
    };
    let name = coding.name();
    match undone {
        Ok(()) => Ok(out.bytes.into()),
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

/// What has been expanded so far.
struct Expanded {
    bytes: Vec<u8>,
    limit_bytes: usize,
}

impl Expanded {
    fn add(&mut self, part: &[u8]) -> Result<(), Wrong> {
        if part.len() > self.limit_bytes - self.bytes.len() {
            return Err(Wrong::TooLong);
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }
}

/// How much is expanded in one go, in bytes.
const PART_BYTES: usize = 32 << 10;

/// Padding and a line end after the data are somebody's habit; anything else is not.
fn nothing_after(rest: &[u8]) -> Result<(), Wrong> {
    match rest.iter().all(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        true => Ok(()),
        false => Err(Wrong::Broken(format!("{} bytes follow its end", rest.len()))),
    }
}

#[cfg(test)]
mod tests;
