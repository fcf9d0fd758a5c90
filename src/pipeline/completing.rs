//! What an argument may be, for somebody who has typed a part of it.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{BoundRoute, CallOf, Snapshot, worker_pool::WorkError};
use crate::{
    model::{Arguments, ToolResult},
    route::{AskedCompletion, Completion, Route, Suggestions, lines_of},
    telemetry::Foreign,
    translate::{Jq, JqNames, Stop},
};

/// How long the filter of a completion may take, beside the call.
const FILTER_DEADLINE: Duration = Duration::from_secs(5);

/// What somebody has typed.
#[derive(Debug)]
pub struct Typed<'a> {
    /// The argument that is typed.
    pub argument: &'a str,
    /// What of it.
    pub value: &'a str,
    /// The arguments that are there already, in texts.
    pub others: Map<String, Value>,
}

impl Snapshot {
    /// The values of an argument. Where a route gives them and fails there are none, and the log says why: a person who
    /// types is not helped by an error.
    pub async fn complete(
        &self,
        completion: &Completion,
        typed: Typed<'_>,
        call: CallOf<'_, '_>,
    ) -> Suggestions {
        match completion {
            Completion::Listed(values) => Suggestions::of(values.clone(), typed.value, false),
            Completion::Asked(asked) => {
                let Typed { argument, value, mut others } = typed;
                others.insert(argument.to_owned(), value.into());
                match self.ask_for_values(asked, others.into(), call).await {
                    Ok(values) => Suggestions::of(values, value, asked.chosen),
                    Err(reason) => {
                        let route = &asked.call.route;
                        // It may quote what was typed, or the upstream.
                        warn!(argument, %route, "no values for a completion");
                        debug!(argument, %route, reason = %Foreign(&reason), "no values for a completion");
                        Suggestions::default()
                    }
                }
            }
        }
    }

    /// The route of the configuration whose resource has this template, or of whose a URI is.
    pub fn own_template(&self, uri: &str) -> Option<&Arc<BoundRoute>> {
        let is_template = |route: &&Arc<BoundRoute>| {
            route.resource.as_ref().is_some_and(|resource| resource.uri.as_str() == uri)
        };
        let template = self.table.in_order().iter().find(is_template);
        template.or_else(|| self.table.by_uri(uri).map(|(route, _)| route))
    }

    /// The same of an argument that stands in the URI of a resource; `None` where its template has no such argument.
    pub async fn complete_uri(
        &self,
        route: &Route,
        typed: Typed<'_>,
        call: CallOf<'_, '_>,
    ) -> Option<Suggestions> {
        let name = typed.argument;
        route.resource.as_ref()?.uri.arguments().find(|known| *known == name)?;
        Some(match route.completions.iter().find(|(known, _)| known == name) {
            Some((_, completion)) => self.complete(completion, typed, call).await,
            None => Suggestions::of(route.input.listed(name), typed.value, false),
        })
    }

    /// Whether there is an argument for which values are known.
    pub fn completes(&self) -> bool {
        *self.completes.get_or_init(|| self.knows_values())
    }

    fn knows_values(&self) -> bool {
        let mut arguments = self.prompts.in_order().iter().flat_map(|prompt| &prompt.arguments);
        let in_uri = |route: &Route| {
            let is_known = |name: &str| route.completions.iter().any(|(known, _)| known == name);
            let mut names = route.resource.iter().flat_map(|resource| resource.uri.arguments());
            names.any(|name| is_known(name) || !route.input.listed(name).is_empty())
        };
        arguments.any(|argument| argument.completion.is_some())
            || self.table.in_order().iter().any(|route| in_uri(route))
            || self.proxied.all().any(|entry| entry.completes)
    }

    async fn ask_for_values(
        &self,
        asked: &AskedCompletion,
        arguments: Arguments,
        call: CallOf<'_, '_>,
    ) -> Result<Vec<String>, String> {
        let result = self.call_on_behalf(&asked.call, &arguments, call).await?;
        if result.is_error() {
            let texts = result.content.iter().filter_map(|content| content.block.text(None));
            return Err(texts.collect::<Vec<_>>().join(" "));
        }
        let route = self.table.by_name(asked.call.route.as_str());
        let most_values = route.map_or(1, |route| route.translator.limits.values);
        if let Some(structured) = &result.structured {
            structured.json().has_at_most(most_values).map_err(|error| error.to_string())?;
        }
        match &asked.values {
            None => values_of(found(&result)),
            Some(filter) => {
                let filter = Arc::clone(filter);
                let due = Instant::now() + FILTER_DEADLINE;
                let work = move |stop: &Stop| filtered(&filter, &result, &arguments, most_values, stop);
                values_of(self.workers.run(&asked.call.route, due, work).await.map_err(
                    |error| match error {
                        WorkError::Panicked => "the filter panicked".to_owned(),
                        WorkError::DeadlineExceeded => {
                            format!("the filter took longer than {FILTER_DEADLINE:?}")
                        }
                    },
                )??)
            }
        }
    }
}

/// What a result says: its structure, or the lines of its text.
fn found(result: &ToolResult) -> Value {
    match result.structured.as_ref().map(|structured| structured.json().parse()) {
        Some(Value::String(_)) | None => lines_of(result).into(),
        Some(value) => value,
    }
}

fn filtered(
    filter: &Jq,
    result: &ToolResult,
    arguments: &Arguments,
    most_values: usize,
    stop: &Stop,
) -> Result<Value, String> {
    let args = Value::Object(arguments.as_map().clone());
    let headers = Value::Object(Map::new());
    let names = JqNames {
        args: &args,
        answers: &Value::Null,
        status: 200,
        exit: None,
        headers: &headers,
        captures: &[],
        most_values,
        stop: Some(stop),
    };
    filter.apply(&found(result), names).map_err(|error| format!("`values` {error}"))
}

/// The texts of a list; what is no scalar in it has none.
fn values_of(value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) => Ok(items
            .into_iter()
            .filter_map(|item| match item {
                Value::String(text) => Some(text),
                Value::Number(_) | Value::Bool(_) => Some(item.to_string()),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            })
            .collect()),
        Value::Null => Ok(Vec::new()),
        other => Err(format!("expected a list of values, found {}", crate::model::kind_of(&other))),
    }
}
