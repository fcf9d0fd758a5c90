//! The tools that an MCP server lists, as routes: read as if they were written in the file, so that whatever
//! holds for written routes holds for them. In reading order: an [`Importer`] makes routes of what a server
//! `listed`, one for each tool, and gives written ones what the server says of theirs; for that it reads the
//! files once more, as `Trees`. Prompts and resources of a server are `proxied`: their requests go on to it
//! by a route that stands for all.

mod listed;
mod proxied;

use std::{cell::RefCell, fmt, sync::Arc};

use serde_json::{Value, value::RawValue};

use self::listed::{Listed, Takes, Written};
pub use self::proxied::ProxiedLists;
use super::{
    RouteFile, ToolRules, UpstreamFile, compile,
    masked::shown,
    node::{Entry, Kind, Node},
    report::Report,
    routes::{self, Surroundings},
    rules::RuleSets,
    section::plain_context,
    source::{Files, Span},
    suggest::nearest,
    trees,
};
use crate::{route::UpstreamName, settings::section::read_section, upstream::mcp::McpLists};

/// Makes routes of the tools of MCP servers, by the configuration that it was loaded with. Clones share that.
#[derive(Clone)]
pub struct Importer {
    pub(in crate::config) files: Arc<Files>,
    upstreams: Arc<[UpstreamFile]>,
}

/// What stands in the files, as trees. They take several times what the text does and are seldom asked for, so they are
/// made of it then, and let go.
pub(in crate::config) struct Trees<'i> {
    files: &'i Files,
    pub(in crate::config) root: Node,
    presets: Option<Node>,
    upstreams: &'i [UpstreamFile],
}

/// What became of the tools of one server.
#[derive(Debug, Default)]
pub struct Imported {
    /// A route for each tool that is listed.
    pub routes: Vec<RouteFile>,
    /// Written routes that call a tool and leave it to the server to say what it takes: as the server says it.
    pub written: Vec<RouteFile>,
    /// What somebody who looks after the file should know.
    pub notes: Vec<ImportNote>,
}

/// Something about one tool, or about all when it has no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// What the server calls the tool.
    pub tool: String,
    /// What is the matter, and what was done.
    pub what: String,
}

impl fmt::Debug for Importer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Importer").field("upstreams", &self.upstreams.len()).finish_non_exhaustive()
    }
}

impl Importer {
    pub(in crate::config) fn new(upstreams: &[UpstreamFile]) -> Self {
        Self { files: Arc::default(), upstreams: upstreams.into() }
    }

    /// The same with the files that its places are in.
    pub(in crate::config) fn of(self, files: Files) -> Self {
        Self { files: Arc::new(files), ..self }
    }

    /// Makes routes of what servers list, beside those that are written: for each list what became of it. A tool that
    /// can't be a route is left out, and the others are not.
    pub fn import<'l>(
        &self,
        lists: impl IntoIterator<Item = (&'l UpstreamName, &'l [Box<RawValue>])>,
        written: &[RouteFile],
    ) -> Vec<Imported> {
        let mut lists = lists.into_iter().peekable();
        if lists.peek().is_none() {
            return Vec::new();
        }
        let trees = self.trees();
        trees.around(|around| {
            lists.map(|(upstream, tools)| trees.import(around, upstream, tools, written)).collect()
        })
    }

    /// Makes of what servers list beside tools what clients are offered: for each server what became of it.
    pub fn proxy<'l>(
        &self,
        lists: impl IntoIterator<Item = (&'l UpstreamName, &'l McpLists)>,
    ) -> Vec<ProxiedLists> {
        let lists = lists.into_iter().filter(|(_, lists)| lists.has_prompts || lists.has_resources);
        let mut lists = lists.peekable();
        if lists.peek().is_none() {
            return Vec::new();
        }
        let trees = self.trees();
        trees.around(|around| {
            lists.filter_map(|(upstream, lists)| trees.proxy(around, upstream, lists)).collect()
        })
    }

    /// The configuration as operators may see it: as it is written, without what must not be shown.
    pub fn shown(&self) -> Value {
        shown(&self.trees().root)
    }

    /// The trees that the configuration was compiled of: there was nothing wrong with them.
    pub(in crate::config) fn trees(&self) -> Trees<'_> {
        let report = Report::new(&self.files);
        let (written, presets) = trees(&report);
        let root = compile::merge(&report, written);
        let root = root.unwrap_or_else(|| Node::new(Kind::Nothing, self.files.beginning(0)));
        Trees { files: &self.files, root, presets, upstreams: &self.upstreams }
    }
}

impl Trees<'_> {
    fn import(
        &self,
        around: &Surroundings<'_>,
        upstream: &UpstreamName,
        tools: &[Box<RawValue>],
        written: &[RouteFile],
    ) -> Imported {
        let mut imported = Imported::default();
        let Some(file) = self.upstreams.iter().find(|file| file.settings.name() == upstream) else {
            return imported;
        };
        let mut listed = Vec::with_capacity(tools.len());
        for tool in tools {
            match Listed::read(tool) {
                Ok(tool) => listed.push(tool),
                Err(what) => imported.notes.push(ImportNote { tool: String::new(), what: what.to_owned() }),
            }
        }
        for route in written {
            let Some(called) = called(route, upstream) else { continue };
            let Some(tool) = listed.iter().find(|tool| tool.name == called) else {
                let names = listed.iter().map(|tool| tool.name.as_str());
                let route = &route.route.definition.name;
                let meant = nearest(called, names).map(|name| format!("; did you mean `{name}`?"));
                let what = format!(
                    "the route `{route}` calls it, but the server has no such tool{}",
                    meant.unwrap_or_default()
                );
                imported.notes.push(ImportNote { tool: called.to_owned(), what });
                continue;
            };
            if let Some(entry) = self.entry_of(route.route.definition.name.as_str())
                && let Some(adopting) = adopting(entry, route, tool)
            {
                match self.read(around, &adopting).map(|route| with_meta(route, tool)) {
                    Ok(route) => imported.written.push(route),
                    Err(why) => imported.notes.push(tool.note(format!(
                        "the route `{}` does not use the server's definition of it: {why}",
                        entry.key.text
                    ))),
                }
            }
        }
        if let Some(rules) = &file.tools {
            self.list(around, upstream, rules, &listed, written, &mut imported);
        }
        imported
    }

    fn list(
        &self,
        around: &Surroundings<'_>,
        upstream: &UpstreamName,
        rules: &ToolRules,
        listed: &[Listed],
        written: &[RouteFile],
        imported: &mut Imported,
    ) {
        let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
        for stranger in rules.strangers(&names) {
            let what = "`tools` lists it, but the server has no such tool".to_owned();
            imported.notes.push(ImportNote { tool: stranger.to_owned(), what });
        }
        let mut taken: Vec<String> = Vec::new();
        for tool in listed.iter().filter(|tool| rules.takes(&tool.name)) {
            let name = rules.name_of(&tool.name);
            if tool.is_task_only() {
                imported.notes.push(tool.note("omitted: it can be called as a task only".to_owned()));
                continue;
            }
            // Whoever wrote a route for a tool did not mean to offer it without.
            let is_of_it =
                |file: &RouteFile| file.route.is_tool() && called(file, upstream) == Some(&*tool.name);
            if written.iter().any(is_of_it) {
                continue;
            }
            if written.iter().any(|file| file.route.definition.name.as_str() == name) {
                let what = format!("omitted: a route has the name `{name}`; set a `prefix` for the tools");
                imported.notes.push(tool.note(what));
                continue;
            }
            if taken.contains(&name) {
                imported.notes.push(tool.note(format!("omitted: another tool has the name `{name}`, too")));
                continue;
            }
            if let Some(route) = self.route_of(around, upstream, rules, tool, &name, &mut imported.notes) {
                imported.routes.push(route);
                taken.push(name);
            }
        }
    }

    /// The route of a tool, with as much of the server's schemas as can be used.
    fn route_of(
        &self,
        around: &Surroundings<'_>,
        upstream: &UpstreamName,
        rules: &ToolRules,
        tool: &Listed,
        name: &str,
        notes: &mut Vec<ImportNote>,
    ) -> Option<RouteFile> {
        let written = written_of(&self.root, upstream);
        let mut why = String::new();
        for takes in Takes::WAYS {
            let entry = tool.entry(upstream, rules, name, &written, takes);
            match self.read(around, &entry).map(|route| with_meta(route, tool)) {
                Ok(route) => {
                    notes.extend(takes.lost().map(|lost| tool.note(format!("{lost}: {why}"))));
                    return Some(route);
                }
                Err(error) if why.is_empty() => why = error,
                Err(_) => {}
            }
        }
        notes.push(tool.note(format!("omitted: {why}")));
        None
    }

    /// Reads a route as if it were written in the file.
    fn read(&self, around: &Surroundings<'_>, entry: &Entry) -> Result<RouteFile, String> {
        let report = Report::new(self.files);
        let route = routes::read(&report, around, entry);
        let problems = report.into_problems();
        match (route, problems.iter().find(|problem| problem.is_error())) {
            (Some(file), None) => Ok(file),
            (_, Some(problem)) => Err(problem.message.clone()),
            (None, None) => Err("it can't be read".to_owned()),
        }
    }

    /// Hands on what routes are read with. It was read before without a problem, when the file was.
    pub(in crate::config) fn around<T>(&self, work: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let report = Report::new(self.files);
        let entries = |name: &str| self.root.get(name).and_then(Node::as_map).unwrap_or_default();
        let written = self.root.entry("defaults");
        let context = plain_context(&report);
        let defaults = read_section(context, written, self.root.span, "`defaults`").unwrap_or_default();
        let presets = self.presets.as_ref().and_then(|root| root.get("rules")).and_then(Node::as_map);
        let rules = RuleSets::read(&report, entries("rules"), presets.unwrap_or_default());
        let names: Vec<(UpstreamName, Span)> = entries("upstreams")
            .iter()
            .filter_map(|entry| Some((entry.key.text.parse().ok()?, entry.key.span)))
            .collect();
        work(&Surroundings {
            defaults: &defaults,
            rules: &rules,
            default_response: written.and_then(|entry| entry.value.entry("response")),
            names: &names,
            upstreams: self.upstreams,
            calls: &RefCell::default(),
        })
    }

    pub(in crate::config) fn entry_of(&self, route: &str) -> Option<&Entry> {
        self.root.get("routes")?.as_map()?.iter().find(|entry| entry.key.text == route)
    }
}

/// A route that was read just now, with the `_meta` of its tool.
fn with_meta(mut file: RouteFile, tool: &Listed) -> RouteFile {
    if let Some(route) = Arc::get_mut(&mut file.route) {
        route.definition.meta = tool.meta();
    }
    file
}

/// What is written of an upstream's tools.
fn written_of<'t>(root: &'t Node, upstream: &UpstreamName) -> Written<'t> {
    let entries = root.get("upstreams").and_then(Node::as_map).unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| entry.key.text == upstream.as_str()) else {
        return Written { span: root.span, response: None, argument_error: None, overrides: &[] };
    };
    let tools = entry.value.get("tools").and_then(Node::as_map).unwrap_or_default();
    let named = |name: &str| tools.iter().find(|entry| entry.key.text == name);
    Written {
        span: entry.key.span,
        response: named("response"),
        argument_error: named("argument_error"),
        overrides: named("overrides").and_then(|entry| entry.value.as_map()).unwrap_or_default(),
    }
}

/// Reads what is written of tools as routes would have it, so that a mistake shows before a server lists them.
pub(super) fn check_tools(
    report: &Report<'_>,
    root: &Node,
    around: &Surroundings<'_>,
    upstreams: &[UpstreamFile],
) {
    /// A tool that has no rules but those of all.
    const ANY: &str = "any";
    for (file, rules) in upstreams.iter().filter_map(|file| Some((file, file.tools.as_ref()?))) {
        let upstream = file.settings.name();
        let written = written_of(root, upstream);
        let mut tools: Vec<&str> = written.overrides.iter().map(|entry| entry.key.text.as_str()).collect();
        if tools.is_empty() && (written.response.is_some() || written.argument_error.is_some()) {
            tools.push(ANY);
        }
        for tool in tools {
            let _ = routes::read(
                report,
                around,
                &written.route(upstream, tool, &rules.name_of(tool), Vec::new()),
            );
        }
    }
}

/// The tool of this upstream that a route calls.
fn called<'r>(file: &'r RouteFile, upstream: &UpstreamName) -> Option<&'r str> {
    let template = file.route.request.tool().filter(|_| file.route.upstream == *upstream);
    template.map(|template| &*template.tool)
}

/// A written route with what the server says of its tool in the place of what it does not say. Nothing where it says
/// everything itself.
fn adopting(entry: &Entry, file: &RouteFile, tool: &Listed) -> Option<Entry> {
    let passes_all = file.route.request.tool().is_some_and(crate::route::ToolTemplate::passes_all);
    let has_rules = entry.value.get("response").is_some();
    let mut wanted = vec!["title", "description", "annotations"];
    if passes_all {
        wanted.push("input");
    }
    if !has_rules {
        wanted.push("output");
    }
    let span = entry.key.span;
    let more: Vec<Entry> = tool
        .parts(span, Takes::WAYS[0])
        .into_iter()
        .filter(|part| wanted.contains(&&*part.key.text) && entry.value.get(&part.key.text).is_none())
        .collect();
    let entries = entry.value.as_map().filter(|_| !more.is_empty())?;
    let entries = entries.iter().cloned().chain(more).collect();
    Some(Entry { key: entry.key.clone(), value: Node::new(Kind::Map(entries), entry.value.span) })
}
