//! The file, and what the process runs with.

use super::*;
use crate::config::version::VERSION;

pub(in crate::config) static FILE: Keys = Keys {
    of: "the file",
    id: "file",
    list: &[
        key(
            "version",
            Count(VERSION, VERSION),
            "The language that the file is written in. Default: that of the program.",
        ),
        key("server", Section(&SERVER), "Where and how the process serves."),
        key("admin", Section(&ADMIN), "Where operators look: probes, metrics, the configuration in force."),
        key("log", Section(&LOG), "What is logged, and how."),
        key(
            "shared",
            Either(&[Text, Section(&SHARED)]),
            "The Redis or Valkey where replicas share limits, kept replies and subscriptions: its address, or a map.",
        ),
        key("telemetry", Section(&TELEMETRY), "Where traces and metrics are sent (OpenTelemetry)."),
        key(
            "clients",
            Map(&Section(&CLIENT)),
            "Who may call, by name. Default, without `auth` of `server`: everybody.",
        ),
        key("defaults", Section(&DEFAULTS), "What holds for every route that does not say otherwise."),
        key("rules", Map(&RULES_FORM), "Rules with a name, for routes to use: what `reply` takes, or a map."),
        key("upstreams", Map(&UPSTREAM_FORM), "The legacy servers, by name: a URL, or a map."),
        key(
            "passthrough",
            Either(&[Text, Section(&PASSTHROUGH)]),
            "The upstream that gets every path which is not a route, unchanged.",
        ),
        key("routes", Map(&Section(&ROUTE)), "The tools, by name."),
        key("prompts", Map(&Section(&PROMPT)), "The prompts, by name."),
    ],
};

pub(in crate::config) static PASSTHROUGH: Keys = Keys {
    of: "`passthrough`",
    id: "passthrough",
    list: &[
        key("upstream", Text, "Who gets what is not a route."),
        key(
            "idle_timeout",
            Duration(1, 24 * HOUR),
            "How long the body of a reply may pause before it is broken off. Default `1m`.",
        ),
        key(
            "max_in_flight",
            Count(1, 1_000_000),
            "How many requests are passed through at once, of the `in_flight` of the upstream. Default: half of that, so that \
             the others are left to calls.",
        ),
        key(
            "max_in_flight_per_client",
            Count(1, 1_000_000),
            "How many of these one client has at once; its next one waits for 2 s at most. Default: half of them.",
        ),
        key("scopes", SCOPES, "What a caller needs for it; it must be said where `clients` are told apart."),
    ],
};

static UPSTREAM_FORM: Takes = Either(&[Text, Section(&UPSTREAM)]);

pub(in crate::config) static SERVER: Keys = Keys {
    of: "`server`",
    id: "server",
    list: &[
        key("listen", Text, "Address and port that clients connect to. Default `127.0.0.1:8080`."),
        key(
            "allowed_hosts",
            NAMES,
            "Values of `Host` that are answered, such as `tools.example.com`; `*` for all. Default: loopback \
             names and the address that is listened on.",
        ),
        key(
            "allowed_origins",
            NAMES,
            "Web pages that may call from a browser and read the answers (CORS), by their `Origin`: `https://app.example.com`, with the port where it has one, which may be left out of `http://localhost`; `*` for all. Default: none; pages of other machines are refused, and those of this machine are answered, but their browser does not let them read it.",
        ),
        key("body_limit", Size(1, 1 << 30), "The longest request body. Default `4MiB`."),
        key(
            "bodies_limit",
            Size(1, 1 << 40),
            "How much is held of request bodies at once, of all clients together, beyond the first 16 KiB of each; what comes \
             beyond that is answered 503 with `Retry-After`. There is always room for one of `body_limit`. Default `64MiB`.",
        ),
        key(
            "body_timeout",
            Duration(1, HOUR),
            "How long a client may take to send its request's body. Of what is passed through, a long one has a second more for \
             each KiB that came. Default `30s`.",
        ),
        key(
            "trusted_proxies",
            NAMES,
            "Addresses of proxies before this one, such as `10.0.0.0/8`, that say in `X-Forwarded-For` who asks, and how in `X-Forwarded-Proto` and `X-Forwarded-Host`; nobody else is believed. Default: none.",
        ),
        key(
            "cache_limit",
            Size(0, 1 << 40),
            "How much is kept of replies, by all routes with a `cache` together. Default `64MiB`.",
        ),
        key(
            "drain",
            Duration(0, HOUR),
            "How long calls in flight may take to end when the process stops; then they get an error. Default `35s`.",
        ),
        key(
            "shutdown_delay",
            Duration(0, HOUR),
            "How long everything is still served after SIGTERM while `/readyz` says 503, so that a load balancer hears of it \
             before connections are refused; `drain` begins after it. Default `0ms`.",
        ),
        key(
            "connections",
            Count(1, 1_000_000),
            "How many connections are open at once; when more come, those make room that have asked nothing for the longest. \
             Default 4096.",
        ),
        key(
            "header_timeout",
            Duration(1, HOUR),
            "How long a client may take to send its request's head, and a connection be idle. Default `1m`.",
        ),
        key(
            "write_timeout",
            Duration(1, HOUR),
            "How long a client may take none of what is written to it. Default `30s`.",
        ),
        key(
            "answers_limit",
            Size(1, 1 << 40),
            "How much is held at once of long answers that clients have not taken yet, of all together; those up to 64 KiB do not \
             count. When there is more, who has taken nothing for the longest is cut off, and not only after `write_timeout`, \
             but after a thirtieth of it at the earliest: whoever reads 200 KiB in that time is not. No more than half of \
             `upstream_buffer_limit`. Default `64MiB`.",
        ),
        key(
            "upstream_buffer_limit",
            Size(1 << 20, 1 << 40),
            "How much memory responses of upstreams take at once, of all calls together, from when they are read until the \
             results are sent. A response longer than 16 KiB counts 3 times its length, or 10 times where rules or a schema \
             look into it; one that is compressed counts as long as `reply_limit`. Calls beyond it wait, for 10 s at most; \
             then the tool error says to try again, for REST clients with 503 and `Retry-After`. Default `128MiB`.",
        ),
        key("tls", Section(&SERVER_TLS), "TLS with clients. Default: none."),
        key("auth", Section(&SERVER_AUTH), "Tokens that other servers give to clients. Default: none."),
        key(
            "peer",
            Text,
            "Where other replicas reach this one, such as `http://10.0.0.7:8080`, to hand on what clients answer; `https://` where a root of the system vouches for them. Needs `secret`.",
        ),
        key(
            "streams",
            Count(0, 1_000_000),
            "How many clients may wait for changes at once, each on a connection. Default 2048.",
        ),
        key(
            "caller_streams",
            Count(1, 1_000_000),
            "How many of these one caller may have, so that none takes all; the next is turned away. Default: all of them.",
        ),
        key(
            "resume",
            Duration(0, HOUR),
            "How long a call goes on whose MCP client has lost the stream on which it waits; in that time the client may come back for the rest (revisions up to 2025-11-25). `0s` ends the call at once. Default `15s`.",
        ),
        key(
            "stream_life",
            Duration(SECOND, 24 * HOUR),
            "How long one connection carries such a stream, for clients of 2025-11-25, which come back. Default: as long as it takes.",
        ),
        key(
            "watch",
            Duration(0, HOUR),
            "How often the files of the configuration are looked at; when they have changed, they are read again. `0s` is never. Default `1s`.",
        ),
        key("name", Text, "What MCP clients are told the server is called. Default `glossator`."),
        key("title", Text, "The same for people."),
        key("instructions", Text, "What MCP clients are told about using the tools together."),
        key("page_size", Count(1, 10_000), "How many tools one page of a list has. Default 200."),
        key("list_ttl", Duration(0, 24 * HOUR), "How long clients may keep a list of tools. Default `1m`."),
        key(
            "secret",
            Text,
            "What session ids are sealed with, at least 16 bytes: the same on every replica. Default: a random one.",
        ),
    ],
};

pub(in crate::config) static ADMIN: Keys = Keys {
    of: "`admin`",
    id: "admin",
    list: &[
        key(
            "listen",
            Text,
            "Address and port for operators, or `off`. Where nothing is said and another process has it, there is none. Default `127.0.0.1:9901`.",
        ),
        key(
            "allowed_hosts",
            NAMES,
            "Values of `Host` that are answered there; `*` for all. Default: loopback names and the address that is listened on, or all where that is every address.",
        ),
        key(
            "ready_needs",
            NAMES,
            "Upstreams without which `/readyz` says 503, by name; `*` for all of them. Default: none.",
        ),
        key(
            "token",
            Text,
            "What operators show as bearer token, at least 16 bytes; probes need none. Default: none is asked for.",
        ),
    ],
};

pub(in crate::config) static LOG: Keys = Keys {
    of: "`log`",
    id: "log",
    list: &[
        key(
            "level",
            Word(&["off", "error", "warn", "info", "debug", "trace"]),
            "How much is logged. Default `info`.",
        ),
        key("format", Word(&["text", "json"]), "For people or for programs. Default `text`."),
    ],
};

pub(in crate::config) static DEFAULTS: Keys = Keys {
    of: "`defaults`",
    id: "defaults",
    list: &[
        key("deadline", DEADLINE, "How long a call may take, all in all. Default `30s`."),
        key("connect_timeout", DEADLINE, "How long connecting to an upstream may take. Default `5s`."),
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
        key("in_flight", IN_FLIGHT, "How many calls one upstream gets at once. Default 128."),
        key(
            "caller_in_flight",
            IN_FLIGHT,
            "How many of these one caller may have, so that none takes all; the next is turned away. Default: all of them.",
        ),
        key("attempt_timeout", DEADLINE, "How long one attempt may take. Default: as long as the call."),
        key("retry", Either(&[OFF, Section(&RETRY)]), "How what fails in passing is asked again."),
        key(
            "breaker",
            Either(&[OFF, Section(&BREAKER)]),
            "When the circuit breakers of upstreams and routes open.",
        ),
        key("rate", RATE_FORM, "How often one upstream may be asked. Default: no limit."),
        key(
            "caller_rate",
            RATE_FORM,
            "How often one caller may call the routes of one upstream. Default: no limit.",
        ),
        key("reply", REPLY, "Rules that every route tries after its own."),
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
};
