//! JSON Schemas that are compiled at load, with violations described for people and models. Also queries on
//! schemas that need no validator: subschemas, types and listed values.

mod cost;
mod cost_model;
mod exact;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use jsonschema::{Draft, ValidationError, Validator, error::ValidationErrorKind};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use self::cost::{CostError, number_out_of_bounds};
use self::cost_model::CostModel;
use super::text::{NUMBER_DIGITS_LIMIT, NUMBER_EXPONENT_LIMIT, pointer_token};
use super::violation::{Violation, shown};

/// Maximum number of steps of a check, about half a second, because the validator cannot be interrupted. A
/// value that would need more steps is not checked but rejected.
pub const CHECK_STEP_LIMIT: u64 = 50_000_000;

/// Maximum number of steps for collecting the errors of an invalid value.
const ERROR_STEP_LIMIT: u64 = 1_000_000;

/// Message for a value whose check would exceed [`CHECK_STEP_LIMIT`].
const TOO_COSTLY: &str =
    "is too expensive to validate: more than 50,000,000 steps, or subschemas nested too deeply";

/// Message for an invalid value whose errors would take too long to collect.
const UNSPECIFIC_VIOLATION: &str = "must match the schema; found a value too large to locate the violation";

/// JSON Schema as configured, an object. Clones share it.
pub type SchemaDocument = Arc<Map<String, Value>>;

/// Compiled JSON Schema, of dialect 2020-12 unless `$schema` declares another.
///
/// It never reads files or the network: a `$ref` to another document does not compile. Patterns run on a
/// linear-time engine, and the cost of a check is computed in advance, so the time of a check is bounded even
/// for a hostile value.
///
/// Compiling a schema with a few properties takes 10 µs, and the result uses 4 KB. Equal schemas are compiled
/// once and shared, because many routes have the same arguments, or none.
#[derive(Debug, Clone)]
pub struct Schema(Arc<CompiledSchema>);

#[derive(Debug)]
struct CompiledSchema {
    document: SchemaDocument,
    cost_model: CostModel,
    validator: Validator,
}

/// Compiled schemas, by JSON text and by whether `format` is validated. A schema is dropped with its last
/// user; its entry is removed before the map would grow.
type CompiledSchemas = HashMap<(String, bool), Weak<CompiledSchema>>;

static COMPILED: LazyLock<Mutex<CompiledSchemas>> = LazyLock::new(Mutex::default);

/// Result of a check and its cost.
#[derive(Debug)]
pub struct CheckResult {
    /// Violations; empty if the value satisfies the schema.
    pub violations: Vec<Violation>,
    /// Number of steps; one step takes about ten nanoseconds.
    pub steps: u64,
}

/// Error for a check that exceeds its step limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooCostly;

/// Reason why a JSON value is not a usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// The problem, in one sentence.
    pub message: String,
    /// Position in the schema, as a JSON Pointer.
    pub pointer: String,
}

impl Schema {
    /// Compiles a schema; `format` is only an annotation, in every dialect.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] if the document is not a valid JSON Schema, has an unsupported dialect, or refers to
    /// another document; also if a pattern cannot run in linear time, or a number is out of bounds.
    pub fn compile(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        Self::compile_with(document, false)
    }

    /// Compiles a schema; `format` is validated.
    ///
    /// # Errors
    ///
    /// Like [`compile`](Self::compile).
    pub fn compile_with_formats(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        Self::compile_with(document, true)
    }

    fn compile_with(document: &Map<String, Value>, validates_formats: bool) -> Result<Self, SchemaError> {
        let root = Value::Object(document.clone());
        let key = (root.to_string(), validates_formats);
        if let Some(compiled) = COMPILED.lock().get(&key).and_then(Weak::upgrade) {
            return Ok(Self(compiled));
        }
        if let Some(pointer) = number_out_of_bounds(&root) {
            return Err(SchemaError { message: super::NumberOutOfBounds.to_string(), pointer });
        }
        let dialect = SchemaDialect::from_document(&root)?;
        let options = jsonschema::options().should_validate_formats(validates_formats);
        let options = exact::with_exact_keywords(options, dialect)
            .with_draft(dialect.0)
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .offline();
        let validator = options.build(&root).map_err(|error| schema_error(&error))?;
        let cost_model = CostModel::new(document, dialect);
        let compiled =
            Arc::new(CompiledSchema { document: Arc::new(document.clone()), cost_model, validator });
        let mut compiled_schemas = COMPILED.lock();
        if compiled_schemas.len() == compiled_schemas.capacity() {
            compiled_schemas.retain(|_, schema| schema.strong_count() > 0);
        }
        compiled_schemas.insert(key, Arc::downgrade(&compiled));
        Ok(Self(compiled))
    }

    /// Lists all violations of the dialect's meta-schema. Also empty if the dialect is not supported, or if a
    /// number is out of bounds.
    pub fn dialect_violations(document: &Map<String, Value>) -> Vec<SchemaError> {
        let root = Value::Object(document.clone());
        let is_usable = number_out_of_bounds(&root).is_none() && SchemaDialect::from_document(&root).is_ok();
        let validator = is_usable.then(|| jsonschema::meta::validator_for(&root).ok()).flatten();
        let Some(validator) = validator else { return Vec::new() };
        validator.iter_errors(&root).map(|error| schema_error(&error)).collect()
    }

    /// Returns the schema as configured.
    pub fn document(&self) -> &SchemaDocument {
        &self.0.document
    }

    /// Checks a value and returns at most `max_violations` violations. If the check exceeds its step limit,
    /// that is reported as one violation.
    pub fn violations(&self, value: &Value, max_violations: usize) -> Vec<Violation> {
        match self.check(value, max_violations, CHECK_STEP_LIMIT) {
            Ok(result) => result.violations,
            Err(TooCostly) => vec![Violation::without_value("", TOO_COSTLY)],
        }
    }

    /// Checks a value in at most `step_limit` steps; the result has at most `max_violations` violations.
    ///
    /// # Errors
    ///
    /// [`TooCostly`] if the check would take more steps.
    pub fn check(
        &self,
        value: &Value,
        max_violations: usize,
        step_limit: u64,
    ) -> Result<CheckResult, TooCostly> {
        let CompiledSchema { cost_model, validator, .. } = &*self.0;
        let cost = match cost::cost(cost_model, value, step_limit) {
            Ok(cost) => cost,
            Err(CostError::OverLimit) => return Err(TooCostly),
            Err(CostError::Number(pointer)) => {
                let message = format!(
                    "must have at most {NUMBER_DIGITS_LIMIT} digits and an exponent from \
                     -{NUMBER_EXPONENT_LIMIT} to {NUMBER_EXPONENT_LIMIT}"
                );
                let violations = vec![Violation::without_value(&pointer, &message)];
                return Ok(CheckResult { violations, steps: 0 });
            }
        };
        if validator.is_valid(value) {
            return Ok(CheckResult { violations: Vec::new(), steps: cost.valid });
        }
        let steps_left = step_limit - cost.valid;
        let may_take = |steps: u64| steps <= steps_left.min(ERROR_STEP_LIMIT);
        let (violations, steps) = if may_take(cost.errors) {
            let errors = validator.iter_errors(value).take(max_violations);
            (errors.map(|error| Violation::from_error(&error)).collect(), cost.errors)
        } else if may_take(cost.first_error.saturating_add(cost.valid)) {
            let error = validator.validate(value).err();
            (error.iter().map(Violation::from_error).collect(), cost.first_error + cost.valid)
        } else if steps_left < ERROR_STEP_LIMIT {
            return Err(TooCostly);
        } else {
            (vec![Violation::without_value("", UNSPECIFIC_VIOLATION)], 0)
        };
        Ok(CheckResult { violations, steps: cost.valid + steps })
    }

    /// Whether a value satisfies the schema.
    pub fn accepts(&self, value: &Value) -> bool {
        self.violations(value, 1).is_empty()
    }

    /// Minimum number of values in the arguments for which a check may exceed [`CHECK_STEP_LIMIT`]; `None` if
    /// a call cannot have so many values.
    pub fn costly_value_count(&self) -> Option<u64> {
        /// Maximum number of values in the arguments of a call.
        const MAX_VALUES: u64 = super::ARGUMENT_VALUE_LIMIT as u64;
        let values = CHECK_STEP_LIMIT / self.0.cost_model.steps_per_value().max(1);
        (values < MAX_VALUES).then_some(values.max(1))
    }
}

/// Dialect of a schema that the validator supports. `$schema` at the root of the schema declares it; the
/// default is 2020-12 (MCP 2026-07-28, Overview, "Schema Dialect"), which is also the validator's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemaDialect(Draft);

/// Supported dialects, oldest first.
const SUPPORTED_DRAFTS: [Draft; 5] =
    [Draft::Draft4, Draft::Draft6, Draft::Draft7, Draft::Draft201909, Draft::Draft202012];

impl SchemaDialect {
    /// Names of the supported dialects, for messages.
    pub const NAMES: &'static str = "draft-04, draft-06, draft-07, 2019-09 and 2020-12";

    /// Returns the dialect with this URI; `None` if it is not supported.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let draft = Draft::from_schema_uri(uri);
        SUPPORTED_DRAFTS.contains(&draft).then_some(Self(draft))
    }

    /// Returns the dialect that a document declares, or the default if it declares no supported dialect.
    pub(super) fn declared_in(document: &Map<String, Value>) -> Self {
        let uri = document.get("$schema").and_then(Value::as_str);
        uri.and_then(Self::from_uri).unwrap_or_default()
    }

    /// Returns the dialect of a schema.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] if `$schema` declares an unsupported dialect, or if a subschema declares a different
    /// one.
    fn from_document(root: &Value) -> Result<Self, SchemaError> {
        let dialect = match root.get("$schema") {
            Some(uri @ Value::String(text)) => Self::from_uri(text).ok_or_else(|| SchemaError {
                message: format!("unsupported dialect {}; supported are {}", shown(uri), Self::NAMES),
                pointer: "/$schema".to_owned(),
            })?,
            // The validator reports a `$schema` that is not a string.
            Some(_) | None => Self::default(),
        };
        let is_foreign = |part: &LocatedSchema<'_>| {
            let uri = part.schema.get("$schema").and_then(Value::as_str);
            uri.is_some_and(|uri| Self::from_uri(uri) != Some(dialect))
        };
        match subschemas(root).iter().skip(1).find(|part| is_foreign(part)) {
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

    /// Whether the dialect defines a keyword.
    pub fn has_keyword(self, keyword: &str) -> bool {
        self.0.is_known_keyword(keyword)
    }

    /// Whether a keyword has no effect in this dialect, but has one in another supported dialect.
    pub fn ignores_keyword(self, keyword: &str) -> bool {
        !self.has_keyword(keyword) && SUPPORTED_DRAFTS.iter().any(|other| other.is_known_keyword(keyword))
    }

    /// Whether keywords next to a `$ref` have no effect.
    pub(super) fn ignores_ref_siblings(self) -> bool {
        matches!(self.0, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
    }
}

/// A schema within a document: the root or a subschema.
pub(super) struct LocatedSchema<'s> {
    pub(super) schema: &'s Map<String, Value>,
    /// Position of the schema in the document, as a JSON Pointer.
    pub(super) pointer: String,
    /// Whether the path to the schema consists of `properties` only; also true for the root.
    pub(super) is_property: bool,
}

/// Returns a schema and all of its subschemas, each before its own subschemas.
pub(super) fn subschemas(root: &Value) -> Vec<LocatedSchema<'_>> {
    fn add<'s>(value: &'s Value, pointer: String, is_property: bool, found: &mut Vec<LocatedSchema<'s>>) {
        let schema = match value {
            Value::Object(schema) => schema,
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    add(item, format!("{pointer}/{index}"), false, found);
                }
                return;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
        found.push(LocatedSchema { schema, pointer: pointer.clone(), is_property });
        let child_pointer = |pointer: &str, name: &str| format!("{pointer}/{}", pointer_token(name));
        for (keyword, value) in schema {
            let pointer = child_pointer(&pointer, keyword);
            match keyword.as_str() {
                // The values of these keywords are not schemas.
                "const" | "enum" | "default" | "examples" => {}
                // These keywords are maps of schemas; their keys are user-defined and may look like keywords.
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependencies"
                | "dependentSchemas" => {
                    for (name, part) in value.as_object().into_iter().flatten() {
                        add(
                            part,
                            child_pointer(&pointer, name),
                            is_property && keyword == "properties",
                            found,
                        );
                    }
                }
                _ => add(value, pointer, false, found),
            }
        }
    }
    let mut found = Vec::new();
    add(root, String::new(), true, &mut found);
    found
}

/// Maximum nesting depth of `$ref`s and in-place applicators that are followed, because a schema may refer to
/// itself.
const FOLLOWED_DEPTH_LIMIT: u8 = 8;

/// Maximum number of schemas that [`in_place_subschemas`] returns, because nested applicators may lead to the
/// same schemas repeatedly.
const FOLLOWED_LIMIT: usize = 256;

/// Returns a schema and its subschemas for the same value, depth first: the targets of `$ref`, and the
/// in-place applicators `anyOf`, `oneOf` and `allOf`.
pub fn in_place_subschemas<'s>(
    root: &'s Map<String, Value>,
    schema: &'s Map<String, Value>,
) -> Vec<&'s Map<String, Value>> {
    let mut found = Vec::new();
    let mut pending = vec![(schema, FOLLOWED_DEPTH_LIMIT)];
    while let Some((schema, depth)) = pending.pop().filter(|_| found.len() < FOLLOWED_LIMIT) {
        let target = resolve_local_ref(root, schema);
        let is_reference = target.is_some() && SchemaDialect::declared_in(root).ignores_ref_siblings();
        if !is_reference {
            found.push(schema);
        }
        let Some(depth) = depth.checked_sub(1) else { continue };
        let keywords: &[&str] = if is_reference { &[] } else { &["anyOf", "oneOf", "allOf"] };
        let parts = keywords.iter().filter_map(|keyword| schema.get(*keyword)?.as_array());
        let nested = target.into_iter().chain(parts.flatten().filter_map(Value::as_object));
        let nested: Vec<_> = nested.map(|part| (part, depth)).collect();
        pending.extend(nested.into_iter().rev());
    }
    found
}

/// Resolves a local `$ref` (`#/…`): returns the schema that it refers to.
pub fn resolve_local_ref<'s>(
    root: &'s Map<String, Value>,
    schema: &Map<String, Value>,
) -> Option<&'s Map<String, Value>> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    value_at(root, &percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?)?.as_object()
}

/// Like [`Value::pointer`], but for a map. Returns `None` for the empty pointer, which means the map itself.
fn value_at<'s>(root: &'s Map<String, Value>, pointer: &str) -> Option<&'s Value> {
    let rest = pointer.strip_prefix('/')?;
    let (first, rest) = rest.find('/').map_or((rest, ""), |end| rest.split_at(end));
    root.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
}

/// Returns the types in the `type` keyword of a schema.
pub fn own_types(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let kind = schema.get("type");
    let kinds = kind.and_then(Value::as_array).into_iter().flatten();
    kind.into_iter().chain(kinds).filter_map(Value::as_str)
}

/// Makes a schema admit null as well.
pub fn admit_null(schema: &mut Map<String, Value>) {
    /// Keywords other than `type` and `enum` that may reject null.
    const REJECTING_KEYWORDS: [&str; 7] = ["const", "not", "if", "$ref", "allOf", "anyOf", "oneOf"];
    let admits_all = schema.is_empty();
    let may_reject = REJECTING_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword));
    match schema.get_mut("type").filter(|_| !may_reject) {
        Some(Value::Array(kinds)) if !kinds.contains(&json!("null")) => kinds.push("null".into()),
        Some(kind @ Value::String(_)) if *kind != "null" => *kind = json!([kind.take(), "null"]),
        None if !admits_all => {
            *schema = Map::from_iter([("anyOf".to_owned(), json!([schema, { "type": "null" }]))]);
        }
        _ => {}
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

/// Returns the values in the keywords `enum` and `const` of a schema.
pub fn listed_values(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"))
}

/// Returns the type of a value with an article: "a string", "an object".
pub fn kind_of(value: &Value) -> &'static str {
    with_article(type_of(value))
}

/// Adds an article to the name of a JSON Schema type.
pub(super) fn with_article(kind: &str) -> &str {
    match kind {
        "array" => "an array",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "object" => "an object",
        "string" => "a string",
        other => other,
    }
}

/// Returns the JSON Schema type of a value; `number` for every number.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Describes why a schema does not compile. The validator's own messages are about values, not schemas.
fn schema_error(error: &ValidationError<'_>) -> SchemaError {
    let message = match error.kind() {
        ValidationErrorKind::Referencing(error) => {
            format!("a `$ref` that can't be followed: {error}; put the referenced schema under `$defs`")
        }
        ValidationErrorKind::Format { format } if format == "regex" => {
            format!(
                "{} is not a supported regular expression; look-around and backreferences do not run in \
                 linear time",
                shown(error.instance())
            )
        }
        ValidationErrorKind::AnyOf { .. } => format!("{} is not allowed here", shown(error.instance())),
        _ => error.to_string(),
    };
    SchemaError { message, pointer: error.instance_path().to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_schemas_are_compiled_once() {
        let document = json!({"type": "string", "format": "date", "description": "compiled once"});
        let document = document.as_object().unwrap();
        let [first, second] = [(); 2].map(|()| Schema::compile(document).unwrap());
        assert!(Arc::ptr_eq(first.document(), second.document()));
        assert!(second.accepts(&json!("tomorrow")));
        assert!(!Schema::compile_with_formats(document).unwrap().accepts(&json!("tomorrow")));
    }

    #[test]
    fn an_invalid_schema_is_rejected() {
        let compile_error = |schema: Value| Schema::compile(schema.as_object().unwrap()).unwrap_err();
        assert_eq!(
            compile_error(json!({"properties": {"a": {"type": "strnig"}}})).pointer,
            "/properties/a/type"
        );
        assert!(compile_error(json!({"$ref": "https://example.com/other"})).message.contains("$defs"));
        assert!(compile_error(json!({"$ref": "file:///etc/passwd"})).message.contains("$defs"));
        assert!(compile_error(json!({"pattern": "(?=a)"})).message.contains("linear"));
    }

    #[test]
    fn large_numbers_are_compared_exactly() {
        let schema = json!({"type": "integer", "maximum": 12345678901234567890_u64});
        let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
        assert!(schema.accepts(&serde_json::from_str("12345678901234567890").unwrap()));
        assert!(!schema.accepts(&serde_json::from_str("12345678901234567891").unwrap()));
    }

    fn types(document: &Value) -> Vec<&str> {
        let root = document.as_object().unwrap();
        in_place_subschemas(root, root).into_iter().flat_map(own_types).collect()
    }

    #[test]
    fn references_and_combinations_are_followed() {
        let document = json!({
            "anyOf": [{ "$ref": "#/$defs/the%20count" }, { "allOf": [{ "type": "null" }] }],
            "oneOf": [{ "type": ["string", "array"] }],
            "$defs": { "the count": { "type": "integer" } },
        });
        assert_eq!(types(&document), ["integer", "null", "string", "array"]);
    }

    #[test]
    fn keywords_beside_a_reference_are_ignored_up_to_draft_07() {
        let document = json!({ "$ref": "#/definitions/count", "type": "string",
            "definitions": { "count": { "type": "integer" } } });
        assert_eq!(types(&document), ["string", "integer"]);
        let mut draft_07 = document.clone();
        draft_07["$schema"] = "http://json-schema.org/draft-07/schema#".into();
        assert_eq!(types(&draft_07), ["integer"]);
        draft_07["$ref"] = "#".into();
        assert_eq!(types(&draft_07), ["string"], "no reference that is followed here");
    }

    #[test]
    fn circular_references_end() {
        let circle = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } });
        assert!(types(&circle).is_empty());
        let doubling = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": vec![json!({"$ref": "#/$defs/a"}); 30] } } });
        let doubling = doubling.as_object().unwrap();
        assert_eq!(in_place_subschemas(doubling, doubling).len(), FOLLOWED_LIMIT);
    }
}

#[cfg(test)]
mod dialect_tests {
    use serde_json::json;

    use super::*;

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
            let dependencies = json!({ "dependencies": { "a": ["b"], "c": { "required": ["d"] } } });
            check(
                dialect,
                dependencies,
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
        let valid = json!({ "children": [{ "children": [{}, {}] }] });
        for dialect in [DRAFT_04, DRAFT_07, R2019_09] {
            check(
                dialect,
                tree.clone(),
                std::slice::from_ref(&valid),
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
        let in_lists = json!({ "x-parts": [[{ "$schema": DRAFT_07 }]], "$ref": "#/x-parts/0/0" });
        assert_eq!(error(in_lists).pointer, "/x-parts/0/0/$schema");
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
