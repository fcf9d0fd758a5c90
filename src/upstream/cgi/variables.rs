//! A request as the variables of a CGI program (RFC 3875, section 4.1).

use http::{HeaderMap, Method, header};
use percent_encoding::percent_decode_str;

use super::super::{http::remove_hop_by_hop, program::Program};
use crate::route::HttpRequest;

/// Why a request has no variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum VariableError {
    /// A `/`, a `..` or a NUL of an argument would leave its segment once it is decoded.
    #[error("a segment of the path is `.`, `..`, or has `/` or NUL in it once it is decoded")]
    Segment,
    /// `PATH_INFO` is text.
    #[error("the path is not UTF-8 once it is decoded")]
    NotText,
}

/// The variables of a request; those that the program has are left out.
pub(super) fn of(request: &HttpRequest, program: &Program) -> Result<Vec<(String, String)>, VariableError> {
    let file = program.path.file_name().unwrap_or_default().to_string_lossy();
    let script_name = format!("/{file}");
    let path_info = decoded(request.path_and_query.path())?;
    let mut variables: Vec<(String, String)> = Vec::with_capacity(24);
    let mut set = |name: &str, value: String| {
        if !program.environment.iter().any(|(known, _)| known == name) {
            variables.push((name.to_owned(), value));
        }
    };
    let has_body = !request.body.is_empty();
    if has_body || matches!(request.method, Method::POST | Method::PUT | Method::PATCH) {
        set("CONTENT_LENGTH", request.body.len().to_string());
    }
    if let Some(media_type) = request.headers.get(header::CONTENT_TYPE).filter(|_| has_body) {
        set("CONTENT_TYPE", String::from_utf8_lossy(media_type.as_bytes()).into_owned());
    }
    set("GATEWAY_INTERFACE", "CGI/1.1".into());
    set("QUERY_STRING", request.path_and_query.query().unwrap_or_default().to_owned());
    set("REMOTE_ADDR", "127.0.0.1".into());
    set("REQUEST_METHOD", request.method.to_string());
    // Not of the standard, but PHP and others look at them.
    set("REQUEST_URI", format!("{script_name}{}", uri_behind(request)));
    set("SCRIPT_FILENAME", program.path.to_string_lossy().into_owned());
    set("SCRIPT_NAME", script_name);
    if !path_info.is_empty() {
        set("PATH_INFO", path_info);
    }
    set("SERVER_NAME", "localhost".into());
    set("SERVER_PORT", "80".into());
    set("SERVER_PROTOCOL", "HTTP/1.1".into());
    set("SERVER_SOFTWARE", concat!("glossator/", env!("CARGO_PKG_VERSION")).into());
    set("HTTP_HOST", "localhost".into());
    if !request.headers.contains_key(header::USER_AGENT) {
        set("HTTP_USER_AGENT", concat!("glossator/", env!("CARGO_PKG_VERSION")).into());
    }
    for (name, value) in headers(&request.headers) {
        set(&name, value);
    }
    Ok(variables)
}

/// What follows the script's own name in the address: the path where it is more than `/`, and the query.
fn uri_behind(request: &HttpRequest) -> &str {
    let target = request.path_and_query.as_str();
    match target.strip_prefix('/') {
        Some(rest) if rest.is_empty() || rest.starts_with('?') => rest,
        Some(_) | None => target,
    }
}

/// `PATH_INFO`: nothing for `/` alone, so that `GET old` asks the program itself.
fn decoded(path: &str) -> Result<String, VariableError> {
    if path == "/" {
        return Ok(String::new());
    }
    let mut decoded = String::with_capacity(path.len());
    for segment in path.split('/').skip(1) {
        let segment = percent_decode_str(segment).decode_utf8().map_err(|_| VariableError::NotText)?;
        if segment.contains(['/', '\0']) || segment == "." || segment == ".." {
            return Err(VariableError::Segment);
        }
        decoded.push('/');
        decoded.push_str(&segment);
    }
    Ok(decoded)
}

/// Headers as `HTTP_…`, several of one name joined.
///
/// Credentials are left out (section 4.1.18), and `Proxy`, which programs take for the address of a proxy of their own
/// (`HTTP_PROXY`); so are names with `_`, which would become those of others.
fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    const LEFT_OUT: [&str; 6] =
        ["authorization", "proxy-authorization", "proxy", "content-length", "content-type", "host"];
    let mut headers = headers.clone();
    remove_hop_by_hop(&mut headers);
    let names =
        headers.keys().filter(|name| !LEFT_OUT.contains(&name.as_str()) && !name.as_str().contains('_'));
    let of_name = |name: &http::HeaderName| {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let variable = format!("HTTP_{}", name.as_str().to_ascii_uppercase().replace('-', "_"));
        (variable, values.join(", "))
    };
    names.map(of_name).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;
    use crate::route::Under;

    fn request(method: Method, target: &str, body: &'static str) -> HttpRequest {
        let path_and_query = target.parse().unwrap();
        let headers = HeaderMap::new();
        HttpRequest {
            method,
            under: Under::Address,
            path_and_query,
            headers,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    fn value(request: &HttpRequest, name: &str) -> Option<String> {
        let program = Program::new("/usr/lib/cgi-bin/status.cgi");
        let variables = of(request, &program).unwrap();
        variables.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    #[test]
    fn a_request_is_told_in_variables() {
        let mut asked = request(Method::POST, "/a%20b/c?x=1&y=%20", "body");
        asked.headers.insert("content-type", HeaderValue::from_static("text/plain"));
        asked.headers.append("x-many", HeaderValue::from_static("1"));
        asked.headers.append("x-many", HeaderValue::from_static("2"));
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
            assert_eq!(value(&asked, name).as_deref(), Some(expected), "{name}");
        }
        let bare = request(Method::GET, "/?x", "");
        assert_eq!(value(&bare, "REQUEST_URI").as_deref(), Some("/status.cgi?x"));
        for name in ["PATH_INFO", "CONTENT_LENGTH", "CONTENT_TYPE"] {
            assert_eq!(value(&bare, name), None, "{name}");
        }
    }

    #[test]
    fn credentials_and_what_programs_misread_stay_here() {
        let mut asked = request(Method::GET, "/", "");
        for name in ["authorization", "proxy-authorization", "proxy", "x_y", "connection"] {
            asked.headers.insert(name, HeaderValue::from_static("secret"));
        }
        let variables = of(&asked, &Program::new("/a.cgi")).unwrap();
        assert!(variables.iter().all(|(_, value)| value != "secret"), "{variables:?}");
    }

    #[test]
    fn an_argument_stays_in_its_segment() {
        let error = |target| of(&request(Method::GET, target, ""), &Program::new("/a.cgi")).unwrap_err();
        for target in ["/a%2Fb", "/a%2F..%2Fb", "/%2E%2E/x", "/a%00"] {
            assert_eq!(error(target), VariableError::Segment, "{target}");
        }
        assert_eq!(error("/a%FF"), VariableError::NotText);
    }

    #[test]
    fn what_the_operator_sets_stands() {
        let environment = vec![("SERVER_NAME".to_owned(), "old.example.com".to_owned())];
        let program = Program { environment, ..Program::new("/a.cgi") };
        let variables = of(&request(Method::GET, "/", ""), &program).unwrap();
        assert!(variables.iter().all(|(name, _)| name != "SERVER_NAME"));
    }
}
