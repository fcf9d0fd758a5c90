//! What a browser is told about who may read our answers.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// A web page of another origin that sends the request, if one does: whether it may read what we answer (Fetch, "CORS
/// protocol"), or only leads here.
#[derive(Debug, Default)]
pub struct Page {
    reader: Option<HeaderValue>,
    has_link: bool,
}

impl Page {
    pub(super) fn of(origin: HeaderValue) -> Self {
        Self { reader: Some(origin), has_link: false }
    }

    pub(super) fn with_link() -> Self {
        Self { reader: None, has_link: true }
    }

    /// Whether somebody follows a link of a page that may not call: good for what is shown, and for no call.
    pub fn has_link(&self) -> bool {
        self.has_link
    }

    /// Tells its browser to let it read the response.
    pub fn let_read(self, response: &mut HeaderMap) {
        let Some(origin) = self.reader else { return };
        response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("mcp-session-id, www-authenticate, x-request-id"),
        );
        response.append(header::VARY, HeaderValue::from_static("origin"));
    }

    /// Answers `OPTIONS`: its browser's question whether the request it has in mind is welcome, or a plain one.
    /// `methods` as in `POST, OPTIONS`.
    pub fn options(&self, request: &HeaderMap, methods: &str) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let methods = HeaderValue::from_str(methods).expect("methods have visible ASCII characters only");
        headers.insert(header::ALLOW, methods.clone());
        if self.reader.is_some() && request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            // `Mcp-Param-…` headers are not known beforehand, so whatever is asked for is granted.
            if let Some(wanted) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
            }
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
        response
    }
}
