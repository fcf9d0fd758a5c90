//! Who may call.

use super::*;

/// What a caller needs.
pub(super) const SCOPES: Takes = NAMES;

pub(in crate::config) static CLIENT: Keys = Keys::new(
    "a client",
    "client",
    &[
        key(
            "api_key_hashes",
            OneOrMore(&Either(&[Text, Section(|| &CLIENT_KEY)])),
            "What it may show: hashes of API keys, as `glossator key` prints them.",
        ),
        key(
            "certificates",
            NAMES,
            "The certificates that it may show, under `client_ca`: `cn:NAME`, `dns:NAME`, `uri:URI`, or `sha256:…` for one and no other.",
        ),
        key(
            "jwt_subjects",
            NAMES,
            "What tokens call it in `sub`: it has what they allow, and what stands here.",
        ),
        key("scopes", SCOPES, "What it is allowed. Default: what needs no scope."),
    ],
);

pub(in crate::config) static CLIENT_KEY: Keys = Keys::new(
    "a key of a client",
    "client_key",
    &[
        key("hash", Text, "The hash of the key: `sha256:…`."),
        key("expires", Text, "When the key ends: `2027-01-31`, or `2027-01-31T12:00:00Z`. Default: never."),
    ],
);

pub(in crate::config) static SERVER_AUTH: Keys = Keys::new(
    "`auth` of `server`",
    "server_auth",
    &[
        key(
            "resource",
            Text,
            "What tokens call this server, and where clients reach it: `https://tools.example.com/mcp`. MCP clients are told by it where tokens are given.",
        ),
        key("jwt", OneOrMore(&Section(|| &TOKENS)), "Whose tokens (JWT) are taken."),
        key(
            "authorization_servers",
            NAMES,
            "The servers that give tokens, as clients are told them. Default: the issuers of `jwt`.",
        ),
    ],
);

pub(in crate::config) static TOKENS: Keys = Keys::new(
    "`jwt`",
    "jwt",
    &[
        key("issuer", Text, "The server that gives them, letter by letter as its tokens name it in `iss`."),
        key(
            "audience",
            OneOrMore(&Text),
            "Whom they are for: one of these stands in `aud`. Default: `resource`.",
        ),
        key(
            "jwks",
            Text,
            "The keys that it signs with: `https://login.example.com/jwks.json`, or `file:/path`.",
        ),
        key(
            "algorithms",
            List(&Word(&["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"])),
            "How it signs. Default: `RS256`, `ES256`, `EdDSA`.",
        ),
        key("clock_skew", Duration(0, 300 * SECOND), "How far its clock may be from ours. Default `30s`."),
        key(
            "scope_claim",
            Text,
            "In which claim a token says what its client is allowed: words, or a list of them. Default `scope`.",
        ),
        key("tls", Section(|| &TLS), "Whom the server of `jwks` is taken for, and who we are."),
    ],
);
