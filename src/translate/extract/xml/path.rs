//! Path to elements of an XML document, a subset of XPath: `Envelope/Body/Forecast`,
//! `report//item[@type='x']/@id`.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::{Captures, Regex};
use roxmltree::{Document, Node};

use crate::settings::fixed_regex;
use crate::translate::extract::SyntaxError;
use crate::translate::fields::distinct;
use crate::translate::read_error::ReadError;

/// Path from the root of a document, like an abbreviated XPath: element names separated by `/`.
///
/// As in XPath, `*` matches any element, and `//` before a name matches at any depth. `prefix:name` requires
/// a namespace; unlike in XPath, a name without a prefix matches in any namespace. Conditions follow a name:
/// `[2]` (position within its parent), `[@type]`, `[@type='x']`, `[name='x']`. The last step may be an
/// attribute, `@name`.
#[derive(Debug, Clone)]
pub struct ElementPath {
    /// The path as configured.
    pub(super) source: String,
    steps: Vec<Step>,
    /// Attribute to read from each element.
    pub(super) attribute: Option<Name>,
}

/// Namespaces of a path, by prefix.
pub type Prefixes = BTreeMap<String, String>;

#[derive(Debug, Clone)]
struct Step {
    /// The step as configured, for messages.
    source: String,
    /// Whether the step follows `//`, and so matches at any depth.
    is_descendant: bool,
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
    /// Position from 1, among the siblings that meet the conditions before this one.
    Position(usize),
    Attribute(Name, Option<String>),
    Child(Name, String),
}

/// Minimum number of matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MinMatches {
    /// Zero matches are valid, if all steps but the last one match.
    Nothing,
    /// At least one match is required.
    One,
}

/// Maximum number of steps of a path.
const STEP_LIMIT: usize = 32;

/// Maximum number of conditions of a path.
const CONDITION_LIMIT: usize = 8;

/// Regular expression of a name with an optional prefix. White space, and ASCII characters other than
/// letters, digits, `-`, `.` and `_`, end a name. A Unicode class of letters would take long to compile.
const NAME: &str = r"(?:(?<prefix>[^\s!-,/:-@\[-^`{-~]+):)?(?<name>[^\s!-,/:-@\[-^`{-~]+)";

/// Regular expression of a step without its conditions.
static STEP: LazyLock<Regex> =
    LazyLock::new(|| fixed_regex(&format!(r"^(?<slashes>/{{0,2}})(?:\*|(?<at>@)?{NAME})")));

/// Regular expression of a condition of a step.
static CONDITION: LazyLock<Regex> = LazyLock::new(|| {
    let value = r#"'(?<single>[^']*)'|"(?<double>[^"]*)""#;
    fixed_regex(&format!(r"^\[(?:(?<position>[1-9][0-9]*)|(?<at>@)?{NAME}(?:=(?:{value}))?)\]"))
});

impl ElementPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// [`SyntaxError`], with the position.
    pub fn parse(source: &str, prefixes: &Prefixes) -> Result<Self, SyntaxError> {
        const STEP_FORMS: &str = "`/` or `//` and the name of an element or attribute";
        let mut reader = PathParser { source, at: 0, prefixes };
        if source.matches('[').count() > CONDITION_LIMIT {
            return Err(reader.error(0, &format!("at most {CONDITION_LIMIT} conditions")));
        }
        let (mut steps, mut attribute) = (Vec::new(), None);
        while attribute.is_none() && (steps.is_empty() || reader.at < source.len()) {
            let start = reader.at;
            let found = reader.take(&STEP, STEP_FORMS)?;
            let name = found.name("name").map(|_| reader.name(start, &found)).transpose()?;
            if found["slashes"].is_empty() && !steps.is_empty() {
                return Err(reader.error(start, STEP_FORMS));
            }
            if found.name("at").is_some() {
                attribute = name;
                continue;
            }
            let mut conditions = Vec::new();
            while source[reader.at..].starts_with('[') {
                conditions.push(reader.condition()?);
            }
            let source = source[start..reader.at].trim_start_matches('/').to_owned();
            steps.push(Step { source, is_descendant: &found["slashes"] == "//", name, conditions });
            if steps.len() > STEP_LIMIT {
                return Err(reader.error(start, &format!("at most {STEP_LIMIT} steps")));
            }
        }
        if steps.is_empty() || reader.at < source.len() {
            return Err(reader.error(reader.at, "an element before the attribute, and nothing after it"));
        }
        Ok(Self { source: source.to_owned(), steps, attribute })
    }

    /// Returns all matching elements, in document order. If the path names an attribute, only elements with
    /// that attribute match. `lines_before` is the number of lines before the document.
    ///
    /// # Errors
    ///
    /// A message with the step that has no match, and the elements found instead.
    pub(super) fn find<'a, 'input>(
        &self,
        document: &'a Document<'input>,
        min_matches: MinMatches,
        lines_before: usize,
    ) -> Result<Vec<Node<'a, 'input>>, ReadError> {
        let mut contexts = vec![document.root()];
        for (index, step) in self.steps.iter().enumerate() {
            let found = step.find(&contexts);
            let may_be_empty =
                min_matches == MinMatches::Nothing && index > 0 && index + 1 == self.steps.len();
            if found.is_empty() && (!may_be_empty || self.attribute.is_some()) {
                return Err(step.no_match_error(&contexts, document, lines_before));
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
        // Node IDs follow document order, so a context inside a visited subtree need not be visited again.
        let mut visited_end = 0;
        for context in contexts {
            if !self.is_descendant {
                self.select_children(context.children(), &mut found);
            } else if context.id().get() >= visited_end {
                for parent in context.descendants() {
                    visited_end = parent.id().get() + 1;
                    if parent.has_children() {
                        self.select_children(parent.children(), &mut found);
                    }
                }
            }
        }
        // After `//`, one context may be inside another, so matches are not always found in document order.
        found.sort_unstable_by_key(|element| element.id().get());
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
                    child.is_element() && name.matches(&child) && own_text(child).trim() == value
                }),
            })
        }));
    }

    /// Error for a step without a match: the expected and the found elements.
    fn no_match_error(
        &self,
        contexts: &[Node<'_, '_>],
        document: &Document<'_>,
        lines_before: usize,
    ) -> ReadError {
        let children = contexts.iter().flat_map(Node::children).filter(Node::is_element).take(1000);
        let names = distinct(children.map(|child| child.tag_name().name()), 8);
        let source = &self.source;
        ReadError::with_quotes(60, |quoted| {
            let found = match names.as_slice() {
                [] => "no element".to_owned(),
                names => names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "),
            };
            match contexts.first().filter(|context| context.is_element()) {
                None if self.is_descendant => format!("expected an element `{source}` anywhere, found none"),
                None => format!("expected `{source}` as the root element, found {found}"),
                Some(context) => {
                    let line = document.text_pos_at(context.range().start).row as usize + lines_before;
                    let relation = if self.is_descendant { "anywhere in" } else { "in" };
                    let parent = quoted(context.tag_name().name());
                    format!("line {line}: expected `{source}` {relation} {parent}, found {found}")
                }
            }
        })
    }
}

/// Text directly in an element, without comments and the elements inside.
fn own_text(element: Node<'_, '_>) -> String {
    element.children().filter(Node::is_text).filter_map(|node| node.text()).collect()
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

struct PathParser<'a> {
    source: &'a str,
    /// Position of the unread rest, in bytes.
    at: usize,
    prefixes: &'a Prefixes,
}

impl<'a> PathParser<'a> {
    fn take(&mut self, pattern: &Regex, expected: &str) -> Result<Captures<'a>, SyntaxError> {
        let found = pattern.captures(&self.source[self.at..]).ok_or_else(|| self.error(self.at, expected))?;
        self.at += found[0].len();
        Ok(found)
    }

    /// Returns the name found in a part of the path that begins at `start`, with the namespace of its prefix.
    fn name(&self, start: usize, found: &Captures<'_>) -> Result<Name, SyntaxError> {
        let namespace = found.name("prefix").map(|prefix| {
            self.prefixes.get(prefix.as_str()).cloned().ok_or_else(|| {
                let message = format!("`namespaces` has no prefix `{}`", prefix.as_str());
                SyntaxError { message, at: self.source[..start + prefix.start()].chars().count() }
            })
        });
        Ok(Name { namespace: namespace.transpose()?, local: found["name"].to_owned() })
    }

    fn condition(&mut self) -> Result<Condition, SyntaxError> {
        const FORMS: &str = "a condition such as `[2]`, `[@type]`, `[@type='x']` or `[name='x']`";
        let start = self.at;
        let found = self.take(&CONDITION, FORMS)?;
        let form_error = || self.error(start, FORMS);
        if let Some(position) = found.name("position") {
            return position.as_str().parse().map(Condition::Position).map_err(|_| form_error());
        }
        let name = self.name(start, &found)?;
        let value =
            found.name("single").or_else(|| found.name("double")).map(|value| value.as_str().to_owned());
        match (found.name("at"), value) {
            (Some(_), value) => Ok(Condition::Attribute(name, value)),
            (None, Some(value)) => Ok(Condition::Child(name, value)),
            (None, None) => Err(form_error()),
        }
    }

    fn error(&self, at: usize, expected: &str) -> SyntaxError {
        let (before, rest) = self.source.split_at(at);
        let found = if rest.is_empty() { "the end".to_owned() } else { format!("`{rest}`") };
        SyntaxError { message: format!("expected {expected}, found {found}"), at: before.chars().count() }
    }
}
