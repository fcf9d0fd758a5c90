//! What can be called, as clients read it: written down once, shown a page at a time.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;

use crate::{
    route::RouteTable,
    tool::{Shapes, ToolDefinition, ToolName},
};

/// All tool definitions by name, each already JSON.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    entries: Vec<CatalogEntry>,
}

/// One tool definition.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    name: ToolName,
    any: Bytes,
    objects_only: Bytes,
}

/// Some of the catalog, and how to ask for the rest.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    /// The tools on it, by name.
    pub tools: &'a [CatalogEntry],
    /// What asks for the next page; `None` on the last.
    pub next_cursor: Option<String>,
}

/// A text that is no cursor of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown cursor; use the `nextCursor` of an earlier page, or none for the first page")]
pub struct BadCursor;

impl Catalog {
    /// The catalog of a table.
    pub fn of(table: &RouteTable) -> Self {
        Self::of_definitions(table.in_order().iter().map(|route| &route.definition))
    }

    fn of_definitions<'a>(definitions: impl Iterator<Item = &'a ToolDefinition>) -> Self {
        let mut entries: Vec<CatalogEntry> = definitions.map(CatalogEntry::of).collect();
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Self { entries }
    }

    /// All tools, by name.
    pub fn entries(&self) -> &[CatalogEntry] {
        &self.entries
    }

    /// The tools after `cursor`, at most `size` of them (at least one).
    ///
    /// A cursor is the name of the last tool that was shown. So any replica understands it, and it goes on at the
    /// right place after a reload, even when that tool is gone.
    ///
    /// # Errors
    ///
    /// [`BadCursor`].
    pub fn page(&self, cursor: Option<&str>, size: usize) -> Result<Page<'_>, BadCursor> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let last = name_in(cursor)?;
                self.entries.partition_point(|entry| entry.name <= last)
            }
        };
        let rest = &self.entries[start..];
        let tools = &rest[..rest.len().min(size.max(1))];
        let next_cursor = match tools.last() {
            Some(last) if tools.len() < rest.len() => Some(URL_SAFE_NO_PAD.encode(last.name.as_str())),
            Some(_) | None => None,
        };
        Ok(Page { tools, next_cursor })
    }
}

impl CatalogEntry {
    fn of(definition: &ToolDefinition) -> Self {
        let json = |shapes| {
            let map = definition.to_json(shapes);
            Bytes::from(serde_json::to_vec(&map).expect("a tree of JSON values has string keys only"))
        };
        let objects_only = json(Shapes::ObjectsOnly);
        let any =
            if definition.bare_output_schema.is_some() { json(Shapes::Any) } else { objects_only.clone() };
        Self { name: definition.name.clone(), any, objects_only }
    }

    /// What it is called by.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// The definition as one JSON object, for clients that take `shapes`.
    pub fn json(&self, shapes: Shapes) -> &Bytes {
        match shapes {
            Shapes::Any => &self.any,
            Shapes::ObjectsOnly => &self.objects_only,
        }
    }
}

fn name_in(cursor: &str) -> Result<ToolName, BadCursor> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| BadCursor)?;
    std::str::from_utf8(&bytes).map_err(|_| BadCursor)?.parse().map_err(|_| BadCursor)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn catalog(names: &[&str]) -> Catalog {
        let definitions: Vec<ToolDefinition> = names
            .iter()
            .map(|name| ToolDefinition {
                name: name.parse().unwrap(),
                title: None,
                description: None,
                annotations: None,
                input_schema: Map::new(),
                output_schema: None,
                bare_output_schema: None,
            })
            .collect();
        Catalog::of_definitions(definitions.iter())
    }

    fn names(page: &Page<'_>) -> Vec<String> {
        page.tools.iter().map(|entry| entry.name.to_string()).collect()
    }

    #[test]
    fn pages_show_every_tool_once_and_end() {
        let catalog = catalog(&["c", "a", "b", "e", "d"]);
        let (mut shown, mut cursor) = (Vec::new(), None);
        loop {
            let page = catalog.page(cursor.as_deref(), 2).unwrap();
            shown.extend(names(&page));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(shown, ["a", "b", "c", "d", "e"]);
        assert!(catalog.page(None, 5).unwrap().next_cursor.is_none());
    }

    #[test]
    fn a_cursor_outlives_a_reload() {
        let before = catalog(&["a", "b", "c", "d"]);
        let cursor = before.page(None, 2).unwrap().next_cursor;
        let after = catalog(&["a", "a2", "c", "d"]);
        assert_eq!(names(&after.page(cursor.as_deref(), 2).unwrap()), ["c", "d"]);
        let emptied = catalog(&["a"]);
        let page = emptied.page(cursor.as_deref(), 2).unwrap();
        assert!(page.tools.is_empty() && page.next_cursor.is_none());
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for cursor in ["", "!", "YSBi", "gA"] {
            assert_eq!(catalog(&["a"]).page(Some(cursor), 2).unwrap_err(), BadCursor, "{cursor}");
        }
    }
}
