//! Options of the `grok` extractor, and reports of invalid patterns.

use settings_derive::Section;

use super::{GrokError, GrokPatterns};
use crate::settings::{Checked, Code, Cursor, Invalid, Setting, ValueKind, read_each, text_of};
use crate::translate::extract::records::Records;
use crate::translate::extract::regex::{CapturePattern, CapturePatterns, Regex, SearchScope};

/// Options of the `grok` extractor, which becomes a [`Regex`].
#[derive(Debug, Section)]
pub struct Grok {
    /// Grok pattern, with references to named patterns, `%{NAME:capture:type}`, or a list of them.
    #[key(with = read_pattern, example = "pattern: '%{IP:client} %{GREEDYDATA:message}'")]
    pattern: CapturePatterns,
    /// Custom patterns, by name.
    patterns: GrokPatterns,
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

fn read_pattern(value: &Cursor<'_>) -> Checked<CapturePatterns> {
    let own = value.sibling("patterns").and_then(|node| node.as_map()).unwrap_or_default();
    let own = own.iter().map(|entry| Some((entry.key.text.clone(), entry.value.as_text()?.to_owned())));
    let known = own.collect::<Option<_>>().map(GrokPatterns);
    let is_right = |known: &GrokPatterns| known.0.iter().all(|(_, text)| known.compile(text).is_ok());
    let Some(known) = known.filter(is_right) else {
        // `patterns` reports the invalid pattern; a pattern that refers to it is not a second problem.
        return Ok(CapturePatterns(Vec::new()));
    };
    CapturePatterns::read_with(value, |pattern| {
        let text = text_of(pattern)?;
        let captures = known.compile(text).or_else(|error| reject(pattern, text, &error))?;
        captures.check_names(pattern, "`%{IP:client}`")
    })
}

impl Setting for GrokPatterns {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Text);
    const ABSENT: Option<fn() -> Self> = Some(Self::default);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Some(entries) = value.node.as_map() else { return value.reject_kind("a map", None) };
        let own = entries.iter().map(|entry| {
            let name = &entry.key.text;
            let shown = format!("pattern `{name}`");
            let text = text_of(&value.member(entry, &shown, ValueKind::Text));
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                let message = format!("`{name}` can't be the name of a pattern");
                let help = "write letters, digits and `_`: `QUEUE_ID`";
                return value
                    .reject_at(entry.key.span, Invalid::new(message, help).with_code(Code::InvalidName));
            }
            Ok((name.clone(), text?.to_owned()))
        });
        let patterns = Self(read_each(own)?);
        let compiled = entries.iter().zip(&patterns.0).map(|(entry, (name, text))| {
            let value = value.member(entry, name, ValueKind::Text);
            patterns.compile(text).or_else(|error| reject(&value, text, &error)).map(|_| ())
        });
        read_each::<(), ()>(compiled).map(|()| patterns)
    }
}

/// Reports an invalid pattern at its position, with a suggestion.
fn reject(value: &Cursor<'_>, text: &str, error: &GrokError) -> Checked<CapturePattern> {
    // The mistake may be in a pattern to which this one refers.
    let at = error.found.as_ref().and_then(|found| text.find(found)).map(|at| text[..at].chars().count());
    let place = at.map(|at| value.context.report.character_in(value.node, text, at));
    let at = Code::InvalidPattern.at_span(place.unwrap_or(value.node.span));
    value.reject_coded(at, error.to_string(), &error.help)
}
