//! REST: endpoints that call tools, lists of these endpoints, and a proxy for all other paths.
//!
//! - [`RestApi::handle`] finds the target of a path, and the arguments of a call.
//! - `response` writes results, errors and `GET /tools`.
//! - `openapi` is `GET /openapi.json`.
//! - `passthrough` proxies a request.
//!
//! | path | |
//! |---|---|
//! | a route's `rest:` endpoint | calls its tool; `HEAD` too where there is a `GET` |
//! | `POST /tools/NAME` | calls any tool |
//! | `GET /tools` | the tool definitions, each with `endpoint` and `method` |
//! | `GET /openapi.json` | every operation, as OpenAPI 3.1 |
//! | `GET /.well-known/oauth-protected-resource` | the authorization servers, if they are configured |
//! | `GET /health` | liveness: `{"status": "ok"}`, for any `Host`, which probes do not know |
//! | `GET /status` | name, version, uptime, tool count; or the tool of a route with `rest: GET /status` |
//! | below `/tools/NAME`, `/openapi.json`, `/health`, `/mcp` or `/message` | 404 |
//! | anything else | the `passthrough` upstream, or 404 |
//!
//! A response has one of two [envelopes](crate::route::Envelope): an MCP tool result, or the plain value.
//! Errors of the API itself (unknown path, malformed JSON) are `{"error": "…"}` in both.

mod openapi;
mod passthrough;
mod response;

use std::{collections::HashMap, pin::pin, sync::Arc, time::Instant};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request::Parts};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::{
    CrossOriginPage, Filter, LoggedRequest, MCP_PATHS, ProtectedPort, Rejection, RequestContext, RequestInfo,
    SHUTTING_DOWN, cut_off_by_shutdown,
};
use crate::model::{ARGUMENT_VALUE_LIMIT, kind_of, values_within};
use crate::pipeline::{ApiKind, BoundRoute, Call, Gateway, Snapshot};
use crate::policy;
use crate::route::{EndpointMatch, Route};
use crate::telemetry::method_label;
use crate::upstream::ClientIdentity;

const TOOLS: &str = "/tools";
const OPENAPI: &str = "/openapi.json";
const HEALTH: &str = "/health";
/// A route may replace this path, because many legacy servers have a status tool.
const STATUS: &str = "/status";

/// `Allow` header in responses to `OPTIONS` without a credential, on every path, if clients authenticate.
const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Reserved paths. No configured endpoint (`rest:`) may be at or below one of them.
pub const RESERVED: &[&str] = &[TOOLS, OPENAPI, HEALTH, MCP_PATHS[0], MCP_PATHS[1]];

/// The REST API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RestApi {
    gateway: Gateway,
    filter: Filter,
    started: Instant,
}

/// Target of a request, selected by method and path.
enum Target<'a> {
    ToolList,
    OpenApi,
    Health,
    /// OAuth metadata, in which clients find the authorization server.
    Metadata(Value),
    Status,
    Tool {
        route: &'a Arc<BoundRoute>,
        path_arguments: Vec<(String, String)>,
    },
    UnknownTool(String),
    WrongMethod {
        allowed: Vec<Method>,
        /// Whether glossator itself serves the path, so that no route matches it.
        is_own: bool,
    },
    Passthrough(&'a policy::Passthrough),
    NotFound,
}

impl RestApi {
    /// Creates the API.
    pub fn new(gateway: Gateway, filter: Filter) -> Self {
        Self { gateway, filter, started: Instant::now() }
    }

    /// Responds to one request. Dropping the future cancels its upstream request.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let mut info = RequestInfo::take(&mut head, ApiKind::Rest);
        // Whether MCP servers have sent the lists that the target of the path needs.
        let is_complete = |snapshot: &Snapshot| match self.find(snapshot, &head) {
            Target::ToolList | Target::OpenApi => snapshot.awaited.tools.is_empty(),
            Target::Tool { route, .. } => !snapshot.awaits_lists_for(route),
            Target::UnknownTool(name) => !snapshot.may_list_tool(&name),
            Target::Health
            | Target::Metadata(_)
            | Target::Status
            | Target::WrongMethod { .. }
            | Target::Passthrough(_)
            | Target::NotFound => true,
        };
        let snapshot = self.gateway.complete_snapshot(is_complete).await;
        let target = self.find(&snapshot, &head);
        let admitted = match target {
            Target::Health => self.filter.admit_probe(&head),
            _ => self.filter.admit(&mut head, &mut info),
        };
        let page = match admitted {
            Ok(page) => page,
            Err(rejection) => return rejected(info.logged(&head), &rejection),
        };
        let authenticator = &self.filter.authenticator;
        let shutdown = info.connection.shutdown.clone();
        let identified = match &target {
            // Preflight requests have no credentials. All paths have the same response; otherwise it would
            // reveal which tools exist.
            _ if head.method == Method::OPTIONS
                && authenticator.has_no_credential(&head.headers, &info.connection) =>
            {
                let response = page.options(&head.headers, ALLOWED_METHODS);
                return page.allow_read(response);
            }
            Target::Health => return response::value(StatusCode::OK, &json!({ "status": "ok" })),
            Target::Tool { .. } if page.is_navigation => Err(ProtectedPort::Clients.foreign_page()),
            // Clients that request the metadata have no token yet.
            Target::Metadata(metadata) => {
                return page.allow_read(response::value(StatusCode::OK, metadata));
            }
            _ => {
                let identify = pin!(authenticator.identify(&mut head, &info, None));
                let identified = shutdown.unless_overdue(identify).await;
                identified.unwrap_or_else(|| Err(Rejection::for_shutdown(SHUTTING_DOWN)))
            }
        };
        let identity = match identified {
            Ok(identity) => identity,
            Err(rejection) => return page.allow_read(rejected(info.logged(&head), &rejection)),
        };
        let context = RequestContext { info, identity };
        let target = without_forbidden_methods(&snapshot, target, context.client(), head.uri.path());
        let is_passthrough = matches!(target, Target::Passthrough(_));
        let called_route = if let Target::Tool { route, .. } = &target { Some(*route) } else { None };
        let responded = {
            let respond = self.respond(&snapshot, target, &page, &context, &head, body);
            shutdown.unless_overdue(pin!(respond)).await
        };
        let responded = responded.unwrap_or_else(|| {
            let passthrough_effect = is_passthrough && !head.method.is_safe();
            let may_have_effect = called_route.map_or(passthrough_effect, |route| route.may_have_effect());
            Err(Rejection::for_shutdown(cut_off_by_shutdown(may_have_effect)))
        });
        let response =
            responded.unwrap_or_else(|rejection| rejected(context.logged(Some(&head)), &rejection));
        // The upstream itself decides which pages may read a passthrough response.
        if is_passthrough { response } else { page.allow_read(response) }
    }

    /// Responds to a request whose client has been identified.
    async fn respond(
        &self,
        snapshot: &Snapshot,
        target: Target<'_>,
        page: &CrossOriginPage,
        context: &RequestContext,
        head: &Parts,
        body: Body,
    ) -> Result<Response<Body>, Rejection> {
        let (client, mount) = (context.client(), context.info.mount.as_deref().unwrap_or_default());
        Ok(match target {
            Target::Tool { route, path_arguments } => {
                self.call(snapshot, route, path_arguments, context, head, body).await?
            }
            Target::Passthrough(upstream) => {
                let authenticator = &self.filter.authenticator;
                let needed = &upstream.settings.scopes;
                if !client.may(needed) {
                    return Err(authenticator.missing_scope(client, needed, &snapshot.lists.needed_scopes));
                }
                passthrough::check(head)?;
                Box::pin(passthrough::forward(upstream, authenticator, context, head.clone(), body)).await
            }
            Target::ToolList => response::tool_list(&head.headers, snapshot, client, mount),
            Target::OpenApi => response::value(StatusCode::OK, &openapi::document(snapshot, client, mount)),
            Target::Status => {
                let status = json!({
                    "name": env!("CARGO_PKG_NAME"),
                    "version": env!("CARGO_PKG_VERSION"),
                    "uptime_seconds": self.started.elapsed().as_secs(),
                    "tools": snapshot.lists.tools.seen_by(client).count(),
                });
                response::value(StatusCode::OK, &status)
            }
            Target::WrongMethod { allowed, .. } if head.method == Method::OPTIONS => {
                page.options(&head.headers, &response::listed(&allowed))
            }
            Target::WrongMethod { allowed, .. } => response::wrong_method(&head.method, &allowed),
            Target::UnknownTool(name) => {
                let message = format!("unknown tool `{name}`; `GET /tools` lists all tools");
                let unknown = || Rejection::new(StatusCode::NOT_FOUND, "unknown tool", message);
                return Err(snapshot.not_ready(&name).as_ref().map_or_else(unknown, response::not_ready));
            }
            // `handle` has already responded to requests for health and metadata.
            Target::NotFound | Target::Health | Target::Metadata(_) => {
                let message = "unknown path; `GET /tools` lists all tools with their endpoints";
                return Err(Rejection::new(StatusCode::NOT_FOUND, "unknown path", message));
            }
        })
    }

    async fn call(
        &self,
        snapshot: &Snapshot,
        route: &Arc<BoundRoute>,
        path_arguments: Vec<(String, String)>,
        context: &RequestContext,
        head: &Parts,
        body: Body,
    ) -> Result<Response<Body>, Rejection> {
        let client = context.client();
        if !client.may(&route.scopes) {
            let all_scopes = &snapshot.lists.needed_scopes;
            return Err(self.filter.authenticator.missing_scope(client, &route.scopes, all_scopes));
        }
        // The query counts toward the limit of the request buffer, like the body, until `body` is dropped.
        let body = self.filter.read(&head.headers, head.uri.query().unwrap_or_default(), body).await?;
        let arguments = collect_arguments(route, path_arguments, head, &body)?;
        let RequestInfo { request_id, span, address, api, .. } = &context.info;
        if span.is_recorded() {
            // The path of the route has placeholders instead of values (`/users/{id}`), so that the number of
            // span names is bounded.
            let rest_endpoint = route.rest.as_ref().filter(|_| !head.uri.path().starts_with("/tools/"));
            let path = rest_endpoint.map_or_else(|| head.uri.path(), |endpoint| &endpoint.path);
            span.rename(|| format!("{} {path}", method_label(&head.method)));
            span.text("http.route", path.to_owned());
        }
        let call = Call::new(arguments, &head.headers, request_id.clone(), *api, client.clone());
        let call = Call { address: *address, span: span.clone(), ..call };
        Ok(response::result(&snapshot.call(route, call, None).await, route, &head.headers))
    }

    fn find<'a>(&self, snapshot: &'a Snapshot, head: &Parts) -> Target<'a> {
        let (method, path) = (&head.method, head.uri.path());
        let is_read = method == Method::GET || method == Method::HEAD;
        let metadata = self.filter.authenticator.metadata_at(path, &snapshot.lists.needed_scopes);
        let own_target = metadata.map(Target::Metadata).or_else(|| match path {
            TOOLS => Some(Target::ToolList),
            OPENAPI => Some(Target::OpenApi),
            HEALTH => Some(Target::Health),
            // A route such as `/{name}` does not replace this path.
            STATUS if !snapshot.table.has_path(STATUS) => Some(Target::Status),
            STATUS if is_read && !snapshot.table.has_endpoint(&Method::GET, STATUS) => Some(Target::Status),
            _ => None,
        });
        if let Some(own_target) = own_target {
            if is_read {
                return own_target;
            }
            return Target::WrongMethod { allowed: vec![Method::GET, Method::HEAD], is_own: true };
        }
        // Neither a route such as `/{a}/{b}` nor `passthrough` may match a path below a reserved one.
        let is_below = |reserved: &str| path.strip_prefix(reserved).is_some_and(|rest| rest.starts_with('/'));
        if RESERVED.iter().any(|reserved| *reserved != TOOLS && is_below(reserved)) {
            return Target::NotFound;
        }
        match snapshot.table.by_endpoint(get_for_head(method), path) {
            EndpointMatch::Found { route, arguments } => Target::Tool { route, path_arguments: arguments },
            EndpointMatch::WrongMethod { mut allowed } => {
                if path == STATUS && !allowed.contains(&Method::GET) {
                    allowed.push(Method::GET);
                }
                if allowed.contains(&Method::GET) {
                    allowed.push(Method::HEAD);
                }
                Target::WrongMethod { allowed, is_own: false }
            }
            EndpointMatch::NotFound => without_tool(snapshot, path),
        }
    }
}

/// Logs a rejection, and builds its response.
pub(super) fn rejected(request: LoggedRequest<'_>, rejection: &Rejection) -> Response<Body> {
    request.log_rejection(rejection);
    let mut body = json!({ "error": rejection.text });
    if let Some(detail) = &rejection.detail {
        body["details"] = json!({ "reason": detail });
    }
    let mut response = response::value(rejection.status, &body);
    rejection.add_header(response.headers_mut());
    response
}

/// Collects the arguments of a call from the path, the query and the JSON body; each may be present only
/// once. Values in path and query are strings, which are converted to the type that the input schema
/// declares.
fn collect_arguments(
    route: &Route,
    path_arguments: Vec<(String, String)>,
    parts: &Parts,
    body: &Bytes,
) -> Result<Map<String, Value>, Rejection> {
    let mut arguments = if body.is_empty() {
        Map::new()
    } else {
        check_media_type(&parts.headers)?;
        parse_object(body)?
    };
    let path_arguments = path_arguments.into_iter().map(|(name, value)| ("path", name, vec![value]));
    let query_arguments = parse_query(parts.uri.query().unwrap_or_default())?;
    let query_arguments = query_arguments.into_iter().map(|(name, values)| ("query", name, values));
    for (location, name, values) in path_arguments.chain(query_arguments) {
        let value = route.input.coerce_texts(&name, values);
        if arguments.insert(name.clone(), value).is_some() {
            let message =
                format!("argument `{name}` is present more than once: in the {location} and elsewhere");
            return Err(Rejection::new(StatusCode::BAD_REQUEST, "argument present more than once", message));
        }
    }
    Ok(arguments)
}

/// Checks that the media type of a body is JSON, or missing. Other types are rejected: browsers send some of
/// them (forms, plain text) across origins without a preflight request.
fn check_media_type(headers: &HeaderMap) -> Result<(), Rejection> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let media_type: String = essence.chars().take(100).collect();
    let message = format!(
        "expected a body of type `application/json`, found `{media_type}`; \
         send the header `Content-Type: application/json`"
    );
    Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media type of the body", message))
}

fn parse_object(body: &[u8]) -> Result<Map<String, Value>, Rejection> {
    let not_json = |detail: String| {
        let rejection = Rejection::new(StatusCode::BAD_REQUEST, "invalid JSON", "Invalid JSON body");
        Rejection { detail: Some(detail), ..rejection }
    };
    values_within(body, ARGUMENT_VALUE_LIMIT).map_err(|error| not_json(error.to_string()))?;
    match serde_json::from_slice(body) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => {
            let message = format!("expected a JSON object with the arguments, found {}", kind_of(&other));
            Err(Rejection::new(StatusCode::BAD_REQUEST, "arguments are not a JSON object", message))
        }
        Err(error) => Err(not_json(error.to_string())),
    }
}

/// Parses a query: names in the order of appearance, each with all its values.
fn parse_query(query: &str) -> Result<Vec<(String, Vec<String>)>, Rejection> {
    // `form_urlencoded` would replace invalid UTF-8.
    if percent_decode_str(query).decode_utf8().is_err() {
        let message = "the query is not UTF-8";
        return Err(Rejection::new(StatusCode::BAD_REQUEST, "query is not UTF-8", message));
    }
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut indexes = HashMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let index = *indexes.entry(name.clone()).or_insert(found.len());
        if index == found.len() {
            found.push((name.into_owned(), Vec::new()));
        }
        found[index].1.push(value.into_owned());
    }
    Ok(found)
}

/// Returns the target of a path that belongs to no tool.
fn without_tool<'a>(snapshot: &'a Snapshot, path: &str) -> Target<'a> {
    match (path.strip_prefix("/tools/"), &snapshot.passthrough) {
        (Some(name), _) => Target::UnknownTool(name.to_owned()),
        (None, Some(upstream)) => Target::Passthrough(upstream),
        (None, None) => Target::NotFound,
    }
}

/// Removes from the allowed methods of a 405 the methods whose tool this client may not call. If no method
/// remains, the path is treated like a path without a tool.
fn without_forbidden_methods<'a>(
    snapshot: &'a Snapshot,
    target: Target<'a>,
    client: &ClientIdentity,
    path: &str,
) -> Target<'a> {
    let Target::WrongMethod { mut allowed, is_own: false } = target else { return target };
    allowed.retain(|method| match snapshot.table.by_endpoint(get_for_head(method), path) {
        EndpointMatch::Found { route, .. } => client.may(&route.scopes),
        EndpointMatch::WrongMethod { .. } | EndpointMatch::NotFound => true,
    });
    if allowed.is_empty() {
        return without_tool(snapshot, path);
    }
    Target::WrongMethod { allowed, is_own: false }
}

/// Returns the method that determines the endpoint: `HEAD` calls the endpoint for `GET`.
fn get_for_head(method: &Method) -> &Method {
    if method == Method::HEAD { &Method::GET } else { method }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_forms_are_written() {
        let found = parse_query("b=1&a=x+y%26z&b=2&&c").unwrap();
        let strings = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let expected = [("b", strings(&["1", "2"])), ("a", strings(&["x y&z"])), ("c", strings(&[""]))];
        assert_eq!(found, expected.map(|(name, values)| (name.to_owned(), values)));
        assert_eq!(parse_query("a=%ff").unwrap_err().reason, "query is not UTF-8");
    }

    #[test]
    fn a_body_is_one_json_object() {
        assert_eq!(parse_object(br#"{"a": 1.0}"#).unwrap()["a"].to_string(), "1.0");
        for (body, words) in [
            (&b"[1]"[..], "found an array"),
            (b"{\"a\": }", "Invalid JSON body: expected value at line 1 column 7"),
            (b"{\"a\": \"\xff\"}", "Invalid JSON body"),
        ] {
            let error = parse_object(body).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_form_is_not_json() {
        let check = |value: &str| {
            check_media_type(&[(header::CONTENT_TYPE, value.parse().unwrap())].into_iter().collect())
        };
        check("Application/JSON; charset=utf-8").unwrap();
        check("application/vnd.x+json").unwrap();
        for value in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
            assert_eq!(check(value).unwrap_err().status, 415, "{value}");
        }
    }
}
