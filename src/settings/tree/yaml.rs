//! Parser of YAML text. It builds a tree in which every key and value has its span.
//!
//! The module processes the events of the YAML parser instead of using `serde`, which loses the digits of
//! numbers and the spans of keys. It checks that each key of a map occurs once, and applies merge keys
//! (`<<`).

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, StrInput, Tag};

use super::{
    Budget, Entry, Key, Kind, Node, TreeSize, resolve_plain,
    syntax_errors::{self, TOO_DEEP},
};
use crate::settings::{problem_code::Code, problem_collector::Report, source_text::SourceSpan};

/// Maximum number of keys and values in a file after alias expansion.
const NODE_LIMIT: usize = 200_000;
/// Maximum total length of all keys and values of a file after alias expansion, in bytes.
const TEXT_LIMIT_BYTES: usize = 16 << 20;
/// Maximum nesting depth of block collections, and of the flow collections (brackets) inside them.
const DEPTH_LIMIT: usize = 64;
/// Maximum length of a key before its `:`, in characters.
const KEY_LIMIT: usize = 1024;

/// Parses one file. Returns `None`, after reporting a problem, if it is invalid or empty.
pub(crate) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    let beginning = report.files().beginning(file);
    let root = read_documents(report, file, 1)?.pop().filter(|root| !matches!(root.kind, Kind::Null));
    if root.is_none() {
        let help = "write a section such as `routes`, or remove the file; `glossator schema` shows all keys";
        report.error(Code::EmptyFile.at_span(beginning), "the file is empty", help);
    }
    root
}

/// Parses the documents of a file. Returns `None`, after reporting the problems, if the file is invalid or
/// has more than `max_documents` documents.
pub(crate) fn read_documents(report: &Report<'_>, file: usize, max_documents: usize) -> Option<Vec<Node>> {
    let files = report.files();
    let text = files.text(files.beginning(file));
    let options = granit_parser::options! {
        flow_nesting_limit: DEPTH_LIMIT,
        block_nesting_limit: DEPTH_LIMIT,
        simple_key_max_lookahead: KEY_LIMIT,
        emit_comments: false,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let budget = Budget::new(NODE_LIMIT, TEXT_LIMIT_BYTES);
    let mut reader = TreeReader { report, file, parser, anchors: HashMap::new(), budget, depth: 0 };
    let mut roots = Vec::new();
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Some(roots),
            (Event::DocumentStart(..), span) if roots.len() == max_documents => {
                let message = "a second YAML document begins here; a file must have exactly one";
                let help = "move it to another file in the same folder, and start glossator with the folder";
                return report.reject(Code::SecondDocument.at_span(span), message, help);
            }
            (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
            (event, span) => roots.push(reader.value(event, span)?),
        }
    }
}

/// Reader of the events of the YAML parser. Its functions return `None` after reporting an error that stops
/// parsing.
struct TreeReader<'r, 'f> {
    report: &'r Report<'f>,
    file: usize,
    parser: Parser<'f, StrInput<'f>>,
    /// Anchored values, each with the size that an alias of it adds.
    anchors: HashMap<usize, (Node, TreeSize)>,
    budget: Budget,
    /// Number of lists and maps around the current value.
    depth: usize,
}

impl<'f> TreeReader<'_, 'f> {
    fn next(&mut self) -> Option<(Event<'f>, SourceSpan)> {
        match self.parser.next()? {
            Ok((event, span)) => {
                let start = span.start.byte_offset().unwrap_or_default();
                let end = span.end.byte_offset().unwrap_or(start).max(start);
                Some((event, SourceSpan { file: self.file, start, end }))
            }
            Err(error) => {
                syntax_errors::report(self.report, self.file, &error);
                None
            }
        }
    }

    /// Reads the value that begins with `event`.
    fn value(&mut self, event: Event<'_>, span: SourceSpan) -> Option<Node> {
        let (anchor, tag, text_bytes) = match &event {
            Event::Scalar(text, _, anchor, tag) => (*anchor, tag.as_deref(), text.len()),
            Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => {
                (*anchor, tag.as_deref(), 0)
            }
            Event::Alias(id) => return self.alias(*id, span),
            // Not reached: inside a document, this function is called only for events that begin a value.
            _ => return None,
        };
        self.check_tag(tag, span)?;
        self.spend(1, text_bytes, span)?;
        let (kind, end) = match &event {
            Event::Scalar(text, style, ..) => (scalar(text, *style, tag), span.end),
            Event::SequenceStart(..) => self.items()?,
            _ => self.entries()?,
        };
        let is_literal = matches!(event, Event::Scalar(_, ScalarStyle::Literal, ..));
        let span = SourceSpan { end: end.max(span.start), ..span };
        let node = Node { is_literal, ..Node::new(kind, span) };
        if anchor > 0 {
            let size = TreeSize::from_node(&node);
            // The copy for aliases uses memory as well.
            self.spend(size.nodes, size.text_bytes, node.span)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Some(node)
    }

    /// Reads the rest of a list; returns the list and the offset of its end.
    fn items(&mut self) -> Option<(Kind, usize)> {
        let mut items = Vec::new();
        self.depth += 1;
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => {
                    self.depth -= 1;
                    return Some((Kind::List(items), span.end));
                }
                (event, span) => items.push(self.value(event, span)?),
            }
        }
    }

    /// Reads the rest of a map; returns the map and the offset of its end.
    fn entries(&mut self) -> Option<(Kind, usize)> {
        let (mut entries, mut seen, mut merge) = (Vec::<Entry>::new(), HashMap::new(), None::<Entry>);
        self.depth += 1;
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                self.depth -= 1;
                let merged = merge.map(|merge| self.merged_entries(&merge)).unwrap_or_default();
                entries.extend(merged.into_iter().filter(|entry| !seen.contains_key(&entry.key.text)));
                return Some((Kind::Map(entries), span.end));
            }
            // Only a plain `<<` is a merge key; in quotes it is an ordinary key (YAML 1.1, "Merge Key").
            let is_merge_key =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, 0, None) if text.as_ref() == "<<");
            let key = self.value(event, span)?;
            let key = self.key(&key);
            let (event, span) = self.next()?;
            let mut value = self.value(event, span)?;
            if matches!(value.kind, Kind::Null) {
                // An absent value has no span of its own, so it has the span of its key.
                value.span = key.span;
            }
            let entry = Entry { key, value };
            let first = match is_merge_key {
                true => merge.as_ref(),
                false => seen.get(&entry.key.text).map(|index: &usize| &entries[*index]),
            };
            match first {
                Some(first) => {
                    let line = self.report.files().line_and_column(first.key.span).line;
                    let message = format!("duplicate key `{}`, first defined in line {line}", entry.key.text);
                    let at = Code::DuplicateKey.at_span(entry.key.span);
                    self.report.error(at, message, "remove one of the two");
                }
                None if is_merge_key => merge = Some(entry),
                None => {
                    seen.insert(entry.key.text.clone(), entries.len());
                    entries.push(entry);
                }
            }
        }
    }

    fn key(&self, node: &Node) -> Key {
        let span = node.span;
        let spelling = || self.report.files().text(span).get(span.start..span.end).unwrap_or_default();
        let text = match &node.kind {
            Kind::Null => spelling().to_owned(),
            // Keys keep their spelling: `1.0` and `True` are names if they are keys.
            Kind::Boolean(_) | Kind::Number(_) => spelling().trim().to_owned(),
            Kind::Text(text) => text.clone(),
            Kind::List(_) | Kind::Map(_) => {
                let message = format!("a key must be a string, found {}", node.describe());
                let help = "put a string that begins with `{` or `[` in quotes";
                self.report.error(Code::InvalidKey.at_span(span), message, help);
                String::new()
            }
        };
        Key { text, span }
    }

    /// Returns the entries of the map, or of the list of maps, that `<<` refers to; the first map takes
    /// precedence.
    fn merged_entries(&self, Entry { key, value }: &Entry) -> Vec<Entry> {
        let maps: Option<Vec<_>> = value.one_or_more().iter().map(Node::as_map).collect();
        let Some(maps) = maps else {
            let message = format!("`<<` must be a map or a list of maps, found {}", value.describe());
            let help = "refer to the anchor of a map: `<<: *common`";
            self.report.error(Code::InvalidMergeKey.at_span(key.span), message, help);
            return Vec::new();
        };
        let mut seen = HashSet::new();
        maps.into_iter().flatten().filter(|entry| seen.insert(&entry.key.text)).cloned().collect()
    }

    fn alias(&self, id: usize, span: SourceSpan) -> Option<Node> {
        let Some((node, size)) = self.anchors.get(&id) else {
            let message = "the alias is inside the value that it refers to, which never ends";
            let help = "write out the value here";
            return self.report.reject(Code::RecursiveAlias.at_span(span), message, help);
        };
        // The depth limit of the YAML parser does not count values that aliases insert.
        if self.depth + size.depth > 2 * DEPTH_LIMIT {
            return self.report.reject(Code::NestedTooDeep.at_span(span), TOO_DEEP.0, TOO_DEEP.1);
        }
        self.spend(size.nodes, size.text_bytes, span)?;
        Some(node.clone())
    }

    fn check_tag(&self, tag: Option<&Tag>, span: SourceSpan) -> Option<()> {
        const CORE_TAGS: [&str; 7] = ["seq", "map", "str", "int", "float", "bool", "null"];
        let Some(tag) = tag.filter(|tag| !tag.core_suffix().is_some_and(|name| CORE_TAGS.contains(&name)))
        else {
            return Some(());
        };
        let message = format!("the tag `{}` is not supported", tag.original());
        let help = "remove the tag; put a string that begins with `!` in quotes";
        self.report.reject(Code::UnknownTag.at_span(span), message, help)
    }

    fn spend(&self, nodes: usize, text_bytes: usize, span: SourceSpan) -> Option<()> {
        let report = |limit| {
            let message = format!("after alias expansion, the file has more than {limit}");
            let help = "split it into several files, or use fewer aliases";
            self.report.error(Code::TooLarge.at_span(span), message, help);
        };
        self.budget.spend(nodes, text_bytes).map_err(report).ok()
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Kind {
    let is_string = style != ScalarStyle::Plain || tag.and_then(Tag::core_suffix) == Some("str");
    if is_string { Kind::Text(text.to_owned()) } else { resolve_plain(text) }
}
