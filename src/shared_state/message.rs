//! What one replica tells the others.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Something that every replica should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A watched resource is another one: its URI, and what tells these contents from others.
    Changed {
        /// The resource.
        uri: Arc<str>,
        /// Of its contents, as the replica that looked at it sees them.
        fingerprint: u64,
    },
    /// A session of MCP wants to hear of other resources than before.
    Subscribed {
        /// Its id.
        session: Box<str>,
    },
    /// A session of MCP wants to be told log lines of other levels than before.
    Level {
        /// Its id.
        session: Box<str>,
        /// The least of them, by its name.
        level: Box<str>,
    },
    /// A session of MCP was ended by its client.
    Ended {
        /// Its id.
        session: Box<str>,
    },
}

/// What a replica hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// This.
    Message(Message),
    /// The store can be reached again: whatever was told meanwhile is lost.
    Back,
}
