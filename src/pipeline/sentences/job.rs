//! What a model is told of a job that did not come to its end here.

use std::time::Duration;

use super::{fault_of, units::time};
use crate::{
    model::{Fault, ToolResult},
    upstream::UpstreamError,
};

/// Of a job that is still running at the deadline.
pub(in crate::pipeline) fn job_not_done(after: Duration, ended: bool) -> ToolResult {
    let then = if ended {
        "It was told to stop; it may have taken effect in part."
    } else {
        "It may still finish: check before repeating it."
    };
    let text = format!("The service has begun the work, and was not done within {}. {then}", time(after));
    ToolResult::error(Fault::Deadline, text)
}

/// Of a job that can't be asked about any more.
pub(in crate::pipeline) fn job_lost(error: &UpstreamError) -> ToolResult {
    let fault = match fault_of(error) {
        // No request that asks about a job is made of arguments.
        Fault::Arguments => Fault::Unreachable,
        fault => fault,
    };
    ToolResult::error(fault, JOB_LOST)
}

/// The words of that.
pub(in crate::pipeline) const JOB_LOST: &str = "The service has begun the work, but could not be asked how it went. It may still finish: check before \
     repeating it.";

/// Of a job that was ended by somebody else.
pub(in crate::pipeline) const JOB_CANCELLED: &str =
    "The service began the work, and it was ended before it was done.";

/// Of a job that is asked about at another server.
pub(in crate::pipeline) const JOB_ELSEWHERE: &str = "The service has begun the work, and said that another server knows how it goes, which is \
     not asked. It may still finish: check before repeating it.";

/// Of a job whose name can't be put into a request.
pub(in crate::pipeline) fn job_unnamed(why: &str) -> String {
    format!("The service has begun the work, but it can't be asked how it goes: {why}.")
}

/// Of a job that failed, in the words that the route finds for it.
pub(in crate::pipeline) fn job_failed(message: Option<&str>) -> ToolResult {
    let text = match message {
        Some(message) => format!("The service began the work, and it failed: {message}"),
        None => "The service began the work, and it failed.".to_owned(),
    };
    ToolResult::error(Fault::Reported { status: None }, text)
}
