//! Data types that all other modules use: MCP tools (name, definition, arguments, schema, result), and
//! responses of upstreams.
//!
//! In reading order:
//!
//! - [`ToolName`] and [`ToolDefinition`] describe a tool, and [`Arguments`] are the input of a call.
//! - [`Schema`] validates input and output. `param_headers` handles arguments that clients repeat in headers.
//! - [`ToolResult`] is the result of a call, and [`JsonText`] its structured content, which is not rebuilt.
//! - [`write_result`] writes the JSON of a result, which is the same for every API. [`ResourceContext`]
//!   converts a result to the contents of a resource.
//! - [`UpstreamResponse`] is the response of an upstream; `recording` parses responses that were saved in
//!   files.
//!
//! The module is independent of transports: no HTTP connections, no JSON-RPC, no clock.

mod definition;
mod json;
mod param_headers;
mod program_exit;
mod recording;
mod response;
mod result;
mod schema;
mod text;
mod violation;
mod write;

pub use definition::{ARGUMENT_VALUE_LIMIT, Arguments, ToolDefinition, ToolName, object_without_nones};
pub use json::{
    JSON_DEPTH_LIMIT, JsonError, JsonText, TooManyValues, count_tree_values, count_values, values_within,
};
pub use param_headers::{
    InvalidParamHeader, PARAM_HEADER_KEYWORD, PARAM_HEADER_MAX_INTEGER, decode_header_text,
    encode_header_text, invalid_param_headers, is_exact_in_header, param_header_text, param_headers,
};
pub use program_exit::{ProgramEnd, ProgramExit};
pub use recording::{EntryChoice, HarExchange, NO_ENTRIES, Recording, parse_header};
pub use response::{UpstreamResponse, media_type};
pub use result::{
    Annotations, BlockText, Content, ContentBlock, ErrorFormat, ErrorType, ForeignBlock, ResourceBody,
    ResourceContents, Structured, ToolOutcome, ToolResult,
};
pub use schema::{
    CHECK_STEP_LIMIT, CheckResult, Schema, SchemaDialect, SchemaDocument, SchemaError, TooCostly, admit_null,
    in_place_subschemas, kind_of, listed_values, own_types, resolve_local_ref, type_of,
};
pub use text::{
    LimitedWriter, NUMBER_DIGITS_LIMIT, NUMBER_EXPONENT_LIMIT, NumberOutOfBounds, check_number, cut_bytes,
    cut_characters, pointer_token,
};
pub use violation::Violation;
pub use write::{
    ResourceContext, StructuredContentSupport, result_to_json, write_block, write_escaped, write_result,
    write_result_fields,
};
