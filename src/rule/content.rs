//! Blocks of content, from templates or from the reply.

use minijinja::Value as Name;

use super::{
    reading::Reading,
    template::{Template, TemplateError},
};
use crate::tool::{Annotations, Block, Content, ResourceBody, Structured, Text};

/// What a rule shows people and models.
#[derive(Debug)]
pub enum ContentTemplate {
    /// One text block: the JSON text of the structure, or the text of the reply where there is none.
    Default,
    /// These blocks, in order; never empty.
    Blocks(Vec<BlockTemplate>),
}

/// One block.
#[derive(Debug)]
pub struct BlockTemplate {
    /// What it shows.
    pub payload: Payload,
    /// Hints for clients.
    pub annotations: Option<Annotations>,
}

/// What a block shows.
#[derive(Debug)]
pub enum Payload {
    /// A rendered text.
    Text(Template),
    /// The reply's text, letter for letter.
    Verbatim,
    /// The structure as compact JSON text.
    Json,
    /// The structure as JSON text with a line per member.
    JsonPretty,
    /// The reply's bytes as a picture, a sound or a document.
    Bytes(super::extract::Binary),
    /// Base64 data that the reply has somewhere inside, as a picture.
    Image {
        /// Gives the Base64 data.
        data: Template,
        /// Such as `image/png`.
        media_type: String,
    },
    /// The same, as a sound.
    Audio {
        /// Gives the Base64 data.
        data: Template,
        /// Such as `audio/wav`.
        media_type: String,
    },
    /// A link.
    ResourceLink {
        /// Where to.
        uri: Template,
        /// A short name.
        name: Template,
        /// What it is.
        description: Option<Template>,
        /// Such as `text/csv`.
        media_type: Option<String>,
    },
    /// An embedded document.
    Resource {
        /// What it is called.
        uri: Template,
        /// Such as `text/csv`.
        media_type: Option<String>,
        /// Its text; the reply's own where there is none.
        text: Option<Template>,
    },
}

impl ContentTemplate {
    /// The templates in it, for checks at load.
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Default => Vec::new(),
            Self::Blocks(blocks) => blocks.iter().flat_map(|block| block.payload.templates()).collect(),
        }
    }
}

impl Payload {
    fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Text(text) => vec![text],
            Self::Image { data, .. } | Self::Audio { data, .. } => vec![data],
            Self::ResourceLink { uri, name, description, .. } => {
                [uri, name].into_iter().chain(description).collect()
            }
            Self::Resource { uri, text, .. } => [uri].into_iter().chain(text).collect(),
            Self::Verbatim | Self::Json | Self::JsonPretty | Self::Bytes(_) => Vec::new(),
        }
    }
}

impl BlockTemplate {
    /// Makes the block.
    ///
    /// # Errors
    ///
    /// A sentence that says which part could not be made.
    pub(super) fn render(
        &self,
        reading: &Reading<'_>,
        structured: Option<&Structured>,
        names: &Name,
    ) -> Result<Content, String> {
        let block = self.payload.render(reading, structured, names)?;
        Ok(Content { block, annotations: self.annotations.clone() })
    }
}

impl Payload {
    fn render(
        &self,
        reading: &Reading<'_>,
        structured: Option<&Structured>,
        names: &Name,
    ) -> Result<Block, String> {
        let render = |template: &Template| template.render(names).map_err(|error| template_failed(&error));
        Ok(match self {
            Self::Text(template) => Block::Text(Text::Plain(render(template)?)),
            Self::Verbatim => {
                Block::Text(Text::shared(reading.text_bytes()?.clone()).ok_or("the text is not UTF-8")?)
            }
            Self::Json => match structured {
                Some(_) => Block::Text(Text::OfStructure),
                None => return Err("expected a value to show as JSON, found none".to_owned()),
            },
            Self::JsonPretty => match structured {
                Some(structured) => Block::Text(Text::Plain(pretty(structured))),
                None => return Err("expected a value to show as JSON, found none".to_owned()),
            },
            Self::Bytes(binary) => binary.block(reading)?,
            Self::Image { data, media_type } => {
                Block::Image { data: base64_text(render(data)?)?, mime_type: media_type.clone() }
            }
            Self::Audio { data, media_type } => {
                Block::Audio { data: base64_text(render(data)?)?, mime_type: media_type.clone() }
            }
            Self::ResourceLink { uri, name, description, media_type } => Block::ResourceLink {
                uri: render(uri)?,
                name: render(name)?,
                description: description.as_ref().map(render).transpose()?,
                mime_type: media_type.clone(),
            },
            Self::Resource { uri, media_type, text } => Block::Resource {
                uri: render(uri)?,
                mime_type: media_type.clone().or_else(|| reading.reply().media_type()),
                body: ResourceBody::Text(match text {
                    Some(template) => render(template)?,
                    None => reading.text()?.to_owned(),
                }),
            },
        })
    }
}

fn pretty(structured: &Structured) -> String {
    let value = structured.value(crate::tool::Shapes::ObjectsOnly);
    serde_json::to_string_pretty(&value).expect("a tree of JSON values has string keys only")
}

fn template_failed(error: &TemplateError) -> String {
    format!("a template of the rule could not be filled in: {error}")
}

/// Data that is no Base64 would break the client's whole result.
fn base64_text(text: String) -> Result<String, String> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let text: String = text.split_ascii_whitespace().collect();
    match BASE64_STANDARD.decode(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("expected Base64 data, found text that is not ({error})")),
    }
}
