//! Validation of JSON text in one pass, without building a tree.
//!
//! The validator is as strict as RFC 8259 and the parser of `serde_json`. It also checks two properties that
//! `serde_json` does not check in a `RawValue`: nesting depth and lone surrogates. It returns the kind and
//! the position of an error; [`JsonText::check`] has the messages.
//!
//! [`JsonText::check`]: super::JsonText::check

use serde_json::Value;

use super::JSON_DEPTH_LIMIT;
use super::escape::escaped_bytes;

/// Number of bytes of a string that are checked at once.
const BLOCK: usize = 16;

/// Number of values and of members in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ValueCounts {
    /// Number of members of all objects; repeated names count repeatedly.
    pub(super) members: usize,
    /// Number of values, including arrays and objects but not member names.
    pub(super) values: usize,
}

impl ValueCounts {
    /// Counts the values and members of a tree.
    pub(super) fn from_tree(tree: &Value) -> Self {
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

/// Reason why a document is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValidationError {
    /// The document is not JSON.
    Grammar,
    /// The document is nested deeper than [`JSON_DEPTH_LIMIT`] at this byte.
    Depth(usize),
    /// A string has a lone surrogate (half of a pair) at this byte. It is not Unicode text, and strict
    /// clients reject it (RFC 8259, section 8.2).
    LoneSurrogate(usize),
}

/// Validates a document with or without surrounding white space. Does not check that strings are UTF-8.
pub(super) fn validate(json: &[u8]) -> Result<ValueCounts, ValidationError> {
    let mut validator = Validator { bytes: json, position: 0, depth: 0, counts: ValueCounts::default() };
    validator.scan_value()?;
    match validator.peek() {
        None => Ok(validator.counts),
        Some(_) => Err(ValidationError::Grammar),
    }
}

/// Recursive-descent validator. Everything except the recursion and the rare cases is inlined; otherwise
/// validation takes a third longer.
struct Validator<'a> {
    bytes: &'a [u8],
    position: usize,
    depth: usize,
    counts: ValueCounts,
}

impl Validator<'_> {
    /// Returns the byte at the current position.
    #[inline(always)]
    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    /// Skips white space and returns the next byte.
    #[inline(always)]
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.position += 1;
        }
        self.byte()
    }

    fn scan_value(&mut self) -> Result<(), ValidationError> {
        self.counts.values += 1;
        match self.peek() {
            Some(b'"') => self.scan_string(),
            Some(b'{') => self.scan_items(b'}'),
            Some(b'[') => self.scan_items(b']'),
            Some(b'-' | b'0'..=b'9') => self.scan_number(),
            Some(b't') => self.scan_literal(b"true"),
            Some(b'f') => self.scan_literal(b"false"),
            Some(b'n') => self.scan_literal(b"null"),
            _ => Err(ValidationError::Grammar),
        }
    }

    /// Scans an array, or an object including its names, up to the closing bracket.
    #[inline(always)]
    fn scan_items(&mut self, closing: u8) -> Result<(), ValidationError> {
        if self.depth == JSON_DEPTH_LIMIT {
            return Err(ValidationError::Depth(self.position));
        }
        self.depth += 1;
        self.position += 1;
        if self.peek() != Some(closing) {
            loop {
                if closing == b'}' {
                    self.scan_name()?;
                }
                self.scan_value()?;
                match self.peek() {
                    Some(b',') => self.position += 1,
                    Some(byte) if byte == closing => break,
                    _ => return Err(ValidationError::Grammar),
                }
            }
        }
        self.position += 1;
        self.depth -= 1;
        Ok(())
    }

    /// Scans the name of a member and its colon.
    #[inline(always)]
    fn scan_name(&mut self) -> Result<(), ValidationError> {
        self.counts.members += 1;
        if self.peek() != Some(b'"') {
            return Err(ValidationError::Grammar);
        }
        self.scan_string()?;
        if self.peek() != Some(b':') {
            return Err(ValidationError::Grammar);
        }
        self.position += 1;
        Ok(())
    }

    #[inline(always)]
    fn scan_string(&mut self) -> Result<(), ValidationError> {
        self.position += 1;
        loop {
            self.skip_plain_bytes();
            match self.byte() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => self.scan_escape()?,
                _ => return Err(ValidationError::Grammar),
            }
        }
    }

    /// Skips the bytes of a string before the next quote, backslash or control character.
    ///
    /// The first bytes are checked one by one, because most strings are short and the processor predicts
    /// where they end. This takes two thirds of the time of blocks of 16 bytes, for which the processor waits
    /// for the position of the end. Long strings are checked in blocks, in a quarter of the time.
    #[inline(always)]
    fn skip_plain_bytes(&mut self) {
        let is_plain = |byte: u8| IS_PLAIN[usize::from(byte)];
        for _ in 0..BLOCK {
            if !self.byte().is_some_and(is_plain) {
                return;
            }
            self.position += 1;
        }
        while let Some(block) = self.bytes[self.position..].first_chunk() {
            let marks = escaped_bytes(block);
            if marks != 0 {
                self.position += marks.trailing_zeros() as usize;
                return;
            }
            self.position += BLOCK;
        }
        while self.byte().is_some_and(is_plain) {
            self.position += 1;
        }
    }

    /// Scans an escape; a surrogate pair is scanned as one escape.
    fn scan_escape(&mut self) -> Result<(), ValidationError> {
        let start = self.position;
        match self.bytes.get(start + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.position += 2,
            Some(b'u') => {
                let unit = self.scan_code_unit()?;
                let is_paired = matches!(unit, 0xd800..=0xdbff)
                    && self.bytes[self.position..].starts_with(b"\\u")
                    && matches!(self.scan_code_unit()?, 0xdc00..=0xdfff);
                if matches!(unit, 0xd800..=0xdfff) && !is_paired {
                    return Err(ValidationError::LoneSurrogate(start));
                }
            }
            _ => return Err(ValidationError::Grammar),
        }
        Ok(())
    }

    /// Scans the four digits of the `\u` escape at the current position.
    fn scan_code_unit(&mut self) -> Result<u32, ValidationError> {
        let digits = self.bytes.get(self.position + 2..self.position + 6).ok_or(ValidationError::Grammar)?;
        self.position += 6;
        digits.iter().try_fold(0, |unit, digit| {
            let digit = char::from(*digit).to_digit(16).ok_or(ValidationError::Grammar)?;
            Ok(unit << 4 | digit)
        })
    }

    fn scan_literal(&mut self, literal: &[u8]) -> Result<(), ValidationError> {
        if !self.bytes[self.position..].starts_with(literal) {
            return Err(ValidationError::Grammar);
        }
        self.position += literal.len();
        Ok(())
    }

    #[inline(always)]
    fn scan_number(&mut self) -> Result<(), ValidationError> {
        if self.byte() == Some(b'-') {
            self.position += 1;
        }
        // No digits may follow a leading zero.
        if self.byte() == Some(b'0') {
            self.position += 1;
        } else {
            self.scan_digits()?;
        }
        if self.byte() == Some(b'.') {
            self.position += 1;
            self.scan_digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.position += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.position += 1;
            }
            self.scan_digits()?;
        }
        Ok(())
    }

    /// Scans one or more digits.
    #[inline(always)]
    fn scan_digits(&mut self) -> Result<(), ValidationError> {
        let start = self.position;
        while let Some(b'0'..=b'9') = self.byte() {
            self.position += 1;
        }
        if self.position > start { Ok(()) } else { Err(ValidationError::Grammar) }
    }
}

/// Table of the bytes that need no escape in a string: all except quotes, backslashes and control characters.
/// Looking up a byte takes half the time of three comparisons.
static IS_PLAIN: [bool; 256] = {
    let mut is_plain = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        is_plain[byte] = false;
        byte += 1;
    }
    is_plain[b'"' as usize] = false;
    is_plain[b'\\' as usize] = false;
    is_plain
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn check(json: &str) -> Result<ValueCounts, ValidationError> {
        validate(json.as_bytes())
    }

    #[test]
    fn values_and_members_of_a_document_are_counted() {
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
            assert_eq!(
                check(json),
                Ok(ValueCounts::from_tree(&serde_json::from_str(json).unwrap())),
                "{json}"
            );
        }
        assert_eq!(check(r#"{"a": 1, "a": 2}"#), Ok(ValueCounts { members: 2, values: 3 }), "as written");
    }

    #[test]
    fn errors_ignored_by_a_parser_are_found_with_their_position() {
        assert_eq!(check(r#"["\ud800"]"#), Err(ValidationError::LoneSurrogate(2)));
        assert_eq!(check(r#""\ud800\u0041""#), Err(ValidationError::LoneSurrogate(1)));
        assert_eq!(check(r#"{"\udfff": 1}"#), Err(ValidationError::LoneSurrogate(2)));
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(check(&nested(JSON_DEPTH_LIMIT + 1)), Err(ValidationError::Depth(JSON_DEPTH_LIMIT)));
        assert_eq!(check(&nested(JSON_DEPTH_LIMIT)).map(|counts| counts.values), Ok(JSON_DEPTH_LIMIT));
    }

    /// Text of JSON tokens, complete and truncated.
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

    /// Tree of some dozens of values, with many characters to escape in its strings.
    fn tree() -> impl Strategy<Value = Value> {
        let text = "([a-zé\u{1}\n\u{1f600}]|[\"\\\\/]){0,9}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 48, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::hash_map(text, inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_validator_accepts_exactly_what_the_parser_accepts(json in pieces()) {
            let parsed = serde_json::from_str::<&RawValue>(&json);
            match check(&json) {
                Ok(_) => prop_assert!(parsed.is_ok(), "{json}"),
                Err(ValidationError::Grammar) => prop_assert!(parsed.is_err(), "{json}"),
                Err(ValidationError::Depth(_) | ValidationError::LoneSurrogate(_)) => {}
            }
        }

        /// Longer than one block of bytes, with at most one error.
        #[test]
        fn a_document_is_taken_wherever_its_parts_lie(
            tree in tree(),
            space in " {0,70}",
            pretty in any::<bool>(),
            (position, cut_length, piece) in (any::<proptest::sample::Index>(), 0..3_usize, pieces()),
        ) {
            let json = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let json = space + &json.unwrap();
            prop_assert_eq!(check(&json), Ok(ValueCounts::from_tree(&tree)), "{}", json);

            let mut mutated: Vec<char> = json.chars().collect();
            let from = position.index(mutated.len());
            let to = mutated.len().min(from + cut_length);
            mutated.splice(from..to, piece.chars());
            let mutated: String = mutated.into_iter().collect();
            let parsed = serde_json::from_str::<&RawValue>(&mutated);
            match check(&mutated) {
                Ok(_) => prop_assert!(parsed.is_ok(), "{mutated}"),
                Err(ValidationError::Grammar) => prop_assert!(parsed.is_err(), "{mutated}"),
                Err(ValidationError::Depth(_) | ValidationError::LoneSurrogate(_)) => {}
            }
        }

        #[test]
        fn a_string_ends_where_it_ends(before in "[a-zä ]{0,20}", after in "[a-z\\\\\" ]{0,20}") {
            let json = serde_json::to_string(&[&before, &after]).unwrap();
            prop_assert_eq!(check(&json), Ok(ValueCounts { members: 0, values: 3 }));
        }
    }
}
