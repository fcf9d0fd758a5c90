//! The two ways to and from a child, and the calls whose answers are waited for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt,
    process::ChildStdin,
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};

use crate::upstream::{
    Meanwhile,
    buffer::{BodyAccount, BodyCharge, BufferFull},
    mcp::{Outgoing, message},
};

/// The two ways to and from a child. Clones are the same child; when the last but those of its own tasks is dropped, it
/// is ended.
#[derive(Debug, Clone)]
pub(super) struct Pipe {
    pub(super) out: mpsc::Sender<Bytes>,
    pub(super) waiting: Arc<Waiting>,
    pub(super) over: Arc<Over>,
    pub(super) gone: watch::Receiver<bool>,
    /// Told of each call that was given up on.
    pub(super) doubt: Arc<Notify>,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The child has ended.
    Ended,
    /// It is longer than this call reads.
    TooLong { limit_bytes: usize },
    /// No memory was free for it.
    Full(BufferFull),
}

impl Pipe {
    pub(super) fn is_over(&self) -> bool {
        *self.over.0.borrow()
    }

    /// Sends a request and waits for its answer, which is told by this id.
    pub(super) async fn ask(
        &self,
        id: u64,
        message: Bytes,
        outgoing: &Outgoing<'_>,
    ) -> Result<Bytes, Unanswered> {
        let (tell, told) = oneshot::channel();
        let charge = outgoing.ask.and_then(|ask| Some((ask.charge.clone()?, ask.due.at)));
        let (limit_bytes, meanwhile) = (outgoing.limit_bytes, outgoing.meanwhile().cloned());
        match self.waiting.callers().as_mut() {
            Some(callers) => callers.insert(id, Caller { tell, limit_bytes, charge, meanwhile }),
            None => return Err(Unanswered::Ended),
        };
        let mut call = InFlight { pipe: self, id, is_over: false };
        self.out.send(message).await.map_err(|_| Unanswered::Ended)?;
        let answer = told.await;
        call.is_over = true;
        answer.unwrap_or(Err(Unanswered::Ended))
    }
}

/// Whether a child is to end, or has; the last one to hold this ends it.
#[derive(Debug)]
pub(super) struct Over(pub(super) watch::Sender<bool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Calls whose answers are waited for; `None` when there will be no more answers.
#[derive(Debug)]
pub(super) struct Waiting(Mutex<Option<HashMap<u64, Caller>>>);

impl Waiting {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }

    fn callers(&self) -> MutexGuard<'_, Option<HashMap<u64, Caller>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, id: u64) -> Option<Caller> {
        self.callers().as_mut()?.remove(&id)
    }

    /// The caller, where only one waits.
    pub(super) fn take_only(&self) -> Option<Caller> {
        let mut callers = self.callers();
        let callers = callers.as_mut().filter(|callers| callers.len() == 1)?;
        let id = *callers.keys().next()?;
        callers.remove(&id)
    }

    /// Where a call hears what happens before its answer is there.
    pub(super) fn meanwhile_of(&self, id: u64) -> Option<Meanwhile> {
        self.callers().as_ref()?.get(&id)?.meanwhile.clone()
    }

    /// Nothing more will come: whoever waits is told by the end of the channel.
    pub(super) fn close(&self) {
        self.callers().take();
    }
}

/// Who waits for one answer.
#[derive(Debug)]
pub(super) struct Caller {
    tell: oneshot::Sender<Result<Bytes, Unanswered>>,
    limit_bytes: usize,
    /// How its answer is charged, and until when it waits for that.
    charge: Option<(BodyCharge, Instant)>,
    meanwhile: Option<Meanwhile>,
}

impl Caller {
    /// Gives it its answer. Nothing else is read of the child while a long one waits for memory, so that a child can't
    /// fill it.
    pub(super) async fn answer(mut self, text: &[u8]) {
        if text.len() > self.limit_bytes {
            let limit_bytes = self.limit_bytes;
            return self.too_long(limit_bytes);
        }
        let mut account = match &self.charge {
            Some((charge, until)) => BodyAccount::new(Some(charge), self.limit_bytes, *until),
            None => BodyAccount::none(),
        };
        let covered = tokio::select! {
            covered = account.cover(text.len()) => covered,
            () = self.tell.closed() => return,
        };
        let answer = match covered {
            Ok(()) => Ok(account.finish(Bytes::copy_from_slice(text))),
            Err(full) => Err(Unanswered::Full(full)),
        };
        let _ = self.tell.send(answer);
    }

    /// The answer is longer than this limit, and than that of the call where it has a lower one.
    pub(super) fn too_long(self, limit_bytes: usize) {
        let limit_bytes = self.limit_bytes.min(limit_bytes);
        let _ = self.tell.send(Err(Unanswered::TooLong { limit_bytes }));
    }
}

/// A call whose answer is waited for. Where that ends early, the server is told.
struct InFlight<'a> {
    pipe: &'a Pipe,
    id: u64,
    is_over: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.pipe.waiting.take(self.id).is_some() {
            // A child that does not read is not told, either.
            let _ = self.pipe.out.try_send(message::cancelled(self.id));
            self.pipe.doubt.notify_one();
        }
    }
}

/// Writes a line for each message, until the child is to end or reads no more.
pub(super) async fn write(
    mut input: ChildStdin,
    mut messages: mpsc::Receiver<Bytes>,
    mut over: watch::Receiver<bool>,
) {
    let lines = async {
        while let Some(message) = messages.recv().await {
            let mut line = Vec::with_capacity(message.len() + 1);
            line.extend_from_slice(&message);
            line.push(b'\n');
            if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = lines => {}
        _ = over.wait_for(|over| *over) => {}
    }
}
