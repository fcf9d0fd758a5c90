//! `glossator key`: generates an API key for a client, and its hash for the configuration.

use std::path::Path;

use clap::Args;
use serde_json::json;

use super::input_output::{Screen, read_input};
use super::{CommandError, Output};
use crate::auth::{ApiKeyHash, random_api_key};

#[derive(Debug, Args)]
pub(super) struct KeyArguments {
    /// Hash a key from standard input instead of generating one
    #[arg(long)]
    stdin: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

/// Maximum length of a key, in bytes.
const KEY_LIMIT_BYTES: u64 = 1024;

/// Minimum length of a key, in bytes. A shorter key could be guessed from its hash.
const KEY_MIN_BYTES: usize = 24;

pub(super) fn key(arguments: &KeyArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let generated = (!arguments.stdin).then(random_api_key);
    let key = generated.clone().map_or_else(read_key, Ok)?;
    let hash = ApiKeyHash::from_key(key).to_string();
    match (arguments.output, generated) {
        (Output::Text, None) => screen.line(&hash),
        (Output::Json, None) => screen.json(&json!({ "hash": hash })),
        (Output::Json, Some(key)) => screen.json(&json!({ "key": key, "hash": hash })),
        (Output::Text, Some(key)) => {
            screen.line(format!("key:  {key}"));
            screen.line(format!("hash: {hash}"));
            screen.info_line(
                "Send the key to its client; it is shown only once. Put the hash under `clients`.",
            );
        }
    }
    Ok(())
}

fn read_key() -> Result<String, CommandError> {
    // The limit includes a line break of two bytes.
    let text = read_input(Path::new("-"), KEY_LIMIT_BYTES + 2, "key")?;
    let text = String::from_utf8_lossy(&text);
    let key = text.trim();
    if key.len() < KEY_MIN_BYTES || key.len() as u64 > KEY_LIMIT_BYTES {
        return Err(CommandError::usage(format!(
            "a key has {KEY_MIN_BYTES} to {KEY_LIMIT_BYTES} bytes, and this one has {}: a short key can be \
             guessed from its hash",
            key.len()
        )));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CommandError::usage(
            "a key is sent in a header: it may have visible ASCII characters only",
        ));
    }
    Ok(key.to_owned())
}
