//! Runs the program in its own process.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::Value;
use tokio::sync::watch;

use super::{Client, soon};

/// `glossator run` with its own configuration. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Standard error so far. The sender is dropped at its end.
    log: watch::Receiver<String>,
    file: Option<PathBuf>,
}

impl Program {
    /// Starts the program on a free port and waits until it listens. The log is JSON.
    pub(crate) async fn start(config: &str, arguments: &[&str]) -> Self {
        let file = Self::file_of(config);
        let mut program = Self::start_from(&file, arguments).await;
        // The file stays until the program exits, because the program watches it.
        program.file = Some(file);
        program
    }

    /// Starts the program with a file that is not deleted.
    pub(crate) async fn start_from(file: &Path, arguments: &[&str]) -> Self {
        Self::start_with(file, arguments, &[]).await
    }

    /// Starts the program with environment variables.
    pub(crate) async fn start_with(file: &Path, arguments: &[&str], variables: &[(String, String)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glossator"));
        command
            .args(["run", "--log-format", "json", "--config"])
            .arg(file)
            .args(arguments)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        Self::spawn(command).await
    }

    /// Starts the program on a socket that is already open, as systemd passes it: descriptor 3, and
    /// `LISTEN_FDS`.
    #[cfg(target_os = "linux")]
    pub(crate) async fn start_on(socket: &std::net::TcpListener, config: &str) -> Self {
        let file = std::env::temp_dir().join(format!(
            "glossator-it-socket-{}-{}.yaml",
            std::process::id(),
            socket.local_addr().unwrap().port()
        ));
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"", "sh"])
            .args([env!("CARGO_BIN_EXE_glossator"), "run", "--log-format", "json", "--config"])
            .arg(&file)
            .stdin(std::os::fd::OwnedFd::from(socket.try_clone().unwrap()));
        let mut program = Self::spawn(command).await;
        program.file = Some(file);
        program
    }

    /// Starts the program with a limit that `ulimit` sets.
    #[cfg(unix)]
    pub(crate) async fn start_limited(config: &str, limit: &str) -> Self {
        let file = Self::file_of(config);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_glossator"))
            .args(["run", "--log-format", "json", "--config"])
            .arg(&file);
        let mut program = Self::spawn(command).await;
        program.file = Some(file);
        program
    }

    /// Writes a configuration to a new file.
    fn file_of(config: &str) -> PathBuf {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file =
            std::env::temp_dir().join(format!("glossator-it-program-{}-{number}.yaml", std::process::id()));
        std::fs::write(&file, config).unwrap();
        file
    }

    async fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (log_sender, mut log) = watch::channel(String::new());
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let line = line.unwrap();
                log_sender.send_modify(|log| *log += &(line + "\n"));
            }
        });
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            BufReader::new(stdout).read_line(&mut line).unwrap();
            line
        });
        let line = soon("the program listens", read).await.unwrap();
        let address =
            line.trim().strip_prefix("listening on ").and_then(|line| Some(line.split_once("://")?.1));
        let Some(address) = address else {
            child.wait().unwrap();
            panic!("no address in {line:?}: {}", all(&mut log).await)
        };
        Self { address: address.parse().unwrap(), child, log, file: None }
    }

    /// Connects to the program.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Number of files and sockets that it has open.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Soft and hard limit of its open files.
    #[cfg(target_os = "linux")]
    pub(crate) fn file_limits(&self) -> (String, String) {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.child.id())).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let mut words = line.split_whitespace().map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    }

    /// Resident memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn resident_kib(&self) -> usize {
        self.status_kib("VmRSS:")
    }

    /// Peak resident memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_kib(&self) -> usize {
        self.status_kib("VmHWM:")
    }

    #[cfg(target_os = "linux")]
    fn status_kib(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name]).arg(self.child.id().to_string()).status();
        assert!(kill.unwrap().success());
    }

    /// Waits until this many lines on standard error contain these words, and returns the last of them.
    pub(crate) async fn wait_for_log(&mut self, words: &str, times: usize) -> String {
        let found = |log: &String| log.lines().filter(|line| line.contains(words)).count() >= times;
        let log = soon(words, self.log.wait_for(found)).await.unwrap().clone();
        log.lines().rfind(|line| line.contains(words)).unwrap().to_owned()
    }

    /// Waits for the exit, and returns standard error.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String) {
        soon("the end of the program", async {
            let log = all(&mut self.log).await;
            (self.child.wait().unwrap(), log)
        })
        .await
    }

    /// Stops the program, and returns the lines of its log.
    pub(crate) async fn log(self) -> Vec<Value> {
        self.terminate();
        let (_, log) = self.ended().await;
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// All output until the end.
async fn all(log: &mut watch::Receiver<String>) -> String {
    while log.changed().await.is_ok() {}
    log.borrow().clone()
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}
