//! What a call takes, and where in the request each of it lands.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    document::{Document, items, members},
    schema::{LONGEST_DESCRIPTION, Use, schema, shortened},
};

/// The parts of a request, in the words of the configuration, and the arguments that are put into them.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) path: String,
    pub(super) query: Map<String, Value>,
    pub(super) headers: Map<String, Value>,
    pub(super) body: Option<Value>,
    /// The properties of `input`.
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<Value>,
    /// What is not in it.
    pub(super) left_out: Vec<String>,
}

/// Headers that no parameter sets (OpenAPI 3.1, section 4.8.12.2), or that belong to the connection.
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

/// Reads the parameters and the body of an operation. In words why no request can be made of it.
pub(super) fn parts(
    document: &Document,
    path: &str,
    shared: Option<&Value>,
    operation: &Value,
) -> Result<Parts, String> {
    let mut parts = Parts { path: path.to_owned(), ..Parts::default() };
    let mut seen = BTreeSet::new();
    // Those of the operation come first, as they stand for those of the path with the same name.
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

impl Parts {
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
        let why = match (place, style, schema_written) {
            (_, _, None) => Some("it is written in a media type of its own"),
            ("path", None | Some("simple"), _) | ("query", None | Some("form"), _) => None,
            ("header", _, _) if NO_PARAMETERS.contains(&name.to_ascii_lowercase().as_str()) => return Ok(()),
            ("header", _, _) => None,
            ("cookie", ..) => Some("it is a cookie"),
            _ => Some("it is written in a style that templates do not have"),
        };
        let copied = schema_written.map(|written| schema(document, written, Use::Input));
        let why = match copied {
            Some(None) => why.or(Some("its schema refers to what is not there")),
            _ => why,
        };
        if let Some(why) = why {
            if is_needed {
                return Err(format!("it needs the parameter `{name}`, and {why}"));
            }
            self.left_out.push(format!("without the parameter `{name}`: {why}"));
            return Ok(());
        }
        let mut copied = copied.flatten().unwrap_or_default();
        if let (Some(text), Some(object)) =
            (parameter.get("description").and_then(Value::as_str), copied.as_object_mut())
            && !text.trim().is_empty()
        {
            object.insert("description".into(), shortened(text, LONGEST_DESCRIPTION).into());
        }
        let is_list = copied.get("type").and_then(Value::as_str) == Some("array");
        let argument = self.argument(name, copied, is_needed);
        match place {
            "path" => {
                self.path = self.path.replace(&format!("{{{name}}}"), &format!("{{{argument}}}"));
                if !self.path.contains(&format!("{{{argument}}}")) {
                    return Err(format!("its path has no place for the parameter `{name}`"));
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
                return Err(format!("its body is {kinds}, and only JSON, forms and text are sent"));
            }
            self.left_out.push(format!("without a body, which is {kinds}"));
            return Ok(());
        };
        let media_type = essence(media_type);
        let written = described.get("schema").cloned().unwrap_or_else(|| json!({}));
        let copied = schema(document, &written, Use::Input)
            .ok_or("the schema of its body refers to what is not there")?;
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
            None if is_form(media_type) => return Err("its form does not say which fields it has".to_owned()),
            None => {
                let kind = if media_type == "text/plain" { "text" } else { "json" };
                let argument = self.argument("body", copied, true);
                self.body = Some(json!({ kind: format!("{{{{ args.{argument} }}}}") }));
            }
        }
        Ok(())
    }

    /// Adds an argument, and tells the name that it has: one that templates can say, and that is not taken.
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

/// A media type without its parameters.
pub(super) fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

pub(super) fn is_json(media_type: &str) -> bool {
    matches!(media_type, "application/json" | "text/json" | "*/*") || media_type.ends_with("+json")
}

fn is_form(media_type: &str) -> bool {
    media_type == "application/x-www-form-urlencoded"
}
