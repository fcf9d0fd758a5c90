//! Prompts and resources of MCP upstreams, proxied unmodified.

use std::{collections::BTreeMap, sync::Arc};

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::error_text::{self, PossibleEffect, failure};
use super::run::{CallRun, PolicyStack, check_scopes, client_timeout};
use super::{Call, NoElicitor, Snapshot};
use crate::model::{Arguments, ErrorType, ToolOutcome, ToolResult, UpstreamResponse};
use crate::prompt::PromptTable;
use crate::route::{McpMethod, Route, RouteTable, UpstreamRequest, UriTemplate};
use crate::translate::extract::matches_wildcard;
use crate::upstream::Deadline;

/// Prompt, resource or resource template of an MCP upstream.
#[derive(Debug)]
pub struct ProxiedEntry {
    /// Route with the limits, timeout, scopes and error filter of its requests. It is in no route table.
    pub route: Arc<Route>,
    /// Key at the upstream: a name, a URI or a URI template.
    pub upstream_key: String,
    /// Entry in lists.
    pub definition: Map<String, Value>,
    /// Whether the upstream declares `completions`.
    pub completes: bool,
}

/// Prompts and resources of all MCP upstreams.
#[derive(Debug, Default)]
pub struct ProxiedTable {
    prompts: BTreeMap<String, ProxiedEntry>,
    resources: BTreeMap<String, ProxiedEntry>,
    templates: Vec<(UriPattern, ProxiedEntry)>,
    /// Whether an upstream declares prompts, even if it lists none now.
    pub has_prompts: bool,
    /// Whether an upstream declares resources, even if it lists none now.
    pub has_resources: bool,
}

/// Matcher for the URIs of a template (RFC 6570, all levels), except for excluded ones.
#[derive(Debug)]
pub struct UriPattern {
    regex: Regex,
    fixed_bytes: usize,
    except: Vec<String>,
}

/// Limit of a compiled URI template, in bytes.
const URI_TEMPLATE_LIMIT_BYTES: usize = 256 << 10;

/// Members of a result, each as the upstream sent it.
pub type Members = BTreeMap<String, Box<RawValue>>;

/// Reason why a request failed. The text is for clients.
#[derive(Debug)]
pub enum ForwardError {
    /// The upstream has no such prompt or resource.
    Unknown(String),
    /// Invalid arguments.
    Arguments(String),
    /// Any other failure.
    Failed(String),
}

impl UriPattern {
    /// Compiles a template. URIs that match a pattern in `except` are excluded.
    ///
    /// # Errors
    ///
    /// A sentence if the template is invalid, or its regex takes more than 256 KiB.
    pub fn parse(template: &str, except: Vec<String>) -> Result<Self, String> {
        let max_bytes = UriTemplate::MAX_BYTES;
        if template.len() > max_bytes {
            return Err(format!("its URI template is longer than {max_bytes} bytes"));
        }
        let (mut pattern, mut fixed_bytes, mut rest) = ("^".to_owned(), 0, template);
        while let Some(open) = rest.find('{') {
            let close = rest[open..].find('}').ok_or("its URI template has an unbalanced brace")?;
            pattern.push_str(&regex::escape(&rest[..open]));
            // For an undefined variable, its prefix is left out, too.
            pattern.push_str(match rest.as_bytes()[open + 1] {
                b'+' => "[^ ]*",
                b'#' => "(#[^ ]*)?",
                b'.' => r"(\.[^/?# ]*)?",
                b'/' => "(/[^?# ]*)?",
                b';' => "(;[^/?# ]*)?",
                b'?' => r"(\?[^# ]*)?",
                b'&' => "(&[^# ]*)?",
                _ => "[^/?# ]*",
            });
            fixed_bytes += open;
            rest = &rest[open + close + 1..];
        }
        fixed_bytes += rest.len();
        pattern.push_str(&regex::escape(rest));
        pattern.push('$');
        let regex = RegexBuilder::new(&pattern).unicode(false).size_limit(URI_TEMPLATE_LIMIT_BYTES).build();
        let regex = regex.map_err(|_| "its URI template has too many parts".to_owned())?;
        Ok(Self { regex, fixed_bytes, except })
    }

    /// Whether a URI matches. Excluded URIs are also compared percent-decoded.
    fn matches(&self, uri: &str) -> bool {
        let decoded = percent_encoding::percent_decode_str(uri).decode_utf8_lossy();
        self.regex.is_match(uri.as_bytes())
            && !matches_wildcard(&self.except, uri)
            && !matches_wildcard(&self.except, &decoded)
    }
}

impl ProxiedTable {
    /// Adds a prompt under its name for clients.
    ///
    /// # Errors
    ///
    /// A sentence if another prompt has that name.
    pub fn add_prompt(
        &mut self,
        name: String,
        prompt: ProxiedEntry,
        configured: &PromptTable,
    ) -> Result<(), String> {
        const HELP: &str = "set a `prefix` for the prompts";
        if configured.contains_key(name.as_str()) {
            return Err(format!("the configuration has a prompt `{name}`; {HELP}"));
        }
        if let Some(other) = self.prompts.get(&name) {
            return Err(format!("`{}` has a prompt of that name; {HELP}", other.route.upstream));
        }
        self.prompts.insert(name, prompt);
        Ok(())
    }

    /// Adds a resource.
    ///
    /// # Errors
    ///
    /// A sentence if the URI is taken.
    pub fn add_resource(&mut self, resource: ProxiedEntry, configured: &RouteTable) -> Result<(), String> {
        let uri = &resource.upstream_key;
        if let Some((route, _)) = configured.by_uri(uri) {
            return Err(format!("the route `{}` is a resource of that URI", route.definition.name));
        }
        if let Some(other) = self.resources.get(uri) {
            return Err(format!("`{}` has a resource of that URI", other.route.upstream));
        }
        self.resources.insert(uri.clone(), resource);
        Ok(())
    }

    /// Adds a resource template.
    ///
    /// # Errors
    ///
    /// A sentence if the template is taken.
    pub fn add_template(
        &mut self,
        pattern: UriPattern,
        template: ProxiedEntry,
        configured: &RouteTable,
    ) -> Result<(), String> {
        let key = &template.upstream_key;
        let uri = |route: &Arc<Route>| Some(route.resource.as_ref()?.uri.as_str().to_owned());
        if let Some(route) = configured.in_order().iter().find(|route| uri(route).as_ref() == Some(key)) {
            return Err(format!("the route `{}` is a resource of that template", route.definition.name));
        }
        if let Some((_, other)) = self.templates.iter().find(|(_, other)| other.upstream_key == *key) {
            return Err(format!("`{}` has a resource of that template", other.route.upstream));
        }
        self.templates.push((pattern, template));
        Ok(())
    }

    /// Prompt with this name for clients.
    pub fn prompt(&self, name: &str) -> Option<&ProxiedEntry> {
        self.prompts.get(name)
    }

    /// Resource with this URI, or the matching template with the most literal text.
    pub fn resource(&self, uri: &str) -> Option<&ProxiedEntry> {
        let matching = || self.templates.iter().filter(|(pattern, _)| pattern.matches(uri));
        let template = || matching().max_by_key(|(pattern, _)| pattern.fixed_bytes);
        self.resources.get(uri).or_else(|| template().map(|(_, template)| template))
    }

    /// Template with this text, or the resource or template that it matches as a URI.
    pub fn template(&self, text: &str) -> Option<&ProxiedEntry> {
        let written = self.templates.iter().find(|(_, template)| template.upstream_key == text);
        written.map(|(_, template)| template).or_else(|| self.resource(text))
    }

    /// Prompts, sorted by name.
    pub(super) fn prompts(&self) -> impl Iterator<Item = (&String, &ProxiedEntry)> {
        self.prompts.iter()
    }

    pub(super) fn resources(&self) -> impl Iterator<Item = &ProxiedEntry> {
        self.resources.values()
    }

    pub(super) fn templates(&self) -> impl Iterator<Item = &ProxiedEntry> {
        self.templates.iter().map(|(_, template)| template)
    }

    /// All entries.
    pub fn all(&self) -> impl Iterator<Item = &ProxiedEntry> {
        self.prompts.values().chain(self.resources()).chain(self.templates())
    }

    /// Numbers of prompts, resources and templates.
    pub fn counts(&self) -> [usize; 3] {
        [self.prompts.len(), self.resources.len(), self.templates.len()]
    }
}

/// JSON-RPC response of an upstream.
#[derive(Default, Deserialize)]
struct JsonRpcResponse {
    result: Option<Members>,
    error: Option<JsonRpcErrorCode>,
}

#[derive(Deserialize)]
struct JsonRpcErrorCode {
    code: i64,
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
    /// its key at the upstream, or the URI. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// [`ForwardError`], whose text has no internal details of the upstream.
    pub async fn forward(
        &self,
        to: &ProxiedEntry,
        (method, name): (McpMethod, &str),
        mut call: Call<'_>,
    ) -> Result<Members, ForwardError> {
        let route = self.forwarding.get(&to.route.definition.name);
        let route = route.expect("every proxied entry has a bound route");
        let mut parameters = std::mem::take(&mut call.arguments);
        let mut no_elicitor = NoElicitor;
        let mut run = CallRun::new(self, route, call, &mut no_elicitor);
        let (failed, code) = match run.send_forwarded((method, name), parameters.clone()).await {
            Err(failed) => (route.translator.for_clients(*failed), None),
            Ok(response) => {
                let JsonRpcResponse { result, error } =
                    serde_json::from_slice(&response.body).unwrap_or_default();
                if let Some(members) = result.filter(|members| members.contains_key(required_member(method)))
                {
                    run.log.end(ToolOutcome::Success);
                    return Ok(members);
                }
                // The error may quote the URI, so that is redacted as an argument.
                parameters.insert("uri".to_owned(), name.into());
                (run.forwarding_error(parameters.into(), response).await, error.map(|error| error.code))
            }
        };
        run.log.end(failed.outcome);
        let text = failed.message();
        const NO_RESOURCE: i64 = -32002;
        const INVALID_PARAMS: i64 = -32602;
        Err(match (method, code) {
            // The code of revision 2026-07-28, and that of legacy revisions.
            (McpMethod::ReadResource, Some(NO_RESOURCE | INVALID_PARAMS)) => ForwardError::Unknown(text),
            (_, Some(INVALID_PARAMS)) => ForwardError::Arguments(text),
            _ => ForwardError::Failed(text),
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
        let UpstreamRequest::Tool(mut request) = request else {
            return Err(failure(ErrorType::Unreachable, error_text::UNREADABLE));
        };
        (request.method, request.tool, request.arguments) = (method, name.into(), parameters);
        // Read-only, so it may be retried.
        let request = UpstreamRequest::Tool(request);
        let response = self.send(request, true, PolicyStack::Route).await;
        let response = response.map(|response| response.response);
        response.map_err(|error| error_text::error_result(&error, PossibleEffect::Harmless))
    }

    /// Tool error for a response without a result, with the text that a tool call would have.
    async fn forwarding_error(&mut self, sent: Arguments, response: UpstreamResponse) -> ToolResult {
        self.deadline = Deadline::after(self.exchange.route.timeout);
        match self.translate(sent, response).await {
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
