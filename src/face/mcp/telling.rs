//! What a client is told before the result of its call: how far it is, and log lines.

use serde_json::{Value, json};

use super::{
    client::{Client, Outbox},
    protocol::Protocol,
    refusal::Refusal,
    revision::Era,
};
use crate::{
    gateway::{Audience, Progress},
    route::{LogLevel, TraceContext},
};

/// A client that may want to know how its call goes on.
#[derive(Debug)]
pub(super) struct Listening<'a> {
    outbox: &'a Outbox,
    /// By which it knows what the progress is of; without it none is told.
    token: Option<Value>,
    level: Option<LogLevel>,
}

impl<'a> Listening<'a> {
    /// What the client of a request wants to be told.
    ///
    /// # Errors
    ///
    /// When it asks for lines of a level that there is not.
    pub(super) fn of(protocol: &Protocol, client: &'a Client<'_>) -> Result<Self, Refusal> {
        let meta = &client.request.meta;
        let level = match client.revision.era() {
            Era::PerRequest => meta.log_level()?,
            Era::Handshake => client.carrier.session().and_then(|session| protocol.levels.of(session)),
        };
        Ok(Self { outbox: client.outbox, token: meta.progress_token(), level })
    }
}

impl Audience for Listening<'_> {
    fn wants_progress(&self) -> bool {
        self.token.is_some() && self.outbox.is_open()
    }

    fn level(&self) -> Option<LogLevel> {
        self.level.filter(|_| self.outbox.is_open())
    }

    fn progress(&self, progress: Progress<'_>) {
        let Some(token) = &self.token else { return };
        let mut params = json!({ "progressToken": token, "progress": number(progress.done) });
        if let Some(total) = progress.total {
            params["total"] = number(total);
        }
        if let Some(message) = progress.message {
            params["message"] = message.into();
        }
        self.outbox.notify("notifications/progress", &params);
    }

    fn log(&self, level: LogLevel, logger: &str, text: &str) {
        let params = json!({ "level": level.as_str(), "logger": logger, "data": text });
        self.outbox.notify("notifications/message", &params);
    }
}

/// Whole numbers as people write them.
fn number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range")]
    match number.fract() == 0.0 && number.abs() < EXACT {
        true => (number as i64).into(),
        false => number.into(),
    }
}

/// The trace that a request belongs to, as it says itself: that goes before what its HTTP headers say.
pub(super) fn trace(client: &Client<'_>) -> Option<TraceContext> {
    let (parent, state) = client.request.meta.trace();
    TraceContext::of(&parent?, state.as_deref())
}
