//! Messages of prompts, and completions of the arguments of prompts and of resource templates.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::worker_pool::WorkError;
use super::{BoundRoute, Call, FetchError, Snapshot};
use crate::model::{Arguments, ContentBlock, ErrorType, ToolOutcome, ToolResult, kind_of};
use crate::prompt::{PartContent, PartTemplate, Prompt, PromptMessage, PromptResource};
use crate::route::{Completion, Route, RouteCall, RouteCompletion, Suggestions, scalar_text};
use crate::telemetry::Untrusted;
use crate::translate::{BLOCK_LIMIT, JqVariables, TemplateError, WorkBudget, request_variables};

/// Timeout of the filter of a completion, in addition to the timeout of the route that provides the values.
const FILTER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of all messages of one prompt together, in bytes.
const MESSAGES_LIMIT_BYTES: usize = 64 << 20;

/// Argument that a person is typing.
#[derive(Debug)]
pub struct TypedArgument<'a> {
    /// Name of the argument.
    pub argument: &'a str,
    /// Value so far.
    pub value: &'a str,
    /// Other arguments that are known already, as strings.
    pub others: Map<String, Value>,
}

impl Snapshot {
    /// Builds the messages of a prompt from checked arguments. Its parts are fetched concurrently, by calls
    /// with the context of `call`. Dropping the future cancels these calls.
    ///
    /// # Errors
    ///
    /// [`FetchError`] if any part can't be fetched or rendered.
    pub async fn prompt(
        &self,
        prompt: &Prompt,
        arguments: &Arguments,
        call: &Call<'_>,
    ) -> Result<Vec<PromptMessage>, FetchError> {
        let fetched = prompt.parts.iter().map(|part| self.fetch(part, arguments, call));
        let fetched = join_all(fetched).await;
        let (variables, work_budget) =
            (request_variables(arguments), WorkBudget::with_steps(WorkBudget::TEXT_STEPS));
        let failed = |error: TemplateError| FetchError::Failed(error.to_string());
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for (part, fetched) in prompt.parts.iter().zip(fetched) {
            for message in part.messages(fetched?, &variables, &work_budget).map_err(failed)? {
                bytes += message.bytes();
                messages.push(message);
            }
            if messages.len() > BLOCK_LIMIT || bytes > MESSAGES_LIMIT_BYTES {
                let max_mib = MESSAGES_LIMIT_BYTES >> 20;
                return Err(FetchError::Failed(format!(
                    "it would have more than {BLOCK_LIMIT} messages, or {max_mib} MiB"
                )));
            }
        }
        if messages.is_empty() {
            return Err(FetchError::Failed("with these arguments it has no message".to_owned()));
        }
        Ok(messages)
    }

    async fn fetch(
        &self,
        part: &PartTemplate,
        arguments: &Arguments,
        call: &Call<'_>,
    ) -> Result<Option<ToolResult>, FetchError> {
        match &part.part {
            PartContent::Route(route_call) => {
                let result = self.call_on_behalf(route_call, arguments, call).await;
                let result = result.map_err(FetchError::Failed)?;
                match result.outcome {
                    ToolOutcome::Success => Ok(Some(result)),
                    ToolOutcome::Error(ErrorType::Arguments) => Err(FetchError::Arguments(result.message())),
                    ToolOutcome::Error(_) => Err(FetchError::Failed(result.message())),
                }
            }
            PartContent::Resource(PromptResource { uri, text: None, .. }) => {
                let work_budget = WorkBudget::with_steps(WorkBudget::TEXT_STEPS);
                let uri = uri.render_until(&request_variables(arguments), &work_budget);
                let uri = uri.map_err(|error| FetchError::Failed(error.to_string()))?;
                let read_resource = self.read(&uri, call.clone()).await.map_err(|error| {
                    use FetchError::{Arguments, Failed, Missing, Unknown};
                    let kind = match error {
                        Unknown | Arguments(_) => Arguments,
                        Missing(_) | Failed(_) => Failed,
                    };
                    kind(error.to_string())
                })?;
                // The tool result has the contents as embedded resources.
                let document = |resource| ContentBlock::Resource { resource }.into();
                let documents = read_resource.contents.into_iter().map(document).collect();
                Ok(Some(ToolResult::new(ToolOutcome::Success, documents)))
            }
            PartContent::Text(_) | PartContent::Resource(_) | PartContent::ResourceLink(_) => Ok(None),
        }
    }

    /// Calls a route with arguments that are built from the arguments of a prompt or a completion.
    ///
    /// # Errors
    ///
    /// A message if the arguments can't be built.
    async fn call_on_behalf(
        &self,
        route_call: &RouteCall,
        arguments: &Arguments,
        call: &Call<'_>,
    ) -> Result<ToolResult, String> {
        let route = self.table.by_name(route_call.route.as_str());
        let route = route.ok_or_else(|| "its route does not exist".to_owned())?;
        let work_budget = WorkBudget::with_steps(WorkBudget::TEXT_STEPS);
        let filled = route_call.fill(arguments, &route.input, Some(&work_budget));
        let filled = filled.map_err(|error| error.to_string())?;
        let call = Call { arguments: filled.into(), ..call.clone() };
        Ok(self.call(route, call, None).await)
    }

    /// Completion values of an argument. The list is empty if the route that provides the values fails. The
    /// reason is only logged, because an error does not help a person who is typing.
    pub async fn complete(
        &self,
        completion: &Completion,
        typed: TypedArgument<'_>,
        call: &Call<'_>,
    ) -> Suggestions {
        let TypedArgument { argument, value, mut others } = typed;
        let completion = match completion {
            Completion::Listed(values) => return Suggestions::matching(values.clone(), value, false),
            Completion::Route(completion) => completion,
        };
        others.insert(argument.to_owned(), value.into());
        match self.request_values(completion, others.into(), call).await {
            Ok(values) => Suggestions::matching(values, value, completion.is_filtered),
            Err(reason) => {
                let route = &completion.call.route;
                // The reason may quote the typed text or the upstream, so it is only logged at `debug`.
                warn!(argument, %route, "completion values unavailable");
                debug!(argument, %route, reason = %Untrusted(&reason), "completion values unavailable");
                Suggestions::default()
            }
        }
    }

    /// Route of the configuration whose resource has this URI template, or matches this URI.
    pub fn configured_template(&self, uri: &str) -> Option<&Arc<BoundRoute>> {
        let is_template = |route: &&Arc<BoundRoute>| {
            route.resource.as_ref().is_some_and(|resource| resource.uri.as_str() == uri)
        };
        let template = self.table.in_order().iter().find(is_template);
        template.or_else(|| self.table.by_uri(uri).map(|(route, _)| route))
    }

    /// Completion values of an argument in a resource URI. `None` if the template has no such argument.
    pub async fn complete_uri(
        &self,
        route: &Route,
        typed: TypedArgument<'_>,
        call: &Call<'_>,
    ) -> Option<Suggestions> {
        let name = typed.argument;
        route.resource.as_ref()?.uri.arguments().find(|argument| *argument == name)?;
        Some(match route.completions.iter().find(|(argument, _)| argument == name) {
            Some((_, completion)) => self.complete(completion, typed, call).await,
            None => Suggestions::matching(route.input.listed(name), typed.value, false),
        })
    }

    /// Whether any argument of a prompt or a resource URI has completions.
    pub fn completes(&self) -> bool {
        let mut arguments = self.prompts.values().flat_map(|prompt| &prompt.arguments);
        let in_uri = |route: &Arc<BoundRoute>| {
            let has_completion = |name: &str| route.completions.iter().any(|(argument, _)| argument == name);
            let mut names = route.resource.iter().flat_map(|resource| resource.uri.arguments());
            names.any(|name| has_completion(name) || !route.input.listed(name).is_empty())
        };
        arguments.any(|argument| argument.completion.is_some())
            || self.table.in_order().iter().any(in_uri)
            || self.proxied.all().any(|entry| entry.completes)
    }

    async fn request_values(
        &self,
        completion: &RouteCompletion,
        arguments: Arguments,
        call: &Call<'_>,
    ) -> Result<Vec<String>, String> {
        let result = self.call_on_behalf(&completion.call, &arguments, call).await?;
        if result.is_error() {
            return Err(result.message());
        }
        let route = self.table.by_name(completion.call.route.as_str());
        let max_values = route.map_or(1, |route| route.translator.limits.values);
        if let Some(structured) = &result.structured {
            structured.json.check_value_count(max_values).map_err(|error| error.to_string())?;
        }
        let Some(filter) = completion.values.clone() else { return values_of(structured_or_lines(&result)) };
        let work = move |work_budget: &WorkBudget| {
            let (args, headers) = (&Value::Object(arguments.values.clone()), &Value::Object(Map::new()));
            let (input_responses, captures, work_budget) = (&Value::Null, &[], Some(work_budget));
            let variables = JqVariables {
                args,
                input_responses,
                status: 200,
                exit: None,
                headers,
                captures,
                max_values,
                work_budget,
            };
            filter
                .apply(&structured_or_lines(&result), variables)
                .map_err(|error| format!("`values` {error}"))
        };
        let deadline = Instant::now() + FILTER_TIMEOUT;
        let filtered = self.workers.run(&completion.call.route, deadline, work).await;
        values_of(filtered.map_err(|error| match error {
            WorkError::Panicked => "the filter panicked".to_owned(),
            WorkError::DeadlineExceeded => format!("the filter took longer than {FILTER_TIMEOUT:?}"),
        })??)
    }
}

/// Structured content of a result, or the lines of its text if the structured content is a string or missing.
fn structured_or_lines(result: &ToolResult) -> Value {
    match result.structured.as_ref().map(|structured| structured.json.parse()) {
        Some(Value::String(_)) | None => {
            let structured = result.structured.as_ref();
            let texts = result.content.iter().filter_map(|content| content.block.text(structured));
            texts
                .flat_map(|text| text.lines().map(|line| Value::from(line.trim())).collect::<Vec<_>>())
                .collect()
        }
        Some(value) => value,
    }
}

/// Converts an array to strings. Nulls, arrays and objects in it are skipped.
fn values_of(value: Value) -> Result<Vec<String>, String> {
    let items = match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => return Err(format!("expected a list of values, found {}", kind_of(&other))),
    };
    Ok(items.iter().filter_map(scalar_text).collect())
}
