//! Messages of tool errors for calls without a usable response: what failed, and what the model can do next.
//!
//! The messages never contain a name, address or path of the upstream. Only the message for a failed
//! operation quotes the upstream.

use std::time::Duration;

use super::RETRY_AFTER_META;
use super::worker_pool::WorkError;
use crate::model::{ErrorType, ToolResult};
use crate::route::ClientCapability;
use crate::upstream::{Failure, FailureStage, RETRY_WHEN_BUSY, RateLimitScope, UpstreamError, whole_seconds};

/// Message for a response that could not be translated at all.
pub(super) const UNREADABLE: &str =
    "The service responded, but its response could not be processed. Tell the operator of this tool.";

/// Message for a tool, prompt or resource that may exist once its server has listed it.
pub(super) const NOT_READY: &str = "Not ready: the service behind it has not started yet, or is \
                                    unavailable. No request was sent. Retry in a few seconds.";

/// End of the messages about a state that ends soon, such as a reached concurrency limit.
const RETRY_SOON: &str = "Retry in a few seconds.";

/// Tool error that ends a call early, boxed because it is rare.
pub(super) fn failure(error_type: ErrorType, message: impl Into<String>) -> Box<ToolResult> {
    Box::new(ToolResult::error(error_type, message))
}

/// Tool error for arguments whose validation, or whose conversion to a request, panicked or exceeded the
/// deadline.
pub(super) fn arguments_not_processed(error: WorkError) -> Box<ToolResult> {
    match error {
        WorkError::DeadlineExceeded => failure(
            ErrorType::Timeout,
            "Processing these arguments took too long, so no request was sent. Use fewer or shorter \
             arguments, or retry later.",
        ),
        WorkError::Panicked => failure(
            ErrorType::Arguments,
            "These arguments could not be processed, so no request was sent. Use other arguments.",
        ),
    }
}

/// Possible effect of a failed request, for a client that may repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PossibleEffect {
    /// The request is idempotent: repeating it has no further effect.
    Harmless,
    /// The request is not idempotent. It was sent, and may have taken effect.
    Possible,
    /// The request is not idempotent, but no upstream can have received it.
    Unsent,
}

/// Tool error for a tool that may exist once its server has listed its tools.
pub(super) fn not_ready() -> ToolResult {
    with_retry_after(ToolResult::error(ErrorType::Unavailable, NOT_READY), RETRY_WHEN_BUSY)
}

/// Tool error for an upstream error.
pub(super) fn error_result(error: &UpstreamError, effect: PossibleEffect) -> Box<ToolResult> {
    let was_sent = effect != PossibleEffect::Unsent;
    let effect = match effect {
        PossibleEffect::Harmless | PossibleEffect::Unsent => "",
        PossibleEffect::Possible => " The request may have taken effect: check before you retry.",
    };
    let effect_or = |otherwise: &'static str| if effect.is_empty() { otherwise } else { effect };
    let malformed = |problem: &str| {
        format!("{problem}. A retry is unlikely to help; tell the operator of this tool.{effect}")
    };
    let unsent = |problem: &str, advice: &str| format!("{problem}. No request was sent. {advice}");
    let retry = |after: &Duration| format!("Retry in {} s.", whole_seconds(*after));
    let message = match &error.failure {
        Failure::Connect(_) | Failure::ConnectTimeout(_) => {
            "The service behind this tool can't be reached. The arguments are not the cause. Retry later."
                .to_owned()
        }
        Failure::NotStarted(_) => "The program behind this tool could not be started. The arguments are not \
                                   the cause. Retry later, or tell the operator of this tool."
            .to_owned(),
        Failure::CutOff(_) => format!(
            "The service closed the connection before its response was complete.{}",
            effect_or(" Retry.")
        ),
        Failure::NotHttp(_) => malformed("The service sent a response that is not valid HTTP"),
        Failure::NotCgi(_) => {
            malformed("The program behind this tool wrote a response that is not valid CGI")
        }
        Failure::NotMcp(_) => malformed("The service sent a response that is not valid MCP"),
        Failure::HeadTooLong => {
            malformed("The service sent a response whose headers are too many or too long")
        }
        Failure::TooLong(limit_bytes) => format!(
            "The service's response is longer than the limit of {}. Request less: narrower arguments give \
             a shorter response.{effect}",
            format_size(*limit_bytes)
        ),
        Failure::Timeout(after) | Failure::AttemptTimeout(after) if !was_sent => format!(
            "No request was sent within {}: the call was still queued, or the service behind this tool was \
             not connected yet. {RETRY_SOON}",
            format_duration(*after)
        ),
        Failure::Timeout(after) | Failure::AttemptTimeout(after) => format!(
            "The service sent no complete response within {}.{}",
            format_duration(*after),
            effect_or(" Retry, or request less.")
        ),
        Failure::Busy(_) => unsent("The service is busy: its concurrency limit is reached", RETRY_SOON),
        Failure::ClientBusy(limit) => unsent(
            &format!(
                "Too many of your calls to the service behind this tool are in flight: the limit per client \
                 is {limit}"
            ),
            "Retry when one of your calls has ended.",
        ),
        Failure::CircuitOpen { of_route, retry_after } => {
            let subject = if *of_route { "This tool" } else { "The service behind this tool" };
            let problem = format!("{subject} is temporarily unavailable after repeated failures");
            unsent(&problem, &retry(retry_after))
        }
        Failure::Restarting(retry_after) => unsent(
            "The MCP server behind this tool is not running, and is being restarted",
            &retry(retry_after),
        ),
        Failure::Credential(source) => {
            let backoff = source.backoff().map(|backoff| format!("in {} s", whole_seconds(backoff)));
            let when = backoff.as_deref().unwrap_or("later");
            unsent(
                "The service behind this tool requires authentication, and no credential is available \
                 right now",
                &format!("Retry {when}; if that does not help, tell the operator of this tool."),
            )
        }
        Failure::RateLimited { scope, count, per, retry_after } => {
            let subject = match scope {
                RateLimitScope::ClientOfRoute | RateLimitScope::Route => "this tool",
                RateLimitScope::ClientOfUpstream | RateLimitScope::Upstream => "the service behind this tool",
            };
            let clients = if scope.is_per_client() { "each client" } else { "all clients together" };
            let per = format_duration(*per);
            let problem = format!("The rate limit of {subject} is exceeded: {count} in {per} for {clients}");
            unsent(&problem, &retry(retry_after))
        }
        Failure::RateLimitUnavailable => unsent("Rate limiting is temporarily unavailable", RETRY_SOON),
        Failure::BufferFull(_) => format!(
            "The service responded, but the buffer for long responses is full, so its response was \
             discarded. Retry in a few seconds, or request less.{effect}"
        ),
        Failure::SlowUpload(_) => "The body of the request arrived too slowly. Send it again.".to_owned(),
        Failure::Unsendable(_) => unsent(
            "These arguments can't form a valid request",
            "Use shorter values without control characters.",
        ),
    };
    let result = ToolResult::error(error_type_of(error), message);
    Box::new(match error.failure.properties().retry_after {
        Some(retry_after) => with_retry_after(result, retry_after),
        None => result,
    })
}

/// Error type of an upstream error.
pub(super) fn error_type_of(error: &UpstreamError) -> ErrorType {
    let properties = error.failure.properties();
    match &error.failure {
        Failure::RateLimited { .. } | Failure::ClientBusy(_) => ErrorType::RateLimited,
        _ if properties.retry_after.is_some() => ErrorType::Unavailable,
        Failure::ConnectTimeout(_) | Failure::Timeout(_) | Failure::AttemptTimeout(_) => ErrorType::Timeout,
        _ => match properties.stage {
            FailureStage::Unsendable => ErrorType::Arguments,
            FailureStage::Malformed | FailureStage::TooLong => ErrorType::UnparseableResponse,
            FailureStage::Rejected
            | FailureStage::NotReached
            | FailureStage::NoResponse
            | FailureStage::Unread => ErrorType::Unreachable,
        },
    }
}

/// Adds the seconds until a retry to the `_meta` of a temporary error.
fn with_retry_after(result: ToolResult, retry_after: Duration) -> ToolResult {
    result.with_meta(RETRY_AFTER_META, whole_seconds(retry_after))
}

/// Message for a client that lacks a capability for input requests.
pub(super) fn cannot_elicit(missing: &[ClientCapability]) -> String {
    let mut capabilities: Vec<&str> = missing.iter().map(|capability| capability_name(*capability)).collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    format!(
        "Nothing was done: this tool first requests input, and this client does not support that. Use an MCP \
         client that declares {}. No argument can replace this input.",
        capabilities.join(" and ")
    )
}

/// MCP capability of a client for input requests.
fn capability_name(capability: ClientCapability) -> &'static str {
    match capability {
        ClientCapability::Form => "`elicitation`",
        ClientCapability::FormWithMultiSelect => "`elicitation` in revision 2025-11-25 or later",
        ClientCapability::Url => "`elicitation.url`",
        ClientCapability::Sampling => "`sampling`",
        ClientCapability::Roots => "`roots`",
    }
}

/// Tool error for a response whose processing panicked or exceeded the deadline.
pub(super) fn not_processed(error: WorkError, deadline: Duration) -> Box<ToolResult> {
    let deadline = format_duration(deadline);
    match error {
        WorkError::Panicked => failure(ErrorType::UnparseableResponse, UNREADABLE),
        WorkError::DeadlineExceeded => failure(
            ErrorType::Timeout,
            format!(
                "The service responded, but its response could not be processed within {deadline}. Request \
                 less."
            ),
        ),
    }
}

/// Message for an operation that may finish after the call has ended.
pub(super) fn operation_lost(reason: &str) -> String {
    format!("The service started the operation, but {reason}. It may still finish: check before you retry.")
}

/// Reason in the message of [`operation_lost`] if a status request fails.
pub(super) const STATUS_UNREAD: &str = "its status could not be read";

/// Tool error for an operation that is still running at the timeout.
pub(super) fn operation_not_done(after: Duration, is_cancelled: bool) -> Box<ToolResult> {
    let after = format_duration(after);
    let message = match is_cancelled {
        true => format!(
            "The service started the operation, but did not finish it within {after}. Its \
             cancellation was requested; it may have taken effect in part."
        ),
        false => operation_lost(&format!("did not finish it within {after}")),
    };
    failure(ErrorType::Timeout, message)
}

/// Tool error for an operation that was cancelled before it finished.
pub(super) fn operation_cancelled() -> Box<ToolResult> {
    let message = "The service started the operation, but it was cancelled before it finished. It may have \
                   taken effect in part.";
    failure(ErrorType::ReportedError { status: None }, message)
}

/// Tool error for an operation that failed, with the message that the route extracts from its status.
pub(super) fn operation_failed(message: Option<&str>) -> Box<ToolResult> {
    let text = match message {
        Some(message) => format!("The service started the operation, and it failed: {message}"),
        None => "The service started the operation, and it failed.".to_owned(),
    };
    failure(ErrorType::ReportedError { status: None }, text)
}

/// Formats a duration for messages: `200 ms`, `1.5 s`.
fn format_duration(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
    }
}

/// Formats a size for messages: `512 bytes`, `10 MiB`.
fn format_size(bytes: usize) -> String {
    let is_multiple = |unit: usize| bytes >= unit && bytes.is_multiple_of(unit);
    if is_multiple(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else if is_multiple(1 << 10) {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        model::{BlockText, ContentBlock},
        upstream::http::CredentialError,
    };

    fn text_of(failure: &Failure, effect: PossibleEffect) -> String {
        let error = failure.clone().into_error(&"secret-name".parse().unwrap());
        match &error_result(&error, effect).content[0].block {
            ContentBlock::Text(BlockText::Plain(text)) => text.clone(),
            other => panic!("no plain text: {other:?}"),
        }
    }

    fn rate_limited(scope: RateLimitScope, count: u32) -> Failure {
        let (per, retry_after) = (Duration::from_secs(60), Duration::from_millis(7_001));
        Failure::RateLimited { scope, count, per, retry_after }
    }

    #[test]
    fn error_texts_name_limits_and_no_other_client() {
        let source = || "10.0.0.7:80 refused: password".into();
        let errors = [
            Failure::Connect(source()),
            Failure::CutOff(source()),
            Failure::NotHttp(source()),
            Failure::NotMcp(source()),
            Failure::HeadTooLong,
            Failure::TooLong(3 << 20),
            Failure::Timeout(Duration::from_millis(1500)),
            Failure::Busy(3),
            Failure::AttemptTimeout(Duration::from_secs(7)),
            Failure::CircuitOpen { of_route: false, retry_after: Duration::from_millis(4200) },
            Failure::Unsendable(source()),
            Failure::Credential(Arc::new(CredentialError::File(
                "the file `/run/secrets/token` can't be read: 10.0.0.7".into(),
            ))),
            rate_limited(RateLimitScope::ClientOfRoute, 1),
            rate_limited(RateLimitScope::Upstream, 100),
            Failure::NotStarted(source()),
            Failure::NotCgi(source()),
            Failure::ClientBusy(3),
            Failure::BufferFull(1),
            Failure::Restarting(Duration::from_millis(1500)),
        ];
        let messages: Vec<String> =
            errors.iter().map(|error| text_of(error, PossibleEffect::Harmless)).collect();
        for (index, message) in messages.iter().enumerate() {
            assert!(!message.contains("secret") && !message.contains("10.0"), "{message}");
            assert!(!messages[..index].contains(message), "repeated sentence: {message}");
        }
        assert!(messages[9].contains("Retry in 5 s"), "{messages:?}");
        assert!(messages[12].contains("this tool is exceeded: 1 in 60 s for each client."), "{messages:?}");
        assert!(
            messages[13].contains("100 in 60 s for all clients together.") && messages[13].contains("in 8 s"),
            "{messages:?}"
        );
        assert!(messages[5].contains("3 MiB") && messages[6].contains("1.5 s"), "{messages:?}");
        let connect_timeout =
            text_of(&Failure::ConnectTimeout(Duration::from_secs(5)), PossibleEffect::Harmless);
        assert_eq!(connect_timeout, messages[0]);
    }

    #[test]
    fn an_unsafe_request_that_was_cut_off_is_not_to_be_repeated_blindly() {
        let error = Failure::CutOff("eof".into());
        assert!(text_of(&error, PossibleEffect::Possible).contains("may have taken effect"));
        assert!(text_of(&error, PossibleEffect::Harmless).contains("Retry"));
        let timeout = Failure::Timeout(Duration::from_secs(2));
        assert!(text_of(&timeout, PossibleEffect::Possible).contains("may have taken effect"));
        let unsent = text_of(&timeout, PossibleEffect::Unsent);
        assert!(unsent.contains("No request was sent") && !unsent.contains("effect"), "{unsent}");
    }
}
