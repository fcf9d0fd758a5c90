//! What pulls a value out of a reply. One file an extractor, named as the configuration names it.

mod binary;
mod columns;
mod csv;
mod form;
mod grok;
mod header;
mod html;
mod json;
mod mcp;
mod metrics;
mod ndjson;
mod pairs;
mod parts;
mod records;
mod regex;
mod rows;
mod text;
mod typing;
mod xml;

use bytestring::ByteString;
use serde_json::Value;

pub(super) use self::html::message_of as message_of_page;
pub(crate) use self::mcp::{Answered, Verdict};
pub use self::{
    binary::{Binary, BinaryKind},
    columns::{ColumnLayout, Columns},
    csv::{Csv, CsvNames, Quote},
    form::Form,
    grok::{GrokError, GrokPatterns},
    header::{Header, HeaderShape},
    html::{Count, CssError, CssSelector, EachElement, Html, Selected, Table, TableShape, Take},
    json::Json,
    mcp::{MCP_MEDIA_TYPE, Mcp},
    metrics::{Metrics, MetricsShape, NamePattern},
    ndjson::NdJson,
    pairs::{Indented, Pairs},
    parts::{Extract, Part},
    records::Blocks,
    regex::{Capture, CaptureKind, CapturePattern, Each, Regex},
    rows::Uneven,
    text::Text,
    typing::Typing,
    xml::{Attributes, Path, PathError, Pick, Prefixes, Xml},
};
use super::{reading::Reading, why::Why};
use crate::tool::{Content, JsonText, kind_of};

/// How many records or keys one reply may give; more are an error, so that a reply of many short lines can't
/// take a hundred times its size.
pub const RECORD_LIMIT: usize = 100_000;

/// An extractor and the types of what it finds.
#[derive(Debug)]
pub struct Extractor {
    /// What gives the text that is read; the reply itself where there is none.
    pub of: Option<Box<Self>>,
    /// What is read.
    pub kind: ExtractorKind,
    /// What becomes of it.
    pub typing: Typing,
}

/// The extractors.
#[derive(Debug)]
pub enum ExtractorKind {
    /// Any bytes as a block of content.
    Binary(Binary),
    /// A table whose cells stand under each other.
    Columns(Columns),
    /// CSV and its relatives.
    Csv(Csv),
    /// The fields of a form.
    Form(Form),
    /// Named captures of patterns that name others.
    Grok(Regex),
    /// Headers and status.
    Header(Header),
    /// A page.
    Html(Html),
    /// A JSON document.
    Json(Json),
    /// The answer of an MCP server.
    Mcp(Mcp),
    /// Samples of metrics.
    Metrics(Metrics),
    /// A JSON document a line.
    NdJson(NdJson),
    /// `key: value` lines.
    Pairs(Pairs),
    /// Named captures.
    Regex(Regex),
    /// The whole text.
    Text(Text),
    /// An XML document.
    Xml(Xml),
}

/// How many values an extractor gives for one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// A block of content, and no value.
    Block,
    /// One value.
    One,
    /// A list of values.
    Many,
}

/// What an extractor finds by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finds<'a> {
    /// Whatever names the reply has.
    AnyNames,
    /// These names and no others.
    Names(Vec<&'a str>),
    /// Nothing that has a name.
    NoFields,
}

/// What an extractor found.
#[derive(Debug)]
pub(crate) enum Extracted {
    /// A JSON document, checked and left as it came.
    Raw(JsonText),
    /// A value.
    Value(Value),
    /// The whole text, as a string value that is not built until somebody needs it.
    Text(ByteString),
    /// A block of content and no value.
    Block(Content),
    /// What an MCP server answered: blocks, and the value in them.
    Answered(Answered),
    /// Nothing was there, and nothing was promised.
    Nothing,
}

impl ExtractorKind {
    /// How many values are given for one reply.
    pub fn gives(&self) -> Gives {
        match self {
            Self::Binary(_) => Gives::Block,
            Self::Grok(regex) | Self::Regex(regex) if !matches!(regex.each, Each::First) => Gives::Many,
            Self::Pairs(pairs) if pairs.blocks.is_some() => Gives::Many,
            Self::Metrics(metrics) if metrics.shape != MetricsShape::Object => Gives::Many,
            Self::Html(html) if html.gives_many() => Gives::Many,
            Self::Xml(Xml { pick: Pick::Each(_), .. }) => Gives::Many,
            Self::Columns(_) | Self::Csv(_) | Self::NdJson(_) => Gives::Many,
            Self::Form(_)
            | Self::Grok(_)
            | Self::Header(_)
            | Self::Html(_)
            | Self::Json(_)
            | Self::Mcp(_)
            | Self::Metrics(_)
            | Self::Pairs(_)
            | Self::Regex(_)
            | Self::Text(_)
            | Self::Xml(_) => Gives::One,
        }
    }

    /// What fields may be taken from.
    pub fn finds(&self) -> Finds<'_> {
        match self {
            Self::Binary(_) | Self::Text(_) => Finds::NoFields,
            Self::Header(Header { shape: HeaderShape::Value, .. }) => Finds::NoFields,
            Self::Header(header) => Finds::Names(header.names.iter().map(String::as_str).collect()),
            Self::Html(html) => html.finds(),
            Self::Columns(columns) => match &columns.layout {
                ColumnLayout::Words(names) | ColumnLayout::Widths { names: Some(names), .. } => {
                    Finds::Names(names.iter().map(String::as_str).collect())
                }
                ColumnLayout::Header | ColumnLayout::Widths { names: None, .. } => Finds::AnyNames,
            },
            Self::Csv(Csv { names: CsvNames::Given(names), .. }) => {
                Finds::Names(names.iter().map(String::as_str).collect())
            }
            Self::Csv(_)
            | Self::Form(_)
            | Self::Json(_)
            | Self::Mcp(_)
            | Self::NdJson(_)
            | Self::Pairs(_)
            | Self::Xml(_) => Finds::AnyNames,
            Self::Metrics(metrics) => metrics.finds(),
            Self::Grok(regex) | Self::Regex(regex) => {
                Finds::Names(regex.patterns.iter().flat_map(CapturePattern::names).collect())
            }
        }
    }

    /// Whether the reply's text is read, so that its charset matters.
    pub(crate) fn reads_text(&self) -> bool {
        !matches!(self, Self::Binary(_) | Self::Header(_))
    }

    /// The name a rule uses.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Binary(_) => "binary",
            Self::Columns(_) => "columns",
            Self::Csv(_) => "csv",
            Self::Form(_) => "form",
            Self::Grok(_) => "grok",
            Self::Header(_) => "header",
            Self::Html(_) => "html",
            Self::Json(_) => "json",
            Self::Mcp(_) => "mcp",
            Self::Metrics(_) => "metrics",
            Self::NdJson(_) => "ndjson",
            Self::Pairs(_) => "pairs",
            Self::Regex(_) => "regex",
            Self::Text(_) => "text",
            Self::Xml(_) => "xml",
        }
    }
}

impl Extractor {
    /// An extractor that takes all it finds.
    pub fn whole(kind: ExtractorKind) -> Self {
        Self { of: None, kind, typing: Typing::AsFound }
    }

    /// Its name, and the name of what it reads a text of.
    pub(crate) fn words(&self) -> String {
        match &self.of {
            Some(of) => format!("{} of {}", self.kind.name(), of.words()),
            None => self.kind.name().to_owned(),
        }
    }

    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// A sentence that says what was expected and what was found.
    pub(crate) fn extract(&self, reading: &Reading<'_>) -> Result<Extracted, Why> {
        // What goes wrong is told of all that was found.
        match self.extract_wanted(reading) {
            Some(Ok(extracted)) => Ok(extracted),
            Some(Err(_)) | None => {
                let typed = self.typed(self.find(reading)?, reading);
                typed.map_err(|why| self.with_missing_patterns(why, reading))
            }
        }
    }

    /// Of several patterns names those that match nothing: what they capture is what is missing.
    fn with_missing_patterns(&self, why: Why, reading: &Reading<'_>) -> Why {
        let (ExtractorKind::Regex(regex) | ExtractorKind::Grok(regex)) = &self.kind else { return why };
        if self.of.is_some() || regex.patterns.len() < 2 {
            return why;
        }
        let Ok(text) = reading.text() else { return why };
        let missing: Vec<_> = regex.missing_in(text).map(|pattern| format!("`{pattern}`")).collect();
        match missing.is_empty() {
            true => why,
            false => why.followed_by(&format!("; nothing matches {}", missing.join(", "))),
        }
    }

    /// Keeps no more than what is typed; `None` where that is not possible.
    fn extract_wanted(&self, reading: &Reading<'_>) -> Option<Result<Extracted, Why>> {
        let ExtractorKind::Pairs(pairs @ Pairs { blocks: None, .. }) = &self.kind else { return None };
        let wanted = self.typing.names().filter(|_| self.of.is_none())?;
        let found = reading.text().and_then(|text| pairs.extract_wanted(text, &wanted, reading.stop()));
        Some(found.and_then(|found| self.typed(Extracted::Value(found), reading)))
    }

    /// What is there, as it was found.
    fn find(&self, reading: &Reading<'_>) -> Result<Extracted, Why> {
        let Some(of) = &self.of else { return self.find_in(reading) };
        let inner = of.text(reading).map_err(|why| why.under(&format!("`of` {}", of.kind.name())))?;
        self.find_in(&reading.of_text(inner))
    }

    /// What is found, which must be a text.
    fn text(&self, reading: &Reading<'_>) -> Result<ByteString, Why> {
        match self.extract(reading)?.found_well()? {
            Extracted::Text(text) => Ok(text),
            found => match found.into_value(reading)? {
                Value::String(text) => Ok(text.into()),
                other => Err(Why::plainly(format!("expected a text to read, found {}", kind_of(&other)))),
            },
        }
    }

    fn find_in(&self, reading: &Reading<'_>) -> Result<Extracted, Why> {
        Ok(match &self.kind {
            ExtractorKind::Binary(binary) => binary.extract(reading)?,
            ExtractorKind::Columns(columns) => {
                columns.extract(reading.text()?, &self.typing).map(Extracted::Value)?
            }
            ExtractorKind::Csv(csv) => csv.extract(reading, &self.typing).map(Extracted::Value)?,
            ExtractorKind::Form(form) => form.extract(reading).map(Extracted::Value)?,
            ExtractorKind::Header(header) => {
                header.extract(reading).map(Extracted::Value).map_err(Why::plainly)?
            }
            ExtractorKind::Html(html) => {
                html.extract(reading.text()?).map(Extracted::Value).map_err(Why::plainly)?
            }
            ExtractorKind::Json(json) => json.extract(reading)?,
            ExtractorKind::Mcp(mcp) => mcp.extract(reading)?,
            ExtractorKind::Metrics(metrics) => metrics.extract(reading.text()?).map(Extracted::Value)?,
            ExtractorKind::NdJson(ndjson) => ndjson.extract(reading)?,
            ExtractorKind::Pairs(pairs) => {
                pairs.extract(reading.text()?, reading.stop()).map(Extracted::Value)?
            }
            ExtractorKind::Grok(regex) | ExtractorKind::Regex(regex) => {
                regex.extract(reading.text()?, reading.stop()).map(Extracted::Value)?
            }
            ExtractorKind::Text(text) => text.extract(reading)?,
            ExtractorKind::Xml(xml) => xml.extract(reading.text()?).map(Extracted::Value)?,
        })
    }

    fn typed(&self, found: Extracted, reading: &Reading<'_>) -> Result<Extracted, Why> {
        match (&self.typing, found) {
            (Typing::AsFound, found) => Ok(found),
            (typing, Extracted::Answered(answered)) => {
                answered.typed(typing, reading).map(Extracted::Answered)
            }
            (typing, found) => {
                let found = found.into_value(reading)?;
                if self.kind.gives() == Gives::One {
                    typing.admits_one(&found)?;
                }
                typing.apply(found).map(Extracted::Value)
            }
        }
    }
}

impl Extracted {
    /// The same, to be a part of a value or to be read further. What an MCP server says of an error is neither: it is no
    /// value of the type that was looked for.
    fn found_well(self) -> Result<Self, Why> {
        match &self {
            Self::Answered(answered) if !answered.is_success() => {
                Err("the server answered with an error, and with no value".into())
            }
            _ => Ok(self),
        }
    }

    /// The value, read into a tree.
    ///
    /// # Errors
    ///
    /// A sentence, when there is none, or when it has too many values.
    pub(crate) fn to_value(&self, reading: &Reading<'_>) -> Result<Value, Why> {
        match self {
            Self::Raw(json) => reading.tree_of(json),
            Self::Value(value) => Ok(value.clone()),
            Self::Text(text) => Ok(Value::String(text.to_string())),
            Self::Answered(Answered { value: Some(value), .. }) => value.to_value(reading),
            Self::Block(_) | Self::Answered(_) => {
                Err("expected a value, found bytes without structure".into())
            }
            Self::Nothing => Ok(Value::Null),
        }
    }

    /// The same, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Self::to_value`].
    pub(crate) fn into_value(self, reading: &Reading<'_>) -> Result<Value, Why> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Answered(Answered { value: Some(value), .. }) => value.into_value(reading),
            Self::Raw(_) | Self::Text(_) | Self::Block(_) | Self::Answered(_) | Self::Nothing => {
                self.to_value(reading)
            }
        }
    }
}
