//! `glossator import`: generates routes from an API description.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::input_output::{Screen, read_input};
use super::{CommandError, Output};
use crate::authoring::{import, pluralize};
use crate::config::yaml;

/// Maximum length of an API description, in bytes.
const DOCUMENT_LIMIT_BYTES: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub(super) enum ImportArguments {
    /// From an OpenAPI 3.0 or 3.1 document, in JSON or YAML
    Openapi(OpenapiArguments),
}

#[derive(Debug, Args)]
pub(super) struct OpenapiArguments {
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
    pub(super) output: Output,
}

pub(super) fn openapi(arguments: &OpenapiArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let document = read(&arguments.file)?;
    let file_name = arguments.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let source = file_name.as_deref().filter(|name| *name != "-").unwrap_or("standard input");
    let imported = import::openapi(document, source, arguments.url.as_deref(), &arguments.tags)
        .map_err(|error| CommandError::usage(format!("{}: {error}", arguments.file.display())))?;
    match arguments.output {
        Output::Json => screen.json(&json!(imported)),
        Output::Text => {
            screen.line(imported.yaml.trim_end());
            screen.info_line(&format!(
                "{}; the configuration loads without errors",
                pluralize(imported.routes, "route")
            ));
            for remark in &imported.remarks {
                screen.info_line(&format!("  {}: {}", remark.about, remark.text));
            }
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Value, CommandError> {
    let file_name = file.display().to_string();
    let text = read_input(file, DOCUMENT_LIMIT_BYTES, "document")?;
    let text = String::from_utf8(text)
        .map_err(|_| CommandError::usage(format!("{file_name}: expected UTF-8 text")))?;
    if text.trim().is_empty() {
        return Err(CommandError::usage(format!(
            "{file_name}: expected an OpenAPI document, found an empty file"
        )));
    }
    // JSON is valid YAML, but the YAML parser has tighter limits on length and depth.
    if text.trim_start().starts_with('{')
        && let Ok(document) = serde_json::from_str(&text)
    {
        return Ok(document);
    }
    yaml::read(&file_name, &text).map_err(CommandError::Problems)
}
