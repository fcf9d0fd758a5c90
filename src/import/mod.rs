//! Routes from the description of an API.
//!
//! In reading order: `document` follows its references; `schema` puts its schemas into words that clients read;
//! `parameters` are what a call takes and where each lands, `operation` one route of it all; `write` the file, with what
//! could not be put into a route told beside it.
//!
//! What is written loads without an error: a route that does not is written without its output schema, and left out
//! when that does not help.

mod document;
mod operation;
mod parameters;
mod schema;
mod write;

use serde_json::Value;

use document::Document;
use operation::Operation;

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
