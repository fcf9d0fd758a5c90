//! Output formats of a tool result: the JSON, which is the same for every API, and the contents of a
//! resource.
//!
//! The two large parts of the JSON, the structured content and the text that repeats it, are written without
//! `serde`: they are copied and escaped once, directly from the upstream's bytes into the response.

use serde::Serialize;
use serde_json::{Map, Value};

use super::json::escape;
use super::{
    BlockText, Content, ContentBlock, ForeignBlock, ResourceBody, ResourceContents, Structured, ToolOutcome,
    ToolResult, object_without_nones,
};

/// JSON values that a client accepts as `structuredContent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructuredContentSupport {
    /// Objects only: every client of revision 2025-11-25 and before.
    ObjectsOnly,
    /// Any JSON value: revision 2026-07-28 and later.
    Any,
}

/// Writes `{"content": …, "structuredContent": …, "isError": …, "_meta": …}`.
pub fn write_result(result: &ToolResult, support: StructuredContentSupport, out: &mut Vec<u8>) {
    out.push(b'{');
    write_result_fields(result, support, &Map::new(), out);
    out.push(b'}');
}

/// Converts a result to a JSON value, for code that inspects its members. The value may be nested slightly
/// deeper than a parsed document, because it contains one.
pub fn result_to_json(result: &ToolResult, support: StructuredContentSupport) -> Value {
    let blocks = result.content.iter().map(|content| {
        let mut block = Vec::new();
        write_content(content, result.structured.as_ref(), support, &mut block);
        serde_json::from_slice::<Value>(&block).expect("a content block is valid JSON within the depth limit")
    });
    Value::Object(object_without_nones([
        ("content", Some(blocks.collect())),
        ("structuredContent", result.structured.as_ref().map(|structured| structured.value(support))),
        ("isError", Some(result.is_error().into())),
        ("_meta", (!result.meta.is_empty()).then(|| Value::Object(result.meta.clone()))),
    ]))
}

/// Writes the members of a result without braces, so that an API can add other members. `more_meta` is
/// appended to the result's `_meta`.
pub fn write_result_fields(
    result: &ToolResult,
    support: StructuredContentSupport,
    more_meta: &Map<String, Value>,
    out: &mut Vec<u8>,
) {
    out.reserve(size_estimate(result));
    out.extend_from_slice(b"\"content\":[");
    for (index, content) in result.content.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_content(content, result.structured.as_ref(), support, out);
    }
    out.push(b']');
    if let Some(structured) = &result.structured {
        let is_wrapped = structured.is_wrapped(support);
        out.extend_from_slice(b",\"structuredContent\":");
        out.extend_from_slice(if is_wrapped { b"{\"result\":" } else { b"" });
        out.extend_from_slice(structured.json.bytes());
        out.extend_from_slice(if is_wrapped { b"}" } else { b"" });
    }
    out.extend_from_slice(match result.outcome {
        ToolOutcome::Success => b",\"isError\":false".as_slice(),
        ToolOutcome::Error(_) => b",\"isError\":true".as_slice(),
    });
    if !result.meta.is_empty() || !more_meta.is_empty() {
        out.extend_from_slice(b",\"_meta\":{");
        for (index, (key, value)) in result.meta.iter().chain(more_meta).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_member(key, value, out);
        }
        out.push(b'}');
    }
}

/// Estimates the length of a result: the structured content, the text that repeats it with escapes, and the
/// members around them. If the result is longer, the buffer is reallocated and copied.
fn size_estimate(result: &ToolResult) -> usize {
    const MEMBERS_BYTES: usize = 512;
    let structured_bytes = result.structured.as_ref().map_or(0, |structured| structured.json.bytes().len());
    structured_bytes * 5 / 2 + MEMBERS_BYTES
}

/// Writes a single content block that is not part of a result.
pub fn write_block(content: &Content, out: &mut Vec<u8>) {
    write_content(content, None, StructuredContentSupport::Any, out);
}

/// Writes a string as JSON, including the quotes.
pub fn write_escaped(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

fn write_content(
    content: &Content,
    structured: Option<&Structured>,
    support: StructuredContentSupport,
    out: &mut Vec<u8>,
) {
    match &content.block {
        // The JSON of the block already includes its annotations.
        ContentBlock::Foreign(foreign) => return out.extend_from_slice(foreign.json.bytes()),
        ContentBlock::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            write_text(text, structured, support, out);
        }
        block => {
            serde_json::to_writer(&mut *out, block)
                .expect("only foreign and text blocks need the arms above");
            // The closing brace follows the annotations.
            out.pop();
        }
    }
    if let Some(annotations) = &content.annotations {
        out.push(b',');
        write_member("annotations", annotations, out);
    }
    out.push(b'}');
}

fn write_text(
    text: &BlockText,
    structured: Option<&Structured>,
    support: StructuredContentSupport,
    out: &mut Vec<u8>,
) {
    match text {
        BlockText::Plain(text) => write_escaped(text, out),
        BlockText::Shared(text) => write_escaped(text, out),
        BlockText::Error(message) => {
            write_object_text("error", &Value::from(message.as_str()).to_string(), out);
        }
        BlockText::StructuredContent => match structured {
            None => out.extend_from_slice(b"\"\""),
            Some(structured) if structured.is_wrapped(support) => {
                write_object_text("result", structured.json.as_str(), out);
            }
            Some(structured) => write_escaped(structured.json.as_str(), out),
        },
    }
}

/// Writes an object with one member, whose value `json` is JSON, as a JSON string.
fn write_object_text(key: &str, json: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(&format!("{{\"{key}\":"), out);
    escape(json, out);
    out.extend_from_slice(b"}\"");
}

fn write_member(key: &str, value: &impl Serialize, out: &mut Vec<u8>) {
    write_escaped(key, out);
    out.push(b':');
    serde_json::to_writer(out, value).expect("all keys are strings");
}

/// Data about a resource that is not in the result of reading it.
#[derive(Debug, Clone, Copy)]
pub struct ResourceContext<'a> {
    /// Requested URI.
    pub uri: &'a str,
    /// Declared media type.
    pub declared_type: Option<&'a str>,
    /// Media type of the upstream response.
    pub upstream_type: Option<&'a str>,
}

/// Media type of a list of URIs (RFC 2483, section 5).
const URI_LIST: &str = "text/uri-list";

impl ResourceContext<'_> {
    /// Returns the resource contents of a result, one for each block, in order.
    pub fn contents_of(&self, result: &ToolResult) -> Vec<ResourceContents> {
        let is_single = result.content.len() == 1;
        let structured = result.structured.as_ref();
        result
            .content
            .iter()
            .map(|content| self.block_to_contents(&content.block, structured, is_single))
            .collect()
    }

    fn block_to_contents(
        &self,
        block: &ContentBlock,
        structured: Option<&Structured>,
        is_single: bool,
    ) -> ResourceContents {
        // A blob or an embedded resource gets the declared type instead of its own type only if it is the
        // only block.
        let binary_type =
            |own_type: &str| Some(self.declared_type.filter(|_| is_single).unwrap_or(own_type).to_owned());
        match block {
            ContentBlock::Text(text) => {
                let media_type = match text {
                    BlockText::StructuredContent => {
                        let json_type = self.upstream_type.filter(|media_type| media_type.ends_with("json"));
                        json_type.unwrap_or("application/json")
                    }
                    BlockText::Shared(_) => self.upstream_type.unwrap_or("text/plain"),
                    BlockText::Plain(_) | BlockText::Error(_) => "text/plain",
                };
                let media_type = self.declared_type.unwrap_or(media_type).to_owned();
                let text = block.text(structured).unwrap_or_default().into_owned();
                self.contents(Some(media_type), ResourceBody::Text(text))
            }
            ContentBlock::Image { data, mime_type } | ContentBlock::Audio { data, mime_type } => {
                self.contents(binary_type(mime_type), ResourceBody::Blob(data.clone()))
            }
            ContentBlock::Resource { resource: ResourceContents { uri, media_type, body } } => {
                let media_type = media_type.as_deref().and_then(binary_type);
                let contents =
                    self.contents(media_type.or_else(|| self.declared_type.map(str::to_owned)), body.clone());
                // A part of the response itself has a URI with the scheme `response`, which is replaced by
                // the requested URI.
                let has_own_uri = !uri.starts_with("response://");
                ResourceContents { uri: if has_own_uri { uri.clone() } else { contents.uri }, ..contents }
            }
            ContentBlock::ResourceLink { uri, .. } => {
                self.contents(Some(URI_LIST.to_owned()), ResourceBody::Text(uri.clone()))
            }
            ContentBlock::Foreign(ForeignBlock { text: Some(text), .. }) => {
                let media_type = self.declared_type.unwrap_or("text/plain").to_owned();
                self.contents(Some(media_type), ResourceBody::Text(text.clone()))
            }
            ContentBlock::Foreign(foreign) => match serde_json::from_str(foreign.json.as_str()) {
                // The server's own URI and type are more specific than the requested URI and the declared
                // type.
                Ok(ContentBlock::Resource { resource }) => {
                    let declared_type = || self.declared_type.map(str::to_owned);
                    ResourceContents { media_type: resource.media_type.or_else(declared_type), ..resource }
                }
                Ok(block) => self.block_to_contents(&block, structured, false),
                Err(_) => {
                    let body = ResourceBody::Text(foreign.json.as_str().to_owned());
                    self.contents(Some("application/json".to_owned()), body)
                }
            },
        }
    }

    fn contents(&self, media_type: Option<String>, body: ResourceBody) -> ResourceContents {
        ResourceContents { uri: self.uri.to_owned(), media_type, body }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::{Content, ErrorType, JSON_DEPTH_LIMIT, JsonText, ToolOutcome};

    fn write_to_value(result: &ToolResult, support: StructuredContentSupport) -> Value {
        let mut out = Vec::new();
        write_result(result, support, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn from_json(json: &str, make: fn(JsonText) -> Structured) -> ToolResult {
        let json = JsonText::check(&Bytes::from(json.to_owned())).unwrap();
        let mut result = ToolResult::new(
            ToolOutcome::Success,
            vec![ContentBlock::Text(BlockText::StructuredContent).into()],
        );
        result.structured = Some(make(json));
        result
    }

    #[test]
    fn a_value_that_is_no_object_is_wrapped_in_text_and_structure_alike() {
        let result =
            write_to_value(&from_json("[1, \"a\\\"b\"]", Structured::new), StructuredContentSupport::Any);
        assert_eq!(result["structuredContent"].to_string(), r#"{"result":[1,"a\"b"]}"#);
        assert_eq!(result["content"][0]["text"], "{\"result\":[1, \"a\\\"b\"]}");
        assert_eq!(result["isError"], false);
    }

    #[test]
    fn a_route_may_send_the_unwrapped_value_to_clients_that_support_any_type() {
        let result = from_json("[1]", |json| Structured { allows_unwrapped: true, ..Structured::new(json) });
        assert_eq!(
            write_to_value(&result, StructuredContentSupport::Any)["structuredContent"].to_string(),
            "[1]"
        );
        assert_eq!(
            write_to_value(&result, StructuredContentSupport::ObjectsOnly)["structuredContent"].to_string(),
            r#"{"result":[1]}"#
        );
    }

    #[test]
    fn a_result_is_the_same_tree_however_deep_it_is() {
        let mut shallow = from_json(r#"{"a": 1.0, "b": [1e3]}"#, Structured::new);
        shallow.meta.insert("code".into(), json!([7]));
        shallow.outcome = ToolOutcome::Error(ErrorType::Arguments);
        assert_eq!(
            result_to_json(&shallow, StructuredContentSupport::Any).to_string(),
            write_to_value(&shallow, StructuredContentSupport::Any).to_string()
        );
        let deepest = format!("{}{}", "[".repeat(JSON_DEPTH_LIMIT), "]".repeat(JSON_DEPTH_LIMIT));
        let mut deep = from_json(&deepest, Structured::new);
        deep.meta.insert("code".into(), deep.structured.as_ref().unwrap().json.parse());
        let mut text = Vec::new();
        write_result(&deep, StructuredContentSupport::Any, &mut text);
        assert_eq!(result_to_json(&deep, StructuredContentSupport::Any).to_string().as_bytes(), text);
    }

    proptest! {
        #[test]
        fn any_text_reads_back_as_it_was(text in "\\PC*|[\\x00-\\x7f]*") {
            let mut out = Vec::new();
            write_escaped(&text, &mut out);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }

    #[track_caller]
    fn check(blocks: Vec<ContentBlock>, declared_type: Option<&str>, expected: Value) {
        let content: Vec<Content> = blocks.into_iter().map(Content::from).collect();
        let mut result = ToolResult::new(ToolOutcome::Success, content);
        result.structured = Some(Structured::new(JsonText::check(&Bytes::from_static(b"[1.0]")).unwrap()));
        let context = ResourceContext { uri: "r://x", declared_type, upstream_type: Some("text/html") };
        assert_eq!(serde_json::to_value(context.contents_of(&result)).unwrap(), expected);
    }

    fn image() -> ContentBlock {
        ContentBlock::Image { data: "AA==".into(), mime_type: "image/png".into() }
    }

    #[test]
    fn a_block_is_text_or_blob_of_a_type() {
        let shared = || ContentBlock::Text(BlockText::Shared("<p>".into()));
        check(vec![shared()], None, json!([{ "uri": "r://x", "mimeType": "text/html", "text": "<p>" }]));
        check(
            vec![shared()],
            Some("text/x"),
            json!([{ "uri": "r://x", "mimeType": "text/x", "text": "<p>" }]),
        );
        check(
            vec![ContentBlock::Text(BlockText::StructuredContent)],
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
        let document = |uri: &str| {
            let (uri, body) = (uri.into(), ResourceBody::Text("a,b".into()));
            ContentBlock::Resource { resource: ResourceContents { uri, media_type: None, body } }
        };
        let link = ContentBlock::ResourceLink {
            uri: "r://z".into(),
            name: "z".into(),
            description: None,
            mime_type: None,
        };
        check(
            vec![image(), document("r://y"), document("response://tool"), link],
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
        let foreign_block = |block: Value, text: Option<&str>| {
            let json = JsonText::from_value(&block);
            ContentBlock::Foreign(ForeignBlock { json, text: text.map(str::to_owned), link: None })
        };
        check(
            vec![
                foreign_block(json!({ "type": "text", "text": "hi" }), Some("hi")),
                foreign_block(json!({ "type": "audio", "data": "AA==", "mimeType": "audio/wav" }), None),
                foreign_block(
                    json!({ "type": "resource", "resource": { "uri": "r://y", "text": "t" } }),
                    None,
                ),
                foreign_block(json!({ "type": "resource_link", "uri": "r://z", "name": "z" }), None),
                foreign_block(json!({ "type": "new", "more": 1 }), None),
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

    #[test]
    fn an_embedded_resource_of_another_server_keeps_its_uri_type_and_body() {
        let foreign_block = |resource: Value| {
            let block =
                json!({ "type": "resource", "resource": resource, "annotations": { "priority": 0.5 } });
            let json = JsonText::from_value(&block);
            ContentBlock::Foreign(ForeignBlock { json, text: None, link: None })
        };
        check(
            vec![
                foreign_block(
                    json!({ "uri": "response://y", "mimeType": null, "text": "t", "_meta": { "n": 1.5 } }),
                ),
                foreign_block(json!({ "uri": "r://y", "mimeType": "a/b", "text": null, "blob": "AA==" })),
                foreign_block(json!({ "uri": "r://y", "blob": null, "text": "t" })),
                foreign_block(json!({ "uri": "r://y", "text": "t", "blob": "AA==" })),
            ],
            Some("text/csv"),
            json!([
                { "uri": "response://y", "mimeType": "text/csv", "text": "t" },
                { "uri": "r://y", "mimeType": "a/b", "blob": "AA==" },
                { "uri": "r://y", "mimeType": "text/csv", "text": "t" },
                { "uri": "r://y", "mimeType": "text/csv", "blob": "AA==" },
            ]),
        );
        // The server's own type is more exact than the declared one, also for a single block.
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        let json = JsonText::from_value(&image);
        check(
            vec![ContentBlock::Foreign(ForeignBlock { json, text: None, link: None })],
            Some("image/x"),
            json!([{ "uri": "r://x", "mimeType": "image/png", "blob": "AA==" }]),
        );
    }
}
