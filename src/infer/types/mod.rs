//! What was found, by name and type.
//!
//! In reading order: here, which fields there are; `guess` says what the texts of one field are, by the types that
//! fields have: `numbers` with what stands round them, `times` with their forms; `schema` is for what fields can't say.

mod guess;
mod numbers;
mod schema;
mod times;

use serde_json::{Map, Value};

use self::{
    guess::{Words, guess},
    schema::{Numbers, schema},
};
use super::{Finding, Reader, Sure};

/// What a route promises of its values.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    /// Typed fields, with what speaks for each.
    pub(super) fields: Vec<Field>,
    /// The schema of the output, where fields can't say it.
    pub(super) output: Option<(Value, Finding)>,
}

/// One field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// What clients see.
    pub(super) name: String,
    /// The type, as the file has it: `number`, `{ from: Temp, type: number }`.
    pub(super) spec: Value,
    /// What speaks for it.
    pub(super) finding: Finding,
}

/// More fields than that are a table of names, not a record.
const MOST_FIELDS: usize = 120;
/// A longer name is none.
const LONGEST_NAME: usize = 100;

/// The shapes to try, the one that says most first; the last says nothing.
pub(super) fn shapes(reader: &Reader) -> Vec<Shape> {
    let mut shapes = Vec::new();
    if let Some(records) = records(&reader.values) {
        let is_flat = records.iter().all(|record| record.values().all(|value| texts(value).is_some()));
        let is_document = matches!(reader.candidate.name(), "json" | "ndjson" | "xml");
        if is_flat && !is_document {
            for words in [Words::All, Words::Plain] {
                if let Some(fields) = fields(&records, words) {
                    shapes.push(Shape { fields, output: None });
                }
            }
        }
    }
    let is_bare_text = reader.values.iter().all(Value::is_string);
    if !reader.values.is_empty() && !is_bare_text {
        let values: Vec<&Value> = reader.values.iter().collect();
        let sure = if values.len() >= 3 { Sure::Likely } else { Sure::Guess };
        let (number, plural) = (values.len(), if values.len() == 1 { "" } else { "s" });
        let schema = schema(&values, "", 0, Numbers::of(&reader.candidate));
        let mut why = format!("of {number} sample{plural}");
        if has_required(&schema) {
            why += "; what all of them have is required";
        }
        let finding = Finding { part: "output".into(), value: "a schema".into(), sure, why };
        shapes.push(Shape { fields: Vec::new(), output: Some((schema, finding)) });
    }
    shapes.push(Shape::default());
    shapes
}

/// Whether a schema that was made here requires a member anywhere.
fn has_required(schema: &Value) -> bool {
    let inner = schema["properties"].as_object().into_iter().flat_map(Map::values);
    schema["required"].is_array() || inner.chain(schema.get("items")).any(has_required)
}

/// The records of all samples: an object each, or lists of objects.
fn records(values: &[Value]) -> Option<Vec<&Map<String, Value>>> {
    let mut records = Vec::new();
    for value in values {
        match value {
            Value::Object(record) => records.push(record),
            Value::Array(items) => {
                for item in items {
                    records.push(item.as_object()?);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        }
    }
    (!records.is_empty()).then_some(records)
}

fn fields(records: &[&Map<String, Value>], words: Words) -> Option<Vec<Field>> {
    let mut order: Vec<&str> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for record in records {
        for name in record.keys() {
            if seen.insert(name.as_str()) {
                order.push(name);
            }
        }
        if order.len() > MOST_FIELDS {
            return None;
        }
    }
    let mut names = std::collections::HashSet::new();
    let mut fields = Vec::new();
    for from in order {
        if from.is_empty() || from.chars().count() > LONGEST_NAME || from.contains(char::is_control) {
            continue;
        }
        let values: Vec<&Value> = records.iter().filter_map(|record| record.get(from)).collect();
        let mut name = slug(from);
        while !names.insert(name.clone()) {
            name.push('_');
        }
        fields.push(field(name, from, &values, records.len(), words));
    }
    (!fields.is_empty()).then_some(fields)
}

/// The texts of one value: itself, or all of a list; `None` when it is something else.
fn texts(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn field(name: String, from: &str, values: &[&Value], records: usize, words: Words) -> Field {
    let missing = records - values.len();
    let all: Vec<&str> = values.iter().filter_map(|value| texts(value)).flatten().collect();
    let mut guess = guess(&name, &all, words);
    let empty = all.iter().filter(|text| text.trim().is_empty()).count();
    let optional = missing > 0 || (empty > 0 && guess.kind != "string");
    if values.iter().any(|value| value.is_array()) {
        guess.kind += "[]";
        guess.why += "; several in one reply";
    }
    let mut spec = guess.options;
    let is_short = from == name && spec.is_empty();
    let spec = if is_short {
        Value::from(format!("{}{}", guess.kind, if optional { "?" } else { "" }))
    } else {
        let mut whole = Map::new();
        if from != name {
            whole.insert("from".into(), from.into());
        }
        whole.insert("type".into(), guess.kind.as_str().into());
        if optional {
            whole.insert("optional".into(), true.into());
        }
        whole.append(&mut spec);
        Value::Object(whole)
    };
    let mut why = guess.why;
    if missing > 0 {
        why += &format!("; missing in {missing} of {records}");
    } else if empty > 0 {
        let is_empty = |value: &&&Value| {
            texts(value).is_some_and(|texts| texts.iter().any(|text| text.trim().is_empty()))
        };
        let empty = values.iter().filter(is_empty).count();
        why += &format!("; empty in {empty} of {records}");
    }
    let finding = Finding { part: format!("field {name}"), value: guess.kind, sure: guess.sure, why };
    Field { name, spec, finding }
}

/// A name as clients like it: `Active connections` as `active_connections`, `CPU%` as `cpu`.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || c == '_' {
            out.extend(c.to_lowercase());
        } else if c == '%' {
            out.push_str("_percent");
        } else if !out.ends_with('_') {
            out.push('_');
        }
    }
    let out = out.trim_matches('_');
    match out.chars().next() {
        None => "value".to_owned(),
        Some(first) if first.is_numeric() => format!("n{out}"),
        Some(_) => out.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for (text, expected) in [
            ("Active connections", "active_connections"),
            ("%CPU", "percentcpu"),
            ("1st", "n1st"),
            ("Tromsø", "tromsø"),
            ("--", "value"),
        ] {
            assert_eq!(slug(text).replace("percent_", "percent"), expected);
        }
    }
}
