//! Configuration: finds, parses, checks and compiles the files.
//!
//! Files:
//!
//! - `folder`: finds and reads the files.
//! - `file`: parses one file. `secret_masking`: marks its secrets, and converts it to JSON without them.
//! - `section`: helpers for parsing sections.
//!
//! Compilation:
//!
//! - `compile`: merges the files, parses every top-level section, and checks the sections against each other.
//! - `server` (including `admin`), `telemetry`, `certificate_expiry`, `clients`: process settings and access
//!   control.
//! - `upstreams`: servers and programs, with their policies.
//! - `routes`: routes; parts of a route are in `request`, `input_requests`, `schemas`, `async_operation`,
//!   `resource` and `completions`.
//! - `response`, `rules`, `extract`, `content`, `limit`: translation of upstream responses.
//! - `prompts`, `route_calls`: prompts, and calls of routes; `route_tests`: tests of a route.
//! - `lint`: checks that involve several sections.
//!
//! Use of a compiled configuration:
//!
//! - `mcp_import`: routes for the tools that MCP servers list; `draft_routes`: draft routes of the
//!   playground.
//! - [`schema()`]: JSON Schema for editors; [`yaml`]: YAML writer.
//! - `migrate`, `renamed`: replacement of old names in files.
//!
//! All problems of all files are reported in one run, each as a [`Problem`]. Only this module and
//! [`crate::settings`], the framework for declared settings, read configuration files and the environment.

mod async_operation;
mod certificate_expiry;
mod clients;
mod compile;
mod completions;
mod content;
mod draft_routes;
mod editor_schema;
mod extract;
mod file;
mod folder;
mod input_requests;
mod lint;
mod mcp_import;
mod migrate;
mod prompts;
mod renamed;
mod request;
mod resource;
mod response;
mod route_calls;
mod route_tests;
mod routes;
mod rules;
mod schemas;
mod secret_masking;
mod section;
mod server;
mod telemetry;
mod upstreams;
pub mod yaml;

use std::{path::PathBuf, sync::Arc};

use crate::auth::AccessSettings;
use crate::policy::PassthroughSettings;
use crate::prompt::PromptTable;
use crate::route::UpstreamName;
use crate::settings::layers::ExternalSettings;
use crate::settings::{Files, Node, Origin, Report};
use crate::shared_state::StoreSettings;
use crate::telemetry::log::LogSettings;
use crate::translate::with_deep_stack;
use crate::upstream::UpstreamSettings;
use crate::upstream::mcp::McpTransport;

pub use crate::settings::expansion::{Environment, process_variables};
pub use crate::settings::layers::Flag;
pub use crate::settings::problem::{Problem, Problems, Severity};
pub use crate::settings::problem_code::Code;
pub(crate) use crate::settings::suggest::quoted_list;
pub use certificate_expiry::CertificateExpiry;
pub use draft_routes::Draft;
pub use editor_schema::schema;
pub use mcp_import::{ImportNote, Importer, ProxiedLists};
pub use migrate::{Change, Format, Migrated, Remark, migrate};
pub use renamed::renamed_flag;
pub use route_tests::{Example, Expectation, Expected, Position, update_expectation};
pub use routes::CompiledRoute;
pub use server::{AdminSettings, ListenerSettings, ServerSettings};
pub use telemetry::{MetricsExport, TelemetrySettings};
pub use upstreams::{NameRules, ParsedUpstream, ToolRules};

/// Inputs of a configuration.
#[derive(Debug, Clone)]
pub struct Sources {
    /// File or folder.
    pub origin: ConfigSource,
    /// Environment variables for references (`${NAME}`) and for process settings.
    pub environment: Environment,
    /// Process settings from command-line flags.
    pub flags: Vec<Flag>,
}

/// Location of the configuration.
#[derive(derive_more::Debug, Clone)]
pub enum ConfigSource {
    /// A file, or a folder whose `*.yaml` and `*.yml` files are read.
    Path(PathBuf),
    /// Contents of one file.
    Text {
        /// Name of the file in problem reports.
        name: String,
        /// Contents of the file, in YAML.
        // The text may contain secrets.
        #[debug(skip)]
        text: String,
    },
}

/// Compiled configuration, which had no errors.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Listener for clients, request filter, and MCP API.
    pub server: ServerSettings,
    /// Address and access control of the admin API.
    pub admin: AdminSettings,
    /// Access control of clients; `None` if every client is admitted.
    pub access: Option<AccessSettings>,
    /// Level and format of the log.
    pub log: LogSettings,
    /// Export of traces and metrics.
    pub telemetry: Box<TelemetrySettings>,
    /// Store for state that replicas share.
    pub shared: Option<StoreSettings>,
    /// Upstreams, in the order of the files.
    pub upstreams: Vec<ParsedUpstream>,
    /// Upstream for requests that match no route, and the settings of the passthrough.
    pub passthrough: Option<(UpstreamName, PassthroughSettings)>,
    /// Routes, in the order of the files.
    pub routes: Arc<[CompiledRoute]>,
    /// Prompts, by name.
    pub prompts: PromptTable,
    /// Files that the configuration refers to by absolute path, such as secrets, certificates and JWKS.
    pub referenced_files: Vec<PathBuf>,
    /// Expiry of the configured certificates.
    pub certificates: Vec<CertificateExpiry>,
    /// Importer of the tools, prompts and resources that MCP servers list.
    pub importer: Importer,
    /// Warnings, which do not prevent the start.
    pub warnings: Vec<Problem>,
}

impl Sources {
    /// Reads a file or folder, with the environment of this process and no flags.
    pub fn from_path(path: impl Into<PathBuf>) -> Self {
        Self {
            origin: ConfigSource::Path(path.into()),
            environment: Environment::from_process(),
            flags: Vec::new(),
        }
    }

    /// Uses the contents of one file, with an empty environment.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>) -> Self {
        let origin = ConfigSource::Text { name: name.into(), text: text.into() };
        Self { origin, environment: Environment::default(), flags: Vec::new() }
    }
}

impl Loaded {
    /// Returns a note for each tool without an output schema, with the reason.
    pub fn notes(&self) -> Vec<Problem> {
        let note = |route: &CompiledRoute| {
            let (name, reason) = (route.name(), route.no_output_schema.as_deref()?);
            let at = Code::NoOutputSchema.at_span(route.name_span);
            let message = format!("`{name}` has no output schema, because {reason}");
            let help = "write `output`, or `fields` with types in each of its rules".to_owned();
            let mut note = Problem::with_span(&self.importer.files, at, message, Some(help));
            note.severity = Severity::Note;
            Some(note)
        };
        self.routes.iter().filter_map(note).collect()
    }

    /// Maximum number of file descriptors that are open when every limit is reached.
    pub(crate) fn descriptors_needed(&self) -> u64 {
        /// Descriptors for listeners, the runtime, the log, files that are read, and connections to the admin
        /// API.
        const OWN_DESCRIPTORS: usize = 128;
        /// Descriptors of a program: three pipes, and one that signals its exit.
        const DESCRIPTORS_PER_PROGRAM: usize = 4;
        let upstreams = self.upstreams.iter().map(|upstream| {
            let limit = upstream.policy.max_in_flight();
            match &upstream.settings {
                // Each address has its own pool of idle connections.
                UpstreamSettings::Http(http) => limit.saturating_mul(1 + http.other_addresses.len()),
                UpstreamSettings::Command(_) | UpstreamSettings::Cgi(_) => {
                    limit.saturating_mul(DESCRIPTORS_PER_PROGRAM)
                }
                UpstreamSettings::Mcp(McpTransport::Http(_)) => limit,
                UpstreamSettings::Mcp(_) => DESCRIPTORS_PER_PROGRAM,
            }
        });
        let needed =
            upstreams.fold(OWN_DESCRIPTORS + self.server.listener.max_connections, usize::saturating_add);
        u64::try_from(needed).unwrap_or(u64::MAX)
    }
}

/// Loads a configuration: reads, checks and compiles it.
///
/// # Errors
///
/// [`Problems`]: all problems in all files, found in one run.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    // All jq filters are compiled on one thread with a deep stack. If it cannot be started, each filter tries
    // to start a thread of its own, or reports an error.
    with_deep_stack(|| load_here(sources)).unwrap_or_else(|| load_here(sources))
}

fn load_here(sources: &Sources) -> Result<Loaded, Problems> {
    let (mut files, read_problems) = match &sources.origin {
        ConfigSource::Path(path) => folder::read(path),
        ConfigSource::Text { name, text } => (Files::from_text(name, folder::without_bom(text)), Vec::new()),
    };
    files.add("built-in presets", rules::PRESETS, Origin::BuiltIn);
    let external = ExternalSettings::register(&mut files, &sources.environment, &sources.flags);
    let report = Report::new(&files);
    read_problems.into_iter().for_each(|problem| report.add(problem));
    let (trees, presets) = trees(&report);
    let loaded = compile::compile(&report, &sources.environment, &external, trees, presets.as_ref());
    let referenced_files = report.referenced_files();
    let found = report.into_problems();
    let Some(loaded) = loaded else {
        let mut problems = Problems::from_list(found);
        problems.referenced_files = referenced_files;
        return Err(problems);
    };
    let importer = Importer::new(files, &loaded.upstreams);
    Ok(Loaded { warnings: found, importer, ..loaded })
}

/// Parses the files and the built-in presets, whose file index is after the indices of all files.
fn trees(report: &Report<'_>) -> (Vec<Node>, Option<Node>) {
    let presets = report.files().built_in();
    let file_trees = (0..presets.unwrap_or_default()).filter_map(|index| file::read(report, index)).collect();
    (file_trees, presets.and_then(|index| file::read(report, index)))
}

#[cfg(test)]
mod tests;
