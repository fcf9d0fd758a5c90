//! The program in this process, in front of one upstream.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use glossator::{
    config::ListenerSettings,
    inbound::{
        filter::{Filter, FilterSettings},
        mcp::{McpApiSettings, McpEndpoint},
        rest::RestApi,
    },
    model::{ErrorFormat, ToolDefinition},
    pipeline::{Gateway, Snapshot, SnapshotParts},
    policy::{
        CacheStore, Passthrough, PassthroughSettings, Policies, PolicySettings, RoutePolicies,
        RoutePolicySettings, UpstreamPolicies,
    },
    route::{
        Envelope, ErrorStatus, HttpTemplate, InputSchema, PathTemplate, RequestTemplate, RestEndpoint, Route,
        RouteTable, Scopes,
    },
    server,
    telemetry::{Meters, Tracer},
    translate::{OnNoMatch, TranslationLimits, Translator, WrapNonObjects},
    upstream::{
        Upstream,
        http::{HttpSettings, HttpUpstream},
    },
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Client, Response, soon};

/// Configuration that a test may change.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) routes: Vec<Route>,
    pub(crate) upstream: HttpSettings,
    pub(crate) policy: PolicySettings,
    pub(crate) passthrough: bool,
    pub(crate) patience: PassthroughSettings,
    pub(crate) filter: FilterSettings,
    pub(crate) server: ListenerSettings,
}

impl Setup {
    /// Defaults, with one tool `get_thing` that sends `GET /thing`.
    pub(crate) fn new(upstream: SocketAddr) -> Self {
        let address = format!("http://{upstream}").parse().unwrap();
        Self {
            routes: vec![route("get_thing", "GET /thing")],
            upstream: HttpSettings::new("old".parse().unwrap(), address),
            policy: PolicySettings::default(),
            passthrough: false,
            patience: PassthroughSettings {
                timeout: Duration::from_secs(15),
                idle_timeout: Duration::from_secs(15),
                body_timeout: Duration::from_secs(15),
                max_in_flight: None,
                max_in_flight_per_client: None,
                scopes: Scopes::default(),
            },
            filter: FilterSettings::default(),
            server: ListenerSettings::default(),
        }
    }

    pub(crate) async fn start(self) -> Proxy {
        Proxy::start(self).await
    }
}

/// Route with default rules. `request` is `METHOD /path/{argument}`, and each argument is a required string.
pub(crate) fn route(tool: &str, request: &str) -> Route {
    let (method, path) = request.split_once(' ').unwrap();
    let path = PathTemplate::parse(path).unwrap();
    let names: Vec<String> = path.arguments().map(str::to_owned).collect();
    let properties: Value = names.iter().map(|name| (name.clone(), json!({ "type": "string" }))).collect();
    let request = RequestTemplate::Http(HttpTemplate {
        method: method.parse().unwrap(),
        path,
        ..HttpTemplate::default()
    });
    let effect = request.effect();
    let mut route = Route {
        definition: ToolDefinition {
            name: tool.parse().unwrap(),
            title: None,
            description: None,
            annotations: None,
            input_schema: serde_json::Map::new().into(),
            output_schema: None,
            unwrapped_output_schema: None,
            meta: None,
        },
        input: InputSchema::new(&serde_json::Map::new()).unwrap(),
        completions: Vec::new(),
        is_tool: true,
        resource: None,
        scopes: Default::default(),
        input_requests: Default::default(),
        rest: None,
        upstream: "old".parse().unwrap(),
        request,
        async_operation: None,
        log: Vec::new(),
        propagates_trace_context: true,
        argument_error: None,
        translator: Translator {
            rules: Vec::new(),
            on_no_match: OnNoMatch::Text,
            output: None,
            wrap: WrapNonObjects::Always,
            redaction: Default::default(),
            limits: TranslationLimits::default(),
            has_effect: !effect.is_read_only,
        },
        timeout: Duration::from_secs(15),
        idempotent: effect.is_idempotent,
        response_limit_bytes: 1 << 20,
        envelope: Envelope::Mcp,
        error_status: ErrorStatus::Mapped,
        error_format: ErrorFormat::Text,
    };
    set_input(&mut route, json!({ "type": "object", "properties": properties, "required": names }));
    route
}

fn set_input(route: &mut Route, schema: Value) {
    let Value::Object(schema) = schema else { panic!("a schema is an object") };
    route.input = InputSchema::new(&schema).unwrap();
    route.definition.input_schema = schema.into();
}

/// Chained changes to a route.
pub(crate) trait RouteExt {
    fn with_endpoint(self, endpoint: &str) -> Self;
    fn taking(self, schema: Value) -> Self;
}

impl RouteExt for Route {
    fn with_endpoint(mut self, endpoint: &str) -> Self {
        let (method, path) = endpoint.split_once(' ').unwrap();
        self.rest = Some(RestEndpoint { method: method.parse().unwrap(), path: path.to_owned() });
        self
    }

    fn taking(mut self, schema: Value) -> Self {
        set_input(&mut self, schema);
        self
    }
}

/// Default policies of routes with one upstream.
pub(crate) fn policies(upstream: Arc<UpstreamPolicies>, routes: &[Route]) -> Policies {
    let name = upstream.name().clone();
    let store = CacheStore::new(0);
    let of_route = |route: &Route| {
        let (tool, settings) = (&route.definition.name, RoutePolicySettings::default());
        (tool.clone(), RoutePolicies::new(upstream.clone(), tool, settings, &store))
    };
    let routes = routes.iter().map(of_route).collect();
    Policies { upstreams: [(name, upstream)].into(), routes, store }
}

/// Running program.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Gateway,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<usize>,
}

impl Proxy {
    async fn start(setup: Setup) -> Self {
        let upstream = HttpUpstream::new(setup.upstream);
        let upstream = UpstreamPolicies::new(Upstream::Http(upstream), setup.policy, None);
        let passthrough = Passthrough::new(upstream.clone(), setup.patience).filter(|_| setup.passthrough);
        let policies = policies(upstream, &setup.routes);
        let table = RouteTable::new(setup.routes.into_iter().map(Arc::new).collect()).unwrap();
        let parts = SnapshotParts { policies, passthrough, ..SnapshotParts::default() };
        let gateway = Gateway::new(Snapshot::new(table, parts));
        let filter = Filter::new(&setup.filter);
        let rest = RestApi::new(gateway.clone(), filter.clone());
        let mcp = McpEndpoint::new(gateway.clone(), McpApiSettings::default(), filter);

        let listener = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(server::serve(
            listener,
            setup.server,
            server::HttpHandler::for_clients(rest, mcp, Meters::default(), Tracer::default()),
            async {
                // When the test ends, dropping the sender stops the server as well.
                let _ = stopped.await;
            },
        ));
        Self { address, gateway, stop: Some(stop), ended }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Sends a request over a new connection.
    pub(crate) async fn send(&self, line: &str, headers: &[&str], body: &str) -> Response {
        self.connect().await.send(line, headers, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(&format!("GET {path}"), &[], "").await
    }

    /// Calls a tool with arguments.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Response {
        self.send(&format!("POST /tools/{tool}"), &["Content-Type: application/json"], arguments).await
    }

    /// Starts the graceful shutdown.
    pub(crate) fn stop(&mut self) {
        self.stop.take().expect("stopped once").send(()).unwrap();
    }

    /// Waits until it has stopped, and returns the number of connections that were cut off.
    pub(crate) async fn ended(self) -> usize {
        soon("the end of the server", self.ended).await.unwrap()
    }
}

/// HTTP request template of a route.
pub(crate) fn http_of(route: &mut Route) -> &mut HttpTemplate {
    match &mut route.request {
        RequestTemplate::Http(template) => template,
        RequestTemplate::Command(_) | RequestTemplate::Tool(_) => {
            panic!("a route of these tests asks by HTTP")
        }
    }
}
