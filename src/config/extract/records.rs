//! What the extractors share that read many records of one reply: `each`, how blocks are told apart, and whether
//! an empty list is right.

use crate::{
    config::{
        language,
        node::{Kind, Node},
        section::Section,
    },
    translate::extract::Blocks,
};

/// What the keys of records say.
pub(super) struct Records {
    /// The word of `each`.
    pub(super) each: Option<&'static str>,
    /// How blocks are told apart, with `each: block`.
    pub(super) blocks: Option<Box<Blocks>>,
    pub(super) allow_empty: bool,
}

/// Reads the keys of records. `None` when something is wrong; that has been reported then.
pub(super) fn read(section: &Section<'_, '_>) -> Option<Records> {
    let before = section.report.errors();
    let each = section.word("each");
    let separator = section.get("block_separator");
    let start = section.get("block_start");
    let delimiter = section.text_node("block_delimiter");
    if let Some((node, "")) = delimiter {
        let help = "write what stands between two blocks: `block_delimiter: \"\\x1e\"`";
        section.report.error(node.span, "`block_delimiter` is empty", help);
    }
    if delimiter.is_some() {
        section.refuse_beside(&["block_separator", "block_start"], "block_delimiter");
    }
    let allow_empty = section.flag("allow_empty").unwrap_or(false);
    let compiled =
        |node: Option<&Node>, what| node.and_then(|node| language::pattern(section.report, node, what));
    let separator = compiled(separator, "`block_separator`");
    let start = compiled(start, "`block_start`");
    if section.report.errors() > before {
        return None;
    }
    if each != Some("block") {
        for name in ["block_delimiter", "block_separator", "block_start"] {
            let Some(entry) = section.entry(name) else { continue };
            let message = format!("`{name}` has no effect without `each: block`");
            section.report.error(entry.key.span, message, "write `each: block` beside it, or leave it out");
        }
    }
    if matches!(each, None | Some("first" | "text"))
        && let Some(entry) = section.entry("allow_empty")
    {
        let message = "`allow_empty` is for lists, and `each` asks for one object";
        section.report.error(entry.key.span, message, "write `each: block` beside it, or leave it out");
    }
    let blocks = (each == Some("block")).then(|| {
        let delimiter = delimiter.map(|(_, text)| text.to_owned());
        Box::new(Blocks { delimiter, separator, start })
    });
    (section.report.errors() == before).then_some(Records { each, blocks, allow_empty })
}

/// The node itself, or the items of the list that it is.
pub(super) fn one_or_more(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items,
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
            std::slice::from_ref(node)
        }
    }
}
