//! Runs the program with pipes to its standard streams, as a desktop client starts it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, JoinHandle},
};

use serde_json::Value;
use tokio::sync::mpsc;

use super::soon;

/// `glossator stdio`. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Piped {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    log: Option<JoinHandle<String>>,
    file: PathBuf,
}

impl Piped {
    /// Starts the program with a configuration. The log is JSON.
    pub(crate) fn start(config: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("glossator-it-piped-{}-{number}.yaml", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_glossator"))
            .args(["stdio", "--log-format", "json", "--config"])
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).unwrap() > 0 {
                // Without a receiver, reading stops.
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let log = thread::spawn(move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).unwrap();
            log
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, log: Some(log), file }
    }

    /// Writes a line.
    pub(crate) fn say(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(&[line.as_ref(), b"\n"].concat()).unwrap();
        stdin.flush().unwrap();
    }

    /// Writes a message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.say(message.to_string());
    }

    /// Reads the next line, which must be a message.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Value> {
        let line = soon("a line", self.lines.recv());
        async move {
            let line = line.await.unwrap();
            assert!(line.ends_with('\n'), "{line}");
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
        }
    }

    /// Writes a message, unless the program has closed its input.
    pub(crate) fn try_send(&mut self, message: &Value) -> bool {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).is_ok()
    }

    /// Sends a message and waits for the next one.
    pub(crate) async fn call(&mut self, message: Value) -> Value {
        self.send(&message);
        self.next().await
    }

    /// Writes another configuration and reloads it.
    pub(crate) fn reload(&self, config: &str) {
        std::fs::write(&self.file, config).unwrap();
        self.signal("HUP");
    }

    /// Closes standard input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Stops reading after the next output of the program.
    pub(crate) fn stop_reading(&mut self) {
        self.lines.close();
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the exit, and returns the status, unread output, and the log.
    pub(crate) async fn ended(mut self) -> (ExitStatus, Vec<String>, String) {
        let log = self.log.take().unwrap();
        let log = soon("the end of the log", tokio::task::spawn_blocking(move || log.join().unwrap()));
        let log = log.await.unwrap();
        let mut unread = Vec::new();
        while let Some(line) = soon("the end of what it says", self.lines.recv()).await {
            unread.push(line);
        }
        (self.child.wait().unwrap(), unread, log)
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}
