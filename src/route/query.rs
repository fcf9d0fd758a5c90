//! Query templates, configured as one string whose fixed text is sent byte for byte.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;

use super::path::{
    ESCAPED, PathPart, PathTemplateError, arguments_in, is_percent_encoded, not_a_name, parse_parts, scalar,
};
use super::request::items_of;
use crate::model::Arguments;

/// All characters that a query can't have unencoded. Permitted are unreserved characters, sub-delimiters,
/// `:`, `@`, `/` and `?` (RFC 3986, section 3.4), and the `%` of existing encodings.
const UNWRITTEN: &AsciiSet = &BRACKETS.add(b' ').add(b'"').add(b'#').add(b'\\').add(b'^').add(b'`').add(b'|');
const BRACKETS: &AsciiSet = &CONTROLS.add(b'<').add(b'>').add(b'[').add(b']').add(b'{').add(b'}');

/// [`UNWRITTEN`] and `%`, for text whose `%` are not part of an encoding.
const UNWRITTEN_OR_PERCENT: &AsciiSet = &UNWRITTEN.add(b'%');

/// Query template such as `p={repository};a=summary`.
///
/// Fixed text is sent byte for byte: servers distinguish `;` from `%3B`, and text in a charset other than
/// UTF-8 can only be written percent-encoded. Characters that a query can't have are encoded. An argument is
/// encoded as a whole, so it stays in its parameter.
#[derive(Debug, Default)]
pub struct QueryTemplate {
    parameters: Vec<Parameter>,
}

/// Part between two `&` or `;`.
#[derive(Debug)]
struct Parameter {
    /// Separator before it, if it is not the first.
    separator: char,
    /// Text before its value, `=` included.
    name: String,
    value: Vec<PathPart>,
}

impl QueryTemplate {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    ///
    /// [`PathTemplateError`] for an unmatched brace, or an invalid name of an argument.
    pub fn parse(text: &str) -> Result<Self, PathTemplateError> {
        let mut parameters = Vec::new();
        let mut separator = '&';
        for with_end in text.split_inclusive(['&', ';']) {
            let parameter = with_end.trim_end_matches(['&', ';']);
            let before = separator;
            separator = if with_end.ends_with(';') { ';' } else { '&' };
            if parameter.is_empty() {
                continue;
            }
            let value_starts = parameter.find('=').map_or(0, |equals| equals + 1);
            let value_starts = if parameter[..value_starts].contains('{') { 0 } else { value_starts };
            let (name, value) = parameter.split_at(value_starts);
            let mut value = parse_parts(value, not_a_name)?;
            for part in &mut value {
                if let PathPart::Fixed(text) = part {
                    *text = encode_literal(text);
                }
            }
            parameters.push(Parameter { separator: before, name: encode_literal(name), value });
        }
        Ok(Self { parameters })
    }

    /// Names of the arguments, in order.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().flat_map(|parameter| arguments_in(&parameter.value))
    }

    /// Fills in the arguments. A parameter whose value is exactly one argument is left out if the argument is
    /// missing, and repeated for each item of an array.
    ///
    /// # Errors
    ///
    /// A sentence for the model if an argument is missing or not a scalar.
    pub(super) fn fill(&self, arguments: &Arguments) -> Result<String, String> {
        let mut query = String::new();
        for Parameter { separator, name, value } in &self.parameters {
            let values = match value.as_slice() {
                [PathPart::Argument(argument)] => {
                    let items = items_of(arguments.get(argument)).iter();
                    items.map(|item| encode_argument(argument, Some(item))).collect::<Result<_, _>>()?
                }
                parts => {
                    let part = |part: &PathPart| match part {
                        PathPart::Fixed(text) => Ok(text.clone()),
                        PathPart::Argument(name) => encode_argument(name, arguments.get(name)),
                    };
                    vec![parts.iter().map(part).collect::<Result<String, _>>()?]
                }
            };
            for value in values {
                if !query.is_empty() {
                    query.push(*separator);
                }
                query.push_str(name);
                query.push_str(&value);
            }
        }
        Ok(query)
    }
}

fn encode_argument(name: &str, value: Option<&Value>) -> Result<String, String> {
    Ok(utf8_percent_encode(&scalar(name, value)?, ESCAPED).to_string())
}

/// Encodes only the characters that a query can't have.
fn encode_literal(text: &str) -> String {
    let unwritten = if is_percent_encoded(text) { UNWRITTEN } else { UNWRITTEN_OR_PERCENT };
    utf8_percent_encode(text, unwritten).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(template: &str, arguments: Value, expected: Result<&str, &str>) {
        let template = QueryTemplate::parse(template).unwrap();
        let filled = template.fill(&Arguments::from(arguments.as_object().unwrap().clone()));
        match (filled, expected) {
            (Ok(query), Ok(expected)) => assert_eq!(query, expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn literal_text_is_sent_unchanged() {
        for query in [
            "auto",
            "p=a.git;a=summary",
            "a=!$'()*,;:@/?~-._",
            "a=x+y%20z",
            "name=caf%e9",
            "a==b",
            "=x",
            "empty=",
            "a%5B%5D=1",
        ] {
            check(query, json!({}), Ok(query));
        }
    }

    #[test]
    fn characters_that_are_invalid_in_a_query_are_encoded() {
        check("a=b c|d\"e", json!({}), Ok("a=b%20c%7Cd%22e"));
        check("a[]=é", json!({}), Ok("a%5B%5D=%C3%A9"));
        check("a=50%&b=5%2", json!({}), Ok("a=50%25&b=5%252"));
        check("a=x#y", json!({}), Ok("a=x%23y"));
    }

    #[test]
    fn an_argument_stays_in_its_parameter() {
        check("p={p};a=log", json!({ "p": "a;b&c=d+e" }), Ok("p=a%3Bb%26c%3Dd%2Be;a=log"));
        check("n={n}&x={a}-{b}", json!({ "n": 5, "a": true, "b": "/" }), Ok("n=5&x=true-%2F"));
        check("{flag}", json!({ "flag": "a b" }), Ok("a%20b"));
        check("x={a}-{b}", json!({ "a": 1 }), Err("`b` is required"));
        check("x=a{a}", json!({ "a": [1] }), Err("found an array"));
    }

    #[test]
    fn a_parameter_of_one_argument_is_omitted_or_repeated() {
        check("a={a};b={b}&c={c}", json!({ "c": "1" }), Ok("c=1"));
        check("a={a};b={b}&c={c}", json!({ "a": "", "b": null, "c": [1, "x y"] }), Ok("a=&c=1&c=x%20y"));
    }

    #[test]
    fn braces_have_their_other_half_and_names() {
        for text in ["a={", "a=}", "a={b", "a={}", "a={b c}", "a={b{c}}"] {
            assert!(QueryTemplate::parse(text).is_err(), "{text:?}");
        }
    }
}
