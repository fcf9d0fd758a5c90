//! Notifications and requests of a server: `list_changed`, progress, and input requests.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tracing::debug;

use super::{
    events::Events,
    http_link::{HttpLink, Session},
    message::{self, Message},
};
use crate::{
    route::UpstreamName,
    upstream::{Happened, Meanwhile, http::ResponseBody},
};

/// How long an event may be that nobody asked for.
const EVENT_LIMIT_BYTES: usize = 1 << 20;
/// How long to wait before a stream that ended is opened again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What there is to do about a message that is no answer.
pub(super) enum Heard {
    /// Nothing.
    Nothing,
    /// A list has changed.
    ListsChanged,
    /// This answer is to be sent.
    Asked(Bytes),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    #[serde(borrow)]
    progress_token: Option<&'a RawValue>,
    progress: f64,
    total: Option<f64>,
}

/// Takes a message that is no answer to anything that is waited for. What is heard of `call` goes to its caller.
pub(super) fn heard(
    upstream: &UpstreamName,
    message: &Message<'_>,
    call: Option<(u64, &Meanwhile)>,
) -> Heard {
    match message {
        // To something that nobody waits for any more.
        Message::Response(_) => Heard::Nothing,
        Message::Request { id, method } => {
            if method != "ping" {
                debug!(%upstream, %method, "the server asks for something that this client can't do");
            }
            Heard::Asked(message::answer_to(id, method))
        }
        Message::Notification { method, params } => match &**method {
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => Heard::ListsChanged,
            "notifications/progress" => {
                let read =
                    params.and_then(|params| serde_json::from_str::<ProgressParams<'_>>(params.get()).ok());
                if let (Some(read), Some((id, meanwhile))) = (read, call)
                    && read
                        .progress_token
                        .is_some_and(|token| token.get().trim_matches('"') == id.to_string())
                {
                    meanwhile.tell(Happened::Progress { done: read.progress, total: read.total });
                }
                Heard::Nothing
            }
            _ => Heard::Nothing,
        },
    }
}

/// The call that a message tells the progress of.
pub(super) fn progress_of(message: &Message<'_>) -> Option<u64> {
    let Message::Notification { method, params: Some(params) } = message else { return None };
    let of_progress = method == "notifications/progress";
    let read: Value = serde_json::from_str(params.get()).ok().filter(|_| of_progress)?;
    let token = read.get("progressToken")?;
    token.as_u64().or_else(|| token.as_str()?.parse().ok())
}

/// Listens to what a server tells unasked, as long as there is a session.
pub(super) async fn listen(link: Weak<HttpLink>, session: Weak<Session>) {
    let mut wait = AGAIN.0;
    loop {
        let opened = {
            let (Some(link), Some(session)) = (link.upgrade(), session.upgrade()) else { return };
            link.open_stream(&session).await
        };
        let began = Instant::now();
        match opened {
            // It has no such stream.
            Ok(None) => return,
            Ok(Some(body)) => hear_all(&link, &session, body).await,
            Err(error) => debug!(upstream = %error.upstream(), "can't listen to the server: {error}"),
        }
        if began.elapsed() > AGAIN.1 {
            wait = AGAIN.0;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
        // What was told meanwhile is lost.
        let Some(link) = link.upgrade() else { return };
        link.lists_changed();
    }
}

async fn hear_all(link: &Weak<HttpLink>, session: &Weak<Session>, mut body: ResponseBody) {
    let mut events = Events::new(EVENT_LIMIT_BYTES);
    while let Some(Ok(frame)) = body.frame().await {
        frame.into_data().iter().for_each(|piece| events.push(piece));
        loop {
            let Ok(next) = events.next() else { return };
            let Some(data) = next else { break };
            let (Some(link), Some(session)) = (link.upgrade(), session.upgrade()) else { return };
            link.hear(&session, &data, None);
        }
    }
}
