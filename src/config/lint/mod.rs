//! Checks across sections, and of what a reader of one section cannot know: one file a subject.
//!
//! `conflicts` and `no_effect` check routes, `upstreams` the use of upstreams, `clients` scopes and access,
//! `shared_state` and `shutdown` settings of the process. `output_schema` and `min_items` compare rules with a
//! tool's output schema. `schema_keywords`, `schema_patterns` and `mcp_param_headers` find in JSON Schemas what
//! clients reject, and `unescaped` finds arguments in the text of a request that nothing escapes.
//!
//! Each kind of problem has its [code](crate::settings::code::Code) with a paragraph on why it matters.

pub(super) mod clients;
pub(super) mod conflicts;
pub(super) mod mcp_param_headers;
pub(super) mod min_items;
pub(super) mod no_effect;
pub(super) mod output_schema;
pub(super) mod schema_keywords;
pub(super) mod schema_patterns;
pub(super) mod shared_state;
pub(super) mod shutdown;
pub(super) mod unescaped;
pub(super) mod upstreams;
