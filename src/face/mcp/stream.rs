//! A response as a stream of server-sent events: messages as they come, then the result.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{answer::Answer, client::Mailbox};

/// What is sent from time to time while nothing happens, so that no proxy between takes the stream for dead.
pub(super) const KEEP_ALIVE: (Duration, &[u8]) = (Duration::from_secs(15), b": keep-alive\n\n");

/// What a message is answered with, when it comes; `None` where there is nothing to say.
pub(super) type Answering = Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;

/// A body of events. Dropping it ends what it waits for.
struct Events {
    /// What is there already.
    first: Option<Bytes>,
    mailbox: Mailbox,
    /// Gone when the result has come.
    answering: Option<Answering>,
    last: Option<Bytes>,
    keep_alive: Interval,
}

/// The response that sends a first message, what else comes into the mailbox, and then what `answering` gives. Without
/// a message to begin with, a comment tells whoever stands between that the stream is open.
pub(super) fn respond(first: Option<Bytes>, mailbox: Mailbox, answering: Answering) -> Response<Body> {
    let first = first.map_or(Bytes::from_static(b": open\n\n"), |first| as_event(None, &first).into());
    let mut keep_alive = interval(KEEP_ALIVE.0);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    keep_alive.reset();
    let events = Events { first: Some(first), mailbox, answering: Some(answering), last: None, keep_alive };
    as_stream(Response::new(Body::new(events)))
}

/// Says of a response that it is a stream of events, and that no proxy shall hold them back (MCP 2026-07-28,
/// Streamable HTTP, "Receiving Messages").
pub(super) fn as_stream(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// One server-sent event. White space may break JSON into lines, and each needs its own `data:`; a reader
/// puts them together again.
pub(super) fn as_event(id: Option<&str>, json: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(json.len() + id.map_or(64, |id| 64 + id.len()));
    if let Some(id) = id {
        event.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    event.extend_from_slice(b"event: message\n");
    for line in json.split(|byte| matches!(byte, b'\n' | b'\r')) {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event
}

impl Events {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        // Once the result is there, nothing more is put into the mailbox; what is in it goes first.
        if let Some(answering) = &mut self.answering
            && let Poll::Ready(answer) = answering.as_mut().poll(context)
        {
            self.answering = None;
            self.mailbox.close();
            self.last = answer.map(|answer| as_event(None, &answer.into_body()).into());
        }
        if let Poll::Ready(Some(message)) = self.mailbox.poll_recv(context) {
            self.keep_alive.reset();
            return Poll::Ready(Some(as_event(None, &message).into()));
        }
        if self.answering.is_none() {
            return Poll::Ready(self.last.take());
        }
        ready!(self.keep_alive.poll_tick(context));
        Poll::Ready(Some(Bytes::from_static(KEEP_ALIVE.1)))
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll_next(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use serde_json::json;

    use super::{super::client::Outbox, *};
    use crate::face::mcp::{decode::message, revision::Revision};

    async fn text_of(response: Response<Body>) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn answer() -> Option<Answer> {
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let Ok(super::super::decode::Message::Request(request)) = message(body) else { unreachable!() };
        Answer::result::<()>(request.id, Revision::R2025_11_25, |_| Ok(())).ok()
    }

    #[tokio::test]
    async fn what_was_told_comes_before_the_result_and_in_order() {
        let (outbox, mailbox) = Outbox::new(Arc::default());
        outbox.notify("notifications/one", &json!({ "n": 1 }));
        let response = respond(
            Some("{}".into()),
            mailbox,
            Box::pin(async move {
                outbox.notify("notifications/two", &json!({}));
                answer()
            }),
        );
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        let text = text_of(response).await;
        let methods = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let methods: Vec<&str> = methods
            .map(|data| ["one", "two", "result", "{}"].into_iter().find(|word| data.contains(word)).unwrap())
            .collect();
        assert_eq!(methods, ["{}", "one", "two", "result"], "{text}");
        assert!(text.ends_with("\n\n") && text.contains(r#""result":{}"#), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_on_which_nothing_happens_is_kept_alive() {
        let (outbox, mailbox) = Outbox::new(Arc::default());
        let response = respond(
            Some("{}".into()),
            mailbox,
            Box::pin(async move {
                tokio::time::sleep(3 * KEEP_ALIVE.0 - Duration::from_secs(1)).await;
                drop(outbox);
                answer()
            }),
        );
        assert_eq!(text_of(response).await.matches(": keep-alive\n\n").count(), 2);
    }
}
