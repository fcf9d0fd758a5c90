//! A CSS selector whose work is bounded on any page.

use scraper::{Html, Selector, error::SelectorErrorKind};

use super::page::{Looks, NodeId, Work};

/// A CSS selector.
#[derive(Debug, Clone)]
pub struct CssSelector {
    source: String,
    selector: Selector,
    looks: Looks,
}

/// Why a text is no selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CssError {
    /// What was expected and what was found.
    pub message: String,
    /// The character up to which it could be read, from 0; the place of the mistake, or shortly before it.
    pub at: usize,
}

impl CssSelector {
    /// Reads a selector.
    ///
    /// # Errors
    ///
    /// [`CssError`], for what is no selector, for `:scope`, and for what may take long on a hostile page: `~`, which
    /// looks at all elements side by side, and in parentheses (`:is()`, `:not()`, `:has()`) further ones, or more than
    /// one element.
    pub fn parse(source: &str) -> Result<Self, CssError> {
        let (bare, unclosed) = without_literals(source);
        if let Some(closing) = unclosed {
            let message = format!("expected `{closing}`, found the end");
            return Err(CssError { message, at: bare.len() });
        }
        let looks = looks(&bare)?;
        match Selector::parse(source) {
            Ok(selector) => Ok(Self { source: source.to_owned(), selector, looks }),
            Err(error) => Err(refusal(source, &error)),
        }
    }

    /// As it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// All elements of a page that it finds, in their order.
    pub(super) fn all(&self, page: &Html, work: &mut Work) -> Result<Vec<NodeId>, String> {
        work.search(self.looks)?;
        let root = page.root_element();
        let itself = self.selector.matches(&root).then_some(root);
        Ok(itself.into_iter().chain(root.select(&self.selector)).map(|element| element.id()).collect())
    }
}

/// The selector with an `x` for each character of what only looks like syntax: strings, attributes, escapes, and
/// formulas such as `:nth-child(2n + 1)`. And what is missing at the end of one that is not closed.
fn without_literals(source: &str) -> (String, Option<char>) {
    let mut bare = String::new();
    let mut closing = Vec::new();
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        let inside = closing.last().copied();
        match character {
            '\\' => bare.extend(characters.next().map(|_| 'x')),
            _ if inside == Some(character) => drop(closing.pop()),
            '"' | '\'' if !matches!(inside, Some('"' | '\'')) => closing.push(character),
            '[' if inside.is_none() => closing.push(']'),
            '(' if inside.is_none() && is_before_formula(&bare) => closing.push(')'),
            _ => {}
        }
        let is_bare = inside.is_none() && closing.is_empty() && character.is_ascii() && character != '\\';
        bare.push(if is_bare { character.to_ascii_lowercase() } else { 'x' });
    }
    (bare, closing.pop())
}

fn is_before_formula(bare: &str) -> bool {
    let name = bare.rsplit(':').next().unwrap_or_default();
    name.starts_with("nth-")
        && name.chars().all(|character| character.is_ascii_lowercase() || character == '-')
}

/// What else a selector without literals looks at; an error where that would be too much.
fn looks(bare: &str) -> Result<Looks, CssError> {
    let refuse = |at, message: &str| Err(CssError { message: message.to_owned(), at });
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
    let from_the_last = [":nth-last-", ":last-of-type", ":only-of-type"];
    Ok(Looks { below: bare.contains(":has("), beside: from_the_last.iter().any(|name| bare.contains(name)) })
}

/// What the library makes of a text that is no selector. It does not tell where it stopped, so that is behind the
/// longest beginning that is one.
fn refusal(source: &str, error: &SelectorErrorKind) -> CssError {
    const LONGEST: usize = 500;
    let ends = source.char_indices().map(|(offset, _)| offset).take(LONGEST).enumerate();
    let good = ends.filter(|(_, end)| *end > 0 && Selector::parse(source[..*end].trim_end()).is_ok());
    let (at, offset) = good.last().unwrap_or_default();
    let found = match &source[offset..] {
        "" => "nothing".to_owned(),
        _ if matches!(error, SelectorErrorKind::EndOfLine) => "the end".to_owned(),
        rest => format!("`{rest}`"),
    };
    CssError { message: format!("expected a CSS selector, found {found}"), at }
}
