//! The template filter `markdown_table`.

use minijinja::{Error, ErrorKind};
use serde_json::{Map, Value};

use crate::model::kind_of;

/// How many columns a table may have; more are an error, or rows of unlike names would make a table by the square
/// of their number.
const COLUMN_LIMIT: usize = 100;
/// How long a table may be, in bytes.
const TABLE_LIMIT_BYTES: usize = 16 << 20;

/// A list as a Markdown table: of objects, with these columns or all in the order in which they first come; of
/// anything else, with the one column `value`. An object is a table of `key` and `value`. Nothing to show is an
/// empty text.
///
/// # Errors
///
/// When the value is neither, or the table would be too large.
pub(super) fn table(value: &Value, columns: Option<Vec<String>>) -> Result<String, Error> {
    let rows: Vec<Map<String, Value>> = match value {
        Value::Array(rows) => rows.iter().map(as_row).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                Map::from_iter([("key".to_owned(), key.as_str().into()), ("value".to_owned(), value.clone())])
            })
            .collect(),
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(refused(format!("a table is made of a list or an object, found {}", kind_of(value))));
        }
    };
    let columns = match columns {
        Some(columns) => columns,
        None => columns_of(&rows)?,
    };
    if columns.len() > COLUMN_LIMIT {
        return Err(refused(format!("a table may have {COLUMN_LIMIT} columns, found {}", columns.len())));
    }
    if columns.is_empty() {
        return Ok(String::new());
    }
    let mut table = String::new();
    line(&mut table, columns.iter().map(|name| cell(&Value::String(name.clone()))));
    line(&mut table, columns.iter().map(|_| "---".to_owned()));
    for row in &rows {
        line(&mut table, columns.iter().map(|name| row.get(name).map(cell).unwrap_or_default()));
        if table.len() > TABLE_LIMIT_BYTES {
            return Err(refused(format!("a table may have {TABLE_LIMIT_BYTES} bytes, found more")));
        }
    }
    table.truncate(table.trim_end().len());
    Ok(table)
}

fn as_row(row: &Value) -> Map<String, Value> {
    match row {
        Value::Object(members) => members.clone(),
        other => Map::from_iter([("value".to_owned(), other.clone())]),
    }
}

fn columns_of(rows: &[Map<String, Value>]) -> Result<Vec<String>, Error> {
    let mut columns: Vec<String> = Vec::new();
    for name in rows.iter().flat_map(Map::keys) {
        if !columns.contains(name) {
            columns.push(name.clone());
            if columns.len() > COLUMN_LIMIT {
                return Err(refused(format!("a table may have {COLUMN_LIMIT} columns, found more")));
            }
        }
    }
    Ok(columns)
}

fn line(table: &mut String, cells: impl Iterator<Item = String>) {
    table.push('|');
    for cell in cells {
        table.push(' ');
        table.push_str(&cell);
        table.push_str(" |");
    }
    table.push('\n');
}

/// One cell: what would end it is written so that it does not (GitHub Flavored Markdown, "Tables").
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.trim().to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    text.replace('|', "\\|").replace("\r\n", "<br>").replace(['\n', '\r'], "<br>")
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, columns: Option<&[&str]>, expected: Result<&str, &str>) {
        let columns = columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        match (table(&value, columns), expected) {
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
        check(rows.into(), None, Err("100 columns"));
    }
}
