//! Commands: a program that is started for each call, with arguments of the call behind its own.

use std::{io, process::ExitStatus, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
    time::timeout,
};
use tracing::debug;

use super::{
    Ask, Happened, UpstreamError,
    buffer::{BodyAccount, BufferFull},
    program::{Group, Program, ProgramSettings},
};
use crate::{
    model::{End, Exit, Reply},
    route::{UpstreamName, UpstreamRequest},
    telemetry::{Quoted, Ticket},
};

/// Runs a command for a call. Dropping the future ends it, with all that it started.
pub(super) async fn answer(command: &ProgramSettings, ask: &Ask) -> Result<Reply, UpstreamError> {
    let UpstreamRequest::Command(request) = &ask.request else {
        return Err(UpstreamError::of_another_kind(&command.name));
    };
    let limit_bytes = ask.reply_limit_bytes;
    let running = Run { arguments: &request.words, variables: &[], input: &request.stdin, limit_bytes, ask };
    match run(&command.program, running).await {
        Ok(Finished { output, exit }) => Ok(Reply::of_program(output, exit)),
        Err(error) => Err(error.of(&command.name, limit_bytes)),
    }
}

/// How much of standard error is kept: the end of it, where programs write why they fail.
const STDERR_LIMIT_BYTES: usize = 16 << 10;

/// How long processes that a program left behind may hold its pipes open without writing, once it has ended.
const LINGER: Duration = Duration::from_millis(500);

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The output of a program, and how it ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) output: Bytes,
    pub(super) exit: Exit,
}

/// Why a run failed.
#[derive(Debug)]
pub(super) enum RunError {
    /// It was not started.
    NotStarted(io::Error),
    /// Its output is longer than is read.
    TooLong,
    /// No memory is free for its output.
    Full(BufferFull),
    /// The system failed between us and it.
    Broken(io::Error),
}

impl RunError {
    /// The same of an upstream.
    pub(super) fn of(self, name: &UpstreamName, limit_bytes: usize) -> UpstreamError {
        let upstream = name.clone();
        match self {
            Self::NotStarted(source) => UpstreamError::NotStarted { upstream, source: source.into() },
            Self::TooLong => UpstreamError::TooLong { upstream, limit_bytes },
            Self::Full(full) => full.of(name),
            Self::Broken(source) => UpstreamError::CutOff { upstream, source: source.into() },
        }
    }
}

/// One run of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    /// More arguments.
    pub(super) arguments: &'a [String],
    /// More variables.
    pub(super) variables: &'a [(String, String)],
    /// Its standard input.
    pub(super) input: &'a Bytes,
    /// How long its output may be.
    pub(super) limit_bytes: usize,
    /// The call that it runs for.
    pub(super) ask: &'a Ask,
}

/// Runs a program to its end. Dropping the future ends it, with all that it started; so does a limit that it passes.
pub(super) async fn run(program: &Program, run: Run<'_>) -> Result<Finished, RunError> {
    let variables = run.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut command = program.command(run.arguments, variables);
    if !run.input.is_empty() {
        command.stdin(std::process::Stdio::piped());
    }
    let mut group = Group::start(&mut command).map_err(RunError::NotStarted)?;
    let child = group.child().ok_or_else(|| RunError::Broken(io::Error::other("it is gone")))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let missing = || RunError::Broken(io::Error::other("it has no pipes"));
    let (stdout, stderr) = (stdout.ok_or_else(missing)?, stderr.ok_or_else(missing)?);
    let mut account = run.ask.account(run.limit_bytes);
    let mut written = Written {
        program,
        ticket: &run.ask.ticket,
        output: BytesMut::new(),
        stderr: Vec::new(),
        is_taken: false,
    };
    let Written { output, stderr: told, .. } = &mut written;
    let status = {
        let streams = async {
            tokio::try_join!(
                feed(stdin, run.input),
                read(stdout, output, run, &mut account),
                keep_end(stderr, told)
            )
            .map(drop)
        };
        tokio::pin!(streams);
        tokio::select! {
            biased;
            streamed = &mut streams => {
                streamed?;
                group.wait().await.map_err(RunError::Broken)?
            }
            status = group.wait() => {
                let status = status.map_err(RunError::Broken)?;
                // Processes that it left behind may still be writing, or only hold the pipes.
                match timeout(LINGER, &mut streams).await {
                    Ok(streamed) => streamed?,
                    Err(_) => {
                        group.clear();
                        // A process that has left the group keeps the pipe, and is not read.
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
    let Finished { output, exit } = written.finish(status);
    Ok(Finished { output: account.finish(output), exit })
}

/// The output of a program so far. Where nobody takes it, at least the log has the end of standard error.
struct Written<'a> {
    program: &'a Program,
    ticket: &'a Ticket,
    output: BytesMut,
    stderr: Vec<u8>,
    is_taken: bool,
}

impl Written<'_> {
    fn finish(mut self, status: ExitStatus) -> Finished {
        self.is_taken = true;
        let output = std::mem::take(&mut self.output).freeze();
        Finished { output, exit: Exit { end: end_of(status), stderr: last(&self.stderr).to_vec().into() } }
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if !self.is_taken && !self.stderr.is_empty() {
            let stderr = String::from_utf8_lossy(last(&self.stderr)).into_owned();
            let stderr = Quoted(stderr.trim_end());
            let request_id = self.ticket.request_id();
            debug!(program = %self.program.called, request_id, %stderr, "a program was ended before it was done");
        }
    }
}

/// Writes its standard input, which a program need not read.
async fn feed(stdin: Option<ChildStdin>, input: &Bytes) -> Result<(), RunError> {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    }
    Ok(())
}

async fn read(
    mut from: impl AsyncRead + Unpin,
    output: &mut BytesMut,
    run: Run<'_>,
    account: &mut BodyAccount<'_>,
) -> Result<(), RunError> {
    loop {
        output.reserve(CHUNK_BYTES.min(run.limit_bytes.saturating_sub(output.len()) + 1));
        if from.read_buf(output).await.map_err(RunError::Broken)? == 0 {
            return Ok(());
        }
        if output.len() > run.limit_bytes {
            return Err(RunError::TooLong);
        }
        account.grow(output.len()).await.map_err(RunError::Full)?;
        if let Some(meanwhile) = &run.ask.meanwhile {
            meanwhile.tell(Happened::Received { bytes: output.len() as u64, of: None });
        }
    }
}

/// Reads all there is and keeps the end of it.
async fn keep_end(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) -> Result<(), RunError> {
    let mut chunk = vec![0; STDERR_LIMIT_BYTES];
    loop {
        let count = from.read(&mut chunk).await.map_err(RunError::Broken)?;
        if count == 0 {
            return Ok(());
        }
        kept.extend_from_slice(&chunk[..count]);
        if kept.len() > 2 * STDERR_LIMIT_BYTES {
            kept.drain(..kept.len() - STDERR_LIMIT_BYTES);
        }
    }
}

fn last(stderr: &[u8]) -> &[u8] {
    let last = &stderr[stderr.len().saturating_sub(STDERR_LIMIT_BYTES)..];
    match last.len() == stderr.len() {
        true => last,
        // Not from the middle of a character on (RFC 3629: continuation bytes begin with the bits 10).
        false => &last[last.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count()..],
    }
}

#[cfg(unix)]
fn end_of(status: ExitStatus) -> End {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(number)) => End::Signal(number),
        (None, None) => End::Code(-1),
    }
}

#[cfg(not(unix))]
fn end_of(status: ExitStatus) -> End {
    End::Code(status.code().unwrap_or(-1))
}
