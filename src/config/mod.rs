//! The configuration: files as people write them, to settings that the other modules own.
//!
//! In reading order: `folder` finds the files, `source` keeps their text, `file` makes a tree of each in
//! which every key and value knows its place (`node`), or tells why it is no YAML (`syntax`); `cost` is what
//! its repetitions take; `keys` has the sections of the file, `section` how they are opened, `version` the
//! languages that a file was written in, `renamed` the names of earlier programs, and `migrate` rewrites files
//! that have them; `compile` makes one configuration of the trees, with a module for each part (`upstreams` of
//! each kind, `routes` with their `request`, `async_operation`, `input_requests`, `resource`, `notifications`,
//! `schemas` and `completions`, `rules`, `response`, `extract`, `content`, `route_tests`, `recording`, `prompts`
//! with their `route_calls`), and `lint` checks across them; `import` makes routes of what MCP servers list
//! later, `draft` of what is only tried out; `language` is for patterns, jq and templates, `certificates` for
//! the expiry of certificates, `clients` for authorization, `telemetry` for the destination of traces and
//! metrics. [`Problem`] reports what is wrong, `suggest` what was probably meant, `secret` keeps secrets out of
//! it. [`yaml`] writes values. [`schema()`] describes the file for editors.
//!
//! All problems of all files are found in one run. The only module that reads files or the environment.

mod update_tests;
mod admin;
mod input_requests;
mod route_calls;
mod certificates;
mod clients;
mod compile;
mod completions;
mod content;
mod draft;
mod route_tests;
mod extract;
mod file;
mod folder;
mod import;
mod async_operation;
mod keys;
mod language;
mod limit;
mod lint;
mod notifications;
mod migrate;
mod prompts;
mod recording;
mod renamed;
mod response;
mod request;
mod resource;
mod routes;
mod rules;
mod schema;
mod schemas;
mod section;
mod server;
mod masked;
mod telemetry;
mod upstreams;
mod version;
mod file_watch;
pub mod yaml;

use std::{fmt, path::PathBuf, sync::Arc};

use crate::{
    auth::AccessSettings,
    inbound::{filter::FilterSettings, mcp::McpApiSettings},
    policy::PassthroughSettings,
    route::{Scopes, UpstreamName},
    settings::{code, layers::Given, problem, report, secret, source, suggest, tree as node, units},
    shared_state::StoreSettings,
    telemetry::log::LogSettings,
    tls::ServerTls,
    translate::with_deep_stack,
    upstream::UpstreamSettings,
};

pub use crate::settings::code::{CODE_SUBJECTS, Code};
pub use crate::settings::layers::Flag;
pub use crate::settings::problem::{Problem, Problems, Severity};
pub use crate::settings::secret::{Environment, process_variables};
pub(crate) use crate::settings::suggest::listed;
pub use admin::AdminSettings;
pub use certificates::CertificateExpiry;
pub use draft::Draft;
pub use file_watch::Look;
pub use import::{ImportNote, Imported, Importer, ProxiedLists};
pub use migrate::{Change, Format, Migrated, Remark, migrate};
pub use prompts::PromptFile;
pub use renamed::renamed_flag;
pub use route_tests::{Example, Expectation, Expected, ExpectedContent, Position};
pub use routes::RouteFile;
pub use schema::schema;
pub use server::ListenerSettings;
pub use telemetry::{MetricsExport, TelemetrySettings, TracesExport};
pub use update_tests::{Acceptance, accept};
pub use upstreams::{NameRules, ToolRules, UpstreamFile};

/// Where a configuration comes from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The file, or the folder of files.
    pub origin: Origin,
    /// The variables that it may name, and that may set settings of the process.
    pub environment: Environment,
    /// Settings of the process from the command line.
    pub flags: Vec<Flag>,
}

/// The files.
#[derive(Clone)]
pub enum Origin {
    /// A file, or a folder of which every `*.yaml` and `*.yml` is read.
    Path(PathBuf),
    /// The contents of one file, and its name in problems.
    Text {
        /// What it is called.
        name: String,
        /// What stands in it.
        text: String,
    },
}

/// A configuration without errors.
#[derive(Debug)]
pub struct Loaded {
    /// Where clients connect to, and how their connections are treated.
    pub listener: ListenerSettings,
    /// Who we are to clients that connect through TLS; where there is none, they connect without.
    pub tls: Option<ServerTls>,
    /// Where operators connect to, and who of them may.
    pub admin: AdminSettings,
    /// Who may come in, and with how much.
    pub door: FilterSettings,
    /// Who may call; everybody where this is `None`.
    pub access: Option<AccessSettings>,
    /// What MCP clients are told of the server.
    pub mcp: McpApiSettings,
    /// Level and format of the log.
    pub log: LogSettings,
    /// What is sent to a collector, and where.
    pub telemetry: Box<TelemetrySettings>,
    /// How much is kept of replies, in all.
    pub cache_limit_bytes: usize,
    /// How much memory responses of upstreams may take at once, of all calls together.
    pub upstream_buffer_limit_bytes: usize,
    /// What replicas share, and where.
    pub shared: Option<StoreSettings>,
    /// The legacy servers.
    pub upstreams: Vec<UpstreamFile>,
    /// The upstream that gets every path which is no route, and how patiently.
    pub passthrough: Option<(UpstreamName, PassthroughSettings)>,
    /// What a caller needs for that.
    pub passthrough_scopes: Scopes,
    /// The routes, in the order of the files.
    pub routes: Arc<[RouteFile]>,
    /// The prompts, in the order of the files.
    pub prompts: Vec<PromptFile>,
    /// The files that it names: secrets, certificates.
    pub named_files: Vec<PathBuf>,
    /// When the certificates expire that it names.
    pub certificates: Vec<CertificateExpiry>,
    /// Makes routes of the tools that MCP servers list.
    pub importer: Importer,
    /// What works, but not as its writer thinks.
    pub warnings: Vec<Problem>,
    /// The tools that have no output schema, and why.
    pub notes: Vec<Problem>,
}

/// The names only: secrets may stand in a file.
impl fmt::Debug for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => formatter.debug_tuple("Path").field(path).finish(),
            Self::Text { name, text: _ } => {
                formatter.debug_struct("Text").field("name", name).finish_non_exhaustive()
            }
        }
    }
}

impl Sources {
    /// A file or folder with the environment of this process, and no flags.
    pub fn of_path(path: impl Into<PathBuf>) -> Self {
        Self { origin: Origin::Path(path.into()), environment: Environment::of_process(), flags: Vec::new() }
    }

    /// The contents of one file, with an empty environment.
    pub fn of_text(name: impl Into<String>, text: impl Into<String>) -> Self {
        let origin = Origin::Text { name: name.into(), text: text.into() };
        Self { origin, environment: Environment::default(), flags: Vec::new() }
    }
}

impl Loaded {
    /// How many file descriptors are open at once where every limit is reached.
    pub(crate) fn descriptors_needed(&self) -> u64 {
        /// Listeners, the runtime, the log, files that are read, and connections to the admin port.
        const OWN: usize = 128;
        /// The three pipes of a program, and one to hear of its end.
        const OF_A_PROGRAM: usize = 4;
        let upstreams = self.upstreams.iter().map(|file| {
            let limit = file.policy.max_in_flight;
            match &file.settings {
                // Each address keeps connections for later requests.
                UpstreamSettings::Http(http) => limit.saturating_mul(1 + http.others.len()),
                UpstreamSettings::Command(_) | UpstreamSettings::Cgi(_) => limit.saturating_mul(OF_A_PROGRAM),
                UpstreamSettings::Mcp(mcp) => mcp.http().map_or(OF_A_PROGRAM, |_| limit),
            }
        });
        let needed = upstreams.fold(OWN + self.listener.max_connections, usize::saturating_add);
        u64::try_from(needed).unwrap_or(u64::MAX)
    }
}

/// Reads, checks and compiles a configuration.
///
/// # Errors
///
/// [`Problems`]: everything that is wrong with all of its files, found in one run.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    // All filters on one thread. Where there is none, each may find one, or says so.
    with_deep_stack(|| load_here(sources)).unwrap_or_else(|| load_here(sources))
}

fn load_here(sources: &Sources) -> Result<Loaded, Problems> {
    let (mut files, unread) = match &sources.origin {
        Origin::Path(path) => folder::read(path),
        Origin::Text { name, text } => folder::of_text(name, text),
    };
    files.add_built_in("built-in presets", rules::PRESETS);
    let given = Given::add(&mut files, &sources.environment, &sources.flags);
    let report = report::Report::new(&files);
    compile::add_all(&report, unread);
    let (trees, presets) = trees(&report);
    let loaded = compile::compile(&report, &sources.environment, &given, trees, presets.as_ref());
    let refused = report.errors() > 0;
    let named_files = report.named_files();
    let found = report.into_problems();
    match loaded {
        Some(loaded) if !refused => {
            let notes = loaded.routes.iter().filter_map(|file| no_output_schema(&files, file)).collect();
            let importer = loaded.importer.of(files);
            Ok(Loaded { warnings: found, notes, named_files, importer, ..loaded })
        }
        _ => Err(Problems::of(found)),
    }
}

/// A note on a tool that declares no output schema.
fn no_output_schema(files: &source::Files, file: &RouteFile) -> Option<Problem> {
    let message =
        format!("`{}` has no output schema, because {}", file.name(), file.no_output_schema.as_deref()?);
    let help = "write `output`, or `fields` with types in each of its rules".to_owned();
    let mut note = Problem::at(files, Code::NoOutputSchema.at(file.name_span), message, Some(help));
    note.severity = Severity::Note;
    Some(note)
}

/// The trees of the files, and of the built-in presets, which come after them.
fn trees(report: &report::Report<'_>) -> (Vec<node::Node>, Option<node::Node>) {
    let Some(presets) = report.files().built_in() else { return (Vec::new(), None) };
    let written = (0..presets).filter_map(|index| file::read(report, index)).collect();
    (written, file::read(report, presets))
}

#[cfg(test)]
mod tests;
