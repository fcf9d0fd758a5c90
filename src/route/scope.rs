//! What a caller has to be allowed: the scopes of OAuth (RFC 6749, section 3.3).

use std::{fmt, sync::Arc};

/// A set of scopes, such as `weather.read`. Clones share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scopes(Arc<[Box<str>]>);

/// A text that is no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a scope has 1 to {} visible ASCII characters, no quote and no backslash", Scopes::LENGTH_LIMIT)]
pub struct NotAScope;

impl Scopes {
    /// How many bytes one scope may have.
    pub const LENGTH_LIMIT: usize = 128;
    /// How many of the scopes that a caller brings are looked at.
    pub const COUNT_LIMIT: usize = 200;

    /// A set of these.
    ///
    /// # Errors
    ///
    /// [`NotAScope`], when one is none.
    pub fn new<'s>(names: impl IntoIterator<Item = &'s str>) -> Result<Self, NotAScope> {
        let names =
            names.into_iter().map(|name| if is_scope(name) { Ok(name.into()) } else { Err(NotAScope) });
        names.collect::<Result<Vec<Box<str>>, NotAScope>>().map(Self::of)
    }

    /// Those of a caller's words that are scopes; the others mean nothing here.
    pub fn of_caller<'s>(names: impl IntoIterator<Item = &'s str>) -> Self {
        let names = names.into_iter().filter(|name| is_scope(name)).take(Self::COUNT_LIMIT);
        Self::of(names.map(Box::from).collect())
    }

    fn of(mut names: Vec<Box<str>>) -> Self {
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of those are among these.
    pub fn hold(&self, needed: &Self) -> bool {
        needed.0.iter().all(|name| self.0.binary_search(name).is_ok())
    }

    /// These and those.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        if self.hold(more) {
            return self.clone();
        }
        Self::of(self.0.iter().chain(&*more.0).cloned().collect())
    }

    /// Those of these that are among those, too.
    #[must_use]
    pub fn among(&self, those: &Self) -> Self {
        Self::of(self.0.iter().filter(|name| those.0.binary_search(name).is_ok()).cloned().collect())
    }

    /// Those of these that are not among those.
    #[must_use]
    pub fn without(&self, those: &Self) -> Self {
        Self::of(self.0.iter().filter(|name| those.0.binary_search(name).is_err()).cloned().collect())
    }

    /// One after the other, by name.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

/// As the wire has them: `a b c`.
impl fmt::Display for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(formatter, "{space}{name}")?;
        }
        Ok(())
    }
}

fn is_scope(name: &str) -> bool {
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E);
    (1..=Scopes::LENGTH_LIMIT).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(text: &str) -> Scopes {
        Scopes::new(text.split_whitespace()).unwrap()
    }

    #[test]
    fn a_set_has_no_order_and_nothing_twice() {
        assert_eq!(scopes("b a b"), scopes("a b"));
        assert_eq!(scopes("b a").to_string(), "a b");
        assert_eq!(scopes("a c").and(&scopes("b c")), scopes("a b c"));
        assert_eq!(scopes("a b c").among(&scopes("d c b")), scopes("b c"));
        assert_eq!(scopes("a b c").without(&scopes("d c b")), scopes("a"));
    }

    #[test]
    fn all_that_is_needed_has_to_be_there() {
        assert!(scopes("a b").hold(&scopes("b")) && scopes("").hold(&scopes("")));
        assert!(!scopes("a b").hold(&scopes("b c")) && !scopes("").hold(&scopes("a")));
        assert!(!scopes("weather.read").hold(&scopes("weather")), "no scope is in another");
    }

    #[test]
    fn what_would_break_out_of_a_header_is_no_scope() {
        for wrong in ["", "a b", "a\"b", "a\\b", "ä", "a\n", &"a".repeat(129)] {
            assert_eq!(Scopes::new([wrong]), Err(NotAScope), "{wrong:?}");
            assert!(Scopes::of_caller([wrong]).is_empty());
        }
    }
}
