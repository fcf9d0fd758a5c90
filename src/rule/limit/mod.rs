//! A result short enough for a model: whole rows, or whole lines, are left out at the end, and it is said how many.

mod cut;
mod more;
mod rows;

use serde_json::{Map, Value};

pub(super) use self::cut::Cut;
use self::rows::{Rows, at_mut, longest_list};
pub use self::{
    more::More,
    rows::{ListPath, ListPathError},
};
use super::{
    content::{Shown, TextKind},
    output::OutputSchema,
    stop::Stop,
    template::Template,
};
use crate::tool::{Block, Content, JsonText, Shapes, Structured, Text};

/// Where the numbers of what was left out stand in the `_meta` of a result.
pub const LIMIT_META_KEY: &str = "glossator/limit";

const ROWS: &str = "rows";
const LINES: &str = "lines";

/// How much of a success is shown.
#[derive(Debug, Default)]
pub struct Limit {
    /// How many rows of the list.
    pub rows: Option<usize>,
    /// How long the structure may be as JSON text, and how long all other text together, in characters.
    pub characters: Option<usize>,
    /// Where the list is; the structure itself where it is one, else the longest list in it, where there is none.
    pub of: Option<ListPath>,
    /// What is said of what was left out.
    pub note: Option<Template>,
    /// How a client asks for the rest.
    pub more: Option<More>,
    /// Which arguments of `more` are texts: those that the tool's input schema wants as one.
    pub text_arguments: Vec<String>,
}

impl Limit {
    /// The structure with as many rows as fit, and what was left out; as it is when it fits.
    ///
    /// `pretty` is for a rule that shows it with a line per member, which is what is measured then.
    ///
    /// # Errors
    ///
    /// A sentence for the client, when nothing can be left out that would make it fit.
    pub(super) fn structure(
        &self,
        structured: Structured,
        output: Option<(&OutputSchema, Option<&Stop>)>,
        args: &Value,
        pretty: bool,
    ) -> Result<(Structured, Option<Cut>), String> {
        /// `{"result":}` round a value that is no object.
        const WRAPPING: usize = 11;
        let quick = structured.json().as_str().len() + WRAPPING;
        if self.rows.is_none() && !pretty && self.characters.is_none_or(|most| quick <= most) {
            return Ok((structured, None));
        }
        let remade = |value: &Value| structured.with_json(JsonText::of(value));
        let length = |structured: &Structured| match pretty {
            true => super::content::pretty(structured).chars().count(),
            false => {
                let wrapping = if structured.is_wrapped(Shapes::ObjectsOnly) { WRAPPING } else { 0 };
                structured.json().as_str().chars().count() + wrapping
            }
        };
        let fits = |structured: &Structured| self.characters.is_none_or(|most| length(structured) <= most);
        let mut value = structured.json().parse();
        let whole = if fits(&structured) { structured.clone() } else { remade(&value) };
        let path = self.list_in(&value, structured.is_wrapped(Shapes::ObjectsOnly));
        let mut rows = path.as_ref().and_then(|path| Rows::take(&mut value, path)).unwrap_or(Rows::None);
        let path = path.unwrap_or_default();
        let total = rows.len();
        let most = total.min(self.rows.unwrap_or(usize::MAX));
        if most == total && fits(&whole) {
            return Ok((whole, None));
        }
        let put = |rows: &mut Rows, count: usize, value: &mut Value| {
            if let Some(place) = at_mut(value, &path) {
                *place = rows.first(count);
            }
        };
        // How many fit is counted by the length of each, and tried: all of it is written down twice or three times, not
        // once for every step of a search.
        let room = self.characters.unwrap_or(usize::MAX);
        put(&mut rows, 0, &mut value);
        let counted = match self.characters {
            None => most,
            Some(room) => {
                let depth = path.len() + usize::from(structured.is_wrapped(Shapes::ObjectsOnly));
                rows.fitting(room.saturating_sub(length(&remade(&value))), pretty.then_some(depth)).min(most)
            }
        };
        let (mut least, mut beyond) = (0, most + 1);
        let (mut best, mut guess) = (None, Some(counted));
        while least < beyond {
            let count = guess.take().filter(|guess| (least..beyond).contains(guess));
            let count = count.unwrap_or(least + (beyond - least) / 2);
            put(&mut rows, count, &mut value);
            let tried = remade(&value);
            if fits(&tried) {
                best = Some((count, tried));
                least = count + 1;
                guess = (count == counted).then_some(count + 1);
            } else {
                beyond = count;
            }
        }
        let (shown, cut) = match best {
            Some((shown, cut)) if shown > 0 => (shown, cut),
            Some(_) if total > 0 => {
                return Err(format!(
                    "The result is too long: its first row alone takes it over the limit of {room} characters. Ask \
                     for less, if the arguments allow it."
                ));
            }
            Some(_) | None => {
                let found = length(&whole);
                return Err(format!(
                    "The result is too long: it has {found} characters, this tool gives at most {room}, and leaving \
                     rows out does not make it fit. Ask for less, if the arguments allow it."
                ));
            }
        };
        let cut = match output {
            None => cut,
            Some((output, stop)) => output.enforce(cut.json().parse(), None, stop).map_err(|why| {
                format!(
                    "The result is too long, and can't be cut to {shown} of {total} {}: {why}. Ask for less.",
                    rows.unit()
                )
            })?,
        };
        let next = match &self.more {
            Some(more) if rows.unit() == ROWS => more.next(args, shown, &self.text_arguments),
            Some(_) | None => Map::new(),
        };
        Ok((cut, Some(Cut { unit: rows.unit(), shown, total, text: None, next })))
    }

    /// The blocks with as many lines of text as fit, and what was left out. JSON of the structure is left alone: it
    /// was shortened with that.
    ///
    /// # Errors
    ///
    /// A sentence for the client, when one line alone is too long.
    pub(super) fn texts(&self, blocks: Vec<Shown>) -> Result<(Vec<Content>, Option<Cut>), String> {
        let mut room = self.characters.unwrap_or(usize::MAX);
        let (mut content, mut shown, mut total) = (Vec::new(), 0, 0);
        let (mut any_text, mut full) = (false, false);
        for block in blocks {
            let text = match &block.content.block {
                Block::Text(text) if block.text != TextKind::Json => match text {
                    Text::Plain(text) | Text::Error(text) => text.as_str(),
                    Text::Shared(text) => text,
                    Text::OfStructure => "",
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
            let (mut end, mut kept) = (0, 0);
            for line in text.split_inclusive('\n') {
                total += 1;
                if kept == most_lines {
                    continue;
                }
                // Of what follows a line that does not fit, in this block and in others, nothing is shown.
                full |= line.trim_end_matches('\n').chars().count() > room;
                if !full {
                    kept += 1;
                    end += line.len();
                    room = room.saturating_sub(line.chars().count());
                }
            }
            shown += kept;
            any_text |= kept > 0;
            if end == text.len() {
                content.push(block.content);
            } else if kept > 0 {
                let cut = text[..end].trim_end_matches('\n').to_owned();
                content.push(Content { block: Block::Text(Text::Plain(cut)), ..block.content });
            }
        }
        if total > 0 && !any_text {
            let characters = self.characters.unwrap_or_default();
            return Err(format!(
                "The result is too long: its first line alone is over the limit of {characters} characters. Ask for \
                 less, if the arguments allow it."
            ));
        }
        let cut = (shown < total).then(|| Cut { unit: LINES, shown, total, text: None, next: Map::new() });
        Ok((content, cut))
    }

    /// The way to the list in a value.
    fn list_in(&self, value: &Value, wrapped: bool) -> Option<Vec<String>> {
        match &self.of {
            // Clients see the value under `result`, and so may the rule's author.
            Some(path) if wrapped && path.names().first().is_some_and(|name| name == "result") => {
                Some(path.names()[1..].to_vec())
            }
            Some(path) => Some(path.names().to_vec()),
            None if value.is_array() || value.is_string() => Some(Vec::new()),
            None => longest_list(value).map(|(_, path)| path),
        }
    }
}

#[cfg(test)]
mod tests;
