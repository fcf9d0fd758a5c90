//! What tools MCP servers have: asked at the start, when a server says that they changed, and now and then.

use std::time::Duration;

use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    observe::Chain,
    policy::jitter,
    route::UpstreamName,
    upstream::mcp::{McpUpstream, ToolList},
};

/// The tools that a server has now.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) upstream: UpstreamName,
    pub(super) tools: ToolList,
}

/// Asks one server again and again, until this is dropped.
#[derive(Debug)]
pub(super) struct Discovery(AbortHandle);

impl Drop for Discovery {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long to wait before a server that does not answer is asked again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long to wait after a server said that its tools changed: more changes often follow.
const SETTLED: Duration = Duration::from_millis(100);

impl Discovery {
    /// Begins to ask. What is `known` already is told only when it is another list.
    pub(super) fn begin(
        upstream: McpUpstream,
        refresh: Duration,
        known: Option<ToolList>,
        found: mpsc::Sender<Found>,
    ) -> Self {
        Self(tokio::spawn(ask(upstream, refresh, known, found)).abort_handle())
    }
}

async fn ask(
    upstream: McpUpstream,
    refresh: Duration,
    mut known: Option<ToolList>,
    found: mpsc::Sender<Found>,
) {
    let name = upstream.name().clone();
    let mut changes = upstream.changes();
    // What is known already was asked for a moment ago.
    let mut wait = if known.is_some() { refresh } else { Duration::ZERO };
    let mut failures = 0_u32;
    loop {
        // A server that went away and is back is asked at once.
        if let Ok(Ok(())) = timeout(jitter(wait), changes.changed()).await {
            sleep(SETTLED).await;
            changes.mark_unchanged();
        }
        match upstream.list_tools().await {
            Ok(tools) => {
                if failures > 0 {
                    info!(upstream = %name, "the server lists its tools again");
                }
                (failures, wait) = (0, refresh);
                if known.as_ref().is_none_or(|known| !is_same(known, &tools)) {
                    known = Some(tools.clone());
                    if found.send(Found { upstream: name.clone(), tools }).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                wait = (AGAIN.0 * (1 << failures.min(16))).min(AGAIN.1);
                if failures == 0 {
                    warn!(upstream = %name, error = %Chain(&error), "the server does not list its tools: it is asked again");
                } else {
                    debug!(upstream = %name, error = %Chain(&error), failures, "the server does not list its tools yet");
                }
                failures = failures.saturating_add(1);
            }
        }
    }
}

fn is_same(list: &ToolList, other: &ToolList) -> bool {
    list.len() == other.len() && list.iter().zip(other).all(|(tool, other)| tool.get() == other.get())
}
