//! Conversion of one OpenAPI operation to a route.

use std::{collections::BTreeSet, iter};

use serde_json::{Value, json};

use super::schema::{SchemaUse, description, schema, shortened};
use super::{ImportRemark, OpenApiDocument, items, members};
use crate::authoring::{joined_words, without_empty};
use crate::config::{quoted_list, yaml};

/// HTTP methods whose operations become tools.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// Maximum length of a generated tool name, in characters; every client accepts this length.
const MAX_NAME_LENGTH: usize = 64;
/// Maximum lengths of the title and the description of a tool, in characters.
const MAX_TITLE_LENGTH: usize = 120;
const MAX_ROUTE_DESCRIPTION_LENGTH: usize = 1000;

/// Operation that has been converted to a route.
pub(super) struct Operation {
    /// Name of the tool.
    pub(super) name: String,
    /// Method and path in the document, such as `GET /pets/{id}`.
    pub(super) about: String,
    /// The route in configuration syntax, as JSON.
    route: Value,
}

impl Operation {
    /// Converts the operations of a document that have one of `tags`; without `tags`, all operations. Adds a
    /// remark for each operation that cannot become a route, and for each omitted part of the others.
    pub(super) fn all(
        document: &OpenApiDocument,
        upstream: &str,
        tags: &[String],
        remarks: &mut Vec<ImportRemark>,
    ) -> Vec<Self> {
        let (mut operations, mut names) = (Vec::new(), BTreeSet::new());
        for (path, node) in members(&document.root["paths"]) {
            let item = match document.resolved(node) {
                Ok(item) => item,
                Err(reason) => {
                    remarks.push(ImportRemark::new(path, format!("omitted: {reason}")));
                    continue;
                }
            };
            for method in METHODS {
                let Some(operation) = item.get(method) else { continue };
                let mut tagged = items(&operation["tags"]).filter_map(Value::as_str);
                if !tags.is_empty() && !tagged.any(|tag| tags.iter().any(|requested| requested == tag)) {
                    continue;
                }
                let about = format!("{} {path}", method.to_ascii_uppercase());
                let omissions = match convert(document, upstream, &about, item, operation) {
                    Ok(Converter { route, omissions, .. }) => {
                        let id = operation["operationId"].as_str();
                        let name = unused_name(name_of(id, method, path), |name| names.contains(name));
                        names.insert(name.clone());
                        operations.push(Self { name, about: about.clone(), route });
                        omissions
                    }
                    Err(reason) => vec![format!("omitted: {reason}")],
                };
                remarks.extend(omissions.into_iter().map(|text| ImportRemark::new(&about, text)));
            }
        }
        operations
    }

    /// Formats the route for the configuration file.
    pub(super) fn to_yaml(&self) -> String {
        format!("  {}:{}\n", yaml::text(&self.name), yaml::block(&self.route, 2))
    }

    /// Removes the output schema; returns whether there was one.
    pub(super) fn remove_output(&mut self) -> bool {
        self.route.as_object_mut().and_then(|route| route.shift_remove("output")).is_some()
    }
}

/// Converts the operation `about` (`METHOD /path`) to a route. Returns an error message if no request can be
/// built.
fn convert<'d>(
    document: &'d OpenApiDocument,
    upstream: &str,
    about: &str,
    item: &Value,
    operation: &Value,
) -> Result<Converter<'d>, String> {
    let (method, path) = about.split_once(' ').unwrap_or_default();
    let text = |name: &str, max_length: usize| {
        let text = operation[name].as_str().filter(|text| !text.trim().is_empty());
        text.map(|text| shortened(text, max_length))
    };
    let mut description = text("description", MAX_ROUTE_DESCRIPTION_LENGTH)
        .or_else(|| text("summary", MAX_ROUTE_DESCRIPTION_LENGTH))
        .unwrap_or_else(|| format!("{about}."));
    if operation["deprecated"] == true {
        description.insert_str(0, "Deprecated. ");
    }
    let annotations = match method {
        "GET" => json!({ "readOnlyHint": true }),
        "PUT" => json!({ "idempotentHint": true }),
        "DELETE" => json!({ "destructiveHint": true, "idempotentHint": true }),
        _ => Value::Null,
    };
    let (output, needs_accept) = success_schema(document, operation);
    let route = json!({
        "title": text("summary", MAX_TITLE_LENGTH).filter(|title| *title != description),
        "description": description,
        "annotations": annotations,
        "request": { "upstream": upstream, "method": method, "path": path, "query": {}, "headers": {} },
        "input": { "type": "object", "properties": {}, "required": [] },
        "output": output,
    });
    let mut converter = Converter { document, route, omissions: Vec::new() };
    converter.convert_request(item, operation)?;
    let route = &mut converter.route;
    if needs_accept {
        route["request"]["headers"]["Accept"] = "application/json".into();
    }
    let request = without_empty(route["request"].take());
    route["request"] = match (request.len(), request["path"].as_str()) {
        // The request has only upstream, method and path, which is the short form.
        (3, Some(path)) => format!("{method} {upstream}{path}").into(),
        _ => request.into(),
    };
    let input = without_empty(route["input"].take());
    route["input"] = if input.contains_key("properties") { input.into() } else { Value::Null };
    converter.route = without_empty(converter.route).into();
    Ok(converter)
}

/// Returns the schema of an operation's successful response, if the response is JSON. Also returns whether
/// the request needs `Accept: application/json`, because the response is available in other formats too.
///
/// If the operation has several success statuses, the schema is omitted, because an output schema is enforced
/// on every success.
fn success_schema(document: &OpenApiDocument, operation: &Value) -> (Option<Value>, bool) {
    let mut successes = members(&operation["responses"]).filter(|(status, _)| status.starts_with('2'));
    let (Some((_, response)), None) = (successes.next(), successes.next()) else { return (None, false) };
    let Ok(response) = document.resolved(response) else { return (None, false) };
    let contents = || members(&response["content"]);
    let Some((_, media_type_object)) = contents().find(|(name, _)| is_json(essence(name))) else {
        return (None, false);
    };
    let output_schema =
        media_type_object.get("schema").and_then(|node| schema(document, node, SchemaUse::Output));
    // A schema without `type` mostly allows any value.
    let output = output_schema.filter(|schema| schema.get("type").is_some());
    (output, contents().any(|(name, _)| !is_json(essence(name))))
}

/// Makes a tool name from the `operationId`, or from method and path if there is none. Each run of characters
/// other than ASCII letters, digits, `-` and `.` becomes `_`, and the name is cut to [`MAX_NAME_LENGTH`].
fn name_of(id: Option<&str>, method: &str, path: &str) -> String {
    let plain = |text: &str| -> String {
        let words = joined_words(text, |c| c.is_ascii_alphanumeric() || "-.".contains(c));
        words.chars().take(MAX_NAME_LENGTH).collect()
    };
    let name = id.map(plain).unwrap_or_default();
    if name.is_empty() { plain(&format!("{method}_{path}")) } else { name }
}

/// Returns the name, with a number appended if the name is already used.
fn unused_name(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    let prefix: String = name.chars().take(MAX_NAME_LENGTH - 4).collect();
    let numbered = (2..).map(|number: u64| format!("{prefix}_{number}"));
    iter::once(name).chain(numbered).find(|name| !is_taken(name)).expect("there is always another number")
}

/// Converter of one operation: adds the parts of the request to a route, and the arguments that they use.
struct Converter<'d> {
    document: &'d OpenApiDocument,
    /// The route in configuration syntax, as JSON. It has all keys from the beginning; keys that remain empty
    /// are removed at the end.
    route: Value,
    /// Remarks on omitted parts.
    omissions: Vec<String>,
}

/// Headers that OpenAPI parameters cannot set (OpenAPI 3.1, section 4.8.12.2), or that belong to the
/// connection.
const IGNORED_HEADERS: &str =
    "accept authorization connection content-length content-type host te transfer-encoding upgrade";

/// Template filters that join the items of a list parameter with commas.
const JOINED: &str = " | default([]) | join(',')";

impl Converter<'_> {
    /// Converts the parameters and the body of an operation. Returns an error message if no request can be
    /// built.
    fn convert_request(&mut self, item: &Value, operation: &Value) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        // Parameters of the operation come first, because they override parameters of the path with the same
        // name and location.
        for node in items(&operation["parameters"]).chain(items(&item["parameters"])) {
            let parameter = self.document.resolved(node)?;
            let text = |name: &str| parameter[name].as_str().unwrap_or_default();
            let (name, location) = (text("name"), text("in"));
            if !name.is_empty() && seen.insert((name.to_owned(), location.to_owned())) {
                self.convert_parameter(parameter, name, location)?;
            }
        }
        if let Some(body) = operation.get("requestBody") {
            self.convert_body(self.document.resolved(body)?)?;
        }
        if operation.get("servers").is_some() || item.get("servers").is_some() {
            self.omissions.push("requested at the URL of the document, not at its own server".to_owned());
        }
        Ok(())
    }

    /// Omits an optional part of the request; returns an error message if the part is required.
    fn omit(&mut self, is_needed: bool, part: &str, reason: &str) -> Result<(), String> {
        if is_needed {
            return Err(format!("{part} is required, and {reason}"));
        }
        self.omissions.push(format!("without {part}: {reason}"));
        Ok(())
    }

    fn convert_parameter(&mut self, parameter: &Value, name: &str, location: &str) -> Result<(), String> {
        let is_needed = location == "path" || parameter["required"] == true;
        let lower_name = name.to_ascii_lowercase();
        let converted = match (location, parameter["style"].as_str(), parameter.get("schema")) {
            (_, _, None) => Err("it has no `schema`"),
            ("header", ..) if IGNORED_HEADERS.split(' ').any(|header| header == lower_name) => return Ok(()),
            ("path", None | Some("simple"), Some(node))
            | ("query", None | Some("form"), Some(node))
            | ("header", _, Some(node)) => schema(self.document, node, SchemaUse::Input)
                .ok_or("its schema is too large or has a dangling `$ref`"),
            ("cookie", ..) => Err("it is a cookie"),
            _ => Err("its style is not supported by templates"),
        };
        let converted = converted.and_then(|converted| match location {
            "path" if has_type(&converted, "array") => Err("a path can't contain a list"),
            _ if has_type(&converted, "object") => Err("it is an object, which only a body can contain"),
            _ => Ok(converted),
        });
        let mut converted = match converted {
            Ok(converted) => converted,
            Err(reason) => return self.omit(is_needed, &format!("the parameter `{name}`"), reason),
        };
        if let Some(text) = description(&parameter["description"]) {
            converted["description"] = text;
        }
        let is_list = has_type(&converted, "array");
        let argument = self.add_argument(name, converted, is_needed);
        let request = &mut self.route["request"];
        match location {
            "path" => {
                let path = request["path"].as_str().unwrap_or_default();
                let path = path.replace(&format!("{{{name}}}"), &format!("{{{argument}}}"));
                if !path.contains(&format!("{{{argument}}}")) {
                    return Err(format!("its path does not contain the parameter `{name}`"));
                }
                request["path"] = path.into();
            }
            "query" => {
                let is_joined = is_list && parameter["explode"] == false;
                request["query"][name] = template(&argument, if is_joined { JOINED } else { "" });
            }
            _ => {
                let filters = match (is_list, is_needed) {
                    (true, _) => JOINED,
                    (false, true) => "",
                    (false, false) => " | default('')",
                };
                request["headers"][name] = template(&argument, filters);
            }
        }
        Ok(())
    }

    fn convert_body(&mut self, body: &Value) -> Result<(), String> {
        let content: Vec<(&String, &Value)> = members(&body["content"]).collect();
        let is_needed = body["required"] == true;
        let find = |fits: fn(&str) -> bool| content.iter().find(|(name, _)| fits(essence(name)));
        let chosen = find(is_json).or_else(|| find(is_form)).or_else(|| find(|name| name == "text/plain"));
        let Some((media_type, media_type_object)) = chosen else {
            let kinds = quoted_list(content.iter().map(|(name, _)| essence(name)));
            let reason = format!("it is {kinds}; only JSON, forms and text are supported");
            return self.omit(is_needed, "a body", &reason);
        };
        let media_type = essence(media_type);
        let converted = schema(self.document, &media_type_object["schema"], SchemaUse::Input)
            .ok_or("the schema of its body is too large or has a dangling `$ref`")?;
        if is_json(media_type) && !matches!(media_type, "application/json" | "*/*") {
            self.route["request"]["headers"]["Content-Type"] = media_type.into();
        }
        let fields = converted["properties"].as_object().filter(|fields| !fields.is_empty());
        let is_open = converted.get("anyOf").is_some() || converted["additionalProperties"].is_object();
        match fields.filter(|_| !is_open && media_type != "text/plain") {
            Some(fields) => {
                let kind = if is_form(media_type) { "form" } else { "json" };
                for (name, field) in fields {
                    let is_needed =
                        is_needed && items(&converted["required"]).any(|required| required == name);
                    let argument = self.add_argument(name, field.clone(), is_needed);
                    self.route["request"]["body"][kind][name] = template(&argument, "");
                }
            }
            None if is_form(media_type) => return Err("its form declares no fields".to_owned()),
            None => {
                let kind = if media_type == "text/plain" { "text" } else { "json" };
                let argument = self.add_argument("body", converted, true);
                self.route["request"]["body"] = json!({ kind: template(&argument, "") });
            }
        }
        Ok(())
    }

    /// Adds an argument to the input schema; returns its name, which is unique and valid in templates.
    fn add_argument(&mut self, name: &str, schema: Value, is_needed: bool) -> String {
        let mut identifier: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
        identifier = identifier.trim_matches('_').to_owned();
        if identifier.is_empty() || identifier.starts_with(|c: char| c.is_ascii_digit()) {
            identifier.insert_str(0, "value_");
        }
        let input = &mut self.route["input"];
        let argument = unused_name(identifier, |name| input["properties"].get(name).is_some());
        input["properties"][&argument] = schema;
        if let Some(required) = input["required"].as_array_mut().filter(|_| is_needed) {
            required.push(argument.clone().into());
        }
        argument
    }
}

/// Whether the type of a schema is `name`, or a list of `name` and `null`: `[array, "null"]`.
fn has_type(schema: &Value, name: &str) -> bool {
    let is_or_null = |other: &Value| other == name || other == "null";
    schema["type"] == name
        || (items(&schema["type"]).any(|other| other == name) && items(&schema["type"]).all(is_or_null))
}

/// Template that inserts an argument.
fn template(argument: &str, filters: &str) -> Value {
    format!("{{{{ args.{argument}{filters} }}}}").into()
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
