//! Lints: checks that involve several sections, one file for each subject.
//!
//! `conflicts` and `no_effect` check routes, `route_policies` the policies of a route against its request,
//! `upstreams` the use of upstreams, `prompts` their templates, `clients` scopes and access,
//! `process_settings` those of the process. `output_schema` and `min_items` compare rules with a tool's
//! output schema. `schema_keywords`, `schema_patterns` and `mcp_param_headers` find parts of JSON Schemas
//! that clients reject. `unescaped` finds unescaped arguments in request bodies.
//!
//! Each kind of problem has its [code](crate::settings::code::Code) with a paragraph on why it matters.

pub(super) mod clients;
pub(super) mod conflicts;
pub(super) mod mcp_param_headers;
pub(super) mod min_items;
pub(super) mod no_effect;
pub(super) mod output_schema;
pub(super) mod process_settings;
pub(super) mod prompts;
pub(super) mod route_policies;
pub(super) mod schema_keywords;
pub(super) mod schema_patterns;
pub(super) mod unescaped;
pub(super) mod upstreams;
