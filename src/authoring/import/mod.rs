//! Routes from the description of an API.
//!
//! This file has the document and its `$ref`s. `operation` converts an operation to a route, with its
//! parameters; `schema` simplifies schemas for clients; `write` writes the file, with remarks on what was
//! left out.
//!
//! What is written loads without an error: a route that does not is written without its output schema, and left out
//! when that does not help.

mod operation;
mod schema;
mod write;

use operation::Operation;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// How many routes one document gives.
pub const ROUTE_LIMIT: usize = 500;

/// What the document does not tell, or tells too much of.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// What the file is made of, to be named in it.
    pub source: String,
    /// Where the API is, in the place of the document's first server.
    pub url: Option<String>,
    /// Only operations with one of these tags; all where there are none.
    pub tags: Vec<String>,
}

/// A configuration made of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The file.
    pub yaml: String,
    /// How many routes it has.
    pub routes: usize,
    /// What is not in it, or is in it otherwise than the document says.
    pub remarks: Vec<Remark>,
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Of what: `GET /pets`.
    pub about: String,
    /// What was done, and why.
    pub what: String,
}

/// Why nothing can be made of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It is something else.
    #[error("expected an OpenAPI document with `openapi: 3.0` or `3.1`, found {found}")]
    Version {
        /// What it says it is.
        found: String,
    },
    /// It does not say where the API is.
    #[error("the document does not say where the API is; give `--url http://HOST:PORT/BASE`")]
    NoServer,
    /// Where it says that the API is, nothing can be reached.
    #[error("the API can't be reached at `{url}`: {why}; give `--url http://HOST:PORT/BASE`")]
    Server {
        /// Where.
        url: String,
        /// What is wrong with that.
        why: String,
    },
    /// There is nothing to make routes of.
    #[error("the document has no operation that a route can be made of")]
    Nothing,
    /// More than can be of use.
    #[error(
        "at most {ROUTE_LIMIT} routes are made of a document, which has {found} operations; choose some with `--tag`"
    )]
    TooMany {
        /// How many there are.
        found: usize,
    },
}

/// Makes a configuration of an OpenAPI 3 document.
///
/// # Errors
///
/// [`ImportError`].
pub fn openapi(document: Value, wishes: &Wishes) -> Result<Imported, ImportError> {
    let document = Document::new(document)?;
    let mut remarks = Vec::new();
    let operations = Operation::all(&document, &wishes.tags, &mut remarks);
    if operations.len() > ROUTE_LIMIT {
        return Err(ImportError::TooMany { found: operations.len() });
    }
    write::file(&document, operations, wishes, remarks)
}

/// How many references may lead to each other.
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

    /// A value, or what it refers to; in words why that is not there.
    fn resolved<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..REFERENCE_LIMIT {
            let Some(reference) = reference_of(value) else { return Ok(value) };
            let Some(pointer) = reference.strip_prefix('#') else {
                return Err(format!("`{reference}` refers to another document, which is not read"));
            };
            let pointer = percent_decode_str(pointer).decode_utf8_lossy();
            value = self.root.pointer(&pointer).ok_or_else(|| format!("`{reference}` refers to nothing"))?;
        }
        Err(format!("more than {REFERENCE_LIMIT} references lead to each other"))
    }

    /// A text of `info`.
    fn info(&self, name: &str) -> Option<&str> {
        self.root.get("info")?.get(name)?.as_str()
    }
}

/// What a value refers to, where it is nothing but a reference.
fn reference_of(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// The members of an object; none of anything else.
fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The items of a list; none of anything else.
fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
