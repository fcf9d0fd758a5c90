//! Hands a request through to an upstream, and its reply back, unread.

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Either, combinators::UnsyncBoxBody};

use super::{
    HttpUpstream, UpstreamError,
    client::{BoxError, Outgoing},
    remove_hop_by_hop,
};

/// The body of a reply that is passed through, as it comes in.
pub use hyper::body::Incoming as StreamedBody;

/// A reply that is passed through: its headers read, its body not.
pub type Streamed = Response<StreamedBody>;

impl HttpUpstream {
    /// Sends a request as it is and gives the reply as it comes: nothing is buffered, limited or understood.
    ///
    /// Method, path, query, body and end-to-end headers cross unchanged; headers of one hop do not, nor does
    /// `Expect`, which this program has answered itself. `Host` becomes the upstream's, as an old server knows
    /// itself by that name only. The upstream's own `headers` setting is not added: a credential that belongs
    /// to routes is not lent to whoever asks.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], when no head of a reply comes. What goes wrong later breaks the body off.
    pub async fn stream<B>(&self, request: Request<B>) -> Result<Streamed, UpstreamError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut head, body) = request.into_parts();
        let root = PathAndQuery::from_static("/");
        head.uri = self
            .address()
            .join(head.uri.path_and_query().unwrap_or(&root))
            .map_err(|source| self.unsendable(source))?;
        head.version = self.version();
        head.extensions.clear();
        remove_hop_by_hop(&mut head.headers);
        head.headers.remove(header::EXPECT);
        let host = HeaderValue::from_str(self.address().authority().as_str())
            .expect("an authority has visible ASCII characters only");
        head.headers.insert(header::HOST, host);
        let body: Outgoing = Either::Right(UnsyncBoxBody::new(body.map_err(Into::into)));
        let mut reply = self.send(Request::from_parts(head, body)).await?;
        remove_hop_by_hop(reply.headers_mut());
        Ok(reply)
    }
}
