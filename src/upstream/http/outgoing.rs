//! The body of a request.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// What is sent.
pub(super) enum Outgoing {
    /// A whole body, until it was taken; none where it is empty.
    Whole(Option<Bytes>),
    /// One that is passed through.
    Passed(UnsyncBoxBody<Bytes, BoxError>),
}

impl Outgoing {
    pub(super) fn whole(content: Bytes) -> Self {
        Self::Whole(Some(content).filter(|content| !content.is_empty()))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            Self::Whole(content) => Poll::Ready(content.take().map(|content| Ok(Frame::data(content)))),
            Self::Passed(body) => {
                Pin::new(body).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(BrokenOff)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(content) => content.is_none(),
            Self::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(content) => SizeHint::with_exact(content.as_ref().map_or(0, Bytes::len) as u64),
            Self::Passed(body) => body.size_hint(),
        }
    }
}

/// Why the rest of a body that is passed through does not come.
#[derive(Debug)]
pub(super) struct BrokenOff(BoxError);

impl fmt::Display for BrokenOff {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for BrokenOff {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
