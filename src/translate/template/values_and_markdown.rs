//! Conversion between JSON and template values: variables, output, and Markdown tables.

use minijinja::{Error, ErrorKind, Value, value::ValueKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value as Json, json};

use super::OutputContext;
use super::bounds::{ITEM_BYTES, OUTPUT_LIMIT_BYTES, output_too_large};
use crate::model::{Arguments, kind_of};
use crate::translate::convert::without_exponent;
use crate::translate::fields::distinct;

/// Variables of the templates of a request: `args` and `input_responses`.
pub fn request_variables(arguments: &Arguments) -> Value {
    Value::from_pairs([
        ("args", from_map(&arguments.values)),
        ("input_responses", from_map(&arguments.input_responses)),
    ])
}

/// Variables of progress and log messages to clients: `args`, and `status` if the upstream has responded.
pub fn message_variables(arguments: &Arguments, status: Option<u16>) -> Value {
    let args = ("args", from_map(&arguments.values));
    Value::from_pairs([args].into_iter().chain(status.map(|status| ("status", Value::from(status)))))
}

/// Converts a JSON value to a template value. Numbers stay numbers, so that templates can compare and add
/// them. A number with too many digits for the engine becomes a string, so that no digit is lost.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => from_number(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(from_json).collect(),
        Json::Object(members) => from_map(members),
    }
}

fn from_map(members: &Map<String, Json>) -> Value {
    Value::from_pairs(members.iter().map(|(key, value)| (key.as_str(), from_json(value))))
}

fn from_number(number: &serde_json::Number) -> Value {
    /// Number of decimal digits that a double represents exactly.
    const EXACT_DIGITS: usize = 15;
    if let Some(integer) = number.as_i128() {
        return Value::from(integer);
    }
    let text = number.to_string();
    // `2.7e+11` is an integer, and easier to read as one.
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

/// Converts a template value to JSON text.
pub(super) fn json_text(value: &Value) -> Result<String, Error> {
    Ok(to_json(value)?.to_string())
}

/// Converts a template value to JSON. Shared lists are small in a template but long as JSON, so the length of
/// the output is limited.
pub(super) fn to_json(value: &Value) -> Result<Json, Error> {
    to_json_within(value, &mut OUTPUT_LIMIT_BYTES.clone())
}

fn to_json_within(value: &Value, bytes_left: &mut usize) -> Result<Json, Error> {
    let length = value.as_str().map_or(0, str::len) + ITEM_BYTES as usize;
    *bytes_left = bytes_left.checked_sub(length).ok_or_else(output_too_large)?;
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => serde_json::from_str(&value.to_string()).unwrap_or(Json::Null),
        kind @ (ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => {
            let Ok(items) = value.try_iter() else { return Ok(Json::Null) };
            if kind != ValueKind::Map {
                return items.map(|item| to_json_within(&item, bytes_left)).collect();
            }
            let member = |key: Value| {
                let item =
                    value.get_item(&key).map_or(Ok(Json::Null), |item| to_json_within(&item, bytes_left))?;
                Ok((key.to_string(), item))
            };
            Json::Object(items.map(member).collect::<Result<_, Error>>()?)
        }
        _ => Json::String(value.to_string()),
    })
}

/// All characters except the unreserved ones of RFC 3986, section 2.3.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Writes `{{ value }}`: lists and objects as JSON, null as `null`, other values as text. In a URL the text
/// is percent-encoded; in XML it is escaped, so that it is read as text only.
pub(super) fn write_value(
    context: OutputContext,
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let is_json = matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Bool | ValueKind::None);
    let text = || if is_json { json_text(value) } else { Ok(value.to_string()) };
    let output = match context {
        // The formatter rejects an undefined value, which must not become an empty text.
        _ if value.is_undefined() => value.clone(),
        OutputContext::Text if !is_json => value.clone(),
        OutputContext::Text => Value::from(text()?),
        OutputContext::Url => Value::from(utf8_percent_encode(&text()?, ENCODED).to_string()),
        // Output that is marked as safe has been escaped already.
        OutputContext::Xml if value.is_safe() => value.clone(),
        OutputContext::Xml => Value::from_safe_string(escape_xml(&text()?)),
    };
    minijinja::escape_formatter(out, state, &output)
}

fn escape_xml(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // Unescaped, `\r` would be read as a line feed (XML 1.0, section 2.11).
    text.replace('"', "&quot;").replace('\'', "&#39;").replace('\r', "&#13;")
}

/// Maximum number of columns of a table; more are an error. Without it, rows with different names would make
/// a table of quadratic size.
const COLUMN_LIMIT: usize = 100;
/// Maximum length of a Markdown table, in bytes.
const TABLE_LIMIT_BYTES: usize = 16 << 20;

/// Formats a list as a Markdown table. Objects become rows with `columns`, or with all columns in order of
/// first occurrence; any other item becomes a row with the column `value`. An object becomes a table of `key`
/// and `value`. An empty list, an empty object or null becomes an empty string.
///
/// # Errors
///
/// If `value` is neither a list nor an object, or the table would be too large.
pub(super) fn markdown_table(value: &Json, columns: Option<Vec<String>>) -> Result<String, Error> {
    let rows: Vec<Json> = match value {
        Json::Array(rows) => {
            let as_row = |row: &Json| if row.is_object() { row.clone() } else { json!({ "value": row }) };
            rows.iter().map(as_row).collect()
        }
        Json::Object(members) => {
            members.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
        }
        Json::Null => Vec::new(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            return Err(invalid(format!("a table needs a list or an object, found {}", kind_of(value))));
        }
    };
    let columns = columns.unwrap_or_else(|| {
        let names = rows.iter().filter_map(Json::as_object).flat_map(Map::keys);
        distinct(names, COLUMN_LIMIT + 1).into_iter().cloned().collect()
    });
    if columns.len() > COLUMN_LIMIT {
        return Err(invalid(format!("a table may have at most {COLUMN_LIMIT} columns, found more")));
    }
    if columns.is_empty() {
        return Ok(String::new());
    }
    let mut table = String::new();
    write_table_row(&mut table, columns.iter().map(|name| cell(&Json::String(name.clone()))));
    write_table_row(&mut table, columns.iter().map(|_| "---".to_owned()));
    for row in &rows {
        write_table_row(&mut table, columns.iter().map(|name| row.get(name).map(cell).unwrap_or_default()));
        if table.len() > TABLE_LIMIT_BYTES {
            return Err(invalid(format!("a table may have at most {TABLE_LIMIT_BYTES} bytes, found more")));
        }
    }
    table.truncate(table.trim_end().len());
    Ok(table)
}

fn write_table_row(table: &mut String, cells: impl Iterator<Item = String>) {
    table.push('|');
    table.extend(cells.map(|cell| format!(" {cell} |")));
    table.push('\n');
}

/// Formats a cell. Escapes characters that would end it (GitHub Flavored Markdown, "Tables").
fn cell(value: &Json) -> String {
    let text = match value {
        Json::Null => String::new(),
        Json::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    text.replace('|', "\\|").replace("\r\n", "<br>").replace(['\n', '\r'], "<br>")
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Json, columns: Option<&[&str]>, expected: Result<&str, &str>) {
        let columns = columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        match (markdown_table(&value, columns), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_list_is_a_table_with_its_columns_in_order() {
        let disks = json!([{"disk": "sda", "free": 1.50}, {"disk": "s|b\nc", "state": null, "tags": ["a"]}]);
        check(
            disks.clone(),
            None,
            Ok(
                "| disk | free | state | tags |\n| --- | --- | --- | --- |\n| sda | 1.5 |  |  |\n| s\\|b<br>c |  |  | [\"a\"] |",
            ),
        );
        check(disks, Some(&["free"]), Ok("| free |\n| --- |\n| 1.5 |\n|  |"));
        check(json!([1, "a"]), None, Ok("| value |\n| --- |\n| 1 |\n| a |"));
        check(json!({"up": true}), None, Ok("| key | value |\n| --- | --- |\n| up | true |"));
        check(json!([]), None, Ok(""));
        check(json!("x"), None, Err("found a string"));
    }

    #[test]
    fn a_table_has_an_end() {
        let rows: Vec<_> = (0..200).map(|n| json!({n.to_string(): 1})).collect();
        check(rows.into(), None, Err("a table may have at most 100 columns"));
    }
}
