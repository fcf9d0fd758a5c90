//! A route and what it asks.

use super::*;
use crate::config::content;
use crate::policy::{BreakerOverride, RetryOverride};

pub(in crate::config) static ROUTE: Keys = Keys::new(
    "a route",
    "route",
    &[
        key("title", Text, "A name for people."),
        key("description", Text, "What a model reads to decide whether to call the tool."),
        key("annotations", Section(|| &ANNOTATIONS), "Hints for clients, as MCP has them."),
        key(
            "resource",
            Either(&[Text, Section(|| &READ_AS)]),
            "What it is read by, which makes it a resource: a URI, or a template with arguments as `{name}`.",
        ),
        key("tool", Flag, "Whether it is a tool. Default `true`; `false` of a resource."),
        key(
            "rest",
            Text,
            "Where REST clients find it, beside `POST /tools/NAME`: `METHOD /path/{argument}`.",
        ),
        key(
            "request",
            Either(&[Text, Section(|| &REQUEST)]),
            "What the upstream is asked: `METHOD UPSTREAM/path/{argument}`, `CALL UPSTREAM/TOOL`, or a map.",
        ),
        key("confirm", Text, "A question that a person says yes to before the request is sent: a template."),
        key(
            "input_requests",
            ASK,
            "What a person, or the client's model, is asked before it; a list is asked one after the other.",
        ),
        key("input_timeout", ANSWER_WITHIN, "How long an answer may take. Default `10m`."),
        key(
            "input",
            JsonSchema,
            "What arguments must look like; inferred from the placeholders when absent.",
        ),
        key(
            "completions",
            Map(&COMPLETE_FORM),
            "What its arguments may be, by name, beside what `input` lists: a list of values, or a route that gives them.",
        ),
        key("output", JsonSchema, "What the structured content looks like; enforced on every success."),
        key(
            "wrap_non_objects",
            Word(&["always", "legacy_clients"]),
            "Which clients get a value that is not an object as `{\"result\": …}`. Default `always`.",
        ),
        key("response", RESPONSE, "Rules for the upstream response; the first rule that matches is applied."),
        key(
            "argument_error",
            ERROR_FORM,
            "The form of an error about arguments that `input` refuses, as `error` of a rule: `value.message` is the sentence.",
        ),
        key(
            "async_operation",
            Either(&[Word(&["follow_location"]), Section(|| &JOB)]),
            "How work is followed that is not done with the first reply: to the `Location` of a 202, or as a map says. \
             Without it the first reply is the answer.",
        ),
        key(
            "notifications",
            List(&Section(|| &LOG_LINE)),
            "Lines that clients are told while a call goes on, where they want them.",
        ),
        key(
            "propagate_trace_context",
            Flag,
            "Whether the trace that a call belongs to (`traceparent`, `tracestate`) goes on to the upstream. Default `true`.",
        ),
        key(
            "on_no_match",
            Word(&["error", "text"]),
            "Result of a response that no rule matches. Default `error`.",
        ),
        key(
            "default_rules",
            Flag,
            "Whether the rules of `defaults.response` are tried after its own. Default `true`.",
        ),
        key("timeout", TIMEOUT, "Timeout of a call, with queueing and retries."),
        key(
            "idempotent",
            Flag,
            "Whether the request may be sent again after a failure. Default: by its method; `POST` and `PATCH` may not.",
        ),
        key("rate_limit", RATE_LIMIT, "Rate limit of all clients together: `100 per minute`, or a map."),
        key("rate_limit_per_client", RATE_LIMIT, "Rate limit of each client: `10 per minute`, or a map."),
        key(
            "cache",
            Either(&[LASTS, Section(|| &CACHE)]),
            "How long its replies are given again: a duration, `upstream` for as long as the upstream says, or a map.",
        ),
        key(
            "coalesce",
            Flag,
            "Whether identical concurrent requests are coalesced into one. Default: with `cache`.",
        ),
        key(
            "hedge",
            Either(&[Duration(1, HOUR), Word(&["p95"])]),
            "After how long a slow request is sent once more: a duration, or `p95` for the time within which 95 of 100 \
             replies came lately.",
        ),
        key(
            "retry",
            <OrOff<RetryOverride> as Setting>::KIND,
            "Retries after transient failures, or `off`; replaces those of the upstream.",
        ),
        key(
            "circuit_breaker",
            <OrOff<BreakerOverride> as Setting>::KIND,
            "When its own circuit breaker opens, or `off`, in the place of what the upstream says: after so many \
             responses with 502, 503 or 504 in a row.",
        ),
        key("scopes", SCOPES, "Scopes that a client needs, all of them; replace those of `defaults`."),
        key("response_limit", RESPONSE_LIMIT, "Largest response that is read."),
        key("max_values", MAX_VALUES, "How many values a reply may have for a rule that looks into it."),
        key("error_text_limit", ERROR_TEXT_LIMIT, "The longest error text that a client gets."),
        key("envelope", ENVELOPE, "What REST clients get: the tool result, or the structured value alone."),
        key("error_status", ERROR_STATUS, "The HTTP status of a tool error for REST clients."),
        key(
            "error_format",
            ERROR_FORMAT,
            "The text of every tool error: the message, or `{\"error\": \"…\"}` as JSON.",
        ),
        key("redact", NAMES, "Regular expressions of what no error shows, beside those of `defaults`."),
        key(
            "forward_headers",
            NAMES,
            "Names of the caller's headers that are sent on, beside those of `defaults`.",
        ),
        key("tests", List(&Section(|| &EXAMPLE)), "Examples, run by `glossator test`."),
    ],
);

/// How long a reply is kept.
const LASTS: Takes = Either(&[Duration(1, 30 * 24 * HOUR), Word(&["upstream"])]);

pub(in crate::config) static CACHE: Keys = Keys::new(
    "`cache`",
    "cache",
    &[
        key("ttl", LASTS, "How long a reply is good: a duration, or `upstream`. Default `upstream`."),
        key(
            "stale_if_error",
            Duration(1, 30 * 24 * HOUR),
            "How much longer an old one is given where the upstream fails. Default: not, or as it says itself.",
        ),
        key(
            "ignore_cache_control",
            Flag,
            "Whether responses are cached although their `Cache-Control` forbids it. Default `false`.",
        ),
    ],
);

pub(in crate::config) static ANNOTATIONS: Keys = Keys::new(
    "`annotations`",
    "annotations",
    &[
        key("title", Text, "A name for people."),
        key("readOnlyHint", Flag, "The tool changes nothing."),
        key("destructiveHint", Flag, "What it changes may be lost."),
        key("idempotentHint", Flag, "Calling it again with the same arguments changes nothing more."),
        key("openWorldHint", Flag, "It reaches beyond a closed world, such as the web."),
    ],
);

pub(in crate::config) static READ_AS: Keys = Keys::new(
    "`resource` of a route",
    "read_as",
    &[
        key("uri", Text, "What it is read by: a URI, or a template with arguments as `{name}`."),
        key("media_type", Text, "What it is; the reply's own type when absent."),
        key("size", Size(0, 1 << 50), "How long it is, where that is known beforehand."),
        key("annotations", content::BlockAnnotations::KIND, "Hints for clients."),
        key(
            "poll_interval",
            Duration(100, 24 * HOUR),
            "How often the upstream is asked whether it changed, while a client is subscribed. Default: never; then no \
             client can subscribe.",
        ),
    ],
);

pub(in crate::config) static REQUEST: Keys = Keys::new(
    "`request`",
    "request",
    &[
        key("upstream", Text, "Who is asked; may be left out when there is one upstream."),
        key(
            "method",
            Text,
            "The HTTP method, such as `GET` or `PROPFIND`. Default `GET`, or `POST` with a body.",
        ),
        key("path", Text, "The path, with arguments as `{name}`; may end in `?name={argument}`."),
        key("query", Map(&QUERY_VALUE), "Parameters of the query: a template each, or a list of them."),
        key("headers", Map(&Scalar), "Headers: a template each."),
        key("body", Section(|| &BODY), "The body, in one of four forms."),
        key("tool", Text, "Of an MCP server: the tool to call, by the name that the server has for it."),
        key(
            "arguments",
            Either(&[List(&Scalar), Map(&Anything)]),
            "Of a command: the words behind its own, a template each. Of a tool: its arguments, in which every text is a \
             template; all of the call when absent.",
        ),
        key(
            "leading_dash_arguments",
            NAMES,
            "Of a command: arguments whose text may begin with `-`, and so be an option.",
        ),
        key(
            "stdin",
            Either(&[Text, Section(|| &BODY)]),
            "Of a command: what it reads, as a template, or in one of four forms.",
        ),
    ],
);

pub(in crate::config) static LOG_LINE: Keys = Keys::new(
    "a line of `notifications`",
    "log_line",
    &[
        key("level", Word(&crate::route::LogLevel::NAMES), "How much it matters. Default `info`."),
        key(
            "text",
            Text,
            "What it says: a template of `args`; with `status` it is told when the reply is there.",
        ),
    ],
);

pub(in crate::config) static JOB: Keys = Keys::new(
    "`async_operation`",
    "async_operation",
    &[
        key(
            "extract",
            EXTRACTOR,
            "What reads a value from the replies that tell of the job. Default: the JSON that they are.",
        ),
        key(
            "id",
            Text,
            "jq: the name of the job, found in the first reply. Without it the `Location` of the first reply is asked.",
        ),
        key(
            "status",
            ASKED,
            "The request that asks how the job stands, with its name as the argument `job`.",
        ),
        key(
            "done",
            CONDITION,
            "When the job is done: jq, or a map as in `when`. Default: when its status is not 202.",
        ),
        key(
            "failed",
            CONDITION,
            "When the job has failed. The rules may say why; a success they say is not believed.",
        ),
        key("cancelled", CONDITION, "When the job was ended before it was done."),
        key(
            "result",
            ASKED,
            "The request for the result. Default: the reply that said that the job is done.",
        ),
        key(
            "cancel",
            ASKED,
            "The request that ends a job nobody waits for; a method alone (`DELETE`) asks where its status is.",
        ),
        key(
            "poll_interval",
            Duration(20, HOUR),
            "How long to wait between two questions, where `Retry-After` does not say. Default `1s`.",
        ),
        key("progress", Text, "jq: how far the job is, as a number. Default: how often it was asked."),
        key("total", Text, "jq: the number that `progress` ends at."),
        key("message", Text, "jq: what the job is doing, for people."),
        key(
            "task",
            Word(&["forbidden", "optional", "required"]),
            "Whether MCP clients that know tasks get one for work that takes long, and whether others are turned away. Default `optional`.",
        ),
        key(
            "task_after",
            Duration(0, HOUR),
            "How long such a call waits for its result before it becomes a task. Default `2s`.",
        ),
        key("task_ttl", Duration(SECOND, 7 * 24 * HOUR), "How long a task can be asked about. Default `1h`."),
        key(
            "task_requests_input",
            Flag,
            "Whether the call becomes a task at once where there is something in `input_requests`, and the task asks it. Default: the call asks, and its answer begins the task.",
        ),
    ],
);

/// A request about something that another request began.
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
            "JSON, in which every text is a template; `\"{{ args }}\"` alone gives the value itself.",
        ),
        key("form", Map(&Scalar), "Fields of a form: a template each."),
        key(
            "xml",
            Text,
            "XML: one template, in which what is put in is escaped; the type is `application/xml` where no header says another.",
        ),
        key("text", Text, "A text: one template, in which what is put in stands as it is."),
    ],
);
