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

use self::page::{NodeId, Work};
pub(in crate::translate) use self::text::message_of;
pub use self::{
    page::{CssError, CssSelector},
    settings::HtmlSettings,
};
use super::{Extracted, Extraction, Finds, Gives, RECORD_LIMIT, Typing};
use crate::translate::{
    fields::{list_of, object_of},
    read_error::Why,
    response_view::ResponseView,
};

/// HTML parser; accepts any input, like a browser.
#[derive(Debug, Clone, Default)]
pub struct Html {
    /// Selector of elements that are removed first.
    pub without: Option<CssSelector>,
    /// Part of the page to extract.
    pub take: Take,
}

/// Part of a page to extract.
#[derive(Debug, Clone, Default)]
pub enum Take {
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
    pub count: Count,
}

/// Number of elements to extract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// The first, which must exist.
    First,
    /// The first; no member if there is none.
    FirstOrNone,
    /// A list of all.
    All,
}

impl Extraction for Html {
    fn gives(&self) -> Gives {
        match &self.take {
            Take::Each(_) | Take::Table(Table { shape: TableShape::Rows(_), .. }) => Gives::Many,
            Take::Text
            | Take::TextOf(_)
            | Take::Select(_)
            | Take::Table(Table { shape: TableShape::Pairs, .. }) => Gives::One,
        }
    }

    fn finds(&self) -> Finds<'_> {
        match &self.take {
            Take::Text | Take::TextOf(_) => Finds::NoFields,
            Take::Select(select) | Take::Each(EachElement { select, .. }) => {
                Finds::Names(select.iter().map(|selected| selected.name.as_str()).collect())
            }
            Take::Table(Table { shape: TableShape::Rows(names), .. }) if !names.is_empty() => {
                Finds::Names(names.iter().map(String::as_str).collect())
            }
            Take::Table(_) => Finds::AnyNames,
        }
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        self.extract(view.text()?).map(Extracted::Value)
    }
}

impl Html {
    /// JSON Schema of the selected members, which are strings; `None` if the page decides the names.
    pub(super) fn schema(&self) -> Option<Map<String, Value>> {
        match &self.take {
            Take::Select(select) => Some(schema_of(select)),
            Take::Each(each) => Some(list_of(schema_of(&each.select))),
            Take::Text | Take::TextOf(_) | Take::Table(_) => None,
        }
    }

    fn extract(&self, text: &str) -> Result<Value, Why> {
        if text.trim().is_empty() {
            return Err("expected a page, found an empty reply".into());
        }
        let mut page = page::parse(text)?;
        let mut work = Work::for_page(&page, text);
        if let Some(css) = &self.without {
            let root = page.root_element().id();
            for id in css.all(&page, &mut work)?.into_iter().filter(|id| *id != root) {
                page.tree.get_mut(id).expect("it was found in this tree").detach();
            }
        }
        let root = page.root_element();
        match &self.take {
            Take::Text => text::shown(root, &mut work).map(Value::from),
            Take::TextOf(css) => {
                let first = css.first(&page, &mut work)?;
                let first =
                    first.ok_or_else(|| why!("expected an element `{}`, found none", css.source()))?;
                text::shown(first, &mut work).map(Value::from)
            }
            Take::Select(select) => Finder::all(select, &page, &mut work)?.object(root, &mut work),
            Take::Each(each) => each.extract(&page, &mut work),
            Take::Table(table) => table.extract(&page, &mut work),
        }
    }
}

fn schema_of(select: &[Selected]) -> Map<String, Value> {
    let property = |selected: &Selected| {
        let text = json!({ "type": "string" });
        let kind = match selected.count {
            Count::All => json!({ "type": "array", "items": text }),
            Count::First | Count::FirstOrNone => text,
        };
        (selected.name.clone(), kind)
    };
    let always = select.iter().filter(|selected| selected.count != Count::FirstOrNone);
    object_of(select.iter().map(property).collect(), always.map(|selected| selected.name.as_str()).collect())
}

impl EachElement {
    fn extract(&self, page: &Page, work: &mut Work) -> Result<Value, Why> {
        let elements = self.css.all(page, work)?;
        let finder = Finder::all(&self.select, page, work)?;
        if elements.len() > RECORD_LIMIT {
            return Err(why!("expected at most {RECORD_LIMIT} of `{}`, found more", self.css.source()));
        }
        if elements.is_empty() && !self.allow_empty {
            return Err(why!("expected elements `{}`, found none", self.css.source()));
        }
        let elements = elements.into_iter().filter_map(|id| ElementRef::wrap(page.tree.get(id)?));
        let records = elements.enumerate().map(|(index, element)| {
            finder.object(element, work).map_err(|why| why.under(&format!("record {}", index + 1)))
        });
        records.collect()
    }
}

impl Table {
    fn extract(&self, page: &Page, work: &mut Work) -> Result<Value, Why> {
        let table = self.find(page, work)?;
        match &self.shape {
            TableShape::Rows(given) => table::rows(table, given, work),
            TableShape::Pairs => table::pairs(table, work),
        }
    }

    fn find<'a>(&self, page: &'a Page, work: &mut Work) -> Result<ElementRef<'a>, Why> {
        let (place, words) = match &self.css {
            None => (Some(page.root_element()), "a table".to_owned()),
            Some(css) => (css.first(page, work)?, format!("a table `{}`", css.source())),
        };
        place
            .and_then(|place| place.descendent_elements().find(|element| element.value().name() == "table"))
            .ok_or_else(|| why!("expected {words}, found none"))
    }
}

/// Matches of each selector in the page. Each selector runs once, regardless of the number of records.
struct Finder<'a>(Vec<(&'a Selected, Option<HashSet<NodeId>>)>);

impl<'a> Finder<'a> {
    fn all(select: &'a [Selected], page: &Page, work: &mut Work) -> Result<Self, Why> {
        let find = |selected: &'a Selected| {
            let found = selected.css.as_ref().map(|css| css.all(page, work)).transpose()?;
            Ok((selected, found.map(HashSet::from_iter)))
        };
        select.iter().map(find).collect::<Result<_, _>>().map(Self)
    }

    fn object(&self, within: ElementRef<'_>, work: &mut Work) -> Result<Value, Why> {
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
            work.look_at(within)?;
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
        work: &mut Work,
    ) -> Result<Option<Value>, Why> {
        let mut values = Vec::new();
        for element in elements {
            values.extend(match &self.attribute {
                Some(name) => {
                    let value = element.attr(name);
                    work.take(value.map_or(0, str::len))?;
                    value.map(Value::from)
                }
                None => Some(text::shown(element, work)?.into()),
            });
            if self.count != Count::All && !values.is_empty() {
                break;
            }
            if values.len() > RECORD_LIMIT {
                return Err(why!("expected at most {RECORD_LIMIT} of `{}`, found more", self.name));
            }
        }
        match self.count {
            Count::All => Ok(Some(Value::Array(values))),
            Count::FirstOrNone => Ok(values.pop()),
            Count::First => values.pop().map(Some).ok_or_else(|| {
                let element = self.css.as_ref().map_or(String::new(), |css| format!(" `{}`", css.source()));
                let with = self.attribute.as_ref().map_or(String::new(), |name| format!(" with `{name}`"));
                why!("`{}`: expected an element{element}{with}, found none", self.name)
            }),
        }
    }
}
