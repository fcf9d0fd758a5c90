//! Resource reads: calls with the arguments in a URI, and their results as resource contents.

use std::time::Duration;

use http::HeaderMap;

use super::run::CallRun;
use super::{Call, Snapshot, error_text};
use crate::model::{
    ErrorType, ResourceBody, ResourceContents, ResourceContext, ToolOutcome, ToolResult, UpstreamResponse,
};
use crate::policy::CacheControl;
use crate::route::Route;
use crate::translate::empty_success_text;

/// Result of a resource read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadResource {
    /// Contents, at least one.
    pub contents: Vec<ResourceContents>,
    /// Time for which clients may cache the contents. Zero if the upstream sends none.
    pub ttl: Duration,
    /// Whether caches may share the contents between clients.
    pub is_public: bool,
}

/// Reason why a resource or a prompt can't be fetched. `Display` is the message for clients that read a
/// resource. The message for clients that request a prompt is built from the string in the variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// No route has a resource with this URI.
    #[error("unknown resource; `resources/list` and `resources/templates/list` list the available ones")]
    Unknown,
    /// The upstream reports that the resource does not exist.
    #[error("resource not found: {0}")]
    Missing(String),
    /// The arguments in the URI, or of the prompt, are invalid.
    #[error("no resource can have this URI: {0}")]
    Arguments(String),
    /// Any other failure.
    #[error("the resource can't be read: {0}")]
    Failed(String),
}

/// Maximum time to live; a longer time is reduced to this.
const MAX_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// Time to live of resource contents, and whether shared caches may store them, according to the headers of
/// the upstream (RFC 9111, section 5.2.2).
fn freshness(headers: &HeaderMap) -> (Duration, bool) {
    let control = CacheControl::from_headers(headers);
    if control.no_store || control.no_cache {
        return (Duration::ZERO, false);
    }
    // A cache between the upstream and glossator has used up a part of the lifetime (`Age`).
    let ttl = control.max_age.unwrap_or_default().min(MAX_TTL).saturating_sub(control.age);
    (ttl, control.public && !control.private)
}

impl Snapshot {
    /// Reads a resource. The arguments in the URI replace the arguments of `call`. Dropping the future
    /// cancels the upstream request.
    ///
    /// # Errors
    ///
    /// [`FetchError`] if no route has a resource with this URI, or the read fails.
    pub async fn read(&self, uri: &str, call: Call<'_>) -> Result<ReadResource, FetchError> {
        let unknown = || match self.awaited.resources {
            true => FetchError::Failed(error_text::NOT_READY.to_owned()),
            false => FetchError::Unknown,
        };
        let (route, arguments) = self.table.by_uri(uri).ok_or_else(unknown)?;
        let mut run = CallRun::new(self, route, Call { arguments: arguments.into(), ..call }, None);
        let result = run.result().await;
        let response = run.response.take();
        resource_from_result(route, uri, &run.finish(result), response.as_ref())
    }
}

/// Converts a tool result to resource contents.
pub(super) fn resource_from_result(
    route: &Route,
    uri: &str,
    result: &ToolResult,
    response: Option<&UpstreamResponse>,
) -> Result<ReadResource, FetchError> {
    if let ToolOutcome::Error(error_type) = result.outcome {
        let message = result.message();
        return Err(match error_type {
            ErrorType::Arguments => FetchError::Arguments(message),
            ErrorType::Upstream { status: 404 | 410 }
            | ErrorType::ReportedError { status: Some(404 | 410) } => FetchError::Missing(message),
            _ => FetchError::Failed(message),
        });
    }
    let media_type = response.and_then(UpstreamResponse::media_type);
    let context = ResourceContext {
        uri,
        declared_type: route.resource.as_ref().and_then(|resource| resource.media_type.as_deref()),
        upstream_type: media_type.as_deref(),
    };
    let mut contents = context.contents_of(result);
    // An empty document stays empty. A tool result would have a sentence instead.
    if let [ResourceContents { body: ResourceBody::Text(text), .. }] = &mut contents[..]
        && response.is_some_and(|response| response.body.is_empty() && empty_success_text(response) == *text)
    {
        text.clear();
    }
    let (ttl, is_public) = response.map(|response| freshness(&response.headers)).unwrap_or_default();
    // Forwarded headers of the client may determine the contents.
    let is_public = is_public && !route.request.forwards_headers();
    Ok(ReadResource { contents, ttl, is_public })
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::*;

    #[test]
    fn freshness_is_read_from_the_response_headers() {
        for (cache_control, age, ttl, is_public) in [
            ("", "", 0, false),
            ("max-age=60", "", 60, false),
            ("public, max-age=60", "", 60, true),
            ("Public,Max-Age=\"60\"", "20", 40, true),
            ("max-age=60", "70", 0, false),
            ("public, private, max-age=60", "", 60, false),
            ("public, max-age=60, no-cache", "", 0, false),
            ("no-store, max-age=60", "", 0, false),
            ("max-age=-1", "", 0, false),
            ("max-age=99999999999", "", 30 * 24 * 3600, false),
            ("public, max-age=99999999999999999999999", "x", 30 * 24 * 3600, true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
            headers.insert(header::AGE, HeaderValue::from_static(age));
            assert_eq!(freshness(&headers), (Duration::from_secs(ttl), is_public), "{cache_control}");
        }
    }
}
