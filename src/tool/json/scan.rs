//! Whether bytes are one JSON document, in one pass and without a tree.
//!
//! As strict as RFC 8259 and the parser of `serde_json`, and stricter in two things that a raw value may hide: how deep
//! it nests, and halves of surrogate pairs. The words for what is wrong are the parser's: see [`JsonText::check`].
//!
//! [`JsonText::check`]: super::JsonText::check

use serde_json::Value;

use super::{
    JSON_DEPTH_LIMIT,
    block::{BLOCK, Marks, line_spaces, marks},
};

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
///
/// Where tokens begin is found for 64 bytes at a time, without a branch; what may follow on what is where in this function
/// we are.
pub(super) fn scan(json: &str) -> Result<Counts, Flaw> {
    let mut tokens = Tokens::of(json.as_bytes());
    let mut counts = Counts::default();
    // Of each array or object that is open, whether it is an object: the innermost is the lowest bit.
    let (mut open, mut depth) = (0_u128, 0_usize);
    let mut at = tokens.next();
    'value: loop {
        // Here a value begins.
        counts.values += 1;
        match tokens.byte(at) {
            b'"' => at = tokens.next(),
            bracket @ (b'{' | b'[') => {
                depth += 1;
                if depth > JSON_DEPTH_LIMIT {
                    return Err(Flaw::Depth(at));
                }
                let is_object = bracket == b'{';
                open = open << 1 | u128::from(is_object);
                at = tokens.next();
                match tokens.byte(at) {
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ if is_object => {
                        counts.members += 1;
                        at = tokens.after_name(at)?;
                        continue;
                    }
                    _ => continue,
                }
            }
            _ if is_scalar(tokens.bytes, at) => at = tokens.next(),
            _ => return Err(tokens.flaw()),
        }
        // Here a value has ended, or a closing bracket stands.
        while depth > 0 {
            let is_object = open & 1 == 1;
            match tokens.byte(at) {
                b',' => {
                    at = tokens.next();
                    if is_object {
                        counts.members += 1;
                        at = tokens.after_name(at)?;
                    }
                    continue 'value;
                }
                b'}' if is_object => {}
                b']' if !is_object => {}
                _ => return Err(tokens.flaw()),
            }
            depth -= 1;
            open >>= 1;
            at = tokens.next();
        }
        return if tokens.have_ended_well(at) { Ok(counts) } else { Err(tokens.flaw()) };
    }
}

/// The tokens of a document, one after the other.
struct Tokens<'a> {
    bytes: &'a [u8],
    /// Where the block begins that is being looked at, …
    first: usize,
    /// … and where in it those tokens begin that were not taken yet.
    left: u64,
    strings: Strings,
    /// What is wrong with a string, or beside one. The document ends there.
    flaw: Option<Flaw>,
}

impl<'a> Tokens<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let first = 0_usize.wrapping_sub(BLOCK);
        Self { bytes, first, left: 0, strings: Strings::default(), flaw: None }
    }

    /// What stands at a place; nothing that any token has, where the document has ended.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or_default()
    }

    /// Where the next token begins: a bracket, a brace, a colon, a comma, a string, or anything else outside of strings.
    /// The end of the document where there is none.
    #[inline]
    fn next(&mut self) -> usize {
        if self.left == 0 {
            self.look_on();
        }
        let at = self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        self.first + at
    }

    /// Where the value begins whose name begins at a place.
    #[inline]
    fn after_name(&mut self, name: usize) -> Result<usize, Flaw> {
        let colon = self.next();
        match (self.byte(name), self.byte(colon)) {
            (b'"', b':') => Ok(self.next()),
            _ => Err(self.flaw()),
        }
    }

    /// Whether the document ends at a place, and nothing is wrong with its strings.
    fn have_ended_well(&self, at: usize) -> bool {
        at == self.bytes.len() && self.flaw.is_none() && !self.strings.inside
    }

    /// What is wrong, where a token stands that must not.
    fn flaw(&self) -> Flaw {
        self.flaw.unwrap_or(Flaw::Grammar)
    }

    /// Goes to the next block in which a token begins. The end of the document is one, and behind it there is always
    /// another.
    #[inline(never)]
    fn look_on(&mut self) {
        while self.left == 0 {
            self.first = self.first.wrapping_add(BLOCK);
            match self.look() {
                Some(Ok(found)) => self.left = found,
                Some(Err(flaw)) => self.end(Some(flaw)),
                None => self.end(None),
            }
        }
    }

    fn end(&mut self, flaw: Option<Flaw>) {
        self.flaw = self.flaw.or(flaw);
        (self.first, self.left) = (self.bytes.len(), 1);
    }

    /// Where tokens begin in a block, whose strings are found to be good. `None` behind the last one.
    #[inline]
    fn look(&mut self) -> Option<Result<u64, Flaw>> {
        let rest = self.bytes.get(self.first..).filter(|rest| !rest.is_empty())?;
        let mut last = [b' '; BLOCK];
        let block = rest.first_chunk().unwrap_or_else(|| {
            last[..rest.len()].copy_from_slice(rest);
            &last
        });
        let marks = marks(block);
        let found = self.strings.find(&marks);
        if marks.controls != 0 && marks.controls & (found.inside | !line_spaces(block)) != 0 {
            return Some(Err(Flaw::Grammar));
        }
        // What is escaped is a quote or a backslash mostly, and they were found already.
        let mut escapes = found.escapes & !((marks.quotes | marks.backslashes) >> 1);
        while escapes != 0 {
            let at = self.first + escapes.trailing_zeros() as usize;
            if let Err(flaw) = self.strings.escape(self.bytes, at) {
                return Some(Err(flaw));
            }
            escapes &= escapes - 1;
        }
        Some(Ok(found.tokens))
    }
}

/// Where strings are, from one block to the next.
#[derive(Default)]
struct Strings {
    /// Whether the last block ended inside of one.
    inside: bool,
    /// Whether it ended with a backslash that the next byte belongs to.
    escaping: bool,
    /// Whether it ended with a byte of a number or a literal.
    scalar: bool,
    /// Where the last pair of surrogates ends: its second half is looked at with the first.
    pair_end: usize,
}

/// What is where in one block.
struct Found {
    /// In strings, opening quotes among them and closing ones not.
    inside: u64,
    /// Backslashes in strings that the next byte belongs to.
    escapes: u64,
    /// Where tokens begin: brackets and braces, colons, commas, opening quotes, and all else outside of strings.
    tokens: u64,
}

impl Strings {
    #[inline]
    fn find(&mut self, marks: &Marks) -> Found {
        let (escaped, escaping) = self.escaped(marks.backslashes);
        let quotes = marks.quotes & !escaped;
        let inside = parity(quotes) ^ 0_u64.wrapping_sub(self.inside.into());
        self.inside = inside >> 63 == 1;
        let scalars = !(marks.structure | marks.blanks | marks.quotes | inside);
        let scalars_begin = scalars & !(scalars << 1 | u64::from(self.scalar));
        self.scalar = scalars >> 63 == 1;
        Found {
            inside,
            escapes: escaping & inside,
            tokens: (marks.structure & !inside) | (quotes & inside) | scalars_begin,
        }
    }

    /// The bytes that belong to a backslash before them, and those backslashes: of a row of them each second one belongs
    /// to the one before.
    #[inline]
    fn escaped(&mut self, backslashes: u64) -> (u64, u64) {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let before = u64::from(self.escaping);
        if backslashes == 0 {
            self.escaping = false;
            return (before, 0);
        }
        // What is added carries through each row of backslashes, and changes what is behind those of odd length.
        let may_escape = backslashes & !before;
        let rows = (may_escape << 1 | ODD).wrapping_sub(may_escape) ^ ODD;
        let escaping = rows & backslashes;
        self.escaping = escaping >> 63 == 1;
        (rows ^ (backslashes | before), escaping)
    }

    /// What stands behind a backslash; both halves of a pair together.
    fn escape(&mut self, bytes: &[u8], at: usize) -> Result<(), Flaw> {
        match bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') if at < self.pair_end => Ok(()),
            Some(b'u') => match unit(bytes, at)? {
                0xd800..=0xdbff => match bytes[at + 6..].starts_with(b"\\u") {
                    true if matches!(unit(bytes, at + 6)?, 0xdc00..=0xdfff) => {
                        self.pair_end = at + 12;
                        Ok(())
                    }
                    _ => Err(Flaw::HalfPair(at)),
                },
                0xdc00..=0xdfff => Err(Flaw::HalfPair(at)),
                _ => Ok(()),
            },
            _ => Err(Flaw::Grammar),
        }
    }
}

/// Of each bit, whether the number of bits up to it is odd.
#[inline]
fn parity(mut word: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        word ^= word << shift;
    }
    word
}

/// The four digits of the `\u` at a place.
fn unit(bytes: &[u8], at: usize) -> Result<u32, Flaw> {
    let digits = bytes.get(at + 2..at + 6).ok_or(Flaw::Grammar)?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16).ok_or(Flaw::Grammar)?;
        Ok(unit << 4 | digit)
    })
}

/// Whether a number or a literal stands at a place, and ends where another token or white space begins.
#[inline]
fn is_scalar(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = match rest.first() {
        Some(b'-' | b'0'..=b'9') => number(rest),
        Some(b't') if rest.starts_with(b"true") => Some(4),
        Some(b'f') if rest.starts_with(b"false") => Some(5),
        Some(b'n') if rest.starts_with(b"null") => Some(4),
        _ => None,
    };
    let Some(length) = length else { return false };
    match rest.get(length) {
        None | Some(b',' | b'}' | b']' | b':' | b'{' | b'[' | b'"' | b' ' | b'\n' | b'\t' | b'\r') => true,
        Some(_) => false,
    }
}

/// How long the number is that a text begins with.
#[inline]
fn number(text: &[u8]) -> Option<usize> {
    let next = |at: usize| text.get(at).copied();
    let mut at = usize::from(next(0) == Some(b'-'));
    // No digit follows a zero.
    at = if next(at) == Some(b'0') { at + 1 } else { digits(text, at)? };
    if next(at) == Some(b'.') {
        at = digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = next(at) {
        let sign = matches!(next(at + 1), Some(b'+' | b'-'));
        at = digits(text, at + 1 + usize::from(sign))?;
    }
    Some(at)
}

/// Where the digits end that stand at a place, one at least.
#[inline]
fn digits(text: &[u8], first: usize) -> Option<usize> {
    let mut at = first;
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    (at > first).then_some(at)
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

    /// A tree of some dozens of values, their texts full of what must be escaped.
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
        fn what_the_parser_takes_is_taken_and_nothing_else(json in pieces()) {
            let parsed = serde_json::from_str::<&RawValue>(&json);
            match scan(&json) {
                Ok(_) => prop_assert!(parsed.is_ok(), "{json}"),
                Err(Flaw::Grammar) => prop_assert!(parsed.is_err(), "{json}"),
                Err(Flaw::Depth(_) | Flaw::HalfPair(_)) => {}
            }
        }

        /// Longer than what is looked at together, and wrong in one place at most.
        #[test]
        fn a_document_is_taken_wherever_its_parts_lie(
            tree in tree(),
            space in " {0,70}",
            pretty in any::<bool>(),
            (place, cut, piece) in (any::<proptest::sample::Index>(), 0..3_usize, pieces()),
        ) {
            let json = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let json = space + &json.unwrap();
            prop_assert_eq!(scan(&json), Ok(Counts::of(&tree)), "{}", json);

            let mut torn: Vec<char> = json.chars().collect();
            let from = place.index(torn.len());
            let to = torn.len().min(from + cut);
            torn.splice(from..to, piece.chars());
            let torn: String = torn.into_iter().collect();
            let parsed = serde_json::from_str::<&RawValue>(&torn);
            match scan(&torn) {
                Ok(_) => prop_assert!(parsed.is_ok(), "{torn}"),
                Err(Flaw::Grammar) => prop_assert!(parsed.is_err(), "{torn}"),
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
