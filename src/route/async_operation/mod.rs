//! Asynchronous operations of an upstream: interprets each response and builds the next request.
//!
//! Two forms are supported:
//!
//! - The first response is `202 Accepted`, with a status URL in `Location` (RFC 9110, section 15.3.3). The
//!   status URL returns 202 until the operation is done, unless the rule has a condition for success.
//! - The first response has the id of the operation, and a separate request polls the status.
//!
//! This module sends no requests and does not wait: the pipeline does.
//!
//! - [`AsyncOperationRule`] describes the requests and the meaning of their responses.
//! - [`OperationLocation`] is the status URL or the id of one operation.
//! - [`InitialResponse`], [`StatusResponse`] and [`OperationStatus`] are the possible meanings of a response.

#[cfg(test)]
mod tests;

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri, header, uri::PathAndQuery};
use serde_json::Value;
use settings_derive::{EnumSetting, Section};

use super::{HttpRequest, HttpTemplate, PathBase, RequestError, resolve_location, scalar_text};
use crate::model::{Arguments, UpstreamResponse};
use crate::settings::{Checked, Code, Entry, OpenSection};
use crate::translate::extract::Extract;
use crate::translate::{CallInput, Inspection, Jq, Matcher, Redaction, Translator, WorkBudget, inspect};

/// Rules for polling the asynchronous operations of a route.
#[derive(Debug)]
pub struct AsyncOperationRule {
    /// Source of the status URL or the operation id.
    pub location: OperationLocationRule,
    /// Extractor of the value that the conditions and filters examine, in the first and the status responses.
    pub extract: Option<Extract>,
    /// Condition for success. Without a condition, an operation succeeds once the status is not 202.
    pub done: Option<Matcher>,
    /// Condition for failure.
    pub failed: Option<Matcher>,
    /// Condition for cancellation.
    pub cancelled: Option<Matcher>,
    /// Request for the result. Without it, the last status response is the result.
    pub result: Option<HttpTemplate>,
    /// Request that cancels an operation, if its call times out, a poll fails, its client disconnects or its
    /// task is cancelled.
    pub cancel: Option<CancelRule>,
    /// Poll interval, if the upstream sends no `Retry-After`.
    pub poll_interval: Duration,
    /// jq filter that returns the progress.
    pub progress: Option<Jq>,
    /// jq filter that returns the total of the progress.
    pub total: Option<Jq>,
    /// jq filter that returns the progress message.
    pub message: Option<Jq>,
    /// Settings of the MCP tasks that replace slow results.
    pub task: TaskRule,
    /// Base for resolving a `Location`: the upstream's URL with a trailing `/`.
    pub base: Uri,
}

/// Settings of MCP tasks, which clients poll themselves, in place of slow results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default, check = Self::check)]
pub struct TaskRule {
    /// Whether a long operation becomes a task for MCP clients. `forbidden`: never. `optional`: for clients
    /// that support tasks; others wait. `required`: as `optional`, but clients of 2026-07-28 without tasks
    /// are rejected.
    #[key(name = "task", default = TaskSupport::Optional)]
    pub support: TaskSupport,
    /// How long a call waits for the result of the operation before the client gets a task.
    #[key(name = "task_after", range = 0..=3_600_000, default = Duration::from_secs(2))]
    pub after: Duration,
    /// How long a client can poll the task.
    #[key(name = "task_ttl", range = 1_000..=7 * 24 * 3_600_000, default = Duration::from_secs(60 * 60))]
    pub ttl: Duration,
    /// Whether a call with input requests becomes a task at once, so that the task sends them. Otherwise the
    /// call sends them and becomes a task afterwards.
    #[key(name = "task_requests_input", default = false)]
    pub requests_input: bool,
}

/// Which clients get tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum TaskSupport {
    /// None.
    Forbidden,
    /// Clients that support tasks. Others wait for the result.
    Optional,
    /// Clients that support tasks. Other MCP clients are rejected.
    Required,
}

impl TaskRule {
    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        section.check_valid(&["task"])?;
        let names = ["task_after", "task_ttl", "task_requests_input"];
        let (report, entries) = (section.value.context.report, names.map(|name| section.entry(name)));
        for Entry { key, .. } in entries.into_iter().flatten() {
            if self.support == TaskSupport::Forbidden {
                let message = format!("`{}` has no effect beside `task: forbidden`", key.text);
                report.warning(Code::ConflictingKeys.at_span(key.span), message, "remove it");
            }
        }
        Ok(self)
    }
}

/// Source of the status URL or the operation id.
#[derive(Debug)]
pub enum OperationLocationRule {
    /// The status URL is the `Location` of the first response.
    Location,
    /// The id is in the first response. The status request gets it as the argument `job`.
    Id {
        /// Filter that returns the id, a string or a number.
        id: Jq,
        /// Template of the status request.
        status: Box<HttpTemplate>,
    },
}

/// Request that cancels an operation.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each route with an asynchronous operation")]
pub enum CancelRule {
    /// Method, such as `DELETE`, on the status URL.
    Method(Method),
    /// A request with the id as the argument `job`.
    Request(HttpTemplate),
}

/// Purpose of a request about an operation.
#[derive(Debug, Clone, Copy)]
pub enum OperationRequest {
    /// Polls the status of the operation.
    Status,
    /// Fetches the result of the operation.
    Result,
    /// Cancels the operation.
    Cancellation,
}

impl AsyncOperationRule {
    /// Argument of the request templates that contains the id of the operation.
    pub const ARGUMENT: &'static str = "job";
    /// Default of [`poll_interval`](Self::poll_interval).
    pub const POLL_DEFAULT: Duration = Duration::from_secs(1);
    /// Maximum number of polls of one operation, regardless of the timeout of the call.
    pub const MAX_POLLS: u32 = 10_000;
    /// Maximum length of an operation id, in bytes.
    const MAX_ID_LENGTH: usize = 1024;
    /// Maximum length of a progress message, in bytes.
    const MAX_MESSAGE_LENGTH: usize = 300;

    /// Interprets the first response to a call. `request` is the request that was sent, `translator` the
    /// translator of the route.
    pub fn interpret_initial(
        &self,
        request: &HttpRequest,
        input: CallInput<'_>,
        translator: &Translator,
        response: &UpstreamResponse,
    ) -> InitialResponse {
        let wait = retry_after(response).unwrap_or(self.poll_interval);
        let operation = |location| {
            let status = OperationStatus::default();
            InitialResponse::Operation(RunningOperation { status, location, wait })
        };
        match &self.location {
            OperationLocationRule::Location => {
                // With a condition for success, any 2xx with a `Location` starts an operation.
                let starts_operation = response.status == StatusCode::ACCEPTED
                    || (self.done.is_some() && response.status.is_success());
                if !starts_operation || !response.headers.contains_key(header::LOCATION) {
                    return InitialResponse::Result;
                }
                self.resolve(request, response).map_or(InitialResponse::Elsewhere, operation)
            }
            OperationLocationRule::Id { id, .. } => {
                if !response.status.is_success() {
                    return InitialResponse::Result;
                }
                let limits = &translator.limits;
                let id = inspect(self.extract.as_ref(), input, limits, response, |inspection| {
                    inspection.value(id).and_then(|id| text_of(&id))
                });
                let id = id.filter(|id| (1..=Self::MAX_ID_LENGTH).contains(&id.len()));
                let location = id.map(OperationLocation::Id);
                location.map_or(InitialResponse::Result, operation)
            }
        }
    }

    /// Builds a request of this kind; the status request if the rule has no other request for the kind.
    /// `work_budget` limits the rendering.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the template cannot contain the id or an argument of the call, or if the operation
    /// was started under an earlier rule, which polled by id.
    pub fn request(
        &self,
        kind: OperationRequest,
        location: &OperationLocation,
        arguments: &Arguments,
        client: &HeaderMap,
        work_budget: Option<&WorkBudget>,
    ) -> Result<HttpRequest, RequestError> {
        let template = match (kind, &self.result, &self.cancel, location, &self.location) {
            (OperationRequest::Result, Some(template), ..)
            | (OperationRequest::Cancellation, _, Some(CancelRule::Request(template)), ..) => Some(template),
            (.., OperationLocation::Id(_), OperationLocationRule::Id { status, .. }) => Some(&**status),
            _ => None,
        };
        let mut request = match (template, location) {
            (Some(template), _) => template.build(&location.add_to(arguments), client, work_budget)?,
            (None, OperationLocation::Path(path)) => HttpRequest::get(PathBase::Origin, path.clone()),
            (None, OperationLocation::Id(_)) => {
                return Err(RequestError::new(
                    "the operation was started by an earlier version of this tool",
                ));
            }
        };
        if let (OperationRequest::Cancellation, Some(CancelRule::Method(method))) = (kind, &self.cancel) {
            request.method = method.clone();
        }
        Ok(request)
    }

    /// Interprets the response to the status request `request`.
    pub fn interpret_status(
        &self,
        location: &OperationLocation,
        request: &HttpRequest,
        input: CallInput<'_>,
        translator: &Translator,
        response: &UpstreamResponse,
    ) -> StatusResponse {
        let wait = retry_after(response);
        if response.status.is_redirection() && response.headers.contains_key(header::LOCATION) {
            return self.resolve(request, response).map_or(StatusResponse::Result, StatusResponse::Moved);
        }
        inspect(self.extract.as_ref(), input, &translator.limits, response, |inspection| {
            let is_true = |condition: &Option<Matcher>| {
                condition.as_ref().is_some_and(|matcher| inspection.is_true(matcher))
            };
            let status = || self.status(inspection, &translator.redaction);
            if is_true(&self.cancelled) {
                return StatusResponse::Cancelled;
            }
            if is_true(&self.failed) {
                return StatusResponse::Failed(status());
            }
            let is_success = response.status.is_success();
            let is_done = match &self.done {
                Some(condition) => inspection.is_true(condition),
                None => is_success && response.status != StatusCode::ACCEPTED,
            };
            if is_done {
                return StatusResponse::Done;
            }
            let is_busy =
                matches!(response.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
            // If an upstream sends `Retry-After` with a 429 or 503, it still knows the operation.
            if !is_success && (!is_busy || wait.is_none()) {
                return StatusResponse::Result;
            }
            let moved = match self.location {
                OperationLocationRule::Location if is_success => self.resolve(request, response),
                _ => None,
            };
            StatusResponse::Running(RunningOperation {
                status: if is_success { status() } else { OperationStatus::default() },
                location: moved.unwrap_or_else(|| location.clone()),
                wait: wait.unwrap_or(self.poll_interval),
            })
        })
    }

    fn status(&self, inspection: &Inspection<'_>, redaction: &Redaction) -> OperationStatus {
        let number = |filter: &Option<Jq>| {
            let value = inspection.value(filter.as_ref()?)?;
            let number = match &value {
                Value::String(text) => text.trim().trim_end_matches('%').trim_end().parse().ok(),
                value => value.as_f64(),
            };
            number.filter(|number: &f64| number.is_finite() && *number >= 0.0)
        };
        let message = self.message.as_ref().and_then(|filter| inspection.value(filter));
        let message = message.and_then(|value| text_of(&value)).filter(|text| !text.trim().is_empty());
        let message = message.map(|text| redaction.status_message(&text, Self::MAX_MESSAGE_LENGTH));
        OperationStatus { progress: number(&self.progress), total: number(&self.total), message }
    }

    /// Resolves the `Location` of the response to `request`; `None` if it is invalid or on another server.
    fn resolve(&self, request: &HttpRequest, response: &UpstreamResponse) -> Option<OperationLocation> {
        let base = match request.base {
            PathBase::UpstreamUrl => self.base.path().trim_end_matches('/'),
            PathBase::Origin | PathBase::UrlItself => "",
        };
        let (scheme, authority) = (self.base.scheme_str()?, self.base.authority()?);
        let request_uri = format!("{scheme}://{authority}{base}{}", request.path_and_query);
        let location = response.headers.get(header::LOCATION)?.to_str().ok()?;
        resolve_location(&request_uri, location).map(OperationLocation::Path)
    }
}

fn text_of(value: &Value) -> Option<String> {
    scalar_text(value).filter(|_| !value.is_boolean())
}

/// Value of `Retry-After` if it is in seconds. `None` for zero, so that the route's `poll_interval` applies.
fn retry_after(response: &UpstreamResponse) -> Option<Duration> {
    let seconds = response.retry_after_seconds().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds.into()))
}

/// Meaning of the first response.
#[derive(Debug, Clone, PartialEq)]
pub enum InitialResponse {
    /// The response is the result.
    Result,
    /// An operation has started.
    Operation(RunningOperation),
    /// An operation has started whose status URL is invalid or on another server. It is not polled.
    Elsewhere,
}

/// Meaning of a status response.
#[derive(Debug, Clone, PartialEq)]
pub enum StatusResponse {
    /// The operation is still running.
    Running(RunningOperation),
    /// The operation is done. The result is this response, or the response to [`AsyncOperationRule::result`].
    Done,
    /// Redirect to another URL of the same server, which returns the result, or 202 until it is available.
    Moved(OperationLocation),
    /// The operation failed.
    Failed(OperationStatus),
    /// The operation was cancelled.
    Cancelled,
    /// The response has no status of the operation: the upstream failed, or redirects to another server. The
    /// response is the result.
    Result,
}

/// State of a running operation until the next poll.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningOperation {
    /// Progress and message, for the client.
    pub status: OperationStatus,
    /// Status URL or id for the next poll.
    pub location: OperationLocation,
    /// Time until the next poll.
    pub wait: Duration,
}

/// Progress of an operation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OperationStatus {
    /// Progress so far.
    pub progress: Option<f64>,
    /// Progress at the end of the operation, in the same unit as `progress`.
    pub total: Option<f64>,
    /// Message for clients, truncated and redacted.
    pub message: Option<String>,
}

impl OperationStatus {
    /// Describes the progress for people, such as `printing (3 of 8)`.
    pub fn describe(&self) -> Option<String> {
        let total = self.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let progress = self.progress.map(|progress| format!("{progress}{total}"));
        match (self.message.clone(), progress) {
            (Some(message), Some(progress)) => Some(format!("{message} ({progress})")),
            (message, progress) => message.or(progress),
        }
    }
}

/// Status URL or id of an operation. `Display` encodes it for [`from_text`](Self::from_text).
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
pub enum OperationLocation {
    /// Path from the root of the upstream's host.
    Path(PathAndQuery),
    /// Operation id, the argument [`AsyncOperationRule::ARGUMENT`] of the request templates.
    #[display("={_0}")]
    Id(String),
}

impl OperationLocation {
    /// Maximum length of the encoded location that is sent to clients, in bytes.
    const SHORT_BYTES: usize = 2048;

    /// Whether the encoded location is short enough to be sent to clients.
    pub fn is_short(&self) -> bool {
        self.to_string().len() <= Self::SHORT_BYTES
    }

    /// Returns the arguments of a call, with the operation id added if the location has one.
    fn add_to(&self, arguments: &Arguments) -> Arguments {
        let mut arguments = arguments.clone();
        if let Self::Id(id) = self {
            arguments.values.insert(AsyncOperationRule::ARGUMENT.to_owned(), id.as_str().into());
        }
        arguments
    }

    /// Decodes a location that `Display` encoded; `None` if the string is invalid.
    pub fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix('=') {
            Some(id) => Some(Self::Id(id.to_owned())),
            None => text.parse().ok().map(Self::Path),
        }
    }
}
