//! JSON text that is known to be JSON and is carried as it came.

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

/// How deep arrays and objects may nest, in a reply and in arguments.
///
/// The limit of `serde_json`'s tree parser, so that whatever passes here can be read into a tree later.
pub const JSON_DEPTH_LIMIT: usize = 127;

/// One well-formed JSON document as text: UTF-8, no white space around it, nested at most
/// [`JSON_DEPTH_LIMIT`] deep.
///
/// Made from an upstream's bytes it is checked but not rebuilt, so keys stay in order and numbers keep their
/// text (`1.0`, `12345678901234567890`). Cloning shares the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText(Bytes);

/// Why bytes are not one JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected JSON, found something else: {what} at line {line}, column {column}")]
pub struct JsonError {
    /// What the parser made of it, in a few words.
    pub what: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 stands for the end of the line before.
    pub column: usize,
}

impl JsonError {
    fn new(error: &serde_json::Error) -> Self {
        // serde_json writes "expected value at line 1 column 1"; the place is ours to word.
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        Self { what, line: error.line(), column: error.column() }
    }
}

impl JsonText {
    /// Checks that `bytes` are one JSON document, and keeps them.
    ///
    /// # Errors
    ///
    /// [`JsonError`] when they are not, when they are not UTF-8, or when they nest too deep.
    pub fn check(bytes: &Bytes) -> Result<Self, JsonError> {
        let raw: &RawValue = serde_json::from_slice(bytes).map_err(|error| JsonError::new(&error))?;
        check_depth(raw.get())?;
        Ok(Self(bytes.slice_ref(raw.get().as_bytes())))
    }

    /// Writes a value down.
    pub fn of(value: &Value) -> Self {
        Self(Bytes::from(serde_json::to_vec(value).expect("a tree of JSON values has string keys only")))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("JSON was checked to be UTF-8 when it was made")
    }

    /// The text's bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Whether the document is an object.
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Reads the document into a tree.
    pub fn parse(&self) -> Value {
        serde_json::from_slice(&self.0).expect("JSON was checked when it was made")
    }
}

/// The parser skips over a raw value without recursion and so without a limit of its own.
fn check_depth(json: &str) -> Result<(), JsonError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (position, byte) in json.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth > JSON_DEPTH_LIMIT {
            let before = &json.as_bytes()[..position];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            let what = format!("more than {JSON_DEPTH_LIMIT} nested arrays and objects");
            return Err(JsonError { what, line, column });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_text() {
        let source = Bytes::from_static(b" {\"z\": 1.0, \"a\": 12345678901234567890, \"e\": 0.10} \n");
        let text = JsonText::check(&source).unwrap();
        assert_eq!(text.as_str(), r#"{"z": 1.0, "a": 12345678901234567890, "e": 0.10}"#);
        assert_eq!(JsonText::of(&text.parse()).as_str(), r#"{"z":1.0,"a":12345678901234567890,"e":0.10}"#);
    }

    #[test]
    fn what_is_not_json_is_told_with_its_place() {
        let error = JsonText::check(&Bytes::from_static(b"{\"a\": oops}")).unwrap_err();
        assert_eq!((error.line, error.column), (1, 7));
        assert!(JsonText::check(&Bytes::from_static(b"")).is_err());
        assert!(JsonText::check(&Bytes::from_static(b"\"\xff\"")).is_err());
        assert!(JsonText::check(&Bytes::from("[".repeat(100_000))).is_err());
        let nested = |depth: usize| Bytes::from("[".repeat(depth) + &"]".repeat(depth));
        assert!(JsonText::check(&nested(JSON_DEPTH_LIMIT + 1)).is_err(), "nested past the limit");
        JsonText::check(&nested(JSON_DEPTH_LIMIT)).unwrap().parse();
    }
}
