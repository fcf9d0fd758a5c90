//! Programs: starting one, and ending it together with its child processes.

use std::{
    fmt, io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    time::timeout,
};

use crate::route::UpstreamName;

/// Program that is started without a shell, with its own environment and process group.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The name of the upstream.
    pub name: UpstreamName,
    /// Path. A bare name is looked up in its `PATH` at each start.
    pub path: PathBuf,
    /// Name of the program for itself: `argv[0]`.
    pub arg0: String,
    /// Arguments of every call, before those of the call.
    pub arguments: Vec<String>,
    /// Working directory.
    pub folder: PathBuf,
    /// Complete environment, which nothing overrides. Values may be secrets.
    pub environment: Vec<(String, String)>,
    /// Parts of arguments and variables that no error and no log may show.
    pub secrets: Vec<String>,
}

/// Shows no arguments and variables, which may be secrets.
impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Program").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Program {
    /// Default of [`folder`](Self::folder): a directory that always exists and contains nothing of value.
    pub const FOLDER_DEFAULT: &'static str = "/";
    /// Default locale: messages that rules can rely on, in UTF-8.
    pub const LOCALE_DEFAULT: &'static str = "C.UTF-8";

    /// Pattern of the secrets that no error and no log may show.
    pub(super) fn secrets_pattern(&self) -> Option<String> {
        super::http::pattern_of(self.secrets.iter().map(String::as_str))
    }

    /// Command that starts it, with piped output and more arguments and variables.
    pub(super) fn command(&self, arguments: &[String], variables: &[(String, String)]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).args(arguments).current_dir(&self.folder);
        let variables = self.environment.iter().chain(variables);
        command.env_clear().envs(variables.map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Programs with several names select their behaviour by `argv[0]`.
        command.arg0(&self.arg0).process_group(0);
        command
    }
}

/// Time from SIGTERM to SIGKILL.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Running program with its process group: all processes that it started, unless they left the group.
///
/// If it is dropped before the program has ended, the program is terminated, and killed after
/// [`GRACE_PERIOD`]. No process and no zombie is left.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    /// `None` once it has ended.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// Process group id. 0 once the group is empty: no more signals are sent, as the id may be reused.
    id: u32,
}

/// Pipes of a program.
pub(super) struct Pipes {
    /// `None` if its standard input is empty.
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl ProcessGroup {
    /// Starts a program as leader of a new process group.
    pub(super) fn start(command: &mut Command) -> io::Result<(Self, Pipes)> {
        let mut child = command.spawn()?;
        let (stdin, pipes) = (child.stdin.take(), child.stdout.take().zip(child.stderr.take()));
        let id = child.id().ok_or_else(|| io::Error::other("it exited before its process id was known"))?;
        let group = Self { running: Some(Running { child, id }) };
        let (stdout, stderr) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        Ok((group, Pipes { stdin, stdout, stderr }))
    }

    /// Waits until the program itself has exited. Its child processes may run on until
    /// [`clear`](Self::clear).
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.running {
            Some(running) => running.child.wait().await,
            None => Err(io::Error::other("it has exited before")),
        }
    }

    /// Terminates the program, kills it after [`GRACE_PERIOD`], and waits for its exit.
    pub(super) async fn terminate(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::TERM);
            running.wait_or_kill().await;
        }
    }

    /// Kills the orphaned processes of a program that has exited.
    pub(super) fn clear(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.signal(Signal::KILL);
            running.id = 0;
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.signal(Signal::TERM);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(running.wait_or_kill())),
            // Dropping it kills the program.
            Err(_) => drop(running),
        }
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.id).ok().filter(|id| *id > 1).and_then(Pid::from_raw);
        if let Some(group) = group {
            // Fails if the group is already empty, which is fine.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Waits for the exit of a terminated program, and kills it after [`GRACE_PERIOD`].
    async fn wait_or_kill(mut self) {
        if timeout(GRACE_PERIOD, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
        // Its child processes may have ignored SIGTERM.
        self.signal(Signal::KILL);
        self.id = 0;
    }
}

/// Kills the program if it still runs, for example when this process ends while it waits for the program.
impl Drop for Running {
    fn drop(&mut self) {
        if self.id != 0 {
            self.signal(Signal::KILL);
            let _ = self.child.start_kill();
        }
    }
}
