//! Commands: a program that is started for each call, with the arguments of the call after its own.

use std::{io, process::ExitStatus, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
    time::timeout,
};
use tracing::debug;

use super::{
    ProgressEvent, UpstreamCall, UpstreamError,
    buffer::BodyAccount,
    program::{ProcessGroup, Program, ProgramSettings},
};
use crate::{
    model::{ProgramEnd, ProgramExit, UpstreamResponse},
    route::{UpstreamName, UpstreamRequest},
    telemetry::{CallContext, UntrustedOutput},
};

/// Runs a command for a call. Dropping the future kills it and all processes that it started.
pub(super) async fn run_command(
    command: &ProgramSettings,
    upstream_call: &UpstreamCall,
) -> Result<UpstreamResponse, UpstreamError> {
    let UpstreamRequest::Command(request) = &upstream_call.request else {
        return Err(UpstreamError::wrong_kind(&command.name));
    };
    let limit_bytes = upstream_call.response_limit_bytes;
    let running = CommandRun {
        arguments: &request.words,
        variables: &[],
        input: &request.stdin,
        limit_bytes,
        upstream_call,
    };
    let FinishedProgram { output, exit } = run_program(command, running).await?;
    Ok(UpstreamResponse::from_program(output, exit))
}

/// Limit of the standard error that is stored, in bytes. The end is stored, where programs write why they
/// fail.
const STDERR_LIMIT_BYTES: usize = 16 << 10;

/// Longest time that orphaned processes of a program may hold its pipes open after it has exited.
const LINGER: Duration = Duration::from_millis(500);

/// Size of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// Output of a program, and its exit status.
#[derive(Debug)]
pub(super) struct FinishedProgram {
    pub(super) output: Bytes,
    pub(super) exit: ProgramExit,
}

/// One run of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandRun<'a> {
    /// Arguments after those of the configuration.
    pub(super) arguments: &'a [String],
    /// Variables besides those of the configuration.
    pub(super) variables: &'a [(String, String)],
    /// Standard input.
    pub(super) input: &'a Bytes,
    /// Limit of its output.
    pub(super) limit_bytes: usize,
    /// Call that it runs for.
    pub(super) upstream_call: &'a UpstreamCall,
}

/// Runs a program to its end. Dropping the future, or output over the limit, kills it and all processes that
/// it started.
pub(super) async fn run_program(
    settings: &ProgramSettings,
    run: CommandRun<'_>,
) -> Result<FinishedProgram, UpstreamError> {
    let ProgramSettings { name, program } = settings;
    let broken = |source: io::Error| UpstreamError::CutOff { upstream: name.clone(), source: source.into() };
    let variables = run.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut command = program.command(run.arguments, variables);
    if !run.input.is_empty() {
        command.stdin(std::process::Stdio::piped());
    }
    let mut group = ProcessGroup::start(&mut command)
        .map_err(|source| UpstreamError::NotStarted { upstream: name.clone(), source: source.into() })?;
    run.upstream_call.context.request_sent();
    let child = group.child().ok_or_else(|| broken(io::Error::other("it is gone")))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let missing = || broken(io::Error::other("it has no pipes"));
    let (stdout, stderr) = (stdout.ok_or_else(missing)?, stderr.ok_or_else(missing)?);
    let mut account = run.upstream_call.account(run.limit_bytes);
    let mut written = ProgramOutput {
        program,
        context: &run.upstream_call.context,
        output: BytesMut::new(),
        stderr: Vec::new(),
        is_taken: false,
    };
    let ProgramOutput { output, stderr: error_output, .. } = &mut written;
    let status = {
        let streams = async {
            let errors = async { read_tail(stderr, error_output).await.map_err(broken) };
            tokio::try_join!(feed(stdin, run.input), read(name, stdout, output, run, &mut account), errors)
                .map(drop)
        };
        tokio::pin!(streams);
        tokio::select! {
            biased;
            streamed = &mut streams => {
                streamed?;
                group.wait().await.map_err(broken)?
            }
            status = group.wait() => {
                let status = status.map_err(broken)?;
                // Orphaned processes may still write, or only hold the pipes open.
                match timeout(LINGER, &mut streams).await {
                    Ok(streamed) => streamed?,
                    Err(_) => {
                        group.clear();
                        // A process that has left the group keeps its pipe open; its output is not read.
                        if let Ok(streamed) = timeout(LINGER, &mut streams).await {
                            streamed?;
                        }
                    }
                }
                status
            }
        }
    };
    group.clear();
    let FinishedProgram { output, exit } = written.finish(status);
    Ok(FinishedProgram { output: account.finish(output), exit })
}

/// Output of a program so far. If it is dropped unused, the end of standard error is logged.
struct ProgramOutput<'a> {
    program: &'a Program,
    context: &'a CallContext,
    output: BytesMut,
    stderr: Vec<u8>,
    is_taken: bool,
}

impl ProgramOutput<'_> {
    fn finish(mut self, status: ExitStatus) -> FinishedProgram {
        self.is_taken = true;
        let output = std::mem::take(&mut self.output).freeze();
        FinishedProgram {
            output,
            exit: ProgramExit { end: end_of(status), stderr: stderr_tail(&self.stderr).to_vec().into() },
        }
    }
}

impl Drop for ProgramOutput<'_> {
    fn drop(&mut self) {
        if !self.is_taken && !self.stderr.is_empty() {
            let stderr = String::from_utf8_lossy(stderr_tail(&self.stderr)).into_owned();
            let stderr = UntrustedOutput(stderr.trim_end());
            let request_id = self.context.request_id();
            let program = &self.program.arg0;
            debug!(%program, request_id, %stderr, "command killed before it finished");
        }
    }
}

/// Writes standard input. A program need not read it, so errors are ignored.
async fn feed(stdin: Option<ChildStdin>, input: &Bytes) -> Result<(), UpstreamError> {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    }
    Ok(())
}

async fn read(
    upstream: &UpstreamName,
    mut from: impl AsyncRead + Unpin,
    output: &mut BytesMut,
    run: CommandRun<'_>,
    account: &mut BodyAccount<'_>,
) -> Result<(), UpstreamError> {
    let broken =
        |source: io::Error| UpstreamError::CutOff { upstream: upstream.clone(), source: source.into() };
    loop {
        output.reserve(CHUNK_BYTES.min(run.limit_bytes.saturating_sub(output.len()) + 1));
        if from.read_buf(output).await.map_err(broken)? == 0 {
            return Ok(());
        }
        if output.len() > run.limit_bytes {
            let limit_bytes = run.upstream_call.response_limit_bytes;
            return Err(UpstreamError::TooLong { upstream: upstream.clone(), limit_bytes });
        }
        account.grow(output.len()).await.map_err(|full| full.into_error(upstream))?;
        if let Some(progress) = &run.upstream_call.progress {
            progress.send(ProgressEvent::Received { bytes: output.len() as u64, of: None });
        }
    }
}

/// Reads to the end and stores the last [`STDERR_LIMIT_BYTES`].
async fn read_tail(mut from: impl AsyncRead + Unpin, tail: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = vec![0; STDERR_LIMIT_BYTES];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        tail.extend_from_slice(&chunk[..count]);
        if tail.len() > 2 * STDERR_LIMIT_BYTES {
            tail.drain(..tail.len() - STDERR_LIMIT_BYTES);
        }
    }
}

fn stderr_tail(stderr: &[u8]) -> &[u8] {
    let last = &stderr[stderr.len().saturating_sub(STDERR_LIMIT_BYTES)..];
    match last.len() == stderr.len() {
        true => last,
        // Not from the middle of a character (RFC 3629: continuation bytes begin with the bits 10).
        false => &last[last.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count()..],
    }
}

#[cfg(unix)]
fn end_of(status: ExitStatus) -> ProgramEnd {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Code(code),
        (None, Some(number)) => ProgramEnd::Signal(number),
        (None, None) => ProgramEnd::Code(-1),
    }
}

#[cfg(not(unix))]
fn end_of(status: ExitStatus) -> ProgramEnd {
    ProgramEnd::Code(status.code().unwrap_or(-1))
}
