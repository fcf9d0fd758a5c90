//! A result short enough for a model: whole rows, or whole lines, are left out at the end, and it is said how many.

use std::{fmt, str::FromStr};

use minijinja::Value as Name;
use serde_json::{Map, Value, json};

use super::{
    content::{Shown, TextKind},
    output::OutputSchema,
    template::{Template, from_json},
};
use crate::tool::{Block, Content, JsonText, Shapes, Structured, Text};

/// Where the numbers of what was left out stand in the `_meta` of a result.
pub const LIMIT_META_KEY: &str = "glossator/limit";

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

/// The arguments by which a client asks for other rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum More {
    /// One that counts rows.
    Offset {
        /// Its name.
        argument: String,
        /// What it is for the first row.
        first: u64,
    },
    /// One that counts pages, and one that says how many rows a page has: with the size that is shown, no row is
    /// passed over.
    Page {
        /// Its name.
        argument: String,
        /// The name of the other.
        size: String,
        /// What it is for the first page.
        first: u64,
    },
}

/// The way to a list: names of members, as `.hosts` or `.data."my rows"` in jq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPath(Vec<String>);

/// Why a text is not such a way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the way to a list, such as `.hosts` or `.data.rows`, found `{0}`")]
pub struct ListPathError(String);

/// What was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    unit: &'static str,
    shown: usize,
    total: usize,
    /// How many lines of text are shown, and of how many, where that was cut as well.
    text: Option<(usize, usize)>,
    /// The arguments that give the rest.
    next: Map<String, Value>,
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
    /// The names on the way.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Cut {
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
        write!(formatter, " For the next, call again with {}.", next.join(", "))
    }
}

impl Cut {
    /// The same, with what was left out of the text beside it; there is one note of both.
    pub(super) fn and_text(mut self, text: &Self) -> Self {
        let is_said = (self.unit, self.shown, self.total) == (text.unit, text.shown, text.total);
        self.text = (!is_said).then_some((text.shown, text.total));
        self
    }

    /// For programs.
    pub(super) fn meta(&self) -> Value {
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

    /// For people and models: what the rule's template makes of it, else a sentence.
    ///
    /// # Errors
    ///
    /// A sentence for the log, and the note by default.
    pub(super) fn note(&self, limit: &Limit, args: &Value) -> Result<String, (String, String)> {
        let Some(template) = &limit.note else { return Ok(self.to_string()) };
        let Self { unit, shown, total, text: _, next } = self;
        let numbers =
            json!({ "unit": unit, "shown": shown, "left_out": total - shown, "total": total, "next": next });
        let names = Name::from_pairs([("limit", from_json(&numbers)), ("args", from_json(args))]);
        template.render(&names).map_err(|error| {
            (format!("the template of `note` could not be filled in: {error}"), self.to_string())
        })
    }
}

impl More {
    /// The names of its arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &String> {
        let (first, second) = match self {
            Self::Offset { argument, .. } => (argument, None),
            Self::Page { argument, size, .. } => (argument, Some(size)),
        };
        std::iter::once(first).chain(second)
    }

    /// The arguments that ask for what comes after the rows that are shown.
    fn next(&self, args: &Value, shown: usize, texts: &[String]) -> Map<String, Value> {
        let shown = shown as u64;
        // An argument may be a text, when nobody gave it a type; what is no number has no next.
        let current = |name: &str, first: u64| match args.get(name) {
            None | Some(Value::Null) => Some(first),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(other) => other.as_u64(),
        };
        let next = match self {
            Self::Offset { argument, first } => current(argument, *first)
                .and_then(|current| Some(vec![(argument.clone(), current.checked_add(shown)?)])),
            Self::Page { argument, size, first } => current(argument, *first).and_then(|page| {
                let before = page.checked_sub(*first)?;
                // Without a size nobody knows how many rows the pages before had, but for the first.
                let of_page = if before == 0 { 0 } else { current(size, 0).filter(|size| *size > 0)? };
                let seen = before.checked_mul(of_page)?.checked_add(shown)?;
                Some(vec![(argument.clone(), first + seen.checked_div(shown)?), (size.clone(), shown)])
            }),
        };
        // What is sent back must be what the input schema asks for.
        let is_text = |name: &String| texts.contains(name) || args.get(name).is_some_and(Value::is_string);
        let written = |(name, value): (String, u64)| match is_text(&name) {
            true => (name, Value::String(value.to_string())),
            false => (name, value.into()),
        };
        next.into_iter().flatten().map(written).collect()
    }
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
        output: Option<&OutputSchema>,
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
        // What the rows take at least bounds how many are tried; then the largest number that fits is searched for.
        let room = self.characters.unwrap_or(usize::MAX);
        let (mut least, mut beyond) = (0, rows.fitting(room).min(most) + 1);
        let mut best = None;
        while least < beyond {
            let count = least + (beyond - least) / 2;
            put(&mut rows, count, &mut value);
            let tried = remade(&value);
            if fits(&tried) {
                best = Some((count, tried));
                least = count + 1;
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
            Some(output) => output.enforce(cut.json().parse(), None).map_err(|why| {
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
                    Text::Shared(text) => text.as_str(),
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
            Some(ListPath(names)) if wrapped && names.first().is_some_and(|name| name == "result") => {
                Some(names[1..].to_vec())
            }
            Some(ListPath(names)) => Some(names.clone()),
            None if value.is_array() || value.is_string() => Some(Vec::new()),
            None => longest_list(value).map(|(_, path)| path),
        }
    }
}

const ROWS: &str = "rows";
const LINES: &str = "lines";

/// The rows of a list, or the lines of a text.
enum Rows {
    List(Vec<Value>),
    Lines(Vec<String>),
    None,
}

impl Rows {
    /// Takes the rows out of a value.
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

    /// The first rows, as a value.
    fn first(&self, count: usize) -> Value {
        match self {
            Self::List(rows) => Value::Array(rows[..count].to_vec()),
            Self::Lines(lines) => Value::String(lines[..count].concat()),
            Self::None => Value::Null,
        }
    }

    /// How many rows there can be at most in so many characters.
    fn fitting(&self, characters: usize) -> usize {
        let mut room = characters;
        let mut fits = |length: usize| {
            let left = room.checked_sub(length);
            room = left.unwrap_or(0);
            left.is_some()
        };
        match self {
            Self::List(rows) if characters < usize::MAX => {
                rows.iter().take_while(|row| fits(JsonText::of(row).as_str().chars().count())).count()
            }
            Self::Lines(lines) => lines.iter().take_while(|line| fits(line.chars().count())).count(),
            Self::List(rows) => rows.len(),
            Self::None => 0,
        }
    }
}

fn at_mut<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

/// The list with the most rows that objects alone lead to; the first of two alike.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn structured(value: &Value) -> Structured {
        Structured::new(JsonText::of(value))
    }

    #[track_caller]
    fn check(limit: &Limit, value: Value, expected: Result<(&str, Option<&str>), &str>) {
        let found =
            limit.structure(structured(&value), None, &json!({"start": 10, "page": "3", "per": 20}), false);
        match (found, expected) {
            (Ok((found, cut)), Ok((json, note))) => {
                assert_eq!(found.json().as_str(), json);
                assert_eq!(cut.map(|cut| cut.to_string()).as_deref(), note);
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}, expected {expected:?}"),
        }
    }

    fn rows(rows: usize) -> Limit {
        Limit { rows: Some(rows), ..Limit::default() }
    }

    fn characters(characters: usize) -> Limit {
        Limit { characters: Some(characters), ..Limit::default() }
    }

    #[test]
    fn whole_rows_are_left_out_at_the_end() {
        check(&rows(2), json!([1, 2, 3]), Ok(("[1,2]", Some("2 of 3 rows are shown."))));
        check(&rows(3), json!([1, 2, 3]), Ok(("[1,2,3]", None)));
        check(
            &rows(1),
            json!({"n": 2, "data": {"hosts": ["a", "b"]}}),
            Ok((r#"{"n":2,"data":{"hosts":["a"]}}"#, Some("1 of 2 rows are shown."))),
        );
        check(&rows(1), json!("one\ntwo\n"), Ok((r#""one\n""#, Some("1 of 2 lines are shown."))));
        check(&rows(1), json!({"n": 2}), Ok((r#"{"n":2}"#, None)));
        // `{"result":["ab"]}` has 17 characters.
        check(&characters(17), json!(["ab", "cd"]), Ok((r#"["ab"]"#, Some("1 of 2 rows are shown."))));
        check(&characters(16), json!(["ab", "cd"]), Err("first row alone"));
        check(
            &characters(16),
            json!({"text": "long enough"}),
            Err("it has 22 characters, this tool gives at most 16"),
        );
    }

    #[test]
    fn the_list_may_be_named() {
        let of = |path: &str| Limit { rows: Some(1), of: Some(path.parse().unwrap()), ..Limit::default() };
        let two = json!({"a": [1, 2], "my rows": [1, 2, 3], "log": "x\ny\n"});
        check(
            &of(".a"),
            two.clone(),
            Ok((r#"{"a":[1],"my rows":[1,2,3],"log":"x\ny\n"}"#, Some("1 of 2 rows are shown."))),
        );
        check(
            &of(r#"."my rows""#),
            two.clone(),
            Ok((r#"{"a":[1,2],"my rows":[1],"log":"x\ny\n"}"#, Some("1 of 3 rows are shown."))),
        );
        check(
            &of(".log"),
            two.clone(),
            Ok((r#"{"a":[1,2],"my rows":[1,2,3],"log":"x\n"}"#, Some("1 of 2 lines are shown."))),
        );
        check(&of(".nope"), two, Ok((r#"{"a":[1,2],"my rows":[1,2,3],"log":"x\ny\n"}"#, None)));
        check(&of(".result"), json!([1, 2]), Ok(("[1]", Some("1 of 2 rows are shown."))));
        check(&of("."), json!([1, 2]), Ok(("[1]", Some("1 of 2 rows are shown."))));
        for wrong in ["a", "..a", ".a[0]", ".a.", ".\"a", ".a b"] {
            assert!(wrong.parse::<ListPath>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_note_says_how_to_ask_for_the_rest() {
        let offset = More::Offset { argument: "start".into(), first: 0 };
        check(
            &Limit { more: Some(offset), ..rows(2) },
            json!([1, 2, 3]),
            Ok(("[1,2]", Some("2 of 3 rows are shown. For the next, call again with `start`: 12."))),
        );
        let offset = More::Offset { argument: "start".into(), first: 0 };
        check(
            &Limit { more: Some(offset), text_arguments: vec!["start".into()], ..rows(2) },
            json!([1, 2, 3]),
            Ok(("[1,2]", Some("2 of 3 rows are shown. For the next, call again with `start`: \"12\"."))),
        );
        // Two pages of 20 and these 10 rows are 50: what comes next is page 6 of 10 rows each.
        let page = More::Page { argument: "page".into(), size: "per".into(), first: 1 };
        let (_, cut) = Limit { more: Some(page), ..rows(10) }
            .structure(structured(&(0..20).collect()), None, &json!({"page": "3", "per": 20}), false)
            .unwrap();
        assert_eq!(
            cut.unwrap().meta(),
            json!({
                "unit": "rows", "shown": 10, "leftOut": 10, "total": 20, "next": {"page": "6", "per": 10}
            })
        );
    }

    fn shown(text: &str, kind: TextKind) -> Shown {
        Shown { content: Content::text(text), text: kind }
    }

    #[test]
    fn whole_lines_of_text_are_left_out() {
        let texts = |limit: &Limit, blocks: Vec<Shown>| {
            limit.texts(blocks).map(|(content, cut)| {
                let texts: Vec<_> =
                    content.iter().map(|c| c.block.text(None).unwrap().into_owned()).collect();
                (texts, cut.map(|cut| cut.to_string()))
            })
        };
        let made = || vec![shown("one\ntwo\nthree", TextKind::Made), shown("four", TextKind::Made)];
        assert_eq!(
            texts(&characters(8), made()).unwrap(),
            (vec!["one\ntwo".to_owned()], Some("2 of 4 lines are shown.".to_owned()))
        );
        assert_eq!(texts(&characters(20), made()).unwrap().1, None);
        assert!(texts(&characters(2), made()).unwrap_err().contains("first line alone"));
        let verbatim = vec![shown("1\n2\n3\n", TextKind::Verbatim), shown("{}", TextKind::Json)];
        assert_eq!(texts(&rows(2), verbatim).unwrap().0, ["1\n2", "{}"]);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,12}|(a\n){0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::hash_map("[a-c]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        /// Whatever the value, what comes out is within the limit, or the client is told why not.
        #[test]
        fn a_limited_value_is_within_its_limit(
            value in any_value(), most in 12_usize..80, rows in prop::option::of(0_usize..5), pretty: bool,
        ) {
            let limit = Limit { rows, characters: Some(most), ..Limit::default() };
            match limit.structure(structured(&value), None, &Value::Null, pretty) {
                Err(why) => prop_assert!(why.contains("too long")),
                Ok((limited, cut)) => {
                    let seen = limited.value(Shapes::ObjectsOnly);
                    let text = if pretty { serde_json::to_string_pretty(&seen).unwrap() } else { seen.to_string() };
                    prop_assert!(text.chars().count() <= most, "{text}");
                    match cut {
                        None => prop_assert_eq!(limited.json().parse(), value),
                        Some(cut) => prop_assert!(cut.shown < cut.total && rows.is_none_or(|rows| cut.shown <= rows)),
                    }
                }
            }
        }
    }
}
