//! `html`: HTML parser, with CSS selectors, tables, or text without markup as the result.

mod page;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashSet;

use scraper::{Element, ElementRef, Html as Page};
use serde_json::{Map, Value, json};

use self::page::{NodeId, PageBudget};
pub(in crate::translate) use self::text::error_page_message;
pub use self::{
    page::{CssError, CssSelector},
    settings::HtmlSettings,
};
use super::{Extracted, Extraction, MemberNames, RECORD_LIMIT, Typing, ValueCount};
use crate::translate::{
    fields::{list_of, object_of},
    read_error::ReadError,
    response_view::ResponseView,
};

/// HTML parser; accepts any input, like a browser.
#[derive(Debug, Clone, Default)]
pub struct Html {
    /// Selector of elements that are removed first.
    pub without: Option<CssSelector>,
    /// Part of the page to extract.
    pub take: PagePart,
}

/// Part of a page to extract.
#[derive(Debug, Clone, Default)]
pub enum PagePart {
    /// Its text without markup.
    #[default]
    Text,
    /// Text of the first element that matches a selector.
    TextOf(CssSelector),
    /// An object with one member per selector.
    Select(Vec<Selected>),
    /// One such object per element that matches a selector.
    Each(EachElement),
    /// A table.
    Table(Table),
}

/// Objects of the elements that match a selector.
#[derive(Debug, Clone)]
pub struct EachElement {
    /// Selector of the elements.
    pub css: CssSelector,
    /// Selectors within each element.
    pub select: Vec<Selected>,
    /// Whether a page without such elements is valid.
    pub allow_empty: bool,
}

/// Table of a page.
#[derive(Debug, Clone)]
pub struct Table {
    /// Selector of the table or of an element around it; the first table of the page if there is none.
    pub css: Option<CssSelector>,
    /// Shape of the result.
    pub shape: TableShape,
}

/// Shape of an extracted table.
#[derive(Debug, Clone)]
pub enum TableShape {
    /// List of objects, by these column names, or by the headings of the table if there are none.
    Rows(Vec<String>),
    /// An object of names and values.
    Pairs,
}

/// Member that a selector extracts.
#[derive(Debug, Clone)]
pub struct Selected {
    /// Name of the member.
    pub name: String,
    /// Selector; the element that `items` matched if there is none.
    pub css: Option<CssSelector>,
    /// Attribute to read; the text if there is none.
    pub attribute: Option<String>,
    /// Number of elements to extract.
    pub count: MatchCount,
}

/// Number of elements to extract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchCount {
    /// The first, which must exist.
    First,
    /// The first; no member if there is none.
    FirstOrNone,
    /// A list of all.
    All,
}

impl Extraction for Html {
    fn value_count(&self) -> ValueCount {
        match &self.take {
            PagePart::Each(_) | PagePart::Table(Table { shape: TableShape::Rows(_), .. }) => ValueCount::Many,
            PagePart::Text
            | PagePart::TextOf(_)
            | PagePart::Select(_)
            | PagePart::Table(Table { shape: TableShape::Pairs, .. }) => ValueCount::One,
        }
    }

    fn finds(&self) -> MemberNames<'_> {
        match &self.take {
            PagePart::Text | PagePart::TextOf(_) => MemberNames::NoFields,
            PagePart::Select(select) | PagePart::Each(EachElement { select, .. }) => {
                MemberNames::Names(select.iter().map(|selected| selected.name.as_str()).collect())
            }
            PagePart::Table(Table { shape: TableShape::Rows(names), .. }) if !names.is_empty() => {
                MemberNames::Names(names.iter().map(String::as_str).collect())
            }
            PagePart::Table(_) => MemberNames::AnyNames,
        }
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        self.extract(view.text()?).map(Extracted::Value)
    }
}

impl Html {
    /// JSON Schema of the selected members, which are strings; `None` if the page decides the names.
    pub(super) fn schema(&self) -> Option<Map<String, Value>> {
        match &self.take {
            PagePart::Select(select) => Some(schema_of(select)),
            PagePart::Each(each) => Some(list_of(schema_of(&each.select))),
            PagePart::Text | PagePart::TextOf(_) | PagePart::Table(_) => None,
        }
    }

    fn extract(&self, text: &str) -> Result<Value, ReadError> {
        if text.trim().is_empty() {
            return Err("expected a page, found an empty response".into());
        }
        let mut page = page::parse(text)?;
        let mut work = PageBudget::for_page(&page, text);
        if let Some(css) = &self.without {
            let root = page.root_element().id();
            for id in css.all(&page, &mut work)?.into_iter().filter(|id| *id != root) {
                page.tree.get_mut(id).expect("it was found in this tree").detach();
            }
        }
        let root = page.root_element();
        match &self.take {
            PagePart::Text => text::rendered_text(root, &mut work).map(Value::from),
            PagePart::TextOf(css) => {
                let first = css.first(&page, &mut work)?;
                let first =
                    first.ok_or_else(|| read_error!("expected an element `{}`, found none", css.source()))?;
                text::rendered_text(first, &mut work).map(Value::from)
            }
            PagePart::Select(select) => Finder::all(select, &page, &mut work)?.object(root, &mut work),
            PagePart::Each(each) => each.extract(&page, &mut work),
            PagePart::Table(table) => table.extract(&page, &mut work),
        }
    }
}

fn schema_of(select: &[Selected]) -> Map<String, Value> {
    let property = |selected: &Selected| {
        let text = json!({ "type": "string" });
        let kind = match selected.count {
            MatchCount::All => json!({ "type": "array", "items": text }),
            MatchCount::First | MatchCount::FirstOrNone => text,
        };
        (selected.name.clone(), kind)
    };
    let always = select.iter().filter(|selected| selected.count != MatchCount::FirstOrNone);
    object_of(select.iter().map(property).collect(), always.map(|selected| selected.name.as_str()).collect())
}

impl EachElement {
    fn extract(&self, page: &Page, work: &mut PageBudget) -> Result<Value, ReadError> {
        let elements = self.css.all(page, work)?;
        let finder = Finder::all(&self.select, page, work)?;
        if elements.len() > RECORD_LIMIT {
            return Err(read_error!(
                "expected at most {RECORD_LIMIT} of `{}`, found more",
                self.css.source()
            ));
        }
        if elements.is_empty() && !self.allow_empty {
            return Err(read_error!("expected elements `{}`, found none", self.css.source()));
        }
        let elements = elements.into_iter().filter_map(|id| ElementRef::wrap(page.tree.get(id)?));
        let records = elements.enumerate().map(|(index, element)| {
            finder.object(element, work).map_err(|error| error.in_part(&format!("record {}", index + 1)))
        });
        records.collect()
    }
}

impl Table {
    fn extract(&self, page: &Page, work: &mut PageBudget) -> Result<Value, ReadError> {
        let table = self.find(page, work)?;
        match &self.shape {
            TableShape::Rows(given) => table::rows(table, given, work),
            TableShape::Pairs => table::pairs(table, work),
        }
    }

    fn find<'a>(&self, page: &'a Page, work: &mut PageBudget) -> Result<ElementRef<'a>, ReadError> {
        let (place, words) = match &self.css {
            None => (Some(page.root_element()), "a table".to_owned()),
            Some(css) => (css.first(page, work)?, format!("a table `{}`", css.source())),
        };
        place
            .and_then(|place| place.descendent_elements().find(|element| element.value().name() == "table"))
            .ok_or_else(|| read_error!("expected {words}, found none"))
    }
}

/// Matches of each selector in the page. Each selector runs once, regardless of the number of records.
struct Finder<'a>(Vec<(&'a Selected, Option<HashSet<NodeId>>)>);

impl<'a> Finder<'a> {
    fn all(select: &'a [Selected], page: &Page, work: &mut PageBudget) -> Result<Self, ReadError> {
        let find = |selected: &'a Selected| {
            let found = selected.css.as_ref().map(|css| css.all(page, work)).transpose()?;
            Ok((selected, found.map(HashSet::from_iter)))
        };
        select.iter().map(find).collect::<Result<_, _>>().map(Self)
    }

    fn object(&self, within: ElementRef<'_>, work: &mut PageBudget) -> Result<Value, ReadError> {
        let mut object = Map::new();
        for (selected, found) in &self.0 {
            let value = match found {
                None => selected.value([within].into_iter(), work)?,
                Some(found) => {
                    // Within a record, exclude the record's own element; within the page, include the root.
                    let below =
                        within.descendent_elements().skip(usize::from(within.parent_element().is_some()));
                    selected.value(below.filter(|element| found.contains(&element.id())), work)?
                }
            };
            work.count_visit(within)?;
            object.extend(value.map(|value| (selected.name.clone(), value)));
        }
        Ok(Value::Object(object))
    }
}

impl Selected {
    /// The value; `None` if nothing is found and the member is optional.
    fn value<'a>(
        &self,
        elements: impl Iterator<Item = ElementRef<'a>>,
        work: &mut PageBudget,
    ) -> Result<Option<Value>, ReadError> {
        let mut values = Vec::new();
        for element in elements {
            values.extend(match &self.attribute {
                Some(name) => {
                    let value = element.attr(name);
                    work.take(value.map_or(0, str::len))?;
                    value.map(Value::from)
                }
                None => Some(text::rendered_text(element, work)?.into()),
            });
            if self.count != MatchCount::All && !values.is_empty() {
                break;
            }
            if values.len() > RECORD_LIMIT {
                return Err(read_error!("expected at most {RECORD_LIMIT} of `{}`, found more", self.name));
            }
        }
        match self.count {
            MatchCount::All => Ok(Some(Value::Array(values))),
            MatchCount::FirstOrNone => Ok(values.pop()),
            MatchCount::First => values.pop().map(Some).ok_or_else(|| {
                let element = self.css.as_ref().map_or(String::new(), |css| format!(" `{}`", css.source()));
                let with = self.attribute.as_ref().map_or(String::new(), |name| format!(" with `{name}`"));
                read_error!("`{}`: expected an element{element}{with}, found none", self.name)
            }),
        }
    }
}
