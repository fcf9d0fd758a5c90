//! The operators' port: whether the process is alive and ready, what it counts, and what is in force.
//!
//! | path | |
//! |---|---|
//! | `GET /healthz` | 200 as long as the process answers |
//! | `GET /readyz` | 200 while calls are taken, 503 from the moment on when it is told to stop; with how the last reload went |
//! | `GET /metrics` | what is counted, for Prometheus |
//! | `GET /status` | how the process stands, with the problems of a change that was refused |
//! | `GET /config` | the configuration in force, without secrets |
//! | `GET /routes` | the routes in force |
//! | `GET /history`, `GET /history/ROUTE` | how the calls of the last hour went |
//! | `GET /failures` | the last calls that failed |
//! | `GET /upstreams` | the legacy servers, and what stands before them |
//! | `GET /workbench`, `POST /workbench` | rules tried out on replies |
//! | `GET /` | the page that shows all of it |
//! | `POST /reload` | reads the configuration again: 200 when it is in force, 422 with its problems when it is not |
//!
//! The first two are for probes, which know neither host names nor a token. In reading order: [`Admin`] answers,
//! `routes`, `history`, `calls` and `inventory` tell of what their names say, [`Operations`] is the way to the process,
//! [`Workbench`] where rules are tried out, `page` the page,
//! `metrics` counts what it is at the moment.

mod metrics;
mod calls;
mod history;
mod process;
mod routes;
mod inventory;
mod playground;
mod page;

use std::time::SystemTime;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use self::{
    calls::Wanted,
    metrics::Collected,
    page::Asset,
    playground::{Places, Untried},
};
use crate::{
    face::door::{Door, DoorSettings, PagesHere, Refused},
    gateway::Gateway,
    observe::{History, Meters, Past, TextFormat},
    seal::Secret,
};

pub use playground::{Attempt, Given, WORKBENCH_TIMEOUT, Workbench};
pub use process::{Asked, Operations, ReloadFailure, Standing, Teller, operations};

/// Who may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSettings {
    /// Hosts that the port may be addressed by, as in [`DoorSettings::allowed_hosts`].
    pub allowed_hosts: Vec<String>,
    /// Upstreams without which the process is not ready, by name; `*` for all.
    pub ready_needs: Vec<String>,
    /// What whoever asks has to show, as a bearer token; nothing where there is none.
    pub token: Option<Secret>,
}

/// The operators' face. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Admin {
    gateway: Gateway,
    meters: Meters,
    history: History,
    operations: Operations,
    door: Door,
    token: Option<Secret>,
    ready_needs: Vec<String>,
    places: Places,
    looks: Places,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place<'p> {
    Health,
    Ready,
    Metrics,
    Status,
    Config,
    Routes,
    History,
    HistoryOf(&'p str),
    Failures,
    Upstreams,
    Workbench,
    WorkbenchOf(&'p str),
    Page(&'static Asset),
    Reload,
}

/// What is said to pages that are not ours.
const FOREIGN_PAGE: &str = "pages of other origins may not use this port; if this is its own page, name the host in `admin.allowed_hosts`";

/// What is said to a `POST` that is not JSON. Pages of other origins can send forms and texts without asking
/// first, and no JSON (Fetch, "CORS-safelisted request-header").
const NOT_JSON: &str =
    "send the header `Content-Type: application/json`; a body may be left out where there is nothing to say";

/// What is said to a name that is one of any.
const ANY_HOST: &str = "by this host name there are only probes and `/metrics`: name it in `admin.allowed_hosts`, set `admin.token`, or \
                        ask by an address or as `localhost`";

/// What is said where there is nothing.
const NOTHING_HERE: &str = "operators find their page at `/`, and `/healthz`, `/readyz`, `/metrics`, `/status`, `/config`, `/routes`, `/history`, \
                            `/failures`, `/upstreams`, `/workbench` and `/reload`";

impl<'p> Place<'p> {
    fn of(path: &'p str) -> Option<Self> {
        if let Some(route) = path.strip_prefix("/history/") {
            return Some(Self::HistoryOf(route));
        }
        if let Some(route) = path.strip_prefix("/workbench/") {
            return Some(Self::WorkbenchOf(route));
        }
        if let Some(asset) = Asset::at(path) {
            return Some(Self::Page(asset));
        }
        Some(match path {
            "/healthz" => Self::Health,
            "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            "/status" => Self::Status,
            "/config" => Self::Config,
            "/routes" => Self::Routes,
            "/history" => Self::History,
            "/failures" => Self::Failures,
            "/upstreams" => Self::Upstreams,
            "/workbench" => Self::Workbench,
            "/reload" => Self::Reload,
            _ => return None,
        })
    }

    fn is_for_probes(self) -> bool {
        matches!(self, Self::Health | Self::Ready)
    }

    /// Whether scrapers ask for it, by whatever name.
    fn is_for_scrapers(self) -> bool {
        matches!(self, Self::Metrics)
    }

    /// Whether there is nothing in it that is not the same everywhere.
    fn is_public(self) -> bool {
        matches!(self, Self::Page(_))
    }

    fn takes(self, method: &Method) -> bool {
        match self {
            Self::Reload => method == Method::POST,
            Self::Workbench => [Method::GET, Method::HEAD, Method::POST].contains(method),
            Self::Health
            | Self::Ready
            | Self::Metrics
            | Self::Status
            | Self::Config
            | Self::Routes
            | Self::History
            | Self::HistoryOf(_)
            | Self::Failures
            | Self::Upstreams
            | Self::WorkbenchOf(_)
            | Self::Page(_) => method == Method::GET || method == Method::HEAD,
        }
    }
}

impl Admin {
    /// A face over a gateway and a process.
    pub fn new(gateway: Gateway, meters: Meters, operations: Operations, settings: &AdminSettings) -> Self {
        let door = Door::new(&DoorSettings {
            allowed_hosts: settings.allowed_hosts.clone(),
            // No page of another server has anything to do here.
            allowed_origins: Vec::new(),
            pages_here: PagesHere::Refused,
            body_limit_bytes: playground::BODY_LIMIT_BYTES,
            ..DoorSettings::default()
        });
        meters.register(Collected { operations: operations.clone(), gateway: gateway.clone() });
        let [places, looks] = [(); 2].map(|()| Places::new(WORKBENCH_TIMEOUT));
        let token = settings.token.clone();
        let (history, ready_needs) = (History::default(), settings.ready_needs.clone());
        Self { gateway, meters, history, operations, door, token, ready_needs, places, looks }
    }

    /// Reads what is counted, for the history; somebody has to do it every
    /// [`SAMPLE_INTERVAL`](crate::observe::SAMPLE_INTERVAL).
    pub fn sample(&self) {
        self.history.sample(&self.meters, SystemTime::now());
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        // What stands in the head is asked for while it is looked at and changed at the door.
        let uri = head.uri.clone();
        let place = Place::of(uri.path());
        if place.is_some_and(Place::is_for_probes) {
            if let Err(refused) = self.door.names_one_host(&head) {
                return turned_away(&refused);
            }
        } else {
            match self.door.admit(&mut head) {
                // A link leads to the page, and to nothing else.
                Ok(page) if page.has_link() && !place.is_some_and(Place::is_public) => {
                    return turned_away(&Refused::Page);
                }
                Ok(_) => {}
                Err(refused) => return turned_away(&refused),
            }
            // The page asks for the token that it shows.
            if !place.is_some_and(Place::is_public) && !self.may_come_in(&head.headers) {
                let mut response = error(
                    StatusCode::UNAUTHORIZED,
                    "send `Authorization: Bearer …` with the token of `admin`",
                );
                let challenge = HeaderValue::from_static("Bearer realm=\"glossator operators\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                return response;
            }
            // A page that has its name point here (DNS rebinding) says nothing of itself where it only reads.
            let is_open = self.token.is_none() && !place.is_some_and(Place::is_for_scrapers);
            if is_open && !self.door.knows_host(&head) {
                return error(StatusCode::FORBIDDEN, ANY_HOST);
            }
        }
        let Some(place) = place else {
            return error(StatusCode::NOT_FOUND, NOTHING_HERE);
        };
        if !place.takes(&head.method) {
            let allowed = match place {
                Place::Reload => "POST",
                Place::Workbench => "GET, HEAD, POST",
                _ => "GET, HEAD",
            };
            let mut response = error(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed} here"));
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
            return response;
        }
        if head.method == Method::POST && !is_json(&head.headers) {
            return error(StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_JSON);
        }
        match place {
            Place::Health => json_of(StatusCode::OK, &json!({ "status": "ok" })),
            Place::Ready => self.ready(),
            Place::Metrics => self.metrics(head.headers.get(header::ACCEPT)),
            Place::Status => json_of(StatusCode::OK, &self.status()),
            Place::Config => self.written(|bench| Some(bench.configuration())).await,
            Place::Routes => json_of(StatusCode::OK, &routes::of(&self.gateway.snapshot())),
            Place::History => json_of(StatusCode::OK, &history::of_all(&self.past())),
            Place::HistoryOf(route) => match history::of_one(&self.past(), route) {
                Some(told) => json_of(StatusCode::OK, &told),
                None => error(StatusCode::NOT_FOUND, "no route of that name was called during the last hour"),
            },
            Place::Failures => match Wanted::of(uri.query().unwrap_or_default()) {
                Ok(wanted) => json_of(StatusCode::OK, &calls::of(self.meters.failures(), &wanted)),
                Err(message) => error(StatusCode::BAD_REQUEST, &message),
            },
            Place::Upstreams => json_of(StatusCode::OK, &inventory::of(&self.gateway.snapshot())),
            Place::Workbench if head.method == Method::POST => self.try_out(&head.headers, body).await,
            Place::Workbench => json_of(StatusCode::OK, &self.operations.standing().workbench.routes()),
            Place::WorkbenchOf(route) => {
                let route = route.to_owned();
                self.written(move |bench| bench.route(&route)).await
            }
            Place::Page(asset) => asset.answer(),
            Place::Reload => self.reload().await,
        }
    }

    /// Something that is written, which the files are gone through for once more. In places of its own: what is tried out
    /// meanwhile keeps nobody from seeing it.
    async fn written(
        &self,
        look: impl FnOnce(&dyn Workbench) -> Option<Value> + Send + 'static,
    ) -> Response<Body> {
        let bench = self.operations.standing().workbench;
        match self.looks.work(move || look(&*bench)).await {
            Ok(Some(told)) => json_of(StatusCode::OK, &told),
            Ok(None) => error(StatusCode::NOT_FOUND, "no route of that name is written in the configuration"),
            Err(Untried::TooLong) => {
                error(StatusCode::SERVICE_UNAVAILABLE, "too many look at the configuration; ask again")
            }
            Err(Untried::Panicked) => error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the configuration could not be gone through once more; please report it",
            ),
        }
    }

    async fn try_out(&self, headers: &HeaderMap, body: Body) -> Response<Body> {
        let body = match self.door.read(headers, body).await {
            Ok(body) => body,
            Err(refused) => {
                let mut response = error(refused.status(), &refused.to_string());
                refused.tell(response.headers_mut());
                return response;
            }
        };
        let attempt = match Attempt::decode(&body) {
            Ok(attempt) => attempt,
            Err(message) => return error(StatusCode::BAD_REQUEST, &message),
        };
        let bench = self.operations.standing().workbench;
        match self.places.try_out(bench, attempt).await {
            Ok(told) => json_of(StatusCode::OK, &told),
            Err(why @ Untried::TooLong) => error(StatusCode::SERVICE_UNAVAILABLE, &why.to_string()),
            Err(why @ Untried::Panicked) => error(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
        }
    }

    fn may_come_in(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().split_first_chunk());
        shown.is_some_and(|(scheme, shown): (&[u8; 7], _)| {
            scheme.eq_ignore_ascii_case(b"bearer ") && token.is(shown)
        })
    }

    fn past(&self) -> Past {
        self.history.read(&self.meters, SystemTime::now())
    }

    fn status(&self) -> Value {
        let mut status = self.told(&self.operations.standing(), true);
        status["version"] = env!("CARGO_PKG_VERSION").into();
        status["started"] = seconds(self.operations.started()).into();
        status["now"] = seconds(SystemTime::now()).into();
        status
    }

    fn metrics(&self, accept: Option<&HeaderValue>) -> Response<Body> {
        let format = TextFormat::accepted(accept.and_then(|accept| accept.to_str().ok()));
        typed(StatusCode::OK, format.write(&self.meters.read()), format.media_type())
    }

    fn ready(&self) -> Response<Body> {
        // Probes are asked without a token, so the problems themselves stay inside.
        let told = self.told(&self.operations.standing(), false);
        let status = if told["ready"] == true { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        json_of(status, &told)
    }

    /// The upstreams that have to be reachable, and whether they are: by what their guards and the checks of their health
    /// know. Nothing is asked for it.
    fn needed(&self) -> Map<String, Value> {
        let snapshot = self.gateway.snapshot();
        let is_needed = |name: &str| self.ready_needs.iter().any(|needed| needed == "*" || needed == name);
        let needed = snapshot.guards.iter().filter(|(name, _)| is_needed(name.as_str()));
        let told = |reachable: bool| json!({ "reachable": reachable });
        needed.map(|(name, guards)| (name.to_string(), told(guards.view().is_reachable()))).collect()
    }

    /// How the process stands, and what it shares with others.
    fn told(&self, standing: &Standing, with_problems: bool) -> Value {
        let mut value = told(standing, with_problems);
        let needed = self.needed();
        if !needed.is_empty() {
            let all = needed.values().all(|told| told["reachable"] == true);
            value["ready"] = (!standing.is_ending && all).into();
            value["upstreams"] = needed.into();
        }
        if let Some(shared) = self.gateway.shared() {
            let state = shared.state();
            // No reason not to be ready: policies say what is done without.
            value["shared"] = json!({ "reachable": state.is_up, "since": seconds(state.since) });
        }
        value
    }

    async fn reload(&self) -> Response<Body> {
        let before = self.operations.standing().generation;
        let Some(standing) = self.operations.reload().await else {
            return error(StatusCode::SERVICE_UNAVAILABLE, "nothing can be read again now; try again");
        };
        let is_in_force = standing.failure.is_none() && standing.generation > before;
        let status = if is_in_force { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        json_of(status, &self.told(&standing, true))
    }
}

/// The answer to a request that is not let in.
fn turned_away(refused: &Refused) -> Response<Body> {
    let message = match refused {
        Refused::Host { .. } | Refused::Hosts | Refused::NoHost { .. } => {
            refused.to_string().replace("`server.", "`admin.")
        }
        Refused::Origin { .. } | Refused::Page => FOREIGN_PAGE.to_owned(),
    };
    error(refused.status(), &message)
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// How the process stands, as JSON.
fn told(standing: &Standing, with_problems: bool) -> Value {
    let mut value = json!({
        "ready": !standing.is_ending,
        "configuration": {
            "generation": standing.generation,
            "since": seconds(standing.since),
            "later": standing.later,
        },
    });
    if let Some(failure) = &standing.failure {
        value["configuration"]["failed_since"] = seconds(failure.at).into();
        if with_problems {
            value["problems"] = failure.report.as_str().into();
        }
    }
    value
}

/// Since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn error(status: StatusCode, message: &str) -> Response<Body> {
    json_of(status, &json!({ "error": message }))
}

fn json_of(status: StatusCode, value: &Value) -> Response<Body> {
    typed(status, value.to_string(), "application/json")
}

fn typed(status: StatusCode, body: String, media_type: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // No page of another server has it as a picture or script, either.
    headers.insert(page::RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}
