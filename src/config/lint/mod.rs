//! Lints: checks that involve several sections, one file for each subject.
//!
//! `conflicts` and `no_effect` check routes, `upstreams` the use of upstreams and the settings of the
//! process, `templates` those of prompts and request bodies, `clients` scopes and access. `output_schema`
//! compares rules with a tool's output schema. `schema_keywords` and `schema_patterns` find parts of JSON
//! Schemas that clients reject.
//!
//! Each kind of problem has its [code](crate::settings::code::Code) with a paragraph on why it matters.

pub(super) mod clients;
pub(super) mod conflicts;
pub(super) mod no_effect;
pub(super) mod output_schema;
pub(super) mod schema_keywords;
pub(super) mod schema_patterns;
pub(super) mod templates;
pub(super) mod upstreams;
