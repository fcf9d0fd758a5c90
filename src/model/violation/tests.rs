//! The words of every way to break a schema.

use serde_json::json;

use crate::model::Schema;

use super::*;

#[track_caller]
fn check(schema: Value, value: Value, expected: &[(&str, &str)]) {
    let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
    let found = schema.violations(&value, 8);
    let found: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.what.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_violation_says_where_what_was_expected_and_what_was_found() {
    let city = json!({"type": "object", "properties": {"city": {"enum": ["oslo", "bergen"]}, "n": {"type": "integer"}},
        "required": ["city"], "additionalProperties": false});
    check(
        city.clone(),
        json!({"city": "olso"}),
        &[("city", "must be one of `oslo`, `bergen`; found `olso`")],
    );
    check(city.clone(), json!({}), &[("city", "is required; found nothing")]);
    check(city.clone(), json!({"city": "oslo", "n": "x"}), &[("n", "must be an integer; found `x`")]);
    check(city, json!({"city": "oslo", "m": 1}), &[("", "has no place for `m`")]);
    let nested =
        json!({"type": "array", "items": {"type": "object", "properties": {"a/b": {"type": "number"}}}});
    check(nested, json!([{}, {"a/b": []}]), &[("[1].a/b", "must be a number; found an array")]);
}

/// What is said of a value whose `x` breaks a schema, or of its place in the second form.
#[track_caller]
fn words(schema: Value, x: Value, expected: &str) {
    check_at(schema, x, "x", expected);
}

#[track_caller]
fn check_at(schema: Value, x: Value, path: &str, expected: &str) {
    check(json!({ "properties": { "x": schema } }), json!({ "x": x }), &[(path, expected)]);
}

#[test]
fn values_are_told_in_plain_words() {
    words(json!({"type": "string"}), json!(5), "must be a string; found `5`");
    words(json!({"type": ["string", "null"]}), json!([]), "must be null or a string; found an array");
    words(json!({"const": "on"}), json!("off"), "must be `on`; found `off`");
    words(json!({"enum": ["on", 1, null]}), json!(2), "must be one of `on`, `1`, `null`; found `2`");
    words(json!(false), json!(1), "must not be there; found `1`");
    words(json!({"minimum": 3}), json!(2), "must be at least 3; found `2`");
    words(json!({"maximum": 3}), json!(4.5), "must be at most 3; found `4.5`");
    words(json!({"exclusiveMinimum": 0}), json!(0), "must be more than 0; found `0`");
    words(json!({"exclusiveMaximum": 1}), json!(1), "must be less than 1; found `1`");
    words(json!({"multipleOf": 5}), json!(7), "must be a multiple of 5; found `7`");
    words(json!({"minLength": 3}), json!("ab"), "must have at least 3 characters; found `ab`");
    words(json!({"maxLength": 1}), json!("ab"), "must have at most 1 character; found `ab`");
    words(
        json!({"maxLength": 9}),
        json!("a".repeat(70)),
        "must have at most 9 characters; found a string of 70 characters",
    );
    words(json!({"pattern": "^[a-z]+$"}), json!("A"), "must match `^[a-z]+$`; found `A`");
}

#[test]
fn a_text_that_looks_like_another_value_is_in_quotes() {
    words(json!({"type": "integer"}), json!("20"), "must be an integer; found `\"20\"`");
    words(json!({"type": "boolean"}), json!("true"), "must be a boolean; found `\"true\"`");
    words(json!({"enum": ["1", 2]}), json!(1), "must be one of `\"1\"`, `2`; found `1`");
    words(json!({"minLength": 1}), json!(""), "must have at least 1 character; found `\"\"`");
}

#[test]
fn lists_are_told_in_plain_words() {
    words(json!({"minItems": 4}), json!([1, 2]), "must have at least 4 items; found 2");
    words(json!({"minItems": 1}), json!([]), "must have at least 1 item; found none");
    words(json!({"maxItems": 1}), json!([1, 2]), "must have at most 1 item; found 2");
    words(json!({"maxItems": 0}), json!([1]), "must have no items; found 1");
    words(json!({"uniqueItems": true}), json!(["a", "b", "a"]), "must have no item twice; found `a` twice");
    words(
        json!({"uniqueItems": true}),
        json!([1, 1.0]),
        "must have no item twice; found two that are the same",
    );
    let contains = json!({"contains": {"const": 1}});
    words(
        contains.clone(),
        json!([2, 3]),
        "must have the items that `contains` asks for; found 2 items, and not the right ones",
    );
    words(contains, json!([]), "must have the items that `contains` asks for; found none");
    words(
        json!({"contains": {"const": 1}, "maxContains": 1}),
        json!([1, 1]),
        "must have the items that `contains` asks for; found 2 items, and not the right ones",
    );
    check_at(json!({"prefixItems": [{"type": "string"}]}), json!([1]), "x[0]", "must be a string; found `1`");
    check_at(
        json!({"prefixItems": [true], "items": false}),
        json!([1, 2]),
        "x[1]",
        "must not be there; found `2`",
    );
    words(
        json!({"prefixItems": [true], "unevaluatedItems": false}),
        json!([1, 2]),
        "must have at most 1 item; found 2",
    );
}

#[test]
fn objects_are_told_in_plain_words() {
    check_at(json!({"required": ["a"]}), json!({}), "x.a", "is required; found nothing");
    check_at(
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"a": 1}),
        "x.b",
        "is required; found nothing",
    );
    words(json!({"minProperties": 1}), json!({}), "must have at least 1 member; found none");
    words(json!({"maxProperties": 1}), json!({"a": 1, "b": 2}), "must have at most 1 member; found 2");
    let named = json!({"properties": {"a": true}});
    let closed = |keyword: &str| {
        let mut schema = named.clone();
        schema[keyword] = json!(false);
        schema
    };
    for keyword in ["additionalProperties", "unevaluatedProperties"] {
        words(closed(keyword), json!({"b": 1, "c": 2}), "has no place for `b`, `c`");
    }
    words(
        json!({"propertyNames": {"pattern": "^[a-z]+$"}}),
        json!({"A": 1}),
        "must have members whose name must match `^[a-z]+$`; found `A`",
    );
}

#[test]
fn schemas_of_schemas_are_told_in_plain_words() {
    let forms = json!([{"type": "string", "maxLength": 3}, {"type": "null"}]);
    for keyword in ["anyOf", "oneOf"] {
        words(json!({ keyword: forms }), json!(5), "must be a string, or must be null; found `5`");
        words(
            json!({ keyword: forms }),
            json!("four"),
            "must have at most 3 characters, or must be null; found `four`",
        );
    }
    words(
        json!({"anyOf": [{"properties": {"a": {"type": "number"}}, "type": "object"}, {"type": "string"}]}),
        json!({"a": "b"}),
        "its `a` must be a number, or must be a string; found an object",
    );
    words(
        json!({"oneOf": [{"minimum": 1}, {"maximum": 9}]}),
        json!(5),
        "must fit one form of `oneOf` and no other; found `5`, which fits several",
    );
    words(json!({"not": {"const": "x"}}), json!("x"), "must not be `x`; found `x`");
    words(json!({"not": {"enum": ["x", "y"]}}), json!("x"), "must be none of `x`, `y`; found `x`");
    words(json!({"not": {"type": "string"}}), json!("x"), "must not be a string; found `x`");
    words(json!({"not": {"pattern": "^x"}}), json!("x"), "must not match `^x`; found `x`");
    words(
        json!({"not": {"minimum": 1, "maximum": 9}}),
        json!(5),
        "must not be what `not` describes; found `5`",
    );
    words(json!({"allOf": [{"minimum": 9}]}), json!(5), "must be at least 9; found `5`");
    words(json!({"if": {"minimum": 1}, "then": {"minimum": 9}}), json!(5), "must be at least 9; found `5`");
}
