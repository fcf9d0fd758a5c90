//! What an upstream is, who it is told we are, and what guards it.

use super::*;
use crate::{
    policy::{BreakerOverride, RetryOverride},
    tls::ClientTls,
    upstream::http::{HealthCheckSettings, OutlierDetectionSettings},
};

pub(in crate::config) static UPSTREAM: Keys = Keys::new(
    "an upstream",
    "upstream",
    &[
        key(
            "url",
            OneOrMore(&Text),
            "Where it is: `http://host:port/base`, `https://host:port/base`, or `unix:/path/to/socket:/base`; a list \
             where one service has several addresses.",
        ),
        key(
            "outlier_detection",
            <OrOff<OutlierDetectionSettings> as Setting>::KIND,
            "When one address of several is left out, or `off`.",
        ),
        key(
            "health_check",
            <HealthCheckSettings as Setting>::KIND,
            "Active health checks of each address. Default: none.",
        ),
        key(
            "dns_refresh_interval",
            Duration(100, 24 * HOUR),
            "After how long the name of a host is looked up again. Default `30s`.",
        ),
        key(
            "command",
            List(&Scalar),
            "In the place of `url`: a program and its words, started for each call. There is no shell.",
        ),
        key("cgi", Text, "In the place of `url`: the path of a CGI program, started for each request."),
        key(
            "cwd",
            Text,
            "The folder that the program works in. Default `/`; of a CGI program, the one it lies in.",
        ),
        key("env", Section(|| &ENV), "What the program sees beside `PATH` and a locale."),
        key(
            "mcp",
            Either(&[Text, Section(|| &MCP_CHILD)]),
            "In the place of `url`: an MCP server, by its address or as a program to start.",
        ),
        key(
            "tools",
            Either(&[OFF, Section(|| &TOOLS)]),
            "Which tools of an MCP server are listed, and as what; or `off`. Default: all of them.",
        ),
        key(
            "prompts",
            Either(&[ALL_OR_OFF, Section(|| &OFFERED_PROMPTS)]),
            "Which prompts of an MCP server are offered: `all`, `off`, or a map. Default: all of them, where `tools` is \
             not `off`.",
        ),
        key(
            "resources",
            Either(&[ALL_OR_OFF, Section(|| &OFFERED_RESOURCES)]),
            "Which resources of an MCP server are offered: `all`, `off`, or a map. Default: all of them, where `tools` is \
             not `off`.",
        ),
        key(
            "protocol",
            Word(&["auto", "http1.0", "http1", "http2"]),
            "Which HTTP it speaks. Default `auto`: HTTP/2 where TLS agrees on it, else HTTP/1.1.",
        ),
        key(
            "tls",
            <ClientTls as Setting>::KIND,
            "Trusted CAs and the client certificate, for `https://` addresses.",
        ),
        key("connect_timeout", TIMEOUT, "Timeout of connecting."),
        key(
            "headers",
            Map(&Scalar),
            "Headers sent with every request; `${NAME}` and `file:/path` keep secrets out of the file.",
        ),
        key(
            "credentials",
            Section(|| &CREDENTIALS),
            "How it is told who asks: one of `basic`, `bearer` and `oauth`. Without its credential nothing is sent.",
        ),
        key(
            "max_redirects",
            Count(0, 10),
            "Maximum number of redirects to its own address that are followed. Default 0.",
        ),
        key("max_in_flight", IN_FLIGHT, "Maximum number of concurrent requests."),
        key("max_in_flight_per_client", IN_FLIGHT, "Maximum per client."),
        key("attempt_timeout", TIMEOUT, "Timeout of one attempt."),
        key("retry", <OrOff<RetryOverride> as Setting>::KIND, "Retries after transient failures, or `off`."),
        key(
            "circuit_breaker",
            <OrOff<BreakerOverride> as Setting>::KIND,
            "When its circuit breaker opens, and those of its routes, or `off`.",
        ),
        key(
            "rate_limit",
            RATE_LIMIT,
            "Rate limit of all clients together: `100 per minute`, a map, or `off`.",
        ),
        key(
            "rate_limit_per_client",
            RATE_LIMIT,
            "Rate limit of each client for its routes: `10 per second`, a map, or `off`.",
        ),
        key("timeout", TIMEOUT, "Timeout of a call, for its routes."),
        key("response_limit", RESPONSE_LIMIT, "Largest response that is read, for its routes."),
        key("max_values", MAX_VALUES, "How many values a reply may have, for its routes."),
        key(
            "error_text_limit",
            ERROR_TEXT_LIMIT,
            "The longest error text that a client gets, for its routes.",
        ),
    ],
);

pub(in crate::config) static CREDENTIALS: Keys = Keys::new(
    "`credentials`",
    "credentials",
    &[
        key("basic", Section(|| &BASIC), "A user and a password."),
        key(
            "bearer",
            Text,
            "A token: `${NAME}`, or `file:/path`, which is read again while it is used, so that the token may change.",
        ),
        key("oauth", Section(|| &OAUTH), "A token that a server gives for a client's name and secret."),
    ],
);

pub(in crate::config) static BASIC: Keys = Keys::new(
    "`basic`",
    "basic",
    &[
        key("user", Scalar, "The user; no colon is in it."),
        key("password", Scalar, "The password: `${NAME}` or `file:/path`."),
    ],
);

pub(in crate::config) static OAUTH: Keys = Keys::new(
    "`oauth`",
    "oauth",
    &[
        key("token_url", Text, "Where tokens are given: `https://login.example.com/oauth/token`."),
        key("client_id", Scalar, "The client's name."),
        key("client_secret", Scalar, "The client's secret: `${NAME}` or `file:/path`."),
        key("scopes", NAMES, "What the token is to allow. Default: what the server gives unasked."),
        key("audience", Text, "Whom the token is for, where the server wants to know."),
        key("parameters", Map(&Scalar), "What else the server wants to know, such as `resource`."),
        key(
            "client_auth_method",
            Word(&["client_secret_basic", "client_secret_post"]),
            "How the client says who it is: by `Authorization`, or in the body. Default `client_secret_basic`.",
        ),
        key("tls", <ClientTls as Setting>::KIND, "Whom the token server is taken for, and who we are."),
    ],
);

pub(in crate::config) static ENV: Keys = Keys::new(
    "`env`",
    "env",
    &[
        key("pass", NAMES, "Names of variables that it sees as this process has them."),
        key(
            "set",
            Map(&Scalar),
            "Variables and their values; `${NAME}` and `file:/path` keep secrets out of the file. Default: `LC_ALL: C.UTF-8`.",
        ),
    ],
);

pub(in crate::config) static MCP_CHILD: Keys = Keys::new(
    "`mcp`",
    "mcp_child",
    &[
        key("command", List(&Scalar), "The program and its words. There is no shell."),
        key("cwd", Text, "The folder that the program works in. Default `/`."),
        key("env", Section(|| &ENV), "What the program sees beside `PATH`, `HOME` and a locale."),
    ],
);

pub(in crate::config) static TOOLS: Keys = Keys::new(
    "`tools`",
    "tools",
    &[
        key("prefix", Text, "What is put before the name of each. Default: nothing."),
        key(
            "only",
            NAMES,
            "The tools that are listed, by the server's names; `*` stands for anything. Default: all.",
        ),
        key("except", NAMES, "The tools that are not."),
        key("rename", Map(&Text), "Other names, whole: the server's name, and what it is called here."),
        key("describe", Map(&Text), "Other descriptions, by the server's names."),
        key(
            "response",
            RESPONSE,
            "What their answers mean: rules, tried before an answer is taken as it is.",
        ),
        key(
            "argument_error",
            ERROR_FORM,
            "The form of an error about arguments that a tool's schema refuses: `value.message` is the sentence.",
        ),
        key(
            "overrides",
            Map(&Section(|| &OVERRIDE)),
            "What single tools have in the place of what the server says, by the server's names.",
        ),
        key(
            "refresh_interval",
            Duration(SECOND, 24 * HOUR),
            "How often the list is asked for, beside when the server says that it changed. Default `5m`.",
        ),
    ],
);

/// Of what is offered as an MCP server has it.
const ALL_OR_OFF: Takes = Word(&["all", "off"]);

pub(in crate::config) static OFFERED_PROMPTS: Keys = Keys::new(
    "`prompts`",
    "offered_prompts",
    &[
        key("prefix", Text, "Prefix of each name. Default: none."),
        key(
            "only",
            NAMES,
            "The prompts that are listed, by the server's names; `*` stands for anything. Default: all.",
        ),
        key("except", NAMES, "The prompts that are not listed, in the same form."),
        key("scopes", SCOPES, "Scopes that a client needs; replaces those of `defaults`."),
    ],
);

pub(in crate::config) static OFFERED_RESOURCES: Keys = Keys::new(
    "`resources`",
    "offered_resources",
    &[
        key("prefix", Text, "Prefix of each name; URIs are unchanged. Default: none."),
        key(
            "only",
            NAMES,
            "The resources and templates that are listed, by their URIs; `*` stands for anything. Default: all.",
        ),
        key("except", NAMES, "Those that are not listed. URIs that match cannot be read either."),
        key("scopes", SCOPES, "Scopes that a client needs; replaces those of `defaults`."),
    ],
);

pub(in crate::config) static OVERRIDE: Keys = Keys::new(
    "a tool",
    "override",
    &[
        key("title", Text, "A name for people."),
        key("description", Text, "What a model reads to decide whether to call the tool."),
        key("annotations", Section(|| &ANNOTATIONS), "Hints for clients, as MCP has them."),
        key("input", JsonSchema, "What arguments must look like."),
        key("output", JsonSchema, "What the structured content looks like; enforced on every success."),
        key("response", RESPONSE, "Rules that are tried before those of `tools.response`."),
        key("confirm", Text, "A question that a person says yes to before the tool is called: a template."),
        key("timeout", TIMEOUT, "Timeout of a call, with queueing and retries."),
        key(
            "idempotent",
            Flag,
            "Whether the call may be made again after a failure. Default: by its annotations.",
        ),
        key("error_text_limit", ERROR_TEXT_LIMIT, "The longest error text that a client gets."),
    ],
);
