//! CORS: whether the web page of another origin may read a response, and responses to preflight requests.

use axum::{body::Body, response::IntoResponse as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// Web page of another origin that sent the request, if any: whether the page may read the response (Fetch,
/// "CORS protocol"), or only links to this server.
#[derive(Debug, Default)]
pub struct CrossOriginPage {
    /// Value of `Access-Control-Allow-Origin`; `None` if the page may not read the response.
    pub(super) allowed_origin: Option<HeaderValue>,
    /// Whether the request is a navigation: a user follows a link on a page that may not call this server.
    /// The browser may show the target of the link, but the request can't call a tool.
    pub is_navigation: bool,
}

impl CrossOriginPage {
    /// Adds the CORS headers that let the page read the response.
    pub fn allow_read(self, mut response: Response<Body>) -> Response<Body> {
        let Some(origin) = self.allowed_origin else { return response };
        let exposed = HeaderValue::from_static("mcp-session-id, retry-after, www-authenticate, x-request-id");
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        response
    }

    /// Responds to `OPTIONS`: to a CORS preflight request, and to any other. `methods` is a list such as
    /// `POST, OPTIONS`.
    pub fn options(&self, request: &HeaderMap, methods: &str) -> Response<Body> {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        let methods = HeaderValue::from_str(methods).expect("methods have visible ASCII characters only");
        headers.insert(header::ALLOW, methods.clone());
        let is_preflight = request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if is_preflight && self.allowed_origin.is_some() {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            // The names of `Mcp-Param-…` headers are not known in advance, so all requested headers are
            // allowed.
            if let Some(requested) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
            }
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
        response
    }
}
