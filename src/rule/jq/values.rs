//! JSON values to those of the engine and back. Numbers keep their text.

use jaq_json::Val;
use serde_json::Value;

use super::JqError;

/// A JSON value as the engine has it.
pub(super) fn to_jq(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => to_jq_number(number),
        Value::String(text) => Val::utf8_str(text.clone()),
        Value::Array(items) => items.iter().map(to_jq).collect(),
        Value::Object(members) => {
            Val::obj(members.iter().map(|(key, value)| (Val::utf8_str(key.clone()), to_jq(value))).collect())
        }
    }
}

/// The same of a value that goes away with it.
pub(super) fn into_jq(value: Value) -> Val {
    match value {
        Value::String(text) => Val::utf8_str(text),
        Value::Array(items) => items.into_iter().map(into_jq).collect(),
        Value::Object(members) => {
            Val::obj(members.into_iter().map(|(key, value)| (Val::utf8_str(key), into_jq(value))).collect())
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => to_jq(&scalar),
    }
}

/// Keeps the text of decimals, so that `1.0` comes out as `1.0`.
fn to_jq_number(number: &serde_json::Number) -> Val {
    /// Reading a whole number takes time by the square of its length.
    const LONGEST_INTEGER: usize = 1000;
    let text = number.to_string();
    let integer = if text.len() > LONGEST_INTEGER { None } else { jaq_json::Num::from_str_radix(&text, 10) };
    Val::Num(integer.unwrap_or_else(|| jaq_json::Num::Dec(text.into())))
}

/// A value that a filter gave. Its values are counted: shared parts are told apart here, so a small value inside can be
/// a large one outside.
pub(super) fn result(value: &Val, most_values: usize) -> Result<Value, JqError> {
    let mut left = most_values;
    from_jq(value, 0, &mut left).map_err(|error| match left {
        0 => JqError::new(format!("gave more than {most_values} values, which is the `value_limit`")),
        _ => error,
    })
}

/// `left` is how many values there may be yet.
fn from_jq(value: &Val, depth: usize, left: &mut usize) -> Result<Value, JqError> {
    *left = left.checked_sub(1).ok_or_else(|| JqError::new("gave too many values"))?;
    if depth > crate::tool::JSON_DEPTH_LIMIT {
        return Err(JqError::new("gave a value that nests too deep"));
    }
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(flag) => Value::Bool(*flag),
        Val::Num(number) => {
            let text = number.to_string();
            let number = serde_json::from_str(&text);
            Value::Number(number.map_err(|_| JqError::new(format!("gave `{text}`, which JSON has not")))?)
        }
        Val::BStr(bytes) | Val::TStr(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        Val::Arr(items) => {
            Value::Array(items.iter().map(|item| from_jq(item, depth + 1, left)).collect::<Result<_, _>>()?)
        }
        Val::Obj(members) => {
            let mut map = serde_json::Map::with_capacity(members.len());
            for (key, value) in members.iter() {
                let Val::TStr(key) = key else {
                    return Err(JqError::new("gave an object with a key that is not a string"));
                };
                map.insert(String::from_utf8_lossy(key).into_owned(), from_jq(value, depth + 1, left)?);
            }
            Value::Object(map)
        }
    })
}
