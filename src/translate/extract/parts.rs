//! `extract` of a rule: one extractor, or several that give a part of the value each, and the types of what
//! they find.

use serde_json::{Map, Value, json};

use super::{Extracted, Extractor, ExtractorKind, Gives};
use crate::translate::{
    fields::{FieldType, Fields, Path, each_record, list_of, object_of},
    read_error::Why,
    response_view::ResponseView,
};

/// What reads a value from a reply.
#[derive(Debug)]
pub enum Extract {
    /// One extractor gives the value.
    One(Box<Extractor>),
    /// The value is an object of what several give.
    Parts(Vec<Part>),
}

/// One of several extractors.
#[derive(Debug)]
pub struct Part {
    /// What its value is called.
    pub name: String,
    /// What reads it.
    pub extractor: Extractor,
    /// Whether it is left out of the value when nothing is found.
    pub optional: bool,
}

impl Extract {
    /// How many values are given for one reply.
    pub fn gives(&self) -> Gives {
        match self {
            Self::One(extractor) => extractor.kind.gives(),
            Self::Parts(_) => Gives::One,
        }
    }

    /// The JSON Schema of the value; `None` where nothing about it is certain.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self {
            Self::One(extractor) => extractor.schema(),
            Self::Parts(parts) => {
                let schemas: Vec<_> = parts.iter().map(|part| part.extractor.schema()).collect();
                schemas.iter().any(Option::is_some).then(|| schema_of_parts(parts, schemas))
            }
        }
    }

    /// The same, and what an extractor gives that has no types but knows what it finds.
    ///
    /// Only for a schema that is derived: one that is written may have what was found converted.
    pub fn found_schema(&self) -> Option<Map<String, Value>> {
        self.schema().or_else(|| match self {
            Self::One(extractor) => match (&extractor.kind, &extractor.typing) {
                (ExtractorKind::Html(html), Typing::AsFound) => html.schema(),
                _ => None,
            },
            Self::Parts(_) => None,
        })
    }

    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// A sentence that names the extractor, and says what was expected and what was found.
    pub(crate) fn extract(&self, view: &ResponseView<'_>) -> Result<Extracted, Why> {
        let parts = match self {
            Self::One(extractor) => {
                let name = extractor.kind.name();
                let found = extractor.extract(view).and_then(|found| match &found {
                    Extracted::Value(tree) => Ok(view.admits_tree(tree, &mut 0).map(|()| found)?),
                    _ => Ok(found),
                });
                return found.map_err(|why| why.under(name));
            }
            Self::Parts(parts) => parts,
        };
        let (mut value, mut values) = (Map::with_capacity(parts.len()), 0);
        for part in parts {
            let found = part.extract(view).and_then(|found| {
                let tree = found.map(|found| found.into_value(view)).transpose()?;
                tree.iter().try_for_each(|tree| view.admits_tree(tree, &mut values))?;
                Ok(tree)
            });
            let found =
                found.map_err(|why| why.under(&format!("{} {}", part.name, part.extractor.kind.name())))?;
            value.extend(found.map(|tree| (part.name.clone(), tree)));
        }
        Ok(Extracted::Value(Value::Object(value)))
    }

    /// Whether the text of the reply is read.
    pub(crate) fn reads_text(&self) -> bool {
        match self {
            Self::One(extractor) => extractor.kind.extraction().reads_text(),
            Self::Parts(parts) => parts.iter().any(|part| part.extractor.kind.extraction().reads_text()),
        }
    }
}

fn schema_of_parts(parts: &[Part], schemas: Vec<Option<Map<String, Value>>>) -> Map<String, Value> {
    let property = |(part, schema): (&Part, Option<Map<String, Value>>)| {
        let schema = schema.map_or_else(|| part.schema_as_found(), Value::Object);
        (part.name.clone(), schema)
    };
    let required = parts.iter().filter(|part| !part.optional);
    object_of(
        parts.iter().zip(schemas).map(property).collect(),
        required.map(|part| part.name.as_str()).collect(),
    )
}

impl Part {
    /// The schema of a part without types.
    fn schema_as_found(&self) -> Value {
        match &self.extractor.kind {
            ExtractorKind::Text(_) => json!({ "type": "string" }),
            kind if kind.gives() == Gives::Many => json!({ "type": "array" }),
            _ => json!({}),
        }
    }

    /// Reads the part. `None` when it may be missing and is: its pattern matches nothing, its header is not
    /// there, or there is no text at all. What is there and can't be read is an error all the same.
    fn extract(&self, view: &ResponseView<'_>) -> Result<Option<Extracted>, Why> {
        let found = match self.extractor.find(view) {
            Err(_) if self.optional && self.finds_nothing(view) => return Ok(None),
            found => found?,
        };
        self.extractor.typed(found, view)?.found_well().map(Some)
    }

    fn finds_nothing(&self, view: &ResponseView<'_>) -> bool {
        let inner = match &self.extractor.source {
            Some(source) => match source.text(view) {
                Ok(text) => Some(view.of_text(text)),
                Err(_) => return false,
            },
            None => None,
        };
        let view = inner.as_ref().unwrap_or(view);
        match &self.extractor.kind {
            ExtractorKind::Header(_) => true,
            ExtractorKind::Regex(_) => view.text().is_ok(),
            // What matches may have a capture of another type.
            ExtractorKind::Grok(regex) => {
                view.text().is_ok_and(|text| regex.missing_in(text).count() == regex.patterns.0.len())
            }
            kind => kind.extraction().reads_text() && view.text().is_ok_and(|text| text.trim().is_empty()),
        }
    }
}

impl Extractor {
    /// The JSON Schema of the value, with all its records; `None` where it has no types.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        let record = self.typing.schema()?;
        match self.kind.gives() {
            Gives::Many => Some(list_of(record)),
            Gives::One => Some(record),
            Gives::Block => None,
        }
    }
}

/// The types of what an extractor finds.
#[derive(Debug, Default)]
pub enum Typing {
    /// All of it, as found.
    #[default]
    AsFound,
    /// An object of these fields, or a list of such objects.
    Fields(Fields),
    /// One value, or a list of such values.
    Value {
        /// Where it is in an object; what was found itself where there is none.
        from: Option<Path>,
        /// What it is.
        kind: Box<FieldType>,
    },
}

impl Typing {
    /// The JSON Schema of one record; `None` where anything may be found.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self {
            Self::AsFound => None,
            Self::Fields(fields) => Some(fields.schema()),
            Self::Value { kind, .. } => Some(kind.schema()),
        }
    }

    /// The paths to what is typed.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::AsFound | Self::Value { from: None, .. } => Vec::new(),
            Self::Fields(fields) => fields.iter().map(|field| &field.from).collect(),
            Self::Value { from: Some(path), .. } => vec![path],
        }
    }

    /// Whether records with these names have what must be there; asked where there are no records to type.
    ///
    /// # Errors
    ///
    /// A sentence that names what has no place, and what was found.
    pub(super) fn check_names(&self, found: &Map<String, Value>) -> Result<(), Why> {
        match self {
            Self::AsFound | Self::Value { from: None, .. } => Ok(()),
            Self::Fields(fields) => fields.check_names(found),
            Self::Value { from: Some(path), .. } => match path.find(found) {
                Some(_) => Ok(()),
                None => Err(why!("expected `{path}` in the reply, found none")),
            },
        }
    }

    /// Whether what is to be one record is one: what is typed is promised to clients as that.
    ///
    /// # Errors
    ///
    /// A sentence that names the way out.
    pub(super) fn admits_one(&self, found: &Value) -> Result<(), Why> {
        match (self, found) {
            (Self::Fields(_) | Self::Value { from: Some(_), .. }, Value::Array(items)) => Err(why!(
                "expected one object, found a list of {}; a list of objects is `type: object[]` with \
                 `fields` beside it",
                items.len()
            )),
            _ => Ok(()),
        }
    }

    /// Types a value.
    ///
    /// # Errors
    ///
    /// A sentence that names the place, what was expected and what was found.
    pub(super) fn apply(&self, found: Value) -> Result<Value, Why> {
        match self {
            Self::AsFound => Ok(found),
            Self::Fields(fields) => fields.apply(&found),
            Self::Value { from: None, kind } => kind.apply_to_records(&found),
            Self::Value { from: Some(path), kind } => each_record(&found, |found| {
                let value = match found {
                    Value::Object(members) => path.find(members),
                    _ => None,
                };
                match value {
                    // What stands there is one value, were it a list.
                    Some(value) => kind.apply_to_place(value),
                    None => Err(why!("expected `{path}` in the reply, found none")),
                }
            }),
        }
    }
}
