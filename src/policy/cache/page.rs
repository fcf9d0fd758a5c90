//! A reply that is kept: how long it is good, what is asked about it, what of it is told.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use tokio::time::Instant;

use super::{CacheSettings, Lasts, word::Word};
use crate::reply::Reply;

/// A reply that is kept.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) reply: Reply,
    pub(super) word: Word,
    pub(super) came: Instant,
}

impl Page {
    pub(super) fn new(reply: Reply) -> Self {
        Self { word: Word::of(&reply.headers), reply, came: Instant::now() }
    }

    /// The same in memory of its own. What came over a connection is a part of all that was read of it at once, and
    /// would keep that whole.
    pub(super) fn compact(mut self) -> Self {
        self.reply.body = Bytes::copy_from_slice(&self.reply.body);
        compact(&mut self.reply.headers);
        self
    }

    pub(super) fn age(&self) -> Duration {
        self.came.elapsed() + self.word.age
    }

    pub(super) fn bytes(&self) -> usize {
        let headers = self.reply.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
        size_of::<Self>() + headers + self.reply.body.len()
    }

    /// For how much longer it is good.
    pub(super) fn left(&self, settings: CacheSettings) -> Duration {
        match settings.lasts {
            Lasts::For(time) => time.saturating_sub(self.came.elapsed()),
            Lasts::AsTheUpstreamSays if self.word.asks_each_time => Duration::ZERO,
            Lasts::AsTheUpstreamSays => self.word.lasts.unwrap_or_default().saturating_sub(self.age()),
        }
    }

    /// Whether it is better than an error, though it is old.
    pub(super) fn is_better_than_nothing(&self, settings: CacheSettings) -> bool {
        let (good, longer) = match settings.lasts {
            Lasts::For(time) => (time, settings.stale_if_error),
            Lasts::AsTheUpstreamSays if self.word.asks_each_time || self.word.never_old => return false,
            Lasts::AsTheUpstreamSays => {
                (self.word.lasts.unwrap_or_default(), settings.stale_if_error.max(self.word.if_error))
            }
        };
        let age = match settings.lasts {
            Lasts::For(_) => self.came.elapsed(),
            Lasts::AsTheUpstreamSays => self.age(),
        };
        !longer.is_zero() && age < good + longer
    }

    /// Says in a request what is known already (RFC 9110, section 13.1); whether there is anything to say.
    pub(super) fn ask_whether_it_is_good(&self, headers: &mut HeaderMap) -> bool {
        let validators =
            [(header::ETAG, header::IF_NONE_MATCH), (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE)];
        let mut says = false;
        for (known, condition) in validators {
            if let Some(value) = self.reply.headers.get(known) {
                headers.insert(condition, value.clone());
                says = true;
            }
        }
        says
    }

    /// The same reply, with what a 304 says of it.
    pub(super) fn renewed(&self, said: HeaderMap) -> Self {
        let mut reply = self.reply.clone();
        // Each says how long it is good, and how old it is, for itself.
        reply.headers.remove(header::AGE);
        for name in said.keys() {
            // Those describe the 304, or a body that it does not have (RFC 9111, section 3.2).
            if *name == header::CONTENT_LENGTH
                || *name == header::CONTENT_ENCODING
                || *name == header::CONTENT_TYPE
            {
                continue;
            }
            reply.headers.remove(name);
            for value in said.get_all(name) {
                reply.headers.append(name.clone(), value.clone());
            }
        }
        Self::new(reply)
    }

    pub(super) fn told(&self) -> Reply {
        let mut reply = self.reply.clone();
        reply.headers.insert(header::AGE, HeaderValue::from(self.age().as_secs()));
        reply
    }
}

/// Values in memory of their own.
pub(in crate::policy) fn compact(headers: &mut HeaderMap) {
    for value in headers.values_mut() {
        if let Ok(mut own) = HeaderValue::from_bytes(value.as_bytes()) {
            own.set_sensitive(value.is_sensitive());
            *value = own;
        }
    }
}
