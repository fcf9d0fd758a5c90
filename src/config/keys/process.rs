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
        key("server", Section(ServerSettings::keys), "Where and how the process serves."),
        key(
            "admin",
            Section(AdminSettings::keys),
            "Where operators look: probes, metrics, the configuration in force.",
        ),
        key("log", Section(LogSettings::keys), "What is logged, and how."),
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
            "Who may call, by name. Default, without `auth` of `server`: everybody.",
        ),
        key("defaults", Section(|| &DEFAULTS), "What holds for every route that does not say otherwise."),
        key(
            "rules",
            Map(&RULES_FORM),
            "Rules with a name, for routes to use: what `response` takes, or a map.",
        ),
        key("upstreams", Map(&UPSTREAM_FORM), "The legacy servers, by name: a URL, or a map."),
        key(
            "passthrough",
            Either(&[Text, Section(|| &PASSTHROUGH)]),
            "The upstream that gets every path which is not a route, unchanged.",
        ),
        key("routes", Map(&Section(|| &ROUTE)), "The tools, by name."),
        key("prompts", Map(&Section(|| &PROMPT)), "The prompts, by name."),
    ],
);

pub(in crate::config) static PASSTHROUGH: Keys = Keys::new(
    "`passthrough`",
    "passthrough",
    &[
        key("upstream", Text, "Who gets what is not a route."),
        key(
            "idle_timeout",
            Duration(1, 24 * HOUR),
            "How long the body of a reply may pause before it is broken off. Default `1m`.",
        ),
        key(
            "max_in_flight",
            Count(1, 1_000_000),
            "How many requests are passed through at once, of the `max_in_flight` of the upstream. Default: half of that, so that \
             the others are left to calls.",
        ),
        key(
            "max_in_flight_per_client",
            Count(1, 1_000_000),
            "How many of these one client has at once; its next one waits for 2 s at most. Default: half of them.",
        ),
        key("scopes", SCOPES, "What a caller needs for it; it must be said where `clients` are told apart."),
    ],
);

static UPSTREAM_FORM: Takes = Either(&[Text, Section(|| &UPSTREAM)]);

pub(in crate::config) static DEFAULTS: Keys = Keys::new(
    "`defaults`",
    "defaults",
    &[
        key("timeout", TIMEOUT, "Timeout of a call, with queueing and retries. Default `30s`."),
        key("connect_timeout", TIMEOUT, "How long connecting to an upstream may take. Default `5s`."),
        key("reply_limit", REPLY_LIMIT, "The longest reply that is read. Default `8MiB`."),
        key(
            "value_limit",
            VALUE_LIMIT,
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
            "The HTTP status of a tool error for REST clients. Default `truthful`.",
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
