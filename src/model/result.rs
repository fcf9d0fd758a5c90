//! Tool results, and the kinds of tool errors.

use std::{borrow::Cow, time::Duration};

use bytestring::ByteString;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{JsonText, object_of_some};

/// The result of one call: what every face sends, free of any wire.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Whether the call did what it was asked.
    pub outcome: Outcome,
    /// For people and models; never empty.
    pub content: Vec<Content>,
    /// For programs; meets the tool's output schema whenever the outcome is a success.
    pub structured: Option<Structured>,
    /// What a program may need beside it (`_meta`): the upstream's status and code of an error, say.
    pub meta: Map<String, Value>,
}

/// Success, or an error that the model can read and act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// `isError: false`.
    Success,
    /// `isError: true`.
    Error(Fault),
}

/// What the text of a tool error looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorFormat {
    /// The message.
    #[default]
    Text,
    /// `{"error": "…"}` as JSON text, for clients that read every text as JSON.
    Json,
}

/// The value behind `structuredContent`.
#[derive(Debug, Clone, PartialEq)]
pub struct Structured {
    json: JsonText,
    wrapped: bool,
    bare_allowed: bool,
}

/// One block of content.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// What it shows.
    pub block: Block,
    /// For whom, and how important.
    pub annotations: Option<Annotations>,
}

/// The kinds of content that MCP has.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Text.
    Text(Text),
    /// A picture.
    Image {
        /// The bytes, in Base64.
        data: String,
        /// Such as `image/png`.
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// The bytes, in Base64.
        data: String,
        /// Such as `audio/wav`.
        mime_type: String,
    },
    /// A link to something that can be read elsewhere.
    ResourceLink {
        /// Where.
        uri: String,
        /// A short name.
        name: String,
        /// What it is, for a model.
        description: Option<String>,
        /// Such as `text/csv`.
        mime_type: Option<String>,
    },
    /// A document, embedded.
    Resource {
        /// What it is called.
        uri: String,
        /// Such as `text/csv`.
        mime_type: Option<String>,
        /// Its contents.
        body: ResourceBody,
    },
    /// A block that an MCP server wrote, with everything that it has in it.
    AsSent(SentBlock),
}

/// A block of content as an MCP server wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct SentBlock {
    /// The block, annotations and members that we do not know included.
    pub json: JsonText,
    /// Its text, when it is a text block.
    pub text: Option<String>,
    /// The link in words, when it is a link: for clients that know no links.
    pub link: Option<String>,
}

/// The text of a text block.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    /// A text made for this result.
    Plain(String),
    /// An upstream's bytes, shared rather than copied.
    Shared(ByteString),
    /// A message, shown as the JSON text `{"error": "…"}`.
    Error(String),
    /// The result's structure, as JSON text: escaped straight into the response, never built beforehand.
    OfStructure,
}

/// The contents of an embedded document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes, in Base64.
    Blob(String),
}

/// Hints about one block (MCP 2026-07-28, schema, `Annotations`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Annotations {
    /// `user`, `assistant`.
    pub audience: Vec<String>,
    /// From 0 (optional) to 1 (required).
    pub priority: Option<f64>,
    /// RFC 3339.
    pub last_modified: Option<String>,
}

impl ToolResult {
    /// The texts of its blocks, in one: the sentence of a tool error.
    pub fn told(&self) -> String {
        let texts = self.content.iter().filter_map(|content| content.block.text(None));
        texts.collect::<Vec<_>>().join(" ")
    }

    /// A success with one text block and no structure.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Outcome::Success, vec![Content::text(text)])
    }

    /// A tool error: one text block that says what to change.
    pub fn error(error_type: Fault, text: impl Into<String>) -> Self {
        Self::new(Outcome::Error(error_type), vec![Content::text(text)])
    }

    /// A result without structure.
    pub fn new(outcome: Outcome, content: Vec<Content>) -> Self {
        Self { outcome, content, structured: None, meta: Map::new() }
    }

    /// The same with one more entry in `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }

    /// Whether this is a tool error.
    pub fn is_error(&self) -> bool {
        matches!(self.outcome, Outcome::Error(_))
    }

    /// The same with the text of an error in this form. All its text becomes one block, before the others.
    #[must_use]
    pub fn with_errors_as(mut self, format: ErrorFormat) -> Self {
        if !self.is_error() || format == ErrorFormat::Text {
            return self;
        }
        let structured = self.structured.as_ref();
        let texts = self.content.iter().filter_map(|content| content.block.text(structured));
        let message = texts.collect::<Vec<_>>().join("\n");
        self.content.retain(|content| content.block.text(None).is_none());
        self.content.insert(0, Block::Text(Text::Error(message)).into());
        self
    }
}

impl Block {
    /// Its text, as a person reads it; `None` when it is no text block.
    pub fn text(&self, structured: Option<&Structured>) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(Text::Plain(text) | Text::Error(text)) => Some(text.into()),
            Self::Text(Text::Shared(text)) => Some(Cow::Borrowed(text)),
            Self::Text(Text::OfStructure) => {
                Some(structured.map_or_else(String::new, |s| s.json().as_str().to_owned()).into())
            }
            Self::AsSent(sent) => sent.text.as_deref().map(Cow::from),
            Self::Image { .. } | Self::Audio { .. } | Self::ResourceLink { .. } | Self::Resource { .. } => {
                None
            }
        }
    }
}

impl Structured {
    /// A structure for every client: an object as it is, any other value as `{"result": …}`.
    pub fn new(json: JsonText) -> Self {
        let wrapped = !json.is_object();
        Self { json, wrapped, bare_allowed: false }
    }

    /// A value that goes under `result` even when it is an object, because the advertised schema says so.
    pub fn under_result(json: JsonText) -> Self {
        Self { json, wrapped: true, bare_allowed: false }
    }

    /// The same, but clients of revision 2026-07-28 and later get the value without `{"result": …}` round it.
    #[must_use]
    pub fn bare_where_allowed(self) -> Self {
        Self { bare_allowed: true, ..self }
    }

    /// The same promise with another value.
    #[must_use]
    pub fn with_json(&self, json: JsonText) -> Self {
        Self { json, ..self.clone() }
    }

    /// The value before any wrapping.
    pub fn json(&self) -> &JsonText {
        &self.json
    }

    /// Whether clients that take `shapes` get `{"result": …}` round the value.
    pub fn is_wrapped(&self, shapes: super::Shapes) -> bool {
        self.wrapped && !(self.bare_allowed && shapes == super::Shapes::Any)
    }

    /// The value as clients that take `shapes` see it.
    pub fn value(&self, shapes: super::Shapes) -> Value {
        let value = self.json.parse();
        if self.is_wrapped(shapes) { serde_json::json!({ "result": value }) } else { value }
    }
}

impl Annotations {
    /// The hints as clients read them.
    pub fn to_json(&self) -> Map<String, Value> {
        object_of_some([
            ("audience", (!self.audience.is_empty()).then(|| self.audience.clone().into())),
            ("priority", self.priority.map(Value::from)),
            ("lastModified", self.last_modified.as_deref().map(Value::from)),
        ])
    }
}

impl Content {
    /// A text block without annotations.
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text(Text::Plain(text.into())).into()
    }
}

impl From<Block> for Content {
    fn from(block: Block) -> Self {
        Self { block, annotations: None }
    }
}

/// The reason behind `isError: true`, so that each face can tell its truth (an HTTP status, say) without
/// reading the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The arguments break the input schema, or can't be put into a request.
    Arguments,
    /// The caller is not allowed it.
    Forbidden,
    /// A person or a model had to be asked first, and did not answer, or could not be asked.
    Unanswered,
    /// The upstream answered with this HTTP status of 400 and above.
    Upstream {
        /// Its status.
        status: u16,
    },
    /// The upstream said so in its reply, and a rule recognised it.
    Reported {
        /// The HTTP status that the rule names for REST clients.
        status: Option<u16>,
    },
    /// The reply could not be read by the rule, or what was read breaks the output schema.
    Unreadable,
    /// No usable reply: refused, cut off, too long, not HTTP.
    Unreachable,
    /// No reply in time.
    Deadline,
    /// It is asked as much at a time as it may be, or left alone for a while.
    Busy {
        /// After how long to try again.
        again_after: Duration,
    },
    /// It is called more often than it may be.
    TooOften {
        /// After how long to try again.
        again_after: Duration,
    },
}

impl Fault {
    /// The names of all variants, in their order; the values of `error_type` in metrics and log.
    pub const NAMES: [&'static str; 10] = [
        "invalid_arguments",
        "forbidden",
        "input_missing",
        "upstream_error",
        "reported_error",
        "unparseable_response",
        "upstream_unreachable",
        "timeout",
        "unavailable",
        "rate_limited",
    ];

    /// Its name in metrics and log.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[match self {
            Self::Arguments => 0,
            Self::Forbidden => 1,
            Self::Unanswered => 2,
            Self::Upstream { .. } => 3,
            Self::Reported { .. } => 4,
            Self::Unreadable => 5,
            Self::Unreachable => 6,
            Self::Deadline => 7,
            Self::Busy { .. } => 8,
            Self::TooOften { .. } => 9,
        }]
    }
}
