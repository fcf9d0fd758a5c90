//! An MCP server that is reached by HTTP.
//!
//! In reading order: an [`HttpLink`] keeps one session and sends requests in it; `beginning` says how a session comes
//! to be, `sending` how a message goes out, and `answer` how its answer comes.

mod answer;
mod beginning;
mod sending;

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use tokio::{
    sync::Mutex,
    task::AbortHandle,
    time::{Duration, timeout},
};
use tracing::{debug, info};

use self::sending::{bare, session_headers, soon};
use super::{
    Answer, Changed, McpUpstream, Outgoing,
    listening::{self, Heard},
    message, not_mcp,
    revision::{self, Agreed},
};
use crate::{
    model::Reply,
    route::UpstreamName,
    upstream::{
        Meanwhile, UpstreamError,
        buffer::BodyAccount,
        http::{HttpSettings, HttpUpstream},
    },
};

/// How much of an introduction is read.
const INTRODUCTION_LIMIT_BYTES: usize = 1 << 20;
/// How long a server may take to end a stream that has said everything, so that its connection can be used again.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take to hear that a session is over.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// The way to one server, and the session with it.
#[derive(Debug)]
pub(in crate::upstream::mcp) struct HttpLink {
    http: HttpUpstream,
    session: Mutex<Option<Arc<Session>>>,
    ids: AtomicU64,
    changed: Changed,
    own: Weak<Self>,
}

/// What was agreed on with the server; until it forgets it.
#[derive(Debug)]
pub(in crate::upstream::mcp) struct Session {
    pub(in crate::upstream::mcp) agreed: Agreed,
    id: Option<HeaderValue>,
    listening: std::sync::Mutex<Option<AbortHandle>>,
}

/// Why a request was not answered.
enum Unanswered {
    /// The server does not know the session: the request was not looked at.
    Forgotten,
    /// The server begins no session, and says so in the words of HTTP.
    Refused(Reply),
    /// For another reason.
    Failed(UpstreamError),
}

impl From<UpstreamError> for Unanswered {
    fn from(error: UpstreamError) -> Self {
        Self::Failed(error)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let listening = self.listening.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(listening) = listening.take() {
            listening.abort();
        }
    }
}

impl Drop for HttpLink {
    /// Nobody waits for it here; `close` does.
    fn drop(&mut self) {
        let session = self.session.get_mut().take();
        if let Some(session) = session
            && let Some(id) = session.id.clone()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let http = self.http.clone();
            runtime.spawn(timeout(GOODBYE_TIMEOUT, async move {
                let headers = session_headers(&session.agreed, Some(&id));
                http.open(bare(Method::DELETE, headers, Bytes::new()), soon()).await
            }));
        }
    }
}

impl HttpLink {
    pub(in crate::upstream::mcp) fn new(settings: HttpSettings, changed: Changed) -> Arc<Self> {
        let http = HttpUpstream::new(settings);
        Arc::new_cyclic(|own| Self {
            http,
            session: Mutex::default(),
            ids: AtomicU64::new(1),
            changed,
            own: own.clone(),
        })
    }

    fn name(&self) -> &UpstreamName {
        self.http.name()
    }

    /// Sends a request and waits for its answer. A session that the server has forgotten is begun anew, once.
    pub(in crate::upstream::mcp) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answer, UpstreamError> {
        match self.try_request(outgoing).await {
            Ok(answer) => Ok(answer),
            Err(Unanswered::Refused(reply)) => Ok(Answer::Refused(reply)),
            Err(Unanswered::Failed(error)) => Err(error),
            Err(Unanswered::Forgotten) => Err(not_mcp(self.name(), "it forgets every session at once")),
        }
    }

    async fn try_request(&self, outgoing: &Outgoing<'_>) -> Result<Answer, Unanswered> {
        let session = self.session().await?;
        match self.in_session(&session, outgoing).await {
            Err(Unanswered::Forgotten) => {}
            answered => return answered,
        }
        info!(upstream = %self.name(), "the server has forgotten the session: another is begun");
        self.forget(&session).await;
        let session = self.session().await?;
        // Who forgets may have been started anew, with other tools.
        if !outgoing.method.ends_with("/list") {
            self.changed.tell();
        }
        self.in_session(&session, outgoing).await
    }

    async fn in_session(
        &self,
        session: &Arc<Session>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answer, Unanswered> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let params = revision::params(outgoing, id, session.agreed.is_per_request());
        let body = message::request(id, outgoing.method, params);
        let mut waiting = Waiting { link: &self.own, session, id, is_over: false };
        let response =
            self.post(Some(session), outgoing.headers, body, outgoing.method, outgoing.name).await?;
        let answer = self.answer(session, response, id, outgoing).await;
        waiting.is_over = true;
        answer
    }

    /// Takes what a server says beside answers.
    pub(in crate::upstream::mcp) fn hear(
        &self,
        session: &Arc<Session>,
        text: &str,
        call: Option<(u64, &Meanwhile)>,
    ) {
        for message in message::messages(text) {
            match listening::heard(self.name(), &message, call) {
                Heard::Nothing => {}
                Heard::ListsChanged => self.changed.tell(),
                Heard::Asked(answer) => self.tell(session, answer),
            }
        }
    }

    /// Tells that the lists may be other ones now.
    pub(in crate::upstream::mcp) fn lists_changed(&self) {
        self.changed.tell();
    }

    /// Sends something that wants no answer, on the side.
    fn tell(&self, session: &Arc<Session>, body: Bytes) {
        let (Some(link), session) = (self.own.upgrade(), session.clone()) else { return };
        tokio::spawn(async move {
            let headers = HeaderMap::new();
            let told = link.post(Some(&session), &headers, body, "notifications/cancelled", None);
            if let Ok(Ok(response)) = timeout(GOODBYE_TIMEOUT, told).await {
                let _ =
                    timeout(END_TIMEOUT, response.whole(INTRODUCTION_LIMIT_BYTES, BodyAccount::none(), None))
                        .await;
            }
        });
    }

    /// What was agreed on with the server; a session is begun where there is none.
    pub(in crate::upstream::mcp) async fn agreed(&self) -> Result<Agreed, UpstreamError> {
        match self.session().await {
            Ok(session) => Ok(session.agreed),
            Err(Unanswered::Failed(error)) => Err(error),
            Err(Unanswered::Refused(_) | Unanswered::Forgotten) => {
                Err(not_mcp(self.name(), "it begins no session"))
            }
        }
    }

    /// The session, begun where there is none.
    async fn session(&self) -> Result<Arc<Session>, Unanswered> {
        let mut open = self.session.lock().await;
        if let Some(session) = &*open {
            return Ok(session.clone());
        }
        let begun = timeout(McpUpstream::START_TIMEOUT, self.begin()).await;
        let after = McpUpstream::START_TIMEOUT;
        let session =
            begun.map_err(|_| UpstreamError::Deadline { upstream: self.name().clone(), after })??;
        let session = Arc::new(session);
        if !session.agreed.declared.changes().is_empty()
            && let Some(link) = self.own.upgrade()
        {
            let task = tokio::spawn(listening::listen(Arc::downgrade(&link), Arc::downgrade(&session)));
            *session.listening.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                Some(task.abort_handle());
        }
        info!(upstream = %self.name(), revision = session.agreed.revision, "speaking MCP with the server");
        *open = Some(session.clone());
        Ok(session)
    }

    /// Lets go of a session, unless another was begun already.
    async fn forget(&self, session: &Arc<Session>) {
        let mut open = self.session.lock().await;
        if open.as_ref().is_some_and(|now| Arc::ptr_eq(now, session)) {
            *open = None;
        }
    }

    /// Ends the session: a server keeps what belongs to it until then.
    pub(in crate::upstream::mcp) async fn close(&self) {
        let Some(session) = self.session.lock().await.take() else { return };
        if session.id.is_some() {
            let sent = self.send(Some(&session), Method::DELETE, HeaderMap::new(), Bytes::new());
            if !matches!(timeout(GOODBYE_TIMEOUT, sent).await, Ok(Ok(_))) {
                debug!(upstream = %self.name(), "the server was not told that the session is over");
            }
        }
    }
}

/// A request whose answer is waited for. Where that ends early, the server is told; of revision 2026-07-28 the end of
/// the stream says it.
struct Waiting<'a> {
    link: &'a Weak<HttpLink>,
    session: &'a Arc<Session>,
    id: u64,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over
            && !self.session.agreed.is_per_request()
            && tokio::runtime::Handle::try_current().is_ok()
            && let Some(link) = self.link.upgrade()
        {
            link.tell(self.session, message::cancelled(self.id));
        }
    }
}
