//! The arguments with which a client requests the omitted rows.

use serde_json::{Map, Value};
use settings_derive::Section;

use crate::{
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, OpenSection, Setting},
        value::text_of,
    },
    translate::scope::Scope,
};

/// Arguments for paging through rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PagingArguments {
    /// An argument that counts rows.
    Offset {
        /// Name of the argument.
        argument: String,
        /// Value for the first row.
        first: u64,
    },
    /// An argument that counts pages, and one for the page size. The page size of the next request is the
    /// number of shown rows, so that no row is skipped.
    Page {
        /// Name of the page argument.
        argument: String,
        /// Name of the page size argument.
        size: String,
        /// Value for the first page.
        first: u64,
    },
}

/// Keys of `more`.
#[derive(Section)]
#[section(id = "more", check_keys = Self::check_keys)]
struct MoreSettings {
    /// Argument with the number of rows to skip.
    #[key(with = count_argument)]
    offset: Option<String>,
    /// Argument with the page number.
    #[key(conflicts = "offset", with = count_argument)]
    page: Option<String>,
    /// Argument with the number of rows per page.
    #[key(conflicts = "offset", with = count_argument)]
    size: Option<String>,
    /// Number of the first row or page. Default 0 for `offset`, 1 for `page`.
    #[key(range = 0..=1)]
    first: Option<u64>,
}

impl MoreSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let is_there = |name| section.entry(name).is_some();
        let (message, help) = match (is_there("offset"), is_there("page"), is_there("size")) {
            (true, ..) | (false, true, true) => return Ok(()),
            (false, true, false) => (
                "`page` has no `size` beside it",
                "name the argument that says how many rows a page has: the next page of the same size \
                 would pass over the rows that were left out",
            ),
            (false, false, _) => (
                "`more` says neither `offset` nor `page`",
                "write `more: { offset: start }`, the name of an argument",
            ),
        };
        Err(section.missing(message.to_owned(), help))
    }
}

impl Setting for PagingArguments {
    const KIND: ValueKind = MoreSettings::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let MoreSettings { offset, page, size, first } = MoreSettings::read(value)?;
        Ok(match (offset, page, size) {
            (None, Some(argument), Some(size)) => Self::Page { argument, size, first: first.unwrap_or(1) },
            (offset, ..) => Self::Offset { argument: offset.unwrap_or_default(), first: first.unwrap_or(0) },
        })
    }
}

/// Reads the name of an argument that counts rows or pages.
fn count_argument(value: &Cursor<'_>) -> Checked<Option<String>> {
    let name = text_of(value)?;
    Scope::from_cursor(value).used.borrow_mut().add_count(name, value.node.span);
    Ok(Some(name.to_owned()))
}

impl PagingArguments {
    /// Names of its arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &String> {
        let (first, second) = match self {
            Self::Offset { argument, .. } => (argument, None),
            Self::Page { argument, size, .. } => (argument, Some(size)),
        };
        std::iter::once(first).chain(second)
    }

    /// Arguments that request the rows after those shown.
    pub(super) fn next(&self, args: &Value, shown: usize, texts: &[String]) -> Map<String, Value> {
        let shown = shown as u64;
        // An argument without a type may be a string; a string that is not a number has no next value.
        let current = |name: &str, first: u64| match args.get(name) {
            None | Some(Value::Null) => Some(first),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(other) => other.as_u64(),
        };
        let next = match self {
            Self::Offset { argument, first } => current(argument, *first)
                .and_then(|current| Some(vec![(argument.clone(), current.checked_add(shown)?)])),
            Self::Page { argument, size, first } => current(argument, *first).and_then(|page| {
                let before = page.checked_sub(*first)?;
                // Without a page size, the number of rows on earlier pages is unknown, except for the first
                // page.
                let of_page = if before == 0 { 0 } else { current(size, 0).filter(|size| *size > 0)? };
                let seen = before.checked_mul(of_page)?.checked_add(shown)?;
                Some(vec![(argument.clone(), first + seen.checked_div(shown)?), (size.clone(), shown)])
            }),
        };
        // The value must match the input schema.
        let is_text = |name: &String| texts.contains(name) || args.get(name).is_some_and(Value::is_string);
        let written = |(name, value): (String, u64)| match is_text(&name) {
            true => (name, Value::String(value.to_string())),
            false => (name, value.into()),
        };
        next.into_iter().flatten().map(written).collect()
    }
}
