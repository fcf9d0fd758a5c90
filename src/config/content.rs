//! `content`: content blocks of a result, for people and models.

use crate::settings::{Checked, Code, Cursor, EnumSetting, Kind, OpenSection, Section, Setting, ValueKind};
use crate::translate::expressions::{Scope, read_condition};
use crate::translate::extract::{Binary, BinaryKind, read_media_type};
use crate::translate::{
    AnnotationsTemplate, BlockPayload, BlockTemplate, ContentTemplate, EmbeddedTemplate, Jq, LinkTemplate,
    Template,
};

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
            Kind::List(_) => Vec::read(value)?,
            Kind::Map(_) => vec![BlockTemplate::read(value)?],
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {
                vec![BlockTemplate::new(BlockPayload::Text(Template::read(value)?))]
            }
        };
        Ok(Self(blocks))
    }
}

impl Setting for BlockTemplate {
    const KIND: ValueKind = BlockSettings::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        // The variable `item` exists only in a block with `for_each`.
        let item: &[_] = if value.node.get("for_each").is_some() { &["item"] } else { &[] };
        let block = Scope::from_cursor(value).with_more_names(item, || BlockSettings::read(value))?;
        block.compile(value)
    }
}

/// Section of a content block.
#[derive(Section)]
#[section(name = "a block of content", id = "block", check_keys = Self::check_keys)]
struct BlockSettings {
    /// Text: a template.
    text: Option<Template>,
    /// Text of the response (`verbatim`), or the structured content as JSON (`json`, `json-pretty`).
    r#as: Option<ContentForm>,
    /// Image: `response` for the response body, or a template of Base64 data.
    #[key(kind = ValueKind::Text)]
    image: Option<BlockData<Template>>,
    /// Audio: `response` for the response body, or a template of Base64 data.
    #[key(kind = ValueKind::Text)]
    audio: Option<BlockData<Template>>,
    /// Embedded resource: `response` for the response body, or a map.
    resource: Option<BlockData<EmbeddedTemplate>>,
    /// Link to a resource.
    resource_link: Option<LinkTemplate>,
    /// Media type of `image`, `audio` or `resource: response`.
    #[key(with = read_media_type, conflicts = "text, as, resource_link")]
    media_type: Option<String>,
    /// jq condition on the structured content; if it is false, the block is omitted.
    #[key(kind = Jq::KIND, with = read_condition)]
    when: Option<Jq>,
    /// jq filter to a list; each item gives one block, with the item as the variable `item`.
    for_each: Option<Jq>,
    /// Hints for clients.
    annotations: Option<AnnotationsTemplate>,
}

impl BlockSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        const KINDS: [&str; 6] = ["text", "as", "image", "audio", "resource", "resource_link"];
        check_one_kind(section, &KINDS, "a block of content")?;
        let is_map = section.get("resource").is_some_and(|node| node.as_map().is_some());
        if is_map && section.entry("media_type").is_some() {
            return Err(section.conflict("media_type", "resource: {…}"));
        }
        Ok(())
    }

    fn compile(self, value: &Cursor<'_>) -> Checked<BlockTemplate> {
        let media_type = self.media_type;
        let binary = |kind: BinaryKind, data| {
            let BlockData::Configured(data) = data else {
                return Ok(BlockPayload::Bytes(Binary { kind: Some(kind), media_type }));
            };
            let Some(media_type) = media_type else {
                let help =
                    "add `media_type: image/png`, or write `response` for the body and type of the response";
                let span = value.node.get(kind.as_str()).map_or(value.node.span, |node| node.span);
                let message = "data from a template needs a `media_type`";
                return value.reject_coded(Code::MissingKey.at_span(span), message, help);
            };
            Ok(BlockPayload::Base64 { is_image: kind == BinaryKind::Image, data, media_type })
        };
        let payload = match self {
            Self { text: Some(text), .. } => BlockPayload::Text(text),
            Self { r#as: Some(ContentForm::Verbatim), .. } => BlockPayload::Verbatim,
            Self { r#as: Some(ContentForm::Json), .. } => BlockPayload::Json,
            Self { r#as: Some(ContentForm::JsonPretty), .. } => BlockPayload::JsonPretty,
            Self { image: Some(data), .. } => binary(BinaryKind::Image, data)?,
            Self { audio: Some(data), .. } => binary(BinaryKind::Audio, data)?,
            Self { resource: Some(BlockData::Configured(resource)), .. } => BlockPayload::Resource(resource),
            Self { resource_link: Some(link), .. } => BlockPayload::ResourceLink(link),
            _ => binary(BinaryKind::Resource, BlockData::Response)?,
        };
        Ok(BlockTemplate { payload, annotations: self.annotations, when: self.when, each: self.for_each })
    }
}

/// Checks that a block has exactly one of the keys `kinds`.
pub(super) fn check_one_kind(section: &OpenSection<'_>, kinds: &[&str], block: &str) -> Checked<()> {
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

/// Form in which a block contains the response text or the structured content: the key `as`.
#[derive(Clone, Copy, PartialEq, EnumSetting)]
enum ContentForm {
    Verbatim,
    Json,
    #[value("json-pretty")]
    JsonPretty,
}

/// Source of the data of a block.
enum BlockData<T> {
    /// The body of the response.
    Response,
    /// Configured data: a resource, or a template that renders base64.
    Configured(T),
}

impl<T: Setting> Setting for BlockData<T> {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Enum(&["response"]), T::KIND]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if value.node.as_text() == Some("response") {
            return Ok(Self::Response);
        }
        value.reject_renamed_value()?;
        T::read(value).map(Self::Configured)
    }
}
