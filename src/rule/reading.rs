//! One reply being read, and what reads it where no rule says.

use std::cell::OnceCell;

use bytes::Bytes;
use bytestring::ByteString;
use serde_json::{Map, Value};

use super::{
    content_encoding::Body,
    decode::{Charset, Decoded, decode, decode_lossy},
    extract::{Binary, ExtractorKind, Json, MCP_MEDIA_TYPE, Mcp, Text as TextExtractor},
    rules::TranslationLimits,
    stop::Stop,
    translation::Facts,
    why::Why,
};
use crate::{
    reply::Reply,
    tool::{JsonText, TooManyValues, ToolName},
};

/// One reply being read. Text and JSON are made when first asked for, and once.
pub(crate) struct Reading<'a> {
    pub(super) reply: &'a Reply,
    body: &'a Body<'a>,
    pub(super) facts: Facts<'a>,
    charset: Option<Charset>,
    text: OnceCell<Result<Decoded, Why>>,
    json: OnceCell<Option<Value>>,
    headers: OnceCell<Value>,
    most_values: usize,
    /// What was not looked into, because it has more values.
    too_much: OnceCell<String>,
}

impl<'a> Reading<'a> {
    /// A reading of a reply, whose body may have been expanded for another.
    pub(super) fn new(
        reply: &'a Reply,
        body: &'a Body<'a>,
        facts: Facts<'a>,
        charset: Option<Charset>,
    ) -> Self {
        let (text, json, headers, too_much) = Default::default();
        let most_values = TranslationLimits::DEFAULT_VALUES;
        Self { reply, body, facts, charset, text, json, headers, most_values, too_much }
    }

    /// The same with another limit of the values that are read into one tree.
    pub(super) fn with_most_values(self, most_values: usize) -> Self {
        Self { most_values, ..self }
    }

    /// The same reply, read in another charset.
    pub(super) fn recoded(&self, charset: Option<Charset>) -> Self {
        Self::new(self.reply, self.body, self.facts, charset).with_most_values(self.most_values)
    }

    /// The same reply with another text: one that was found in it.
    pub(super) fn of_text(&self, text: ByteString) -> Self {
        let inner = Self::new(self.reply, self.body, self.facts, None).with_most_values(self.most_values);
        let (charset, because) = ("UTF-8", "what was found");
        Self { text: OnceCell::from(Ok(Decoded { text, charset, because })), ..inner }
    }

    pub(crate) fn reply(&self) -> &'a Reply {
        self.reply
    }

    pub(crate) fn tool(&self) -> &'a ToolName {
        self.facts.tool
    }

    pub(crate) fn stop(&self) -> Option<&'a Stop> {
        self.facts.stop
    }

    /// The body, compression undone.
    pub(crate) fn body(&self) -> Result<&'a Bytes, Why> {
        self.body.bytes()
    }

    pub(super) fn decoded(&self) -> Result<&Decoded, Why> {
        // Charsets have names of their own; nothing of the response is in what is wrong with them.
        let read = || decode(self.reply, self.body()?, self.charset).map_err(Why::plainly);
        self.text.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The text with `�` for what can't be read; nothing where there is none. For the messages of errors only.
    pub(super) fn lossy_text(&self) -> String {
        self.body().map(|body| decode_lossy(self.reply, body)).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> Result<&str, Why> {
        self.decoded().map(Decoded::as_str)
    }

    pub(crate) fn shared_text(&self) -> Result<&ByteString, Why> {
        self.decoded().map(|decoded| &decoded.text)
    }

    pub(crate) fn checked_json(&self) -> Result<JsonText, Why> {
        // The parser names what it expected, and nothing that it found.
        JsonText::check_text(self.shared_text()?).map_err(|error| Why::plainly(error.to_string()))
    }

    /// The reply read as JSON, whatever its media type says; `None` when it is not, or has too many values.
    pub(crate) fn json(&self) -> Option<&Value> {
        self.json.get_or_init(|| self.checked_json().ok().and_then(|json| self.tree_of(&json).ok())).as_ref()
    }

    /// How many values one tree may have.
    pub(super) fn most_values(&self) -> usize {
        self.most_values
    }

    /// JSON read into a tree.
    ///
    /// # Errors
    ///
    /// A sentence, when it has too many values.
    pub(crate) fn tree_of(&self, json: &JsonText) -> Result<Value, Why> {
        self.admits(json).map(|()| json.parse())
    }

    /// Whether JSON may be read into a tree.
    ///
    /// # Errors
    ///
    /// A sentence, when it has too many values.
    pub(super) fn admits(&self, json: &JsonText) -> Result<(), Why> {
        json.has_at_most(self.most_values).map_err(|TooManyValues { most, line, column }| {
            self.refuse(format!(
                "expected at most {most} values, which is the `value_limit`, found more at line {line}, column \
                 {column}"
            ))
        })
    }

    /// Whether a tree that was made of the reply is not too large, with those that were made before for the same value.
    ///
    /// # Errors
    ///
    /// A sentence, when it is.
    pub(crate) fn admits_tree(&self, tree: &Value, before: &mut usize) -> Result<(), Why> {
        count(tree, self.most_values, before);
        if *before <= self.most_values {
            return Ok(());
        }
        let most = self.most_values;
        Err(self.refuse(format!("expected at most {most} values, which is the `value_limit`, found more")))
    }

    fn refuse(&self, why: String) -> Why {
        self.too_much.get_or_init(|| why.clone());
        Why::plainly(why)
    }

    /// Why something that was asked for was not looked into: it has too many values.
    pub(super) fn too_much(&self) -> Option<&str> {
        self.too_much.get().map(String::as_str)
    }

    /// The headers as an object with lower-case names; several values of one name are joined by a comma.
    pub(crate) fn headers(&self) -> &Value {
        self.headers.get_or_init(|| {
            let mut headers = Map::new();
            for name in self.reply.headers.keys() {
                let values = self.reply.headers.get_all(name).iter();
                let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
                headers.insert(name.as_str().to_owned(), values.join(", ").into());
            }
            Value::Object(headers)
        })
    }
}

/// Counts the values of a tree, until there are more than wanted.
fn count(tree: &Value, most: usize, values: &mut usize) {
    *values += 1;
    let mut inside = |value| {
        if *values <= most {
            count(value, most, values);
        }
    };
    match tree {
        Value::Array(items) => items.iter().for_each(inside),
        Value::Object(members) => members.values().for_each(&mut inside),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The extractor for a reply that no rule has one for.
pub(super) fn by_media_type(reading: &Reading<'_>) -> ExtractorKind {
    let Some(media_type) = reading.reply.media_type() else {
        // RFC 9110, section 8.3: without `Content-Type` the recipient may look at the data.
        let is_structure = |json: JsonText| json.as_str().starts_with(['{', '[']);
        let document = reading.checked_json().is_ok_and(is_structure);
        return match reading.text() {
            Ok(_) if document => ExtractorKind::Json(Json),
            Ok(_) => ExtractorKind::Text(TextExtractor::default()),
            Err(_) => ExtractorKind::Binary(Binary { kind: None, media_type: None }),
        };
    };
    let (kind, subtype) = media_type.split_once('/').unwrap_or((&*media_type, ""));
    if media_type == MCP_MEDIA_TYPE {
        ExtractorKind::Mcp(Mcp)
    } else if subtype == "json" || subtype.ends_with("+json") {
        ExtractorKind::Json(Json)
    } else if kind == "text"
        || subtype.ends_with("+xml")
        || matches!(
            subtype,
            "xml" | "yaml" | "x-yaml" | "javascript" | "x-www-form-urlencoded" | "x-ndjson" | "toml"
        )
    {
        ExtractorKind::Text(TextExtractor::default())
    } else {
        ExtractorKind::Binary(Binary { kind: None, media_type: None })
    }
}
