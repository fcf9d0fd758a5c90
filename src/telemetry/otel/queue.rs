//! Spans that are over, until they are sent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use opentelemetry::Context;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span as SdkSpan, SpanData, SpanProcessor},
};
use tokio::sync::mpsc;

/// How many spans may wait to be sent; more are dropped, and counted.
pub const QUEUE_LIMIT: usize = 8192;

/// The end of the queue that spans come out of.
#[derive(Debug)]
pub struct SpanQueue {
    spans: mpsc::Receiver<SpanData>,
    dropped: Arc<AtomicU64>,
}

/// The end that spans go in. Nobody waits there: what finds no place is dropped.
#[derive(Debug)]
pub(super) struct Entrance {
    spans: mpsc::Sender<SpanData>,
    dropped: Arc<AtomicU64>,
}

pub(super) fn queue() -> (Entrance, SpanQueue) {
    let (sender, receiver) = mpsc::channel(QUEUE_LIMIT);
    let dropped = Arc::<AtomicU64>::default();
    (Entrance { spans: sender, dropped: dropped.clone() }, SpanQueue { spans: receiver, dropped })
}

impl SpanProcessor for Entrance {
    fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Spans that are sent together.
#[derive(Debug, Clone, Default)]
pub struct Batch(pub(super) Vec<SpanData>);

impl Batch {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl SpanQueue {
    /// Adds to a batch what is there, up to `most` in all; waits where there is nothing. Dropped while it waits it has taken
    /// nothing.
    pub async fn fill(&mut self, batch: &mut Batch, most: usize) {
        let room = most.saturating_sub(batch.len());
        if room > 0 && self.spans.recv_many(&mut batch.0, room).await == 0 {
            // Nobody makes spans any more.
            std::future::pending::<()>().await;
        }
    }

    /// The same without waiting.
    pub fn take(&mut self, batch: &mut Batch, most: usize) {
        while batch.len() < most
            && let Ok(span) = self.spans.try_recv()
        {
            batch.0.push(span);
        }
    }

    /// How many found no place, since this was last asked.
    pub fn dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
