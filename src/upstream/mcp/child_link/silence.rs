//! Whether a child that a call was given up on still does anything: it is asked, and ended where it says nothing.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::Map;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::timeout,
};
use tracing::warn;

use crate::{route::UpstreamName, upstream::mcp::message};

/// How long a child may say nothing at all after a call was given up on, not even to the question whether it is there. A
/// child that works on one thing at a time answers late; whatever it says will do.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// The id of the question; those of calls begin with 1.
const PING_ID: u64 = 0;

/// Looks after one child until it has ended.
pub(super) struct Watchman {
    pub(super) name: UpstreamName,
    /// A call was given up on.
    pub(super) doubt: Arc<Notify>,
    /// The child has written a line.
    pub(super) heard: Arc<Notify>,
    pub(super) out: mpsc::Sender<Bytes>,
    pub(super) over: watch::Sender<bool>,
    /// Set where the child is ended for what it does, and not because nobody wants it any more.
    pub(super) ended_first: Arc<AtomicBool>,
}

impl Watchman {
    pub(super) async fn watch(self) {
        let mut ended = self.over.subscribe();
        tokio::select! {
            _ = ended.wait_for(|over| *over) => {}
            () = self.until_it_hangs() => {
                let after = SILENCE_LIMIT;
                warn!(upstream = %self.name, ?after, "the program answers nothing any more: it is ended");
                self.ended_first.store(true, Ordering::Relaxed);
                self.over.send_replace(true);
            }
        }
    }

    async fn until_it_hangs(&self) {
        loop {
            self.doubt.notified().await;
            let mut heard = pin!(self.heard.notified());
            heard.as_mut().enable();
            // A child that does not read is not asked, and does not answer.
            let _ = self.out.try_send(message::request(PING_ID, "ping", Map::new()));
            if timeout(SILENCE_LIMIT, heard).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance, sleep};

    use super::*;

    struct Child {
        doubt: Arc<Notify>,
        heard: Arc<Notify>,
        asked: mpsc::Receiver<Bytes>,
        over: watch::Receiver<bool>,
        ended_first: Arc<AtomicBool>,
    }

    fn child() -> Child {
        let (doubt, heard, ended_first) = <(Arc<Notify>, Arc<Notify>, Arc<AtomicBool>)>::default();
        let ((out, asked), (over, is_over)) = (mpsc::channel(4), watch::channel(false));
        let watchman = Watchman {
            name: "old".parse().unwrap(),
            doubt: doubt.clone(),
            heard: heard.clone(),
            out,
            over,
            ended_first: ended_first.clone(),
        };
        tokio::spawn(watchman.watch());
        Child { doubt, heard, asked, over: is_over, ended_first }
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_says_nothing_after_a_call_was_given_up_is_ended() {
        let mut child = child();
        child.doubt.notify_one();
        let began = Instant::now();
        let asked = child.asked.recv().await.unwrap();
        assert!(std::str::from_utf8(&asked).unwrap().contains(r#""method":"ping""#), "{asked:?}");
        child.over.wait_for(|over| *over).await.unwrap();
        assert_eq!(began.elapsed(), SILENCE_LIMIT);
        assert!(child.ended_first.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_says_anything_goes_on() {
        let mut child = child();
        for _ in 0..3 {
            child.doubt.notify_one();
            child.asked.recv().await.unwrap();
            sleep(SILENCE_LIMIT - Duration::from_secs(1)).await;
            child.heard.notify_waiters();
            sleep(SILENCE_LIMIT * 2).await;
        }
        assert!(!*child.over.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_nobody_waited_for_in_vain_may_be_silent() {
        let child = child();
        advance(SILENCE_LIMIT * 100).await;
        sleep(Duration::from_secs(1)).await;
        assert!(!*child.over.borrow() && child.asked.is_empty());
    }
}
