//! The program in a process of its own.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::Value;

use super::{Client, soon};

/// `glossator run` with a configuration of its own. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Program {
    /// Starts it on a free port and waits until it listens. The log is JSON.
    pub(crate) async fn start(config: &str, arguments: &[&str]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file =
            std::env::temp_dir().join(format!("glossator-it-program-{}-{number}.yaml", std::process::id()));
        std::fs::write(&file, config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_glossator"))
            .args(["run", "--log-format", "json", "--config"])
            .arg(&file)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            BufReader::new(stdout).read_line(&mut line).unwrap();
            line
        });
        let line = soon("the program listens", read).await.unwrap();
        std::fs::remove_file(file).unwrap();
        let address = line.trim().strip_prefix("listening on http://");
        let Some(address) = address else {
            child.wait().unwrap();
            panic!("no address in {line:?}: {}", told(&mut child))
        };
        Self { address: address.parse().unwrap(), child }
    }

    /// A connection to it.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends it SIGTERM.
    pub(crate) fn terminate(&self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }

    /// Waits for its end, and gives what it said on standard error.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String) {
        let wait = tokio::task::spawn_blocking(move || {
            let told = told(&mut self.child);
            (self.child.wait().unwrap(), told)
        });
        soon("the end of the program", wait).await.unwrap()
    }

    /// Ends it, and gives the lines of its log.
    pub(crate) async fn log(self) -> Vec<Value> {
        self.terminate();
        let (_, told) = self.ended().await;
        told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn told(child: &mut Child) -> String {
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    told
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
