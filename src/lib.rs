//! A reverse proxy that turns the plain responses of legacy servers into MCP tool results.
//!
//! The path of a call: `inbound/*` (decode) → [`pipeline`] → [`route`] (which tool, are the arguments valid,
//! which request) → [`policy`] → [`upstream`] → [`translate::translate`] → `inbound/*` (encode).
//!
//! The modules are declared below from the lowest layer up. A module uses only modules declared above it; a
//! test reads that order from this file and checks every import. Further rules:
//!
//! - [`model`], [`translate`], [`route`] and [`prompt`] have no `async`, clock, environment, log, or wire
//!   library (the types of `bytes`, `http` and `serde_json` are allowed).
//! - [`translate::translate`] is total and deterministic: any status and any bytes give a result with
//!   content, and every success matches its declared output schema.
//! - Only [`inbound`]`::mcp` uses the MCP library, only [`crypto`] a cipher, only [`tls`] the TLS library,
//!   only [`shared_state`] the client of Redis, only [`upstream`] the HTTP client and child processes, only
//!   [`translate`] the jq engine, only [`model`] the schema validator, only [`settings`] the YAML parser,
//!   only [`config`] the format of the file on disk.
//! - All input has a size limit, except passthrough bodies and the responses of the shared state store.

pub mod settings;
pub mod model;
pub mod translate;
pub mod route;
pub mod prompt;
pub mod crypto;
pub mod tls;
pub mod descriptors;
pub mod wire;
pub mod telemetry;
pub mod shared_state;
pub mod upstream;
pub mod auth;
pub mod policy;
pub mod pipeline;
pub mod inbound;
pub mod config;
pub mod authoring;
pub mod admin;
pub mod server;
pub mod cli;
