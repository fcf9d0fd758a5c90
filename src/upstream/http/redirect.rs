//! Whether, and to where, a redirect is followed.

use http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::route::location;

/// The next request after a redirect, when it may be made: to the same origin, with the same method where the upstream
/// says that it must stay (307, 308), and else another `GET` or `HEAD`.
///
/// Anything else is the route's business as a reply: what a 301 or 302 means for an unsafe request is anybody's guess,
/// and no request leaves for another host, which would take its credentials along.
pub(super) fn next(
    method: &Method,
    asked: &Uri,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<(Method, Uri)> {
    let next_method = match status {
        StatusCode::SEE_OTHER if method == Method::HEAD => Method::HEAD,
        // RFC 9110, section 15.4.4: whatever was asked, look there for the answer.
        StatusCode::SEE_OTHER => Method::GET,
        // RFC 9110, sections 15.4.8 and 15.4.9: nothing was done, and the same is to be asked there.
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => method.clone(),
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND
            if method == Method::GET || method == Method::HEAD =>
        {
            method.clone()
        }
        _ => return None,
    };
    let target = location::resolve(asked, headers.get(header::LOCATION)?.to_str().ok()?)?;
    location::same_origin(asked, &target).then_some((next_method, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, status: u16, location: &str, expected: Option<(&Method, &str)>) {
        let asked: Uri = "http://old.test:81/a/b/c?q=1".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, location.parse().unwrap());
        let found = next(method, &asked, StatusCode::from_u16(status).unwrap(), &headers);
        let found = found.map(|(method, uri)| (method, uri.to_string()));
        assert_eq!(found, expected.map(|(method, uri)| (method.clone(), uri.to_owned())), "{location}");
    }

    #[test]
    fn a_reference_is_resolved_as_rfc_3986_says() {
        for (location, expected) in [
            ("http://old.test:81/x", "http://old.test:81/x"),
            ("HTTP://OLD.TEST:81/x", "http://OLD.TEST:81/x"),
            ("//old.test:81/x", "http://old.test:81/x"),
            ("/x?y", "http://old.test:81/x?y"),
            ("x", "http://old.test:81/a/b/x"),
            ("../x#part", "http://old.test:81/a/x"),
            ("../../../x/./y/..", "http://old.test:81/x/"),
            ("?z", "http://old.test:81/a/b/c?z"),
            ("", "http://old.test:81/a/b/c?q=1"),
        ] {
            check(&Method::GET, 302, location, Some((&Method::GET, expected)));
        }
    }

    #[test]
    fn no_request_leaves_its_origin() {
        for location in [
            "http://evil.test/x",
            "http://old.test/x",
            "https://old.test:81/x",
            "//evil.test/",
            "file:///etc/passwd",
            "http://old.test:81@evil.test/",
            "http://me@old.test:81/",
            "//me@old.test:81/",
        ] {
            check(&Method::GET, 302, location, None);
        }
    }

    #[test]
    fn an_unsafe_request_is_repeated_only_where_nothing_was_done() {
        check(&Method::POST, 307, "/x", Some((&Method::POST, "http://old.test:81/x")));
        check(&Method::POST, 308, "/x/", Some((&Method::POST, "http://old.test:81/x/")));
        check(&Method::POST, 307, "http://other.test:81/x", None);
        check(&Method::POST, 302, "/x", None);
        check(&Method::POST, 303, "/x", Some((&Method::GET, "http://old.test:81/x")));
        check(&Method::HEAD, 303, "/x", Some((&Method::HEAD, "http://old.test:81/x")));
        check(&Method::GET, 304, "/x", None);
    }
}
