//! The ways in: each turns its own wire into a call and the tool result into its own answer.
//!
//! [`door`] holds what all HTTP faces ask before they listen; [`mcp`] speaks the Model Context Protocol, [`rest`]
//! plain HTTP.

pub mod door;
pub mod mcp;
pub mod rest;

use std::net::SocketAddr;

/// The paths of the MCP endpoint.
pub const MCP_PATHS: [&str; 2] = ["/mcp", "/message"];

/// Who is at the other end of the connection; [`serve`](crate) puts it into a request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);
