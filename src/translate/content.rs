//! Content blocks of a result, built from templates or from the response.
//!
//! A [`ContentTemplate`] has blocks, each with a [`BlockPayload`]; [`render`] builds the blocks of one
//! result.

use std::sync::LazyLock;

use jiff::Timestamp;
use minijinja::Value as TemplateValue;
use regex::Regex;
use serde_json::Value;
use settings_derive::Section;

use super::extract::read_media_type;
use super::read_error::ReadError;
use super::template::from_json;
use super::variables::{TemplateContext, jq_variables};
use super::{Jq, MessageRole, Redaction, Template, TemplateBudget, TemplateError, Trace};
use crate::model::StructuredContentSupport::ObjectsOnly;
use crate::model::{
    Annotations, BlockText, Content, ContentBlock, LimitedWriter, ResourceBody, ResourceContents, Structured,
    kind_of,
};
use crate::settings::{Checked, Cursor, EnumSetting as _, Invalid, Setting as _, fixed_regex, text_of};

/// Content blocks of a success rule, in order. If there are none, the result has one text block: the
/// structured content as JSON, or the text of the response without structured content.
#[derive(Debug, Default)]
pub struct ContentTemplate(pub Vec<BlockTemplate>);

/// Maximum number of content blocks of one result. A longer list is an error that names the limit.
pub const BLOCK_LIMIT: usize = 1000;
/// Maximum length of all rendered texts and Base64 data of one result together, in bytes.
const CONTENT_LIMIT_BYTES: usize = 64 << 20;

/// One block, or one for each item of a list.
#[derive(Debug)]
pub struct BlockTemplate {
    /// Kind and contents of the block.
    pub payload: BlockPayload,
    /// Annotations, which are hints for clients.
    pub annotations: Option<AnnotationsTemplate>,
    /// Condition on the structured content; if it is false, the block is omitted.
    pub when: Option<Jq>,
    /// Filter that returns a list: one block for each item, which is `item` in the block's templates.
    pub each: Option<Jq>,
}

/// Kind and contents of a block.
#[derive(Debug)]
pub enum BlockPayload {
    /// Text from a template.
    Text(Template),
    /// The text of the response, unchanged.
    Verbatim,
    /// The structured content as compact JSON.
    Json,
    /// The structured content as indented JSON.
    JsonPretty,
    /// The body of the response, as an image, audio or an embedded resource.
    Bytes(super::extract::Binary),
    /// Image or audio from Base64 data inside the response.
    Base64 {
        /// Whether the data is an image; audio otherwise.
        is_image: bool,
        /// Template of the Base64 data.
        data: Template,
        /// Media type of the data, such as `image/png`.
        media_type: String,
    },
    /// A resource link.
    ResourceLink(LinkTemplate),
    /// An embedded resource.
    Resource(EmbeddedTemplate),
}

/// Link to a resource.
#[derive(Debug, Section)]
#[section(id = "resource_link")]
pub struct LinkTemplate {
    /// URI of the resource: a template.
    #[key(example = "uri: report://today")]
    pub uri: Template,
    /// Name: a template.
    #[key(example = "name: report")]
    pub name: Template,
    /// Description: a template.
    pub description: Option<Template>,
    /// Media type of the linked resource.
    #[key(with = read_media_type)]
    pub media_type: Option<String>,
}

/// Embedded resource.
#[derive(Debug, Section)]
#[section(id = "resource")]
pub struct EmbeddedTemplate {
    /// URI of the resource: a template.
    #[key(example = "uri: report://today")]
    pub uri: Template,
    /// Media type; that of the response when absent.
    #[key(with = read_media_type)]
    pub media_type: Option<String>,
    /// Text: a template; the text of the response when absent.
    #[key(conflicts = "blob")]
    pub text: Option<Template>,
    /// Binary content instead of `text`: a template that renders Base64.
    pub blob: Option<Template>,
}

/// Annotations of a block. `lastModified` may be a template.
#[derive(Debug, Default, Section)]
#[section(name = "`annotations`", id = "block_annotations")]
pub struct AnnotationsTemplate {
    /// Intended audience of the content.
    pub audience: Vec<MessageRole>,
    /// Importance, from 0 (optional) to 1 (required).
    #[key(example = "0.5")]
    pub priority: Option<f64>,
    /// Time of the last modification, such as `2026-11-21T09:30:00Z`; may be a template.
    #[key(name = "lastModified", with = read_last_modified)]
    pub last_modified: Option<Template>,
}

/// Parses `lastModified`: a timestamp, or a template that renders a timestamp at each call.
fn read_last_modified(value: &Cursor<'_>) -> Checked<Option<Template>> {
    let text = text_of(value)?;
    if text.contains("{{") || text.contains("{%") || is_timestamp(text) {
        return Template::read(value).map(Some);
    }
    let message = format!("`lastModified` must be an RFC 3339 timestamp, found {}", value.node.describe());
    value.reject(Invalid::new(message, "write `\"2026-11-21T09:30:00Z\"`, or a template"))
}

impl AnnotationsTemplate {
    /// Returns the annotations with a rendered `lastModified`. Text that is not a timestamp is omitted,
    /// because strict clients would reject the whole result.
    pub(crate) fn render<E>(
        &self,
        render: impl FnOnce(&Template) -> Result<String, E>,
    ) -> Result<Option<Annotations>, E> {
        let rendered = self.last_modified.as_ref().map(render).transpose()?;
        let last_modified = rendered.map(|text| text.trim().to_owned()).filter(|text| is_timestamp(text));
        let audience = self.audience.iter().map(|audience| audience.as_str().to_owned()).collect();
        let annotations = Annotations { audience, priority: self.priority, last_modified };
        Ok((annotations != Annotations::default()).then_some(annotations))
    }
}

/// A rendered block. The source of its text determines how the block can be shortened.
pub(in crate::translate) struct RenderedBlock {
    pub(in crate::translate) content: Content,
    pub(in crate::translate) text: TextKind,
}

/// Source of the text of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::translate) enum TextKind {
    /// The structured content as JSON. To shorten the text, shorten the structured content.
    Json,
    /// The response, unchanged.
    Verbatim,
    /// A template, or a block without text.
    Rendered,
}

impl ContentTemplate {
    /// Templates of all blocks, for checks when the configuration is loaded.
    pub fn templates(&self) -> Vec<&Template> {
        self.0.iter().flat_map(BlockTemplate::templates).collect()
    }

    /// Whether a block has `when` or `for_each`, which are filters on the structured content.
    fn has_filters(&self) -> bool {
        self.0.iter().any(|block| block.when.is_some() || block.each.is_some())
    }

    /// Whether rendering needs the structured content as a parsed tree, not only as JSON text.
    pub(in crate::translate) fn reads_structure(&self) -> bool {
        let in_template = || self.templates().iter().any(|template| template.uses("structured"));
        self.has_filters() || self.is_pretty() || in_template()
    }

    /// Whether a block has a text other than the structured content: a template, or the response.
    pub(in crate::translate) fn has_own_text(&self) -> bool {
        self.0.iter().any(|block| matches!(block.payload, BlockPayload::Text(_) | BlockPayload::Verbatim))
    }

    /// Whether a block is the body of the response.
    pub(in crate::translate) fn has_bytes(&self) -> bool {
        self.0.iter().any(|block| matches!(block.payload, BlockPayload::Bytes(_)))
    }

    /// Whether a block is the structured content as indented JSON, which is longer than compact JSON.
    pub(in crate::translate) fn is_pretty(&self) -> bool {
        self.0.iter().any(|block| matches!(block.payload, BlockPayload::JsonPretty))
    }
}

impl BlockTemplate {
    /// Creates a block without conditions.
    pub fn new(payload: BlockPayload) -> Self {
        Self { payload, annotations: None, when: None, each: None }
    }

    /// Templates of the block, for checks when the configuration is loaded.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let last_modified =
            self.annotations.iter().filter_map(|annotations| annotations.last_modified.as_ref());
        self.payload.templates().into_iter().chain(last_modified)
    }

    fn render(
        &self,
        context: &TemplateContext<'_>,
        variables: &TemplateValue,
        budget: &TemplateBudget,
    ) -> Result<RenderedBlock, ReadError> {
        let failed = |error: TemplateError| error.in_part("a template of the rule failed to render");
        let render = |template: &Template| template.render_within(variables, budget).map_err(failed);
        let block = self.payload.render(context, render)?;
        let annotations = self.annotations.as_ref().map(|annotations| annotations.render(render));
        let annotations = annotations.transpose()?.flatten();
        let text = match self.payload {
            BlockPayload::Json | BlockPayload::JsonPretty => TextKind::Json,
            BlockPayload::Verbatim => TextKind::Verbatim,
            _ => TextKind::Rendered,
        };
        Ok(RenderedBlock { content: Content { block, annotations }, text })
    }
}

/// Builds the blocks of a result, in order. Blank text blocks are omitted, so the list may be empty.
///
/// # Errors
///
/// A message that names the part that failed.
pub(in crate::translate) fn render(
    content: &ContentTemplate,
    context: &TemplateContext<'_>,
    trace: &mut Trace,
) -> Result<Vec<RenderedBlock>, ReadError> {
    let structure = context.structured.filter(|_| content.has_filters());
    let structure = structure.map(|structured| structured.value(ObjectsOnly)).unwrap_or_default();
    let variables = context.variables(&Redaction::default(), content.templates().into_iter());
    let shared_variables = TemplateValue::from_pairs(variables.clone());
    let budget = TemplateBudget::new(context.view.input.work_budget);
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    let mut add = |block: RenderedBlock| {
        bytes += match &block.content.block {
            ContentBlock::Text(BlockText::Plain(text)) if text.trim().is_empty() => return Ok(()),
            ContentBlock::Text(BlockText::Shared(text)) if text.trim().is_empty() => return Ok(()),
            ContentBlock::Text(BlockText::Plain(text) | BlockText::Error(text))
            | ContentBlock::Image { data: text, .. }
            | ContentBlock::Audio { data: text, .. }
            | ContentBlock::Resource {
                resource: ResourceContents { body: ResourceBody::Text(text) | ResourceBody::Blob(text), .. },
            } => text.len(),
            ContentBlock::Text(BlockText::Shared(_) | BlockText::StructuredContent)
            | ContentBlock::ResourceLink { .. }
            | ContentBlock::Foreign(_) => 0,
        };
        blocks.push(block);
        match bytes {
            // A single block is bounded by its own limits.
            _ if blocks.len() > 1 && bytes > CONTENT_LIMIT_BYTES => {
                Err(read_error!("the content blocks are longer than {CONTENT_LIMIT_BYTES} bytes together"))
            }
            _ if blocks.len() > BLOCK_LIMIT => Err(too_many(blocks.len())),
            _ => Ok(()),
        }
    };
    for (index, block) in content.0.iter().enumerate() {
        let holds = |when: &&Jq| when.is_true(&structure, jq_variables(context.view, context.captures));
        if let Some(when) = block.when.as_ref().filter(|when| !holds(when)) {
            trace.step("omitted", || format!("block {}: `{}` is false", index + 1, when.source()));
            continue;
        }
        let Some(each) = &block.each else {
            add(block.render(context, &shared_variables, &budget)?)?;
            continue;
        };
        let rows = match each.apply(&structure, jq_variables(context.view, context.captures)) {
            Ok(Value::Array(rows)) => rows,
            Ok(Value::Null) => Vec::new(),
            Ok(other) => {
                return Err(read_error!("expected a list for `for_each`, found {}", kind_of(&other)));
            }
            // The error message quotes nothing of the value.
            Err(error) => return Err(read_error!("`for_each` {error}")),
        };
        if rows.len() > BLOCK_LIMIT {
            return Err(too_many(rows.len()));
        }
        for row in rows {
            let item = [("item".to_owned(), from_json(&row))];
            let item_variables = TemplateValue::from_pairs(variables.iter().cloned().chain(item));
            add(block.render(context, &item_variables, &budget)?)?;
        }
    }
    Ok(blocks)
}

fn too_many(count: usize) -> ReadError {
    read_error!("expected at most {BLOCK_LIMIT} content blocks, found {count}")
}

/// Whether a string is an RFC 3339 timestamp.
fn is_timestamp(text: &str) -> bool {
    static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
        let shape = r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$";
        fixed_regex(&shape.replace(r"\d", "[0-9]"))
    });
    // The parser checks the days of each month, but accepts more forms than RFC 3339.
    SHAPE.is_match(text) && text.parse::<Timestamp>().is_ok()
}

impl BlockPayload {
    fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Text(text) => vec![text],
            Self::Base64 { data, .. } => vec![data],
            Self::ResourceLink(link) => link.templates().collect(),
            Self::Resource(EmbeddedTemplate { uri, text, blob, .. }) => {
                std::iter::once(uri).chain(text).chain(blob).collect()
            }
            Self::Verbatim | Self::Json | Self::JsonPretty | Self::Bytes(_) => Vec::new(),
        }
    }

    pub(super) fn render(
        &self,
        context: &TemplateContext<'_>,
        render: impl Fn(&Template) -> Result<String, ReadError>,
    ) -> Result<ContentBlock, ReadError> {
        let (view, structured) = (context.view, context.structured);
        let structured = structured.ok_or("expected a value to show as JSON, found none");
        Ok(match self {
            Self::Text(template) => ContentBlock::Text(BlockText::Plain(render(template)?)),
            Self::Verbatim => ContentBlock::Text(BlockText::Shared(view.text()?.clone())),
            Self::Json => structured.map(|_| ContentBlock::Text(BlockText::StructuredContent))?,
            Self::JsonPretty => ContentBlock::Text(BlockText::Plain(pretty(structured?))),
            Self::Bytes(binary) => binary.block(view)?,
            Self::Base64 { is_image, data, media_type } => {
                let (data, mime_type) = (base64_text(&render(data)?)?, media_type.clone());
                match is_image {
                    true => ContentBlock::Image { data, mime_type },
                    false => ContentBlock::Audio { data, mime_type },
                }
            }
            Self::ResourceLink(link) => link.render(render)?,
            Self::Resource(EmbeddedTemplate { uri, media_type, text, blob }) => {
                let resource = ResourceContents {
                    uri: render(uri)?,
                    media_type: media_type.clone().or_else(|| view.response.media_type().map(Into::into)),
                    body: match (text, blob) {
                        (Some(template), _) => ResourceBody::Text(render(template)?),
                        (None, Some(template)) => ResourceBody::Blob(base64_text(&render(template)?)?),
                        (None, None) => ResourceBody::Text(view.text()?.to_string()),
                    },
                };
                ContentBlock::Resource { resource }
            }
        })
    }
}

impl LinkTemplate {
    /// Templates of the link, for checks when the configuration is loaded.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        [&self.uri, &self.name].into_iter().chain(&self.description)
    }

    /// Renders the link as a content block.
    pub(crate) fn render<E>(
        &self,
        render: impl Fn(&Template) -> Result<String, E>,
    ) -> Result<ContentBlock, E> {
        Ok(ContentBlock::ResourceLink {
            uri: render(&self.uri)?,
            name: render(&self.name)?,
            description: self.description.as_ref().map(render).transpose()?,
            mime_type: self.media_type.clone(),
        })
    }
}

/// Formats the structured content as indented JSON, or as compact JSON if deep nesting would make most of the
/// text indentation.
pub(in crate::translate) fn pretty(structured: &Structured) -> String {
    /// Maximum ratio of the length of indented JSON to the length of compact JSON.
    const MAX_TIMES_LONGER: usize = 8;
    let value = structured.value(ObjectsOnly);
    let compact = value.to_string();
    let mut out = LimitedWriter::new(compact.len().saturating_mul(MAX_TIMES_LONGER));
    match serde_json::to_writer_pretty(&mut out, &value) {
        Ok(()) => String::from_utf8(out.written).unwrap_or(compact),
        Err(_) => compact,
    }
}

/// Removes white space from Base64 data and validates it: invalid data would break the client's whole result.
fn base64_text(text: &str) -> Result<String, ReadError> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let text: String = text.split_ascii_whitespace().collect();
    match BASE64_STANDARD.decode(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(read_error!("expected Base64 data, found {} bytes of invalid Base64", text.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::is_timestamp;

    #[test]
    fn a_timestamp_is_a_valid_date_in_rfc_3339() {
        for valid in ["2026-11-21T09:30:00Z", "2024-02-29t09:30:00.125+01:00", "2016-12-31T23:59:60Z"] {
            assert!(is_timestamp(valid), "{valid}");
        }
        for invalid in [
            "today",
            "2026-11-21",
            "2026-11-21 09:30:00Z",
            "2026-11-21T09:30:00",
            "2026-11-21T09:30:00Z[UTC]",
            "2026-02-29T09:30:00Z",
            "2026-13-01T09:30:00Z",
            "2026-11-21T25:30:00Z",
            "٢٠٢٦-١١-٢١T٠٩:٣٠:٠٠Z",
        ] {
            assert!(!is_timestamp(invalid), "{invalid}");
        }
    }
}

#[cfg(test)]
mod payload_tests {
    use super::*;
    use crate::model::JsonText;

    #[test]
    fn indentation_is_never_most_of_a_text() {
        let formatted =
            |text: &str| pretty(&Structured::new(JsonText::check(&text.to_owned().into()).unwrap()));
        assert_eq!(
            formatted(r#"{"a":[1,{}],"b":{"c":[]}}"#),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}"
        );
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(60), "]".repeat(60));
        assert_eq!(formatted(&deep), deep);
    }
}
