//! What is heard of a request before its reply is whole.

use tokio::sync::mpsc;

/// How much may wait to be heard; what comes then is lost, as something newer follows.
const UNHEARD_LIMIT: usize = 32;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Happened {
    /// So much of the body has come.
    Received {
        /// Bytes until now.
        bytes: u64,
        /// How many there will be, when the upstream said it.
        of: Option<u64>,
    },
    /// The request is sent once more; this is the attempt, from 2.
    Again {
        /// Which attempt.
        attempt: u32,
    },
    /// The upstream says how far it is.
    Progress {
        /// So far.
        done: f64,
        /// Of how much, where it says so.
        total: Option<f64>,
    },
}

/// Takes what happens. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Meanwhile(mpsc::Sender<Happened>);

/// Hears what happens.
pub type Hearing = mpsc::Receiver<Happened>;

impl Meanwhile {
    /// Both ends.
    pub fn new() -> (Self, Hearing) {
        let (sender, hearing) = mpsc::channel(UNHEARD_LIMIT);
        (Self(sender), hearing)
    }

    /// Says that something happened.
    pub fn tell(&self, happened: Happened) {
        let _ = self.0.try_send(happened);
    }
}
