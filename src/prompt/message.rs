//! What the messages of a prompt are made of.

use crate::{
    model::{Annotations, Block, Content, ResourceBody, Structured, Text, ToolResult},
    route::RouteCall,
    translate::{Stop, Template, TemplateError, is_moment},
};

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One message: one block of content (MCP 2026-07-28, schema, `PromptMessage`).
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: Content,
}

/// A part of a prompt, which gives one message or several.
#[derive(Debug)]
pub struct PartTemplate {
    /// Who says it.
    pub role: Role,
    /// What it shows.
    pub part: Part,
    /// Hints for clients, for each block that has none of its own.
    pub annotations: Option<Annotations>,
    /// When it was changed; left out when that is no moment.
    pub last_modified: Option<Template>,
}

/// What a part shows.
#[derive(Debug)]
pub enum Part {
    /// A text; an empty one is left out.
    Text(Template),
    /// The blocks of the result of a call.
    Route(RouteCall),
    /// What is read under a URI, by a route that is a resource.
    Read(Template),
    /// An embedded document that is written here.
    Resource {
        /// What it is called.
        uri: Template,
        /// Such as `text/csv`.
        media_type: Option<String>,
        /// What is in it.
        text: Template,
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
}

impl Role {
    /// As MCP writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl PartTemplate {
    /// The templates in it, for checks at load.
    pub fn templates(&self) -> Vec<&Template> {
        let of_part: Vec<&Template> = match &self.part {
            Part::Text(template) | Part::Read(template) => vec![template],
            Part::Route(_) => Vec::new(),
            Part::Resource { uri, text, .. } => vec![uri, text],
            Part::ResourceLink { uri, name, description, .. } => {
                [uri, name].into_iter().chain(description).collect()
            }
        };
        of_part.into_iter().chain(&self.last_modified).collect()
    }

    /// Whether it asks an upstream.
    pub fn is_fetched(&self) -> bool {
        matches!(self.part, Part::Route(_) | Part::Read(_))
    }

    /// The messages of a part that asks nobody; none where it is a text that is empty, or where it is fetched.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] when a template can't be filled in.
    pub fn written(&self, names: &minijinja::Value, stop: &Stop) -> Result<Vec<Message>, TemplateError> {
        let block = match &self.part {
            Part::Text(template) => match template.render_until(names, stop)? {
                text if text.trim().is_empty() => return Ok(Vec::new()),
                text => Block::Text(Text::Plain(text)),
            },
            Part::Route(_) | Part::Read(_) => return Ok(Vec::new()),
            Part::Resource { uri, media_type, text } => Block::Resource {
                uri: uri.render_until(names, stop)?,
                mime_type: media_type.clone(),
                body: ResourceBody::Text(text.render_until(names, stop)?),
            },
            Part::ResourceLink { uri, name, description, media_type } => Block::ResourceLink {
                uri: uri.render_until(names, stop)?,
                name: name.render_until(names, stop)?,
                description: description
                    .as_ref()
                    .map(|template| template.render_until(names, stop))
                    .transpose()?,
                mime_type: media_type.clone(),
            },
        };
        self.messages(vec![block.into()], names, stop)
    }

    /// The messages of a part that shows a result.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] when a template can't be filled in.
    pub fn shown(
        &self,
        result: ToolResult,
        names: &minijinja::Value,
        stop: &Stop,
    ) -> Result<Vec<Message>, TemplateError> {
        let structured = result.structured;
        let alone =
            |content: Content| Content { block: alone(content.block, structured.as_ref()), ..content };
        self.messages(result.content.into_iter().map(alone).collect(), names, stop)
    }

    fn messages(
        &self,
        contents: Vec<Content>,
        names: &minijinja::Value,
        stop: &Stop,
    ) -> Result<Vec<Message>, TemplateError> {
        let mut annotations = self.annotations.clone();
        if let Some(template) = &self.last_modified {
            let moment = template.render_until(names, stop)?;
            // A hint that is none would have strict clients refuse the whole prompt.
            if is_moment(moment.trim()) {
                annotations.get_or_insert_default().last_modified = Some(moment.trim().to_owned());
            }
        }
        let message = |content: Content| Message {
            role: self.role,
            content: Content {
                annotations: content.annotations.or_else(|| annotations.clone()),
                block: content.block,
            },
        };
        Ok(contents.into_iter().map(message).collect())
    }
}

impl Message {
    /// How many bytes it is long, nearly.
    pub fn bytes(&self) -> usize {
        match &self.content.block {
            Block::Text(Text::Plain(text) | Text::Error(text)) => text.len(),
            Block::Text(Text::Shared(text)) => text.len(),
            Block::Text(Text::OfStructure) => 0,
            Block::Image { data, .. } | Block::Audio { data, .. } => data.len(),
            Block::ResourceLink { uri, .. } => uri.len(),
            Block::Resource { body: ResourceBody::Text(body) | ResourceBody::Blob(body), .. } => body.len(),
            Block::AsSent(sent) => sent.json.bytes().len(),
        }
    }
}

/// A block that needs no structure beside it: there is none in a prompt.
fn alone(block: Block, structured: Option<&Structured>) -> Block {
    match (block, structured) {
        (Block::Text(Text::OfStructure), Some(structured)) => {
            Block::Text(Text::Shared(structured.json().shared().clone()))
        }
        (block, _) => block,
    }
}
