//! JSON values to those of the engine and back. Numbers keep their text.

use jaq_json::{Map, Num, Val};
use serde_json::Value;

use super::JqError;
use crate::model::{NumberOutOfBounds, check_number};

/// A JSON value as the engine has it.
///
/// # Errors
///
/// [`NumberOutOfBounds`] when one of its numbers is.
pub(super) fn to_jq(value: &Value) -> Result<Val, NumberOutOfBounds> {
    Ok(match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => to_jq_number(number)?,
        Value::String(text) => Val::utf8_str(text.clone()),
        Value::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            for item in items {
                list.push(to_jq(item)?);
            }
            Val::Arr(list.into())
        }
        Value::Object(members) => {
            let mut map = Map::with_capacity_and_hasher(members.len(), Default::default());
            for (key, value) in members {
                map.insert(Val::utf8_str(key.clone()), to_jq(value)?);
            }
            Val::obj(map)
        }
    })
}

/// The same of a value that goes away with it.
pub(super) fn into_jq(value: Value) -> Result<Val, NumberOutOfBounds> {
    Ok(match value {
        Value::String(text) => Val::utf8_str(text),
        Value::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            for item in items {
                list.push(into_jq(item)?);
            }
            Val::Arr(list.into())
        }
        Value::Object(members) => {
            let mut map = Map::with_capacity_and_hasher(members.len(), Default::default());
            for (key, value) in members {
                map.insert(Val::utf8_str(key), into_jq(value)?);
            }
            Val::obj(map)
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => to_jq(&scalar)?,
    })
}

/// Keeps the text of decimals, so that `1.0` comes out as `1.0`.
fn to_jq_number(number: &serde_json::Number) -> Result<Val, NumberOutOfBounds> {
    let text = number.as_str();
    check_number(text)?;
    let integer = Num::from_str_radix(text, 10);
    Ok(Val::Num(integer.unwrap_or_else(|| Num::Dec(text.to_owned().into()))))
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
    if depth > crate::model::JSON_DEPTH_LIMIT {
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
