//! Plain HTTP: tools at endpoints, a manifest of them, and every other path to a legacy server unread.
//!
//! In reading order: [`Rest::handle`] finds what a path means, `decode` reads a call's arguments, `answer` writes
//! results, errors and `GET /tools`, `openapi` is `GET /openapi.json`, `passthrough` hands a request through.
//!
//! | path | |
//! |---|---|
//! | a route's `rest:` endpoint | calls its tool; `HEAD` too where there is a `GET` |
//! | `POST /tools/NAME` | calls any tool |
//! | `GET /tools` | the tool definitions, each with `endpoint` and `method` |
//! | `GET /openapi.json` | every operation, as OpenAPI 3.1 |
//! | `GET /.well-known/oauth-protected-resource` | where tokens are given, where that is known |
//! | `GET /health` | `{"status": "ok"}`, for whoever asks: probes know no host name, and ask by any |
//! | `GET /status` | name, version, uptime, number of tools; or the tool of a route with `rest: GET /status` |
//! | below one of these, or of the MCP endpoint's | 404 |
//! | anything else | the `passthrough` upstream, or 404 |
//!
//! Errors of the face itself (no such path, a body that is no JSON) are `{"error": "…"}` in both envelopes.

mod answer;
mod decode;
mod openapi;
mod passthrough;

use std::{fmt, pin::pin, sync::Arc, time::Instant};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use serde_json::json;

use super::{
    MCP_PATHS, SHUTTING_DOWN,
    context::{Arrival, LoggedRequest, Reason, RequestContext},
    door::{Door, Page, Refused},
};
use crate::{
    pipeline::{BoundRoute, Call, Face, Gateway, NoElicitor, Snapshot},
    policy,
    route::{EndpointMatch, Route, Scopes},
    telemetry::method_word,
};

const TOOLS: &str = "/tools";
const OPENAPI: &str = "/openapi.json";
const HEALTH: &str = "/health";
/// Ours where no route has it: many a legacy server has a tool of this name.
const STATUS: &str = "/status";

/// What `OPTIONS` says of every path to who has not said who it is, where callers are told apart.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Paths that are always ours, and what is below them: no route's own endpoint may be there.
pub const RESERVED: &[&str] = &[TOOLS, OPENAPI, HEALTH, MCP_PATHS[0], MCP_PATHS[1]];

/// The REST face. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Rest {
    gateway: Gateway,
    door: Door,
    begun: Instant,
}

/// What stands at a path.
enum Place<'a> {
    Manifest,
    OpenApi,
    Health,
    /// What clients are told that look for where tokens are given.
    Metadata(serde_json::Value),
    Status,
    Tool {
        route: &'a Arc<BoundRoute>,
        in_path: Vec<(String, String)>,
    },
    UnknownTool(String),
    WrongMethod(Vec<Method>),
    Passthrough(&'a policy::Passthrough),
    Nothing,
}

impl Rest {
    /// A face over a gateway.
    pub fn new(gateway: Gateway, door: Door) -> Self {
        Self { gateway, door, begun: Instant::now() }
    }

    /// Answers one request. Dropping the future cancels what was asked of an upstream.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let mut arrival = Arrival::take(&mut head, Face::Rest);
        let snapshot = self.gateway.snapshot();
        let place = self.find(&snapshot, &head);
        if matches!(place, Place::Health) {
            return match self.door.names_one_host(&head) {
                Ok(()) => answer::value(StatusCode::OK, &json!({ "status": "ok" })),
                Err(refused) => refuse(arrival.logged(&head), refused.status(), &refused),
            };
        }
        let page = match self.door.admit(&mut head, &mut arrival) {
            Ok(page) => page,
            Err(refused) => return refuse(arrival.logged(&head), refused.status(), &refused),
        };
        if head.method == Method::OPTIONS && self.door.guard.is_shown_nothing(&head, &arrival) {
            // A browser's question before a request, which never says who asks: every path is answered alike,
            // or the answer would tell which tools there are.
            let mut response = page.options(&head.headers, METHODS);
            page.let_read(response.headers_mut());
            return response;
        }
        if page.has_link() && matches!(place, Place::Tool { .. }) {
            return refuse(arrival.logged(&head), Refused::Page.status(), &Refused::Page);
        }
        if let Place::Metadata(metadata) = &place {
            // Who asks for it has no token yet.
            let mut response = answer::value(StatusCode::OK, metadata);
            page.let_read(response.headers_mut());
            return response;
        }
        let ending = arrival.connection.ending.clone();
        let overdue = || Told("shutting down", SHUTTING_DOWN.to_owned());
        let identified = {
            let identifying = pin!(self.door.guard.identify(&mut head, &arrival));
            ending.unless_overdue(identifying).await
        };
        let identity = match identified {
            Some(Ok(identity)) => identity,
            Some(Err(turned_away)) => {
                let mut response = refuse(arrival.logged(&head), turned_away.status(), &turned_away);
                turned_away.challenge(response.headers_mut());
                page.let_read(response.headers_mut());
                return response;
            }
            None => return refuse(arrival.logged(&head), StatusCode::SERVICE_UNAVAILABLE, &overdue()),
        };
        let context = RequestContext { arrival, identity };
        let responded = {
            let responding = pin!(self.respond(&snapshot, place, page, &context, &mut head, body));
            ending.unless_overdue(responding).await
        };
        match responded {
            Some(response) => response,
            None => refuse(context.logged(Some(&head)), StatusCode::SERVICE_UNAVAILABLE, &overdue()),
        }
    }

    /// Answers a request whose sender is known.
    async fn respond(
        &self,
        snapshot: &Snapshot,
        place: Place<'_>,
        page: Page,
        context: &RequestContext,
        head: &mut Parts,
        body: Body,
    ) -> Response<Body> {
        let mut response = match as_seen(snapshot, place, context, head) {
            Place::Passthrough(upstream) => {
                return match allowed(snapshot, context, head, &snapshot.passthrough_scopes) {
                    Ok(()) => {
                        let guard = &self.door.guard;
                        Box::pin(passthrough::hand_through(upstream, guard, context, take(head), body)).await
                    }
                    Err(forbidden) => *forbidden,
                };
            }
            Place::WrongMethod(allowed) if head.method == Method::OPTIONS => {
                page.options(&head.headers, &answer::listed(&allowed))
            }
            Place::Tool { route, in_path } => self.call(snapshot, route, in_path, context, head, body).await,
            place => self.answer(snapshot, place, context, head),
        };
        page.let_read(response.headers_mut());
        response
    }

    /// What is there without asking an upstream.
    fn answer(
        &self,
        snapshot: &Snapshot,
        place: Place<'_>,
        context: &RequestContext,
        head: &Parts,
    ) -> Response<Body> {
        let (caller, mount) = (context.caller(), context.arrival.mount());
        match place {
            Place::Manifest => answer::manifest(&head.headers, snapshot, caller, mount),
            Place::OpenApi => {
                let write = || openapi::of(snapshot, caller, mount);
                let kept = || snapshot.lists.document(caller, write);
                answer::json(StatusCode::OK, if mount.is_empty() { kept() } else { write() })
            }
            Place::Status => {
                let status = json!({
                    "name": env!("CARGO_PKG_NAME"),
                    "version": env!("CARGO_PKG_VERSION"),
                    "uptime_seconds": self.begun.elapsed().as_secs(),
                    "tools": snapshot.lists.tools.seen_by(caller).count(),
                });
                answer::value(StatusCode::OK, &status)
            }
            Place::WrongMethod(allowed) => answer::wrong_method(&head.method, &allowed),
            Place::UnknownTool(name) => match snapshot.not_ready(&name) {
                Some(result) => {
                    let why = Told("tool is not listed yet", "the tool is not listed yet".to_owned());
                    context.logged(Some(head)).rejected(StatusCode::SERVICE_UNAVAILABLE, &why);
                    answer::not_ready(&result)
                }
                None => {
                    let message = format!("unknown tool `{name}`; `GET /tools` lists all tools");
                    let why = Told("unknown tool", message);
                    refuse(context.logged(Some(head)), StatusCode::NOT_FOUND, &why)
                }
            },
            // All but the first were answered before.
            Place::Nothing
            | Place::Health
            | Place::Metadata(_)
            | Place::Passthrough(_)
            | Place::Tool { .. } => {
                let message = "nothing is at this path; `GET /tools` lists all tools with their endpoints";
                let why = Told("unknown path", message.to_owned());
                refuse(context.logged(Some(head)), StatusCode::NOT_FOUND, &why)
            }
        }
    }

    async fn call(
        &self,
        snapshot: &Snapshot,
        route: &Arc<BoundRoute>,
        in_path: Vec<(String, String)>,
        context: &RequestContext,
        head: &Parts,
        body: Body,
    ) -> Response<Body> {
        if let Err(forbidden) = allowed(snapshot, context, head, &route.scopes) {
            return *forbidden;
        }
        // What was made of the body is held until the call is answered, so the body counts until then.
        let (arguments, _body) = match decode::arguments(&self.door, route, in_path, head, body).await {
            Ok(read) => read,
            Err(error) => {
                context.logged(Some(head)).rejected(error.status(), &error);
                return answer::unread(&error);
            }
        };
        let manner = answer::Manner::of(route, &head.headers);
        let Arrival { request_id, span, address, api, .. } = &context.arrival;
        if span.is_recorded() {
            let path = endpoint_of(route, head);
            span.rename(|| format!("{} {path}", method_word(&head.method)));
            span.text("http.route", path);
        }
        let call = Call::new(arguments, &head.headers, request_id.clone(), *api, context.caller().clone());
        let call = Call { address: *address, span: span.clone(), ..call };
        answer::result(&snapshot.call(route, call, &mut NoElicitor).await, manner)
    }

    fn find<'a>(&self, snapshot: &'a Snapshot, parts: &Parts) -> Place<'a> {
        let path = parts.uri.path();
        match self.door.guard.metadata_at(path, || snapshot.needed_scopes()) {
            None => find(snapshot, &parts.method, path),
            Some(metadata) => match parts.method {
                Method::GET | Method::HEAD => Place::Metadata(metadata),
                _ => Place::WrongMethod(vec![Method::GET, Method::HEAD]),
            },
        }
    }
}

/// Takes a head away, and leaves what the log says of it.
fn take(head: &mut Parts) -> Parts {
    let (mut left, ()) = Request::new(()).into_parts();
    left.method.clone_from(&head.method);
    left.uri.clone_from(&head.uri);
    std::mem::replace(head, left)
}

/// Whether the client of a request is allowed what needs these.
fn allowed(
    snapshot: &Snapshot,
    context: &RequestContext,
    head: &Parts,
    needed: &Scopes,
) -> Result<(), Box<Response<Body>>> {
    if context.caller().may(needed) {
        return Ok(());
    }
    let message = format!("the caller is not allowed this: it needs `{needed}`");
    let why = Told("scope is missing", message);
    let mut response = refuse(context.logged(Some(head)), StatusCode::FORBIDDEN, &why);
    if let Some(challenge) = context.identity.challenge_for(needed, || snapshot.needed_scopes()) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    Err(Box::new(response))
}

/// The path that a request for a route has, with names in the place of arguments.
fn endpoint_of(route: &Route, parts: &Parts) -> String {
    let path = parts.uri.path();
    let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
    let mut endpoints = route.endpoints().filter(|endpoint| endpoint.method == *method);
    let own = endpoints.find(|endpoint| endpoint.path == path || !path.starts_with("/tools/"));
    own.map_or_else(|| format!("/tools/{}", route.definition.name), |endpoint| endpoint.path.clone())
}

/// An error of the face itself, and its line in the log.
fn refuse(request: LoggedRequest<'_>, status: StatusCode, why: &dyn Reason) -> Response<Body> {
    request.rejected(status, why);
    answer::error(status, &why.to_string())
}

/// Why a request is rejected: a reason for the log, and a sentence for the client.
struct Told(&'static str, String);

impl Reason for Told {
    fn reason(&self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Told {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.1)
    }
}

fn find<'a>(snapshot: &'a Snapshot, method: &Method, path: &str) -> Place<'a> {
    let reading = method == Method::GET || method == Method::HEAD;
    let sought = if method == Method::HEAD { &Method::GET } else { method };
    let own = match path {
        TOOLS => Some(Place::Manifest),
        OPENAPI => Some(Place::OpenApi),
        HEALTH => Some(Place::Health),
        // A route whose first segment is an argument does not mean this path.
        STATUS if !snapshot.table.has_path(STATUS) => Some(Place::Status),
        STATUS if reading && !snapshot.table.has_endpoint(&Method::GET, STATUS) => Some(Place::Status),
        _ => None,
    };
    if let Some(own) = own {
        return if reading { own } else { Place::WrongMethod(vec![Method::GET, Method::HEAD]) };
    }
    // A route with an argument for its first segment would take these, and so would `passthrough`.
    let below = |own: &str| path.strip_prefix(own).is_some_and(|rest| rest.starts_with('/'));
    if RESERVED.iter().any(|own| *own != TOOLS && below(own)) {
        return Place::Nothing;
    }
    match snapshot.table.by_endpoint(sought, path) {
        EndpointMatch::Found { route, arguments } => Place::Tool { route, in_path: arguments },
        EndpointMatch::WrongMethod { mut allowed } => {
            if path == STATUS && !allowed.contains(&Method::GET) {
                allowed.push(Method::GET);
            }
            if allowed.contains(&Method::GET) {
                allowed.push(Method::HEAD);
            }
            Place::WrongMethod(allowed)
        }
        EndpointMatch::Nothing => without_tool(snapshot, path),
    }
}

/// What stands at a path that no tool has.
fn without_tool<'a>(snapshot: &'a Snapshot, path: &str) -> Place<'a> {
    match (path.strip_prefix("/tools/"), &snapshot.passthrough) {
        (Some(name), _) => Place::UnknownTool(name.to_owned()),
        (None, Some(upstream)) => Place::Passthrough(upstream),
        (None, None) => Place::Nothing,
    }
}

/// What stands there for the caller of a request: methods by which it may call something. Where there are
/// none, the path is one that no tool has.
fn as_seen<'a>(
    snapshot: &'a Snapshot,
    place: Place<'a>,
    context: &RequestContext,
    head: &Parts,
) -> Place<'a> {
    let Place::WrongMethod(mut allowed) = place else { return place };
    let (path, caller) = (head.uri.path(), context.caller());
    allowed.retain(|method| {
        let called_by = if method == Method::HEAD { &Method::GET } else { method };
        match snapshot.table.by_endpoint(called_by, path) {
            EndpointMatch::Found { route, .. } => caller.may(&route.scopes),
            EndpointMatch::WrongMethod { .. } | EndpointMatch::Nothing => true,
        }
    });
    if allowed.is_empty() { without_tool(snapshot, path) } else { Place::WrongMethod(allowed) }
}
