//! Scripted legacy server, which does byte for byte what a test prescribes.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use super::soon;

/// Step of the response to a request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Writes these bytes.
    Send(Vec<u8>),
    /// Writes these bytes repeatedly until the peer disconnects.
    Endlessly(Vec<u8>),
    /// Waits until the gate opens, or the peer disconnects.
    Hold(Gate),
    /// Writes these bytes one at a time, each in its own packet.
    Trickle(Vec<u8>),
    /// Closes the sending side, and continues to read.
    HalfClose,
    /// Resets the connection.
    Reset,
    /// Closes the connection.
    Close,
}

/// Gate that a test opens to release a held server.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.close();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_closed()
    }

    async fn opened(&self) {
        let _closed = self.0.acquire().await;
    }
}

/// Received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// Index of its connection, from 0.
    pub(crate) connection: usize,
    /// Request line and headers.
    pub(crate) head: String,
    /// Body received so far, without framing.
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    /// Request line, such as `GET /path HTTP/1.1`.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// All values of a header, in order.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

/// State of the server so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// Requests received, in order of arrival.
    pub(crate) requests: Vec<ReceivedRequest>,
    /// Accepted connections.
    pub(crate) connections: usize,
    /// Connections that the peer closed.
    pub(crate) closed_connections: usize,
}

/// Scripted server.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    state: watch::Receiver<State>,
}

type Script = dyn Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync;

impl Scripted {
    /// Starts a server that responds to each request as `script` says.
    pub(crate) async fn start(
        script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, watching) = watch::channel(State::default());
        let (state, script): (_, Arc<Script>) = (Arc::new(state), Arc::new(script));
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let _ = stream.set_nodelay(true);
                state.send_modify(|state| state.connections += 1);
                let (script, state) = (script.clone(), state.clone());
                tokio::spawn(async move {
                    let conversation = Conversation { stream, connection, state: &state, script: &*script };
                    if conversation.hold().await == Ended::ByPeer {
                        state.send_modify(|state| state.closed_connections += 1);
                    }
                });
            }
        });
        Self { address, state: watching }
    }

    /// Starts a server that sends the same response to every request.
    pub(crate) async fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |_| vec![Step::Send(response.clone())]).await
    }

    /// Starts a server that sends this response once the gate is open.
    pub(crate) async fn holding(response: impl Into<Vec<u8>>) -> (Self, Gate) {
        let (response, gate) = (response.into(), Gate::new());
        let held = gate.clone();
        let script = move |_: &ReceivedRequest| vec![Step::Hold(held.clone()), Step::Send(response.clone())];
        (Self::start(script).await, gate)
    }

    /// State so far.
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits until the state fulfils a condition.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, test: impl Fn(&State) -> bool) -> impl Future<Output = State> {
        let mut state = self.state.clone();
        soon(what, async move { state.wait_for(|state| test(state)).await.unwrap().clone() })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    ByPeer,
    ByUs,
}

struct Conversation<'a> {
    stream: TcpStream,
    connection: usize,
    state: &'a watch::Sender<State>,
    script: &'a Script,
}

impl Conversation<'_> {
    async fn hold(mut self) -> Ended {
        loop {
            let Some(request) = self.read_request().await else { return Ended::ByPeer };
            for step in (self.script)(&request) {
                match step {
                    Step::Send(bytes) => {
                        if self.stream.write_all(&bytes).await.is_err() {
                            return Ended::ByPeer;
                        }
                    }
                    Step::Endlessly(bytes) => {
                        while self.stream.write_all(&bytes).await.is_ok() {}
                        return Ended::ByPeer;
                    }
                    Step::Hold(gate) => {
                        let mut byte = [0];
                        tokio::select! {
                            () = gate.opened() => {}
                            read = self.stream.read(&mut byte) => match read {
                                Ok(1) => panic!("the peer went on talking to a held server"),
                                Ok(_) | Err(_) => return Ended::ByPeer,
                            },
                        }
                    }
                    Step::Trickle(bytes) => {
                        for byte in bytes {
                            if self.stream.write_all(&[byte]).await.is_err() {
                                return Ended::ByPeer;
                            }
                            tokio::task::yield_now().await;
                        }
                    }
                    Step::HalfClose => {
                        if self.stream.shutdown().await.is_err() {
                            return Ended::ByPeer;
                        }
                    }
                    Step::Reset => {
                        let _ = self.stream.set_zero_linger();
                        return Ended::ByUs;
                    }
                    Step::Close => return Ended::ByUs,
                }
            }
        }
    }

    async fn read_request(&mut self) -> Option<ReceivedRequest> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let request = ReceivedRequest { connection: self.connection, head, body: Vec::new() };
        let mut index = 0;
        self.state.send_modify(|state| {
            // In one step, as another connection may receive a request at the same time.
            index = state.requests.len();
            state.requests.push(request.clone());
        });
        if request.header("transfer-encoding") == ["chunked"] {
            loop {
                let size = self.read_line().await?;
                let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).unwrap();
                self.read_body(index, size).await?;
                self.read_line().await?;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = request.header("content-length").first() {
            self.read_body(index, length.parse().unwrap()).await?;
        }
        Some(self.state.borrow().requests[index].clone())
    }

    async fn read_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.stream.read_u8().await.ok()?);
        }
        String::from_utf8(line).ok()
    }

    async fn read_body(&mut self, index: usize, mut remaining: usize) -> Option<()> {
        let mut buffer = vec![0; 64 << 10];
        while remaining > 0 {
            let wanted = remaining.min(buffer.len());
            let count = self.stream.read(&mut buffer[..wanted]).await.ok().filter(|count| *count > 0)?;
            remaining -= count;
            self.state.send_modify(|state| state.requests[index].body.extend_from_slice(&buffer[..count]));
        }
        Some(())
    }
}

/// HTTP response with a length and a type.
pub(crate) fn response(status: &str, media_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}")
        .into()
}
