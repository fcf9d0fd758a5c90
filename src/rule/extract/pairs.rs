//! `pairs`: `key: value` lines.

use serde_json::{Map, Value, map::Entry};

use super::RECORD_LIMIT;

/// Reads lines of a key, a separator and a value into an object of strings.
///
/// The first separator of a line counts, white space round key and value does not. Lines without a separator
/// (headings, rules, blank lines) are passed over; a reply without any pair is an error. A key that comes
/// again gives an array of its values, in order.
#[derive(Debug, Clone)]
pub struct Pairs {
    /// What stands between key and value; never empty.
    pub separator: String,
}

impl Default for Pairs {
    fn default() -> Self {
        Self { separator: Self::DEFAULT_SEPARATOR.to_owned() }
    }
}

impl Pairs {
    /// The separator where a rule names none.
    pub const DEFAULT_SEPARATOR: &'static str = ":";

    pub(super) fn extract(&self, text: &str) -> Result<Value, String> {
        let mut pairs = Map::new();
        let mut count = 0_usize;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(&self.separator) else { continue };
            let key = key.trim();
            if key.is_empty() {
                continue;
            }
            count += 1;
            if count > RECORD_LIMIT {
                return Err(format!("expected at most {RECORD_LIMIT} pairs, found more"));
            }
            add(&mut pairs, key, value.trim().into());
        }
        if pairs.is_empty() {
            return Err(format!("expected lines of `key{} value`, found none", self.separator));
        }
        Ok(Value::Object(pairs))
    }
}

fn add(pairs: &mut Map<String, Value>, key: &str, value: Value) {
    match pairs.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(value);
        }
        Entry::Occupied(mut entry) => match entry.get_mut() {
            Value::Array(values) => values.push(value),
            first => {
                let both = vec![first.take(), value];
                *first = Value::Array(both);
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, separator: &str, expected: Result<&str, &str>) {
        let pairs = Pairs { separator: separator.to_owned() };
        match (pairs.extract(text), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn the_first_separator_counts_and_white_space_does_not() {
        check("temp: 5\r\n  time : 12:30\n", ":", Ok(r#"{"temp":"5","time":"12:30"}"#));
        check("a=1\nb=\n", "=", Ok(r#"{"a":"1","b":""}"#));
    }

    #[test]
    fn headings_are_passed_over_and_repeated_keys_gather() {
        check("Report\n======\n\nnode: a\nnode: b\nnode: c\n", ":", Ok(r#"{"node":["a","b","c"]}"#));
    }

    #[test]
    fn a_reply_without_pairs_is_an_error() {
        check("", ":", Err("found none"));
        check("Service restarting", ":", Err("expected lines of `key: value`"));
    }
}
