//! What several replicas share.

use super::*;

pub(in crate::config) static SHARED: Keys = Keys::new(
    "`shared_state`",
    "shared_state",
    &[
        key(
            "url",
            Text,
            "Where the Redis or Valkey is: `redis://store:6379`, `rediss://…` through TLS, `unix:/run/valkey.sock`, `redis+sentinel://a:26379,b:26379/mymaster`, or `redis+cluster://a:6379,b:6379`.",
        ),
        key("user", Text, "As whom to log in. Default: the server's default user."),
        key("password", Text, "With what: `file:/path` or `${NAME}`. Default: there is no login."),
        key("sentinel_user", Text, "As whom to log in at Sentinels. Default: their default user."),
        key("sentinel_password", Text, "With what: `file:/path` or `${NAME}`. Default: there is no login."),
        key(
            "database",
            Count(0, 65_535),
            "Which of its databases; a Cluster has none. Default 0, or the one that `url` ends with.",
        ),
        key(
            "prefix",
            Text,
            "What every name there begins with; what shares nothing has another one. Default `glossator`.",
        ),
        key(
            "timeout",
            Duration(1, 10 * SECOND),
            "How long an answer of it is waited for, before it is done without. Default `250ms`.",
        ),
        key(
            "entry_limit",
            Size(1024, 64 << 20),
            "The longest reply that is kept there; longer ones each replica keeps for itself. Default `1MiB`.",
        ),
        key(
            "tls",
            Section(|| &TLS),
            "Whom to take it for, of a `rediss://`. Default: the roots of the system decide.",
        ),
    ],
);
