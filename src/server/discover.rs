//! Discovery of MCP upstreams: lists are fetched at the start, on `list_changed`, and periodically.

use std::time::Duration;

use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    policy::jitter,
    route::UpstreamName,
    telemetry::Chain,
    upstream::mcp::{McpLists, McpUpstream, WantedLists},
};

/// The current lists of an upstream.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) upstream: UpstreamName,
    pub(super) lists: McpLists,
}

/// Polls one upstream until dropped.
#[derive(Debug)]
pub(super) struct Discovery(AbortHandle);

impl Drop for Discovery {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Initial and maximum backoff after a failure.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Delay after `list_changed`: more changes often follow.
const SETTLED: Duration = Duration::from_millis(100);

impl Discovery {
    /// Starts polling. Lists equal to `known` are not reported.
    pub(super) fn begin(
        upstream: McpUpstream,
        (wanted, refresh): (WantedLists, Duration),
        known: Option<McpLists>,
        found: mpsc::Sender<Found>,
    ) -> Self {
        Self(tokio::spawn(ask(upstream, (wanted, refresh), known, found)).abort_handle())
    }
}

async fn ask(
    upstream: McpUpstream,
    (wanted, refresh): (WantedLists, Duration),
    mut known: Option<McpLists>,
    found: mpsc::Sender<Found>,
) {
    let name = upstream.name().clone();
    let mut changes = upstream.changes();
    // `known` is recent.
    let mut wait = if known.is_some() { refresh } else { Duration::ZERO };
    let mut failures = 0_u32;
    loop {
        // Fetch at once after a reconnect.
        if let Ok(Ok(())) = timeout(jitter(wait), changes.changed()).await {
            sleep(SETTLED).await;
            changes.mark_unchanged();
        }
        let (lists, error) = match upstream.list(wanted, known.as_ref()).await {
            Ok((lists, error)) => (Some(lists), error),
            Err(error) => (None, Some(error)),
        };
        if let Some(lists) = lists.filter(|lists| known.as_ref().is_none_or(|known| !known.are_same(lists))) {
            known = Some(lists.clone());
            if found.send(Found { upstream: name.clone(), lists }).await.is_err() {
                return;
            }
        }
        let Some(error) = error else {
            if failures > 0 {
                info!(upstream = %name, "the server lists what it has again");
            }
            (failures, wait) = (0, refresh);
            continue;
        };
        wait = (AGAIN.0 * (1 << failures.min(16))).min(AGAIN.1);
        if failures == 0 {
            warn!(upstream = %name, error = %Chain(&error), "the server does not list what it has: it is asked again");
        } else {
            debug!(upstream = %name, error = %Chain(&error), failures, "the server does not list what it has yet");
        }
        failures = failures.saturating_add(1);
    }
}
