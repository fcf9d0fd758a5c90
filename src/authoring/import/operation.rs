//! Conversion of one OpenAPI operation to a route.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    Document, ImportRemark, items, members,
    schema::{MAX_DESCRIPTION_LENGTH, SchemaUse, schema, shortened},
};

/// HTTP methods that become tools.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// Longest generated tool name, in characters; every client accepts this length.
const MAX_NAME_LENGTH: usize = 64;
/// Longest title and description of a tool, in characters.
const MAX_TITLE_LENGTH: usize = 120;
const MAX_ROUTE_DESCRIPTION_LENGTH: usize = 1000;

/// Operation that can become a route.
pub(super) struct Operation {
    /// Name of the tool.
    pub(super) name: String,
    /// Method and path in the document: `GET /pets/{id}`.
    pub(super) about: String,
    method: String,
    title: Option<String>,
    description: String,
    parts: RequestParts,
    output: Option<Value>,
}

impl Operation {
    /// The operations of a document that have one of these tags, or all if there are none. Operations that
    /// can't become routes are listed in `remarks`.
    pub(super) fn all(document: &Document, tags: &[String], remarks: &mut Vec<ImportRemark>) -> Vec<Self> {
        let (mut operations, mut names) = (Vec::new(), BTreeSet::new());
        for (path, written) in members(document.get("paths")) {
            let item = match document.resolved(written) {
                Ok(item) => item,
                Err(reason) => {
                    remarks.push(ImportRemark { about: path.clone(), text: format!("omitted: {reason}") });
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
                        operation.name = unused_name(&operation.name, &names);
                        names.insert(operation.name.clone());
                        let omissions = std::mem::take(&mut operation.parts.omissions);
                        remarks.extend(
                            omissions.into_iter().map(|text| ImportRemark { about: about.clone(), text }),
                        );
                        operations.push(operation);
                    }
                    Err(reason) => remarks.push(ImportRemark { about, text: format!("omitted: {reason}") }),
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
            parts.omissions.push("requested at the URL of the document, not at its own server".to_owned());
        }
        let Success { output, as_json } = success(document, operation);
        if as_json {
            parts.headers.insert("Accept".into(), "application/json".into());
        }
        let about = format!("{} {path}", method.to_ascii_uppercase());
        let mut description = text("description")
            .or_else(|| text("summary"))
            .map_or_else(|| format!("{about}."), |text| shortened(text, MAX_ROUTE_DESCRIPTION_LENGTH));
        if operation.get("deprecated") == Some(&Value::Bool(true)) {
            description.insert_str(0, "Deprecated. ");
        }
        Ok(Self {
            name: name_of(text("operationId"), method, path),
            title: text("summary").map(|text| shortened(text, MAX_TITLE_LENGTH)),
            description,
            method: method.to_ascii_uppercase(),
            output,
            about,
            parts,
        })
    }

    /// The route as configuration.
    pub(super) fn route(&self, upstream: &str, with_output: bool) -> Value {
        let RequestParts { path, query, headers, body, properties, required, omissions: _ } = &self.parts;
        let (method, title) = (&self.method, self.title.as_ref());
        let annotations = match method.as_str() {
            "GET" => json!({ "readOnlyHint": true }),
            "PUT" => json!({ "idempotentHint": true }),
            "DELETE" => json!({ "destructiveHint": true, "idempotentHint": true }),
            _ => Value::Null,
        };
        let request = if query.is_empty() && headers.is_empty() && body.is_none() {
            format!("{method} {upstream}{path}").into()
        } else {
            without_nulls(
                json!({ "upstream": upstream, "method": method, "path": path, "query": or_null(query),
                "headers": or_null(headers), "body": body }),
            )
        };
        let input = without_nulls(json!({ "type": "object", "properties": properties,
            "required": Some(required).filter(|required| !required.is_empty()) }));
        without_nulls(json!({
            "title": title.filter(|title| **title != self.description),
            "description": self.description,
            "annotations": annotations,
            "request": request,
            "input": Some(input).filter(|_| !properties.is_empty()),
            "output": self.output.as_ref().filter(|_| with_output),
        }))
    }

    pub(super) fn has_output(&self) -> bool {
        self.output.is_some()
    }
}

/// Removes the null members of an object.
fn without_nulls(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}

fn or_null(members: &Map<String, Value>) -> Option<&Map<String, Value>> {
    Some(members).filter(|members| !members.is_empty())
}

/// Successful response of an operation.
#[derive(Default)]
struct Success {
    /// Its schema, if it is JSON.
    output: Option<Value>,
    /// Whether the request needs `Accept: application/json`, because the response is also available in other
    /// formats.
    as_json: bool,
}

/// The successful response of an operation. An operation with several kinds of success gets no output schema,
/// because a schema is enforced on every success.
fn success(document: &Document, operation: &Value) -> Success {
    let none = Success::default();
    let mut successes = members(operation.get("responses")).filter(|(status, _)| status.starts_with('2'));
    let (Some((_, response)), None) = (successes.next(), successes.next()) else { return none };
    let Ok(response) = document.resolved(response) else { return none };
    let contents: Vec<(&String, &Value)> = members(response.get("content")).collect();
    let Some((_, described)) = contents.iter().find(|(name, _)| is_json(essence(name))) else { return none };
    let as_json = contents.iter().any(|(name, _)| !is_json(essence(name)));
    let copied = described.get("schema").and_then(|written| schema(document, written, SchemaUse::Output));
    // A schema without a type has no information.
    Success { output: copied.filter(|schema| schema.get("type").is_some()), as_json }
}

/// Tool name from the ID of an operation, such as `list_pets`, or from its method and path.
fn name_of(id: Option<&str>, method: &str, path: &str) -> String {
    let plain = |text: &str| -> String {
        let text: String = text
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' })
            .collect();
        let words: Vec<&str> = text.split('_').filter(|word| !word.is_empty()).collect();
        words.join("_").chars().take(MAX_NAME_LENGTH).collect()
    };
    let name = id.map(plain).unwrap_or_default();
    if name.is_empty() { plain(&format!("{method}_{path}")) } else { name }
}

/// The name, with a number appended if it is taken.
fn unused_name(name: &str, taken: &BTreeSet<String>) -> String {
    let mut free = name.to_owned();
    let mut count = 2;
    while taken.contains(&free) {
        let begins: String = name.chars().take(MAX_NAME_LENGTH - 4).collect();
        free = format!("{begins}_{count}");
        count += 1;
    }
    free
}

/// Parts of a request in configuration syntax, and the arguments that they use.
#[derive(Debug, Default)]
pub(super) struct RequestParts {
    pub(super) path: String,
    pub(super) query: Map<String, Value>,
    pub(super) headers: Map<String, Value>,
    pub(super) body: Option<Value>,
    /// Properties of `input`.
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<Value>,
    /// Remarks on omitted parts.
    pub(super) omissions: Vec<String>,
}

/// Headers that parameters can't set (OpenAPI 3.1, section 4.8.12.2), or that belong to the connection.
const NO_PARAMETERS: [&str; 9] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Converts the parameters and the body of an operation; an error message if no request can be built.
fn parts(
    document: &Document,
    path: &str,
    shared: Option<&Value>,
    operation: &Value,
) -> Result<RequestParts, String> {
    let mut parts = RequestParts { path: path.to_owned(), ..RequestParts::default() };
    let mut seen = BTreeSet::new();
    // Parameters of the operation come first, because they override those of the path with the same name.
    for written in items(operation.get("parameters")).chain(items(shared)) {
        let parameter = document.resolved(written)?;
        let text = |name: &str| parameter.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, place) = (text("name"), text("in"));
        if !name.is_empty() && seen.insert((name.to_owned(), place.to_owned())) {
            parts.parameter(document, parameter, name, place)?;
        }
    }
    if let Some(body) = operation.get("requestBody") {
        let body = document.resolved(body)?;
        parts.body(document, body)?;
    }
    Ok(parts)
}

impl RequestParts {
    fn parameter(
        &mut self,
        document: &Document,
        parameter: &Value,
        name: &str,
        place: &str,
    ) -> Result<(), String> {
        let flag = |word: &str| parameter.get(word).and_then(Value::as_bool);
        let is_needed = place == "path" || flag("required") == Some(true);
        let style = parameter.get("style").and_then(Value::as_str);
        let schema_written = parameter.get("schema");
        let reason = match (place, style, schema_written) {
            (_, _, None) => Some("it has its own media type"),
            ("path", None | Some("simple"), _) | ("query", None | Some("form"), _) => None,
            ("header", _, _) if NO_PARAMETERS.contains(&name.to_ascii_lowercase().as_str()) => return Ok(()),
            ("header", _, _) => None,
            ("cookie", ..) => Some("it is a cookie"),
            _ => Some("its style is not supported by templates"),
        };
        let copied = schema_written.map(|written| schema(document, written, SchemaUse::Input));
        let reason = match copied {
            Some(None) => reason.or(Some("its schema has a broken `$ref`")),
            _ => reason,
        };
        if let Some(reason) = reason {
            if is_needed {
                return Err(format!("it needs the parameter `{name}`, and {reason}"));
            }
            self.omissions.push(format!("without the parameter `{name}`: {reason}"));
            return Ok(());
        }
        let mut copied = copied.flatten().unwrap_or_default();
        if let (Some(text), Some(object)) =
            (parameter.get("description").and_then(Value::as_str), copied.as_object_mut())
            && !text.trim().is_empty()
        {
            object.insert("description".into(), shortened(text, MAX_DESCRIPTION_LENGTH).into());
        }
        let is_list = copied.get("type").and_then(Value::as_str) == Some("array");
        let argument = self.argument(name, copied, is_needed);
        match place {
            "path" => {
                self.path = self.path.replace(&format!("{{{name}}}"), &format!("{{{argument}}}"));
                if !self.path.contains(&format!("{{{argument}}}")) {
                    return Err(format!("its path does not contain the parameter `{name}`"));
                }
            }
            "query" => {
                let one_word = is_list && flag("explode") == Some(false);
                let template = match one_word {
                    true => format!("{{{{ args.{argument} | default([]) | join(',') }}}}"),
                    false => format!("{{{{ args.{argument} }}}}"),
                };
                self.query.insert(name.to_owned(), template.into());
            }
            _ => {
                let template = match (is_list, is_needed) {
                    (true, _) => format!("{{{{ args.{argument} | default([]) | join(',') }}}}"),
                    (false, true) => format!("{{{{ args.{argument} }}}}"),
                    (false, false) => format!("{{{{ args.{argument} | default('') }}}}"),
                };
                self.headers.insert(name.to_owned(), template.into());
            }
        }
        Ok(())
    }

    fn body(&mut self, document: &Document, body: &Value) -> Result<(), String> {
        let content: Vec<(&String, &Value)> = members(body.get("content")).collect();
        let is_needed = body.get("required").and_then(Value::as_bool).unwrap_or_default();
        let find = |fits: fn(&str) -> bool| content.iter().find(|(name, _)| fits(essence(name)));
        let chosen = find(is_json).or_else(|| find(is_form)).or_else(|| find(|name| name == "text/plain"));
        let Some((media_type, described)) = chosen else {
            let kinds: Vec<_> = content.iter().map(|(name, _)| format!("`{}`", essence(name))).collect();
            let kinds = kinds.join(", ");
            if is_needed {
                return Err(format!("its body is {kinds}, and only JSON, forms and text are supported"));
            }
            self.omissions.push(format!("without a body, which is {kinds}"));
            return Ok(());
        };
        let media_type = essence(media_type);
        let written = described.get("schema").cloned().unwrap_or_else(|| json!({}));
        let copied = schema(document, &written, SchemaUse::Input)
            .ok_or("the schema of its body has a broken `$ref`")?;
        if is_json(media_type) && !matches!(media_type, "application/json" | "*/*") {
            self.headers.insert("Content-Type".into(), media_type.into());
        }
        let fields = copied.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty());
        let is_open =
            copied.get("anyOf").is_some() || copied.get("additionalProperties").is_some_and(Value::is_object);
        match fields.filter(|_| !is_open && media_type != "text/plain") {
            Some(fields) => {
                let required: Vec<&str> = items(copied.get("required")).filter_map(Value::as_str).collect();
                let mut template = Map::new();
                for (name, field) in fields {
                    let needed = is_needed && required.contains(&name.as_str());
                    let argument = self.argument(name, field.clone(), needed);
                    template.insert(name.clone(), format!("{{{{ args.{argument} }}}}").into());
                }
                let kind = if is_form(media_type) { "form" } else { "json" };
                self.body = Some(json!({ kind: template }));
            }
            None if is_form(media_type) => return Err("its form declares no fields".to_owned()),
            None => {
                let kind = if media_type == "text/plain" { "text" } else { "json" };
                let argument = self.argument("body", copied, true);
                self.body = Some(json!({ kind: format!("{{{{ args.{argument} }}}}") }));
            }
        }
        Ok(())
    }

    /// Adds an argument, and returns its name: valid in templates, and unique.
    fn argument(&mut self, name: &str, schema: Value, is_needed: bool) -> String {
        let mut plain: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
        plain = plain.trim_matches('_').to_owned();
        if plain.is_empty() || plain.starts_with(|c: char| c.is_ascii_digit()) {
            plain.insert_str(0, "value_");
        }
        let mut argument = plain.clone();
        let mut count = 2;
        while self.properties.contains_key(&argument) {
            argument = format!("{plain}_{count}");
            count += 1;
        }
        self.properties.insert(argument.clone(), schema);
        if is_needed {
            self.required.push(argument.clone().into());
        }
        argument
    }
}

/// Media type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

fn is_json(media_type: &str) -> bool {
    matches!(media_type, "application/json" | "text/json" | "*/*") || media_type.ends_with("+json")
}

fn is_form(media_type: &str) -> bool {
    media_type == "application/x-www-form-urlencoded"
}
