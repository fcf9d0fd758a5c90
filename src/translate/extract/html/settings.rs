//! Types of the options of the `html` extractor.

use settings_derive::{Section, Word};

use super::{CssSelector, Html};
use crate::settings::{
    Checked, Code, Cursor, Entry, Kind, OpenSection, Setting, ValueKind, read_each, text_of,
};

/// Shape of an extracted table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Word)]
pub enum TableForm {
    /// List of objects, by the names of the columns.
    Rows,
    /// An object of names and values.
    Pairs,
}

impl Html {
    pub(super) fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let mut checked = Ok(());
        let form = section.get("as").and_then(|node| node.as_text());
        if form == Some("pairs") && section.entry("table").is_some() && section.entry("columns").is_some() {
            checked = Err(section.conflict("columns", "as: pairs"));
        }
        if section.entry("items").is_some() && section.entry("select").is_none() {
            let help =
                "write the parts of each item: `select: { name: h2, link: { css: a, attribute: href } }`";
            checked = Err(section.missing("`items` has no `select`".to_owned(), help));
        }
        checked
    }
}

impl Setting for CssSelector {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let help = "write `h1`, `#state`, `table.report td:nth-child(2)`, `a[href^=\"/host\"]`";
        Self::parse(text_of(value)?)
            .or_else(|error| error.reject(value, Code::InvalidSelector, "CSS selector", help))
    }
}

/// Selector of the table; the first table of the page if there is none.
#[derive(Debug, Clone)]
pub struct TableSelector(pub Option<CssSelector>);

impl Setting for TableSelector {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, ValueKind::Boolean]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        match value.node.kind {
            Kind::Boolean(true) => Ok(Self(None)),
            Kind::Text(_) => CssSelector::read(value).map(|css| Self(Some(css))),
            Kind::Null | Kind::Boolean(false) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => {
                let help = "write `table: true` for the first table of the page".to_owned();
                value.reject_kind("a CSS selector or `true`", Some(help))
            }
        }
    }
}

/// Members to extract from a page, by name; at least one.
#[derive(Debug, Clone)]
pub struct SelectedElements(pub Vec<(String, Selected)>);

impl Setting for SelectedElements {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Either(&[ValueKind::Text, Selected::KIND]));

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Some(entries) = value.node.as_map().filter(|entries| !entries.is_empty()) else {
            let help = "write `select: { title: h1 }`".to_owned();
            return value.reject_kind("a map of names and selectors", Some(help));
        };
        read_each(entries.iter().map(|entry| selected(value, entry))).map(Self)
    }
}

fn selected(select: &Cursor<'_>, entry: &Entry) -> Checked<(String, Selected)> {
    let name = entry.key.text.clone();
    let shown = format!("`{name}`");
    let value = select.member(entry, &shown, Selected::KIND);
    if value.node.as_text().is_some() {
        let css = Some(CssSelector::read(&value)?);
        return Ok((name, Selected { css, attribute: None, all: false, optional: false }));
    }
    let mut selected = Selected::read(&value)?;
    selected.attribute.iter_mut().for_each(|name| name.make_ascii_lowercase());
    Ok((name, selected))
}

/// A member of `select`.
#[derive(Debug, Clone, Section)]
#[section(name = "a name of `select`", id = "selected", check_keys = Self::check_keys)]
pub struct Selected {
    /// CSS selector. With `items` it is optional and defaults to the element itself.
    pub css: Option<CssSelector>,
    /// Attribute to read. Elements without it are skipped.
    #[key(shown = "the text")]
    pub attribute: Option<String>,
    /// Whether to return a list of all matches, which may be empty.
    #[key(default = false, shown = "`false`, the first match")]
    pub all: bool,
    /// Whether the element may be missing from a page.
    #[key(default = false)]
    pub optional: bool,
}

impl Selected {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let mut checked = Ok(());
        if section.entry("css").is_none() && section.value.sibling("items").is_none() {
            let message = format!("{} has no `css`", section.value.name);
            checked = Err(section.missing(message, "write a CSS selector: `css: \"a[href]\"`"));
        }
        let takes_all =
            section.entry("all").is_some_and(|entry| matches!(entry.value.kind, Kind::Boolean(true)));
        if takes_all && section.entry("optional").is_some() {
            checked = Err(section.conflict("optional", "all"));
        }
        checked
    }
}
