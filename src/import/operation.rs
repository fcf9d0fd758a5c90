//! One route of an operation.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    Remark,
    document::{Document, items, members},
    parameters::{Parts, essence, is_json, parts},
    schema::{Use, schema, shortened},
};

/// Methods of which tools are made.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// The longest name of a tool: what every client takes.
const LONGEST_NAME: usize = 64;
/// The longest title and description, in characters.
const LONGEST_TITLE: usize = 120;
const LONGEST_DESCRIPTION: usize = 1000;

/// An operation that can be a route.
pub(super) struct Operation {
    /// The tool's name.
    pub(super) name: String,
    /// `GET /pets/{id}`, as the document has it.
    pub(super) about: String,
    method: String,
    title: Option<String>,
    description: String,
    parts: Parts,
    output: Option<Value>,
}

impl Operation {
    /// All of a document with one of these tags. What can't be a route is told in remarks.
    pub(super) fn all(document: &Document, tags: &[String], remarks: &mut Vec<Remark>) -> Vec<Self> {
        let (mut operations, mut names) = (Vec::new(), BTreeSet::new());
        for (path, written) in members(document.get("paths")) {
            let item = match document.resolved(written) {
                Ok(item) => item,
                Err(why) => {
                    remarks.push(Remark { about: path.clone(), what: format!("left out: {why}") });
                    continue;
                }
            };
            for method in METHODS {
                let Some(operation) = item.get(method) else { continue };
                let mut tagged = items(operation.get("tags")).filter_map(Value::as_str);
                if !tags.is_empty() && !tagged.any(|tag| tags.iter().any(|wanted| wanted == tag)) {
                    continue;
                }
                let about = format!("{} {path}", method.to_ascii_uppercase());
                match Self::read(document, path, method, item, operation) {
                    Ok(mut operation) => {
                        operation.name = free_name(&operation.name, &names);
                        names.insert(operation.name.clone());
                        let left_out = std::mem::take(&mut operation.parts.left_out);
                        remarks
                            .extend(left_out.into_iter().map(|what| Remark { about: about.clone(), what }));
                        operations.push(operation);
                    }
                    Err(why) => remarks.push(Remark { about, what: format!("left out: {why}") }),
                }
            }
        }
        operations
    }

    fn read(
        document: &Document,
        path: &str,
        method: &str,
        item: &Value,
        operation: &Value,
    ) -> Result<Self, String> {
        let text =
            |name: &str| operation.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let mut parts = parts(document, path, item.get("parameters"), operation)?;
        if operation.get("servers").is_some() || item.get("servers").is_some() {
            parts.left_out.push("asked at the address of the others, and not at its own".to_owned());
        }
        let Success { output, as_json } = success(document, operation);
        if as_json {
            parts.headers.insert("Accept".into(), "application/json".into());
        }
        let about = format!("{} {path}", method.to_ascii_uppercase());
        let mut description = text("description")
            .or_else(|| text("summary"))
            .map_or_else(|| format!("{about}."), |text| shortened(text, LONGEST_DESCRIPTION));
        if operation.get("deprecated") == Some(&Value::Bool(true)) {
            description.insert_str(0, "Deprecated. ");
        }
        Ok(Self {
            name: name_of(text("operationId"), method, path),
            title: text("summary").map(|text| shortened(text, LONGEST_TITLE)),
            description,
            method: method.to_ascii_uppercase(),
            output,
            about,
            parts,
        })
    }

    /// The route, as the file has it.
    pub(super) fn route(&self, upstream: &str, with_output: bool) -> Value {
        let Parts { path, query, headers, body, properties, required, left_out: _ } = &self.parts;
        let mut route = Map::new();
        if let Some(title) = self.title.as_ref().filter(|title| **title != self.description) {
            route.insert("title".into(), title.as_str().into());
        }
        route.insert("description".into(), self.description.as_str().into());
        let annotations = match self.method.as_str() {
            "GET" => json!({ "readOnlyHint": true }),
            "PUT" => json!({ "idempotentHint": true }),
            "DELETE" => json!({ "destructiveHint": true, "idempotentHint": true }),
            _ => Value::Null,
        };
        if !annotations.is_null() {
            route.insert("annotations".into(), annotations);
        }
        let request = if query.is_empty() && headers.is_empty() && body.is_none() {
            format!("{} {upstream}{path}", self.method).into()
        } else {
            let mut request = Map::new();
            request.insert("upstream".into(), upstream.into());
            request.insert("method".into(), self.method.as_str().into());
            request.insert("path".into(), path.as_str().into());
            for (key, members) in [("query", query), ("headers", headers)] {
                if !members.is_empty() {
                    request.insert(key.into(), Value::Object(members.clone()));
                }
            }
            if let Some(body) = body {
                request.insert("body".into(), body.clone());
            }
            Value::Object(request)
        };
        route.insert("request".into(), request);
        if !properties.is_empty() {
            let mut input = Map::new();
            input.insert("type".into(), "object".into());
            input.insert("properties".into(), Value::Object(properties.clone()));
            if !required.is_empty() {
                input.insert("required".into(), Value::Array(required.clone()));
            }
            route.insert("input".into(), Value::Object(input));
        }
        if let Some(output) = self.output.as_ref().filter(|_| with_output) {
            route.insert("output".into(), output.clone());
        }
        Value::Object(route)
    }

    pub(super) fn has_output(&self) -> bool {
        self.output.is_some()
    }
}

/// What a success is.
#[derive(Default)]
struct Success {
    /// Its schema, where that is JSON.
    output: Option<Value>,
    /// Whether it has to be asked for in JSON, as there are other forms of it.
    as_json: bool,
}

/// What is promised of an operation's one success. A schema is enforced, so two kinds of success have none.
fn success(document: &Document, operation: &Value) -> Success {
    let none = Success::default();
    let mut successes = members(operation.get("responses")).filter(|(status, _)| status.starts_with('2'));
    let (Some((_, response)), None) = (successes.next(), successes.next()) else { return none };
    let Ok(response) = document.resolved(response) else { return none };
    let contents: Vec<(&String, &Value)> = members(response.get("content")).collect();
    let Some((_, described)) = contents.iter().find(|(name, _)| is_json(essence(name))) else { return none };
    let as_json = contents.iter().any(|(name, _)| !is_json(essence(name)));
    let copied = described.get("schema").and_then(|written| schema(document, written, Use::Output));
    // One that says nothing promises nothing.
    Success { output: copied.filter(|schema| schema.get("type").is_some()), as_json }
}

/// `list_pets` of an operation's id, or of its method and path.
fn name_of(id: Option<&str>, method: &str, path: &str) -> String {
    let plain = |text: &str| -> String {
        let text: String = text
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' })
            .collect();
        let words: Vec<&str> = text.split('_').filter(|word| !word.is_empty()).collect();
        words.join("_").chars().take(LONGEST_NAME).collect()
    };
    let name = id.map(plain).unwrap_or_default();
    if name.is_empty() { plain(&format!("{method}_{path}")) } else { name }
}

/// The name, or it with a number behind.
fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    let mut free = name.to_owned();
    let mut count = 2;
    while taken.contains(&free) {
        let begins: String = name.chars().take(LONGEST_NAME - 4).collect();
        free = format!("{begins}_{count}");
        count += 1;
    }
    free
}
