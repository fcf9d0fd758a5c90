//! `form`: parser of `application/x-www-form-urlencoded`, as payment gateways send it.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use percent_encoding::percent_decode;
use serde_json::{Map, Value};
use settings_derive::Section;

use super::records::add;
use super::{Extracted, Extraction, RECORD_LIMIT, Typing};
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// Parses `name=value&name=value` into an object of strings.
///
/// `+` is a space, and percent-encoded bytes are in the charset of the response. A name without `=` has an
/// empty value; the values of a repeated name become a list, in order. Surrounding white space is ignored.
#[derive(Debug, Clone, Copy, Default, Section)]
pub struct Form;

impl Extraction for Form {
    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        let charset = view.decoded()?.charset;
        let encoding = Encoding::for_label(charset.as_bytes()).unwrap_or(UTF_8);
        read(view.text()?, encoding).map(Extracted::Value)
    }
}

fn read(text: &str, encoding: &'static Encoding) -> Result<Value, ReadError> {
    let text = text.trim();
    if text.is_empty() {
        return Err("expected `name=value&name=value`, found an empty response".into());
    }
    if !text.contains('=') {
        return Err("expected `name=value&name=value`, found text without `=`".into());
    }
    if let Some(at) = text.find(['\n', '\r']) {
        let pairs = text[..at].split('&').count();
        return Err(read_error!(
            "expected `name=value&name=value` in one line, found a line break after {pairs} pairs"
        ));
    }
    // Percent-encoded text of a UTF-16 document is in UTF-8 (Encoding, section 4.3).
    let encoding = encoding.output_encoding();
    let mut pairs = Map::new();
    for (index, pair) in text.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        at_most(RECORD_LIMIT, index + 1, "pairs")?;
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let place = || format!("pair {}", index + 1);
        let name = unescaped(name, encoding).map_err(|error| error.in_part(&place()))?;
        let value = unescaped(value, encoding)
            .map_err(|error| error.in_quoted_part(&format!("{}, `{name}`", place()), &place()))?;
        add(&mut pairs, name, Value::String(value));
    }
    Ok(Value::Object(pairs))
}

/// Decodes `+` and percent-encoding.
fn unescaped(text: &str, encoding: &'static Encoding) -> Result<String, ReadError> {
    let text = text.replace('+', " ");
    for (at, _) in text.match_indices('%') {
        let digits = text.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let found: String = text[at + 1..].chars().take(2).collect();
            let expected = "expected two hexadecimal digits after `%`, found ";
            return Err(ReadError::with_quote(2, expected, &found));
        }
    }
    if !text.contains('%') {
        return Ok(text);
    }
    // A character may be percent-encoded in part only: `%83A` is one in Shift_JIS.
    // Some charsets have characters that can't be encoded again: they would become `&#30000;`.
    let (bytes, _, is_lossy) = encoding.encode(&text);
    let bytes: Vec<u8> = percent_decode(&bytes).collect();
    let decoded = encoding.decode_without_bom_handling_and_without_replacement(&bytes);
    decoded.filter(|_| !is_lossy).map(Cow::into_owned).ok_or_else(|| {
        read_error!("expected percent-encoded text in {}, found invalid bytes", encoding.name())
    })
}

#[cfg(test)]
mod tests {
    use encoding_rs::{EUC_JP, SHIFT_JIS, UTF_16LE, WINDOWS_1252};

    use super::*;

    #[track_caller]
    fn check_in(encoding: &'static Encoding, text: &str, expected: Result<&str, &str>) {
        match (read(text, encoding), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        check_in(UTF_8, text, expected);
    }

    #[test]
    fn pairs_are_unescaped_and_repeated_names_gather() {
        check(
            "TIMESTAMP=2026%2d11%2d21T09%3a30%3a00Z&ACK=Success&&L_NAME=a+b&L_NAME=c%2Bd&L_NAME=&FLAG\r\n",
            Ok(r#"{"TIMESTAMP":"2026-11-21T09:30:00Z","ACK":"Success","L_NAME":["a b","c+d",""],"FLAG":""}"#),
        );
        check("a=b=c&%C3%B8=Troms%c3%b8+ø", Ok(r#"{"a":"b=c","ø":"Tromsø ø"}"#));
    }

    #[test]
    fn escapes_are_in_the_charset_of_the_response() {
        check_in(WINDOWS_1252, "city=Troms%F8", Ok(r#"{"city":"Tromsø"}"#));
        check_in(SHIFT_JIS, "a=%83A", Ok(r#"{"a":"ア"}"#));
        check_in(EUC_JP, "a=丂", Ok(r#"{"a":"丂"}"#));
        check_in(EUC_JP, "a=丂%20", Err("expected percent-encoded text in EUC-JP"));
        check_in(UTF_16LE, "a=%C3%B8", Ok(r#"{"a":"ø"}"#));
    }

    #[test]
    fn a_malformed_pair_is_an_error_with_its_number() {
        let found = "pair 2, `b`: expected two hexadecimal digits after `%`, found an empty string";
        check("a=1&b=100%", Err(found));
        check("a=%+1", Err("found ` 1`"));
        check("a=%zø", Err("found `zø`"));
        check("a=%F8", Err("pair 1, `a`: expected percent-encoded text in UTF-8"));
        check("%x=1", Err("pair 1: expected two"));
        check("", Err("an empty response"));
        check("Service restarting", Err("text without `=`"));
        check("<a href=x>\n</a>", Err("in one line, found a line break after 1 pairs"));
        check(&"a=1&".repeat(100_001), Err("at most 100000 pairs"));
    }
}
