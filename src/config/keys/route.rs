//! Routes and their requests.

use super::*;
use crate::config::{content, extract, route_tests};
use crate::policy::{CircuitBreakerOverride, RetryOverride};

pub(in crate::config) static ROUTE: Keys = Keys::new(
    "a route",
    "route",
    &[
        key("title", Text, "Display name."),
        key("description", Text, "Description of the tool for models."),
        key("annotations", Section(|| &ANNOTATIONS), "Hints for clients, as MCP has them."),
        key(
            "resource",
            Either(&[Text, Section(|| &READ_AS)]),
            "Makes the route an MCP resource: a URI, or a URI template with arguments as `{name}`.",
        ),
        key("tool", Flag, "Whether the route is a tool. Default `true`, or `false` for a resource."),
        key("rest", Text, "REST endpoint, in addition to `POST /tools/NAME`: `METHOD /path/{argument}`."),
        key(
            "request",
            Either(&[Text, Section(|| &REQUEST)]),
            "Request to the upstream: `METHOD UPSTREAM/path/{argument}`, `CALL UPSTREAM/TOOL`, or a map.",
        ),
        key(
            "confirm",
            Text,
            "Confirmation that the user must accept before the request is sent: a template.",
        ),
        key(
            "input_requests",
            ASK,
            "Input requests to the user or the client's model before the upstream request: a map, or a list \
             of rounds.",
        ),
        key("input_timeout", ANSWER_WITHIN, "Timeout of an input request. Default `10m`."),
        key("input", JsonSchema, "JSON Schema of the arguments; inferred from the placeholders when absent."),
        key(
            "completions",
            Map(&COMPLETE_FORM),
            "Completions of arguments, by name, in addition to the values in `input`: a list, or a route \
             that returns them.",
        ),
        key("output", JsonSchema, "JSON Schema of the structured content; enforced on every success."),
        key(
            "wrap_non_objects",
            Word(&["always", "legacy_clients"]),
            "Clients that get a value other than an object as `{\"result\": …}`. Default `always`.",
        ),
        key("response", RESPONSE, "Rules for the upstream response; the first rule that matches is applied."),
        key(
            "argument_error",
            ERROR_FORM,
            "Form of an error about arguments that violate `input`, as in `error` of a rule: `value.message` \
             describes the violation.",
        ),
        key(
            "async_operation",
            Either(&[Word(&["follow_location"]), Section(|| &JOB)]),
            "Polling of asynchronous operations: `follow_location` polls the `Location` of a 202; a map \
             configures it. Default: the first response is the result.",
        ),
        key("notifications", List(&Section(|| &LOG_LINE)), "Log notifications to clients during a call."),
        key(
            "propagate_trace_context",
            Flag,
            "Whether `traceparent` and `tracestate` are forwarded to the upstream. Default `true`.",
        ),
        key(
            "on_no_match",
            Word(&["error", "text"]),
            "Result of a response that no rule matches. Default `error`.",
        ),
        key(
            "default_rules",
            Flag,
            "Whether the rules of `defaults.response` are tried after the route's own. Default `true`.",
        ),
        key("timeout", TIMEOUT, "Timeout of a call, with queueing and retries."),
        key(
            "idempotent",
            Flag,
            "Whether the request may be retried after it may have reached the upstream. Default: by the HTTP \
             method (`false` for `POST` and `PATCH`) or the annotations of the MCP tool; `false` for \
             commands.",
        ),
        key("rate_limit", RATE_LIMIT, "Rate limit of all clients together: `100 per minute`, or a map."),
        key("rate_limit_per_client", RATE_LIMIT, "Rate limit of each client: `10 per minute`, or a map."),
        key(
            "cache",
            Either(&[LASTS, Section(|| &CACHE)]),
            "Response cache: a duration, `upstream` for the upstream's `Cache-Control`, or a map.",
        ),
        key(
            "coalesce",
            Flag,
            "Whether identical concurrent requests are coalesced into one. Default: with `cache`.",
        ),
        key(
            "hedge",
            Either(&[Duration(1, HOUR), Word(&["p95"])]),
            "Delay after which a slow request is sent a second time: a duration, or `p95` for the 95th \
             percentile of recent response times.",
        ),
        key(
            "retry",
            <OrOff<RetryOverride> as Setting>::KIND,
            "Retries after transient failures, or `off`; replaces those of the upstream.",
        ),
        key(
            "circuit_breaker",
            <OrOff<CircuitBreakerOverride> as Setting>::KIND,
            "When the circuit breaker of the route opens (consecutive responses with 502, 503 or 504), or \
             `off`; overrides the upstream.",
        ),
        key("scopes", SCOPES, "Scopes that a client needs, all of them; replaces those of `defaults`."),
        key("response_limit", RESPONSE_LIMIT, "Maximum length of an upstream response."),
        key("max_values", MAX_VALUES, "Maximum number of JSON values in a response that a rule parses."),
        key("error_text_limit", ERROR_TEXT_LIMIT, "Maximum length of an error text."),
        key(
            "envelope",
            ENVELOPE,
            "Body of REST responses: the tool result (`mcp`), or the structured content alone (`plain`).",
        ),
        key(
            "error_status",
            ERROR_STATUS,
            "HTTP status of tool errors for REST clients: by the error (`mapped`), or 200 (`always_200`).",
        ),
        key(
            "error_format",
            ERROR_FORMAT,
            "Format of tool error texts: the message, or `{\"error\": \"…\"}` as JSON.",
        ),
        key(
            "redact",
            NAMES,
            "Regular expressions whose matches are replaced with `[redacted]` in every error; added to those \
             of `defaults`.",
        ),
        key(
            "forward_headers",
            NAMES,
            "Client headers that are forwarded to upstreams; added to those of `defaults`.",
        ),
        key("tests", List(&route_tests::ExampleSettings::KIND), "Examples, run by `glossator test`."),
    ],
);

/// Lifetime of a cached response.
const LASTS: Takes = Either(&[Duration(1, 30 * 24 * HOUR), Word(&["upstream"])]);

pub(in crate::config) static CACHE: Keys = Keys::new(
    "`cache`",
    "cache",
    &[
        key(
            "ttl",
            LASTS,
            "Time for which a response is fresh: a duration, or `upstream` for its `Cache-Control`. Default \
             `upstream`.",
        ),
        key(
            "stale_if_error",
            Duration(1, 30 * 24 * HOUR),
            "Further time in which a stale response is served if the upstream fails. Default: the upstream's \
             `stale-if-error`, else none.",
        ),
        key(
            "ignore_cache_control",
            Flag,
            "Whether responses are cached even if their `Cache-Control` forbids it. Default `false`.",
        ),
    ],
);

pub(in crate::config) static ANNOTATIONS: Keys = Keys::new(
    "`annotations`",
    "annotations",
    &[
        key("title", Text, "Display name."),
        key("readOnlyHint", Flag, "The tool modifies nothing."),
        key("destructiveHint", Flag, "The tool may overwrite or delete data."),
        key("idempotentHint", Flag, "A repeated call with the same arguments has no further effect."),
        key(
            "openWorldHint",
            Flag,
            "The tool interacts with an open set of external entities, such as the web.",
        ),
    ],
);

pub(in crate::config) static READ_AS: Keys = Keys::new(
    "`resource` of a route",
    "read_as",
    &[
        key("uri", Text, "URI of the resource, or a URI template with arguments as `{name}`."),
        key("media_type", Text, "Media type; that of the response when absent."),
        key("size", Size(0, 1 << 50), "Size in bytes, if known in advance."),
        key("annotations", content::BlockAnnotations::KIND, "Hints for clients."),
        key(
            "poll_interval",
            Duration(100, 24 * HOUR),
            "Interval in which the upstream is polled for changes while a client is subscribed. Default: \
             never; clients can't subscribe.",
        ),
    ],
);

pub(in crate::config) static REQUEST: Keys = Keys::new(
    "`request`",
    "request",
    &[
        key("upstream", Text, "Upstream of the request; optional with a single upstream."),
        key(
            "method",
            Text,
            "HTTP method, such as `GET` or `PROPFIND`. Default `GET`, or `POST` with a body.",
        ),
        key("path", Text, "Path, with arguments as `{name}`; may end in `?name={argument}`."),
        key("query", Map(&QUERY_VALUE), "Query parameters: a template each, or a list of them."),
        key("headers", Map(&Scalar), "Headers: a template each."),
        key("body", Section(|| &BODY), "Body, in one of four forms."),
        key("tool", Text, "MCP servers: name of the tool, as the server lists it."),
        key(
            "arguments",
            Either(&[List(&Scalar), Map(&Anything)]),
            "Commands: further arguments, a template each. MCP tools: arguments, in which every text is a \
             template; all arguments of the call when absent.",
        ),
        key(
            "leading_dash_arguments",
            NAMES,
            "Commands: arguments whose value may start with `-`, and so become an option.",
        ),
        key(
            "stdin",
            Either(&[Text, Section(|| &BODY)]),
            "Commands: standard input, as a template or in one of the four body forms.",
        ),
    ],
);

pub(in crate::config) static LOG_LINE: Keys = Keys::new(
    "a line of `notifications`",
    "log_line",
    &[
        key("level", Word(&crate::route::McpLogLevel::NAMES), "Severity. Default `info`."),
        key(
            "text",
            Text,
            "Text: a template of `args`. A template with `status` is sent after the upstream response.",
        ),
    ],
);

pub(in crate::config) static JOB: Keys = Keys::new(
    "`async_operation`",
    "async_operation",
    &[
        key(
            "extract",
            extract::Compiled::KIND,
            "Extractor for the responses about the operation. Default: they are JSON.",
        ),
        key(
            "id",
            Text,
            "jq: the id of the operation in the first response. Without it, the `Location` of the first \
             response is polled.",
        ),
        key("status", ASKED, "Polling request, with the id as the argument `job`."),
        key(
            "done",
            CONDITION,
            "When the operation is done: jq, or a map as in `when`. Default: when the status is not 202.",
        ),
        key(
            "failed",
            CONDITION,
            "When the operation has failed: jq, or a map as in `when`. Rules can report the reason; a \
             success of theirs is still a tool error.",
        ),
        key("cancelled", CONDITION, "When the operation was cancelled: jq, or a map as in `when`."),
        key("result", ASKED, "Request for the result. Default: the response in which the operation is done."),
        key(
            "cancel",
            ASKED,
            "Request that cancels the operation when no client waits; a method alone (`DELETE`) uses the \
             polled location.",
        ),
        key(
            "poll_interval",
            Duration(20, HOUR),
            "Polling interval, if the response has no `Retry-After`. Default `1s`.",
        ),
        key("progress", Text, "jq: progress, as a number. Default: the number of polls."),
        key("total", Text, "jq: the value of `progress` at the end."),
        key("message", Text, "jq: status message for users."),
        key(
            "task",
            Word(&["forbidden", "optional", "required"]),
            "Whether MCP clients that support tasks get one for long operations, and whether other clients \
             are rejected. Default `optional`.",
        ),
        key(
            "task_after",
            Duration(0, HOUR),
            "How long such a call waits for its result before it becomes a task. Default `2s`.",
        ),
        key("task_ttl", Duration(SECOND, 7 * 24 * HOUR), "How long the task can be polled. Default `1h`."),
        key(
            "task_requests_input",
            Flag,
            "Whether a call with input requests becomes a task at once, which sends them. Default: the call \
             sends them, and becomes a task afterwards.",
        ),
    ],
);

/// A request about an operation that another request started.
const ASKED: Takes = Either(&[Text, Section(|| &REQUEST)]);
/// A jq condition over the value, or conditions of every kind.
const CONDITION: Takes = Either(&[Text, <crate::translate::Matcher as Setting>::KIND]);

static QUERY_VALUE: Takes = OneOrMore(&Scalar);

pub(in crate::config) static BODY: Keys = Keys::new(
    "`body`",
    "body",
    &[
        key(
            "json",
            Anything,
            "JSON, in which every text is a template; `\"{{ args }}\"` alone inserts the value itself.",
        ),
        key("form", Map(&Scalar), "Form fields: a template each."),
        key(
            "xml",
            Text,
            "XML: a template in which inserted values are escaped; the default `Content-Type` is \
             `application/xml`.",
        ),
        key("text", Text, "Text: a template in which inserted values are not escaped."),
    ],
);
