//! One file as written: YAML text to a tree in which every key and value knows its place.
//!
//! The parser's events are read directly rather than through `serde`, which would lose the text of numbers and
//! the places of keys.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};

use super::{
    cost::{Budget, Cost},
    node::{Entry, Key, Kind, Node, Style, Text, resolve_plain},
    report::Report,
    source::Span,
    syntax::{self, TOO_DEEP},
};

/// How many values a file may have once its aliases are put in.
const NODE_LIMIT: usize = 200_000;
/// How many bytes of text these may have together.
const TEXT_LIMIT_BYTES: usize = 16 << 20;
/// How deep blocks, and brackets, may nest.
const DEPTH_LIMIT: usize = 64;
/// The longest key, in characters, that may stand before its `:` in a line.
const KEY_LIMIT: usize = 1024;

/// Reads one file. `None` when it is no YAML, or empty; that has been reported then.
pub(super) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    let files = report.files();
    let beginning = files.beginning(file);
    let text = files.text(beginning);
    let mut tree = Tree::new(report, file);
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
    let mut root = tree.root;
    match &mut root {
        None | Some(Node { kind: Kind::Nothing, .. }) => {
            report.error(
                beginning,
                "the file is empty",
                "three lines are enough: an upstream, a route and its request; see `glossator schema`",
            );
            None
        }
        Some(root) => {
            let mut secrets = Vec::new();
            root.mark_secrets(&mut secrets);
            files.mask(file, secrets);
            Some(root.clone())
        }
    }
}

/// The tree while it grows.
struct Tree<'r, 'f> {
    report: &'r Report<'f>,
    file: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    root: Option<Node>,
    documents: usize,
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

/// A map that has not ended yet.
#[derive(Default)]
struct OpenMap {
    entries: Vec<Entry>,
    /// Where each key stands in `entries`.
    seen: HashMap<String, usize>,
    /// What `<<` names, to be put in at the end.
    merge: Option<Entry>,
    /// The key whose value has not come yet.
    key: Option<OpenKey>,
}

/// A key that waits for its value.
enum OpenKey {
    Name(Key),
    /// A plain `<<`.
    Merge(Key),
}

/// A value that aliases may name, and what it costs to repeat it.
struct Anchored {
    node: Node,
    cost: Cost,
}

impl<'r, 'f> Tree<'r, 'f> {
    fn new(report: &'r Report<'f>, file: usize) -> Self {
        Self {
            report,
            file,
            open: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            documents: 0,
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
                if self.documents > 1 {
                    self.report.error(
                        span,
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
                    && map.key.is_none()
                    && text == "<<"
                    && style == ScalarStyle::Plain
                    && tag.is_none()
                    && anchor == 0
                {
                    map.key = Some(OpenKey::Merge(Key { text: text.into_owned(), span }));
                } else {
                    self.put(Node { span, kind, secret: false }, anchor)?;
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
                        Inside::Map(map) => Kind::Map(self.merged(*map)),
                    };
                    let span = Span { file: self.file, start, end: span.end.max(start) };
                    self.put(Node { span, kind, secret: false }, anchor)?;
                }
            }
            Event::Alias(id) => {
                let cost = self.anchors.get(&id)?.cost;
                // Aliases nest what the parser's own limit does not see.
                if self.open.len() + cost.depth > 2 * DEPTH_LIMIT {
                    self.report.error(span, TOO_DEEP.0, TOO_DEEP.1);
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
                    span,
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
        let told = spent.map_err(|limit| {
            let message = format!("with its aliases put in, the file holds more than {limit}");
            self.report.error(span, message, "divide it among several files, or use fewer aliases");
        });
        told.ok()
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
            None => {
                if self.root.is_none() {
                    self.root = Some(node);
                }
            }
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map(map)) => match map.key.take() {
                None => map.key = Some(OpenKey::Name(key(self.report, &node))),
                Some(OpenKey::Name(key)) => {
                    add_entry(self.report, map, Entry { value: at_key(node, &key), key })
                }
                Some(OpenKey::Merge(key)) => {
                    let entry = Entry { value: at_key(node, &key), key };
                    match &map.merge {
                        None => map.merge = Some(entry),
                        Some(first) => refuse_second(self.report, first, &entry),
                    }
                }
            },
        }
        Some(())
    }

    /// The entries with what `<<` names; keys that are written out win.
    fn merged(&self, map: OpenMap) -> Vec<Entry> {
        let OpenMap { entries: mut out, merge, .. } = map;
        let Some(Entry { key, value }) = merge else { return out };
        let maps = match value.kind {
            Kind::Map(entries) => vec![entries],
            Kind::List(items) if items.iter().all(|item| item.as_map().is_some()) => {
                items.iter().filter_map(Node::as_map).map(<[Entry]>::to_vec).collect()
            }
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => {
                let message = format!("`<<` takes a map, or a list of maps; found {}", value.found());
                self.report.error(key.span, message, "name an anchor that stands on a map: `<<: *common`");
                return out;
            }
        };
        for entry in maps.into_iter().flatten() {
            if !out.iter().any(|known| known.key.text == entry.key.text) {
                out.push(entry);
            }
        }
        out
    }
}

/// The value of a key; nothing stands where its key does.
fn at_key(value: Node, key: &Key) -> Node {
    let span = if matches!(value.kind, Kind::Nothing) { key.span } else { value.span };
    Node { span, ..value }
}

fn key(report: &Report<'_>, node: &Node) -> Key {
    let text = match &node.kind {
        Kind::Nothing => Some(report.files().text(node.span)[node.span.start..node.span.end].to_owned()),
        Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => node.scalar(),
    };
    // The text as written: `1.0` and `True` are names here.
    let text = match &node.kind {
        Kind::Flag(_) | Kind::Number(_) => {
            let written =
                report.files().text(node.span).get(node.span.start..node.span.end).unwrap_or_default();
            Some(written.trim().to_owned())
        }
        Kind::Nothing | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => text,
    };
    if text.is_none() {
        report.error(
            node.span,
            format!("a key is a text; found {}", node.found()),
            "put a text that begins with `{` or `[` in quotes",
        );
    }
    Key { text: text.unwrap_or_default(), span: node.span }
}

fn add_entry(report: &Report<'_>, map: &mut OpenMap, entry: Entry) {
    if let Some(&first) = map.seen.get(&entry.key.text) {
        refuse_second(report, &map.entries[first], &entry);
        return;
    }
    map.seen.insert(entry.key.text.clone(), map.entries.len());
    map.entries.push(entry);
}

fn refuse_second(report: &Report<'_>, first: &Entry, second: &Entry) {
    let line = report.files().place(first.key.span).line;
    let message = format!("the key `{}` is here twice, first in line {line}", second.key.text);
    report.error(second.key.span, message, "keep one of them");
}

#[cfg(test)]
mod tests {
    use super::{super::report::reading, *};

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let (root, problems) = reading(text, |report| read(report, 0));
        match (root, expected) {
            (Some(root), Ok(expected)) if problems.is_empty() => {
                assert_eq!(root.to_json().to_string(), expected)
            }
            (_, Err(expected)) => {
                let found: Vec<_> = problems
                    .iter()
                    .map(|p| format!("{}:{} {}", p.line.unwrap(), p.column.unwrap(), p.message))
                    .collect();
                assert_eq!(found.join("; "), expected);
            }
            (found, _) => panic!("found {found:?}, {problems:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        check(
            "a: 1.0\nb: [yes, true, ~, \"5\"]\nc: |\n  x\n  y\nd: 12345678901234567890.0\n",
            Ok(r#"{"a":1.0,"b":["yes",true,null,"5"],"c":"x\ny\n","d":12345678901234567890.0}"#),
        );
        check("200: a\ntrue: b\n", Ok(r#"{"200":"a","true":"b"}"#));
        check("a: !!str 5\n", Ok(r#"{"a":"5"}"#));
    }

    #[test]
    fn anchors_and_merges_are_put_in() {
        check(
            "a: &x { b: 1, c: 2 }\nd: { <<: *x, c: 3 }\ne: *x\n",
            Ok(r#"{"a":{"b":1,"c":2},"d":{"c":3,"b":1},"e":{"b":1,"c":2}}"#),
        );
        check(
            "a: &x { b: 1 }\nc: &y { b: 2, d: 3 }\ne: { <<: [*x, *y] }\n",
            Ok(r#"{"a":{"b":1},"c":{"b":2,"d":3},"e":{"b":1,"d":3}}"#),
        );
        check("a: { <<: 5 }\n", Err("1:6 `<<` takes a map, or a list of maps; found the number `5`"));
        check("<<: {}\n<<: {}\n", Err("2:1 the key `<<` is here twice, first in line 1"));
    }

    #[test]
    fn only_a_plain_merge_key_merges() {
        check(r#"{ "<<": { "a": 1 }, '<<<': 2 }"#, Ok(r#"{"<<":{"a":1},"<<<":2}"#));
        check("'<<': 5\n", Ok(r#"{"<<":5}"#));
        check("!!str <<: 5\n", Ok(r#"{"<<":5}"#));
        check("a: <<\nb: [<<]\n", Ok(r#"{"a":"<<","b":["<<"]}"#));
        check("a: &x { b: 1 }\n\"<<\": 5\n<<: *x\n", Ok(r#"{"a":{"b":1},"<<":5,"b":1}"#));
        check("'<<': 1\n\"<<\": 2\n", Err("2:1 the key `<<` is here twice, first in line 1"));
    }

    #[test]
    fn a_syntax_error_has_a_place_and_friendly_words() {
        check("", Err("1:1 the file is empty"));
        check("# nothing\n", Err("1:1 the file is empty"));
        check("a: \"b\nc: d\n", Err("1:4 a quote is opened here and never closed"));
        check("a:\n\tb: 1\n", Err("2:1 a tab stands where the indentation is; YAML wants spaces"));
        check("a: [1, 2\nb: 3\n", Err("2:2 a `:` stands where no key can be"));
        check("a: b: c\n", Err("1:5 a `:` stands where no key can be"));
        check("a: *x\n", Err("1:4 no `&` anchor of this name stands before"));
        check("a: 1\n---\nb: 2\n", Err("2:1 a second document begins here; a file holds one"));
        check("a: 1\na: 2\n", Err("2:1 the key `a` is here twice, first in line 1"));
        check("a: !vault x\n", Err("1:11 the tag `!vault` means nothing here"));
        check("? [a]\n: b\n", Err("1:3 a key is a text; found a list"));
    }

    #[test]
    fn hostile_files_are_refused_in_time() {
        let refusal = |text: &str| {
            let (root, problems) = reading(text, |report| read(report, 0));
            assert!(root.is_none());
            problems[0].message.clone()
        };
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let previous = level - 1;
            let items = vec![format!("*a{previous}"); 9].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(refusal(&bomb).contains("more than 200000 values"));
        let mut deep = String::from("a0: &a0 x\n");
        for level in 1..40 {
            deep.push_str(&format!(
                "a{level}: &a{level} {}*a{}{}\n",
                "[".repeat(60),
                level - 1,
                "]".repeat(60)
            ));
        }
        assert!(refusal(&deep).contains("too deep"));
        assert!(refusal(&"[".repeat(100_000)).contains("too deep"));
    }
}
