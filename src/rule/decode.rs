//! Bytes to text.

use std::{borrow::Cow, str::FromStr};

use bytes::Bytes;
use encoding_rs::{Encoding, UTF_8};
use http::header;

use crate::reply::Reply;

/// The charset that a rule says replies have, whatever their headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

/// A name that is no charset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no charset; `utf-8`, `iso-8859-1`, `windows-1252` and the other labels of the WHATWG Encoding Standard are"
)]
pub struct CharsetError(String);

impl FromStr for Charset {
    type Err = CharsetError;

    fn from_str(label: &str) -> Result<Self, CharsetError> {
        Encoding::for_label(label.as_bytes()).map(Self).ok_or_else(|| CharsetError(label.to_owned()))
    }
}

impl Charset {
    /// Its standard name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

/// A reply's body as text, and how it was read.
#[derive(Debug, Clone)]
pub(crate) struct Decoded {
    /// UTF-8; the body's own bytes wherever they are that already.
    pub(crate) text: Bytes,
    /// The charset it was read as.
    pub(crate) charset: &'static str,
    /// Who said so: `the rule`, `a byte order mark`, `Content-Type`, `default`.
    pub(crate) because: &'static str,
}

impl Decoded {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).expect("text was checked or converted to UTF-8 when it was decoded")
    }
}

/// Reads a body as text: by the rule's charset, else a byte order mark, else `Content-Type`, else UTF-8.
///
/// # Errors
///
/// A sentence, when the body is compressed, names a charset that does not exist, or has bytes that its charset
/// has not: a wrong guess would put wrong letters into a result.
pub(crate) fn decode(reply: &Reply, rule: Option<Charset>) -> Result<Decoded, String> {
    refuse_compressed(reply)?;
    let (encoding, mark, because) = encoding_of(reply, rule)?;
    let body = reply.body.slice(mark..);
    if encoding == UTF_8 {
        if std::str::from_utf8(&body).is_err() {
            let hint = if because == "default" {
                ", and names no charset; a rule can name it with `charset`"
            } else {
                ""
            };
            return Err(format!("expected text in UTF-8, found bytes that are not{hint}"));
        }
        if body.contains(&0) {
            return Err("expected text, found zero bytes; text in UTF-16 is named with `charset`".to_owned());
        }
        return Ok(Decoded { text: body, charset: encoding.name(), because });
    }
    match encoding.decode_without_bom_handling_and_without_replacement(&body) {
        // ASCII bytes mean the same in most charsets; keep the body's own.
        Some(Cow::Borrowed(_)) => Ok(Decoded { text: body, charset: encoding.name(), because }),
        Some(Cow::Owned(text)) => Ok(Decoded { text: text.into(), charset: encoding.name(), because }),
        None => Err(format!("expected text in {}, found bytes that it has not", encoding.name())),
    }
}

/// Reads a body as text, with `�` for what can't be read. For the messages of errors only.
pub(crate) fn decode_lossy(reply: &Reply) -> String {
    if refuse_compressed(reply).is_err() {
        return String::new();
    }
    let encoding = encoding_of(reply, None).map_or(UTF_8, |(encoding, ..)| encoding);
    encoding.decode(&reply.body).0.into_owned()
}

fn refuse_compressed(reply: &Reply) -> Result<(), String> {
    match reply.headers.get(header::CONTENT_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let coding = String::from_utf8_lossy(coding.as_bytes());
            Err(format!("expected a reply without compression, found `Content-Encoding: {coding}`"))
        }
        _ => Ok(()),
    }
}

/// The encoding, the length of the byte order mark, and who said so.
fn encoding_of(
    reply: &Reply,
    rule: Option<Charset>,
) -> Result<(&'static Encoding, usize, &'static str), String> {
    let mark = Encoding::for_bom(&reply.body);
    if let Some(charset) = rule {
        let mark_length = mark.filter(|(encoding, _)| *encoding == charset.0).map_or(0, |(_, length)| length);
        return Ok((charset.0, mark_length, "the rule"));
    }
    if let Some((encoding, length)) = mark {
        return Ok((encoding, length, "a byte order mark"));
    }
    match reply.charset() {
        Some(label) => match Encoding::for_label(label.as_bytes()) {
            Some(encoding) => Ok((encoding, 0, "Content-Type")),
            None => Err("expected a charset in `Content-Type`, found a name that is none".to_owned()),
        },
        None => Ok((UTF_8, 0, "default")),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;

    #[track_caller]
    fn check(content_type: &str, rule: Option<&str>, body: &'static [u8], expected: Result<&str, &str>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        let reply = Reply { status: StatusCode::OK, headers, body: Bytes::from_static(body) };
        let decoded = decode(&reply, rule.map(|label| label.parse().unwrap()));
        match (decoded, expected) {
            (Ok(decoded), Ok(text)) => assert_eq!(decoded.as_str(), text),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn the_rule_goes_before_the_mark_before_the_header_before_utf_8() {
        check("text/plain; charset=\"ISO-8859-1\"", None, b"Troms\xf8", Ok("Tromsø"));
        check("text/plain; charset=iso-8859-1", Some("utf-8"), "Tromsø".as_bytes(), Ok("Tromsø"));
        check("text/plain; charset=iso-8859-1", None, b"\xef\xbb\xbfTroms\xc3\xb8", Ok("Tromsø"));
        check("text/plain", None, b"\xff\xfeO\0k\0", Ok("Ok"));
        check("text/plain", None, "Tromsø".as_bytes(), Ok("Tromsø"));
    }

    #[test]
    fn bytes_that_are_not_of_the_charset_are_an_error_not_a_guess() {
        check("text/plain", None, b"Troms\xf8", Err("names no charset"));
        check("text/plain; charset=utf-8", None, b"Troms\xf8", Err("UTF-8"));
        check("text/plain", None, b"O\0k\0", Err("UTF-16"));
        check("text/plain; charset=klingon", None, b"x", Err("a name that is none"));
        check("text/plain; charset=shift_jis", None, b"\x81", Err("Shift_JIS"));
    }
}
