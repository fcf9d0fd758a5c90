//! Who calls: asked of every request that is let in, where it matters.

use std::{sync::Arc, time::SystemTime};

use arc_swap::ArcSwapOption;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use serde_json::Value;
use tokio::sync::watch;

use super::{
    Arrival, Reason,
    standing::{Opened, Standing},
};
use crate::{
    access::{Access, Denied, METADATA_PATH, Secret, Shown},
    observe::RequestId,
    route::Scopes,
    tls::ClientCertificate,
    upstream::Caller,
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// When to come again where tokens can't be checked.
const AGAIN_AFTER_SECONDS: u64 = 10;

/// Asks callers who they are, or nobody. Clones are the same guard.
#[derive(Debug, Clone, Default)]
pub struct Guard(Arc<Rules>);

#[derive(Debug, Default)]
struct Rules {
    access: ArcSwapOption<Access>,
    /// Sent when there are others.
    changed: watch::Sender<()>,
}

/// A request whose caller is nobody here.
#[derive(Debug, thiserror::Error)]
#[error("{denied}")]
pub struct TurnedAway {
    denied: Denied,
    challenge: HeaderValue,
}

/// By which rules a request was let in, and what was shown for it; a part of its extensions.
#[derive(Debug, Clone)]
struct LetIn {
    access: Arc<Access>,
    by: LetInBy,
}

#[derive(Debug, Clone)]
enum LetInBy {
    /// A key or a token.
    Secret(Kept),
    /// The certificate of the connection.
    Certificate,
    /// The word of another replica.
    Replica,
}

/// A header that was taken out of a request: what is in it is shown by nobody but who asks the guard again.
#[derive(Clone)]
pub(super) enum Kept {
    /// `Authorization`.
    Bearer(HeaderValue),
    /// `X-API-Key`.
    Key(HeaderValue),
}

impl Guard {
    /// Asks by these rules from now on, or nobody any more.
    pub fn replace(&self, access: Option<Arc<Access>>) {
        self.0.access.store(access);
        self.0.changed.send_replace(());
    }

    /// The rules in force.
    pub fn access(&self) -> Option<Arc<Access>> {
        self.0.access.load_full()
    }

    /// Hears when there are other rules, from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// What a stream goes by that a request opens.
    pub(super) fn standing(&self, head: &Parts) -> Standing {
        let certificate = Arrival::of(&head.extensions).certificate.clone();
        let shown = match head.extensions.get::<LetIn>().map(|let_in| &let_in.by) {
            Some(LetInBy::Secret(kept)) => Opened::By(Some(kept.clone()), None),
            Some(LetInBy::Certificate) | None => Opened::By(None, certificate),
            Some(LetInBy::Replica) => Opened::ByReplica,
        };
        let request_id = RequestId::of_request(head);
        Standing { guard: self.clone(), caller: super::caller_of(head), shown, request_id }
    }

    /// Finds out who sends a request: calls learn it from its extensions. What was shown is taken out of it, so that it
    /// goes nowhere from here.
    ///
    /// # Errors
    ///
    /// [`TurnedAway`].
    pub async fn identify(&self, head: &mut Parts) -> Result<(), TurnedAway> {
        let Some(access) = self.access() else { return Ok(()) };
        let found = match shown(head) {
            Ok(shown) => access.identify(shown, SystemTime::now(), &|| RequestId::of_request(head)).await,
            Err(unclear) => Err(unclear),
        };
        let found = found.map_err(|denied| TurnedAway { challenge: access.challenge(&denied), denied })?;
        let by = take_away(&mut head.headers).map_or(LetInBy::Certificate, LetInBy::Secret);
        head.extensions.insert(Caller::Client(found.client));
        head.extensions.insert(LetIn { access, by });
        Ok(())
    }

    /// Whether callers are asked who they are, and this request shows nothing of its own.
    pub(super) fn is_shown_nothing(&self, head: &Parts) -> bool {
        self.0.access.load().is_some() && matches!(shown(head), Ok(Shown::Nothing))
    }

    /// Lets a request in whose caller another replica has identified.
    pub(super) fn let_in(&self, head: &mut Parts, caller: Caller) {
        let Some(access) = self.access() else { return };
        take_away(&mut head.headers);
        head.extensions.insert(caller);
        head.extensions.insert(LetIn { access, by: LetInBy::Replica });
    }

    /// What is at a path for clients that look for where tokens are given.
    pub fn metadata_at(&self, path: &str, needed: impl FnOnce() -> Scopes) -> Option<Value> {
        if !path.starts_with(METADATA_PATH) {
            return None;
        }
        self.0.access.load().as_ref()?.metadata_at(path, &needed())
    }
}

impl Reason for TurnedAway {
    fn reason(&self) -> &'static str {
        match self.denied {
            Denied::Unknown => "no credential",
            Denied::Unclear(why) | Denied::Invalid(why) => why,
            Denied::Unchecked => "tokens can't be checked",
        }
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

/// What `WWW-Authenticate` says to the caller of a request that is not allowed what it asks for; `known` is every scope
/// that something here needs.
pub(super) fn challenge_for(
    head: &Parts,
    needed: &Scopes,
    known: impl FnOnce() -> Scopes,
) -> Option<HeaderValue> {
    let client = head.extensions.get().and_then(Caller::client);
    let let_in = head.extensions.get::<LetIn>()?;
    Some(let_in.access.challenge_for(needed, client.map(|client| &**client), known))
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
    let bearer = match authorization {
        None => None,
        Some(value) => bearer(readable(value)?),
    };
    let key = key.map(readable).transpose()?;
    match (bearer, key) {
        (Some(_), Some(_)) => Err(Denied::Unclear("send `Authorization: Bearer …` or `X-API-Key`, not both")),
        (Some(secret), None) | (None, Some(secret)) => Ok(Shown::Secret(Secret(secret))),
        // Of the connection itself, and of no header.
        (None, None) => Ok(alone(Arrival::of(&head.extensions).certificate.as_deref())),
    }
}

/// What is shown where a request shows nothing.
fn alone(certificate: Option<&ClientCertificate>) -> Shown<'_> {
    certificate.map_or(Shown::Nothing, Shown::Certificate)
}

fn readable(value: &HeaderValue) -> Result<&str, Denied> {
    let text =
        value.to_str().map_err(|_| Denied::Invalid("the key or token has characters that none has"))?;
    Ok(text.trim())
}

/// What stands behind `Bearer`; of another scheme, nothing.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ').unwrap_or_else(|| (value.trim(), ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// No upstream gets what was given to us; the guard keeps it.
fn take_away(headers: &mut HeaderMap) -> Option<Kept> {
    let key = headers.remove(&API_KEY).map(Kept::Key);
    let is_ours = |value: &HeaderValue| value.to_str().map_or(true, |value| bearer(value).is_some());
    if headers.get(header::AUTHORIZATION).is_some_and(is_ours) {
        return headers.remove(header::AUTHORIZATION).map(Kept::Bearer);
    }
    key
}

impl Kept {
    /// What a client has shown, shown again.
    pub(super) fn shown<'a>(
        kept: Option<&'a Self>,
        certificate: Option<&'a ClientCertificate>,
    ) -> Result<Shown<'a>, Denied> {
        let secret = match kept {
            Some(Self::Bearer(value)) => bearer(readable(value)?).unwrap_or_default(),
            Some(Self::Key(value)) => readable(value)?,
            None => return Ok(alone(certificate)),
        };
        Ok(Shown::Secret(Secret(secret)))
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Kept(…)")
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
