//! Candidates run on the samples, by the same way that a route goes.

use serde_json::{Map, Value, json};

use super::{Sample, candidates::Candidate, samples::Sorted};
use crate::{
    config::{self, Loaded, Sources, yaml},
    reply::Reply,
    route::Route,
    rule::{Facts, Trace, translate},
    tool::{Shapes, ToolResult, result_to_json},
};

/// What a route may have as `reply_limit` at most: how long a sample is does not say how to read it.
const HIGHEST_REPLY_LIMIT: &str = "1GiB";

/// What a candidate finds in each success.
///
/// # Errors
///
/// Why it can't read the first that it can't read; no words when it does not exist.
pub(super) fn values(candidate: &Candidate, sorted: &Sorted<'_>) -> Result<Vec<Value>, String> {
    if candidate.is_block {
        return Ok(Vec::new());
    }
    let charset = sorted.charset.as_ref().map(|charset| charset.label);
    run(&candidate.extract, charset, sorted.successes.iter().map(|sample| &sample.reply))
}

/// The text of a sample, decompressed and decoded, in a charset that a rule names or in its own; `None` when it is none.
pub(super) fn text(sample: &Sample, charset: Option<&str>) -> Option<String> {
    let values = run(&json!("text"), charset, std::iter::once(&sample.reply)).ok()?;
    let text = values.first()?.as_str()?;
    // Old programs leave DEL and the controls from U+0080 on in texts; bytes of images and archives have lower ones soon.
    let is_strange = |c: char| c < ' ' && !c.is_ascii_whitespace() && c != '\u{1b}';
    (!text.chars().take(4096).any(is_strange) && !looks_binary(&sample.reply)).then(|| text.to_owned())
}

/// Whether the media type says that it is no text.
fn looks_binary(reply: &Reply) -> bool {
    let media_type = reply.media_type().unwrap_or_default();
    ["image/", "audio/", "video/", "font/"].iter().any(|kind| media_type.starts_with(kind))
        && media_type != "image/svg+xml"
        || ["application/pdf", "application/zip"].contains(&&*media_type)
}

fn run<'r>(
    extract: &Value,
    charset: Option<&str>,
    replies: impl Iterator<Item = &'r Reply>,
) -> Result<Vec<Value>, String> {
    let mut rule = json!({ "extract": extract });
    if let Some(charset) = charset {
        rule["charset"] = charset.into();
    }
    let loaded = load(&format!(
        "upstreams: {{ legacy: http://127.0.0.1:9 }}\nroutes:\n  trial:\n    description: A trial.\n    \
         request: GET /\n    reply_limit: {HIGHEST_REPLY_LIMIT}\n    reply:{}\n",
        yaml::block(&rule, 4)
    ))
    .ok_or_else(String::new)?;
    let route = &loaded.routes.first().ok_or_else(String::new)?.route;
    replies
        .map(|reply| {
            let result = result(route, reply);
            match result.structured.as_ref().filter(|_| !result.is_error()) {
                Some(structured) => Ok(structured.json().parse()),
                None => Err(written(&result)["content"][0]["text"].as_str().unwrap_or_default().to_owned()),
            }
        })
        .collect()
}

/// A configuration that is good.
pub(super) fn load(text: &str) -> Option<Loaded> {
    config::load(&Sources::of_text("proposal.yaml", text)).ok()
}

/// What a route makes of a reply.
pub(super) fn result(route: &Route, reply: &Reply) -> ToolResult {
    let args = Value::Object(Map::new());
    let facts = Facts::new(&route.definition.name, &args);
    translate(&route.translator, facts, reply, &mut Trace::off()).result
}

/// The result as clients get it.
pub(super) fn written(result: &ToolResult) -> Value {
    result_to_json(result, Shapes::ObjectsOnly)
}
