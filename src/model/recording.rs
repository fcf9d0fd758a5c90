//! Parser of responses that were saved in files by `curl -i`, or by a browser as an HTTP Archive 1.2 (HAR).

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, header::Entry};
use memchr::memmem;
use serde::Deserialize;

use super::UpstreamResponse;

/// First bytes of a status line.
const STATUS_LINE_PREFIX: &[u8] = b"HTTP/";

/// Contents of a file with saved responses.
#[derive(Debug)]
pub enum Recording {
    /// One response as `curl -i` prints it.
    One(UpstreamResponse),
    /// A body without headers; the status is assumed to be 200.
    Body(UpstreamResponse),
    /// Exchanges saved by a browser; at least one, in order.
    Har(Vec<HarExchange>),
}

/// Request and its response in a HAR file.
#[derive(Debug)]
pub struct HarExchange {
    /// Method of the request.
    pub method: String,
    /// Complete URL of the request.
    pub url: String,
    /// The response, or an error message if the file does not contain one.
    pub response: Result<UpstreamResponse, String>,
}

/// Selection of a response in a HAR file. By default, the last response is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryChoice {
    /// Response with this number, from 1.
    Number(usize),
    /// Last response whose request URL contains this text.
    Url(String),
}

/// Error if an entry is selected in a file with a single response.
pub const NO_ENTRIES: &str =
    "`entry` selects a response of a HAR file; expected such a file, found a single response";

impl Recording {
    /// Parses a file of saved responses. It is a HAR file if it begins with `{"log":` and contains the member
    /// names `entries` and `response`, or if its `log.entries` is empty, which is an error.
    ///
    /// # Errors
    ///
    /// A message, if the file is malformed.
    pub fn read(recording: &Bytes) -> Result<Self, String> {
        if is_har(recording) {
            return read_har(recording).map(Self::Har);
        }
        let variant = if recording.starts_with(STATUS_LINE_PREFIX) { Self::One } else { Self::Body };
        UpstreamResponse::from_recording(recording).map(variant)
    }

    /// Returns the selected response; the last one by default.
    ///
    /// # Errors
    ///
    /// A message, if no response matches the selection.
    pub fn choose(self, choice: Option<&EntryChoice>) -> Result<UpstreamResponse, String> {
        let mut exchanges = match (self, choice) {
            (Self::One(response) | Self::Body(response), None) => return Ok(response),
            (Self::One(_) | Self::Body(_), Some(_)) => return Err(NO_ENTRIES.to_owned()),
            (Self::Har(exchanges), _) => exchanges,
        };
        let entry_count = exchanges.len();
        let index = match choice {
            None => Ok(entry_count - 1),
            Some(EntryChoice::Number(number)) => number
                .checked_sub(1)
                .filter(|index| *index < entry_count)
                .ok_or_else(|| format!("expected an entry from 1 to {entry_count}, found {number}")),
            Some(EntryChoice::Url(part)) => exchanges
                .iter()
                .rposition(|exchange| exchange.url.contains(part.as_str()))
                .ok_or_else(|| format!("expected an entry whose URL has `{part}` in it, found none")),
        };
        exchanges.swap_remove(index?).response
    }
}

impl From<&str> for EntryChoice {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Url(text.to_owned()), Self::Number)
    }
}

impl UpstreamResponse {
    /// Parses a response as `curl -i` prints it: status line, headers, an empty line, body.
    ///
    /// Header lines may end with LF or CR LF. If there are several header sections, the last one applies:
    /// curl prints one each for `100 Continue`, a redirect followed with `-L`, a proxy's `200 Connection
    /// established`, and an authentication challenge. Bytes that do not begin with `HTTP/` are a body with
    /// status 200.
    ///
    /// Removes transfer headers that do not apply to the saved body, because curl decodes chunks and, with
    /// `--compressed`, decompresses the body.
    ///
    /// # Errors
    ///
    /// A message, if the headers are malformed.
    pub fn from_recording(recording: &Bytes) -> Result<Self, String> {
        let mut rest = recording.clone();
        let mut response = Self::new(StatusCode::OK, HeaderMap::new(), rest.clone());
        let mut line_number = 1;
        let mut has_more_headers = rest.starts_with(STATUS_LINE_PREFIX);
        while has_more_headers {
            let (status, headers, expects_another) = read_headers(&mut rest, &mut line_number)?;
            has_more_headers = expects_another && rest.starts_with(STATUS_LINE_PREFIX);
            response = Self::new(status, headers, rest.clone());
        }
        response.remove_transfer_headers();
        Ok(response)
    }

    /// Decodes a body in chunked encoding, and removes the headers that do not apply to the saved bytes.
    fn remove_transfer_headers(&mut self) {
        if self.headers.remove(header::TRANSFER_ENCODING).is_some()
            && let Some(body) = decode_chunks(&self.body)
        {
            self.body = body;
        }
        for name in ["connection", "keep-alive", "proxy-connection"] {
            self.headers.remove(name);
        }
        let length =
            self.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length != Some(self.body.len()) {
            self.headers.remove(header::CONTENT_LENGTH);
        }
        let encoding = self.headers.get(header::CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
        if encoding.is_some_and(|encoding| is_certainly_not_encoded_as(encoding, &self.body)) {
            self.headers.remove(header::CONTENT_ENCODING);
        }
    }
}

/// Minimum number of bytes without a control character that are certainly not compressed: in compressed data,
/// about one byte in nine is a control character.
const MIN_EVIDENCE_BYTES: usize = 128;
/// Maximum number of bytes that are inspected. Compressed data has a control character among them; a long
/// text may have one later.
const MAX_INSPECTED_BYTES: usize = 4096;

/// Whether a body is certainly not in this content encoding. If several are listed, the last (outermost) one
/// decides.
fn is_certainly_not_encoded_as(encoding: &str, body: &[u8]) -> bool {
    let encoding = encoding.rsplit(',').next().unwrap_or_default().trim().to_ascii_lowercase();
    match encoding.as_str() {
        "gzip" | "x-gzip" => !body.starts_with(&[0x1f, 0x8b]),
        "zstd" => !body.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
        // These encodings have no magic number, but compressed data is not text in any charset.
        "br" | "deflate" => {
            let is_strange = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
            let bytes = &body[..body.len().min(MAX_INSPECTED_BYTES)];
            !bytes.iter().any(is_strange)
                && (std::str::from_utf8(body).is_ok() || bytes.len() >= MIN_EVIDENCE_BYTES)
        }
        _ => false,
    }
}

/// Decodes a body that was saved with chunked encoding (`curl --raw`, `nc`); `None` if any part is not a
/// chunk (RFC 9112, section 7.1).
fn decode_chunks(mut rest: &[u8]) -> Option<Bytes> {
    let mut body = Vec::with_capacity(rest.len());
    loop {
        let end = rest.iter().take(64).position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&rest[..end]).ok()?.strip_suffix('\r')?;
        let size = line.split(';').next()?.trim();
        if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 1..];
        if size == 0 {
            return rest.ends_with(b"\r\n").then(|| body.into());
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// Reads a status line and headers. Also returns whether curl may print another header section after this
/// one, instead of a body.
fn read_headers(rest: &mut Bytes, line_number: &mut usize) -> Result<(StatusCode, HeaderMap, bool), String> {
    let status_line = take_line(rest, line_number).unwrap_or_else(|| rest.split_to(rest.len()));
    let status_line = String::from_utf8_lossy(&status_line);
    let mut words = status_line.splitn(3, ' ').skip(1);
    let code = words.next().and_then(|code| code.parse::<u16>().ok());
    let status = code
        .and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or_else(|| format!("expected a status line such as `HTTP/1.1 200 OK`, found `{status_line}`"))?;
    let reason = words.next().unwrap_or_default().to_ascii_lowercase();
    let expects_another = status.is_informational()
        || status.is_redirection()
        || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED)
        || status == StatusCode::OK && reason.contains("connection established");
    let mut headers = HeaderMap::new();
    let mut last_name: Option<HeaderName> = None;
    loop {
        let number = *line_number;
        let line = take_line(rest, line_number)
            .ok_or("expected an empty line between headers and body, found none")?;
        if line.is_empty() {
            return Ok((status, headers, expects_another));
        }
        // Old servers fold long headers (RFC 9112, section 5.2).
        let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
        if is_folded
            && let Some(name) = &last_name
            && let Entry::Occupied(mut values) = headers.entry(name)
            && let Some(value) = values.iter_mut().last()
        {
            let joined = [value.as_bytes(), b" ", line.trim_ascii()].concat();
            if let Ok(joined) = HeaderValue::from_bytes(&joined) {
                *value = joined;
            }
            continue;
        }
        let (name, value) = parse_header(&line).ok_or_else(|| {
            let expected = "expected a header such as `Content-Type: text/plain`";
            format!("line {number}: {expected}, found `{}`", String::from_utf8_lossy(&line))
        })?;
        last_name = Some(name.clone());
        headers.append(name, value);
    }
}

/// Parses a header line; `None` if the line is not a header.
pub fn parse_header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    Some((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
}

/// Returns the next line without its line break; `None` if no complete line is left.
fn take_line(rest: &mut Bytes, line_number: &mut usize) -> Option<Bytes> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    *line_number += 1;
    let mut line = rest.split_to(end + 1);
    line.truncate(end);
    if line.ends_with(b"\r") {
        line.truncate(end - 1);
    }
    Some(line)
}

#[derive(Deserialize)]
struct HarFile {
    log: HarLog,
}

#[derive(Deserialize)]
struct HarLog {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
struct HarEntry {
    request: HarRequest,
    response: HarResponse,
}

#[derive(Deserialize)]
struct HarRequest {
    method: String,
    url: String,
}

#[derive(Deserialize)]
struct HarResponse {
    status: u32,
    #[serde(default)]
    headers: Vec<HarHeader>,
    #[serde(default)]
    content: HarContent,
}

#[derive(Deserialize)]
struct HarHeader {
    name: String,
    value: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HarContent {
    size: i64,
    mime_type: Option<String>,
    text: Option<String>,
    encoding: Option<String>,
}

/// Whether bytes look like a HAR file: by their beginning, and by the names of members.
fn is_har(bytes: &[u8]) -> bool {
    let bytes = without_byte_order_mark(bytes);
    let start = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
    let contains = |part: &str| memmem::find(bytes, part.as_bytes()).is_some();
    start.take(7).eq(*b"{\"log\":")
        // A JSON response that is not a HAR file may have a member `log` with `entries` too.
        && contains("\"entries\"")
        && (contains("\"response\"") || has_no_entries(bytes))
}

/// Removes a byte order mark.
fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

/// Whether `log.entries` is an empty list.
fn has_no_entries(bytes: &[u8]) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    value.is_some_and(|value| value["log"]["entries"].as_array().is_some_and(Vec::is_empty))
}

/// Parses the exchanges of a HAR file, which must have at least one.
fn read_har(bytes: &[u8]) -> Result<Vec<HarExchange>, String> {
    let file: HarFile = serde_json::from_slice(without_byte_order_mark(bytes)).map_err(|error| {
        let expected = "expected a HAR file (`log.entries`, each with `request` and `response`)";
        format!("{expected}, found {error}")
    })?;
    if file.log.entries.is_empty() {
        return Err("expected a HAR file with at least one entry, found none".to_owned());
    }
    let exchange = |(index, entry): (usize, HarEntry)| HarExchange {
        method: entry.request.method,
        url: entry.request.url,
        response: response_from_entry(entry.response)
            .map_err(|reason| format!("entry {}{reason}", index + 1)),
    };
    Ok(file.log.entries.into_iter().enumerate().map(exchange).collect())
}

/// Converts the response of an entry. The error is the end of a sentence that begins with the entry.
fn response_from_entry(response: HarResponse) -> Result<UpstreamResponse, String> {
    // The browser writes 0 if the request was blocked, interrupted, or served from a cache.
    let status = u16::try_from(response.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.ok_or_else(|| format!(" has no response: its status is {}", response.status))?;
    let content = response.content;
    let encoding = content.encoding.unwrap_or_default();
    let body = match content.text {
        Some(text) if encoding.is_empty() => Bytes::from(text),
        Some(text) if encoding.eq_ignore_ascii_case("base64") => {
            let text: String = text.split_ascii_whitespace().collect();
            BASE64_STANDARD.decode(text).map_err(|_| ": `content.text` is not Base64")?.into()
        }
        Some(_) => return Err(format!(": expected `content.encoding` to be `base64`, found `{encoding}`")),
        None if content.size > 0 => {
            return Err(format!(" has no `content.text`: its body of {} bytes was not saved", content.size));
        }
        None => Bytes::new(),
    };
    let mut headers = HeaderMap::new();
    for HarHeader { name, value } in response.headers {
        // HTTP/2 pseudo-headers (`:status`) are not valid names. The values of a repeated header are separate
        // lines.
        let Ok(name) = name.parse::<HeaderName>() else { continue };
        for line in value.lines() {
            if let Ok(value) = HeaderValue::from_str(line.trim()) {
                headers.append(name.clone(), value);
            }
        }
    }
    // The browser has decoded chunked encoding and compression.
    for name in
        [header::TRANSFER_ENCODING, header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::CONNECTION]
    {
        headers.remove(name);
    }
    let declared_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if let Some(mut media_type) =
        declared_type.or_else(|| content.mime_type.filter(|media_type| media_type.contains('/')))
    {
        // The browser has also decoded the text, so the charset in the header does not apply to the saved
        // bytes.
        if encoding.is_empty() && !body.is_empty() {
            let essence = media_type.split(';').next().unwrap_or_default().trim();
            media_type = format!("{essence}; charset=utf-8");
        }
        if let Ok(value) = HeaderValue::from_str(&media_type) {
            headers.insert(header::CONTENT_TYPE, value);
        }
    }
    Ok(UpstreamResponse::new(status, headers, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(recording: &[u8], status: u16, body: &[u8]) -> UpstreamResponse {
        let response = UpstreamResponse::from_recording(&Bytes::copy_from_slice(recording)).unwrap();
        assert_eq!((response.status.as_u16(), &response.body[..]), (status, body));
        response
    }

    #[test]
    fn a_recording_is_read_as_curl_prints_it() {
        let response = check(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Type: Text/Plain; charset=\"latin1\"\r\nX: a:b\r\n\r\nno\r\n\r\nsuch",
            404,
            b"no\r\n\r\nsuch",
        );
        assert_eq!(response.headers["x"], "a:b");
        assert_eq!(response.media_type().as_deref(), Some("text/plain"));
        assert_eq!(response.charset(), Some("latin1"));
        check(b"HTTP/2 200 \r\nserver: x\r\n\r\nbody", 200, b"body");
        check(b"HTTP/1.0 204\n\n", 204, b"");
        let folded = check(b"HTTP/1.1 200 OK\r\nX-Long: a\r\n  b\r\nX-Name: J\xf6rg\r\n\r\n", 200, b"");
        assert_eq!(folded.headers["x-long"], "a b");
        let repeated = check(b"HTTP/1.1 200 OK\r\nX-A: a\r\nX-A: b\r\n c\r\n\r\n", 200, b"");
        assert_eq!(repeated.headers.get_all("x-a").iter().collect::<Vec<_>>(), ["a", "b c"]);
        assert_eq!(folded.headers["x-name"].as_bytes(), b"J\xf6rg");
    }

    #[test]
    fn the_last_of_several_heads_counts_and_a_body_may_look_like_a_head() {
        check(
            b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 302 Found\r\nLocation: /b\r\n\r\nHTTP/2 200 \r\n\r\nb",
            200,
            b"b",
        );
        check(b"HTTP/1.1 401 Unauthorized\r\n\r\nHTTP/1.1 403 Forbidden\r\n\r\nno", 403, b"no");
        check(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 is old", 200, b"HTTP/1.1 is old");
    }

    #[test]
    fn bodies_decoded_by_curl_are_not_decoded_again() {
        let response = check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\nConnection: close\r\n\r\nplain",
            200,
            b"plain",
        );
        assert!(response.headers.is_empty(), "{:?}", response.headers);
        let raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        check(raw, 200, b"abc0123456789");
        let zipped = check(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
            200,
            b"\x1f\x8b\x08",
        );
        assert_eq!(zipped.headers.len(), 2);
    }

    #[test]
    fn a_body_decompressed_by_curl_has_no_content_encoding() {
        let encoding = |encoding: &str, body: &[u8]| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\n\r\n");
            let response = check(&[head.as_bytes(), body].concat(), 200, body);
            response.headers.contains_key(header::CONTENT_ENCODING)
        };
        let latin1 = b"Troms\xf8: 5 \xb0C\r\n".repeat(20);
        for name in ["gzip", "x-gzip", "GZIP", "br", "deflate", "zstd", "gzip, br", "br, gzip"] {
            assert!(!encoding(name, b"{\"a\": 1}"), "{name}");
            assert!(!encoding(name, &latin1), "{name}");
            assert!(!encoding(name, b""), "{name}");
        }
        assert!(encoding("gzip", b"\x1f\x8b\x08\x00"));
        assert!(encoding("zstd", b"\x28\xb5\x2f\xfd\x04"));
        assert!(encoding("br", b"\x0b\x02\x80hello\x03"));
        assert!(!encoding("br", format!("{}\x1b[0m", "text ".repeat(1000)).as_bytes()));
        assert!(encoding("deflate", b"\x78\x9c\x4b\x04\x00\x00"));
        assert!(encoding("identity", b"x") && encoding("unknown", b"x"));
    }

    #[test]
    fn a_bare_body_is_a_success_and_a_malformed_header_an_error() {
        check(b"temp: 5\n", 200, b"temp: 5\n");
        let error = |recording: &'static [u8]| {
            UpstreamResponse::from_recording(&Bytes::from_static(recording)).unwrap_err()
        };
        for (recording, expected) in [
            (
                &b"HTTP/1.1 abc\r\n\r\n"[..],
                "expected a status line such as `HTTP/1.1 200 OK`, found `HTTP/1.1 abc`",
            ),
            (b"HTTP/1.1 200\nA: b\n", "expected an empty line between headers and body, found none"),
            (
                b"HTTP/1.1 100\n\nHTTP/1.1 200\noops\n\n",
                "line 4: expected a header such as `Content-Type: text/plain`, found `oops`",
            ),
        ] {
            assert_eq!(error(recording).to_string(), expected);
        }
    }

    const HAR_FILE: &str = r#"{ "log": { "version": "1.2", "entries": [
        { "request": { "method": "GET", "url": "http://old/a?x=1" }, "response": { "status": 200,
          "headers": [ { "name": ":status", "value": "200" }, { "name": "Content-Type", "value": "text/plain; charset=latin1" },
            { "name": "Content-Encoding", "value": "gzip" }, { "name": "Set-Cookie", "value": "a=1\nb=2" } ],
          "content": { "size": 3, "mimeType": "text/plain", "text": "Tromsø" } } },
        { "request": { "method": "GET", "url": "http://old/b.png" }, "response": { "status": 200, "headers": [],
          "content": { "size": 3, "mimeType": "image/png", "text": "AP//", "encoding": "base64" } } },
        { "request": { "method": "GET", "url": "http://old/c" }, "response": { "status": 0, "headers": [] } } ] } }"#;

    fn choose(choice: &str) -> Result<UpstreamResponse, String> {
        let recording = Recording::read(&Bytes::from_static(HAR_FILE.as_bytes())).unwrap();
        recording.choose(Some(&choice.into())).map_err(|error| error.to_string())
    }

    #[test]
    fn bodies_decoded_by_the_browser_are_not_decoded_again() {
        let response = choose("1").unwrap();
        assert_eq!((response.charset(), &response.body[..]), (Some("utf-8"), "Tromsø".as_bytes()));
        assert!(!response.headers.contains_key("content-encoding"));
        assert_eq!(response.headers.get_all("set-cookie").iter().count(), 2);
        let response = choose("b.png").unwrap();
        assert_eq!(
            (response.media_type().as_deref(), &response.body[..]),
            (Some("image/png"), &[0, 255, 255][..])
        );
    }

    #[test]
    fn missing_entries_are_errors() {
        assert_eq!(choose("3").unwrap_err(), "entry 3 has no response: its status is 0");
        assert_eq!(choose("4").unwrap_err(), "expected an entry from 1 to 3, found 4");
        assert_eq!(choose("0").unwrap_err(), "expected an entry from 1 to 3, found 0");
        assert_eq!(choose("/d").unwrap_err(), "expected an entry whose URL has `/d` in it, found none");
        for body in ["{\"log\": [1]}", "{\"log\": {\"entries\": [{\"line\": \"a\"}]}}"] {
            let body = Recording::read(&Bytes::from_static(body.as_bytes())).unwrap();
            assert!(matches!(body, Recording::Body(_)));
        }
        let broken = Recording::read(&Bytes::from_static(b"{\"log\":{\"entries\":[{\"response\":1}]}}"));
        assert!(broken.is_err());
        for empty in ["{\"log\": {\"entries\": []}}", "{\"log\": {\"version\": \"1.2\", \"entries\": [ ]}}"] {
            let error = Recording::read(&Bytes::from_static(empty.as_bytes())).unwrap_err();
            assert_eq!(error.to_string(), "expected a HAR file with at least one entry, found none");
        }
    }
}
