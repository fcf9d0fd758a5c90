//! Tool results, and the types of tool errors.

use std::borrow::Cow;

use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use settings_derive::EnumSetting;

use super::JsonText;

/// Result of a tool call, the same for every API and independent of its wire format.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Whether the call succeeded.
    pub outcome: ToolOutcome,
    /// Content blocks, for people and models; never empty.
    pub content: Vec<Content>,
    /// Structured content, for programs; it satisfies the tool's output schema unless the result is an error.
    pub structured: Option<Structured>,
    /// Metadata for programs (`_meta`), such as the upstream's status and error code.
    pub meta: Map<String, Value>,
}

/// Success, or an error that the model can react to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOutcome {
    /// `isError: false`.
    Success,
    /// `isError: true`.
    Error(ErrorType),
}

/// Format of the text of a tool error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumSetting)]
pub enum ErrorFormat {
    /// The message.
    #[default]
    Text,
    /// `{"error": "…"}` as JSON text, for clients that parse every text as JSON.
    Json,
}

/// Value of `structuredContent`.
#[derive(Debug, Clone, PartialEq)]
pub struct Structured {
    /// The value without the wrapping in `{"result": …}`.
    pub json: JsonText,
    /// Whether the value is wrapped as `{"result": …}` for clients.
    pub wrapped: bool,
    /// Whether clients of revision 2026-07-28 and later get the value without wrapping.
    pub allows_unwrapped: bool,
}

/// Content block.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// Type and data of the block.
    pub block: ContentBlock,
    /// Audience and priority.
    pub annotations: Option<Annotations>,
}

/// Type and data of a block: one variant for each content type of MCP, and one for blocks that are forwarded
/// unchanged. `Serialize` and `Deserialize` handle the JSON of all blocks except text and forwarded blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ContentBlock {
    /// Text.
    #[serde(skip)]
    Text(BlockText),
    /// An image.
    Image {
        /// Image data in base64.
        data: String,
        /// Media type, such as `image/png`.
        mime_type: String,
    },
    /// Audio.
    Audio {
        /// Audio data in base64.
        data: String,
        /// Media type, such as `audio/wav`.
        mime_type: String,
    },
    /// A link to a resource.
    ResourceLink {
        /// URI of the resource.
        uri: String,
        /// Short name of the resource.
        name: String,
        /// Description for the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Media type of the resource, such as `text/csv`.
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// An embedded resource.
    Resource {
        /// The resource.
        resource: ResourceContents,
    },
    /// A block from an MCP server, with all its members.
    #[serde(skip)]
    Foreign(ForeignBlock),
}

/// Content block of an MCP server, unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignBlock {
    /// The JSON of the block, including annotations and unknown members.
    pub json: JsonText,
    /// The text, if the block is a text block.
    pub text: Option<String>,
    /// Name and URI, if the block is a resource link, for clients that do not support links.
    pub link: Option<String>,
}

/// The text of a text block.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockText {
    /// Text that was created for this result.
    Plain(String),
    /// Text from an upstream, shared instead of copied.
    Shared(ByteString),
    /// Error message, sent as the JSON text `{"error": "…"}`.
    Error(String),
    /// The structured content as JSON text. It is escaped directly into the response, without an intermediate
    /// copy.
    StructuredContent,
}

/// Embedded resource, or one part of a resource that was read (MCP 2026-07-28, Resources, "Resource
/// Contents").
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
pub struct ResourceContents {
    /// URI of the resource, or of a part of it.
    pub uri: String,
    /// Media type of the body, such as `text/csv`.
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Text or binary data.
    #[serde(flatten)]
    pub body: ResourceBody,
}

/// Body of a resource.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "BodyMembers")]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Binary data in base64.
    Blob(String),
}

/// Members of the JSON of a resource that contain its body. Some servers send both, one of them `null`.
#[derive(Deserialize)]
struct BodyMembers {
    text: Option<String>,
    blob: Option<String>,
}

impl TryFrom<BodyMembers> for ResourceBody {
    type Error = &'static str;

    fn try_from(BodyMembers { text, blob }: BodyMembers) -> Result<Self, &'static str> {
        blob.map(Self::Blob).or_else(|| text.map(Self::Text)).ok_or("a resource without `text` and `blob`")
    }
}

/// Annotations of a block (MCP 2026-07-28, schema, `Annotations`).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Intended audience: `user`, `assistant` or both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<String>,
    /// Importance from 0 (optional) to 1 (required).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Time of the last modification, as an RFC 3339 timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl ToolResult {
    /// Joins the texts of all blocks with line breaks; for a tool error, this is its message.
    pub fn message(&self) -> String {
        let structured = self.structured.as_ref();
        let texts = self.content.iter().filter_map(|content| content.block.text(structured));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Creates a success with one text block and no structured content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(ToolOutcome::Success, vec![Content::text(text)])
    }

    /// Creates a tool error with one text block. The text should tell the model what to change.
    pub fn error(error_type: ErrorType, text: impl Into<String>) -> Self {
        Self::new(ToolOutcome::Error(error_type), vec![Content::text(text)])
    }

    /// Creates a result without structured content.
    pub fn new(outcome: ToolOutcome, content: Vec<Content>) -> Self {
        Self { outcome, content, structured: None, meta: Map::new() }
    }

    /// Adds an entry to `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }

    /// Whether the result is a tool error.
    pub fn is_error(&self) -> bool {
        matches!(self.outcome, ToolOutcome::Error(_))
    }

    /// Converts the text of an error to `format`. All texts are joined to one block, which precedes the other
    /// blocks.
    #[must_use]
    pub fn with_errors_as(mut self, format: ErrorFormat) -> Self {
        if !self.is_error() || format == ErrorFormat::Text {
            return self;
        }
        let message = self.message();
        self.content.retain(|content| content.block.text(None).is_none());
        self.content.insert(0, ContentBlock::Text(BlockText::Error(message)).into());
        self
    }
}

impl ContentBlock {
    /// Returns the text of a text block, as a person reads it; `None` for other blocks.
    pub fn text(&self, structured: Option<&Structured>) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(BlockText::Plain(text) | BlockText::Error(text)) => Some(text.into()),
            Self::Text(BlockText::Shared(text)) => Some(Cow::Borrowed(text)),
            Self::Text(BlockText::StructuredContent) => {
                Some(structured.map_or_else(String::new, |s| s.json.as_str().to_owned()).into())
            }
            Self::Foreign(block) => block.text.as_deref().map(Cow::from),
            Self::Image { .. } | Self::Audio { .. } | Self::ResourceLink { .. } | Self::Resource { .. } => {
                None
            }
        }
    }
}

impl Structured {
    /// Creates structured content for every client: an object unchanged, any other value as `{"result": …}`.
    pub fn new(json: JsonText) -> Self {
        let wrapped = !json.is_object();
        Self { json, wrapped, allows_unwrapped: false }
    }

    /// Returns another value with the same wrapping.
    #[must_use]
    pub fn with_json(&self, json: JsonText) -> Self {
        Self { json, ..self.clone() }
    }

    /// Whether clients with this support get the value wrapped in `{"result": …}`.
    pub fn is_wrapped(&self, support: super::StructuredContentSupport) -> bool {
        self.wrapped && !(self.allows_unwrapped && support == super::StructuredContentSupport::Any)
    }

    /// Returns the value for clients with this support.
    pub fn value(&self, support: super::StructuredContentSupport) -> Value {
        let value = self.json.parse();
        if self.is_wrapped(support) { serde_json::json!({ "result": value }) } else { value }
    }
}

impl Content {
    /// Creates a text block without annotations.
    pub fn text(text: impl Into<String>) -> Self {
        ContentBlock::Text(BlockText::Plain(text.into())).into()
    }
}

impl From<ContentBlock> for Content {
    fn from(block: ContentBlock) -> Self {
        Self { block, annotations: None }
    }
}

/// Type of a tool error, so that each API can map the error (to an HTTP status, for example) without parsing
/// its message. The names are the values of `error_type` in metrics and log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorType {
    /// The arguments violate the input schema, or cannot be written to the request.
    #[strum(serialize = "invalid_arguments")]
    Arguments,
    /// The client is not authorized.
    Forbidden,
    /// A required input request has no valid response, or could not be sent.
    InputMissing,
    /// The upstream responded with an HTTP status other than 2xx.
    #[strum(serialize = "upstream_error")]
    Upstream {
        /// HTTP status.
        status: u16,
    },
    /// A rule recognized an error in the response.
    ReportedError {
        /// HTTP status that the rule sets for REST clients.
        status: Option<u16>,
    },
    /// The response is too long or is not HTTP, the rule could not parse it, or the result violates the
    /// output schema.
    UnparseableResponse,
    /// No complete response arrived: the connection was refused, or closed too early.
    #[strum(serialize = "upstream_unreachable")]
    Unreachable,
    /// The timeout expired.
    Timeout,
    /// The upstream is temporarily unavailable, for example because its concurrency limit is reached or its
    /// circuit breaker is open.
    Unavailable,
    /// A rate limit or the client's concurrency limit is exceeded.
    RateLimited,
}
