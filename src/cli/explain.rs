//! `glossator explain`: shows how a response is translated step by step, or which request a call sends.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde_json::{Map, Value, json};

use super::output::{Screen, TextStyle, read_recording};
use super::{ConfigArgument, Failure, Output};
use crate::authoring::playground::{
    as_from_upstream, example_arguments, explain_translation, generated_arguments, result_json,
};
use crate::config::{Loaded, RouteFile};
use crate::model::{
    self, Arguments, EntryChoice, ErrorType, ProgramEnd, ProgramExit, Recording, ToolResult, UpstreamResponse,
};
use crate::route::{CommandRequest, RequestTemplate, Route, RouteTable, ToolRequest, UpstreamRequest};

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// Name of a route, or URI of a resource, which sets its arguments
    route: String,
    /// A recorded response: a body, a whole response as printed by `curl -i`, or a HAR file; `-` for standard
    /// input
    #[arg(long, value_name = "FILE")]
    response: Option<PathBuf>,
    /// Entry of a HAR file: its number from 1, or a part of its URL (default: the last entry)
    #[arg(long, value_name = "NUMBER|URL", requires = "response")]
    entry: Option<EntryChoice>,
    /// Arguments of the call, a JSON object; without `--response`, shows the request for them
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// Status of the response, from 100 to 599 (default for a body alone: 200)
    #[arg(long, value_name = "CODE", requires = "response")]
    status: Option<u16>,
    /// Media type of the response (default for a body alone: none)
    #[arg(long = "content-type", value_name = "TYPE", requires = "response")]
    media_type: Option<String>,
    /// For a command: its exit status, or the signal that ended it, such as `SIGKILL` (default: 0)
    #[arg(long = "exit-status", value_name = "STATUS", requires = "response")]
    exit: Option<ProgramEnd>,
    /// For a command: its standard error
    #[arg(long, value_name = "TEXT", requires = "response")]
    stderr: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

pub(super) fn explain(arguments: &ExplainArguments, screen: &mut Screen) -> Result<(), Failure> {
    let loaded = arguments.config.load(Vec::new())?;
    let named = |file: &&RouteFile| file.name().as_str() == arguments.route;
    let by_name = loaded.routes.iter().find(named).map(|file| (file, Map::new()));
    let (file, in_uri) = by_name
        .or_else(|| route_of_uri(&loaded, &arguments.route))
        .ok_or_else(|| super::no_such_route(&arguments.route, &loaded))?;
    let mut given = parse_arguments(arguments.args.as_deref())?;
    let is_uri = !named(&file);
    given.extend(in_uri);
    match &arguments.response {
        Some(path) => {
            let response = recorded(arguments, path, &file.route, screen)?;
            explain_response(arguments, file, given, response, screen)
        }
        None if arguments.args.is_some() || is_uri => {
            explain_request(arguments.output, &loaded, &file.route, given, screen)
        }
        None => Err(Failure::usage(
            "specify a recorded response with `--response FILE`, or arguments with `--args JSON`",
        )),
    }
}

/// Route of a resource, and the arguments in its URI.
fn route_of_uri<'a>(loaded: &'a Loaded, uri: &str) -> Option<(&'a RouteFile, Map<String, Value>)> {
    let table = RouteTable::new(loaded.routes.iter().map(|file| Arc::clone(&file.route)).collect()).ok()?;
    let (route, arguments) = table.by_uri(uri)?;
    let file = loaded.routes.iter().find(|file| Arc::ptr_eq(&file.route, route))?;
    Some((file, arguments))
}

fn parse_arguments(json: Option<&str>) -> Result<Map<String, Value>, Failure> {
    match json.map(serde_json::from_str) {
        None => Ok(Map::new()),
        Some(Ok(Value::Object(map))) => Ok(map),
        Some(Ok(_)) => Err(Failure::usage("`--args` takes a JSON object, such as '{\"city\": \"Oslo\"}'")),
        Some(Err(error)) => Err(Failure::usage(format!("`--args` takes a JSON object: {error}"))),
    }
}

/// Response to explain. Flags override parts of the recording. Of a command, the file has its standard
/// output, and the command line its exit status.
fn recorded(
    arguments: &ExplainArguments,
    file: &Path,
    route: &Route,
    screen: &mut Screen,
) -> Result<UpstreamResponse, Failure> {
    let is_command = matches!(route.request, RequestTemplate::Command(_));
    if is_command && (arguments.status.is_some() || arguments.media_type.is_some()) {
        let message = "the route runs a command, which has no HTTP status and no content type: use \
             `--exit-status STATUS`";
        return Err(Failure::usage(message));
    }
    if !is_command && (arguments.exit.is_some() || arguments.stderr.is_some()) {
        return Err(Failure::usage(
            "the route runs no command, so `--exit-status` and `--stderr` have no effect",
        ));
    }
    let recording = read_recording(file)?;
    let is_whole = !matches!(recording, Recording::Body(_));
    let chosen = recording.choose(arguments.entry.as_ref());
    let mut response = chosen.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    let mut note_override = |option: &str, own: &str| {
        if is_whole {
            screen.status_line(&format!("`{option}` overrides the value of the recording, {own}"));
        }
    };
    if let Some(status) = arguments.status {
        let code = StatusCode::from_u16(status).ok().filter(|_| (100..=599).contains(&status));
        let code = code.ok_or_else(|| {
            Failure::usage(format!("`--status` takes a status from 100 to 599, found {status}"))
        })?;
        note_override("--status", &response.status.to_string());
        response.status = code;
    }
    if let Some(media_type) = &arguments.media_type {
        let value = HeaderValue::from_str(media_type).ok();
        let value = value.filter(|value| model::media_type(value).is_some());
        let value = value.ok_or_else(|| {
            Failure::usage(format!(
                "`--content-type` takes a media type such as `text/plain`, found {media_type:?}"
            ))
        })?;
        note_override("--content-type", response.media_type().as_deref().unwrap_or("no media type"));
        response.headers.insert(CONTENT_TYPE, value);
    } else if matches!(route.request, RequestTemplate::Tool(_)) && response.status.is_success() {
        // An MCP server sends JSON or an event stream, and the route gets the message in it.
        response.headers.remove(CONTENT_TYPE);
    }
    let stderr = arguments.stderr.clone().unwrap_or_default().into();
    let exit = ProgramExit { end: arguments.exit.unwrap_or(ProgramEnd::Code(0)), stderr };
    Ok(as_from_upstream(route, response, exit))
}

fn explain_response(
    arguments: &ExplainArguments,
    file: &RouteFile,
    given: Map<String, Value>,
    response: UpstreamResponse,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let generated = match given.is_empty() {
        true => generated_arguments(&file.route).into_value(),
        false => Value::Null,
    };
    let generated = generated.as_object().filter(|generated| !generated.is_empty());
    let args = example_arguments(&file.route, given).map_err(Failure::usage)?;
    let explained = explain_translation(file, args, &Map::new(), &response, None);
    if arguments.output == Output::Json {
        let rule = explained.rule.map(|index| index + 1);
        screen.json(&json!({ "rule": rule, "steps": explained.steps, "notes": explained.notes,
            "result": explained.result, "generated_arguments": generated,
            "no_output_schema": file.no_output_schema }));
        return Ok(());
    }
    let bytes = response.body.len();
    screen.line(match &response.exit {
        Some(exit) => format!("output       {}, {bytes} bytes", exit.end.describe()),
        None => {
            let media_type = response.media_type().unwrap_or_else(|| "no media type".into());
            format!("response     {}, {media_type}, {bytes} bytes", response.status)
        }
    });
    if let Some(generated) = generated {
        let generated = serde_json::to_string(generated).expect("a map of JSON has a text");
        show_step(screen, "arguments", &format!("generated, because `--args` is missing: {generated}"));
    }
    for step in &explained.steps {
        show_step(screen, &step.action, &step.found);
    }
    for note in &explained.notes {
        show_step(screen, "log", note);
    }
    if let Some(why) = &file.no_output_schema {
        show_step(screen, "schema", &format!("the tool has no output schema, because {why}"));
    }
    let outcome = if explained.is_error { TextStyle::Bad } else { TextStyle::Good };
    let title = outcome.apply(if explained.is_error { "tool error" } else { "tool result" });
    screen.line(format!("\n{title}"));
    screen.json(&explained.result);
    Ok(())
}

/// Shows one step. Its name has its own column if it fits.
fn show_step(screen: &mut Screen, action: &str, found: &str) {
    const COLUMN: usize = 13;
    let indented = found.replace('\n', &format!("\n{}", " ".repeat(COLUMN)));
    let name = TextStyle::Strong.apply(action);
    let (line_end, width) = if action.len() < COLUMN { ("", action.len()) } else { ("\n", 0) };
    screen.line(format!("{name}{line_end}{}{indented}", " ".repeat(COLUMN - width)));
}

fn explain_request(
    output: Output,
    loaded: &Loaded,
    route: &Route,
    given: Map<String, Value>,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let upstream = route.upstream.as_str();
    let built = route.input.check(Arguments::from(given)).and_then(|checked| {
        route.request.build(&checked, &http::HeaderMap::new(), None).map_err(|error| error.to_string())
    });
    let (request, shown) = match built {
        Err(error) => {
            let result = route.translator.for_clients(ToolResult::error(ErrorType::Arguments, error));
            if output == Output::Text {
                show_step(screen, "arguments", "invalid; no request is sent to the upstream");
            }
            screen.json(&result_json(&result.with_errors_as(route.error_format)));
            return Ok(());
        }
        Ok(UpstreamRequest::Command(request)) => {
            let (command, stdin) = command_words(loaded, route, &request);
            let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
            let shown = format!("{}   (the command `{upstream}`){}", words.join(" "), below(&stdin));
            (json!({ "upstream": upstream, "command": command, "stdin": stdin }), shown)
        }
        Ok(UpstreamRequest::Tool(ToolRequest { tool, arguments, .. })) => {
            let arguments = Value::from(arguments);
            let shown = format!("CALL {tool}   (of upstream `{upstream}`)\n\n{arguments:#}");
            (json!({ "upstream": upstream, "tool": &*tool, "arguments": arguments }), shown)
        }
        Ok(UpstreamRequest::Http(request)) => {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let headers: Map<String, Value> = request
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), text(value.as_bytes()).into()))
                .collect();
            let (method, target) = (request.method.as_str(), request.path_and_query.as_str());
            let mut shown = format!("{method} {target}   (to upstream `{upstream}`)");
            for (name, value) in &headers {
                shown += &format!("\n{name}: {}", value.as_str().unwrap_or_default());
            }
            let body = text(&request.body);
            shown += &below(&body);
            let request = json!({ "upstream": upstream, "method": method, "target": target,
                "headers": headers, "body": body });
            (request, shown)
        }
    };
    match output {
        Output::Json => screen.json(&request),
        Output::Text => screen.line(shown),
    }
    Ok(())
}

/// A text below a blank line, if there is one.
fn below(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n\n{text}") }
}

/// Program and arguments of a command, quoted so that you can run them in a shell, and its standard input.
fn command_words(loaded: &Loaded, route: &Route, request: &CommandRequest) -> (Vec<String>, String) {
    let file = loaded.upstreams.iter().find(|file| *file.settings.name() == route.upstream);
    let program = file.and_then(|file| file.settings.command());
    let own =
        program.into_iter().flat_map(|program| std::iter::once(&program.arg0).chain(&program.arguments));
    let words = own.chain(&request.words).cloned().collect();
    (words, String::from_utf8_lossy(&request.stdin).into_owned())
}

/// Quotes a word if a shell would not read it literally.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
