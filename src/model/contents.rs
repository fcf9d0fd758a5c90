//! A tool result as something that was read: `contents` of `resources/read`.

use serde::Serialize;
use serde_json::Value;

use super::{Block, JsonText, ResourceBody, SentBlock, Structured, Text, ToolResult};

/// One of the contents of a resource (MCP 2026-07-28, Resources, "Resource Contents").
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceContents {
    /// What it is the contents of.
    pub uri: String,
    /// Such as `text/csv`.
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Text, or bytes.
    #[serde(flatten)]
    pub body: ResourceBody,
}

/// What is known of a resource beside the result of reading it.
#[derive(Debug, Clone, Copy)]
pub struct ContentsOf<'a> {
    /// What was asked for.
    pub uri: &'a str,
    /// The media type that was declared.
    pub declared: Option<&'a str>,
    /// The media type of the reply.
    pub replied: Option<&'a str>,
}

/// The media type of links alone (RFC 2483, section 5).
const LINKS: &str = "text/uri-list";

impl ContentsOf<'_> {
    /// The contents, one for each block of the result, in order.
    pub fn result(&self, result: &ToolResult) -> Vec<ResourceContents> {
        let alone = result.content.len() == 1;
        let structured = result.structured.as_ref();
        result.content.iter().map(|content| self.block(&content.block, structured, alone)).collect()
    }

    fn block(&self, block: &Block, structured: Option<&Structured>, alone: bool) -> ResourceContents {
        // What was declared is true of the whole: of one of several, its own type is.
        let of_bytes = |own: &str| match self.declared.filter(|_| alone) {
            Some(declared) => Some(declared.to_owned()),
            None => Some(own.to_owned()),
        };
        match block {
            Block::Text(text) => self.text(text, block.text(structured).unwrap_or_default().into_owned()),
            Block::Image { data, mime_type } | Block::Audio { data, mime_type } => {
                self.contents(of_bytes(mime_type), ResourceBody::Blob(data.clone()))
            }
            Block::Resource { uri, mime_type, body } => {
                let media_type = mime_type.as_deref().and_then(of_bytes);
                let contents = self.contents(media_type.or_else(|| self.declared()), body.clone());
                // Bytes of the reply itself have no address of their own.
                let is_own = !uri.starts_with("reply://");
                ResourceContents { uri: if is_own { uri.clone() } else { contents.uri }, ..contents }
            }
            Block::ResourceLink { uri, .. } => self.link(uri),
            Block::AsSent(sent) => self.sent(sent),
        }
    }

    fn text(&self, text: &Text, shown: String) -> ResourceContents {
        let media_type = match text {
            Text::OfStructure => {
                let is_json = |media_type: &&str| media_type.ends_with("json");
                self.replied.filter(is_json).unwrap_or("application/json")
            }
            Text::Shared(_) => self.replied.unwrap_or("text/plain"),
            Text::Plain(_) | Text::Error(_) => "text/plain",
        };
        let media_type = self.declared().unwrap_or_else(|| media_type.to_owned());
        self.contents(Some(media_type), ResourceBody::Text(shown))
    }

    fn link(&self, uri: &str) -> ResourceContents {
        self.contents(Some(LINKS.to_owned()), ResourceBody::Text(uri.to_owned()))
    }

    /// A block as an MCP server wrote it.
    fn sent(&self, sent: &SentBlock) -> ResourceContents {
        let block = sent.json.parse();
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = text(&block, "type").unwrap_or_default();
        let embedded = block.get("resource").unwrap_or(&Value::Null);
        let media_type = |value: &Value| text(value, "mimeType").or_else(|| self.declared());
        match (kind.as_str(), &sent.text) {
            (_, Some(sent)) => self.contents(
                self.declared().or_else(|| Some("text/plain".to_owned())),
                ResourceBody::Text(sent.clone()),
            ),
            ("image" | "audio", None) => {
                let data = text(&block, "data").unwrap_or_default();
                self.contents(media_type(&block), ResourceBody::Blob(data))
            }
            ("resource", None) => {
                let body = text(embedded, "blob").map(ResourceBody::Blob);
                let body =
                    body.unwrap_or_else(|| ResourceBody::Text(text(embedded, "text").unwrap_or_default()));
                let contents = self.contents(media_type(embedded), body);
                ResourceContents { uri: text(embedded, "uri").unwrap_or(contents.uri), ..contents }
            }
            ("resource_link", None) => self.link(&text(&block, "uri").unwrap_or_default()),
            (_, None) => self.contents(
                Some("application/json".to_owned()),
                ResourceBody::Text(JsonText::of(&block).as_str().to_owned()),
            ),
        }
    }

    fn contents(&self, media_type: Option<String>, body: ResourceBody) -> ResourceContents {
        ResourceContents { uri: self.uri.to_owned(), media_type, body }
    }

    fn declared(&self) -> Option<String> {
        self.declared.map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::model::{Content, Outcome};

    #[track_caller]
    fn check(blocks: Vec<Block>, declared: Option<&str>, expected: Value) {
        let content: Vec<Content> = blocks.into_iter().map(Content::from).collect();
        let mut result = ToolResult::new(Outcome::Success, content);
        result.structured = Some(Structured::new(JsonText::check(&Bytes::from_static(b"[1.0]")).unwrap()));
        let of = ContentsOf { uri: "r://x", declared, replied: Some("text/html") };
        assert_eq!(serde_json::to_value(of.result(&result)).unwrap(), expected);
    }

    fn image() -> Block {
        Block::Image { data: "AA==".into(), mime_type: "image/png".into() }
    }

    #[test]
    fn a_block_is_text_or_blob_of_a_type() {
        let shared = || Block::Text(Text::Shared("<p>".into()));
        check(vec![shared()], None, json!([{ "uri": "r://x", "mimeType": "text/html", "text": "<p>" }]));
        check(
            vec![shared()],
            Some("text/x"),
            json!([{ "uri": "r://x", "mimeType": "text/x", "text": "<p>" }]),
        );
        check(
            vec![Block::Text(Text::OfStructure)],
            None,
            json!([{ "uri": "r://x", "mimeType": "application/json", "text": "[1.0]" }]),
        );
        check(vec![image()], None, json!([{ "uri": "r://x", "mimeType": "image/png", "blob": "AA==" }]));
        check(
            vec![image()],
            Some("image/x"),
            json!([{ "uri": "r://x", "mimeType": "image/x", "blob": "AA==" }]),
        );
    }

    #[test]
    fn each_of_several_has_its_own_type_and_address() {
        let document = |uri: &str| Block::Resource {
            uri: uri.into(),
            mime_type: None,
            body: ResourceBody::Text("a,b".into()),
        };
        let link =
            Block::ResourceLink { uri: "r://z".into(), name: "z".into(), description: None, mime_type: None };
        check(
            vec![image(), document("r://y"), document("reply://tool"), link],
            Some("text/csv"),
            json!([
                { "uri": "r://x", "mimeType": "image/png", "blob": "AA==" },
                { "uri": "r://y", "mimeType": "text/csv", "text": "a,b" },
                { "uri": "r://x", "mimeType": "text/csv", "text": "a,b" },
                { "uri": "r://x", "mimeType": "text/uri-list", "text": "r://z" },
            ]),
        );
    }

    #[test]
    fn blocks_of_another_server_are_read() {
        let sent = |block: Value, text: Option<&str>| {
            let json = JsonText::of(&block);
            Block::AsSent(SentBlock { json, text: text.map(str::to_owned), link: None })
        };
        check(
            vec![
                sent(json!({ "type": "text", "text": "hi" }), Some("hi")),
                sent(json!({ "type": "audio", "data": "AA==", "mimeType": "audio/wav" }), None),
                sent(json!({ "type": "resource", "resource": { "uri": "r://y", "text": "t" } }), None),
                sent(json!({ "type": "resource_link", "uri": "r://z", "name": "z" }), None),
                sent(json!({ "type": "new", "more": 1 }), None),
            ],
            None,
            json!([
                { "uri": "r://x", "mimeType": "text/plain", "text": "hi" },
                { "uri": "r://x", "mimeType": "audio/wav", "blob": "AA==" },
                { "uri": "r://y", "text": "t" },
                { "uri": "r://x", "mimeType": "text/uri-list", "text": "r://z" },
                { "uri": "r://x", "mimeType": "application/json", "text": "{\"type\":\"new\",\"more\":1}" },
            ]),
        );
    }
}
