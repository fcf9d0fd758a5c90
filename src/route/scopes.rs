//! OAuth scopes of a client (RFC 6749, section 3.3).

use std::{collections::BTreeSet, sync::Arc};

use crate::settings::{Checked, Cursor, FromText, Invalid, Setting, ValueKind};

/// Set of scopes, such as `weather.read`. Clones share the set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.iter().collect::<Vec<_>>().join(" "))]
pub struct Scopes(Arc<BTreeSet<Box<str>>>);

impl Scopes {
    /// Maximum length of a scope, in bytes.
    pub const LENGTH_LIMIT: usize = 128;
    /// Maximum number of scopes of a client; further scopes are ignored.
    pub const COUNT_LIMIT: usize = 200;

    /// Creates the set of scopes of a client. Invalid scopes are ignored.
    pub fn from_client<'s>(names: impl IntoIterator<Item = &'s str>) -> Self {
        let names = names.into_iter().filter(|name| is_scope(name)).take(Self::COUNT_LIMIT);
        Self(Arc::new(names.map(Box::from).collect()))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this set contains all of `needed`.
    pub fn contains_all(&self, needed: &Self) -> bool {
        needed.0.is_subset(&self.0)
    }

    /// Union of two sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(Arc::new(&*self.0 | &*other.0))
    }

    /// Intersection of two sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(Arc::new(&*self.0 & &*other.0))
    }

    /// Difference of two sets.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(Arc::new(&*self.0 - &*other.0))
    }

    /// Scopes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

/// A list of scopes in the configuration.
impl Setting for Scopes {
    const KIND: ValueKind = ValueKind::List(&ValueKind::Text);
    const ABSENT: Option<fn() -> Self> = Some(Self::default);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let scopes = Vec::<ScopeToken>::read(value)?.into_iter();
        Ok(Self(Arc::new(scopes.map(|ScopeToken(name)| name).collect())))
    }
}

struct ScopeToken(Box<str>);

impl FromText for ScopeToken {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let limit = Scopes::LENGTH_LIMIT;
        is_scope(text).then(|| Self(text.into())).ok_or_else(|| {
            let message =
                format!("a scope must have 1 to {limit} visible ASCII characters, without `\"` and `\\`");
            Invalid::new(message, "write a scope such as `weather.read`")
        })
    }
}

fn is_scope(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E);
    (1..=Scopes::LENGTH_LIMIT).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(text: &str) -> Scopes {
        Scopes::from_client(text.split_whitespace())
    }

    #[test]
    fn scopes_are_sorted_and_deduplicated() {
        assert_eq!(scopes("b a b"), scopes("a b"));
        assert_eq!(scopes("b a").to_string(), "a b");
        assert_eq!(scopes("a c").union(&scopes("b c")), scopes("a b c"));
        assert_eq!(scopes("a b c").intersection(&scopes("d c b")), scopes("b c"));
        assert_eq!(scopes("a b c").difference(&scopes("d c b")), scopes("a"));
    }

    #[test]
    fn all_needed_scopes_are_required() {
        assert!(scopes("a b").contains_all(&scopes("b")) && scopes("").contains_all(&scopes("")));
        assert!(!scopes("a b").contains_all(&scopes("b c")) && !scopes("").contains_all(&scopes("a")));
        assert!(!scopes("weather.read").contains_all(&scopes("weather")), "no scope is in another");
    }

    #[test]
    fn a_scope_has_no_characters_that_break_a_header() {
        for invalid in ["", "a b", "a\"b", "a\\b", "ä", "a\n", &"a".repeat(129)] {
            assert!(
                ScopeToken::from_text(invalid).is_err() && Scopes::from_client([invalid]).is_empty(),
                "{invalid:?}"
            );
        }
    }
}
