//! Commands: a program that is started for each call, with words of the call behind its own.

use std::sync::Arc;

use super::{
    Ask, UpstreamError,
    program::{Finished, Program, Run, RunError, run},
};
use crate::{
    model::Reply,
    route::{UpstreamName, UpstreamRequest},
};

/// One command, and how it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// What routes call it.
    pub name: UpstreamName,
    /// What is started.
    pub program: Program,
}

/// A command. It is started anew for every [`Ask`]; dropping the future ends it, with all that it started.
#[derive(Debug, Clone)]
pub struct CommandUpstream {
    settings: Arc<CommandSettings>,
}

impl CommandUpstream {
    /// Nothing is started yet.
    pub fn new(settings: CommandSettings) -> Self {
        Self { settings: Arc::new(settings) }
    }

    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        &self.settings.name
    }

    pub(super) async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let upstream = || self.name().clone();
        let UpstreamRequest::Command(request) = &ask.request else {
            let source = "it takes words, and was asked otherwise".into();
            return Err(UpstreamError::Unsendable { upstream: upstream(), source });
        };
        let running = run(
            &self.settings.program,
            Run {
                words: &request.words,
                variables: &[],
                input: &request.stdin,
                limit_bytes: ask.reply_limit_bytes,
                ask,
            },
        );
        match running.await {
            Ok(Finished { output, exit }) => Ok(Reply::of_program(output, exit)),
            Err(error) => Err(error.of(upstream(), ask.reply_limit_bytes)),
        }
    }
}

impl RunError {
    /// The same of an upstream.
    pub(super) fn of(self, upstream: UpstreamName, limit_bytes: usize) -> UpstreamError {
        match self {
            Self::NotStarted(source) => UpstreamError::NotStarted { upstream, source: source.into() },
            Self::TooLong => UpstreamError::TooLong { upstream, limit_bytes },
            Self::Full(full) => full.of(&upstream),
            Self::Broken(source) => UpstreamError::CutOff { upstream, source: source.into() },
        }
    }
}
