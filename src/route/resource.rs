//! Resources that routes provide, and their URI templates.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use settings_derive::Section;

use super::path::{PathPart, PathTemplateError, arguments_in, is_percent_encoded, parse_parts};
use crate::model::{Annotations, object_without_nones};
use crate::settings::suggest::quoted;
use crate::settings::{Checked, Code, Node, OpenSection};
use crate::translate::extract::read_media_type;

/// Definition of a resource or a resource template (MCP 2026-07-28, Resources, "Data Types").
#[derive(Debug, Clone, PartialEq, Section)]
#[section(name = "`resource` of a route", id = "read_as", text = "uri", check_keys = Self::check_size)]
pub struct ResourceDefinition {
    /// URI of the resource, or a URI template with arguments as `{name}`.
    #[key(example = "uri: report://daily/{date}")]
    pub uri: UriTemplate,
    /// Name of the route.
    #[key(skip)]
    pub name: String,
    /// Title for people.
    #[key(skip)]
    pub title: Option<String>,
    /// Description for a model.
    #[key(skip)]
    pub description: Option<String>,
    /// Media type; that of the response when absent.
    #[key(with = read_media_type)]
    pub media_type: Option<String>,
    /// Size in bytes, if known in advance.
    #[key(name = "size", size = 0..=1 << 50)]
    pub size_bytes: Option<u64>,
    /// Hints for clients.
    pub annotations: Option<Annotations>,
    /// Interval in which the upstream is polled for changes while a client is subscribed.
    #[key(
        range = 100..=24 * 3_600_000,
        shown = "never; clients can't subscribe"
    )]
    pub poll_interval: Option<Duration>,
}

impl ResourceDefinition {
    fn check_size(section: &OpenSection<'_>) -> Checked<()> {
        let uri = section.get("uri").and_then(Node::as_text).map(|text| UriTemplate::parse(text.trim()));
        let is_template = uri.is_some_and(|uri| uri.is_ok_and(|uri| uri.is_template()));
        let Some(entry) = section.entry("size").filter(|_| is_template) else { return Ok(()) };
        let message = "`size` has no effect with a URI template, which matches many resources";
        Err(section.reject_at(Code::ConflictingKeys.at_span(entry.key.span), message, "remove it"))
    }

    /// Returns the entry for `resources/list` or `resources/templates/list`.
    pub fn to_json(&self) -> Map<String, Value> {
        let annotations =
            self.annotations.as_ref().filter(|annotations| **annotations != Annotations::default());
        object_without_nones([
            (if self.uri.is_template() { "uriTemplate" } else { "uri" }, Some(self.uri.as_str().into())),
            ("name", Some(self.name.as_str().into())),
            ("title", self.title.as_deref().map(Value::from)),
            ("description", self.description.as_deref().map(Value::from)),
            ("mimeType", self.media_type.as_deref().map(Value::from)),
            ("annotations", annotations.map(|annotations| json!(annotations))),
            ("size", self.size_bytes.map(Value::from)),
        ])
    }
}

/// URI of a resource, or a template of URIs: `report://daily/{date}`.
///
/// Templates follow RFC 6570, level 1: `{name}` matches one or more characters, which clients percent-encode.
/// Unencoded characters are accepted as well, except `/`, `?`, `#` and control characters. If these are
/// encoded, they are handled where the argument is used ([`PathTemplate`](super::PathTemplate)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTemplate {
    text: String,
    parts: Vec<PathPart>,
}

impl UriTemplate {
    /// Maximum length of a URI or template, in bytes.
    pub const MAX_BYTES: usize = 2048;

    /// Parses a URI or a template.
    ///
    /// # Errors
    ///
    /// [`PathTemplateError`] for a string that is too long or not a URI, an unmatched brace, an invalid or
    /// repeated argument name, or two arguments without text between them.
    pub fn parse(text: &str) -> Result<Self, PathTemplateError> {
        let invalid = |message: String| Err(PathTemplateError::new(message));
        let (length, max) = (text.len(), Self::MAX_BYTES);
        if length > max {
            return invalid(format!("the URI has {length} bytes, at most {max} are allowed"));
        }
        let Some((_, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return invalid(format!("a URI begins with a scheme, such as `report:`, found {}", quoted(text)));
        };
        if matches!(rest, "" | "/" | "//") {
            return invalid(format!("`{text}` has nothing after its scheme"));
        }
        let parts = parse_parts(text)?;
        let is_invalid =
            |c: &char| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '|');
        if let Some(character) = text.chars().find(is_invalid) {
            return invalid(format!("a URI can't have {character:?}; write it percent-encoded"));
        }
        if !is_percent_encoded(text) {
            return invalid(format!("`{text}` has a `%` without two hexadecimal digits"));
        }
        for (index, part) in parts.iter().enumerate() {
            let PathPart::Argument(name) = part else { continue };
            if let Some(PathPart::Argument(previous)) = parts[..index].last() {
                return invalid(format!("`{{{previous}}}` and `{{{name}}}` need text between them"));
            }
            if arguments_in(&parts[..index]).any(|other| other == name) {
                let message = format!("the argument `{name}` is in the URI twice");
                return Err(PathTemplateError::with_argument(message, name));
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// URI or template as a string.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the URI has arguments.
    pub fn is_template(&self) -> bool {
        self.arguments().next().is_some()
    }

    /// Names of the arguments in the template, in order.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        arguments_in(&self.parts)
    }

    /// Length of the fixed text, in bytes. If several templates match a URI, the template with the most fixed
    /// text applies.
    pub(super) fn literal_bytes(&self) -> usize {
        self.parts.iter().map(|part| if let PathPart::Fixed(text) = part { text.len() } else { 0 }).sum()
    }

    /// Template without the names of its arguments. Two templates with the same shape match the same URIs.
    pub fn shape(&self) -> String {
        let part = |part: &PathPart| match part {
            PathPart::Fixed(text) => text.clone(),
            PathPart::Argument(_) => "{}".to_owned(),
        };
        self.parts.iter().map(part).collect()
    }

    /// Matches a URI and returns its percent-decoded arguments; `None` if it does not match.
    ///
    /// If several matches are possible, arguments are as short as possible, from the left.
    pub fn arguments_of(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let (mut found, mut rest, mut pending_name) = (Vec::new(), uri, None);
        for (index, part) in self.parts.iter().enumerate() {
            match (part, pending_name.take()) {
                (PathPart::Argument(name), _) => pending_name = Some(name.as_str()),
                (PathPart::Fixed(text), None) => rest = rest.strip_prefix(text.as_str())?,
                // The last fixed text must be at the end of the URI. Earlier occurrences belong to the
                // argument.
                (PathPart::Fixed(text), Some(name)) if index + 1 == self.parts.len() => {
                    found.push((name, decode_argument(rest.strip_suffix(text.as_str())?)?));
                    rest = "";
                }
                (PathPart::Fixed(text), Some(name)) => {
                    // An argument has at least one character.
                    let first = rest.chars().next()?.len_utf8();
                    let (value, after) = rest.split_at(first + rest[first..].find(text.as_str())?);
                    found.push((name, decode_argument(value)?));
                    rest = &after[text.len()..];
                }
            }
        }
        if let Some(name) = pending_name {
            found.push((name, decode_argument(std::mem::take(&mut rest))?));
        }
        rest.is_empty().then_some(found)
    }
}

/// Decodes an argument in a URI; `None` if it is empty, contains an unencoded `/`, `?`, `#` or control
/// character or a `%` without two hexadecimal digits, or is not UTF-8. Other unencoded characters are
/// accepted, because some clients send them.
fn decode_argument(value: &str) -> Option<String> {
    let is_valid = !value.is_empty() && !value.contains(['/', '?', '#']) && !value.contains(char::is_control);
    if !is_valid || !is_percent_encoded(value) {
        return None;
    }
    percent_decode_str(value).decode_utf8().ok().map(Into::into)
}

/// Whether a string is a URI scheme (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
        let template = UriTemplate::parse(template).unwrap();
        let found = template.arguments_of(uri);
        let found: Option<Vec<_>> =
            found.as_ref().map(|found| found.iter().map(|(name, value)| (*name, value.as_str())).collect());
        assert_eq!(found.as_deref(), expected, "{uri}");
    }

    #[test]
    fn a_uri_without_arguments_fits_itself() {
        check("test://static-text", "test://static-text", Some(&[]));
        check("test://static-text", "test://static-texts", None);
        check("test://static-text", "TEST://static-text", None);
        check("urn:isbn:1", "urn:isbn:1", Some(&[]));
    }

    #[test]
    fn arguments_are_read_from_a_uri_and_stay_in_their_segment() {
        check("test://template/{id}/data", "test://template/123/data", Some(&[("id", "123")]));
        check("r://d/{date}", "r://d/S%C3%A3o%20Paulo", Some(&[("date", "São Paulo")]));
        check("r://d/{date}", "r://d/São Paulo", Some(&[("date", "São Paulo")]));
        check("r://d/{date}", "r://d/..%2F..%2Fetc", Some(&[("date", "../../etc")]));
        check("r://{a}-{b}.csv", "r://x-y-z.csv.csv", Some(&[("a", "x"), ("b", "y-z.csv")]));
        for uri in [
            "r://d/",
            "r://d/a/b",
            "r://d/a?b",
            "r://d/a#b",
            "r://d/%zz",
            "r://d/%2",
            "r://d/%ff",
            "r://d/a\n",
        ] {
            check("r://d/{date}", uri, None);
        }
        check("r://{a}/{b}", "r:///x", None);
        check("r://{a}/{b}", "r://x/", None);
    }

    #[test]
    fn an_invalid_uri_is_rejected() {
        for (text, part) in [
            ("", "begins with a scheme"),
            ("report", "begins with a scheme"),
            ("/reports/{id}", "begins with a scheme"),
            ("{kind}://x", "begins with a scheme"),
            ("1x:y", "begins with a scheme"),
            ("report://", "nothing after"),
            ("r://a b", "percent-encoded"),
            ("r://é", "percent-encoded"),
            ("r://%2", "hexadecimal"),
            ("r://{a", "unmatched brace"),
            ("r://a}", "unmatched brace"),
            ("r://{+path}", "is not an argument name"),
            ("r://x{?a,b}", "is not an argument name"),
            ("r://{a*}", "is not an argument name"),
            ("r://{a:3}", "is not an argument name"),
            ("r://{}", "is not an argument name"),
            ("r://{a b}", "is not an argument name"),
            ("r://{a}{b}", "need text between"),
            ("r://{a}/{a}", "twice"),
        ] {
            let error = UriTemplate::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(UriTemplate::parse(&format!("r://{}", "x".repeat(3000))).is_err());
    }

    proptest! {
        #[test]
        fn arguments_in_a_uri_are_parsed_back(one in "\\PC{1,12}", other in "\\PC{1,12}") {
            let template = UriTemplate::parse("r://{one}/x/{other}/y").unwrap();
            let encode = |text: &str| {
                percent_encoding::utf8_percent_encode(text, super::super::path::ESCAPED).to_string()
            };
            let uri = format!("r://{}/x/{}/y", encode(&one), encode(&other));
            prop_assert_eq!(template.arguments_of(&uri), Some(vec![("one", one), ("other", other)]));
        }

        #[test]
        fn any_text_fits_or_does_not(uri in "(r://)?.{0,20}") {
            for template in ["r://{a}", "r://{a}/{b}x", "r://{a}-{b}-{c}"] {
                let template = UriTemplate::parse(template).unwrap();
                if let Some(found) = template.arguments_of(&uri) {
                    prop_assert!(found.iter().all(|(_, value)| !value.is_empty()));
                }
            }
        }
    }
}
