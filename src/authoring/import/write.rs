//! The file, tried before it is shown.

use std::fmt::Write;

use serde_json::Value;

use super::{
    Document, ImportError, Imported, Remark, Wishes, items, members, operation::Operation, schema::shortened,
};
use crate::config::{self, Sources, yaml};

/// The longest name of an upstream.
const LONGEST_NAME: usize = 40;

pub(super) fn file(
    document: &Document,
    operations: Vec<Operation>,
    wishes: &Wishes,
    mut remarks: Vec<Remark>,
) -> Result<Imported, ImportError> {
    let upstream = upstream_name(document);
    let url = match &wishes.url {
        Some(url) => url.clone(),
        None => server(document)?,
    };
    let head = head(document, &upstream, &url, &wishes.source);
    let written = |operation: &Operation, with_output: bool| {
        let route = operation.route(&upstream, with_output);
        format!("  {}:{}\n", yaml::text(&operation.name), yaml::block(&route, 2))
    };
    if let Err(why) = tried(&format!("{head}passthrough: {upstream}\n")) {
        return Err(ImportError::Server { url, why });
    }
    let mut routes: Vec<(Operation, String)> = operations
        .into_iter()
        .map(|operation| {
            let text = written(&operation, true);
            (operation, text)
        })
        .collect();
    let whole = |routes: &[(Operation, String)]| {
        let texts: String = routes.iter().map(|(_, text)| text.as_str()).collect();
        format!("{head}routes:\n{texts}")
    };
    if !routes.is_empty() && tried(&whole(&routes)).is_err() {
        routes.retain_mut(|(operation, text)| {
            let alone = |text: &str| tried(&format!("{head}routes:\n{text}"));
            let Err(why) = alone(text) else { return true };
            let about = operation.about.clone();
            let plain = written(operation, false);
            if operation.has_output() && alone(&plain).is_ok() {
                remarks.push(Remark { about, what: format!("without an output schema: {why}") });
                *text = plain;
                return true;
            }
            remarks.push(Remark { about, what: format!("left out: {why}") });
            false
        });
    }
    if routes.is_empty() {
        return Err(ImportError::Nothing);
    }
    // Two that are good alone may be in each other's way; the later of them goes.
    while let Err(why) = tried(&whole(&routes)) {
        let Some((operation, _)) = routes.pop() else { return Err(ImportError::Nothing) };
        remarks.push(Remark { about: operation.about, what: format!("left out: {why}") });
    }
    Ok(Imported { yaml: whole(&routes), routes: routes.len(), remarks })
}

/// What is wrong with a file.
fn tried(yaml: &str) -> Result<(), String> {
    let loaded = config::load(&Sources::of_text("imported.yaml", yaml));
    let Err(problems) = loaded else { return Ok(()) };
    let first = problems.as_slice().iter().find(|problem| problem.is_error());
    Err(first.map_or_else(|| "it does not load".to_owned(), |problem| problem.message.clone()))
}

fn head(document: &Document, upstream: &str, url: &str, source: &str) -> String {
    let mut head = String::new();
    let title = shortened(document.info("title").unwrap_or("an API"), 80);
    let version = shortened(document.info("version").unwrap_or_default(), 30);
    let source = shortened(source, 80);
    let _ = writeln!(head, "# {title} {version}, made of {source} by `glossator import openapi`.");
    head += "# Every operation is a tool here. Models choose better among few: keep what is of use, and say in each\n";
    head += "# description when to call it. Results are held to `output`; where the API says otherwise than its document,\n";
    head += "# change it.\n\nupstreams:\n";
    let url = yaml::text(url);
    let hints = credentials(document, upstream);
    if hints.is_empty() {
        let _ = writeln!(head, "  {upstream}: {url}\n");
    } else {
        let _ = writeln!(head, "  {upstream}:\n    url: {url}");
        head += "    # The API wants to know who asks:\n";
        for hint in hints {
            let _ = writeln!(head, "    # {hint}");
        }
        head.push('\n');
    }
    head
}

/// How the API is told who asks, as an operator would write it.
fn credentials(document: &Document, upstream: &str) -> Vec<String> {
    let variable = upstream.to_ascii_uppercase().replace('-', "_");
    let mut hints = Vec::new();
    let schemes = document.get("components").and_then(|components| components.get("securitySchemes"));
    for (_, written) in members(schemes) {
        let Ok(scheme) = document.resolved(written) else { continue };
        let text = |name: &str| scheme.get(name).and_then(Value::as_str).unwrap_or_default();
        // What stands in a comment must not end it.
        let word = |text: &str| yaml::text(&shortened(text, 200));
        hints.push(match (text("type"), text("scheme"), text("in")) {
            ("http", "basic", _) => {
                format!("auth: {{ basic: {{ user: NAME, password: \"${{{variable}_PASSWORD}}\" }} }}")
            }
            ("http", _, _) | ("openIdConnect", _, _) => format!("auth: {{ bearer: \"${{{variable}_TOKEN}}\" }}"),
            ("apiKey", _, "header") => {
                format!("headers: {{ {}: \"${{{variable}_KEY}}\" }}", word(text("name")))
            }
            ("apiKey", _, place) => format!("a key in the {place}, `{}`: no `auth` writes it", word(text("name"))),
            ("oauth2", _, _) => match scheme.pointer("/flows/clientCredentials/tokenUrl").and_then(Value::as_str) {
                Some(url) => format!(
                    "auth: {{ oauth: {{ token_url: {}, client_id: NAME, client_secret: \"${{{variable}_SECRET}}\" }} }}",
                    word(url)
                ),
                None => format!("auth: {{ bearer: \"${{{variable}_TOKEN}}\" }}"),
            },
            ("mutualTLS", _, _) => "tls: { certificate: file:/path, key: file:/path }".to_owned(),
            _ => continue,
        });
    }
    hints.dedup();
    hints.truncate(8);
    hints
}

/// The first server, its variables put in.
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
        // Relative to where the document was found, which nobody knows here.
        false => Err(ImportError::NoServer),
    }
}

fn upstream_name(document: &Document) -> String {
    let title = document.info("title").unwrap_or_default().to_ascii_lowercase();
    let words: Vec<&str> =
        title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("_").chars().take(LONGEST_NAME).collect();
    let name = name.trim_matches('_');
    if name.is_empty() { "api".to_owned() } else { name.to_owned() }
}
