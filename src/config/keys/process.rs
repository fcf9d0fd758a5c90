//! The file, and what the process runs with.

use super::*;
use crate::config::version::VERSION;
use crate::policy::{CircuitBreakerOverride, RetryOverride};
use crate::{
    auth::ClientSettings,
    config::{AdminSettings, TelemetrySettings, server::ServerSettings},
    settings::{section::Section as _, value::Named},
    shared_state::StoreSettings,
    telemetry::log::LogSettings,
};

pub(in crate::config) static FILE: Keys = Keys::new(
    "the file",
    "file",
    &[
        key(
            "version",
            Count(VERSION, VERSION),
            "Version of the configuration language. Default: that of the program.",
        ),
        key("server", Section(ServerSettings::keys), "Listener for clients, and limits of the process."),
        key(
            "admin",
            Section(AdminSettings::keys),
            "Admin API: probes, metrics and the active configuration.",
        ),
        key("log", Section(LogSettings::keys), "Level and format of the log."),
        key(
            "shared_state",
            Section(StoreSettings::keys),
            "Redis or Valkey in which replicas share limits, cached responses and subscriptions: its address, or a map.",
        ),
        key("telemetry", Section(TelemetrySettings::keys), "Export of traces and metrics (OpenTelemetry)."),
        key(
            "clients",
            <Named<ClientSettings> as Setting>::KIND,
            "Clients that may call, by name. Default, without `auth` of `server`: all.",
        ),
        key("defaults", Section(|| &DEFAULTS), "Defaults of all routes and upstreams."),
        key(
            "rules",
            Map(&RULES_FORM),
            "Named rules, which routes can use: as `response` of a route, or a map.",
        ),
        key("upstreams", Map(&UPSTREAM_FORM), "Upstream servers, by name: a URL, or a map."),
        key(
            "passthrough",
            Either(&[Text, Section(|| &PASSTHROUGH)]),
            "Upstream that requests outside all routes are proxied to, unmodified.",
        ),
        key(
            "routes",
            Map(&Section(|| &ROUTE)),
            "Routes, by name: each binds an MCP tool to an upstream request and its rules.",
        ),
        key("prompts", Map(&Section(|| &PROMPT)), "MCP prompts, by name."),
    ],
);

pub(in crate::config) static PASSTHROUGH: Keys = Keys::new(
    "`passthrough`",
    "passthrough",
    &[
        key("upstream", Text, "Upstream that requests outside all routes are proxied to."),
        key("idle_timeout", Duration(1, 24 * HOUR), "Idle timeout of a response body. Default `1m`."),
        key(
            "max_in_flight",
            Count(1, 1_000_000),
            "Maximum number of concurrent passthrough requests, within the `max_in_flight` of the upstream. \
             Default: half of that, which leaves the other half to calls.",
        ),
        key(
            "max_in_flight_per_client",
            Count(1, 1_000_000),
            "Maximum per client; further requests are queued for up to 2 s. Default: half of \
             `max_in_flight`.",
        ),
        key("scopes", SCOPES, "Scopes that a client needs for passthrough; required if there are `clients`."),
    ],
);

static UPSTREAM_FORM: Takes = Either(&[Text, Section(|| &UPSTREAM)]);

pub(in crate::config) static DEFAULTS: Keys = Keys::new(
    "`defaults`",
    "defaults",
    &[
        key("timeout", TIMEOUT, "Timeout of a call, with queueing and retries. Default `30s`."),
        key("connect_timeout", TIMEOUT, "Timeout of connecting to an upstream. Default `5s`."),
        key("response_limit", RESPONSE_LIMIT, "Maximum length of an upstream response. Default `8MiB`."),
        key(
            "max_values",
            MAX_VALUES,
            "Maximum number of JSON values in a response that a rule parses. Default 1200000.",
        ),
        key("error_text_limit", ERROR_TEXT_LIMIT, "Maximum length of an error text. Default `2KiB`."),
        key(
            "envelope",
            ENVELOPE,
            "Body of REST responses: the tool result (`mcp`), or the structured content alone (`plain`). \
             Default `mcp`.",
        ),
        key(
            "error_status",
            ERROR_STATUS,
            "HTTP status of tool errors for REST clients: by the error (`mapped`), or 200 (`always_200`). \
             Default `mapped`.",
        ),
        key(
            "error_format",
            ERROR_FORMAT,
            "Format of tool error texts: the message, or `{\"error\": \"…\"}` as JSON. Default `text`.",
        ),
        key(
            "redact",
            NAMES,
            "Regular expressions whose matches are replaced with `[redacted]` in every error. Default: none.",
        ),
        key(
            "max_in_flight",
            IN_FLIGHT,
            "Maximum number of concurrent requests to one upstream. Default 128.",
        ),
        key(
            "max_in_flight_per_client",
            IN_FLIGHT,
            "Maximum per client, so that one client cannot use all of them; further requests are rejected. \
             Default: all of them.",
        ),
        key("attempt_timeout", TIMEOUT, "Timeout of one attempt. Default: the timeout of the call."),
        key("retry", <OrOff<RetryOverride> as Setting>::KIND, "Retries after transient failures."),
        key(
            "circuit_breaker",
            <OrOff<CircuitBreakerOverride> as Setting>::KIND,
            "When the circuit breakers of upstreams and routes open.",
        ),
        key("rate_limit", RATE_LIMIT, "Rate limit of one upstream, all clients together. Default: no limit."),
        key(
            "rate_limit_per_client",
            RATE_LIMIT,
            "Rate limit of each client for the routes of one upstream. Default: no limit.",
        ),
        key("response", RESPONSE, "Rules that every route tries after its own."),
        key(
            "scopes",
            SCOPES,
            "Scopes that a client needs for routes and prompts. Default: none; every authenticated client is \
             authorized.",
        ),
        key("forward_headers", NAMES, "Client headers that are forwarded to upstreams. Default: none."),
    ],
);
