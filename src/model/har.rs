//! Parser of responses saved by a browser: HTTP Archive 1.2 (HAR).

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use memchr::memmem;
use serde::Deserialize;

use super::UpstreamResponse;
use super::recording::EntryChoice;

/// Request and its response.
#[derive(Debug)]
pub struct HarExchange {
    /// Method of the request.
    pub method: String,
    /// Complete URL of the request.
    pub url: String,
    /// The response, if the file contains it.
    pub response: Result<UpstreamResponse, String>,
}

#[derive(Deserialize)]
struct File {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    url: String,
}

#[derive(Deserialize)]
struct Response {
    status: u32,
    #[serde(default)]
    headers: Vec<Header>,
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Content {
    size: i64,
    mime_type: Option<String>,
    text: Option<String>,
    encoding: Option<String>,
}

/// Whether bytes begin like a HAR file.
pub(super) fn is_har(bytes: &[u8]) -> bool {
    let bytes = without_mark(bytes);
    let begin = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
    let contains = |part: &str| memmem::find(bytes, part.as_bytes()).is_some();
    begin.take(7).eq(*b"{\"log\":")
        // A JSON response may have a member `log` with `entries`, too.
        && contains("\"entries\"")
        && (contains("\"response\"") || has_no_entries(bytes))
}

/// The bytes without a byte order mark.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

/// Whether `log.entries` is an empty list.
fn has_no_entries(bytes: &[u8]) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    value.is_some_and(|value| value["log"]["entries"].as_array().is_some_and(Vec::is_empty))
}

/// The exchanges of a file; at least one.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<HarExchange>, String> {
    let file: File = serde_json::from_slice(without_mark(bytes)).map_err(|error| {
        let expected = "expected a HAR file (`log.entries`, each with `request` and `response`)";
        format!("{expected}, found {error}")
    })?;
    if file.log.entries.is_empty() {
        return Err("expected a HAR file with at least one entry, found none".to_owned());
    }
    let exchange = |(index, entry): (usize, Entry)| HarExchange {
        method: entry.request.method,
        url: entry.request.url,
        response: response_from_entry(entry.response).map_err(|why| format!("entry {}{why}", index + 1)),
    };
    Ok(file.log.entries.into_iter().enumerate().map(exchange).collect())
}

pub(super) fn choose(
    mut exchanges: Vec<HarExchange>,
    choice: Option<&EntryChoice>,
) -> Result<HarExchange, String> {
    let entries = exchanges.len();
    let index = match choice {
        None => Ok(entries - 1),
        Some(EntryChoice::Number(number)) => number
            .checked_sub(1)
            .filter(|index| *index < entries)
            .ok_or_else(|| format!("expected an entry from 1 to {entries}, found {number}")),
        Some(EntryChoice::Url(part)) => exchanges
            .iter()
            .rposition(|exchange| exchange.url.contains(part.as_str()))
            .ok_or_else(|| format!("expected an entry whose URL has `{part}` in it, found none")),
    };
    Ok(exchanges.swap_remove(index?))
}

/// The response of an entry, or the rest of a sentence that begins with the entry.
fn response_from_entry(response: Response) -> Result<UpstreamResponse, String> {
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
    for Header { name, value } in response.headers {
        // HTTP/2 pseudo-headers (`:status`) are not valid names; repeated headers are separate lines.
        let Ok(name) = name.parse::<HeaderName>() else { continue };
        for line in value.lines() {
            if let Ok(value) = HeaderValue::from_str(line.trim()) {
                headers.append(name.clone(), value);
            }
        }
    }
    // The browser has removed chunked encoding and compression.
    for name in
        [header::TRANSFER_ENCODING, header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::CONNECTION]
    {
        headers.remove(name);
    }
    let declared = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    if let Some(mut media_type) = declared.or_else(|| content.mime_type.filter(|kept| kept.contains('/'))) {
        // It has also decoded the text, so the charset of the header no longer applies to the bytes.
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
    use crate::model::Recording;

    const TWO: &str = r#"{ "log": { "version": "1.2", "entries": [
        { "request": { "method": "GET", "url": "http://old/a?x=1" }, "response": { "status": 200,
          "headers": [ { "name": ":status", "value": "200" }, { "name": "Content-Type", "value": "text/plain; charset=latin1" },
            { "name": "Content-Encoding", "value": "gzip" }, { "name": "Set-Cookie", "value": "a=1\nb=2" } ],
          "content": { "size": 3, "mimeType": "text/plain", "text": "Tromsø" } } },
        { "request": { "method": "GET", "url": "http://old/b.png" }, "response": { "status": 200, "headers": [],
          "content": { "size": 3, "mimeType": "image/png", "text": "AP//", "encoding": "base64" } } },
        { "request": { "method": "GET", "url": "http://old/c" }, "response": { "status": 0, "headers": [] } } ] } }"#;

    fn choose(choice: &str) -> Result<UpstreamResponse, String> {
        let recording = Recording::read(&Bytes::from_static(TWO.as_bytes())).unwrap();
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
