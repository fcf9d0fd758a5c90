//! Arguments to what an upstream is asked, in the words of its kind.
//!
//! `http` for those that speak HTTP.

mod http;

use ::http::HeaderMap;

use crate::tool::Arguments;

pub use self::http::{BodyTemplate, HttpRequest, HttpTemplate, JsonTemplate, Under, ValueTemplate};

/// How what the upstream is asked is made of a call's arguments.
#[derive(Debug)]
pub enum RequestTemplate {
    /// By HTTP, or by a CGI program that takes it for HTTP.
    Http(HttpTemplate),
}

/// What an upstream is asked.
#[derive(Debug, Clone)]
pub enum UpstreamRequest {
    /// By HTTP, or by a CGI program that takes it for HTTP.
    Http(HttpRequest),
}

/// Why arguments can't be put into a request. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(String);

impl RequestError {
    pub(super) fn new(sentence: &str) -> Self {
        Self(sentence.to_owned())
    }
}

impl RequestTemplate {
    /// Makes the request of a call; `caller` are the headers that the client sent.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when an argument is missing or can't be written where it belongs.
    pub fn build(&self, arguments: &Arguments, caller: &HeaderMap) -> Result<UpstreamRequest, RequestError> {
        match self {
            Self::Http(template) => template.build(arguments, caller).map(UpstreamRequest::Http),
        }
    }

    /// Whether it only reads (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        match self {
            Self::Http(template) => template.method.is_safe(),
        }
    }

    /// Whether asking twice does what asking once does (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Http(template) => template.method.is_idempotent(),
        }
    }

    /// Such as `` `POST` request``.
    pub fn in_words(&self) -> String {
        match self {
            Self::Http(template) => format!("`{}` request", template.method),
        }
    }

    /// Whether headers of the caller are in it.
    pub fn forwards_headers(&self) -> bool {
        match self {
            Self::Http(template) => !template.forwarded.is_empty(),
        }
    }
}

impl UpstreamRequest {
    /// Whether it only reads (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        match self {
            Self::Http(request) => request.method.is_safe(),
        }
    }

    /// Whether asking twice does what asking once does (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Http(request) => request.method.is_idempotent(),
        }
    }

    /// Where a header can be added, for what has any.
    pub fn headers_mut(&mut self) -> Option<&mut HeaderMap> {
        match self {
            Self::Http(request) => Some(&mut request.headers),
        }
    }
}

impl From<HttpRequest> for UpstreamRequest {
    fn from(request: HttpRequest) -> Self {
        Self::Http(request)
    }
}

impl From<HttpTemplate> for RequestTemplate {
    fn from(template: HttpTemplate) -> Self {
        Self::Http(template)
    }
}
