//! Size limit of a success: omits whole rows or lines at the end, and adds a note with their number and the
//! arguments that request them.

mod more;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use minijinja::Value as Name;
use serde::Serialize;
use serde_json::{Map, Value, json};
use settings_derive::Section;

use super::{
    content::{RenderedBlock, TextKind},
    output_schema::OutputSchema,
    response_view::ResponseView,
    scope::Scope,
    template::{Template, TemplateBudget, from_json},
    work_budget::WorkBudget,
};
use crate::{
    model::{
        BlockText, Content, ContentBlock, JsonText, LimitedWriter, Structured, StructuredContentSupport,
    },
    settings::{
        section::{Checked, Cursor, OpenSection, Setting},
        suggest::quoted,
        value::parsed_settings,
    },
};

pub use more::PagingArguments;

/// Key in the `_meta` of a result: the numbers of shown and omitted rows or lines.
pub const LIMIT_META_KEY: &str = "glossator/limit";

const ROWS: &str = "rows";
const LINES: &str = "lines";

/// Limit of the size of a success.
#[derive(Debug, Default, Section)]
#[section(id = "limit", check_keys = Self::check_keys)]
pub struct Limit {
    /// Maximum number of rows of the list.
    #[key(range = 1..=100_000)]
    pub rows: Option<usize>,
    /// Maximum length of the structured content as JSON, and of all other text together, in characters.
    #[key(range = 100..=100_000_000)]
    pub characters: Option<usize>,
    /// Path of the list, such as `.data.rows`. Default: the longest list in the structured content.
    ///
    /// The structured content itself, if it is a list.
    #[key(name = "path")]
    pub of: Option<ListPath>,
    /// Note about the omitted rest: a template of `limit` and `args`.
    #[key(with = read_note)]
    pub note: Option<Template>,
    /// Arguments with which the client can request the rest.
    pub more: Option<PagingArguments>,
    /// Arguments of `more` that are strings in the tool's input schema.
    #[key(skip)]
    pub text_arguments: Vec<String>,
}

impl Limit {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        match (section.entry(ROWS), section.entry("characters")) {
            (None, None) => {
                let help = "write `rows: 50`, or `characters: 20000`";
                Err(section.missing("`limit` limits nothing".to_owned(), help))
            }
            _ => Ok(()),
        }
    }

    /// Truncates the structured content to as many rows as fit, and returns the cut; unchanged if all fit.
    ///
    /// `pretty` is set if the rule shows it as indented JSON; then that length is measured.
    ///
    /// # Errors
    ///
    /// A sentence for the client, if it can't be shortened to fit.
    pub(super) fn structure(
        &self,
        structured: Structured,
        output: Option<(&OutputSchema, Option<&WorkBudget>)>,
        args: &Value,
        pretty: bool,
    ) -> Result<(Structured, Option<OmittedPart>), String> {
        /// Length of `{"result":}` around a value that is not an object.
        const WRAPPING: usize = 11;
        let quick = structured.json().as_str().len() + WRAPPING;
        if self.rows.is_none() && !pretty && self.characters.is_none_or(|most| quick <= most) {
            return Ok((structured, None));
        }
        let remade = |value: &Value| structured.with_json(JsonText::from_value(value));
        let length = |structured: &Structured| match pretty {
            true => super::content::pretty(structured).chars().count(),
            false => {
                let wrapping =
                    if structured.is_wrapped(StructuredContentSupport::ObjectsOnly) { WRAPPING } else { 0 };
                structured.json().as_str().chars().count() + wrapping
            }
        };
        let fits = |structured: &Structured| self.characters.is_none_or(|most| length(structured) <= most);
        let mut value = structured.json().parse();
        let whole = if fits(&structured) { structured.clone() } else { remade(&value) };
        let path = self.list_in(&value, structured.is_wrapped(StructuredContentSupport::ObjectsOnly));
        let rows = path.as_ref().and_then(|path| Rows::take(&mut value, path)).unwrap_or(Rows::None);
        let path = path.unwrap_or_default();
        let total = rows.len();
        let most = total.min(self.rows.unwrap_or(usize::MAX));
        if most == total && fits(&whole) {
            return Ok((whole, None));
        }
        let remaining = self.characters.unwrap_or(usize::MAX);
        let depth = pretty
            .then(|| path.len() + usize::from(structured.is_wrapped(StructuredContentSupport::ObjectsOnly)));
        let mut with_rows = |count: usize| {
            if let Some(place) = at_mut(&mut value, &path) {
                *place = rows.first(count);
            }
            remade(&value)
        };
        // The number of rows that fit is computed from their lengths. Trying each number would serialize all
        // rows repeatedly; this serializes them two or three times.
        let without_rows = with_rows(0);
        let mut shown = match self.characters {
            None => most,
            Some(remaining) => rows.fitting(remaining.saturating_sub(length(&without_rows)), depth).min(most),
        };
        let mut cut = with_rows(shown);
        while shown > 0 && !fits(&cut) {
            // A deeply nested value is compact while it has few members, so its computed length may be too
            // short.
            shown /= 2;
            cut = with_rows(shown);
        }
        if shown == 0 && total > 0 && fits(&without_rows) {
            return Err(format!(
                "The result is too long: its first row alone is over the limit of {remaining} characters. \
                 Request less, if the arguments allow it."
            ));
        }
        if shown == 0 {
            let found = length(&whole);
            return Err(format!(
                "The result is too long: it has {found} characters, the limit is {remaining}, and fewer rows do \
                 not make it fit. Request less, if the arguments allow it."
            ));
        }
        let cut = match output {
            None => cut,
            Some((output, stop)) => output.enforce(cut.json().parse(), None, stop).map_err(|why| {
                format!(
                    "The result is too long, and can't be cut to {shown} of {total} {}: {why}. Request less.",
                    rows.unit()
                )
            })?,
        };
        let next = match &self.more {
            Some(more) if rows.unit() == ROWS => more.next(args, shown, &self.text_arguments),
            Some(_) | None => Map::new(),
        };
        Ok((cut, Some(OmittedPart { unit: rows.unit(), shown, total, text: None, next })))
    }

    /// Truncates the text blocks to as many lines as fit, and returns the cut. JSON of the structured content
    /// is unchanged here: it was shortened with that.
    ///
    /// # Errors
    ///
    /// A sentence for the client, if the first line alone is too long.
    pub(super) fn texts(
        &self,
        blocks: Vec<RenderedBlock>,
    ) -> Result<(Vec<Content>, Option<OmittedPart>), String> {
        let mut remaining = self.characters.unwrap_or(usize::MAX);
        let (mut content, mut shown, mut total) = (Vec::new(), 0, 0);
        let (mut any_text, mut full) = (false, false);
        for block in blocks {
            let text = match &block.content.block {
                ContentBlock::Text(text) if block.text != TextKind::Json => match text {
                    BlockText::Plain(text) | BlockText::Error(text) => text.as_str(),
                    BlockText::Shared(text) => text,
                    BlockText::StructuredContent => "",
                },
                _ => "",
            };
            if text.is_empty() {
                content.push(block.content);
                continue;
            }
            let most_lines = match (block.text, self.rows) {
                (TextKind::Verbatim, Some(rows)) => rows,
                _ => usize::MAX,
            };
            let (mut end, mut shown_count) = (0, 0);
            for line in text.split_inclusive('\n') {
                total += 1;
                if shown_count == most_lines {
                    continue;
                }
                // After a line that does not fit, nothing else is shown, in this block and in later ones.
                full |= line.trim_end_matches('\n').chars().count() > remaining;
                if !full {
                    shown_count += 1;
                    end += line.len();
                    remaining = remaining.saturating_sub(line.chars().count());
                }
            }
            shown += shown_count;
            any_text |= shown_count > 0;
            if end == text.len() {
                content.push(block.content);
            } else if shown_count > 0 {
                let cut = text[..end].trim_end_matches('\n').to_owned();
                content.push(Content { block: ContentBlock::Text(BlockText::Plain(cut)), ..block.content });
            }
        }
        if total > 0 && !any_text {
            let characters = self.characters.unwrap_or_default();
            return Err(format!(
                "The result is too long: its first line alone is over the limit of {characters} \
                 characters. Request less, if the arguments allow it."
            ));
        }
        let cut =
            (shown < total).then(|| OmittedPart { unit: LINES, shown, total, text: None, next: Map::new() });
        Ok((content, cut))
    }

    /// The path of the list in a value.
    fn list_in(&self, value: &Value, wrapped: bool) -> Option<Vec<String>> {
        match &self.of {
            // Clients see the value under `result`, so the rule's path may begin with it.
            Some(path) if wrapped && path.names().first().is_some_and(|name| name == "result") => {
                Some(path.names()[1..].to_vec())
            }
            Some(path) => Some(path.names().to_vec()),
            None if value.is_array() || value.is_string() => Some(Vec::new()),
            None => longest_list(value).map(|(_, path)| path),
        }
    }
}

/// Reads the template of a note, whose variables are `limit` and `args` only.
fn read_note(value: &Cursor<'_>) -> Checked<Option<Template>> {
    Scope::from_cursor(value).with_own_captures(|| {
        Scope::from_cursor(value).with_names(&["limit", "args"], || Template::read(value).map(Some))
    })
}

/// Description of the omitted part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::translate) struct OmittedPart {
    pub(super) unit: &'static str,
    pub(super) shown: usize,
    pub(super) total: usize,
    /// Number of shown lines and of all lines of text, if the text was cut, too.
    pub(super) text: Option<(usize, usize)>,
    /// Arguments that request the next part.
    pub(super) next: Map<String, Value>,
}

impl fmt::Display for OmittedPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, shown, total, text, next } = self;
        match text {
            Some((lines, all)) => {
                write!(formatter, "{shown} of {total} {unit} and {lines} of {all} lines of text are shown.")?;
            }
            None => write!(formatter, "{shown} of {total} {unit} are shown.")?,
        }
        if next.is_empty() {
            return Ok(());
        }
        let next: Vec<_> = next.iter().map(|(name, value)| format!("`{name}`: {value}")).collect();
        write!(formatter, " For the next part, call again with {}.", next.join(", "))
    }
}

impl OmittedPart {
    /// Adds the cut of the text beside it; one note describes both.
    pub(in crate::translate) fn and_text(mut self, text: &Self) -> Self {
        let is_said = (self.unit, self.shown, self.total) == (text.unit, text.shown, text.total);
        self.text = (!is_said).then_some((text.shown, text.total));
        self
    }

    /// For programs: the `_meta` of the result.
    pub(in crate::translate) fn meta(&self) -> Value {
        let Self { unit, shown, total, text, next } = self;
        let mut meta = json!({ "unit": unit, "shown": shown, "leftOut": total - shown, "total": total });
        if let Some((shown, total)) = text {
            meta["text"] = json!({ "unit": LINES, "shown": shown, "leftOut": total - shown, "total": total });
        }
        if !next.is_empty() {
            meta["next"] = Value::Object(next.clone());
        }
        meta
    }

    /// For people and models: the rule's note, or a default sentence.
    ///
    /// # Errors
    ///
    /// A sentence for the log, and the default note.
    pub(in crate::translate) fn note(
        &self,
        limit: &Limit,
        view: &ResponseView<'_>,
    ) -> Result<String, (String, String)> {
        let Some(template) = &limit.note else { return Ok(self.to_string()) };
        let Self { unit, shown, total, text: _, next } = self;
        let numbers =
            json!({ "unit": unit, "shown": shown, "left_out": total - shown, "total": total, "next": next });
        let names = Name::from_pairs([("limit", from_json(&numbers)), ("args", from_json(view.input.args))]);
        let budget = TemplateBudget::for_result().until(view.input.stop);
        template
            .render_within(&names, &budget)
            .map_err(|error| (format!("the template of `note` failed to render: {error}"), self.to_string()))
    }
}

/// Path of a list: names of members, `.hosts` or `.data."my rows"` as in jq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPath(Vec<String>);

/// Error for an invalid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the way to a list, such as `.hosts` or `.data.rows`, found {}", quoted(.0))]
pub struct ListPathError(String);

parsed_settings! {
    ListPath = Text, "write `.rows`, or `.data.rows`";
}

impl FromStr for ListPath {
    type Err = ListPathError;

    fn from_str(text: &str) -> Result<Self, ListPathError> {
        let wrong = || ListPathError(text.to_owned());
        let mut rest = text.trim().strip_prefix('.').ok_or_else(wrong)?;
        let mut names = Vec::new();
        while !rest.is_empty() {
            let (name, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(wrong)?,
                None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
            };
            let is_plain = |c: char| c.is_alphanumeric() || c == '_';
            if name.is_empty() || !(rest.starts_with('"') || name.chars().all(is_plain)) {
                return Err(wrong());
            }
            names.push(name.to_owned());
            rest = match after {
                "" => "",
                after => after.strip_prefix('.').filter(|rest| !rest.is_empty()).ok_or_else(wrong)?,
            };
        }
        Ok(Self(names))
    }
}

impl ListPath {
    /// The names of the path.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// The rows of a list, or the lines of a text.
enum Rows {
    List(Vec<Value>),
    Lines(Vec<String>),
    None,
}

impl Rows {
    /// Removes the rows from a value.
    fn take(value: &mut Value, path: &[String]) -> Option<Self> {
        match at_mut(value, path)?.take() {
            Value::Array(rows) => Some(Self::List(rows)),
            Value::String(text) => Some(Self::Lines(text.split_inclusive('\n').map(str::to_owned).collect())),
            other => {
                *at_mut(value, path)? = other;
                None
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::List(rows) => rows.len(),
            Self::Lines(lines) => lines.len(),
            Self::None => 0,
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Self::List(_) | Self::None => ROWS,
            Self::Lines(_) => LINES,
        }
    }

    /// The first `count` rows, as a value.
    fn first(&self, count: usize) -> Value {
        match self {
            Self::List(rows) => Value::Array(rows[..count].to_vec()),
            Self::Lines(lines) => Value::String(lines[..count].concat()),
            Self::None => Value::Null,
        }
    }

    /// The largest number of rows that add at most so many characters to the value without rows. `depth` is
    /// the nesting depth of the list, for indented JSON.
    fn fitting(&self, characters: usize, depth: Option<usize>) -> usize {
        /// Per level.
        const INDENTATION: usize = 2;
        let mut remaining = characters;
        let mut takes = |length: Option<usize>| {
            let left = length.and_then(|length| remaining.checked_sub(length));
            remaining = left.unwrap_or(remaining);
            left.is_some()
        };
        match self {
            Self::List(rows) => {
                let indentation = depth.map(|depth| (depth + 1) * INDENTATION);
                let length = |(index, row): (usize, &Value)| {
                    let row = bounded_json(row, depth.is_some(), characters)?;
                    let lines = row.matches('\n').count() + 1;
                    let before = indentation.map_or(0, |indentation| lines * indentation + 1);
                    // The first row has no comma before it; the closing bracket is on its own line.
                    let between = match (index, depth) {
                        (0, None) => 0,
                        (0, Some(depth)) => depth * INDENTATION + 1,
                        _ => 1,
                    };
                    Some(row.chars().count() + before + between)
                };
                rows.iter().enumerate().take_while(|row| takes(length(*row))).count()
            }
            Self::Lines(lines) => {
                // One pair of quotes encloses all lines.
                const QUOTES: usize = 2;
                let length = |line: &String| {
                    let line = bounded_json(line, false, characters.saturating_add(QUOTES))?;
                    Some(line.chars().count() - QUOTES)
                };
                lines.iter().take_while(|line| takes(length(line))).count()
            }
            Self::None => 0,
        }
    }
}

/// A row as JSON; `None` if it certainly exceeds this number of characters.
fn bounded_json(row: &impl Serialize, with_lines: bool, characters: usize) -> Option<String> {
    /// Longest UTF-8 encoding of a character, in bytes.
    const MAX_BYTES: usize = 4;
    let mut writer = LimitedWriter::new(characters.saturating_mul(MAX_BYTES));
    let written = match with_lines {
        true => serde_json::to_writer_pretty(&mut writer, row),
        false => serde_json::to_writer(&mut writer, row),
    };
    written.ok().and_then(|()| String::from_utf8(writer.into_bytes()).ok())
}

fn at_mut<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

/// The longest list that is reachable through objects only; the first of equal ones.
fn longest_list(value: &Value) -> Option<(usize, Vec<String>)> {
    let mut best: Option<(usize, Vec<String>)> = None;
    for (name, member) in value.as_object()? {
        let found = match member {
            Value::Array(rows) => Some((rows.len(), Vec::new())),
            Value::Object(_) => longest_list(member),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        if let Some((length, mut path)) = found
            && best.as_ref().is_none_or(|(longest, _)| length > *longest)
        {
            path.insert(0, name.clone());
            best = Some((length, path));
        }
    }
    best
}
