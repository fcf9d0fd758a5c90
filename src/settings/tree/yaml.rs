//! Parser from YAML text to a tree in which every key and value has its span.
//!
//! It handles the parser's events itself instead of using `serde`, which loses the digits of numbers and the
//! spans of keys. [`read`] builds the tree; the module `map` builds its maps.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};

use super::{
    Key, Kind, Node, Style, TextNode,
    cost::{Budget, Cost},
    map::OpenMap,
    resolve_plain,
    syntax::{self, TOO_DEEP},
};
use crate::settings::{code::Code, report::Report, source::SourceSpan};

/// Maximum number of values in a file after alias expansion.
const NODE_LIMIT: usize = 200_000;
/// Maximum total length of their text, in bytes.
const TEXT_LIMIT_BYTES: usize = 16 << 20;
/// Maximum nesting depth of blocks, and of brackets.
const DEPTH_LIMIT: usize = 64;
/// Maximum length of a key, in characters, before its `:`.
const KEY_LIMIT: usize = 1024;

/// Parses one file. Returns `None` after reporting that it is invalid or empty.
pub(crate) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    let beginning = report.files().beginning(file);
    match read_documents(report, file, 1)?.pop() {
        None | Some(Node { kind: Kind::Null, .. }) => {
            report.error(
                Code::EmptyFile.at_span(beginning),
                "the file is empty",
                "a configuration needs at least an upstream and a route with a request; `glossator schema` shows all keys",
            );
            None
        }
        Some(root) => Some(root),
    }
}

/// Parses all documents of a file, at most `most`. Returns `None` after reporting the problems.
pub(crate) fn read_documents(report: &Report<'_>, file: usize, most: usize) -> Option<Vec<Node>> {
    let files = report.files();
    let text = files.text(files.beginning(file));
    let mut tree = TreeBuilder::new(report, file, most);
    let options = granit_parser::options! {
        flow_nesting_limit: DEPTH_LIMIT,
        block_nesting_limit: DEPTH_LIMIT,
        simple_key_max_lookahead: KEY_LIMIT,
        emit_comments: false,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => tree.handle(event, tree.span(&span))?,
            Err(error) => {
                syntax::report(report, file, &error);
                return None;
            }
        }
    }
    Some(tree.roots)
}

/// Builder of the tree.
struct TreeBuilder<'r, 'f> {
    report: &'r Report<'f>,
    file: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    roots: Vec<Node>,
    documents: usize,
    /// Maximum number of documents.
    max_documents: usize,
    budget: Budget,
}

/// List or map whose end event has not been received.
struct Open {
    start: usize,
    anchor: usize,
    inside: Inside,
}

/// Content of a list or map whose end event has not been received.
enum Inside {
    List(Vec<Node>),
    Map(Box<OpenMap>),
}

/// Value with an anchor, and the size that each alias of it adds.
struct Anchored {
    node: Node,
    cost: Cost,
}

impl<'r, 'f> TreeBuilder<'r, 'f> {
    fn new(report: &'r Report<'f>, file: usize, max_documents: usize) -> Self {
        Self {
            report,
            file,
            open: Vec::new(),
            anchors: HashMap::new(),
            roots: Vec::new(),
            documents: 0,
            max_documents,
            budget: Budget::new(NODE_LIMIT, TEXT_LIMIT_BYTES),
        }
    }

    fn span(&self, span: &granit_parser::Span) -> SourceSpan {
        let start = span.start.byte_offset().unwrap_or_default();
        let end = span.end.byte_offset().unwrap_or(start).max(start);
        SourceSpan { file: self.file, start, end }
    }

    /// Handles one event. Returns `None` after reporting an error that stops parsing.
    fn handle(&mut self, event: Event<'_>, span: SourceSpan) -> Option<()> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > self.max_documents {
                    self.report.error(
                        Code::SecondDocument.at_span(span),
                        "a second YAML document begins here; a file must have exactly one",
                        "move it to another file in the same folder, and start glossator with the folder",
                    );
                    return None;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.scalar(&text, style, tag.as_deref(), span)?;
                self.spend(1, text.len(), span)?;
                // Only a plain `<<` is a merge key; in quotes it is an ordinary key (YAML 1.1, "Merge Key").
                if let Some(Inside::Map(map)) = self.open.last_mut().map(|open| &mut open.inside)
                    && map.wants_key()
                    && text == "<<"
                    && style == ScalarStyle::Plain
                    && tag.is_none()
                    && anchor == 0
                {
                    map.add_merge_key(Key { text: text.into_owned(), span });
                } else {
                    self.add_value(Node::new(kind, span), anchor)?;
                }
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), span)?;
                self.open(span, anchor, Inside::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), span)?;
                self.open(span, anchor, Inside::Map(Box::default()))?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { start, anchor, inside }) = self.open.pop() {
                    let kind = match inside {
                        Inside::List(items) => Kind::List(items),
                        Inside::Map(map) => Kind::Map(map.into_entries(self.report)),
                    };
                    let span = SourceSpan { file: self.file, start, end: span.end.max(start) };
                    self.add_value(Node::new(kind, span), anchor)?;
                }
            }
            Event::Alias(id) => {
                let Some(cost) = self.anchors.get(&id).map(|anchored| anchored.cost) else {
                    self.report.error(
                        Code::RecursiveAlias.at_span(span),
                        "the alias is inside the value that it refers to, which never ends",
                        "write out the value here",
                    );
                    return None;
                };
                // The parser's own depth limit does not count values that aliases insert.
                if self.open.len() + cost.depth > 2 * DEPTH_LIMIT {
                    self.report.error(Code::NestedTooDeep.at_span(span), TOO_DEEP.0, TOO_DEEP.1);
                    return None;
                }
                self.spend(cost.nodes, cost.text_bytes, span)?;
                let node = self.anchors.get(&id)?.node.clone();
                self.add_value(node, 0)?;
            }
            // Stream markers, comments and other events without a value.
            _ => {}
        }
        Some(())
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: SourceSpan) -> Option<Kind> {
        let is_text = match tag.map(Tag::core_suffix) {
            None => false,
            Some(Some("str")) => true,
            Some(Some("int" | "float" | "bool" | "null")) => false,
            Some(_) => {
                self.check_tag(tag, span)?;
                false
            }
        };
        let text_of = |style| Kind::Text(TextNode { text: text.to_owned(), style });
        Some(match style {
            ScalarStyle::Plain if !is_text => resolve_plain(text),
            ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                text_of(Style::Inline)
            }
            ScalarStyle::Literal => text_of(Style::Literal),
            ScalarStyle::Folded => text_of(Style::Folded),
        })
    }

    fn check_tag(&self, tag: Option<&Tag>, span: SourceSpan) -> Option<()> {
        match tag {
            None => Some(()),
            Some(tag)
                if matches!(
                    tag.core_suffix(),
                    Some("seq" | "map" | "str" | "int" | "float" | "bool" | "null")
                ) =>
            {
                Some(())
            }
            Some(tag) => {
                let message = format!("the tag `{}` is not supported", tag.original());
                self.report.error(
                    Code::UnknownTag.at_span(span),
                    message,
                    "remove the tag; put a string that begins with `!` in quotes",
                );
                None
            }
        }
    }

    fn open(&mut self, span: SourceSpan, anchor: usize, inside: Inside) -> Option<()> {
        self.spend(1, 0, span)?;
        self.open.push(Open { start: span.start, anchor, inside });
        Some(())
    }

    fn spend(&self, nodes: usize, text_bytes: usize, span: SourceSpan) -> Option<()> {
        let spent = self.budget.spend(nodes, text_bytes);
        let checked = spent.map_err(|limit| {
            let message = format!("after alias expansion, the file has more than {limit}");
            self.report.error(
                Code::TooLarge.at_span(span),
                message,
                "split it into several files, or use fewer aliases",
            );
        });
        checked.ok()
    }

    /// Adds a complete value to the open list or map, or to the documents.
    fn add_value(&mut self, node: Node, anchor: usize) -> Option<()> {
        if anchor > 0 {
            let cost = Cost::from_node(&node);
            // The copy that is kept for aliases uses memory as well.
            self.spend(cost.nodes, cost.text_bytes, node.span)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), cost });
        }
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.roots.push(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map(map)) => map.add_node(self.report, node),
        }
        Some(())
    }
}
