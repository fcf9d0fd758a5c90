//! Parser of JSON text to a tree of values that uses less memory than the tree of `serde_json`.

use std::{borrow::Cow, fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// Parses validated text; `None` if it is not JSON, or is nested too deep.
///
/// Works like `serde_json`, with two differences. Arrays and small objects allocate no spare capacity; with
/// it, a response of many small objects would use three times the memory. And each key of a document remains
/// a key, even if it equals the key that `serde_json` uses internally for numbers.
pub(super) fn parse(text: &[u8]) -> Option<Value> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = ValueVisitor { text_range: &text.as_ptr_range() }.deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    Some(value)
}

/// Maximum number of members of an object that are collected before its map is allocated.
const SMALL_MEMBERS: usize = 16;

/// Key of an object; borrowed from the text unless it contains escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct ObjectKey<'t>(#[serde(borrow)] Cow<'t, str>);

/// Visitor for the deserializer of `serde_json`.
///
/// `text_range` is the range of memory addresses of the text. The internal key that `serde_json` uses for
/// numbers is borrowed too, but not from the text, so its address is outside of the range.
#[derive(Clone, Copy)]
struct ValueVisitor<'r> {
    text_range: &'r Range<*const u8>,
}

impl<'de> DeserializeSeed<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let (mut collected, mut map) = (Vec::new(), Map::new());
        while let Some(ObjectKey(name)) = members.next_key()? {
            if matches!(&name, Cow::Borrowed(name) if !self.text_range.contains(&name.as_ptr())) {
                let digits: String = members.next_value()?;
                return digits.parse::<Number>().map(Value::Number).map_err(Error::custom);
            }
            let (name, value) = (name.into_owned(), members.next_value_seed(self)?);
            if collected.len() < SMALL_MEMBERS && map.is_empty() {
                collected.push((name, value));
            } else {
                map.extend(collected.drain(..));
                map.insert(name, value);
            }
        }
        if map.is_empty() {
            map = Map::with_capacity(collected.len());
            map.extend(collected);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str) {
        assert_eq!(parse(text.as_bytes()), serde_json::from_str(text).ok(), "{text}");
    }

    #[test]
    fn all_that_json_has_is_read() {
        check(r#" {"a": [1, -2.50, 1e5, "x\n\u00e9", true, false, null, {}, [], ""], "": {"b": {"c": 1}}} "#);
        check(r#"{"twice": 1, "other": 2, "twice": 3}"#);
        check("12345678901234567890.10");
        for broken in ["", "[1", "[1] 2", "{\"a\"}", "nul"] {
            check(broken);
        }
        let many: Vec<String> = (0..100).map(|index| format!(r#""k{}": {index}"#, index % 60)).collect();
        check(&format!("{{{}}}", many.join(",")));
    }

    #[test]
    fn a_key_of_the_document_is_a_key() {
        for key in ["$serde_json::private::Number", "$serde_json::private::RawValue", ""] {
            let value = json!({ key: "5", "a": {key: {"b": 1}} });
            assert_eq!(parse(value.to_string().as_bytes()), Some(value.clone()));
            assert_eq!(parse(value.to_string().replace('$', r"\u0024").as_bytes()), Some(value));
        }
        assert_eq!(parse(br#"{"":5}"#), Some(json!({"": 5})));
    }

    proptest! {
        #[test]
        fn both_readers_return_the_same_tree(text in r#"[\[\]{}",: a0-9.eE+-]{0,40}"#) {
            prop_assert_eq!(parse(text.as_bytes()), serde_json::from_str(&text).ok());
        }
    }
}
