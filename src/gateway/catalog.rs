//! What can be called, as clients read it: written down once, shown a page at a time.

use bytes::Bytes;

use super::pages::{self, BadCursor, Keyed, Page};
use crate::{
    route::{RouteTable, Scopes},
    tool::{Shapes, ToolDefinition, ToolName},
};

/// All tool definitions by name, each already JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    entries: Vec<CatalogEntry>,
}

/// One tool definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    name: ToolName,
    any: Bytes,
    objects_only: Bytes,
}

impl Catalog {
    /// The catalog of a table, as far as it is open.
    pub(super) fn of(table: &RouteTable, is_open: impl Fn(&Scopes) -> bool) -> Self {
        let open = table.in_order().iter().filter(|route| route.is_tool() && is_open(&route.scopes));
        Self::of_definitions(open.map(|route| &route.definition))
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
    /// # Errors
    ///
    /// [`BadCursor`].
    pub fn page(&self, cursor: Option<&str>, size: usize) -> Result<Page<'_, CatalogEntry>, BadCursor> {
        pages::page("tools", &self.entries, cursor, size)
    }
}

impl Keyed for CatalogEntry {
    fn key(&self) -> &str {
        self.name.as_str()
    }
}

impl CatalogEntry {
    fn of(definition: &ToolDefinition) -> Self {
        let json = |shapes| {
            let map = definition.to_json(shapes);
            let text = serde_json::to_vec(&map).expect("a tree of JSON values has string keys only");
            Bytes::from(text.into_boxed_slice())
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
