//! Size of values that aliases and named rules repeat, and limits for it: a short file can expand to a large
//! configuration.

use std::cell::Cell;

use super::{Kind, Node};
use crate::settings::units;

/// Size of a value: number of nodes, bytes of text, and depth.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) nodes: usize,
    pub(crate) text_bytes: usize,
    pub(crate) depth: usize,
}

impl Cost {
    pub(crate) fn from_node(node: &Node) -> Self {
        let own = Self { nodes: 1, text_bytes: node.as_text().map_or(0, str::len), depth: 1 };
        match &node.kind {
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => own,
            Kind::List(items) => items.iter().fold(own, |sum, item| sum.with(Self::from_node(item))),
            Kind::Map(entries) => entries.iter().fold(own, |sum, entry| {
                let key = Self { nodes: 1, text_bytes: entry.key.text.len(), depth: 0 };
                sum.with(key).with(Self::from_node(&entry.value))
            }),
        }
    }

    fn with(self, part: Self) -> Self {
        Self {
            nodes: self.nodes + part.nodes,
            text_bytes: self.text_bytes + part.text_bytes,
            depth: self.depth.max(part.depth + 1),
        }
    }
}

/// Counter of values and bytes of text, with a limit for each.
pub(crate) struct Budget {
    node_limit: usize,
    text_limit_bytes: usize,
    nodes: Cell<usize>,
    text_bytes: Cell<usize>,
}

impl Budget {
    pub(crate) fn new(node_limit: usize, text_limit_bytes: usize) -> Self {
        Self { node_limit, text_limit_bytes, nodes: Cell::default(), text_bytes: Cell::default() }
    }

    /// Counts values and bytes of text.
    ///
    /// # Errors
    ///
    /// The exceeded limit, in words.
    pub(crate) fn spend(&self, nodes: usize, text_bytes: usize) -> Result<(), String> {
        self.nodes.set(self.nodes.get().saturating_add(nodes));
        self.text_bytes.set(self.text_bytes.get().saturating_add(text_bytes));
        self.exceeded().map_or(Ok(()), Err)
    }

    /// The exceeded limit, in words.
    pub(crate) fn exceeded(&self) -> Option<String> {
        if self.nodes.get() > self.node_limit {
            return Some(format!("{} values", self.node_limit));
        }
        (self.text_bytes.get() > self.text_limit_bytes)
            .then(|| units::format_size(self.text_limit_bytes as u64))
    }
}
