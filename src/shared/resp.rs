//! How commands and replies are written (RESP 3, which Redis has from 6 on, and every Valkey).
//!
//! Nothing that a server says makes more of itself than the limits below.

use bytes::{Buf, Bytes, BytesMut};

/// A reply, or what is told without being asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Text or bytes.
    Bytes(Bytes),
    /// A whole number.
    Number(i64),
    /// Why not.
    Error(String),
    /// Several values: a list, a set, or a map, of which keys and values take turns.
    List(Vec<Self>),
    /// What nobody asked for: a message.
    Push(Vec<Self>),
    /// Null.
    Nothing,
}

/// What came is no reply, or more than is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what the store says is no RESP, or longer than is read")]
pub(super) struct Malformed;

/// How deep lists may be in lists.
const DEPTH_LIMIT: usize = 8;
/// How many values one list may have.
const ITEM_LIMIT: usize = 4096;
/// How long a line may be.
const LINE_LIMIT_BYTES: usize = 4096;

/// Writes a command.
pub(super) fn write(words: &[&[u8]], out: &mut Vec<u8>) {
    let number = |sign: u8, number: usize, out: &mut Vec<u8>| {
        out.push(sign);
        out.extend_from_slice(number.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    number(b'*', words.len(), out);
    for word in words {
        number(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Takes the next value off the front of what has come; `None` where there is not all of it yet.
///
/// # Errors
///
/// [`Malformed`]; then nothing that follows can be understood either.
pub(super) fn next(buffer: &mut BytesMut, limit_bytes: usize) -> Result<Option<Value>, Malformed> {
    let mut reader = Reader { bytes: buffer, at: 0, limit_bytes };
    match reader.value(0) {
        Ok(value) => {
            let at = reader.at;
            buffer.advance(at);
            Ok(Some(value))
        }
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Malformed) => Err(Malformed),
    }
}

enum Stop {
    Incomplete,
    Malformed,
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    limit_bytes: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        if depth > DEPTH_LIMIT {
            return Err(Stop::Malformed);
        }
        let line = self.line()?;
        let (kind, rest) = line.split_first().ok_or(Stop::Malformed)?;
        match kind {
            b'+' | b',' | b'(' => Ok(Value::Bytes(Bytes::copy_from_slice(rest))),
            b'-' => Ok(Value::Error(String::from_utf8_lossy(rest).into_owned())),
            b':' => number(rest).map(Value::Number),
            b'#' => Ok(Value::Number(i64::from(rest == b"t"))),
            b'_' => Ok(Value::Nothing),
            b'$' | b'=' | b'!' => {
                let length = number(rest)?;
                if length < 0 {
                    return Ok(Value::Nothing);
                }
                let (is_error, length) =
                    (*kind == b'!', usize::try_from(length).map_err(|_| Stop::Malformed)?);
                let bytes = self.block(length)?;
                Ok(match is_error {
                    true => Value::Error(String::from_utf8_lossy(bytes).into_owned()),
                    false => Value::Bytes(Bytes::copy_from_slice(bytes)),
                })
            }
            b'*' | b'~' | b'>' | b'%' => {
                let count = number(rest)?;
                if count < 0 {
                    return Ok(Value::Nothing);
                }
                let times = if *kind == b'%' { 2 } else { 1 };
                let is_push = *kind == b'>';
                let count = usize::try_from(count).map_err(|_| Stop::Malformed)?;
                if count > ITEM_LIMIT {
                    return Err(Stop::Malformed);
                }
                let items = (0..count * times).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?;
                Ok(if is_push { Value::Push(items) } else { Value::List(items) })
            }
            _ => Err(Stop::Malformed),
        }
    }

    /// Up to the next end of a line, which is taken too.
    fn line(&mut self) -> Result<Box<[u8]>, Stop> {
        let rest = &self.bytes[self.at..];
        let seen = &rest[..rest.len().min(LINE_LIMIT_BYTES)];
        match seen.windows(2).position(|pair| pair == b"\r\n") {
            Some(end) => {
                self.at += end + 2;
                Ok(rest[..end].into())
            }
            None if rest.len() >= LINE_LIMIT_BYTES => Err(Stop::Malformed),
            None => Err(Stop::Incomplete),
        }
    }

    /// So many bytes, and the end of a line behind them.
    fn block(&mut self, length: usize) -> Result<&[u8], Stop> {
        if length > self.limit_bytes {
            return Err(Stop::Malformed);
        }
        let rest = &self.bytes[self.at..];
        let block = rest.get(..length + 2).ok_or(Stop::Incomplete)?;
        self.at += length + 2;
        block.strip_suffix(b"\r\n").ok_or(Stop::Malformed)
    }
}

fn number(bytes: &[u8]) -> Result<i64, Stop> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Stop::Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: Result<Option<Value>, Malformed>) {
        let mut buffer = BytesMut::from(text);
        assert_eq!(next(&mut buffer, 10), expected);
    }

    fn bytes(text: &'static str) -> Value {
        Value::Bytes(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn every_kind_of_value_is_read() {
        check(b"+OK\r\n", Ok(Some(bytes("OK"))));
        check(b"-ERR no\r\n", Ok(Some(Value::Error("ERR no".into()))));
        check(b"!6\r\nERR no\r\n", Ok(Some(Value::Error("ERR no".into()))));
        check(b":-7\r\n", Ok(Some(Value::Number(-7))));
        check(b"$3\r\na\r\n\r\n", Ok(Some(bytes("a\r\n"))));
        check(b"$-1\r\n", Ok(Some(Value::Nothing)));
        check(b"_\r\n", Ok(Some(Value::Nothing)));
        check(
            b"%1\r\n+a\r\n*1\r\n#t\r\n",
            Ok(Some(Value::List(vec![bytes("a"), Value::List(vec![Value::Number(1)])]))),
        );
        check(b">1\r\n+a\r\n", Ok(Some(Value::Push(vec![bytes("a")]))));
    }

    #[test]
    fn what_is_too_much_or_no_reply_is_not_read() {
        check(b"$11\r\n", Err(Malformed));
        check(b"*5000\r\n", Err(Malformed));
        check(&b"*1\r\n".repeat(10), Err(Malformed));
        check(&[b'+'; 5000], Err(Malformed));
        check(b"$1\r\nabc", Err(Malformed));
        check(b"$99999999999999999999\r\n", Err(Malformed));
        check(b"GET / HTTP/1.1\r\n", Err(Malformed));
        check(b"\r\n", Err(Malformed));
    }

    #[test]
    fn what_comes_in_parts_is_waited_for() {
        let mut written = Vec::new();
        write(&[b"SET", b"a", b"\r\n"], &mut written);
        assert_eq!(written, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n");
        let mut buffer = BytesMut::new();
        for (index, byte) in written.iter().enumerate() {
            buffer.extend_from_slice(&[*byte]);
            let found = next(&mut buffer, 10).unwrap();
            assert_eq!(found.is_some(), index + 1 == written.len());
        }
        assert!(buffer.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in "([*$>:%+-][0-9]{0,2}\r\n|[a-z\r\n]){0,12}", limit in 0..20_usize) {
            let mut buffer = BytesMut::from(text.as_bytes());
            while let Ok(Some(_)) = next(&mut buffer, limit) {}
        }
    }
}
