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
#[error("what the store says is not RESP, or longer than is read")]
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

/// Reads values as they come. What has come is looked at once, however small the parts are in which a list comes.
#[derive(Debug)]
pub(super) struct Reader {
    /// How long one text may be.
    limit_bytes: usize,
    /// How long a value may be, with all that is in it.
    whole_limit_bytes: usize,
    /// The lists that have begun and not ended, each in the one before.
    open: Vec<List>,
    /// The text of which the length has come.
    block: Option<Block>,
    /// How much has been read of the value.
    read_bytes: usize,
}

#[derive(Debug)]
struct List {
    is_push: bool,
    missing: usize,
    items: Vec<Value>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    is_error: bool,
    length: usize,
}

/// What is read at once.
enum Part {
    Value(Value),
    List(List),
    Block(Block),
}

impl Reader {
    pub(super) fn new(limit_bytes: usize, whole_limit_bytes: usize) -> Self {
        Self { limit_bytes, whole_limit_bytes, open: Vec::new(), block: None, read_bytes: 0 }
    }

    /// Takes what is understood off the front of what has come, up to the end of a value; `None` where there is not all of
    /// it yet.
    ///
    /// # Errors
    ///
    /// [`Malformed`]; then nothing that follows can be understood either.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Value>, Malformed> {
        while let Some(part) = self.part(buffer)? {
            let value = match part {
                Part::Block(block) => {
                    self.block = Some(block);
                    continue;
                }
                Part::List(list) if list.missing > 0 => {
                    self.open.push(list);
                    continue;
                }
                Part::List(list) => list.whole(),
                Part::Value(value) => value,
            };
            if let Some(whole) = self.put(value) {
                self.read_bytes = 0;
                return Ok(Some(whole));
            }
        }
        match self.read_bytes + buffer.len() > self.whole_limit_bytes {
            true => Err(Malformed),
            false => Ok(None),
        }
    }

    /// Puts a value where it belongs; gives it back, or the list that is whole with it, where that is nowhere.
    fn put(&mut self, mut value: Value) -> Option<Value> {
        while let Some(list) = self.open.last_mut() {
            list.items.push(value);
            list.missing -= 1;
            if list.missing > 0 {
                return None;
            }
            value = self.open.pop()?.whole();
        }
        Some(value)
    }

    fn part(&mut self, buffer: &mut BytesMut) -> Result<Option<Part>, Malformed> {
        if let Some(block) = self.block {
            let Some(text) = self.text(buffer, block)? else { return Ok(None) };
            self.block = None;
            return Ok(Some(Part::Value(text)));
        }
        if self.open.len() > DEPTH_LIMIT {
            return Err(Malformed);
        }
        let Some(line) = self.line(buffer)? else { return Ok(None) };
        let (kind, rest) = line.split_first().ok_or(Malformed)?;
        let value = match kind {
            b'+' | b',' | b'(' => Value::Bytes(Bytes::copy_from_slice(rest)),
            b'-' => Value::Error(String::from_utf8_lossy(rest).into_owned()),
            b':' => Value::Number(number(rest)?),
            b'#' => Value::Number(i64::from(rest == b"t")),
            b'_' => Value::Nothing,
            b'$' | b'=' | b'!' => match length(rest)? {
                Some(length) if length > self.limit_bytes => return Err(Malformed),
                Some(length) => return Ok(Some(Part::Block(Block { is_error: *kind == b'!', length }))),
                None => Value::Nothing,
            },
            b'*' | b'~' | b'>' | b'%' => match length(rest)? {
                Some(count) if count > ITEM_LIMIT => return Err(Malformed),
                Some(count) => {
                    let missing = if *kind == b'%' { 2 * count } else { count };
                    return Ok(Some(Part::List(List { is_push: *kind == b'>', missing, items: Vec::new() })));
                }
                None => Value::Nothing,
            },
            _ => return Err(Malformed),
        };
        Ok(Some(Part::Value(value)))
    }

    /// Up to the next end of a line, which is taken too.
    fn line(&mut self, buffer: &mut BytesMut) -> Result<Option<BytesMut>, Malformed> {
        let seen = &buffer[..buffer.len().min(LINE_LIMIT_BYTES)];
        match seen.windows(2).position(|pair| pair == b"\r\n") {
            Some(end) => {
                let line = buffer.split_to(end);
                buffer.advance(2);
                self.read_bytes += end + 2;
                Ok(Some(line))
            }
            None if buffer.len() >= LINE_LIMIT_BYTES => Err(Malformed),
            None => Ok(None),
        }
    }

    /// A text, and the end of a line behind it.
    fn text(&mut self, buffer: &mut BytesMut, block: Block) -> Result<Option<Value>, Malformed> {
        let Some(whole) = buffer.get(..block.length + 2) else { return Ok(None) };
        let text = whole.strip_suffix(b"\r\n").ok_or(Malformed)?;
        let value = match block.is_error {
            true => Value::Error(String::from_utf8_lossy(text).into_owned()),
            false => Value::Bytes(Bytes::copy_from_slice(text)),
        };
        buffer.advance(block.length + 2);
        self.read_bytes += block.length + 2;
        Ok(Some(value))
    }
}

impl List {
    fn whole(self) -> Value {
        if self.is_push { Value::Push(self.items) } else { Value::List(self.items) }
    }
}

/// How long something is, or how many there are; nothing where it is less than none, which is null.
fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(bytes)? {
        ..0 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| Malformed),
    }
}

fn number(bytes: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: Result<Option<Value>, Malformed>) {
        let mut buffer = BytesMut::from(text);
        assert_eq!(Reader::new(10, 10_000).next(&mut buffer), expected);
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
        let (mut buffer, mut reader) = (BytesMut::new(), Reader::new(10, 100));
        for (index, byte) in written.iter().enumerate() {
            buffer.extend_from_slice(&[*byte]);
            let found = reader.next(&mut buffer).unwrap();
            assert_eq!(found.is_some(), index + 1 == written.len());
        }
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_list_is_taken_off_as_it_comes_and_counts_on() {
        let (mut buffer, mut reader) = (BytesMut::new(), Reader::new(10, 40));
        for part in [&b"*4\r\n$3\r\n"[..], b"one\r\n", b"*1\r\n:2\r\n", b"$5\r\nthr"] {
            buffer.extend_from_slice(part);
            assert_eq!(reader.next(&mut buffer), Ok(None));
        }
        assert_eq!(&*buffer, b"thr", "the rest is not looked at again");
        buffer.extend_from_slice(b"ee\r\n");
        assert_eq!(reader.next(&mut buffer), Ok(None));
        let mut whole = buffer.clone();
        whole.extend_from_slice(b"_\r\n+next\r\n");
        let list = vec![bytes("one"), Value::List(vec![Value::Number(2)]), bytes("three"), Value::Nothing];
        assert_eq!(reader.next(&mut whole), Ok(Some(Value::List(list))));
        assert_eq!(reader.next(&mut whole), Ok(Some(bytes("next"))));
        buffer.extend_from_slice(b"*1\r\n+not the end\r");
        assert_eq!(Reader::new(10, 10).next(&mut buffer), Err(Malformed), "it is too long as a whole");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in "([*$>:%+-][0-9]{0,2}\r\n|[a-z\r\n]){0,12}", limit in 0..20_usize) {
            let read = |parts: &[&[u8]]| {
                let (mut buffer, mut reader, mut found) = (BytesMut::new(), Reader::new(limit, 50), Vec::new());
                for part in parts {
                    buffer.extend_from_slice(part);
                    loop {
                        let next = reader.next(&mut buffer);
                        let is_last = !matches!(next, Ok(Some(_)));
                        if next != Ok(None) {
                            found.push(next);
                        }
                        if is_last {
                            break;
                        }
                    }
                    if let Some(Err(Malformed)) = found.last() {
                        return found;
                    }
                }
                found
            };
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            prop_assert_eq!(read(&[text.as_bytes()]), read(&bytes), "in whatever parts it comes");
        }
    }
}
