//! Extractors: from a response to a value. A new extractor is a file and a line of `extractors!`.

mod columns;
mod csv;
mod documents;
mod form;
mod grok;
mod html;
mod mcp;
mod metrics;
mod pairs;
mod parts;
mod records;
mod regex;
mod xml;

use bytestring::ByteString;
use serde_json::Value;

pub(super) use self::html::message_of as message_of_page;
pub use self::{
    columns::{Columns, Widths},
    csv::Csv,
    documents::{Binary, BinaryKind, Header, HeaderNames, HeaderShape, Json, NdJson, Text},
    form::Form,
    grok::{Grok, GrokError, GrokPatterns},
    html::{
        Count, CssError, CssSelector, EachElement, Html, HtmlSettings, Selected, Table, TableShape, Take,
    },
    mcp::{MCP_MEDIA_TYPE, Mcp},
    metrics::{Metrics, MetricsShape, NamePattern},
    pairs::{EachPairs, Indented, Pairs},
    parts::{Extract, Part, Typing},
    records::{ColumnNames, RaggedRows, Records},
    regex::{Capture, CaptureKind, CapturePattern, CapturePatterns, Each, Regex},
    xml::{Attributes, Path, PathError, Pick, Prefixes, Xml, XmlSettings},
};
pub(crate) use self::{
    documents::MediaType,
    mcp::{Answered, Verdict},
};
use super::{read_error::Why, response_view::ResponseView};
use crate::model::{Content, JsonText, kind_of};

/// How many records or keys one reply may give; more are an error, so that a reply of many short lines can't
/// take a hundred times its size.
pub const RECORD_LIMIT: usize = 100_000;

/// An extractor and the types of what it finds.
#[derive(Debug)]
pub struct Extractor {
    /// What gives the text that is read; the reply itself where there is none.
    pub source: Option<Box<Self>>,
    /// What is read.
    pub kind: ExtractorKind,
    /// What becomes of it.
    pub typing: Typing,
}

/// An extractor with the options of a rule.
pub(crate) trait Extraction {
    /// How many values are given for one reply.
    fn gives(&self) -> Gives {
        Gives::One
    }

    /// What fields may be taken from.
    fn finds(&self) -> Finds<'_> {
        Finds::AnyNames
    }

    /// Whether the reply's text is read, so that its charset matters.
    fn reads_text(&self) -> bool {
        true
    }

    /// Extracts the value; `typing` has the types that it will get.
    ///
    /// # Errors
    ///
    /// A sentence that says what was expected and what was found.
    fn find(&self, view: &ResponseView<'_>, typing: &Typing) -> Result<Extracted, Why>;
}

/// The extractors: of each the name that a rule uses, and the type of its options.
macro_rules! extractors {
    ($($(#[$doc:meta])* $name:literal => $kind:ident($options:ty),)*) => {
        /// The extractors.
        #[derive(Debug)]
        pub enum ExtractorKind {
            $($(#[$doc])* $kind($options),)*
        }

        impl ExtractorKind {
            /// The name a rule uses.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $name,)*
                }
            }

            fn extraction(&self) -> &dyn Extraction {
                match self {
                    $(Self::$kind(options) => options,)*
                }
            }
        }
    };
}

extractors! {
    /// Any bytes as a block of content.
    "binary" => Binary(Binary),
    /// A table whose cells stand under each other.
    "columns" => Columns(Columns),
    /// CSV and its relatives.
    "csv" => Csv(Csv),
    /// The fields of a form.
    "form" => Form(Form),
    /// Named captures of patterns that name others.
    "grok" => Grok(Regex),
    /// Headers and status.
    "header" => Header(Header),
    /// A page.
    "html" => Html(Html),
    /// A JSON document.
    "json" => Json(Json),
    /// The answer of an MCP server.
    "mcp" => Mcp(Mcp),
    /// Samples of metrics.
    "metrics" => Metrics(Metrics),
    /// A JSON document a line.
    "ndjson" => NdJson(NdJson),
    /// `key: value` lines.
    "pairs" => Pairs(Pairs),
    /// Named captures.
    "regex" => Regex(Regex),
    /// The whole text.
    "text" => Text(Text),
    /// An XML document.
    "xml" => Xml(Xml),
}

impl ExtractorKind {
    /// How many values are given for one reply.
    pub fn gives(&self) -> Gives {
        self.extraction().gives()
    }

    /// What fields may be taken from.
    pub fn finds(&self) -> Finds<'_> {
        self.extraction().finds()
    }
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

impl Extractor {
    /// An extractor that takes all it finds.
    pub fn whole(kind: ExtractorKind) -> Self {
        Self { source: None, kind, typing: Typing::AsFound }
    }

    /// Its name, and the name of what it reads a text of.
    pub(crate) fn words(&self) -> String {
        match &self.source {
            Some(source) => format!("{} of {}", self.kind.name(), source.words()),
            None => self.kind.name().to_owned(),
        }
    }

    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// A sentence that says what was expected and what was found.
    pub(crate) fn extract(&self, view: &ResponseView<'_>) -> Result<Extracted, Why> {
        if let Some(extracted) = self.extract_wanted(view) {
            return Ok(extracted);
        }
        let typed = self.typed(self.find(view)?, view);
        typed.map_err(|why| self.with_missing_patterns(why, view))
    }

    /// The same for `pairs`, without keys that no field uses. `None` if all keys are used, and on errors,
    /// whose text lists all keys.
    ///
    /// A status page has many keys and a route takes few of them: without this a call with 2 KB of text takes
    /// twice the instructions.
    fn extract_wanted(&self, view: &ResponseView<'_>) -> Option<Extracted> {
        let ExtractorKind::Pairs(pairs @ Pairs { each: EachPairs::Text, .. }) = &self.kind else {
            return None;
        };
        let Typing::Fields(fields) = &self.typing else { return None };
        let wanted = Some(fields).filter(|fields| self.source.is_none() && !fields.have_others())?;
        let found = pairs.extract(view.text().ok()?, Some(wanted), view.facts.stop).ok()?;
        self.typed(Extracted::Value(found), view).ok()
    }

    /// Of several patterns names those that match nothing: what they capture is what is missing.
    fn with_missing_patterns(&self, why: Why, view: &ResponseView<'_>) -> Why {
        let (ExtractorKind::Regex(regex) | ExtractorKind::Grok(regex)) = &self.kind else { return why };
        if self.source.is_some() || regex.patterns.0.len() < 2 {
            return why;
        }
        let Ok(text) = view.text() else { return why };
        let missing: Vec<_> = regex.missing_in(text).map(|pattern| format!("`{pattern}`")).collect();
        match missing.is_empty() {
            true => why,
            false => why.followed_by(&format!("; nothing matches {}", missing.join(", "))),
        }
    }

    /// What is there, as it was found.
    fn find(&self, view: &ResponseView<'_>) -> Result<Extracted, Why> {
        let extraction = self.kind.extraction();
        let Some(source) = &self.source else { return extraction.find(view, &self.typing) };
        let inner =
            source.text(view).map_err(|why| why.under(&format!("`source` {}", source.kind.name())))?;
        extraction.find(&view.of_text(inner), &self.typing)
    }

    /// What is found, which must be a text.
    fn text(&self, view: &ResponseView<'_>) -> Result<ByteString, Why> {
        match self.extract(view)?.found_well()? {
            Extracted::Text(text) => Ok(text),
            found => match found.into_value(view)? {
                Value::String(text) => Ok(text.into()),
                other => Err(why!("expected a text to read, found {}", kind_of(&other))),
            },
        }
    }

    fn typed(&self, found: Extracted, view: &ResponseView<'_>) -> Result<Extracted, Why> {
        match (&self.typing, found) {
            (Typing::AsFound, found) => Ok(found),
            (typing, Extracted::Answered(answered)) => answered.typed(typing, view).map(Extracted::Answered),
            (typing, found) => {
                let found = found.into_value(view)?;
                if self.kind.gives() == Gives::One {
                    typing.admits_one(&found)?;
                }
                typing.apply(found).map(Extracted::Value)
            }
        }
    }
}

impl Extracted {
    /// The same, to be a part of a value or to be read further. What an MCP server says of an error is
    /// neither: it is no value of the type that was looked for.
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
    pub(crate) fn to_value(&self, view: &ResponseView<'_>) -> Result<Value, Why> {
        match self {
            Self::Raw(json) => view.tree_of(json),
            Self::Value(value) => Ok(value.clone()),
            Self::Text(text) => Ok(Value::String(text.to_string())),
            Self::Answered(Answered { value: Some(value), .. }) => value.to_value(view),
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
    pub(crate) fn into_value(self, view: &ResponseView<'_>) -> Result<Value, Why> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Answered(Answered { value: Some(value), .. }) => value.into_value(view),
            Self::Raw(_) | Self::Text(_) | Self::Block(_) | Self::Answered(_) | Self::Nothing => {
                self.to_value(view)
            }
        }
    }
}
