//! Programs that are started for one request each.
//!
//! In reading order: a [`Program`] says what is started and with what around it; `run` feeds it, reads what it writes
//! and waits for its end; `group` sees to it that nothing of it is left.

mod group;
mod run;

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

pub(super) use group::Group;
pub(super) use run::{Finished, Run, RunError, run};

/// A program as it is started: no shell, nothing of our own environment, a group of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// Where it is; a name alone is looked for in its `PATH` each time.
    pub path: PathBuf,
    /// What it is told that it is called.
    pub called: String,
    /// The words behind its name.
    pub words: Vec<String>,
    /// The folder it works in.
    pub folder: PathBuf,
    /// All the variables it sees. Their values may be secrets.
    pub environment: Vec<(String, String)>,
    /// What of its words and variables no error and no log may tell.
    pub secrets: Vec<String>,
}

/// Variables by name only, and no words: a value may be a secret.
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
    /// Where a program works if nothing is said: a place that is there always, and that nobody means.
    pub const FOLDER_DEFAULT: &'static str = "/";
    /// The locale of programs if nothing is said: messages that rules can rely on, in UTF-8.
    pub const LOCALE_DEFAULT: &'static str = "C.UTF-8";

    /// One by its path, with nothing around it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let called = path.to_string_lossy().into_owned();
        let folder = Path::new(Self::FOLDER_DEFAULT).to_owned();
        Self { path, called, words: Vec::new(), folder, environment: Vec::new(), secrets: Vec::new() }
    }

    /// A pattern for what no error and no log may tell of it.
    pub(in crate::upstream) fn secrets_pattern(&self) -> Option<String> {
        super::http::pattern_of(self.secrets.iter().map(String::as_str))
    }

    /// As it is to be started, with pipes for all it says and with more words and variables.
    pub(in crate::upstream) fn command<'a>(
        &self,
        words: &[String],
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.words).args(words).current_dir(&self.folder);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(variables);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Programs of many names look at the one that they were called by.
        #[cfg(unix)]
        command.arg0(&self.called).process_group(0);
        command
    }
}
