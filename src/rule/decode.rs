//! Bytes to text.

use std::{borrow::Cow, str::FromStr};

use bytes::Bytes;
use bytestring::ByteString;
use encoding_rs::{Encoding, UTF_8};

use super::declared::declared;
use crate::reply::Reply;

/// The charset that a rule says replies have, whatever their headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

/// A name that is no charset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a charset; `utf-8`, `iso-8859-1`, `windows-1252` and the other labels of the WHATWG Encoding Standard are"
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
    /// The body's own bytes wherever they are UTF-8 already.
    pub(crate) text: ByteString,
    /// The charset it was read as.
    pub(crate) charset: &'static str,
    /// Who said so: `the rule`, `a byte order mark`, `Content-Type`, `<meta>`, `the XML declaration`, `default`.
    pub(crate) because: &'static str,
}

impl Decoded {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Reads a body as text: by the rule's charset, else a byte order mark, else `Content-Type`, else what the document
/// declares of itself, else UTF-8.
///
/// # Errors
///
/// A sentence, when the reply names a charset that does not exist, or has bytes that its charset
/// has not: a wrong guess would put wrong letters into a result.
pub(crate) fn decode(reply: &Reply, body: &Bytes, rule: Option<Charset>) -> Result<Decoded, String> {
    let (encoding, mark, because) = encoding_of(reply, body, rule)?;
    let body = body.slice(mark..);
    if encoding == UTF_8 {
        let Ok(text) = ByteString::try_from(body) else {
            let hint = if because == "default" {
                ", and nothing names a charset; a rule can, with `charset`"
            } else {
                ""
            };
            return Err(format!("expected text in UTF-8, found bytes that are not{hint}"));
        };
        if memchr::memchr(0, text.as_bytes()).is_some() {
            return Err("expected text, found zero bytes; text in UTF-16 is named with `charset`".to_owned());
        }
        return Ok(Decoded { text, charset: encoding.name(), because });
    }
    let text = match encoding.decode_without_bom_handling_and_without_replacement(&body) {
        // ASCII bytes mean the same in most charsets; keep the body's own.
        Some(Cow::Borrowed(_)) => ByteString::try_from(body.clone()).ok(),
        Some(Cow::Owned(text)) => Some(text.into()),
        None => None,
    };
    match text {
        Some(text) => Ok(Decoded { text, charset: encoding.name(), because }),
        None => Err(format!("expected text in {}, found bytes that it has not", encoding.name())),
    }
}

/// Reads a body as text, with `�` for what can't be read. For the messages of errors only.
pub(crate) fn decode_lossy(reply: &Reply, body: &Bytes) -> String {
    let encoding = encoding_of(reply, body, None).map_or(UTF_8, |(encoding, ..)| encoding);
    encoding.decode(body).0.into_owned()
}

/// The encoding, the length of the byte order mark, and who said so.
fn encoding_of(
    reply: &Reply,
    body: &[u8],
    rule: Option<Charset>,
) -> Result<(&'static Encoding, usize, &'static str), String> {
    let mark = Encoding::for_bom(body);
    if let Some(charset) = rule {
        let mark_length = mark.filter(|(encoding, _)| *encoding == charset.0).map_or(0, |(_, length)| length);
        return Ok((charset.0, mark_length, "the rule"));
    }
    if let Some((encoding, length)) = mark {
        return Ok((encoding, length, "a byte order mark"));
    }
    if let Some(label) = reply.charset() {
        return match Encoding::for_label(label.as_bytes()) {
            Some(encoding) => Ok((encoding, 0, "Content-Type")),
            None => Err("expected a charset in `Content-Type`, found a name that is none; a rule can name it with `charset`, \
                  such as `charset: utf-8`"
                .to_owned()),
        };
    }
    match declared(reply.media_type().as_deref(), body)? {
        Some(declared) => Ok((declared.encoding, 0, declared.because)),
        None => Ok((UTF_8, 0, "default")),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode, header};

    use super::*;

    #[track_caller]
    fn check(content_type: &str, rule: Option<&str>, body: &'static [u8], expected: Result<&str, &str>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        let reply = Reply::new(StatusCode::OK, headers, Bytes::from_static(body));
        let decoded = decode(&reply, &reply.body, rule.map(|label| label.parse().unwrap()));
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
    fn a_document_says_it_where_the_header_does_not() {
        let meta = b"<html><meta charset=windows-1251><p>\xcc\xee\xf1\xea\xe2\xe0";
        check("text/html", None, meta, Ok("<html><meta charset=windows-1251><p>Москва"));
        let twice = b"<meta charset=windows-1251>Troms\xf8";
        check("text/html; charset=latin1", None, twice, Ok("<meta charset=windows-1251>Tromsø"));
        check("text/html", Some("latin1"), twice, Ok("<meta charset=windows-1251>Tromsø"));
        let declared = b"<?xml version='1.0' encoding='GB18030'?><a>\x81\x30\x81\x30\xb1\xb1</a>";
        check("text/xml", None, declared, Ok("<?xml version='1.0' encoding='GB18030'?><a>\u{80}北</a>"));
        check("application/xml", None, b"<\0?\0x\0?\0>\0\xf8\0", Ok("<?x?>ø"));
        check("application/xml", None, b"\0<\0?\0x\0?\0>\0\xf8", Ok("<?x?>ø"));
    }

    #[test]
    fn the_charsets_of_the_world_are_read() {
        check("text/plain; charset=Shift_JIS", None, b"\x93\x8c\x8b\x9e", Ok("東京"));
        check("text/plain", Some("Shift_JIS"), b"\x93\x8c\x8b\x9e", Ok("東京"));
        check("text/plain; charset=gb18030", None, b"\xb1\xb1\xbe\xa9", Ok("北京"));
        check("text/plain; charset=windows-1252", None, b"5\x80", Ok("5€"));
        check("text/plain; charset=windows-1250", None, b"\xa3\xf3d\x9f", Ok("Łódź"));
        check("text/plain; charset=utf-16", None, b"O\0k\0", Ok("Ok"));
        check("text/plain", Some("utf-16be"), b"\xfe\xff\0O\0k", Ok("Ok"));
        check("text/plain; charset=utf-16", None, b"O\0k", Err("expected text in UTF-16LE"));
    }

    #[test]
    fn bytes_that_are_not_of_the_charset_are_an_error_not_a_guess() {
        check("text/plain", None, b"Troms\xf8", Err("nothing names a charset"));
        check("text/plain; charset=utf-8", None, b"Troms\xf8", Err("UTF-8"));
        check("text/plain", None, b"O\0k\0", Err("UTF-16"));
        check("text/plain; charset=klingon", None, b"x", Err("a name that is none"));
        check("text/plain; charset=shift_jis", None, b"\x81", Err("Shift_JIS"));
        check("text/html", None, b"<meta charset=shift_jis>\x81", Err("Shift_JIS"));
        check("text/html", None, b"<meta charset=utf-8>Troms\xf8", Err("expected text in UTF-8"));
        check("text/html", None, b"<meta charset=klingon>", Err("a name that is none"));
    }
}
