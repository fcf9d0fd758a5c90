//! Bounded HTML parser: page tree, work limit, and CSS selectors of bounded cost.
//!
//! For most tags, html5ever walks all open elements, so a deeply nested page would take hours. The text is
//! therefore parsed in pieces, and the new nodes are checked after each piece.

use html5ever::{
    driver::{self, ParseOpts},
    tendril::{StrTendril, TendrilSink},
};
use scraper::{Element, ElementRef, Html, HtmlTreeSink, Selector, error::SelectorErrorKind};

use crate::translate::extract::{RECORD_LIMIT, SyntaxError};
use crate::translate::read_error::{ReadError, at_most};

/// Maximum depth of nested elements, as in browsers.
const DEPTH_LIMIT: usize = 512;

/// Maximum number of elements, texts and comments of a page.
const NODE_LIMIT: usize = 10 * RECORD_LIMIT;

/// Number of bytes that are parsed between two checks of the tree.
const PIECE_BYTES: usize = 4096;

/// Parses a page. Every string is valid HTML.
///
/// # Errors
///
/// A message, if the page exceeds a limit.
pub(super) fn parse(text: &str) -> Result<Html, ReadError> {
    // The parser compares each attribute of a tag with the others, so a very large number would take hours.
    check_attributes(text)?;
    let sink = HtmlTreeSink::new(Html::new_document());
    let mut parser = driver::parse_document(sink, ParseOpts::default());
    // Scripts of a page may fetch table rows alone, which HTML does not allow outside of a table.
    parser.process(StrTendril::from(table_around(text)));
    let (mut start, mut nodes_before) = (0, 0);
    while start < text.len() {
        let rest = start + PIECE_BYTES..text.len();
        let end = rest.into_iter().find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
        parser.process(StrTendril::from(&text[start..end]));
        let page = parser.tokenizer.sink.sink.0.borrow();
        check_tree(&page, nodes_before).map_err(|error| error.in_part(&line_of(text, end)))?;
        (start, nodes_before) = (end, page.tree.nodes().len());
    }
    Ok(parser.finish())
}

/// Tags to insert before a response that begins with table rows or cells; empty for other responses.
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

/// Checks the nodes that were added after the tree had `nodes_before` nodes.
fn check_tree(page: &Html, nodes_before: usize) -> Result<(), ReadError> {
    let nodes = page.tree.nodes();
    at_most(NODE_LIMIT, nodes.len(), "elements, texts and comments")?;
    // Check all new nodes, because the last one may not be the deepest.
    let mut added = nodes.rev().take(page.tree.nodes().len() - nodes_before);
    if added.any(|node| node.ancestors().nth(DEPTH_LIMIT).is_some()) {
        return Err(read_error!("expected elements nested at most {DEPTH_LIMIT} deep, found more"));
    }
    // Each further `<body a>` adds attributes to the first body.
    let root = page.tree.root();
    let bodies = root.children().flat_map(|root| root.children().chain([root]));
    let max_attributes =
        bodies.filter_map(|node| Some(node.value().as_element()?.attrs.len())).max().unwrap_or(0);
    at_most(ATTRIBUTE_LIMIT, max_attributes, "attributes in a tag")
}

/// Maximum number of attributes of a tag.
const ATTRIBUTE_LIMIT: usize = 1000;

fn line_of(text: &str, offset: usize) -> String {
    format!("line {}", text[..offset].matches('\n').count() + 1)
}

/// Checks the number of attributes of each tag. Also counts attributes in text that only looks like a tag,
/// inside scripts and comments.
///
/// Only the parser knows which `<a` begins a tag, so every candidate is treated as a tag. Candidates in
/// the same tokenizer state are merged, with the largest number of attributes, so the scan is linear.
fn check_attributes(text: &str) -> Result<(), ReadError> {
    let mut candidates = Candidates::default();
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().copied().enumerate() {
        let mut next = Candidates::default();
        if byte == b'<'
            && bytes.get(index + 1).is_some_and(|after| after.is_ascii_alphabetic() || *after == b'/')
        {
            next[State::TagName as usize] = Some((0, State::TagName));
        } else if candidates == next {
            continue;
        }
        for (count, state) in candidates.into_iter().flatten() {
            let Some(next_state) = state.after(byte) else { continue };
            let count = count + usize::from(next_state == State::Name && state != State::Name);
            at_most(ATTRIBUTE_LIMIT, count, "attributes in a tag")
                .map_err(|error| error.in_part(&line_of(text, index)))?;
            let slot = &mut next[next_state as usize];
            *slot = (*slot).max(Some((count, next_state)));
        }
        candidates = next;
    }
    Ok(())
}

/// For each tokenizer state, the number of attributes of a tag that may have begun.
type Candidates = [Option<(usize, State)>; 8];

/// State of the tokenizer in a tag (HTML, section 13.2.5, from "tag name state" on).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    DoubleQuoted,
    SingleQuoted,
    Unquoted,
}

impl State {
    /// Next state after a byte; `None` at the end of the tag.
    fn after(self, byte: u8) -> Option<Self> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c');
        Some(match (self, byte) {
            (Self::DoubleQuoted, b'"') | (Self::SingleQuoted, b'\'') => Self::BeforeName,
            (Self::DoubleQuoted | Self::SingleQuoted, _) => self,
            (_, b'>') => return None,
            (Self::TagName | Self::Unquoted, _) if is_space => Self::BeforeName,
            (Self::TagName | Self::Name | Self::AfterName | Self::BeforeName, b'/') => Self::BeforeName,
            (Self::TagName | Self::Unquoted, _) => self,
            (Self::BeforeName | Self::AfterName | Self::BeforeValue, _) if is_space => self,
            (Self::Name, _) if is_space => Self::AfterName,
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::BeforeValue, b'"') => Self::DoubleQuoted,
            (Self::BeforeValue, b'\'') => Self::SingleQuoted,
            (Self::BeforeValue, _) => Self::Unquoted,
            (Self::BeforeName | Self::Name | Self::AfterName, _) => Self::Name,
        })
    }
}

/// Remaining work on a page: visited elements and copied bytes. Selectors may read the same part repeatedly;
/// the budget keeps the total work linear in the size of the page.
pub(super) struct PageBudget {
    /// Bytes that may still be copied. An element that a selector visits costs [`BYTES_PER_ELEMENT`].
    remaining_bytes: usize,
    /// Maximum depth and maximum number of siblings in the page.
    max_depth: usize,
    max_siblings: usize,
}

/// Cost of an element that a selector visits, in bytes of the [`PageBudget`].
const BYTES_PER_ELEMENT: usize = 4;

impl PageBudget {
    pub(super) fn for_page(page: &Html, text: &str) -> Self {
        let nodes = page.tree.nodes();
        Self {
            remaining_bytes: 50_000_000 + 16 * text.len(),
            max_depth: nodes.clone().map(|node| node.ancestors().count()).max().unwrap_or(0),
            max_siblings: nodes.map(|node| node.children().count()).max().unwrap_or(0),
        }
    }

    /// Charges copied bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), ReadError> {
        let remaining = self.remaining_bytes.checked_sub(bytes);
        self.remaining_bytes = remaining.ok_or(
            "expected a page within the work limit, found one too large or too nested for the selectors",
        )?;
        Ok(())
    }

    /// Charges the search for a selector in an element.
    fn charge_search(&mut self, css: &CssSelector, scope: ElementRef<'_>) -> Result<(), ReadError> {
        let depth = if css.visits_descendants { self.max_depth } else { 0 };
        let siblings = if css.visits_siblings { self.max_siblings } else { 0 };
        self.take(BYTES_PER_ELEMENT * scope.descendants().count() * (1 + depth + siblings))
    }
}

/// CSS selector of bounded cost.
#[derive(Debug, Clone)]
pub struct CssSelector {
    /// The selector as configured.
    pub(super) source: String,
    selector: Selector,
    /// Whether the selector visits the descendants of an element (`:has()`). Each element is then visited
    /// once per ancestor.
    visits_descendants: bool,
    /// Whether the selector visits the siblings of an element (`:last-of-type`).
    visits_siblings: bool,
}

impl CssSelector {
    /// Parses a selector.
    ///
    /// # Errors
    ///
    /// [`SyntaxError`] for an invalid selector, for `:scope`, and for selectors that may be slow on a hostile
    /// page: `~`, which examines all siblings, and `:is()`, `:not()` or `:has()` with nested parentheses or
    /// more than one element inside.
    pub fn parse(source: &str) -> Result<Self, SyntaxError> {
        let (bare, unclosed) = without_literals(source);
        if let Some(closing) = unclosed {
            let message = format!("expected `{closing}`, found the end");
            return Err(SyntaxError { message, at: bare.len() });
        }
        check_cost(&bare)?;
        Ok(Self {
            source: source.to_owned(),
            selector: Selector::parse(source).map_err(|error| selector_error(source, &error))?,
            visits_descendants: bare.contains(":has("),
            visits_siblings: [":nth-last-", ":last-of-type", ":only-of-type"]
                .iter()
                .any(|name| bare.contains(name)),
        })
    }

    /// Returns all matching elements inside an element, in document order. The root of a page counts as
    /// inside itself.
    pub(super) fn all<'p>(
        &self,
        scope: ElementRef<'p>,
        budget: &mut PageBudget,
    ) -> Result<Vec<ElementRef<'p>>, ReadError> {
        budget.charge_search(self, scope)?;
        let is_root = scope.parent_element().is_none();
        let itself = Some(scope).filter(|root| is_root && self.selector.matches(root));
        Ok(itself.into_iter().chain(scope.select(&self.selector)).collect())
    }
}

/// Replaces each character that only resembles syntax by `x`: strings, attributes, escapes, and formulas
/// (An+B) such as `:nth-child(2n + 1)`. Also returns the closing bracket or quote that is missing, if any.
fn without_literals(source: &str) -> (String, Option<char>) {
    let mut bare = String::new();
    let mut closing = Vec::new();
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        let innermost = closing.last().copied();
        match character {
            '\\' => bare.extend(characters.next().map(|_| 'x')),
            _ if innermost == Some(character) => drop(closing.pop()),
            '"' | '\'' if !matches!(innermost, Some('"' | '\'')) => closing.push(character),
            '[' if innermost.is_none() => closing.push(']'),
            '(' if innermost.is_none() && is_before_formula(&bare) => closing.push(')'),
            _ => {}
        }
        let is_bare = innermost.is_none() && closing.is_empty() && character.is_ascii() && character != '\\';
        bare.push(if is_bare { character.to_ascii_lowercase() } else { 'x' });
    }
    (bare, closing.pop())
}

fn is_before_formula(bare: &str) -> bool {
    let name = bare.rsplit(':').next().unwrap_or_default();
    name.starts_with("nth-")
        && name.chars().all(|character| character.is_ascii_lowercase() || character == '-')
}

/// Checks that a selector does not visit too many elements. `bare` is the selector without literals.
fn check_cost(bare: &str) -> Result<(), SyntaxError> {
    let refuse = |at, message: &str| Err(SyntaxError { message: message.to_owned(), at });
    if let Some(at) = bare.find('~') {
        return refuse(at, "expected `+`, `>` or a space between elements, found `~`");
    }
    if let Some(at) = bare.find(":scope") {
        return refuse(at, "expected a selector for the whole page, found `:scope`");
    }
    for (open, _) in bare.match_indices('(') {
        let inside = &bare[open + 1..];
        let Some(end) = inside.find(['(', ')']) else {
            return refuse(bare.len(), "expected `)`, found the end");
        };
        if inside[end..].starts_with('(') {
            return refuse(open + 1 + end, "expected no parentheses inside of others, found `(`");
        }
        for element in inside[..end].split(',') {
            let element = element.trim().trim_start_matches(['>', '+']).trim_start();
            if element.contains([' ', '\t', '\n', '>', '+']) {
                return refuse(open + 1, "expected one element in parentheses, found several");
            }
        }
    }
    Ok(())
}

/// Error for an invalid selector. The library does not report a position, so the error is placed after the
/// longest valid beginning.
fn selector_error(source: &str, error: &SelectorErrorKind) -> SyntaxError {
    const MAX_LENGTH: usize = 500;
    let ends = source.char_indices().map(|(offset, _)| offset).take(MAX_LENGTH).enumerate();
    let valid_ends = ends.filter(|(_, end)| *end > 0 && Selector::parse(source[..*end].trim_end()).is_ok());
    let (at, offset) = valid_ends.last().unwrap_or_default();
    let found = match &source[offset..] {
        "" => "nothing".to_owned(),
        _ if matches!(error, SelectorErrorKind::EndOfLine) => "the end".to_owned(),
        rest => format!("`{rest}`"),
    };
    SyntaxError { message: format!("expected a CSS selector, found {found}"), at }
}
