//! Exact implementations of `uniqueItems`, `enum`, `const` and `multipleOf`, which replace the
//! implementations of the validator.
//!
//! The validator computes with fractions of any size, which takes 10,000 times as long as parsing the number,
//! and compares the items of an array in pairs if their numbers round to the same double. This module
//! compares canonical texts instead: equal values have equal texts.

use std::collections::HashSet;

use jsonschema::{Keyword, ValidationError, ValidationOptions};
use serde_json::{Number, Value};

use super::SchemaDialect;
use crate::model::violation::{one_of_values, shown};

/// Replaces these keywords in the options of a validator, as far as the dialect defines them.
pub(super) fn with_exact_keywords(
    options: ValidationOptions<'static>,
    dialect: SchemaDialect,
) -> ValidationOptions<'static> {
    let options = options
        .with_keyword("uniqueItems", |_, keyword_value, _| {
            let is_enabled = keyword_value == &Value::Bool(true);
            let message = "must not contain duplicate items".to_owned();
            Ok(Box::new(ExactKeyword::new(message, move |value| !is_enabled || has_unique_items(value))))
        })
        .with_keyword("enum", |_, options, _| {
            let values = options.as_array().map(Vec::as_slice).unwrap_or_default();
            Ok(Box::new(ExactKeyword::new(one_of_values(options), is_one_of(values))))
        })
        .with_keyword("multipleOf", |_, divisor, _| {
            let accepts = is_multiple_of(divisor).ok_or_else(|| {
                ValidationError::schema(format!(
                    "`multipleOf` takes a number above 0 with at most {DIVISOR_DIGITS_LIMIT} digits"
                ))
            })?;
            Ok(Box::new(ExactKeyword::new(format!("must be a multiple of {divisor}"), accepts)))
        });
    if !dialect.has_keyword("const") {
        return options;
    }
    options.with_keyword("const", |_, value, _| {
        let message = format!("must be {}", shown(value));
        Ok(Box::new(ExactKeyword::new(message, is_one_of(std::slice::from_ref(value)))))
    })
}

/// Maximum number of digits of a divisor, so that ten times a remainder plus a digit fits into 128 bits.
const DIVISOR_DIGITS_LIMIT: usize = 36;

/// Custom keyword: the check, and the message for a value that fails it.
struct ExactKeyword {
    message: String,
    accepts: Box<dyn Fn(&Value) -> bool + Send + Sync>,
}

impl ExactKeyword {
    fn new(message: String, accepts: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self { message, accepts: Box::new(accepts) }
    }
}

impl<'i> Keyword<'i> for ExactKeyword {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) { Ok(()) } else { Err(ValidationError::custom(self.message.clone())) }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        (self.accepts)(value)
    }
}

/// Decimal number in canonical form: `digits × 10^exponent`. The digits have no leading or trailing zeros;
/// zero has no digits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Parses the text of a JSON number.
    fn parse(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (is_negative, mantissa) =
            mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let without_trailing_zeros = digits.trim_end_matches('0');
        if without_trailing_zeros.is_empty() {
            return Self { is_negative: false, digits: String::new(), exponent: 0 };
        }
        let parsed_exponent: i64 = exponent.parse().unwrap_or(0);
        let zeros_omitted = (digits.len() - without_trailing_zeros.len()) as i64;
        Self {
            is_negative,
            digits: without_trailing_zeros.trim_start_matches('0').to_owned(),
            exponent: parsed_exponent.saturating_add(zeros_omitted).saturating_sub(fraction.len() as i64),
        }
    }
}

/// Canonical text of a value. Two values have the same text exactly if JSON Schema considers them equal.
fn canonical(value: &Value) -> String {
    fn normalize_numbers(value: &mut Value) {
        match value {
            Value::Number(number) => {
                let Decimal { is_negative, digits, exponent } = Decimal::parse(number.as_str());
                let sign = if is_negative { "-" } else { "" };
                *number = Number::from_string_unchecked(format!("{sign}{digits}e{exponent}"));
            }
            Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
            Value::Object(members) => members.values_mut().for_each(normalize_numbers),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    let mut value = value.clone();
    value.sort_all_objects();
    normalize_numbers(&mut value);
    value.to_string()
}

fn has_unique_items(value: &Value) -> bool {
    let mut seen = HashSet::new();
    value.as_array().into_iter().flatten().all(|item| seen.insert(canonical(item)))
}

/// Returns a check whether a value is one of `values`. Arrays and objects are only serialized if `values`
/// contains any.
fn is_one_of(values: &[Value]) -> impl Fn(&Value) -> bool + Send + Sync + use<> {
    let is_container = |value: &Value| value.is_array() || value.is_object();
    let has_containers = values.iter().any(is_container);
    let texts: HashSet<String> = values.iter().map(canonical).collect();
    move |value| (has_containers || !is_container(value)) && texts.contains(&canonical(value))
}

/// Returns a check whether a number is a multiple of `divisor`, which must be above 0 and have at most
/// [`DIVISOR_DIGITS_LIMIT`] digits.
fn is_multiple_of(divisor: &Value) -> Option<impl Fn(&Value) -> bool + Send + Sync + use<>> {
    let Decimal { is_negative, digits, exponent: divisor_exponent } =
        Decimal::parse(divisor.as_number()?.as_str());
    if is_negative || digits.is_empty() || digits.len() > DIVISOR_DIGITS_LIMIT {
        return None;
    }
    let divisor: u128 = digits.parse().ok()?;
    Some(move |value: &Value| {
        let Value::Number(number) = value else { return true };
        let Decimal { digits, exponent, .. } = Decimal::parse(number.as_str());
        let Ok(zeros) = usize::try_from(exponent.saturating_sub(divisor_exponent)) else {
            // The last digit of the value has a lower place than the last digit of any multiple.
            return digits.is_empty();
        };
        let digits = digits.bytes().map(|digit| u128::from(digit - b'0'));
        let all_digits = digits.chain(std::iter::repeat_n(0, zeros));
        all_digits.fold(0, |remainder, digit| (remainder * 10 + digit) % divisor) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn equal_values_have_one_text_and_others_another() {
        for (one, other, are_equal) in [
            ("1", "1.0", true),
            ("100", "1e2", true),
            ("0", "-0.0", true),
            ("0", "0e7", true),
            ("-1.50", "-15e-1", true),
            ("9007199254740993", "9007199254740992", false),
            ("1e-400", "1e-399", false),
            ("1", "-1", false),
            ("1", "\"1\"", false),
            ("[1]", "[1.0]", true),
            ("[1, 2]", "[2, 1]", false),
            ("[[1], 2]", "[1, [2]]", false),
            (r#"{"a": 1, "b": 2}"#, r#"{"b": 2.0, "a": 1}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#, false),
            (r#"["a", "b"]"#, r#"["a,\"1:b"]"#, false),
            ("null", "false", false),
            ("{}", "[]", false),
        ] {
            assert_eq!(canonical(&value(one)) == canonical(&value(other)), are_equal, "{one} {other}");
        }
    }

    #[test]
    fn multiples_are_computed_in_decimal() {
        for (number, divisor, is_multiple) in [
            ("1070468.14", "0.01", true),
            ("1070468.145", "0.01", false),
            ("0.3", "0.1", true),
            ("7", "0.7", true),
            ("7.5", "2.5", true),
            ("-9", "3", true),
            ("10", "3", false),
            ("0", "3", true),
            ("1e300", "1e-300", true),
            ("1e-300", "1", false),
            ("1e400", "3", false),
            ("3e400", "3", true),
            ("12345678901234567890123456789012345678901", "7", false),
            ("25", "1e1", false),
            ("20", "1e1", true),
        ] {
            let accepts = is_multiple_of(&value(divisor)).unwrap();
            assert_eq!(accepts(&value(number)), is_multiple, "{number} {divisor}");
        }
        for divisor in ["7".repeat(37).as_str(), "0", "-1"] {
            assert!(is_multiple_of(&value(divisor)).is_none(), "{divisor}");
        }
    }
}
