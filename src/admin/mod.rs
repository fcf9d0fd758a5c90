//! The admin API: health and readiness of the process, its metrics, active configuration and calls; and the
//! admin UI.
//!
//! | path | |
//! |---|---|
//! | `GET /healthz` | liveness: 200 as long as the process responds |
//! | `GET /readyz` | readiness: 503 during shutdown, or while an upstream that it depends on is unreachable |
//! | `GET /metrics` | metrics for Prometheus |
//! | `GET /status` | the status of the process, with the problems of a rejected configuration |
//! | `GET /config` | the active configuration, without secrets |
//! | `GET /routes` | the active routes |
//! | `GET /history`, `GET /history/ROUTE` | the calls of the last hour |
//! | `GET /failures` | the last failed calls |
//! | `GET /upstreams` | the upstreams, and the state of their policies |
//! | `GET /playground`, `GET /playground/ROUTE`, `POST /playground` | tries rules on upstream responses |
//! | `GET /` | the admin UI |
//! | `POST /reload` | reloads the configuration: 200 if it succeeds, 422 with the problems if it fails |
//!
//! The first two are for probes, which have neither an allowed host name nor a token.
//!
//! - [`Admin`] is the router with its layers; `admit` checks the access to a path.
//! - `health`: probes, status and reloads; `metrics`: the scrape endpoint.
//! - `routes_and_upstreams`: the active routes and upstreams, with the state of their policies.
//! - `calls`: history and failures of calls.
//! - `playground`: tries rules on upstream responses.

mod calls;
mod health;
mod metrics;
mod playground;
mod routes_and_upstreams;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state, map_response},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use serde_json::json;
use tokio::sync::Semaphore;
use tower::ServiceExt;
use tower_http::{
    compression::CompressionLayer, sensitive_headers::SetSensitiveRequestHeadersLayer,
    set_header::SetResponseHeaderLayer, timeout::TimeoutLayer,
};

use crate::config::AdminSettings;
use crate::inbound::RequestInfo;
use crate::inbound::filter::{Filter, FilterSettings, ProtectedPort};
use crate::inbound::request_context::Rejection;
use crate::model::media_type;
use crate::pipeline::{ApiKind, Gateway};
use crate::telemetry::{History, Meters};

pub use health::{Process, ProcessControl, ProcessStatus, ReloadFailure, ReloadRequest};

/// Timeout of a request. Longer than it takes to read a body, or to reload a large configuration.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The admin API. Clones share its state.
#[derive(Debug, Clone)]
pub struct Admin {
    api: Arc<Api>,
    router: Router,
}

/// The state that handlers share.
#[derive(Debug)]
struct Api {
    gateway: Gateway,
    meters: Meters,
    history: History,
    process: Process,
    filter: Filter,
    settings: AdminSettings,
    /// Concurrency slots for rules that are tried in the playground.
    playground_slots: Arc<Semaphore>,
    /// Concurrency slots for requests that parse the loaded configuration again. They are separate, so that
    /// playground rules do not delay these requests.
    file_slots: Arc<Semaphore>,
}

/// Access rules of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathAccess {
    /// Health probes: any host name, no token.
    Probe,
    /// Scrapers: any allowed host name, and the token if one is configured.
    Scraper,
    /// Files of the admin UI: no token, because the UI itself prompts for it. Pages of other origins may link
    /// to these files.
    Page,
    /// Everything else: the token; if none is configured, a `Host` that is an IP address, `localhost` or a
    /// listed name.
    Operator,
}

/// Error for a request that does not declare a JSON body. Pages of other origins can send forms and text
/// without a preflight request, but not JSON (Fetch, "CORS-safelisted request-header").
const NOT_JSON: &str = "send the header `Content-Type: application/json`; the body is optional";

const UNLISTED_HOST: &str = "this host name gives access to probes and `/metrics` only: add it to \
                        `admin.allowed_hosts`, set `admin.token`, or use an IP address or `localhost`";

const UNKNOWN_PATH: &str = "unknown path; the admin UI is at `/`, the API at `/healthz`, `/readyz`, \
                            `/metrics`, `/status`, `/config`, `/routes`, `/history`, \
                            `/failures`, `/upstreams`, `/playground` and `/reload`";

impl Admin {
    /// Creates the admin API of a gateway and a process.
    pub fn new(gateway: Gateway, meters: Meters, process: Process, settings: &AdminSettings) -> Self {
        let filter = Filter::new(&FilterSettings {
            allowed_hosts: settings.allowed_hosts.clone(),
            allowed_origins: Vec::new(),
            port: ProtectedPort::Admin,
            body_limit_bytes: playground::BODY_LIMIT_BYTES,
            ..FilterSettings::default()
        });
        let sources = (process.clone(), gateway.clone());
        meters.register(move |reading| metrics::report_metrics(reading, &sources.0, &sources.1));
        let api = Arc::new(Api {
            gateway,
            meters,
            history: History::default(),
            process,
            filter,
            settings: settings.clone(),
            playground_slots: Arc::new(Semaphore::new(playground::SLOTS)),
            file_slots: Arc::new(Semaphore::new(playground::SLOTS)),
        });
        Self { router: router(&api), api }
    }

    /// Samples the metrics for the history. The caller must call it every
    /// [`SAMPLE_INTERVAL`](crate::telemetry::SAMPLE_INTERVAL).
    pub fn sample(&self) {
        self.api.history.sample(&self.api.meters, SystemTime::now());
    }

    /// Responds to one HTTP request.
    pub async fn handle(&self, request: Request) -> Response {
        let Ok(response) = self.router.clone().oneshot(request).await;
        response
    }
}

fn router(api: &Arc<Api>) -> Router {
    let admit = |access| from_fn_with_state((Arc::clone(api), access), admit);
    let probes = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route_layer(admit(PathAccess::Probe));
    let metrics =
        Router::new().route("/metrics", get(metrics::scrape)).route_layer(admit(PathAccess::Scraper));
    let pages = page_router().route_layer(CompressionLayer::new()).route_layer(admit(PathAccess::Page));
    let operators = Router::new()
        .route("/status", get(health::status))
        .route("/reload", post(health::reload))
        .route("/config", get(playground::configuration))
        .route("/routes", get(routes_and_upstreams::routes))
        .route("/upstreams", get(routes_and_upstreams::upstreams))
        .route("/history", get(calls::history))
        .route("/history/{*route}", get(calls::history_of_route))
        .route("/failures", get(calls::failures))
        .route("/playground", get(playground::routes).post(playground::try_rule))
        .route("/playground/{*route}", get(playground::route))
        .fallback(|| async { ProblemResponse::new(StatusCode::NOT_FOUND, UNKNOWN_PATH) })
        .layer(admit(PathAccess::Operator));
    let paths: Router = probes.merge(metrics).merge(pages).merge(operators).with_state(Arc::clone(api));
    // These layers are in an outer router, because the inner one adds `Allow` after its own layers.
    // The headers prevent pages of other servers from embedding a response as an image or script.
    let header = SetResponseHeaderLayer::if_not_present;
    Router::new()
        .fallback_service(paths)
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, REQUEST_TIMEOUT))
        .layer(map_response(describe_errors))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .layer(header(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .layer(header(RESOURCE_POLICY, HeaderValue::from_static("same-origin")))
        .layer(SetSensitiveRequestHeadersLayer::new([header::AUTHORIZATION]))
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Files of the admin UI: path, media type and content of each.
const ASSETS: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/page/page.css", STYLE, include_str!("page/page.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/page/page.js", SCRIPT, include_str!("page/page.js")),
    ("/page/common.js", SCRIPT, include_str!("page/common.js")),
    ("/page/plots.js", SCRIPT, include_str!("page/plots.js")),
    ("/page/routes.js", SCRIPT, include_str!("page/routes.js")),
    ("/page/failures.js", SCRIPT, include_str!("page/failures.js")),
    ("/page/upstreams.js", SCRIPT, include_str!("page/upstreams.js")),
    ("/page/configuration.js", SCRIPT, include_str!("page/configuration.js")),
    ("/page/playground.js", SCRIPT, include_str!("page/playground.js")),
];

/// Headers that isolate the admin UI: it loads nothing from other origins, has no inline scripts, and no
/// other page can frame it.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Creates the router of the admin UI, which serves the files of the folder `page`.
fn page_router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.into_iter().fold(Router::new(), |router, (path, media_type, text)| {
        let serve = move || async move {
            // Revalidated before each use, because another version of the program has other files.
            let file_headers = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-cache")];
            (SECURITY_HEADERS, file_headers, text)
        };
        router.route(path, get(serve))
    })
}

/// Header that restricts the pages that may embed a response (Fetch, "Cross-Origin-Resource-Policy header").
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Adds a body to error responses of the router and of the timeout layer, which have none.
async fn describe_errors(mut response: Response) -> Response {
    let allowed = response.headers_mut().remove(header::ALLOW);
    match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => {
            let allowed = allowed.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
            let allowed = allowed.replace(',', ", ");
            let problem =
                ProblemResponse::new(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed} here"));
            ([(header::ALLOW, allowed)], problem).into_response()
        }
        StatusCode::SERVICE_UNAVAILABLE if !response.headers().contains_key(header::CONTENT_TYPE) => {
            let message = format!("the request took longer than {REQUEST_TIMEOUT:?}");
            ProblemResponse::new(StatusCode::SERVICE_UNAVAILABLE, &message).into_response()
        }
        _ => response,
    }
}

async fn admit(
    State((api, access)): State<(Arc<Api>, PathAccess)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut head, body) = request.into_parts();
    match api.check_access(&mut head, access) {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(problem) => problem.into_response(),
    }
}

impl Api {
    fn check_access(&self, head: &mut Parts, access: PathAccess) -> Result<(), ProblemResponse> {
        if access == PathAccess::Probe {
            return Ok(self.filter.admit_probe(head).map(drop)?);
        }
        let mut info = RequestInfo::take(head, ApiKind::Rest);
        if self.filter.admit(head, &mut info)?.is_navigation && access != PathAccess::Page {
            return Err(ProtectedPort::Admin.foreign_page().into());
        }
        if access != PathAccess::Page && !self.has_token(&head.headers) {
            let message = "send `Authorization: Bearer …` with the token of `admin`";
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"glossator operators\"")];
            let problem = ProblemResponse::new(StatusCode::UNAUTHORIZED, message);
            return Err(ProblemResponse(Box::new((challenge, problem).into_response())));
        }
        // A page whose DNS name points to this server (DNS rebinding) sends no `Origin` with a read request.
        // Its `Host` is a name that is not listed; `*` does not suffice here.
        let is_open = self.settings.token.is_none() && access != PathAccess::Scraper;
        if is_open && !self.filter.is_host_safe_from_rebinding(head) {
            return Err(ProblemResponse::new(StatusCode::FORBIDDEN, UNLISTED_HOST));
        }
        Ok(())
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.settings.token else { return true };
        let authorization =
            headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().split_first_chunk());
        authorization.is_some_and(|(scheme, credential): (&[u8; 7], _)| {
            scheme.eq_ignore_ascii_case(b"bearer ") && token.equals(credential)
        })
    }
}

/// Requires `Content-Type: application/json`, as protection against cross-site request forgery (CSRF): see
/// [`NOT_JSON`].
fn require_json(headers: &HeaderMap) -> Result<(), ProblemResponse> {
    match headers.get(header::CONTENT_TYPE).and_then(media_type).as_deref() {
        Some("application/json") => Ok(()),
        _ => Err(ProblemResponse::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_JSON)),
    }
}

/// An error response: `{"error": …}`.
#[derive(Debug)]
struct ProblemResponse(Box<Response>);

impl ProblemResponse {
    fn new(status: StatusCode, message: &str) -> Self {
        Self(Box::new((status, Json(json!({ "error": message }))).into_response()))
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<Rejection> for ProblemResponse {
    fn from(rejection: Rejection) -> Self {
        let mut problem = Self::new(rejection.status, &rejection.text);
        rejection.add_header(problem.0.headers_mut());
        problem
    }
}

/// Converts a time to seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
