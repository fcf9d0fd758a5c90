//! How bytes go out, to clients and to upstreams.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::Write;

/// What has room on the stack: a head, and a short body.
const SHORT_BYTES: usize = 1 << 10;

/// Lets every task have a turn first that could go on now.
///
/// Before something is written: that wakes who reads it, on another processor, which costs as much as the writing. Where
/// many calls go on they are worked on first and written one after the other, and who was woken by the first is awake
/// for the rest.
pub async fn others_first() {
    let mut had_theirs = false;
    poll_fn(|context| {
        if had_theirs {
            return Poll::Ready(());
        }
        had_theirs = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Writes as `poll_write_vectored` does. Short parts are put together first: the system takes one piece quicker than some.
pub fn poll_write_parts<W: Write + Unpin>(
    stream: &mut W,
    context: &mut Context<'_>,
    parts: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let stream = Pin::new(stream);
    let length = parts.iter().map(|part| part.len()).sum();
    match parts {
        [part] => stream.poll_write(context, part),
        parts if length <= SHORT_BYTES => {
            let mut together = [0; SHORT_BYTES];
            let mut filled = 0;
            for part in parts {
                together[filled..][..part.len()].copy_from_slice(part);
                filled += part.len();
            }
            stream.poll_write(context, &together[..length])
        }
        parts => stream.poll_write_vectored(context, parts),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, task::Waker};

    use super::*;

    /// What was written, and in how many parts.
    #[derive(Default)]
    struct Written(Vec<(usize, Vec<u8>)>);

    impl Write for Written {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push((1, bytes.to_vec()));
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let bytes = parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<_>>();
            self.0.push((parts.len(), bytes.clone()));
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn short_parts_go_out_as_one_and_long_ones_as_they_are() {
        for (head, body, written_parts) in
            [(0, 0, 1), (3, 0, 1), (24, SHORT_BYTES - 24, 1), (24, SHORT_BYTES - 23, 2)]
        {
            let (head, body) = (vec![b'h'; head], vec![b'b'; body]);
            let mut written = Written::default();
            let parts = [IoSlice::new(&head), IoSlice::new(&body)];
            let length = head.len() + body.len();
            let wrote = poll_write_parts(&mut written, &mut Context::from_waker(Waker::noop()), &parts);
            assert_eq!(wrote.map(Result::unwrap), Poll::Ready(length));
            assert_eq!(written.0, [(written_parts, [head, body].concat())]);
        }
        let long = vec![b'b'; 2 * SHORT_BYTES];
        let mut written = Written::default();
        let _ =
            poll_write_parts(&mut written, &mut Context::from_waker(Waker::noop()), &[IoSlice::new(&long)]);
        assert_eq!(written.0, [(1, long)], "one part needs no list of them");
    }

    #[tokio::test]
    async fn all_is_worked_on_before_the_first_is_written() {
        let done = RefCell::new(Vec::new());
        let call = |name| {
            let done = &done;
            async move {
                done.borrow_mut().push(("worked on", name));
                others_first().await;
                done.borrow_mut().push(("written", name));
            }
        };
        tokio::join!(biased; call(1), call(2));
        assert_eq!(*done.borrow(), [("worked on", 1), ("worked on", 2), ("written", 1), ("written", 2)]);
    }
}
