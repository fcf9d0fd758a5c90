//! Commands: a program that is started for each call, with the arguments of the call after its own.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    time::timeout,
};
use tracing::debug;

use super::buffer::BodyAccount;
use super::program::{Pipes, ProcessGroup, Program};
use super::{Failure, OnDrop, ProgressEvent, UpstreamCall, UpstreamResult};
use crate::model::{ProgramEnd, ProgramExit, UpstreamResponse};
use crate::route::UpstreamRequest;
use crate::telemetry::Untrusted;

/// Runs a command for a call. Dropping the future kills it and all processes that it started.
pub(super) async fn run_command(program: &Program, upstream_call: &UpstreamCall) -> UpstreamResult {
    let UpstreamRequest::Command(request) = &upstream_call.request else {
        return Err(Failure::wrong_kind());
    };
    let limit_bytes = upstream_call.response_limit_bytes;
    let ran = run_program(program, &request.words, &[], &request.stdin, limit_bytes, upstream_call).await;
    let (output, exit) = ran?;
    Ok(UpstreamResponse::from_program(output, exit))
}

/// Limit of the standard error that is stored, in bytes. The end is stored, where programs write why they
/// fail.
const STDERR_LIMIT_BYTES: usize = 16 << 10;

/// Longest time that orphaned processes of a program may hold its pipes open after it has exited.
const LINGER: Duration = Duration::from_millis(500);

/// Size of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// Runs a program for a call to its end and returns its output, at most `limit_bytes`. Arguments and
/// variables are in addition to those of the configuration. Dropping the future, or output over the limit,
/// kills it and all processes that it started.
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
        command.stdin(std::process::Stdio::piped());
    }
    let (mut group, Pipes { stdin, stdout, stderr }) =
        ProcessGroup::start(&mut command).map_err(|source| Failure::NotStarted(source.into()))?;
    let context = &upstream_call.context;
    context.request_sent();
    let (mut account, mut output) = (upstream_call.account(limit_bytes), BytesMut::new());
    let error_output = Mutex::new(Vec::new());
    let killed = OnDrop::new(|| {
        let error_output = error_output.lock();
        let stderr = String::from_utf8_lossy(stderr_tail(&error_output));
        if !stderr.is_empty() {
            let (program, request_id) = (&program.arg0, context.request_id());
            let stderr = Untrusted(stderr.trim_end());
            debug!(%program, request_id, %stderr, "command killed before it finished");
        }
    });
    let status = {
        let streams = async {
            let errors = async { read_tail(stderr, &error_output).await.map_err(broken) };
            let output = read(stdout, &mut output, limit_bytes, upstream_call, &mut account);
            let ((), (), ()) = tokio::try_join!(feed(stdin, input), output, errors)?;
            Ok(())
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
    killed.disarm();
    let stderr = stderr_tail(&error_output.into_inner()).to_vec().into();
    Ok((account.finish(output.freeze()), ProgramExit { end: end_of(status), stderr }))
}

fn broken(source: io::Error) -> Failure {
    Failure::CutOff(source.into())
}

/// Writes standard input. A program need not read it, so errors are ignored.
async fn feed(stdin: Option<ChildStdin>, input: &Bytes) -> Result<(), Failure> {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    }
    Ok(())
}

async fn read(
    mut from: ChildStdout,
    output: &mut BytesMut,
    limit_bytes: usize,
    upstream_call: &UpstreamCall,
    account: &mut BodyAccount,
) -> Result<(), Failure> {
    loop {
        output.reserve(CHUNK_BYTES.min(limit_bytes.saturating_sub(output.len()) + 1));
        if from.read_buf(output).await.map_err(broken)? == 0 {
            return Ok(());
        }
        if output.len() > limit_bytes {
            return Err(Failure::TooLong(upstream_call.response_limit_bytes));
        }
        account.grow(output.len()).await?;
        if let Some(progress) = &upstream_call.progress {
            progress.send(ProgressEvent::Received { bytes: output.len() as u64, of: None });
        }
    }
}

/// Reads to the end and stores the last [`STDERR_LIMIT_BYTES`].
async fn read_tail(mut from: impl AsyncRead + Unpin, tail: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut chunk = vec![0; STDERR_LIMIT_BYTES];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        let mut tail = tail.lock();
        tail.extend_from_slice(&chunk[..count]);
        if tail.len() > 2 * STDERR_LIMIT_BYTES {
            let surplus = tail.len() - STDERR_LIMIT_BYTES;
            tail.drain(..surplus);
        }
    }
}

fn stderr_tail(stderr: &[u8]) -> &[u8] {
    let last = &stderr[stderr.len().saturating_sub(STDERR_LIMIT_BYTES)..];
    // Not from the middle of a character (RFC 3629: continuation bytes begin with the bits 10).
    let is_cut = last.len() < stderr.len();
    &last[last.iter().take(3).take_while(|byte| is_cut && **byte & 0xC0 == 0x80).count()..]
}

fn end_of(status: ExitStatus) -> ProgramEnd {
    match status.signal() {
        Some(number) => ProgramEnd::Signal(number),
        None => ProgramEnd::Code(status.code().unwrap_or(-1)),
    }
}
