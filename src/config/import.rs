//! The tools that an MCP server lists, as routes: read as if they were written in the file, so that whatever holds for
//! written routes holds for them.

use std::{cell::RefCell, fmt, sync::Arc};

use serde_json::{Map, Value, value::RawValue};

use super::{
    RouteFile, ToolRules, UpstreamFile, compile,
    keys::{ANNOTATIONS, DEFAULTS},
    node::{Entry, Key, Kind, Node, Style, Text},
    report::Report,
    routes::{self, Surroundings},
    rules::RuleSets,
    section::Section,
    source::{Files, Span},
};
use crate::route::UpstreamName;

/// Makes routes of the tools of MCP servers, by the configuration that it was loaded with. Clones share that.
#[derive(Clone)]
pub struct Importer {
    pub(super) files: Arc<Files>,
    pub(super) root: Arc<Node>,
    presets: Option<Arc<Node>>,
    upstreams: Arc<[UpstreamFile]>,
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

/// A tool as its server lists it.
struct Listed {
    name: String,
    members: Map<String, Value>,
}

/// What of a tool's own schemas is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Takes {
    input: Input,
    output: bool,
}

/// What of its input schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// All.
    Whole,
    /// All but `pattern`, which servers write for the engine of their own language.
    WithoutPatterns,
    /// The names of the arguments, and what is said of each.
    Names,
}

impl Takes {
    /// From all of them to as good as nothing.
    const WAYS: [Self; 6] = [
        Self { input: Input::Whole, output: true },
        Self { input: Input::WithoutPatterns, output: true },
        Self { input: Input::Whole, output: false },
        Self { input: Input::WithoutPatterns, output: false },
        Self { input: Input::Names, output: true },
        Self { input: Input::Names, output: false },
    ];

    /// What is lost; nothing where all is taken.
    fn lost(self) -> Option<&'static str> {
        match (self.input, self.output) {
            (Input::Whole, true) => None,
            (Input::Whole, false) => Some("its output schema is not used"),
            (Input::WithoutPatterns, true) => Some("the patterns of its arguments are not used"),
            (Input::WithoutPatterns, false) => {
                Some("the patterns of its arguments are not used, nor is its output schema")
            }
            (Input::Names, true) => Some("its arguments are not checked"),
            (Input::Names, false) => Some("its arguments are not checked, and its output schema is not used"),
        }
    }
}

impl fmt::Debug for Importer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Importer").field("upstreams", &self.upstreams.len()).finish_non_exhaustive()
    }
}

impl Importer {
    pub(super) fn new(root: Node, presets: Option<&Node>, upstreams: &[UpstreamFile]) -> Self {
        let presets = presets.cloned().map(Arc::new);
        Self { files: Arc::default(), root: Arc::new(root), presets, upstreams: upstreams.into() }
    }

    /// The same with the files that its places are in.
    pub(super) fn of(self, files: Files) -> Self {
        Self { files: Arc::new(files), ..self }
    }

    /// Makes routes of what a server lists, beside those that are written. A tool that can't be one is left out, and
    /// the others are not.
    pub fn import(
        &self,
        upstream: &UpstreamName,
        tools: &[Box<RawValue>],
        written: &[RouteFile],
    ) -> Imported {
        self.around(|around| self.import_around(around, upstream, tools, written))
    }

    fn import_around(
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
            if let Some(called) = called(route, upstream)
                && let Some(tool) = listed.iter().find(|tool| tool.name == called)
                && let Some(entry) = self.entry_of(route.route.definition.name.as_str())
                && let Some(adopting) = adopting(entry, route, tool)
            {
                match self.read(around, &adopting) {
                    Ok(route) => imported.written.push(route),
                    Err(why) => imported.notes.push(tool.note(format!(
                        "the route `{}` does not take over what the server says of it: {why}",
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
            let what = "`tools` names it, and the server has no such tool".to_owned();
            imported.notes.push(ImportNote { tool: stranger.to_owned(), what });
        }
        let mut taken: Vec<String> = Vec::new();
        for tool in listed.iter().filter(|tool| rules.takes(&tool.name)) {
            let name = rules.name_of(&tool.name);
            if tool.is_task_only() {
                imported.notes.push(tool.note("it is left out: it can be called as a task only".to_owned()));
                continue;
            }
            // Whoever wrote a route for a tool did not mean to offer it without.
            let is_of_it =
                |file: &RouteFile| file.route.is_tool() && called(file, upstream) == Some(&*tool.name);
            if written.iter().any(is_of_it) {
                continue;
            }
            if written.iter().any(|file| file.route.definition.name.as_str() == name) {
                let what = format!("it is left out: there is a route `{name}`; give the tools a `prefix`");
                imported.notes.push(tool.note(what));
                continue;
            }
            if taken.contains(&name) {
                imported
                    .notes
                    .push(tool.note(format!("it is left out: another tool is called `{name}`, too")));
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
        let (place, reply) = self.place_of(upstream);
        let mut why = String::new();
        for takes in Takes::WAYS {
            let entry = tool.entry(upstream, rules, name, place, reply, takes);
            match self.read(around, &entry) {
                Ok(route) => {
                    notes.extend(takes.lost().map(|lost| tool.note(format!("{lost}: {why}"))));
                    return Some(route);
                }
                Err(error) if why.is_empty() => why = error,
                Err(_) => {}
            }
        }
        notes.push(tool.note(format!("it is left out: {why}")));
        None
    }

    /// Reads a route as if it were written in the file.
    fn read(&self, around: &Surroundings<'_>, entry: &Entry) -> Result<RouteFile, String> {
        let report = Report::new(&self.files);
        let route = routes::read(&report, around, entry);
        let problems = report.into_problems();
        match (route, problems.iter().find(|problem| problem.is_error())) {
            (Some(file), None) => Ok(file),
            (_, Some(problem)) => Err(problem.message.clone()),
            (None, None) => Err("it can't be read".to_owned()),
        }
    }

    /// Hands on what routes are read with. It was read before without a problem, when the file was.
    pub(super) fn around<T>(&self, work: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let report = Report::new(&self.files);
        let entries = |name: &str| self.root.get(name).and_then(Node::as_map).unwrap_or_default();
        let section =
            self.root.get("defaults").and_then(|node| Section::open(&report, node.span, node, &DEFAULTS));
        let defaults = section.as_ref().map(|section| compile::defaults(section).0).unwrap_or_default();
        let presets = self.presets.as_ref().and_then(|root| root.get("rules")).and_then(Node::as_map);
        let rules = RuleSets::read(&report, entries("rules"), presets.unwrap_or_default());
        let names: Vec<(UpstreamName, Span)> = entries("upstreams")
            .iter()
            .filter_map(|entry| Some((entry.key.text.parse().ok()?, entry.key.span)))
            .collect();
        work(&Surroundings {
            defaults: &defaults,
            rules: &rules,
            default_reply: section.as_ref().and_then(|section| section.entry("reply")),
            names: &names,
            upstreams: &self.upstreams,
            calls: &RefCell::default(),
        })
    }

    pub(super) fn entry_of(&self, route: &str) -> Option<&Entry> {
        self.root.get("routes")?.as_map()?.iter().find(|entry| entry.key.text == route)
    }

    /// Where an upstream is written, and the rules for the replies of its tools.
    fn place_of(&self, upstream: &UpstreamName) -> (Span, Option<&Entry>) {
        let entries = self.root.get("upstreams").and_then(Node::as_map).unwrap_or_default();
        let Some(entry) = entries.iter().find(|entry| entry.key.text == upstream.as_str()) else {
            return (self.root.span, None);
        };
        let reply = entry.value.get("tools").and_then(Node::as_map).and_then(reply_in);
        (entry.key.span, reply)
    }
}

fn reply_in(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().find(|entry| entry.key.text == "reply")
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
    let has_rules = entry.value.get("reply").is_some();
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
    Some(Entry {
        key: entry.key.clone(),
        value: Node { span: entry.value.span, kind: Kind::Map(entries), secret: false },
    })
}

impl Listed {
    fn read(tool: &RawValue) -> Result<Self, &'static str> {
        let Ok(members) = serde_json::from_str::<Map<String, Value>>(tool.get()) else {
            return Err("a tool of its list is left out: it is no object");
        };
        match members.get("name").and_then(Value::as_str).map(str::to_owned) {
            Some(name) if !name.is_empty() => Ok(Self { name, members }),
            Some(_) | None => Err("a tool of its list is left out: it has no name"),
        }
    }

    fn note(&self, what: String) -> ImportNote {
        ImportNote { tool: self.name.chars().take(128).collect(), what }
    }

    /// The route, as somebody would write it.
    fn entry(
        &self,
        upstream: &UpstreamName,
        rules: &ToolRules,
        name: &str,
        span: Span,
        reply: Option<&Entry>,
        takes: Takes,
    ) -> Entry {
        let request = vec![
            entry("upstream", text(upstream.as_str(), span), span),
            entry("tool", text(&self.name, span), span),
        ];
        let mut parts = self.parts(span, takes);
        // Rules that make another structure of it make it by no schema of the server's.
        if reply.is_some_and(|reply| makes_structure(&reply.value)) {
            parts.retain(|part| part.key.text != "output");
        }
        if let Some(description) = rules.description_of(&self.name) {
            parts.retain(|part| part.key.text != "description");
            parts.push(entry("description", text(description, span), span));
        }
        parts.push(entry("request", Node { span, kind: Kind::Map(request), secret: false }, span));
        parts.extend(reply.cloned());
        entry(name, Node { span, kind: Kind::Map(parts), secret: false }, span)
    }

    /// What the server says of the tool.
    fn parts(&self, span: Span, takes: Takes) -> Vec<Entry> {
        let mut parts = Vec::new();
        for name in ["title", "description"] {
            if let Some(Value::String(found)) = self.members.get(name)
                && !found.trim().is_empty()
            {
                parts.push(entry(name, text(found, span), span));
            }
        }
        if let Some(Value::Object(annotations)) = self.members.get("annotations") {
            let hints = annotations.iter().filter(|(name, value)| match &***name {
                "title" => value.is_string(),
                name => value.is_boolean() && ANNOTATIONS.get(name).is_some(),
            });
            let hints = hints.map(|(name, value)| entry(name, node(value, span), span)).collect();
            parts.push(entry("annotations", Node { span, kind: Kind::Map(hints), secret: false }, span));
        }
        let input = self.members.get("inputSchema").filter(|schema| schema.is_object());
        let input = match (input, takes.input) {
            (Some(schema), Input::Whole) => schema.clone(),
            (Some(schema), Input::WithoutPatterns) => without_patterns(schema),
            (None, _) | (_, Input::Names) => self.names_only(),
        };
        parts.push(entry("input", node(&input, span), span));
        if let Some(output) =
            self.members.get("outputSchema").filter(|schema| schema.is_object() && takes.output)
        {
            parts.push(entry("output", node(output, span), span));
        }
        parts
    }

    /// Whether it wants to be called in a way that is no call with an answer (MCP 2025-11-25, Tasks).
    fn is_task_only(&self) -> bool {
        let support = self.members.get("execution").and_then(|execution| execution.get("taskSupport"));
        support.and_then(Value::as_str) == Some("required")
    }

    /// Of a schema that can't be used: the names of the arguments, and what is said of each.
    fn names_only(&self) -> Value {
        let properties = self.members.get("inputSchema").and_then(|schema| schema.get("properties"));
        let described = |property: &Value| match property.get("description") {
            Some(Value::String(description)) => serde_json::json!({ "description": description }),
            _ => serde_json::json!({}),
        };
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        let properties: Map<String, Value> =
            properties.map(|(name, property)| (name.clone(), described(property))).collect();
        serde_json::json!({ "type": "object", "properties": properties })
    }
}

/// A schema in which no text is held against a pattern.
fn without_patterns(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            // What stands under `properties` has names of the server's own.
            let kept = members.iter().filter(|(name, value)| {
                let is_one = *name == "pattern" && value.is_string();
                let are_several = *name == "patternProperties" && value.is_object();
                !(is_one || are_several)
            });
            Value::Object(kept.map(|(name, value)| (name.clone(), without_patterns(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_patterns).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Whether some rule gives another structure than the server does.
fn makes_structure(rules: &Node) -> bool {
    match &rules.kind {
        Kind::Map(entries) => {
            entries.iter().any(|entry| matches!(&*entry.key.text, "structured" | "extract" | "use"))
        }
        Kind::List(rules) => rules.iter().any(makes_structure),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => false,
    }
}

fn entry(name: &str, value: Node, span: Span) -> Entry {
    Entry { key: Key { text: name.to_owned(), span }, value }
}

fn text(text: &str, span: Span) -> Node {
    let kind = Kind::Text(Text { text: text.to_owned(), style: Style::Inline });
    Node { span, kind, secret: false }
}

/// JSON as the file's own tree, all of it at one place.
fn node(value: &Value, span: Span) -> Node {
    let kind = match value {
        Value::Null => Kind::Nothing,
        Value::Bool(flag) => Kind::Flag(*flag),
        Value::Number(number) => Kind::Number(number.to_string()),
        Value::String(found) => return text(found, span),
        Value::Array(items) => Kind::List(items.iter().map(|item| node(item, span)).collect()),
        Value::Object(members) => {
            Kind::Map(members.iter().map(|(name, value)| entry(name, node(value, span), span)).collect())
        }
    };
    Node { span, kind, secret: false }
}
