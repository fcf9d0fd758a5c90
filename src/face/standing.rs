//! Streams that stay open: whether who has opened one may still have it.
//!
//! A request is asked once who sends it. What never ends by itself is asked again: when what was shown for it ends, when
//! other clients may call, and now and then. It ends when the answer is another one than at first.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::{sync::watch, time::sleep};
use tracing::info;

use super::guard::{Guard, Kept};
use crate::{
    access::Denied,
    observe::RequestId,
    tls::ClientCertificate,
    upstream::{Caller, Client},
};

/// How often it is asked at least: an issuer may have taken the key away that a token was signed with.
const ASKED_EVERY: Duration = Duration::from_secs(60);

/// Who has opened a stream, and by what.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) guard: Guard,
    pub(super) caller: Caller,
    pub(super) shown: Opened,
    pub(super) request_id: RequestId,
}

/// By what a stream was opened.
#[derive(Debug)]
pub(super) enum Opened {
    /// By what its client has shown, if anything.
    By(Option<Kept>, Option<Arc<ClientCertificate>>),
    /// By the word of another replica, which asks its client itself.
    ByReplica,
}

/// Why a stream ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fallen {
    /// What was shown is not good any more.
    #[error("{0}")]
    Denied(Denied),
    /// It is another client's now, or allows something else.
    #[error("what the client may do has changed")]
    Changed,
}

impl Standing {
    /// Ready when the stream has to end; the log says why.
    pub(super) async fn over(self) {
        let mut changed = self.guard.changes();
        let why = loop {
            match self.ask(SystemTime::now()).await {
                Ok(None) => wait(&mut changed, None).await,
                Ok(Some(rest)) => wait(&mut changed, Some(rest)).await,
                Err(why) => break why,
            }
        };
        let (request_id, client) = (&self.request_id, self.caller.address_in_log(None));
        let client_name = self.caller.name_in_log().map(tracing::field::display);
        info!(%request_id, client = client.map(tracing::field::display), client_name, reason = %why, "a stream ends: its client may not have it any more");
    }

    /// How long the stream may stay before it is asked again: till something changes, where nobody is asked.
    ///
    /// # Errors
    ///
    /// [`Fallen`], when it has to end.
    async fn ask(&self, now: SystemTime) -> Result<Option<Duration>, Fallen> {
        let Opened::By(kept, certificate) = &self.shown else { return Ok(None) };
        let client = self.caller.client();
        let Some(access) = self.guard.access() else {
            return if client.is_none() { Ok(None) } else { Err(Fallen::Changed) };
        };
        let shown = Kept::shown(kept.as_ref(), certificate.as_deref()).map_err(Fallen::Denied)?;
        let found = access.identify(shown, now, &|| self.request_id.clone()).await.map_err(Fallen::Denied)?;
        let is_as_before =
            |before: &Arc<Client>| *before == found.client && before.scopes() == found.client.scopes();
        if !client.is_some_and(is_as_before) {
            return Err(Fallen::Changed);
        }
        let rest = found.until.map(|until| until.duration_since(now).unwrap_or_default());
        Ok(Some(rest.map_or(ASKED_EVERY, |rest| rest.min(ASKED_EVERY))))
    }

    /// A body that breaks off when the stream has to end.
    pub(super) fn bound(self, body: Body) -> Body {
        Body::new(Bound { body, over: Some(Box::pin(self.over())) })
    }
}

async fn wait(changed: &mut watch::Receiver<()>, rest: Option<Duration>) {
    let rest = async {
        match rest {
            Some(rest) => sleep(rest).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        changed = changed.changed() => if changed.is_err() {
            // Nobody is left who could change anything.
            std::future::pending().await
        },
        () = rest => {}
    }
}

struct Bound {
    body: Body,
    /// Nothing once it was told that it breaks off.
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl http_body::Body for Bound {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(over) = &mut self.over else { return Poll::Ready(None) };
        if over.as_mut().poll(context).is_ready() {
            self.over = None;
            // Not its end: the client must not take a part for the whole.
            return Poll::Ready(Some(Err(axum::Error::new("its client may not have it any more"))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
