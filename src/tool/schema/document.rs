//! JSON Schemas as they are written.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde_json::{Map, Value};

use crate::tool::JsonText;

/// A JSON Schema as it is written, an object; shared by those who show it and who check by it.
///
/// It is kept as text, and becomes a tree when somebody first looks into it: that takes several times as much, and most tools
/// of a large catalog are never called.
#[derive(Clone)]
pub struct SchemaDocument(Arc<Document>);

struct Document {
    text: JsonText,
    tree: OnceLock<Box<Value>>,
}

impl Document {
    fn tree(&self) -> &Value {
        self.tree.get_or_init(|| Box::new(self.text.parse()))
    }
}

impl From<Map<String, Value>> for SchemaDocument {
    fn from(document: Map<String, Value>) -> Self {
        let (document, tree) = (Value::Object(document), OnceLock::new());
        let text = JsonText::of(&document);
        // What is nested too deeply to be read again stays what it is.
        if text.parse() != document {
            tree.get_or_init(|| Box::new(document));
        }
        Self(Arc::new(Document { text, tree }))
    }
}

impl From<&SchemaDocument> for Value {
    fn from(document: &SchemaDocument) -> Self {
        let Document { text, tree } = &*document.0;
        tree.get().map_or_else(|| text.parse(), |tree| Self::clone(tree))
    }
}

impl Deref for SchemaDocument {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        self.0.tree().as_object().expect("it is made of an object")
    }
}

impl PartialEq for SchemaDocument {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl fmt::Debug for SchemaDocument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_what_it_was_made_of_however_deep() {
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "items": inner }));
        for document in [json!({"type": "object", "minimum": 1.50}), deep] {
            let written = SchemaDocument::from(document.as_object().unwrap().clone());
            assert_eq!(Value::from(&written), document);
            assert_eq!(*written, *document.as_object().unwrap());
        }
    }
}
