//! Forwards a request to an upstream and its response back, unread.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header, uri::PathAndQuery};
use http_body::Body;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use tokio::time::Instant;

use super::{
    AttemptedEndpoints, HttpUpstream, UpstreamError, connection::BoxError, response::remove_hop_by_hop,
};
use crate::{
    telemetry::CallContext,
    wire::{MapPoll, PolledFrame},
};

/// The body of a response that is streamed to a client. It counts as a request of its endpoint until it is
/// dropped.
pub type StreamedBody = UnsyncBoxBody<Bytes, hyper::Error>;

impl HttpUpstream {
    /// Forwards a request as it is and streams the response: nothing is buffered, limited or parsed.
    ///
    /// Method, path, query, body and end-to-end headers are unchanged. Hop-by-hop headers are removed, and
    /// `Expect`, which this program has handled itself. `Host` becomes the upstream's, as a legacy server may
    /// have no other name. The upstream's own `headers` setting is not added: a credential of routes is not
    /// lent to every client. When an address can't be reached, another is tried.
    ///
    /// A future that is dropped after `deadline` counts as a failure of the address.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], when no head of a response arrives. A later failure breaks the body off.
    pub async fn stream<B>(
        &self,
        request: Request<B>,
        deadline: Instant,
    ) -> Result<Response<StreamedBody>, UpstreamError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut request = request.map(|body| UnsyncBoxBody::new(body.map_err(Into::into)));
        *request.version_mut() = self.shared.settings.protocol.version();
        request.extensions_mut().clear();
        remove_hop_by_hop(request.headers_mut());
        request.headers_mut().remove(header::EXPECT);
        let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        let tried = AttemptedEndpoints::default();
        let mut load = self.shared.endpoints.pick(&tried, deadline).await?;
        loop {
            let address = load.endpoint().address();
            *request.uri_mut() = address.join(&path).map_err(|source| self.unsendable(source))?;
            let host = HeaderValue::from_str(address.authority().as_str())
                .expect("an authority has visible ASCII characters only");
            request.headers_mut().insert(header::HOST, host);
            let (result, unsent) = match self.send(load.endpoint(), request).await {
                Ok(response) => (Ok(response), None),
                Err((error, unsent)) => (Err(error), unsent),
            };
            let status = result.as_ref().map(Response::status);
            let fails_over =
                self.shared.endpoints.fail_over(&mut load, &tried, &CallContext::default(), status);
            match (result, unsent) {
                (Ok(mut response), _) => {
                    remove_hop_by_hop(response.headers_mut());
                    return Ok(response.map(|body| error_after_flush(body, load)));
                }
                (Err(_), Some(unsent)) if fails_over => request = unsent,
                (Err(error), _) => return Err(error),
            }
        }
    }
}

/// Delays an error by one poll: the server writes nothing after it, and the bytes before it are written
/// first.
fn error_after_flush<B, H>(body: B, held: H) -> UnsyncBoxBody<Bytes, B::Error>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send + Unpin,
    H: Send + Unpin + 'static,
{
    let mut delayed = None;
    UnsyncBoxBody::new(MapPoll::new(body, move |polled: PolledFrame<B::Error>, context: &mut Context<'_>| {
        let _ = &held;
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
