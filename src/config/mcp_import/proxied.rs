//! Prompts and resources of an MCP upstream: selected and renamed according to its settings.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{ImportNote, ListedServer};
use crate::config::{CompiledRoute, NameRules};
use crate::model::ToolName;
use crate::pipeline::{ProxiedEntry, ProxiedKind, UriPattern};
use crate::route::{Route, UpstreamName};
use crate::settings::{Entry, Node};
use crate::upstream::mcp::McpLists;

/// Prompts and resources of one upstream that are offered to clients.
#[derive(Debug)]
pub struct ProxiedLists {
    /// The upstream.
    pub upstream: UpstreamName,
    /// Routes `NAME.prompts` and `NAME.resources`, which forward the requests.
    pub routes: Vec<CompiledRoute>,
    /// Prompts, resources and resource templates.
    pub entries: Vec<ProxiedEntry>,
    /// Whether the upstream declares prompts, and its settings offer prompts to clients.
    pub has_prompts: bool,
    /// Whether the upstream declares resources, and its settings offer resources to clients.
    pub has_resources: bool,
    /// Notes on omitted entries, with the reasons.
    pub notes: Vec<ImportNote>,
}

/// List entry, preceded by its identifier: the value of `name` (prompt), `uri` (resource) or `uriTemplate`
/// (resource template).
type ProxiedListEntry = (String, Map<String, Value>);

impl ListedServer<'_> {
    pub(super) fn proxy(&self, lists: &McpLists) -> ProxiedLists {
        let upstream = self.file;
        let mut out = ProxiedLists {
            upstream: upstream.settings.name().clone(),
            routes: Vec::new(),
            entries: Vec::new(),
            has_prompts: lists.prompts.is_some() && upstream.prompts.is_some(),
            has_resources: lists.resources.is_some() && upstream.resources.is_some(),
            notes: Vec::new(),
        };
        let proxied =
            |kind, key, route: &Arc<Route>, (upstream_key, definition): ProxiedListEntry, pattern| {
                let (route, completes) = (Arc::clone(route), lists.completes);
                ProxiedEntry { kind, key, route, upstream_key, definition, pattern, completes }
            };
        if let Some((rules, list)) = upstream.prompts.as_ref().zip(lists.prompts.as_ref())
            && let Some(route) = self.proxy_route("prompts", &mut out)
        {
            let prompts = offered_entries(list, "name", rules, &mut out.notes);
            for (upstream_key, mut definition) in prompts {
                let name = rules.name_of(&upstream_key);
                if let Err(error) = name.parse::<ToolName>() {
                    let message =
                        format!("omitted: prompt names follow the rules of tool names, and {error}");
                    out.notes.push(ImportNote::new(&upstream_key, message));
                    continue;
                }
                definition["name"] = name.as_str().into();
                let entry = (upstream_key, definition);
                out.entries.push(proxied(ProxiedKind::Prompt, name, &route, entry, None));
            }
        }
        if let Some((rules, [resources, templates])) =
            upstream.resources.as_ref().zip(lists.resources.as_ref())
            && let Some(route) = self.proxy_route("resources", &mut out)
        {
            let resource = |(upstream_key, mut definition): ProxiedListEntry, pattern: Option<_>| {
                let name = definition.get("name").and_then(Value::as_str).unwrap_or(&upstream_key);
                definition["name"] = format!("{}{name}", rules.prefix).into();
                let kind = if pattern.is_some() { ProxiedKind::Template } else { ProxiedKind::Resource };
                proxied(kind, upstream_key.clone(), &route, (upstream_key, definition), pattern)
            };
            let resources = offered_entries(resources, "uri", rules, &mut out.notes);
            let templates = offered_entries(templates, "uriTemplate", rules, &mut out.notes);
            out.entries.extend(resources.into_iter().map(|entry| resource(entry, None)));
            for entry in templates {
                match UriPattern::parse(&entry.0, rules.except.clone()) {
                    Ok(pattern) => out.entries.push(resource(entry, Some(pattern))),
                    Err(reason) => out.notes.push(ImportNote::new(&entry.0, format!("omitted: {reason}"))),
                }
            }
        }
        out
    }

    /// Creates the route that forwards the requests for `key`, and applies limits, scopes and secrets to
    /// them. Clients cannot call it directly.
    fn proxy_route(&self, key: &'static str, out: &mut ProxiedLists) -> Option<Arc<Route>> {
        let (root, upstream) = (&self.trees.root, self.file.settings.name());
        let request = json!({ "upstream": upstream.as_str(), "tool": key });
        // Default rules only translate results of tools.
        let mut route = json!({ "request": request, "default_rules": false });
        if let Some(scopes) = root.at_path(&["upstreams", upstream.as_str(), key, "scopes"]) {
            route["scopes"] = scopes.to_json();
        }
        let route = Entry::new(&format!("{upstream}.{key}"), Node::from_json(&route, root.span), root.span);
        match self.read(&route) {
            Ok(compiled) => {
                let route = Arc::clone(&compiled.route);
                out.routes.push(compiled);
                Some(route)
            }
            Err(reason) => {
                out.notes.push(ImportNote::new("", format!("its {key} are omitted: {reason}")));
                None
            }
        }
    }
}

/// Selects the entries that are offered, in the upstream's order. Removes invalid members, because a strict
/// client would reject the whole list.
fn offered_entries(
    list: &[Box<str>],
    key: &'static str,
    rules: &NameRules,
    notes: &mut Vec<ImportNote>,
) -> Vec<ProxiedListEntry> {
    let mut entries: Vec<ProxiedListEntry> = Vec::with_capacity(list.len());
    for entry in list {
        let members = serde_json::from_str::<Map<String, Value>>(entry).unwrap_or_default();
        match members.get(key).and_then(Value::as_str).filter(|name| !name.is_empty()) {
            Some(name) => entries.push((name.to_owned(), valid_members(&members, key))),
            None => {
                notes.push(ImportNote::new("", format!("an entry of its list is omitted: it has no `{key}`")))
            }
        }
    }
    let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    // A name in `only` of resources may refer to a template, so it is not reported if no resource has it.
    if key == "name" {
        for unknown in rules.unknown_names(&names) {
            notes.push(ImportNote::new(unknown, "`prompts` lists it, but the server has no such prompt"));
        }
    }
    entries.retain(|(name, _)| rules.offers(name));
    entries
}

/// Keeps the members with the type that MCP defines (MCP 2026-07-28, schema, `Prompt`, `Resource`,
/// `ResourceTemplate`). Some servers send `null` for absent members.
fn valid_members(members: &Map<String, Value>, key: &str) -> Map<String, Value> {
    let mut out = members.clone();
    out.retain(|name, value| match name.as_str() {
        "name" | "title" | "description" | "mimeType" => value.is_string(),
        "size" => value.is_number(),
        "_meta" => value.is_object(),
        "arguments" | "icons" | "annotations" => false,
        name => name == key,
    });
    for (name, required) in [("arguments", "name"), ("icons", "src")] {
        let items = members.get(name).and_then(Value::as_array).into_iter().flatten();
        let items = items.filter(|item| item.get(required).is_some_and(Value::is_string));
        let items: Vec<Value> = items.map(without_wrong_types).collect();
        if !items.is_empty() {
            out.insert(name.to_owned(), items.into());
        }
    }
    if let Some(annotations @ Value::Object(_)) = members.get("annotations") {
        out.insert("annotations".to_owned(), without_wrong_types(annotations));
    }
    out.entry("name").or_insert_with(|| members.get(key).cloned().unwrap_or_default());
    out
}

/// Removes members of the wrong type from an argument, an icon or annotations.
fn without_wrong_types(item: &Value) -> Value {
    let mut members = item.as_object().cloned().unwrap_or_default();
    let are_texts = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
    members.retain(|name, value| match name.as_str() {
        "required" => value.is_boolean(),
        "priority" => value.is_number(),
        "sizes" | "audience" => are_texts(value),
        _ => value.is_string(),
    });
    members.into()
}
