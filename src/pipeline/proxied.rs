//! Prompts and resources of MCP servers, which clients get as the server gives them.

use std::{collections::BTreeMap, sync::Arc};

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{
    Call, Snapshot, asking::Asking, audience::Telling, calling::allowed, patience, record::Record, sentences,
};
use crate::{
    prompt::PromptTable,
    reply::Reply,
    route::{McpMethod, Route, RouteTable, TraceContext, UpstreamRequest, UriTemplate},
    tool::{Arguments, Fault, Outcome, ToolResult},
    upstream::Due,
};

/// A prompt, a resource or a resource template of an MCP server.
#[derive(Debug)]
pub struct Proxied {
    /// How its server is asked: limits, deadline, scopes, and what no error tells. It is in no table of routes.
    pub route: Arc<Route>,
    /// What the server calls it: a name, a URI or a URI template.
    pub theirs: String,
    /// What lists show of it.
    pub definition: Map<String, Value>,
    /// Whether its server completes arguments.
    pub completes: bool,
}

/// What of MCP servers is offered as it is, beside their tools.
#[derive(Debug, Default)]
pub struct ProxiedTable {
    prompts: BTreeMap<String, Proxied>,
    resources: BTreeMap<String, Proxied>,
    templates: Vec<(UriPattern, Proxied)>,
    /// Whether there are prompts, at times.
    pub has_prompts: bool,
    /// Whether there are resources, at times.
    pub has_resources: bool,
}

/// Which URIs a template stands for (RFC 6570, all levels), without those that are not offered.
#[derive(Debug)]
pub struct UriPattern {
    regex: Regex,
    fixed_bytes: usize,
    except: Vec<String>,
}

/// The members of a result, each as the server wrote it.
pub type Members = BTreeMap<String, Box<RawValue>>;

/// Why there is no result. The text is for clients.
#[derive(Debug)]
pub enum ForwardError {
    /// The server has no such thing.
    Unknown(String),
    /// What the client gave is at fault.
    Arguments(String),
    /// Anything else.
    Failed(String),
}

impl UriPattern {
    /// Of a template; `except` are patterns of URIs that it does not stand for here.
    ///
    /// # Errors
    ///
    /// A sentence when it can't be read.
    pub fn of(template: &str, except: Vec<String>) -> Result<Self, String> {
        let most = UriTemplate::MAX_BYTES;
        if template.len() > most {
            return Err(format!("its URI template is longer than {most} bytes"));
        }
        let (mut pattern, mut fixed_bytes, mut rest) = ("^".to_owned(), 0, template);
        while let Some(open) = rest.find('{') {
            let close =
                rest[open..].find('}').ok_or("its URI template has a brace without its other half")?;
            pattern.push_str(&regex::escape(&rest[..open]));
            // What is not given is left out of a URI, with the mark before it.
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
        let regex = RegexBuilder::new(&pattern).unicode(false).build();
        let regex = regex.map_err(|_| "its URI template has too many parts".to_owned())?;
        Ok(Self { regex, fixed_bytes, except })
    }

    /// Whether a URI is one of them. One that is not offered is none however it is percent-encoded.
    fn fits(&self, uri: &str) -> bool {
        let decoded = percent_encoding::percent_decode_str(uri).decode_utf8_lossy();
        self.regex.is_match(uri.as_bytes()) && !holds(&self.except, uri) && !holds(&self.except, &decoded)
    }
}

fn holds(patterns: &[String], uri: &str) -> bool {
    patterns.iter().any(|pattern| crate::translate::extract::NamePattern::new(pattern).holds(uri))
}

impl ProxiedTable {
    /// Adds a prompt under the name that clients call it by.
    ///
    /// # Errors
    ///
    /// A sentence when another has that name.
    pub fn add_prompt(&mut self, name: String, prompt: Proxied, own: &PromptTable) -> Result<(), String> {
        if own.by_name(&name).is_some() {
            return Err(format!(
                "there is a prompt `{name}` in the configuration; give the prompts a `prefix`"
            ));
        }
        if let Some(other) = self.prompts.get(&name) {
            let upstream = &other.route.upstream;
            return Err(format!("`{upstream}` has a prompt of that name; give the prompts a `prefix`"));
        }
        self.prompts.insert(name, prompt);
        Ok(())
    }

    /// Adds a resource.
    ///
    /// # Errors
    ///
    /// A sentence when its URI is taken.
    pub fn add_resource(&mut self, resource: Proxied, own: &RouteTable) -> Result<(), String> {
        let uri = &resource.theirs;
        if let Some((route, _)) = own.by_uri(uri) {
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
    /// A sentence when it is there already.
    pub fn add_template(
        &mut self,
        pattern: UriPattern,
        template: Proxied,
        own: &RouteTable,
    ) -> Result<(), String> {
        let is_own = |route: &&Arc<Route>| {
            route.resource.as_ref().is_some_and(|resource| resource.uri.as_str() == template.theirs)
        };
        if let Some(route) = own.in_order().iter().find(is_own) {
            return Err(format!("the route `{}` is a resource of that template", route.definition.name));
        }
        if let Some((_, other)) = self.templates.iter().find(|(_, other)| other.theirs == template.theirs) {
            return Err(format!("`{}` has a resource of that template", other.route.upstream));
        }
        self.templates.push((pattern, template));
        Ok(())
    }

    /// A prompt by the name that clients call it by.
    pub fn prompt(&self, name: &str) -> Option<&Proxied> {
        self.prompts.get(name)
    }

    /// The resource of a URI, or the template that it fits. Of several the one with more fixed text is meant.
    pub fn resource(&self, uri: &str) -> Option<&Proxied> {
        let fitting = || self.templates.iter().filter(|(pattern, _)| pattern.fits(uri));
        let template = || fitting().max_by_key(|(pattern, _)| pattern.fixed_bytes);
        self.resources.get(uri).or_else(|| template().map(|(_, template)| template))
    }

    /// A template as it is written, or what a URI is of.
    pub fn template(&self, text: &str) -> Option<&Proxied> {
        let written = self.templates.iter().find(|(_, template)| template.theirs == text);
        written.map(|(_, template)| template).or_else(|| self.resource(text))
    }

    /// All prompts by name, all resources, and all templates.
    pub(super) fn prompts(&self) -> impl Iterator<Item = (&String, &Proxied)> {
        self.prompts.iter()
    }

    pub(super) fn resources(&self) -> impl Iterator<Item = &Proxied> {
        self.resources.values()
    }

    pub(super) fn templates(&self) -> impl Iterator<Item = &Proxied> {
        self.templates.iter().map(|(_, template)| template)
    }

    /// Everything in it.
    pub fn all(&self) -> impl Iterator<Item = &Proxied> {
        self.prompts.values().chain(self.resources()).chain(self.templates())
    }

    /// How many prompts, resources and templates it has.
    pub fn counts(&self) -> [usize; 3] {
        [self.prompts.len(), self.resources.len(), self.templates.len()]
    }
}

/// What an MCP server answered.
#[derive(Deserialize)]
struct Answered {
    result: Option<Members>,
    error: Option<Code>,
}

#[derive(Deserialize)]
struct Code {
    code: i64,
}

/// The member that a result has.
fn required(method: McpMethod) -> &'static str {
    match method {
        McpMethod::CallTool => "content",
        McpMethod::GetPrompt => "messages",
        McpMethod::ReadResource => "contents",
        McpMethod::Complete => "completion",
    }
}

impl Snapshot {
    /// Sends a request about a prompt or a resource on to its server. `name` is the server's name of it, or the URI.
    /// Dropping the future cancels it.
    ///
    /// # Errors
    ///
    /// [`ForwardError`] when there is no result. What its text tells of the server's insides is replaced.
    pub async fn forward(
        &self,
        to: &Proxied,
        (method, name): (McpMethod, &str),
        arguments: Map<String, Value>,
        mut call: Call<'_>,
    ) -> Result<Members, ForwardError> {
        let route = &to.route;
        let request_id = call.request_id.clone();
        let mut record = Record::begin(self, route, &call, &request_id);
        let reply = self.send_on(route, (method, name), arguments.clone(), &mut call, &mut record).await;
        let (failed, code) = match reply {
            Err(failed) => (route.translator.for_clients(*failed), None),
            Ok(reply) => {
                let answered = serde_json::from_slice::<Answered>(&reply.body).ok();
                let (result, error) =
                    answered.map_or((None, None), |Answered { result, error }| (result, error));
                if let Some(members) = result.filter(|members| members.contains_key(required(method))) {
                    record.end(Outcome::Success);
                    return Ok(members);
                }
                // Of what is sent, an error may quote the URI.
                let mut sent = arguments;
                sent.insert("uri".to_owned(), name.into());
                (self.why_not(route, sent.into(), reply, &mut record).await, error.map(|error| error.code))
            }
        };
        record.end(failed.outcome);
        let text = failed.told();
        const NO_RESOURCE: i64 = -32002;
        const INVALID_PARAMS: i64 = -32602;
        Err(match (method, code) {
            // The code of revision 2026-07-28, and the one of those before.
            (McpMethod::ReadResource, Some(NO_RESOURCE | INVALID_PARAMS)) => ForwardError::Unknown(text),
            (_, Some(INVALID_PARAMS)) => ForwardError::Arguments(text),
            _ => ForwardError::Failed(text),
        })
    }

    async fn send_on(
        &self,
        route: &Arc<Route>,
        (method, name): (McpMethod, &str),
        arguments: Map<String, Value>,
        call: &mut Call<'_>,
        record: &mut Record<'_>,
    ) -> Result<Reply, Box<ToolResult>> {
        allowed(route, call)?;
        let fault = |why: String| Box::new(ToolResult::error(Fault::Arguments, why));
        let patience = patience::of(call.headers).map_err(fault)?;
        let none = Arguments::from(Map::new());
        let request =
            route.request.build(&none, call.headers, None).map_err(|error| fault(error.to_string()))?;
        let UpstreamRequest::Tool(mut request) = request else {
            return Err(Box::new(ToolResult::error(Fault::Unreachable, sentences::UNREADABLE)));
        };
        (request.method, request.tool, request.arguments) = (method, name.into(), arguments);
        let due = Due::after(route.deadline).within(patience);
        let trace = call.trace.take().or_else(|| TraceContext::of_headers(call.headers));
        let (headers, caller, trace) = (call.headers, &call.caller, trace.as_ref());
        let (ticket, mut telling) = (&record.ticket(), Telling::new(None, route.definition.name.as_str()));
        let asking = Asking { snapshot: self, route, arguments: &none, headers, caller, trace, ticket, due };
        // It only reads.
        let reply = asking.call(request.into(), true, record, &mut telling).await;
        reply
            .map(|response| response.reply)
            .map_err(|error| Box::new(sentences::of(&error, sentences::Effect::Harmless)))
    }

    /// The tool error of a reply without a result, in the words that the call of a tool would have.
    async fn why_not(
        &self,
        route: &Arc<Route>,
        sent: Arguments,
        reply: Reply,
        record: &mut Record<'_>,
    ) -> ToolResult {
        match self.translate(route, sent, reply, Due::after(route.deadline), record).await {
            Ok(translation) if translation.result.is_error() => {
                record.notes(&translation.notes, translation.result.outcome);
                translation.result
            }
            Ok(_) => ToolResult::error(Fault::Unreadable, sentences::UNREADABLE),
            Err(failed) => *failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: bool) {
        let pattern = UriPattern::of(template, vec!["note://secret*".to_owned()]).unwrap();
        assert_eq!(pattern.fits(uri), expected, "{template} {uri}");
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
        assert!(UriPattern::of("r://{a", Vec::new()).is_err());
        assert!(UriPattern::of(&"x".repeat(3000), Vec::new()).is_err());
    }

    #[test]
    fn what_is_not_offered_fits_no_template() {
        check("note://{id}", "note://secret1", false);
        check("{+uri}", "note://se%63ret", false);
        check("note://{id}", "note://open", true);
    }
}
