//! `limit`: truncation of a success.

use crate::{model::own_types, route::InputSchema, translate::Limit};

/// Marks the paging arguments that are strings in `input`, so that the value for the next page is written as
/// a string.
pub(super) fn write_as_input_requires(limit: &mut Limit, input: &InputSchema) {
    let Limit { more: Some(more), text_arguments, .. } = limit else { return };
    let properties = input.document().get("properties");
    let is_text = |name: &&String| {
        let property = properties.and_then(|properties| properties.get(name)?.as_object());
        let types: Vec<_> = property.into_iter().flat_map(own_types).collect();
        let admits = |wanted: &str| types.contains(&wanted);
        admits("string") && !admits("integer") && !admits("number")
    };
    *text_arguments = more.arguments().filter(is_text).cloned().collect();
}
