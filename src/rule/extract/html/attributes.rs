//! A look at the tags of a page before it is parsed.
//!
//! The parser compares each attribute of a tag with the others, so a tag of very many would keep it busy for hours.

/// How many attributes a tag may have.
pub(super) const LIMIT: usize = 1000;

/// Refuses a page that has a tag of too many attributes.
pub(super) fn check(text: &str) -> Result<(), String> {
    match first_wide_tag(text) {
        None => Ok(()),
        Some(offset) => {
            let line = text[..offset].matches('\n').count() + 1;
            Err(format!("line {line}: {}", too_many()))
        }
    }
}

pub(super) fn too_many() -> String {
    format!("expected at most {LIMIT} attributes in a tag, found more")
}

/// Where a tag, or what would be one outside of scripts and comments, has too many attributes.
///
/// Which `<a` begin a tag only the parser knows, so each is followed as if it did; all that are in the same state of
/// a tag go on together, the one with the most attributes for all, so this is linear.
fn first_wide_tag(text: &str) -> Option<usize> {
    let mut live: [Option<usize>; STATES] = [None; STATES];
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().copied().enumerate() {
        let mut next: [Option<usize>; STATES] = [None; STATES];
        if byte == b'<'
            && bytes.get(index + 1).is_some_and(|after| after.is_ascii_alphabetic() || *after == b'/')
        {
            next[State::TagName as usize] = Some(0);
        } else if live == next {
            continue;
        }
        for (state, count) in ALL_STATES.iter().zip(live) {
            let (Some(count), Some((after, more))) = (count, state.after(byte)) else { continue };
            let count = count + more;
            if count > LIMIT {
                return Some(index);
            }
            let slot = &mut next[after as usize];
            *slot = (*slot).max(Some(count));
        }
        live = next;
    }
    None
}

/// Where in a tag the tokenizer is (HTML, section 13.2.5, from "tag name state" on).
#[derive(Debug, Clone, Copy)]
enum State {
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    DoubleQuoted,
    SingleQuoted,
    Unquoted,
}

const STATES: usize = 8;
const ALL_STATES: [State; STATES] = [
    State::TagName,
    State::BeforeName,
    State::Name,
    State::AfterName,
    State::BeforeValue,
    State::DoubleQuoted,
    State::SingleQuoted,
    State::Unquoted,
];

impl State {
    /// The state behind a byte, and how many attributes began with it; `None` when the tag ends.
    fn after(self, byte: u8) -> Option<(Self, usize)> {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c');
        let none = |state| Some((state, 0));
        match (self, byte) {
            (Self::DoubleQuoted, b'"') | (Self::SingleQuoted, b'\'') => none(Self::BeforeName),
            (Self::DoubleQuoted | Self::SingleQuoted, _) => none(self),
            (_, b'>') => None,
            (Self::TagName | Self::Unquoted, _) if space => none(Self::BeforeName),
            (Self::Unquoted, _) => none(self),
            (Self::TagName | Self::Name | Self::AfterName | Self::BeforeName, b'/') => none(Self::BeforeName),
            (Self::TagName, _) => none(self),
            (Self::BeforeName | Self::AfterName | Self::BeforeValue, _) if space => none(self),
            (Self::Name, _) if space => none(Self::AfterName),
            (Self::Name | Self::AfterName, b'=') => none(Self::BeforeValue),
            (Self::Name, _) => none(self),
            (Self::BeforeValue, b'"') => none(Self::DoubleQuoted),
            (Self::BeforeValue, b'\'') => none(Self::SingleQuoted),
            (Self::BeforeValue, _) => none(Self::Unquoted),
            (Self::BeforeName | Self::AfterName, _) => Some((Self::Name, 1)),
        }
    }
}
