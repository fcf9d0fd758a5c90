//! `binary`: any bytes as a block of content, in Base64.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{Extracted, Extraction, Finds, Gives, Typing};
use crate::{
    model::{Block, Content, ResourceBody},
    translate::{response_view::ResponseView, why::Why},
};

/// Takes the body as it is.
#[derive(Debug, Clone)]
pub struct Binary {
    /// The kind of block; by the media type where the rule says nothing.
    pub kind: Option<BinaryKind>,
    /// The media type; the reply's own where the rule says nothing.
    pub media_type: Option<String>,
}

/// The kinds of block that hold bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryKind {
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// A document.
    Resource,
}

impl Extraction for Binary {
    fn gives(&self) -> Gives {
        Gives::Block
    }

    fn finds(&self) -> Finds<'_> {
        Finds::NoFields
    }

    fn reads_text(&self) -> bool {
        false
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        self.block(view).map(|block| Extracted::Block(Content::from(block)))
    }
}

impl Binary {
    /// The body as a block.
    ///
    /// # Errors
    ///
    /// A sentence, when the reply says that it is something else.
    pub(crate) fn block(&self, view: &ResponseView<'_>) -> Result<Block, Why> {
        let reply = view.reply();
        let mime_type = self
            .media_type
            .clone()
            .or_else(|| reply.media_type().map(Into::into))
            .unwrap_or_else(|| "application/octet-stream".to_owned());
        let kind = self.kind.unwrap_or_else(|| BinaryKind::of(&mime_type));
        let expected = match kind {
            BinaryKind::Image => Some("image"),
            BinaryKind::Audio => Some("audio"),
            BinaryKind::Resource => None,
        };
        if let Some(expected) = expected
            && mime_type.split('/').next() != Some(expected)
        {
            return Err(Why::quoting(usize::MAX, |quoted| {
                let found = quoted(&mime_type);
                format!(
                    "expected {expected} data, found {found}; `media_type` says otherwise where the reply is wrong"
                )
            }));
        }
        let data = BASE64_STANDARD.encode(view.body()?);
        Ok(match kind {
            BinaryKind::Image => Block::Image { data, mime_type },
            BinaryKind::Audio => Block::Audio { data, mime_type },
            BinaryKind::Resource => Block::Resource {
                uri: format!("reply://{}", view.tool()),
                mime_type: Some(mime_type),
                body: ResourceBody::Blob(data),
            },
        })
    }
}

impl BinaryKind {
    fn of(mime_type: &str) -> Self {
        match mime_type.split('/').next() {
            Some("image") => Self::Image,
            Some("audio") => Self::Audio,
            _ => Self::Resource,
        }
    }
}
