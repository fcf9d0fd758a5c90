//! Who may call.

use super::*;

/// What a caller needs.
pub(super) const SCOPES: Takes = NAMES;

pub(in crate::config) static CLIENT: Keys = Keys {
    of: "a client",
    id: "client",
    list: &[
        key(
            "keys",
            OneOrMore(&Either(&[Text, Section(&CLIENT_KEY)])),
            "What it may show: hashes of API keys, as `glossator key` prints them.",
        ),
        key("scopes", SCOPES, "What it is allowed. Default: what needs no scope."),
    ],
};

pub(in crate::config) static CLIENT_KEY: Keys = Keys {
    of: "a key of a client",
    id: "client_key",
    list: &[
        key("hash", Text, "The hash of the key: `sha256:…`."),
        key("expires", Text, "When the key ends: `2027-01-31`, or `2027-01-31T12:00:00Z`. Default: never."),
    ],
};
