//! The log's way to standard error: a thread that writes many lines at a time.
//!
//! A write of its own for each line costs more than everything else a call's line takes. So the thread
//! gathers lines for a moment and writes them together; a warning or an error is written at once, with all
//! lines before it. A slow or absent reader of the log never blocks a call: lines beyond a limit are dropped
//! and counted.

use std::{
    io::{self, Write},
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, Thread},
    time::Duration,
};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::log::LogFormat;

/// The longest time that a line waits for others.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// How many bytes may wait to be written; lines beyond that are dropped.
const LIMIT_BYTES: usize = 1 << 20;

/// Sends lines to the thread that writes them. Clones send to the same thread.
#[derive(Debug, Clone)]
pub(super) struct LogWriter {
    messages: Sender<Message>,
    thread: Thread,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Answered once everything before it is written.
    Flush(Sender<()>),
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes of lines that are not written yet.
    waiting_bytes: AtomicUsize,
    /// Lines dropped since the start.
    dropped: AtomicU64,
    /// Something waits that is to be written at once.
    is_urgent: AtomicBool,
}

impl LogWriter {
    /// Starts the thread, which writes to `out`.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(super) fn start(out: impl Write + Send + 'static, format: LogFormat) -> io::Result<Self> {
        let (messages, receiver) = channel();
        let shared = Arc::<Shared>::default();
        let thread = thread::Builder::new().name("log".to_owned());
        let thread = thread.spawn({
            let shared = Arc::clone(&shared);
            move || write_messages(&receiver, &shared, out, format)
        })?;
        Ok(Self { messages, thread: thread.thread().clone(), shared })
    }

    /// The number of lines dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, `patience` at most.
    pub(super) fn flush(&self, patience: Duration) {
        let (done, written) = channel();
        self.send(Message::Flush(done), true);
        let _ = written.recv_timeout(patience);
    }

    fn write_line(&self, line: &[u8], is_urgent: bool) {
        let waiting_bytes = self.shared.waiting_bytes.fetch_add(line.len(), Ordering::Relaxed);
        if waiting_bytes + line.len() > LIMIT_BYTES {
            self.shared.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.send(Message::Line(line.to_vec()), is_urgent);
    }

    fn send(&self, message: Message, is_urgent: bool) {
        // The thread ends only with the process.
        let _ = self.messages.send(message);
        if is_urgent {
            self.shared.is_urgent.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }
}

fn write_messages(messages: &Receiver<Message>, shared: &Shared, mut out: impl Write, format: LogFormat) {
    let (mut batch, mut reported) = (Vec::new(), 0);
    while let Ok(first) = messages.recv() {
        if !shared.is_urgent.load(Ordering::Acquire) {
            thread::park_timeout(GATHER_TIME);
        }
        shared.is_urgent.store(false, Ordering::Release);
        let mut flushes = Vec::new();
        for message in iter::once(first).chain(messages.try_iter()) {
            match message {
                Message::Line(line) => batch.extend(line),
                Message::Flush(done) => flushes.push(done),
            }
        }
        // Standard error that is closed or full is no reason to end, and there is no other place to report
        // it.
        let _ = out.write_all(&batch);
        shared.waiting_bytes.fetch_sub(batch.len(), Ordering::Relaxed);
        let dropped = shared.dropped.load(Ordering::Relaxed);
        if dropped > reported {
            let _ = writeln!(out, "{}", format.dropped(dropped - reported));
            reported = dropped;
        }
        let _ = out.flush();
        batch.clear();
        for done in flushes {
            let _ = done.send(());
        }
    }
}

/// The writer of one line: the subscriber writes it with one call.
#[derive(Debug)]
pub(super) struct Line<'a> {
    writer: &'a LogWriter,
    is_urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.writer.write_line(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { writer: self, is_urgent: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line { writer: self, is_urgent: *metadata.level() <= Level::WARN }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

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

    fn lines() -> (LogWriter, Receiver<String>) {
        let (sender, batches) = sync_channel(0);
        (LogWriter::start(Batches(sender), LogFormat::Text).unwrap(), batches)
    }

    #[test]
    fn a_warning_goes_at_once_and_what_came_before_it_goes_with_it() {
        let (lines, batches) = lines();
        lines.write_line(b"one\n", false);
        lines.write_line(b"two\n", false);
        lines.write_line(b"three\n", true);
        let mut text = batches.recv().unwrap();
        while !text.ends_with("three\n") {
            text += &batches.recv().unwrap();
        }
        assert_eq!(text, "one\ntwo\nthree\n");
        lines.write_line(b"four\n", false);
        assert_eq!(batches.recv().unwrap(), "four\n", "it goes by itself, a little later");
    }

    #[test]
    fn what_nobody_reads_is_lost_and_counted_and_keeps_nobody_waiting() {
        let (lines, batches) = lines();
        let line = [b'x'; 1024];
        // The first batch is being written, and nobody takes it.
        for _ in 0..3 * LIMIT_BYTES / line.len() {
            lines.write_line(&line, false);
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
        lines.write_line(b"last words\n", false);
        let reading = thread::spawn(move || batches.recv().unwrap());
        lines.flush(Duration::from_secs(60));
        assert_eq!(reading.join().unwrap(), "last words\n");
        lines.flush(Duration::from_secs(60));
    }
}
