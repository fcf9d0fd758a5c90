//! Upstreams: addresses, credentials and policies.

use super::*;
use crate::{
    policy::{CircuitBreakerOverride, RetryOverride},
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
            "Address: `http://host:port/base`, `https://host:port/base` or `unix:/path/to/socket:/base`; or \
             a list, if one service has several addresses.",
        ),
        key(
            "outlier_detection",
            <OrOff<OutlierDetectionSettings> as Setting>::KIND,
            "When one of several addresses is ejected, or `off`.",
        ),
        key(
            "health_check",
            <HealthCheckSettings as Setting>::KIND,
            "Active health checks of each address. Default: none.",
        ),
        key(
            "dns_refresh_interval",
            Duration(100, 24 * HOUR),
            "Interval between DNS lookups of the host. Default `30s`.",
        ),
        key(
            "command",
            List(&Scalar),
            "Instead of `url`: a program with its arguments, started for each call without a shell.",
        ),
        key("cgi", Text, "Instead of `url`: path of a CGI program, started for each request."),
        key(
            "cwd",
            Text,
            "Working directory of the program. Default `/`; for CGI, the directory of the program.",
        ),
        key(
            "env",
            Section(|| &ENV),
            "Environment variables of the program, in addition to `PATH` and a locale.",
        ),
        key(
            "mcp",
            Either(&[Text, Section(|| &MCP_CHILD)]),
            "Instead of `url`: an MCP server, by its URL or as a program to start.",
        ),
        key(
            "tools",
            Either(&[OFF, Section(|| &TOOLS)]),
            "Tools of an MCP server that are listed, with changes to their names and descriptions; or `off`. \
             Default: all of them, unmodified.",
        ),
        key(
            "prompts",
            Either(&[ALL_OR_OFF, Section(|| &OFFERED_PROMPTS)]),
            "Prompts of an MCP server that are listed: `all`, `off`, or a map. Default: all of them, unless \
             `tools` is `off`.",
        ),
        key(
            "resources",
            Either(&[ALL_OR_OFF, Section(|| &OFFERED_RESOURCES)]),
            "Resources of an MCP server that are listed: `all`, `off`, or a map. Default: all of them, \
             unless `tools` is `off`.",
        ),
        key(
            "protocol",
            Word(&["auto", "http1.0", "http1", "http2"]),
            "HTTP version. Default `auto`: HTTP/2 if TLS negotiates it, else HTTP/1.1.",
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
            "Credentials for this upstream: one of `basic`, `bearer` and `oauth`. Without an available \
             credential, no request is sent.",
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
            <OrOff<CircuitBreakerOverride> as Setting>::KIND,
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
        key("response_limit", RESPONSE_LIMIT, "Maximum length of a response, for its routes."),
        key(
            "max_values",
            MAX_VALUES,
            "Maximum number of JSON values in a response that a rule parses, for its routes.",
        ),
        key("error_text_limit", ERROR_TEXT_LIMIT, "Maximum length of an error text, for its routes."),
    ],
);

pub(in crate::config) static CREDENTIALS: Keys = Keys::new(
    "`credentials`",
    "credentials",
    &[
        key("basic", Section(|| &BASIC), "User name and password (Basic authentication)."),
        key(
            "bearer",
            Text,
            "Bearer token: `${NAME}`, or `file:/path`, which is re-read while in use, so that the token can \
             be rotated.",
        ),
        key("oauth", Section(|| &OAUTH), "Token of an OAuth server (client credentials grant)."),
    ],
);

pub(in crate::config) static BASIC: Keys = Keys::new(
    "`basic`",
    "basic",
    &[
        key("user", Scalar, "User name, without a colon."),
        key("password", Scalar, "Password: `${NAME}` or `file:/path`."),
    ],
);

pub(in crate::config) static OAUTH: Keys = Keys::new(
    "`oauth`",
    "oauth",
    &[
        key("token_url", Text, "Token endpoint: `https://login.example.com/oauth/token`."),
        key("client_id", Scalar, "Client id."),
        key("client_secret", Scalar, "Client secret: `${NAME}` or `file:/path`."),
        key("scopes", NAMES, "Requested scopes. Default: those of the token server."),
        key("audience", Text, "Audience of the token, if the server requires it."),
        key("parameters", Map(&Scalar), "Further parameters of the token request, such as `resource`."),
        key(
            "client_auth_method",
            Word(&["client_secret_basic", "client_secret_post"]),
            "Client authentication at the token endpoint: by `Authorization`, or in the body. Default \
             `client_secret_basic`.",
        ),
        key(
            "tls",
            <ClientTls as Setting>::KIND,
            "TLS settings for the token server: trusted CAs and the client certificate.",
        ),
    ],
);

pub(in crate::config) static ENV: Keys = Keys::new(
    "`env`",
    "env",
    &[
        key("pass", NAMES, "Names of variables of this process that the program inherits."),
        key(
            "set",
            Map(&Scalar),
            "Variables to set, with their values; `${NAME}` and `file:/path` keep secrets out of the file. \
             Default: `LC_ALL: C.UTF-8`.",
        ),
    ],
);

pub(in crate::config) static MCP_CHILD: Keys = Keys::new(
    "`mcp`",
    "mcp_child",
    &[
        key("command", List(&Scalar), "Program with its arguments, started without a shell."),
        key("cwd", Text, "Working directory of the program. Default `/`."),
        key(
            "env",
            Section(|| &ENV),
            "Environment variables of the program, in addition to `PATH`, `HOME` and a locale.",
        ),
    ],
);

pub(in crate::config) static TOOLS: Keys = Keys::new(
    "`tools`",
    "tools",
    &[
        key("prefix", Text, "Prefix of each name. Default: none."),
        key(
            "only",
            NAMES,
            "Tools that are listed, by the server's names; `*` matches any characters. Default: all.",
        ),
        key("except", NAMES, "Tools that are not listed, in the same form."),
        key(
            "rename",
            Map(&Text),
            "New names, by the server's names; they replace the whole name, without `prefix`.",
        ),
        key("describe", Map(&Text), "New descriptions, by the server's names."),
        key(
            "response",
            RESPONSE,
            "Rules for the tools' results. A result that no rule matches is returned unmodified.",
        ),
        key(
            "argument_error",
            ERROR_FORM,
            "Form of an error about arguments that violate a tool's schema: `value.message` is the sentence.",
        ),
        key(
            "overrides",
            Map(&Section(|| &OVERRIDE)),
            "Settings for single tools, by the server's names; they replace those of the server.",
        ),
        key(
            "refresh_interval",
            Duration(SECOND, 24 * HOUR),
            "Interval between requests of the list, in addition to those after a change notification of the \
             server. Default `5m`.",
        ),
    ],
);

/// For lists of an MCP server that are proxied unmodified.
const ALL_OR_OFF: Takes = Word(&["all", "off"]);

pub(in crate::config) static OFFERED_PROMPTS: Keys = Keys::new(
    "`prompts`",
    "offered_prompts",
    &[
        key("prefix", Text, "Prefix of each name. Default: none."),
        key(
            "only",
            NAMES,
            "Prompts that are listed, by the server's names; `*` matches any characters. Default: all.",
        ),
        key("except", NAMES, "Prompts that are not listed, in the same form."),
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
            "Resources and templates that are listed, by their URIs; `*` matches any characters. Default: \
             all.",
        ),
        key(
            "except",
            NAMES,
            "Resources and templates that are not listed. URIs that match cannot be read either.",
        ),
        key("scopes", SCOPES, "Scopes that a client needs; replaces those of `defaults`."),
    ],
);

pub(in crate::config) static OVERRIDE: Keys = Keys::new(
    "a tool",
    "override",
    &[
        key("title", Text, "Display name."),
        key("description", Text, "Description of the tool for models."),
        key("annotations", Section(|| &ANNOTATIONS), "Hints for clients, as MCP has them."),
        key("input", JsonSchema, "JSON Schema of the arguments."),
        key("output", JsonSchema, "JSON Schema of the structured content; enforced on every success."),
        key("response", RESPONSE, "Rules that are tried before those of `tools.response`."),
        key("confirm", Text, "Confirmation that the user must accept before the tool is called: a template."),
        key("timeout", TIMEOUT, "Timeout of a call, with queueing and retries."),
        key(
            "idempotent",
            Flag,
            "Whether the call may be retried after it may have reached the server. Default: by its \
             annotations.",
        ),
        key("error_text_limit", ERROR_TEXT_LIMIT, "Maximum length of an error text."),
    ],
);
