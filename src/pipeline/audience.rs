//! Who is told how a call goes on, while it does.

use std::{fmt, time::Duration};

use tokio::time::Instant;

use crate::{
    route::{LogLevel, Stand},
    upstream::Happened,
};

/// A client that wants to know how its call goes on.
pub trait Audience: fmt::Debug + Send + Sync {
    /// Whether it wants to be told how far the call is.
    fn wants_progress(&self) -> bool;

    /// The least that a line must matter for it; `None` for no lines at all.
    fn level(&self) -> Option<LogLevel>;

    /// Tells it how far the call is.
    fn progress(&self, progress: Progress<'_>);

    /// Tells it a line.
    fn log(&self, level: LogLevel, logger: &str, text: &str);
}

/// How far a call is. `done` is more each time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    /// So far.
    pub done: f64,
    /// Of how much, where that is known.
    pub total: Option<f64>,
    /// What is going on.
    pub message: Option<&'a str>,
}

/// How many lines one call tells.
const LINES_LIMIT: u32 = 200;

/// How long a line may be, in bytes.
pub(super) const LINE_LIMIT_BYTES: usize = 2000;

/// How much time passes between two words about a reply that comes in.
const BYTES_EVERY: Duration = Duration::from_millis(250);

/// The same for a job, whatever its `poll`.
const JOB_EVERY: Duration = Duration::from_millis(40);

/// What one call tells.
pub(super) struct Telling<'a> {
    audience: Option<&'a dyn Audience>,
    logger: &'a str,
    last: Option<f64>,
    total: Option<f64>,
    /// When something was told last, or the call began, where anybody listens.
    told_at: Option<Instant>,
    lines: u32,
}

impl<'a> Telling<'a> {
    pub(super) fn new(audience: Option<&'a dyn Audience>, logger: &'a str) -> Self {
        let audience = audience.filter(|audience| audience.wants_progress() || audience.level().is_some());
        let told_at = audience.map(|_| Instant::now());
        Self { audience, logger, last: None, total: None, told_at, lines: 0 }
    }

    /// Whether anybody listens.
    pub(super) fn is_heard(&self) -> bool {
        self.audience.is_some()
    }

    fn since_told(&self) -> Duration {
        self.told_at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Whether a line of this level is wanted.
    pub(super) fn wants(&self, level: LogLevel) -> bool {
        self.lines < LINES_LIMIT
            && self.audience.and_then(Audience::level).is_some_and(|least| level >= least)
    }

    /// Tells a line, where it is wanted.
    pub(super) fn line(&mut self, level: LogLevel, text: impl FnOnce() -> String) {
        if let Some(audience) = self.audience.filter(|_| self.wants(level)) {
            self.lines += 1;
            audience.log(level, self.logger, &text());
        }
    }

    /// Tells what happened to a request; of the bytes of a reply only where they are what the caller waits for.
    pub(super) fn happened(&mut self, happened: Happened, counts_bytes: bool) {
        match happened {
            Happened::Again { attempt } => {
                self.line(LogLevel::Debug, || format!("the service is asked again, attempt {attempt}"));
            }
            Happened::Progress { .. } if self.last.is_some() && self.since_told() < JOB_EVERY => {}
            Happened::Progress { done, total } => self.progress(done, total, None),
            Happened::Received { .. } if !counts_bytes || self.since_told() < BYTES_EVERY => {}
            #[expect(clippy::cast_precision_loss, reason = "nobody counts beyond 2^53 bytes")]
            Happened::Received { bytes, of } => {
                self.progress(bytes as f64, of.map(|of| of as f64), Some("bytes of the reply"));
            }
        }
    }

    /// Tells how a job stands, which was asked so often.
    pub(super) fn job(&mut self, stand: &Stand, says_progress: bool, asked: u32) {
        self.line(LogLevel::Debug, || {
            format!("the job goes on: {}", stand.message.as_deref().unwrap_or("no word about it"))
        });
        let done = match says_progress {
            true => stand.progress,
            false => Some(f64::from(asked)),
        };
        if let Some(done) = done
            && (self.last.is_none() || self.since_told() >= JOB_EVERY)
        {
            self.progress(done, stand.total, stand.message.as_deref());
        }
    }

    /// Tells that a job is done, where it was said how much there is to do.
    pub(super) fn job_done(&mut self) {
        self.line(LogLevel::Debug, || "the job is done".to_owned());
        if let Some(total) = self.total {
            self.progress(total, Some(total), None);
        }
    }

    fn progress(&mut self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(audience) = self.audience.filter(|audience| audience.wants_progress()) else { return };
        if self.last.is_some_and(|last| done <= last) {
            return;
        }
        (self.last, self.total, self.told_at) = (Some(done), total, Some(Instant::now()));
        audience.progress(Progress { done, total, message });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Heard(Option<LogLevel>, Mutex<Vec<String>>);

    impl Audience for Heard {
        fn wants_progress(&self) -> bool {
            true
        }

        fn level(&self) -> Option<LogLevel> {
            self.0
        }

        fn progress(&self, progress: Progress<'_>) {
            self.1.lock().unwrap().push(format!("{}/{:?}", progress.done, progress.total));
        }

        fn log(&self, level: LogLevel, _: &str, text: &str) {
            self.1.lock().unwrap().push(format!("{}: {text}", level.as_str()));
        }
    }

    fn heard(level: Option<LogLevel>) -> Heard {
        Heard(level, Mutex::default())
    }

    #[tokio::test(start_paused = true)]
    async fn progress_only_grows_and_is_not_told_too_often() {
        let audience = heard(None);
        let mut telling = Telling::new(Some(&audience), "t");
        let received = |bytes| Happened::Received { bytes, of: Some(100) };
        telling.happened(received(1), true);
        for bytes in [10, 20] {
            tokio::time::advance(BYTES_EVERY).await;
            telling.happened(received(bytes), true);
            telling.happened(received(bytes + 1), true);
        }
        tokio::time::advance(BYTES_EVERY).await;
        telling.happened(received(5), true);
        telling.happened(received(50), false);
        assert_eq!(*audience.1.lock().unwrap(), ["10/Some(100.0)", "20/Some(100.0)"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_tells_its_own_numbers_or_how_often_it_was_asked() {
        let audience = heard(None);
        let mut telling = Telling::new(Some(&audience), "t");
        let stand = |progress| Stand { progress, total: Some(3.0), message: None };
        for (asked, progress) in [Some(0.0), None, Some(2.0), Some(1.0)].into_iter().enumerate() {
            tokio::time::advance(JOB_EVERY).await;
            telling.job(&stand(progress), true, asked.try_into().unwrap());
        }
        telling.job_done();
        telling.job_done();
        assert_eq!(*audience.1.lock().unwrap(), ["0/Some(3.0)", "2/Some(3.0)", "3/Some(3.0)"]);
        let audience = heard(None);
        let mut telling = Telling::new(Some(&audience), "t");
        telling.job(&Stand::default(), false, 1);
        assert_eq!(*audience.1.lock().unwrap(), ["1/None"]);
    }

    #[tokio::test]
    async fn lines_have_a_level_and_an_end() {
        let audience = heard(Some(LogLevel::Info));
        let mut telling = Telling::new(Some(&audience), "t");
        telling.line(LogLevel::Debug, || unreachable!("nobody wants it"));
        for _ in 0..LINES_LIMIT + 5 {
            telling.line(LogLevel::Info, || "x".to_owned());
        }
        let heard = audience.1.lock().unwrap();
        assert_eq!((heard.len(), heard[0].as_str()), (LINES_LIMIT as usize, "info: x"));
    }
}
