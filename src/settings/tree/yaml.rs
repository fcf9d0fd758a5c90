//! One file as written: YAML text to a tree in which every key and value knows its place.
//!
//! The parser's events are read directly rather than through `serde`, which would lose the text of numbers and
//! the places of keys. In reading order: [`read`] grows a tree; `map` is a map of it that has not ended.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};

use super::{
    Key, Kind, Node, Style, Text,
    cost::{Budget, Cost},
    map::OpenMap,
    resolve_plain,
    syntax::{self, TOO_DEEP},
};
use crate::settings::{code::Code, report::Report, source::Span};

/// How many values a file may have once its aliases are put in.
const NODE_LIMIT: usize = 200_000;
/// How many bytes of text these may have together.
const TEXT_LIMIT_BYTES: usize = 16 << 20;
/// How deep blocks, and brackets, may nest.
const DEPTH_LIMIT: usize = 64;
/// The longest key, in characters, that may stand before its `:` in a line.
const KEY_LIMIT: usize = 1024;

/// Reads one file. `None` when it is no YAML, or empty; that has been reported then.
pub(crate) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    let beginning = report.files().beginning(file);
    match read_documents(report, file, 1)?.pop() {
        None | Some(Node { kind: Kind::Nothing, .. }) => {
            report.error(
                Code::EmptyFile.at(beginning),
                "the file is empty",
                "three lines are enough: an upstream, a route and its request; see `glossator schema`",
            );
            None
        }
        Some(root) => Some(root),
    }
}

/// Reads all documents of a file, of which there may be `most`. `None` when it is no YAML; that has been reported
/// then.
pub(crate) fn read_documents(report: &Report<'_>, file: usize, most: usize) -> Option<Vec<Node>> {
    let files = report.files();
    let text = files.text(files.beginning(file));
    let mut tree = Tree::new(report, file, most);
    let options = granit_parser::options! {
        flow_nesting_limit: DEPTH_LIMIT,
        block_nesting_limit: DEPTH_LIMIT,
        simple_key_max_lookahead: KEY_LIMIT,
        emit_comments: false,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => tree.take(event, tree.span(&span))?,
            Err(error) => {
                syntax::report(report, file, &error);
                return None;
            }
        }
    }
    Some(tree.roots)
}

/// The tree while it grows.
struct Tree<'r, 'f> {
    report: &'r Report<'f>,
    file: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    roots: Vec<Node>,
    documents: usize,
    /// How many documents there may be.
    most_documents: usize,
    budget: Budget,
}

/// A list or map that has not ended yet.
struct Open {
    start: usize,
    anchor: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map(Box<OpenMap>),
}

/// A value that aliases may name, and what it costs to repeat it.
struct Anchored {
    node: Node,
    cost: Cost,
}

impl<'r, 'f> Tree<'r, 'f> {
    fn new(report: &'r Report<'f>, file: usize, most_documents: usize) -> Self {
        Self {
            report,
            file,
            open: Vec::new(),
            anchors: HashMap::new(),
            roots: Vec::new(),
            documents: 0,
            most_documents,
            budget: Budget::new(NODE_LIMIT, TEXT_LIMIT_BYTES),
        }
    }

    fn span(&self, span: &granit_parser::Span) -> Span {
        let start = span.start.byte_offset().unwrap_or_default();
        let end = span.end.byte_offset().unwrap_or(start).max(start);
        Span { file: self.file, start, end }
    }

    /// Takes one event; `None` ends the reading, after a report.
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > self.most_documents {
                    self.report.error(
                        Code::SecondDocument.at(span),
                        "a second document begins here; a file holds one",
                        "put it into a file of its own beside this one, and name the folder",
                    );
                    return None;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.scalar(&text, style, tag.as_deref(), span)?;
                self.spend(1, text.len(), span)?;
                // In quotes it is a name like any other (YAML 1.1, merge key: what a plain `<<` resolves to).
                if let Some(Inside::Map(map)) = self.open.last_mut().map(|open| &mut open.inside)
                    && map.wants_key()
                    && text == "<<"
                    && style == ScalarStyle::Plain
                    && tag.is_none()
                    && anchor == 0
                {
                    map.take_merge(Key { text: text.into_owned(), span });
                } else {
                    self.put(Node::new(kind, span), anchor)?;
                }
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span)?;
                self.open(span, anchor, Inside::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span)?;
                self.open(span, anchor, Inside::Map(Box::default()))?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { start, anchor, inside }) = self.open.pop() {
                    let kind = match inside {
                        Inside::List(items) => Kind::List(items),
                        Inside::Map(map) => Kind::Map(map.into_entries(self.report)),
                    };
                    let span = Span { file: self.file, start, end: span.end.max(start) };
                    self.put(Node::new(kind, span), anchor)?;
                }
            }
            Event::Alias(id) => {
                let Some(cost) = self.anchors.get(&id).map(|anchored| anchored.cost) else {
                    self.report.error(
                        Code::RecursiveAlias.at(span),
                        "the alias stands inside the value that it names, which would have no end",
                        "write out what is meant here",
                    );
                    return None;
                };
                // Aliases nest what the parser's own limit does not see.
                if self.open.len() + cost.depth > 2 * DEPTH_LIMIT {
                    self.report.error(Code::NestedTooDeep.at(span), TOO_DEEP.0, TOO_DEEP.1);
                    return None;
                }
                self.spend(cost.nodes, cost.text_bytes, span)?;
                let node = self.anchors.get(&id)?.node.clone();
                self.put(node, 0)?;
            }
            // Stream marks and comments, and whatever else is no value.
            _ => {}
        }
        Some(())
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Option<Kind> {
        let is_text = match tag.map(Tag::core_suffix) {
            None => false,
            Some(Some("str")) => true,
            Some(Some("int" | "float" | "bool" | "null")) => false,
            Some(_) => {
                self.refuse_tag(tag, span)?;
                false
            }
        };
        let text_of = |style| Kind::Text(Text { text: text.to_owned(), style });
        Some(match style {
            ScalarStyle::Plain if !is_text => resolve_plain(text),
            ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                text_of(Style::Inline)
            }
            ScalarStyle::Literal => text_of(Style::Literal),
            ScalarStyle::Folded => text_of(Style::Folded),
        })
    }

    fn refuse_tag(&self, tag: Option<&Tag>, span: Span) -> Option<()> {
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
                let message = format!("the tag `{}` means nothing here", tag.original());
                self.report.error(
                    Code::UnknownTag.at(span),
                    message,
                    "leave the tag out; a text that begins with `!` is put in quotes",
                );
                None
            }
        }
    }

    fn open(&mut self, span: Span, anchor: usize, inside: Inside) -> Option<()> {
        self.spend(1, 0, span)?;
        self.open.push(Open { start: span.start, anchor, inside });
        Some(())
    }

    fn spend(&self, nodes: usize, text_bytes: usize, span: Span) -> Option<()> {
        let spent = self.budget.spend(nodes, text_bytes);
        let checked = spent.map_err(|limit| {
            let message = format!("with its aliases put in, the file holds more than {limit}");
            self.report.error(
                Code::TooLarge.at(span),
                message,
                "divide it among several files, or use fewer aliases",
            );
        });
        checked.ok()
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, node: Node, anchor: usize) -> Option<()> {
        if anchor > 0 {
            let cost = Cost::of(&node);
            // What is kept for aliases takes room as well.
            self.spend(cost.nodes, cost.text_bytes, node.span)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), cost });
        }
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.roots.push(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map(map)) => map.take(self.report, node),
        }
        Some(())
    }
}
