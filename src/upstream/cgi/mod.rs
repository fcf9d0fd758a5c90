//! CGI programs (RFC 3875): a program that is started for each request, and takes it for HTTP.
//!
//! In reading order: `variables` say what is asked, `answer` reads what comes of it.

mod answer;
mod variables;

use std::sync::Arc;

use http::Method;

use super::{
    Ask, UpstreamError,
    error::Withheld,
    http::{HEAD_LIMIT_BYTES, HEADER_COUNT_LIMIT},
    program::{Finished, Program, Run, run},
};
use crate::{
    model::{Exit, Reply},
    route::{UpstreamName, UpstreamRequest},
};

use answer::AnswerError;

/// One CGI program, and how it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgiSettings {
    /// What routes call it.
    pub name: UpstreamName,
    /// What is started. Variables that it has are not written over.
    pub program: Program,
}

/// A CGI program. It is started anew for every [`Ask`]; dropping the future ends it, with all that it started.
#[derive(Debug, Clone)]
pub struct CgiUpstream {
    settings: Arc<CgiSettings>,
}

impl CgiUpstream {
    /// Nothing is started yet.
    pub fn new(settings: CgiSettings) -> Self {
        Self { settings: Arc::new(settings) }
    }

    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        &self.settings.name
    }

    pub(super) async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let upstream = || self.name().clone();
        let UpstreamRequest::Http(request) = &ask.request else {
            let source = "it takes HTTP, and was asked otherwise".into();
            return Err(UpstreamError::Unsendable { upstream: upstream(), source });
        };
        let variables = variables::of(request, &self.settings.program)
            .map_err(|error| UpstreamError::Unsendable { upstream: upstream(), source: error.into() })?;
        let limit_bytes = ask.reply_limit_bytes;
        let running = run(
            &self.settings.program,
            Run {
                words: &[],
                variables: &variables,
                input: &request.body,
                limit_bytes: limit_bytes.saturating_add(HEAD_LIMIT_BYTES),
                ask,
            },
        );
        let Finished { output, exit } = running.await.map_err(|error| error.of(upstream(), limit_bytes))?;
        let mut reply = answer::read(&output, &exit).map_err(|error| match error {
            AnswerError::HeadTooLong => UpstreamError::HeadTooLong {
                upstream: upstream(),
                limit_bytes: HEAD_LIMIT_BYTES,
                limit_count: HEADER_COUNT_LIMIT,
            },
            other => UpstreamError::NotCgi { upstream: upstream(), source: withheld(&other, &exit).into() },
        })?;
        if request.method == Method::HEAD {
            reply.body.clear();
        }
        if reply.body.len() > limit_bytes {
            return Err(UpstreamError::TooLong { upstream: upstream(), limit_bytes });
        }
        reply.beside = Some(Box::new(exit));
        Ok(reply)
    }
}

/// Why there is no answer, in the words of the program too, where it has some; everybody else learns how many.
fn withheld(error: &AnswerError, exit: &Exit) -> Withheld {
    match exit.stderr_text().trim_end() {
        "" => Withheld::new(error.plain(), error.to_string()),
        stderr => Withheld::new(
            format!("{}; {} bytes on standard error", error.plain(), stderr.len()),
            format!("on standard error: {stderr}; {error}"),
        ),
    }
}
