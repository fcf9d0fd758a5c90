//! Type coercion: conversion of strings to the types that a schema or a field requires. Nothing is guessed: a
//! string that is not a value of the type is unchanged, and fails the schema check.

use serde_json::{Map, Value};

use crate::model::{check_number, in_place_subschemas, listed_values, own_types, resolve_local_ref, type_of};

/// Parses a decimal number and keeps its digits: `5.0` stays `5.0`. Accepts `+5`, `.5`, `05` and `1.5E3`,
/// which servers write. Rejects `1,000`, `5 %`, `0x10`, `NaN`, and numbers that [`check_number`] rejects.
pub(crate) fn to_number(text: &str) -> Option<Value> {
    let text = text.trim();
    check_number(text).ok()?;
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let (whole, rest) = digits.split_at(digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let number: serde_json::Number = serde_json::from_str(&format!("{sign}{whole}{rest}")).ok()?;
    Some(Value::Number(number))
}

/// Parses a whole number. Accepts `5.0`, as JSON Schema does. Expands `1.5e10`, which programs write for
/// large numbers.
pub(crate) fn to_integer(text: &str) -> Option<Value> {
    let number = to_number(text)?;
    let formatted = number.to_string();
    let expanded = without_exponent(&formatted)?;
    let is_zero = |fraction: &str| fraction.bytes().all(|digit| digit == b'0');
    match expanded.split_once('.').is_none_or(|(_, fraction)| is_zero(fraction)) {
        true if expanded == formatted => Some(number),
        true => to_number(&expanded),
        false => None,
    }
}

/// Formats a decimal number without its exponent, and without trailing zeros in its fraction. A number
/// without an exponent is unchanged. `None` if it is malformed, or if the point would be more than 40 digits
/// away from the first digit.
pub(crate) fn without_exponent(number: &str) -> Option<String> {
    const MAX_DIGITS: i64 = 40;
    let Some((mantissa, exponent)) = number.split_once(['e', 'E']) else { return Some(number.to_owned()) };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let has_only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent.parse().ok()?)?;
    if digits.is_empty() || !has_only_digits || !(-MAX_DIGITS..=MAX_DIGITS).contains(&point) {
        return None;
    }
    let (whole, fraction) = match usize::try_from(point) {
        Ok(point) if point >= digits.len() => (format!("{digits:0<point$}"), String::new()),
        Ok(point) => (digits[..point].to_owned(), digits[point..].to_owned()),
        Err(_) => (String::new(), "0".repeat(usize::try_from(-point).ok()?) + &digits),
    };
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let dot = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{dot}{fraction}"))
}

/// Multiplies a decimal number without a sign by `unit`, and truncates the product to a whole number: `1.5`
/// times 60 is 90. `None` if the number is malformed, or has more than 19 digits before the point.
pub(crate) fn scaled(number: &str, unit: i128) -> Option<i128> {
    // With these limits and a `unit` of at most 2^61, no product overflows.
    const MAX_WHOLE_DIGITS: usize = 19;
    const MAX_FRACTION_DIGITS: usize = 18;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let has_only_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if number.is_empty() || fraction.is_empty() || whole.len() > MAX_WHOLE_DIGITS || !has_only_digits {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
    let (whole, part): (i128, i128) = (format!("0{whole}").parse().ok()?, fraction.parse().ok()?);
    Some(whole * unit + part * unit / 10_i128.pow(u32::try_from(fraction.len()).ok()?))
}

/// Converts strings in `value` to the number, integer, boolean or null that `schema` requires. Returns
/// whether anything changed.
pub(crate) fn convert_to_schema(value: &mut Value, schema: &Map<String, Value>) -> bool {
    convert(value, schema, schema, 0)
}

/// Converts recursively, down to the depth limit of JSON values: a schema may refer to itself.
fn convert(value: &mut Value, schema: &Map<String, Value>, root: &Map<String, Value>, depth: usize) -> bool {
    if depth > crate::model::JSON_DEPTH_LIMIT {
        return false;
    }
    if let Some(target) = resolve_local_ref(root, schema).filter(|_| !value.is_string()) {
        return convert(value, target, root, depth + 1);
    }
    match value {
        Value::String(text) => {
            convert_string(text, schema, root).map(|converted| *value = converted).is_some()
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items").and_then(Value::as_object) else { return false };
            items.iter_mut().fold(false, |changed, item| convert(item, schema, root, depth + 1) | changed)
        }
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").and_then(Value::as_object);
            members.iter_mut().fold(false, |changed, (key, member)| {
                let schema = properties.and_then(|p| p.get(key)).and_then(Value::as_object).or(additional);
                schema.is_some_and(|schema| convert(member, schema, root, depth + 1)) | changed
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn convert_string(text: &str, schema: &Map<String, Value>, root: &Map<String, Value>) -> Option<Value> {
    let mut types = Vec::new();
    for part in in_place_subschemas(root, schema) {
        match part.contains_key("type") {
            true => types.extend(own_types(part)),
            false => types.extend(listed_values(part).map(|value| -> &str { type_of(value) })),
        }
    }
    if types.is_empty() || types.contains(&"string") {
        return None;
    }
    types.iter().find_map(|kind| match *kind {
        "integer" => to_integer(text),
        "number" => to_number(text),
        "boolean" => text.trim().to_ascii_lowercase().parse().ok().map(Value::Bool),
        "null" => (text.trim() == "null" || text.trim().is_empty()).then_some(Value::Null),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(to_number(text).map(|value| value.to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn numbers_are_read_as_old_servers_write_them() {
        check("5", Some("5"));
        check(" 5.0 ", Some("5.0"));
        check("-.0302", Some("-0.0302"));
        check("+007", Some("7"));
        check("12345678901234567890.10", Some("12345678901234567890.10"));
        check("1.5e3", Some("1.5e+3"));
        for text in
            ["", "-", ".", "5.", "1,000", "5%", "0x10", "NaN", "--5", "+-5", "1e", "five", "１", "1e401"]
        {
            check(text, None);
        }
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_zeros() {
        assert_eq!(to_integer("5.0").unwrap().to_string(), "5.0");
        assert_eq!(to_integer("5.5"), None);
        for (text, expected) in [
            ("1e3", Some("1000")),
            ("-1.5E+2", Some("-150")),
            ("1.25e1", None),
            ("1e999999999999", None),
            ("5e-1", None),
        ] {
            assert_eq!(to_integer(text).map(|value| value.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_exponent_is_written_out() {
        for (text, expected) in [
            ("1.795269446e+09", Some("1795269446")),
            ("1.5", Some("1.5")),
            ("12.50e1", Some("125")),
            ("12.5e0", Some("12.5")),
            ("12.5e-3", Some("0.0125")),
            ("-0.1e-1", Some("-0.01")),
            ("0e5", Some("0")),
            ("1e41", None),
            ("1e-42", None),
            ("e5", None),
            ("1e5e5", None),
        ] {
            assert_eq!(without_exponent(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_schema_types_the_strings_at_its_paths() {
        let schema = json!({
            "$defs": {"n": {"type": ["number", "null"]}},
            "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"items": {"type": "integer"}}, "c": {"type": "boolean"},
                "d": {"type": ["string", "number"]}},
        });
        let mut value = json!({"a": "1.50", "b": ["1", "x"], "c": "TRUE", "d": "5", "e": "5"});
        assert!(convert_to_schema(&mut value, schema.as_object().unwrap()));
        assert_eq!(value.to_string(), r#"{"a":1.50,"b":[1,"x"],"c":true,"d":"5","e":"5"}"#);
        assert!(
            !convert_to_schema(&mut json!({"c": "yes"}), schema.as_object().unwrap()),
            "`yes` only where a rule says so"
        );
        let circular = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert!(!convert_to_schema(&mut json!("1"), circular.as_object().unwrap()));
    }

    proptest::proptest! {
        #[test]
        fn a_whole_number_of_any_length_is_the_one_that_the_parser_reads(text in "-?[1-9][0-9]{0,24}") {
            let parsed: Option<Value> = serde_json::from_str(&text).ok();
            proptest::prop_assert!(parsed.is_some());
            proptest::prop_assert_eq!(to_number(&text), parsed.clone());
            proptest::prop_assert_eq!(to_integer(&text), parsed);
        }
    }
}
