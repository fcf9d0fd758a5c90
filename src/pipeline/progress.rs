//! Progress and log notifications to the client of a call while the call runs (`progressToken`).

use std::{fmt, future::Future, pin::pin, time::Duration};

use tokio::time::Instant;

use crate::route::{McpLogLevel, OperationStatus};
use crate::upstream::{ProgressEvent, ProgressReceiver, ProgressSender};

/// Client that may have requested notifications about its call.
pub trait Subscriber: fmt::Debug + Send + Sync {
    /// Whether the client has requested progress notifications.
    fn wants_progress(&self) -> bool;

    /// Minimum level of the log messages that the client has requested. `None` if it has requested none.
    fn level(&self) -> Option<McpLogLevel>;

    /// Sends a progress notification. `done` increases with each notification; `message` is a status message
    /// for the user.
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>);

    /// Sends a log message.
    fn log(&self, level: McpLogLevel, logger: &str, text: &str);
}

/// Maximum number of log messages of one call.
const LOG_MESSAGES_LIMIT: u32 = 200;

/// Maximum length of a log message, in bytes.
pub(super) const LOG_MESSAGE_LIMIT_BYTES: usize = 2000;

/// Minimum interval between notifications about the bytes of a response.
const BYTES_INTERVAL: Duration = Duration::from_millis(250);

/// Minimum interval between progress notifications that the upstream sends, or that polls of an asynchronous
/// operation cause.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(40);

/// Sender of the notifications of one call.
pub(super) struct Reporter<'a> {
    /// `None` if the client has requested nothing.
    subscriber: Option<&'a dyn Subscriber>,
    logger: &'a str,
    last_progress: Option<f64>,
    total: Option<f64>,
    /// Time of the last progress notification, or of the start of the call.
    reported_at: Option<Instant>,
    log_messages: u32,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(subscriber: Option<&'a dyn Subscriber>, logger: &'a str) -> Self {
        let subscriber =
            subscriber.filter(|subscriber| subscriber.wants_progress() || subscriber.level().is_some());
        let reported_at = subscriber.map(|_| Instant::now());
        Self { subscriber, logger, last_progress: None, total: None, reported_at, log_messages: 0 }
    }

    /// Creates the channel for events before the response, if the client has requested notifications.
    pub(super) fn events(&self) -> (Option<ProgressSender>, Option<ProgressReceiver>) {
        self.subscriber.map(|_| ProgressSender::new()).unzip()
    }

    /// Awaits a response and reports progress meanwhile. With `counts_bytes`, the number of received bytes is
    /// reported as progress.
    pub(super) async fn report_until<T>(
        &mut self,
        response: impl Future<Output = T>,
        events: Option<ProgressReceiver>,
        counts_bytes: bool,
    ) -> T {
        let mut response = pin!(response);
        let Some(mut events) = events else { return response.await };
        let response = loop {
            tokio::select! {
                biased;
                response = &mut response => break response,
                Some(event) = events.recv() => self.on_event(event, counts_bytes),
            }
        };
        // Progress events of the upstream may have arrived together with the response.
        while let Ok(event) = events.try_recv() {
            if let ProgressEvent::Progress { .. } = event {
                self.on_event(event, false);
            }
        }
        response
    }

    fn since_reported(&self) -> Duration {
        self.reported_at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Sends a log message, if the client has requested its level.
    pub(super) fn log_message(&mut self, level: McpLogLevel, text: impl FnOnce() -> String) {
        let wants =
            |subscriber: &&dyn Subscriber| subscriber.level().is_some_and(|min_level| level >= min_level);
        if let Some(subscriber) =
            self.subscriber.filter(wants).filter(|_| self.log_messages < LOG_MESSAGES_LIMIT)
        {
            self.log_messages += 1;
            subscriber.log(level, self.logger, &text());
        }
    }

    fn on_event(&mut self, event: ProgressEvent, counts_bytes: bool) {
        match event {
            ProgressEvent::Retry { attempt } => {
                let text = || format!("retrying the request to the service, attempt {attempt}");
                self.log_message(McpLogLevel::Debug, text);
            }
            ProgressEvent::Progress { .. }
                if self.last_progress.is_some() && self.since_reported() < PROGRESS_INTERVAL => {}
            ProgressEvent::Progress { done, total } => self.progress(done, total, None),
            ProgressEvent::Received { .. } if !counts_bytes || self.since_reported() < BYTES_INTERVAL => {}
            #[expect(clippy::cast_precision_loss, reason = "nobody counts beyond 2^53 bytes")]
            ProgressEvent::Received { bytes, of } => {
                self.progress(bytes as f64, of.map(|of| of as f64), Some("bytes of the response"));
            }
        }
    }

    /// Reports the status of an asynchronous operation. If its route has no rule for progress, the number of
    /// polls is the progress.
    pub(super) fn operation(&mut self, status: &OperationStatus, has_progress: bool, polls: u32) {
        self.log_message(McpLogLevel::Debug, || {
            format!("operation running: {}", status.message.as_deref().unwrap_or("no status message"))
        });
        let done = if has_progress { status.progress } else { Some(polls.into()) };
        if let Some(done) = done
            && (self.last_progress.is_none() || self.since_reported() >= PROGRESS_INTERVAL)
        {
            self.progress(done, status.total, status.message.as_deref());
        }
    }

    /// Reports that an asynchronous operation is done: the progress is set to the total, if the total is
    /// known.
    pub(super) fn operation_done(&mut self) {
        self.log_message(McpLogLevel::Debug, || "operation done".to_owned());
        if let Some(total) = self.total {
            self.progress(total, Some(total), None);
        }
    }

    fn progress(&mut self, done: f64, total: Option<f64>, message: Option<&str>) {
        let has_grown = self.last_progress.is_none_or(|last_progress| done > last_progress);
        if let Some(subscriber) =
            self.subscriber.filter(|subscriber| has_grown && subscriber.wants_progress())
        {
            (self.last_progress, self.total, self.reported_at) = (Some(done), total, Some(Instant::now()));
            subscriber.progress(done, total, message);
        }
    }
}

#[cfg(test)]
mod tests {

    use parking_lot::Mutex;

    use super::*;
    use crate::settings::EnumSetting as _;

    #[derive(Debug)]
    struct RecordedSubscriber(Option<McpLogLevel>, Mutex<Vec<String>>);

    impl Subscriber for RecordedSubscriber {
        fn wants_progress(&self) -> bool {
            true
        }

        fn level(&self) -> Option<McpLogLevel> {
            self.0
        }

        fn progress(&self, done: f64, total: Option<f64>, _: Option<&str>) {
            self.1.lock().push(format!("{done}/{total:?}"));
        }

        fn log(&self, level: McpLogLevel, _: &str, text: &str) {
            self.1.lock().push(format!("{}: {text}", level.as_str()));
        }
    }

    fn recording_subscriber(level: Option<McpLogLevel>) -> RecordedSubscriber {
        RecordedSubscriber(level, Mutex::default())
    }

    #[tokio::test(start_paused = true)]
    async fn progress_only_grows_and_is_not_sent_too_often() {
        let subscriber = recording_subscriber(None);
        let mut reporter = Reporter::new(Some(&subscriber), "t");
        let received = |bytes| ProgressEvent::Received { bytes, of: Some(100) };
        reporter.on_event(received(1), true);
        for bytes in [10, 20] {
            tokio::time::advance(BYTES_INTERVAL).await;
            reporter.on_event(received(bytes), true);
            reporter.on_event(received(bytes + 1), true);
        }
        tokio::time::advance(BYTES_INTERVAL).await;
        reporter.on_event(received(5), true);
        reporter.on_event(received(50), false);
        assert_eq!(*subscriber.1.lock(), ["10/Some(100.0)", "20/Some(100.0)"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_has_its_own_numbers_or_those_of_its_polls() {
        let subscriber = recording_subscriber(None);
        let mut reporter = Reporter::new(Some(&subscriber), "t");
        let status = |progress| OperationStatus { progress, total: Some(3.0), message: None };
        for (attempt, progress) in [Some(0.0), None, Some(2.0), Some(1.0)].into_iter().enumerate() {
            tokio::time::advance(PROGRESS_INTERVAL).await;
            reporter.operation(&status(progress), true, attempt.try_into().unwrap());
        }
        reporter.operation_done();
        reporter.operation_done();
        assert_eq!(*subscriber.1.lock(), ["0/Some(3.0)", "2/Some(3.0)", "3/Some(3.0)"]);
        let subscriber = recording_subscriber(None);
        let mut reporter = Reporter::new(Some(&subscriber), "t");
        reporter.operation(&OperationStatus::default(), false, 1);
        assert_eq!(*subscriber.1.lock(), ["1/None"]);
    }

    #[tokio::test]
    async fn log_messages_have_a_level_and_a_limit() {
        let subscriber = recording_subscriber(Some(McpLogLevel::Info));
        let mut reporter = Reporter::new(Some(&subscriber), "t");
        reporter.log_message(McpLogLevel::Debug, || unreachable!("below the level"));
        for _ in 0..LOG_MESSAGES_LIMIT + 5 {
            reporter.log_message(McpLogLevel::Info, || "x".to_owned());
        }
        let received = subscriber.1.lock();
        assert_eq!((received.len(), received[0].as_str()), (LOG_MESSAGES_LIMIT as usize, "info: x"));
    }
}
