//! What the MCP face runs with.

use std::time::Duration;

use crate::tls::ClientTls;

use super::{PeerAddress, ResumeSettings};
use crate::crypto::Secret;

/// Settings of the MCP face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// What clients are told they talk to.
    pub server_name: String,
    /// The same for people.
    pub server_title: Option<String>,
    /// The version beside the name.
    pub server_version: String,
    /// What a model should know of the tools as a whole.
    pub instructions: Option<String>,
    /// How many tools one page of `tools/list` holds, at least 1. Some clients never ask for a second page.
    pub page_size: usize,
    /// How long clients may keep the tool list (`ttlMs`, revision 2026-07-28).
    pub list_ttl: Duration,
    /// What tokens are sealed with: the same on every replica. Without one, only this process knows its own.
    pub secret: Option<Secret>,
    /// Where other replicas reach this one, to hand on answers to its questions.
    pub peer: Option<PeerAddress>,
    /// How replicas know one another, where they are reached through TLS.
    pub peer_tls: Option<ClientTls>,
    /// How many streams may be open on which clients wait for changes.
    pub stream_limit: usize,
    /// How many of these one caller may have, where that is said.
    pub caller_stream_limit: Option<usize>,
    /// How patiently the streams of calls wait for clients that have lost their connection.
    pub resume: ResumeSettings,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            server_name: "glossator".to_owned(),
            server_title: None,
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            page_size: 200,
            list_ttl: Duration::from_secs(60),
            secret: None,
            peer: None,
            peer_tls: None,
            // Each holds a connection; half of them are left for calls.
            stream_limit: 2048,
            caller_stream_limit: None,
            resume: ResumeSettings::default(),
        }
    }
}
