//! Import of the tools, prompts and resources that MCP servers list. Each tool becomes a route, which is
//! parsed as if it were in the file, so that all settings and checks of routes apply.
//!
//! An [`Importer`] creates a route for each tool (`listed_tool`), and completes routes of the file with the
//! server's definition of their tool. One route per server and kind forwards the requests for prompts and
//! resources (`proxied`).
//!
//! Lists arrive long after the configuration was loaded, and may change. The importer therefore stores the
//! text of the files, and parses it again whenever lists arrive. The parsed `Trees` would use several times
//! the memory of the text.

mod listed_tool;
mod proxied;

use std::{cell::RefCell, sync::Arc};

use serde_json::{Map, Value};

use self::listed_tool::{FALLBACKS, InputParts, ListedTool, ToolImportSettings, entries_of};
pub use self::proxied::ProxiedLists;
use super::request::{Upstreams, upstream_names};
use super::routes::RouteContext;
use super::rules::RuleSets;
use super::section::plain_context;
use super::{CompiledRoute, ParsedUpstream, ToolRules, compile, file, routes, secret_masking, trees};
use crate::route::UpstreamName;
use crate::settings::suggest::nearest;
use crate::settings::{Entry, Files, Kind, Node, Report, read_section};
use crate::upstream::mcp::McpLists;

/// Importer of the tools, prompts and resources that MCP servers list, with the settings of one
/// configuration. Also parses draft routes. Clones share the data.
#[derive(Debug, Clone, Default)]
pub struct Importer {
    pub(in crate::config) files: Arc<Files>,
    upstreams: Arc<[ParsedUpstream]>,
}

/// The parsed configuration files. They are parsed on demand and dropped after use, because a tree uses
/// several times the memory of its text.
pub(in crate::config) struct Trees<'i> {
    files: &'i Files,
    pub(in crate::config) root: Node,
    presets: Option<Node>,
    upstreams: &'i [ParsedUpstream],
}

/// MCP server whose lists are imported, with the parsed files that configure it.
struct ListedServer<'i> {
    trees: &'i Trees<'i>,
    context: &'i RouteContext<'i>,
    file: &'i ParsedUpstream,
}

/// Result of the import from one server.
#[derive(Debug)]
pub struct ImportedTools {
    /// Name of the server.
    pub upstream: UpstreamName,
    /// Routes of the imported tools.
    pub routes: Vec<CompiledRoute>,
    /// Routes of the file that call a tool, completed with the server's definition of the tool.
    pub completed_routes: Vec<CompiledRoute>,
    /// Notes for operators.
    pub notes: Vec<ImportNote>,
}

/// Note about one tool. If `tool` is empty, the note is about the whole list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// Name of the tool on the server.
    pub tool: String,
    /// Reason and consequence.
    pub text: String,
}

impl ImportNote {
    fn new(tool: &str, text: impl Into<String>) -> Self {
        Self { tool: tool.chars().take(128).collect(), text: text.into() }
    }
}

impl Importer {
    /// Creates an importer. The spans of the upstreams must refer to `files`.
    pub(in crate::config) fn new(files: Files, upstreams: &[ParsedUpstream]) -> Self {
        Self { files: Arc::new(files), upstreams: upstreams.into() }
    }

    /// Creates routes from tool lists, in addition to the routes of the file. Returns one result for each
    /// server. A tool that cannot become a route is omitted with a note.
    pub fn import<'l>(
        &self,
        lists: impl IntoIterator<Item = (&'l UpstreamName, &'l [Box<str>])>,
        file_routes: &[CompiledRoute],
    ) -> Vec<ImportedTools> {
        self.read_lists(lists.into_iter(), |server, tools| server.import(tools, file_routes))
    }

    /// Selects the prompts and resources of servers that are offered to clients. Returns one result for each
    /// server.
    pub fn proxy<'l>(
        &self,
        lists: impl IntoIterator<Item = (&'l UpstreamName, &'l McpLists)>,
    ) -> Vec<ProxiedLists> {
        let lists =
            lists.into_iter().filter(|(_, lists)| lists.prompts.is_some() || lists.resources.is_some());
        self.read_lists(lists, |server, lists| server.proxy(lists))
    }

    /// Parses the files, if there is a list, and imports each list with `read`. Lists of upstreams that are
    /// not in the files are ignored.
    fn read_lists<'l, L, T>(
        &self,
        lists: impl Iterator<Item = (&'l UpstreamName, L)>,
        read: impl Fn(&ListedServer<'_>, L) -> T,
    ) -> Vec<T> {
        let mut lists = lists.peekable();
        if lists.peek().is_none() {
            return Vec::new();
        }
        let trees = self.trees();
        trees.with_route_context(|context| {
            let read = |(name, list)| {
                let parsed = self.upstreams.iter().find(|parsed| parsed.settings.name() == name)?;
                Some(read(&ListedServer { trees: &trees, context, file: parsed }, list))
            };
            lists.filter_map(read).collect()
        })
    }

    /// Returns the configuration as JSON with masked secrets, for operators.
    pub fn to_masked_json(&self) -> Value {
        secret_masking::masked_json(&self.trees().root)
    }

    /// Parses the stored text of the files again. No errors occur, because it was valid when it was loaded.
    pub(in crate::config) fn trees(&self) -> Trees<'_> {
        let report = Report::new(&self.files);
        let (file_trees, presets) = trees(&report);
        let root = compile::merge(&report, file_trees)
            .unwrap_or_else(|| Node::new(Kind::Null, self.files.beginning(0)));
        Trees { files: &self.files, root, presets, upstreams: &self.upstreams }
    }
}

impl ListedServer<'_> {
    fn import(&self, tools: &[Box<str>], file_routes: &[CompiledRoute]) -> ImportedTools {
        let mut imported = ImportedTools {
            upstream: self.file.settings.name().clone(),
            routes: Vec::new(),
            completed_routes: Vec::new(),
            notes: Vec::new(),
        };
        let mut listed_tools = Vec::with_capacity(tools.len());
        for tool in tools {
            match ListedTool::read(tool) {
                Ok(tool) => listed_tools.push(tool),
                Err(message) => imported.notes.push(ImportNote::new("", message)),
            }
        }
        for route in file_routes {
            let Some(called) = self.called_tool(route) else { continue };
            let Some(tool) = listed_tools.iter().find(|tool| tool.name == called) else {
                let names = listed_tools.iter().map(|tool| tool.name.as_str());
                let route = &route.route.definition.name;
                let suggestion = nearest(called, names).map(|name| format!("; did you mean `{name}`?"));
                let suggestion = suggestion.unwrap_or_default();
                let message =
                    format!("the route `{route}` calls it, but the server has no such tool{suggestion}");
                imported.notes.push(ImportNote::new(called, message));
                continue;
            };
            if let Some(entry) = self.trees.entry_of(route.route.definition.name.as_str())
                && let Some(completed) = completed_route(entry, route, tool)
            {
                match self.read_tool(&completed, tool) {
                    Ok(route) => imported.completed_routes.push(route),
                    Err(reason) => {
                        let route = &entry.key.text;
                        let message = format!(
                            "the route `{route}` does not use the server's definition of it: {reason}"
                        );
                        imported.notes.push(ImportNote::new(&tool.name, message));
                    }
                }
            }
        }
        self.import_tools(&listed_tools, file_routes, &mut imported);
        imported
    }

    fn import_tools(
        &self,
        listed_tools: &[ListedTool],
        file_routes: &[CompiledRoute],
        imported: &mut ImportedTools,
    ) {
        let Some(rules) = &self.file.tools else { return };
        let names: Vec<&str> = listed_tools.iter().map(|tool| tool.name.as_str()).collect();
        for unknown in rules.unknown_names(&names) {
            let message = "`tools` lists it, but the server has no such tool";
            imported.notes.push(ImportNote::new(unknown, message));
        }
        let settings = ToolImportSettings::new(&self.trees.root, self.file.settings.name());
        let has_name = |compiled: &CompiledRoute, name: &str| compiled.name().as_str() == name;
        for tool in listed_tools.iter().filter(|tool| rules.names.offers(&tool.name)) {
            let name = rules.name_of(&tool.name);
            let calls_it = |compiled: &CompiledRoute| {
                compiled.route.is_tool && self.called_tool(compiled) == Some(&*tool.name)
            };
            let note = if tool.is_task_only() {
                Some("omitted: it can be called as a task only".to_owned())
            } else if let Some(route) = file_routes.iter().find(|compiled| calls_it(compiled)) {
                // A tool that a route of the file calls is offered through that route only. With an empty
                // list, `unknown_names` returns all configured names.
                let unused = rules.unknown_names(&[]).contains(&*tool.name).then(|| route.name());
                unused.map(|route| format!("`tools` names it, but is overridden by the route `{route}`"))
            } else if file_routes.iter().any(|compiled| has_name(compiled, &name)) {
                Some(format!("omitted: a route has the name `{name}`; set a `prefix` for the tools"))
            } else if imported.routes.iter().any(|compiled| has_name(compiled, &name)) {
                Some(format!("omitted: another tool has the name `{name}`, too"))
            } else {
                match self.route_of(&settings, rules, tool, &name) {
                    Ok((route, omission)) => {
                        imported.routes.push(route);
                        omission
                    }
                    Err(reason) => Some(format!("omitted: {reason}")),
                }
            };
            imported.notes.extend(note.map(|message| ImportNote::new(&tool.name, message)));
        }
    }

    /// Creates the route of a tool with as much of the server's schemas as possible. Also returns a note
    /// about omitted parts.
    fn route_of(
        &self,
        settings: &ToolImportSettings<'_>,
        rules: &ToolRules,
        tool: &ListedTool,
        name: &str,
    ) -> Result<(CompiledRoute, Option<String>), String> {
        let mut first_error = None;
        for (input, with_output, omission) in FALLBACKS {
            let mut parts = tool.parts(input, with_output);
            if let Some(description) = rules.description_of(&tool.name) {
                parts.insert("description".into(), description.into());
            }
            let entry = settings.route(&tool.name, name, &parts);
            match self.read_tool(&entry, tool) {
                Ok(route) => return Ok((route, first_error.map(|error| format!("{omission}: {error}")))),
                Err(error) => first_error.get_or_insert(error),
            };
        }
        Err(first_error.unwrap_or_default())
    }

    /// Parses the route of a tool, and adds the tool's `_meta`.
    fn read_tool(&self, entry: &Entry, tool: &ListedTool) -> Result<CompiledRoute, String> {
        let mut compiled = self.read(entry)?;
        if let Some(route) = Arc::get_mut(&mut compiled.route) {
            route.definition.meta = tool.meta();
        }
        Ok(compiled)
    }

    /// Parses a route as if it were in the file.
    fn read(&self, entry: &Entry) -> Result<CompiledRoute, String> {
        let read = file::parsed(self.trees.files, |report| routes::read(report, self.context, entry));
        read.map_err(|problems| problems.first_error().to_owned())
    }

    /// Returns the tool that a route calls, if it is a tool of this server.
    fn called_tool<'r>(&self, compiled: &'r CompiledRoute) -> Option<&'r str> {
        let is_of_server = compiled.route.upstream == *self.file.settings.name();
        compiled.route.request.tool().filter(|_| is_of_server).map(|template| &*template.tool)
    }
}

impl Trees<'_> {
    /// Calls `work` with the context for parsing routes. No errors occur, because the files were valid when
    /// they were loaded.
    pub(in crate::config) fn with_route_context<T>(&self, work: impl FnOnce(&RouteContext<'_>) -> T) -> T {
        let report = Report::new(self.files);
        let entries = |name: &str| self.root.get(name).and_then(Node::as_map).unwrap_or_default();
        let defaults_entry = self.root.entry("defaults");
        let defaults = read_section(plain_context(&report), defaults_entry, self.root.span, "`defaults`")
            .unwrap_or_default();
        let rules = RuleSets::read(&report, entries("rules"), self.presets.as_ref());
        let names = upstream_names(entries("upstreams"));
        work(&RouteContext {
            defaults: &defaults,
            rules: &rules,
            default_response: defaults_entry.and_then(|entry| entry.value.entry("response")),
            upstreams: Upstreams { names: &names, files: self.upstreams },
            calls: &RefCell::default(),
        })
    }

    pub(in crate::config) fn entry_of(&self, route: &str) -> Option<&Entry> {
        self.root.get("routes")?.entry(route)
    }
}

/// Checks the settings for imported tools before any server lists tools, by parsing sample routes.
pub(super) fn check_tools(report: &Report<'_>, root: &Node, context: &RouteContext<'_>) {
    let files = context.upstreams.files.iter();
    for (parsed, rules) in files.filter_map(|parsed| Some((parsed, parsed.tools.as_ref()?))) {
        let upstream = parsed.settings.name();
        let settings = ToolImportSettings::new(root, upstream);
        let overrides = settings.get("overrides").and_then(|entry| entry.value.as_map()).unwrap_or_default();
        let mut tools: Vec<&str> = overrides.iter().map(|entry| entry.key.text.as_str()).collect();
        if tools.is_empty() && ["response", "argument_error"].iter().any(|key| settings.get(key).is_some()) {
            // Stands for any tool without overrides.
            tools.push("any");
        }
        for tool in tools {
            let _ = routes::read(report, context, &settings.route(tool, &rules.name_of(tool), &Map::new()));
        }
    }
}

/// Completes a route of the file with the server's definition of its tool; `None` if the route itself defines
/// everything.
fn completed_route(entry: &Entry, compiled: &CompiledRoute, tool: &ListedTool) -> Option<Entry> {
    let passes_all = compiled.route.request.tool().is_some_and(crate::route::ToolTemplate::passes_all);
    let has_rules = entry.value.get("response").is_some();
    let mut parts = tool.parts(InputParts::Whole, true);
    parts.retain(|name, _| {
        let is_imported = match name.as_str() {
            "input" => passes_all,
            "output" => !has_rules,
            _ => true,
        };
        is_imported && entry.value.get(name).is_none()
    });
    let entries = entry.value.as_map().filter(|_| !parts.is_empty())?;
    let entries = entries.iter().cloned().chain(entries_of(&parts, entry.key.span)).collect();
    Some(Entry { key: entry.key.clone(), value: Node::new(Kind::Map(entries), entry.value.span) })
}
