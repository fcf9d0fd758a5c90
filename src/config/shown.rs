//! The configuration as operators may see it: as it is written, without what must not be shown.

use serde_json::{Map, Value};

use super::{
    node::{Kind, Node},
    secret::is_only_references,
};

/// In the place of a secret that stands in the file itself.
pub(super) const HIDDEN: &str = "(hidden)";

/// A tree as JSON. Names of variables and files stay as they are: they are no secrets, what they stand for is.
pub(super) fn shown(node: &Node) -> Value {
    match &node.kind {
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) if node.secret => {
            match node.as_text().filter(|text| is_only_references(text.trim())) {
                Some(text) => text.into(),
                None if matches!(node.kind, Kind::Nothing) => Value::Null,
                None => HIDDEN.into(),
            }
        }
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => node.to_json(),
        Kind::List(items) => items.iter().map(shown).collect(),
        Kind::Map(entries) => Value::Object(
            entries.iter().map(|entry| (entry.key.text.clone(), shown(&entry.value))).collect::<Map<_, _>>(),
        ),
    }
}
