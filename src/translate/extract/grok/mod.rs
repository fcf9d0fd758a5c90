//! `grok`: patterns that refer to named patterns, `%{IP:client}`. Expands them into a regular expression,
//! which [`Regex`] then matches.

use std::sync::LazyLock;

use settings_derive::Section;

use super::records::Records;
use super::regex::{Capture, CapturePattern, CapturePatterns, Regex, SearchScope};
use crate::settings::{Checked, Code, Cursor, Named, Node, Setting, ValueKind, read_each, suggest, text_of};
use crate::translate::fields::{Enumeration, FieldKind, FieldType, NumberForm};
use crate::translate::pattern::Pattern;

/// Options of the `grok` extractor, which becomes a [`Regex`].
#[derive(Debug, Section)]
pub struct Grok {
    /// Grok pattern, with references to named patterns, `%{NAME:capture:type}`, or a list of them.
    #[key(with = read_pattern, example = "pattern: '%{IP:client} %{GREEDYDATA:message}'")]
    pattern: CapturePatterns,
    /// Custom patterns, by name.
    #[key(with = read_custom_patterns)]
    patterns: Named<String>,
    /// Scope of the search: the first match, every match, every matching line, or every matching block of
    /// lines.
    #[key(default = SearchScope::First)]
    each: SearchScope,
    /// How records are separated.
    #[key(part)]
    records: Records,
}

impl From<Grok> for Regex {
    fn from(Grok { pattern: patterns, each, records, .. }: Grok) -> Self {
        Self { patterns, each, records }
    }
}

/// Custom patterns of a rule, as names and definitions. They take precedence over the library patterns.
#[derive(Debug, Clone, Default)]
pub struct GrokPatterns(pub Vec<(String, String)>);

/// Reason why a string is not a valid grok pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GrokError {
    message: String,
    /// Invalid part, of this pattern or of a pattern to which it refers.
    found: Option<String>,
    help: String,
}

impl GrokError {
    fn new(message: String, found: Option<String>, help: impl Into<String>) -> Self {
        Self { message, found, help: help.into() }
    }

    fn malformed(reference: &str) -> Self {
        let forms = "`%{NAME}`, `%{NAME:capture}` or `%{NAME:capture:type}`";
        let message = format!("expected {forms}, found `%{{{reference}`");
        Self::new(message, Some(format!("%{{{reference}")), "write `%{IP:client}`, or `%{NUMBER:bytes:int}`")
    }
}

impl GrokPatterns {
    /// Maximum length of an expanded pattern, in bytes.
    pub const LENGTH_LIMIT_BYTES: usize = 64 << 10;

    /// Maximum depth of nested references.
    const DEPTH_LIMIT: usize = 64;

    /// Compiles a pattern in which `^` and `$` match at the start and end of each line.
    ///
    /// # Errors
    ///
    /// [`GrokError`] with the mistake and the invalid part.
    pub fn compile(&self, source: &str) -> Result<CapturePattern, GrokError> {
        let mut expansion = PatternExpansion {
            patterns: self,
            text: String::new(),
            captures: Vec::new(),
            ancestors: Vec::new(),
        };
        expansion.expand(source)?;
        // A named group in the configured pattern is a capture, too. Captures are in the order of the
        // pattern.
        let pattern = Pattern::multi_line(&expansion.text).map_err(|error| {
            let message = format!("the expanded pattern is not a valid regular expression: {error}");
            let help = "use the syntax of the Rust `regex` crate, which has no look-around";
            GrokError::new(message, None, help)
        })?;
        let mut pattern = CapturePattern::plain(pattern);
        source.clone_into(&mut pattern.source);
        for capture in &mut pattern.captures {
            if let Some(expanded) = expansion.captures.iter().find(|expanded| expanded.group == capture.group)
            {
                capture.clone_from(expanded);
            }
        }
        Ok(pattern)
    }

    /// Names and definitions of all patterns, custom patterns first.
    fn all(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let custom = self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        custom.chain(LIBRARY.iter().copied())
    }
}

/// State of the expansion of a pattern.
struct PatternExpansion<'p> {
    patterns: &'p GrokPatterns,
    text: String,
    captures: Vec<Capture>,
    /// Names of the patterns that are being expanded, outermost first.
    ancestors: Vec<&'p str>,
}

impl<'p> PatternExpansion<'p> {
    fn expand(&mut self, source: &'p str) -> Result<(), GrokError> {
        let mut rest = source;
        while let Some((before, after)) = rest.split_once("%{") {
            self.push(before)?;
            let Some((reference, after)) = after.split_once('}') else {
                return Err(GrokError::malformed(after));
            };
            self.expand_reference(reference)?;
            rest = after;
        }
        self.push(rest)
    }

    fn expand_reference(&mut self, reference: &str) -> Result<(), GrokError> {
        let mut parts = reference.split(':');
        let (name, capture, kind) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        if !is_name(name) || parts.next().is_some() {
            return Err(GrokError::malformed(&format!("{reference}}}")));
        }
        let found = self.patterns.all().find(|(candidate, _)| *candidate == name);
        let (pattern_name, definition) = found.ok_or_else(|| {
            let nearest =
                suggest::nearest(&name.to_ascii_uppercase(), self.patterns.all().map(|(name, _)| name));
            let help = nearest.map_or_else(
                || "see the page of `grok` for all patterns; add your own under `patterns`".to_owned(),
                |nearest| format!("did you mean `{nearest}`?"),
            );
            GrokError::new(format!("no pattern is called `{name}`"), Some(format!("%{{{name}")), help)
        })?;
        if self.ancestors.len() >= GrokPatterns::DEPTH_LIMIT && !self.ancestors.contains(&pattern_name) {
            let message =
                format!("patterns refer to others at more than {} levels", GrokPatterns::DEPTH_LIMIT);
            return Err(GrokError::new(message, Some(format!("%{{{name}")), "nest fewer patterns"));
        }
        if self.ancestors.contains(&pattern_name) {
            let message = format!("pattern `{name}` refers to itself");
            let help = "remove the cycle: a pattern can't contain itself";
            return Err(GrokError::new(message, Some(format!("%{{{name}")), help));
        }
        match capture {
            Some(capture) => {
                let group = self.capture(capture, kind)?;
                self.push(&format!("(?<{group}>"))?;
            }
            None => self.push("(?:")?,
        }
        self.ancestors.push(pattern_name);
        self.expand(definition)?;
        self.ancestors.pop();
        self.push(")")
    }

    /// Records a capture and returns the name of its group. Groups get unique names that no author writes,
    /// because the regex engine rejects duplicates and grok allows them.
    fn capture(&mut self, name: &str, kind: Option<&str>) -> Result<String, GrokError> {
        let is_valid = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
        if name.is_empty() || !name.chars().all(is_valid) {
            let message = format!("`{name}` can't be the name of a capture");
            if name.starts_with('[') {
                let plain = name.trim_matches(['[', ']']).replace("][", ".");
                let help = format!("write `{plain}`; use `structured` for nested objects");
                return Err(GrokError::new(message, Some(name.to_owned()), help));
            }
            let help = "write letters, digits, `_`, `-`, `.` and `@`";
            return Err(GrokError::new(message, Some(format!(":{name}")), help));
        }
        let kind = match kind {
            None | Some("string") => None,
            Some("int" | "integer" | "long") => Some(FieldKind::Integer(NumberForm::default())),
            Some("float" | "number" | "double") => Some(FieldKind::Number(NumberForm::default())),
            Some("boolean" | "bool") => {
                let words = Enumeration::from_booleans(&["true".to_owned()], &["false".to_owned()]);
                Some(FieldKind::Boolean(words.into()))
            }
            Some(other) => {
                let message = format!("`{other}` is not a type of capture");
                let types = ["int", "float", "boolean", "string"];
                let help = suggest::help(other, "known types", types).unwrap_or_default();
                return Err(GrokError::new(message, Some(format!(":{other}}}")), help));
            }
        };
        let group = format!("grok[{}]", self.captures.len());
        let kind = kind.map(FieldType::from);
        self.captures.push(Capture { group: group.clone(), name: name.to_owned(), kind });
        Ok(group)
    }

    fn push(&mut self, text: &str) -> Result<(), GrokError> {
        if self.text.len() + text.len() > GrokPatterns::LENGTH_LIMIT_BYTES {
            let limit = GrokPatterns::LENGTH_LIMIT_BYTES;
            let message = format!("the expanded pattern is longer than {limit} bytes");
            return Err(GrokError::new(message, None, "use fewer patterns"));
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Names and definitions of the library patterns.
static LIBRARY: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let lines = include_str!("library.patterns").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

fn read_pattern(value: &Cursor<'_>) -> Checked<CapturePatterns> {
    let custom = custom_patterns(value.sibling("patterns"));
    if custom.0.iter().any(|(_, text)| custom.compile(text).is_err()) {
        // `patterns` reports the invalid pattern; a pattern that refers to it is not a second problem.
        return Ok(CapturePatterns(Vec::new()));
    }
    CapturePatterns::read_with(value, |pattern| {
        let text = text_of(pattern)?;
        let captures = custom.compile(text).or_else(|error| reject(pattern, text, &error))?;
        captures.check_names(pattern, "`%{IP:client}`")
    })
}

/// Reads the custom patterns. Reports invalid ones, even if no pattern refers to them.
fn read_custom_patterns(value: &Cursor<'_>) -> Checked<Named<String>> {
    let custom = custom_patterns(Some(value.node));
    let checked = value.node.as_map().unwrap_or_default().iter().map(|entry| {
        let name = &entry.key.text;
        if !is_name(name) {
            let message = format!("`{name}` can't be the name of a pattern");
            let at = Code::InvalidName.at_span(entry.key.span);
            return value.reject_coded(at, message, "write letters, digits and `_`: `QUEUE_ID`");
        }
        let value = value.member(entry, name, ValueKind::Text);
        let Some(text) = entry.value.as_text() else { return Ok(()) };
        custom.compile(text).map(|_| ()).or_else(|error| reject(&value, text, &error))
    });
    let checked: Checked<()> = read_each(checked);
    Named::read(value).and_then(|patterns| checked.map(|()| patterns))
}

/// Collects the strings in a map of custom patterns.
fn custom_patterns(node: Option<&Node>) -> GrokPatterns {
    let entries = node.and_then(Node::as_map).unwrap_or_default().iter();
    let texts = entries.filter_map(|entry| Some((entry.key.text.clone(), entry.value.as_text()?.to_owned())));
    GrokPatterns(texts.collect())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Reports an invalid pattern at its position, with a suggestion.
fn reject<T>(value: &Cursor<'_>, text: &str, error: &GrokError) -> Checked<T> {
    // The mistake may be in a custom pattern to which this one refers.
    let offset = error.found.as_ref().and_then(|found| text.find(found));
    let index = offset.map(|offset| text[..offset].chars().count());
    let span = index.map(|index| value.context.report.character_in(value.node, text, index));
    let at = Code::InvalidPattern.at_span(span.unwrap_or(value.node.span));
    value.reject_coded(at, error.to_string(), &error.help)
}

#[cfg(test)]
mod tests;
