//! The file, and what the process runs with.

use super::*;
use crate::config::version::VERSION;
use crate::policy::{BreakerOverride, RetryOverride};
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
            "The language that the file is written in. Default: that of the program.",
        ),
        key("server", Section(ServerSettings::keys), "The listener for clients, and limits of the process."),
        key(
            "admin",
            Section(AdminSettings::keys),
            "The admin API: probes, metrics, the active configuration.",
        ),
        key("log", Section(LogSettings::keys), "Level and format of the log."),
        key(
            "shared_state",
            Section(StoreSettings::keys),
            "Redis or Valkey in which replicas share limits, cached responses and subscriptions: its address, or a map.",
        ),
        key(
            "telemetry",
            Section(TelemetrySettings::keys),
            "Where traces and metrics are sent (OpenTelemetry).",
        ),
        key(
            "clients",
            <Named<ClientSettings> as Setting>::KIND,
            "Clients that may call, by name. Default, without `auth` of `server`: all.",
        ),
        key("defaults", Section(|| &DEFAULTS), "Defaults of all routes and upstreams."),
        key(
            "rules",
            Map(&RULES_FORM),
            "Rules with a name, for routes to use: what `response` takes, or a map.",
        ),
        key("upstreams", Map(&UPSTREAM_FORM), "The legacy servers, by name: a URL, or a map."),
        key(
            "passthrough",
            Either(&[Text, Section(|| &PASSTHROUGH)]),
            "Upstream that requests outside all routes are proxied to, unmodified.",
        ),
        key("routes", Map(&Section(|| &ROUTE)), "The tools, by name."),
        key("prompts", Map(&Section(|| &PROMPT)), "The prompts, by name."),
    ],
);

pub(in crate::config) static PASSTHROUGH: Keys = Keys::new(
    "`passthrough`",
    "passthrough",
    &[
        key("upstream", Text, "Upstream of requests outside all routes."),
        key("idle_timeout", Duration(1, 24 * HOUR), "Idle timeout of a response body. Default `1m`."),
        key(
            "max_in_flight",
            Count(1, 1_000_000),
            "How many requests are passed through at once, of the `max_in_flight` of the upstream. Default: half of that, so that \
             the others are left to calls.",
        ),
        key(
            "max_in_flight_per_client",
            Count(1, 1_000_000),
            "Maximum per client; further ones wait for at most 2 s. Default: half of them.",
        ),
        key("scopes", SCOPES, "Scopes that a client needs for it; required where there are `clients`."),
    ],
);

static UPSTREAM_FORM: Takes = Either(&[Text, Section(|| &UPSTREAM)]);

pub(in crate::config) static DEFAULTS: Keys = Keys::new(
    "`defaults`",
    "defaults",
    &[
        key("timeout", TIMEOUT, "Timeout of a call, with queueing and retries. Default `30s`."),
        key("connect_timeout", TIMEOUT, "Timeout of connecting to an upstream. Default `5s`."),
        key("response_limit", RESPONSE_LIMIT, "Largest response that is read. Default `8MiB`."),
        key(
            "max_values",
            MAX_VALUES,
            "How many values a reply may have for a rule that looks into it. Default 1200000.",
        ),
        key(
            "error_text_limit",
            ERROR_TEXT_LIMIT,
            "The longest error text that a client gets. Default `2KiB`.",
        ),
        key(
            "envelope",
            ENVELOPE,
            "What REST clients get: the tool result, or the structured value alone. Default `mcp`.",
        ),
        key(
            "error_status",
            ERROR_STATUS,
            "The HTTP status of a tool error for REST clients. Default `mapped`.",
        ),
        key(
            "error_format",
            ERROR_FORMAT,
            "The text of every tool error: the message, or `{\"error\": \"…\"}` as JSON. Default `text`.",
        ),
        key(
            "redact",
            NAMES,
            "Regular expressions: what matches is `[redacted]` in every error. Default: none.",
        ),
        key(
            "max_in_flight",
            IN_FLIGHT,
            "Maximum number of concurrent requests to one upstream. Default 128.",
        ),
        key(
            "max_in_flight_per_client",
            IN_FLIGHT,
            "Maximum per client, so that one client cannot use all of them; further ones are rejected. Default: all of them.",
        ),
        key("attempt_timeout", TIMEOUT, "Timeout of one attempt. Default: the timeout of the call."),
        key("retry", <OrOff<RetryOverride> as Setting>::KIND, "Retries after transient failures."),
        key(
            "circuit_breaker",
            <OrOff<BreakerOverride> as Setting>::KIND,
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
            "What a caller needs for routes and prompts. Default: nothing but to be known.",
        ),
        key(
            "forward_headers",
            NAMES,
            "Names of the caller's headers that are sent on to upstreams. Default: none.",
        ),
    ],
);
