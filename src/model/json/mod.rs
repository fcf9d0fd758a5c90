//! JSON text that is validated and forwarded without being rebuilt.
//!
//! - `validate` finds malformed JSON in one pass, without building a tree, and counts the values.
//! - `tree` parses validated text to a tree; `escape` writes text as a JSON string.

mod escape;
mod tree;
mod validate;

use std::sync::LazyLock;

use bytes::Bytes;
use bytestring::ByteString;
use memchr::memmem;
use serde_json::{Value, value::RawValue};

pub(super) use self::escape::escape;
use self::validate::{ValidationError, ValueCounts, validate};

/// Maximum nesting depth of arrays and objects, in responses and arguments.
///
/// The tree parser of `serde_json` has the same limit, so that every valid document can later be parsed to a
/// tree.
pub const JSON_DEPTH_LIMIT: usize = 127;

/// Quote and prefix of the keys that `serde_json` uses for numbers and raw values in its own trees. It would
/// mistake the same keys in a document for its own.
static PARSER_KEYS: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new("\"$serde_json::private::"));

/// Valid JSON document as text: UTF-8, without surrounding white space, nested at most [`JSON_DEPTH_LIMIT`]
/// levels deep.
///
/// The bytes of an upstream are validated but not rebuilt, so keys keep their order and numbers their
/// spelling (`1.0`, `12345678901234567890`). Clones share the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText {
    text: ByteString,
    counts: ValueCounts,
}

/// Reason why bytes are not a valid JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON: {message} at line {line}, column {column}")]
pub struct JsonError {
    /// Short message of the parser.
    pub message: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 means the end of the previous line.
    pub column: usize,
}

impl JsonError {
    /// Creates an error with the message of `serde_json`. If `serde_json` accepts the document, the error has
    /// `message` and `position`.
    fn new(bytes: &[u8], position: usize, message: String) -> Self {
        let Err(error) = serde_json::from_slice::<&RawValue>(bytes) else {
            return Self::with_position(bytes, position, message);
        };
        // serde_json writes "expected value at line 1 column 1"; [`JsonError`] formats the position itself.
        let full_message = error.to_string();
        let message = full_message.split(" at line ").next().unwrap_or(&full_message).to_owned();
        Self { message, line: error.line(), column: error.column() }
    }

    fn with_position(json: &[u8], position: usize, message: String) -> Self {
        let before = &json[..position];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Self { message, line, column }
    }
}

impl JsonText {
    /// Checks that `bytes` are one JSON document; the result shares the bytes.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if the bytes are not JSON or not UTF-8, or are nested too deep.
    pub fn check(bytes: &Bytes) -> Result<Self, JsonError> {
        let text = ByteString::try_from(bytes.clone());
        let text = text.map_err(|_| JsonError::new(bytes, 0, "bytes that are not UTF-8".to_owned()))?;
        Self::check_text(&text)
    }

    /// Checks that `text` is one JSON document; the result shares the text.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if the text is not one document, is nested too deep, has a lone surrogate, or contains,
    /// in a key or a value, the quoted prefix of the keys that `serde_json` reserves.
    pub fn check_text(text: &ByteString) -> Result<Self, JsonError> {
        let bytes = text.as_bytes();
        let counts = validate(bytes).map_err(|error| {
            let (position, message) = match error {
                ValidationError::Grammar => (0, "expected value".to_owned()),
                ValidationError::Depth(position) => {
                    (position, format!("more than {JSON_DEPTH_LIMIT} nested arrays and objects"))
                }
                ValidationError::LoneSurrogate(position) => {
                    (position, "an unpaired surrogate in a string".to_owned())
                }
            };
            JsonError::new(bytes, position, message)
        })?;
        let json = text.trim_matches([' ', '\n', '\t', '\r']);
        if let Some(position) = PARSER_KEYS.find(bytes) {
            let message = "text that the JSON parser reserves (`$serde_json::private::`)".to_owned();
            return Err(JsonError::with_position(bytes, position, message));
        }
        Ok(Self { text: text.slice_ref(json), counts })
    }

    /// Serializes a JSON value.
    pub fn from_value(value: &Value) -> Self {
        let text = serde_json::to_string(value).expect("a tree of JSON values has string keys only");
        Self { text: text.into(), counts: ValueCounts::from_tree(value) }
    }

    /// Returns the JSON as a string slice.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the bytes of the text, without copying them.
    pub fn bytes(&self) -> &Bytes {
        self.text.as_bytes()
    }

    /// Returns the JSON as a string whose clones share the bytes.
    pub fn shared(&self) -> &ByteString {
        &self.text
    }

    /// Whether the document is an object.
    pub fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Whether `tree`, which was parsed from this text, contains everything in the text. A tree lacks values
    /// if an object repeats a name, because parsers disagree about which of the values applies (RFC 8259,
    /// section 4).
    pub fn matches_tree(&self, tree: &Value) -> bool {
        self.counts.members == ValueCounts::from_tree(tree).members
    }

    /// Parses the document to a tree.
    pub fn parse(&self) -> Value {
        tree::parse(self.text.as_bytes()).unwrap_or_default()
    }

    /// Checks that the document has at most `limit` values, including arrays and objects but not member
    /// names.
    ///
    /// # Errors
    ///
    /// [`TooManyValues`] with the position of the first value beyond the limit.
    pub fn check_value_count(&self, limit: usize) -> Result<(), TooManyValues> {
        if self.counts.values <= limit { Ok(()) } else { values_within(self.text.as_bytes(), limit) }
    }
}

/// Checks that a document has at most `limit` values, including arrays and objects. It counts separators
/// without validating the JSON, so malformed JSON does not end the count.
///
/// # Errors
///
/// [`TooManyValues`] with the position of the first value beyond the limit.
pub fn values_within(json: &[u8], limit: usize) -> Result<(), TooManyValues> {
    if json.len() <= limit { Ok(()) } else { count_values(json, limit).map(drop) }
}

/// Counts the values of a document up to `limit`, like [`values_within`].
///
/// # Errors
///
/// Like [`values_within`].
pub fn count_values(json: &[u8], limit: usize) -> Result<usize, TooManyValues> {
    // Every value except the first follows a separator.
    let (mut count, mut in_string, mut is_escaped) = (1, false, false);
    for (position, byte) in json.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b',' => count += 1,
            b'[' | b'{' => {
                let next_byte = json[position + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
                count += usize::from(!matches!(next_byte, Some(b']' | b'}')));
            }
            _ => {}
        }
        if count > limit {
            let JsonError { line, column, .. } = JsonError::with_position(json, position, String::new());
            return Err(TooManyValues { limit, line, column });
        }
    }
    Ok(count)
}

/// Counts the values of a tree, including arrays and objects.
pub fn count_tree_values(tree: &Value) -> usize {
    ValueCounts::from_tree(tree).values
}

/// Error for a document with more values than the limit for parsing it to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected at most {limit} values, found more at line {line}, column {column}")]
pub struct TooManyValues {
    /// Maximum number of values.
    pub limit: usize,
    /// Line of the first value beyond the limit, from 1.
    pub line: usize,
    /// Column of that value in bytes, from 1.
    pub column: usize,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_keep_their_text() {
        let source = Bytes::from_static(b" {\"z\": 1.0, \"a\": 12345678901234567890, \"e\": 0.10} \n");
        let text = JsonText::check(&source).unwrap();
        assert_eq!(text.as_str(), r#"{"z": 1.0, "a": 12345678901234567890, "e": 0.10}"#);
        assert_eq!(
            JsonText::from_value(&text.parse()).as_str(),
            r#"{"z":1.0,"a":12345678901234567890,"e":0.10}"#
        );
    }

    #[test]
    fn half_a_surrogate_pair_is_no_text() {
        let check = |json: &'static str| JsonText::check(&Bytes::from_static(json.as_bytes()));
        for json in
            [r#"{"a": "\ud800"}"#, r#""\udc00""#, r#""\ud800\u0041""#, r#""\ud83d x""#, r#"{"\udfff": 1}"#]
        {
            assert_eq!(check(json).unwrap_err().message, "an unpaired surrogate in a string", "{json}");
        }
        for json in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9\n\"""#] {
            check(json).unwrap().parse();
        }
    }

    #[test]
    fn the_parsers_own_keys_are_no_numbers() {
        let escaped = Bytes::from_static(br#"{"\u0024serde_json::private::Number": "5"}"#);
        assert_eq!(
            JsonText::check(&escaped).unwrap().parse(),
            json!({"$serde_json::private::Number": "5"}),
            "what the text says"
        );
        let check = |json: &str| JsonText::check(&Bytes::from(json.to_owned()));
        for kind in ["Number", "RawValue"] {
            assert!(check(&format!(r#"{{"a": {{"$serde_json::private::{kind}": "5"}}}}"#)).is_err());
            check(&format!(r#"{{"a": "unknown $serde_json::private::{kind}"}}"#)).unwrap().parse();
            check(&format!(r#"{{"\u0024serde_json::private::{kind}": "x", "a": 1}}"#)).unwrap().parse();
        }
    }

    /// A name in an HTML page or a CSV file may be anything, and such trees are built without the parser.
    #[test]
    fn a_tree_with_the_parsers_own_keys_is_written_as_it_is() {
        for (kind, content) in [("Number", "5"), ("Number", "x"), ("RawValue", "[1")] {
            let value = json!({ format!("$serde_json::private::{kind}"): content });
            let text = JsonText::from_value(&value);
            assert_eq!(text.as_str(), format!(r#"{{"$serde_json::private::{kind}":"{content}"}}"#));
            assert_eq!(text.parse(), value);
        }
    }

    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        }
    }

    #[test]
    fn values_are_counted_without_a_tree() {
        for json in [
            "1",
            "[]",
            "{ }",
            "[ [ ], {}, [1], {\"a\":[1,2 , 3]} ]",
            r#"{"a,[{": "x,\"[,", "b": [{}, {"c": null}]}"#,
            "\n[1,\n2,\n\n3]",
        ] {
            let text = JsonText::check(&Bytes::from(json.to_owned())).unwrap();
            let values = count(&text.parse());
            text.check_value_count(values).unwrap();
            if values > 1 {
                assert_eq!(text.check_value_count(values - 1).unwrap_err().limit, values - 1, "{json}");
            }
        }
        let lines = JsonText::check(&Bytes::from_static(b"[1,\n2,\n3]")).unwrap();
        assert_eq!(lines.check_value_count(3).unwrap_err(), TooManyValues { limit: 3, line: 2, column: 2 });
    }

    /// Only a part of a message is parsed; other content must not hide the length of that part.
    #[test]
    fn ignored_characters_do_not_end_the_count() {
        let deep = "[".repeat(JSON_DEPTH_LIMIT + 1) + &"]".repeat(JSON_DEPTH_LIMIT + 1);
        for first in [r#""\ud800""#, "\"\\\\\\\"[,\"", &deep] {
            let json = format!(r#"{{"first": {first}, "list": [{}1]}}"#, "1,".repeat(300));
            assert!(values_within(json.as_bytes(), 300).is_err(), "{json}");
        }
    }

    proptest::proptest! {
        #[test]
        fn accepted_documents_can_be_parsed(text in r#"[\[\]{}",: a0-9.eE+\\u-]{0,40}|"(\\\\u[dD][89a-fA-F][0-9a-f]{2}|[a"\\\\]){0,4}""#) {
            if let Ok(json) = JsonText::check(&Bytes::from(text)) {
                json.parse();
            }
        }
    }

    #[test]
    fn invalid_json_is_an_error_with_its_position() {
        let position = |json: &str| {
            let error = JsonText::check(&Bytes::from(json.to_owned())).unwrap_err();
            (error.line, error.column)
        };
        assert_eq!(position(r#"{"a": oops}"#), (1, 7));
        let deep = "[".repeat(JSON_DEPTH_LIMIT + 1) + &"]".repeat(JSON_DEPTH_LIMIT + 1);
        let reserved = r#"{"$serde_json::private::Number": "5"}"#;
        for (json, column) in
            [("oops", 1), (r#"["\ud800"]"#, 3), (deep.as_str(), JSON_DEPTH_LIMIT + 1), (reserved, 2)]
        {
            assert_eq!(position(&format!("\n \n{json}")), (3, column), "{json}");
        }
        assert!(JsonText::check(&Bytes::from_static(b"")).is_err());
        assert!(JsonText::check(&Bytes::from_static(b"\"\xff\"")).is_err());
        assert!(JsonText::check(&Bytes::from("[".repeat(100_000))).is_err());
        let nested = |depth: usize| Bytes::from("[".repeat(depth) + &"]".repeat(depth));
        assert!(JsonText::check(&nested(JSON_DEPTH_LIMIT + 1)).is_err(), "nested past the limit");
        JsonText::check(&nested(JSON_DEPTH_LIMIT)).unwrap().parse();
    }
}
