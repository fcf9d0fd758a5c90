//! What several replicas share, in one Redis or Valkey: how much of a limit is used, replies that are kept, and what
//! one of them tells the others.
//!
//! In reading order: [`StoreSettings`] says where the store is; [`SharedStore`] is the way to it, with few verbs;
//! `message` is what replicas tell one another. Below, a `backend` does an `operation`: `server` is the real one, of
//! which `link` keeps a connection as long as there can be one, `connection` carries many commands at once, and `resp`
//! is how they are written; `scripts` is what the server does in one step. Tests have one in `memory`.
//!
//! The store is never waited for longer than its timeout, and not at all while it is known to be gone: then everything
//! is [`Unreachable`] at once, and what that means is for whoever asked to say. What is written there is sealed, and
//! named by what tells nothing to those who have not the secret of the replicas.

mod address;
mod backend;
mod connection;
mod counts;
mod link;
#[cfg(test)]
mod memory;
mod message;
mod resp;
mod scripts;
mod server;
mod store;

pub use address::{StoreAddress, StoreAddressError};
pub use counts::StoreCounts;
pub use link::LinkState;
#[cfg(test)]
pub(crate) use memory::Memory;
pub use message::{Heard, Message};
pub use store::{KeptBytes, SharedStore, StoreSettings, Unreachable};

#[cfg(test)]
mod tests;
