//! Dialects of JSON Schema. `$schema` at the root of a schema names one; without it, the dialect is 2020-12
//! (MCP 2026-07-28, Overview, "Schema Dialect").

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{LocatedSchema, SchemaError, subschemas};
use crate::model::violation::shown;

/// Dialect of a schema, one that the validator supports. The validator's default is 2020-12, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemaDialect(pub(super) Draft);

/// The supported dialects, oldest first.
const SUPPORTED: [Draft; 5] =
    [Draft::Draft4, Draft::Draft6, Draft::Draft7, Draft::Draft201909, Draft::Draft202012];

impl SchemaDialect {
    /// Names of the supported dialects, for messages.
    pub const NAMES: &'static str = "draft-04, draft-06, draft-07, 2019-09 and 2020-12";

    /// Dialect that a URI names; `None` if it is not supported.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let draft = Draft::from_schema_uri(uri);
        SUPPORTED.contains(&draft).then_some(Self(draft))
    }

    /// Dialect that a document declares; the default if it declares none that is supported.
    pub(super) fn declared_in(document: &Map<String, Value>) -> Self {
        let uri = document.get("$schema").and_then(Value::as_str);
        uri.and_then(Self::from_uri).unwrap_or_default()
    }

    /// Dialect of a schema.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] if `$schema` names another dialect, or if a subschema has a dialect of its own.
    pub(super) fn from_document(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        let dialect = match document.get("$schema") {
            Some(uri @ Value::String(text)) => Self::from_uri(text).ok_or_else(|| SchemaError {
                message: format!("unsupported dialect {}; supported are {}", shown(uri), Self::NAMES),
                pointer: "/$schema".to_owned(),
            })?,
            // The validator reports a value of another type.
            Some(_) | None => Self::default(),
        };
        let is_foreign = |part: &LocatedSchema<'_>| {
            let uri = part.schema.get("$schema").and_then(Value::as_str);
            uri.is_some_and(|uri| Self::from_uri(uri) != Some(dialect))
        };
        match subschemas(document).iter().skip(1).find(|part| is_foreign(part)) {
            None => Ok(dialect),
            Some(part) => Err(SchemaError {
                message: "a subschema can't have another dialect than the root".to_owned(),
                pointer: format!("{}/$schema", part.pointer),
            }),
        }
    }

    /// Name, such as `draft-07`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Draft::Draft4 => "draft-04",
            Draft::Draft6 => "draft-06",
            Draft::Draft7 => "draft-07",
            Draft::Draft201909 => "2019-09",
            _ => "2020-12",
        }
    }

    /// Whether it defines a keyword.
    pub fn has_keyword(self, keyword: &str) -> bool {
        self.0.is_known_keyword(keyword)
    }

    /// Whether a keyword has no effect here, but has one in another dialect.
    pub fn ignores_keyword(self, keyword: &str) -> bool {
        !self.has_keyword(keyword) && SUPPORTED.iter().any(|other| other.is_known_keyword(keyword))
    }

    /// Whether the keywords beside a `$ref` have no effect.
    pub(super) fn ignores_ref_siblings(self) -> bool {
        matches!(self.0, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::Schema, *};

    const DRAFT_04: &str = "http://json-schema.org/draft-04/schema#";
    const DRAFT_07: &str = "http://json-schema.org/draft-07/schema#";
    const R2019_09: &str = "https://json-schema.org/draft/2019-09/schema";

    #[track_caller]
    fn check(dialect: &str, schema: Value, valid: &[Value], invalid: &[Value]) {
        let mut document = schema.as_object().unwrap().clone();
        document.insert("$schema".to_owned(), dialect.into());
        let schema = Schema::compile(&document).unwrap();
        for value in valid {
            let violations = schema.violations(value, 3);
            assert!(violations.is_empty(), "{value}: {violations:?}");
        }
        for value in invalid {
            assert!(!schema.accepts(value), "{value}");
        }
    }

    #[test]
    fn a_schema_is_checked_in_its_dialect() {
        let pair = || json!({ "items": [{ "type": "string" }], "additionalItems": { "type": "integer" } });
        for dialect in [DRAFT_04, DRAFT_07, R2019_09] {
            check(dialect, pair(), &[json!(["a", 1, 2])], &[json!([1]), json!(["a", "b"])]);
            check(dialect, json!({ "prefixItems": [{ "type": "string" }] }), &[json!([1])], &[]);
            let needs = json!({ "dependencies": { "a": ["b"], "c": { "required": ["d"] } } });
            check(
                dialect,
                needs,
                &[json!({ "a": 1, "b": 1 }), json!({})],
                &[json!({ "a": 1 }), json!({ "c": 1 })],
            );
        }
        let number =
            json!({ "$ref": "#/definitions/n", "maximum": 5, "definitions": { "n": { "minimum": 1 } } });
        check(DRAFT_04, number.clone(), &[json!(9)], &[json!(0)]);
        check(DRAFT_07, number.clone(), &[json!(9)], &[json!(0)]);
        check(R2019_09, number, &[json!(5)], &[json!(0), json!(9)]);
    }

    #[test]
    fn keywords_of_draft_04_have_their_old_meaning() {
        check(DRAFT_04, json!({ "minimum": 1, "exclusiveMinimum": true }), &[json!(2)], &[json!(1)]);
        check(DRAFT_04, json!({ "type": "integer" }), &[json!(3)], &[json!(3.5)]);
        check(DRAFT_04, json!({ "const": 1, "contains": false, "if": {}, "else": false }), &[json!(2)], &[]);
        check(DRAFT_04, json!({ "enum": [1, "a"], "uniqueItems": true }), &[json!("a")], &[json!("b")]);
        let by_anchor =
            json!({ "items": { "$ref": "#n" }, "definitions": { "n": { "id": "#n", "type": "null" } } });
        check(DRAFT_04, by_anchor, &[json!([null])], &[json!([1])]);
    }

    #[test]
    fn format_is_an_annotation_in_every_dialect() {
        for dialect in [DRAFT_04, DRAFT_07, R2019_09] {
            check(dialect, json!({ "format": "ipv4" }), &[json!("not an address")], &[]);
        }
    }

    #[test]
    fn references_in_a_circle_are_followed_in_every_dialect() {
        let tree = json!({ "$ref": "#/definitions/tree", "definitions": { "tree": {
            "type": "object",
            "properties": { "children": { "type": "array", "items": { "$ref": "#/definitions/tree" } } },
        } } });
        let good = json!({ "children": [{ "children": [{}, {}] }] });
        for dialect in [DRAFT_04, DRAFT_07, R2019_09] {
            check(
                dialect,
                tree.clone(),
                std::slice::from_ref(&good),
                &[json!({ "children": [{ "children": [1] }] })],
            );
        }
        let recursive = json!({ "type": "object", "additionalProperties": { "$recursiveRef": "#" } });
        check(R2019_09, recursive, &[json!({ "a": { "b": {} } })], &[json!({ "a": { "b": 1 } })]);
    }

    #[test]
    fn an_unsupported_dialect_is_an_error() {
        let error = |schema: Value| Schema::compile(schema.as_object().unwrap()).unwrap_err();
        for uri in
            ["http://json-schema.org/draft-03/schema#", "https://spec.openapis.org/oas/3.1/dialect/base"]
        {
            let error = error(json!({ "$schema": uri }));
            assert!(error.message.contains(uri) && error.message.contains("2020-12"), "{error}");
            assert_eq!(error.pointer, "/$schema");
        }
        assert_eq!(error(json!({ "$schema": 5 })).pointer, "/$schema");
        let nested = json!({ "properties": { "a": { "anyOf": [{ "$schema": DRAFT_07 }] } } });
        assert_eq!(error(nested).pointer, "/properties/a/anyOf/0/$schema");
        let named = json!({ "properties": { "default": { "$schema": DRAFT_07 } } });
        assert_eq!(error(named).pointer, "/properties/default/$schema");
        let value = json!({ "$schema": DRAFT_07, "default": { "$schema": "mine" } });
        Schema::compile(value.as_object().unwrap()).unwrap();
    }

    #[test]
    fn a_keyword_of_another_dialect_is_known() {
        let draft_07 = SchemaDialect::from_uri(DRAFT_07).unwrap();
        assert!(draft_07.ignores_keyword("prefixItems") && !draft_07.ignores_keyword("if"));
        assert!(!draft_07.ignores_keyword("title") && !draft_07.ignores_keyword("x-mine"));
        assert_eq!((draft_07.name(), SchemaDialect::default().name()), ("draft-07", "2020-12"));
    }
}
