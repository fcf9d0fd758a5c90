//! A response as a stream of server-sent events: messages as they come, then the result.

use std::{convert::Infallible, future::Future, pin::Pin, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderValue, Response, header};
use tokio::time::sleep;

use super::{answer::Answer, client::Mailbox};

/// What is sent from time to time while nothing happens, so that no proxy between takes the stream for dead.
pub(super) const KEEP_ALIVE: (Duration, &[u8]) = (Duration::from_secs(15), b": keep-alive\n\n");

/// What a message is answered with, when it comes; `None` where there is nothing to say.
pub(super) type Answering = Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;

/// What is still to be sent. Dropping it ends what it waits for.
struct Events {
    /// What is there already.
    first: Option<Bytes>,
    mailbox: Mailbox,
    /// Gone when the result has come.
    answering: Option<Answering>,
    last: Option<Bytes>,
}

/// The response that sends a first message, what else comes into the mailbox, and then what `answering` gives. Without
/// a message to begin with, a comment tells whoever stands between that the stream is open.
pub(super) fn respond(first: Option<Bytes>, mailbox: Mailbox, answering: Answering) -> Response<Body> {
    let first = first.map_or(Bytes::from_static(b": open\n\n"), |first| as_event(None, &first).into());
    let events = Events { first: Some(first), mailbox, answering: Some(answering), last: None };
    let events =
        unfold(events, |mut events| async { Some((Ok::<_, Infallible>(events.next().await?), events)) });
    as_stream(Response::new(Body::from_stream(events)))
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
    async fn next(&mut self) -> Option<Bytes> {
        if self.first.is_some() {
            return self.first.take();
        }
        if let Some(answering) = &mut self.answering {
            tokio::select! {
                biased;
                answer = answering => {
                    // Nothing more is put into the mailbox; what is in it goes first.
                    self.answering = None;
                    self.mailbox.close();
                    self.last = answer.map(|answer| as_event(None, &answer.into_body()).into());
                }
                Some(message) = self.mailbox.recv() => return Some(as_event(None, &message).into()),
                () = sleep(KEEP_ALIVE.0) => return Some(Bytes::from_static(KEEP_ALIVE.1)),
            }
        }
        match self.mailbox.recv().await {
            Some(message) => Some(as_event(None, &message).into()),
            None => self.last.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use serde_json::json;

    use super::{super::client::Outbox, *};
    use crate::face::mcp::message::{Message, message};

    async fn text_of(response: Response<Body>) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn answer() -> Option<Answer> {
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let Ok(Message::Request(request)) = message(body) else { unreachable!() };
        Some(Answer::result(request.id, None, &json!({}), &serde_json::Map::new()))
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
                sleep(3 * KEEP_ALIVE.0 - Duration::from_secs(1)).await;
                drop(outbox);
                answer()
            }),
        );
        assert_eq!(text_of(response).await.matches(": keep-alive\n\n").count(), 2);
    }
}
