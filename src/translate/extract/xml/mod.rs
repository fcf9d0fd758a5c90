//! `xml`: parser of XML documents, SOAP included.

mod path;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use roxmltree::{Document, Error, Node, ParsingOptions};
use serde_json::{Map, Value};
use settings_derive::{EnumSetting, Section};

use self::path::MinMatches;
pub use self::path::{ElementPath, Prefixes};
use super::{Extracted, FormatParser, MemberNames, RECORD_LIMIT, Typing, ValueCount, records};
use crate::model::cut_characters;
use crate::settings::{Checked, Code, Cursor, Entry, Named, Setting, ValueKind, fixed_regex, text_of};
use crate::translate::fields::TEXT_KEY;
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// Converts a document into objects, by the local names of its elements.
///
/// An element with text only becomes a string, an empty one an empty string, and one with `xsi:nil="true"`
/// null. Other elements become objects: attributes at `@name`, children at their names, mixed text at
/// `#text`. Repeated names become a list. An element named in `strings` becomes its whole text.
#[derive(Debug, Clone, Section)]
#[section(default)]
pub struct Xml {
    /// Path to the one element or attribute to read, such as `Envelope/Body/Forecast`.
    #[key(conflicts = "items", shown = "the root")]
    pub path: Option<ElementPath>,
    /// Path to a repeated element. The result is a list, which may have one item or none.
    pub items: Option<ElementPath>,
    /// Namespaces of the prefixes in `path` and `items`.
    #[key(requires = "path, items", help = "remove it, or write `path: s:Envelope/s:Body`")]
    pub(crate) namespaces: Named<String>,
    /// Handling of attributes: at `@name` (`marked`), at `name` (`plain`), or omitted (`dropped`).
    #[key(default = Attributes::Marked)]
    pub attributes: Attributes,
    /// Names of elements that are always lists, even where there is only one.
    pub lists: Vec<String>,
    /// Names of elements that are always strings: the whole text in order, with the text of the elements
    /// inside, without attributes.
    pub strings: Vec<String>,
    /// Whether to remove white space at both ends of each text.
    #[key(default = true)]
    pub trim: bool,
}

impl Setting for ElementPath {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let text = text_of(value)?;
        let namespaces = value.sibling("namespaces").and_then(|node| node.as_map()).unwrap_or_default();
        let prefix = |entry: &Entry| Some((entry.key.text.clone(), entry.value.as_text()?.to_owned()));
        let help = "write names of elements from the root on: `report/item`, `Envelope/Body/*`, `//item/@id`";
        Self::parse(text, &namespaces.iter().filter_map(prefix).collect())
            .or_else(|error| error.reject(value, Code::InvalidPath, "path", help))
    }
}

/// Handling of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum Attributes {
    /// At `@name`.
    Marked,
    /// At `name`, like elements.
    Plain,
    /// Omitted.
    Dropped,
}

const SCHEMA_INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// Namespaces whose attributes matter only to SOAP processors and schema validators (types and encodings).
/// Every element of an RPC-style SOAP response has such attributes.
const IGNORED_NAMESPACES: [&str; 5] = [
    SCHEMA_INSTANCE,
    "http://schemas.xmlsoap.org/soap/envelope/",
    "http://schemas.xmlsoap.org/soap/encoding/",
    "http://www.w3.org/2003/05/soap-envelope",
    "http://www.w3.org/2003/05/soap-encoding",
];

impl FormatParser for Xml {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        (if self.items.is_some() { ValueCount::Many } else { ValueCount::One }, MemberNames::AnyNames)
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        self.extract(view.text()?).map(Extracted::Value)
    }
}

impl Xml {
    fn extract(&self, text: &str) -> Result<Value, ReadError> {
        // Some scripts print blank lines before the XML declaration, which must be at the beginning.
        let document = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let lines_before = text[..text.len() - document.len()].matches('\n').count();
        if document.is_empty() {
            return Err("expected an XML document, found an empty response".into());
        }
        let document = &*without_dtd(document, lines_before)?;
        check(document, lines_before)?;
        let options = ParsingOptions {
            // No external entities (XXE), and no entity expansion: the document has no DTD any more.
            allow_dtd: false,
            nodes_limit: 4 * u32::try_from(ELEMENT_LIMIT).unwrap_or(u32::MAX),
            entity_resolver: None,
        };
        let parsed = Document::parse_with_options(document, options)
            .map_err(|error| parser_error(&error, document, lines_before))?;
        match (&self.items, &self.path) {
            (None, None) => Ok(self.value(parsed.root_element())),
            (None, Some(path)) => {
                let mut found = self.values(path, &parsed, MinMatches::One, lines_before)?;
                match found.len() {
                    1 => Ok(found.remove(0)),
                    0 => Err(read_error!("expected the attribute `{}`, found none", path.source)),
                    count => Err(read_error!(
                        "expected one `{}`, found {count}; use `items` for a list, or a position such as \
                         `[1]`",
                        path.source
                    )),
                }
            }
            (Some(path), _) => {
                self.values(path, &parsed, MinMatches::Nothing, lines_before).map(Value::Array)
            }
        }
    }

    fn values(
        &self,
        path: &ElementPath,
        document: &Document<'_>,
        min_matches: MinMatches,
        lines_before: usize,
    ) -> Result<Vec<Value>, ReadError> {
        let found = path.find(document, min_matches, lines_before)?;
        at_most(RECORD_LIMIT, found.len(), &format!("of `{}`", path.source))?;
        let values = found.into_iter().map(|element| match &path.attribute {
            None => self.value(element),
            Some(name) => name.attribute(&element).into(),
        });
        Ok(values.collect())
    }

    /// Converts an element. Recurses down to [`DEPTH_LIMIT`] at most.
    fn value(&self, element: Node<'_, '_>) -> Value {
        let is_nil =
            element.attribute((SCHEMA_INSTANCE, "nil")).is_some_and(|nil| matches!(nil.trim(), "true" | "1"));
        if self.strings.iter().any(|name| name == element.tag_name().name()) {
            return if is_nil { Value::Null } else { self.whole_text(element).into() };
        }
        let mut members = Map::new();
        let prefix = match self.attributes {
            Attributes::Marked => Some("@"),
            Attributes::Plain => Some(""),
            Attributes::Dropped => None,
        };
        for attribute in element.attributes() {
            let is_ignored = attribute.namespace().is_some_and(|uri| IGNORED_NAMESPACES.contains(&uri));
            if let Some(prefix) = prefix.filter(|_| !is_ignored) {
                self.add(&mut members, format!("{prefix}{}", attribute.name()), attribute.value().into());
            }
        }
        if is_nil {
            // A null field of `mysql --xml` has its column name in an attribute, which is kept.
            if members.is_empty() {
                return Value::Null;
            }
            members.insert(TEXT_KEY.to_owned(), Value::Null);
            return Value::Object(members);
        }
        let mut text = String::new();
        let mut has_children = false;
        for child in element.children() {
            if child.is_element() {
                has_children = true;
                self.add(&mut members, child.tag_name().name().to_owned(), self.value(child));
            } else if child.is_text() {
                text.push_str(child.text().unwrap_or_default());
            }
        }
        // White space between elements is indentation.
        if self.trim || has_children && text.trim().is_empty() {
            text = text.trim().to_owned();
        }
        if members.is_empty() {
            return text.into();
        }
        if !text.is_empty() {
            members.insert(TEXT_KEY.to_owned(), text.into());
        }
        Value::Object(members)
    }

    /// Text of an element and of all elements inside it, in order, like `string()` in XPath.
    fn whole_text(&self, element: Node<'_, '_>) -> String {
        let texts = element.descendants().filter(Node::is_text).filter_map(|node| node.text());
        let text: String = texts.collect();
        if self.trim { text.trim().to_owned() } else { text }
    }

    fn add(&self, members: &mut Map<String, Value>, name: String, value: Value) {
        if self.lists.contains(&name) && !members.contains_key(&name) {
            members.insert(name, Value::Array(vec![value]));
        } else {
            records::add(members, name, value);
        }
    }
}

/// Formats the position of a byte as `line 3, column 5`.
fn position(document: &str, offset: usize, lines_before: usize) -> String {
    let before = &document[..offset];
    let line = before.matches('\n').count() + 1 + lines_before;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}")
}

/// Converts an error of the parser. Its own message may quote the document.
fn parser_error(error: &Error, document: &str, lines_before: usize) -> ReadError {
    if matches!(error, Error::UnclosedRootNode | Error::UnexpectedEndOfStream) {
        return ReadError::from("expected the end tag of every element, found the end of the response")
            .in_part(&position(document, document.trim_end().len(), lines_before));
    }
    let position = error.pos();
    let message = error.to_string().replacen(&format!(" at {position}"), "", 1).replace('\'', "`");
    let hint = match error {
        Error::DtdDetected => "; it must be well-formed, and before the first element",
        Error::MalformedEntityReference(_) | Error::UnknownEntityReference(..) => {
            "; XML has `&amp;`, `&lt;`, `&gt;`, `&apos;`, `&quot;`, and numbers such as `&#65;`"
        }
        _ => "",
    };
    ReadError::new(format!("invalid XML: {}", cut_characters(&message, 120)), "invalid XML")
        .with_suffix(hint)
        .in_part(&format!("line {}, column {}", position.row as usize + lines_before, position.col))
}

/// Maximum depth of nested elements. It keeps the objects, and the lists between them, within
/// [`JSON_DEPTH_LIMIT`](crate::model::JSON_DEPTH_LIMIT).
const DEPTH_LIMIT: usize = 60;

/// Maximum number of elements of one response.
const ELEMENT_LIMIT: usize = 10 * RECORD_LIMIT;

/// Maximum number of attributes of one element: the parser compares all of them with each other.
const ATTRIBUTE_LIMIT: usize = 250;

/// Maximum number of namespace comparisons: for each element with declarations, the parser compares all
/// namespaces in scope with each other.
const NAMESPACE_WORK_LIMIT: usize = 50_000_000;

/// Maximum number of `<` and `=` in one response: the parser allocates memory for this many nodes and
/// attributes.
const MARKUP_CHARACTER_LIMIT: usize = 4 * ELEMENT_LIMIT;

/// Matches a comment, CDATA section, processing instruction or tag. Unclosed markup extends to the end of the
/// text.
static MARKUP: LazyLock<Regex> = LazyLock::new(|| {
    fixed_regex(
        r#"(?xs) <!--(?:.*?-->|.*) | <!\[CDATA\[(?:.*?\]\]>|.*) | <\?(?:.*?\?>|.*)
        | </[^>]*>? | <(?:[^"'>]|"[^"]*"?|'[^']*'?)*>?"#,
    )
});

/// Matches a quoted value of a tag.
static QUOTED: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r#""[^"]*"?|'[^']*'?"#));

/// Matches a document type declaration with its internal subset, after the markup that may precede it.
static DTD: LazyLock<Regex> = LazyLock::new(|| {
    fixed_regex(
        r#"(?xs) \A (?:\s | <!--.*?--> | <\?.*?\?>)* (?<dtd> <!DOCTYPE\s (?:[^"'\[<>] | "[^"]*" | '[^']*')*
        (?:\[ (?:[^<\]] | <!--.*?--> | <\?.*?\?> | <![A-Z](?:[^"'<>] | "[^"]*" | '[^']*')*>)* \]\s*)? >)"#,
    )
});

/// Replaces the document type declaration by white space: it may declare elements and attributes, and name an
/// external file, which is never read. Lines and columns remain the same.
///
/// # Errors
///
/// A message with the position, if the declaration declares an entity.
fn without_dtd(text: &str, lines_before: usize) -> Result<Cow<'_, str>, ReadError> {
    let found = text.contains("<!DOCTYPE").then(|| DTD.captures(text)).flatten();
    let Some(dtd) = found.and_then(|found| found.name("dtd")) else { return Ok(text.into()) };
    // Each declaration of the internal subset is a match of its own.
    let mut declarations = MARKUP.find_iter(&dtd.as_str()[1..]);
    if let Some(entity) = declarations.find(|found| found.as_str().starts_with("<!ENTITY")) {
        let message = "expected a DTD without entities, found `<!ENTITY`: entities are not expanded";
        let at = position(text, dtd.start() + 1 + entity.start(), lines_before);
        return Err(ReadError::from(message).in_part(&at));
    }
    let blank = dtd.as_str().chars().map(|c| if c == '\n' { c } else { ' ' });
    Ok([&text[..dtd.start()], &blank.collect::<String>(), &text[dtd.end()..]].concat().into())
}

/// Checks that a text begins with a tag, and that every tag is within the limits. The parser reports
/// malformed XML.
///
/// # Errors
///
/// A message with the position.
fn check(text: &str, lines_before: usize) -> Result<(), ReadError> {
    let locate = |offset| move |error: ReadError| error.in_part(&position(text, offset, lines_before));
    if !text.trim_start().starts_with('<') {
        return Err(locate(0)(ReadError::with_quote(20, "expected an XML document, found ", text)));
    }
    let characters = text.bytes().filter(|byte| matches!(byte, b'<' | b'=')).count();
    at_most(MARKUP_CHARACTER_LIMIT, characters, "characters `<` and `=`").map_err(locate(0))?;
    let (mut elements, mut namespace_work) = (0, 0);
    // For each open element, the number of namespaces that it declares.
    let mut open_elements: Vec<usize> = Vec::new();
    for found in MARKUP.find_iter(text) {
        let tag = found.as_str();
        let locate_tag = locate(found.start());
        if tag.starts_with("</") {
            open_elements.pop();
            continue;
        }
        if tag.starts_with("<!") || tag.starts_with("<?") {
            continue;
        }
        let bare = QUOTED.replace_all(tag, "\"");
        elements += 1;
        at_most(ELEMENT_LIMIT, elements, "elements").map_err(locate_tag)?;
        at_most(ATTRIBUTE_LIMIT, bare.matches('=').count(), "attributes in an element")
            .map_err(locate_tag)?;
        let is_between = |c: char| c.is_ascii_whitespace() || c == '"';
        let names = bare.split('=').map(|before| before.trim_end().rsplit(is_between).next());
        let namespaces = names.filter(|name| name.is_some_and(|name| name.starts_with("xmlns"))).count();
        if namespaces > 0 {
            let in_scope = open_elements.iter().sum::<usize>() + namespaces;
            namespace_work += in_scope * in_scope;
            at_most(NAMESPACE_WORK_LIMIT, namespace_work, "comparisons of namespaces").map_err(locate_tag)?;
        }
        if !tag.ends_with("/>") {
            open_elements.push(namespaces);
            at_most(DEPTH_LIMIT, open_elements.len(), "nested elements").map_err(locate_tag)?;
        }
    }
    Ok(())
}
