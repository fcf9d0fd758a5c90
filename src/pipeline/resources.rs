//! Resource reads: calls with the arguments in a URI, and their results as resource contents.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};

use super::run::CallRun;
use super::{Call, NoElicitor, Snapshot, error_text};
use crate::model::{
    ErrorType, ResourceBody, ResourceContents, ResourceContext, ToolOutcome, ToolResult, UpstreamResponse,
};
use crate::route::Route;
use crate::translate::empty_success_text;

/// Result of a resource read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadResource {
    /// Contents, at least one.
    pub contents: Vec<ResourceContents>,
    /// Cache control for clients.
    pub freshness: Freshness,
}

/// Reason why a read failed. The text is for clients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceReadError {
    /// No route has a resource with this URI.
    #[error("unknown resource; `resources/list` and `resources/templates/list` list the available ones")]
    Unknown,
    /// The upstream reports that it does not exist.
    #[error("resource not found: {0}")]
    Missing(String),
    /// The URI has invalid arguments.
    #[error("no resource can have this URI: {0}")]
    Arguments(String),
    /// Any other failure.
    #[error("the resource can't be read: {0}")]
    Failed(String),
}

/// Cache control of contents, as the upstream sends it (RFC 9111, section 5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// Time to live. Zero if the upstream sends none.
    pub ttl: Duration,
    /// Caches that may store it.
    pub scope: CacheScope,
}

/// Caches that may store contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// Shared caches, for all clients.
    Public,
    /// Private caches, for the client that made the request.
    Private,
}

/// Headers of a response that are needed after its translation.
#[derive(Debug, Clone)]
pub(super) struct ResponseHeaders {
    media_type: Option<String>,
    /// Text of the result if the response has no body.
    nothing: Option<String>,
    freshness: Freshness,
    pub(super) etag: Option<HeaderValue>,
    pub(super) last_modified: Option<HeaderValue>,
}

impl ResponseHeaders {
    pub(super) fn from_response(response: &UpstreamResponse) -> Self {
        Self {
            media_type: response.media_type().map(Into::into),
            nothing: response.body.is_empty().then(|| empty_success_text(response)),
            freshness: Freshness::from_headers(&response.headers),
            etag: response.headers.get(header::ETAG).cloned(),
            last_modified: response.headers.get(header::LAST_MODIFIED).cloned(),
        }
    }
}

impl Freshness {
    /// Not cacheable.
    const NONE: Self = Self { ttl: Duration::ZERO, scope: CacheScope::Private };
    /// Maximum time to live; a longer one is reduced to it.
    const MAX_COUNT: Duration = Duration::from_secs(30 * 24 * 3600);

    fn from_headers(headers: &HeaderMap) -> Self {
        let (mut ttl, mut public, mut private) = (Duration::ZERO, false, false);
        let values = headers.get_all(header::CACHE_CONTROL).into_iter();
        let directives = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        for directive in directives {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" | "no-cache" => return Self::NONE,
                "public" => public = true,
                "private" => private = true,
                "max-age" => ttl = seconds(value),
                _ => {}
            }
        }
        // An earlier cache has used up a part of the lifetime.
        let age =
            headers.get(header::AGE).and_then(|value| value.to_str().ok()).map_or(Duration::ZERO, seconds);
        let scope = if public && !private { CacheScope::Public } else { CacheScope::Private };
        Self { ttl: ttl.saturating_sub(age), scope }
    }
}

fn seconds(text: &str) -> Duration {
    let seconds = text.trim().trim_matches('"').parse().map(Duration::from_secs);
    seconds.unwrap_or_default().min(Freshness::MAX_COUNT)
}

impl Snapshot {
    /// Reads a resource. The arguments of `call` are replaced by those in the URI. Dropping the future
    /// cancels the upstream request.
    ///
    /// # Errors
    ///
    /// [`ResourceReadError`] if there is no such resource, or the read fails.
    pub async fn read(&self, uri: &str, call: Call<'_>) -> Result<ReadResource, ResourceReadError> {
        let unknown = || match self.awaited.resources {
            true => ResourceReadError::Failed(error_text::NOT_READY.to_owned()),
            false => ResourceReadError::Unknown,
        };
        let (route, arguments) = self.table.by_uri(uri).ok_or_else(unknown)?;
        let mut no_elicitor = NoElicitor;
        let mut run = CallRun::new(self, route, Call { arguments, ..call }, &mut no_elicitor);
        let result = run.result().await;
        let headers = run.response.take();
        read_of(route, uri, &run.finish(result), headers.as_ref())
    }
}

/// Converts a tool result to resource contents.
pub(super) fn read_of(
    route: &Route,
    uri: &str,
    result: &ToolResult,
    head: Option<&ResponseHeaders>,
) -> Result<ReadResource, ResourceReadError> {
    if let ToolOutcome::Error(error_type) = result.outcome {
        let words = text_of(result);
        return Err(match error_type {
            ErrorType::Arguments => ResourceReadError::Arguments(words),
            ErrorType::Upstream { status: 404 | 410 }
            | ErrorType::ReportedError { status: Some(404 | 410) } => ResourceReadError::Missing(words),
            _ => ResourceReadError::Failed(words),
        });
    }
    let of = ResourceContext {
        uri,
        declared: route.resource.as_ref().and_then(|resource| resource.media_type.as_deref()),
        replied: head.and_then(|head| head.media_type.as_deref()),
    };
    let mut contents = of.result(result);
    // An empty document stays empty, instead of the sentence that a tool result would have.
    if let [ResourceContents { body: ResourceBody::Text(text), .. }] = &mut contents[..]
        && head.is_some_and(|head| head.nothing.as_ref() == Some(text))
    {
        text.clear();
    }
    let mut freshness = head.map_or(Freshness::NONE, |head| head.freshness);
    if route.request.forwards_headers() {
        // Forwarded headers of the client may determine the contents.
        freshness.scope = CacheScope::Private;
    }
    Ok(ReadResource { contents, freshness })
}

/// Text of a tool error.
fn text_of(result: &ToolResult) -> String {
    let structured = result.structured.as_ref();
    let texts = result.content.iter().filter_map(|content| content.block.text(structured));
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_is_read_from_the_response_headers() {
        for (cache_control, age, ttl, scope) in [
            ("", "", 0, CacheScope::Private),
            ("max-age=60", "", 60, CacheScope::Private),
            ("public, max-age=60", "", 60, CacheScope::Public),
            ("Public,Max-Age=\"60\"", "20", 40, CacheScope::Public),
            ("max-age=60", "70", 0, CacheScope::Private),
            ("public, private, max-age=60", "", 60, CacheScope::Private),
            ("public, max-age=60, no-cache", "", 0, CacheScope::Private),
            ("no-store, max-age=60", "", 0, CacheScope::Private),
            ("max-age=-1", "", 0, CacheScope::Private),
            ("max-age=99999999999", "", 30 * 24 * 3600, CacheScope::Private),
            ("public, max-age=99999999999999999999999", "x", 0, CacheScope::Public),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
            headers.insert(header::AGE, HeaderValue::from_static(age));
            let expected = Freshness { ttl: Duration::from_secs(ttl), scope };
            assert_eq!(Freshness::from_headers(&headers), expected, "{cache_control}");
        }
    }
}
