//! How much may be done for one page.

use scraper::{ElementRef, Html};

/// What may still be done: elements looked at, and bytes taken. What stands in the page once may be asked for again
/// and again, so this is linear in the page.
pub(super) struct Work {
    left: usize,
    /// How many nodes the page has, how deep they nest, and how many are side by side.
    nodes: usize,
    deepest: usize,
    widest: usize,
}

/// What else is looked at to see whether an element is one that a selector means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Looks {
    /// The elements below it, for `:has()`: each one for all that it is below of.
    pub(super) below: bool,
    /// The elements beside it, for `:last-of-type`.
    pub(super) beside: bool,
}

/// An element looked at takes as long as so many bytes.
const BYTES_AN_ELEMENT: usize = 4;

impl Work {
    pub(super) fn for_page(page: &Html, text: &str) -> Self {
        let nodes = page.tree.nodes();
        Self {
            left: 50_000_000 + 16 * text.len(),
            nodes: nodes.len(),
            deepest: nodes.clone().map(|node| node.ancestors().count()).max().unwrap_or(0),
            widest: nodes.map(|node| node.children().count()).max().unwrap_or(0),
        }
    }

    /// Some bytes are taken.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes);
        self.left =
            left.ok_or("expected a page that takes less work, found one that nests or repeats too much")?;
        Ok(())
    }

    /// An element and all below it are looked at.
    pub(super) fn look_at(&mut self, element: ElementRef<'_>) -> Result<(), String> {
        self.take(BYTES_AN_ELEMENT * element.descendants().count())
    }

    /// All elements of the page are looked at.
    pub(super) fn search(&mut self, looks: Looks) -> Result<(), String> {
        let below = if looks.below { self.deepest } else { 0 };
        let beside = if looks.beside { self.widest } else { 0 };
        self.take(BYTES_AN_ELEMENT * self.nodes * (1 + below + beside))
    }
}
