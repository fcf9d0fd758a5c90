//! The addresses of an upstream: which are left out, and how they are asked after their health.

use super::*;

pub(in crate::config) static EJECTION: Keys = Keys::new(
    "`ejection`",
    "ejection",
    &[
        key("failures", Count(1, 1_000_000), "After how many failures in a row. Default 3."),
        key(
            "rest",
            Duration(1, HOUR),
            "For how long at first; it doubles with each failure after. Default `5s`.",
        ),
        key("longest_rest", Duration(1, 24 * HOUR), "For how long at most. Default `1m`."),
    ],
);

pub(in crate::config) static HEALTH: Keys = Keys::new(
    "`health`",
    "health",
    &[
        key(
            "path",
            Text,
            "What is asked for with `GET`, after the base of each address: `/health`. A 2xx is good.",
        ),
        key("interval", Duration(100, HOUR), "How often, a tenth sooner or later. Default `10s`."),
        key("timeout", Duration(1, HOUR), "How long the answer may take. Default `2s`."),
        key(
            "failures",
            Count(1, 1_000),
            "After how many failures in a row an address is left out; one good answer brings it back. Default 2.",
        ),
    ],
);
