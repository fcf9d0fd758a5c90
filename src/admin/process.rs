//! What operators may ask of the running process, and what it tells them of itself.

use std::{sync::Arc, time::SystemTime};

use tokio::sync::{mpsc, oneshot, watch};

use super::Workbench;

/// How many may wait for a reload; they all get the next one's outcome.
const WAITING_LIMIT: usize = 16;

/// How the process stands.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Whether it is about to end.
    pub is_ending: bool,
    /// How many configurations have been in force, the present one included.
    pub generation: u64,
    /// Since when the present one is.
    pub since: SystemTime,
    /// What was wrong with the last one that was read after it; nothing where that is in force.
    pub failure: Option<ReloadFailure>,
    /// How many were read and not put in force.
    pub failures: u64,
    /// What is written in the present one, and where rules are tried out beside it.
    pub workbench: Arc<dyn Workbench>,
    /// Settings of the present one that hold only from the next start.
    pub later: Vec<&'static str>,
}

/// A configuration that was not put in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadFailure {
    /// When it was read.
    pub at: SystemTime,
    /// What is wrong with it, as `check` tells it.
    pub report: String,
}

/// The operators' way to the process. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Operations {
    started: SystemTime,
    standing: watch::Receiver<Standing>,
    reloads: mpsc::Sender<oneshot::Sender<Standing>>,
}

/// The other end of what is told: whoever knows how the process stands. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Teller(Arc<watch::Sender<Standing>>);

/// The other end of what is asked for.
#[derive(Debug)]
pub struct Asked(mpsc::Receiver<oneshot::Sender<Standing>>);

/// A process that runs with its first configuration from now on, and the way to it.
pub fn operations(workbench: Arc<dyn Workbench>) -> (Operations, Teller, Asked) {
    let standing = Standing {
        is_ending: false,
        generation: 1,
        since: SystemTime::now(),
        failure: None,
        failures: 0,
        workbench,
        later: Vec::new(),
    };
    let (standing, told) = watch::channel(standing);
    let (ask, reloads) = mpsc::channel(WAITING_LIMIT);
    (
        Operations { started: SystemTime::now(), standing: told, reloads: ask },
        Teller(Arc::new(standing)),
        Asked(reloads),
    )
}

impl Operations {
    /// Since when the process runs.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// How the process stands.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Has the configuration read again, and tells how the process stands then. `None` where it can't be: too many ask,
    /// or the process is not one that reads it again.
    pub async fn reload(&self) -> Option<Standing> {
        let (answer, answered) = oneshot::channel();
        self.reloads.try_send(answer).ok()?;
        answered.await.ok()
    }
}

impl Asked {
    /// Waits until somebody asks for a reload, and gives everybody who does.
    pub async fn next(&mut self) -> Vec<oneshot::Sender<Standing>> {
        let Some(first) = self.0.recv().await else { return std::future::pending().await };
        let mut all = vec![first];
        while let Ok(another) = self.0.try_recv() {
            all.push(another);
        }
        all
    }
}

impl Teller {
    /// Says how the process stands from now on.
    pub fn change(&self, change: impl FnOnce(&mut Standing)) -> Standing {
        self.0.send_modify(change);
        self.0.borrow().clone()
    }
}
