//! The answer to a request, as a message or among the events of a stream.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;

use tokio::time::timeout;

use super::{END_TIMEOUT, HttpLink, Session, Unanswered, sending::is_of_events};
use crate::{
    model::Reply,
    upstream::{
        UpstreamError,
        http::{IncomingResponse, ResponseBody, ResponseScrubber},
        mcp::{Answer, Outgoing, events::Events, message, not_mcp},
    },
};

impl HttpLink {
    /// The answer to a request, in whatever form it comes.
    pub(super) async fn answer(
        &self,
        session: &Arc<Session>,
        response: IncomingResponse,
        id: u64,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answer, Unanswered> {
        let status = response.status();
        if status.is_success() && is_of_events(response.headers()) {
            return Ok(Answer::Message(
                self.among_events(session, response.into_body(), id, outgoing).await?,
            ));
        }
        let reply = response.whole(outgoing.limit_bytes, outgoing.account(), outgoing.meanwhile()).await?;
        let text = std::str::from_utf8(&reply.body).unwrap_or_default();
        if let Some(response) = message::response_to(text, id) {
            return Ok(Answer::Message(reply.body.slice_ref(response.text.as_bytes())));
        }
        if status.is_success() {
            return Err(not_mcp(self.name(), "its answer has no response to the request").into());
        }
        // An error without an id is about the message as a whole. Servers of the older eras say that they do not know
        // a session with 404, and many with 400.
        if session.id.is_some() && matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Err(Unanswered::Forgotten);
        }
        Ok(Answer::Refused(reply))
    }

    /// Reads a stream until the answer is there; what comes before it is heard as well.
    async fn among_events(
        &self,
        session: &Arc<Session>,
        (mut body, scrubber): (ResponseBody, ResponseScrubber),
        id: u64,
        outgoing: &Outgoing<'_>,
    ) -> Result<Bytes, UpstreamError> {
        let limit_bytes = outgoing.limit_bytes;
        let (mut events, mut account) = (Events::new(limit_bytes), outgoing.account());
        loop {
            let too_long = |_| UpstreamError::TooLong { upstream: self.name().clone(), limit_bytes };
            while let Some(data) = events.next().map_err(too_long)? {
                if let Some(response) = message::response_to(&data, id) {
                    let text = Bytes::copy_from_slice(response.text.as_bytes());
                    tokio::spawn(timeout(END_TIMEOUT, body.collect()));
                    let text = scrubber.scrub(Reply::new(StatusCode::OK, HeaderMap::new(), text)).body;
                    return Ok(account.finish(text));
                }
                self.hear(session, &data, outgoing.meanwhile().map(|meanwhile| (id, meanwhile)));
            }
            let cut_off = |source| UpstreamError::CutOff { upstream: self.name().clone(), source };
            match body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    let length = events.pending_bytes() + piece.len();
                    account.grow(length).await.map_err(|full| full.of(self.name()))?;
                    events.push(&piece);
                }
                Some(Err(error)) => return Err(cut_off(error.into())),
                None => return Err(cut_off("the stream ended before the answer".into())),
            }
        }
    }
}
