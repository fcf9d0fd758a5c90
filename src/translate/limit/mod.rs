//! Size limit of a success: omits whole rows or lines at the end, and adds a note with their number and the
//! arguments that request them.

#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use minijinja::Value as TemplateValue;
use serde_json::{Map, Value, json};
use settings_derive::Section;

use super::content::{RenderedBlock, TextKind};
use super::expressions::{ArgumentKind, Scope};
use super::fields::path_steps;
use super::output_schema::OutputSchema;
use super::response_view::ResponseView;
use super::template::{Template, TemplateBudget, TemplateError, from_json};
use super::work_budget::WorkBudget;
use crate::model::StructuredContentSupport::ObjectsOnly;
use crate::model::{BlockText, Content, ContentBlock, JsonText, Structured};
use crate::settings::suggest::quoted;
use crate::settings::{Checked, Cursor, OpenSection, Setting, parsed_settings, text_of};

/// Key in the `_meta` of a result: numbers of the shown and the omitted rows or lines.
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
    /// If the structured content is itself a list or a text, the default is its items or lines.
    pub path: Option<ListPath>,
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
        if section.entry(ROWS).is_none() && section.entry("characters").is_none() {
            let help = "write `rows: 50`, or `characters: 20000`";
            return Err(section.missing("`limit` limits nothing".to_owned(), help));
        }
        Ok(())
    }

    /// Truncates the structured content to as many rows as fit, and returns a description of the omitted
    /// part. The content is unchanged if all rows fit.
    ///
    /// With `is_pretty`, the rule shows the content as indented JSON, whose length is measured.
    ///
    /// # Errors
    ///
    /// A message for the client, if the structured content can't be shortened to fit.
    pub(super) fn truncate_structured(
        &self,
        structured: Structured,
        output: Option<(&OutputSchema, Option<&WorkBudget>)>,
        args: &Value,
        is_pretty: bool,
    ) -> Result<(Structured, Option<OmittedPart>), String> {
        /// Length of `{"result":}` around a value that is not an object.
        const WRAPPING: usize = 11;
        let is_wrapped = structured.is_wrapped(ObjectsOnly);
        let length = |structured: &Structured| match is_pretty {
            true => super::content::pretty(structured).chars().count(),
            false => structured.json.as_str().chars().count() + if is_wrapped { WRAPPING } else { 0 },
        };
        let fits = |structured: &Structured| self.characters.is_none_or(|max| length(structured) <= max);
        let fits_unchanged = fits(&structured);
        if self.rows.is_none() && fits_unchanged {
            return Ok((structured, None));
        }
        let rebuild = |value: &Value| structured.with_json(JsonText::from_value(value));
        let mut value = structured.json.parse();
        let full = if fits_unchanged { structured.clone() } else { rebuild(&value) };
        let path = self.list_in(&value, is_wrapped);
        let rows = path.as_ref().map(|path| ListRows::take(&mut value, path)).unwrap_or_default();
        let (path, total) = (path.unwrap_or_default(), rows.items.len());
        let max_rows = total.min(self.rows.unwrap_or(usize::MAX));
        if max_rows == total && fits(&full) {
            return Ok((full, None));
        }
        let max_characters = self.characters.unwrap_or(usize::MAX);
        let mut with_rows = |count: usize| {
            if let Some(list) = at_mut(&mut value, &path) {
                *list = rows.first(count);
            }
            rebuild(&value)
        };
        // Find the rows that fit as compact JSON first. Indented JSON is longer, so fewer rows may fit.
        let without_rows = with_rows(0);
        let characters_for_rows = max_characters.saturating_sub(length(&without_rows));
        let mut shown = self.characters.map_or(max_rows, |_| rows.fitting(characters_for_rows).min(max_rows));
        let mut truncated = with_rows(shown);
        if !fits(&truncated) {
            let counts: Vec<usize> = (1..shown).collect();
            shown = counts.partition_point(|count| fits(&with_rows(*count)));
            truncated = with_rows(shown);
        }
        if shown == 0 {
            return Err(too_long(&match total > 0 && fits(&without_rows) {
                true => format!("its first row alone is over the limit of {max_characters} characters"),
                false => format!(
                    "it has {} characters, the limit is {max_characters}, and fewer rows do not make it \
                     fit{}",
                    length(&full),
                    if self.path.is_none() {
                        "; the operator of this tool can set `limit.path` to a long text"
                    } else {
                        ""
                    }
                ),
            }));
        }
        let unit = if rows.is_text { LINES } else { ROWS };
        let truncated = match output {
            None => truncated,
            Some((output, work_budget)) => {
                output.enforce(truncated.json.parse(), None, work_budget).map_err(|error| {
                    let amount = format!("{shown} of {total} {unit}");
                    format!("The result is too long, and can't be cut to {amount}: {error}. Request less.")
                })?
            }
        };
        let paging = self.more.as_ref().filter(|_| !rows.is_text);
        let next = paging.map(|paging| paging.next(args, shown, &self.text_arguments)).unwrap_or_default();
        Ok((truncated, Some(OmittedPart { unit, shown, total, text: None, next })))
    }

    /// Truncates the text blocks to as many lines as fit, and returns a description of the omitted part. A
    /// block with the structured content as JSON stays: [`Self::truncate_structured`] has shortened it.
    ///
    /// # Errors
    ///
    /// A message for the client, if the first line alone is too long.
    pub(super) fn truncate_texts(
        &self,
        blocks: Vec<RenderedBlock>,
    ) -> Result<(Vec<Content>, Option<OmittedPart>), String> {
        let mut remaining = self.characters.unwrap_or(usize::MAX);
        let (mut content, mut shown, mut total) = (Vec::new(), 0, 0);
        let mut is_full = false;
        for block in blocks {
            let is_own_text =
                matches!(block.content.block, ContentBlock::Text(_)) && block.text != TextKind::Json;
            let text = block.content.block.text(None).filter(|_| is_own_text).unwrap_or_default();
            let max_lines = self.rows.filter(|_| block.text == TextKind::Verbatim).unwrap_or(usize::MAX);
            let (mut end, mut shown_count) = (0, 0);
            for line in text.split_inclusive('\n') {
                total += 1;
                if shown_count == max_lines {
                    continue;
                }
                // After a line that does not fit, no other line is shown, in this block and in later blocks.
                is_full |= line.trim_end_matches('\n').chars().count() > remaining;
                if !is_full {
                    shown_count += 1;
                    end += line.len();
                    remaining = remaining.saturating_sub(line.chars().count());
                }
            }
            shown += shown_count;
            if end == text.len() {
                content.push(block.content);
            } else if shown_count > 0 {
                let truncated = text[..end].trim_end_matches('\n').to_owned();
                content.push(Content {
                    block: ContentBlock::Text(BlockText::Plain(truncated)),
                    ..block.content
                });
            }
        }
        if total > 0 && shown == 0 {
            let characters = self.characters.unwrap_or_default();
            return Err(too_long(&format!(
                "its first line alone is over the limit of {characters} characters"
            )));
        }
        let omitted =
            (shown < total).then(|| OmittedPart { unit: LINES, shown, total, text: None, next: Map::new() });
        Ok((content, omitted))
    }

    /// Path of the list to truncate in a value: the configured path, or the path of the longest list.
    fn list_in(&self, value: &Value, is_wrapped: bool) -> Option<Vec<String>> {
        match &self.path {
            // For clients, a wrapped value is under `result`, so the configured path may begin with `result`.
            Some(path) if is_wrapped && path.0.first().is_some_and(|name| name == "result") => {
                Some(path.0[1..].to_vec())
            }
            Some(path) => Some(path.0.clone()),
            None if value.is_array() || value.is_string() => Some(Vec::new()),
            None => longest_list(value).map(|(_, path)| path),
        }
    }
}

fn too_long(reason: &str) -> String {
    format!("The result is too long: {reason}. Request less, if the arguments allow it.")
}

/// Reads the template of a note, whose variables are `limit` and `args` only.
fn read_note(value: &Cursor<'_>) -> Checked<Option<Template>> {
    Scope::from_cursor(value).with_own_captures(|| {
        Scope::from_cursor(value).with_names(&["limit", "args"], || Template::read(value).map(Some))
    })
}

/// Numbers of shown and of all rows or lines of a truncated result, and the arguments for the next part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::translate) struct OmittedPart {
    pub(super) unit: &'static str,
    pub(super) shown: usize,
    pub(super) total: usize,
    /// Number of shown lines and number of all lines of text, if the text was shortened, too.
    pub(super) text: Option<(usize, usize)>,
    /// Arguments that request the next part.
    pub(super) next: Map<String, Value>,
}

impl fmt::Display for OmittedPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, shown, total, text, next } = self;
        let of_text = text.map(|(lines, all)| format!(" and {lines} of {all} lines of text"));
        write!(formatter, "{shown} of {total} {unit}{} are shown.", of_text.unwrap_or_default())?;
        if next.is_empty() {
            return Ok(());
        }
        let next: Vec<_> = next.iter().map(|(name, value)| format!("`{name}`: {value}")).collect();
        write!(formatter, " For the next part, call again with {}.", next.join(", "))
    }
}

impl OmittedPart {
    /// Adds the omitted part of the text blocks, so that one note describes both.
    pub(in crate::translate) fn and_text(mut self, text: &Self) -> Self {
        let is_same = (self.unit, self.shown, self.total) == (text.unit, text.shown, text.total);
        self.text = (!is_same).then_some((text.shown, text.total));
        self
    }

    /// Returns the `_meta` of the result, for programs.
    pub(in crate::translate) fn meta(&self) -> Value {
        let Self { unit, shown, total, text, next } = self;
        let mut meta = json!({ "unit": unit, "shown": shown, "omitted": total - shown, "total": total });
        if let Some((shown, total)) = text {
            meta["text"] = json!({ "unit": LINES, "shown": shown, "omitted": total - shown, "total": total });
        }
        if !next.is_empty() {
            meta["next"] = Value::Object(next.clone());
        }
        meta
    }

    /// Returns the note for people and models: the rule's own, or a default sentence.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if the rule's note can't be rendered.
    pub(in crate::translate) fn note(
        &self,
        limit: &Limit,
        view: &ResponseView<'_>,
    ) -> Result<String, TemplateError> {
        let Some(template) = &limit.note else { return Ok(self.to_string()) };
        let Self { unit, shown, total, text: _, next } = self;
        let numbers =
            json!({ "unit": unit, "shown": shown, "omitted": total - shown, "total": total, "next": next });
        let variables =
            TemplateValue::from_pairs([("limit", from_json(&numbers)), ("args", from_json(view.input.args))]);
        template.render_within(&variables, &TemplateBudget::new(view.input.work_budget))
    }
}

/// Path of a list: names of members, `.hosts` or `.data."my rows"` as in jq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPath(pub Vec<String>);

parsed_settings! {
    ListPath = Text, "write `.rows`, or `.data.rows`";
}

impl FromStr for ListPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || {
            format!("expected the path of a list, such as `.hosts` or `.data.rows`, found {}", quoted(text))
        };
        let path = text.trim().strip_prefix('.').ok_or_else(error)?;
        let names = if path.is_empty() { Vec::new() } else { path_steps(path).map_err(|_| error())? };
        let is_plain = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let is_quoted = |name: &String| path.contains(&format!("\"{name}\""));
        let is_valid = names.iter().all(|name| is_plain(name) || is_quoted(name));
        if is_valid { Ok(Self(names)) } else { Err(error()) }
    }
}

/// Rows of a list, or lines of a text.
#[derive(Default)]
struct ListRows {
    items: Vec<Value>,
    is_text: bool,
}

impl ListRows {
    /// Takes the rows out of a value. Empty if the value at `path` is neither a list nor a string.
    fn take(value: &mut Value, path: &[String]) -> Self {
        match at_mut(value, path).map(Value::take) {
            Some(Value::Array(items)) => Self { items, is_text: false },
            Some(Value::String(text)) => {
                Self { items: text.split_inclusive('\n').map(Value::from).collect(), is_text: true }
            }
            _ => Self::default(),
        }
    }

    /// Returns the first `count` rows, as a value.
    fn first(&self, count: usize) -> Value {
        let items = &self.items[..count];
        match self.is_text {
            true => items.iter().filter_map(Value::as_str).collect::<String>().into(),
            false => items.to_vec().into(),
        }
    }

    /// Maximum number of rows that, as compact JSON, add at most `characters` to the value without rows.
    fn fitting(&self, characters: usize) -> usize {
        /// One pair of quotes encloses all lines of a text.
        const QUOTES: usize = 2;
        let mut remaining = characters;
        let take_row = |(index, row): (usize, &Value)| {
            let length = JsonText::from_value(row).as_str().chars().count();
            // The first row has no comma before it.
            let added = if self.is_text { length - QUOTES } else { length + usize::from(index > 0) };
            remaining = remaining.checked_sub(added)?;
            Some(())
        };
        self.items.iter().enumerate().map_while(take_row).count()
    }
}

fn at_mut<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

/// Longest list that is reachable through objects only; the first one if several have that length.
fn longest_list(value: &Value) -> Option<(usize, Vec<String>)> {
    let lists = value.as_object()?.iter().filter_map(|(name, member)| {
        let (length, mut path) = match member {
            Value::Array(rows) => (rows.len(), Vec::new()),
            other => longest_list(other)?,
        };
        path.insert(0, name.clone());
        Some((length, path))
    });
    lists.reduce(|best, other| if other.0 > best.0 { other } else { best })
}

/// Arguments for paging through rows: `offset`, or `page` with `size`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Section)]
#[section(id = "more", check_keys = Self::check_keys)]
pub struct PagingArguments {
    /// Argument with the number of rows to skip.
    #[key(with = count_argument)]
    pub offset: Option<String>,
    /// Argument with the page number.
    #[key(conflicts = "offset", with = count_argument)]
    pub page: Option<String>,
    // The page size of the next request is the number of shown rows, so that no row is skipped.
    /// Argument with the number of rows per page.
    #[key(conflicts = "offset", with = count_argument)]
    pub size: Option<String>,
    /// Number of the first row or page. Default 0 for `offset`, 1 for `page`.
    #[key(range = 0..=1)]
    pub first: Option<u64>,
}

impl PagingArguments {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let is_there = |name| section.entry(name).is_some();
        let (message, help) = match (is_there("offset"), is_there("page"), is_there("size")) {
            (true, ..) | (false, true, true) => return Ok(()),
            (false, true, false) => (
                "`page` has no `size` beside it",
                "name the argument that says how many rows a page has: the next page of the same size \
                 would pass over the rows that were omitted",
            ),
            (false, false, _) => (
                "`more` has neither `offset` nor `page`",
                "write `more: { offset: start }`, the name of an argument",
            ),
        };
        Err(section.missing(message.to_owned(), help))
    }

    /// Names of the paging arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &String> {
        [&self.offset, &self.page, &self.size].into_iter().flatten()
    }

    /// Returns the arguments that request the rows after the shown ones.
    fn next(&self, args: &Value, shown: usize, texts: &[String]) -> Map<String, Value> {
        let shown = shown as u64;
        // An argument without a type may be a string. A string that is not a number has no next value.
        let current = |name: &str, first: u64| match args.get(name) {
            None | Some(Value::Null) => Some(first),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(other) => other.as_u64(),
        };
        let Self { offset, page, size, first } = self;
        let first = first.unwrap_or(u64::from(page.is_some()));
        let next = || match (offset, page, size) {
            (Some(offset), ..) => Some(vec![(offset, current(offset, first)?.checked_add(shown)?)]),
            (None, Some(page), Some(size)) => {
                let pages_before = current(page, first)?.checked_sub(first)?;
                // Without a page size, the number of rows on earlier pages is unknown, except for the
                // first page.
                let page_size =
                    if pages_before == 0 { 0 } else { current(size, 0).filter(|size| *size > 0)? };
                let rows_seen = pages_before.checked_mul(page_size)?.checked_add(shown)?;
                Some(vec![(page, first + rows_seen.checked_div(shown)?), (size, shown)])
            }
            (None, ..) => None,
        };
        // The value must match the tool's input schema.
        let is_text = |name: &String| texts.contains(name) || args.get(name).is_some_and(Value::is_string);
        let to_argument = |(name, value): (&String, u64)| match is_text(name) {
            true => (name.clone(), Value::String(value.to_string())),
            false => (name.clone(), value.into()),
        };
        next().into_iter().flatten().map(to_argument).collect()
    }
}

/// Reads the name of an argument that counts rows or pages.
fn count_argument(value: &Cursor<'_>) -> Checked<Option<String>> {
    let name = text_of(value)?;
    Scope::from_cursor(value).used.borrow_mut().add_kind(name, ArgumentKind::Count, value.node.span);
    Ok(Some(name.to_owned()))
}
