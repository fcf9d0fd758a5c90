//! Programs: starts a program, and ends it together with its child processes. Commands are programs that are
//! started for each call, with the arguments of the call after the configured ones.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    time::timeout,
};
use tracing::debug;

use super::buffer::BodyAccount;
use super::{Failure, OnDrop, ProgressEvent, UpstreamCall, UpstreamResult};
use crate::model::{ProgramEnd, ProgramExit, UpstreamResponse};
use crate::route::{UpstreamName, UpstreamRequest};
use crate::telemetry::Untrusted;

/// Program that is started without a shell, with its own environment and process group.
///
/// `Debug` shows no arguments or variables, which may be secrets.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[debug("Program({path:?})")]
pub struct Program {
    /// The name of the upstream.
    pub name: UpstreamName,
    /// Path of the executable. A bare name is looked up in the `PATH` of the program at each start.
    pub path: PathBuf,
    /// Name that the program receives as `argv[0]`.
    pub arg0: String,
    /// Configured arguments, which precede the arguments of a call.
    pub arguments: Vec<String>,
    /// Working directory.
    pub working_directory: PathBuf,
    /// Complete environment, which nothing overrides. Values may be secrets.
    pub environment: Vec<(String, String)>,
    /// Secrets in arguments and variables, which must not occur in errors or in the log.
    pub secrets: Vec<String>,
}

impl Program {
    /// Default of [`working_directory`](Self::working_directory): it always exists and contains nothing of
    /// value.
    pub const WORKING_DIRECTORY_DEFAULT: &'static str = "/";
    /// Search path for programs if `PATH` is not set.
    pub const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
    /// Default locale: untranslated messages, which rules can rely on, in UTF-8.
    pub const LOCALE_DEFAULT: &'static str = "C.UTF-8";

    /// Regex that matches the secrets, which must not occur in errors or in the log.
    pub(super) fn secrets_pattern(&self) -> Option<String> {
        super::http::pattern_of(self.secrets.iter().map(String::as_str))
    }

    /// Command that starts the program with piped output, and with `arguments` and `variables` in addition to
    /// the configured ones.
    pub(super) fn command(&self, arguments: &[String], variables: &[(String, String)]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).args(arguments).current_dir(&self.working_directory);
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
/// If this struct is dropped before the program has ended, the program is terminated, and killed after
/// [`GRACE_PERIOD`]. No process and no zombie is left.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    /// The process. `None` once it has ended.
    running: Option<RunningProcess>,
}

#[derive(Debug)]
struct RunningProcess {
    child: Child,
    /// Process group id. 0 once the group is empty: no more signals are sent, because the system may reuse
    /// the id.
    id: u32,
}

impl ProcessGroup {
    /// Starts a program as leader of a new process group. Also returns the pipes of the program; the first is
    /// `None` if its standard input is empty.
    pub(super) fn start(
        command: &mut Command,
    ) -> io::Result<(Self, Option<ChildStdin>, ChildStdout, ChildStderr)> {
        let mut child = command.spawn()?;
        let (stdin, pipes) = (child.stdin.take(), child.stdout.take().zip(child.stderr.take()));
        let id = child.id().ok_or_else(|| io::Error::other("it exited before its process id was known"))?;
        let group = Self { running: Some(RunningProcess { child, id }) };
        let (stdout, stderr) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        Ok((group, stdin, stdout, stderr))
    }

    /// Waits until the program itself has exited. Its child processes may run on until
    /// [`kill_orphans`](Self::kill_orphans).
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
    pub(super) fn kill_orphans(&mut self) {
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
            // Without a runtime, dropping `running` kills the program at once.
            Err(_) => drop(running),
        }
    }
}

impl RunningProcess {
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
        // Child processes of the program may have ignored SIGTERM.
        self.signal(Signal::KILL);
        self.id = 0;
    }
}

/// Kills the program if it still runs, for example when this process ends while it waits for the program.
impl Drop for RunningProcess {
    fn drop(&mut self) {
        if self.id != 0 {
            self.signal(Signal::KILL);
            let _ = self.child.start_kill();
        }
    }
}

/// Runs a command for a call. Dropping the future kills the program and all processes that it started.
pub(super) async fn run_command(program: &Program, upstream_call: &UpstreamCall) -> UpstreamResult {
    let UpstreamRequest::Command(request) = &upstream_call.request else {
        return Err(Failure::wrong_kind());
    };
    let limit_bytes = upstream_call.response_limit_bytes;
    let result = run_program(program, &request.words, &[], &request.stdin, limit_bytes, upstream_call).await;
    let (output, exit) = result?;
    Ok(UpstreamResponse::from_program(output, exit))
}

/// Maximum length of standard error that is stored, in bytes. The end is stored, because programs write there
/// why they fail.
const STDERR_LIMIT_BYTES: usize = 16 << 10;

/// Maximum time that orphaned processes of a program may hold its pipes open after the program has exited.
const ORPHAN_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum size of one read from standard output, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Runs a program for a call to its end and returns its output, at most `limit_bytes`. `arguments` and
/// `variables` are added to the configured ones. Dropping the future, or output over the limit, kills the
/// program and all processes that it started.
pub(super) async fn run_program(
    program: &Program,
    arguments: &[String],
    variables: &[(String, String)],
    input: &Bytes,
    limit_bytes: usize,
    upstream_call: &UpstreamCall,
) -> Result<(Bytes, ProgramExit), Failure> {
    let mut command = program.command(arguments, variables);
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let (mut group, stdin, stdout, stderr) =
        ProcessGroup::start(&mut command).map_err(|source| Failure::NotStarted(source.into()))?;
    let context = &upstream_call.context;
    context.request_sent();
    let (mut account, mut output) = (upstream_call.account(limit_bytes), BytesMut::new());
    let (error_output, waits_for_memory) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let kill_log = OnDrop::new(|| {
        let error_output = error_output.lock();
        let stderr = String::from_utf8_lossy(&error_output);
        if !stderr.is_empty() {
            let (program, request_id) = (&program.arg0, context.request_id());
            let stderr = Untrusted(stderr.trim_end());
            debug!(%program, request_id, %stderr, "command killed before it finished");
        }
    });
    let status = {
        let streams = async {
            let errors = async { read_tail(stderr, &error_output).await.map_err(broken_pipe) };
            let output =
                read_output(stdout, &mut output, limit_bytes, upstream_call, &mut account, &waits_for_memory);
            let ((), (), ()) = tokio::try_join!(write_stdin(stdin, input), output, errors)?;
            Ok(())
        };
        tokio::pin!(streams);
        tokio::select! {
            biased;
            streamed = &mut streams => {
                streamed?;
                group.wait().await.map_err(broken_pipe)?
            }
            status = group.wait() => {
                let status = status.map_err(broken_pipe)?;
                // Orphaned processes may still write, or only hold the pipes open. While the output waits for
                // memory, the rest of it is still in the pipe.
                loop {
                    match timeout(ORPHAN_TIMEOUT, &mut streams).await {
                        Ok(streamed) => break streamed?,
                        Err(_) if waits_for_memory.load(Ordering::Relaxed) => {}
                        Err(_) => break,
                    }
                }
                status
            }
        }
    };
    group.kill_orphans();
    kill_log.disarm();
    let stderr = error_output.into_inner().into();
    Ok((account.finish(output.freeze()), ProgramExit { end: end_of(status), stderr }))
}

fn broken_pipe(source: io::Error) -> Failure {
    Failure::CutOff(source.into())
}

/// Writes standard input. A program need not read it, so errors are ignored.
async fn write_stdin(stdin: Option<ChildStdin>, input: &Bytes) -> Result<(), Failure> {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    }
    Ok(())
}

async fn read_output(
    mut stdout: ChildStdout,
    output: &mut BytesMut,
    limit_bytes: usize,
    upstream_call: &UpstreamCall,
    account: &mut BodyAccount,
    waits_for_memory: &AtomicBool,
) -> Result<(), Failure> {
    loop {
        output.reserve(CHUNK_BYTES.min(limit_bytes.saturating_sub(output.len()) + 1));
        if stdout.read_buf(output).await.map_err(broken_pipe)? == 0 {
            return Ok(());
        }
        if output.len() > limit_bytes {
            return Err(Failure::TooLong(upstream_call.response_limit_bytes));
        }
        waits_for_memory.store(true, Ordering::Relaxed);
        account.grow(output.len()).await?;
        waits_for_memory.store(false, Ordering::Relaxed);
        if let Some(progress) = &upstream_call.progress {
            progress.send(ProgressEvent::Received { bytes: output.len() as u64, of: None });
        }
    }
}

/// Reads standard error to the end, and stores its last [`STDERR_LIMIT_BYTES`].
async fn read_tail(mut stderr: impl AsyncRead + Unpin, tail: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut chunk = vec![0; STDERR_LIMIT_BYTES];
    loop {
        let count = stderr.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        let mut tail = tail.lock();
        tail.extend_from_slice(&chunk[..count]);
        let surplus = tail.len().saturating_sub(STDERR_LIMIT_BYTES);
        tail.drain(..surplus);
    }
}

fn end_of(status: ExitStatus) -> ProgramEnd {
    match status.signal() {
        Some(number) => ProgramEnd::Signal(number),
        None => ProgramEnd::Code(status.code().unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::route::{HttpRequest, PathBase};
    use crate::upstream::{BodyCharge, Deadline, UpstreamBuffer};

    #[tokio::test]
    async fn output_that_waits_for_memory_is_not_truncated() {
        const LIMIT_BYTES: usize = 1 << 20;
        // More than one read, but the rest fits into the pipe, so the program exits before its output is
        // read.
        const OUTPUT_BYTES: usize = 80_000;
        let program = Program {
            name: "old".parse().unwrap(),
            path: "/bin/sh".into(),
            arg0: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), format!("head -c {OUTPUT_BYTES} /dev/zero")],
            working_directory: "/".into(),
            environment: vec![("PATH".to_owned(), Program::PATH_DEFAULT.to_owned())],
            secrets: Vec::new(),
        };
        let buffer = UpstreamBuffer::new(LIMIT_BYTES);
        buffer.charge(LIMIT_BYTES);
        let request = HttpRequest::get(PathBase::UpstreamUrl, "/".parse().unwrap());
        let deadline = Deadline::after(Duration::from_secs(60));
        let upstream_call = UpstreamCall {
            charge: Some(BodyCharge { buffer: buffer.clone(), factor: 1 }),
            ..UpstreamCall::new(request.into(), LIMIT_BYTES, deadline, true)
        };
        let free_memory = async {
            sleep(3 * ORPHAN_TIMEOUT).await;
            buffer.discharge(LIMIT_BYTES);
        };
        let input = Bytes::new();
        let running = run_program(&program, &[], &[], &input, LIMIT_BYTES, &upstream_call);
        let (result, ()) = tokio::join!(running, free_memory);
        assert_eq!(result.unwrap().0.len(), OUTPUT_BYTES);
    }
}
