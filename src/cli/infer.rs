//! `glossator infer`: generates a route from recorded responses.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use serde_json::json;

use super::input_output::{Screen, read_recording};
use super::{CommandError, Output};
use crate::authoring::infer::{Confidence, Finding, Proposal, RouteNaming, SAMPLE_LIMIT, Sample, propose};
use crate::authoring::{joined_words, pluralize};
use crate::config::{self, Sources};
use crate::model::{
    EntryChoice, HarExchange, NO_ENTRIES, ProgramEnd, ProgramExit, Recording, UpstreamResponse,
    cut_characters,
};
use crate::settings::EnumSetting as _;

/// Maximum number of HAR entries listed in a message.
const MAX_ENTRIES_LISTED: usize = 20;

#[derive(Debug, Args)]
pub(super) struct InferArguments {
    /// Recorded responses of one endpoint, errors included: bodies, responses as printed by `curl -i`, or HAR
    /// files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// For HAR files: one entry by its number from 1, or all with this in their URL (default: those of the
    /// last entry's endpoint)
    #[arg(long, value_name = "NUMBER|URL")]
    entry: Option<EntryChoice>,
    /// Name of the tool
    #[arg(long)]
    name: Option<String>,
    /// Name of the upstream; by default that of the tool without `get_`, so that several proposals can be in
    /// one folder
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// URL of the request: `http://host:port/path/{argument}?page={optional?}`
    #[arg(long)]
    url: Option<String>,
    /// Request of the route: `METHOD /path/{argument}`, or `RUN program word {argument}` for the output of a
    /// command
    #[arg(long, value_name = "REQUEST")]
    request: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

impl InferArguments {
    /// Whether the route runs a command.
    fn is_command(&self) -> bool {
        self.request.as_deref().is_some_and(|request| request.split_whitespace().next() == Some("RUN"))
    }
}

pub(super) fn infer(arguments: &InferArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let mut samples = Vec::new();
    let mut selected = Vec::new();
    for file in &arguments.files {
        let name =
            file.file_name().map_or_else(|| "sample".into(), |name| name.to_string_lossy().into_owned());
        let failure = |reason: String| CommandError::usage(format!("{}: {reason}", file.display()));
        match read_recording(file)? {
            Recording::Body(_) | Recording::One(_) if arguments.entry.is_some() => {
                return Err(failure(NO_ENTRIES.to_owned()));
            }
            Recording::Body(mut response) => {
                // A command may print nothing, so an empty file is a valid sample beside others.
                if !arguments.is_command() || arguments.files.len() == 1 {
                    check_body(&response.body).map_err(failure)?;
                }
                if arguments.is_command() {
                    let exit = ProgramExit { end: ProgramEnd::Code(0), stderr: Bytes::new() };
                    response = UpstreamResponse::from_program(response.body, exit);
                }
                samples.push(Sample { name, response });
            }
            Recording::One(_) | Recording::Har(_) if arguments.is_command() => {
                let reason = "expected the output of a command, found an HTTP response";
                return Err(failure(reason.to_owned()));
            }
            Recording::One(response) => samples.push(Sample { name, response }),
            Recording::Har(exchanges) => {
                let chosen = selected_entries(exchanges, arguments.entry.as_ref()).map_err(failure)?;
                for (number, exchange) in chosen {
                    let response = exchange.response.map_err(|reason| failure(reason.to_string()))?;
                    samples.push(Sample { name: format!("{name}, entry {number}"), response });
                    selected.push(SelectedEntry { file, number, method: exchange.method, url: exchange.url });
                }
            }
        }
    }
    if samples.len() > SAMPLE_LIMIT {
        return Err(CommandError::usage(format!(
            "at most {SAMPLE_LIMIT} responses are supported, found {}",
            samples.len()
        )));
    }
    check_one_endpoint(arguments, &selected)?;
    let naming = naming(arguments, selected.pop())?;
    let proposal = propose(&samples, &naming);
    match arguments.output {
        Output::Json => screen.json(&json!(proposal)),
        Output::Text => {
            screen.line(proposal.yaml.trim_end());
            summary(&proposal, samples.len(), screen);
        }
    }
    Ok(())
}

/// Rejects files that a failed `curl` leaves: they would count as samples of a successful response.
fn check_body(body: &[u8]) -> Result<(), String> {
    if body.is_empty() {
        return Err("expected a response, found an empty file".to_owned());
    }
    let text = String::from_utf8_lossy(body);
    let first_line = text.trim_start().lines().next().unwrap_or_default();
    let rest = first_line.strip_prefix("curl: (").unwrap_or_default();
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        let error = cut_characters(first_line, 200);
        return Err(format!("expected a response, found an error of curl: `{error}`"));
    }
    Ok(())
}

/// An entry of a HAR file that was selected: its number from 1, and its request.
struct SelectedEntry<'a> {
    file: &'a Path,
    number: usize,
    method: String,
    url: String,
}

/// Rejects entries of different endpoints, because they are not samples of one route. If the command line
/// specifies the request, the paths may differ, for example for `/orders/{id}`.
fn check_one_endpoint(
    arguments: &InferArguments,
    selected: &[SelectedEntry<'_>],
) -> Result<(), CommandError> {
    let is_explicit = arguments.url.is_some() || arguments.request.is_some();
    let is_same = |two: &[SelectedEntry<'_>]| {
        two[0].method == two[1].method && (is_explicit || path_of(&two[0].url) == path_of(&two[1].url))
    };
    if selected.windows(2).all(is_same) {
        return Ok(());
    }
    let mut message = "expected entries of one endpoint, found several:".to_owned();
    for SelectedEntry { file, number, method, url } in selected.iter().take(MAX_ENTRIES_LISTED) {
        message += &format!("\n  {}, entry {number}: {method} {url}", file.display());
    }
    if selected.len() > MAX_ENTRIES_LISTED {
        message += &format!("\n  and {} more", selected.len() - MAX_ENTRIES_LISTED);
    }
    message += "\nselect one with `--entry NUMBER`, or with more of its URL; `--request 'METHOD \
             /path/{argument}'` declares different paths as one endpoint";
    Err(CommandError::usage(message))
}

/// Returns a URL without its query and fragment.
fn path_of(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Returns the selected entries of a HAR file, with their numbers from 1.
fn selected_entries(
    exchanges: Vec<HarExchange>,
    choice: Option<&EntryChoice>,
) -> Result<Vec<(usize, HarExchange)>, String> {
    let entries = exchanges.len();
    let endpoint = |exchange: &HarExchange| (exchange.method.clone(), path_of(&exchange.url).to_owned());
    let last_endpoint = exchanges.last().map(endpoint);
    let is_chosen = |(number, exchange): &(usize, HarExchange)| match choice {
        None => Some(endpoint(exchange)) == last_endpoint && exchange.response.is_ok(),
        Some(EntryChoice::Number(chosen)) => number == chosen,
        Some(EntryChoice::Url(part)) => exchange.url.contains(part.as_str()) && exchange.response.is_ok(),
    };
    let chosen: Vec<_> = (1..).zip(exchanges).filter(is_chosen).collect();
    Err(match choice {
        _ if !chosen.is_empty() => return Ok(chosen),
        None => "the last entry has no response".to_owned(),
        Some(EntryChoice::Number(number)) => format!("expected an entry from 1 to {entries}, found {number}"),
        Some(EntryChoice::Url(part)) => {
            format!("expected an entry with `{part}` in its URL and a response, found none")
        }
    })
}

/// Determines the names and the request of the route: from the command line, or else from the HAR file.
fn naming(
    arguments: &InferArguments,
    selected: Option<SelectedEntry<'_>>,
) -> Result<RouteNaming, CommandError> {
    let (seen_method, seen_url) = selected.map(|entry| (entry.method, entry.url)).unzip();
    let method = seen_method.unwrap_or_else(|| "GET".to_owned());
    let mut naming = RouteNaming { method, ..RouteNaming::default() };
    let absolute =
        |target: &str| if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    if let Some(url) = arguments.url.clone().or(seen_url) {
        // If the URL has no scheme, a `://` may still be in its path or query.
        let parts = url.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?', '#']));
        let (scheme, rest) = parts.unwrap_or(("http", &url));
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        naming.address = Some(format!("{scheme}://{authority}"));
        naming.path = Some(absolute(target.split('#').next().unwrap_or_default()));
    }
    if let Some(request) = &arguments.request {
        let words: Vec<&str> = request.split_whitespace().collect();
        match words.as_slice() {
            ["RUN", program, words @ ..] => {
                check_command(request, arguments.url.is_some()).map_err(CommandError::usage)?;
                (naming.method, naming.address) = ("RUN".to_owned(), Some((*program).to_owned()));
                naming.path = Some(words.iter().map(|word| format!(" {word}")).collect());
            }
            [target] if *target != "RUN" => naming.path = Some(absolute(target)),
            [verb, target] if *verb != "CALL" => {
                (naming.method, naming.path) = ((*verb).to_owned(), Some(absolute(target)));
            }
            _ => {
                return Err(CommandError::usage(format!(
                    "`--request` takes `METHOD /path` or `RUN program word`, found {request:?}"
                )));
            }
        }
    }
    let path = naming.path();
    if !naming.is_command() && path.contains("?}") && path.find("?}") == path.find('?') {
        return Err(CommandError::usage(format!(
            "`{{name?}}` is an optional argument of the query; write `{{name}}` in the path of `{path}`"
        )));
    }
    let program = naming.address.as_deref().filter(|_| naming.is_command());
    let derived_name = || name_of(program.unwrap_or(path), &arguments.files);
    naming.name = arguments.name.clone().unwrap_or_else(derived_name);
    naming.upstream = arguments.upstream.clone().unwrap_or_else(|| upstream_of(&naming.name));
    let yaml = propose(&[], &naming).yaml;
    let Err(problems) = config::load(&Sources::from_text("proposal.yaml", yaml)) else { return Ok(naming) };
    let problems: Vec<_> = problems.as_slice().iter().map(|problem| problem.message.as_str()).collect();
    Err(CommandError::usage(format!(
        "`--name`, `--upstream` and the request (`--url`, `--request` or that of the HAR file) form no valid \
         route: {}",
        problems.join("; ")
    )))
}

/// Rejects characters that only a shell interprets, and `--url` together with a command.
fn check_command(request: &str, has_url: bool) -> Result<(), String> {
    if has_url {
        return Err("`--url` cannot be used with `--request 'RUN …'`".to_owned());
    }
    let Some(index) = request.find(['|', '<', '>', '&', ';', '"', '\'', '`']) else { return Ok(()) };
    Err(format!(
        "`RUN` has no shell: expected words separated by spaces, found `{}`",
        &request[index..=index]
    ))
}

/// Derives the name of the upstream from the name of the tool: `forecast` for `get_forecast`.
fn upstream_of(tool: &str) -> String {
    let words = tool.strip_prefix("get_").filter(|rest| !rest.is_empty()).unwrap_or(tool);
    words.replace('.', "_").chars().take(64).collect()
}

/// Derives the name of the tool from the path: `get_forecast` for `/v1/forecast/{city}`. Without a suitable
/// path, the name of the first file is used.
fn name_of(path: &str, files: &[PathBuf]) -> String {
    let plain = |text: &str| joined_words(&text.to_ascii_lowercase(), |c| c.is_ascii_alphanumeric());
    let path = path.split('?').next().unwrap_or_default();
    let mut segments = path.rsplit('/').filter(|segment| !segment.contains('{')).map(plain);
    let segment = segments.find(|name| !name.is_empty());
    let file_stem =
        || files.first().and_then(|file| file.file_stem()).map(|stem| plain(&stem.to_string_lossy()));
    let name = segment.or_else(file_stem).unwrap_or_default();
    let name: String = name.chars().take(60).collect();
    if name.is_empty() { "get_report".to_owned() } else { format!("get_{name}") }
}

/// Prints a summary of the proposal to standard error, so that standard output can be redirected to a file.
fn summary(proposal: &Proposal, samples: usize, screen: &mut Screen) {
    let has_omitted = proposal.findings.iter().any(|finding| finding.part == "samples");
    screen.info_line(&format!(
        "from {}, {}which the proposed route parses; check whether it extracts the right values:",
        pluralize(samples, "sample"),
        if has_omitted { "most of " } else { "" }
    ));
    for Finding { part, value, confidence, reason } in &proposal.findings {
        screen.info_line(&format!("  {:<7} {part}: {value} ({reason})", confidence.as_str()));
    }
    let guesses = proposal.findings.iter().filter(|finding| finding.confidence == Confidence::Guess).count();
    if guesses > 0 {
        screen.info_line("check the guesses; more samples, including failures, reduce them");
    }
}
