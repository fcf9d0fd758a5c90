//! What a child writes: answers for who waits for them, and what it tells unasked.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use regex::Regex;
use tokio::{
    io::BufReader,
    process::ChildStdout,
    sync::{Notify, mpsc, watch},
};
use tracing::{debug, warn};

use super::{MESSAGE_LIMIT_BYTES, calls::Waiting};
use crate::{
    route::UpstreamName,
    telemetry::Quoted,
    upstream::mcp::{
        Changed,
        listening::{self, Heard},
        message::{self, Message},
        pipe::{self, Line, next_line},
    },
};

/// How many lines that are no messages are logged of one child.
const GARBAGE_LOGGED: u32 = 5;

/// Reads what a child writes.
pub(super) struct Reader {
    pub(super) name: UpstreamName,
    pub(super) out: mpsc::Sender<Bytes>,
    pub(super) waiting: Arc<Waiting>,
    /// Told of each line.
    pub(super) heard: Arc<Notify>,
    pub(super) changed: Changed,
    pub(super) garbage: u32,
    /// What no log may show of it.
    pub(super) secrets: Option<Regex>,
    pub(super) over: watch::Sender<bool>,
    /// Set where the child's output ended before we wanted its end.
    pub(super) ended_first: Arc<AtomicBool>,
}

impl Reader {
    pub(super) async fn read(mut self, output: ChildStdout) {
        let mut output = BufReader::with_capacity(64 << 10, output);
        loop {
            match next_line(&mut output, MESSAGE_LIMIT_BYTES).await {
                Ok(Some(Line::Whole(line))) => self.line(&line).await,
                Ok(Some(Line::Cut(begins))) => {
                    if self.too_long(begins, &mut output).await.is_err() {
                        break;
                    }
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.waiting.close();
        self.over.send_if_modified(|over| {
            if !*over {
                self.ended_first.store(true, Ordering::Relaxed);
            }
            !std::mem::replace(over, true)
        });
    }

    async fn line(&mut self, line: &[u8]) {
        self.heard.notify_waiters();
        let text = std::str::from_utf8(line).unwrap_or_default();
        let messages = message::messages_of_line(text);
        if messages.is_empty() && !line.trim_ascii().is_empty() {
            return self.garbage(line);
        }
        for message in messages {
            if let Message::Response(response) = &message
                && let Some(caller) = response.id.and_then(|id| self.waiting.take(id))
            {
                caller.answer(response.text.as_bytes()).await;
                continue;
            }
            let caller =
                listening::progress_of(&message).and_then(|id| Some((id, self.waiting.meanwhile_of(id)?)));
            let call = caller.as_ref().map(|(id, meanwhile)| (*id, meanwhile));
            match listening::heard(&self.name, &message, call) {
                Heard::Nothing => {}
                Heard::ListsChanged => self.changed.tell(),
                // A child that asks and does not read gets no answer.
                Heard::Asked(answer) => drop(self.out.try_send(answer)),
            }
        }
    }

    /// A program that prints what is for people to where only messages belong.
    fn garbage(&mut self, line: &[u8]) {
        self.garbage = self.garbage.saturating_add(1);
        if self.garbage <= GARBAGE_LOGGED {
            let bytes = line.len();
            warn!(upstream = %self.name, bytes, "the program wrote a line that is not a message: it is passed over");
            let line = pipe::shown(line, self.secrets.as_ref());
            debug!(upstream = %self.name, line = %Quoted(&line), "the line that is not a message");
        }
    }

    /// Fails the call whose answer is longer than is read, before the rest of it has come where the id is known by then.
    /// An answer that tells its id nowhere is that of the only call, where there is only one.
    async fn too_long(&self, begins: Vec<u8>, output: &mut BufReader<ChildStdout>) -> io::Result<()> {
        self.heard.notify_waiters();
        warn!(upstream = %self.name, limit_bytes = MESSAGE_LIMIT_BYTES, "a message of the program is too long");
        let id = message::id_at_beginning(&begins);
        drop(begins);
        let known = id.and_then(|id| self.waiting.take(id));
        let is_known = known.is_some();
        if let Some(caller) = known {
            caller.too_long(MESSAGE_LIMIT_BYTES);
        }
        let ends = pipe::rest_of_line(output).await?;
        self.heard.notify_waiters();
        if !is_known && id.is_none() {
            let by_end = message::id_at_end(&ends).and_then(|id| self.waiting.take(id));
            if let Some(caller) = by_end.or_else(|| self.waiting.take_only()) {
                caller.too_long(MESSAGE_LIMIT_BYTES);
            }
        }
        Ok(())
    }
}
