//! Buffer of log lines, and the thread that writes them to standard error.
//!
//! A system call for each line would cost more than all other work for the line. So the thread writes many
//! lines at a time. A warning or an error is written at once, with all lines before it. A slow or missing
//! reader of standard error never blocks a call: lines beyond a limit are dropped and counted.

use std::{
    io::{self, Write},
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::log::LogFormat;

/// Maximum time that a line waits for further lines.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// Maximum number of bytes that wait to be written, in addition to those being written. Lines beyond it are
/// dropped.
const LIMIT_BYTES: usize = 1 << 20;

/// Writer that adds log lines to the buffer. Clones share the buffer.
#[derive(Debug, Clone)]
pub(super) struct LogWriter(Arc<LogBuffer>);

#[derive(Debug, Default)]
struct LogBuffer {
    buffer: Mutex<Buffer>,
    /// Wakes the writer thread: the buffer has its first line, or an urgent one.
    has_lines: Condvar,
    /// Wakes threads that flush: a batch of lines is written.
    is_written: Condvar,
    /// Number of lines dropped so far.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Buffer {
    lines: Vec<u8>,
    /// Whether the lines must be written at once.
    is_urgent: bool,
    /// Number of bytes added so far, and number of bytes written.
    added_bytes: u64,
    written_bytes: u64,
}

impl LogWriter {
    /// Starts the thread that writes the lines to `out`.
    ///
    /// # Errors
    ///
    /// If the system can't create a thread.
    pub(super) fn start(out: impl Write + Send + 'static, format: LogFormat) -> io::Result<Self> {
        let shared = Arc::<LogBuffer>::default();
        let writer = Self(Arc::clone(&shared));
        thread::Builder::new().name("log".to_owned()).spawn(move || write_batches(&shared, out, format))?;
        Ok(writer)
    }

    /// Number of lines dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, for at most `flush_timeout`.
    pub(super) fn flush(&self, flush_timeout: Duration) {
        let mut buffer = self.0.buffer.lock();
        buffer.is_urgent = true;
        self.0.has_lines.notify_one();
        let added_bytes = buffer.added_bytes;
        let is_waiting = |buffer: &mut Buffer| buffer.written_bytes < added_bytes;
        self.0.is_written.wait_while_for(&mut buffer, is_waiting, flush_timeout);
    }

    fn write_line(&self, line: &[u8], is_urgent: bool) {
        let mut buffer = self.0.buffer.lock();
        if buffer.lines.len() + line.len() > LIMIT_BYTES {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if buffer.lines.is_empty() || is_urgent {
            self.0.has_lines.notify_one();
        }
        buffer.is_urgent |= is_urgent;
        buffer.lines.extend_from_slice(line);
        buffer.added_bytes += line.len() as u64;
    }
}

/// Writes the buffered lines in an endless loop.
fn write_batches(shared: &LogBuffer, mut out: impl Write, format: LogFormat) {
    let (mut batch, mut reported) = (Vec::new(), 0);
    loop {
        let mut buffer = shared.buffer.lock();
        shared.has_lines.wait_while(&mut buffer, |buffer| buffer.lines.is_empty());
        shared.has_lines.wait_while_for(&mut buffer, |buffer| !buffer.is_urgent, GATHER_TIME);
        mem::swap(&mut buffer.lines, &mut batch);
        buffer.is_urgent = false;
        drop(buffer);
        // If standard error is closed or full, the program continues. The lines of the batch count as
        // dropped, even those that were written before the error.
        if out.write_all(&batch).is_err() {
            shared.dropped.fetch_add(memchr::memchr_iter(b'\n', &batch).count() as u64, Ordering::Relaxed);
        }
        let dropped = shared.dropped.load(Ordering::Relaxed);
        if dropped > reported && writeln!(out, "{}", format.dropped(dropped - reported)).is_ok() {
            reported = dropped;
        }
        let _ = out.flush();
        shared.buffer.lock().written_bytes += batch.len() as u64;
        shared.is_written.notify_all();
        batch.clear();
    }
}

/// Writer for one line. The log library writes the whole line with one call.
#[derive(Debug)]
pub(super) struct LineWriter<'a> {
    writer: &'a LogWriter,
    is_urgent: bool,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.writer.write_line(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { writer: self, is_urgent: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter { writer: self, is_urgent: *metadata.level() <= Level::WARN }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Passes every batch to its receiver, and waits until it is received.
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

    fn start_writer() -> (LogWriter, Receiver<String>) {
        let (sender, batches) = sync_channel(0);
        (LogWriter::start(Batches(sender), LogFormat::Text).unwrap(), batches)
    }

    #[test]
    fn a_warning_flushes_the_buffer_at_once() {
        let (writer, batches) = start_writer();
        writer.write_line(b"one\n", false);
        writer.write_line(b"two\n", false);
        writer.write_line(b"three\n", true);
        let mut text = batches.recv().unwrap();
        while !text.ends_with("three\n") {
            text += &batches.recv().unwrap();
        }
        assert_eq!(text, "one\ntwo\nthree\n");
        writer.write_line(b"four\n", false);
        assert_eq!(batches.recv().unwrap(), "four\n", "it goes by itself, a little later");
    }

    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted_without_blocking() {
        let (writer, batches) = start_writer();
        let line = [b'x'; 1024];
        // The first batch is being written, and nobody reads it.
        for _ in 0..3 * LIMIT_BYTES / line.len() {
            writer.write_line(&line, false);
        }
        writer.flush(Duration::ZERO);
        let mut output = batches.recv().unwrap();
        while !output.contains("dropped") {
            output += &batches.recv().unwrap();
        }
        let lost: usize = output.trim_end().rsplit('=').next().unwrap().parse().unwrap();
        assert_eq!(writer.dropped(), lost as u64);
        let written_count = output.matches('x').count() / line.len();
        assert!(
            lost > 0 && written_count + lost <= 3 * LIMIT_BYTES / line.len(),
            "{written_count} written, {lost} lost"
        );
    }

    #[test]
    fn lines_that_could_not_be_written_are_counted() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let writer = LogWriter::start(Full, LogFormat::Text).unwrap();
        writer.write_line(b"one\n", false);
        writer.write_line(b"two\n", true);
        writer.flush(Duration::from_secs(60));
        assert_eq!(writer.dropped(), 2);
    }

    #[test]
    fn a_flush_ends_when_all_is_written() {
        let (writer, batches) = start_writer();
        writer.write_line(b"last words\n", false);
        let reader = thread::spawn(move || batches.recv().unwrap());
        writer.flush(Duration::from_secs(60));
        assert_eq!(reader.join().unwrap(), "last words\n");
        writer.flush(Duration::from_secs(60));
    }
}
