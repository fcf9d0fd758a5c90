//! `upstreams`: servers and programs that receive the requests of routes.
//!
//! [`UpstreamSection`] declares the keys of all kinds of upstreams. `http` is for HTTP upstreams, `program`
//! for commands, CGI programs and MCP servers, `tools` for the lists of MCP servers. Credentials are in
//! [`crate::upstream::http`].

pub(super) mod http;
mod program;
pub(super) mod tools;

use std::{path::PathBuf, sync::Arc, time::Duration};

use self::http::Addresses;
use self::program::{EnvSettings, McpServer, ProgramCommand};
use self::tools::Offered;
use super::routes::{DefaultSettings, LimitSettings};
use crate::crypto::fingerprint;
use crate::policy::PolicySettings;
use crate::route::UpstreamName;
use crate::settings::{
    Checked, Code, Cursor, Entry, Environment, Node, OpenSection, OrOff, ReadContext, Report, Scalar,
    Section, Setting, SourceSpan, ValueKind, text_of,
};
use crate::tls::ClientTls;
use crate::translate::SecretPattern;
use crate::upstream::UpstreamSettings;
use crate::upstream::http::{
    AuthSettings, HealthCheckSettings, HttpSettings, HttpVersion, OutlierDetectionSettings, QueryParameter,
};
use crate::upstream::mcp::{McpTransport, RequestedLists};
use ::http::{HeaderMap, HeaderName, header::HOST};

pub use tools::{NameRules, ToolRules};

/// Parsed upstream with its policies.
#[derive(Debug, Clone)]
pub struct ParsedUpstream {
    /// Kind of the upstream, and its connection settings.
    pub settings: UpstreamSettings,
    /// Policies of the upstream, including those inherited from `defaults`.
    pub policy: PolicySettings,
    /// Fingerprint of the upstream's configuration; equal on replicas that have the same configuration.
    pub fingerprint: Arc<str>,
    /// Pattern that matches the upstream's secrets, which must not be in any error; `None` if the upstream
    /// has no secrets. Compiled once and shared by all routes of the upstream.
    pub(super) secrets: Option<SecretPattern>,
    /// MCP servers: which of the listed tools are offered, and under which names.
    pub tools: Option<ToolRules>,
    /// MCP servers: which of the listed prompts are offered, and under which names.
    pub prompts: Option<NameRules>,
    /// MCP servers: which of the listed resources are offered, and under which names.
    pub resources: Option<NameRules>,
    /// Limits that the routes of the upstream inherit.
    pub(super) limits: LimitSettings,
}

impl ParsedUpstream {
    /// Lists that glossator requests from an MCP server.
    pub fn requested_lists(&self) -> RequestedLists {
        RequestedLists { prompts: self.prompts.is_some(), resources: self.resources.is_some() }
    }

    /// Whether tools, prompts or resources of the server are offered without a route.
    pub(super) fn imports_entries(&self) -> bool {
        self.tools.is_some() || self.prompts.is_some() || self.resources.is_some()
    }
}

/// Section of an upstream.
#[derive(Section)]
#[section(name = "an upstream", id = "upstream", text = "url", default)]
#[section(check = Self::complete, check_keys = Self::check_keys)]
pub(super) struct UpstreamSection {
    /// Address: `http://host:port/base`, `https://host:port/base` or `unix:/path/to/socket:/base`; or a list,
    /// if one service has several addresses.
    #[key(example = "url: http://127.0.0.1:9000")]
    url: Option<Addresses>,
    /// When one of several addresses is ejected, or `off`.
    #[key(default = OrOff::On(OutlierDetectionSettings::default()))]
    outlier_detection: OrOff<OutlierDetectionSettings>,
    /// Active health checks of each address.
    #[key(shown = "none")]
    health_check: Option<HealthCheckSettings>,
    /// Interval between DNS lookups of the host.
    #[key(range = 100..=24 * 3_600_000, default = HttpSettings::DNS_REFRESH_INTERVAL_DEFAULT)]
    dns_refresh_interval: Duration,
    /// Instead of `url`: a program with its arguments, started for each call without a shell.
    command: Option<ProgramCommand>,
    /// Instead of `url`: path of a CGI program, started for each request.
    #[key(kind = ValueKind::Text, with = program::read_cgi)]
    cgi: Option<ProgramCommand>,
    /// Working directory of the program. Default `/`; for CGI, the directory of the program.
    #[key(kind = ValueKind::Text, with = program::read_directory)]
    cwd: Option<PathBuf>,
    /// Environment variables of the program, in addition to `PATH` and a locale.
    #[key(default = EnvSettings::default())]
    env: EnvSettings,
    /// Instead of `url`: an MCP server, by its URL or as a program to start.
    mcp: Option<McpServer>,
    /// Tools of an MCP server that are listed, with changes to their names and descriptions; or `off`.
    #[key(default = OrOff::On(ToolRules::default()), shown = "all of them, unmodified")]
    tools: OrOff<ToolRules>,
    /// Prompts of an MCP server that are listed: `all`, `off`, or a map.
    #[key(shown = "all of them, unless `tools` is `off`")]
    prompts: Option<Offered>,
    /// Resources of an MCP server that are listed: `all`, `off`, or a map.
    #[key(shown = "all of them, unless `tools` is `off`")]
    resources: Option<Offered>,
    /// HTTP version; `auto` is HTTP/2 if TLS negotiates it, else HTTP/1.1.
    #[key(default = HttpVersion::Auto)]
    protocol: HttpVersion,
    /// Trusted CAs and the client certificate, for `https://` addresses.
    tls: Option<ClientTls>,
    /// Timeout of connecting.
    #[key(range = 1..=3_600_000, default = HttpSettings::CONNECT_TIMEOUT_DEFAULT)]
    connect_timeout: Duration,
    /// Headers sent with every request; `${NAME}` and `file:/path` keep secrets out of the file. `Host`
    /// names a virtual host of the server.
    headers: HeaderMap,
    /// Query parameters added to every request, after those of the route; they replace parameters of the same
    /// name. `${NAME}` and `file:/path` keep secrets out of the file.
    #[key(kind = ValueKind::Map(&ValueKind::Scalar), with = http::read_query)]
    query: Option<Vec<QueryParameter>>,
    /// Credentials for this upstream: one of `basic`, `bearer` and `oauth`. Without an available credential,
    /// no request is sent.
    credentials: Option<AuthSettings>,
    /// Maximum number of redirects to its own address that are followed.
    #[key(range = 0..=10, shown = "0, or 2 for an MCP server")]
    max_redirects: Option<u8>,
    #[key(part)]
    policies: PolicySettings,
    #[key(part)]
    limits: LimitSettings,
}

/// Headers that glossator sets or removes itself: `Host`, message framing, and hop-by-hop headers (RFC 9110).
const RESERVED_HEADERS: &str =
    "connection content-length host keep-alive proxy-connection te trailer transfer-encoding upgrade";

/// Parses one upstream. Returns `None` after reporting the problems.
pub(super) fn read(
    context: ReadContext<'_>,
    defaults: &DefaultSettings,
    entry: &Entry,
) -> Option<ParsedUpstream> {
    let (report, Entry { key, value: node }) = (context.report, entry);
    let name = key.text.parse::<UpstreamName>().map_err(|error| {
        let help = "choose a name, such as `weather` or `billing-v1`";
        report.error(Code::InvalidName.at_span(key.span), error, help);
    });
    let mut policies = defaults.policies;
    if node.get("command").or_else(|| node.get("cgi")).is_some() {
        policies.max_in_flight.get_or_insert(PolicySettings::MAX_IN_FLIGHT_OF_PROGRAMS);
    }
    let base = UpstreamSection {
        connect_timeout: defaults.connect_timeout,
        policies,
        limits: defaults.limits,
        ..UpstreamSection::default()
    };
    let cursor = Cursor::new(context, key.span, node, "`url`", UpstreamSection::KIND);
    let section = OpenSection::read_known(&cursor, Some(base));
    let (name, mut section): (_, UpstreamSection) = (name.ok()?, section.ok()?);
    let policy = section.policies;
    // If `defaults` has a limit per client, even a limit that is never reached has an effect: it replaces the
    // default.
    if defaults.policies.max_in_flight_per_client.is_none() {
        warn_of_client_limit(report, node, &policy);
    }
    let settings = section.settings(context, name)?;
    let is_mcp = matches!(settings, UpstreamSettings::Mcp(_));
    let tools = section.tools.on().filter(|_| is_mcp);
    let default_rules = || tools.as_ref().map(|_| NameRules::default());
    let prompts = section.prompts.map_or_else(default_rules, |Offered(rules)| Some(rules?.names));
    let resources = section.resources.map_or_else(default_rules, |Offered(rules)| Some(rules?.names));
    Some(ParsedUpstream {
        secrets: secrets(report, entry, &settings)?,
        settings,
        policy,
        fingerprint: config_fingerprint(context.environment, entry),
        tools,
        prompts,
        resources,
        limits: section.limits,
    })
}

/// Warns of a limit per client that can never be reached. Queued requests count towards the limit, so a limit
/// slightly above `max_in_flight` can be reached.
pub(super) fn warn_of_client_limit(report: &Report<'_>, node: &Node, policy: &PolicySettings) {
    let max_requests = policy.max_in_flight() + PolicySettings::MAX_QUEUED;
    if policy.max_in_flight_per_client.is_some_and(|limit| limit >= max_requests)
        && let Some(entry) = node.entry("max_in_flight_per_client")
    {
        let message = format!(
            "`max_in_flight_per_client` has no effect: all clients together have at most {max_requests} \
             requests in flight or queued"
        );
        let help = format!("write a lower limit than {max_requests}, or remove it");
        report.warning(Code::LimitNeverReached.at_span(entry.key.span), message, help);
    }
}

impl UpstreamSection {
    /// Creates the connection settings for the kind of the upstream.
    fn settings(&mut self, context: ReadContext<'_>, name: UpstreamName) -> Option<UpstreamSettings> {
        /// Default of `max_redirects` for MCP servers: many of them redirect `/mcp` to `/mcp/`.
        const REDIRECTS_OF_MCP: u8 = 2;
        let (cwd, env) = (self.cwd.take(), std::mem::take(&mut self.env));
        if let Some(command) = self.command.take() {
            return program::command(context, name, command, cwd, env).ok().map(UpstreamSettings::Command);
        }
        if let Some(command) = self.cgi.take() {
            let has_working_directory = cwd.is_some();
            let mut program = program::command(context, name, command, cwd, env).ok()?;
            program.arg0 = program.path.to_string_lossy().into_owned();
            // The default working directory is the directory of the program (RFC 3875, section 7.2).
            if let Some(directory) = program.path.parent().filter(|_| !has_working_directory) {
                program.working_directory = directory.to_owned();
            }
            return Some(UpstreamSettings::Cgi(program));
        }
        let transport = match self.mcp.take() {
            None => return Some(UpstreamSettings::Http(http::settings(name, self.url.take()?, self))),
            Some(McpServer::Child(child)) => McpTransport::Child(child.program(context, name).ok()?),
            Some(McpServer::At(addresses)) => {
                self.max_redirects.get_or_insert(REDIRECTS_OF_MCP);
                McpTransport::Http(http::settings(name, addresses, self))
            }
        };
        Some(UpstreamSettings::Mcp(transport))
    }

    /// Completes the TLS settings according to the scheme of the address.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        // If there are an address and a program, `check_keys` reports the conflict.
        let program = self.command.as_ref().or(self.cgi.as_ref());
        if let (Some(addresses), _, None) | (_, Some(McpServer::At(addresses)), None) =
            (&self.url, &self.mcp, program)
        {
            let (tls, is_tls) = (self.tls.take(), addresses.first.is_tls());
            self.tls = ClientTls::for_address(tls, is_tls, "https://", section)?;
        }
        Ok(self)
    }

    /// Checks that exactly one key selects the kind of the upstream, and that all other keys apply to this
    /// kind.
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let mut kinds = KEYS_BY_KIND.into_iter().filter(|(key, _)| section.entry(key).is_some());
        let Some((key, own_keys)) = kinds.next() else {
            let help = "write `url: http://127.0.0.1:9000`";
            return Err(section.missing("an upstream has no `url`".to_owned(), help));
        };
        let is_child = section.get("mcp").is_some_and(|node| node.as_map().is_some());
        let has = |keys: &[&str], name| keys.iter().flat_map(|keys| keys.split(' ')).any(|key| key == name);
        let mut checked = Ok(());
        let entries = section.value.node.as_map().unwrap_or_default();
        for name in entries.iter().map(|entry| entry.key.text.as_str()) {
            let is_of_a_kind = KEYS_BY_KIND.iter().any(|(kind, keys)| *kind == name || has(keys, name));
            if is_of_a_kind && name != key && !has(own_keys, name) {
                checked = Err(section.conflict(name, key));
            }
            if is_child && has(&[ADDRESS_KEYS], name) {
                checked = Err(section.conflict(name, "mcp: { command: … }"));
            }
        }
        let headers = section.get("headers").and_then(Node::as_map).unwrap_or_default();
        let authorization = headers.iter().find(|entry| entry.key.text.eq_ignore_ascii_case("authorization"));
        if let (Some(entry), Some(_)) = (authorization, section.entry("credentials")) {
            let message = "`Authorization` has no effect beside `credentials`, which sets it";
            let at = Code::OverriddenAuthorization.at_span(entry.key.span);
            checked = Err(section.reject_at(at, message, "remove one of the two"));
        }
        checked
    }
}

/// Creates the pattern that matches an upstream's secrets. Returns `Some(None)` if there are none, and `None`
/// after reporting that the pattern would be too large.
fn secrets(report: &Report<'_>, entry: &Entry, settings: &UpstreamSettings) -> Option<Option<SecretPattern>> {
    let Some(source) = settings.secrets_pattern() else { return Some(None) };
    let pattern = SecretPattern::from_literals(&source);
    if pattern.is_none() {
        let message = "the secrets of this upstream are too long to be redacted from errors";
        let help =
            "check that no file or variable of its secrets contains something else, such as a certificate";
        report.error(Code::SecretTooLong.at_span(entry.key.span), message, help);
    }
    pattern.map(Some)
}

/// Computes the fingerprint of an upstream's configuration, including the values of variables in it. The
/// contents of referenced files are not included, so that a renewed secret does not change the fingerprint.
fn config_fingerprint(environment: &Environment, entry: &Entry) -> Arc<str> {
    let serialized = serde_json::json!([entry.key.text, entry.value.to_json()]).to_string();
    let values = serialized.split("${").skip(1).filter_map(|rest| {
        let name = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()?;
        Some(environment.get(name).unwrap_or_default())
    });
    let content = std::iter::once(serialized.as_str()).chain(values).collect::<Vec<_>>().join("\n");
    fingerprint(content.as_bytes()).into()
}

/// Keys that apply to upstreams with an address.
const ADDRESS_KEYS: &str = "outlier_detection health_check dns_refresh_interval protocol tls connect_timeout \
                            headers query credentials max_redirects";

/// Key that selects each kind of upstream, and keys that apply to the kind.
const KEYS_BY_KIND: [(&str, &[&str]); 4] = [
    ("url", &[ADDRESS_KEYS]),
    ("command", &["cwd env"]),
    ("cgi", &["cwd env"]),
    // An MCP server may have an address instead of a program.
    ("mcp", &["tools prompts resources", ADDRESS_KEYS]),
];

/// Parses the name of a forwarded header.
impl Setting for HeaderName {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        header_name(value.context, text_of(value)?, value.node.span)
    }
}

/// Parses the name of a header that the file sets or forwards.
pub(super) fn header_name(context: ReadContext<'_>, text: &str, span: SourceSpan) -> Checked<HeaderName> {
    let name = text.parse::<HeaderName>().map_err(|_| {
        let help = "write letters, digits and `-`: `X-Request-Id`";
        context.reject_at(Code::InvalidName.at_span(span), format!("`{text}` is not a header name"), help)
    })?;
    if RESERVED_HEADERS.split(' ').any(|reserved| reserved == name) {
        let message = format!("the header `{name}` is reserved: glossator sets it for each connection");
        let help = match name == HOST {
            true => "write `headers: { Host: NAME }` in the upstream, for all of its requests",
            false => "remove it",
        };
        return Err(context.reject_at(Code::ReservedHeader.at_span(span), message, help));
    }
    Ok(name)
}

/// Converts a string, number or boolean to a string; reports any other value.
pub(super) fn scalar(context: ReadContext<'_>, node: &Node, what: &str) -> Checked<String> {
    let value = Cursor::new(context, node.span, node, what, ValueKind::Scalar);
    Scalar::read(&value).map(|Scalar(text)| text)
}
