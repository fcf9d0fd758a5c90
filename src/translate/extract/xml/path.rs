//! Path to elements of an XML document: `Envelope/Body/Forecast`, `report//item[@type='x']/@id`.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use crate::translate::extract::SyntaxError;
use crate::translate::read_error::ReadError;

/// Path from the root of a document: element names separated by `/`, the root's own name first.
///
/// `*` matches any element, and `//` before a name matches at any depth. `prefix:name` requires a namespace;
/// a name without a prefix matches in any. Conditions follow a name: `[2]` (position within its parent),
/// `[@type]`, `[@type='x']`, `[name='x']`. The last step may be an attribute, `@name`.
#[derive(Debug, Clone)]
pub struct ElementPath {
    /// The path as configured.
    pub(super) source: String,
    steps: Vec<Step>,
    /// Attribute to read of each element.
    pub(super) attribute: Option<Name>,
}

/// Namespaces of a path, by prefix.
pub type Prefixes = BTreeMap<String, String>;

#[derive(Debug, Clone)]
struct Step {
    /// The step as configured, for messages.
    source: String,
    anywhere: bool,
    /// `None` for `*`.
    name: Option<Name>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone)]
pub(super) struct Name {
    namespace: Option<String>,
    local: String,
}

#[derive(Debug, Clone)]
enum Condition {
    /// From 1, among the siblings that meet the conditions before it.
    Position(usize),
    Attribute(Name, Option<String>),
    Child(Name, String),
}

/// Minimum number of matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MinMatches {
    /// None is valid, if all steps but the last one match.
    Nothing,
    /// At least one.
    One,
}

/// Limit of the steps of a path.
const STEP_LIMIT: usize = 32;

impl ElementPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// [`SyntaxError`], with the position.
    pub fn parse(source: &str, prefixes: &Prefixes) -> Result<Self, SyntaxError> {
        let mut reader = Reader { source, rest: source, prefixes };
        let (mut steps, mut attribute) = (Vec::new(), None);
        loop {
            let start = reader.rest.trim_start_matches('/');
            let slashes = reader.rest.len() - start.len();
            if slashes > 2 || slashes == 0 && !steps.is_empty() {
                return Err(reader.error("`/` or `//` and a name"));
            }
            reader.rest = start;
            if reader.take("@") && !steps.is_empty() {
                attribute = Some(reader.name()?);
                if !reader.rest.is_empty() {
                    return Err(reader.error("nothing behind the attribute"));
                }
                break;
            }
            let name = if reader.take("*") { None } else { Some(reader.name()?) };
            let mut conditions = Vec::new();
            while reader.take("[") {
                conditions.push(reader.condition()?);
            }
            let source = start[..start.len() - reader.rest.len()].to_owned();
            steps.push(Step { source, anywhere: slashes == 2, name, conditions });
            if steps.len() > STEP_LIMIT {
                return Err(reader.error(&format!("at most {STEP_LIMIT} steps")));
            }
            if reader.rest.is_empty() {
                break;
            }
        }
        Ok(Self { source: source.to_owned(), steps, attribute })
    }

    /// All matching elements, in document order; those with the attribute if the path names one.
    ///
    /// # Errors
    ///
    /// A sentence with the step that has no match, and the elements found instead.
    pub(super) fn find<'a, 'input>(
        &self,
        document: &'a Document<'input>,
        least: MinMatches,
    ) -> Result<Vec<Node<'a, 'input>>, ReadError> {
        let mut contexts = vec![document.root()];
        for (index, step) in self.steps.iter().enumerate() {
            let found = step.find(&contexts);
            let may_be_empty = least == MinMatches::Nothing && index > 0 && index + 1 == self.steps.len();
            if found.is_empty() && (!may_be_empty || self.attribute.is_some()) {
                return Err(step.missing(&contexts, document));
            }
            contexts = found;
        }
        if let Some(name) = &self.attribute {
            contexts.retain(|element| name.attribute(element).is_some());
        }
        Ok(contexts)
    }
}

impl Step {
    fn find<'a, 'input>(&self, contexts: &[Node<'a, 'input>]) -> Vec<Node<'a, 'input>> {
        let mut found = Vec::new();
        // Node IDs follow document order, so a context inside a visited subtree needs no second walk.
        let mut walked = 0;
        for context in contexts {
            if !self.anywhere {
                self.select_children(context.children(), &mut found);
            } else if context.id().get() >= walked {
                for parent in context.descendants() {
                    walked = parent.id().get() + 1;
                    if parent.has_children() {
                        self.select_children(parent.children(), &mut found);
                    }
                }
            }
        }
        if self.anywhere {
            found.sort_unstable_by_key(|element| element.id().get());
        }
        found
    }

    fn select_children<'a, 'input>(
        &self,
        children: impl Iterator<Item = Node<'a, 'input>>,
        found: &mut Vec<Node<'a, 'input>>,
    ) {
        let mut counts = [0_usize; CONDITION_LIMIT];
        let named = children
            .filter(|child| child.is_element() && self.name.as_ref().is_none_or(|name| name.matches(child)));
        found.extend(named.filter(|element| {
            self.conditions.iter().zip(&mut counts).all(|(condition, count)| match condition {
                Condition::Position(position) => {
                    *count += 1;
                    count == position
                }
                Condition::Attribute(name, value) => {
                    let found = name.attribute(element);
                    found.is_some() && value.as_deref().is_none_or(|value| found == Some(value))
                }
                Condition::Child(name, value) => element.children().any(|child| {
                    child.is_element()
                        && name.matches(&child)
                        && child.text().unwrap_or_default().trim() == value
                }),
            })
        }));
    }

    /// Error for a step without a match: the expected and the found elements.
    fn missing(&self, contexts: &[Node<'_, '_>], document: &Document<'_>) -> ReadError {
        const MAX_NAMED: usize = 8;
        let mut names: Vec<String> = Vec::new();
        let children = contexts.iter().flat_map(Node::children).filter(Node::is_element);
        for child in children.take(1000) {
            let name = format!("`{}`", super::shown(child.tag_name().name()));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.len() > MAX_NAMED {
            names.truncate(MAX_NAMED);
            names.push("…".to_owned());
        }
        let (found, kind) = match names.len() {
            0 => ("no element".to_owned(), "no element"),
            _ => (names.join(", "), "others"),
        };
        let wanted = &self.source;
        match contexts.first().filter(|context| context.is_element()) {
            None if self.anywhere => {
                read_error!("expected an element `{wanted}` anywhere, found none")
            }
            None => {
                let expected = format!("expected `{wanted}` as the root element");
                ReadError::new(format!("{expected}, found {found}"), format!("{expected}, found {kind}"))
            }
            Some(context) => {
                let line = document.text_pos_at(context.range().start).row;
                let expected = format!("line {line}: expected `{wanted}`");
                let within = if self.anywhere { "anywhere in" } else { "in" };
                let name = super::shown(context.tag_name().name());
                ReadError::new(
                    format!("{expected} {within} `{name}`, found {found}"),
                    format!("{expected} {within} the element there, found {kind}"),
                )
            }
        }
    }
}

impl Name {
    fn matches(&self, element: &Node<'_, '_>) -> bool {
        let name = element.tag_name();
        name.name() == self.local && self.namespace.as_deref().is_none_or(|uri| name.namespace() == Some(uri))
    }

    pub(super) fn attribute<'a>(&self, element: &Node<'a, '_>) -> Option<&'a str> {
        let is_named = |attribute: &roxmltree::Attribute<'_, '_>| {
            attribute.name() == self.local
                && self.namespace.as_deref().is_none_or(|uri| attribute.namespace() == Some(uri))
        };
        element.attributes().find(is_named).map(|attribute| attribute.value())
    }
}

/// Limit of the conditions of a path.
const CONDITION_LIMIT: usize = 8;

struct Reader<'a> {
    source: &'a str,
    rest: &'a str,
    prefixes: &'a Prefixes,
}

impl<'a> Reader<'a> {
    fn take(&mut self, mark: &str) -> bool {
        let after = self.rest.strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn word(&mut self) -> Option<&'a str> {
        let is_end = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let (word, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    fn name(&mut self) -> Result<Name, SyntaxError> {
        let start = self.position();
        let first = self.word().ok_or_else(|| self.error("the name of an element or attribute"))?;
        if !self.take(":") {
            return Ok(Name { namespace: None, local: first.to_owned() });
        }
        let Some(uri) = self.prefixes.get(first) else {
            let message = format!("`namespaces` has no prefix `{first}`");
            return Err(SyntaxError { message, at: start });
        };
        let local = self.word().ok_or_else(|| self.error("a name behind the prefix"))?;
        Ok(Name { namespace: Some(uri.clone()), local: local.to_owned() })
    }

    fn condition(&mut self) -> Result<Condition, SyntaxError> {
        let start = self.rest;
        let condition = if start.starts_with(|c: char| c.is_ascii_digit()) {
            let position = self.word().and_then(|word| word.parse().ok()).filter(|position| *position > 0);
            let wrong = || Reader { rest: start, ..*self }.error("a position from 1");
            Condition::Position(position.ok_or_else(wrong)?)
        } else if self.take("@") {
            let name = self.name()?;
            let value = if self.take("=") { Some(self.quoted()?) } else { None };
            Condition::Attribute(name, value)
        } else {
            let name = self.name()?;
            if !self.take("=") {
                return Err(self.error("`='value'`"));
            }
            Condition::Child(name, self.quoted()?)
        };
        if !self.take("]") {
            return Err(self.error("`]`"));
        }
        if self.source[..self.source.len() - self.rest.len()].matches('[').count() > CONDITION_LIMIT {
            return Err(self.error(&format!("at most {CONDITION_LIMIT} conditions")));
        }
        Ok(condition)
    }

    /// Position in characters.
    fn position(&self) -> usize {
        self.source.chars().count() - self.rest.chars().count()
    }

    fn quoted(&mut self) -> Result<String, SyntaxError> {
        for quote in ["'", "\""] {
            if self.take(quote) {
                let closed = self.rest.split_once(quote);
                let (value, rest) = closed.ok_or_else(|| self.error("a closing quote"))?;
                self.rest = rest;
                return Ok(value.to_owned());
            }
        }
        Err(self.error("a value in quotes"))
    }

    fn error(&self, expected: &str) -> SyntaxError {
        let found = match self.rest.chars().next() {
            Some(character) => format!("`{character}`"),
            None => "the end".to_owned(),
        };
        SyntaxError { message: format!("expected {expected}, found {found}"), at: self.position() }
    }
}
