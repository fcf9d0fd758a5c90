//! Options of the `html` extractor.

use settings_derive::{Section, Word};

use super::{CssSelector, EachElement, Html, MatchCount, PagePart, Selected, Table, TableShape};
use crate::{
    settings::{
        code::Code,
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, OpenSection, Setting},
        tree::{Entry, Kind},
        value::text_of,
    },
    translate::extract::records::ColumnNames,
};

/// Options of [`Html`].
#[derive(Debug, Section)]
#[section(check_keys = Self::check_keys)]
pub struct HtmlSettings {
    /// CSS selectors by name. Each gives the text of the first matching element, or what its map specifies.
    #[key(conflicts = "text, table")]
    select: Option<SelectedElements>,
    /// CSS selector of the records. `select` applies within each matching element, and the result is a list.
    #[key(conflicts = "text, table")]
    items: Option<CssSelector>,
    /// Whether a page without any matches of `items` is valid and gives an empty list. Otherwise it is an
    /// error.
    #[key(default = false, conflicts = "text, table", requires = "items")]
    allow_empty: bool,
    /// Table to parse: `true` for the first table of the page, or a CSS selector of the table or of an
    /// element around it.
    #[key(conflicts = "text")]
    table: Option<TableSelector>,
    /// Shape of the table: `rows` gives a list of objects by its headings, `pairs` one object of names and
    /// values.
    #[key(name = "as", default = TableForm::Rows, conflicts = "text", requires = "table")]
    form: TableForm,
    /// Names of the table's columns, in place of its headings.
    #[key(conflicts = "text", requires = "table")]
    columns: Option<ColumnNames>,
    /// CSS selector of the element whose whole text is the value. The first match applies.
    text: Option<CssSelector>,
    /// CSS selector of elements to remove from the page first.
    without: Option<CssSelector>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Word)]
enum TableForm {
    Rows,
    Pairs,
}

impl HtmlSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let mut checked = Ok(());
        let form = section.entry("as").and_then(|entry| entry.value.as_text());
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

impl From<HtmlSettings> for Html {
    fn from(settings: HtmlSettings) -> Self {
        let HtmlSettings { select, items, allow_empty, table, form, columns, text, without } = settings;
        let take = match (text, table, select, items) {
            (Some(css), ..) => PagePart::TextOf(css),
            (None, Some(TableSelector(css)), ..) => {
                let shape = match form {
                    TableForm::Rows => TableShape::Rows(columns.map_or_else(Vec::new, |columns| columns.0)),
                    TableForm::Pairs => TableShape::Pairs,
                };
                PagePart::Table(Table { css, shape })
            }
            (None, None, Some(select), Some(css)) => {
                PagePart::Each(EachElement { css, select: select.0, allow_empty })
            }
            (None, None, Some(select), None) => PagePart::Select(select.0),
            (None, None, None, _) => PagePart::Text,
        };
        Self { without, take }
    }
}

impl Setting for CssSelector {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let text = text_of(value)?;
        Self::parse(text).or_else(|error| {
            let place = value.context.report.character_in(value.node, text, error.at);
            let help = "write `h1`, `#state`, `table.report td:nth-child(2)`, `a[href^=\"/host\"]`";
            value.reject_at(
                place,
                Invalid::new(format!("{} is not a CSS selector: {error}", value.name), help)
                    .with_code(Code::InvalidSelector),
            )
        })
    }
}

/// Selector of the table; the first table of the page if there is none.
#[derive(Debug)]
struct TableSelector(Option<CssSelector>);

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
#[derive(Debug)]
struct SelectedElements(Vec<Selected>);

impl Setting for SelectedElements {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Either(&[ValueKind::Text, SelectedSettings::KIND]));

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Some(entries) = value.node.as_map().filter(|entries| !entries.is_empty()) else {
            let help = "write `select: { title: h1 }`".to_owned();
            return value.reject_kind("a map of names and selectors", Some(help));
        };
        let selected = entries.iter().map(|entry| selected(value, entry));
        selected.collect::<Vec<_>>().into_iter().collect::<Checked<_>>().map(Self)
    }
}

fn selected(select: &Cursor<'_>, entry: &Entry) -> Checked<Selected> {
    let name = entry.key.text.clone();
    let shown = format!("`{name}`");
    let value = select.member(entry, &shown, SelectedSettings::KIND);
    if value.node.as_text().is_some() {
        let css = Some(CssSelector::read(&value)?);
        return Ok(Selected { name, css, attribute: None, count: MatchCount::First });
    }
    let SelectedSettings { css, attribute, all, optional } = SelectedSettings::read(&value)?;
    let count = match (all, optional) {
        (true, _) => MatchCount::All,
        (false, true) => MatchCount::FirstOrNone,
        (false, false) => MatchCount::First,
    };
    Ok(Selected { name, css, attribute: attribute.map(|name| name.to_ascii_lowercase()), count })
}

/// A member of `select` that is configured as a map.
#[derive(Debug, Section)]
#[section(name = "a name of `select`", id = "selected", check_keys = Self::check_keys)]
struct SelectedSettings {
    /// CSS selector. With `items` it is optional and defaults to the element itself.
    css: Option<CssSelector>,
    /// Attribute to read. Elements without it are skipped.
    #[key(shown = "the text")]
    attribute: Option<String>,
    /// Whether to return a list of all matches, which may be empty.
    #[key(default = false, shown = "`false`, the first match")]
    all: bool,
    /// Whether the element may be missing from a page.
    #[key(default = false)]
    optional: bool,
}

impl SelectedSettings {
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
