//! What arguments must look like.

use serde_json::{Map, Value};

use super::{integers, texts};
use crate::tool::{Arguments, CHECK_STEP_LIMIT, Schema, SchemaDocument, SchemaError};

/// The checked input schema of a route. Its root is an object.
#[derive(Debug)]
pub struct InputSchema {
    schema: Schema,
    /// The same where `null` is admitted, for a schema of which a part says `nullable: true` as OpenAPI 3.0 has it. Clients
    /// see it as it was written.
    with_null: Option<Box<Schema>>,
    defaults: Vec<(String, Value)>,
}

/// What is said of arguments that take more than [`CHECK_STEP_LIMIT`].
const TOO_COSTLY: &str =
    "the arguments take more than 50,000,000 steps to check, which is the limit; give fewer or shorter ones";

impl InputSchema {
    /// How many things wrong with one call's arguments are told.
    const MOST_VIOLATIONS: usize = 5;

    /// A schema whose root is an object.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] when it is no schema.
    pub fn new(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        let with_null = match with_null(document) {
            Some(Value::Object(document)) => Some(Box::new(Schema::compile(&document)?)),
            Some(_) | None => None,
        };
        Ok(Self { defaults: defaults_of(document), schema: Schema::compile(document)?, with_null })
    }

    /// The schema as clients see it.
    pub fn document(&self) -> &SchemaDocument {
        self.schema.document()
    }

    /// From how many values on arguments may take more to check than is allowed, where that is a number that a call may have.
    pub fn values_too_costly(&self) -> Option<u64> {
        self.with_null.as_deref().unwrap_or(&self.schema).values_too_costly()
    }

    /// Texts, one or several, as the value that the schema asks for under this name. What can't be such a value stays
    /// a text, so that [`check`](Self::check) says what is wrong with it.
    pub fn of_texts(&self, name: &str, texts: Vec<String>) -> Value {
        texts::typed(self.document(), name, texts)
    }

    /// The values of an argument that the schema lists, as texts: of `enum`, `const`, or a flag.
    pub fn listed(&self, name: &str) -> Vec<String> {
        texts::listed(self.document(), name)
    }

    /// The arguments that every call has to give: required ones without a default.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        let required = self.document().get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| !self.defaults.iter().any(|(known, _)| known == name))
    }

    /// Checks arguments, and fills in the defaults of the schema for those that are not there. Integers among them are written
    /// as such: `3` for `3.0`.
    ///
    /// # Errors
    ///
    /// A sentence for the model that names each argument, what it must be and what was found.
    pub fn check(&self, arguments: Arguments) -> Result<Arguments, String> {
        self.check_within(arguments, CHECK_STEP_LIMIT).unwrap_or_else(|_| Err(TOO_COSTLY.to_owned()))
    }

    /// The same in at most so many steps.
    ///
    /// # Errors
    ///
    /// The arguments, when it takes more.
    pub fn check_within(
        &self,
        mut arguments: Arguments,
        step_limit: u64,
    ) -> Result<Result<Arguments, String>, Box<Arguments>> {
        for (name, default) in &self.defaults {
            if arguments.get(name).is_none() {
                arguments.insert(name.clone(), default.clone());
            }
        }
        let answers = arguments.answers().clone();
        let value = arguments.into_value();
        let schema = self.with_null.as_deref().unwrap_or(&self.schema);
        let checked = schema.check(&value, Self::MOST_VIOLATIONS, step_limit);
        let Ok(checked) = checked else {
            let Value::Object(map) = value else { unreachable!("arguments are an object") };
            return Err(Box::new(Arguments::from(map).with_answers(answers)));
        };
        let violations = checked.violations;
        if violations.is_empty() {
            let Value::Object(mut map) = value else { unreachable!("arguments are an object") };
            integers::write_plainly(self.document(), &mut map);
            return Ok(Ok(Arguments::from(map).with_answers(answers)));
        }
        let told = violations.iter().map(|violation| match violation.path.as_str() {
            "" => format!("the arguments object {}; {}", violation.what, self.known_names()),
            path => format!("argument `{path}` {}", violation.what),
        });
        Ok(Err(told.collect::<Vec<_>>().join(". ")))
    }

    fn known_names(&self) -> String {
        let properties = self.document().get("properties").and_then(Value::as_object);
        let names: Vec<_> = properties.into_iter().flatten().map(|(name, _)| format!("`{name}`")).collect();
        match names.is_empty() {
            true => "this tool takes none".to_owned(),
            false => format!("this tool takes {}", names.join(", ")),
        }
    }
}

/// A schema with `null` admitted wherever it says `nullable: true`; nothing where it says so nowhere.
fn with_null(document: &Map<String, Value>) -> Option<Value> {
    fn changed(schema: &Value) -> Option<Value> {
        match schema {
            Value::Object(members) => {
                let parts: Vec<_> = members.iter().map(|(name, part)| (name, part, changed(part))).collect();
                let is_nullable = members.get("nullable") == Some(&Value::Bool(true));
                if !is_nullable && parts.iter().all(|(.., changed)| changed.is_none()) {
                    return None;
                }
                let parts = parts
                    .into_iter()
                    .map(|(name, part, changed)| (name.clone(), changed.unwrap_or_else(|| part.clone())));
                let mut parts: Map<String, Value> = parts.collect();
                if !is_nullable {
                    return Some(Value::Object(parts));
                }
                match parts.get("type") {
                    Some(Value::String(kind)) => {
                        let kinds = serde_json::json!([kind, "null"]);
                        parts.insert("type".to_owned(), kinds);
                        if let Some(Value::Array(values)) = parts.get_mut("enum") {
                            values.push(Value::Null);
                        }
                        Some(Value::Object(parts))
                    }
                    Some(_) | None => Some(serde_json::json!({ "anyOf": [parts, { "type": "null" }] })),
                }
            }
            Value::Array(items) => {
                let changes: Vec<_> = items.iter().map(|item| (item, changed(item))).collect();
                changes.iter().any(|(_, changed)| changed.is_some()).then(|| {
                    changes
                        .into_iter()
                        .map(|(item, changed)| changed.unwrap_or_else(|| item.clone()))
                        .collect()
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
    let mut document = document.clone();
    // Arguments are an object, whatever the root says.
    document.remove("nullable");
    changed(&Value::Object(document))
}

fn defaults_of(document: &Map<String, Value>) -> Vec<(String, Value)> {
    let properties = document.get("properties").and_then(Value::as_object);
    let defaults = properties.into_iter().flatten().filter_map(|(name, property)| {
        let default = property.as_object()?.get("default")?;
        Some((name.clone(), default.clone()))
    });
    defaults.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(arguments: Value, expected: Result<&str, &str>) {
        let schema = json!({
            "type": "object",
            "properties": {"city": {"enum": ["oslo", "bergen"]}, "units": {"type": "string", "default": "metric"}},
            "required": ["city"],
            "additionalProperties": false,
        });
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        let checked = input.check(arguments.as_object().unwrap().clone().into());
        let checked = checked.map(|arguments| arguments.into_value().to_string());
        assert_eq!(checked, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn null_is_taken_where_the_schema_says_nullable() {
        let schema = json!({
            "type": "object",
            "properties": {
                "kinds": {"type": "array", "items": {"type": "string"}, "nullable": true},
                "depth": {"type": "integer", "minimum": 0, "nullable": true},
                "inner": {"type": "object", "properties": {"level": {"enum": ["low"], "nullable": true}}},
                "target": {"type": "string"},
            },
            "required": ["target"],
        });
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        let check = |arguments: Value| input.check(arguments.as_object().unwrap().clone().into());
        let null = json!({"target": "a", "kinds": null, "depth": null, "inner": {"level": null}});
        assert_eq!(check(null.clone()).unwrap().into_value(), null);
        check(json!({"target": "a", "kinds": ["b"], "depth": 1})).unwrap();
        assert_eq!(
            check(json!({"target": null})).unwrap_err(),
            "argument `target` must be a string; found `null`"
        );
        assert!(check(json!({"target": "a", "depth": -1})).is_err());
        assert_eq!(input.document().get("properties"), schema.get("properties"));
    }

    #[test]
    fn what_is_wrong_with_arguments_is_told_and_defaults_are_filled_in() {
        check(json!({"city": "oslo"}), Ok(r#"{"city":"oslo","units":"metric"}"#));
        check(json!({"city": "olso"}), Err("argument `city` must be one of `oslo`, `bergen`; found `olso`"));
        check(json!({}), Err("argument `city` is required; found nothing"));
        check(
            json!({"city": "oslo", "town": 1}),
            Err("the arguments object has no place for `town`; this tool takes `city`, `units`"),
        );
    }
}
