//! Who calls: asked of every request that is let in, where it matters.

use std::{sync::Arc, time::SystemTime};

use arc_swap::ArcSwapOption;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use serde_json::Value;

use crate::{
    access::{Access, Denied, METADATA_PATH, Secret, Shown},
    route::Scopes,
    tls::ClientCertificate,
    upstream::Caller,
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// When to come again where tokens can't be checked.
const AGAIN_AFTER_SECONDS: u64 = 10;

/// Asks callers who they are, or nobody. Clones are the same guard.
#[derive(Debug, Clone, Default)]
pub struct Guard(Arc<ArcSwapOption<Access>>);

/// A request whose caller is nobody here.
#[derive(Debug, thiserror::Error)]
#[error("{denied}")]
pub struct TurnedAway {
    denied: Denied,
    challenge: HeaderValue,
}

/// By which rules a request was let in; a part of its extensions.
#[derive(Debug, Clone)]
struct LetInBy(Arc<Access>);

impl Guard {
    /// Asks by these rules from now on, or nobody any more.
    pub fn replace(&self, access: Option<Arc<Access>>) {
        self.0.store(access);
    }

    /// The rules in force.
    pub fn access(&self) -> Option<Arc<Access>> {
        self.0.load_full()
    }

    /// Finds out who sends a request: calls learn it from its extensions. What was shown is taken out of it, so that it
    /// goes nowhere from here.
    ///
    /// # Errors
    ///
    /// [`TurnedAway`].
    pub async fn identify(&self, head: &mut Parts) -> Result<(), TurnedAway> {
        let Some(access) = self.0.load_full() else { return Ok(()) };
        let found = match shown(head) {
            Ok(shown) => access.identify(shown, SystemTime::now()).await,
            Err(unclear) => Err(unclear),
        };
        let client = found.map_err(|denied| TurnedAway { challenge: access.challenge(&denied), denied })?;
        take_away(&mut head.headers);
        head.extensions.insert(Caller::Client(client));
        head.extensions.insert(LetInBy(access));
        Ok(())
    }

    /// Lets a request in whose caller another replica has identified.
    pub(super) fn let_in(&self, head: &mut Parts, caller: Caller) {
        let Some(access) = self.0.load_full() else { return };
        take_away(&mut head.headers);
        head.extensions.insert(caller);
        head.extensions.insert(LetInBy(access));
    }

    /// What is at a path for clients that look for where tokens are given.
    pub fn metadata_at(&self, path: &str, needed: impl FnOnce() -> Scopes) -> Option<Value> {
        if !path.starts_with(METADATA_PATH) {
            return None;
        }
        self.0.load().as_ref()?.metadata_at(path, &needed())
    }
}

impl TurnedAway {
    /// The HTTP status that says so.
    pub fn status(&self) -> StatusCode {
        self.denied.status()
    }

    /// Says what is missing.
    pub fn challenge(self, response: &mut HeaderMap) {
        if self.denied == Denied::Unchecked {
            response.insert(header::RETRY_AFTER, HeaderValue::from(AGAIN_AFTER_SECONDS));
            return;
        }
        response.insert(header::WWW_AUTHENTICATE, self.challenge);
    }
}

/// What `WWW-Authenticate` says to the caller of a request that is not allowed what it asks for.
pub(super) fn challenge_for(head: &Parts, needed: &Scopes) -> Option<HeaderValue> {
    head.extensions.get::<LetInBy>().map(|LetInBy(access)| access.challenge_for(needed))
}

/// What a request shows of its caller, in one way.
fn shown(head: &Parts) -> Result<Shown<'_>, Denied> {
    let mut bearers = head.headers.get_all(header::AUTHORIZATION).iter();
    let (authorization, another) = (bearers.next(), bearers.next());
    let mut keys = head.headers.get_all(&API_KEY).iter();
    let (key, another_key) = (keys.next(), keys.next());
    if another.is_some() || another_key.is_some() {
        return Err(Denied::Unclear("`Authorization` and `X-API-Key` may each be sent once"));
    }
    const UNREADABLE: Denied = Denied::Invalid("the key or token has characters that none has");
    let bearer = match authorization {
        None => None,
        Some(value) => bearer(value.to_str().map_err(|_| UNREADABLE)?),
    };
    let key = key.map(|value| value.to_str().map(str::trim).map_err(|_| UNREADABLE)).transpose()?;
    match (bearer, key) {
        (Some(_), Some(_)) => Err(Denied::Unclear("send `Authorization: Bearer …` or `X-API-Key`, not both")),
        (Some(secret), None) | (None, Some(secret)) => Ok(Shown::Secret(Secret(secret))),
        (None, None) => Ok(match head.extensions.get::<Arc<ClientCertificate>>() {
            // Of the connection itself, and of no header.
            Some(certificate) => Shown::Certificate(certificate),
            None => Shown::Nothing,
        }),
    }
}

/// What stands behind `Bearer`; of another scheme, nothing.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ').unwrap_or_else(|| (value.trim(), ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// No upstream gets what was given to us.
fn take_away(headers: &mut HeaderMap) {
    headers.remove(&API_KEY);
    let is_ours = |value: &HeaderValue| value.to_str().map_or(true, |value| bearer(value).is_some());
    if headers.get(header::AUTHORIZATION).is_some_and(is_ours) {
        headers.remove(header::AUTHORIZATION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pairs: &[(&'static str, &str)]) -> Parts {
        let (mut head, ()) = http::Request::get("/").body(()).unwrap().into_parts();
        for (name, value) in pairs {
            head.headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        head
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], expected: Result<Option<&str>, StatusCode>) {
        let head = head(pairs);
        let found = match shown(&head) {
            Ok(Shown::Nothing | Shown::Certificate(_)) => Ok(None),
            Ok(Shown::Secret(Secret(text))) => Ok(Some(text)),
            Err(denied) => Err(denied.status()),
        };
        assert_eq!(found, expected, "{pairs:?}");
    }

    #[test]
    fn a_caller_shows_one_thing() {
        check(&[], Ok(None));
        check(&[("authorization", "bearer  abc ")], Ok(Some("abc")));
        check(&[("x-api-key", " abc")], Ok(Some("abc")));
        check(&[("authorization", "Basic abc")], Ok(None));
        check(&[("authorization", "Basic abc"), ("x-api-key", "k")], Ok(Some("k")));
        check(&[("authorization", "Bearer")], Ok(Some("")));
        let (unclear, invalid) = (Err(StatusCode::BAD_REQUEST), Err(StatusCode::UNAUTHORIZED));
        check(&[("authorization", "Bearer a"), ("x-api-key", "k")], unclear);
        check(&[("authorization", "Bearer a"), ("authorization", "Bearer a")], unclear);
        check(&[("authorization", "Basic a"), ("authorization", "Bearer a")], unclear);
        check(&[("x-api-key", "k"), ("x-api-key", "k")], unclear);
        check(&[("authorization", "Bearer \u{e4}")], invalid);
    }

    #[test]
    fn what_was_shown_to_us_goes_no_further() {
        let mut shown =
            head(&[("authorization", "Bearer abc"), ("x-api-key", "k"), ("accept", "*/*")]).headers;
        take_away(&mut shown);
        assert_eq!(shown.len(), 1);
        let mut others = head(&[("authorization", "Basic abc")]).headers;
        take_away(&mut others);
        assert_eq!(others.len(), 1, "it was not shown to us");
    }
}
