//! The ways in: each turns its own wire into a call and the tool result into its own answer.
//!
//! [`door`] holds what all HTTP faces ask before they listen; [`mcp`] speaks the Model Context
//! Protocol.

pub mod door;
pub mod mcp;
