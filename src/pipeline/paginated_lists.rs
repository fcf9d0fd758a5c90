//! Lists of tools, prompts and resources: serialized once, filtered by the client's scopes, and paginated
//! (MCP 2025-11-25, Utilities, "Pagination").

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::{ProxiedKind, ProxiedTable, Snapshot};
use crate::model::StructuredContentSupport;
use crate::prompt::PromptTable;
use crate::route::{RouteTable, Scopes};
use crate::upstream::ClientIdentity;

/// All lists of a configuration.
#[derive(Debug, Default)]
pub struct DefinitionLists {
    /// Tools.
    pub tools: DefinitionList,
    /// Prompts.
    pub prompts: DefinitionList,
    /// Resources with a single URI.
    pub resources: DefinitionList,
    /// Resource templates.
    pub resource_templates: DefinitionList,
    /// All scopes that any route or prompt needs.
    pub needed_scopes: Scopes,
}

/// List, sorted by key.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DefinitionList {
    /// Name of the member that contains the list in MCP results, such as `tools`.
    pub name: &'static str,
    entries: Vec<ListEntry>,
}

/// Definition of a tool, prompt or resource.
#[derive(Debug)]
pub struct ListEntry {
    /// Name or URI.
    pub key: String,
    scopes: Scopes,
    json: Box<RawValue>,
    /// Definition for clients that accept only objects as structured content, if it differs from `json`.
    objects_only: Option<Box<RawValue>>,
}

/// Page of a list, with the cursor for the pagination.
#[derive(Debug, Clone)]
pub struct ListPage<'a> {
    /// Entries, in the order of the list.
    pub entries: Vec<&'a ListEntry>,
    /// Cursor of the next page. `None` on the last page.
    pub next_cursor: Option<String>,
}

impl DefinitionLists {
    pub(super) fn new(table: &RouteTable, prompts: &PromptTable, proxied: &ProxiedTable) -> Self {
        let routes = || table.in_order().iter();
        let tools = routes().filter(|route| route.is_tool).map(|route| {
            let definition = &route.definition;
            let objects_only = || raw(&definition.to_json(StructuredContentSupport::ObjectsOnly));
            let objects_only = definition.unwrapped_output_schema.as_ref().map(|_| objects_only());
            let any = definition.to_json(StructuredContentSupport::Any);
            ListEntry { objects_only, ..ListEntry::new(definition.name.as_str(), &route.scopes, &any) }
        });
        let resources = |are_templates| {
            let resources = routes().filter_map(|route| Some((route.resource.as_ref()?, &route.scopes)));
            let selected = resources.filter(move |(resource, _)| resource.uri.is_template() == are_templates);
            selected
                .map(|(resource, scopes)| ListEntry::new(resource.uri.as_str(), scopes, &resource.to_json()))
        };
        let configured_prompts = prompts
            .values()
            .map(|prompt| ListEntry::new(prompt.name.as_str(), &prompt.scopes, &prompt.to_json()));
        let entries = |kind| {
            proxied
                .by_kind(kind)
                .map(|entry| ListEntry::new(&entry.key, &entry.route.scopes, &entry.definition))
        };
        let all_entries = |are_templates, kind| resources(are_templates).chain(entries(kind));
        let route_scopes = routes().chain(proxied.all().map(|entry| &entry.route)).map(|route| &route.scopes);
        let scopes = route_scopes.chain(prompts.values().map(|prompt| &prompt.scopes));
        Self {
            tools: DefinitionList::new("tools", tools),
            prompts: DefinitionList::new("prompts", configured_prompts.chain(entries(ProxiedKind::Prompt))),
            resources: DefinitionList::new("resources", all_entries(false, ProxiedKind::Resource)),
            resource_templates: DefinitionList::new(
                "resourceTemplates",
                all_entries(true, ProxiedKind::Template),
            ),
            needed_scopes: scopes.fold(Scopes::default(), |union, other| union.union(other)),
        }
    }
}

impl DefinitionList {
    fn new(name: &'static str, entries: impl Iterator<Item = ListEntry>) -> Self {
        let mut entries: Vec<ListEntry> = entries.collect();
        entries.sort_by(|left, right| left.key.cmp(&right.key));
        Self { name, entries }
    }

    /// Whether the list has no entries for any client.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that a client may see.
    pub fn seen_by<'a>(&'a self, client: &'a ClientIdentity) -> impl Iterator<Item = &'a ListEntry> {
        self.entries.iter().filter(|entry| client.may(&entry.scopes))
    }

    /// Page of the entries after `cursor` that the client may see, with at most `size` entries (0 counts as
    /// 1). `None` if `cursor` is invalid.
    ///
    /// A cursor contains the key of the last entry on its page. So any replica accepts the cursor, and after
    /// a reload the list continues at the right place even if that entry is gone. A cursor is only valid for
    /// its own list.
    pub fn page(&self, cursor: Option<&str>, size: usize, client: &ClientIdentity) -> Option<ListPage<'_>> {
        let start = cursor.map_or(Some(0), |cursor| self.index_after(cursor))?;
        let mut rest = self.entries[start..].iter().filter(|entry| client.may(&entry.scopes));
        let entries: Vec<&ListEntry> = rest.by_ref().take(size.max(1)).collect();
        let last = entries.last().filter(|_| rest.next().is_some());
        let next_cursor = last.map(|last| URL_SAFE_NO_PAD.encode(format!("{} {}", self.name, last.key)));
        Some(ListPage { entries, next_cursor })
    }

    /// Index of the first entry after the page that `cursor` ends.
    fn index_after(&self, cursor: &str) -> Option<usize> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let last_key = text.strip_prefix(self.name)?.strip_prefix(' ').filter(|key| !key.is_empty())?;
        Some(self.entries.partition_point(|entry| *entry.key <= *last_key))
    }
}

impl ListEntry {
    fn new(key: &str, scopes: &Scopes, definition: &Map<String, Value>) -> Self {
        Self { key: key.into(), scopes: scopes.clone(), json: raw(definition), objects_only: None }
    }

    /// Definition as one JSON object, for clients with this support of structured content.
    pub fn json(&self, support: StructuredContentSupport) -> &RawValue {
        match (support, &self.objects_only) {
            (StructuredContentSupport::ObjectsOnly, Some(json)) => json,
            (StructuredContentSupport::ObjectsOnly, None) | (StructuredContentSupport::Any, _) => &self.json,
        }
    }
}

impl PartialEq for ListEntry {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |support| self.json(support).get() == other.json(support).get();
        self.key == other.key
            && self.scopes == other.scopes
            && is_same(StructuredContentSupport::Any)
            && is_same(StructuredContentSupport::ObjectsOnly)
    }
}

impl Eq for ListEntry {}

fn raw(definition: &Map<String, Value>) -> Box<RawValue> {
    to_raw_value(definition).expect("a tree of JSON values has string keys only")
}

impl Snapshot {
    /// Scopes that a client needs to read this URI. `None` if no resource has it.
    pub fn scopes_of_uri(&self, uri: &str) -> Option<&Scopes> {
        let configured_route = self.table.by_uri(uri).map(|(route, _)| &route.route);
        let route = configured_route.or_else(|| self.proxied.resource(uri).map(|resource| &resource.route));
        route.map(|route| &route.scopes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::upstream::Client;

    fn list(name: &'static str, keys: &[&str]) -> DefinitionList {
        let entry = |key: &&str| {
            let scopes = if key.ends_with('!') { Scopes::from_client(["more"]) } else { Scopes::default() };
            ListEntry::new(key, &scopes, &Map::new())
        };
        DefinitionList::new(name, keys.iter().map(entry))
    }

    fn page<'a>(list: &'a DefinitionList, cursor: Option<&str>, size: usize) -> Option<ListPage<'a>> {
        list.page(cursor, size, &ClientIdentity::Local)
    }

    fn keys<'a>(page: &ListPage<'a>) -> Vec<&'a str> {
        page.entries.iter().map(|entry| entry.key.as_str()).collect()
    }

    #[test]
    fn pagination_shows_every_entry_once_and_ends() {
        let list = list("letters", &["c", "a", "b", "e", "d"]);
        let (mut listed_keys, mut cursor) = (Vec::new(), None);
        loop {
            let page = page(&list, cursor.as_deref(), 2).unwrap();
            listed_keys.extend(keys(&page));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(listed_keys, ["a", "b", "c", "d", "e"]);
        assert!(page(&list, None, 5).unwrap().next_cursor.is_none());
    }

    #[test]
    fn pagination_omits_entries_that_the_client_may_not_use() {
        let list = list("letters", &["a!", "b", "c!", "d", "e!"]);
        let (nobody, client) =
            (ClientIdentity::Unknown, Client::new("me", "me", Scopes::from_client(["more"])));
        let page = list.page(None, 1, &nobody).unwrap();
        assert_eq!((keys(&page), page.next_cursor.is_some()), (vec!["b"], true));
        let page = list.page(page.next_cursor.as_deref(), 1, &nobody).unwrap();
        assert_eq!((keys(&page), page.next_cursor), (vec!["d"], None), "the last one is for others");
        assert_eq!(list.seen_by(&ClientIdentity::Client(Arc::new(client))).count(), 5);
        assert_eq!(list.seen_by(&nobody).count(), 2);
    }

    #[test]
    fn a_cursor_outlives_a_reload() {
        let before = list("letters", &["a", "b", "c", "d"]);
        let cursor = page(&before, None, 2).unwrap().next_cursor;
        let after = list("letters", &["a", "a2", "c", "d"]);
        assert_eq!(keys(&page(&after, cursor.as_deref(), 2).unwrap()), ["c", "d"]);
        let emptied = list("letters", &["a"]);
        let page = page(&emptied, cursor.as_deref(), 2).unwrap();
        assert!(page.entries.is_empty() && page.next_cursor.is_none());
    }

    #[test]
    fn an_invalid_cursor_is_rejected() {
        let list_named = |name| list(name, &["a", "report://x y", "z"]);
        let resources = list_named("resources");
        let cursor = page(&resources, None, 2).unwrap().next_cursor.unwrap();
        assert_eq!(keys(&page(&resources, Some(&cursor), 2).unwrap()), ["z"]);
        for other in ["tools", "resource", "resourcess", ""] {
            assert!(page(&list_named(other), Some(&cursor), 2).is_none(), "{other}");
        }
        for text in ["", "!", "YSBi", "gA", "cmVzb3VyY2VzIA"] {
            assert!(page(&resources, Some(text), 2).is_none(), "{text}");
        }
    }
}
