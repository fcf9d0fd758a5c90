//! Everything that needs more than one room: a gateway, a socket, a second implementation.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail their test")]

mod mcp;
