//! `extract` of a rule: one extractor, or several that each return a part of the value, and the types of the
//! result.

use serde_json::{Map, Value, json};

use super::{Extracted, Extractor, ExtractorKind, ValueCount};
use crate::translate::fields::{FieldPath, FieldType, Fields, each_record, list_of, object_of};
use crate::translate::read_error::ReadError;
use crate::translate::response_view::ResponseView;

/// Extractor or extractors of a rule.
#[derive(Debug)]
pub enum Extract {
    /// One extractor returns the value.
    One(Box<Extractor>),
    /// The value is an object with one member per extractor.
    Parts(Vec<ExtractPart>),
}

/// One of several extractors.
#[derive(Debug)]
pub struct ExtractPart {
    /// Name of the member.
    pub name: String,
    /// Extractor of the member.
    pub extractor: Extractor,
    /// Whether the member may be missing if nothing is found.
    pub optional: bool,
}

impl Extract {
    /// Number of values per response.
    pub fn value_count(&self) -> ValueCount {
        match self {
            Self::One(extractor) => extractor.kind.value_count(),
            Self::Parts(_) => ValueCount::One,
        }
    }

    /// JSON Schema of the value; `None` if nothing is known about it.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self {
            Self::One(extractor) => extractor.schema(),
            Self::Parts(parts) => {
                parts.iter().find_map(|part| part.extractor.schema())?;
                let properties = parts.iter().map(|part| (part.name.clone(), part.schema()));
                let required = parts.iter().filter(|part| !part.optional).map(|part| part.name.as_str());
                Some(object_of(properties.collect(), required.collect()))
            }
        }
    }

    /// JSON Schema of the value, or of an untyped extractor that knows its result.
    ///
    /// For derived output schemas only: a configured output schema may convert the result.
    pub fn found_schema(&self) -> Option<Map<String, Value>> {
        self.schema().or_else(|| {
            let Self::One(extractor) = self else { return None };
            let ExtractorKind::Html(html) = &extractor.kind else { return None };
            html.schema()
        })
    }

    /// Extracts from a response.
    ///
    /// # Errors
    ///
    /// A sentence with the name of the extractor, and the expected and the found form.
    pub(crate) fn extract(&self, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        let parts = match self {
            Self::One(extractor) => {
                let found = extractor.extract(view).and_then(|found| {
                    if let Extracted::Value(tree) = &found {
                        view.check_tree_value_count(tree, &mut 0)?;
                    }
                    Ok(found)
                });
                return found.map_err(|error| error.in_part(extractor.kind.name()));
            }
            Self::Parts(parts) => parts,
        };
        let (mut value, mut values) = (Map::with_capacity(parts.len()), 0);
        for part in parts {
            let found = part.extract(view).and_then(|found| {
                let tree = found.map(|found| found.into_value(view)).transpose()?;
                tree.iter().try_for_each(|tree| view.check_tree_value_count(tree, &mut values))?;
                Ok(tree)
            });
            let found = found
                .map_err(|error| error.in_part(&format!("{} {}", part.name, part.extractor.kind.name())))?;
            value.extend(found.map(|tree| (part.name.clone(), tree)));
        }
        Ok(Extracted::Value(Value::Object(value)))
    }

    /// Whether it reads the response as text.
    pub(crate) fn reads_text(&self) -> bool {
        match self {
            Self::One(extractor) => extractor.kind.extraction().reads_text(),
            Self::Parts(parts) => parts.iter().any(|part| part.extractor.kind.extraction().reads_text()),
        }
    }
}

impl ExtractPart {
    /// JSON Schema of the part; without types, that of the result of its extractor.
    fn schema(&self) -> Value {
        match (self.extractor.schema(), &self.extractor.kind) {
            (Some(schema), _) => Value::Object(schema),
            (None, ExtractorKind::Text(_)) => json!({ "type": "string" }),
            (None, kind) if kind.value_count() == ValueCount::Many => json!({ "type": "array" }),
            (None, _) => json!({}),
        }
    }

    /// Extracts the part. `None` if it is optional and absent: its pattern has no match, its header is
    /// missing, or the text is empty. A part that is present and invalid is an error.
    fn extract(&self, view: &ResponseView<'_>) -> Result<Option<Extracted>, ReadError> {
        let found = match self.extractor.find(view) {
            Err(_) if self.optional && self.finds_nothing(view) => return Ok(None),
            found => found?,
        };
        self.extractor.typed(found, view)?.into_success().map(Some)
    }

    fn finds_nothing(&self, view: &ResponseView<'_>) -> bool {
        let within = |source: &Extractor| source.text(view).map(|text| view.with_text(text));
        let Ok(inner) = self.extractor.source.as_deref().map(within).transpose() else { return false };
        let view = inner.as_ref().unwrap_or(view);
        match &self.extractor.kind {
            ExtractorKind::Header(_) => true,
            ExtractorKind::Regex(_) => view.text().is_ok(),
            // A match may have a capture of the wrong type, which is an error.
            ExtractorKind::Grok(regex) => {
                view.text().is_ok_and(|text| regex.missing_in(text).count() == regex.patterns.0.len())
            }
            kind => kind.extraction().reads_text() && view.text().is_ok_and(|text| text.trim().is_empty()),
        }
    }
}

impl Extractor {
    /// JSON Schema of the value, a list if there are records; `None` if it has no types.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        let record = self.typing.schema()?;
        match self.kind.value_count() {
            ValueCount::Many => Some(list_of(record)),
            ValueCount::One => Some(record),
            ValueCount::Block => None,
        }
    }
}

/// Types of the result of an extractor.
#[derive(Debug, Default)]
pub enum Typing {
    /// The whole result, untyped.
    #[default]
    Untyped,
    /// An object with these fields, or a list of such objects.
    Fields(Fields),
    /// A single value, or a list of such values.
    Value {
        /// Path of the value in an object; the result itself if there is none.
        from: Option<FieldPath>,
        /// Type of the value.
        kind: Box<FieldType>,
    },
}

impl Typing {
    /// JSON Schema of one record; `None` if it is untyped.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self {
            Self::Untyped => None,
            Self::Fields(fields) => Some(fields.schema()),
            Self::Value { kind, .. } => Some(kind.schema()),
        }
    }

    /// Paths of the typed values.
    pub(super) fn paths(&self) -> Vec<&FieldPath> {
        match self {
            Self::Untyped | Self::Value { from: None, .. } => Vec::new(),
            Self::Fields(fields) => fields.list.iter().map(|field| &field.from).collect(),
            Self::Value { from: Some(path), .. } => vec![path],
        }
    }

    /// Checks that records with these names have the required fields; called if there are no records to type.
    ///
    /// # Errors
    ///
    /// A sentence with the missing path and the found names.
    pub(super) fn check_names(&self, found: &Map<String, Value>) -> Result<(), ReadError> {
        match self {
            Self::Untyped | Self::Value { from: None, .. } => Ok(()),
            Self::Fields(fields) => fields.check_names(found),
            Self::Value { from: Some(path), .. } => value_at(path, Some(found)).map(|_| ()),
        }
    }

    /// Checks that a result typed as one record is not a list: its type is in the advertised schema.
    ///
    /// # Errors
    ///
    /// A sentence with the correct configuration.
    pub(super) fn check_single(&self, found: &Value) -> Result<(), ReadError> {
        match (self, found) {
            (Self::Fields(_) | Self::Value { from: Some(_), .. }, Value::Array(items)) => Err(read_error!(
                "expected one object, found a list of {}; a list of objects is `type: object[]` with \
                 `fields` beside it",
                items.len()
            )),
            _ => Ok(()),
        }
    }

    /// Converts a result to its types.
    ///
    /// # Errors
    ///
    /// A sentence with the position, and the expected and the found form.
    pub(super) fn apply(&self, found: Value) -> Result<Value, ReadError> {
        match self {
            Self::Untyped => Ok(found),
            Self::Fields(fields) => fields.apply(&found),
            Self::Value { from: None, kind } => kind.apply_to_records(&found),
            // A list at this path is one value, not several records.
            Self::Value { from: Some(path), kind } => {
                each_record(&found, |found| kind.apply(value_at(path, found.as_object())?))
            }
        }
    }
}

fn value_at<'v>(path: &FieldPath, found: Option<&'v Map<String, Value>>) -> Result<&'v Value, ReadError> {
    let value = found.and_then(|members| path.find(members));
    value.ok_or_else(|| read_error!("expected `{path}` in the response, found none"))
}
