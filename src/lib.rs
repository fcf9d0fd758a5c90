//! A reverse proxy that turns the plain replies of legacy servers into MCP tool results.
//!
//! The path of a call: `face/*/decode` → [`gateway`] → [`route`] (which, are the arguments valid, what to
//! ask) → [`policy`] → [`upstream`] → [`rule::translate`] → `face/*/answer`. Five words, the same that an
//! operator uses: who asks (face), for what (route), how carefully (policy), from whom (upstream), and what
//! it means (rule).
//!
//! The rooms stand in floor order below; a room uses only rooms declared above it, and a test reads that
//! order from this file and checks every import. What is deliberately absent:
//!
//! - [`reply`], [`tool`], [`rule`], [`route`] and [`prompt`] have no `async`, clock, environment, log, or wire library
//!   (`bytes`, `http`'s types and `serde_json` are words, not wires).
//! - [`rule::translate`] is total and deterministic: any status and any bytes give a result with content, and
//!   a declared output schema is met by every success.
//! - Only [`face`]`::mcp` names the MCP library, only [`crypto`] a cipher, only [`tls`] the TLS library, only
//!   [`shared_state`] the store of several replicas, only [`upstream`] the HTTP client and the programs that are
//!   started, only [`rule`] the jq engine, only [`tool`] the schema validator, only [`config`] the YAML parser and the shape of the file on disk.
//! - Nothing is read without a bound, what is passed through unread and the responses of our own store aside.

pub mod reply;
pub mod tool;
pub mod rule;
pub mod route;
pub mod prompt;
pub mod crypto;
pub mod tls;
pub mod descriptors;
pub mod wire;
pub mod observe;
pub mod shared_state;
pub mod upstream;
pub mod auth;
pub mod policy;
pub mod gateway;
pub mod face;
pub mod config;
pub mod infer;
pub mod import;
pub mod authoring;
pub mod admin;
pub mod serve;
pub mod cli;
