//! Content blocks of a result, built from templates or from the response.
//!
//! A [`ContentTemplate`] has [`BlockTemplate`]s; [`render`] builds those of one result.

use std::{iter::once, sync::LazyLock};

use jiff::Timestamp;
use minijinja::Value as Name;
use regex::Regex;
use serde_json::Value;
use settings_derive::{Section, Word};

use super::expressions::{Scope, read_condition};
use super::extract::{Binary, BinaryKind, read_media_type};
use super::read_error::ReadError;
use super::template::from_json;
use super::variables::{TemplateContext, jq_names};
use super::{Jq, MessageRole, Redaction, Template, TemplateBudget, TemplateError, Trace};
use crate::model::StructuredContentSupport::ObjectsOnly;
use crate::model::{
    Annotations, BlockText, Content, ContentBlock, LimitedWriter, ResourceBody, ResourceContents, Structured,
    kind_of,
};
use crate::settings::{
    Checked, Code, Cursor, Invalid, Kind, OpenSection, Setting, ValueKind, Word as _, fixed_regex, read_each,
    text_of,
};

/// Content blocks of a success rule, in order. If there are none, the result has one text block: the
/// structured content as JSON, or the text of the response without structured content.
#[derive(Debug, Default)]
pub struct ContentTemplate(pub Vec<BlockTemplate>);

/// Limit of the blocks of one result; a longer list is an error that names the limit.
pub const BLOCK_LIMIT: usize = 1000;
/// Limit of the blocks of one result together, in bytes.
const CONTENT_LIMIT_BYTES: usize = 64 << 20;

/// One block, or one for each item of a list. It has exactly one kind of content.
#[derive(Debug, Default, Section)]
#[section(name = "a block of content", id = "block", check_keys = Self::check_keys, check = Self::check)]
pub struct BlockTemplate {
    /// Text: a template.
    pub text: Option<Template>,
    /// Text of the response (`verbatim`), or the structured content as JSON (`json`, `json-pretty`).
    pub r#as: Option<ContentForm>,
    /// Image: `response` for the response body, or a template of Base64 data.
    #[key(kind = ValueKind::Text)]
    pub image: Option<FromResponse<Template>>,
    /// Audio: `response` for the response body, or a template of Base64 data.
    #[key(kind = ValueKind::Text)]
    pub audio: Option<FromResponse<Template>>,
    /// Embedded resource: `response` for the response body, or a map.
    pub resource: Option<FromResponse<ResourceTemplate>>,
    /// Link to a resource.
    pub resource_link: Option<LinkTemplate>,
    /// Media type of `image`, `audio` or `resource: response`.
    #[key(with = read_media_type, conflicts = "text, as, resource_link")]
    pub media_type: Option<String>,
    /// jq condition on the structured content; if it is false, the block is omitted.
    #[key(kind = Jq::KIND, with = read_condition)]
    pub when: Option<Jq>,
    /// jq filter to a list; each item gives one block, with the item as the variable `item`.
    pub for_each: Option<Jq>,
    /// Hints for clients.
    pub annotations: Option<AnnotationsTemplate>,
}

/// Form in which a block has the response or the structured content.
#[derive(Debug, Clone, Copy, PartialEq, Word)]
pub enum ContentForm {
    /// The text of the response, unchanged.
    Verbatim,
    /// The structured content as compact JSON.
    Json,
    /// The structured content as indented JSON.
    #[word("json-pretty")]
    JsonPretty,
}

/// Data of a block.
#[derive(Debug)]
pub enum FromResponse<T> {
    /// The body of the response.
    Body,
    /// Configured data: a resource, or a template that renders Base64.
    Given(T),
}

impl<T> FromResponse<T> {
    fn given(&self) -> Option<&T> {
        if let Self::Given(data) = self { Some(data) } else { None }
    }
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
pub struct ResourceTemplate {
    /// URI of the resource: a template.
    #[key(example = "uri: report://today")]
    pub uri: Template,
    /// Media type; that of the response when absent.
    #[key(with = read_media_type)]
    pub media_type: Option<String>,
    /// Text: a template; the text of the response when absent.
    #[key(conflicts = "blob")]
    pub text: Option<Template>,
    /// Binary content instead of `text`: a template of Base64 data.
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

/// Parses a timestamp, or a template that renders to one at each call.
fn read_last_modified(value: &Cursor<'_>) -> Checked<Option<Template>> {
    let text = text_of(value)?;
    if text.contains("{{") || is_timestamp(text) {
        return Template::read(value).map(Some);
    }
    let message = format!("`lastModified` must be an RFC 3339 timestamp, found {}", value.node.found());
    value.reject(Invalid::new(message, "write `\"2026-11-21T09:30:00Z\"`, or a template"))
}

impl AnnotationsTemplate {
    /// Annotations with a rendered `lastModified`. It is omitted if it is no timestamp: strict clients would
    /// reject the whole result for an invalid one.
    pub(crate) fn render<E>(
        &self,
        render: impl FnOnce(&Template) -> Result<String, E>,
    ) -> Result<Option<Annotations>, E> {
        let rendered = self.last_modified.as_ref().map(render).transpose()?;
        let last_modified = rendered.map(|text| text.trim().to_owned()).filter(|text| is_timestamp(text));
        let audience = self.audience.iter().map(|audience| audience.word().to_owned()).collect();
        let annotations = Annotations { audience, priority: self.priority, last_modified };
        Ok((annotations != Annotations::default()).then_some(annotations))
    }
}

/// A rendered block, and the way to shorten it.
pub(in crate::translate) struct RenderedBlock {
    pub(in crate::translate) content: Content,
    pub(in crate::translate) text: TextKind,
}

/// Source of the text of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::translate) enum TextKind {
    /// The structured content as JSON; shortened by shortening the structured content.
    Json,
    /// The response, unchanged.
    Verbatim,
    /// A template, or a block without text.
    Rendered,
}

impl ContentTemplate {
    /// Templates of all blocks, for checks at load.
    pub fn templates(&self) -> Vec<&Template> {
        self.0.iter().flat_map(BlockTemplate::templates).collect()
    }

    /// Whether a condition or a list of rows is computed from the structured content.
    fn has_filters(&self) -> bool {
        self.0.iter().any(|block| block.when.is_some() || block.for_each.is_some())
    }

    /// Whether a block reads the structured content as a tree.
    pub(in crate::translate) fn reads_structure(&self) -> bool {
        let in_template = || self.templates().iter().any(|template| template.uses("structured"));
        self.has_filters() || self.is_pretty() || in_template()
    }

    /// Whether a block has a text other than the structured content: a template, or the response.
    pub(in crate::translate) fn has_own_text(&self) -> bool {
        self.0.iter().any(|block| block.text.is_some() || block.r#as == Some(ContentForm::Verbatim))
    }

    /// Whether a block is the structured content as indented JSON, which is longer than compact JSON.
    pub(in crate::translate) fn is_pretty(&self) -> bool {
        self.0.iter().any(|block| block.r#as == Some(ContentForm::JsonPretty))
    }
}

impl BlockTemplate {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let data = [&self.image, &self.audio].into_iter().flatten().filter_map(FromResponse::given);
        let resource = self.resource.iter().filter_map(FromResponse::given);
        let of_resource = resource.flat_map(|own| once(&own.uri).chain(&own.text).chain(&own.blob));
        let of_link = self.resource_link.iter().flat_map(LinkTemplate::templates);
        let last_modified = self.annotations.iter().filter_map(|own| own.last_modified.as_ref());
        self.text.iter().chain(data).chain(of_resource).chain(of_link).chain(last_modified)
    }

    fn render(
        &self,
        context: &TemplateContext<'_>,
        names: &Name,
        budget: &TemplateBudget,
    ) -> Result<RenderedBlock, ReadError> {
        let failed = |error: TemplateError| error.in_part("a template of the rule failed to render");
        let render = |template: &Template| template.render_within(names, budget).map_err(failed);
        let block = self.content_block(context, render)?;
        let annotations = self.annotations.as_ref().map(|annotations| annotations.render(render));
        let annotations = annotations.transpose()?.flatten();
        let text = match self.r#as {
            Some(ContentForm::Json | ContentForm::JsonPretty) => TextKind::Json,
            Some(ContentForm::Verbatim) => TextKind::Verbatim,
            None => TextKind::Rendered,
        };
        Ok(RenderedBlock { content: Content { block, annotations }, text })
    }

    fn content_block(
        &self,
        context: &TemplateContext<'_>,
        render: impl Fn(&Template) -> Result<String, ReadError>,
    ) -> Result<ContentBlock, ReadError> {
        let view = context.view;
        let structured = || context.structured.ok_or("expected a value to show as JSON, found none");
        let media_type = || self.media_type.clone();
        let of_body = |kind| Binary { kind: Some(kind), media_type: media_type() }.block(view);
        let base64 = |data| base64_text(&render(data)?);
        Ok(match self {
            Self { text: Some(text), .. } => ContentBlock::Text(BlockText::Plain(render(text)?)),
            Self { r#as: Some(form), .. } => ContentBlock::Text(match form {
                ContentForm::Verbatim => BlockText::Shared(view.shared_text()?.clone()),
                ContentForm::Json => structured().map(|_| BlockText::StructuredContent)?,
                ContentForm::JsonPretty => BlockText::Plain(pretty(structured()?)),
            }),
            Self { image: Some(FromResponse::Body), .. } => of_body(BinaryKind::Image)?,
            Self { audio: Some(FromResponse::Body), .. } => of_body(BinaryKind::Audio)?,
            Self { image: Some(FromResponse::Given(data)), .. } => {
                ContentBlock::Image { data: base64(data)?, mime_type: media_type().unwrap_or_default() }
            }
            Self { audio: Some(FromResponse::Given(data)), .. } => {
                ContentBlock::Audio { data: base64(data)?, mime_type: media_type().unwrap_or_default() }
            }
            Self { resource_link: Some(link), .. } => link.render(render)?,
            Self { resource: Some(FromResponse::Given(resource)), .. } => {
                let of_response = || view.response.media_type().map(Into::into);
                let resource = ResourceContents {
                    uri: render(&resource.uri)?,
                    media_type: resource.media_type.clone().or_else(of_response),
                    body: match (&resource.text, &resource.blob) {
                        (Some(template), _) => ResourceBody::Text(render(template)?),
                        (None, Some(data)) => ResourceBody::Blob(base64(data)?),
                        (None, None) => ResourceBody::Text(view.text()?.to_owned()),
                    },
                };
                ContentBlock::Resource { resource }
            }
            Self { resource: Some(FromResponse::Body) | None, .. } => of_body(BinaryKind::Resource)?,
        })
    }

    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        const KINDS: [&str; 6] = ["text", "as", "image", "audio", "resource", "resource_link"];
        check_one_kind(section, &KINDS, "a block of content")?;
        let is_map = section.get("resource").is_some_and(|node| node.as_map().is_some());
        if is_map && section.entry("media_type").is_some() {
            return Err(section.conflict("media_type", "resource: {…}"));
        }
        Ok(())
    }

    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        let data = [("image", &self.image), ("audio", &self.audio)];
        let mut untyped = data.iter().filter(|(_, data)| matches!(data, Some(FromResponse::Given(_))));
        let Some((key, _)) = untyped.next().filter(|_| self.media_type.is_none()) else { return Ok(self) };
        let at = section.get(key).map_or(section.value.node.span, |node| node.span);
        let help = "add `media_type: image/png`, or write `response` for the body and type of the response";
        let message = "data from a template needs a `media_type`";
        Err(section.reject_at(Code::MissingKey.at_span(at), message, help))
    }
}

/// Checks that a block has exactly one kind of content.
pub(crate) fn check_one_kind(section: &OpenSection<'_>, kinds: &[&str], block: &str) -> Checked<()> {
    let mut found = kinds.iter().filter_map(|kind| section.entry(kind));
    let help = "write `- text: …`, and another `-` for the next block";
    match (found.next(), found.next()) {
        (Some(_), None) => Ok(()),
        (None, _) => Err(section.missing(format!("{block} has no content"), help)),
        (Some(_), Some(second)) => {
            let message = format!("{block} must have one kind of content, found several");
            Err(section.reject_at(Code::ConflictingKeys.at_span(second.key.span), &message, help))
        }
    }
}

/// Reads a block. The variable `item` exists only in a block with `for_each`.
fn read_block(value: &Cursor<'_>) -> Checked<BlockTemplate> {
    let item: &[_] = if value.node.get("for_each").is_some() { &["item"] } else { &[] };
    Scope::from_cursor(value).with_more_names(item, || BlockTemplate::read(value))
}

impl Setting for ContentTemplate {
    const KIND: ValueKind =
        ValueKind::Either(&[ValueKind::Text, BlockTemplate::KIND, ValueKind::List(&BlockTemplate::KIND)]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let blocks = match &value.node.kind {
            Kind::List(items) if items.is_empty() => {
                let help = "write at least one block, or remove `content` for the default";
                let message = "`content` is an empty list";
                return value.reject_coded(Code::EmptyValue.at_span(value.node.span), message, help);
            }
            Kind::List(items) => {
                let name = format!("an item of {}", value.name);
                let item = |item| value.part(item, &name, BlockTemplate::KIND).with_span(item.span);
                read_each(items.iter().map(|node| read_block(&item(node))))?
            }
            Kind::Map(_) => vec![read_block(value)?],
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {
                vec![BlockTemplate { text: Some(Template::read(value)?), ..BlockTemplate::default() }]
            }
        };
        Ok(Self(blocks))
    }
}

impl<T: Setting> Setting for FromResponse<T> {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Word(&["response"]), T::KIND]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if value.node.as_text() == Some("response") {
            return Ok(Self::Body);
        }
        value.reject_renamed_word()?;
        T::read(value).map(Self::Given)
    }
}

/// Builds the blocks of a result, in order. Empty texts are omitted, so the list may be empty.
///
/// # Errors
///
/// A sentence that names the part that failed.
pub(in crate::translate) fn render(
    content: &ContentTemplate,
    context: &TemplateContext<'_>,
    trace: &mut Trace,
) -> Result<Vec<RenderedBlock>, ReadError> {
    let structure = context.structured.filter(|_| content.has_filters());
    let structure = structure.map(|structured| structured.value(ObjectsOnly)).unwrap_or_default();
    let names = context.names(&Redaction::default(), content.templates().into_iter());
    let plain = Name::from_pairs(names.clone());
    let budget = TemplateBudget::new(context.view.input.stop);
    let (mut shown, mut bytes) = (Vec::new(), 0);
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
        shown.push(block);
        match bytes {
            // A single block is bounded by its own limits.
            _ if shown.len() > 1 && bytes > CONTENT_LIMIT_BYTES => {
                Err(read_error!("the content blocks are longer than {CONTENT_LIMIT_BYTES} bytes together"))
            }
            _ if shown.len() > BLOCK_LIMIT => Err(too_many(shown.len())),
            _ => Ok(()),
        }
    };
    for (index, block) in content.0.iter().enumerate() {
        let holds = |when: &&Jq| when.is_true(&structure, jq_names(context.view, context.captures));
        if let Some(when) = block.when.as_ref().filter(|when| !holds(when)) {
            trace.step("omitted", || format!("block {}: `{}` is false", index + 1, when.source()));
            continue;
        }
        let Some(each) = &block.for_each else {
            add(block.render(context, &plain, &budget)?)?;
            continue;
        };
        let rows = match each.apply(&structure, jq_names(context.view, context.captures)) {
            Ok(Value::Array(rows)) => rows,
            Ok(Value::Null) => Vec::new(),
            Ok(other) => {
                return Err(read_error!("expected a list for `for_each`, found {}", kind_of(&other)));
            }
            // The message quotes nothing of the value.
            Err(error) => return Err(read_error!("`for_each` {error}")),
        };
        if rows.len() > BLOCK_LIMIT {
            return Err(too_many(rows.len()));
        }
        for row in rows {
            let item = [("item".to_owned(), from_json(&row))];
            let names = Name::from_pairs(names.iter().cloned().chain(item));
            add(block.render(context, &names, &budget)?)?;
        }
    }
    Ok(shown)
}

fn too_many(found: usize) -> ReadError {
    read_error!("expected at most {BLOCK_LIMIT} content blocks, found {found}")
}

/// Whether a text is an RFC 3339 timestamp.
fn is_timestamp(text: &str) -> bool {
    static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
        let shape = r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$";
        fixed_regex(&shape.replace(r"\d", "[0-9]"))
    });
    // The parser checks days of months, but accepts more forms than RFC 3339.
    SHAPE.is_match(text) && text.parse::<Timestamp>().is_ok()
}

impl LinkTemplate {
    /// The templates in it, for checks at load.
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

/// The structured content as indented JSON; compact if deep nesting would make most of it indentation.
pub(in crate::translate) fn pretty(structured: &Structured) -> String {
    /// Largest ratio of the indented to the compact text.
    const MAX_TIMES_LONGER: usize = 8;
    let value = structured.value(ObjectsOnly);
    let compact = value.to_string();
    let mut out = LimitedWriter::new(compact.len().saturating_mul(MAX_TIMES_LONGER));
    match serde_json::to_writer_pretty(&mut out, &value) {
        Ok(()) => String::from_utf8(out.written).unwrap_or(compact),
        Err(_) => compact,
    }
}

/// Removes white space and checks the data: invalid Base64 would break the client's whole result.
fn base64_text(text: &str) -> Result<String, ReadError> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let text: String = text.split_ascii_whitespace().collect();
    match BASE64_STANDARD.decode(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(read_error!("expected Base64 data, found text of {} bytes that is not", text.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::is_timestamp;

    #[test]
    fn a_timestamp_is_a_valid_date_in_rfc_3339() {
        for good in ["2026-11-21T09:30:00Z", "2024-02-29t09:30:00.125+01:00", "2016-12-31T23:59:60Z"] {
            assert!(is_timestamp(good), "{good}");
        }
        for bad in [
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
            assert!(!is_timestamp(bad), "{bad}");
        }
    }
}

#[cfg(test)]
mod payload_tests {
    use super::*;
    use crate::model::JsonText;

    #[test]
    fn indentation_is_never_most_of_a_text() {
        let shown = |text: &str| pretty(&Structured::new(JsonText::check(&text.to_owned().into()).unwrap()));
        assert_eq!(
            shown(r#"{"a":[1,{}],"b":{"c":[]}}"#),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}"
        );
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(60), "]".repeat(60));
        assert_eq!(shown(&deep), deep);
    }
}
