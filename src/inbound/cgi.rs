//! CGI (RFC 3875): a web server starts glossator to serve a single request.
//!
//! - [`request`] builds an HTTP request from the variables that the web server sets.
//! - [`write_response`] writes the response in the format that the web server reads.
//!
//! The request is handled like any other, so REST, MCP and `passthrough` work as over a port of glossator.
//! NPH (the program writes the whole HTTP response itself, section 5) is not supported.
//!
//! The web server is trusted for the method, the path, the length of the body, the peer (`REMOTE_ADDR`) and
//! TLS (`HTTPS`). Every `HTTP_…` variable comes from the client, including `Host` and `Origin`, so these are
//! checked against the allowed hosts and origins. `SERVER_NAME` often repeats the host of the client; it is
//! used only if there is no `Host`. `REMOTE_USER` is ignored.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{body::Body, response::IntoResponse};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream::try_unfold};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header, response,
};
use http_body::Body as _;
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{Connection, Rejection, RequestInfo, ShutdownSignal};
use crate::upstream::http::remove_hop_by_hop;

const METHOD: &str = "REQUEST_METHOD";
const INVALID_REQUEST: &str = "invalid CGI request";
/// Prefix of the variables with client headers. The header name follows in capitals.
const HEADER_PREFIX: &str = "HTTP_";

/// Whether a variable describes the request. Clients control most of these variables, so the configuration
/// can't use them.
pub fn is_request_variable(name: &OsStr) -> bool {
    const NAMES: &str = "AUTH_TYPE CONTENT_LENGTH CONTENT_TYPE GATEWAY_INTERFACE HTTPS PATH_INFO PATH_TRANSLATED \
                         QUERY_STRING SCRIPT_FILENAME SCRIPT_NAME SCRIPT_URI SCRIPT_URL SERVER_ADDR SERVER_NAME \
                         SERVER_PORT SERVER_PROTOCOL SERVER_SOFTWARE";
    const FAMILIES: [&str; 4] = [HEADER_PREFIX, "REDIRECT_", "REMOTE_", "REQUEST_"];
    name.to_str().is_some_and(|name| {
        NAMES.split(' ').any(|known| known == name) || FAMILIES.iter().any(|family| name.starts_with(family))
    })
}

/// Builds a request from the environment variables. The body is read from `input` when it is needed.
///
/// # Errors
///
/// [`Rejection`] if the variables are not a CGI request.
pub fn request(
    variables: &[(OsString, OsString)],
    input: impl AsyncRead + Unpin + Send + 'static,
) -> Result<Request<Body>, Rejection> {
    let variables = Variables(variables);
    let method = variables.get(METHOD).ok_or_else(|| {
        let message =
            "variable `REQUEST_METHOD` is not set: this program is started by a web server that speaks CGI";
        Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, INVALID_REQUEST, message)
    })?;
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::from_bytes(method).map_err(|_| unreadable("method"))?;
    *request.uri_mut() = variables.uri()?;
    *request.version_mut() = variables.version();
    variables.add_headers(request.headers_mut())?;
    *request.body_mut() = match variables.length(request.headers())? {
        Some(0) => Body::empty(),
        length => Body::from_stream(body_stream(input, length)),
    };
    remove_hop_by_hop(request.headers_mut());
    // The process serves a single request, so a stream of notifications must not keep it alive.
    let (peer, shutdown) = (variables.peer(), ShutdownSignal::one_request());
    let is_tls =
        variables.text("HTTPS").is_some_and(|value| value.eq_ignore_ascii_case("on") || value == "1");
    let connection = Connection { peer, is_tls, shutdown, ..Connection::default() };
    let mount = Some(variables.mount().unwrap_or_default());
    let info = RequestInfo { mount, ..RequestInfo::new(Arc::new(connection), request.headers()) };
    request.extensions_mut().insert(info);
    Ok(request)
}

/// Maximum number of bytes that one read of a body returns.
const PIECE_BYTES: usize = 64 << 10;

/// Reads `length` bytes of the input; `None` reads the whole input.
fn body_stream(
    input: impl AsyncRead + Unpin + Send + 'static,
    length: Option<u64>,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    try_unfold((input, length), |(mut input, remaining)| async move {
        if remaining == Some(0) {
            return Ok(None);
        }
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        let count = (&mut input).take(remaining.unwrap_or(u64::MAX)).read_buf(&mut piece).await? as u64;
        match (count, remaining) {
            (0, None) => Ok(None),
            (0, Some(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
            (count, remaining) => {
                Ok(Some((piece.freeze(), (input, remaining.map(|remaining| remaining - count)))))
            }
        }
    })
}

/// Builds the rejection of a malformed method, path, length or header.
fn unreadable(what: &str) -> Rejection {
    Rejection::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, format!("the request's {what} can't be read"))
}

struct Variables<'a>(&'a [(OsString, OsString)]);

impl Variables<'_> {
    /// Returns the value of a variable. An empty variable is the same as a missing one (RFC 3875, section
    /// 4.1).
    fn get(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.0.iter().find(|(found, _)| found == name)?;
        Some(value.as_encoded_bytes()).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// Builds the URI from the path below the program, and the query. The web server has decoded the path,
    /// but not the query (sections 4.1.5 and 4.1.7).
    fn uri(&self) -> Result<Uri, Rejection> {
        /// Characters that a query must encode, and that some clients do not.
        const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');
        /// Characters that a path must encode as well (RFC 3986, section 3.3).
        const OF_PATH: &AsciiSet = &QUERY.add(b'%').add(b'?').add(b'[').add(b'\\').add(b']').add(b'^');
        const PATH: &AsciiSet = &OF_PATH.add(b'`').add(b'{').add(b'|').add(b'}');
        let path = self.get("PATH_INFO").unwrap_or(b"/");
        if !path.starts_with(b"/") {
            return Err(unreadable("path"));
        }
        let mut target = percent_encode(path, PATH).to_string();
        if let Some(query) = self.get("QUERY_STRING") {
            target.push('?');
            target.extend(percent_encode(query, QUERY));
        }
        target.parse().map_err(|_| unreadable("path and query"))
    }

    fn version(&self) -> Version {
        match self.get("SERVER_PROTOCOL") {
            Some(b"HTTP/1.0") => Version::HTTP_10,
            Some(b"HTTP/2" | b"HTTP/2.0") => Version::HTTP_2,
            Some(b"HTTP/3" | b"HTTP/3.0") => Version::HTTP_3,
            _ => Version::HTTP_11,
        }
    }

    fn add_headers(&self, headers: &mut HeaderMap) -> Result<(), Rejection> {
        for (name, value) in self.0 {
            let Some(name) = name.to_str().and_then(|name| name.strip_prefix(HEADER_PREFIX)) else {
                continue;
            };
            // `CONTENT_LENGTH` and `CONTENT_TYPE` also exist without the prefix. `Proxy` is not an HTTP
            // header: programs read `HTTP_PROXY` as the address of a proxy ("httpoxy"), and the upstream may
            // be such a program.
            if matches!(name, "CONTENT_LENGTH" | "CONTENT_TYPE" | "PROXY") {
                continue;
            }
            let Ok(name) = HeaderName::from_bytes(name.replace('_', "-").as_bytes()) else { continue };
            let value = header_value(value.as_encoded_bytes(), name.as_str())?;
            headers.append(name, value);
        }
        let unprefixed = [(header::CONTENT_TYPE, "CONTENT_TYPE"), (header::CONTENT_LENGTH, "CONTENT_LENGTH")];
        for (name, variable) in unprefixed {
            if let Some(value) = self.get(variable) {
                headers.insert(&name, header_value(value, name.as_str())?);
            }
        }
        if !headers.contains_key(header::HOST)
            && let Some(host) = self.server()
        {
            headers.insert(header::HOST, header_value(host.as_bytes(), "host")?);
        }
        Ok(())
    }

    /// Length of the body; `None` if the body ends with the input. Without `CONTENT_LENGTH` there is no body,
    /// unless the client sent it in chunks: Apache then sets no length.
    fn length(&self, headers: &HeaderMap) -> Result<Option<u64>, Rejection> {
        let Some(length) = self.get("CONTENT_LENGTH") else {
            return Ok((!headers.contains_key(header::TRANSFER_ENCODING)).then_some(0));
        };
        let digits =
            str::from_utf8(length).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or_else(|| unreadable("length"))
    }

    fn server(&self) -> Option<String> {
        let name = self.text("SERVER_NAME")?;
        let port = self.text("SERVER_PORT").filter(|port| !matches!(*port, "80" | "443"));
        Some(port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}")))
    }

    fn mount(&self) -> Option<Box<str>> {
        let name = self.text("SCRIPT_NAME")?.trim_end_matches('/');
        name.starts_with('/').then(|| name.into())
    }

    fn peer(&self) -> Option<SocketAddr> {
        let address: IpAddr = self.text("REMOTE_ADDR")?.parse().ok()?;
        let port = self.text("REMOTE_PORT").and_then(|port| port.parse().ok());
        Some(SocketAddr::new(address, port.unwrap_or_default()))
    }
}

fn header_value(bytes: &[u8], name: &str) -> Result<HeaderValue, Rejection> {
    HeaderValue::from_bytes(bytes).map_err(|_| unreadable(&format!("header `{name}`")))
}

/// Writes a response, and flushes each part of the body as it arrives. `head_only` omits the body (the
/// response to `HEAD`).
///
/// # Errors
///
/// When the web server stops reading because its client has disconnected, or when the response is cut off,
/// for example by the upstream of a passthrough request.
pub async fn write_response(
    response: Response<Body>,
    head_only: bool,
    out: &mut impl Write,
) -> Result<(), axum::Error> {
    let (head, mut body) = response.into_parts();
    let has_body = !head_only && !body.is_end_stream();
    let mut write = |bytes: &[u8]| out.write_all(bytes).and_then(|()| out.flush()).map_err(axum::Error::new);
    write(&header_lines(head, has_body))?;
    if !has_body {
        return Ok(());
    }
    while let Some(frame) = body.frame().await {
        // CGI has no trailers.
        if let Ok(data) = frame?.into_data() {
            write(&data)?;
        }
    }
    Ok(())
}

/// Formats the response headers, with the empty line after them.
///
/// Hop-by-hop headers are removed, because the web server sets its own.
fn header_lines(mut response: response::Parts, has_body: bool) -> Vec<u8> {
    remove_hop_by_hop(&mut response.headers);
    // A response with a body must have a media type (section 6.3.1), and a passthrough upstream may not have
    // sent one.
    if has_body && !response.headers.contains_key(header::CONTENT_TYPE) {
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    }
    // The status is always set: a `Location` with a path and no status is a local redirect, which the web
    // server follows itself (section 6.2.2).
    let status = response.status;
    let status = format!("{} {}", status.as_str(), status.canonical_reason().unwrap_or("Unnamed"));
    // A line feed ends a line on the supported systems (section 7.2).
    let mut out = format!("Status: {status}\n").into_bytes();
    for (name, value) in &response.headers {
        out.extend([canonical(name.as_str()).as_bytes(), b": ", value.as_bytes(), b"\n"].concat());
    }
    out.push(b'\n');
    out
}

/// Builds a complete response for an error that occurs before there is a request to handle.
pub fn error_response(status: StatusCode, message: &str) -> Vec<u8> {
    let body = json!({ "error": message }).to_string();
    let length = body.len().to_string();
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CONTENT_LENGTH, &*length)];
    let (head, _) = (status, headers).into_response().into_parts();
    [header_lines(head, true), body.into_bytes()].concat()
}

/// Capitalizes a header name in the usual way, for people and scripts that read the output: `Content-Type`.
fn canonical(name: &str) -> String {
    let capitalized = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    name.split('-').map(capitalized).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    use http::Response;
    use http_body::Body as _;
    use http_body_util::BodyExt;
    use tokio::io::ReadBuf;

    use super::*;

    fn decoded(variables: &[(&str, &str)]) -> Result<http::request::Parts, Rejection> {
        let variables: Vec<(OsString, OsString)> =
            variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        request(&variables, tokio::io::empty()).map(|request| request.into_parts().0)
    }

    #[track_caller]
    fn check_uri(path: &str, query: &str, expected: &str) {
        let head = decoded(&[(METHOD, "GET"), ("PATH_INFO", path), ("QUERY_STRING", query)]).unwrap();
        assert_eq!(head.uri, expected);
    }

    #[test]
    fn the_path_is_encoded_again_and_the_query_stays() {
        check_uri("", "", "/");
        check_uri("/weather", "city=Oslo&x=%20%2F", "/weather?city=Oslo&x=%20%2F");
        check_uri("/a b/ø?#%/..;v=1,2", "a b\"", "/a%20b/%C3%B8%3F%23%25/..;v=1,2?a%20b%22");
        assert_eq!(decoded(&[(METHOD, "GET"), ("PATH_INFO", "weather")]).unwrap_err(), unreadable("path"));
    }

    #[test]
    fn the_version_is_the_clients() {
        for (protocol, expected) in [
            ("HTTP/1.0", Version::HTTP_10),
            ("HTTP/1.1", Version::HTTP_11),
            ("HTTP/2.0", Version::HTTP_2),
            ("INCLUDED", Version::HTTP_11),
        ] {
            // nginx has an empty `SERVER_NAME` by default, and HTTP/1.0 requires no `Host`.
            let variables = [(METHOD, "GET"), ("SERVER_NAME", ""), ("SERVER_PROTOCOL", protocol)];
            let head = decoded(&variables).unwrap();
            assert_eq!(head.version, expected);
            let host = crate::inbound::host_origin::request_host(&head);
            assert_eq!(host.is_ok(), expected != Version::HTTP_11, "{protocol}");
        }
    }

    #[test]
    fn client_headers_are_added_once() {
        let head = decoded(&[
            (METHOD, "POST"),
            ("CONTENT_TYPE", "application/json"),
            ("CONTENT_LENGTH", "2"),
            ("HTTP_CONTENT_LENGTH", "3"),
            ("HTTP_HOST", "tools.example.com"),
            ("HTTP_AUTHORIZATION", "Bearer x"),
            ("HTTP_MCP_PROTOCOL_VERSION", "2026-07-28"),
            ("HTTP_PROXY", "http://evil.example.com"),
            ("HTTP_CONNECTION", "close, x-private"),
            ("HTTP_X_PRIVATE", "1"),
            ("SERVER_NAME", "other.example.com"),
            ("HTTPS", "on"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("SCRIPT_NAME", "/cgi-bin/tools"),
        ])
        .unwrap();
        let mut found: Vec<_> =
            head.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        found.sort();
        assert_eq!(
            found,
            [
                "authorization: Bearer x",
                "content-length: 2",
                "content-type: application/json",
                "host: tools.example.com",
                "mcp-protocol-version: 2026-07-28",
            ]
        );
        let info = head.extensions.get::<RequestInfo>().unwrap();
        assert_eq!(info.connection.peer.unwrap().ip().to_string(), "192.0.2.7");
        assert!(info.connection.is_tls);
        assert_eq!(info.mount.as_deref(), Some("/cgi-bin/tools"));
    }

    #[test]
    fn the_server_name_replaces_a_missing_host() {
        let host = |port| {
            let head = decoded(&[(METHOD, "GET"), ("SERVER_NAME", "a.test"), ("SERVER_PORT", port)]).unwrap();
            head.headers[header::HOST].to_str().unwrap().to_owned()
        };
        assert_eq!((host("80"), host("8080")), ("a.test".into(), "a.test:8080".into()));
    }

    #[test]
    fn missing_or_malformed_variables_are_rejected() {
        assert_eq!(decoded(&[]).unwrap_err().status, 500);
        for (name, value) in
            [(METHOD, "GET IT"), ("CONTENT_LENGTH", "-1"), ("CONTENT_LENGTH", "1e3"), ("HTTP_ORIGIN", "a\nb")]
        {
            let mut variables = vec![(METHOD, "POST")];
            variables.insert(0, (name, value));
            assert_eq!(decoded(&variables).unwrap_err().status, 400, "{name}={value}");
        }
    }

    #[test]
    fn variables_that_clients_control_are_recognized() {
        for name in
            ["HTTP_PROXY", "REMOTE_USER", "QUERY_STRING", "REDIRECT_HTTP_AUTHORIZATION", "REQUEST_URI"]
        {
            assert!(is_request_variable(OsStr::new(name)), "{name}");
        }
        for name in
            ["PATH", "HOME", "LEGACY_URL", "GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT", "SERVER", "https_proxy"]
        {
            assert!(!is_request_variable(OsStr::new(name)), "{name}");
        }
    }

    async fn body(text: &'static str, length: Option<u64>) -> Result<Bytes, axum::Error> {
        Ok(Body::from_stream(body_stream(text.as_bytes(), length)).collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn exactly_what_was_announced_is_read() {
        assert_eq!(body("12345", Some(3)).await.unwrap(), "123");
        assert_eq!(body("12345", Some(5)).await.unwrap(), "12345");
        assert_eq!(body("12345", None).await.unwrap(), "12345");
        let short = body("12345", Some(6)).await.unwrap_err();
        assert_eq!(short.to_string(), "unexpected end of file");
    }

    #[tokio::test]
    async fn an_unused_body_is_not_read() {
        struct Never;
        impl AsyncRead for Never {
            fn poll_read(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                panic!("it was read")
            }
        }
        let request_of_length = |length: &str| {
            let variables = [(METHOD, "POST"), ("CONTENT_LENGTH", length)];
            request(&variables.map(|(name, value)| (name.into(), value.into())), Never).unwrap()
        };
        assert!(!request_of_length("7").body().is_end_stream());
        assert!(request_of_length("0").collect().await.unwrap().to_bytes().is_empty());
    }

    #[test]
    fn the_status_line_comes_first_and_connection_headers_are_omitted() {
        let response = Response::builder()
            .status(404)
            .header("content-type", "application/json")
            .header("connection", "close")
            .header("transfer-encoding", "chunked")
            .header("x-request-id", "1")
            .body(())
            .unwrap();
        let head = String::from_utf8(header_lines(response.into_parts().0, true)).unwrap();
        assert_eq!(head, "Status: 404 Not Found\nContent-Type: application/json\nX-Request-Id: 1\n\n");
    }

    #[test]
    fn only_a_response_with_a_body_gets_a_content_type() {
        let parts = || Response::builder().status(299).body(()).unwrap().into_parts().0;
        assert_eq!(header_lines(parts(), false), b"Status: 299 Unnamed\n\n");
        assert_eq!(
            header_lines(parts(), true),
            b"Status: 299 Unnamed\nContent-Type: application/octet-stream\n\n"
        );
    }
}
