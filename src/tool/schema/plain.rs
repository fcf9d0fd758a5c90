//! Values that meet a schema at first sight: most schemas of tools name types and members and nothing else, and most values meet
//! them. What this sees costs no validator, which takes some kilobytes a schema, and half a megabyte for the first of all.

use serde_json::{Map, Value};

use super::{check_number, type_of};

/// Whether a value is seen to meet a schema, a JSON Schema 2020-12 in which `format` is a hint. `false` is no verdict: where
/// there are other keywords than the plainest, a value that may not meet them, or no steps left, a validator has to look.
pub(super) fn meets(schema: &Map<String, Value>, value: &Value, steps_left: &mut u64) -> bool {
    if !take(steps_left, schema.len() + 1) {
        return false;
    }
    if let Value::Number(number) = value
        && check_number(number.as_str()).is_err()
    {
        return false;
    }
    schema.iter().all(|(keyword, wanted)| match keyword.as_str() {
        "type" => is_of(wanted, value),
        "enum" => is_listed(wanted, value, steps_left),
        "minimum" => is_bounded(wanted, value, |least, found| found >= least),
        "maximum" => is_bounded(wanted, value, |most, found| found <= most),
        "minLength" => value.as_str().is_none_or(|text| {
            take(steps_left, text.len() / 16) && is_count(wanted, |least| text.chars().count() >= least)
        }),
        "maxLength" => value.as_str().is_none_or(|text| {
            take(steps_left, text.len() / 16) && is_count(wanted, |most| text.chars().count() <= most)
        }),
        "minItems" => value.as_array().is_none_or(|items| is_count(wanted, |least| items.len() >= least)),
        "maxItems" => value.as_array().is_none_or(|items| is_count(wanted, |most| items.len() <= most)),
        "items" => value
            .as_array()
            .is_none_or(|items| items.iter().all(|item| meets_either(wanted, item, steps_left))),
        "required" => has_all(wanted, value, steps_left),
        "properties" => has_members(wanted, value, steps_left),
        "additionalProperties" => has_others(schema.get("properties"), wanted, value, steps_left),
        "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly"
        | "format" | "$comment" => true,
        _ => false,
    })
}

fn take(steps_left: &mut u64, steps: usize) -> bool {
    let left = steps_left.checked_sub(steps as u64);
    *steps_left = left.unwrap_or(0);
    left.is_some()
}

/// `true` and `false` are schemas too.
fn meets_either(schema: &Value, value: &Value, steps_left: &mut u64) -> bool {
    match schema {
        Value::Bool(admits) => take(steps_left, 1) && *admits,
        Value::Object(schema) => meets(schema, value, steps_left),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

/// Lists and objects among the values are for the validator.
fn is_listed(wanted: &Value, value: &Value, steps_left: &mut u64) -> bool {
    let Value::Array(listed) = wanted else { return false };
    !value.is_array() && !value.is_object() && take(steps_left, listed.len()) && listed.contains(value)
}

/// One type, or a list of them. A number that is whole and not written so is for the validator.
fn is_of(wanted: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("integer") => value.is_i64() || value.is_u64(),
        Some(kind) => kind == type_of(value),
        None => false,
    };
    match wanted {
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    }
}

fn is_bounded(bound: &Value, value: &Value, holds: fn(i64, i64) -> bool) -> bool {
    match value {
        Value::Number(number) => {
            bound.as_i64().zip(number.as_i64()).is_some_and(|(bound, found)| holds(bound, found))
        }
        _ => true,
    }
}

fn is_count(bound: &Value, holds: impl FnOnce(usize) -> bool) -> bool {
    bound.as_u64().and_then(|bound| usize::try_from(bound).ok()).is_some_and(holds)
}

// Names mostly stand in the order of the schema: the next one is looked at before the name is looked up.

fn has_all(names: &Value, value: &Value, steps_left: &mut u64) -> bool {
    let (Value::Object(members), Value::Array(names)) = (value, names) else { return !value.is_object() };
    let mut next = members.keys();
    take(steps_left, names.len())
        && names.iter().all(|name| {
            name.as_str().is_some_and(|name| next.any(|next| next == name) || members.contains_key(name))
        })
}

fn has_members(schemas: &Value, value: &Value, steps_left: &mut u64) -> bool {
    let (Value::Object(members), Value::Object(schemas)) = (value, schemas) else {
        return !value.is_object();
    };
    let mut next = schemas.iter();
    members.iter().all(|(name, value)| {
        let schema = match next.next() {
            Some((next, schema)) if next == name => Some(schema),
            _ => schemas.get(name),
        };
        take(steps_left, 1) && schema.is_none_or(|schema| meets_either(schema, value, steps_left))
    })
}

/// The members that `properties` does not name. Those that `patternProperties` does are no others, but with that keyword
/// nothing is seen here.
fn has_others(named: Option<&Value>, schema: &Value, value: &Value, steps_left: &mut u64) -> bool {
    let is_named = |name: &str| named.is_some_and(|named| named.get(name).is_some());
    value.as_object().is_none_or(|members| {
        members.iter().all(|(name, value)| is_named(name) || meets_either(schema, value, steps_left))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::*, meets, meets_either};

    fn any_value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-2..3_i64).prop_map(Value::from),
            prop::sample::select(vec!["1.0", "0.5", "-1e0", "12345678901234567890123"])
                .prop_map(|number| serde_json::from_str(number).unwrap()),
            "[a\u{e9}]{0,2}".prop_map(Value::from),
        ];
        plain.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("[abc]", inner), 0..4)
                    .prop_map(|members| Value::from(Map::from_iter(members))),
            ]
        })
    }

    fn any_type() -> impl Strategy<Value = Value> {
        prop::sample::select(vec![
            json!("integer"),
            json!("number"),
            json!("string"),
            json!("boolean"),
            json!("object"),
            json!("array"),
            json!(["string", "null"]),
            json!(["integer", "object"]),
        ])
    }

    fn bound(keywords: Vec<&'static str>) -> impl Strategy<Value = &'static str> {
        prop::sample::select(keywords)
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(json!(true)),
            Just(json!(false)),
            Just(json!({})),
            Just(json!({"maxProperties": 1}))
        ];
        plain.prop_recursive(3, 12, 3, |inner| {
            let keyword = prop_oneof![
                any_type().prop_map(|kind| ("type", kind)),
                any_type().prop_map(|kind| ("type", kind)),
                prop::collection::vec(any_value(), 0..3).prop_map(|values| ("enum", values.into())),
                (bound(vec!["minimum", "maximum"]), -1..2_i64)
                    .prop_map(|(bound, number)| (bound, number.into())),
                (bound(vec!["minLength", "maxLength", "minItems", "maxItems"]), 0..3_i64)
                    .prop_map(|(bound, count)| (bound, count.into())),
                inner.clone().prop_map(|items| ("items", items)),
                prop::sample::subsequence(vec!["a", "b"], 0..=2).prop_map(|names| ("required", names.into())),
                prop::collection::vec(("[ab]", inner.clone()), 0..3)
                    .prop_map(|members| ("properties", Map::from_iter(members).into())),
                inner.prop_map(|others| ("additionalProperties", others)),
                Just(("patternProperties", json!({"c": {"type": "string"}}))),
                Just(("format", json!("date"))),
            ];
            prop::collection::vec(keyword, 0..4).prop_map(|keywords| {
                Value::from(Map::from_iter(
                    keywords.into_iter().map(|(keyword, wanted)| (keyword.to_owned(), wanted)),
                ))
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_validator_says_the_same(schema in any_schema(), value in any_value()) {
            let validator = validator_of(&schema, Formats::Hints).unwrap();
            prop_assert!(!meets_either(&schema, &value, &mut u64::MAX.clone()) || validator.is_valid(&value), "{schema} {value}");
        }
    }

    #[test]
    fn what_tools_take_and_give_is_seen() {
        let schema = json!({
            "type": "object",
            "description": "A city.",
            "properties": {
                "city": {"enum": ["oslo", "bergen"]},
                "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 14},
                "words": {"type": "array", "items": {"type": "string", "maxLength": 3, "format": "date"}, "maxItems": 2},
            },
            "required": ["city"],
            "additionalProperties": false,
        });
        let seen = |value: Value| meets(schema.as_object().unwrap(), &value, &mut 10_000);
        assert!(seen(json!({"city": "oslo", "days": 3, "words": ["a"]})));
        assert!(seen(json!({"city": "oslo", "days": null})));
        for other in [
            json!({"city": "olso"}),
            json!({"city": "oslo", "days": -1}),
            json!({"city": "oslo", "days": 15}),
            json!({"city": "oslo", "days": "1"}),
            json!({"city": "oslo", "words": ["four"]}),
            json!({"city": "oslo", "words": ["a", "b", "c"]}),
            json!({"city": "oslo", "words": [1]}),
            json!({"city": "oslo", "town": 1}),
            json!({"days": 1}),
            json!([]),
        ] {
            assert!(!seen(other.clone()), "{other}");
        }
    }
}
