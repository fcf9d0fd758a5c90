//! Prompts and resources of MCP upstreams, proxied unmodified.

use std::{collections::BTreeMap, sync::Arc};

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::error_text::{self, PossibleEffect, failure};
use super::run::{CallRun, PolicyStack, check_scopes, client_timeout};
use super::{Call, FetchError, Snapshot};
use crate::model::{Arguments, ErrorType, ToolOutcome, ToolResult, UpstreamResponse};
use crate::prompt::PromptTable;
use crate::route::{McpMethod, Route, RouteTable, UpstreamRequest, UriTemplate};
use crate::translate::extract::matches_wildcard;
use crate::upstream::Deadline;

/// Prompt, resource or resource template of an MCP upstream.
#[derive(Debug)]
pub struct ProxiedEntry {
    /// Kind of the entry.
    pub kind: ProxiedKind,
    /// Key for clients: a name, a URI or a URI template.
    pub key: String,
    /// Route with the limits, timeout, scopes and error filter of its requests. This route is in no route
    /// table.
    pub route: Arc<Route>,
    /// Key at the upstream.
    pub upstream_key: String,
    /// Definition in the lists for clients.
    pub definition: Map<String, Value>,
    /// Matcher, for a template.
    pub pattern: Option<UriPattern>,
    /// Whether the upstream declares `completions`.
    pub completes: bool,
}

/// Kind of an entry. Each kind has a list of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProxiedKind {
    /// Prompt.
    Prompt,
    /// Resource.
    Resource,
    /// Resource template.
    Template,
}

/// Prompts and resources of all MCP upstreams.
#[derive(Debug, Default)]
pub struct ProxiedTable {
    /// By kind and key.
    entries: BTreeMap<ProxiedKind, BTreeMap<String, ProxiedEntry>>,
    /// Whether an upstream declares prompts, even if it lists none now.
    pub has_prompts: bool,
    /// Whether an upstream declares resources, even if it lists none now.
    pub has_resources: bool,
}

/// Matcher for the URIs of a template (RFC 6570, all levels), except for excluded URIs.
#[derive(Debug)]
pub struct UriPattern {
    regex: Regex,
    literal_bytes: usize,
    excluded: Vec<String>,
}

/// Maximum size of a compiled URI template, in bytes.
const URI_TEMPLATE_LIMIT_BYTES: usize = 256 << 10;

/// Members of a result, each as the upstream sent it.
pub type Members = BTreeMap<String, Box<RawValue>>;

impl UriPattern {
    /// Compiles a template. URIs that match a pattern in `excluded` are excluded.
    ///
    /// # Errors
    ///
    /// A message if the template is invalid or too long, or its regex takes more than 256 KiB.
    pub fn parse(template: &str, excluded: Vec<String>) -> Result<Self, String> {
        let max_bytes = UriTemplate::MAX_BYTES;
        if template.len() > max_bytes {
            return Err(format!("its URI template is longer than {max_bytes} bytes"));
        }
        let (mut pattern, mut literal_bytes, mut rest) = ("^".to_owned(), 0, template);
        while let Some(brace_start) = rest.find('{') {
            let brace_length =
                rest[brace_start..].find('}').ok_or("its URI template has an unbalanced brace")?;
            pattern.push_str(&regex::escape(&rest[..brace_start]));
            // An undefined variable expands to nothing, not even to its prefix (such as `#`).
            pattern.push_str(match rest.as_bytes()[brace_start + 1] {
                b'+' => "[^ ]*",
                b'#' => "(#[^ ]*)?",
                b'.' => r"(\.[^/?# ]*)?",
                b'/' => "(/[^?# ]*)?",
                b';' => "(;[^/?# ]*)?",
                b'?' => r"(\?[^# ]*)?",
                b'&' => "(&[^# ]*)?",
                _ => "[^/?# ]*",
            });
            literal_bytes += brace_start;
            rest = &rest[brace_start + brace_length + 1..];
        }
        literal_bytes += rest.len();
        pattern.push_str(&regex::escape(rest));
        pattern.push('$');
        let regex = RegexBuilder::new(&pattern).unicode(false).size_limit(URI_TEMPLATE_LIMIT_BYTES).build();
        let regex = regex.map_err(|_| "its URI template has too many parts".to_owned())?;
        Ok(Self { regex, literal_bytes, excluded })
    }

    /// Whether a URI matches. The URI is compared with the excluded URIs both as received and
    /// percent-decoded.
    fn matches(&self, uri: &str) -> bool {
        let decoded = percent_encoding::percent_decode_str(uri).decode_utf8_lossy();
        self.regex.is_match(uri.as_bytes())
            && !matches_wildcard(&self.excluded, uri)
            && !matches_wildcard(&self.excluded, &decoded)
    }
}

impl ProxiedTable {
    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// A message if the configuration, or an earlier upstream, has another entry with its key.
    pub fn add(
        &mut self,
        entry: ProxiedEntry,
        routes: &RouteTable,
        prompts: &PromptTable,
    ) -> Result<(), String> {
        let (kind_name, help) = match entry.kind {
            ProxiedKind::Prompt => ("prompt", "; set a `prefix` for the prompts"),
            ProxiedKind::Resource => ("resource", ""),
            ProxiedKind::Template => ("resource template", ""),
        };
        let key = &entry.key;
        let has_uri =
            |route: &Arc<Route>| route.resource.as_ref().is_some_and(|resource| resource.uri.as_str() == key);
        let is_configured = match entry.kind {
            ProxiedKind::Prompt => prompts.contains_key(key.as_str()),
            ProxiedKind::Resource => routes.by_uri(key).is_some(),
            ProxiedKind::Template => routes.in_order().iter().any(has_uri),
        };
        if is_configured {
            return Err(format!("the configuration has a {kind_name} `{key}`{help}"));
        }
        if let Some(other) = self.get(entry.kind, key) {
            return Err(format!("`{}` has a {kind_name} `{key}`{help}", other.route.upstream));
        }
        self.entries.entry(entry.kind).or_default().insert(key.clone(), entry);
        Ok(())
    }

    /// Entry with this key for clients.
    pub fn get(&self, kind: ProxiedKind, key: &str) -> Option<&ProxiedEntry> {
        self.entries.get(&kind)?.get(key)
    }

    /// Resource with this URI, or the matching template with the most literal text.
    pub fn resource(&self, uri: &str) -> Option<&ProxiedEntry> {
        let literal_bytes = |entry: &ProxiedEntry| {
            entry.pattern.as_ref().filter(|pattern| pattern.matches(uri)).map(|pattern| pattern.literal_bytes)
        };
        let templates = || self.by_kind(ProxiedKind::Template);
        let matching = || templates().filter_map(|entry| Some((literal_bytes(entry)?, entry)));
        let template = || matching().max_by_key(|(literal_bytes, _)| *literal_bytes);
        self.get(ProxiedKind::Resource, uri).or_else(|| template().map(|(_, entry)| entry))
    }

    /// All entries, sorted by kind and key.
    pub fn all(&self) -> impl Iterator<Item = &ProxiedEntry> {
        self.entries.values().flat_map(BTreeMap::values)
    }

    /// Entries of one kind, sorted by key.
    pub fn by_kind(&self, kind: ProxiedKind) -> impl Iterator<Item = &ProxiedEntry> {
        self.entries.get(&kind).into_iter().flat_map(BTreeMap::values)
    }
}

/// JSON-RPC response of an upstream.
#[derive(Default, Deserialize)]
struct JsonRpcResponse {
    result: Option<Members>,
    error: Option<Value>,
}

/// Member that a result must have.
fn required_member(method: McpMethod) -> &'static str {
    match method {
        McpMethod::CallTool => "content",
        McpMethod::GetPrompt => "messages",
        McpMethod::ReadResource => "contents",
        McpMethod::Complete => "completion",
    }
}

impl Snapshot {
    /// Forwards a request for a prompt or a resource, with the arguments of `call` as parameters. `name` is
    /// the key of the prompt or resource at the upstream, or its URI. Dropping the future cancels the
    /// request.
    ///
    /// # Errors
    ///
    /// [`FetchError`], whose message has no internal details of the upstream.
    pub async fn forward(
        &self,
        entry: &ProxiedEntry,
        (method, name): (McpMethod, &str),
        mut call: Call<'_>,
    ) -> Result<Members, FetchError> {
        let route = self.forwarding.get(&entry.route.definition.name);
        let route = route.expect("every proxied entry has a bound route");
        let mut parameters = std::mem::take(&mut call.arguments.values);
        let mut run = CallRun::new(self, route, call, None);
        let (error_result, code) = match run.send_forwarded((method, name), parameters.clone()).await {
            Err(error_result) => (route.translator.for_clients(*error_result), None),
            Ok(response) => {
                let JsonRpcResponse { result, error } =
                    serde_json::from_slice(&response.body).unwrap_or_default();
                // A response with `error` is never a success, even if it also has a `result`.
                let is_success =
                    |result: &Members| error.is_none() && result.contains_key(required_member(method));
                if let Some(members) = result.filter(is_success) {
                    run.log.end(ToolOutcome::Success);
                    return Ok(members);
                }
                // The error may quote the URI, so the URI is redacted like an argument.
                parameters.insert("uri".to_owned(), name.into());
                (
                    run.forwarding_error(parameters.into(), response).await,
                    error.and_then(|error| error["code"].as_i64()),
                )
            }
        };
        run.log.end(error_result.outcome);
        let message = error_result.message();
        const NO_RESOURCE: i64 = -32002;
        const INVALID_PARAMS: i64 = -32602;
        Err(match (method, code) {
            // The code for a missing resource is `INVALID_PARAMS` in revision 2026-07-28, and `NO_RESOURCE`
            // in legacy revisions.
            (McpMethod::ReadResource, Some(NO_RESOURCE | INVALID_PARAMS)) => FetchError::Missing(message),
            (_, Some(INVALID_PARAMS)) => FetchError::Arguments(message),
            _ => FetchError::Failed(message),
        })
    }
}

impl CallRun<'_> {
    /// Sends the request of a forwarded message.
    async fn send_forwarded(
        &mut self,
        (method, name): (McpMethod, &str),
        parameters: Map<String, Value>,
    ) -> Result<UpstreamResponse, Box<ToolResult>> {
        let (route, headers) = (self.exchange.route, self.exchange.headers);
        check_scopes(route, &self.exchange.client)?;
        self.deadline = Deadline::after(route.timeout).within(client_timeout(headers)?);
        let request = route.request.build(&self.exchange.arguments, headers, None);
        let request = request.map_err(|error| failure(ErrorType::Arguments, error.to_string()))?;
        let UpstreamRequest::Mcp(mut request) = request else {
            return Err(failure(ErrorType::Unreachable, error_text::UNREADABLE));
        };
        (request.method, request.target, request.arguments) = (method, name.into(), parameters);
        // The request only reads, so it may be retried.
        let request = UpstreamRequest::Mcp(request);
        let response = self.send(request, true, PolicyStack::Route).await;
        let response = response.map(|response| response.response);
        response.map_err(|error| error_text::error_result(&error, PossibleEffect::Harmless))
    }

    /// Tool error for a response without a result, with the message that a tool call would get.
    async fn forwarding_error(&mut self, arguments: Arguments, response: UpstreamResponse) -> ToolResult {
        self.deadline = Deadline::after(self.exchange.route.timeout);
        match self.translate(arguments, response).await {
            Ok(translation) if translation.result.is_error() => {
                self.log.log_notes(&translation.notes, translation.result.outcome);
                translation.result
            }
            Ok(_) => ToolResult::error(ErrorType::UnparseableResponse, error_text::UNREADABLE),
            Err(failed) => *failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: bool) {
        let pattern = UriPattern::parse(template, vec!["note://secret*".to_owned()]).unwrap();
        assert_eq!(pattern.matches(uri), expected, "{template} {uri}");
    }

    #[test]
    fn a_template_of_any_level_fits_its_uris() {
        check("note://{id}", "note://a%20b", true);
        check("note://{id}", "note://a/b", false);
        check("note://{id}/{part}", "note://a/é", true);
        check("file:///{+path}", "file:///a/b?c", true);
        check("r://x{/a,b*}{?q,p}{&r}", "r://x/1/2?q=3", true);
        check("r://x{/a,b*}{?q,p}", "r://x", true);
        check("r://x{.ext}", "r://x.csv", true);
        check("r://x{.ext}", "r://y.csv", false);
        check("r://é.x{#f}", "r://é.x#1", true);
        check("r://.*", "r://abc", false);
        assert!(UriPattern::parse("r://{a", Vec::new()).is_err());
        assert!(UriPattern::parse(&"x".repeat(3000), Vec::new()).is_err());
    }

    #[test]
    fn an_excluded_uri_matches_no_template() {
        check("note://{id}", "note://secret1", false);
        check("{+uri}", "note://se%63ret", false);
        check("note://{id}", "note://open", true);
    }
}
