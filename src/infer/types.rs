//! What was found, by name and type.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

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
        let is_flat = records.iter().all(|record| record.values().all(Value::is_string));
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
        let finding = Finding {
            part: "output".into(),
            value: "a schema".into(),
            sure,
            why: format!("of {number} sample{plural}; what all of them have is required"),
        };
        shapes.push(Shape {
            fields: Vec::new(),
            output: Some((schema(&values, "", 0, reader.candidate.finds_texts()), finding)),
        });
    }
    shapes.push(Shape::default());
    shapes
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

/// Which types fields may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// All that there are.
    All,
    /// Those of JSON.
    Plain,
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
        let texts: Vec<&str> = records.iter().filter_map(|record| record.get(from)?.as_str()).collect();
        let mut name = slug(from);
        while !names.insert(name.clone()) {
            name.push('_');
        }
        fields.push(field(name, from, &texts, records.len(), words));
    }
    (!fields.is_empty()).then_some(fields)
}

fn field(name: String, from: &str, texts: &[&str], records: usize, words: Words) -> Field {
    let missing = records - texts.len();
    let guess = guess(&name, texts, words);
    let empty = texts.iter().filter(|text| text.trim().is_empty()).count();
    let optional = missing > 0 || (empty > 0 && guess.kind != "string");
    let mut spec = guess.options;
    let is_short = from == name && spec.is_empty();
    let spec = if is_short {
        Value::from(format!("{}{}", guess.kind, if optional { "?" } else { "" }))
    } else {
        let mut whole = Map::new();
        if from != name {
            whole.insert("from".into(), from.into());
        }
        whole.insert("type".into(), guess.kind.into());
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
        why += &format!("; empty in {empty} of {records}");
    }
    let finding = Finding { part: format!("field {name}"), value: guess.kind.into(), sure: guess.sure, why };
    Field { name, spec, finding }
}

/// What a list of texts is.
struct Guess {
    kind: &'static str,
    options: Map<String, Value>,
    sure: Sure,
    why: String,
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[-+]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?$").expect("a good pattern")
});
/// Zip codes, telephone numbers and the like, whose zeros would be lost.
static LEADING_ZERO: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[-+]?0[0-9]").expect("a good pattern"));

/// Pairs of words for true and false.
const FLAGS: [[&str; 2]; 5] =
    [["true", "false"], ["yes", "no"], ["on", "off"], ["enabled", "disabled"], ["y", "n"]];
/// Words that stand for nothing.
const NOTHING: [&str; 9] = ["-", "--", "N/A", "n/a", "NA", "null", "NULL", "none", "nil"];

fn is_number(text: &str) -> bool {
    NUMBER.is_match(text) && !LEADING_ZERO.is_match(text)
}

fn is_whole(text: &str) -> bool {
    is_number(text) && !text.contains(['.', 'e', 'E'])
}

fn guess(name: &str, texts: &[&str], words: Words) -> Guess {
    let all: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    let nothing: Vec<&str> = NOTHING.into_iter().filter(|word| all.contains(word)).collect();
    let telling: Vec<&str> = all.iter().copied().filter(|text| !nothing.contains(text)).collect();
    let count = telling.len();
    let sure = match count {
        0 | 1 => Sure::Guess,
        2..5 => Sure::Likely,
        _ => Sure::Sure,
    };
    let every = |test: &dyn Fn(&str) -> bool| count > 0 && telling.iter().all(|text| test(text));
    let mut options = Map::new();
    let (mut kind, mut why) = ("string", String::new());
    if every(&is_whole) && (count >= 3 || counts(name)) {
        (kind, why) = ("integer", format!("{count} of {count} are whole numbers"));
    } else if every(&is_number) {
        (kind, why) = ("number", format!("{count} of {count} are numbers"));
    } else if let Some([yes, no]) = FLAGS.into_iter().find(|flags| {
        let among = |text: &str| flags.iter().any(|flag| flag.eq_ignore_ascii_case(text));
        // A letter may be a code.
        every(&among)
            && (flags[0].len() > 1 || telling.iter().any(|text| !text.eq_ignore_ascii_case(telling[0])))
    }) {
        (kind, why) = ("boolean", format!("{count} of {count} are `{yes}` or `{no}`"));
        if yes != "true" {
            options.insert("true".into(), json!([yes]));
            options.insert("false".into(), json!([no]));
        }
    }
    if kind == "string"
        && words == Words::All
        && let Some((rich, more, told)) = rich(&telling)
    {
        (kind, why, options) = (rich, told, more);
    }
    if kind != "string" && !nothing.is_empty() {
        if words == Words::Plain {
            // There is no number for `-`.
            (kind, options) = ("string", Map::new());
            why = format!("numbers, and {}", listed(&nothing));
        } else {
            options.insert("null".into(), json!(nothing));
            why += &format!("; {} stands for nothing", listed(&nothing));
        }
    }
    if kind == "string" && why.is_empty() {
        let mut different: Vec<&str> = telling.clone();
        different.sort_unstable();
        different.dedup();
        why = match different.len() {
            0 => "always empty".to_owned(),
            1..=4 if count >= 8 => format!("a text; only {} so far", listed(&different)),
            _ => "a text".to_owned(),
        };
    }
    let sure = if kind == "string" && count > 1 { Sure::Sure.min(sure) } else { sure };
    Guess { kind, options, sure, why }
}

/// Whether something of this name is counted, never measured.
fn counts(name: &str) -> bool {
    const WORDS: [&str; 18] = [
        "id",
        "count",
        "total",
        "number",
        "port",
        "pid",
        "bytes",
        "requests",
        "connections",
        "threads",
        "accepts",
        "handled",
        "workers",
        "errors",
        "accesses",
        "users",
        "processes",
        "code",
    ];
    name.split('_').any(|word| WORDS.contains(&word))
}

/// Types that only fields have: their words are tried by loading what is proposed.
fn rich(texts: &[&str]) -> Option<(&'static str, Map<String, Value>, String)> {
    static PATTERNS: LazyLock<[(Regex, &str, &str, &str); 4]> = LazyLock::new(|| {
        let pattern = |text| Regex::new(text).expect("a good pattern");
        [
            (
                pattern(
                    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[-+][0-9]{2}:[0-9]{2})$",
                ),
                "date-time",
                "",
                "points in time, as RFC 3339 has them",
            ),
            (
                pattern(
                    r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} (GMT|UTC|[-+][0-9]{4})$",
                ),
                "date-time",
                "%a, %d %b %Y %H:%M:%S %z",
                "points in time, as e-mail has them",
            ),
            (pattern(r"^[0-9]+(\.[0-9]+)? ?([KMGTP]i?B|[kKMGTP])$"), "size", "", "sizes with a unit"),
            (
                pattern(r"^([0-9]+(\.[0-9]+)? ?(ms|s|m|h|d|sec|min|hours?|days?|minutes?|seconds?),? ?)+$"),
                "duration",
                "",
                "durations with units",
            ),
        ]
    });
    let (_, kind, format, what) = PATTERNS
        .iter()
        .find(|(pattern, ..)| !texts.is_empty() && texts.iter().all(|text| pattern.is_match(text)))?;
    let mut options = Map::new();
    if !format.is_empty() {
        options.insert("format".into(), (*format).into());
    }
    Some((kind, options, format!("{0} of {0} are {what}", texts.len())))
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The schema of values that were all found in the same place. `converts`: whether texts become what the schema says,
/// since the extractor knows texts only.
fn schema(values: &[&Value], name: &str, depth: usize, converts: bool) -> Value {
    /// Deeper than that nobody reads a schema.
    const DEEPEST: usize = 8;
    let is_null = |value: &&Value| value.is_null();
    let telling: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    let nullable = values.iter().any(is_null);
    let every = |test: fn(&Value) -> bool| !telling.is_empty() && telling.iter().all(|value| test(value));
    let with_null = |kind: &str| if nullable { json!([kind, "null"]) } else { json!(kind) };
    if depth > DEEPEST || telling.is_empty() {
        return json!({});
    }
    if every(Value::is_object) {
        let objects: Vec<_> = telling.iter().filter_map(|value| value.as_object()).collect();
        let mut properties = Map::new();
        let mut required = Vec::new();
        for name in objects.iter().flat_map(|object| object.keys()) {
            if properties.contains_key(name) {
                continue;
            }
            let found: Vec<&Value> = objects.iter().filter_map(|object| object.get(name)).collect();
            if found.len() == objects.len() {
                required.push(Value::from(name.as_str()));
            }
            properties.insert(name.clone(), schema(&found, name, depth + 1, converts));
        }
        // The labels of a metric are its own.
        if properties.is_empty() || properties.len() > MOST_FIELDS || (depth > 0 && name == "labels") {
            return json!({ "type": with_null("object") });
        }
        let mut schema = json!({ "type": with_null("object"), "properties": properties });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    } else if every(Value::is_array) {
        let items: Vec<&Value> = telling.iter().filter_map(|value| value.as_array()).flatten().collect();
        match items.is_empty() {
            true => json!({ "type": with_null("array") }),
            false => {
                json!({ "type": with_null("array"), "items": schema(&items, name, depth + 1, converts) })
            }
        }
    } else if every(Value::is_boolean) {
        json!({ "type": with_null("boolean") })
    } else if every(Value::is_number) {
        // What is called a value is measured.
        let whole = name != "value" && telling.iter().all(|value| is_whole(&value.to_string()));
        let kind = if whole && (telling.len() >= 3 || counts(&slug(name))) { "integer" } else { "number" };
        json!({ "type": with_null(kind) })
    } else if every(Value::is_string) {
        let texts: Vec<&str> = telling.iter().filter_map(|value| value.as_str()).collect();
        let every =
            |test: fn(&str) -> bool| converts && !nullable && texts.iter().all(|text| test(text.trim()));
        let kind = if every(is_whole) && (texts.len() >= 3 || counts(&slug(name))) {
            "integer"
        } else if every(is_number) {
            "number"
        } else if every(|text| text == "true" || text == "false") {
            "boolean"
        } else {
            "string"
        };
        json!({ "type": with_null(kind) })
    } else {
        json!({})
    }
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

    #[track_caller]
    fn check(texts: &[&str], kind: &str, sure: Sure) {
        let guess = guess("x", texts, Words::Plain);
        assert_eq!((guess.kind, guess.sure), (kind, sure), "{texts:?}: {}", guess.why);
    }

    #[test]
    fn texts_have_the_types_that_all_of_them_have() {
        check(&["1", "2", "3"], "integer", Sure::Likely);
        check(&["1", "2"], "number", Sure::Likely);
        check(&["1", "2.5", "-3", ".5", "1e5"], "number", Sure::Sure);
        check(&["1", "2", "x"], "string", Sure::Likely);
        check(&["0123", "4567", "8901"], "string", Sure::Likely);
        check(&["yes", "No", "yes"], "boolean", Sure::Likely);
        check(&["y", "y", "y"], "string", Sure::Likely);
        check(&["1", "-", "3"], "string", Sure::Likely);
        check(&["5"], "number", Sure::Guess);
        check(&["", ""], "string", Sure::Guess);
    }

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
