//! Programs: how one is started, and how it is ended with all that it has started itself.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    time::timeout,
};

use crate::route::UpstreamName;

/// A command or a CGI program, which is started for each call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSettings {
    /// The name of the upstream.
    pub name: UpstreamName,
    /// The program. Variables that it has are not written over.
    pub program: Program,
}

/// A program as it is started: without a shell, with an environment and a process group of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// Its path; a name alone is looked up in its `PATH` each time.
    pub path: PathBuf,
    /// Its `argv[0]`.
    pub called: String,
    /// Its arguments.
    pub words: Vec<String>,
    /// Its working directory.
    pub folder: PathBuf,
    /// All its environment variables. Their values may be secrets.
    pub environment: Vec<(String, String)>,
    /// Parts of arguments and variables that no error and no log may show.
    pub secrets: Vec<String>,
}

/// Variables by name only, and no arguments: a value may be a secret.
impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Program")
            .field("path", &self.path)
            .field("folder", &self.folder)
            .field("environment", &variables)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// The default of [`folder`](Self::folder): a directory that always exists, and contains nothing of
    /// value.
    pub const FOLDER_DEFAULT: &'static str = "/";
    /// The default locale: messages that rules can rely on, in UTF-8.
    pub const LOCALE_DEFAULT: &'static str = "C.UTF-8";

    /// A program without arguments and variables.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let called = path.to_string_lossy().into_owned();
        let folder = Path::new(Self::FOLDER_DEFAULT).to_owned();
        Self { path, called, words: Vec::new(), folder, environment: Vec::new(), secrets: Vec::new() }
    }

    /// A pattern for what no error and no log may show of it.
    pub(super) fn secrets_pattern(&self) -> Option<String> {
        super::http::pattern_of(self.secrets.iter().map(String::as_str))
    }

    /// The command that starts it, with pipes for its output and with more arguments and variables.
    pub(super) fn command<'a>(
        &self,
        arguments: &[String],
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.words).args(arguments).current_dir(&self.folder);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(variables);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Programs with several names behave by the one that they were started by.
        #[cfg(unix)]
        command.arg0(&self.called).process_group(0);
        command
    }
}

/// The time from SIGTERM to SIGKILL.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// A running program and what it has started, as far as that has not left its process group.
///
/// Dropped before the program has ended, it is terminated, and killed after [`GRACE_PERIOD`]; nothing of it
/// is left then, and no zombie either.
#[derive(Debug)]
pub(super) struct Group {
    /// `None` once it has ended.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    id: u32,
}

#[derive(Debug, Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

impl Group {
    /// Starts a program as the leader of a group.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        let id = child.id().ok_or_else(|| io::Error::other("it ended before it was known"))?;
        Ok(Self { running: Some(Running { child, id }) })
    }

    /// The program, while it runs.
    pub(super) fn child(&mut self) -> Option<&mut Child> {
        self.running.as_mut().map(|running| &mut running.child)
    }

    /// Waits for the end of the program itself. What it has started may go on until `clear`.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.running {
            Some(running) => running.child.wait().await,
            None => Err(io::Error::other("it has ended before")),
        }
    }

    /// Terminates the program, kills it after [`GRACE_PERIOD`], and waits for its end.
    pub(super) async fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::Terminate);
            running.end().await;
        }
    }

    /// Kills the orphaned processes of a program that has ended.
    pub(super) fn clear(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::Kill);
            running.forget();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.signal(Signal::Terminate);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(running.end())),
            // Dropped, it is killed.
            Err(_) => drop(running),
        }
    }
}

impl Running {
    #[cfg(unix)]
    fn signal(&self, signal: Signal) {
        use rustix::process::{Pid, Signal as Number, kill_process_group};
        let number = match signal {
            Signal::Terminate => Number::TERM,
            Signal::Kill => Number::KILL,
        };
        let group = i32::try_from(self.id).ok().filter(|id| *id > 1).and_then(Pid::from_raw);
        if let Some(group) = group {
            // It fails for a group that is empty already, which is fine.
            let _ = kill_process_group(group, number);
        }
    }

    #[cfg(not(unix))]
    fn signal(&self, _: Signal) {}

    /// Waits for the end of a program that was terminated, and kills it after [`GRACE_PERIOD`].
    async fn end(mut self) {
        if timeout(GRACE_PERIOD, self.child.wait()).await.is_err() {
            self.signal(Signal::Kill);
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
        // Its child processes may have ignored the first signal.
        self.signal(Signal::Kill);
        self.forget();
    }

    /// Sends no more signals: the id of the group may become that of another.
    fn forget(mut self) {
        self.id = 0;
    }
}

/// When this process ends while a program is waited for, the program ends first.
impl Drop for Running {
    fn drop(&mut self) {
        if self.id != 0 {
            self.signal(Signal::Kill);
            let _ = self.child.start_kill();
        }
    }
}
