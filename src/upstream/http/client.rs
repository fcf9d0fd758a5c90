//! The HTTP client of one upstream.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header};
use tokio::time::Instant;
use tracing::info;

use super::{
    Address, Ask, CredentialError, HttpSettings, Meanwhile, Protocol, Stage, Tried, UpstreamError,
    auth::{Auth, Credential},
    body::{self, BodyError},
    exchange::ReplyBody,
    framing,
    outgoing::Outgoing,
    redirect, remove_hop_by_hop,
    targets::{self, AddressView, Lookup, Outcome, Target, Targets},
    veil::Veil,
};
use crate::{
    model::Reply,
    route::{HttpRequest, Under, UpstreamName, UpstreamRequest},
    telemetry::{Chain, Ticket},
    upstream::buffer::BodyAccount,
};

/// How much is read of the body of a reply that is not the last, so that its connection can be used again.
const PASSED_BODY_LIMIT_BYTES: usize = 16 << 10;

/// How often one attempt is sent over another connection, because the one that it was sent over had been kept and was
/// closed meanwhile.
const KEPT_LIMIT: u32 = 3;

/// Who asks, unless a route or an upstream's settings say otherwise.
pub(super) const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("glossator/", env!("CARGO_PKG_VERSION")));

/// One legacy server. Clones share its connections.
///
/// It keeps no deadline but the one of connecting, and tries once, closed connections aside: everything else is `policy`.
/// Dropping the future of an answer closes the connection, so the upstream sees that no one waits any more.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Arc<HttpSettings>,
    targets: Arc<Targets>,
    auth: Option<Auth>,
    /// Hides the secrets of the settings, in their headers and addresses.
    veil: Veil,
}

impl HttpUpstream {
    /// Makes the client; nothing is connected yet. Within a runtime it begins to ask after the health of its addresses,
    /// where its settings say so.
    pub fn new(settings: HttpSettings) -> Self {
        Self::finding(settings, targets::system())
    }

    /// The same, with names looked up in another way than the system's.
    pub(super) fn finding(mut settings: HttpSettings, lookup: Lookup) -> Self {
        remove_hop_by_hop(&mut settings.headers);
        settings.headers.remove(header::CONTENT_LENGTH);
        let auth = settings.auth.as_ref().map(Auth::new);
        let veil = Veil::of_settings(&settings);
        let settings = Arc::new(settings);
        let targets = Targets::new(settings.clone(), lookup);
        Self { shared: Arc::new(Shared { settings, targets, auth, veil }) }
    }

    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        &self.shared.settings.name
    }

    /// Its addresses and how they do, names looked up; of a name that was not looked up yet there is nothing.
    pub fn addresses(&self) -> Vec<AddressView> {
        self.shared.targets.view()
    }

    /// From now on, tells of each check of health of an address that went well; only the first who asks is told.
    pub fn when_healthy(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.shared.targets.when_healthy(tell);
    }

    /// Where it is, where that is one place.
    pub fn sole_address(&self) -> Option<&Address> {
        let settings = &self.shared.settings;
        settings.others.is_empty().then_some(&settings.address)
    }

    pub(super) fn targets(&self) -> &Arc<Targets> {
        &self.shared.targets
    }

    /// The version that requests are written in.
    pub(super) fn version(&self) -> Version {
        version_of(self.shared.settings.protocol)
    }

    pub(super) async fn send(
        &self,
        target: &Target,
        request: Request<Outgoing>,
    ) -> Result<Response<ReplyBody>, UpstreamError> {
        let response = target.connections().send(request).await;
        let mut response = response.map_err(|error| UpstreamError::of_client(self.name(), error))?;
        let not_http =
            |why: &str| UpstreamError::NotHttp { upstream: self.name().clone(), source: why.into() };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(not_http("it switched to another protocol without being asked"));
        }
        if let Err(why) = framing::check(response.version(), response.headers_mut()) {
            response.body_mut().close();
            return Err(not_http(why));
        }
        if framing::announces_body_that_is_not_read(response.status(), response.headers()) {
            response.body_mut().close();
            // Nobody else is told of that body either (RFC 9110, section 8.6).
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        Ok(response)
    }

    /// Asks, and gives the reply as soon as its head is there.
    pub(in crate::upstream) async fn open(
        &self,
        request: HttpRequest,
        due: Instant,
    ) -> Result<Opened, UpstreamError> {
        let (targets, tried) = (&self.shared.targets, Tried::default());
        let ticket = Ticket::default();
        let credential = self.credential(&ticket).await?;
        let mut load = targets.pick(&tried, due).await?;
        loop {
            let result = self.open_at(load.target(), &request, credential.clone(), &ticket).await;
            let outcome = match &result {
                Ok(opened) => Outcome::of_status(opened.status()),
                Err(error) => Outcome::of_error(error),
            };
            load.tell(outcome, &ticket);
            match &result {
                Err(error) if error.facts().stage == Stage::NotReached => {
                    match targets.pick_other(&tried, due) {
                        Some(other) => load = other,
                        None => return result,
                    }
                }
                Ok(_) | Err(_) => return result,
            }
        }
    }

    /// The headers that go out: a request's, and what this upstream is told besides.
    fn complete(&self, headers: &HeaderMap) -> HeaderMap {
        let mut headers = headers.clone();
        remove_hop_by_hop(&mut headers);
        // The client writes the length that the body has.
        headers.remove(header::CONTENT_LENGTH);
        if !headers.contains_key(header::USER_AGENT) {
            headers.insert(header::USER_AGENT, USER_AGENT);
        }
        let own = &self.shared.settings.headers;
        for name in own.keys() {
            headers.remove(name);
        }
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        // Compressing costs a server near by more than it saves; a route that wants it says so.
        if !headers.contains_key(header::ACCEPT_ENCODING) {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        headers
    }

    /// Asks at one address, where redirects stay.
    async fn open_at(
        &self,
        target: &Target,
        request: &HttpRequest,
        mut credential: Option<Credential>,
        ticket: &Ticket,
    ) -> Result<Opened, UpstreamError> {
        let mut headers = self.complete(&request.headers);
        let (mut method, mut content) = (request.method.clone(), request.body.clone());
        let uri = match request.under {
            Under::Address => target.address().join(&request.path_and_query),
            Under::Root => target.address().join_root(&request.path_and_query),
            Under::Itself => target.address().itself(),
        };
        let mut uri = uri.map_err(|source| self.unsendable(source))?;
        let mut redirects_left = self.shared.settings.redirects;
        let auth = self.shared.auth.as_ref();
        // Whether another credential may be tried, once.
        let mut renewable = auth.is_some_and(Auth::changes);
        loop {
            let mut outgoing = Request::new(Outgoing::whole(content.clone()));
            *outgoing.method_mut() = method.clone();
            *outgoing.uri_mut() = uri.clone();
            *outgoing.version_mut() = self.version();
            let last = redirects_left == 0 && !renewable;
            *outgoing.headers_mut() = if last { std::mem::take(&mut headers) } else { headers.clone() };
            if let Some(credential) = &credential {
                outgoing.headers_mut().insert(header::AUTHORIZATION, credential.value.clone());
            }
            let response = self.send(target, outgoing).await?;
            if let (Some(auth), Some(sent)) = (auth, &credential) {
                if response.status() != StatusCode::UNAUTHORIZED {
                    auth.taken(sent);
                } else if renewable {
                    renewable = false;
                    let another = auth.another(sent, ticket).await;
                    let another = another.map_err(|source| self.no_credential(source))?;
                    if another.is_some() {
                        // Who says 401 has done nothing yet, so any request may be sent again.
                        credential = another;
                        skip(response.into_body()).await;
                        continue;
                    }
                }
            }
            if redirects_left > 0
                && let Some((next_method, next_uri)) =
                    redirect::next(&method, &uri, response.status(), response.headers())
            {
                redirects_left -= 1;
                skip(response.into_body()).await;
                if method != next_method {
                    content = Bytes::new();
                    for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE] {
                        headers.remove(name);
                    }
                }
                (method, uri) = (next_method, next_uri);
                continue;
            }
            return Ok(Opened { response, veils: Veils { shared: self.shared.clone(), credential } });
        }
    }

    /// Who asks, where the upstream wants to know.
    async fn credential(&self, ticket: &Ticket) -> Result<Option<Credential>, UpstreamError> {
        let Some(auth) = &self.shared.auth else { return Ok(None) };
        auth.credential(ticket).await.map(Some).map_err(|source| self.no_credential(source))
    }

    fn no_credential(&self, source: Arc<CredentialError>) -> UpstreamError {
        UpstreamError::Credential { upstream: self.name().clone(), source }
    }

    pub(super) fn unsendable(&self, source: http::Error) -> UpstreamError {
        UpstreamError::Unsendable { upstream: self.name().clone(), source: source.into() }
    }
}

/// The version that requests are written in; HTTP/2 takes the one of HTTP/1.1 for its own.
pub(super) fn version_of(protocol: Protocol) -> Version {
    match protocol {
        Protocol::Http10 => Version::HTTP_10,
        Protocol::Auto | Protocol::Http1 | Protocol::Http2 => Version::HTTP_11,
    }
}

/// Reads what is short, so that the connection can be used again. Whether it could be read decides nothing else.
async fn skip(body: ReplyBody) {
    let limit_bytes = PASSED_BODY_LIMIT_BYTES;
    let _ = body::read(body, limit_bytes, &mut BodyAccount::none(), None).await;
}

/// A reply whose head is there.
pub(in crate::upstream) struct Opened {
    response: Response<ReplyBody>,
    veils: Veils,
}

/// What no reply may show of what was sent with its request.
pub(in crate::upstream) struct Veils {
    shared: Arc<Shared>,
    credential: Option<Credential>,
}

impl Opened {
    /// Its status.
    pub(in crate::upstream) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub(in crate::upstream) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Its body as it comes, and what goes over what is read of it.
    pub(in crate::upstream) fn into_body(self) -> (ReplyBody, Veils) {
        (self.response.into_body(), self.veils)
    }

    /// Reads the body to its end.
    pub(in crate::upstream) async fn whole(
        self,
        limit_bytes: usize,
        mut account: BodyAccount<'_>,
        meanwhile: Option<&Meanwhile>,
    ) -> Result<Reply, UpstreamError> {
        let Self { response, veils } = self;
        let (mut head, body) = response.into_parts();
        let upstream = || veils.shared.settings.name.clone();
        let read = body::read(body, limit_bytes, &mut account, meanwhile).await;
        let body = read.map_err(|error| match error {
            BodyError::Full(full) => full.of(&veils.shared.settings.name),
            BodyError::TooLong => UpstreamError::TooLong { upstream: upstream(), limit_bytes },
            BodyError::Malformed(source) => {
                UpstreamError::NotHttp { upstream: upstream(), source: source.into() }
            }
            BodyError::CutOff(source) => {
                UpstreamError::CutOff { upstream: upstream(), source: source.into() }
            }
        })?;
        remove_hop_by_hop(&mut head.headers);
        let reply = veils.over(Reply::new(head.status, head.headers, body));
        account.finish_reply(reply).await.map_err(|full| full.of(&veils.shared.settings.name))
    }
}

impl Veils {
    /// The reply without it.
    pub(in crate::upstream) fn over(&self, reply: Reply) -> Reply {
        let reply = self.shared.veil.over(reply);
        match &self.credential {
            Some(credential) => credential.veil.over(reply),
            None => reply,
        }
    }
}

impl HttpUpstream {
    /// A request that is tried once.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], where there is no reply.
    pub async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        self.attempt(ask, &Tried::default()).await
    }

    /// Asks one address, and another when nothing could be sent to that one.
    pub(in crate::upstream) async fn attempt(
        &self,
        ask: &Ask,
        tried: &Tried,
    ) -> Result<Reply, UpstreamError> {
        let Ask { request, reply_limit_bytes, due, meanwhile, repeatable, ticket, .. } = ask;
        let UpstreamRequest::Http(request) = request else {
            return Err(UpstreamError::of_another_kind(self.name()));
        };
        let due = due.latest;
        let targets = &self.shared.targets;
        let credential = self.credential(ticket).await?;
        let mut load = targets.pick(tried, due).await?;
        let mut over_others = if *repeatable { KEPT_LIMIT } else { 0 };
        loop {
            let result = match self.open_at(load.target(), request, credential.clone(), ticket).await {
                Ok(opened) => {
                    opened
                        .whole(*reply_limit_bytes, ask.account(*reply_limit_bytes), meanwhile.as_ref())
                        .await
                }
                // A server may close what is kept at any time (RFC 9112, section 9.3.1): that is no failure of it.
                Err(error) if over_others > 0 && error.is_of_kept_connection() => {
                    over_others -= 1;
                    let request_id = ticket.request_id();
                    info!(upstream = %self.name(), request_id, error = %Chain(&error), "a kept connection was closed: another one is taken");
                    continue;
                }
                Err(error) => Err(error),
            };
            load.tell(Outcome::of(&result), ticket);
            match &result {
                Err(error) if error.facts().stage == Stage::NotReached => {
                    match targets.pick_other(tried, due) {
                        Some(other) => load = other,
                        None => return result,
                    }
                }
                Ok(_) | Err(_) => return result,
            }
        }
    }
}
