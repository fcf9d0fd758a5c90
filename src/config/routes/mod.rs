//! `routes`: parsing of a route from its parts.
//!
//! [`RouteSettings`] declares the keys. `shared` declares the settings that `defaults` and upstreams have
//! too; `responses` parses the rules and the output schema.

mod responses;
mod shared;

use std::{cell::RefCell, collections::HashSet, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use self::shared::ResponseSettings;
use super::compile::RESPONSE_KIND;
use super::input_requests::InputRequestRounds;
use super::lint::{self, forwarded_credentials, templates};
use super::request::Upstreams;
use super::response;
use super::route_calls::UncheckedRouteCall;
use super::route_tests::{self, Example, UpstreamKind};
use super::rules::RuleSets;
use super::schemas::{ArgumentKind, UsedArguments};
use super::section::{ReadElsewhere, open_section, read_in_scope};
use super::{async_operation, completions, input_requests, request, resource, schemas};
use crate::model::{ToolDefinition, ToolName};
use crate::policy::RoutePolicySettings;
use crate::route::{
    AsyncOperationRule, InputRequests, LogNotification, RequestTemplate, ResourceDefinition, Route, Scopes,
    SideEffects, TaskSupport,
};
use crate::settings::{Code, Entry, Named, Report, Section, SourceSpan};
use crate::translate::{
    ErrorRule, OnNoMatch, OutputSchema, Redaction, RuleAction, SAMPLE, SuccessRule, Translator,
    WrapNonObjects,
};

pub(super) use shared::{AnnotationSettings, DefaultSettings, LimitSettings};

/// Compiled route, with the data from the file that [`Route`] does not contain.
#[derive(Debug, Clone)]
pub struct CompiledRoute {
    /// The compiled route.
    pub route: Arc<Route>,
    /// Policies of the route. Retries and the circuit breaker are inherited from its upstream.
    pub policy: RoutePolicySettings,
    /// Examples, which `glossator test` runs.
    pub tests: Vec<Example>,
    /// Names of the named rules that each rule of the route comes from; `None` for the route's own rules.
    pub rule_origins: Vec<Option<String>>,
    /// Reason why the tool has no output schema; `None` if it has one, or if the route is not a tool.
    pub no_output_schema: Option<String>,
    pub(super) name_span: SourceSpan,
}

impl CompiledRoute {
    /// Name of the tool.
    pub fn name(&self) -> &ToolName {
        &self.route.definition.name
    }
}

/// Parts of the file that are needed for parsing a route.
#[derive(Clone, Copy)]
pub(super) struct RouteContext<'a> {
    pub(super) defaults: &'a DefaultSettings,
    pub(super) rules: &'a RuleSets<'a>,
    /// Entry `defaults.response` of the file.
    pub(super) default_response: Option<&'a Entry>,
    pub(super) upstreams: Upstreams<'a>,
    /// Parsed route calls. They are checked against the called routes when all routes have been parsed.
    pub(super) calls: &'a RefCell<Vec<UncheckedRouteCall>>,
}

/// The section of a route.
#[derive(Section)]
#[section(name = "a route", id = "route", default)]
pub(super) struct RouteSettings {
    /// Display name.
    title: Option<String>,
    /// Description of the tool for models.
    description: Option<String>,
    /// Hints for clients about what the tool does (`ToolAnnotations` in MCP).
    #[key(kind = AnnotationSettings::KIND, with = AnnotationSettings::read_hints)]
    annotations: Option<Map<String, Value>>,
    /// Makes the route an MCP resource: a URI, or a URI template with arguments as `{name}`.
    resource: ReadElsewhere<ResourceDefinition>,
    /// Whether the route is a tool.
    #[key(shown = "`true`, or `false` for a resource")]
    tool: Option<bool>,
    /// REST endpoint, in addition to `POST /tools/NAME`: `METHOD /path/{argument}`.
    rest: ReadElsewhere<String>,
    /// Request to the upstream: `METHOD UPSTREAM/path/{argument}`, `CALL UPSTREAM/TOOL`, or a map.
    #[key(kind = request::KIND)]
    request: ReadElsewhere,
    /// Question that the user must confirm before the request is sent: a template.
    confirm: ReadElsewhere<String>,
    /// Input requests to the user or the client's model before the upstream request: a map, or a list of
    /// rounds.
    input_requests: ReadElsewhere<InputRequestRounds>,
    /// Timeout of an input request.
    #[key(range = 1_000..=3_600_000, inherits = InputRequests::DEFAULT_INPUT_TIMEOUT)]
    input_timeout: Option<Duration>,
    /// JSON Schema of the arguments; inferred from the placeholders when absent.
    #[key(kind = ValueKind::JsonSchema)]
    input: ReadElsewhere,
    /// Completions of arguments, by name, in addition to the values in `input`: a list, or a route that
    /// returns them.
    #[key(kind = ValueKind::Map(&completions::KIND), public)]
    completions: Named<ReadElsewhere>,
    /// JSON Schema of the structured content; enforced on every success.
    #[key(kind = ValueKind::JsonSchema)]
    output: ReadElsewhere,
    /// Clients that get a value other than an object as `{"result": …}`.
    #[key(default = WrapNonObjects::Always)]
    wrap_non_objects: WrapNonObjects,
    /// Rules for the upstream response; the first rule that matches is applied.
    #[key(kind = RESPONSE_KIND)]
    response: ReadElsewhere,
    /// Error for arguments that violate `input`, written like `error` of a rule: `value.message` describes
    /// the violation.
    argument_error: ReadElsewhere<ErrorRule>,
    /// Polling of asynchronous operations: `follow_location` polls the `Location` of a 202; a map configures
    /// it. Default: the first response is the result.
    #[key(kind = async_operation::KIND)]
    async_operation: ReadElsewhere,
    /// Log notifications to clients during a call.
    notifications: ReadElsewhere<Vec<LogNotification>>,
    /// Whether `traceparent` and `tracestate` are forwarded to the upstream.
    #[key(shown = "`true`")]
    propagate_trace_context: Option<bool>,
    /// Result of a response that no rule matches.
    #[key(shown = "`error`; `text` for a route to an MCP tool")]
    on_no_match: Option<OnNoMatch>,
    /// Whether the rules of `defaults.response` are tried after the route's own.
    #[key(shown = "`true`")]
    default_rules: Option<bool>,
    #[key(part)]
    limits: LimitSettings,
    /// Whether the request may be retried after it may have reached the upstream. Default: `true` for `GET`,
    /// `HEAD`, `OPTIONS`, `PUT` and `DELETE`, by the annotations of an MCP tool, else `false`.
    idempotent: Option<bool>,
    #[key(part)]
    policy: RoutePolicySettings,
    /// Scopes that a client needs, all of them; replaces those of `defaults`.
    scopes: Scopes,
    #[key(part)]
    responses: ResponseSettings,
    /// Examples, run by `glossator test`.
    #[key(kind = ValueKind::List(&route_tests::ExampleSettings::KIND), public)]
    tests: ReadElsewhere,
}

/// Parses one route. Returns `None` after reporting the problems.
pub(super) fn read(report: &Report<'_>, context: &RouteContext<'_>, entry: &Entry) -> Option<CompiledRoute> {
    let before = report.errors();
    let name = entry.key.text.parse::<ToolName>().map_err(|error| {
        let help = "write a tool name, such as `get_forecast`";
        report.error(Code::InvalidName.at_span(entry.key.span), error.to_string(), help);
    });
    if let Some(text) = entry.value.as_text() {
        let message = format!("a route must be a map, found {}", entry.value.describe());
        let help = format!("write `{}: {{ request: {text} }}`", entry.key.text);
        return report.reject(Code::WrongType.at_span(entry.value.span), message, help);
    }
    let section = open_section::<RouteSettings>(report, entry.key.span, &entry.value)?;
    let mut in_request = UsedArguments::default();
    let request = match section.entry("request") {
        Some(entry) => request::read(report, context.upstreams, entry, &mut in_request),
        None => {
            section.missing("a route has no `request`".to_owned(), "write `request: GET UPSTREAM/path`");
            None
        }
    };
    let upstream = request.as_ref().and_then(|request| context.upstreams.file(&request.upstream));
    let defaults = context.defaults;
    let policies = upstream.map_or(defaults.policies, |parsed| parsed.policy);
    let inherited = || RouteSettings {
        limits: upstream.map_or(defaults.limits, |parsed| parsed.limits),
        policy: RoutePolicySettings {
            retry: Some(policies.retry),
            circuit_breaker: Some(policies.circuit_breaker),
            ..RoutePolicySettings::default()
        },
        responses: defaults.responses.clone(),
        scopes: defaults.scopes.clone(),
        ..RouteSettings::default()
    };
    let settings = RouteSettings::read_fields(&section, Some(inherited())).unwrap_or_else(|_| inherited());
    let calls_mcp_tool = request.as_ref().is_some_and(|request| request.template.tool().is_some());
    if calls_mcp_tool {
        lint::routes::reject_async_operation(&section)?;
    }
    // Arguments of `async_operation`, `confirm`, `input_requests` and `notifications`.
    let mut elsewhere = UsedArguments::default();
    let operation = section.entry("async_operation").and_then(|entry| {
        async_operation::read(report, entry, context.upstreams, upstream, &mut in_request, &mut elsewhere)
    });
    let input_requests = input_requests::read(report, &entry.value, &mut elsewhere);
    for (name, _) in input_requests.iter().flat_map(input_requests::ParsedInputRequests::arguments) {
        in_request.make_optional(name);
    }
    let (sent_count, sends_all) = (in_request.arguments.len(), in_request.all);
    let before_uris = report.errors();
    let resource: Option<ResourceDefinition> =
        section.entry("resource").and_then(|entry| read_in_scope(report, entry, &[], &mut in_request));
    let rest = section.entry("rest").and_then(|entry| read_in_scope(report, entry, &[], &mut in_request));
    let is_request_valid = request.is_some() && report.errors() == before_uris;
    let declared = in_request.arguments.iter().map(|argument| argument.name.clone()).collect();
    let mut in_rules = UsedArguments { declared, ..UsedArguments::default() };
    let (rules, own_count) =
        responses::rules(&section, &settings, context, &entry.key.text, calls_mcp_tool, &mut in_rules)
            .unzip();
    let own_count = own_count.unwrap_or_default();
    let argument_error = section
        .entry("argument_error")
        .and_then(|configured| responses::argument_error(report, context, configured, &mut in_rules));
    let log = responses::notifications(&section, &mut elsewhere);
    let mut used = UsedArguments::default();
    [&in_request, &elsewhere, &in_rules].into_iter().for_each(|part| used.merge(part));
    let samples = rules.as_deref().and_then(responses::sampled);
    if let Some(input_requests) = &input_requests {
        let names: Vec<&str> = input_requests.names().chain(samples.map(|_| SAMPLE)).collect();
        input_requests::report_unknown_input_responses(report, "the route", &used, &names);
    }
    let any_argument = UsedArguments { all: true, ..UsedArguments::default() };
    let is_valid = is_request_valid && rules.is_some();
    let before_input = report.errors();
    let input = match (is_valid, section.entry("input")) {
        (true, configured) => schemas::input(report, configured, &in_request, &used),
        (false, None) => None,
        (false, configured) => schemas::input(report, configured, &UsedArguments::default(), &any_argument),
    };
    // With `$args`, a jq filter may use any argument, so no argument is reported as unused.
    if is_valid && report.errors() == before_input && !sends_all && !in_rules.all {
        let (sent, others) = in_request.arguments.split_at(sent_count);
        let is_sent = |name: &str| sent.iter().any(|argument| argument.name == name);
        let others = others.iter().filter(|argument| !in_rules.has(&argument.name));
        let counts = in_rules.arguments.iter().filter(|argument| argument.kind == ArgumentKind::Count);
        let unused = others.chain(counts.filter(|argument| !is_sent(&argument.name)));
        lint::routes::warn_of_unused_arguments(report, unused);
    }
    let wrap = settings.wrap_non_objects;
    let on_no_match = responses::on_no_match(settings.on_no_match, own_count, calls_mcp_tool);
    let upstream_kind = match request.as_ref().map(|request| &request.template) {
        Some(RequestTemplate::Command(_)) => UpstreamKind::Program,
        Some(RequestTemplate::Tool(_)) => UpstreamKind::McpServer,
        Some(RequestTemplate::Http(_)) | None => UpstreamKind::Http,
    };
    if let Some(rules) =
        rules.as_ref().filter(|_| request.is_some() && upstream_kind != UpstreamKind::Program)
    {
        response::warn_of_command_conditions(report, &rules[..own_count]);
    }
    if rules.as_ref().is_some_and(Vec::is_empty) {
        lint::routes::warn_of_unused_on_no_match(&section);
    }
    let is_tool = settings.tool.unwrap_or_else(|| section.entry("resource").is_none());
    let output = responses::output(&section, rules.as_deref(), own_count, on_no_match, wrap, is_tool);
    let (output, no_output_reason) =
        output.map_or_else(|reason| (None, reason), |output| (Some(output), None));
    let tests = section.get("tests").map(|node| route_tests::read(report, node, upstream_kind));
    let tests = tests.unwrap_or_default();
    let RouteSettings { title, description, annotations, idempotent, policy, limits, responses, .. } =
        settings;
    // If the route has no rules, the output schema of the server applies.
    let has_schema_of_server = calls_mcp_tool && section.entry("response").is_none();
    // No warning for an MCP tool: its server provides the description.
    if section.entry("description").is_none() && !section.has_unknown_keys && !calls_mcp_tool {
        let help = "write one: models choose a tool or a resource by its description";
        let message = format!("the route `{}` has no `description`", entry.key.text);
        report.warning(Code::MissingDescription.at_span(entry.key.span), message, help);
    }
    if let Some(entry) = section.entry("annotations").filter(|_| !is_tool) {
        let message = "`annotations` has no effect: this route is not a tool";
        let help = "move the annotations into the resource: `resource: { uri: …, annotations: … }`";
        report.warning(Code::AnnotationsWithoutTool.at_span(entry.key.span), message, help);
    }
    let completions =
        input.as_ref().map(|input| completions::read_all(&section, input, context.calls)).unwrap_or_default();
    if report.errors() > before {
        return None;
    }
    let input = input?;
    let mut input_requests = input_requests?.finish(report, &input, settings.input_timeout)?;
    input_requests.sampled = samples;
    if let (Some(operation), Some(entry)) = (&operation, section.entry("async_operation")) {
        check_input_requests_of_task(report, entry, operation, &input_requests)?;
    }
    if let Some(request) = section.get("request") {
        templates::warn_of_unescaped(report, request, input.document());
    }
    lint::routes::warn_of_impossible_tests(&section, &input, &tests);
    let mut request = request?;
    let (mut forwarded, mut seen) = (responses.forward_headers.0, HashSet::new());
    forwarded.retain(|name| seen.insert(name.clone()));
    match &mut request.template {
        RequestTemplate::Http(template) => template.forwarded = forwarded,
        RequestTemplate::Command(_) => lint::routes::reject_headers(&section),
        RequestTemplate::Tool(template) => {
            template.forwarded = forwarded;
            template.effect = annotations.as_ref().map(SideEffects::from_annotations).unwrap_or_default();
        }
    }
    let has_effect = !idempotent.unwrap_or_else(|| request.template.effect().is_read_only);
    let is_idempotent = idempotent.unwrap_or_else(|| request.template.effect().is_idempotent);
    if samples.is_some() && !is_idempotent {
        let message = "`sample` requires a request that is safe to repeat: clients of MCP revision \
                       2026-07-28 repeat the call after sampling";
        let help = "write `idempotent: true` if the request can be sent twice, or use `input_requests` \
                    before the request";
        report.error(Code::InputRequestNotPossible.at_span(entry.key.span), message, help);
    }
    if let (Some(entry), false) = (section.entry("resource"), input_requests.is_empty()) {
        let message = "a route with input requests can't be a resource: `resources/read` sends none";
        let help = "write two routes, or remove the input requests";
        report.error(Code::InputRequestNotPossible.at_span(entry.key.span), message, help);
    }
    if let Some(resource) = &resource {
        resource::check(resource, &section, &input, &request.template, idempotent);
    }
    let (template, timeout) = (&request.template, limits.timeout);
    lint::routes::check_policies(&section, &policy, template, annotations.as_ref(), is_idempotent, timeout);
    if report.errors() > before {
        return None;
    }
    forwarded_credentials::warn_of_credentials(&section, entry, &request.template, upstream);
    let mut redact = responses.redact.0;
    redact.extend(upstream.and_then(|parsed| parsed.secrets.clone()));
    let redaction = Redaction(redact);
    let mut rules = rules?;
    for compiled in &mut rules {
        if let RuleAction::Success(SuccessRule { limit: Some(limit), .. }) = &mut compiled.rule.action {
            responses::mark_text_arguments(limit, &input);
        }
    }
    let rule_origins =
        rules.iter().map(|rule| rule.origin.as_ref().map(|origin| origin.names.clone())).collect();
    let description = description.map(|text| text.trim_end().to_owned());
    let resource = resource.map(|parsed| {
        let (name, title, description) = (entry.key.text.clone(), title.clone(), description.clone());
        ResourceDefinition { name, title, description, ..parsed }.into()
    });
    let translator = |rules, on_no_match, output, has_effect| {
        let (redaction, limits) = (redaction.clone(), limits.translation);
        Translator { rules, on_no_match, output, wrap, redaction, limits, has_effect }
    };
    let route = Route {
        completions,
        definition: ToolDefinition {
            name: name.ok()?,
            title,
            description,
            annotations,
            input_schema: input.document().clone(),
            output_schema: output.as_ref().map(OutputSchema::advertised),
            unwrapped_output_schema: output.as_ref().and_then(OutputSchema::advertised_unwrapped),
            meta: None,
        },
        input,
        is_tool,
        resource,
        scopes: settings.scopes,
        input_requests,
        rest,
        upstream: request.upstream,
        request: request.template,
        async_operation: operation.map(Box::new),
        log: log?,
        propagates_trace_context: settings.propagate_trace_context.unwrap_or(true),
        argument_error: argument_error
            .map(|rule| translator(vec![rule], OnNoMatch::Text, None, false).into()),
        translator: translator(
            rules.into_iter().map(|compiled| compiled.rule).collect(),
            on_no_match,
            output,
            has_effect,
        ),
        timeout: limits.timeout,
        idempotent: is_idempotent,
        response_limit_bytes: limits.translation.response_bytes,
        envelope: responses.envelope,
        error_status: responses.error_status,
        error_format: responses.error_format,
    };
    Some(CompiledRoute {
        route: Arc::new(route),
        policy,
        tests,
        rule_origins,
        no_output_schema: no_output_reason.filter(|_| is_tool && !has_schema_of_server),
        name_span: entry.key.span,
    })
}

/// Rejects `sample` in a route that creates tasks, because a client that polls a task can't be sent a
/// sampling request. Also rejects `task_requests_input` without input requests.
fn check_input_requests_of_task(
    report: &Report<'_>,
    entry: &Entry,
    operation: &AsyncOperationRule,
    input_requests: &InputRequests,
) -> Option<()> {
    if input_requests.sampled.is_some() && operation.task.support != TaskSupport::Forbidden {
        let message = "`sample` can't be combined with an `async_operation` that becomes a task: \
                       a client that polls the task can't be sent a sampling request";
        let help = "write `task: forbidden`: the operation is then polled within `timeout`";
        return report.reject(Code::InputRequestNotPossible.at_span(entry.key.span), message, help);
    }
    if input_requests.rounds.is_empty() && operation.task.requests_input {
        let message = "`task_requests_input` has no effect without input requests";
        let help = "add `input_requests` or `confirm`, or remove it";
        return report.reject(Code::RequiresKey.at_span(entry.key.span), message, help);
    }
    Some(())
}
