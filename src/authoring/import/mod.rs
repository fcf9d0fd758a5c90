//! Import of an API description (OpenAPI 3) as routes.
//!
//! This file parses the document with its `$ref`s, and writes the configuration with remarks on omitted
//! parts. `operation` converts an operation to a route, with its parameters; `schema` simplifies schemas for
//! clients.
//!
//! The output loads without errors. A route that does not load is written without its output schema, and
//! omitted if that does not help.

mod operation;
mod schema;

use std::fmt::Write;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use self::{operation::Operation, schema::shortened};
use crate::config::{self, Sources, yaml};

/// Maximum number of operations of a document; each becomes a route.
pub const ROUTE_LIMIT: usize = 500;

/// Options of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Name of the document, for a comment in the file.
    pub source: String,
    /// URL of the API, in place of the document's first server.
    pub url: Option<String>,
    /// Tags of the operations to import; all if there are none.
    pub tags: Vec<String>,
}

/// Imported configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportResult {
    /// Configuration file.
    pub yaml: String,
    /// Number of routes.
    pub routes: usize,
    /// Differences from the document.
    pub remarks: Vec<ImportRemark>,
}

/// Difference between the document and its import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRemark {
    /// Part of the document that differs, such as `GET /pets`.
    pub about: String,
    /// What was changed or omitted, and why.
    pub text: String,
}

/// Reason why a document can't be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It is not an OpenAPI 3 document.
    #[error("expected an OpenAPI document with `openapi: 3.0` or `3.1`, found {found}")]
    Version {
        /// Found version.
        found: String,
    },
    /// It does not name the URL of the API.
    #[error("the document has no server URL; set `--url http://HOST:PORT/BASE`")]
    NoServer,
    /// The URL of the API can't be used.
    #[error("`{url}` is not a usable server URL: {reason}; set `--url http://HOST:PORT/BASE`")]
    Server {
        /// The URL.
        url: String,
        /// The problem with it.
        reason: String,
    },
    /// It has no operation that can become a route.
    #[error("the document has no operation that can become a route")]
    Nothing,
    /// It has too many operations.
    #[error("a document may have at most {ROUTE_LIMIT} operations, found {found}; select some with `--tag`")]
    TooMany {
        /// Number of operations.
        found: usize,
    },
}

/// Converts an OpenAPI 3 document to a configuration.
///
/// # Errors
///
/// [`ImportError`].
pub fn openapi(document: Value, options: &ImportOptions) -> Result<ImportResult, ImportError> {
    let document = Document::new(document)?;
    let mut remarks = Vec::new();
    let operations = Operation::all(&document, &options.tags, &mut remarks);
    if operations.len() > ROUTE_LIMIT {
        return Err(ImportError::TooMany { found: operations.len() });
    }
    file(&document, operations, options, remarks)
}

/// Maximum number of `$ref`s that lead to one value.
const REFERENCE_LIMIT: usize = 16;

/// An OpenAPI 3 document.
struct Document {
    root: Value,
}

impl Document {
    fn new(root: Value) -> Result<Self, ImportError> {
        let found = match (root.get("openapi"), root.get("swagger")) {
            (Some(Value::String(version)), _) if version.starts_with("3.") => return Ok(Self { root }),
            (Some(version), _) => format!("`openapi: {version}`"),
            (None, Some(version)) => {
                format!("`swagger: {version}`, which is older; converters to version 3 exist")
            }
            (None, None) => "neither `openapi` nor `swagger` in it".to_owned(),
        };
        Err(ImportError::Version { found })
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.root.get(name)
    }

    /// Follows the `$ref` of a value, and those it leads to. Returns an error message for a reference to
    /// another document, a dangling one, or a chain that is too long.
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

    /// A string in `info`.
    fn info(&self, name: &str) -> Option<&str> {
        self.root.get("info")?.get(name)?.as_str()
    }
}

/// Target of a value's `$ref`; `None` for a value without one.
fn reference_of(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// Members of an object; none of any other value.
fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Items of a list; none of any other value.
fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Longest generated name of an upstream, in characters.
const MAX_NAME_LENGTH: usize = 40;

/// Writes the configuration file, and verifies that it loads.
fn file(
    document: &Document,
    operations: Vec<Operation>,
    options: &ImportOptions,
    mut remarks: Vec<ImportRemark>,
) -> Result<ImportResult, ImportError> {
    let upstream = upstream_name(document);
    let url = options.url.clone().map_or_else(|| server(document), Ok)?;
    let head = file_header(document, &upstream, &url, &options.source);
    let written = |operation: &Operation, with_output: bool| {
        let route = operation.route(&upstream, with_output);
        format!("  {}:{}\n", yaml::text(&operation.name), yaml::block(&route, 2))
    };
    if let Err(reason) = load_error(&format!("{head}passthrough: {upstream}\n")) {
        return Err(ImportError::Server { url, reason });
    }
    let texts: Vec<String> = operations.iter().map(|operation| written(operation, true)).collect();
    let mut routes: Vec<(Operation, String)> = operations.into_iter().zip(texts).collect();
    let whole = |routes: &[(Operation, String)]| {
        let texts: String = routes.iter().map(|(_, text)| text.as_str()).collect();
        format!("{head}routes:\n{texts}")
    };
    if !routes.is_empty() && load_error(&whole(&routes)).is_err() {
        routes.retain_mut(|(operation, text)| {
            let alone = |text: &str| load_error(&format!("{head}routes:\n{text}"));
            let Err(reason) = alone(text) else { return true };
            let about = operation.about.clone();
            let plain = written(operation, false);
            if operation.has_output() && alone(&plain).is_ok() {
                remarks.push(ImportRemark { about, text: format!("without an output schema: {reason}") });
                *text = plain;
                return true;
            }
            remarks.push(ImportRemark { about, text: format!("omitted: {reason}") });
            false
        });
    }
    if routes.is_empty() {
        return Err(ImportError::Nothing);
    }
    // Two routes that are valid alone may conflict; the later one is dropped.
    while let Err(reason) = load_error(&whole(&routes)) {
        let Some((operation, _)) = routes.pop() else { return Err(ImportError::Nothing) };
        remarks.push(ImportRemark { about: operation.about, text: format!("omitted: {reason}") });
    }
    Ok(ImportResult { yaml: whole(&routes), routes: routes.len(), remarks })
}

/// Loads a file, and returns its first error.
fn load_error(yaml: &str) -> Result<(), String> {
    let loaded = config::load(&Sources::from_text("imported.yaml", yaml));
    let Err(problems) = loaded else { return Ok(()) };
    let first = problems.as_slice().iter().find(|problem| problem.is_error());
    Err(first.map_or_else(|| "it does not load".to_owned(), |problem| problem.message.clone()))
}

fn file_header(document: &Document, upstream: &str, url: &str, source: &str) -> String {
    let mut head = String::new();
    let title = shortened(document.info("title").unwrap_or("an API"), 80);
    let version = shortened(document.info("version").unwrap_or_default(), 30);
    let source = shortened(source, 80);
    let _ = writeln!(head, "# {title} {version}, generated from {source} by `glossator import openapi`.");
    head += "# Every operation becomes a tool. Models choose better among few tools: keep the useful ones,\n";
    head += "# and describe in each when to call it. Results are checked against `output`; where the API\n";
    head += "# returns something else than its document declares, change it.\n\nupstreams:\n";
    let url = yaml::text(url);
    let hints = credentials(document, upstream);
    if hints.is_empty() {
        let _ = writeln!(head, "  {upstream}: {url}\n");
    } else {
        let _ = writeln!(head, "  {upstream}:\n    url: {url}");
        head += "    # The API requires credentials:\n";
        for hint in hints {
            let _ = writeln!(head, "    # {hint}");
        }
        head.push('\n');
    }
    head
}

/// Hints for the credentials that the API requires, in configuration syntax.
fn credentials(document: &Document, upstream: &str) -> Vec<String> {
    let variable = upstream.to_ascii_uppercase().replace('-', "_");
    let bearer = || format!("credentials: {{ bearer: \"${{{variable}_TOKEN}}\" }}");
    let mut hints = Vec::new();
    let schemes = document.get("components").and_then(|components| components.get("securitySchemes"));
    for (_, written) in members(schemes) {
        let Ok(scheme) = document.resolved(written) else { continue };
        let text = |name: &str| scheme.get(name).and_then(Value::as_str).unwrap_or_default();
        // Quoted as YAML, so that a line break in the document's text does not end the comment.
        let quoted = |text: &str| yaml::text(&shortened(text, 200));
        hints.push(match (text("type"), text("scheme"), text("in")) {
            ("http", "basic", _) => {
                format!("credentials: {{ basic: {{ user: NAME, password: \"${{{variable}_PASSWORD}}\" }} }}")
            }
            ("http", _, _) | ("openIdConnect", _, _) => bearer(),
            ("apiKey", _, "header") => {
                format!("headers: {{ {}: \"${{{variable}_KEY}}\" }}", quoted(text("name")))
            }
            ("apiKey", _, place) => {
                format!(
                    "a key in the {place}, `{}`: `credentials` does not support this",
                    quoted(text("name"))
                )
            }
            ("oauth2", _, _) => {
                let token_url = scheme.pointer("/flows/clientCredentials/tokenUrl").and_then(Value::as_str);
                match token_url.map(quoted) {
                    Some(token_url) => format!(
                        "credentials: {{ oauth: {{ token_url: {token_url}, client_id: NAME, \
                         client_secret: \"${{{variable}_SECRET}}\" }} }}"
                    ),
                    None => bearer(),
                }
            }
            ("mutualTLS", _, _) => "tls: { certificate: file:/path, key: file:/path }".to_owned(),
            _ => continue,
        });
    }
    hints.dedup();
    hints.truncate(8);
    hints
}

/// The URL of the first server, with the defaults of its variables.
fn server(document: &Document) -> Result<String, ImportError> {
    let first = items(document.get("servers")).next();
    let server = first.and_then(|server| server.get("url")).and_then(Value::as_str).unwrap_or("/");
    let mut url = server.to_owned();
    for (name, variable) in members(first.and_then(|server| server.get("variables"))) {
        if let Some(default) = variable.get("default").and_then(Value::as_str) {
            url = url.replace(&format!("{{{name}}}"), default);
        }
    }
    match url.contains("://") {
        true => Ok(url),
        // Relative to the URL of the document, which is unknown here.
        false => Err(ImportError::NoServer),
    }
}

fn upstream_name(document: &Document) -> String {
    let title = document.info("title").unwrap_or_default().to_ascii_lowercase();
    let words: Vec<&str> =
        title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("_").chars().take(MAX_NAME_LENGTH).collect();
    let name = name.trim_matches('_');
    if name.is_empty() { "api".to_owned() } else { name.to_owned() }
}
