//! Tests of field types: each value fits the schema of its type, for any text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::Schema;

fn kinds() -> Vec<FieldKind> {
    let zone: TimeZoneSetting = "Europe/Oslo".parse().unwrap();
    let local = TimeOptions { zone: Some(zone), ..TimeOptions::default() };
    let logged = TimeOptions {
        formats: vec![TimeFormat::directives("%d/%b/%y %H:%M", true).unwrap()],
        zone: local.zone.clone(),
    };
    let money =
        NumberForm { prefix: vec!["$".into()], suffix: vec!["%".into()], decimal: ',', thousands: Some('.') };
    let words = vec![("OK".into(), json!("up")), ("CRIT".into(), json!(2)), ("a".into(), json!(null))];
    vec![
        FieldKind::Any,
        FieldKind::String,
        FieldKind::Boolean(Enumeration::from_booleans(&["true".into()], &["false".into()]).into()),
        FieldKind::Date(TimeOptions::default()),
        FieldKind::DateTime(local),
        FieldKind::DateTime(logged),
        FieldKind::DateTime(TimeOptions {
            formats: vec![TimeFormat::Unix("seconds", 1_000_000_000)],
            zone: None,
        }),
        FieldKind::Date(TimeOptions {
            formats: vec![TimeFormat::Unix("milliseconds", 1_000_000)],
            zone: None,
        }),
        FieldKind::Duration(DurationForm::default()),
        FieldKind::Integer(NumberForm::default()),
        FieldKind::Integer(money.clone()),
        FieldKind::Number(money),
        FieldKind::Object(None),
        FieldKind::Object(Some(Fields::new(vec![Field::new(
            "a",
            FieldKind::Integer(NumberForm::default()).into(),
        )]))),
        FieldKind::Size(SizeForm::default()),
        FieldKind::Values(Enumeration { words: words.clone(), rest: None, ignore_case: true }.into()),
        FieldKind::Values(Enumeration { words, rest: Some(json!("other")), ignore_case: false }.into()),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "-?[0-9]{0,20}([.,:][0-9]{1,12}){0,3} ?([a-zA-Z%]{1,3})?",
        "[0-9]{4}-[0-1][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9])?(Z|[+-][0-2][0-9]:[0-5][0-9])?)?",
        "[0-3][0-9]/(Jan|Nov)/[0-9]{2} [0-2][0-9]:[0-5][0-9]",
        "P?T?([0-9]{1,3}[wdhms ]){1,3}",
        "(OK|ok|CRIT|true|-|null|)",
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        5 => any_text().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => prop_oneof![Just(json!(null)), Just(json!(true)), Just(json!({"a": "5"})), Just(json!({"b": 1}))],
    ];
    prop_oneof![4 => scalar.clone(), 1 => proptest::collection::vec(scalar, 0..3).prop_map(Value::Array)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A typed value satisfies its schema, or is an error with a short message.
    #[test]
    fn a_typed_value_meets_its_schema(value in any_value(), kind in 0_usize..17, list in any::<bool>(), null in any::<bool>()) {
        let mut kind = FieldType::from(kinds().swap_remove(kind));
        kind.count = if list { Multiplicity::List } else { Multiplicity::One };
        kind.nulls = if null { vec!["-".into()] } else { Vec::new() };
        let schema = kind.schema();
        let format_name = schema.get("format").cloned();
        match kind.apply(&value) {
            Ok(typed) => {
                prop_assert!(Schema::compile(&schema).unwrap().accepts(&typed), "{typed} of {value}");
                if let (Some(Value::String(format)), Value::String(text)) = (format_name, &typed) {
                    let is_valid = match format.as_str() {
                        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
                        _ => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
                    };
                    prop_assert!(is_valid && text.as_bytes()[4] == b'-', "{}", text);
                }
            }
            Err(error) => {
                let error = error.to_string();
                prop_assert!(error.len() < 700, "{}", error);
            }
        }
    }
}

#[track_caller]
fn check(fields: &Fields, value: Value, expected: Result<Value, &str>) {
    match (fields.apply(&value), expected) {
        (Ok(typed), Ok(expected)) => assert_eq!(typed, expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (typed, _) => panic!("{value}: {typed:?}"),
    }
}

#[test]
fn lists_objects_and_lists_of_objects_are_typed_throughout() {
    let size = Field::new("size", FieldKind::Size(SizeForm::default()).into());
    let mut disks = FieldType::from(FieldKind::Object(Some(Fields::new(vec![size]))));
    disks.count = Multiplicity::List;
    let fields = Fields::new(vec![Field::new("disks", disks)]);
    check(&fields, json!({"disks": {"size": "1K"}}), Ok(json!({"disks": [{"size": 1024}]})));
    check(
        &fields,
        json!([{"disks": []}, {"disks": [{"size": "1K"}, {"size": "big"}]}]),
        Err("record 2: field `disks`, item 2, field `size` must be a size such as"),
    );
    check(&fields, json!({"disks": [7]}), Err("field `disks`, item 1 must be an object; found `7`"));
    check(
        &fields,
        json!({"disks": {"x": 1}}),
        Err("field `disks`, field `size` is missing: expected `size`"),
    );
}

#[test]
fn missing_fields_are_omitted_or_defaulted_and_null_is_null() {
    let number = || FieldType::from(FieldKind::Number(NumberForm::default()));
    let mut given = Field::new("given", number());
    given.missing = OnMissing::Default(json!(0).into());
    let mut left = Field::new("left", number());
    left.missing = OnMissing::Omit;
    let mut null = Field::new("null", number());
    null.kind.nulls = vec!["N/A".into(), String::new()];
    let fields = Fields::new(vec![given, left, null]);
    check(&fields, json!({"null": "n/a"}), Ok(json!({"given": 0, "null": null})));
    check(&fields, json!({"given": "", "left": null, "null": ""}), Ok(json!({"given": 0, "null": null})));
    check(
        &fields,
        json!({"given": 5, "left": "6", "null": "7"}),
        Ok(json!({"given": 5, "left": 6, "null": 7})),
    );
    assert_eq!(fields.schema()["required"], json!(["given", "null"]));
    assert_eq!(fields.schema()["properties"]["null"], json!({"type": ["number", "null"]}));
}

#[test]
fn all_others_can_have_a_type() {
    let mut named = Field::new("name", FieldKind::String.into());
    named.from = "Name".parse().unwrap();
    let others = FieldType::from(FieldKind::Integer(NumberForm::default()));
    let fields = Fields { others: Some(others.into()), ..Fields::new(vec![named]) };
    check(&fields, json!({"Name": "a", "x": "1", "name": "b", "y": ""}), Ok(json!({"name": "a", "x": 1})));
    check(&fields, json!({"Name": "a", "x": "b"}), Err("field `x` must be an integer; found `b`"));
    assert_eq!(fields.schema()["additionalProperties"], json!({"type": "integer"}));
    let mut dotted = Field::new("size", FieldKind::String.into());
    dotted.from = "a.b".parse().unwrap();
    let fields = Fields { list: [dotted].into(), ..fields };
    check(&fields, json!({"a.b": "5", "a": "1"}), Ok(json!({"size": "5", "a": 1})));
    check(&fields, json!({"a": {"b": "5"}, "c": "1"}), Ok(json!({"size": "5", "c": 1})));
}

#[track_caller]
fn check_path(path: &str, expected: Option<Value>) {
    let found = json!({
        "disk": [{"size": 1}, {"size": 2, "a.b": 3}], "one": {"size": 4}, "x.y": 5, "x": {"y": 6}, "t": "text",
    });
    let path: FieldPath = path.parse().unwrap();
    assert_eq!(path.find(found.as_object().unwrap()), expected.as_ref(), "{path}");
}

#[test]
fn a_path_leads_into_nested_values() {
    check_path("disk.1.size", Some(json!(2)));
    check_path(r#"disk.1."a.b""#, Some(json!(3)));
    check_path("disk.2.size", None);
    check_path("disk.size", None);
    check_path("one.0.size", Some(json!(4)));
    check_path("one.1.size", None);
    check_path("x.y", Some(json!(5)));
    check_path(r#""x".y"#, Some(json!(6)));
    check_path("t.0", Some(json!("text")));
    check_path("t.u", None);
    check_path("t.#text", Some(json!("text")));
    check_path("t.0.#text", Some(json!("text")));
    check_path("disk.#text", None);
    check_path("x.y.#text", None);
}

#[test]
fn an_invalid_path_is_an_error() {
    let empty = "expected a path without empty names";
    let quotes = "expected `\"` at both ends of a name that is in quotes";
    for (text, error) in
        [("", empty), ("a..b", empty), (".a", empty), ("a.", empty), ("\"a", quotes), ("\"a\"b", quotes)]
    {
        assert_eq!(text.parse::<FieldPath>(), Err(error), "{text}");
    }
}
