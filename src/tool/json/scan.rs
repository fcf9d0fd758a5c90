//! Whether bytes are one JSON document, in one pass and without a tree.
//!
//! As strict as RFC 8259 and the parser of `serde_json`, and stricter in two things that a raw value may hide: how deep
//! it nests, and halves of surrogate pairs. The words for what is wrong are the parser's: see [`JsonText::check`].
//!
//! [`JsonText::check`]: super::JsonText::check

use serde_json::Value;

use super::JSON_DEPTH_LIMIT;

/// What a document holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// How many members all objects have together, as written.
    pub(super) members: usize,
    /// How many values there are, lists and objects among them. Names of members are none.
    pub(super) values: usize,
}

impl Counts {
    /// Of a tree.
    pub(super) fn of(tree: &Value) -> Self {
        let mut counts = Self::default();
        counts.add(tree);
        counts
    }

    fn add(&mut self, tree: &Value) {
        self.values += 1;
        match tree {
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(members) => {
                self.members += members.len();
                members.values().for_each(|value| self.add(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Why bytes are no document that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// They are no JSON.
    Grammar,
    /// They nest too deep, at this byte.
    Depth(usize),
    /// A string has half of a surrogate pair, at this byte: no Unicode text, and strict clients refuse it (RFC 8259,
    /// section 8.2).
    HalfPair(usize),
}

/// Goes over a document, with white space round it or none; that it is UTF-8 is known.
pub(super) fn scan(json: &str) -> Result<Counts, Flaw> {
    let mut scanner = Scanner { bytes: json.as_bytes(), at: 0 };
    let mut counts = Counts::default();
    // Of each array or object that is open, whether it is an object: the innermost is the lowest bit.
    let (mut open, mut depth) = (0_u128, 0_usize);
    scanner.skip_space();
    loop {
        // Here a value begins.
        counts.values += 1;
        match scanner.peek() {
            Some(b'"') => scanner.string()?,
            Some(b'-' | b'0'..=b'9') => scanner.number()?,
            Some(b't') => scanner.literal(b"true")?,
            Some(b'f') => scanner.literal(b"false")?,
            Some(b'n') => scanner.literal(b"null")?,
            Some(bracket @ (b'{' | b'[')) => {
                depth += 1;
                if depth > JSON_DEPTH_LIMIT {
                    return Err(Flaw::Depth(scanner.at));
                }
                let is_object = bracket == b'{';
                open = open << 1 | u128::from(is_object);
                scanner.at += 1;
                scanner.skip_space();
                match scanner.peek() {
                    Some(b'}') if is_object => {}
                    Some(b']') if !is_object => {}
                    _ if is_object => {
                        counts.members += 1;
                        scanner.name()?;
                        continue;
                    }
                    _ => continue,
                }
            }
            _ => return Err(Flaw::Grammar),
        }
        // Here a value has ended, or a closing bracket stands.
        loop {
            scanner.skip_space();
            if depth == 0 {
                return if scanner.peek().is_none() { Ok(counts) } else { Err(Flaw::Grammar) };
            }
            let is_object = open & 1 == 1;
            match scanner.peek() {
                Some(b',') => {
                    scanner.at += 1;
                    scanner.skip_space();
                    if is_object {
                        counts.members += 1;
                        scanner.name()?;
                    }
                    break;
                }
                Some(b'}') if is_object => {}
                Some(b']') if !is_object => {}
                _ => return Err(Flaw::Grammar),
            }
            scanner.at += 1;
            depth -= 1;
            open >>= 1;
        }
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn literal(&mut self, expected: &[u8]) -> Result<(), Flaw> {
        let found = self.bytes[self.at..].starts_with(expected);
        self.at += expected.len();
        if found { Ok(()) } else { Err(Flaw::Grammar) }
    }

    #[inline]
    fn number(&mut self) -> Result<(), Flaw> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            // No digit follows a zero.
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One at least.
    #[inline]
    fn digits(&mut self) -> Result<(), Flaw> {
        let first = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > first { Ok(()) } else { Err(Flaw::Grammar) }
    }

    /// The name of a member and its colon, up to where the value begins.
    #[inline]
    fn name(&mut self) -> Result<(), Flaw> {
        if self.peek() != Some(b'"') {
            return Err(Flaw::Grammar);
        }
        self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(Flaw::Grammar);
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// A string, from its opening quote on.
    #[inline]
    fn string(&mut self) -> Result<(), Flaw> {
        self.at += 1;
        loop {
            while let Some(eight) = self.bytes[self.at..].first_chunk() {
                let marked = marked(u64::from_le_bytes(*eight));
                self.at += (marked.trailing_zeros() / 8) as usize;
                if marked != 0 {
                    break;
                }
            }
            // Fewer than eight are left, or one is no plain character.
            while self.peek().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(Flaw::Grammar),
            }
        }
    }

    /// What stands behind a backslash; both halves of a pair together.
    fn escape(&mut self) -> Result<(), Flaw> {
        let first = self.at;
        match self.bytes.get(first + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let length = match self.unit(first)? {
                    0xd800..=0xdbff => match self.bytes[first + 6..].starts_with(b"\\u") {
                        true if matches!(self.unit(first + 6)?, 0xdc00..=0xdfff) => 12,
                        _ => return Err(Flaw::HalfPair(first)),
                    },
                    0xdc00..=0xdfff => return Err(Flaw::HalfPair(first)),
                    _ => 6,
                };
                self.at += length;
                Ok(())
            }
            _ => Err(Flaw::Grammar),
        }
    }

    /// The four digits of the `\u` at a place.
    fn unit(&self, at: usize) -> Result<u32, Flaw> {
        let digits = self.bytes.get(at + 2..at + 6).ok_or(Flaw::Grammar)?;
        digits.iter().try_fold(0, |unit, digit| {
            let digit = char::from(*digit).to_digit(16).ok_or(Flaw::Grammar)?;
            Ok(unit << 4 | digit)
        })
    }
}

/// Of eight bytes, the highest bit of those that end a run of plain characters in a string: quotes, backslashes and what
/// is below a space. Exact for the lowest of them; what is above it may be marked too.
#[inline]
fn marked(eight: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = 0x80 * ONES;
    let is_zero = |eight: u64| eight.wrapping_sub(ONES) & !eight;
    let below_space = eight.wrapping_sub(ONES * 0x20) & !eight;
    let quote = is_zero(eight ^ (ONES * b'"' as u64));
    let backslash = is_zero(eight ^ (ONES * b'\\' as u64));
    (below_space | quote | backslash) & HIGHEST
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn what_is_in_a_document_is_counted() {
        for json in [
            "1",
            " [ ] ",
            "{}",
            "[[],{},[1],{\"a\":[1,2 , 3]}]",
            "\"\"",
            "-0.5e+7",
            "[true,false , null]",
            r#"{"a,[{": "x,\"[,", "b": [{}, {"c": null}]}"#,
            "\n[1,\n2,\r\n\t3]\n",
        ] {
            assert_eq!(scan(json), Ok(Counts::of(&serde_json::from_str(json).unwrap())), "{json}");
        }
        assert_eq!(scan(r#"{"a": 1, "a": 2}"#), Ok(Counts { members: 2, values: 3 }), "as written");
    }

    #[test]
    fn what_a_parser_passes_over_is_found_with_its_place() {
        assert_eq!(scan(r#"["\ud800"]"#), Err(Flaw::HalfPair(2)));
        assert_eq!(scan(r#""\ud800\u0041""#), Err(Flaw::HalfPair(1)));
        assert_eq!(scan(r#"{"\udfff": 1}"#), Err(Flaw::HalfPair(2)));
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(scan(&nested(JSON_DEPTH_LIMIT + 1)), Err(Flaw::Depth(JSON_DEPTH_LIMIT)));
        assert_eq!(scan(&nested(JSON_DEPTH_LIMIT)).map(|counts| counts.values), Ok(JSON_DEPTH_LIMIT));
    }

    /// A text of what JSON is made of, whole and torn.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[\\[\\]{},:]{1,3}",
            "-?[0-9]{0,3}(\\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?",
            "\"([a-zé\u{1}\u{1f}\u{7f} ]|\\\\[\"\\\\/bfnrtux0-9a-fA-F]){0,12}\"?",
            "true|false|null|tru|nul",
            "[ \\n\\t\\r\u{b}]{0,2}",
            "\"\\\\u[dD][89a-fA-F][0-9a-f]{2}(\\\\u[dD][c-f][0-9a-f]{2})?\"",
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_the_parser_takes_is_taken_and_nothing_else(json in pieces()) {
            let parsed = serde_json::from_str::<&RawValue>(&json);
            match scan(&json) {
                Ok(_) => prop_assert!(parsed.is_ok(), "{json}"),
                Err(Flaw::Grammar) => prop_assert!(parsed.is_err(), "{json}"),
                Err(Flaw::Depth(_) | Flaw::HalfPair(_)) => {}
            }
        }

        #[test]
        fn a_string_ends_where_it_ends(before in "[a-zä ]{0,20}", after in "[a-z\\\\\" ]{0,20}") {
            let json = serde_json::to_string(&[&before, &after]).unwrap();
            prop_assert_eq!(scan(&json), Ok(Counts { members: 0, values: 3 }));
        }
    }
}
