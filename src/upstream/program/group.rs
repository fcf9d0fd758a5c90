//! A program that runs, with all that it started: ended as a whole, and waited for.

use std::{io, process::ExitStatus, time::Duration};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    time::timeout,
};

/// How long a program that nobody waits for has to end by itself, from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A program and what it has started, as far as that has not left its process group.
///
/// Dropped before the program has ended, it is told to end, and made to after a while; nothing of it is left then, and
/// no zombie either.
#[derive(Debug)]
pub(in crate::upstream) struct Group {
    /// Gone once it has ended.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    id: u32,
}

/// What is sent to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    End,
    Die,
}

impl Group {
    /// Starts a program as the first of a group.
    pub(in crate::upstream) fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        let id = child.id().ok_or_else(|| io::Error::other("it ended before it was known"))?;
        Ok(Self { running: Some(Running { child, id }) })
    }

    /// The program, while it runs.
    pub(in crate::upstream) fn child(&mut self) -> Option<&mut Child> {
        self.running.as_mut().map(|running| &mut running.child)
    }

    /// Waits for the end of the program itself. What it has started may go on until `clear`.
    pub(in crate::upstream) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.running {
            Some(running) => running.child.wait().await,
            None => Err(io::Error::other("it has ended before")),
        }
    }

    /// Tells the program to end, makes it after a while, and waits for that.
    pub(in crate::upstream) async fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.tell(Word::End);
            running.die().await;
        }
    }

    /// Ends what the program left behind, once it has ended itself.
    pub(in crate::upstream) fn clear(&mut self) {
        if let Some(running) = self.running.take() {
            running.tell(Word::Die);
            running.forget();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.tell(Word::End);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(running.die())),
            // Dropped, it is killed.
            Err(_) => drop(running),
        }
    }
}

impl Running {
    #[cfg(unix)]
    fn tell(&self, word: Word) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let signal = match word {
            Word::End => Signal::TERM,
            Word::Die => Signal::KILL,
        };
        let group = i32::try_from(self.id).ok().filter(|id| *id > 1).and_then(Pid::from_raw);
        if let Some(group) = group {
            // A group with nobody in it any more is what is wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    #[cfg(not(unix))]
    fn tell(&self, _: Word) {}

    /// Waits a while for the end that was asked for, and then brings it about.
    async fn die(mut self) {
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.tell(Word::Die);
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
        // What it started may have taken no notice.
        self.tell(Word::Die);
        self.forget();
    }

    /// Leaves the number of the group alone from now on: it may become somebody else's.
    fn forget(mut self) {
        self.id = 0;
    }
}

/// When the process ends while a program is waited for, the program ends first.
impl Drop for Running {
    fn drop(&mut self) {
        if self.id != 0 {
            self.tell(Word::Die);
            let _ = self.child.start_kill();
        }
    }
}
