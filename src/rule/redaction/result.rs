//! A tool error as clients may see it.

use super::{MARK, Redaction};
use crate::{
    rule::{
        rules::{TranslationLimits, Translator},
        verdict::CODE_META_KEY,
    },
    tool::{Block, Content, JsonText, ResourceBody, SentBlock, Text, TooManyValues, ToolResult},
};

impl Translator {
    /// A tool error as clients may see it: what the route keeps to itself is replaced in its text, its code and its
    /// structure, and its texts have their limit. A success stays as it is.
    #[must_use]
    pub fn for_clients(&self, mut result: ToolResult) -> ToolResult {
        if !result.is_error() {
            return result;
        }
        result.content =
            result.content.into_iter().map(|content| self.redaction.content(content, &self.limits)).collect();
        if self.redaction.is_empty() {
            return result;
        }
        if let Some(code) = result.meta.get_mut(CODE_META_KEY) {
            *code = self.redaction.hide_in(code.take());
        }
        // What is too large to be looked through may say anything.
        let structured =
            result.structured.filter(|structured| structured.json().has_at_most(self.limits.values).is_ok());
        result.structured = structured.map(|structured| {
            let hidden = self.redaction.hide_in(structured.json().parse());
            structured.with_json(JsonText::of(&hidden))
        });
        result
    }
}

impl Redaction {
    /// A block of an error; one in which there is nothing to hide or to cut stays as it came.
    fn content(&self, content: Content, limits: &TranslationLimits) -> Content {
        let limit_bytes = limits.error_text_bytes;
        let Content { block, annotations } = content;
        let hide = |text: String| self.hide(&text).into_owned();
        let block = match block {
            Block::Text(Text::Plain(text)) => Block::Text(Text::Plain(self.capped(&text, limit_bytes))),
            Block::Text(Text::Error(text)) => Block::Text(Text::Error(self.capped(&text, limit_bytes))),
            Block::Text(Text::Shared(text)) => Block::Text(Text::Plain(self.capped(&text, limit_bytes))),
            Block::AsSent(sent) => self.sent(sent, limits),
            Block::ResourceLink { uri, name, description, mime_type } => Block::ResourceLink {
                uri: hide(uri),
                name: hide(name),
                description: description.map(hide),
                mime_type,
            },
            Block::Resource { uri, mime_type, body } => {
                let body = match body {
                    ResourceBody::Text(text) => ResourceBody::Text(hide(text)),
                    ResourceBody::Blob(bytes) => ResourceBody::Blob(bytes),
                };
                Block::Resource { uri: hide(uri), mime_type, body }
            }
            // The structure is looked through on its own; in bytes nothing is looked for.
            block @ (Block::Text(Text::OfStructure) | Block::Image { .. } | Block::Audio { .. }) => block,
        };
        Content { block, annotations }
    }

    fn sent(&self, sent: SentBlock, limits: &TranslationLimits) -> Block {
        let limit_bytes = limits.error_text_bytes;
        if let Some(text) = &sent.text {
            let shown = self.capped(text, limit_bytes);
            if shown != *text {
                return Block::Text(Text::Plain(shown));
            }
        }
        if self.is_empty() {
            return Block::AsSent(sent);
        }
        if let Err(TooManyValues { most, .. }) = sent.json.has_at_most(limits.values) {
            return Block::Text(Text::Plain(format!(
                "A block of the reply is left out, as it has more than {most} values, which is the `value_limit`."
            )));
        }
        let json = sent.json.parse();
        // Base64, in which words would be found by chance alone.
        let bytes = |pointer: &str| json.pointer(pointer).cloned();
        let kept: Vec<_> =
            ["/data", "/resource/blob"].into_iter().filter_map(|at| Some((at, bytes(at)?))).collect();
        let mut hidden = self.hide_in(json.clone());
        for (pointer, bytes) in kept {
            if let Some(place) = hidden.pointer_mut(pointer) {
                *place = bytes;
            }
        }
        if hidden == json {
            return Block::AsSent(sent);
        }
        Block::AsSent(SentBlock {
            json: JsonText::of(&hidden),
            text: sent.text,
            link: sent.link.map(|link| self.hide(&link).into_owned()),
        })
    }

    /// Where in an error something was replaced, in words; `None` when nowhere.
    pub(in crate::rule) fn found_in(&self, result: &ToolResult) -> Option<String> {
        if self.is_empty() || !result.is_error() {
            return None;
        }
        let in_text = result.content.iter().any(|content| match &content.block {
            Block::AsSent(sent) => sent.json.as_str().contains(MARK),
            block => block.text(None).is_some_and(|text| text.contains(MARK)),
        });
        let in_code = result.meta.get(CODE_META_KEY).is_some_and(|code| code.to_string().contains(MARK));
        let in_structure =
            result.structured.as_ref().is_some_and(|structured| structured.json().as_str().contains(MARK));
        let places = [(in_text, "the text"), (in_code, "the code"), (in_structure, "the structure")];
        let places: Vec<_> =
            places.into_iter().filter_map(|(is_there, name)| is_there.then_some(name)).collect();
        (!places.is_empty()).then(|| format!("words were replaced in {}", places.join(" and ")))
    }
}
