//! A list a page at a time, with cursors that any replica understands and that outlive a reload.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::{Map, Value};

/// Some of a list, and how to ask for the rest.
#[derive(Debug, Clone)]
pub struct Page<'a, E> {
    /// What is on it, in the order of the list.
    pub entries: &'a [E],
    /// What asks for the next page; `None` on the last.
    pub next_cursor: Option<String>,
}

/// A text that is no cursor of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown cursor; use the `nextCursor` of an earlier page, or none for the first page")]
pub struct BadCursor;

/// Something that stands in a list under a key of its own.
pub trait Keyed {
    /// What it is called; the list is in the order of these.
    fn key(&self) -> &str;
}

/// Definitions by name or address, each already JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    entries: Vec<Listed>,
}

/// One definition of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    key: String,
    json: Bytes,
}

/// The entries after `cursor`, at most `size` of them (at least one). `list` is the name of the list, such as `tools`:
/// a cursor of one list is none of another.
///
/// A cursor is the key of the last entry that was shown. So any replica understands it, and it goes on at the right
/// place after a reload, even when that entry is gone.
///
/// # Errors
///
/// [`BadCursor`].
pub(super) fn page<'a, E: Keyed>(
    list: &str,
    entries: &'a [E],
    cursor: Option<&str>,
    size: usize,
) -> Result<Page<'a, E>, BadCursor> {
    let start = match cursor {
        None => 0,
        Some(cursor) => {
            let last = key_in(cursor, list)?;
            entries.partition_point(|entry| entry.key() <= last.as_str())
        }
    };
    let rest = &entries[start..];
    let entries = &rest[..rest.len().min(size.max(1))];
    let next_cursor = match entries.last() {
        Some(last) if entries.len() < rest.len() => {
            Some(URL_SAFE_NO_PAD.encode(format!("{list} {}", last.key())))
        }
        Some(_) | None => None,
    };
    Ok(Page { entries, next_cursor })
}

fn key_in(cursor: &str, list: &str) -> Result<String, BadCursor> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| BadCursor)?;
    let text = String::from_utf8(bytes).map_err(|_| BadCursor)?;
    let key = text.strip_prefix(list).and_then(|rest| rest.strip_prefix(' ')).filter(|key| !key.is_empty());
    key.map(str::to_owned).ok_or(BadCursor)
}

impl Listing {
    /// A list of these definitions, in the order of their keys.
    pub fn of(definitions: impl IntoIterator<Item = (String, Map<String, Value>)>) -> Self {
        let listed = |(key, definition): (String, Map<String, Value>)| Listed {
            key,
            json: serde_json::to_vec(&definition).expect("a tree of JSON values has string keys only").into(),
        };
        let mut entries: Vec<Listed> = definitions.into_iter().map(listed).collect();
        entries.sort_by(|left, right| left.key.cmp(&right.key));
        Self { entries }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A page of it; `list` is what it is called, such as `prompts`.
    ///
    /// # Errors
    ///
    /// [`BadCursor`] when `cursor` is none of this list.
    pub fn page(&self, list: &str, cursor: Option<&str>, size: usize) -> Result<Page<'_, Listed>, BadCursor> {
        page(list, &self.entries, cursor, size)
    }
}

impl Listed {
    /// The definition as one JSON object.
    pub fn json(&self) -> &Bytes {
        &self.json
    }
}

impl Keyed for Listed {
    fn key(&self) -> &str {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(keys: &[&str]) -> Listing {
        Listing::of(keys.iter().map(|key| ((*key).to_owned(), Map::new())))
    }

    fn keys<'a>(page: &Page<'a, Listed>) -> Vec<&'a str> {
        page.entries.iter().map(Keyed::key).collect()
    }

    #[test]
    fn pages_show_every_entry_once_and_end() {
        let listing = listing(&["c", "a", "b", "e", "d"]);
        let (mut shown, mut cursor) = (Vec::new(), None);
        loop {
            let page = listing.page("letters", cursor.as_deref(), 2).unwrap();
            shown.extend(keys(&page));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(shown, ["a", "b", "c", "d", "e"]);
        assert!(listing.page("letters", None, 5).unwrap().next_cursor.is_none());
    }

    #[test]
    fn a_cursor_outlives_a_reload() {
        let cursor = listing(&["a", "b", "c", "d"]).page("letters", None, 2).unwrap().next_cursor;
        let after = listing(&["a", "a2", "c", "d"]);
        assert_eq!(keys(&after.page("letters", cursor.as_deref(), 2).unwrap()), ["c", "d"]);
        let emptied = listing(&["a"]);
        let page = emptied.page("letters", cursor.as_deref(), 2).unwrap();
        assert!(page.entries.is_empty() && page.next_cursor.is_none());
    }

    #[test]
    fn what_is_no_cursor_of_the_list_is_refused() {
        let listing = listing(&["a", "report://x y", "z"]);
        let cursor = listing.page("resources", None, 2).unwrap().next_cursor.unwrap();
        assert_eq!(keys(&listing.page("resources", Some(&cursor), 2).unwrap()), ["z"]);
        for other in ["tools", "resource", "resourcess", ""] {
            assert_eq!(listing.page(other, Some(&cursor), 2).unwrap_err(), BadCursor, "{other}");
        }
        for text in ["", "!", "YSBi", "gA", "cmVzb3VyY2VzIA"] {
            assert_eq!(listing.page("resources", Some(text), 2).unwrap_err(), BadCursor, "{text}");
        }
    }
}
