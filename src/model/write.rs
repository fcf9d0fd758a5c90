//! A tool result as JSON bytes, the same for every face.
//!
//! Written by hand because the two large parts, the structure and the text that repeats it, are spliced and
//! escaped from the upstream's own bytes, once, straight into the response.

use serde_json::{Map, Value, json};

use super::{Annotations, Block, Content, Outcome, ResourceBody, Structured, Text, ToolResult, json::escape};

/// What a client takes as `structuredContent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// Objects only: every client of revision 2025-11-25 and before.
    ObjectsOnly,
    /// Any JSON value: revision 2026-07-28 and later.
    Any,
}

/// Writes `{"content": …, "structuredContent": …, "isError": …, "_meta": …}`.
pub fn write_result(result: &ToolResult, shapes: Shapes, out: &mut Vec<u8>) {
    out.push(b'{');
    write_result_fields(result, shapes, &Map::new(), out);
    out.push(b'}');
}

/// The same as a tree, for who looks at its parts. It may be deeper than any document that is read, as what was read
/// stands a little below its top.
pub fn result_to_json(result: &ToolResult, shapes: Shapes) -> Value {
    let blocks = result.content.iter().map(|content| {
        let mut block = Vec::new();
        write_content(content, result.structured.as_ref(), shapes, &mut block);
        serde_json::from_slice::<Value>(&block)
            .expect("a block is as deep as what was read, or has a few members")
    });
    let mut members = Map::new();
    members.insert("content".into(), blocks.collect());
    if let Some(structured) = &result.structured {
        let value = structured.json().parse();
        let value = if structured.is_wrapped(shapes) { json!({ "result": value }) } else { value };
        members.insert("structuredContent".into(), value);
    }
    members.insert("isError".into(), result.is_error().into());
    if !result.meta.is_empty() {
        members.insert("_meta".into(), Value::Object(result.meta.clone()));
    }
    Value::Object(members)
}

/// Writes the members of a result without the braces, so that a face can put more beside them. `more_meta`
/// goes into `_meta` after what the result has there.
pub fn write_result_fields(
    result: &ToolResult,
    shapes: Shapes,
    more_meta: &Map<String, Value>,
    out: &mut Vec<u8>,
) {
    out.reserve(estimated_bytes(result));
    out.extend_from_slice(b"\"content\":[");
    for (index, content) in result.content.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_content(content, result.structured.as_ref(), shapes, out);
    }
    out.push(b']');
    if let Some(structured) = &result.structured {
        out.extend_from_slice(b",\"structuredContent\":");
        write_structured(structured, shapes, out);
    }
    out.extend_from_slice(match result.outcome {
        Outcome::Success => b",\"isError\":false".as_slice(),
        Outcome::Error(_) => b",\"isError\":true".as_slice(),
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

/// Writes one block of content that stands without a result round it.
pub fn write_block(content: &Content, out: &mut Vec<u8>) {
    write_content(content, None, Shapes::Any, out);
}

/// Writes a text as a JSON string, quotes included.
pub fn write_escaped(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

/// Room for the common case, structure and escaped copy of it, so that the buffer grows once.
fn estimated_bytes(result: &ToolResult) -> usize {
    let structure = result.structured.as_ref().map_or(0, |structured| structured.json().bytes().len());
    256 + 2 * structure + structure / 4
}

fn write_content(content: &Content, structured: Option<&Structured>, shapes: Shapes, out: &mut Vec<u8>) {
    match &content.block {
        // Annotations are in it already.
        Block::AsSent(sent) => return out.extend_from_slice(sent.json.bytes()),
        Block::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            write_text(text, structured, shapes, out);
        }
        Block::Image { data, mime_type } => write_media("image", data, mime_type, out),
        Block::Audio { data, mime_type } => write_media("audio", data, mime_type, out),
        Block::ResourceLink { uri, name, description, mime_type } => {
            out.extend_from_slice(b"{\"type\":\"resource_link\"");
            write_string_member("uri", uri, out);
            write_string_member("name", name, out);
            if let Some(description) = description {
                write_string_member("description", description, out);
            }
            if let Some(mime_type) = mime_type {
                write_string_member("mimeType", mime_type, out);
            }
        }
        Block::Resource { uri, mime_type, body } => {
            out.extend_from_slice(b"{\"type\":\"resource\",\"resource\":{\"uri\":");
            write_escaped(uri, out);
            if let Some(mime_type) = mime_type {
                write_string_member("mimeType", mime_type, out);
            }
            match body {
                ResourceBody::Text(text) => write_string_member("text", text, out),
                ResourceBody::Blob(blob) => write_string_member("blob", blob, out),
            }
            out.push(b'}');
        }
    }
    if let Some(annotations) = &content.annotations {
        write_annotations(annotations, out);
    }
    out.push(b'}');
}

fn write_media(kind: &str, data: &str, mime_type: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.push(b'"');
    write_string_member("data", data, out);
    write_string_member("mimeType", mime_type, out);
}

fn write_text(text: &Text, structured: Option<&Structured>, shapes: Shapes, out: &mut Vec<u8>) {
    match text {
        Text::Plain(text) => write_escaped(text, out),
        Text::Shared(text) => write_escaped(text, out),
        Text::Error(message) => {
            out.extend_from_slice(b"\"{\\\"error\\\":");
            let mut quoted = Vec::new();
            write_escaped(message, &mut quoted);
            escape(&String::from_utf8_lossy(&quoted), out);
            out.extend_from_slice(b"}\"");
        }
        Text::OfStructure => match structured {
            None => out.extend_from_slice(b"\"\""),
            Some(structured) if structured.is_wrapped(shapes) => {
                out.extend_from_slice(b"\"{\\\"result\\\":");
                escape(structured.json().as_str(), out);
                out.extend_from_slice(b"}\"");
            }
            Some(structured) => write_escaped(structured.json().as_str(), out),
        },
    }
}

fn write_structured(structured: &Structured, shapes: Shapes, out: &mut Vec<u8>) {
    let json = structured.json().bytes();
    let wrapped = structured.is_wrapped(shapes);
    if wrapped {
        out.extend_from_slice(b"{\"result\":");
    }
    out.extend_from_slice(json);
    if wrapped {
        out.push(b'}');
    }
}

fn write_annotations(annotations: &Annotations, out: &mut Vec<u8>) {
    out.push(b',');
    write_member("annotations", &Value::Object(annotations.to_json()), out);
}

fn write_string_member(key: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    write_escaped(value, out);
}

fn write_member(key: &str, value: &Value, out: &mut Vec<u8>) {
    write_escaped(key, out);
    out.push(b':');
    serde_json::to_writer(out, value).expect("a tree of JSON values has string keys only");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Fault, JSON_DEPTH_LIMIT, JsonText};

    fn written(result: &ToolResult, shapes: Shapes) -> Value {
        let mut out = Vec::new();
        write_result(result, shapes, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn of_json(json: &str, make: fn(JsonText) -> Structured) -> ToolResult {
        let json = JsonText::check(&Bytes::from(json.to_owned())).unwrap();
        let mut result = ToolResult::new(Outcome::Success, vec![Block::Text(Text::OfStructure).into()]);
        result.structured = Some(make(json));
        result
    }

    #[test]
    fn a_value_that_is_no_object_is_wrapped_in_text_and_structure_alike() {
        let result = written(&of_json("[1, \"a\\\"b\"]", Structured::new), Shapes::Any);
        assert_eq!(result["structuredContent"].to_string(), r#"{"result":[1,"a\"b"]}"#);
        assert_eq!(result["content"][0]["text"], "{\"result\":[1, \"a\\\"b\"]}");
        assert_eq!(result["isError"], false);
    }

    #[test]
    fn a_route_may_hand_newer_clients_the_bare_value() {
        let result = of_json("[1]", |json| Structured::new(json).bare_where_allowed());
        assert_eq!(written(&result, Shapes::Any)["structuredContent"].to_string(), "[1]");
        assert_eq!(
            written(&result, Shapes::ObjectsOnly)["structuredContent"].to_string(),
            r#"{"result":[1]}"#
        );
    }

    #[test]
    fn a_result_is_the_same_tree_however_deep_it_is() {
        let mut shallow = of_json(r#"{"a": 1.0, "b": [1e3]}"#, Structured::new);
        shallow.meta.insert("code".into(), json!([7]));
        shallow.outcome = Outcome::Error(Fault::Arguments);
        assert_eq!(
            result_to_json(&shallow, Shapes::Any).to_string(),
            written(&shallow, Shapes::Any).to_string()
        );
        let deepest = format!("{}{}", "[".repeat(JSON_DEPTH_LIMIT), "]".repeat(JSON_DEPTH_LIMIT));
        let mut deep = of_json(&deepest, Structured::new);
        deep.meta.insert("code".into(), deep.structured.as_ref().unwrap().json().parse());
        let mut text = Vec::new();
        write_result(&deep, Shapes::Any, &mut text);
        assert_eq!(result_to_json(&deep, Shapes::Any).to_string().as_bytes(), text);
    }

    proptest! {
        #[test]
        fn any_text_reads_back_as_it_was(text in "\\PC*|[\\x00-\\x7f]*") {
            let mut out = Vec::new();
            write_escaped(&text, &mut out);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
