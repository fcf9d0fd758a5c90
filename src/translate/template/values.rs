//! Values between JSON and templates: what a template sees, and how what it says is written.

use minijinja::{Error, Value, value::ValueKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

use super::bounds::ITEM_BYTES;
use crate::{
    model::Arguments,
    translate::{
        convert::without_exponent,
        filters::{self, MADE_LIMIT_BYTES},
    },
};

/// What the templates of a request see: `args` and `answers`.
pub fn template_names(arguments: &Arguments) -> Value {
    let object = |members: &serde_json::Map<String, Json>| {
        Value::from_pairs(members.iter().map(|(key, value)| (key.as_str(), from_json(value))))
    };
    Value::from_pairs([("args", object(arguments.as_map())), ("answers", object(arguments.answers()))])
}

/// What the lines that clients are told see: `args`, and `status` once there is one.
pub fn line_names(arguments: &Arguments, status: Option<u16>) -> Value {
    let members = arguments.as_map().iter().map(|(key, value)| (key.as_str(), from_json(value)));
    let args = ("args", Value::from_pairs(members));
    Value::from_pairs([args].into_iter().chain(status.map(|status| ("status", Value::from(status)))))
}

/// A JSON value as templates see it. Numbers are numbers, so that they compare and add up; one of more digits than
/// the engine can hold stays text, so that none is lost.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => from_number(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(from_json).collect(),
        Json::Object(members) => {
            Value::from_pairs(members.iter().map(|(key, value)| (key.as_str(), from_json(value))))
        }
    }
}

fn from_number(number: &serde_json::Number) -> Value {
    /// So many digits a double holds without loss.
    const EXACT_DIGITS: usize = 15;
    if let Some(integer) = number.as_i128() {
        return Value::from(integer);
    }
    let text = number.to_string();
    // `2.7e+11` is a whole number, and reads better as one.
    if text.contains('e')
        && let Some(integer) = without_exponent(&text).and_then(|text| text.parse::<i64>().ok())
    {
        return Value::from(integer);
    }
    let mantissa = text.split(['e', 'E']).next().unwrap_or(&text);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_matches('0').len();
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() && digits <= EXACT_DIGITS => Value::from(float),
        _ => Value::from(text),
    }
}

/// A template's value as JSON text.
pub(super) fn json_text(value: &Value) -> Result<String, Error> {
    Ok(to_json(value)?.to_string())
}

/// A template's value as JSON. Lists of one list, again and again, are small to a template and long as JSON: what is
/// made has an end.
pub(super) fn to_json(value: &Value) -> Result<Json, Error> {
    json_within(value, &mut MADE_LIMIT_BYTES.clone())
}

fn json_within(value: &Value, left: &mut usize) -> Result<Json, Error> {
    let length = value.as_str().map_or(0, str::len) + ITEM_BYTES as usize;
    *left = left.checked_sub(length).ok_or_else(filters::made_too_much)?;
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => serde_json::from_str(&value.to_string()).unwrap_or(Json::Null),
        ValueKind::Seq | ValueKind::Iterable => match value.try_iter() {
            Ok(items) => items.map(|item| json_within(&item, left)).collect::<Result<_, _>>()?,
            Err(_) => Json::Null,
        },
        ValueKind::Map => match value.try_iter() {
            Ok(keys) => {
                let member = |key: Value| {
                    let item =
                        value.get_item(&key).map_or(Ok(Json::Null), |item| json_within(&item, left))?;
                    Ok((key.to_string(), item))
                };
                Json::Object(keys.map(member).collect::<Result<_, Error>>()?)
            }
            Err(_) => Json::Null,
        },
        _ => Json::String(value.to_string()),
    })
}

/// Writes `{{ value }}`: arrays and objects as JSON, null as `null`, the rest as it is.
pub(super) fn write_value(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let written = match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Bool | ValueKind::None => Value::from(json_text(value)?),
        _ => value.clone(),
    };
    minijinja::escape_formatter(out, state, &written)
}

/// All but the unreserved characters of RFC 3986, section 2.3.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same for addresses: everything but the unreserved characters of RFC 3986, section 2.3, is encoded.
pub(super) fn write_encoded(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let text = match value.kind() {
        // Which is an error, and no empty text.
        ValueKind::Undefined => return minijinja::escape_formatter(out, state, value),
        ValueKind::Seq | ValueKind::Map | ValueKind::Bool | ValueKind::None => to_json(value)?.to_string(),
        _ => value.to_string(),
    };
    let encoded = utf8_percent_encode(&text, ENCODED).to_string();
    minijinja::escape_formatter(out, state, &Value::from(encoded))
}

/// The same for XML: what would be read as anything but text is escaped.
pub(super) fn write_escaped(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    // Of what is not there an error is made; what was escaped before is as it should be.
    if value.is_undefined() || value.is_safe() {
        return minijinja::escape_formatter(out, state, value);
    }
    let text = match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Bool | ValueKind::None => json_text(value)?,
        _ => value.to_string(),
    };
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // As it stands it would be read as a line feed (XML 1.0, section 2.11).
            '\r' => escaped.push_str("&#13;"),
            c => escaped.push(c),
        }
    }
    minijinja::escape_formatter(out, state, &Value::from_safe_string(escaped))
}
