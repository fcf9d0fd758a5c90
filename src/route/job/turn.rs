//! What replies say of a job.

use std::time::Duration;

use super::JobPlace;

/// What a first reply says.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// It is the answer.
    Answer,
    /// A job has begun.
    Job {
        /// Where it is asked about.
        place: JobPlace,
        /// How long the upstream wants to be left alone.
        wait: Duration,
    },
    /// A job has begun that can only be asked about at another server, which is not done.
    Elsewhere,
}

/// What a later reply says.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The job goes on.
    Running {
        /// How it stands.
        stand: Stand,
        /// Where to ask next.
        place: JobPlace,
        /// After how long.
        wait: Duration,
    },
    /// The job is done, and this reply is its result, or the one that [`JobRule::result`](super::JobRule::result) asks for.
    Done,
    /// The result is at another place of the same server.
    Moved(JobPlace),
    /// This reply tells that the job failed.
    Failed(Stand),
    /// This reply tells that the job was ended before it was done.
    Cancelled,
    /// The reply is no word about the job: the upstream failed, or points to another server.
    Answer,
}

/// How a job stands, as far as the upstream tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stand {
    /// How far it is.
    pub progress: Option<f64>,
    /// Of how much.
    pub total: Option<f64>,
    /// What it is doing: for clients, shortened, and without what they must not see.
    pub message: Option<String>,
}

impl Stand {
    /// The same for people.
    pub fn in_words(&self) -> Option<String> {
        let far = match (self.progress, self.total) {
            (Some(progress), Some(total)) => Some(format!("{progress} of {total}")),
            (Some(progress), None) => Some(progress.to_string()),
            (None, _) => None,
        };
        match (&self.message, far) {
            (Some(message), Some(far)) => Some(format!("{message} ({far})")),
            (Some(message), None) => Some(message.clone()),
            (None, far) => far,
        }
    }
}
