//! A page as a tree, read within limits.
//!
//! The parser walks all open elements at most tags: a page that nests deep would keep it busy for hours. So it is fed
//! in pieces, and what each has added to the tree is looked at before the next.

use html5ever::{
    driver::{self, ParseOpts},
    tendril::{StrTendril, TendrilSink},
    tree_builder::TreeSink,
};
use scraper::{Html, HtmlTreeSink};

use super::{super::RECORD_LIMIT, attributes};

/// How deep elements may nest; as deep as browsers let them.
const DEPTH_LIMIT: usize = 512;

/// How many elements, texts and comments a page may have.
pub(super) const NODE_LIMIT: usize = 10 * RECORD_LIMIT;

/// How much is read between two looks at the tree.
const PIECE_BYTES: usize = 4096;

/// An element, text or comment of a page.
pub(super) type NodeId = <HtmlTreeSink as TreeSink>::Handle;

/// Reads a page. Every text is one.
///
/// # Errors
///
/// A sentence, when it is beyond the limits.
pub(super) fn parse(text: &str) -> Result<Html, String> {
    attributes::check(text)?;
    let sink = HtmlTreeSink::new(Html::new_document());
    let mut parser = driver::parse_document(sink, ParseOpts::default());
    // Pages that are put together in the browser fetch rows alone, which no page has outside of a table.
    parser.process(StrTendril::from(table_around(text)));
    let (mut done, mut nodes_before) = (0, 0);
    while done < text.len() {
        let rest = done + PIECE_BYTES..text.len();
        let end = rest.into_iter().find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
        parser.process(StrTendril::from(&text[done..end]));
        let page = parser.tokenizer.sink.sink.0.borrow();
        check(&page, nodes_before).map_err(|error| {
            let line = text[..end].matches('\n').count() + 1;
            format!("line {line}: {error}")
        })?;
        (done, nodes_before) = (end, page.tree.nodes().len());
    }
    Ok(parser.finish())
}

/// The tags that rows or cells want round them which a reply begins with; nothing where it begins with others.
fn table_around(text: &str) -> &'static str {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while let Some((_, after)) = rest.strip_prefix("<!--").and_then(|comment| comment.split_once("-->")) {
        rest = after.trim_start();
    }
    let name = rest.strip_prefix('<').unwrap_or_default();
    let end = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
    match name[..end].to_ascii_lowercase().as_str() {
        "tr" | "thead" | "tbody" | "tfoot" | "caption" | "colgroup" | "col" => "<table>",
        "td" | "th" => "<table><tr>",
        _ => "",
    }
}

/// Looks at what came to the tree since it had `nodes_before` nodes.
fn check(page: &Html, nodes_before: usize) -> Result<(), String> {
    let nodes = page.tree.nodes();
    if nodes.len() > NODE_LIMIT {
        return Err(format!("expected at most {NODE_LIMIT} elements, texts and comments, found more"));
    }
    // All of them, as the last may lie less deep than those before it.
    let mut added = nodes.rev().take(page.tree.nodes().len() - nodes_before);
    if added.any(|node| node.ancestors().nth(DEPTH_LIMIT).is_some()) {
        return Err(format!("expected elements nested at most {DEPTH_LIMIT} deep, found more"));
    }
    // `<body a>` again and again adds to the attributes of the one body.
    let root = page.tree.root();
    let bodies = root.children().flat_map(|root| root.children().chain([root]));
    let most = bodies.filter_map(|node| Some(node.value().as_element()?.attrs.len())).max().unwrap_or(0);
    if most > attributes::LIMIT {
        return Err(attributes::too_many());
    }
    Ok(())
}
