//! The program of an MCP server: how it is started, and how it is ended with all that it started itself.

use std::{future::Future, io, process::Stdio, time::Duration};

use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::upstream::program::{Group, Program};

/// How long a child may take to end when its input does.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A running child, and its process group.
pub(super) struct Process(Group);

/// The pipes of a child.
pub(super) struct Pipes {
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
    pub(super) errors: ChildStderr,
}

impl Process {
    /// Starts a child in a process group of its own.
    pub(super) fn start(program: &Program) -> io::Result<(Self, Pipes)> {
        let mut command = program.command(&[], []);
        let mut group = Group::start(command.stdin(Stdio::piped()))?;
        let missing = || io::Error::other("the child has no pipe");
        let child = group.child().ok_or_else(missing)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else { return Err(missing()) };
        Ok((Self(group), Pipes { input, output, errors }))
    }

    /// Waits for its end, of its own or because `over` is. Then nothing of its group is left.
    pub(super) async fn ended(mut self, over: impl Future<Output = ()>) -> String {
        let status = tokio::select! {
            status = self.0.wait() => status,
            // Its input has ended, which tells it to end as well (MCP, stdio, "Shutdown").
            () = over => match timeout(END_TIMEOUT, self.0.wait()).await {
                Ok(status) => status,
                Err(_) => {
                    self.0.end().await;
                    return "told to end".to_owned();
                }
            },
        };
        self.0.clear();
        match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }
}
