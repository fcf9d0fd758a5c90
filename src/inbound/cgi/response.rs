//! The response of a CGI program (RFC 3875, section 6).

use http::{HeaderValue, StatusCode, header, response::Parts};
use serde_json::json;

use crate::upstream::http::remove_hop_by_hop;

/// The head of a response, with the empty line behind it.
///
/// What belongs to the connection is the web server's to say.
pub fn head(mut response: Parts, has_body: bool) -> Vec<u8> {
    remove_hop_by_hop(&mut response.headers);
    // A body must say its type (section 6.3.1), and a server that is handed through may not have.
    if has_body && !response.headers.contains_key(header::CONTENT_TYPE) {
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    }
    let mut out = Vec::with_capacity(512);
    // Always said, or a `Location` beside it would make the web server ask itself (section 6.2.2).
    line(&mut out, "Status", status_line(response.status).as_bytes());
    for (name, value) in &response.headers {
        line(&mut out, &canonical(name.as_str()), value.as_bytes());
    }
    out.push(b'\n');
    out
}

/// A whole response for what went wrong before there was a request to answer.
pub fn broken(status: StatusCode, message: &str) -> Vec<u8> {
    let body = json!({ "error": message }).to_string();
    let mut out = Vec::new();
    line(&mut out, "Status", status_line(status).as_bytes());
    line(&mut out, "Content-Type", b"application/json");
    line(&mut out, "Content-Length", body.len().to_string().as_bytes());
    out.push(b'\n');
    out.extend_from_slice(body.as_bytes());
    out
}

fn status_line(status: StatusCode) -> String {
    format!("{} {}", status.as_str(), status.canonical_reason().unwrap_or("Unnamed"))
}

/// A line feed ends a line on the systems that we know (section 7.2).
fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// `content-type` as people, and scripts round us, write it: `Content-Type`.
fn canonical(name: &str) -> String {
    let words: Vec<String> = name
        .split('-')
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
        })
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    #[test]
    fn a_head_has_its_status_first_and_nothing_of_the_connection() {
        let response = Response::builder()
            .status(404)
            .header("content-type", "application/json")
            .header("connection", "close")
            .header("transfer-encoding", "chunked")
            .header("x-request-id", "1")
            .body(())
            .unwrap();
        let head = String::from_utf8(head(response.into_parts().0, true)).unwrap();
        assert_eq!(head, "Status: 404 Not Found\nContent-Type: application/json\nX-Request-Id: 1\n\n");
    }

    #[test]
    fn a_body_without_a_type_gets_one_and_nothing_gets_none() {
        let parts = || Response::builder().status(299).body(()).unwrap().into_parts().0;
        assert_eq!(head(parts(), false), b"Status: 299 Unnamed\n\n");
        assert_eq!(head(parts(), true), b"Status: 299 Unnamed\nContent-Type: application/octet-stream\n\n");
    }
}
