//! MCP prompts: messages for a model, rendered from templates. A person selects a prompt by its name.
//!
//! - [`Prompt`] is a prompt, with its [`PromptArgument`]s.
//! - A [`PartTemplate`] renders any number of [`PromptMessage`]s of a prompt.
//! - A [`PromptTable`] has all prompts.
//!
//! Pure: no `async`, clock, environment or log. `pipeline` calls the routes whose results a part contains.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value, json};
use settings_derive::Section;

use crate::model::{
    Arguments, BlockText, Content, ContentBlock, ResourceBody, ResourceContents, ToolName, ToolResult,
    kind_of, object_without_nones, write_block,
};
use crate::route::{Completion, InputRequests, RouteCall, Scopes, quoted_names};
use crate::translate::extract::read_media_type;
use crate::translate::{AnnotationsTemplate, LinkTemplate, MessageRole, Template, TemplateError, WorkBudget};

/// All prompts, by name.
pub type PromptTable = BTreeMap<ToolName, Arc<Prompt>>;

/// A prompt.
#[derive(Debug)]
pub struct Prompt {
    /// The name, with the syntax of tool names. MCP defines no syntax for names of prompts, but clients that
    /// offer the prompt as a command accept only letters, digits and a few other characters.
    pub name: ToolName,
    /// A display name.
    pub title: Option<String>,
    /// The purpose of the prompt.
    pub description: Option<String>,
    /// The scopes that a client needs to get the prompt.
    pub scopes: Scopes,
    /// The arguments that a person enters.
    pub arguments: Vec<PromptArgument>,
    /// The input requests that a client fulfils before the messages are rendered.
    pub input_requests: InputRequests,
    /// The templates of its messages, in order.
    pub parts: Vec<PartTemplate>,
}

/// An argument of a prompt, in the format of `prompts/list`; its value is a string.
#[derive(Debug, Serialize)]
pub struct PromptArgument {
    /// The name of the argument.
    pub name: String,
    /// A display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The meaning of the argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether clients must send the argument.
    pub required: bool,
    /// Completions for its value.
    #[serde(skip)]
    pub completion: Option<Completion>,
}

impl Prompt {
    /// Maximum number of parts of one prompt.
    pub const PART_LIMIT: usize = 100;
    /// Maximum number of parts that call an upstream: the calls run at the same time, and each response stays
    /// in memory until all have arrived.
    pub const FETCH_LIMIT: usize = 8;

    /// Looks up an argument by its name.
    pub fn argument(&self, name: &str) -> Option<&PromptArgument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }

    /// The prompt in the format of `prompts/list` (MCP 2026-07-28, schema, `Prompt`).
    pub fn to_json(&self) -> Map<String, Value> {
        object_without_nones([
            ("name", Some(self.name.as_str().into())),
            ("title", self.title.as_deref().map(Value::from)),
            ("description", self.description.as_deref().map(Value::from)),
            ("arguments", (!self.arguments.is_empty()).then(|| json!(self.arguments))),
        ])
    }

    /// Checks the arguments that a client sent.
    ///
    /// # Errors
    ///
    /// A message that names each argument that is missing, unknown or not a string.
    pub fn check(&self, arguments: Map<String, Value>) -> Result<Arguments, String> {
        let missing =
            |argument: &&PromptArgument| argument.required && !arguments.contains_key(&argument.name);
        let missing = self.arguments.iter().filter(missing).take(Self::ERRORS_LIMIT);
        let mut errors: Vec<String> =
            missing.map(|argument| format!("argument `{}` is required", argument.name)).collect();
        for (name, value) in &arguments {
            if errors.len() >= Self::ERRORS_LIMIT {
                break;
            }
            let problem = match (self.argument(name), value) {
                (Some(_), Value::String(_)) => continue,
                (Some(_), value) => format!("must be a string, found {}", kind_of(value)),
                (None, _) => {
                    let names = self.arguments.iter().map(|argument| argument.name.as_str());
                    format!("is unknown; this prompt takes {}", quoted_names(names))
                }
            };
            errors.push(format!("argument `{}` {problem}", name.chars().take(100).collect::<String>()));
        }
        if errors.is_empty() { Ok(arguments.into()) } else { Err(errors.join(". ")) }
    }

    /// Maximum number of reported errors in the arguments.
    const ERRORS_LIMIT: usize = 5;
}

/// Message of a prompt, with one content block (MCP 2026-07-28, schema, `PromptMessage`).
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMessage {
    /// The role of the sender.
    pub role: MessageRole,
    /// The content block, with its annotations.
    pub content: Content,
}

/// A part of a prompt, which renders any number of messages.
#[derive(Debug)]
pub struct PartTemplate {
    /// The role of the sender of the messages.
    pub role: MessageRole,
    /// The source of the content blocks, one for each message.
    pub part: PartContent,
    /// Annotations (hints for clients) for each content block without annotations of its own.
    pub annotations: Option<AnnotationsTemplate>,
}

/// The content of a part.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "prompts have few parts, and these are not moved")]
pub enum PartContent {
    /// A text block; omitted if the rendered text is blank.
    Text(Template),
    /// The content blocks of the result that a route returns.
    Route(RouteCall),
    /// An embedded resource: a text in the configuration, or the contents that a route returns for the URI.
    Resource(PromptResource),
    /// A resource link.
    ResourceLink(LinkTemplate),
}

/// Embedded document of a prompt.
#[derive(Debug, Section)]
#[section(name = "`resource`", id = "prompt_resource", text = "uri")]
pub struct PromptResource {
    /// URI of the resource: a template.
    #[key(example = "uri: report://today")]
    pub uri: Template,
    /// Text: a template. Default: the contents of the resource with this URI, read through its route.
    pub text: Option<Template>,
    /// Media type of `text`.
    #[key(with = read_media_type, shown = "`text/plain`", requires = "text",
        help = "remove it: the resource has its own media type")]
    pub media_type: Option<String>,
}

impl PartTemplate {
    /// All templates of the part, for checks when the configuration is loaded.
    pub fn templates(&self) -> Vec<&Template> {
        let templates: Vec<&Template> = match &self.part {
            PartContent::Text(template) => vec![template],
            PartContent::Route(_) => Vec::new(),
            PartContent::Resource(resource) => std::iter::once(&resource.uri).chain(&resource.text).collect(),
            PartContent::ResourceLink(link) => link.templates().collect(),
        };
        let annotations = self.annotations.iter();
        templates
            .into_iter()
            .chain(annotations.filter_map(|template| template.last_modified.as_ref()))
            .collect()
    }

    /// Whether the part needs an upstream call.
    pub fn is_fetched(&self) -> bool {
        matches!(self.part, PartContent::Route(_) | PartContent::Resource(PromptResource { text: None, .. }))
    }

    /// Renders the messages of the part; none for a blank text. `fetched` is the result of the part's
    /// upstream call, if the part needs one.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] when a template can't be filled in.
    pub fn messages(
        &self,
        fetched: Option<ToolResult>,
        variables: &minijinja::Value,
        work_budget: &WorkBudget,
    ) -> Result<Vec<PromptMessage>, TemplateError> {
        let render = |template: &Template| template.render_until(variables, work_budget);
        let contents = match &self.part {
            PartContent::Text(template) => match render(template)? {
                text if text.trim().is_empty() => return Ok(Vec::new()),
                text => vec![Content::text(text)],
            },
            PartContent::Resource(PromptResource { uri, text: Some(text), media_type }) => {
                let (uri, body) = (render(uri)?, ResourceBody::Text(render(text)?));
                let media_type = media_type.clone().or_else(|| Some("text/plain".to_owned()));
                vec![ContentBlock::Resource { resource: ResourceContents { uri, media_type, body } }.into()]
            }
            PartContent::Route(_) | PartContent::Resource(_) => fetched.map(contents_of).unwrap_or_default(),
            PartContent::ResourceLink(link) => vec![link.render(render)?.into()],
        };
        let annotations = self.annotations.as_ref().map(|annotations| annotations.render(render));
        let annotations = annotations.transpose()?.flatten();
        let message = |content: Content| PromptMessage {
            role: self.role,
            content: Content { annotations: content.annotations.or_else(|| annotations.clone()), ..content },
        };
        Ok(contents.into_iter().map(message).collect())
    }
}

/// Returns the content blocks of a result. A block that refers to the structured content gets that JSON as
/// its text, because a prompt has no structured content.
fn contents_of(result: ToolResult) -> Vec<Content> {
    let mut contents = result.content;
    for content in &mut contents {
        if let (ContentBlock::Text(text @ BlockText::StructuredContent), Some(structured)) =
            (&mut content.block, &result.structured)
        {
            *text = BlockText::Shared(structured.json.shared().clone());
        }
    }
    contents
}

impl PromptMessage {
    /// The length of the content as JSON, in bytes.
    pub fn bytes(&self) -> usize {
        let mut json = Vec::new();
        write_block(&self.content, &mut json);
        json.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn argument(name: &str, required: bool) -> PromptArgument {
        PromptArgument { name: name.to_owned(), title: None, description: None, required, completion: None }
    }

    #[track_caller]
    fn check(arguments: Value, expected: Result<(), &str>) {
        let prompt = Prompt {
            scopes: Scopes::default(),
            name: "assess".parse().unwrap(),
            title: None,
            description: None,
            arguments: vec![argument("city", true), argument("tone", false)],
            input_requests: InputRequests::default(),
            parts: Vec::new(),
        };
        let result = prompt.check(arguments.as_object().unwrap().clone()).map(|_| ());
        assert_eq!(result, expected.map_err(str::to_owned));
    }

    #[test]
    fn argument_errors_are_reported() {
        check(json!({ "city": "Oslo" }), Ok(()));
        check(json!({ "city": "", "tone": "short" }), Ok(()));
        check(json!({ "tone": "short" }), Err("argument `city` is required"));
        check(json!({ "city": 5 }), Err("argument `city` must be a string, found a number"));
        check(
            json!({ "city": "Oslo", "town": "x" }),
            Err("argument `town` is unknown; this prompt takes `city`, `tone`"),
        );
        let many: Map<_, _> = (0..100).map(|number| (format!("a{number}"), json!("x"))).collect();
        let prompt = Prompt {
            scopes: Scopes::default(),
            name: "none".parse().unwrap(),
            title: None,
            description: None,
            arguments: Vec::new(),
            input_requests: InputRequests::default(),
            parts: Vec::new(),
        };
        assert_eq!(prompt.check(many.clone()).unwrap_err().matches("takes none").count(), 5);
        let arguments = (0..8).map(|number| argument(&format!("b{number}"), true)).collect();
        let errors = Prompt { arguments, ..prompt }.check(many).unwrap_err();
        assert_eq!(errors.split(". ").count(), 5, "{errors}");
    }
}
