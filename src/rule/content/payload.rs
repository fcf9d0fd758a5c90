//! What one block shows, filled in.

use minijinja::Value as Name;

use super::{BodyTemplate, Payload, template_failed};
use crate::{
    rule::{
        response_view::ResponseView,
        template::{Budget, Template},
        why::Why,
    },
    tool::{Block, LimitedWriter, ResourceBody, Shapes, Structured, Text},
};

impl Payload {
    pub(super) fn render(
        &self,
        view: &ResponseView<'_>,
        structured: Option<&Structured>,
        names: &Name,
        budget: &Budget,
    ) -> Result<Block, Why> {
        let render = |template: &Template| {
            template.render_within(names, budget).map_err(|error| template_failed(&error))
        };
        Ok(match self {
            Self::Text(template) => Block::Text(Text::Plain(render(template)?)),
            Self::Verbatim => Block::Text(Text::Shared(view.shared_text()?.clone())),
            Self::Json => match structured {
                Some(_) => Block::Text(Text::OfStructure),
                None => return Err("expected a value to show as JSON, found none".into()),
            },
            Self::JsonPretty => match structured {
                Some(structured) => Block::Text(Text::Plain(pretty(structured))),
                None => return Err("expected a value to show as JSON, found none".into()),
            },
            Self::Bytes(binary) => binary.block(view)?,
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
            Self::Resource { uri, media_type, body } => Block::Resource {
                uri: render(uri)?,
                mime_type: media_type.clone().or_else(|| view.reply().media_type().map(Into::into)),
                body: match body {
                    BodyTemplate::Text(template) => ResourceBody::Text(render(template)?),
                    BodyTemplate::Blob(template) => ResourceBody::Blob(base64_text(render(template)?)?),
                    BodyTemplate::Reply => ResourceBody::Text(view.text()?.to_owned()),
                },
            },
        })
    }
}

/// The structure as JSON text with a line per member; on one line where it nests so deep that its indentation would
/// be most of it.
pub(in crate::rule) fn pretty(structured: &Structured) -> String {
    /// How much longer than the compact text it may be.
    const MOST_TIMES_LONGER: usize = 8;
    let value = structured.value(Shapes::ObjectsOnly);
    let compact = value.to_string();
    let mut out = LimitedWriter::new(compact.len().saturating_mul(MOST_TIMES_LONGER));
    match serde_json::to_writer_pretty(&mut out, &value) {
        Ok(()) => String::from_utf8(out.into_bytes()).unwrap_or(compact),
        Err(_) => compact,
    }
}

/// Data that is no Base64 would break the client's whole result.
fn base64_text(text: String) -> Result<String, Why> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let text: String = text.split_ascii_whitespace().collect();
    match BASE64_STANDARD.decode(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let what = "expected Base64 data, found text";
            let plain = format!("{what} of {} bytes that is not", text.len());
            Err(Why::new(format!("{what} that is not ({error})"), plain))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::JsonText;

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
