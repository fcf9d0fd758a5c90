//! The connections to one place: those of HTTP/1 that wait for a next request, and the one of HTTP/2 that all share.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Request, Response, Uri, header};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::{runtime::Handle, time::Instant};

use super::{
    Address, HttpSettings, Protocol,
    connector::{Connector, Wire},
    exchange::{HEAD_LIMIT_BYTES, Http1, ReplyBody},
    outgoing::{BoxError, Outgoing},
};
use crate::wire::others_first;

/// How long a connection is kept for a next request. Shorter than the servers' own patience (5 s for Apache and
/// Node), so that requests seldom meet a connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Why no head of a reply came.
#[derive(Debug, thiserror::Error)]
pub(in crate::upstream) enum SendError {
    /// There is no connection.
    #[error(transparent)]
    Connect(BoxError),
    /// It went wrong over one.
    #[error("the exchange failed")]
    Exchange {
        /// What.
        #[source]
        error: hyper::Error,
        /// Whether the connection had served others before, so that its server may just have closed it.
        kept: bool,
    },
}

/// The connections to one place. They close when it is dropped, those in use when they are free.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    /// What requests of HTTP/1 name as `Host`.
    host: HeaderValue,
    /// Whether HTTP/2 is spoken without agreeing on it.
    is_h2_only: bool,
    /// Whether the place was found to speak HTTP/2. Then one connection is enough, and who needs it waits for it.
    speaks_h2: AtomicBool,
    connecting: tokio::sync::Mutex<()>,
    /// How many may wait for a next request.
    idle_limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The one that has waited longest first.
    idle: VecDeque<Idle>,
    shared: Option<Shared>,
    is_swept: bool,
}

struct Idle {
    connection: Box<Http1>,
    since: Instant,
}

/// A connection of HTTP/2.
#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<Outgoing>,
    has_answered: Arc<AtomicBool>,
    /// When it was last taken.
    since: Instant,
}

enum Connection {
    Http1(Box<Http1>),
    Http2(Shared),
}

impl Pool {
    /// Nothing is connected yet.
    pub(super) fn new(settings: &HttpSettings, address: &Address, connector: Connector) -> Arc<Self> {
        let is_h2_only = settings.protocol == Protocol::Http2;
        Arc::new(Self {
            connector,
            host: address.host_header(),
            is_h2_only,
            speaks_h2: AtomicBool::new(is_h2_only),
            connecting: tokio::sync::Mutex::default(),
            idle_limit: settings.idle_connections,
            kept: Mutex::default(),
        })
    }

    /// Sends a request, whose URI is absolute, and waits for the head of its reply.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Outgoing>,
    ) -> Result<Response<ReplyBody>, SendError> {
        // Before a connection is taken: what was found open is written to at once.
        others_first().await;
        let uri = request.uri().clone();
        loop {
            let connection = match self.take() {
                Some(kept) => kept,
                None => Box::pin(self.connect()).await?,
            };
            let kept = connection.has_answered();
            let failed = match connection {
                Connection::Http1(connection) => {
                    *request.uri_mut() = origin_form(&uri);
                    request.headers_mut().entry(header::HOST).or_insert_with(|| self.host.clone());
                    match connection.send(request, Arc::clone(self)).await {
                        Ok(response) => return Ok(response),
                        Err(failed) => failed,
                    }
                }
                Connection::Http2(mut shared) => match shared.sender.try_send_request(request).await {
                    Ok(response) => {
                        shared.has_answered.store(true, Ordering::Relaxed);
                        return Ok(response.map(ReplyBody::of_shared));
                    }
                    Err(failed) => failed,
                },
            };
            let mut failed = failed;
            request = match failed.take_message() {
                // Nothing of it was sent, because the connection was closed before it could be.
                Some(untouched) if kept => untouched,
                Some(_) | None => return Err(SendError::Exchange { error: failed.into_error(), kept }),
            };
            request.uri_mut().clone_from(&uri);
        }
    }

    /// One that waits, the one used last: so those that are not needed grow old.
    fn take(&self) -> Option<Connection> {
        loop {
            let idle = {
                let mut kept = self.kept();
                if let Some(shared) = kept.shared.as_mut().filter(|shared| !shared.sender.is_closed()) {
                    shared.since = Instant::now();
                    return Some(Connection::Http2(shared.clone()));
                }
                kept.idle.pop_back()?
            };
            let mut connection = idle.connection;
            if connection.is_free() {
                return Some(Connection::Http1(connection));
            }
        }
    }

    async fn connect(self: &Arc<Self>) -> Result<Connection, SendError> {
        // Where none is kept there is nothing to wait for.
        let will_share = self.speaks_h2.load(Ordering::Relaxed) && self.idle_limit > 0;
        let _connecting = match will_share {
            // Whoever waits behind one that can't connect is told so as early as that one is.
            true => {
                let lock = self.connector.in_time(self.connecting.lock()).await;
                Some(lock.map_err(SendError::Connect)?)
            }
            false => None,
        };
        if will_share && let Some(meanwhile) = self.take() {
            return Ok(meanwhile);
        }
        let wire = self.connector.connect().await.map_err(SendError::Connect)?;
        let is_h2 = self.is_h2_only || wire.agreed_on_h2();
        self.speaks_h2.store(is_h2, Ordering::Relaxed);
        let connected = match is_h2 {
            true => self.share(wire).await.map(Connection::Http2),
            false => Http1::over(wire).await.map(Connection::Http1),
        };
        connected.map_err(|error| SendError::Exchange { error, kept: false })
    }

    async fn share(self: &Arc<Self>, wire: Wire) -> Result<Shared, hyper::Error> {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(HEAD_LIMIT_BYTES as u32)
            .handshake(wire);
        let (sender, connection) = handshake.await?;
        // What goes wrong with it is told to everybody who waits for a reply.
        tokio::spawn(connection);
        let shared = Shared { sender, has_answered: Arc::default(), since: Instant::now() };
        if self.idle_limit > 0 {
            let mut kept = self.kept();
            kept.shared = Some(shared.clone());
            self.see_to_its_end(&mut kept);
        }
        Ok(shared)
    }

    /// Keeps one for a next request.
    pub(super) fn keep(self: &Arc<Self>, connection: Box<Http1>) {
        let mut kept = self.kept();
        if kept.idle.len() < self.idle_limit {
            kept.idle.push_back(Idle { connection, since: Instant::now() });
            self.see_to_its_end(&mut kept);
        }
    }

    /// What waits too long is closed, as long as something waits.
    fn see_to_its_end(self: &Arc<Self>, kept: &mut Kept) {
        if kept.is_swept {
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => {
                kept.is_swept = true;
                runtime.spawn(sweep(Arc::downgrade(self)));
            }
            // Without a runtime nobody sees to it.
            Err(_) => *kept = Kept::default(),
        }
    }

    /// Closes what has waited too long, and says when to look again.
    fn close_old(&self) -> Option<Instant> {
        let now = Instant::now();
        let is_old = |since: Instant| now.saturating_duration_since(since) >= IDLE_TIMEOUT;
        let mut kept = self.kept();
        let old = kept.idle.iter().take_while(|idle| is_old(idle.since)).count();
        let closing: Vec<Idle> = kept.idle.drain(..old).collect();
        // Requests that are under way over it come to their end.
        let shared = kept.shared.take_if(|shared| is_old(shared.since) || shared.sender.is_closed());
        let next = kept.idle.front().map(|idle| idle.since);
        let next = next.into_iter().chain(kept.shared.as_ref().map(|shared| shared.since)).min();
        kept.is_swept = next.is_some();
        drop(kept);
        drop((closing, shared));
        next.map(|since| since + IDLE_TIMEOUT)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn has_answered(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.has_answered(),
            Self::Http2(shared) => shared.has_answered.load(Ordering::Relaxed),
        }
    }
}

async fn sweep(pool: Weak<Pool>) {
    while let Some(next) = pool.upgrade().and_then(|pool| pool.close_old()) {
        tokio::time::sleep_until(next).await;
    }
}

/// What HTTP/1 names of a URI to the server that it leads to (RFC 9112, section 3.2.1).
fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from)
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kept").field("idle", &self.idle.len()).finish_non_exhaustive()
    }
}
