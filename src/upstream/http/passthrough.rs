//! Passthrough: forwards a request and its response unmodified.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, header, uri::PathAndQuery};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Instant;

use super::client::send_to;
use super::connection::RequestBody;
use super::endpoints::InFlightRequest;
use super::response::remove_hop_by_hop;
use super::{AttemptedEndpoints, HttpUpstream, ResponseBody};
use crate::telemetry::CallContext;
use crate::upstream::Failure;
use crate::wire::{MapPoll, PolledFrame};

/// Response body that is streamed to a client. It counts as a request in flight at its endpoint until it is
/// dropped.
pub type StreamedBody = UnsyncBoxBody<Bytes, hyper::Error>;

impl HttpUpstream {
    /// Forwards a request and streams the response: nothing is buffered, limited or parsed.
    ///
    /// Method, path, query, body and end-to-end headers are unchanged, with these exceptions:
    ///
    /// - Hop-by-hop headers are removed, and `Expect`, which glossator has handled itself.
    /// - `Host` becomes the upstream's, as a legacy server may know no other name; or the one in its
    ///   `headers`, which only requests between replicas have.
    /// - The upstream's other `headers` are not added: credentials of routes are not for every client.
    ///
    /// If an endpoint can't be reached, another is tried. A future that is dropped after `deadline` counts as
    /// a failure of the endpoint.
    ///
    /// # Errors
    ///
    /// [`Failure`] if no response headers arrive. A later failure truncates the body.
    pub async fn stream(
        &self,
        mut request: Request<RequestBody>,
        deadline: Instant,
    ) -> Result<Response<StreamedBody>, Failure> {
        *request.version_mut() = self.settings.protocol.version();
        request.extensions_mut().clear();
        remove_hop_by_hop(request.headers_mut());
        request.headers_mut().remove(header::EXPECT);
        let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        let (tried, context) = (AttemptedEndpoints::default(), CallContext::default());
        let mut in_flight = self.endpoints.pick(&tried, deadline, &context).await?;
        loop {
            let address = &in_flight.endpoint.address;
            *request.uri_mut() = address.join(&path).map_err(|error| Failure::Unsendable(error.into()))?;
            let configured = self.settings.headers.get(header::HOST).cloned();
            let host = configured.unwrap_or_else(|| address.host_header());
            request.headers_mut().insert(header::HOST, host);
            let (failure, unsent) = match send_to(&in_flight, request).await {
                Ok(mut response) => {
                    in_flight.record(Ok(response.status()));
                    remove_hop_by_hop(response.headers_mut());
                    return Ok(response.map(|body| error_after_flush(body, in_flight)));
                }
                Err(failed) => failed,
            };
            let fails_over = self.endpoints.fail_over(&mut in_flight, &failure);
            match unsent.filter(|_| fails_over) {
                Some(unsent) => request = *unsent,
                None => return Err(failure),
            }
        }
    }
}

/// Delays an error by one poll. The server writes nothing after an error, so the bytes before it must be
/// flushed first.
fn error_after_flush(body: ResponseBody, in_flight: InFlightRequest) -> StreamedBody {
    let mut delayed = None;
    UnsyncBoxBody::new(MapPoll::new(body, move |polled: PolledFrame<_>, context: &mut Context<'_>| {
        let _ = &in_flight;
        if let Some(error) = delayed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(Some(Err(error))) = polled {
            delayed = Some(error);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        polled
    }))
}
