//! One connection to the store, over which many commands go at once.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Bytes, BytesMut};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split},
    net::TcpStream,
    sync::{mpsc, oneshot},
};

use super::{
    address::StorePlace,
    backend::Failure,
    resp::{self, Value},
    store::StoreSettings,
};

/// How many commands may wait to be sent; more are told that there is no connection.
const QUEUE_LIMIT: usize = 4096;
/// How many messages may wait to be taken; with more the connection ends, and what is told in between is lost.
const PUSH_LIMIT: usize = 1024;
/// How much is read at once, at least.
const READ_BYTES: usize = 16 << 10;
/// What one value may have beside what is kept, in bytes.
const VALUE_SLACK_BYTES: usize = 4096;

/// What a list of values may have beside the longest of them, in bytes: the members of a group are read as one.
const LIST_SLACK_BYTES: usize = 4 << 20;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The way to send commands. Clones send over the same connection.
#[derive(Debug, Clone)]
pub(super) struct Connection(mpsc::Sender<Sent>);

#[derive(Debug)]
struct Sent {
    bytes: Vec<u8>,
    answer: Option<oneshot::Sender<Value>>,
}

/// Connects: gives the way to send commands, what is told without being asked for, and what carries the connection and
/// ends with it.
///
/// # Errors
///
/// What the system, or the handshake of TLS, says.
pub(super) async fn connect(
    settings: &StoreSettings,
) -> io::Result<(Connection, mpsc::Receiver<Bytes>, impl Future<Output = ()> + Send + 'static)> {
    let stream: Box<dyn Stream> = match &settings.address.place {
        StorePlace::Network { host, port, .. } => {
            let stream = TcpStream::connect((&**host, *port)).await?;
            stream.set_nodelay(true)?;
            match &settings.tls {
                None => Box::new(stream),
                Some(tls) => Box::new(tls.connect(host, stream).await?),
            }
        }
        #[cfg(unix)]
        StorePlace::Socket(path) => Box::new(UnixStream::connect(path).await?),
        #[cfg(not(unix))]
        StorePlace::Socket(_) => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such sockets"));
        }
    };
    let (commands, to_send) = mpsc::channel(QUEUE_LIMIT);
    let (push, messages) = mpsc::channel(PUSH_LIMIT);
    let waiting = Waiting::default();
    let (reading, writing) = split(stream);
    let reader = Reader {
        from: reading,
        waiting: waiting.clone(),
        push,
        limit_bytes: settings.entry_limit_bytes + VALUE_SLACK_BYTES,
    };
    let carry = async move {
        tokio::select! {
            () = reader.run() => {}
            () = write_all(writing, to_send, waiting) => {}
        }
    };
    Ok((Connection(commands), messages, carry))
}

impl Connection {
    /// Sends a command now; the future waits for what is said to it. Of a server that says no, that is
    /// [`Failure::Refused`].
    pub(super) fn ask(&self, words: &[&[u8]]) -> impl Future<Output = Result<Value, Failure>> + Send + use<> {
        let mut bytes = Vec::with_capacity(words.iter().map(|word| word.len() + 16).sum());
        resp::write(words, &mut bytes);
        let (answer, answered) = oneshot::channel();
        let sent = self.0.try_send(Sent { bytes, answer: Some(answer) });
        async move {
            sent.map_err(|_| Failure::NoConnection)?;
            match answered.await {
                Ok(Value::Error(error)) => Err(Failure::Refused(error)),
                Ok(value) => Ok(value),
                Err(_) => Err(Failure::CutOff),
            }
        }
    }

    /// Sends `SUBSCRIBE`, which is answered by a message.
    ///
    /// # Errors
    ///
    /// [`Failure::NoConnection`].
    pub(super) fn subscribe(&self, channel: &[u8]) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        resp::write(&[b"SUBSCRIBE", channel], &mut bytes);
        // Nothing is answered in its turn, so nobody is to wait in the row.
        self.0.try_send(Sent { bytes, answer: None }).map_err(|_| Failure::NoConnection)
    }
}

/// Those who wait for an answer, in the order of their commands.
#[derive(Debug, Clone, Default)]
struct Waiting(Arc<Mutex<VecDeque<oneshot::Sender<Value>>>>);

impl Waiting {
    fn row(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Value>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_all(mut to: WriteHalf<Box<dyn Stream>>, mut sent: mpsc::Receiver<Sent>, waiting: Waiting) {
    let mut bytes = Vec::new();
    while let Some(first) = sent.recv().await {
        let mut next = Some(first);
        while let Some(command) = next {
            bytes.extend_from_slice(&command.bytes);
            waiting.row().extend(command.answer);
            next = sent.try_recv().ok();
        }
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
        bytes.clear();
    }
}

struct Reader {
    from: ReadHalf<Box<dyn Stream>>,
    waiting: Waiting,
    push: mpsc::Sender<Bytes>,
    limit_bytes: usize,
}

impl Reader {
    /// Hands on what comes, until nothing does, or what comes is no reply.
    async fn run(mut self) {
        let mut buffer = BytesMut::new();
        let mut reader = resp::Reader::new(self.limit_bytes, self.limit_bytes + LIST_SLACK_BYTES);
        loop {
            match reader.next(&mut buffer) {
                Ok(Some(Value::Push(items))) => {
                    if !self.pushed(items) {
                        return;
                    }
                }
                Ok(Some(value)) => {
                    let Some(answer) = self.waiting.row().pop_front() else { return };
                    // Who does not wait any more misses nothing.
                    let _ = answer.send(value);
                }
                Ok(None) => {
                    buffer.reserve(READ_BYTES);
                    match self.from.read_buf(&mut buffer).await {
                        Ok(0) | Err(_) => return,
                        Ok(_) => {}
                    }
                }
                Err(resp::Malformed) => return,
            }
        }
    }

    /// Hands on a message; whether there was room.
    fn pushed(&self, items: Vec<Value>) -> bool {
        match items.as_slice() {
            // The channel stands between.
            [Value::Bytes(kind), _, Value::Bytes(told)] if &**kind == b"message" => {
                self.push.try_send(told.clone()).is_ok()
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{io::duplex, time::timeout};

    use super::*;

    #[tokio::test]
    async fn a_list_that_goes_on_and_on_is_not_gathered() {
        let (near, mut far) = duplex(READ_BYTES);
        let (from, _) = split(Box::new(near) as Box<dyn Stream>);
        let reader =
            Reader { from, waiting: Waiting::default(), push: mpsc::channel(1).0, limit_bytes: 10_000 };
        let telling = async {
            far.write_all(b"*4096\r\n").await.unwrap();
            let item = [b"$10000\r\n".as_slice(), &[b'x'; 10_000], b"\r\n"].concat();
            let mut told = 0;
            while far.write_all(&item).await.is_ok() {
                told += item.len();
            }
            told
        };
        let ((), told) =
            timeout(Duration::from_secs(20), async { tokio::join!(reader.run(), telling) }).await.unwrap();
        assert!((LIST_SLACK_BYTES..LIST_SLACK_BYTES + 100_000).contains(&told), "{told}");
    }
}
