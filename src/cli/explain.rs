//! `glossator explain`: shows step by step how a response is translated, or which request a call sends.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde_json::{Map, Value, json};

use super::input_output::{Screen, TextStyle, read_recording};
use super::{CommandError, ConfigArgument, Output};
use crate::authoring::playground::{
    as_upstream_response, example_arguments, explain_translation, generated_arguments, result_json,
};
use crate::config::{CompiledRoute, Loaded};
use crate::model::{
    self, EntryChoice, ErrorType, ProgramEnd, ProgramExit, Recording, ToolResult, UpstreamResponse,
};
use crate::route::{McpServerRequest, RequestTemplate, Route, RouteTable, UpstreamRequest};

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
    #[arg(long, value_name = "JSON", value_parser = parse_arguments)]
    args: Option<Map<String, Value>>,
    /// Status of the response, from 100 to 599 (default for a body alone: 200)
    #[arg(long, value_name = "CODE", requires = "response", value_parser = parse_status)]
    status: Option<StatusCode>,
    /// Media type of the response (default for a body alone: none)
    #[arg(long = "content-type", value_name = "TYPE", requires = "response", value_parser = parse_media_type)]
    media_type: Option<HeaderValue>,
    /// For a command: its exit status, or the signal that ended it, such as `SIGKILL` (default: 0); without
    /// `--response`, its output is empty
    #[arg(long = "exit-status", value_name = "STATUS")]
    exit: Option<ProgramEnd>,
    /// For a command: its standard error; without `--response`, its output is empty
    #[arg(long, value_name = "TEXT")]
    stderr: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

pub(super) fn explain(arguments: &ExplainArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let loaded = arguments.config.load(Vec::new())?;
    let by_name = loaded.routes.iter().find(|compiled| compiled.name().as_str() == arguments.route);
    let (compiled, uri_arguments) = by_name
        .map(|compiled| (compiled, Map::new()))
        .or_else(|| route_of_uri(&loaded, &arguments.route))
        .ok_or_else(|| super::no_such_route(&arguments.route, &loaded))?;
    let mut call_arguments = arguments.args.clone().unwrap_or_default();
    call_arguments.extend(uri_arguments);
    if arguments.response.is_none() && arguments.exit.is_none() && arguments.stderr.is_none() {
        return explain_request(arguments.output, &loaded, &compiled.route, call_arguments, screen);
    }
    let response = recorded_response(arguments, &compiled.route, screen)?;
    explain_response(arguments, compiled, call_arguments, response, screen)
}

/// Finds the route of a resource by its URI. Returns the route and the arguments in the URI.
fn route_of_uri<'a>(loaded: &'a Loaded, uri: &str) -> Option<(&'a CompiledRoute, Map<String, Value>)> {
    let table =
        RouteTable::new(loaded.routes.iter().map(|compiled| Arc::clone(&compiled.route)).collect()).ok()?;
    let (route, arguments) = table.by_uri(uri)?;
    let compiled = loaded.routes.iter().find(|compiled| Arc::ptr_eq(&compiled.route, route))?;
    Some((compiled, arguments))
}

fn parse_arguments(json: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(json).map_err(|error| format!("expected a JSON object: {error}"))
}

fn parse_status(code: &str) -> Result<StatusCode, &'static str> {
    let status = code.parse().ok().filter(|status: &StatusCode| status.as_u16() < 600);
    status.ok_or("expected a status from 100 to 599")
}

fn parse_media_type(text: &str) -> Result<HeaderValue, &'static str> {
    let value = HeaderValue::from_str(text).ok().filter(|value| model::media_type(value).is_some());
    value.ok_or("expected a media type such as `text/plain`")
}

/// Builds the response to explain. Flags of the command line override parts of the recording. For a command,
/// the recording is its standard output, and the flags set its exit status and standard error.
fn recorded_response(
    arguments: &ExplainArguments,
    route: &Route,
    screen: &mut Screen,
) -> Result<UpstreamResponse, CommandError> {
    let is_command = matches!(route.request, RequestTemplate::Command(_));
    if is_command && (arguments.status.is_some() || arguments.media_type.is_some()) {
        let message = "the route runs a command, which has no HTTP status and no content type: use \
             `--exit-status STATUS`";
        return Err(CommandError::usage(message));
    }
    if !is_command && (arguments.exit.is_some() || arguments.stderr.is_some()) {
        return Err(CommandError::usage(
            "the route runs no command, so `--exit-status` and `--stderr` have no effect",
        ));
    }
    let empty = || Recording::read(&Bytes::new()).map_err(CommandError::usage);
    let file = arguments.response.as_deref();
    let recording = file.map_or_else(empty, read_recording)?;
    let is_whole = !matches!(recording, Recording::Body(_));
    let chosen = recording.choose(arguments.entry.as_ref());
    let file_name = file.unwrap_or_else(|| Path::new("-")).display();
    let mut response = chosen.map_err(|error| CommandError::usage(format!("{file_name}: {error}")))?;
    let mut note_override = |option: &str, recorded_value: &str| {
        if is_whole {
            screen.info_line(&format!("`{option}` overrides the value of the recording, {recorded_value}"));
        }
    };
    if let Some(status) = arguments.status {
        note_override("--status", &response.status.to_string());
        response.status = status;
    }
    if let Some(media_type) = &arguments.media_type {
        note_override("--content-type", response.media_type().as_deref().unwrap_or("no media type"));
        response.headers.insert(CONTENT_TYPE, media_type.clone());
    } else if matches!(route.request, RequestTemplate::Tool(_)) && response.status.is_success() {
        // An MCP server responds with JSON or an event stream; the route gets the message inside, without the
        // media type.
        response.headers.remove(CONTENT_TYPE);
    }
    let stderr = arguments.stderr.clone().unwrap_or_default().into();
    let exit = ProgramExit { end: arguments.exit.unwrap_or(ProgramEnd::Code(0)), stderr };
    Ok(as_upstream_response(route, response, exit))
}

fn explain_response(
    arguments: &ExplainArguments,
    compiled: &CompiledRoute,
    call_arguments: Map<String, Value>,
    response: UpstreamResponse,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let generated =
        call_arguments.is_empty().then(|| Value::Object(generated_arguments(&compiled.route).values));
    let generated = generated.filter(|generated| *generated != json!({}));
    let args = example_arguments(&compiled.route, call_arguments).map_err(CommandError::usage)?;
    let explained = explain_translation(compiled, args, &Map::new(), &response, None);
    if arguments.output == Output::Json {
        screen.json(&json!({ "rule": explained.rule, "steps": explained.steps, "notes": explained.notes,
            "result": explained.result, "generated_arguments": generated,
            "no_output_schema": compiled.no_output_schema }));
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
        let message = format!("generated, because `--args` is missing: {generated}");
        // Values are not generated from a `pattern`, for example, so the schema may reject them.
        let invalid = compiled.route.input.check(generated_arguments(&compiled.route)).err();
        let rejection = invalid.map_or_else(String::new, |reason| {
            format!("\na call with these arguments is rejected: {reason}")
        });
        show_step(screen, "arguments", &(message + &rejection));
    }
    for step in &explained.steps {
        show_step(screen, &step.action, &step.found);
    }
    for note in &explained.notes {
        show_step(screen, "log", note);
    }
    if let Some(reason) = &compiled.no_output_schema {
        show_step(screen, "schema", &format!("the tool has no output schema, because {reason}"));
    }
    let title = match explained.result["isError"] == true {
        true => TextStyle::Bad.apply("tool error"),
        false => TextStyle::Good.apply("tool result"),
    };
    screen.line(format!("\n{title}"));
    screen.json(&explained.result);
    Ok(())
}

/// Prints one step: the action in a column of its own, or on a line of its own if it does not fit.
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
    call_arguments: Map<String, Value>,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let upstream = route.upstream.as_str();
    let configured = loaded.upstreams.iter().find(|configured| *configured.settings.name() == route.upstream);
    let built = route.input.check(call_arguments.into()).and_then(|checked| {
        route.request.build(&checked, &HeaderMap::new(), None).map_err(|error| error.to_string())
    });
    let (request, formatted) = match built {
        Err(error) => {
            let result = route.translator.for_clients(ToolResult::error(ErrorType::Arguments, error));
            if output == Output::Text {
                show_step(screen, "arguments", "invalid; no request is sent to the upstream");
            }
            screen.json(&result_json(&result.with_errors_as(route.error_format)));
            return Ok(());
        }
        Ok(UpstreamRequest::Command(request)) => {
            let program = configured.and_then(|configured| configured.settings.command()).into_iter();
            let configured_words =
                program.flat_map(|program| std::iter::once(&program.arg0).chain(&program.arguments));
            let command: Vec<&String> = configured_words.chain(&request.words).collect();
            let stdin = String::from_utf8_lossy(&request.stdin);
            // Quoted, so that users can paste it into a shell.
            let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
            let formatted =
                format!("{}   (the command `{upstream}`){}", words.join(" "), after_blank_line(&stdin));
            (json!({ "upstream": upstream, "command": command, "stdin": stdin }), formatted)
        }
        Ok(UpstreamRequest::Mcp(McpServerRequest { target, arguments, .. })) => {
            let arguments = Value::from(arguments);
            let formatted = format!("CALL {target}   (of upstream `{upstream}`)\n\n{arguments:#}");
            (json!({ "upstream": upstream, "tool": &*target, "arguments": arguments }), formatted)
        }
        Ok(UpstreamRequest::Http(request)) => {
            let method = request.method.as_str();
            let sent = configured
                .and_then(|configured| Some(configured.settings.http()?.describe_request(&request)));
            let (target, sent_headers) =
                sent.unwrap_or_else(|| (request.path_and_query.to_string(), request.headers));
            let mut formatted = format!("{method} {target}   (to upstream `{upstream}`)");
            let mut headers = Map::new();
            for (name, value) in &sent_headers {
                let value = String::from_utf8_lossy(value.as_bytes());
                formatted += &format!("\n{name}: {value}");
                headers.insert(name.to_string(), value.into());
            }
            let body = String::from_utf8_lossy(&request.body);
            formatted += &after_blank_line(&body);
            let request = json!({ "upstream": upstream, "method": method, "target": target,
                "headers": headers, "body": body });
            (request, formatted)
        }
    };
    match output {
        Output::Json => screen.json(&request),
        Output::Text => screen.line(formatted),
    }
    Ok(())
}

/// Returns a text with a blank line above it, or nothing if the text is empty.
fn after_blank_line(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n\n{text}") }
}

/// Quotes a word, unless a shell reads it literally.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
