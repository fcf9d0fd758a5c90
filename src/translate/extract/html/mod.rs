//! `html`: HTML parser, with CSS selectors, tables, or text without markup as the result.

mod page;
mod table;
#[cfg(test)]
mod tests;
mod text;

use scraper::ElementRef;
use serde_json::{Map, Value, json};
use settings_derive::{EnumSetting, Section};

pub use self::page::CssSelector;
use self::page::PageBudget;
pub(in crate::translate) use self::text::error_page_message;
use super::records::{column_members, gather, not_empty, read_columns};
use super::{Extracted, FormatParser, MemberNames, RECORD_LIMIT, Typing, ValueCount};
use crate::settings::{Checked, Code, Cursor, Kind, Named, OpenSection, Setting, text_of};
use crate::translate::fields::{list_of, object_of};
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// HTML parser; accepts any input, like a browser. Without options, it returns the text without markup.
#[derive(Debug, Clone, Section)]
#[section(default, check_keys = Self::check_keys)]
pub struct Html {
    /// CSS selectors by name, such as `{ title: h1 }`. Each gives the text of the first matching element, or
    /// what its map specifies.
    #[key(with = not_empty, conflicts = "text, table")]
    pub(crate) select: Option<Named<Selected>>,
    /// CSS selector of the records. `select` applies within each matching element, and the result is a list.
    #[key(
        conflicts = "text, table",
        requires = "select",
        help = "write the parts of each item: `select: { name: h2, link: { css: a, attribute: href } }`"
    )]
    pub items: Option<CssSelector>,
    /// Whether a page without any matches of `items` is valid and gives an empty list. Otherwise it is an
    /// error.
    #[key(conflicts = "text, table", requires = "items")]
    pub allow_empty: bool,
    /// Table to parse: `true` for the first table of the page, or a CSS selector of the table or of an
    /// element around it.
    #[key(
        kind = ValueKind::Either(&[ValueKind::Text, ValueKind::Boolean]),
        with = read_table,
        conflicts = "text"
    )]
    pub table: Option<CssSelector>,
    /// Shape of the table: `rows` gives a list of objects by its headings, `pairs` one object of names and
    /// values.
    #[key(name = "as", default = TableForm::Rows, conflicts = "text", requires = "table")]
    pub form: TableForm,
    /// Names of the table's columns, in place of its headings.
    #[key(conflicts = "text", requires = "table", with = read_columns)]
    pub columns: Option<Vec<String>>,
    /// CSS selector of the element whose whole text is the value. The first match applies.
    pub text: Option<CssSelector>,
    /// CSS selector of elements to remove from the page first.
    pub without: Option<CssSelector>,
}

/// Shape of an extracted table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum TableForm {
    /// List of objects, by the names of the columns.
    Rows,
    /// An object of names and values.
    Pairs,
}

impl Setting for CssSelector {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let help = "write `h1`, `#state`, `table.report td:nth-child(2)`, `a[href^=\"/host\"]`";
        Self::parse(text_of(value)?)
            .or_else(|error| error.reject(value, Code::InvalidSelector, "CSS selector", help))
    }
}

fn read_table(value: &Cursor<'_>) -> Checked<Option<CssSelector>> {
    match value.node.kind {
        Kind::Boolean(true) => Ok(CssSelector::parse("table").ok()),
        Kind::Text(_) => CssSelector::read(value).map(Some),
        _ => {
            let help = "write `table: true` for the first table of the page".to_owned();
            value.reject_kind("a CSS selector or `true`", Some(help))
        }
    }
}

/// A member of `select`.
#[derive(Debug, Clone, Section)]
#[section(name = "a name of `select`", id = "selected", text = "css", check_keys = Self::check_keys)]
pub struct Selected {
    /// CSS selector. With `items` it is optional and defaults to the element itself.
    pub css: Option<CssSelector>,
    /// Attribute to read. Elements without it are skipped.
    #[key(shown = "the text")]
    pub attribute: Option<String>,
    /// Whether to return a list of all matches, which may be empty.
    #[key(shown = "`false`, the first match")]
    pub all: bool,
    /// Whether the element may be missing from a page.
    #[key(conflicts = "all")]
    pub optional: bool,
}

impl FormatParser for Html {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        let names = match (&self.select, &self.table) {
            (Some(select), _) => MemberNames::Names(select.0.iter().map(|(name, _)| name.as_str()).collect()),
            (None, Some(_)) => column_members(self.columns.as_deref()),
            (None, None) => MemberNames::NoFields,
        };
        let is_list = self.table.is_some() && self.form == TableForm::Rows || self.items.is_some();
        (if is_list { ValueCount::Many } else { ValueCount::One }, names)
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        self.extract(view.text()?).map(Extracted::Value)
    }
}

impl Html {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let form = section.get("as").and_then(|node| node.as_text());
        match form == Some("pairs") && section.entry("table").is_some() && section.entry("columns").is_some()
        {
            true => Err(section.conflict("columns", "as: pairs")),
            false => Ok(()),
        }
    }

    /// JSON Schema of the selected members, which are strings; `None` without `select`, because the page
    /// decides the names.
    pub(super) fn schema(&self) -> Option<Map<String, Value>> {
        let select = &self.select.as_ref()?.0;
        let property = |(name, selected): &(String, Selected)| {
            let text = json!({ "type": "string" });
            let kind = if selected.all { json!({ "type": "array", "items": text }) } else { text };
            (name.clone(), kind)
        };
        let required = select.iter().filter(|(_, selected)| selected.all || !selected.optional);
        let record = object_of(
            select.iter().map(property).collect(),
            required.map(|(name, _)| name.as_str()).collect(),
        );
        Some(if self.items.is_some() { list_of(record) } else { record })
    }

    fn extract(&self, text: &str) -> Result<Value, ReadError> {
        if text.trim().is_empty() {
            return Err("expected a page, found an empty response".into());
        }
        let mut page = page::parse(text)?;
        let mut budget = PageBudget::for_page(&page, text);
        if let Some(css) = &self.without {
            let root = page.root_element();
            let ids: Vec<_> = css.all(root, &mut budget)?.iter().map(|element| element.id()).collect();
            let root = root.id();
            for id in ids.into_iter().filter(|id| *id != root) {
                page.tree.get_mut(id).expect("it was found in this tree").detach();
            }
        }
        let root = page.root_element();
        if let Some(css) = &self.text {
            return match css.all(root, &mut budget)?.first() {
                Some(first) => text::rendered_text(*first, &mut budget).map(Value::from),
                None => Err(read_error!("expected an element `{}`, found none", css.source)),
            };
        }
        if let Some(table) = &self.table {
            let is_table = |element: &ElementRef<'_>| element.value().name() == "table";
            let container = table.all(root, &mut budget)?.first().copied();
            let table = container
                .and_then(|element| element.descendent_elements().find(is_table))
                .ok_or_else(|| read_error!("expected a table `{}`, found none", table.source))?;
            return match self.form {
                TableForm::Rows => table::rows(table, self.columns.as_deref(), &mut budget),
                TableForm::Pairs => table::pairs(table, &mut budget),
            };
        }
        match (&self.select, &self.items) {
            (None, _) => text::rendered_text(root, &mut budget).map(Value::from),
            (Some(select), None) => object(select, root, &mut budget),
            (Some(select), Some(items)) => {
                let elements = items.all(root, &mut budget)?;
                let source = &items.source;
                at_most(RECORD_LIMIT, elements.len(), &format!("elements `{source}`"))?;
                if elements.is_empty() && !self.allow_empty {
                    return Err(read_error!("expected elements `{source}`, found none"));
                }
                let records = elements.into_iter().zip(1..).map(|(element, number)| {
                    let record = object(select, element, &mut budget);
                    record.map_err(|error| error.in_part(&format!("record {number}")))
                });
                records.collect()
            }
        }
    }
}

/// Builds the object of the selected members of an element.
fn object(
    select: &Named<Selected>,
    scope: ElementRef<'_>,
    budget: &mut PageBudget,
) -> Result<Value, ReadError> {
    let mut object = Map::new();
    for (name, selected) in &select.0 {
        let value = selected.value(name, scope, budget)?;
        object.extend(value.map(|value| (name.clone(), value)));
    }
    Ok(Value::Object(object))
}

impl Selected {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        if section.entry("css").is_some() || section.value.sibling("items").is_some() {
            return Ok(());
        }
        let message = format!("{} has no `css`", section.value.name);
        Err(section.missing(message, "write a CSS selector: `css: \"a[href]\"`"))
    }

    /// Value of the member; `None` if the member is optional and nothing is found.
    fn value(
        &self,
        name: &str,
        scope: ElementRef<'_>,
        budget: &mut PageBudget,
    ) -> Result<Option<Value>, ReadError> {
        let elements = self.css.as_ref().map_or_else(|| Ok(vec![scope]), |css| css.all(scope, budget))?;
        let mut values = elements.into_iter().filter_map(|element| self.read(element, budget).transpose());
        if self.all {
            return gather(values, &format!("values of `{name}`")).map(|values| Some(Value::Array(values)));
        }
        match values.next().transpose()? {
            None if !self.optional => {
                let element = self.css.as_ref().map_or(String::new(), |css| format!(" `{}`", css.source));
                let condition =
                    self.attribute.as_ref().map_or(String::new(), |name| format!(" with `{name}`"));
                Err(read_error!("`{name}`: expected an element{element}{condition}, found none"))
            }
            value => Ok(value),
        }
    }

    /// Attribute or text of an element; `None` if the element does not have the attribute.
    fn read(&self, element: ElementRef<'_>, budget: &mut PageBudget) -> Result<Option<Value>, ReadError> {
        let Some(attribute) = &self.attribute else {
            return text::rendered_text(element, budget).map(|text| Some(text.into()));
        };
        let mut attributes = element.value().attrs();
        let found = attributes.find(|(name, _)| name.eq_ignore_ascii_case(attribute));
        budget.take(found.map_or(0, |(_, value)| value.len()))?;
        Ok(found.map(|(_, value)| value.into()))
    }
}
