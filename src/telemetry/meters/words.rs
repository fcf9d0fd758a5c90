//! A few things of one kind, each found by a word of the program itself.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// A few `T`s, each under a word that is written in the program. Found without a lock, made when first asked for.
///
/// There are at most `N`: words that come after that share the last one, which no test has seen.
pub(super) struct ByWord<T, const N: usize>([OnceLock<Box<(&'static str, T)>>; N]);

impl<T: Default, const N: usize> ByWord<T, N> {
    /// That of a word.
    pub(super) fn of(&self, word: &'static str) -> &T {
        let mut last = None;
        for slot in &self.0 {
            let (known, value) = &**slot.get_or_init(|| Box::new((word, T::default())));
            if *known == word {
                return value;
            }
            last = Some(value);
        }
        last.expect("there is more than none")
    }

    /// Those that were asked for.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &T)> {
        self.0.iter().map_while(|slot| slot.get().map(|pair| (pair.0, &pair.1)))
    }
}

impl<T, const N: usize> Default for ByWord<T, N> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; N])
    }
}

/// Numbers that only grow, each under a word that is written in the program. Clones are the same numbers.
#[derive(Clone, Default)]
pub struct Words(Arc<ByWord<AtomicU64, 32>>);

impl Words {
    /// Counts one.
    pub fn add(&self, word: &'static str) {
        self.0.of(word).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts so many.
    pub fn add_many(&self, word: &'static str, count: u64) {
        self.0.of(word).fetch_add(count, Ordering::Relaxed);
    }

    /// Begins to tell of words before there is one: from 0 on they can be seen to grow.
    pub fn expect<const N: usize>(&self, words: [&'static str; N]) {
        for word in words {
            let _ = self.0.of(word);
        }
    }

    /// All of them, until now.
    pub fn read(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(word, count)| (word, count.load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.read()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_own_until_there_are_too_many() {
        let few = ByWord::<AtomicU64, 2>::default();
        for word in ["a", "b", "a", "c", "b"] {
            few.of(word).fetch_add(1, Ordering::Relaxed);
        }
        let read: Vec<_> = few.iter().map(|(word, count)| (word, count.load(Ordering::Relaxed))).collect();
        assert_eq!(read, [("a", 2), ("b", 3)]);
    }
}
