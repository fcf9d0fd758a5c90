//! Where a `Location` points to, seen from what was asked.

use http::{Uri, uri::Scheme};

/// Whether scheme, host and port are the same.
pub fn same_origin(left: &Uri, right: &Uri) -> bool {
    let default = if left.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let port = |uri: &Uri| uri.port_u16().unwrap_or(default);
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    left.scheme() == right.scheme() && host(left) == host(right) && port(left) == port(right)
}

/// Resolves a reference against the URI that was asked (RFC 3986, section 5.2).
pub fn resolve(asked: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next()?;
    let scheme = asked.scheme_str()?;
    let authority = asked.authority()?;
    if let Some(rest) = location.strip_prefix("//") {
        return without_user(format!("{scheme}://{rest}").parse().ok()?);
    }
    let before_path = location.find(['/', '?']).unwrap_or(location.len());
    if location[..before_path].contains(':') {
        return without_user(location.parse().ok()?);
    }
    let (path, query) = match location.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (location, None),
    };
    let merged = if path.is_empty() {
        asked.path().to_owned()
    } else if path.starts_with('/') {
        without_dot_segments(path)
    } else {
        let folder = asked.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        without_dot_segments(&format!("{folder}/{path}"))
    };
    let query = if path.is_empty() && query.is_none() { asked.query() } else { query };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}{merged}{query}").parse().ok()
}

/// A user in it would be sent on as a part of the host.
fn without_user(uri: Uri) -> Option<Uri> {
    (!uri.authority()?.as_str().contains('@')).then_some(uri)
}

fn without_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if last {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}
