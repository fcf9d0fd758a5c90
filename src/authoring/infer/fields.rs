//! Inference of fields with names and types, and of an output schema for values that fields cannot describe.

use std::{collections::HashSet, mem::discriminant, slice, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::candidates::Candidate;
use super::field_types::{MIN_WHOLE, guess, is_number, is_whole, text};
use super::{Confidence, Finding};
use crate::authoring::{pluralize, without_empty};
use crate::settings::fixed_regex;

/// Inferred types of the values of a route.
#[derive(Debug, Clone, Default)]
pub(super) struct InferredTypes {
    /// Typed fields, each with its evidence.
    pub(super) fields: Vec<InferredField>,
    /// Output schema, if fields cannot describe the values.
    pub(super) output: Option<(Value, Finding)>,
}

#[derive(Debug, Clone)]
pub(super) struct InferredField {
    /// Name of the field in the result.
    pub(super) name: String,
    /// Type in configuration syntax: `number`, or `{ from: Temp, type: number }`.
    pub(super) spec: Value,
    /// Evidence for the type.
    pub(super) finding: Finding,
}

/// Maximum number of fields; an object with more members is a lookup table, not a record.
const MAX_FIELDS: usize = 120;
/// Maximum length of a field name, in characters.
const MAX_NAME_LENGTH: usize = 100;

/// Returns possible types of the values, most specific first. The last entry has no types.
pub(super) fn possible_types(candidate: &Candidate) -> Vec<InferredTypes> {
    let is_document = matches!(candidate.name, "json" | "ndjson" | "xml");
    let records = records(&candidate.values).filter(|_| !is_document);
    let fields = records.and_then(|records| fields(&records));
    let mut possible_types: Vec<_> =
        fields.map(|fields| InferredTypes { fields, output: None }).into_iter().collect();
    if !candidate.values.iter().all(Value::is_string) {
        let values: Vec<&Value> = candidate.values.iter().collect();
        let numbers = match candidate.name {
            "metrics" => Numbers::Measured,
            "json" | "ndjson" => Numbers::AsSent,
            _ => Numbers::Texts,
        };
        let mut confidence = if values.len() >= 3 { Confidence::Likely } else { Confidence::Guess };
        let schema = schema(&values, "", 0, numbers);
        let samples = pluralize(values.len(), "sample");
        let mut reason = format!("of {samples}; properties that all of them have are required");
        if schema.to_string().contains(MAP_KEYWORD) {
            confidence = Confidence::Guess;
            reason += "; `additionalProperties` where the keys seem to be data";
        }
        let finding = Finding::new("output", "a schema", confidence, reason);
        let output = Some((schema, finding)).filter(|(schema, _)| *schema != json!({ "type": "object" }));
        possible_types.push(InferredTypes { fields: Vec::new(), output });
    }
    possible_types.push(InferredTypes::default());
    possible_types
}

/// Removes the members of records that cannot be fields because of their names.
pub(super) fn remove_unnamed(values: &mut [Value]) {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().count() <= MAX_NAME_LENGTH && !name.contains(char::is_control)
    };
    let items = values.iter_mut().flat_map(|value| match value {
        Value::Array(items) => items.as_mut_slice(),
        other => slice::from_mut(other),
    });
    items.filter_map(Value::as_object_mut).for_each(|record| record.retain(|name, _| is_name(name)));
}

/// Returns the records of all samples: objects whose members are strings or lists of strings. A value is one
/// record or a list of records; `None` if any value is something else.
fn records(values: &[Value]) -> Option<Vec<&Map<String, Value>>> {
    let items = values.iter().flat_map(|value| match value {
        Value::Array(items) => items.as_slice(),
        _ => slice::from_ref(value),
    });
    let records: Vec<_> = items.map(Value::as_object).collect::<Option<_>>()?;
    let is_flat = records.iter().all(|record| record.values().all(|value| texts(value).is_some()));
    (is_flat && !records.is_empty()).then_some(records)
}

/// Returns the names of the members of all objects, each once, in the order of their first occurrence.
fn names_of<'a>(objects: &[&'a Map<String, Value>]) -> Vec<&'a String> {
    let mut seen = HashSet::new();
    objects.iter().flat_map(|object| object.keys()).filter(|name| seen.insert(*name)).collect()
}

fn fields(records: &[&Map<String, Value>]) -> Option<Vec<InferredField>> {
    let order = names_of(records);
    if order.len() > MAX_FIELDS {
        return None;
    }
    let mut names = HashSet::new();
    let mut fields = Vec::new();
    for from in order {
        let values: Vec<&Value> = records.iter().filter_map(|record| record.get(from)).collect();
        let mut name = slug(from);
        while !names.insert(name.clone()) {
            name.push('_');
        }
        fields.push(field(name, from, &values, records.len()));
    }
    (!fields.is_empty()).then_some(fields)
}

/// Returns the strings of a value: the string itself, or the items of a list; `None` for other values.
fn texts(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn field(name: String, from: &str, values: &[&Value], records: usize) -> InferredField {
    let missing = records - values.len();
    let mut all: Vec<&str> = values.iter().filter_map(|value| texts(value)).flatten().collect();
    let has_empty =
        |value: &Value| texts(value).is_some_and(|texts| texts.iter().any(|text| text.trim().is_empty()));
    let empty = values.iter().filter(|value| has_empty(value)).count();
    let mut guess = guess(&name, &all);
    // An item of a list cannot be missing, and only a string can be empty.
    if guess.kind != "string" && values.iter().any(|value| value.is_array() && has_empty(value)) {
        all.retain(|text| !text.trim().is_empty());
        guess = text(&all);
    }
    let is_optional = missing > 0 || (empty > 0 && guess.kind != "string");
    if values.iter().any(|value| value.is_array()) {
        guess.kind += "[]";
        guess.reason += "; several in one response";
    }
    let mut spec = without_empty(json!({
        "from": Some(from).filter(|from| *from != name),
        "type": guess.kind,
        "optional": is_optional.then_some(true),
    }));
    spec.extend(guess.options);
    let spec = match from == name && spec.len() == 1 + usize::from(is_optional) {
        true => format!("{}{}", guess.kind, if is_optional { "?" } else { "" }).into(),
        false => Value::Object(spec),
    };
    let mut reason = guess.reason;
    if missing > 0 {
        reason += &format!("; missing in {missing} of {records}");
    } else if empty > 0 {
        reason += &format!("; empty in {empty} of {records}");
    }
    let finding = Finding::new(&format!("field {name}"), &guess.kind, guess.confidence, reason);
    InferredField { name, spec, finding }
}

/// Converts a text to a field name in snake case: `Active connections` becomes `active_connections`, `CPU%`
/// becomes `cpu_percent`.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || c == '_' {
            out.extend(c.to_lowercase());
        } else if c == '%' {
            out.push_str(if out.ends_with('_') { "percent" } else { "_percent" });
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

/// How the extractor returns numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// As strings, which the schema converts.
    Texts,
    /// As numbers of the response.
    AsSent,
    /// As measured values, for example metrics, which may have a fraction at any time.
    Measured,
}

/// Infers the schema of the values at the same path in all samples.
fn schema(values: &[&Value], name: &str, depth: usize, numbers: Numbers) -> Value {
    /// Maximum nesting depth; a deeper schema would not be read.
    const MAX_DEPTH: usize = 8;
    let present: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    let is_nullable = present.len() < values.len();
    let every = |test: fn(&Value) -> bool| present.iter().all(|value| test(value));
    let mut keywords = Map::new();
    let kind = if depth > MAX_DEPTH || present.is_empty() {
        return json!({});
    } else if every(Value::is_object) {
        let objects: Vec<_> = present.iter().filter_map(|value| value.as_object()).collect();
        // The members of `labels` vary, for example between metrics, so they are not described.
        if depth == 0 || name != "labels" {
            keywords = schema_of_members(&objects, depth, numbers);
        }
        "object"
    } else if every(Value::is_array) {
        let items: Vec<&Value> = present.iter().filter_map(|value| value.as_array()).flatten().collect();
        if !items.is_empty() {
            keywords.insert("items".into(), schema(&items, name, depth + 1, numbers));
        }
        "array"
    } else if every(Value::is_boolean) {
        "boolean"
    } else if every(Value::is_number) {
        let are_whole = present.iter().all(|value| is_whole(&value.to_string()));
        let is_integer = are_whole && present.len() >= MIN_WHOLE && numbers != Numbers::Measured;
        if is_integer { "integer" } else { "number" }
    } else if every(Value::is_string) {
        let every = |test: fn(&str) -> bool| {
            let mut texts = present.iter().filter_map(|value| value.as_str());
            numbers == Numbers::Texts && !is_nullable && texts.all(|text| test(text.trim()))
        };
        match present.len() {
            MIN_WHOLE.. if every(is_whole) => "integer",
            _ if every(is_number) => "number",
            _ if every(|text| text == "true" || text == "false") => "boolean",
            _ => "string",
        }
    } else {
        return json!({});
    };
    let kind = if is_nullable { json!([kind, "null"]) } else { kind.into() };
    [("type".to_owned(), kind)].into_iter().chain(keywords).collect()
}

/// Keyword for the values of a map.
const MAP_KEYWORD: &str = "additionalProperties";

/// Returns the keywords for the members of objects: `additionalProperties` for maps, else `properties` and
/// `required`.
fn schema_of_members(objects: &[&Map<String, Value>], depth: usize, numbers: Numbers) -> Map<String, Value> {
    let is_common = |name: &String| objects.iter().all(|object| object.contains_key(name));
    let names = names_of(objects);
    let required: Vec<_> = names.iter().filter(|name| is_common(name)).collect();
    let values: Vec<&Value> = objects.iter().flat_map(|object| object.values()).collect();
    if are_maps(&names, required.len(), &values) {
        return [(MAP_KEYWORD.to_owned(), schema(&values, "", depth + 1, numbers))].into_iter().collect();
    }
    if names.len() > MAX_FIELDS {
        return Map::new();
    }
    let property = |name: &&String| {
        let found: Vec<&Value> = objects.iter().filter_map(|object| object.get(*name)).collect();
        ((*name).clone(), schema(&found, name, depth + 1, numbers))
    };
    let properties: Map<_, _> = names.iter().map(property).collect();
    without_empty(json!({ "properties": properties, "required": required }))
}

/// Whether objects with these members are maps: the names are data, because they look like ids or differ
/// between the objects, and the values are alike: objects that share a member, or values of one JSON type.
/// `common` is the number of names that all objects have.
fn are_maps(names: &[&String], common: usize, values: &[&Value]) -> bool {
    /// Numbers, hexadecimal digits, dates, addresses and ids such as `D7SY-4A`.
    static ID: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^(?:[0-9]+|[0-9A-Za-f:._-]{6,})$"));
    let has_digit = |name: &str| name.contains(|c: char| c.is_ascii_digit());
    let records: Option<Vec<_>> = values.iter().map(|value| value.as_object()).collect();
    match records {
        Some(records) if names.len() > 1 => {
            let is_in_all = |name: &String| records.iter().all(|record| record.contains_key(name));
            let names_are_data = common * 2 < names.len() || names.iter().all(|name| has_digit(name));
            names_are_data && records[0].keys().any(is_in_all)
        }
        // A property may be optional, so single values need more evidence than records of one shape.
        _ => {
            let has_one_type = values.windows(2).all(|two| discriminant(two[0]) == discriminant(two[1]));
            !names.is_empty() && has_one_type && names.iter().all(|name| has_digit(name) && ID.is_match(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_with_data_as_keys_are_maps() {
        for (samples, is_map) in [
            (
                json!([{ "D7SY-A": { "up": true }, "QQ-B": { "up": false } }, { "ZZZ-C": { "up": true } }]),
                true,
            ),
            (json!([{ "a": { "n": 1 }, "b": { "n": 2 } }, { "a": { "n": 3 }, "c": { "n": 4 } }]), true),
            (json!([{ "eth0": { "rx": 1 }, "eth1": { "rx": 1, "tx": 2 } }]), true),
            (json!([{ "10.0.0.1": 5, "10.0.0.2": 7 }]), true),
            (json!([{ "ann": { "n": 1 } }, {}]), false),
            (json!([{ "ann": 1, "bob": 2 }, {}, { "eve": 2 }]), false),
            (json!([{ "from": { "city": "Oslo" }, "to": { "city": "Bergen" } }]), false),
            (json!([{ "address1": "a", "address2": "b" }]), false),
            (json!([{ "10": "a", "20": 1 }]), false),
            (json!([{ "name": "a" }, { "name": "b", "note": "c", "mail": "d" }]), false),
            (json!([{ "result": "a" }, { "message": "b" }]), false),
            (json!([{}]), false),
        ] {
            let objects: Vec<_> = samples.as_array().unwrap().iter().filter_map(Value::as_object).collect();
            let schema = schema_of_members(&objects, 0, Numbers::AsSent);
            assert_eq!(schema.contains_key(MAP_KEYWORD), is_map, "{samples}");
        }
    }

    #[test]
    fn names_are_plain() {
        for (text, expected) in [
            ("Active connections", "active_connections"),
            ("%CPU", "percentcpu"),
            ("CPU %", "cpu_percent"),
            ("1st", "n1st"),
            ("Tromsø", "tromsø"),
            ("--", "value"),
        ] {
            assert_eq!(slug(text), expected);
        }
    }
}
