//! TLS handshakes that failed. They come in great numbers, from scanners and from clients that do not trust us,
//! and a line a minute says how many.

use std::{
    mem,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};
use tracing::{debug, info};

use crate::telemetry::Foreign;

/// Handshakes that failed, and are not logged yet. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct HandshakeFailures(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    unlogged: Mutex<Unlogged>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Unlogged {
    count: u64,
    last: Option<(SocketAddr, String)>,
}

impl HandshakeFailures {
    const LOG_EVERY: Duration = Duration::from_secs(60);

    /// Counts one, which has a line of its own only at `debug`.
    pub(super) fn add(&self, peer: SocketAddr, error: String) {
        debug!(%peer, error = %Foreign(&error), "TLS handshake failed");
        let mut unlogged = self.0.unlogged.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.count += 1;
        unlogged.last = Some((peer, error));
        drop(unlogged);
        self.0.came.notify_one();
    }

    /// Logs the first at once, and then those of each minute together.
    pub(super) async fn keep_logging(&self) {
        loop {
            self.0.came.notified().await;
            self.log();
            sleep(Self::LOG_EVERY).await;
        }
    }

    /// Logs those that are not logged yet.
    pub(super) fn log(&self) {
        let unlogged = mem::take(&mut *self.0.unlogged.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some((peer, error)) = unlogged.last {
            let (failures, client) = (unlogged.count, peer.ip().to_canonical());
            info!(failures, %client, error = %Foreign(&error), "TLS handshakes failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_of_a_minute_are_logged_together() {
        let failures = HandshakeFailures::default();
        let unlogged = |failures: &HandshakeFailures| failures.0.unlogged.lock().unwrap().count;
        let logging = failures.clone();
        tokio::spawn(async move { logging.keep_logging().await });
        let add = || failures.add("192.0.2.1:7".parse().unwrap(), "no".to_owned());
        add();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(unlogged(&failures), 0, "the first is logged at once");
        for _ in 0..3 {
            add();
        }
        sleep(HandshakeFailures::LOG_EVERY / 2).await;
        assert_eq!(unlogged(&failures), 3);
        sleep(HandshakeFailures::LOG_EVERY).await;
        assert_eq!(unlogged(&failures), 0);
    }
}
