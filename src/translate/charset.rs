//! Character decoding of responses. The charset comes from the rule, a byte order mark, `Content-Type`, or
//! the document's own declaration: `<meta>` in HTML, the XML declaration.

use std::{str::FromStr, sync::LazyLock};

use bytes::Bytes;
use bytestring::ByteString;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use scraper::{Html, Selector};

use crate::model::UpstreamResponse;
use crate::settings::parsed_settings;

/// Charset that a rule sets for its responses; overrides every other source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

impl FromStr for Charset {
    type Err = String;

    fn from_str(label: &str) -> Result<Self, String> {
        Encoding::for_label_no_replacement(label.as_bytes()).map(Self).ok_or_else(|| {
            format!(
                "expected a charset label of the WHATWG Encoding Standard that can be decoded, such as \
                 `utf-8` or `windows-1252`, found `{label}`"
            )
        })
    }
}

parsed_settings! {
    Charset = Text, "write `iso-8859-1`, or `utf-8`";
}

/// Body of a response as text, with the charset used.
#[derive(Debug, Clone)]
pub(crate) struct DecodedText {
    /// The text. Shares the buffer of the body if the body is UTF-8 already.
    pub(crate) text: ByteString,
    /// Standard name of the charset.
    pub(crate) charset: &'static str,
    /// Source of the charset, such as `the rule`, `a byte order mark` or `Content-Type`.
    pub(crate) source: &'static str,
}

/// Decodes a body with the charset of the first source that names one: the rule, a byte order mark,
/// `Content-Type`, the document's own declaration. The default is UTF-8.
///
/// # Errors
///
/// A message, if the response names an unknown charset, or has bytes that are invalid in its charset: a wrong
/// guess would put wrong letters into a result.
pub(crate) fn decode(
    response: &UpstreamResponse,
    body: &Bytes,
    rule: Option<Charset>,
) -> Result<DecodedText, String> {
    let (encoding, bom_length, source) = encoding_of(response, body, rule)?;
    let body = body.slice(bom_length..);
    if encoding == UTF_8 {
        let Ok(text) = ByteString::try_from(body) else {
            let hint = match source {
                "default" => ", and no charset is declared; set `charset` in the rule",
                _ => "",
            };
            return Err(format!("expected text in UTF-8, found invalid bytes{hint}"));
        };
        if memchr::memchr(0, text.as_bytes()).is_some() {
            return Err("expected text, found NUL bytes; if it is UTF-16, set `charset: utf-16` in the rule"
                .to_owned());
        }
        return Ok(DecodedText { text, charset: encoding.name(), source });
    }
    let charset = encoding.name();
    match encoding.decode_without_bom_handling_and_without_replacement(&body) {
        Some(text) => Ok(DecodedText { text: text.into_owned().into(), charset, source }),
        None => Err(format!("expected text in {charset}, found invalid bytes")),
    }
}

/// Decodes a body, with `�` for invalid bytes. For error messages only.
pub(crate) fn decode_lossy(response: &UpstreamResponse, body: &Bytes) -> String {
    let encoding = encoding_of(response, body, None).map_or(UTF_8, |(encoding, ..)| encoding);
    encoding.decode(body).0.into_owned()
}

/// Returns the encoding, the length of the byte order mark, and the source of the charset.
fn encoding_of(
    response: &UpstreamResponse,
    body: &[u8],
    rule: Option<Charset>,
) -> Result<(&'static Encoding, usize, &'static str), String> {
    let bom = Encoding::for_bom(body);
    if let Some(charset) = rule {
        let bom_length = bom.filter(|(encoding, _)| *encoding == charset.0).map_or(0, |(_, length)| length);
        return Ok((charset.0, bom_length, "the rule"));
    }
    if let Some((encoding, length)) = bom {
        return Ok((encoding, length, "a byte order mark"));
    }
    if let Some(label) = response.charset() {
        return match Encoding::for_label_no_replacement(label.as_bytes()) {
            Some(encoding) => Ok((encoding, 0, "Content-Type")),
            None => Err("expected a charset in `Content-Type`, found an unknown name; set `charset` in \
                         the rule"
                .to_owned()),
        };
    }
    let (encoding, source) =
        declared_charset(response.media_type().as_deref(), body)?.unwrap_or((UTF_8, "default"));
    Ok((encoding, 0, source))
}

/// Number of bytes at the beginning of a document that are prescanned for a charset (HTML, section 4.2.5.4).
const PRESCAN_BYTES: usize = 1024;

/// Charset declared by a document, and the place of the declaration, for error messages.
type DeclaredCharset = (&'static Encoding, &'static str);

/// Finds the charset that a document declares; `None` if it declares none.
///
/// For an HTML media type, `<meta>` takes precedence over the XML declaration, as in browsers. Without a
/// media type, or with `text/plain`, `<meta>` counts if the text begins like HTML. The XML declaration counts
/// in any text.
///
/// # Errors
///
/// A message, if the declared name is not a charset.
fn declared_charset(media_type: Option<&str>, body: &[u8]) -> Result<Option<DeclaredCharset>, String> {
    // Without a byte order mark, only the NUL bytes show UTF-16 (XML 1.0, appendix F.1).
    const UTF_16_DECLARATION: &str = "the XML declaration, itself in UTF-16";
    match body {
        [b'<', 0, b'?', 0, ..] => return Ok(Some((UTF_16LE, UTF_16_DECLARATION))),
        [0, b'<', 0, b'?', ..] => return Ok(Some((UTF_16BE, UTF_16_DECLARATION))),
        _ => {}
    }
    let start = &body[..body.len().min(PRESCAN_BYTES)];
    let in_meta = || meta_charset(start).map(|label| encoding_of_label(&label, "`<meta>`"));
    let in_declaration = || xml_encoding(start).map(|label| encoding_of_label(&label, "the XML declaration"));
    let declaration =
        if is_html(media_type, start) { in_meta().or_else(in_declaration) } else { in_declaration() };
    declaration.transpose()
}

/// Whether a document is an HTML page. Decided by the media type, or by the first tag.
pub(super) fn is_html(media_type: Option<&str>, start: &[u8]) -> bool {
    match media_type {
        Some("text/html" | "application/xhtml+xml") => true,
        None | Some("text/plain") => begins_with_tag(start, &["<!doctype html", "<html", "<head>", "<head "]),
        Some(_) => false,
    }
}

/// Whether a document begins with one of these tags, after white space.
pub(super) fn begins_with_tag(document: &[u8], tags: &[&str]) -> bool {
    let document = document.trim_ascii_start();
    let has_prefix =
        |tag: &str| document.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()));
    tags.iter().any(|tag| has_prefix(tag))
}

fn encoding_of_label(label: &str, source: &'static str) -> Result<DeclaredCharset, String> {
    match Encoding::for_label_no_replacement(label.as_bytes()) {
        // The declaration was read as single bytes, so the document can't be UTF-16: programs write `utf-16`
        // and then send UTF-8 (HTML, section 13.2.3.2).
        Some(encoding) if encoding == UTF_16LE || encoding == UTF_16BE => {
            Ok((UTF_8, "a declaration of UTF-16 in single-byte text"))
        }
        Some(encoding) if encoding == X_USER_DEFINED => Ok((WINDOWS_1252, source)),
        Some(encoding) => Ok((encoding, source)),
        None => {
            Err(format!("expected a charset in {source}, found an unknown name; set `charset` in the rule"))
        }
    }
}

/// The value of `encoding` in `<?xml version="1.0" encoding="…"?>`.
fn xml_encoding(start: &[u8]) -> Option<String> {
    let rest = start.strip_prefix(b"<?xml")?;
    let end = rest.windows(2).position(|pair| pair == b"?>")?;
    value_of("encoding", &from_bytes(&rest[..end])).map(str::to_owned)
}

/// Converts each byte to one character: tags and charset names are ASCII in every charset that a document can
/// declare in its text.
fn from_bytes(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Charset of the first `<meta>` that declares one, in `charset` or in `content` (HTML, section 13.2.3.2).
fn meta_charset(start: &[u8]) -> Option<String> {
    static META: LazyLock<Selector> =
        LazyLock::new(|| Selector::parse("meta").expect("the selector is fixed and tested"));
    Html::parse_document(&from_bytes(start)).select(&META).find_map(|meta| {
        let is_content_type = |value: &str| value.eq_ignore_ascii_case("content-type");
        let content = meta.attr("content").filter(|_| meta.attr("http-equiv").is_some_and(is_content_type));
        let in_content = content.and_then(|content| value_of("charset", content));
        let mut declared = [meta.attr("charset"), in_content].into_iter().flatten();
        declared.find(|charset| !charset.is_empty()).map(str::to_owned)
    })
}

/// Value of the parameter or attribute `name`, such as `iso-8859-1` for `charset` in `text/html;
/// charset=iso-8859-1`.
fn value_of<'t>(name: &str, text: &'t str) -> Option<&'t str> {
    let at = text.to_ascii_lowercase().find(name)? + name.len();
    let value = text[at..].trim_ascii_start().strip_prefix('=')?.trim_ascii_start();
    match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next(),
        _ => value.split(|c: char| c == ';' || c.is_ascii_whitespace()).next(),
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
        let response = UpstreamResponse::new(StatusCode::OK, headers, Bytes::from_static(body));
        let decoded = decode(&response, &response.body, rule.map(|label| label.parse().unwrap()));
        match (decoded, expected) {
            (Ok(decoded), Ok(text)) => assert_eq!(decoded.text, text),
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
    fn a_document_declares_its_charset_if_the_header_does_not() {
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
        check("text/plain", None, b"Troms\xf8", Err("no charset is declared"));
        check("text/plain; charset=utf-8", None, b"Troms\xf8", Err("UTF-8"));
        check("text/plain", None, b"O\0k\0", Err("UTF-16"));
        check("text/plain; charset=klingon", None, b"x", Err("an unknown name"));
        // The standard decodes this charset to one `�`.
        check("text/plain; charset=iso-2022-kr", None, b"x", Err("an unknown name"));
        assert!("iso-2022-kr".parse::<Charset>().is_err());
        check("text/plain; charset=shift_jis", None, b"\x81", Err("Shift_JIS"));
        check("text/html", None, b"<meta charset=shift_jis>\x81", Err("Shift_JIS"));
        check("text/html", None, b"<meta charset=utf-8>Troms\xf8", Err("expected text in UTF-8"));
        check("text/html", None, b"<meta charset=klingon>", Err("an unknown name"));
    }

    #[track_caller]
    fn check_declared(media_type: &str, body: &str, expected: Option<(&str, &str)>) {
        let media_type = (!media_type.is_empty()).then_some(media_type);
        let found = declared_charset(media_type, body.as_bytes()).unwrap();
        let found = found.map(|(encoding, source)| (encoding.name(), source));
        assert_eq!(found, expected);
    }

    #[test]
    fn html_declares_its_charset_in_meta() {
        for body in [
            "<!DOCTYPE html><html><head><meta charset=\"shift_jis\">",
            "<html><META CHARSET=Shift_JIS />",
            "<meta http-equiv=\"Content-Type\" content=\"text/html; charset=shift_jis\">",
            "<meta content='text/html;charset = \"sjis\"; x' http-equiv=content-type>",
            "<!-- <meta charset=utf-8> --><!--><p title='<meta charset=utf-8>'></p><meta charset=sjis>",
            "<?xml version='1.0'?><meta name=a content='charset=utf-8'><meta charset=sjis>",
        ] {
            check_declared("text/html", body, Some(("Shift_JIS", "`<meta>`")));
        }
        for body in [
            "<meta name=x content='charset=sjis'>",
            "<metal charset=sjis>",
            "< meta charset=sjis>",
            "<meta charset",
        ] {
            check_declared("text/html", body, None);
        }
        check_declared("text/html", &format!("{}<meta charset=sjis>", " ".repeat(1024)), None);
        check_declared("text/plain", "<html><meta charset=sjis>", Some(("Shift_JIS", "`<meta>`")));
        check_declared("text/plain", "write <meta charset=sjis>", None);
        check_declared("application/json", "<html><meta charset=sjis>", None);
    }

    #[test]
    fn xml_declares_its_charset_in_the_declaration() {
        let declaration = Some(("windows-1252", "the XML declaration"));
        check_declared(
            "text/xml",
            "<?xml version=\"1.0\" encoding='ISO-8859-1' standalone=\"yes\"?><a/>",
            declaration,
        );
        check_declared("", "<?xml encoding = \"latin1\"?>", declaration);
        check_declared("application/soap+xml", "<?xml version='1.0'?><a encoding='latin1'/>", None);
        check_declared("text/html", "<?xml version='1.0' encoding='latin1'?><html>", declaration);
        check_declared("text/xml", "<a/>", None);
    }

    #[test]
    fn utf_16_that_is_read_byte_by_byte_is_none() {
        let expected = Some(("UTF-8", "a declaration of UTF-16 in single-byte text"));
        check_declared("text/xml", "<?xml version=\"1.0\" encoding=\"utf-16\"?><a/>", expected);
        check_declared("text/html", "<meta charset=utf-16le>", expected);
        let wide = Some(("UTF-16LE", "the XML declaration, itself in UTF-16"));
        check_declared("text/xml", "<\0?\0x\0m\0l\0", wide);
        let wide = Some(("UTF-16BE", "the XML declaration, itself in UTF-16"));
        check_declared("", "\0<\0?\0x\0m\0l", wide);
    }

    #[test]
    fn a_name_that_is_no_charset_is_an_error() {
        let error = declared_charset(Some("text/html"), b"<meta charset=klingon>").err().unwrap();
        assert!(error.contains("expected a charset in `<meta>`"), "{error}");
        assert!(declared_charset(Some("text/xml"), b"<?xml encoding=''?>").is_err());
    }

    #[test]
    fn broken_markup_comes_to_an_end() {
        for body in [
            "<",
            "<!--",
            "<!-",
            "<meta",
            "<meta =",
            "<meta ==='",
            "<a b='",
            "<meta charset=",
            "</",
            "<meta/////",
            "<?xml",
            "<?xml encoding",
        ] {
            let _ = declared_charset(Some("text/html"), body.as_bytes());
        }
    }
}
