//! What other replicas say, through the store that they share.

use tokio::{sync::broadcast::error::RecvError, task::JoinHandle};

use crate::{
    inbound::mcp::Mcp,
    pipeline::Gateway,
    shared_state::{Heard, Message, SharedStore},
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
                    Ok(Heard::Message(Message::Level { session, level })) => mcp.hear_level(&session, &level),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{self, Sources},
        inbound::{filter::Filter, mcp::McpSettings},
        pipeline::{Change, Heard as HeardChange},
        server,
        shared_state::Memory,
    };

    /// One of several replicas; nobody is there to be asked, which nobody hears of.
    fn replica(memory: &Memory) -> (Gateway, SharedStore, Hearing) {
        let text = "upstreams: { none: http://127.0.0.1:1 }
routes:
  each: { description: x, request: \"GET none/{x}\", resource: { uri: \"t://{x}\", watch: 1d } }
";
        let loaded = config::load(&Sources::of_text("config.yaml", text)).unwrap();
        let shared = SharedStore::in_memory(memory);
        let gateway = server::assemble(&loaded).unwrap().gateway.sharing(Some(shared.clone()));
        let mcp = Mcp::new(gateway.clone(), McpSettings::default(), Filter::new(&loaded.door));
        let hearing = Hearing::begin(&shared, gateway.clone(), mcp);
        (gateway, shared, hearing)
    }

    #[tokio::test]
    async fn what_one_replica_sees_change_clients_of_another_hear_of_once() {
        let memory = Memory::default();
        let ((_, shared, _own), (gateway, _, _hearing)) = (replica(&memory), replica(&memory));
        let watching = gateway.watch("t://a").unwrap();
        let mut listener = gateway.changes().listen();
        let changed = |uri: &str, fingerprint| Message::Changed { uri: uri.into(), fingerprint };
        for message in [changed("t://b", 1), changed("t://a", 1), changed("t://a", 1), changed("t://a", 2)] {
            shared.tell(&message);
        }
        let told = HeardChange::Change(Change::Resource(watching.uri().clone()));
        assert_eq!(listener.next().await, Some(told.clone()));
        assert_eq!(listener.next().await, Some(told));
        gateway.changes().tell(Change::Tools);
        assert_eq!(listener.next().await, Some(HeardChange::Change(Change::Tools)), "and no more than that");
    }
}
