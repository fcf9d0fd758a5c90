//! The moment before bytes go out, to clients and to upstreams.

use std::{future::poll_fn, task::Poll};

/// Lets every task have a turn first that could go on now.
///
/// Before something is written: that wakes who reads it, on another processor, which costs as much as the writing. Where
/// many calls go on they are worked on first and written one after the other, and who was woken by the first is awake
/// for the rest. That saves 3 of 30 µs of a small call. `tokio::task::yield_now` also looks for events of sockets
/// before the task goes on, which is a system call more for each write.
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

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
