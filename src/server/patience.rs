//! A connection whose other end may not keep us waiting: what is written must go on within a time.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Sleep, sleep};

use super::activity::Activity;

/// A stream that breaks when its peer takes nothing for too long, and tells when something went.
pub(super) struct Patient<S> {
    stream: S,
    write_timeout: Duration,
    /// Told when what is written is not taken, and how much of long answers was.
    activity: Activity,
    /// Whether it is told of whatever comes and goes, too.
    is_watched: bool,
    /// Runs while there is something to write that the peer does not take.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, write_timeout: Duration, activity: Activity, is_watched: bool) -> Self {
        Self { stream, write_timeout, activity, is_watched, stall: None }
    }

    fn moved(&self) {
        if self.is_watched {
            self.activity.moved();
        }
    }

    /// Over HTTP/2 parts of answers were taken when the next is asked for.
    fn wrote(&self, wrote: &Poll<io::Result<usize>>) {
        let Poll::Ready(wrote) = wrote else { return };
        self.moved();
        let untaken = self.activity.untaken();
        if let Ok(count) = wrote
            && !self.is_watched
            && untaken.bytes() > 0
        {
            untaken.release(*count);
        }
    }

    fn patiently<T>(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            if self.stall.take().is_some() {
                self.activity.goes_on();
            }
            return wrote;
        }
        let after = self.write_timeout;
        let stall = self.stall.get_or_insert_with(|| {
            self.activity.stalls();
            Box::pin(sleep(after))
        });
        ready!(stall.as_mut().poll(context));
        let why = format!("the client took nothing for {after:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: Read + Unpin> Read for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.moved();
        }
        read
    }
}

impl<S: Write + Unpin> Write for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(&wrote);
        self.patiently(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wrote(&wrote);
        self.patiently(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.patiently(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.patiently(context, shut)
    }
}
