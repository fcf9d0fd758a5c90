//! What other replicas say, through the store that they share.

use tokio::{sync::broadcast::error::RecvError, task::JoinHandle};

use crate::{
    face::mcp::Mcp,
    gateway::Gateway,
    shared::{Heard, Message, SharedStore},
};

/// Somebody listens to the other replicas, until this is dropped.
#[derive(Debug)]
pub(super) struct Hearing(JoinHandle<()>);

impl Hearing {
    /// Begins to listen, and tells whom it concerns.
    pub(super) fn begin(shared: &SharedStore, gateway: Gateway, mcp: Mcp) -> Self {
        let mut heard = shared.listen();
        Self(tokio::spawn(async move {
            loop {
                match heard.recv().await {
                    Ok(Heard::Message(Message::Changed { uri, fingerprint })) => {
                        gateway.hear_of_change(&uri, fingerprint);
                    }
                    Ok(Heard::Message(Message::Subscribed { session })) => {
                        mcp.hear_subscribed(&session).await
                    }
                    Ok(Heard::Message(Message::Ended { session })) => mcp.hear_ended(&session),
                    // Changes are seen here as well, only later; what sessions want is read again.
                    Ok(Heard::Back) | Err(RecvError::Lagged(_)) => mcp.catch_up().await,
                    Err(RecvError::Closed) => return,
                }
            }
        }))
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.0.abort();
    }
}
