//! Whether bytes are one JSON document, in one pass and without a tree.
//!
//! As strict as RFC 8259 and the parser of `serde_json`, and stricter in two things that a raw value may hide: how deep
//! it nests, and halves of surrogate pairs. The words for what is wrong are the parser's: see [`JsonText::check`].
//!
//! [`JsonText::check`]: super::JsonText::check

use serde_json::Value;

use super::{
    JSON_DEPTH_LIMIT,
    block::{BLOCK, Block, Marks, marks},
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
/// Of 64 bytes at a time it finds which are in strings and where tokens begin, without a branch; then a table says of
/// each token whether it may stand there.
pub(super) fn scan(json: &str) -> Result<Counts, Flaw> {
    let bytes = json.as_bytes();
    let (mut strings, mut grammar) = (Strings::default(), Grammar::default());
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for (index, block) in blocks.iter().enumerate() {
        scan_block(bytes, index * BLOCK, block, &mut strings, &mut grammar)?;
    }
    if !rest.is_empty() {
        let mut last = [b' '; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        scan_block(bytes, blocks.len() * BLOCK, &last, &mut strings, &mut grammar)?;
    }
    if strings.inside { Err(Flaw::Grammar) } else { grammar.counts() }
}

#[inline]
fn scan_block(
    bytes: &[u8],
    first: usize,
    block: &Block,
    strings: &mut Strings,
    grammar: &mut Grammar,
) -> Result<(), Flaw> {
    let marks = marks(block);
    let found = strings.find(&marks);
    if marks.controls & (found.inside | !marks.spaces) != 0 {
        return Err(Flaw::Grammar);
    }
    for at in ones(found.escapes) {
        strings.escape(bytes, first + at)?;
    }
    for at in ones(found.tokens) {
        grammar.take(bytes, first + at, block[at % BLOCK])?;
    }
    Ok(())
}

/// The places of a word's bits, lowest first.
#[inline]
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros() as usize;
        if word == 0 {
            return None;
        }
        word &= word - 1;
        Some(at)
    })
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
        let scalars = !(marks.structure | marks.spaces | marks.quotes | inside);
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

/// Which token may follow which.
struct Grammar {
    state: u8,
    /// Of each list or object that is open, whether it is an object: the innermost is the lowest bit.
    open: u128,
    depth: usize,
    /// How many tokens of each kind there were.
    tally: [usize; KINDS],
}

impl Default for Grammar {
    fn default() -> Self {
        Self { state: DOCUMENT, open: 0, depth: 0, tally: [0; KINDS] }
    }
}

impl Grammar {
    /// Takes the token that begins at a place with this byte. What stands where it must not shows at the latest in
    /// [`counts`](Self::counts).
    #[inline]
    fn take(&mut self, bytes: &[u8], at: usize, byte: u8) -> Result<(), Flaw> {
        let kind = KIND[usize::from(byte)];
        self.tally[usize::from(kind) % KINDS] += 1;
        let next = NEXT[usize::from(self.state) % STATES][usize::from(kind) % KINDS];
        self.state = match kind {
            QUOTE | COLON | COMMA => next,
            SCALAR => {
                scalar(bytes, at)?;
                next
            }
            OPEN_LIST | OPEN_OBJECT => {
                self.depth += 1;
                if self.depth > JSON_DEPTH_LIMIT {
                    return Err(Flaw::Depth(at));
                }
                self.open = self.open << 1 | u128::from(kind == OPEN_OBJECT);
                next
            }
            _ if next == WRONG => return Err(Flaw::Grammar),
            _ => {
                self.depth -= 1;
                self.open >>= 1;
                match (self.depth, self.open & 1) {
                    (0, _) => AFTER_DOCUMENT,
                    (_, 0) => AFTER_ITEM,
                    (..) => AFTER_MEMBER,
                }
            }
        };
        Ok(())
    }

    /// What there was in the document, which has ended.
    fn counts(&self) -> Result<Counts, Flaw> {
        let of = |kind: u8| self.tally[usize::from(kind)];
        // Each name has a colon, and is no value.
        let members = of(COLON);
        match self.state {
            AFTER_DOCUMENT => Ok(Counts {
                members,
                values: of(QUOTE) + of(SCALAR) + of(OPEN_LIST) + of(OPEN_OBJECT) - members,
            }),
            _ => Err(Flaw::Grammar),
        }
    }
}

// Kinds of tokens. What is no other kind is a number, a literal, or wrong.
const QUOTE: u8 = 0;
const COLON: u8 = 1;
const COMMA: u8 = 2;
const SCALAR: u8 = 3;
const OPEN_LIST: u8 = 4;
const OPEN_OBJECT: u8 = 5;
const CLOSE_LIST: u8 = 6;
const CLOSE_OBJECT: u8 = 7;
const KINDS: usize = 8;

const KIND: [u8; 256] = {
    let mut kinds = [SCALAR; 256];
    kinds[b'"' as usize] = QUOTE;
    kinds[b':' as usize] = COLON;
    kinds[b',' as usize] = COMMA;
    kinds[b'[' as usize] = OPEN_LIST;
    kinds[b'{' as usize] = OPEN_OBJECT;
    kinds[b']' as usize] = CLOSE_LIST;
    kinds[b'}' as usize] = CLOSE_OBJECT;
    kinds
};

// What comes next: the document, …
const DOCUMENT: u8 = 0;
const AFTER_DOCUMENT: u8 = 1;
// … an item, or the end of the list where there is none yet, …
const FIRST_ITEM: u8 = 2;
const ITEM: u8 = 3;
const AFTER_ITEM: u8 = 4;
// … a name, or the end of the object where there is none yet, its colon, its value.
const FIRST_NAME: u8 = 5;
const NAME: u8 = 6;
const AFTER_NAME: u8 = 7;
const MEMBER: u8 = 8;
const AFTER_MEMBER: u8 = 9;
/// Nothing: what was there should not have been.
const WRONG: u8 = 10;
const STATES: usize = 16;

/// What comes after a token of a kind. Of what closes a list or an object only whether it may.
const NEXT: [[u8; KINDS]; STATES] = {
    let mut next = [[WRONG; KINDS]; STATES];
    let values =
        [(DOCUMENT, AFTER_DOCUMENT), (FIRST_ITEM, AFTER_ITEM), (ITEM, AFTER_ITEM), (MEMBER, AFTER_MEMBER)];
    let mut index = 0;
    while index < values.len() {
        let (before, after) = values[index];
        next[before as usize][QUOTE as usize] = after;
        next[before as usize][SCALAR as usize] = after;
        next[before as usize][OPEN_LIST as usize] = FIRST_ITEM;
        next[before as usize][OPEN_OBJECT as usize] = FIRST_NAME;
        index += 1;
    }
    next[FIRST_NAME as usize][QUOTE as usize] = AFTER_NAME;
    next[NAME as usize][QUOTE as usize] = AFTER_NAME;
    next[AFTER_NAME as usize][COLON as usize] = MEMBER;
    next[AFTER_ITEM as usize][COMMA as usize] = ITEM;
    next[AFTER_MEMBER as usize][COMMA as usize] = NAME;
    next[FIRST_ITEM as usize][CLOSE_LIST as usize] = AFTER_ITEM;
    next[AFTER_ITEM as usize][CLOSE_LIST as usize] = AFTER_ITEM;
    next[FIRST_NAME as usize][CLOSE_OBJECT as usize] = AFTER_MEMBER;
    next[AFTER_MEMBER as usize][CLOSE_OBJECT as usize] = AFTER_MEMBER;
    next
};

/// Whether a number or a literal stands at a place, and ends where another token or white space begins.
#[inline]
fn scalar(bytes: &[u8], at: usize) -> Result<(), Flaw> {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = match rest.first() {
        Some(b'-' | b'0'..=b'9') => number(rest)?,
        Some(b't') if rest.starts_with(b"true") => 4,
        Some(b'f') if rest.starts_with(b"false") => 5,
        Some(b'n') if rest.starts_with(b"null") => 4,
        _ => return Err(Flaw::Grammar),
    };
    let ends = |byte: &u8| KIND[usize::from(*byte)] != SCALAR || matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
    if rest.get(length).is_none_or(ends) { Ok(()) } else { Err(Flaw::Grammar) }
}

/// How long the number is that a text begins with.
#[inline]
fn number(text: &[u8]) -> Result<usize, Flaw> {
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
    Ok(at)
}

/// Where the digits end that stand at a place, one at least.
#[inline]
fn digits(text: &[u8], first: usize) -> Result<usize, Flaw> {
    let mut at = first;
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    if at > first { Ok(at) } else { Err(Flaw::Grammar) }
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
