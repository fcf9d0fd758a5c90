//! The body of an answer that is there in several parts.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::tool::Written;

/// What was written as a body, its parts sent on as they are.
pub(super) fn body(written: Written) -> Body {
    let parts = written.into_parts();
    match parts.iter().skip(1).all(Bytes::is_empty) {
        true => {
            let [whole, ..] = parts;
            Body::from(whole)
        }
        false => Body::new(Parts { parts, next: 0 }),
    }
}

struct Parts {
    parts: [Bytes; 3],
    next: usize,
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while let Some(part) = {
            let next = self.next;
            self.parts.get_mut(next)
        } {
            let part = std::mem::take(part);
            self.next += 1;
            if !part.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.parts.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn all_parts_are_sent_and_their_length_is_known() {
        let parts = ["one ", "", "two"].map(|part| Bytes::from_static(part.as_bytes()));
        let body = Parts { parts, next: 0 };
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(7), false));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "one two");
    }
}
