//! A request's body on standard input.

use std::{
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll, ready},
    thread,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// How much is read at a time, at most.
const PIECE_BYTES: usize = 64 << 10;

/// What a web server has to say of the body. Read on a thread of its own, since standard input can't be waited for
/// otherwise, a piece ahead, and only when it is asked for.
pub struct Input {
    source: Option<Box<dyn Read + Send>>,
    pieces: Option<mpsc::Receiver<io::Result<Bytes>>>,
    left: Option<u64>,
}

impl Input {
    /// Reads from here.
    pub fn new(source: impl Read + Send + 'static) -> Self {
        Self { source: Some(Box::new(source)), pieces: None, left: Some(0) }
    }

    /// The same of so many bytes; `None` to the end.
    pub(super) fn of_length(self, left: Option<u64>) -> Self {
        Self { left, ..self }
    }

    fn pieces(&mut self) -> io::Result<&mut mpsc::Receiver<io::Result<Bytes>>> {
        if let Some(source) = self.source.take() {
            let (sender, pieces) = mpsc::channel(1);
            let left = self.left;
            thread::Builder::new().name("input".to_owned()).spawn(move || read(source, left, &sender))?;
            self.pieces = Some(pieces);
        }
        self.pieces.as_mut().ok_or_else(|| io::Error::other("the body was read before"))
    }
}

impl Body for Input {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let piece = ready!(self.pieces()?.poll_recv(context)).transpose()?;
        match (piece, &mut self.left) {
            (Some(piece), left) => {
                if let Some(left) = left {
                    *left = left.saturating_sub(piece.len() as u64);
                }
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            (None, None) => {
                self.left = Some(0);
                Poll::Ready(None)
            }
            (None, Some(_)) => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Reads until there is enough, the end, or nobody who waits.
fn read(mut source: Box<dyn Read + Send>, mut left: Option<u64>, sender: &mpsc::Sender<io::Result<Bytes>>) {
    while left != Some(0) {
        let most =
            left.map_or(PIECE_BYTES, |left| usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES));
        let mut piece = vec![0; most];
        let found = match source.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => {
                piece.truncate(count);
                left = left.map(|left| left - count as u64);
                Ok(piece.into())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = found.is_err();
        if sender.blocking_send(found).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn collected(text: &'static str, length: Option<u64>) -> io::Result<Bytes> {
        Ok(Input::new(text.as_bytes()).of_length(length).collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn exactly_what_was_announced_is_read() {
        assert_eq!(collected("12345", Some(3)).await.unwrap(), "123");
        assert_eq!(collected("12345", Some(5)).await.unwrap(), "12345");
        assert_eq!(collected("12345", Some(0)).await.unwrap(), "");
        assert_eq!(collected("12345", None).await.unwrap(), "12345");
        assert_eq!(collected("12345", Some(6)).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn nothing_is_read_of_a_body_that_nobody_asks_for() {
        struct Never;
        impl Read for Never {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("it was read")
            }
        }
        let input = Input::new(Never).of_length(Some(7));
        assert_eq!(input.size_hint().exact(), Some(7));
        assert!(!input.is_end_stream());
    }
}
