//! Who we are to clients.

use super::*;

pub(in crate::config) static SERVER_TLS: Keys = Keys::new(
    "`tls` of `server`",
    "server_tls",
    &[
        key(
            "certificate",
            Text,
            "Our certificate and those above it, in PEM: `file:/path`, `${NAME}` or the text.",
        ),
        key("key", Text, "Its private key, in PEM: `file:/path` or `${NAME}`."),
        key(
            "client_ca",
            Text,
            "The roots in PEM that vouch for clients; who has no certificate of theirs is turned away. Default: none is asked for.",
        ),
        key(
            "client_certificate",
            Word(&["required", "optional"]),
            "Whether a client may come without a certificate, to show something else. Default `required`.",
        ),
    ],
);
