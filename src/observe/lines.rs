//! Lines of the log on their way to standard error, many at a time.
//!
//! A write of its own costs the system more than all else that a line of a call takes. So lines wait a moment for
//! others, and a thread writes them together. A warning or an error is written at once, with all that came before it.
//! Who reads the log too slowly, or not at all, keeps no call waiting: what there is no room for is lost, and counted.

use std::{
    io::{self, Write},
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::log::LogFormat;

/// How long a line waits for others, at most.
const GATHERED_FOR: Duration = Duration::from_millis(20);

/// How much may wait to be written; lines beyond it are lost.
const LIMIT_BYTES: usize = 1 << 20;

/// All lines of this process. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    format: LogFormat,
    /// How many lines were dropped since the start.
    dropped: AtomicU64,
    waiting: Mutex<Waiting>,
    /// The first line came, or one that does not wait.
    came: Condvar,
    /// Nothing is left to write.
    gone: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    text: Vec<u8>,
    urgent: bool,
    writing: bool,
    lost: u64,
}

impl Lines {
    /// Begins to write lines to `out`, on a thread of their own.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(super) fn to(out: impl Write + Send + 'static, format: LogFormat) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            format,
            dropped: AtomicU64::new(0),
            waiting: Mutex::default(),
            came: Condvar::new(),
            gone: Condvar::new(),
        });
        let lines = Self(Arc::clone(&shared));
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.write_on(out))?;
        Ok(lines)
    }

    /// How many lines were dropped so far, because nobody took them quickly enough.
    pub(super) fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, `patience` at most.
    pub(super) fn flush(&self, patience: Duration) {
        let mut waiting = self.0.waiting();
        waiting.urgent = true;
        self.0.came.notify_all();
        let some = |waiting: &mut Waiting| waiting.writing || !waiting.text.is_empty();
        drop(self.0.gone.wait_timeout_while(waiting, patience, some));
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8], urgent: bool) {
        let mut waiting = self.waiting();
        if waiting.text.len() + line.len() > LIMIT_BYTES {
            waiting.lost += 1;
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let wakes = waiting.text.is_empty() || (urgent && !waiting.urgent);
        waiting.text.extend_from_slice(line);
        waiting.urgent |= urgent;
        drop(waiting);
        if wakes {
            self.came.notify_all();
        }
    }

    fn write_on(&self, mut out: impl Write) {
        let mut batch = Vec::new();
        loop {
            let lost = self.next(&mut batch);
            // Standard error that is closed or full is nothing to end for, and there is no other place to say so.
            let _ = out.write_all(&batch);
            if lost > 0 {
                let _ = writeln!(out, "{}", self.format.dropped(lost));
            }
            let _ = out.flush();
            batch.clear();
        }
    }

    /// Waits for lines, and a moment for more; gives them, and how many were lost.
    fn next(&self, batch: &mut Vec<u8>) -> u64 {
        let mut waiting = self.waiting();
        waiting.writing = false;
        if waiting.text.is_empty() {
            waiting.urgent = false;
            self.gone.notify_all();
        }
        let waits = self.came.wait_while(waiting, |waiting| waiting.text.is_empty());
        let waits = waits.unwrap_or_else(PoisonError::into_inner);
        let gathers = self.came.wait_timeout_while(waits, GATHERED_FOR, |waiting| !waiting.urgent);
        let (mut waiting, _) = gathers.unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut waiting.text, batch);
        (waiting.urgent, waiting.writing) = (false, true);
        mem::take(&mut waiting.lost)
    }
}

/// A line, whole: the subscriber writes each with one call.
#[derive(Debug)]
pub(super) struct Line<'a> {
    lines: &'a Lines,
    urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.0.add(line, self.urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, urgent: true }
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> Line<'a> {
        Line { lines: self, urgent: *of.level() <= Level::WARN }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Gives every batch to whoever asks for it, and waits for that.
    struct Batches(SyncSender<String>);

    impl Write for Batches {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_collector_of_json_can_read_how_many_lines_were_dropped() {
        let line: serde_json::Value = serde_json::from_str(&LogFormat::Json.dropped(3)).unwrap();
        assert_eq!((&line["level"], &line["lines"]), (&"WARN".into(), &3.into()));
        assert_eq!(line["message"], "log lines dropped");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    fn lines() -> (Lines, Receiver<String>) {
        let (sender, batches) = sync_channel(0);
        (Lines::to(Batches(sender), LogFormat::Text).unwrap(), batches)
    }

    #[test]
    fn a_warning_goes_at_once_and_what_came_before_it_goes_with_it() {
        let (lines, batches) = lines();
        lines.0.add(b"one\n", false);
        lines.0.add(b"two\n", false);
        lines.0.add(b"three\n", true);
        let mut text = batches.recv().unwrap();
        while !text.ends_with("three\n") {
            text += &batches.recv().unwrap();
        }
        assert_eq!(text, "one\ntwo\nthree\n");
        lines.0.add(b"four\n", false);
        assert_eq!(batches.recv().unwrap(), "four\n", "it goes by itself, a little later");
    }

    #[test]
    fn what_nobody_reads_is_lost_and_counted_and_keeps_nobody_waiting() {
        let (lines, batches) = lines();
        let line = [b'x'; 1024];
        // The first batch is being written, and nobody takes it.
        for _ in 0..3 * LIMIT_BYTES / line.len() {
            lines.0.add(&line, false);
        }
        lines.flush(Duration::ZERO);
        let mut written = batches.recv().unwrap();
        while !written.contains("dropped") {
            written += &batches.recv().unwrap();
        }
        let lost: usize = written.trim_end().rsplit('=').next().unwrap().parse().unwrap();
        assert_eq!(lines.dropped(), lost as u64);
        let kept = written.matches('x').count() / line.len();
        assert!(lost > 0 && kept + lost <= 3 * LIMIT_BYTES / line.len(), "{kept} kept, {lost} lost");
    }

    #[test]
    fn a_flush_ends_when_all_is_written() {
        let (lines, batches) = lines();
        lines.0.add(b"last words\n", false);
        let reading = thread::spawn(move || batches.recv().unwrap());
        lines.flush(Duration::from_secs(60));
        assert_eq!(reading.join().unwrap(), "last words\n");
        lines.flush(Duration::from_secs(60));
    }
}
