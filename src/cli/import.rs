//! `glossator import`: generates routes from an API description.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    Failure, Output,
    output::{Screen, read_input},
};
use crate::{
    authoring::import::{self, ImportOptions},
    config::yaml,
};

/// Longest description, in bytes.
const DOCUMENT_LIMIT_BYTES: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    /// From an OpenAPI 3.0 or 3.1 document, in JSON or YAML
    Openapi(OpenapiArguments),
}

#[derive(Debug, Args)]
struct OpenapiArguments {
    /// The document; `-` for standard input
    file: PathBuf,
    /// URL of the API, in place of the document's first server: `http://host:port/base`
    #[arg(long)]
    url: Option<String>,
    /// Only operations with this tag; can be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl ImportArguments {
    pub(super) fn output(&self) -> Output {
        match &self.source {
            ImportSource::Openapi(arguments) => arguments.output,
        }
    }
}

pub(super) fn import(arguments: &ImportArguments, screen: &mut Screen) -> Result<(), Failure> {
    let ImportSource::Openapi(arguments) = &arguments.source;
    let document = read(&arguments.file)?;
    let file_name = arguments.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let options = ImportOptions {
        source: file_name.filter(|name| name != "-").unwrap_or_else(|| "standard input".to_owned()),
        url: arguments.url.clone(),
        tags: arguments.tags.clone(),
    };
    let shown = arguments.file.display();
    let imported =
        import::openapi(document, &options).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    match arguments.output {
        Output::Json => {
            let remarks: Vec<Value> = imported
                .remarks
                .iter()
                .map(|remark| json!({ "about": remark.about, "what": remark.text }))
                .collect();
            screen.json(&json!({ "config": imported.yaml, "routes": imported.routes, "remarks": remarks }));
        }
        Output::Text => {
            screen.line(imported.yaml.trim_end());
            let plural = if imported.routes == 1 { "" } else { "s" };
            screen.status_line(&format!("{} route{plural}; the output was checked", imported.routes));
            for remark in &imported.remarks {
                screen.status_line(&format!("  {}: {}", remark.about, remark.text));
            }
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Value, Failure> {
    let shown = file.display().to_string();
    let text = read_input(file, DOCUMENT_LIMIT_BYTES, "document")?;
    let text =
        String::from_utf8(text).map_err(|_| Failure::usage(format!("{shown}: expected UTF-8 text")))?;
    if text.trim().is_empty() {
        return Err(Failure::usage(format!("{shown}: expected an OpenAPI document, found an empty file")));
    }
    // JSON is valid YAML, but the YAML parser has tighter limits on length and depth.
    if text.trim_start().starts_with('{')
        && let Ok(document) = serde_json::from_str(&text)
    {
        return Ok(document);
    }
    yaml::read(&shown, text).map_err(Failure::Problems)
}
