//! CGI programs (RFC 3875): a program that is started for each request, as by a web server.
//!
//! First comes the conversion of a request to environment variables, then the parser of the program's output.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use percent_encoding::percent_decode_str;

use super::error::QuotedSource;
use super::http::{HEAD_LIMIT_BYTES, HEADER_COUNT_LIMIT, remove_hop_by_hop};
use super::program::{Program, run_program};
use super::{Failure, UpstreamCall, UpstreamResult};
use crate::model::{ProgramExit, UpstreamResponse, parse_header};
use crate::route::{HttpRequest, UpstreamRequest};

/// Runs a CGI program for a request. Dropping the future kills the program and all processes that it started.
pub(super) async fn run_cgi(program: &Program, upstream_call: &UpstreamCall) -> UpstreamResult {
    let UpstreamRequest::Http(request) = &upstream_call.request else {
        return Err(Failure::wrong_kind());
    };
    let variables = variables(request, program).map_err(|reason| Failure::Unsendable(reason.into()))?;
    let limit_bytes = upstream_call.response_limit_bytes;
    let output_limit_bytes = limit_bytes.saturating_add(HEAD_LIMIT_BYTES);
    let result =
        run_program(program, &[], &variables, &request.body, output_limit_bytes, upstream_call).await;
    let (output, exit) = result?;
    let mut response = response(&output, &exit)?;
    if request.method == Method::HEAD {
        response.body.clear();
    }
    if response.body.len() > limit_bytes {
        return Err(Failure::TooLong(limit_bytes));
    }
    response.cgi_exit = Some(Box::new(exit));
    Ok(response)
}

/// Error for an argument that would escape its path segment after decoding.
const INVALID_SEGMENT: &str =
    "a segment of the path is `.`, `..`, or has `/` or NUL in it once it is decoded";

/// Error for a path that is not UTF-8, which `PATH_INFO` must be.
const NOT_UTF8: &str = "the path is not UTF-8 once it is decoded";

/// CGI variables of a request (RFC 3875, section 4.1), except those that the configuration sets.
fn variables(request: &HttpRequest, program: &Program) -> Result<Vec<(String, String)>, &'static str> {
    let file_name = program.path.file_name().unwrap_or_default().to_string_lossy();
    let script_name = format!("/{file_name}");
    let path_info = decode_path(request.path_and_query.path())?;
    // A path that is only `/` is not part of `REQUEST_URI`.
    let target = request.path_and_query.as_str();
    let without_path = target.strip_prefix('/').filter(|rest| rest.is_empty() || rest.starts_with('?'));
    let uri_suffix = without_path.unwrap_or(target);
    let has_body = !request.body.is_empty();
    let has_length = has_body || matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
    let media_type = request.headers.get(header::CONTENT_TYPE).filter(|_| has_body);
    let media_type = media_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let has_agent = request.headers.contains_key(header::USER_AGENT);
    let variables = [
        ("CONTENT_LENGTH", has_length.then(|| request.body.len().to_string())),
        ("CONTENT_TYPE", media_type),
        ("GATEWAY_INTERFACE", Some("CGI/1.1".into())),
        ("QUERY_STRING", Some(request.path_and_query.query().unwrap_or_default().into())),
        ("REMOTE_ADDR", Some("127.0.0.1".into())),
        ("REQUEST_METHOD", Some(request.method.to_string())),
        // `REQUEST_URI` and `SCRIPT_FILENAME` are not part of the standard, but PHP and other programs read
        // them.
        ("REQUEST_URI", Some(format!("{script_name}{uri_suffix}"))),
        ("SCRIPT_FILENAME", Some(program.path.to_string_lossy().into_owned())),
        ("SCRIPT_NAME", Some(script_name)),
        ("PATH_INFO", Some(path_info).filter(|path| !path.is_empty())),
        ("SERVER_NAME", Some("localhost".into())),
        ("SERVER_PORT", Some("80".into())),
        ("SERVER_PROTOCOL", Some("HTTP/1.1".into())),
        ("SERVER_SOFTWARE", Some(SOFTWARE.into())),
        ("HTTP_HOST", Some("localhost".into())),
        ("HTTP_USER_AGENT", (!has_agent).then(|| SOFTWARE.into())),
    ];
    let variables = variables.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let is_set = |name: &String| program.environment.iter().any(|(configured, _)| configured == name);
    Ok(variables.chain(headers(&request.headers)).filter(|(name, _)| !is_set(name)).collect())
}

/// Name and version of this program.
const SOFTWARE: &str = concat!("glossator/", env!("CARGO_PKG_VERSION"));

/// Decodes a path for `PATH_INFO`. The result is empty for `/` alone, so that a request for `/` runs the
/// program without a path.
fn decode_path(path: &str) -> Result<String, &'static str> {
    if path == "/" {
        return Ok(String::new());
    }
    let mut decoded = String::new();
    for segment in path.split('/').skip(1) {
        let segment = percent_decode_str(segment).decode_utf8().map_err(|_| NOT_UTF8)?;
        if segment.contains(['/', '\0']) || segment == "." || segment == ".." {
            return Err(INVALID_SEGMENT);
        }
        decoded.push('/');
        decoded.push_str(&segment);
    }
    Ok(decoded)
}

/// Headers as `HTTP_…` variables. Several headers of one name are joined, those of `Cookie` as one cookie
/// string (RFC 9113, section 8.2.3).
///
/// Omitted:
///
/// - credentials (RFC 3875, section 4.1.18)
/// - `Proxy`, which programs read as the address of a proxy (`HTTP_PROXY`)
/// - names with `_`, which would collide with other headers
fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    const OMITTED: [&str; 6] =
        ["authorization", "proxy-authorization", "proxy", "content-length", "content-type", "host"];
    let mut headers = headers.clone();
    remove_hop_by_hop(&mut headers);
    let names =
        headers.keys().filter(|name| !OMITTED.contains(&name.as_str()) && !name.as_str().contains('_'));
    let to_variable = |name: &HeaderName| {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let variable = format!("HTTP_{}", name.as_str().to_ascii_uppercase().replace('-', "_"));
        (variable, values.join(if *name == header::COOKIE { "; " } else { ", " }))
    };
    names.map(to_variable).collect()
}

/// Failure for output that is not a CGI response (RFC 3875, section 6). The unexpected text that was `found`,
/// and standard error, are only logged at `debug`.
fn not_cgi(exit: &ProgramExit, problem: &str, found: &str) -> Failure {
    let (mut plain, mut quoted) = (problem.to_owned(), problem.to_owned());
    if !found.is_empty() {
        plain += &format!(", found text of {} bytes", found.len());
        quoted += &format!(", found `{found}`");
    }
    let stderr = exit.stderr_text();
    let stderr = stderr.trim_end();
    if !stderr.is_empty() {
        plain += &format!("; {} bytes on standard error", stderr.len());
        quoted = format!("on standard error: {stderr}; {quoted}");
    }
    Failure::NotCgi(QuotedSource::new(plain, quoted).into())
}

/// Parses the output of a program. Header lines may end in LF or CR LF.
fn response(output: &Bytes, exit: &ProgramExit) -> UpstreamResult {
    if output.is_empty() {
        return Err(not_cgi(exit, &format!("it wrote nothing and ended with {}", exit.end.describe()), ""));
    }
    let (mut headers, mut status, mut rest) = (HeaderMap::new(), None, output.clone());
    for line in 1.. {
        if rest.is_empty() {
            return Err(not_cgi(exit, "its headers have no empty line after them", ""));
        }
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let text = rest.split_to(end);
        if output.len() - rest.len() > HEAD_LIMIT_BYTES || headers.len() > HEADER_COUNT_LIMIT {
            return Err(Failure::HeadTooLong);
        }
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.is_empty() {
            break;
        }
        let (name, value) = header_of(text, line, exit)?;
        if name == "status" {
            let found = String::from_utf8_lossy(value.as_bytes());
            let code = found.split_whitespace().next().and_then(|code| code.parse().ok());
            let code = code.filter(|code| (200..=599).contains(code) && status.is_none());
            let expected = "expected a `Status` such as `404 Not Found`, once";
            let code = code.and_then(|code| StatusCode::from_u16(code).ok());
            status = Some(code.ok_or_else(|| not_cgi(exit, expected, &found))?);
            continue;
        }
        headers.append(name, value);
    }
    let is_redirect = headers.contains_key(header::LOCATION);
    if status.is_none() && !is_redirect && !headers.contains_key(header::CONTENT_TYPE) {
        let problem = "it has neither `Content-Type` nor `Location` nor `Status` among its headers";
        return Err(not_cgi(exit, problem, ""));
    }
    if let Some(declared) = headers.remove(header::CONTENT_LENGTH)
        && declared.to_str().ok().and_then(|declared| declared.parse().ok()) != Some(rest.len())
    {
        let problem = format!("its body has {} bytes, which is not its `Content-Length`", rest.len());
        return Err(not_cgi(exit, &problem, &String::from_utf8_lossy(declared.as_bytes())));
    }
    remove_hop_by_hop(&mut headers);
    // Redirects are not followed, neither local redirects (RFC 3875, section 6.2.2) nor client redirects.
    let default_status = if is_redirect { StatusCode::FOUND } else { StatusCode::OK };
    Ok(UpstreamResponse::new(status.unwrap_or(default_status), headers, rest))
}

/// Parses a header line.
fn header_of(text: &[u8], line: usize, exit: &ProgramExit) -> Result<(HeaderName, HeaderValue), Failure> {
    const MAX_QUOTED: usize = 100;
    let found = String::from_utf8_lossy(&text[..text.len().min(MAX_QUOTED)]);
    if line == 1 && text.starts_with(b"HTTP/") {
        let problem = "it writes the status line itself, as NPH programs do, which are not supported";
        return Err(not_cgi(exit, problem, &found));
    }
    parse_header(text).ok_or_else(|| {
        let problem = format!("line {line}: expected a header such as `Content-Type: text/plain`");
        not_cgi(exit, &problem, &found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::ProgramEnd, route::PathBase};

    fn parse_response(output: &str) -> UpstreamResult {
        let exit = ProgramExit { end: ProgramEnd::Code(1), stderr: Bytes::new() };
        response(&Bytes::copy_from_slice(output.as_bytes()), &exit)
    }

    #[track_caller]
    fn check(output: &str, status: u16, body: &str) -> UpstreamResponse {
        let response = parse_response(output).unwrap();
        assert_eq!((response.status.as_u16(), &response.body[..]), (status, body.as_bytes()));
        response
    }

    #[test]
    fn a_response_has_headers_and_a_body() {
        let response = check(
            "Content-type: text/plain; charset=latin1\nX-A: 1\nX-A: 2\n\nbody\n\nmore",
            200,
            "body\n\nmore",
        );
        assert_eq!((response.charset(), response.headers.get_all("x-a").iter().count()), (Some("latin1"), 2));
        check("Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\nno\r\n", 404, "no\r\n");
        check("Status: 204\n\n", 204, "");
        check("Content-Type: text/plain\nContent-Length: 2\n\nok", 200, "ok");
    }

    #[test]
    fn a_redirect_to_another_host_is_not_followed() {
        assert_eq!(check("Location: /other\n\n", 302, "").headers["location"], "/other");
        check("Location: http://example.com/\nStatus: 301 Moved\nContent-Type: text/html\n\nx", 301, "x");
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let response =
            check("Content-Type: text/plain\nConnection: close\nTransfer-Encoding: chunked\n\nx", 200, "x");
        assert_eq!(response.headers.len(), 1);
    }

    #[test]
    fn an_invalid_response_is_an_error() {
        let error = |output: &str| match parse_response(output).unwrap_err() {
            Failure::NotCgi(source) => source.0.downcast_ref::<QuotedSource>().unwrap().quoted.clone(),
            failure => format!("{failure:?}"),
        };
        assert_eq!(error(""), "it wrote nothing and ended with exit status 1");
        assert!(error("HTTP/1.1 200 OK\nContent-Type: text/plain\n\nx").contains("NPH"));
        assert!(error("hello\n\n").contains("line 1") && error("hello").contains("found `hello`"));
        assert!(error("Content-Type: text/plain\nnot a header\n\nx").contains("line 2"));
        assert!(error("Content-Type: text/plain\n").contains("no empty line"));
        assert!(error("Content-Type: text/plain").contains("no empty line"));
        assert!(error("Temp: 5\n\nSky: x").contains("neither `Content-Type` nor"));
        assert!(error("\nhello").contains("neither `Content-Type` nor"));
        for status in
            ["Status: no\n\n", "Status: 100 Continue\n\n", "Status: 200\nStatus: 404\n\n", "Status:\n\n"]
        {
            assert!(error(status).starts_with("expected a `Status`"), "{status}");
        }
        assert!(error("Content-Type: a/b\nContent-Length: 9\n\nx").contains("`Content-Length`, found `9`"));
        assert_eq!(error(&format!("X: {}\n\n", "x".repeat(200 << 10))), "HeadTooLong");
        assert_eq!(error(&format!("{}\n", "X: y\n".repeat(300))), "HeadTooLong");
    }

    fn request(method: Method, target: &str, body: &'static str) -> HttpRequest {
        let path_and_query = target.parse().unwrap();
        let headers = HeaderMap::new();
        HttpRequest {
            method,
            base: PathBase::UpstreamUrl,
            path_and_query,
            headers,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    fn program(path: &str) -> Program {
        Program {
            name: "old".parse().unwrap(),
            path: path.into(),
            arg0: path.to_owned(),
            arguments: Vec::new(),
            working_directory: "/".into(),
            environment: Vec::new(),
            secrets: Vec::new(),
        }
    }

    fn variable(request: &HttpRequest, name: &str) -> Option<String> {
        let variables = variables(request, &program("/usr/lib/cgi-bin/status.cgi")).unwrap();
        variables.into_iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value)
    }

    #[test]
    fn a_request_becomes_variables() {
        let mut posted = request(Method::POST, "/a%20b/c?x=1&y=%20", "body");
        posted.headers.insert("content-type", HeaderValue::from_static("text/plain"));
        posted.headers.append("x-many", HeaderValue::from_static("1"));
        posted.headers.append("x-many", HeaderValue::from_static("2"));
        for (name, expected) in [
            ("REQUEST_METHOD", "POST"),
            ("PATH_INFO", "/a b/c"),
            ("QUERY_STRING", "x=1&y=%20"),
            ("SCRIPT_NAME", "/status.cgi"),
            ("REQUEST_URI", "/status.cgi/a%20b/c?x=1&y=%20"),
            ("CONTENT_LENGTH", "4"),
            ("CONTENT_TYPE", "text/plain"),
            ("HTTP_X_MANY", "1, 2"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
        ] {
            assert_eq!(variable(&posted, name).as_deref(), Some(expected), "{name}");
        }
        let bare = request(Method::GET, "/?x", "");
        assert_eq!(variable(&bare, "REQUEST_URI").as_deref(), Some("/status.cgi?x"));
        for name in ["PATH_INFO", "CONTENT_LENGTH", "CONTENT_TYPE"] {
            assert_eq!(variable(&bare, name), None, "{name}");
        }
    }

    #[test]
    fn credentials_and_dangerous_headers_are_not_passed() {
        let mut sent = request(Method::GET, "/", "");
        for name in ["authorization", "proxy-authorization", "proxy", "x_y", "connection"] {
            sent.headers.insert(name, HeaderValue::from_static("secret"));
        }
        let variables = variables(&sent, &program("/a.cgi")).unwrap();
        assert!(variables.iter().all(|(_, value)| value != "secret"), "{variables:?}");
    }

    #[test]
    fn an_argument_stays_in_its_segment() {
        let error = |target| variables(&request(Method::GET, target, ""), &program("/a.cgi")).unwrap_err();
        for target in ["/a%2Fb", "/a%2F..%2Fb", "/%2E%2E/x", "/a%00"] {
            assert_eq!(error(target), INVALID_SEGMENT, "{target}");
        }
        assert_eq!(error("/a%FF"), NOT_UTF8);
    }

    #[test]
    fn configured_variables_take_precedence() {
        let environment = vec![("SERVER_NAME".to_owned(), "old.example.com".to_owned())];
        let program = Program { environment, ..program("/a.cgi") };
        let variables = variables(&request(Method::GET, "/", ""), &program).unwrap();
        assert!(variables.iter().all(|(name, _)| name != "SERVER_NAME"));
    }
}
