//! Plain data of all other modules: tools in the sense of MCP (name, definition, arguments, schema, result),
//! and responses of upstreams (`response`; `recording` and `har` parse those that are stored in files).
//!
//! In reading order: [`ToolName`] and [`ToolDefinition`] describe a tool, [`Arguments`] are the input of a
//! call, [`Schema`] checks both input and output, [`ToolResult`] is the result, and [`JsonText`] carries its
//! structure without rebuilding it. [`write_result`] writes the JSON that every API sends.
//! [`ResourceContents`] are a result as the contents of a resource.
//!
//! Nothing here knows a wire: no HTTP, no JSON-RPC, no clock.

mod definition;
mod har;
mod json;
mod recording;
mod response;
mod result;
mod schema;
mod text;
mod violation;
mod write;

pub use definition::{
    ARGUMENT_VALUE_LIMIT, Arguments, ToolDefinition, ToolName, ToolNameError, object_of_some,
};
pub use har::{Exchange, HarError};
pub use json::{JSON_DEPTH_LIMIT, JsonError, JsonText, TooManyValues, values_within};
pub use recording::{Choice, Recording, RecordingError};
pub use response::{End, EndError, Exit, UpstreamResponse, media_type};
pub use result::{
    Annotations, Block, Content, ErrorFormat, Fault, Outcome, ResourceBody, SentBlock, Structured, Text,
    ToolResult,
};
pub use schema::{
    CHECK_STEP_LIMIT, Checked, Schema, SchemaDocument, SchemaError, TooCostly, combined, kind_of,
    listed_values, own_types, referred, type_of,
};
pub use text::{
    LimitedWriter, NUMBER_DIGITS_LIMIT, NUMBER_EXPONENT_LIMIT, NumberOutOfBounds, check_number, cut_bytes,
    cut_characters, floor_char_boundary,
};
pub use violation::Violation;
pub use write::{
    ContentsOf, ResourceContents, Shapes, result_to_json, write_block, write_escaped, write_result,
    write_result_fields,
};
