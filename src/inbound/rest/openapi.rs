//! `GET /openapi.json`: every operation of every route, as OpenAPI 3.1.
//!
//! The schemas of arguments and of structured content are under `components`. A `$ref` inside such a schema
//! is relative to the schema, so it is rewritten to point to the same place in the document.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Map, Value, json};

use super::response::{JSON, STRUCTURED_CONTENT_SUPPORT};
use crate::inbound::without_nulls;
use crate::pipeline::Snapshot;
use crate::route::{Envelope, ErrorStatus, RestEndpoint, Route};
use crate::translate::RuleAction;
use crate::upstream::ClientIdentity;

/// The OpenAPI document without paths.
const TEMPLATE: &str = include_str!("openapi.json");

/// Responses to requests that are rejected: status and description.
const CLIENT_FAILURES: [(&str, &str); 2] = [
    ("400", "The arguments, or the body that has them, are invalid."),
    (
        "4XX",
        "The request is rejected: by the service, whose status this is, or before a request is sent to it.",
    ),
];

/// Responses to failed calls, if the route maps errors to statuses: status and description.
const CALL_FAILURES: [(&str, &str); 4] = [
    ("500", "The call failed."),
    ("502", "The service failed, can't be reached, or sent a response that can't be processed."),
    ("503", "The service is busy: a concurrency limit is reached, or a circuit breaker is open."),
    ("504", "The service sent no complete response in time."),
];

/// Builds the document, with paths in the order of tool names. Omits endpoints that call no tool, and tools
/// that the client may not call. `mount` is the prefix of all paths; it may be empty.
pub(super) fn document(snapshot: &Snapshot, client: &ClientIdentity, mount: &str) -> Value {
    let mut document: Value = serde_json::from_str(TEMPLATE).expect("the file is JSON");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for route in snapshot.table.in_order().iter().filter(|route| client.may(&route.scopes)) {
        let route_schemas = RouteSchemas::new(route, &mut document["components"]["schemas"]);
        for (index, endpoint) in route.endpoints().enumerate() {
            let operation = route_schemas.operation(&endpoint, index, &mut document["components"]["schemas"]);
            document["paths"][endpoint.path][endpoint.method.as_str().to_ascii_lowercase()] = operation;
        }
    }
    if client.client().is_some() {
        document["components"]["securitySchemes"] = json!({
            "bearer": { "type": "http", "scheme": "bearer" },
            "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
        });
        document["security"] = json!([{ "bearer": [] }, { "key": [] }]);
    }
    if !mount.is_empty() {
        document["servers"] = json!([{ "url": mount }]);
    }
    document
}

/// A route, with references to its schemas in the document.
struct RouteSchemas<'a> {
    route: &'a Route,
    /// Schema of a successful response.
    success: Value,
    /// Schema of an error response.
    failure: Value,
}

impl<'a> RouteSchemas<'a> {
    fn new(route: &'a Route, schemas: &mut Value) -> Self {
        let name = route.definition.name.as_str();
        let mut add = |kind: &str, schema: Value| {
            let key = format!("{name}.{kind}");
            schemas[&key] = rebase_references(&schema, &format!("#/components/schemas/{key}"));
            reference(&key)
        };
        add("input", Value::Object(Map::clone(route.input.document())));
        let output = route.definition.to_json(STRUCTURED_CONTENT_SUPPORT).remove("outputSchema");
        let output = output.map(|schema| add("output", schema));
        let success = match (route.envelope, output) {
            (Envelope::Mcp, None) => reference("ToolResult"),
            (Envelope::Mcp, Some(output)) => {
                let structured = json!({ "structuredContent": output });
                let constraint = json!({ "properties": structured, "required": ["structuredContent"] });
                json!({ "allOf": [reference("ToolResult"), constraint] })
            }
            // If the tool has no output schema, any value is possible.
            (Envelope::Plain, output) => output.unwrap_or_else(|| json!({})),
        };
        let failure = match route.envelope {
            Envelope::Mcp => reference("Failure"),
            // Inline, because it is short and easier to read without a reference.
            Envelope::Plain => plain_error_schema(route, schemas["Error"].clone()),
        };
        Self { route, success, failure }
    }

    fn operation(&self, endpoint: &RestEndpoint, index: usize, schemas: &mut Value) -> Value {
        let definition = &self.route.definition;
        let name = definition.name.as_str();
        // Tool names contain no `/`, so the id is unique.
        let id = if index == 0 { name.to_owned() } else { format!("tools/{name}") };
        let in_path = path_arguments(&endpoint.path);
        let takes_body = !matches!(endpoint.method, Method::GET | Method::DELETE);
        let parameters = self.parameters(&in_path, !takes_body);
        without_nulls(json!({
            "operationId": id,
            "summary": definition.title,
            "description": definition.description,
            "parameters": (!parameters.is_empty()).then_some(parameters),
            "requestBody": takes_body.then(|| self.body(&in_path, schemas)),
            "responses": self.responses(),
        }))
    }

    /// Parameters for the arguments in the path, and for all other arguments in the query if there is no
    /// body.
    fn parameters(&self, in_path: &[&str], has_query: bool) -> Vec<Value> {
        let input = self.route.input.document();
        let base = format!("#/components/schemas/{}.input", self.route.definition.name);
        let properties = input.get("properties").and_then(Value::as_object);
        let property = |name: &str| properties.and_then(|properties| properties.get(name));
        let parameter = |name: &str, location: &str, is_required: bool| {
            let schema = property(name).map_or_else(|| json!({}), |schema| rebase_references(schema, &base));
            // An object is passed as JSON; every other type in the default style of OpenAPI.
            let is_object = schema["type"] == "object";
            without_nulls(json!({
                "name": name,
                "in": location,
                "required": is_required,
                "description": schema["description"],
                "content": is_object.then(|| json!({ JSON: { "schema": schema } })),
                "schema": (!is_object).then_some(&schema),
            }))
        };
        let required = required_arguments(input);
        let mut parameters: Vec<Value> = in_path.iter().map(|name| parameter(name, "path", true)).collect();
        if has_query {
            let query_arguments = properties.into_iter().flat_map(Map::keys).map(String::as_str);
            let query_arguments = query_arguments.filter(|name| !in_path.contains(name));
            parameters.extend(query_arguments.map(|name| parameter(name, "query", required.contains(&name))));
        }
        parameters
    }

    /// Request body: a JSON object of the arguments that are not in the path.
    fn body(&self, in_path: &[&str], schemas: &mut Value) -> Value {
        let input = self.route.input.document();
        let name = self.route.definition.name.as_str();
        let required_in_body: Vec<&str> =
            required_arguments(input).into_iter().filter(|name| !in_path.contains(name)).collect();
        let is_required = !required_in_body.is_empty();
        let schema = if in_path.is_empty() {
            reference(&format!("{name}.input"))
        } else {
            let mut rest = Map::clone(input);
            if let Some(Value::Object(properties)) = rest.get_mut("properties") {
                properties.retain(|name, _| !in_path.contains(&name.as_str()));
            }
            if rest.contains_key("required") {
                rest.insert("required".into(), required_in_body.into());
            }
            let key = format!("{name}.body");
            schemas[&key] = rebase_references(&rest.into(), &format!("#/components/schemas/{name}.input"));
            reference(&key)
        };
        json!({ "required": is_required, "content": { JSON: { "schema": schema } } })
    }

    fn responses(&self) -> Value {
        let is_mapped = self.route.error_status == ErrorStatus::Mapped;
        // If a status occurs more than once, the last description applies.
        let mut responses = BTreeMap::new();
        let mut add = |status: String, description: &str, schema: &Value| {
            let content = json!({ JSON: { "schema": schema } });
            responses.insert(status, json!({ "description": description, "content": content }));
        };
        for (status, description) in CALL_FAILURES.into_iter().filter(|_| is_mapped) {
            add(status.to_owned(), description, &self.failure);
        }
        for rule in self.route.translator.rules.iter().filter(|_| is_mapped) {
            if let RuleAction::Error(error) = &rule.action {
                let status = error.status.unwrap_or(422).to_string();
                add(status, "The service reported an error.", &self.failure);
            }
        }
        for (status, description) in CLIENT_FAILURES {
            add(status.to_owned(), description, &self.failure);
        }
        let success = match is_mapped {
            true => self.success.clone(),
            false => json!({ "anyOf": [self.success, self.failure] }),
        };
        add("200".to_owned(), "The result of the tool.", &success);
        json!(responses)
    }
}

fn reference(key: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{key}") })
}

/// Schema of an error in the plain envelope, with the members that the rules of the route add.
fn plain_error_schema(route: &Route, mut schema: Value) -> Value {
    for rule in &route.translator.rules {
        let RuleAction::Error(error) = &rule.action else { continue };
        if error.code.is_some() {
            schema["properties"]["code"] =
                json!({ "description": "The error code of the service, if it has one." });
        }
        if error.structured.is_some() {
            schema["properties"]["details"] = json!({ "type": "object" });
        }
    }
    schema
}

/// Returns the names of the arguments in a path, in order.
fn path_arguments(path: &str) -> Vec<&str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect()
}

fn required_arguments(schema: &Map<String, Value>) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Rewrites each `$ref` in a schema that points into the schema itself. `base` is the position of the schema
/// in the document. A schema with its own `$id` is unchanged, because its references are relative to the
/// `$id`.
fn rebase_references(schema: &Value, base: &str) -> Value {
    let members = match schema {
        Value::Object(members) if !members.contains_key("$id") => members,
        Value::Array(items) => return items.iter().map(|item| rebase_references(item, base)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return schema.clone();
        }
    };
    let rebased = members.iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(target)) if target == "#" || target.starts_with("#/") => {
                Value::String(format!("{base}{}", &target[1..]))
            }
            // References to anchors or other documents; and values, inside which `$ref` has no meaning.
            ("$ref" | "$dynamicRef", Value::String(_))
            | ("const" | "enum" | "default" | "examples" | "example", _) => value.clone(),
            // The keys are arbitrary names, not keywords of JSON Schema; the values are schemas.
            (
                "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
                Value::Object(schemas),
            ) => {
                schemas.iter().map(|(name, schema)| (name.clone(), rebase_references(schema, base))).collect()
            }
            _ => rebase_references(value, base),
        };
        (key.clone(), value)
    });
    rebased.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_to_the_position_of_the_schema() {
        let schema = json!({
            "$defs": { "city": { "type": "string" } },
            "properties": {
                "$ref": { "$ref": "#/$defs/city" },
                "default": { "$ref": "#", "default": { "$ref": "#/$defs/city" } },
                "other": { "allOf": [{ "$ref": "#/$defs/city" }, { "$ref": "#named" }] },
                "own": { "$id": "urn:x", "$ref": "#/$defs/city" }
            }
        });
        let expected = json!({
            "$defs": { "city": { "type": "string" } },
            "properties": {
                "$ref": { "$ref": "#/c/a/$defs/city" },
                "default": { "$ref": "#/c/a", "default": { "$ref": "#/$defs/city" } },
                "other": { "allOf": [{ "$ref": "#/c/a/$defs/city" }, { "$ref": "#named" }] },
                "own": { "$id": "urn:x", "$ref": "#/$defs/city" }
            }
        });
        assert_eq!(rebase_references(&schema, "#/c/a"), expected);
    }
}
