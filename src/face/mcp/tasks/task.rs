//! What a task's id holds, and what every answer tells of it.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    crypto::Purpose,
    face::mcp::{client::Client, protocol::Protocol},
};

/// What a task's id holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) at: At,
    /// Whose it is, where clients are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// Milliseconds since 1970.
    created: i64,
    life: u64,
}

/// Where it is known how a task stands.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum At {
    /// At the upstream.
    Job { place: String, answers: Map<String, Value> },
    /// At a replica, under this name there.
    Replica { name: String, address: Option<String> },
}

impl Task {
    /// A task that begins now, and its id.
    pub(super) fn new(
        (protocol, client): (&Protocol, &Client<'_>),
        tool: &str,
        arguments: Map<String, Value>,
        at: At,
        life: Duration,
    ) -> (String, Self) {
        let now = SystemTime::now();
        let task = Self {
            tool: tool.to_owned(),
            arguments,
            at,
            owner: client.carrier.owner().map(str::to_owned),
            created: Timestamp::try_from(now).map_or(0, Timestamp::as_millisecond),
            life: milliseconds(life),
        };
        let content = serde_json::to_vec(&task).expect("its keys are strings");
        (protocol.seal.seal(Purpose::Task, &content, now + life), task)
    }

    /// What every answer tells of it.
    pub(super) fn told(&self, id: &str, status: &str, message: Option<&str>) -> Map<String, Value> {
        let created = Timestamp::from_millisecond(self.created).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut members = Map::new();
        members.insert("taskId".into(), id.into());
        members.insert("status".into(), status.into());
        if let Some(message) = message {
            members.insert("statusMessage".into(), message.into());
        }
        members.insert("createdAt".into(), format!("{created:.3}").into());
        // Nothing is kept, so what is known of it was found just now.
        members.insert("lastUpdatedAt".into(), format!("{:.3}", Timestamp::now()).into());
        members.insert("ttlMs".into(), self.life.into());
        members
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
