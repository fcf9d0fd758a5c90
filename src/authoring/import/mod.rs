//! Import of OpenAPI 3 documents as routes.
//!
//! This file parses the document, follows its `$ref`s, and builds the configuration, with remarks on omitted
//! parts. `operation` converts an operation with its parameters to a route; `schema` simplifies schemas for
//! clients.
//!
//! The generated configuration loads without errors. If a route does not load, its output schema is omitted;
//! if it still does not load, the route is omitted.

mod operation;
mod schema;

use std::slice;

use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Map, Value};

use self::operation::Operation;
use self::schema::shortened;
use super::joined_words;
use crate::config::{self, Sources, yaml};

/// Maximum number of imported operations of a document; each becomes a route.
pub const ROUTE_LIMIT: usize = 500;

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportResult {
    /// Generated configuration file.
    #[serde(rename = "config")]
    pub yaml: String,
    /// Number of routes.
    pub routes: usize,
    /// Differences between the document and the configuration.
    pub remarks: Vec<ImportRemark>,
}

/// Difference between the document and its import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportRemark {
    /// Part of the document, such as `GET /pets`.
    pub about: String,
    /// Change or omission, with its reason.
    #[serde(rename = "what")]
    pub text: String,
}

impl ImportRemark {
    fn new(about: &str, text: String) -> Self {
        Self { about: about.to_owned(), text }
    }
}

/// Converts an OpenAPI 3 document to a configuration. `source` is the document's name, for a comment in the
/// file. `url` replaces the document's first server. Imports the operations that have one of `tags`; without
/// `tags`, all operations.
///
/// # Errors
///
/// The reason why the document cannot be imported: its version, its server URL, or its operations.
pub fn openapi(
    document: Value,
    source: &str,
    url: Option<&str>,
    tags: &[String],
) -> Result<ImportResult, String> {
    let document = OpenApiDocument::new(document)?;
    let mut remarks = Vec::new();
    let upstream = upstream_name(&document);
    let operations = Operation::all(&document, &upstream, tags, &mut remarks);
    if operations.len() > ROUTE_LIMIT {
        let found = operations.len();
        return Err(format!(
            "a document may have at most {ROUTE_LIMIT} operations, found {found}; select some with `--tag`"
        ));
    }
    let url = url.map_or_else(|| server_url(&document), |url| Ok(url.to_owned()))?;
    let head = file_header(&document, &upstream, &url, source);
    if let Err(reason) = check_loading(&format!("{head}passthrough: {upstream}\n")) {
        return Err(format!("`{url}` is not a usable server URL: {reason}; {SET_URL}"));
    }
    let (yaml, routes) = config_file(&head, operations, &mut remarks)
        .ok_or("the document has no operation that can become a route")?;
    Ok(ImportResult { yaml, routes, remarks })
}

/// Help for a document whose server URL is not usable.
const SET_URL: &str = "set `--url http://HOST:PORT/BASE`";

/// Maximum number of consecutive `$ref`s that are followed.
const REFERENCE_LIMIT: usize = 16;

/// An OpenAPI 3 document.
struct OpenApiDocument {
    root: Value,
}

impl OpenApiDocument {
    fn new(root: Value) -> Result<Self, String> {
        let found = match (root.get("openapi"), root.get("swagger")) {
            (Some(Value::String(version)), _) if version.starts_with("3.") => return Ok(Self { root }),
            (Some(version), _) => format!("`openapi: {version}`"),
            (None, Some(version)) => {
                format!("`swagger: {version}`, which is older; converters to version 3 exist")
            }
            (None, None) => "neither `openapi` nor `swagger` in it".to_owned(),
        };
        Err(format!("expected an OpenAPI document with `openapi: 3.0` or `3.1`, found {found}"))
    }

    /// Follows the `$ref` of a value, and further `$ref`s of its target. Returns an error message if a
    /// reference is dangling, refers to another document, or is in a chain that is too long.
    fn resolved<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..REFERENCE_LIMIT {
            let Some(reference) = reference_of(value) else { return Ok(value) };
            let Some(pointer) = reference.strip_prefix('#') else {
                return Err(format!("`{reference}` refers to another document, which is not supported"));
            };
            let pointer = percent_decode_str(pointer).decode_utf8_lossy();
            value = self.root.pointer(&pointer).ok_or_else(|| format!("`{reference}` refers to nothing"))?;
        }
        Err(format!("more than {REFERENCE_LIMIT} references in a chain"))
    }

    /// Returns a member of the document's `info`, if it is a string.
    fn info(&self, name: &str) -> Option<&str> {
        self.root["info"][name].as_str()
    }
}

/// Returns the target of a value's `$ref`; `None` if the value has no `$ref`.
fn reference_of(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// Iterates over the members of an object; nothing for other values.
fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Iterates over the items of a list; nothing for other values.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Maximum length of a generated upstream name, in characters.
const MAX_NAME_LENGTH: usize = 40;

/// Builds the text of the configuration file. Drops operations with which it does not load, with a remark.
/// Returns the text and the number of its routes; `None` if none is left.
fn config_file(
    head: &str,
    mut operations: Vec<Operation>,
    remarks: &mut Vec<ImportRemark>,
) -> Option<(String, usize)> {
    let to_config = |operations: &[Operation]| {
        let texts: String = operations.iter().map(Operation::to_yaml).collect();
        format!("{head}routes:\n{texts}")
    };
    if !operations.is_empty() && check_loading(&to_config(&operations)).is_err() {
        operations.retain_mut(|operation| {
            let check_alone = |operation: &Operation| check_loading(&to_config(slice::from_ref(operation)));
            let Err(reason) = check_alone(operation) else { return true };
            let is_kept = operation.remove_output() && check_alone(operation).is_ok();
            let change = if is_kept { "without an output schema" } else { "omitted" };
            remarks.push(ImportRemark::new(&operation.about, format!("{change}: {reason}")));
            is_kept
        });
    }
    // Routes that are valid alone may conflict: operations are dropped from the end until the rest loads.
    while !operations.is_empty()
        && let Err(reason) = check_loading(&to_config(&operations))
        && let Some(operation) = operations.pop()
    {
        remarks.push(ImportRemark::new(&operation.about, format!("omitted: {reason}")));
    }
    (!operations.is_empty()).then(|| (to_config(&operations), operations.len()))
}

/// Loads a configuration; returns the message of the first error.
fn check_loading(yaml: &str) -> Result<(), String> {
    let loaded = config::load(&Sources::from_text("imported.yaml", yaml));
    loaded.map(drop).map_err(|problems| problems.first_error().to_owned())
}

fn file_header(document: &OpenApiDocument, upstream: &str, url: &str, source: &str) -> String {
    let title = shortened(document.info("title").unwrap_or("an API"), 80);
    let version = shortened(document.info("version").unwrap_or_default(), 30);
    let (source, url) = (shortened(source, 80), yaml::text(url));
    let hints = credential_hints(document, upstream).into_iter().map(|hint| format!("    # {hint}\n"));
    let hints: String = hints.collect();
    let upstream = match hints.is_empty() {
        true => format!("  {upstream}: {url}\n"),
        false => format!("  {upstream}:\n    url: {url}\n    # The API requires credentials:\n{hints}"),
    };
    format!(
        "# {title} {version}, generated from {source} by `glossator import openapi`.\n\
         # Every operation becomes a tool. Models choose better among few tools: keep the useful ones,\n\
         # and describe in each when to call it. Results are checked against `output`; where the API\n\
         # returns something else than its document declares, change it.\n\nupstreams:\n{upstream}\n"
    )
}

/// Hints in configuration syntax for the credentials that the API requires.
fn credential_hints(document: &OpenApiDocument, upstream: &str) -> Vec<String> {
    let variable = upstream.to_ascii_uppercase().replace('-', "_");
    let bearer = || format!("credentials: {{ bearer: \"${{{variable}_TOKEN}}\" }}");
    let mut hints = Vec::new();
    for (_, node) in members(&document.root["components"]["securitySchemes"]) {
        let Ok(scheme) = document.resolved(node) else { continue };
        let text = |name: &str| scheme[name].as_str().unwrap_or_default();
        // The text is quoted as a YAML string, so that a line break in it does not end the comment.
        let quoted = |text: &str| yaml::text(&shortened(text, 200));
        hints.push(match (text("type"), text("scheme"), text("in")) {
            ("http", "basic", _) => {
                format!("credentials: {{ basic: {{ user: NAME, password: \"${{{variable}_PASSWORD}}\" }} }}")
            }
            ("http", _, _) | ("openIdConnect", _, _) => bearer(),
            ("apiKey", _, "header") => {
                format!("headers: {{ {}: \"${{{variable}_KEY}}\" }}", quoted(text("name")))
            }
            ("apiKey", _, location) => {
                let (name, location) = (quoted(text("name")), quoted(location));
                format!("a key in the {location}, `{name}`: `credentials` does not support this")
            }
            ("oauth2", _, _) => {
                let token_url = scheme["flows"]["clientCredentials"]["tokenUrl"].as_str();
                token_url.map(quoted).map_or_else(bearer, |token_url| {
                    format!(
                        "credentials: {{ oauth: {{ token_url: {token_url}, client_id: NAME, \
                         client_secret: \"${{{variable}_SECRET}}\" }} }}"
                    )
                })
            }
            ("mutualTLS", _, _) => "tls: { certificate: file:/path, key: file:/path }".to_owned(),
            _ => continue,
        });
    }
    hints.dedup();
    hints.truncate(8);
    hints
}

/// Returns the URL of the first server, with the default values of its variables.
fn server_url(document: &OpenApiDocument) -> Result<String, String> {
    let server = &document.root["servers"][0];
    let mut url = server["url"].as_str().unwrap_or("/").to_owned();
    for (name, variable) in members(&server["variables"]) {
        if let Some(default) = variable["default"].as_str() {
            url = url.replace(&format!("{{{name}}}"), default);
        }
    }
    match url.contains("://") {
        true => Ok(url),
        // A relative URL refers to the URL of the document, which is unknown.
        false => Err(format!("the server URL of the document is relative or missing; {SET_URL}")),
    }
}

fn upstream_name(document: &OpenApiDocument) -> String {
    let title = document.info("title").unwrap_or_default().to_ascii_lowercase();
    let words = joined_words(&title, |c| c.is_ascii_alphanumeric());
    let name: String = words.chars().take(MAX_NAME_LENGTH).collect();
    let name = name.trim_matches('_');
    if name.is_empty() { "api".to_owned() } else { name.to_owned() }
}
