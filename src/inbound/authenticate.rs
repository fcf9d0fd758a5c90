//! Identification of the client of a request, and reauthorization of open streams.
//!
//! An `AuthenticatedClient` comes from `Authenticator::identify`, from the encrypted identity that another
//! replica forwards, or from `AuthenticatedClient::local`; no API calls a tool without one. Open streams are
//! authorized again when the credential expires, when the configured clients change, and every minute.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use serde_json::Value;
use tokio::{sync::watch, time::sleep};
use tracing::info;

use super::{Connection, Rejection, RequestContext, RequestInfo};
use crate::auth::{Access, AuthError, METADATA_PATH, PresentedCredential};
use crate::route::Scopes;
use crate::telemetry::RequestId;
use crate::upstream::{Client, ClientIdentity};
use crate::wire::{MapPoll, PolledFrame};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Value of `Retry-After` while tokens can't be checked.
const RETRY_AFTER_SECONDS: u64 = 10;

/// Interval at which open streams are authorized again: an issuer may have revoked the key that signed a
/// token.
const REAUTHORIZATION_INTERVAL: Duration = Duration::from_secs(60);

/// Authenticates clients by the access rules, if clients are configured. Clones share the rules.
#[derive(Debug, Clone, Default)]
pub struct Authenticator(Arc<watch::Sender<Option<Arc<Access>>>>);

/// The client of a request, and the credential that authenticates it.
#[derive(Debug, Clone)]
pub(super) struct AuthenticatedClient {
    pub(super) client: ClientIdentity,
    /// The credential; `None` if another replica has authenticated the client.
    credential: Option<PresentedCredential>,
}

/// Reason for closing an open stream whose credential is still valid, but now belongs to another client or
/// grants other scopes.
const CHANGED: &str = "the permissions of the client have changed";

impl Authenticator {
    /// Replaces the access rules; `None` if no clients are configured.
    pub fn replace(&self, access: Option<Arc<Access>>) {
        self.0.send_replace(access);
    }

    /// Returns the active access rules; `None` if no clients are configured.
    pub fn access(&self) -> Option<Arc<Access>> {
        self.0.borrow().clone()
    }

    /// Identifies the client of a request by its credential. `forwarded` is the client that another replica
    /// has already identified. Removes the credential from the headers, so that it is not sent to upstreams.
    ///
    /// # Errors
    ///
    /// [`Rejection`] if a credential is missing, malformed or invalid, or can't be checked.
    pub(super) async fn identify(
        &self,
        head: &mut Parts,
        info: &RequestInfo,
        forwarded: Option<ClientIdentity>,
    ) -> Result<AuthenticatedClient, Rejection> {
        let Some(access) = self.access() else {
            return Ok(AuthenticatedClient::from_address(info));
        };
        let (client, credential) = match forwarded {
            Some(client) => (client, None),
            None => {
                let reject = |error: AuthError| rejection(&error, &access);
                let credential = credential_in(&head.headers, &info.connection).map_err(reject)?;
                let (now, request_id) = (SystemTime::now(), &info.request_id);
                let found = access.identify(&credential, now, request_id).await.map_err(reject)?;
                (ClientIdentity::Client(found.client), Some(credential))
            }
        };
        remove_credentials(&mut head.headers);
        Ok(AuthenticatedClient { client, credential })
    }

    /// Whether clients are configured, but this request has no credential.
    pub(super) fn has_no_credential(&self, headers: &HeaderMap, connection: &Connection) -> bool {
        self.0.borrow().is_some()
            && matches!(credential_in(headers, connection), Ok(PresentedCredential::Nothing))
    }

    /// Returns the OAuth protected resource metadata at a path (RFC 9728), which names the authorization
    /// server.
    pub fn metadata_at(&self, path: &str, needed: &Scopes) -> Option<Value> {
        let access = path.starts_with(METADATA_PATH).then(|| self.access())?;
        access?.metadata_at(path, needed)
    }

    /// Builds the rejection of a client that lacks a needed scope. `all` are all scopes of the configuration,
    /// for the challenge.
    pub(super) fn missing_scope(&self, client: &ClientIdentity, needed: &Scopes, all: &Scopes) -> Rejection {
        let client = client.client().map(|client| &**client);
        let challenge = self.access().map(|access| access.challenge_for(needed, client, all));
        let message = format!("permission denied; required scope: `{needed}`");
        let rejection = Rejection::new(StatusCode::FORBIDDEN, "scope is missing", message);
        rejection.with_header(header::WWW_AUTHENTICATE, challenge)
    }

    /// Completes when the stream of a client must be closed, and logs the reason.
    pub(super) fn revoked(&self, context: &RequestContext) -> impl Future<Output = ()> + Send + use<> {
        let (authenticator, identity) = (self.clone(), context.identity.clone());
        let (request_id, address) = (context.info.request_id.clone(), context.info.address);
        async move {
            let mut changed = authenticator.0.subscribe();
            let revocation = loop {
                match authenticator.authorize_again(&identity, &request_id, SystemTime::now()).await {
                    // `changed` can't fail, because the authenticator owns the sender.
                    Ok(remaining) => tokio::select! {
                        _ = changed.changed() => {}
                        () = sleep(remaining.unwrap_or_default()), if remaining.is_some() => {}
                    },
                    Err(revocation) => break revocation,
                }
            };
            info!(
                %request_id,
                client = address.map(display),
                client_name = identity.client.name_in_log().map(display),
                reason = %revocation,
                "stream closed: its client is no longer authorized"
            );
        }
    }

    /// Authorizes a stream again. Returns the time until the next check; `None` if only a reload requires
    /// one.
    async fn authorize_again(
        &self,
        identity: &AuthenticatedClient,
        request_id: &RequestId,
        now: SystemTime,
    ) -> Result<Option<Duration>, String> {
        let Some(credential) = &identity.credential else { return Ok(None) };
        let client = identity.client.client();
        let Some(access) = self.access() else {
            return if client.is_none() { Ok(None) } else { Err(CHANGED.to_owned()) };
        };
        let found = access.identify(credential, now, request_id).await.map_err(|error| error.to_string())?;
        let is_as_before =
            |before: &Arc<Client>| *before == found.client && before.scopes == found.client.scopes;
        if !client.is_some_and(is_as_before) {
            return Err(CHANGED.to_owned());
        }
        let remaining = found.until.map(|until| until.duration_since(now).unwrap_or_default());
        Ok(Some(remaining.unwrap_or(Duration::MAX).min(REAUTHORIZATION_INTERVAL)))
    }
}

impl AuthenticatedClient {
    /// Identity of the local process that uses MCP over stdio: it has all rights.
    pub(super) fn local() -> Self {
        Self { client: ClientIdentity::Local, credential: Some(PresentedCredential::Nothing) }
    }

    /// Identity by the address of the request, for a server without configured clients. A client with an
    /// unknown address has no rights.
    fn from_address(info: &RequestInfo) -> Self {
        let client = info.address.map_or(ClientIdentity::Unknown, ClientIdentity::from_address);
        let credential = Some(credential_of_connection(&info.connection));
        Self { client, credential }
    }
}

/// Reads the credential of a request. More than one credential is an error.
fn credential_in(headers: &HeaderMap, connection: &Connection) -> Result<PresentedCredential, AuthError> {
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (first, None) => Ok(first),
            _ => Err(AuthError::Malformed("`Authorization` and `X-API-Key` may each be sent once")),
        }
    };
    let (authorization, key) = (single(&header::AUTHORIZATION)?, single(&API_KEY)?);
    let token = authorization.map(trimmed_text).transpose()?.and_then(bearer_token);
    match (token, key.map(trimmed_text).transpose()?) {
        (Some(_), Some(_)) => {
            Err(AuthError::Malformed("send `Authorization: Bearer …` or `X-API-Key`, not both"))
        }
        (Some(secret), None) | (None, Some(secret)) => Ok(PresentedCredential::Secret(secret.into())),
        (None, None) => Ok(credential_of_connection(connection)),
    }
}

fn credential_of_connection(connection: &Connection) -> PresentedCredential {
    let certificate = connection.certificate.clone();
    certificate.map_or(PresentedCredential::Nothing, PresentedCredential::Certificate)
}

fn trimmed_text(value: &HeaderValue) -> Result<&str, AuthError> {
    let text = value.to_str().map_err(|_| AuthError::Invalid("the key or token has invalid characters"))?;
    Ok(text.trim())
}

/// Returns the token of the scheme `Bearer`; `None` for another scheme.
fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ').unwrap_or_else(|| (value.trim(), ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Removes the credentials that are meant for glossator, so that they are not sent to upstreams.
fn remove_credentials(headers: &mut HeaderMap) {
    headers.remove(&API_KEY);
    let is_ours = |value: &HeaderValue| value.to_str().map_or(true, |value| bearer_token(value).is_some());
    if headers.get(header::AUTHORIZATION).is_some_and(is_ours) {
        headers.remove(header::AUTHORIZATION);
    }
}

fn rejection(error: &AuthError, access: &Access) -> Rejection {
    let new = |reason| Rejection::new(error.status_and_code().0, reason, error.to_string());
    let challenge = |reason| new(reason).with_header(header::WWW_AUTHENTICATE, Some(access.challenge(error)));
    match error {
        AuthError::Missing => challenge("no credential"),
        AuthError::Malformed(reason) | AuthError::Invalid(reason) => challenge(reason),
        AuthError::KeysUnavailable => new("tokens can't be checked").with_retry_after(RETRY_AFTER_SECONDS),
    }
}

/// Wraps a body so that reading it fails when the client is no longer authorized.
pub(super) fn revocable(body: Body, revoked: impl Future<Output = ()> + Send + 'static) -> Body {
    // `None` once the error has been returned.
    let mut revoked = Some(Box::pin(revoked));
    Body::new(MapPoll::new(body, move |polled: PolledFrame<axum::Error>, context: &mut Context<'_>| {
        let Some(pending) = &mut revoked else { return Poll::Ready(None) };
        if pending.as_mut().poll(context).is_ready() {
            revoked = None;
            // The stream ends with an error, so that the client does not take a partial response for a
            // complete one.
            return Poll::Ready(Some(Err(axum::Error::new("its client is no longer authorized"))));
        }
        polled
    }))
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
        let headers = head(pairs).headers;
        let info = RequestInfo::new(Arc::default(), &headers);
        let credential = credential_in(&headers, &info.connection);
        let found = match &credential {
            Ok(PresentedCredential::Nothing | PresentedCredential::Certificate(_)) => Ok(None),
            Ok(PresentedCredential::Secret(text)) => Ok(Some(&**text)),
            Err(error) => Err(error.status_and_code().0),
        };
        assert_eq!(found, expected, "{pairs:?}");
    }

    #[test]
    fn a_request_has_one_credential() {
        check(&[], Ok(None));
        check(&[("authorization", "bearer  abc ")], Ok(Some("abc")));
        check(&[("x-api-key", " abc")], Ok(Some("abc")));
        check(&[("authorization", "Basic abc")], Ok(None));
        check(&[("authorization", "Basic abc"), ("x-api-key", "k")], Ok(Some("k")));
        check(&[("authorization", "Bearer")], Ok(Some("")));
        let (malformed, invalid) = (Err(StatusCode::BAD_REQUEST), Err(StatusCode::UNAUTHORIZED));
        check(&[("authorization", "Bearer a"), ("x-api-key", "k")], malformed);
        check(&[("authorization", "Bearer a"), ("authorization", "Bearer a")], malformed);
        check(&[("authorization", "Basic a"), ("authorization", "Bearer a")], malformed);
        check(&[("x-api-key", "k"), ("x-api-key", "k")], malformed);
        check(&[("authorization", "Bearer \u{e4}")], invalid);
    }

    #[test]
    fn credentials_are_not_forwarded() {
        let mut headers =
            head(&[("authorization", "Bearer abc"), ("x-api-key", "k"), ("accept", "*/*")]).headers;
        remove_credentials(&mut headers);
        assert_eq!(headers.len(), 1);
        let mut others = head(&[("authorization", "Basic abc")]).headers;
        remove_credentials(&mut others);
        assert_eq!(others.len(), 1, "`Basic` credentials are not for glossator");
    }

    #[tokio::test]
    async fn a_request_without_an_address_has_no_rights() {
        let write = Scopes::from_client(["write"]);
        let mut head = head(&[]);
        let unknown = RequestInfo::take(&mut head, crate::pipeline::ApiKind::Rest);
        let found = Authenticator::default().identify(&mut head, &unknown, None).await.unwrap();
        assert!(!found.client.may(&write) && found.client.may(&Scopes::default()));
        assert!(
            AuthenticatedClient::local().client.may(&write),
            "who started the process may do everything in it"
        );
    }
}
